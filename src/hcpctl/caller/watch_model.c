/* SPDX-License-Identifier: MIT */
/* watch_model.c: from messages to what the user sees of sessions.
 * Owns the views, and when a session counts as ended here.
 * Never publishes. reorder.c puts messages in order, render.c writes the texts. */
#include "hcpctl/caller/watch_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "hcpctl/common/token_cache.h"
#include "hcpctl/common/render.h"
#include "hcpctl/common/task.h"
#include "protocol/names.h"

#define SECOND INT64_C(1000000)
#define RESULT_WAIT_US (5 * SECOND) /* how long to wait for a result that session_closed has overtaken */
#define BRIEF_MAX 400               /* bytes of a result in a row */
#define DONE_MAX 4096               /* ended sessions that are remembered, so that repeats are not printed */

void ctl_watch_model_init(struct ctl_watch_model *f, const struct ctl_settings *s, struct ctl_broker *broker,
	bool json, bool with_session)
{
	*f = (struct ctl_watch_model){.settings = s,
		.broker = broker,
		.json = json,
		.with_session = with_session,
		.due_us = INT64_MAX};
	ctl_term_init(&f->term);
	if (json)
		f->term.is_live = f->term.colour = false;
	f->is_table = f->term.is_live && with_session;
	ctl_watch_screen_begin(f);
}

struct ctl_view *ctl_watch_model_add(struct ctl_watch_model *f, const char *session, int64_t first)
{
	struct ctl_view *v = xcalloc(1, sizeof *v);

	strncpy(v->id, session, ID_SIZE - 1);
	v->order.next = first;
	v->since_us = clock_wall_us();
	v->percent = -1;
	HASH_ADD_STR(f->views, id, v);
	f->open_count++;
	return v;
}

static void free_view(struct ctl_watch_model *f, struct ctl_view *v)
{
	HASH_DEL(f->views, v);
	ctl_reorder_fini(&v->order);
	ctl_message_free(v->result);
	free(v->stage);
	free(v->message);
	free(v->capability);
	free(v->outcome);
	free(v);
}

/* --- showing --- */

void ctl_watch_model_show(struct ctl_watch_model *f, const struct ctl_message *n)
{
	struct buf line = {0};

	if (f->json)
		ctl_render_json(&line, n);
	else
		ctl_render_line(&line, n,
			(struct ctl_render_options){
				.colour = f->term.colour && !f->is_table, .with_session = f->with_session});
	if (f->is_table) { /* only messages without a row in the table come here */
		buf_clear(&f->notice);
		buf_add(&f->notice, line.data, line.size);
	} else {
		ctl_term_print(&f->term, line.data, line.size);
	}
	buf_fini(&line);
}

static void replace(char **at, const char *text)
{
	free(*at);
	*at = text ? xstrdup(text) : NULL;
}

static void record_progress(struct ctl_view *v, const struct ctl_message *n)
{
	const json_t *percent = json_object_get(n->data, "percent");

	replace(&v->stage, ctl_message_text(n->data, "stage"));
	replace(&v->message, ctl_message_text(n->data, "message"));
	if (json_is_number(percent) && json_number_value(percent) >= 0)
		v->percent = json_number_value(percent);
}

void ctl_watch_model_find_capability(const struct ctl_watch_model *f, struct ctl_view *v)
{
	struct ctl_session s;
	char why[CTL_WHY_SIZE];

	if (!f->settings->home || ctl_token_cache_find(f->settings->home, v->id, &s, why) != CTL_FOUND)
		return;
	replace(&v->capability, s.capability);
	ctl_session_fini(&s);
}

static void record_state(const struct ctl_watch_model *f, struct ctl_view *v, const char *state)
{
	snprintf(v->state, sizeof v->state, "%s", state ? state : "");
	if (strcmp(v->state, sstate_names[S_COMPLETED]) == 0 && v->percent >= 0)
		v->percent = 100;
	if (f->is_table &&
		!v->capability) /* look it up now: the end of the session removes it from the file */
		ctl_watch_model_find_capability(f, v);
}

/* In a table, the last message of a session takes the place of its lines. */
static void record_message(const struct ctl_watch_model *f, struct ctl_view *v, const char *text)
{
	if (f->is_table && text)
		replace(&v->message, text);
}

/* --- ends --- */

static enum ctl_exit exit_of(const char *state)
{
	if (!state)
		return CTL_ERROR;
	switch (name_find(sstate_names, state)) {
	case S_COMPLETED: return CTL_OK;
	case S_FAILED: return CTL_FAILED;
	case S_ABORTED: return CTL_ABORTED;
	case S_REJECTED: return CTL_REJECTED;
	default: return CTL_ERROR;
	}
}

static void forget_oldest(struct ctl_watch_model *f)
{
	struct ctl_view *v, *next;

	HASH_ITER(hh, f->views, v, next) { /* in the order in which they were added */
		if (f->done_count <= DONE_MAX)
			return;
		if (v->is_done) {
			free_view(f, v);
			f->done_count--;
		}
	}
}

/* While a table is drawn, the result waits until the table is gone. For sessions that were not named, only
 * its beginning is printed. */
static void show_result(struct ctl_watch_model *f, struct ctl_view *v)
{
	struct buf text = {0};

	ctl_render_result(&text, v->result);
	if (f->is_table && !f->all)
		replace(&v->outcome, buf_text(&text));
	if (!f->is_table && f->with_session && text.size > 0)
		printf("result of %.8s:\n", v->id);
	if (!f->is_table)
		ctl_term_print(&f->term, text.data ? text.data : "", text.size);
	buf_fini(&text);
}

static void finish(struct ctl_watch_model *f, struct ctl_view *v)
{
	char why[CTL_WHY_SIZE];

	v->is_done = true;
	f->open_count--;
	f->done_count++;
	if (v->result && !f->json)
		show_result(f, v);
	ctl_message_free(v->result);
	v->result = NULL;
	if (f->settings->home && ctl_token_cache_drop(f->settings->home, v->id, why) < 0)
		ctl_say("%s", why);
	if (f->all)
		forget_oldest(f);
}

static int64_t stamp_of(const struct ctl_message *n)
{
	const char *stamp = ctl_message_text(n->json, "timestamp");
	int64_t us, now_us = clock_wall_us();

	return stamp && clock_parse(stamp, &us) && us < now_us ? us : now_us;
}

static void close_view(struct ctl_watch_model *f, struct ctl_view *v, const struct ctl_message *n)
{
	const char *state = ctl_message_text(n->data, "final_state");

	record_state(f, v, state);
	v->is_closed = true;
	v->exit = exit_of(state);
	v->until_us = stamp_of(n);
	v->result_due_us =
		clock_boot_us() + ((v->exit == CTL_OK || v->exit == CTL_FAILED) ? RESULT_WAIT_US : 0);
	if (v->exit == CTL_ABORTED)
		record_message(f, v, ctl_message_text(n->data, "reason"));
}

static bool is_result(const struct ctl_message *n)
{
	return strcmp(n->type, "task_completed") == 0 || strcmp(n->type, "task_failed") == 0;
}

static void record_result(const struct ctl_watch_model *f, struct ctl_view *v, const struct ctl_message *n)
{
	struct buf brief = {0};

	if (!f->is_table)
		return;
	if (strcmp(n->type, "task_failed") == 0) {
		record_message(f, v, ctl_message_text(n->payload, "error_message"));
		return;
	}
	ctl_task_add_json(&brief, json_object_get(n->payload, "outputs"));
	if (brief.size > BRIEF_MAX)
		brief.size = buf_utf8_cut(brief.data, brief.size, BRIEF_MAX);
	record_message(f, v, buf_text(&brief));
	buf_fini(&brief);
}

/* Updates the view of the message's session. */
static void apply(struct ctl_watch_model *f, struct ctl_view *v, struct ctl_message *n)
{
	if (f->json) { /* bodies are passed on unread; only the end matters here */
		if (strcmp(n->event, "session_closed") != 0)
			return;
		ctl_message_open(n);
	}
	if (strcmp(n->event, "progress") == 0) {
		record_progress(v, n);
		if (!v->state[0]) /* the watch began in the middle of the session */
			record_state(f, v, sstate_names[S_RUNNING]);
	} else if (strcmp(n->event, "state_changed") == 0) {
		record_state(f, v, ctl_message_text(n->data, "to_state"));
	} else if (strcmp(n->event, "session_created") == 0) {
		record_state(f, v, ctl_message_text(n->data, "state"));
		v->since_us = stamp_of(n);
	} else if (strcmp(n->event, "session_closed") == 0) {
		close_view(f, v, n);
	} else if (is_result(n)) {
		record_result(f, v, n);
	} else if (n->event[0]) {
		record_message(f, v, ctl_message_text(n->data, "message"));
	}
}

static void wait_until(struct ctl_watch_model *f, int64_t due_us)
{
	if (due_us < f->due_us)
		f->due_us = due_us;
}

/* Handles the messages that are due, in order. */
static void advance(struct ctl_watch_model *f, struct ctl_view *v)
{
	int64_t from, to;
	struct ctl_message *n;

	while ((n = ctl_reorder_take(&v->order, clock_boot_us(), &from, &to))) {
		if (from) {
			ctl_say("session %s: events %lld to %lld are missing; going on without them", v->id,
				(long long)from, (long long)to);
		}
		apply(f, v, n);
		if (!f->is_table && (!f->term.is_live || strcmp(n->event, "progress") != 0))
			ctl_watch_model_show(f, n);
		f->has_news = true;
		ctl_broker_ack(f->broker, n);
		if (is_result(n) && !v->result)
			v->result = n;
		else
			ctl_message_free(n);
	}
	if (v->is_closed && !v->is_done && (v->result || clock_boot_us() >= v->result_due_us))
		finish(f, v);
	if (v->is_closed && !v->is_done)
		wait_until(f, v->result_due_us);
	wait_until(f, ctl_reorder_due_us(&v->order));
}

void ctl_watch_model_take(struct ctl_watch_model *f, struct ctl_message *n)
{
	struct ctl_view *v;
	enum ctl_put put;

	HASH_FIND_STR(f->views, n->session, v);
	if (!v && f->all && id_is_uuid4(n->session))
		v = ctl_watch_model_add(f, n->session, 0);
	if (!v) {
		if (f->all) /* a rejection has no session */
			ctl_watch_model_show(f, n);
		ctl_broker_ack(f->broker, n);
		ctl_message_free(n);
		return;
	}
	put = ctl_reorder_put(&v->order, n, clock_boot_us());
	if (put == CTL_SEEN)
		ctl_broker_ack(f->broker, n);
	if (put != CTL_PUT)
		ctl_message_free(n);
	else
		advance(f, v);
	ctl_watch_screen_draw(f);
}

/* --- time --- */

/* Only when something is due: a pass over thousands of sessions for each message would take too long. */
void ctl_watch_model_tick(struct ctl_watch_model *f)
{
	struct ctl_view *v, *next;

	if (clock_boot_us() >= f->due_us) {
		f->due_us = INT64_MAX;
		HASH_ITER(hh, f->views, v, next)
			if (!v->is_done)
				advance(f, v);
	}
	ctl_watch_screen_draw(f);
}

int64_t ctl_watch_model_due_us(const struct ctl_watch_model *f)
{
	int64_t live_us = ctl_watch_screen_due_us(f);

	return live_us < f->due_us ? live_us : f->due_us;
}

void ctl_watch_model_fini(struct ctl_watch_model *f)
{
	struct ctl_view *v, *next;

	ctl_watch_screen_end(f);
	HASH_ITER(hh, f->views, v, next)
		free_view(f, v);
	buf_fini(&f->notice);
}
