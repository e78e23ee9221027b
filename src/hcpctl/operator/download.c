/* SPDX-License-Identifier: MIT */
/* download.c: a file that arrives in pieces, and gets its name only after its checksum was verified.
 * Owns the temporary file, and its removal when a signal ends the process. Never has more than one file at a
 * time. */
#include "hcpctl/operator/download.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/buf.h"
#include "hcpctl/common/ctl.h"

#define ASIDE "/.hcpctl-XXXXXX"

struct ctl_download {
	int fd;
	const char *path;
	char *aside; /* NULL: stdout */
	bool replaces;
	int64_t size;
	EVP_MD_CTX *hash;
};

static char *volatile on_its_way; /* read by the signal handler */

static void on_signal(int number)
{
	char *path = on_its_way;

	if (path)
		unlink(path);
	signal(number, SIG_DFL);
	raise(number);
}

static void say_failed(const char *path, const char *what)
{
	ctl_say("cannot %s %s: %s", what, path, strerror(errno));
}

/* Only a regular file is replaced: replacing /dev/null would make a regular file of it. */
static bool is_in_the_way(const char *path, bool replaces)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return false;
	if (S_ISDIR(st.st_mode))
		ctl_say("%s is a directory; name a file with -o", path);
	else if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		ctl_say("%s is no plain file; `-o - >%s` writes into it", path, path);
	else if (replaces)
		return false;
	else
		ctl_say("%s is there already; --force replaces it, -o names another", path);
	return true;
}

static int open_aside(struct ctl_download *s)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
	const char *slash = strrchr(s->path, '/');
	int dir = slash ? (int)(slash - s->path) : 1;
	struct buf b = {0};
	mode_t mask = umask(0);

	umask(mask);
	buf_addf(&b, "%.*s" ASIDE, dir, slash ? s->path : ".");
	s->aside = xstrdup(buf_text(&b));
	buf_fini(&b);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		signal(numbers[i], on_signal);
	s->fd = mkostemp(s->aside, O_CLOEXEC);
	if (s->fd < 0) {
		say_failed(s->path, "make a file beside");
		return -1;
	}
	on_its_way = s->aside;
	(void)!fchmod(s->fd, 0666 & ~mask);
	return 0;
}

struct ctl_download *ctl_download_begin(const char *path, bool replaces)
{
	struct ctl_download *s;

	if (strcmp(path, "-") != 0 && is_in_the_way(path, replaces))
		return NULL;
	s = xcalloc(1, sizeof *s);
	s->fd = STDOUT_FILENO;
	s->path = path;
	s->replaces = replaces;
	s->hash = EVP_MD_CTX_new();
	if (!s->hash || EVP_DigestInit_ex(s->hash, EVP_sha256(), NULL) != 1)
		abort();
	if (strcmp(path, "-") == 0 || open_aside(s) == 0)
		return s;
	ctl_download_drop(s);
	return NULL;
}

bool ctl_download_add(struct ctl_download *s, const void *data, size_t size)
{
	const char *at = data;

	EVP_DigestUpdate(s->hash, data, size);
	s->size += (int64_t)size;
	while (size > 0) {
		ssize_t n = write(s->fd, at, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			say_failed(s->aside ? s->path : "stdout", "write");
			return false;
		}
		at += n;
		size -= (size_t)n;
	}
	return true;
}

static bool is_right(struct ctl_download *s, int64_t size, const char *checksum)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	char text[8 + 2 * EVP_MAX_MD_SIZE] = "sha256:";
	unsigned n = 0;

	EVP_DigestFinal_ex(s->hash, digest, &n);
	for (unsigned i = 0; i < n; i++)
		snprintf(text + 7 + 2 * i, 3, "%02x", digest[i]);
	if (s->size == size && strcmp(text, checksum) == 0)
		return true;
	ctl_say("what came has %lld bytes and %s, and should have %lld and %s; it was replaced meanwhile "
		"(try again), or is damaged (hcpctl doctor looks at the disk)",
		(long long)s->size, text, (long long)size, checksum);
	return false;
}

/* Where the file system has no RENAME_NOREPLACE, link(2) is used: it never replaces a file either. */
static int give_name(struct ctl_download *s)
{
	if (s->replaces)
		return rename(s->aside, s->path);
	if (renameat2(AT_FDCWD, s->aside, AT_FDCWD, s->path, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	if (link(s->aside, s->path) < 0)
		return -1;
	return unlink(s->aside);
}

bool ctl_download_end(struct ctl_download *s, int64_t size, const char *checksum)
{
	bool done = is_right(s, size, checksum);

	if (done && s->aside) {
		done = fsync(s->fd) == 0 && give_name(s) == 0;
		if (done)
			on_its_way = NULL;
		else
			say_failed(s->path, "write");
	}
	ctl_download_drop(s);
	return done;
}

void ctl_download_drop(struct ctl_download *s)
{
	if (!s)
		return;
	if (on_its_way) {
		unlink(on_its_way);
		on_its_way = NULL;
	}
	if (s->aside && s->fd >= 0)
		close(s->fd);
	EVP_MD_CTX_free(s->hash);
	free(s->aside);
	free(s);
}
