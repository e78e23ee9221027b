/* SPDX-License-Identifier: MIT */
/* show.c: `hcpctl show`: one session as a page.
 * Owns the order and the texts of the page.
 * Never sends a second request: the daemon's items come in the order of the page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hcpctl/common/op_common.h"
#include "hcpctl/common/render.h"
#include "hcpctl/common/terminal.h"
#include "base/duration.h"
#include "json/text.h"
#include "protocol/worker_line.h"
#include "protocol/names.h"

enum { OPT_JSON = 256, LABEL = 13, PRETTY_LINES = 40 };

#define STAMP "%Y-%m-%d %H:%M:%S"

enum part { PART_NONE, PART_TIMELINE, PART_CHECKPOINTS, PART_ARTIFACTS };

struct page {
	bool is_json, colour;
	enum part part; /* title of the part that was printed last */
	char state[16];
	bool is_over, has_live;
	bool has_timeline;  /* the last line of the timeline is open, ... */
	int64_t entered_us; /* ... and its state began then */
};

/* ---- lines ---- */

static void put(const char *text, size_t size)
{
	struct buf b = {0};

	ctl_escape(&b, text, size, false);
	ctl_op_print(&b);
	buf_fini(&b);
}

static void put_text(const char *text)
{
	put(text, strlen(text));
}

static void label(const char *name)
{
	printf("%-*s", LABEL, name);
}

static void title(struct page *p, const char *name)
{
	printf("\n%s%s%s\n", p->colour ? ctl_table_colour('b') : "", name, p->colour ? "\033[0m" : "");
}

static void begin_part(struct page *p, enum part part, const char *name)
{
	if (p->part != part)
		title(p, name);
	p->part = part;
}

static void put_state(const struct page *p, const char *state)
{
	const char *colour = p->colour ? ctl_table_colour(ctl_table_shade(state)) : "";

	fputs(colour, stdout);
	put_text(state);
	fputs(*colour ? "\033[0m" : "", stdout);
}

static long long count_of(const json_t *o, const char *name)
{
	return (long long)json_integer_value(json_object_get(o, name));
}

/* `created      2026-11-16 11:03:31 (5m ago)`; nothing where it is not set. */
static void put_instant(const json_t *s, const char *name, const char *shown)
{
	char at[CTL_SPAN_SIZE], age[CTL_SPAN_SIZE];
	int64_t ago = ctl_op_since(s, name);

	if (!json_is_string(json_object_get(s, name)))
		return;
	ctl_op_local(s, name, STAMP, at);
	ctl_age(ago < 0 ? -ago : ago, age);
	label(shown);
	printf("%s (%s%s%s)\n", at, ago < 0 ? "in " : "", age, ago < 0 ? "" : " ago");
}

/* A state's line in the timeline is completed when the next state is known. */
static void begin_state(const struct page *p, const json_t *o, const char *at, const char *state)
{
	char stamp[CTL_SPAN_SIZE];

	ctl_op_local(o, at, STAMP, stamp);
	printf("  %s  ", stamp);
	put_state(p, state);
	printf("%*s", strlen(state) < 10 ? (int)(10 - strlen(state)) : 1, "");
}

/* ---- the session ---- */

/* Before a task is accepted, a policy program or a human may have to decide. Only a human gets hours or days
 * for it, so only then the time limit is printed. */
static void put_waits(const json_t *s)
{
	char at[CTL_SPAN_SIZE], left[CTL_SPAN_SIZE];

	if (strcmp(ctl_op_text(s, "waits_for"), "program") == 0)
		printf(", waiting for the policy program");
	if (strcmp(ctl_op_text(s, "waits_for"), "human") != 0)
		return;
	printf(", waiting for a human");
	if (!*ctl_op_text(s, "waits_until"))
		return;
	ctl_op_local(s, "waits_until", STAMP, at);
	ctl_age(-ctl_op_since(s, "waits_until"), left);
	printf(" until %s (in %s; hcpctl approvals)", at, left);
}

static void put_head(struct page *p, const json_t *s)
{
	label("session");
	put_text(ctl_op_text(s, "session_id"));
	printf("\n");
	label("state");
	put_state(p, p->state);
	if (json_is_string(json_object_get(s, "paused_by"))) {
		printf(", paused by ");
		put_text(ctl_op_text(s, "paused_by"));
	}
	put_waits(s);
	if (count_of(s, "attempt") > 1)
		printf(", attempt %lld", count_of(s, "attempt"));
	if (count_of(s, "deaths") > 0)
		printf(", its worker died %lld time%s", count_of(s, "deaths"),
			count_of(s, "deaths") == 1 ? "" : "s");
	printf("\n");
	label("capability");
	put_text(ctl_op_text(s, "capability"));
	printf(" ");
	put_text(ctl_op_text(s, "capability_version"));
	printf("\n");
	label("caller");
	put_text(ctl_op_text(s, "caller_id"));
	printf("\n");
	label("priority");
	printf("%s, risk %s, data %s\n", ctl_op_text(s, "priority"), ctl_op_text(s, "risk_level"),
		ctl_op_text(s, "data_classification"));
}

/* A deadline that differs from the original one was moved by an operator. Stored times are cut to
 * milliseconds. */
static void put_extension(const json_t *s)
{
	char text[DURATION_TEXT_SIZE];
	int64_t started, deadline, by;

	if (!clock_parse(ctl_op_text(s, "started_at"), &started) ||
		!clock_parse(ctl_op_text(s, "deadline"), &deadline))
		return;
	by = deadline - started - (int64_t)count_of(s, "max_duration_us");
	if (by <= 2000)
		return;
	duration_format((by + 999) / 1000 * 1000, text);
	printf(", extended by %s", text);
}

static void put_times(const struct page *p, const json_t *s)
{
	char text[DURATION_TEXT_SIZE];

	put_instant(s, "created_at", "created");
	put_instant(s, "started_at", "started");
	put_instant(s, "updated_at", p->is_over ? "ended" : "changed");
	if (!p->is_over)
		put_instant(s, "deadline", "deadline");
	duration_format(count_of(s, "max_duration_us"), text);
	label("max duration");
	printf("%s", text);
	put_extension(s);
	printf("\n");
}

static void put_usage(const json_t *s)
{
	label("usage");
	printf("%lld steps", count_of(s, "steps"));
	if (json_is_string(json_object_get(s, "step"))) {
		printf(" (last: ");
		put_text(ctl_op_text(s, "step"));
		printf(")");
	}
	printf(", %lld tokens in, %lld out, cost %.6g, %lld checkpoints\n", count_of(s, "tokens_in"),
		count_of(s, "tokens_out"), json_number_value(json_object_get(s, "cost")),
		count_of(s, "checkpoints"));
	label("messages");
	printf("%lld, the last event has sequence %lld", count_of(s, "events"), count_of(s, "last_sequence"));
	if (count_of(s, "unconfirmed") > 0)
		printf("; %lld not yet taken by the broker", count_of(s, "unconfirmed"));
	printf("\n");
}

static void put_list(const json_t *s, const char *name)
{
	const json_t *list = json_object_get(s, name), *one;
	size_t i;

	json_array_foreach(list, i, one) {
		label(i ? "" : name);
		put_text(json_is_string(one) ? json_string_value(one) : "?");
		printf("\n");
	}
}

/* A page is for reading: long values are cut. */
static void put_pretty(const char *name, struct jslice value)
{
	struct buf b = {0};
	size_t at = 0, lines = 0;

	if (value.at == NULL || value.size <= 2) /* {} and "" carry no information */
		return;
	ctl_render_pretty(&b, value.at, value.size);
	printf("  %s\n", name);
	for (size_t size; at < b.size; at += size + 1) {
		const char *line = b.data + at, *end = memchr(line, '\n', b.size - at);

		size = end ? (size_t)(end - line) : b.size - at;
		if (lines++ < PRETTY_LINES)
			printf("    %.*s\n", (int)size, line);
	}
	if (lines > PRETTY_LINES)
		printf("    ... %zu lines more; --json has them\n", lines - PRETTY_LINES);
	buf_fini(&b);
}

static void put_task(struct page *p, const char *json, size_t size)
{
	struct jslice session = jtext_member(json, size, "session"),
		      task = jtext_member(session.at, session.size, "task");
	json_t *parsed = jtext_load(task.at ? task.at : "{}", task.at ? task.size : 2, 0, NULL);

	title(p, "task");
	printf("  intent     ");
	put_text(ctl_op_text(parsed, "intent"));
	printf("\n");
	put_pretty("inputs", jtext_member(task.at, task.size, "inputs"));
	put_pretty("constraints", jtext_member(task.at, task.size, "constraints"));
	json_decref(parsed);
}

static void put_error(const json_t *s)
{
	const json_t *e = json_object_get(s, "last_error");

	if (!json_is_object(e))
		return;
	label("last error");
	put_text(ctl_op_text(e, "code"));
	printf(": ");
	put_text(ctl_op_text(e, "message"));
	printf("\n");
}

static bool is_over(const char *state)
{
	switch (name_find(sstate_names, state)) {
	case S_COMPLETED:
	case S_FAILED:
	case S_ABORTED:
	case S_REJECTED: return true;
	default: return false;
	}
}

static void on_session(struct page *p, const json_t *s, const char *json, size_t size)
{
	int64_t us;

	snprintf(p->state, sizeof p->state, "%s", ctl_op_text(s, "state"));
	p->is_over = is_over(p->state);
	if (clock_parse(ctl_op_text(s, "created_at"), &us))
		p->entered_us = us;
	put_head(p, s);
	put_times(p, s);
	put_usage(s);
	put_list(s, "warnings");
	put_error(s);
	put_task(p, json, size);
	begin_part(p, PART_TIMELINE, "timeline");
	begin_state(p, s, "created_at", sstate_names[S_PENDING]);
	p->has_timeline = true;
}

/* ---- the timeline ---- */

static void on_transition(struct page *p, const json_t *t)
{
	char span[CTL_SPAN_SIZE];
	int64_t at;

	if (!clock_parse(ctl_op_text(t, "at"), &at))
		at = p->entered_us;
	ctl_span(at - p->entered_us, span);
	printf(" for %s\n", span);
	begin_state(p, t, "at", ctl_op_text(t, "to"));
	put_text(ctl_op_text(t, "reason"));
	printf(" (");
	put_text(ctl_op_text(t, "actor"));
	printf(")");
	p->entered_us = at;
}

static void end_timeline(struct page *p)
{
	char span[CTL_SPAN_SIZE];

	if (!p->has_timeline)
		return;
	p->has_timeline = false;
	ctl_span(clock_wall_us() - p->entered_us, span);
	if (p->is_over)
		printf("\n");
	else
		printf(" for %s until now\n", span);
}

/* ---- the rest ---- */

static void on_checkpoint(struct page *p, const json_t *c)
{
	char at[CTL_SPAN_SIZE], size[CTL_SPAN_SIZE];

	begin_part(p, PART_CHECKPOINTS, "checkpoints");
	ctl_op_local(c, "created_at", STAMP, at);
	ctl_size(count_of(c, "size"), size);
	printf("  %s  ", at);
	put(ctl_op_text(c, "checkpoint_id"), strnlen(ctl_op_text(c, "checkpoint_id"), 8));
	printf("  %s%s  ", size,
		json_is_string(json_object_get(c, "damage"))          ? ", damaged" :
			json_is_true(json_object_get(c, "resumable")) ? "" :
									", not resumable");
	put_text(ctl_op_text(c, "description"));
	printf("\n");
}

static void on_artifact(struct page *p, const json_t *a)
{
	char size[CTL_SPAN_SIZE];

	begin_part(p, PART_ARTIFACTS, "artifacts");
	ctl_size(count_of(a, "size_bytes"), size);
	printf("  ");
	put_text(ctl_op_text(a, "name"));
	printf("  %s, ", size);
	put_text(ctl_op_text(a, "type"));
	printf(", ");
	put_text(ctl_op_text(a, "uri"));
	printf("\n");
}

static void on_result(struct page *p, const json_t *r, const char *json, size_t size)
{
	struct jslice result = jtext_member(json, size, "result"),
		      payload = jtext_member(result.at, result.size, "payload");
	const json_t *parsed = json_object_get(r, "payload");

	title(p, strcmp(ctl_op_text(r, "type"), "task_failed") == 0 ? "error" : "result");
	if (*ctl_op_text(parsed, "error_code")) {
		printf("  ");
		put_text(ctl_op_text(parsed, "error_code"));
		printf(": ");
		put_text(ctl_op_text(parsed, "error_message"));
		printf("\n");
	}
	put_pretty("details", jtext_member(payload.at, payload.size, "error_details"));
	put_pretty("outputs", jtext_member(payload.at, payload.size, "outputs"));
	put_pretty("partial outputs", jtext_member(payload.at, payload.size, "partial_outputs"));
}

static void put_points(const json_t *k, const char *name, const char *shown)
{
	const json_t *list = json_object_get(k, name), *one;
	size_t i;

	json_array_foreach(list, i, one) {
		printf("  %-*s", LABEL, i ? "" : shown);
		put_text(json_is_string(one) ? json_string_value(one) : "?");
		printf("\n");
	}
}

static void on_continuity(struct page *p, const json_t *k)
{
	title(p, "for those who continue it");
	printf("  %-*s", LABEL, "completion");
	put_text(*ctl_op_text(k, "completion") ? ctl_op_text(k, "completion") : "not over yet");
	printf("\n  %-*s", LABEL, "summary");
	put_text(ctl_op_text(k, "summary"));
	printf("\n");
	put_points(k, "decisions", "decisions");
	put_points(k, "open_questions", "open");
	put_points(k, "next_steps", "next steps");
}

/* The daemon names the pending request; the texts are here. */
static void put_asked(const json_t *l)
{
	static const char *const words[][2] = {
		{"pause", "to pause"}, {"resume", "to go on"}, {"checkpoint", "for a checkpoint"}};
	char ago[CTL_SPAN_SIZE];

	ctl_span((int64_t)(json_number_value(json_object_get(l, "asked_seconds")) * 1e6), ago);
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strcmp(ctl_op_text(l, "asked"), words[i][0]) == 0)
			printf("  was asked %s %s ago, and has not answered yet\n", words[i][1], ago);
}

/* Why the session waits for a slot; a daemon of an older version does not say. */
static void put_slot(const json_t *l)
{
	static const char *const words[][2] = {
		{"draining", "the daemon is draining"},
		{"max_sessions", "max_sessions run"},
		{"concurrent_limit", "as many of its capability run as may"},
		{"max_running", "as many of its caller run as may"},
	};
	const char *why = ctl_op_text(l, "waits_why"), *text = NULL;

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strcmp(why, words[i][0]) == 0)
			text = words[i][1];
	printf("  waits for a free slot%s%s", text != NULL ? ": " : "", text != NULL ? text : "");
	if (*why != '\0')
		printf("; of its caller %lld run and %lld wait", count_of(l, "caller_running"),
			count_of(l, "caller_waiting"));
	printf("\n");
}

static void on_live(struct page *p, const json_t *l)
{
	char memory[CTL_SPAN_SIZE], idle[CTL_SPAN_SIZE], outbox[CTL_SPAN_SIZE];

	p->has_live = true;
	title(p, "worker");
	if (json_is_true(json_object_get(l, "waits_for_slot")))
		put_slot(l);
	if (count_of(l, "pid") == 0) {
		printf(json_is_true(json_object_get(l, "migrating")) ?
				"  none yet: the session goes on by itself once its state is migrated\n" :
				"  has no process now\n");
		return;
	}
	ctl_size(count_of(l, "rss_bytes"), memory);
	ctl_size(count_of(l, "outbox_bytes"), outbox);
	ctl_span((int64_t)(json_number_value(json_object_get(l, "idle_seconds")) * 1e6), idle);
	printf("  pid %lld, %lld process%s, %s of memory, %.1f s of processor time\n", count_of(l, "pid"),
		count_of(l, "processes"), count_of(l, "processes") == 1 ? "" : "es", memory,
		json_number_value(json_object_get(l, "cpu_seconds")));
	printf("  last heard of %s ago; %s wait for the caller%s\n", idle, outbox,
		json_is_false(json_object_get(l, "reads")) ? "; its output is not read until they are taken" :
							     "");
	put_asked(l);
	if (count_of(l, "checkpoints_unanswered") > 0)
		printf("  left the last %s unanswered%s\n",
			count_of(l, "checkpoints_unanswered") == 1 ? "request for a checkpoint" :
								     "requests for checkpoints",
			count_of(l, "checkpoints_unanswered") >= CHECKPOINT_UNANSWERED_MAX ?
				": it is no longer asked by itself" :
				"");
}

static bool on_item(void *ctx, const char *json, size_t size)
{
	struct page *p = ctx;
	json_t *item;
	const json_t *v;

	if (p->is_json)
		return ctl_op_print_json(NULL, json, size);
	item = jtext_load(json, size, JSON_ALLOW_NUL, NULL);
	if ((v = json_object_get(item, "transition"))) {
		on_transition(p, v);
	} else if ((v = json_object_get(item, "session"))) {
		on_session(p, v, json, size);
	} else {
		end_timeline(p);
		if ((v = json_object_get(item, "checkpoint")))
			on_checkpoint(p, v);
		else if ((v = json_object_get(item, "artifact")))
			on_artifact(p, v);
		else if ((v = json_object_get(item, "result")))
			on_result(p, v, json, size);
		else if ((v = json_object_get(item, "continuity")))
			on_continuity(p, v);
		else if ((v = json_object_get(item, "live")))
			on_live(p, v);
	}
	json_decref(item);
	return !ferror(stdout);
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = {{"json", no_argument, NULL, OPT_JSON}, CTL_OPERATOR_OPTIONS};
	struct page p = {.is_json = false};
	struct ctl_term term;
	const char *session;
	int c, status;

	while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (c == OPT_JSON)
			p.is_json = true;
		else if ((status = ctl_command_option(c, argv, &ctl_show, o)) >= 0)
			return status;
	}
	if ((session = ctl_op_session(argc, argv, &ctl_show)) == NULL)
		return CTL_USAGE;
	ctl_term_init(&term);
	p.colour = term.colour;
	status = ctl_op_ask(o, CTL_STORE_WILL_DO, ctl_client_request("show", session), on_item, &p, NULL);
	end_timeline(&p);
	if (status == CTL_OK && !p.is_json && !p.is_over && !p.has_live) {
		title(&p, "worker");
		printf("  not known: only the daemon can tell\n");
	}
	return ctl_op_flush(status);
}

const struct ctl_command ctl_show = {
	.name = "show",
	.summary = "all about one session: SESSION [--json]",
	.help = "usage: hcpctl show [options] SESSION\n\n"
		"Properties, task, timeline with the time spent in each state, checkpoints, artifacts, "
		"result or\n"
		"error, what it leaves to its successors, and, from a running daemon, its worker. Where the "
		"daemon does not run, its store is read.\n\n"
		"      --json          one JSON object a line, each with one member that says what it "
		"is\n" CTL_OPERATOR_HELP "\nExample:\n  hcpctl show 5f0c\n",
	.run = run,
};
