/* ctl_term.c: the terminal.
 * Owns the bar's line. Never composes text (ctl_show.c); what it is given is escaped already. */
#include "ctl_term.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void ctl_term_init(struct ctl_term *t)
{
	const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");

	*t = (struct ctl_term){ 0 };
	t->is_live = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
	t->colour = t->is_live && !(no_color && *no_color);
}

int ctl_term_columns(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return 80;
}

void ctl_term_clear(struct ctl_term *t)
{
	if (t->has_bar)
		fputs("\r\033[K", stdout);
	t->has_bar = false;
}

void ctl_term_print(struct ctl_term *t, const char *text, size_t size)
{
	ctl_term_clear(t);
	fwrite(text, 1, size, stdout);
}

void ctl_term_bar(struct ctl_term *t, const char *text, size_t size)
{
	if (!t->is_live)
		return;
	fputs("\r", stdout);
	fwrite(text, 1, size, stdout);
	fputs("\033[K", stdout);        /* behind it, so that an unchanged bar does not flicker */
	t->has_bar = true;
}

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
