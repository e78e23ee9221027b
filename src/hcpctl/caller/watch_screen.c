/* SPDX-License-Identifier: MIT */
/* watch_screen.c: the part of a terminal that is redrawn: one session's bar, or the table of several.
 * Owns how often it is drawn, and what stays on the terminal at the end.
 * Never changes a view (watch_model.c), never knows a column's width (watch_table.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "hcpctl/caller/watch_model.h"
#include "hcpctl/common/render.h"
#include "hcpctl/common/watch_table.h"

#define SECOND INT64_C(1000000)
#define EVERY_US (SECOND / 10)
#define ASK_S 30     /* how long the capability of a new session is looked up ... */
#define ASK_MAX 50   /* ... for so many sessions a second */
#define FRAME_ROWS 3 /* lines of the table that are no rows: head, notice, foot */

/* Messages of hcpctl itself: below the table, also where the table is drawn a moment later and would hide
 * them; or above the bar. */
static void take_notice(void *ctx, const char *line, size_t size)
{
	struct ctl_watch_model *f = ctx;

	if (f->is_table) {
		buf_clear(&f->notice);
		buf_add(&f->notice, line, size);
		f->draw_at_us = 0;
		return;
	}
	ctl_term_clear(&f->term);
	fflush(stdout);
	fwrite(line, 1, size, stderr);
}

void ctl_watch_screen_begin(struct ctl_watch_model *f)
{
	if (f->term.is_live)
		ctl_say_via(take_notice, f);
}

static long elapsed_s(const struct ctl_view *v)
{
	return (long)(((v->until_us ? v->until_us : clock_wall_us()) - v->since_us) / SECOND);
}

/* --- one session --- */

static void draw_bar(struct ctl_watch_model *f)
{
	const struct ctl_view *v = f->views;
	struct buf bar = {0};
	int rows, columns, used;

	ctl_term_size(&rows, &columns);
	used = ctl_render_bar(&bar, v->state, v->stage ? v->stage : "", v->percent,
		v->message ? v->message : "", elapsed_s(v), columns - 1, f->term.colour);
	ctl_term_bar(&f->term, bar.data, bar.size, used);
	buf_fini(&bar);
}

/* --- several --- */

static struct ctl_row row_of(const struct ctl_view *v)
{
	return (struct ctl_row){.id = v->id,
		.capability = v->capability ? v->capability : "",
		.state = v->state,
		.stage = v->stage ? v->stage : "",
		.message = v->message ? v->message : "",
		.percent = v->percent,
		.elapsed_s = elapsed_s(v),
		.is_done = v->is_done};
}

/* The table as lines: head, rows, as many as there is room for, and the foot. */
static void make_table(const struct ctl_watch_model *f, struct buf *out, size_t room, int columns)
{
	size_t count = HASH_COUNT(f->views), i = 0, shown;
	struct ctl_row *rows = xcalloc(count + 1, sizeof *rows);
	size_t *picked = xcalloc(count + 1, sizeof *picked);
	struct ctl_plan plan;

	for (const struct ctl_view *v = f->views; v; v = v->hh.next)
		rows[i++] = row_of(v);
	shown = ctl_watch_table_pick(rows, count, room, picked);
	ctl_watch_table_plan(&plan, rows, count, columns);
	ctl_watch_table_add_head(out, &plan, f->term.colour);
	buf_add_text(out, "\n");
	for (i = 0; i < shown; i++) {
		ctl_watch_table_add_row(out, &rows[picked[i]], &plan, f->term.colour);
		buf_add_text(out, "\n");
	}
	ctl_watch_table_add_foot(out, rows, count, shown, columns);
	buf_add_text(out, "\n");
	free(picked);
	free(rows);
}

static void draw_table(struct ctl_watch_model *f)
{
	struct buf text = {0};
	int rows, columns;

	ctl_term_size(&rows, &columns);
	/* a full line leaves the cursor on its last character, which the erase would remove */
	columns--;
	make_table(f, &text, rows > FRAME_ROWS ? (size_t)(rows - FRAME_ROWS) : 0, columns);
	if (f->notice.size > 0)
		buf_add(&text, f->notice.data, ctl_fit(f->notice.data, f->notice.size - 1, columns, NULL));
	ctl_term_screen(&f->term, text.data, text.size);
	buf_fini(&text);
}

/* --- when --- */

static bool has_live(const struct ctl_watch_model *f)
{
	return f->term.is_live && (f->is_table || (f->views && !f->views->is_done));
}

/* The token cache knows the capability of the user's own sessions; messages do not name it. Another hcpctl
 * may write the cache a moment after the first message. */
static void find_capabilities(struct ctl_watch_model *f, int64_t now_us)
{
	size_t asked = 0;

	if (now_us < f->asked_at_us + SECOND)
		return;
	f->asked_at_us = now_us;
	for (struct ctl_view *v = f->views; v && asked < ASK_MAX; v = v->hh.next)
		if (!v->capability && !v->is_done && elapsed_s(v) < ASK_S) {
			ctl_watch_model_find_capability(f, v);
			asked++;
		}
}

void ctl_watch_screen_draw(struct ctl_watch_model *f)
{
	int64_t now_us = clock_boot_us();

	if (!has_live(f))
		return;
	if (f->is_table)
		find_capabilities(f, now_us);
	f->is_old = now_us < f->draw_at_us;
	if (f->is_old)
		return;
	f->draw_at_us = now_us + EVERY_US;
	if (f->is_table)
		draw_table(f);
	else
		draw_bar(f);
}

int64_t ctl_watch_screen_due_us(const struct ctl_watch_model *f)
{
	/* Clocks advance without news. A bar that a line removed, or a frame that came too early, is drawn
	 * soon. */
	bool is_soon = f->is_old || !(f->is_table ? f->term.has_screen : f->term.has_bar);

	if (!has_live(f))
		return INT64_MAX;
	return is_soon ? f->draw_at_us : f->draw_at_us + SECOND - EVERY_US;
}

/* --- the end --- */

static void leave_table(struct ctl_watch_model *f)
{
	struct buf text = {0};
	int rows, columns;

	ctl_term_size(&rows, &columns);
	ctl_term_leave_screen(&f->term);
	/* Named sessions are all printed; of all sessions, as many as the screen had room for. */
	make_table(f, &text, f->all ? (size_t)(rows > FRAME_ROWS ? rows - FRAME_ROWS : 0) : SIZE_MAX,
		columns - 1);
	ctl_term_print(&f->term, text.data, text.size);
	for (const struct ctl_view *v = f->views; v; v = v->hh.next)
		if (v->outcome && *v->outcome)
			printf("result of %.8s:\n%s", v->id, v->outcome);
	buf_fini(&text);
}

void ctl_watch_screen_end(struct ctl_watch_model *f)
{
	if (f->term.is_live)
		ctl_say_via(NULL, NULL);
	if (f->term.has_screen)
		leave_table(f);
	if (f->notice.size > 0) { /* also of a table that was never drawn */
		fflush(stdout);
		fwrite(f->notice.data, 1, f->notice.size, stderr);
	}
	ctl_term_fini(&f->term);
}
