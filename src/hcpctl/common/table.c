/* SPDX-License-Identifier: MIT */
/* table.c: columns.
 * Owns how wide columns become and which text is cut.
 * Never writes to a descriptor, never knows what a row means. */
#include "hcpctl/common/table.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "hcpctl/common/ctl.h"
#include "protocol/names.h"

#define GAP 2
#define NARROWEST 6 /* a column that may shrink keeps at least this */
#define ROWS_WAITING 1000

/* ---- words ---- */

void ctl_age(int64_t us, char out[CTL_SPAN_SIZE])
{
	static const struct {
		int64_t s;
		char unit;
	} units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}};
	int64_t s = us > 0 ? us / 1000000 : 0;

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (s >= units[i].s * (units[i].unit == 'd' ? 2 : 1)) { /* 36h says more than 1d */
			snprintf(out, CTL_SPAN_SIZE, "%lld%c", (long long)(s / units[i].s), units[i].unit);
			return;
		}
	snprintf(out, CTL_SPAN_SIZE, "%llds", (long long)s);
}

void ctl_span(int64_t us, char out[CTL_SPAN_SIZE])
{
	int64_t s = us > 0 ? us / 1000000 : 0;

	if (us <= 0)
		snprintf(out, CTL_SPAN_SIZE, "0s");
	else if (s < 10)
		snprintf(out, CTL_SPAN_SIZE, "%lld.%llds", (long long)s, (long long)(us / 100000 % 10));
	else if (s < 60)
		snprintf(out, CTL_SPAN_SIZE, "%llds", (long long)s);
	else if (s < 3600)
		snprintf(out, CTL_SPAN_SIZE, "%lldm%02llds", (long long)(s / 60), (long long)(s % 60));
	else if (s < 48 * 3600)
		snprintf(out, CTL_SPAN_SIZE, "%lldh%02lldm", (long long)(s / 3600), (long long)(s / 60 % 60));
	else
		ctl_age(us, out);
}

void ctl_size(int64_t bytes, char out[CTL_SPAN_SIZE])
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
	double value = (double)bytes / 1024;
	size_t i = 0;

	if (bytes < 1024) {
		snprintf(out, CTL_SPAN_SIZE, "%lld B", (long long)bytes);
		return;
	}
	while (value >= 1024 && i + 1 < sizeof units / sizeof *units) {
		value /= 1024;
		i++;
	}
	snprintf(out, CTL_SPAN_SIZE, "%.1f %s", value, units[i]);
}

static const char shades[S_COUNT] = {
	[S_RUNNING] = 'c',
	[S_COMPLETED] = 'g',
	[S_FAILED] = 'r',
	[S_ABORTED] = 'y',
	[S_REJECTED] = 'r',
	[S_ABORTING] = 'y',
	[S_PAUSED] = 'm',
};

char ctl_table_shade(const char *state)
{
	int i = name_find(sstate_names, state);

	return i >= 0 ? shades[i] : '\0';
}

const char *ctl_table_colour(char shade)
{
	switch (shade) {
	case 'r': return "\033[31m";
	case 'g': return "\033[32m";
	case 'y': return "\033[33m";
	case 'm': return "\033[35m";
	case 'c': return "\033[36m";
	case 'b': return "\033[1m";
	default: return "";
	}
}

/* ---- widths ---- */

static int columns_of(const char *text)
{
	int used;

	ctl_fit(text, strlen(text), INT_MAX, &used);
	return used;
}

void ctl_table_init(
	struct ctl_table *t, const struct ctl_column *columns, size_t count, int width, int shaded)
{
	*t = (struct ctl_table){.columns = columns, .count = count, .width = width, .shaded = shaded};
}

void ctl_table_fini(struct ctl_table *t)
{
	buf_fini(&t->cells);
	buf_fini(&t->shades);
	buf_fini(&t->out);
}

#define HIDDEN (-1)

/* Takes width away from the last column that may shrink, then from the one before it, until the line fits.
 * Where that is not enough, drops whole columns. */
static void fit(struct ctl_table *t)
{
	int all = -GAP;

	for (size_t i = 0; i < t->count; i++)
		all += t->widths[i] + GAP;
	for (size_t i = t->count; t->width > 0 && all > t->width && i-- > 0;) {
		int spare = t->widths[i] - NARROWEST, over = all - t->width;

		if (!t->columns[i].may_shrink || spare <= 0)
			continue;
		t->widths[i] -= over < spare ? over : spare;
		all -= over < spare ? over : spare;
	}
	for (size_t i = t->count; t->width > 0 && all > t->width && i-- > 0;)
		if (t->columns[i].may_shrink) {
			all -= t->widths[i] + GAP;
			t->widths[i] = HIDDEN;
		}
}

static void set_widths(struct ctl_table *t)
{
	const char *cell = buf_text(&t->cells);

	for (size_t i = 0; i < t->count; i++)
		t->widths[i] = columns_of(t->columns[i].title);
	for (size_t row = 0; row < t->rows; row++)
		for (size_t i = 0; i < t->count; i++) {
			int width = columns_of(cell);

			if (width > t->widths[i])
				t->widths[i] = width;
			cell += strlen(cell) + 1;
		}
	fit(t);
}

/* ---- lines ---- */

static void add_cell(struct ctl_table *t, size_t n, const char *text, const char *colour)
{
	size_t size = strlen(text), cut;
	int taken, width = t->widths[n];

	if (width == HIDDEN)
		return;
	cut = ctl_fit(text, size, width, &taken);
	if (cut < size && t->width > 0) {
		cut = ctl_fit(text, size, width - 1, &taken);
		taken++;
	} else {
		cut = size;
	}
	if (t->columns[n].is_right)
		buf_addf(&t->out, "%*s", width > taken ? width - taken : 0, "");
	buf_add_text(&t->out, colour);
	buf_add(&t->out, text, cut);
	if (cut < size)
		buf_add_text(&t->out, "~");
	buf_add_text(&t->out, *colour ? "\033[0m" : "");
	if (t->columns[n].is_right || width < taken)
		taken = width;
	buf_addf(&t->out, "%*s", width - taken + GAP, ""); /* blanks at the end of a line are dropped */
}

static void trim(struct buf *b)
{
	while (b->size > 0 && b->data[b->size - 1] == ' ')
		b->size--;
	buf_add_text(b, "\n");
}

static void add_line(struct ctl_table *t, const char *cell, char shade)
{
	for (size_t i = 0; i < t->count; i++, cell += strlen(cell) + 1)
		add_cell(t, i, cell, t->colour && (int)i == t->shaded ? ctl_table_colour(shade) : "");
	trim(&t->out);
}

static void flush(struct ctl_table *t)
{
	const char *cell;

	if (!t->is_set) {
		set_widths(t);
		for (size_t i = 0; i < t->count; i++)
			add_cell(t, i, t->columns[i].title, t->colour ? ctl_table_colour('b') : "");
		trim(&t->out);
		t->is_set = true;
	}
	cell = buf_text(&t->cells);
	for (size_t row = 0; row < t->rows; row++) {
		add_line(t, cell, t->shades.data[row]);
		for (size_t i = 0; i < t->count; i++)
			cell += strlen(cell) + 1;
	}
	buf_clear(&t->cells);
	buf_clear(&t->shades);
	t->rows = 0;
}

void ctl_table_add(struct ctl_table *t, const char *const *cells, char shade)
{
	for (size_t i = 0; i < t->count; i++) {
		const char *text = cells[i] != NULL ? cells[i] : "-";

		ctl_escape(&t->cells, text, strlen(text), false);
		buf_add(&t->cells, "", 1);
	}
	buf_add(&t->shades, &shade, 1);
	if (++t->rows >= (t->is_set ? 1 : ROWS_WAITING))
		flush(t);
}

void ctl_table_end(struct ctl_table *t)
{
	if (t->rows > 0)
		flush(t);
}
