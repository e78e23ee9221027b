/* SPDX-License-Identifier: MIT */
/* watch_table.h: sessions as rows of a table that fits a terminal. Pure: rows in, lines out, none too
 * wide. */
#ifndef HCPD_HCPCTL_COMMON_WATCH_TABLE_H
#define HCPD_HCPCTL_COMMON_WATCH_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct ctl_row { /* texts as received, never NULL; watch_table.c escapes them */
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
	int width[CTL_COLUMNS]; /* 0: dropped, there is no room */
	int between;            /* blanks between two columns */
};

/* Chooses which of count rows, oldest first, are shown in room lines. Where not all fit, the oldest finished
 * rows are dropped first, then the youngest. Fills picked, in order; returns how many. */
size_t ctl_watch_table_pick(const struct ctl_row *rows, size_t count, size_t room, size_t *picked);
/* Sets the width of each column for a terminal of so many columns. */
void ctl_watch_table_plan(struct ctl_plan *p, const struct ctl_row *rows, size_t count, int columns);
/* Lines without a newline. */
void ctl_watch_table_add_head(struct buf *out, const struct ctl_plan *p, bool colour);
void ctl_watch_table_add_row(struct buf *out, const struct ctl_row *r, const struct ctl_plan *p, bool colour);
/* `3 running, 1 paused, 12 ended; 4 not shown`, cut to columns. */
void ctl_watch_table_add_foot(
	struct buf *out, const struct ctl_row *rows, size_t count, size_t shown, int columns);

/* Also used by the view of one session. */
/* [###---] 42%, 9 or more */
void ctl_watch_table_add_bar(struct buf *out, double percent, int columns, bool colour);
void ctl_watch_table_add_time(struct buf *out, long elapsed_s); /* 00:07, 1:02:03, 4d05h */
const char *ctl_watch_table_colour(const char *state);          /* an escape sequence; NULL: none */

#endif
