/* ctl_table.h: rows of words in columns that fit the terminal, and short words for times and sizes. */
#ifndef HCPD_CTL_TABLE_H
#define HCPD_CTL_TABLE_H

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
	int width; /* of the terminal; 0: lines may be as long as they are */
	bool colour;
	int widths[CTL_TABLE_COLUMNS];
	bool is_set;       /* widths are, and the titles were written */
	struct buf cells;  /* rows that wait for the widths: each cell escaped, a NUL behind it */
	struct buf shades; /* a byte a row: which cell is coloured is the table's, how is the row's */
	size_t rows;
	int shaded;     /* the column that has a colour; -1: none */
	struct buf out; /* what may be written: taken by ctl_table_take */
};

/* Columns are a loan. */
void ctl_table_init(
	struct ctl_table *t, const struct ctl_column *columns, size_t count, int width, int shaded);
void ctl_table_fini(struct ctl_table *t);
/* A row; texts of others are escaped here. shade: '\0' for none, else a letter of ctl_shade. The widths are
 * those of the first thousand rows: so the memory is bounded, and a longer text that comes later is cut, or
 * stands out. */
void ctl_table_add(struct ctl_table *t, const char *const *cells, char shade);
/* No more rows: what waited is in t->out. Titles too, unless there never was a row. */
void ctl_table_end(struct ctl_table *t);

/* A letter for a state: what it is coloured like. */
char ctl_table_shade(const char *state);
/* The escape that begins it; "" for none. */
const char *ctl_table_colour(char shade);

/* 0.4s 59s 3m04s 5h12m 4d; negative ones are 0s. */
void ctl_span(int64_t us, char out[CTL_SPAN_SIZE]);
/* With one figure: 4s 3m 5h 4d. */
void ctl_age(int64_t us, char out[CTL_SPAN_SIZE]);
/* 812 B, 1.2 KiB, 3.4 MiB. */
void ctl_size(int64_t bytes, char out[CTL_SPAN_SIZE]);

#endif
