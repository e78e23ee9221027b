/* SPDX-License-Identifier: MIT */
/* table.h: rows of words in columns that fit the terminal, and short words for times and sizes. */
#ifndef HCPD_HCPCTL_COMMON_TABLE_H
#define HCPD_HCPCTL_COMMON_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { CTL_TABLE_COLUMNS = 8, CTL_SPAN_SIZE = 32 };

struct ctl_column {
	const char *title;
	bool is_right;   /* numbers */
	bool may_shrink; /* cut where the terminal is too narrow; the last of these first */
};

struct ctl_table {
	const struct ctl_column *columns;
	size_t count;
	int width; /* columns of the terminal; 0: lines may have any length */
	bool colour;
	int widths[CTL_TABLE_COLUMNS];
	bool is_set; /* the widths are known, and the titles were written */
	/* rows that wait until the widths are known: each cell escaped, with a NUL behind it */
	struct buf cells;
	/* one byte a row: the colour of the coloured cell */
	struct buf shades;
	size_t rows;
	int shaded;     /* the column that is coloured; -1: none */
	struct buf out; /* finished lines; the caller prints and clears them */
};

/* Borrows columns. */
void ctl_table_init(
	struct ctl_table *t, const struct ctl_column *columns, size_t count, int width, int shaded);
void ctl_table_fini(struct ctl_table *t);
/* Adds a row; escapes the texts. shade: '\0' for none, else a letter from ctl_table_shade. The first thousand
 * rows set the widths, so memory is bounded; a longer text that comes later is cut or sticks out. */
void ctl_table_add(struct ctl_table *t, const char *const *cells, char shade);
/* No more rows: moves waiting rows to t->out, with the titles unless there never was a row. */
void ctl_table_end(struct ctl_table *t);

/* The shade of a state: a letter for its colour. */
char ctl_table_shade(const char *state);
/* The escape sequence that begins a colour; "" for none. */
const char *ctl_table_colour(char shade);

/* 0.4s 59s 3m04s 5h12m 4d; negative ones are 0s. */
void ctl_span(int64_t us, char out[CTL_SPAN_SIZE]);
/* Rounded to one unit: 4s 3m 5h 4d. */
void ctl_age(int64_t us, char out[CTL_SPAN_SIZE]);
/* 812 B, 1.2 KiB, 3.4 MiB. */
void ctl_size(int64_t bytes, char out[CTL_SPAN_SIZE]);

#endif
