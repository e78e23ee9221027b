/* SPDX-License-Identifier: MIT */
/* terminal.c: the terminal.
 * Owns the bar's line, the second screen, and how the terminal is put back.
 * Never composes text (render.c, watch_table.c do); its input is escaped already. */
#include "hcpctl/common/terminal.h"

#include <ctype.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define OUT_SIZE 65536 /* a frame, or a group of messages, goes out in one write */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[H\033[2J"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

/* Global, because signal handlers need it. */
static volatile sig_atomic_t on_screen, was_stopped;
static struct termios before;         /* as the user had set it */
static volatile sig_atomic_t is_mute; /* keys are not shown */

void ctl_term_init(struct ctl_term *t)
{
	const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");

	*t = (struct ctl_term){0};
	t->is_live = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
	t->colour = t->is_live && !(no_color && *no_color);
	setvbuf(stdout, NULL, _IOFBF, OUT_SIZE);
	/* Terminals speak UTF-8 today, also where no locale is set. The locale is only needed for the widths
	 * of characters. */
	if (t->is_live && strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		setlocale(LC_CTYPE, "C.UTF-8");
}

void ctl_term_size(int *rows, int *columns)
{
	struct winsize size;
	bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;

	*rows = known && size.ws_row > 0 ? size.ws_row : 24;
	*columns = known && size.ws_col > 0 ? size.ws_col : 80;
}

/* --- lines and the bar --- */

/* A terminal that was made narrower has broken the bar into several lines. */
void ctl_term_clear(struct ctl_term *t)
{
	int rows, columns;

	if (!t->has_bar)
		return;
	ctl_term_size(&rows, &columns);
	if (t->bar_columns > columns)
		printf("\033[%dA", (t->bar_columns - 1) / columns);
	fputs("\r\033[J", stdout);
	t->has_bar = false;
}

void ctl_term_print(struct ctl_term *t, const char *text, size_t size)
{
	ctl_term_clear(t);
	fwrite(text, 1, size, stdout);
}

void ctl_term_bar(struct ctl_term *t, const char *text, size_t size, int columns)
{
	int rows, now;

	if (!t->is_live)
		return;
	ctl_term_size(&rows, &now);
	if (t->bar_columns > now)
		ctl_term_clear(t);
	/* Without wrapping: the terminal may draw a character wider than expected. The rest of the line is
	 * cleared last, so that an unchanged bar does not flicker. */
	fputs("\r\033[?7l", stdout);
	fwrite(text, 1, size, stdout);
	fputs("\033[K\033[?7h", stdout);
	t->has_bar = true;
	t->bar_columns = columns;
}

/* --- the second screen --- */

static void mute(bool on)
{
	struct termios quiet;

	if (on && !is_mute && isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp() &&
		tcgetattr(STDIN_FILENO, &before) == 0) {
		quiet = before;
		quiet.c_lflag &= ~(tcflag_t)(ECHO | ICANON);
		is_mute = tcsetattr(STDIN_FILENO, TCSANOW, &quiet) == 0;
	} else if (!on && is_mute) {
		is_mute = 0;
		/* drop keys that were typed while they were not shown */
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
	}
}

void ctl_term_restore(void)
{
	ssize_t done;

	if (!on_screen)
		return;
	on_screen = 0;
	mute(false);
	done = write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1);
	(void)done;
}

static void on_size(int number)
{
	(void)number; /* the signal only ends a sleep; the next frame reads the size */
}

/* Ctrl-Z: the shell gets its own screen back. The default action follows as soon as this handler returns. */
static void on_stop(int number)
{
	int saved = errno;

	ctl_term_restore();
	was_stopped = 1;
	signal(number, SIG_DFL);
	raise(number);
	errno = saved;
}

static void catch_signals(void)
{
	struct sigaction size = {.sa_handler = on_size}, stop = {.sa_handler = on_stop};

	sigaction(SIGWINCH, &size, NULL);
	sigaction(SIGCONT, &size, NULL);
	sigaction(SIGTSTP, &stop, NULL);
}

static void forget_lines(struct ctl_term *t)
{
	for (size_t i = 0; i < t->line_count; i++)
		buf_fini(&t->lines[i]);
	free(t->lines);
	t->lines = NULL;
	t->line_count = 0;
}

static void enter_screen(struct ctl_term *t)
{
	static bool has_exit;

	if (!has_exit)
		atexit(ctl_term_restore);
	has_exit = true;
	catch_signals();
	mute(true);
	forget_lines(t);
	on_screen = 1;
	was_stopped = 0;
	fputs(ENTER, stdout);
	t->has_screen = true;
}

static void keep_line(struct buf *line, const char *text, size_t size)
{
	buf_clear(line);
	buf_add(line, text, size);
}

void ctl_term_screen(struct ctl_term *t, const char *text, size_t size)
{
	const char *end = text + size, *next;
	size_t row = 0;
	int rows, columns;

	ctl_term_size(&rows, &columns);
	if (!t->has_screen || was_stopped) {
		enter_screen(t);
	} else if (rows != t->rows || columns != t->columns) {
		fputs("\033[2J", stdout);
		forget_lines(t);
	}
	t->rows = rows;
	t->columns = columns;
	if (t->line_count < (size_t)rows) {
		t->lines = xrealloc(t->lines, (size_t)rows * sizeof *t->lines);
		memset(t->lines + t->line_count, 0, ((size_t)rows - t->line_count) * sizeof *t->lines);
		t->line_count = (size_t)rows;
	}
	for (; row < (size_t)rows; row++, text = next) {
		const char *stop = text < end ? memchr(text, '\n', (size_t)(end - text)) : NULL;
		size_t length = stop ? (size_t)(stop - text) : (size_t)(end - text);

		next = stop ? stop + 1 : end;
		if (t->lines[row].size == length &&
			(length == 0 || memcmp(t->lines[row].data, text, length) == 0))
			continue;
		printf("\033[%zu;1H", row + 1);
		fwrite(text, 1, length, stdout);
		fputs("\033[K", stdout);
		keep_line(&t->lines[row], text, length);
	}
}

void ctl_term_leave_screen(struct ctl_term *t)
{
	if (!t->has_screen)
		return;
	fflush(stdout);
	ctl_term_restore();
	t->has_screen = false;
	forget_lines(t);
	signal(SIGTSTP, SIG_DFL);
}

void ctl_term_fini(struct ctl_term *t)
{
	ctl_term_clear(t);
	ctl_term_leave_screen(t);
}

/* --- questions --- */

bool ctl_term_may_ask(void)
{
	return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

char ctl_term_ask(struct ctl_term *t, const char *question)
{
	char answer[64], *p = answer;
	ssize_t got;

	ctl_term_clear(t);
	fflush(stdout);
	if (!ctl_term_may_ask())
		return 0;
	fputs(question, stderr);
	fflush(stderr);
	got = read(STDIN_FILENO, answer, sizeof answer - 1);
	if (got < 0) {
		fputs("\n", stderr);
		return 'd';
	}
	if (got == 0)
		return 0;
	answer[got] = '\0';
	while (*p == ' ' || *p == '\t')
		p++;
	return *p == '\0' ? '\n' : (char)tolower((unsigned char)*p);
}
