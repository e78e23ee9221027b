/* ctl_board.h: sessions as rows of a board that fits a terminal. Pure: rows in, lines out, none too wide. */
#ifndef HCPD_CTL_BOARD_H
#define HCPD_CTL_BOARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct ctl_row { /* texts as they came, never NULL: they are escaped here */
	const char *id;
	const char *capability; /* "": not known */
	const char *state, *stage, *message;
	double percent; /* below 0: not known */
	long elapsed_s;
	bool is_done;
};

enum ctl_column {
	CTL_COL_ID,
	CTL_COL_CAPABILITY,
	CTL_COL_STATE,
	CTL_COL_BAR,
	CTL_COL_TIME,
	CTL_COL_STAGE,
	CTL_COL_MESSAGE,
	CTL_COLUMNS
};

struct ctl_plan {
	int width[CTL_COLUMNS]; /* 0: left out, there is no room */
	int between;            /* blanks */
};

/* Which of count rows, oldest first, are shown in room lines: where not all of them, the oldest finished ones
 * leave first, then the youngest. Fills picked, in order; returns how many. */
size_t ctl_board_pick(const struct ctl_row *rows, size_t count, size_t room, size_t *picked);
/* How wide each column is in a terminal of so many columns. */
void ctl_board_plan(struct ctl_plan *p, const struct ctl_row *rows, size_t count, int columns);
/* Lines without a newline. */
void ctl_board_add_head(struct buf *out, const struct ctl_plan *p, bool colour);
void ctl_board_add_row(struct buf *out, const struct ctl_row *r, const struct ctl_plan *p, bool colour);
/* `3 running, 1 paused, 12 ended; 4 not shown`, cut to columns. */
void ctl_board_add_foot(struct buf *out, const struct ctl_row *rows, size_t count, size_t shown, int columns);

/* Pieces that the view of one session shares. */
void ctl_board_add_bar(
	struct buf *out, double percent, int columns, bool colour); /* [###---]  42%, 9 or more */
void ctl_board_add_time(struct buf *out, long elapsed_s);           /* 00:07, 1:02:03, 4d05h */
const char *ctl_board_colour(const char *state);                    /* an escape sequence; NULL: none */

#endif
