/* ctl_term.h: stdout: lines, and below them, on a terminal, one bar that is redrawn. */
#ifndef HCPD_CTL_TERM_H
#define HCPD_CTL_TERM_H

#include <stdbool.h>
#include <stddef.h>

struct ctl_term {
	bool is_live;                   /* a terminal that can redraw a line */
	bool colour;                    /* and NO_COLOR is not set */
	bool has_bar;
};

void ctl_term_init(struct ctl_term *t);
int ctl_term_columns(void);
/* Text that ends in a newline; the bar is taken off first. */
void ctl_term_print(struct ctl_term *t, const char *text, size_t size);
/* Draws or redraws. Nothing where stdout is no terminal. */
void ctl_term_bar(struct ctl_term *t, const char *text, size_t size);
void ctl_term_clear(struct ctl_term *t);
bool ctl_term_may_ask(void);
/* Asks on the terminal and returns the first letter of the answer in lower case; '\n' for an empty one, 0 where
 * there is no terminal to ask or it went away. A signal meanwhile counts as `d`. */
char ctl_term_ask(struct ctl_term *t, const char *question);

#endif
