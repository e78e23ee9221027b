/* ctl_follow.c: from messages to what the user sees of sessions.
 * Owns the views, and when a session is over for us.
 * Never publishes. Order is ctl_order.c's, words are ctl_show.c's. */
#include "ctl_follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "ctl_sessions.h"
#include "ctl_show.h"

#define SECOND INT64_C(1000000)
#define RESULT_WAIT_US (5 * SECOND)     /* for a result that was overtaken by the end */
#define BAR_EVERY_US (SECOND / 10)
#define DONE_MAX 4096                   /* ended sessions remembered, so that a repeat is not shown again */

void ctl_follow_init(struct ctl_follow *f, const struct ctl_settings *s, struct ctl_pump *pump, bool json)
{
	*f = (struct ctl_follow){ .settings = s, .pump = pump, .json = json, .due_us = INT64_MAX };
	ctl_term_init(&f->term);
	if (json)
		f->term.is_live = f->term.colour = false;
}

struct ctl_view *ctl_follow_add(struct ctl_follow *f, const char *session, int64_t first)
{
	struct ctl_view *v = xcalloc(1, sizeof *v);

	strncpy(v->id, session, ID_SIZE - 1);
	v->order.next = first;
	v->started_us = clock_boot_us();
	v->percent = -1;
	HASH_ADD_STR(f->views, id, v);
	f->open_count++;
	return v;
}

static void free_view(struct ctl_follow *f, struct ctl_view *v)
{
	HASH_DEL(f->views, v);
	ctl_order_fini(&v->order);
	ctl_note_free(v->result);
	free(v->stage);
	free(v->message);
	free(v);
}

/* --- showing --- */

void ctl_follow_show(struct ctl_follow *f, const struct ctl_note *n)
{
	struct buf line = { 0 };

	if (f->json)
		ctl_show_json(&line, n);
	else
		ctl_show_line(&line, n,
			(struct ctl_look){ .colour = f->term.colour, .with_session = f->with_session });
	ctl_term_print(&f->term, line.data, line.size);
	buf_fini(&line);
}

static void draw_bar(struct ctl_follow *f)
{
	struct ctl_view *v = f->views;
	struct buf bar = { 0 };
	int64_t now_us = clock_boot_us();

	/* One line has room for one session. */
	if (!f->term.is_live || f->with_session || !v || v->is_done)
		return;
	f->bar_is_old = now_us < f->draw_at_us;
	if (f->bar_is_old)
		return;
	f->draw_at_us = now_us + BAR_EVERY_US;
	ctl_show_bar(&bar, v->stage ? v->stage : "", v->percent, v->message ? v->message : "",
		(long)((now_us - v->started_us) / SECOND), ctl_term_columns() - 1);
	ctl_term_bar(&f->term, bar.data, bar.size);
	buf_fini(&bar);
}

static void replace(char **at, const char *text)
{
	free(*at);
	*at = text ? xstrdup(text) : NULL;
}

static void note_progress(struct ctl_view *v, const struct ctl_note *n)
{
	const json_t *percent = json_object_get(n->data, "percent");

	replace(&v->stage, ctl_note_text(n->data, "stage"));
	replace(&v->message, ctl_note_text(n->data, "message"));
	if (json_is_number(percent) && json_number_value(percent) >= 0)
		v->percent = json_number_value(percent);
}

/* --- ends --- */

static enum ctl_exit exit_of(const char *state)
{
	if (!state)
		return CTL_ERROR;
	return strcmp(state, "COMPLETED") == 0 ? CTL_COMPLETED :
		strcmp(state, "FAILED") == 0 ? CTL_FAILED :
		strcmp(state, "ABORTED") == 0 ? CTL_ABORTED :
		strcmp(state, "REJECTED") == 0 ? CTL_REJECTED : CTL_ERROR;
}

static void forget_oldest(struct ctl_follow *f)
{
	struct ctl_view *v, *next;

	HASH_ITER(hh, f->views, v, next) {      /* in the order in which they were added */
		if (f->done_count <= DONE_MAX)
			return;
		if (v->is_done) {
			free_view(f, v);
			f->done_count--;
		}
	}
}

static void finish(struct ctl_follow *f, struct ctl_view *v)
{
	struct buf text = { 0 };
	char why[CTL_WHY_SIZE];

	v->is_done = true;
	f->open_count--;
	f->done_count++;
	if (v->result && !f->json) {
		ctl_show_result(&text, v->result);
		if (f->with_session && text.size > 0)
			printf("result of %.8s:\n", v->id);
		ctl_term_print(&f->term, text.data ? text.data : "", text.size);
		buf_fini(&text);
	}
	ctl_note_free(v->result);
	v->result = NULL;
	if (f->settings->home && ctl_sessions_drop(f->settings->home, v->id, why) < 0)
		ctl_say("%s", why);
	if (f->all)
		forget_oldest(f);
}

/* What a message means for its session's view. */
static void apply(struct ctl_view *v, const struct ctl_note *n)
{
	if (strcmp(n->event, "progress") == 0) {
		note_progress(v, n);
	} else if (strcmp(n->event, "session_closed") == 0) {
		const char *state = ctl_note_text(n->data, "final_state");

		v->is_closed = true;
		v->exit = exit_of(state);
		v->result_due_us = clock_boot_us() +
			((v->exit == CTL_COMPLETED || v->exit == CTL_FAILED) ? RESULT_WAIT_US : 0);
	}
}

static bool is_result(const struct ctl_note *n)
{
	return strcmp(n->type, "task_completed") == 0 || strcmp(n->type, "task_failed") == 0;
}

static void wait_until(struct ctl_follow *f, int64_t due_us)
{
	if (due_us < f->due_us)
		f->due_us = due_us;
}

/* Hands out what is due, in order. */
static void advance(struct ctl_follow *f, struct ctl_view *v)
{
	int64_t from, to;
	struct ctl_note *n;

	while ((n = ctl_order_take(&v->order, clock_boot_us(), &from, &to))) {
		if (from) {
			ctl_term_clear(&f->term);
			ctl_say("session %s: events %lld to %lld are missing; going on without them", v->id,
				(long long)from, (long long)to);
		}
		apply(v, n);
		if (f->json || !f->term.is_live || f->with_session || strcmp(n->event, "progress") != 0)
			ctl_follow_show(f, n);
		ctl_pump_ack(f->pump, n);
		if (is_result(n) && !v->result)
			v->result = n;
		else
			ctl_note_free(n);
	}
	if (v->is_closed && !v->is_done && (v->result || clock_boot_us() >= v->result_due_us))
		finish(f, v);
	if (v->is_closed && !v->is_done)
		wait_until(f, v->result_due_us);
	wait_until(f, ctl_order_due_us(&v->order));
}

void ctl_follow_take(struct ctl_follow *f, struct ctl_note *n)
{
	struct ctl_view *v;
	enum ctl_put put;

	HASH_FIND_STR(f->views, n->session, v);
	if (!v && f->all && id_is_uuid4(n->session))
		v = ctl_follow_add(f, n->session, 0);
	if (!v) {
		if (f->all)             /* a rejection has no session */
			ctl_follow_show(f, n);
		ctl_pump_ack(f->pump, n);
		ctl_note_free(n);
		return;
	}
	put = ctl_order_put(&v->order, n, clock_boot_us());
	if (put == CTL_SEEN)
		ctl_pump_ack(f->pump, n);
	if (put != CTL_PUT)
		ctl_note_free(n);
	else
		advance(f, v);
	draw_bar(f);
}

/* --- time --- */

/* Only when something is due: with thousands of sessions a walk a message would be too much. */
void ctl_follow_tick(struct ctl_follow *f)
{
	struct ctl_view *v, *next;

	if (clock_boot_us() >= f->due_us) {
		f->due_us = INT64_MAX;
		HASH_ITER(hh, f->views, v, next)
			if (!v->is_done)
				advance(f, v);
	}
	draw_bar(f);
}

int64_t ctl_follow_due_us(const struct ctl_follow *f)
{
	/* The bar's clock goes on by itself; what a line took off or a limit held back is drawn soon. */
	bool is_soon = f->bar_is_old || !f->term.has_bar;
	int64_t bar_us = !f->term.is_live ? INT64_MAX : is_soon ? f->draw_at_us : f->draw_at_us + SECOND;

	if (f->with_session || !f->views || f->views->is_done)
		bar_us = INT64_MAX;
	return bar_us < f->due_us ? bar_us : f->due_us;
}

void ctl_follow_fini(struct ctl_follow *f)
{
	struct ctl_view *v, *next;

	ctl_term_clear(&f->term);
	HASH_ITER(hh, f->views, v, next)
		free_view(f, v);
}
