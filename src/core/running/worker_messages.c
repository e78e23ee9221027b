/* SPDX-License-Identifier: MIT */
/* worker_messages.c: the meaning of a worker's lines, one handler a type.
 * Owns the limit on warnings and what is kept of plain output. Never touches a process (run.c). */
#include "core/running/worker_messages.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "core/running/action.h"
#include "core/running/artifacts.h"
#include "json/canonical.h"
#include "base/clock.h"
#include "core/running/checkpoint_pack.h"
#include "core/running/checkpoint_store.h"
#include "core/running/continuity.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "policy/output_check.h"
#include "base/log.h"
#include "core/operator/operator.h"
#include "core/running/large_line.h"
#include "core/running/run.h"
#include "core/running/harp_snapshot.h"
#include "core/running/harp_events.h"
#include "protocol/worker_line.h"

#define BAD_LINES_MAX 10             /* warnings about bad lines of a session ... */
#define BAD_LINES_WINDOW_US 60000000 /* ... in this time */
#define STDERR_TAIL 2048             /* bytes of stderr in task_failed */
#define LAST_MESSAGE_ROOM 16384      /* what a last message needs beside its outputs, summary included */
#define HEAD_ROOM 512                /* bytes of an event around its message */
#define STEP_MAX 256                 /* of a step's name */
#define REASON_MAX 256               /* of a worker's reason for a pause */
#define COUNT_MAX INT64_C(1000000000000000) /* tokens and cost of a session: sums stop here */
#define SHOWN 120                           /* bytes of a bad line in its warning */

/* Appends, and keeps the end: at least `max` bytes and at most twice as many, so that few bytes are moved. */
static void keep_tail(struct buf *b, size_t max, const char *line, size_t size, bool newline)
{
	buf_add(b, line, size);
	if (newline)
		buf_add(b, "\n", 1);
	if (b->size > 2 * max)
		buf_drop(b, b->size - max);
}

/* The last `max` bytes at most. */
static void cut_tail(struct buf *b, size_t max)
{
	if (b->size > max)
		buf_drop(b, b->size - max);
}

void worker_message_end_complaints(struct session *s)
{
	if (s->run.bad_lines > BAD_LINES_MAX)
		log_warn(
			"warnings about what a worker says were left out: session=%.8s capability=%s "
			"count=%u",
			s->id, s->capability, s->run.bad_lines - BAD_LINES_MAX);
	s->run.bad_lines = 0;
}

bool worker_message_may_complain(struct session *s)
{
	int64_t now = clock_boot_us();

	if (now - s->run.bad_lines_since_us > BAD_LINES_WINDOW_US || s->run.bad_lines_since_us == 0) {
		worker_message_end_complaints(s);
		s->run.bad_lines_since_us = now;
	}
	return s->run.bad_lines++ < BAD_LINES_MAX;
}

static void bad_line(struct session *s, const char *why, const char *line, size_t size)
{
	if (worker_message_may_complain(s))
		session_warn(s, "bad_line", "a line of the worker was dropped: %s: %.*s%s", why,
			(int)(size < SHOWN ? size : SHOWN), line, size > SHOWN ? "..." : "");
}

static void log_line(struct session *s, const char *stream, const char *line, size_t size, bool cut)
{
	static const char head[] = "{\"level\":\"info\",\"message\":";
	size_t most = (size_t)s->core->first_policy->config->max_message - HEAD_ROOM - sizeof head - 1;
	size_t fits = buf_json_cut(line, size, most);
	struct buf *b = session_begin_event(s, "log");

	buf_add_text(b, head);
	buf_add_json(b, line, fits);
	buf_addf(b, ",\"details\":{\"stream\":\"%s\"%s}}", stream,
		cut || fits < size ? ",\"truncated\":true" : "");
	session_end_event(s, "log");
}

/* The session is no longer PAUSED for being idle. */
static void end_idle_pause(struct session *s)
{
	if (s->state == S_PAUSED && s->pause.by == PAUSED_BY_IDLE && !s->run.is_exiting &&
		!session_has_outcome(s)) {
		checkpoint_request_on_resumed(s);
		session_run(s, "resumed", "worker");
	}
}

/* A line makes an event: the session is not idle. */
static void show_activity(struct session *s)
{
	s->run.active_us = clock_boot_us();
	end_idle_pause(s);
}

/* ---- handlers ---- */

static void on_event(struct session *s, const struct worker_line *l)
{
	const char *type = worker_line_type_name(l->type);
	bool stored;

	worker_line_add_data(l, session_begin_event(s, type));
	stored = session_end_event(s, type);
	if (l->type == WL_WARNING && stored)
		session_record_warning(s, worker_line_string(l, "message", ""));
	if (l->type == WL_PROGRESS && l->root != NULL)
		harp_events_stage(s, worker_line_string(l, "stage", ""));
}

static void on_step(struct session *s, const struct worker_line *l)
{
	const char *name = worker_line_string(l, "name", "");

	free(s->summary.step);
	s->summary.step = xstrndup(name, buf_utf8_cut(name, strlen(name), STEP_MAX));
	s->summary.steps++;
	session_mark_dirty(s);
	checkpoint_request_on_step(s);
}

static int64_t count_of(const struct worker_line *l, const char *name)
{
	double v = json_number_value(worker_line_get(l, name));

	return v > 0 && v < (double)COUNT_MAX ? (int64_t)v : 0;
}

static void add_count(int64_t *sum, int64_t more)
{
	*sum = *sum < COUNT_MAX - more ? *sum + more : COUNT_MAX;
}

static void on_usage(struct session *s, const struct worker_line *l)
{
	double cost = json_number_value(worker_line_get(l, "cost"));

	add_count(&s->summary.tokens_in, count_of(l, "tokens_in"));
	add_count(&s->summary.tokens_out, count_of(l, "tokens_out"));
	s->summary.cost += cost > 0 ? cost : 0;
	if (s->summary.cost > (double)COUNT_MAX)
		s->summary.cost = (double)COUNT_MAX;
	session_mark_dirty(s);
}

static void on_artifact(struct session *s, const struct worker_line *l)
{
	const json_t *name = worker_line_get(l, "name"), *path = worker_line_get(l, "path");

	artifact_announce(s, json_string_value(name), json_string_length(name), json_string_value(path),
		json_string_length(path), json_string_value(worker_line_get(l, "mime")));
}

static void on_paused(struct session *s, const struct worker_line *l)
{
	const char *said = worker_line_string(l, "reason", ""), *before = "";
	char reason[REASON_MAX + 1];

	if (s->state == S_PAUSED &&
		s->pause.by == PAUSED_BY_IDLE) { /* from here on events do not end the pause */
		s->pause.by = s->pause.request == REQUEST_PAUSE && s->pause.replies_pending > 0 ?
			PAUSED_BY_OPERATOR :
			PAUSED_BY_WORKER;
		session_mark_dirty(s);
		(void)operator_on_paused(s);
		return;
	}
	if (operator_on_paused(s)) {
		run_consider_free(s);
		return;
	}
	if (s->state != S_RUNNING) {
		bad_line(s, "paused, but the session does not run", l->text, l->size);
		return;
	}
	if (*said == '\0')
		said = "paused_by_worker";
	else if (name_find(reason_names, said) >= 0) /* others match on the daemon's own */
		before = "paused_by_worker: ";
	snprintf(reason, sizeof reason, "%s%.*s", before, (int)buf_utf8_cut(said, strlen(said), REASON_MAX),
		said);
	session_transition(s, S_PAUSED, reason, "worker");
	s->pause.by = PAUSED_BY_WORKER;
	run_consider_free(s);
}

static void on_resumed(struct session *s, const struct worker_line *l)
{
	bool was_paused = s->state == S_PAUSED;

	checkpoint_request_on_resumed(s);
	if (s->run.is_exiting)
		/* its reply came too late: the session starts again from its checkpoint */
		return;
	if (!operator_on_resumed(s)) {
		if (was_paused)
			session_run(s, "resumed", "worker");
		else
			bad_line(s, "resumed, but the session is not paused", l->text, l->size);
	}
	if (was_paused && s->state == S_RUNNING)
		s->run.active_us = clock_boot_us();
}

/* A numeric outputs.confidence below the task's threshold costs a warning only. */
static void check_confidence(struct session *s, const json_t *outputs)
{
	const json_t *confidence = json_object_get(outputs, "confidence");
	struct buf task = {0};
	json_t *root;
	char why[256];

	if (!json_is_number(confidence) || store_load_task(s->core->store, s->key, &task) <= 0)
		return;
	if ((root = jtext_parse(task.data, task.size, why, sizeof why)) != NULL) {
		const json_t *wanted =
			json_object_get(json_object_get(root, "constraints"), "confidence_threshold");

		if (json_is_number(wanted) && json_number_value(confidence) < json_number_value(wanted))
			session_warn(s, "low_confidence",
				"the outputs' confidence %g is below the threshold %g",
				json_number_value(confidence), json_number_value(wanted));
		json_decref(root);
	}
	buf_fini(&task);
}

static bool fits_last_message(const struct session *s, size_t size)
{
	return (int64_t)(size + LAST_MESSAGE_ROOM + s->summary.warnings.size + s->summary.risk_events.size +
		       artifacts_room(s)) <= s->core->first_policy->config->max_message;
}

/* The outputs are not what was promised: the session fails, with the outputs as partial ones. */
static void fail_unfit(struct session *s, const struct output_failure *f, const struct buf *outputs)
{
	struct buf b = {0}, details = {0};

	buf_add_text(&details, "\"unfit_for\":");
	buf_add_json(&details, f->against, strlen(f->against));
	if (f->missing.size > 0) {
		buf_add_text(&details, ",\"missing\":[");
		buf_add(&details, f->missing.data, f->missing.size);
		buf_add_text(&details, "]");
	}
	buf_add_text(&b, "{\"error_code\":\"execution_error\",\"error_message\":");
	buf_add_json(&b, f->message, strlen(f->message));
	buf_add_text(&b, ",\"error_details\":{");
	session_add_details(s, &b, "completion");
	buf_addf(&b, ",%s},\"partial_outputs\":", buf_text(&details));
	buf_add(&b, outputs->data, outputs->size);
	buf_add_text(&b, "}");
	if (fits_last_message(s, b.size))
		session_set_outcome(s, S_FAILED, "worker_failed", "worker", b.data, b.size);
	else
		session_fail(s, "worker_failed", "execution_error", "worker", buf_text(&details),
			"%s; and they are over the message limit", f->message);
	CRASH_POINT(worker_messages_unfit);
	buf_fini(&b);
	buf_fini(&details);
}

/* Do the outputs fit what was promised? text: the outputs as text. False: the failure is decided. */
static bool are_promised(struct session *s, const json_t *outputs, const struct buf *text)
{
	struct output_failure f;
	bool fit = output_check_run(s->run.output_check, s->run.cap->output_schema, outputs, &f);

	if (!fit)
		fail_unfit(s, &f, text);
	output_failure_fini(&f);
	return fit;
}

static void on_completed(struct session *s, const struct worker_line *l)
{
	const json_t *outputs = worker_line_get(l, "outputs");
	json_t *none = outputs == NULL ? json_object() : NULL;
	struct buf text = {0}, b = {0};

	worker_line_add_raw(l, &text, "outputs", "{}");
	check_confidence(s, outputs);
	buf_add_text(&b, "{\"outputs\":");
	buf_add(&b, text.data, text.size);
	buf_add_text(&b, "}");
	if (!are_promised(s, outputs != NULL ? outputs : none, &text))
		log_warn("the outputs are not what was promised: session=%.8s", s->id);
	else if (fits_last_message(s, b.size))
		session_set_outcome(s, S_COMPLETED, "completed", "worker", b.data, b.size);
	else
		session_fail(s, "worker_failed", "execution_error", "worker", NULL,
			"the outputs of %zu bytes are over the message limit of %lld", b.size,
			(long long)s->core->first_policy->config->max_message);
	json_decref(none);
	buf_fini(&text);
	buf_fini(&b);
	run_stop_or_finish(s);
}

static const char *known_code(const char *code)
{
	static const char *const codes[] = {"execution_error", "timeout", "safety_violation",
		"resource_unavailable", "internal_error", "input_error"};

	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		if (code != NULL && strcmp(codes[i], code) == 0)
			return codes[i];
	return "execution_error";
}

/* The worker's details, and the daemon's for members that the worker left out. */
static void add_details(struct session *s, const struct worker_line *l, struct buf *b)
{
	static const char *const ours[] = {"phase", "step", "last_checkpoint", "recoverable"};
	const json_t *theirs = worker_line_get(l, "error_details");
	struct buf mine = {0}, raw = {0};

	buf_add_text(&mine, "{");
	session_add_details(s, &mine, "execution");
	buf_add_text(&mine, "}");
	worker_line_add_raw(l, &raw, "error_details", "{}");
	buf_add(b, raw.data, raw.size - 1); /* without the closing brace */
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
		struct jslice v = jtext_member(mine.data, mine.size, ours[i]);

		if (json_object_get(theirs, ours[i]) != NULL)
			continue;
		buf_addf(b, "%s\"%s\":", b->data[b->size - 1] == '{' ? "" : ",", ours[i]);
		buf_add(b, v.at, v.size);
	}
	buf_add_text(b, "}");
	buf_fini(&mine);
	buf_fini(&raw);
}

static void on_failed(struct session *s, const struct worker_line *l)
{
	const char *code = known_code(json_string_value(worker_line_get(l, "error_code")));
	const char *message = worker_line_string(l, "error_message", "the worker says that it failed");
	struct buf b = {0};

	buf_addf(&b, "{\"error_code\":\"%s\",\"error_message\":", code);
	buf_add_json(&b, message, strlen(message));
	buf_add_text(&b, ",\"error_details\":");
	add_details(s, l, &b);
	buf_add_text(&b, ",\"partial_outputs\":");
	worker_line_add_raw(l, &b, "partial_outputs", "{}");
	buf_add_text(&b, "}");
	if (fits_last_message(s, b.size))
		session_set_outcome(s, S_FAILED, "worker_failed", "worker", b.data, b.size);
	else
		session_fail(s, "worker_failed", code, "worker", NULL,
			"%.512s (what else the worker said, %zu bytes, is over the message limit)", message,
			b.size);
	buf_fini(&b);
	run_stop_or_finish(s);
}

static void on_snapshot(struct session *s, const struct worker_line *l)
{
	struct harp_reading r;

	harp_reading_load(&r, s, l);
	harp_reading_make(&r, l);
	harp_snapshot_reported(s, &r);
	harp_reading_fini(&r);
}

static void (*const handlers[WL_COUNT])(struct session *s, const struct worker_line *l) = {
	[WL_PROGRESS] = on_event,
	[WL_INTERMEDIATE_RESULT] = on_event,
	[WL_LOG] = on_event,
	[WL_WARNING] = on_event,
	[WL_ERROR] = on_event,
	[WL_STEP] = on_step,
	[WL_USAGE] = on_usage,
	[WL_ARTIFACT] = on_artifact,
	[WL_ACTION] = action_announced,
	[WL_SNAPSHOT] = on_snapshot,
	[WL_CONTINUITY] = continuity_record,
	[WL_PAUSED] = on_paused,
	[WL_RESUMED] = on_resumed,
	[WL_COMPLETED] = on_completed,
	[WL_FAILED] = on_failed,
};

/* Tracks whether the latest checkpoint has all work, as far as the worker reports it. */
static void track_work(struct session *s, const struct worker_line *l, const char *checkpoint_before)
{
	if (l->type == WL_CHECKPOINT) {
		/* the checkpoint was stored and is resumable */
		s->checkpoint.is_saved = strcmp(checkpoint_before, s->checkpoint.last_id) != 0;
		action_on_checkpoint(s);
		if (s->checkpoint.is_saved)
			/* only then: another request would bring the same checkpoint again */
			run_consider_free(s);
	} else if (l->type != WL_PAUSED && l->type != WL_LOG) {
		s->checkpoint.is_saved = false;
	}
}

/* A broken line. An action and a checkpoint are answered, since their worker waits; a snapshot is refused in
 * HARP's words. */
void worker_message_refuse(
	struct session *s, const char *why, const char *line, size_t size, const struct worker_line *salvaged)
{
	if (salvaged != NULL && salvaged->type == WL_SNAPSHOT)
		harp_snapshot_unreadable(s, why);
	else
		bad_line(s, why, line, size);
	if (salvaged != NULL && salvaged->type == WL_ACTION)
		action_unreadable(s, salvaged, why);
	if (salvaged != NULL && salvaged->type == WL_CHECKPOINT && !session_has_outcome(s))
		checkpoint_store_refuse(s, salvaged, why);
}

/* A checkpoint makes an event once it is kept (checkpoint_store.c). One that hcpd asked an idle worker for
 * leaves the session PAUSED. */
static void note_activity(struct session *s, const struct worker_line *l)
{
	if (worker_line_is_event(l))
		show_activity(s);
	else if (l->type == WL_CHECKPOINT && s->checkpoint.request.pending == CHECKPOINT_BY_WORKER)
		end_idle_pause(s);
}

void worker_message_take(struct session *s, const struct worker_line *l, const struct checkpoint_pack *p,
	const struct harp_reading *r)
{
	char checkpoint_before[ID_SIZE];

	/* After the outcome is decided, events are still published until the pipe is empty, and actions and
	 * snapshots get their replies. All other lines are too late. */
	memcpy(checkpoint_before, s->checkpoint.last_id, ID_SIZE);
	note_activity(s, l);
	if (!session_has_outcome(s) || worker_line_is_event(l) || l->type == WL_ACTION ||
		l->type == WL_SNAPSHOT) {
		if (l->type == WL_CHECKPOINT)
			checkpoint_store_put(s, l, p);
		else if (l->type == WL_SNAPSHOT && r != NULL)
			harp_snapshot_reported(s, r);
		else
			handlers[l->type](s, l);
		track_work(s, l, checkpoint_before);
	} else if (l->type == WL_COMPLETED || l->type == WL_FAILED)
		bad_line(s, "the session's end was decided before", l->text, l->size);
}

static void bad_hcp_line(struct session *s, const char *why, const char *line, size_t size)
{
	struct worker_line l;
	bool has_type = worker_line_salvage(&l, line, size);

	worker_message_refuse(s, why, line, size, has_type ? &l : NULL);
	if (has_type)
		worker_line_fini(&l);
}

static void parsed_line(struct session *s, const char *line, size_t size)
{
	struct checkpoint_pack p = {.is_made = false};
	struct worker_line l;
	char why[320];

	if (worker_line_read(&l, line, size, s->core->policy->config->max_depth, why, sizeof why) < 0) {
		bad_hcp_line(s, why, line, size);
		return;
	}
	if (l.type == WL_CHECKPOINT && !session_has_outcome(s)) {
		checkpoint_pack_load(&p, s, size);
		checkpoint_pack_make(&p, &l);
	}
	worker_message_take(s, &l, &p, NULL);
	checkpoint_pack_fini(&p);
	worker_line_fini(&l);
}

/* Most lines only become an event, and need no tree. HARP's events want to know the stage. */
static void hcp_line(struct session *s, const char *line, size_t size)
{
	struct worker_line l;

	if (s->harp_session.events == NULL && worker_line_scan(&l, line, size))
		worker_message_take(s, &l, NULL, NULL);
	else
		parsed_line(s, line, size);
}

void worker_message_read(
	struct session *s, enum worker_stream stream, const char *line, size_t size, enum line_kind kind)
{
	const struct config *config = s->core->policy->config;
	bool too_long = kind == LINE_TOO_LONG;
	char why[64];

	if (stream == WORKER_STDERR || s->run.cap->config->protocol == PROTOCOL_TEXT)
		show_activity(s);
	if (stream == WORKER_STDERR) {
		keep_tail(&s->run.stderr_tail, STDERR_TAIL, line, size, true);
		log_line(s, "stderr", line, size, too_long);
	} else if (s->run.cap->config->protocol == PROTOCOL_TEXT) {
		keep_tail(&s->run.text_output, (size_t)config->max_text_output, line, size,
			kind != LINE_UNENDED);
		s->run.text_cut |= too_long || s->run.text_output.size > (size_t)config->max_text_output;
		log_line(s, "stdout", line, size, too_long);
	} else if (too_long) {
		snprintf(why, sizeof why, "longer than %lld bytes", (long long)config->max_line);
		bad_line(s, why, line, size);
	} else if (large_line_is(s, size)) {
		large_line_begin(s, line, size);
	} else if (size > 0) {
		hcp_line(s, line, size);
	}
}

/* ---- the end of a worker ---- */

static void text_completed(struct session *s)
{
	struct buf b = {0}, text = {0};
	json_t *outputs;
	char why[64];

	cut_tail(&s->run.text_output, (size_t)s->core->policy->config->max_text_output);
	buf_add_text(&text, "{\"stdout\":");
	buf_add_json(&text, s->run.text_output.data, s->run.text_output.size);
	buf_add_text(&text, s->run.text_cut ? ",\"truncated\":true}" : "}");
	buf_add_text(&b, "{\"outputs\":");
	buf_add(&b, text.data, text.size);
	buf_add_text(&b, "}");
	outputs = jtext_parse(text.data, text.size, why, sizeof why);
	if (!are_promised(s, outputs, &text))
		log_warn("the output is not what was promised: session=%.8s", s->id);
	else if (fits_last_message(s, b.size))
		session_set_outcome(s, S_COMPLETED, "completed", "worker", b.data, b.size);
	else
		session_fail(s, "worker_failed", "execution_error", "worker", NULL,
			"the output is over the message limit");
	json_decref(outputs);
	buf_fini(&text);
	buf_fini(&b);
}

void worker_message_death(struct session *s)
{
	int status = s->run.exit_status;
	bool text = s->run.cap->config->protocol == PROTOCOL_TEXT;
	struct buf details = {0};

	if (text && status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		text_completed(s);
		return;
	}
	cut_tail(&s->run.stderr_tail, STDERR_TAIL);
	if (status != -1 && WIFSIGNALED(status))
		buf_addf(&details, "\"signal\":%d,\"stderr\":", WTERMSIG(status));
	else
		buf_addf(&details, "\"exit_status\":%d,\"stderr\":", status != -1 ? WEXITSTATUS(status) : -1);
	buf_add_json(&details, s->run.stderr_tail.data, s->run.stderr_tail.size);
	if (s->attempts.deaths > 1)
		buf_addf(&details, ",\"deaths\":%lld", (long long)s->attempts.deaths);
	if (status != -1 && WIFSIGNALED(status))
		session_fail(s, "worker_failed", "execution_error", "worker", buf_text(&details),
			"the worker was killed by signal %d (%s)", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else if (text)
		session_fail(s, "worker_failed", "execution_error", "worker", buf_text(&details),
			"the worker ended with status %d", status != -1 ? WEXITSTATUS(status) : -1);
	else
		session_fail(s, "worker_failed", "execution_error", "worker", buf_text(&details),
			"the worker ended with status %d and neither completed nor failed",
			status != -1 ? WEXITSTATUS(status) : -1);
	buf_fini(&details);
}
