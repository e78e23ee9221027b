/* SPDX-License-Identifier: MIT */
/* terminal.h: stdout: lines, and on a terminal either one bar below them that is redrawn, or a whole screen.
 *
 * The screen is the terminal's second one: the first one comes back unchanged afterwards, also after a
 * resize. Every end of the process except SIGKILL puts the terminal back. */
#ifndef HCPD_HCPCTL_COMMON_TERMINAL_H
#define HCPD_HCPCTL_COMMON_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct ctl_term {
	bool is_live; /* a terminal that can redraw */
	bool colour;  /* and NO_COLOR is not set */
	bool has_bar;
	int bar_columns; /* columns of the bar that is drawn now */
	bool has_screen;
	int rows, columns; /* size of the screen when it was last drawn */
	struct buf *lines; /* the text of each of its rows */
	size_t line_count;
};

void ctl_term_init(struct ctl_term *t);
void ctl_term_fini(struct ctl_term *t); /* removes the bar and the screen */
void ctl_term_size(int *rows, int *columns);
/* Prints text that ends in a newline; removes the bar first. */
void ctl_term_print(struct ctl_term *t, const char *text, size_t size);
/* Draws or redraws the bar. Does nothing where stdout is no terminal. columns: width of the text. */
void ctl_term_bar(struct ctl_term *t, const char *text, size_t size, int columns);
void ctl_term_clear(struct ctl_term *t);
/* Draws the whole screen from its top: each line with a newline, none wider than the terminal, not more lines
 * than rows. Sends only changed rows. */
void ctl_term_screen(struct ctl_term *t, const char *text, size_t size);
void ctl_term_leave_screen(struct ctl_term *t);
/* Puts the terminal back; safe in a signal handler. */
void ctl_term_restore(void);
bool ctl_term_may_ask(void);
/* Asks on the terminal and returns the first letter of the answer in lower case; '\n' for an empty answer, 0
 * where there is no terminal or it went away. A signal meanwhile counts as `d`. */
char ctl_term_ask(struct ctl_term *t, const char *question);

#endif
