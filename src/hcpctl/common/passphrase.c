/* SPDX-License-Identifier: MIT */
/* passphrase.c: the passphrase of the operator's key.
 * Owns the question on the terminal, with its echo off, and the file for scripts. Never keeps a passphrase,
 * and never takes one from the command line or the environment, which others can read. */
#include "hcpctl/common/passphrase.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/io.h"
#include "hcpctl/common/ctl.h"

enum { CTRL_C = 3, CTRL_D = 4, BACKSPACE = 8, CTRL_U = 21, CTRL_BACKSLASH = 28, RUBOUT = 127 };

/* ---- a file ---- */

static bool read_from_file(const char *path, char passphrase[HARP_PASSPHRASE_SIZE])
{
	struct buf text = {0};
	struct stat st;
	size_t size;
	bool is_good = false;

	if (io_read_file(path, 4096, &text, &st) < 0) {
		ctl_say("%s cannot be read: %s", path, strerror(errno));
	} else if (st.st_mode & 077) {
		ctl_say("%s may be read by others; chmod 600 it", path);
	} else {
		size = strcspn(buf_text(&text), "\r\n");
		is_good = size > 0 && size < HARP_PASSPHRASE_SIZE;
		if (is_good)
			snprintf(passphrase, HARP_PASSPHRASE_SIZE, "%.*s", (int)size, buf_text(&text));
		else
			ctl_say("the first line of %s is no passphrase: 1 to %d bytes", path,
				HARP_PASSPHRASE_SIZE - 1);
	}
	if (text.data)
		explicit_bzero(text.data, text.room);
	buf_fini(&text);
	return is_good;
}

/* ---- the terminal ---- */

/* Drops the last character, all bytes of it. */
static size_t rub_out(const char *text, size_t size)
{
	while (size > 0 && ((unsigned char)text[--size] & 0xc0) == 0x80)
		;
	return size;
}

/* One line. Signals of the keyboard are off, so that Ctrl-C does not leave the terminal mute: it comes as a
 * character, and cancels. */
static bool read_line(int fd, char *out, size_t room)
{
	size_t size = 0;
	unsigned char c;
	ssize_t got;

	for (;;) {
		while ((got = read(fd, &c, 1)) < 0 && errno == EINTR)
			;
		if (got != 1 || c == CTRL_C || c == CTRL_BACKSLASH || (c == CTRL_D && size == 0))
			return false;
		if (c == '\n' || c == '\r')
			break;
		if (c == RUBOUT || c == BACKSPACE)
			size = rub_out(out, size);
		else if (c == CTRL_U)
			size = 0;
		else if (size + 1 >= room)
			return false;
		else
			out[size++] = (char)c;
	}
	out[size] = '\0';
	return true;
}

static bool ask(const char *question, char passphrase[HARP_PASSPHRASE_SIZE])
{
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	struct termios before, mute;
	bool is_given;

	if (fd < 0 || tcgetattr(fd, &before) < 0) {
		ctl_say("there is no terminal to ask for the passphrase on; --passphrase-file names a file");
		if (fd >= 0)
			close(fd);
		return false;
	}
	fflush(stdout);
	mute = before;
	mute.c_lflag &= ~(tcflag_t)(ECHO | ICANON | ISIG);
	mute.c_cc[VMIN] = 1;
	mute.c_cc[VTIME] = 0;
	is_given = tcsetattr(fd, TCSAFLUSH, &mute) == 0 && dprintf(fd, "%s", question) > 0 &&
		read_line(fd, passphrase, HARP_PASSPHRASE_SIZE) && *passphrase;
	tcsetattr(fd, TCSAFLUSH, &before);
	dprintf(fd, "\n");
	close(fd);
	if (!is_given)
		ctl_say("no passphrase was given");
	return is_given;
}

bool ctl_passphrase_give(const void *ctx, char passphrase[HARP_PASSPHRASE_SIZE])
{
	return ctx ? read_from_file(ctx, passphrase) : ask("passphrase of your key: ", passphrase);
}

bool ctl_passphrase_choose(const char *file, char passphrase[HARP_PASSPHRASE_SIZE])
{
	char again[HARP_PASSPHRASE_SIZE] = "";
	bool is_good = file ? read_from_file(file, passphrase) :
			      ask("a passphrase for your key: ", passphrase) && ask("again: ", again);

	if (is_good && !file && strcmp(passphrase, again) != 0) {
		ctl_say("these are two different passphrases; no key was made");
		is_good = false;
	}
	if (is_good && strlen(passphrase) < CTL_PASSPHRASE_MIN) {
		ctl_say("a passphrase has at least %d characters; no key was made", CTL_PASSPHRASE_MIN);
		is_good = false;
	}
	explicit_bzero(again, sizeof again);
	return is_good;
}
