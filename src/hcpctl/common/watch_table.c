/* SPDX-License-Identifier: MIT */
/* watch_table.c: the layout of `hcpctl watch`.
 * Owns widths, what is dropped when there is no room, and how a bar and a duration look.
 * Never reads a clock, a terminal or a message: the caller passes rows. */
#include "hcpctl/common/watch_table.h"

#include <math.h>
#include <string.h>

#include "hcpctl/common/ctl.h"
#include "protocol/names.h"

#define WIDE 100    /* from this width on, two blanks stand between two columns */
#define BAR_EXTRA 7 /* brackets, a blank and 100% */
#define SHORT_ID 8  /* as much of a session_id as people type */

static const struct column {
	const char *title;
	int least, most;
	int leaves; /* the greater, the sooner the column is dropped */
} columns_of[CTL_COLUMNS] = {
	[CTL_COL_ID] = {"SESSION", SHORT_ID, SHORT_ID, 0},
	[CTL_COL_CAPABILITY] = {"CAPABILITY", 10, 18, 4},
	[CTL_COL_STATE] = {"STATE", 9, 9, 1},
	[CTL_COL_BAR] = {"PROGRESS", BAR_EXTRA + 7, BAR_EXTRA + 30, 2},
	[CTL_COL_TIME] = {"TIME", 5, 7, 3},
	[CTL_COL_STAGE] = {"STAGE", 8, 20, 5},
	[CTL_COL_MESSAGE] = {"MESSAGE", 8, 1 << 20, 6},
};

/* --- pieces --- */

const char *ctl_watch_table_colour(const char *state)
{
	static const char *const colours[S_COUNT] = {
		[S_COMPLETED] = "\033[32m",
		[S_RUNNING] = "\033[36m",
		[S_PAUSED] = "\033[33m",
		[S_ABORTING] = "\033[33m",
		[S_ABORTED] = "\033[33m",
		[S_FAILED] = "\033[31m",
		[S_REJECTED] = "\033[31m",
	};
	int i = name_find(sstate_names, state);

	return i >= 0 ? colours[i] : NULL;
}

void ctl_watch_table_add_bar(struct buf *out, double percent, int columns, bool colour)
{
	double value = fmax(0, fmin(percent, 100));
	int cells = columns - BAR_EXTRA, full = (int)lround(value / 100 * cells);

	buf_add_text(out, colour ? "[\033[36m" : "[");
	for (int i = 0; i < cells; i++) {
		if (colour && i == full)
			buf_add_text(out, "\033[0;2m");
		buf_add_text(out, i < full ? "#" : "-");
	}
	buf_addf(out, "%s] %3.0f%%", colour ? "\033[0m" : "",
		floor(value)); /* rounded down: 100% means that all is done */
}

void ctl_watch_table_add_time(struct buf *out, long s)
{
	if (s < 0)
		s = 0;
	if (s < 3600)
		buf_addf(out, "%02ld:%02ld", s / 60, s % 60);
	else if (s < 24 * 3600)
		buf_addf(out, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
	else
		buf_addf(out, "%ldd%02ldh", s / 86400, s / 3600 % 24);
}

static void add_blanks(struct buf *out, int count)
{
	while (count-- > 0)
		buf_add_text(out, " ");
}

/* Adds escaped text; cut with a mark, or filled up to width. */
static void add_cell(struct buf *out, const char *text, int width, const char *colour)
{
	struct buf shown = {0};
	size_t fits;
	int used;

	ctl_escape(&shown, text, strlen(text), false);
	buf_text(&shown);
	fits = ctl_fit(shown.data, shown.size, width, &used);
	if (colour)
		buf_add_text(out, colour);
	if (fits < shown.size) {
		buf_add(out, shown.data, ctl_fit(shown.data, shown.size, width - 1, &used));
		buf_add_text(out, "~");
		used++;
	} else {
		buf_add(out, shown.data, fits);
	}
	if (colour)
		buf_add_text(out, "\033[0m");
	add_blanks(out, width - used);
	buf_fini(&shown);
}

static int text_width(const char *text)
{
	struct buf shown = {0};
	int used;

	ctl_escape(&shown, text, strlen(text), false);
	buf_text(&shown);
	ctl_fit(shown.data, shown.size, 1 << 20, &used);
	buf_fini(&shown);
	return used;
}

static const char *time_text(struct buf *room, long elapsed_s)
{
	buf_clear(room);
	ctl_watch_table_add_time(room, elapsed_s);
	return buf_text(room);
}

/* --- which rows --- */

size_t ctl_watch_table_pick(const struct ctl_row *rows, size_t count, size_t room, size_t *picked)
{
	size_t excess = count > room ? count - room : 0, n = 0;

	for (size_t i = 0; i < count && n < room; i++) {
		if (excess > 0 && rows[i].is_done)
			excess--;
		else
			picked[n++] = i;
	}
	return n;
}

/* --- how wide --- */

static int total(const struct ctl_plan *p)
{
	int sum = -p->between;

	for (int c = 0; c < CTL_COLUMNS; c++)
		if (p->width[c] > 0)
			sum += p->width[c] + p->between;
	return sum;
}

static void drop_column(struct ctl_plan *p)
{
	int out = CTL_COL_ID;

	for (int c = 0; c < CTL_COLUMNS; c++)
		if (p->width[c] > 0 && columns_of[c].leaves > columns_of[out].leaves)
			out = c;
	p->width[out] = 0;
}

static void grow(struct ctl_plan *p, enum ctl_column c, int wish, int columns)
{
	int room = columns - total(p);

	if (p->width[c] == 0)
		return;
	if (wish > columns_of[c].most)
		wish = columns_of[c].most;
	if (wish > p->width[c] + room)
		wish = p->width[c] + room;
	if (wish > p->width[c])
		p->width[c] = wish;
}

void ctl_watch_table_plan(struct ctl_plan *p, const struct ctl_row *rows, size_t count, int columns)
{
	struct buf room = {0};
	int capability = 0, stage = 0, elapsed = 0, w;

	for (size_t i = 0; i < count; i++) {
		capability = (w = text_width(rows[i].capability)) > capability ? w : capability;
		stage = (w = text_width(rows[i].stage)) > stage ? w : stage;
		elapsed = (w = text_width(time_text(&room, rows[i].elapsed_s))) > elapsed ? w : elapsed;
	}
	buf_fini(&room);
	p->between = columns >= WIDE ? 2 : 1;
	for (int c = 0; c < CTL_COLUMNS; c++)
		p->width[c] = columns_of[c].least;
	if (elapsed > p->width[CTL_COL_TIME]) /* the one cell that is never cut */
		p->width[CTL_COL_TIME] = elapsed;
	if (capability == 0) /* sessions of other callers: their capability is unknown here */
		p->width[CTL_COL_CAPABILITY] = 0;
	while (total(p) > columns && p->width[CTL_COL_STATE] > 0)
		drop_column(p);
	if (total(p) > columns)
		p->width[CTL_COL_ID] = columns > 0 ? columns : 1;
	/* Columns with measured values get room first; the message column gets the rest. */
	grow(p, CTL_COL_BAR, columns / 5, columns);
	grow(p, CTL_COL_CAPABILITY, capability, columns);
	grow(p, CTL_COL_STAGE, stage < columns / 8 ? stage : columns / 8, columns);
	grow(p, CTL_COL_MESSAGE, columns, columns);
}

/* --- lines --- */

static void next_cell(struct buf *out, const struct ctl_plan *p)
{
	if (out->size > 0)
		add_blanks(out, p->between);
}

static void end_line(struct buf *out)
{
	while (out->size > 0 && out->data[out->size - 1] == ' ')
		out->size--;
}

void ctl_watch_table_add_head(struct buf *out, const struct ctl_plan *p, bool colour)
{
	struct buf line = {0};

	for (int c = 0; c < CTL_COLUMNS; c++) {
		if (p->width[c] == 0)
			continue;
		next_cell(&line, p);
		add_cell(&line, columns_of[c].title, p->width[c], NULL);
	}
	end_line(&line);
	buf_addf(out, "%s%s%s", colour ? "\033[1m" : "", buf_text(&line), colour ? "\033[0m" : "");
	buf_fini(&line);
}

static void add_time_cell(struct buf *out, long elapsed_s, int width)
{
	struct buf text = {0};
	const char *shown = time_text(&text, elapsed_s);

	add_blanks(out, width - (int)strlen(shown));
	buf_add_text(out, shown);
	buf_fini(&text);
}

static void add_column(struct buf *out, const struct ctl_row *r, int c, int width, bool colour)
{
	char id[SHORT_ID + 1] = "";
	const char *const texts[CTL_COLUMNS] = {[CTL_COL_ID] = id,
		[CTL_COL_CAPABILITY] = r->capability,
		[CTL_COL_STATE] = r->state,
		[CTL_COL_STAGE] = r->stage,
		[CTL_COL_MESSAGE] = r->message};

	memcpy(id, r->id, strnlen(r->id, SHORT_ID));
	if (c == CTL_COL_BAR && r->percent >= 0)
		ctl_watch_table_add_bar(out, r->percent, width, colour);
	else if (c == CTL_COL_BAR)
		add_blanks(out, width);
	else if (c == CTL_COL_TIME)
		add_time_cell(out, r->elapsed_s, width);
	else
		add_cell(out, texts[c], width,
			colour && c == CTL_COL_STATE ? ctl_watch_table_colour(r->state) : NULL);
}

void ctl_watch_table_add_row(struct buf *out, const struct ctl_row *r, const struct ctl_plan *p, bool colour)
{
	struct buf line = {0};

	for (int c = 0; c < CTL_COLUMNS; c++) {
		if (p->width[c] == 0)
			continue;
		next_cell(&line, p);
		add_column(&line, r, c, p->width[c], colour);
	}
	end_line(&line);
	buf_add_text(out, buf_text(&line));
	buf_fini(&line);
}

void ctl_watch_table_add_foot(
	struct buf *out, const struct ctl_row *rows, size_t count, size_t shown, int columns)
{
	static const struct {
		enum sstate state;
		const char *word;
	} kinds[] = {{S_PENDING, "pending"}, {S_RUNNING, "running"}, {S_PAUSED, "paused"},
		{S_ABORTING, "aborting"}};
	struct buf line = {0};
	size_t done = 0;

	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		size_t n = 0;

		for (size_t i = 0; i < count; i++)
			n += !rows[i].is_done && strcmp(rows[i].state, sstate_names[kinds[k].state]) == 0;
		if (n > 0)
			buf_addf(&line, "%zu %s, ", n, kinds[k].word);
	}
	for (size_t i = 0; i < count; i++)
		done += rows[i].is_done;
	buf_addf(&line, "%zu ended", done);
	if (shown < count)
		buf_addf(&line, "; %zu not shown", count - shown);
	buf_add(out, line.data, ctl_fit(line.data, line.size, columns, NULL));
	buf_fini(&line);
}
