/* ctl_term.h: stdout: lines, and on a terminal either one bar below them that is redrawn, or a whole screen.
 *
 * The screen is the terminal's second one: what stood on the first is there again afterwards, and a resize
 * leaves nothing behind. Whatever ends the process, but SIGKILL, puts the terminal back. */
#ifndef HCPD_CTL_TERM_H
#define HCPD_CTL_TERM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct ctl_term {
	bool is_live; /* a terminal that can redraw */
	bool colour;  /* and NO_COLOR is not set */
	bool has_bar;
	int bar_columns; /* how wide the bar is that stands there */
	bool has_screen;
	int rows, columns; /* of the screen, when it was drawn */
	struct buf *lines; /* what stands in each of its rows */
	size_t line_count;
};

void ctl_term_init(struct ctl_term *t);
void ctl_term_fini(struct ctl_term *t); /* bar and screen are gone then */
void ctl_term_size(int *rows, int *columns);
/* Text that ends in a newline; the bar is taken off first. */
void ctl_term_print(struct ctl_term *t, const char *text, size_t size);
/* Draws or redraws. Nothing where stdout is no terminal. columns: of the text. */
void ctl_term_bar(struct ctl_term *t, const char *text, size_t size, int columns);
void ctl_term_clear(struct ctl_term *t);
/* The whole screen from its top: lines with a newline each, none wider than the terminal, not more than its
 * rows. Only what has changed is sent. */
void ctl_term_screen(struct ctl_term *t, const char *text, size_t size);
void ctl_term_leave_screen(struct ctl_term *t);
/* Puts the terminal back, from a signal handler too. */
void ctl_term_restore(void);
bool ctl_term_may_ask(void);
/* Asks on the terminal and returns the first letter of the answer in lower case; '\n' for an empty one, 0
 * where there is no terminal to ask or it went away. A signal meanwhile counts as `d`. */
char ctl_term_ask(struct ctl_term *t, const char *question);

#endif
