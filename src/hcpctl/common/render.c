/* SPDX-License-Identifier: MIT */
/* render.c: messages to lines.
 * Owns every text that hcpctl prints about a session.
 * Never trusts a message: it escapes each text of an event. */
#include "hcpctl/common/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "hcpctl/common/ctl.h"
#include "hcpctl/common/watch_table.h"
#include "hcpctl/common/task.h"
#include "json/text.h"

#define VALUE_MAX 200 /* bytes of a value inside a line; --json has all of it */
#define LABEL_WIDTH 10

/* --- pieces --- */

static void add_text(struct buf *out, const char *text)
{
	if (text)
		ctl_escape(out, text, strlen(text), false);
}

static void add_member(
	struct buf *out, const char *before, const json_t *object, const char *name, const char *after)
{
	const json_t *v = json_object_get(object, name);
	struct buf text = {0};

	if (!v || json_is_null(v) || (json_is_string(v) && json_string_length(v) == 0))
		return;
	if (json_is_string(v))
		buf_add(&text, json_string_value(v), json_string_length(v));
	else
		ctl_task_add_json(&text, v);
	buf_add_text(out, before);
	ctl_escape(out, text.data, text.size, false);
	buf_add_text(out, after);
	buf_fini(&text);
}

/* A value of any kind, cut where it is long. */
static void add_value(struct buf *out, const char *before, const json_t *object, const char *name)
{
	const json_t *v = json_object_get(object, name);
	struct buf text = {0};
	size_t size;

	if (!v || json_is_null(v) || (json_is_object(v) && json_object_size(v) == 0))
		return;
	ctl_task_add_json(&text, v);
	size = text.size;
	if (size > VALUE_MAX)
		for (size = VALUE_MAX; size > 0 && ((unsigned char)text.data[size] & 0xc0) == 0x80;)
			size--; /* not in the middle of a character */
	buf_add_text(out, before);
	ctl_escape(out, text.data, size, false);
	if (size < text.size)
		buf_add_text(out, "...");
	buf_fini(&text);
}

static const char *label_colour(const char *label)
{
	static const struct {
		const char *label, *code;
	} colours[] = {
		{"error", "\033[31m"},
		{"warn", "\033[33m"},
		{"warning", "\033[33m"},
		{"result", "\033[32m"},
	};

	for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
		if (strcmp(label, colours[i].label) == 0)
			return colours[i].code;
	return ctl_watch_table_colour(label);
}

static void begin_line(
	struct buf *out, const struct ctl_message *n, struct ctl_render_options look, const char *label)
{
	const char *stamp = ctl_message_text(n->json, "timestamp"),
		   *colour = look.colour ? label_colour(label) : NULL;
	struct buf shown = {0};
	char text[16] = "--:--:--";
	int64_t us;
	time_t s;
	struct tm tm;

	if (stamp && clock_parse(stamp, &us)) {
		s = (time_t)(us / 1000000);
		if (localtime_r(&s, &tm))
			strftime(text, sizeof text, "%H:%M:%S", &tm);
	}
	buf_addf(out, "%s ", text);
	if (look.with_session) {
		ctl_escape(&shown, n->session, strnlen(n->session, 8), false);
		buf_addf(out, "%-8s ", buf_text(&shown));
		buf_clear(&shown);
	}
	ctl_escape(&shown, label, strnlen(label, 64), false);
	buf_addf(out, "%s%-*s%s ", colour ? colour : "", LABEL_WIDTH, buf_text(&shown),
		colour ? "\033[0m" : "");
	buf_fini(&shown);
}

/* --- the events, one function each --- */

static void show_created(struct buf *out, const struct ctl_message *n)
{
	add_member(out, "risk ", n->data, "risk_level", "");
}

static void show_state(struct buf *out, const struct ctl_message *n)
{
	add_member(out, "was ", n->data, "from_state", "");
	add_member(out, ": ", n->data, "reason", "");
}

static void show_progress(struct buf *out, const struct ctl_message *n)
{
	const json_t *percent = json_object_get(n->data, "percent");

	if (json_is_number(percent))
		buf_addf(out, "%3.0f%% ", json_number_value(percent));
	add_member(out, "", n->data, "stage", "");
	add_member(out, json_object_get(n->data, "stage") ? ": " : "", n->data, "message", "");
}

static void show_partial(struct buf *out, const struct ctl_message *n)
{
	add_member(out, "", n->data, "result_type", ": ");
	add_value(out, "", n->data, "data");
}

static void show_log(struct buf *out, const struct ctl_message *n)
{
	const json_t *details = json_object_get(n->data, "details");

	add_member(out, "", n->data, "message", "");
	/* The name of the stream is left out: it does not matter to a reader whether a worker used stdout or
	 * stderr. */
	if (json_object_size(details) != 1 || !json_object_get(details, "stream"))
		add_value(out, " ", n->data, "details");
}

static void show_problem(struct buf *out, const struct ctl_message *n)
{
	add_member(out, "", n->data, "code", ": ");
	add_member(out, "", n->data, "message", "");
	if (json_is_true(json_object_get(n->data, "recoverable")))
		buf_add_text(out, " (recoverable)");
	add_value(out, " ", n->data, "details");
}

static void show_checkpoint(struct buf *out, const struct ctl_message *n)
{
	add_member(out, "", n->data, "description", " ");
	add_member(out, "(", n->data, "checkpoint_id", ")");
	if (json_is_false(json_object_get(n->data, "resumable")))
		buf_add_text(out, " not resumable");
}

static void show_closed(struct buf *out, const struct ctl_message *n)
{
	buf_add_text(out, "session closed");
	add_member(out, ": ", n->data, "reason", "");
}

static void show_accepted(struct buf *out, const struct ctl_message *n)
{
	buf_add_text(out, "session ");
	add_text(out, n->session);
	add_member(out, ", risk ", n->payload, "risk_level", "");
	add_member(out, ", data ", n->payload, "data_classification", "");
	add_member(out, ", at most ", json_object_get(n->payload, "constraints"), "max_duration", "");
}

static void show_rejected(struct buf *out, const struct ctl_message *n)
{
	add_member(out, "", n->payload, "reason_code", ": ");
	add_member(out, "", n->payload, "reason_message", "");
	add_member(out, "; ", n->payload, "suggestion", "");
}

static void show_completed(struct buf *out, const struct ctl_message *n)
{
	const json_t *sum = json_object_get(n->payload, "execution_summary");

	add_member(out, "after ", sum, "duration", "");
	add_member(out, ", steps ", sum, "steps_executed", "");
	add_member(out, ", checkpoints ", sum, "checkpoints_created", "");
}

static void show_failed(struct buf *out, const struct ctl_message *n)
{
	const json_t *details = json_object_get(n->payload, "error_details");

	add_member(out, "", n->payload, "error_code", ": ");
	add_member(out, "", n->payload, "error_message", "");
	add_member(out, "; step ", details, "step", "");
	add_member(out, "; last checkpoint ", details, "last_checkpoint", "");
}

static void show_unknown(struct buf *out, const struct ctl_message *n)
{
	add_value(out, "", n->event[0] ? n->payload : n->json, n->event[0] ? "data" : "payload");
}

static const struct shape {
	const char *name;  /* of the event, or of the message's type */
	const char *label; /* NULL: the text member `label_from` of data */
	const char *label_from;
	void (*show)(struct buf *out, const struct ctl_message *n);
} shapes[] = {
	{"session_created", NULL, "state", show_created},
	{"state_changed", NULL, "to_state", show_state},
	{"progress", "progress", NULL, show_progress},
	{"intermediate_result", "partial", NULL, show_partial},
	{"log", NULL, "level", show_log},
	{"warning", "warning", NULL, show_problem},
	{"error", "error", NULL, show_problem},
	{"checkpoint_created", "checkpoint", NULL, show_checkpoint},
	{"session_closed", NULL, "final_state", show_closed},
	{"task_accepted", "accepted", NULL, show_accepted},
	{"task_rejected", "REJECTED", NULL, show_rejected},
	{"task_completed", "result", NULL, show_completed},
	{"task_failed", "FAILED", NULL, show_failed},
};

void ctl_render_line(struct buf *out, const struct ctl_message *n, struct ctl_render_options look)
{
	const char *name = n->event[0] ? n->event : n->type, *label = name;
	void (*show)(struct buf *, const struct ctl_message *) = show_unknown;

	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		if (strcmp(name, shapes[i].name) != 0)
			continue;
		show = shapes[i].show;
		label = shapes[i].label ? shapes[i].label : ctl_message_text(n->data, shapes[i].label_from);
	}
	begin_line(out, n, look, label ? label : name);
	show(out, n);
	while (out->size > 0 && out->data[out->size - 1] == ' ')
		out->size--;
	buf_add_text(out, "\n");
}

/* --- results --- */

static void break_line(struct buf *out, size_t depth)
{
	buf_addf(out, "\n%*s", (int)(2 * (depth < 64 ? depth : 64)), "");
}

void ctl_render_pretty(struct buf *out, const char *text, size_t size)
{
	struct buf flat = {0}, spread = {0};
	size_t depth = 0;

	jtext_add_minified(&flat, text, size);
	for (size_t i = 0; i < flat.size; i++) {
		char c = flat.data[i], next = i + 1 < flat.size ? flat.data[i + 1] : '\0';

		if (c == '"') { /* a string is copied as a whole: brackets inside it are only text */
			size_t start = i++;

			while (i < flat.size && flat.data[i] != '"')
				i += flat.data[i] == '\\' ? 2 : 1;
			i = i < flat.size ? i : flat.size - 1;
			buf_add(&spread, flat.data + start, i + 1 - start);
		} else if ((c == '{' && next == '}') || (c == '[' && next == ']')) {
			buf_add(&spread, flat.data + i++, 2);
		} else if (c == '{' || c == '[') {
			buf_add(&spread, &c, 1);
			break_line(&spread, ++depth);
		} else if (c == '}' || c == ']') {
			break_line(&spread, depth ? --depth : 0);
			buf_add(&spread, &c, 1);
		} else {
			buf_add(&spread, &c, 1);
			if (c == ',')
				break_line(&spread, depth);
			else if (c == ':')
				buf_add_text(&spread, " ");
		}
	}
	ctl_escape(out, spread.data ? spread.data : "", spread.size, true);
	buf_fini(&spread);
	buf_fini(&flat);
}

static void show_artifacts(struct buf *out, const json_t *artifacts)
{
	const json_t *a;
	size_t i;

	json_array_foreach(artifacts, i, a) {
		add_member(out, "artifact ", a, "uri", "");
		add_member(out, "  ", a, "type", "");
		add_member(out, "  ", a, "size_bytes", " bytes");
		buf_add_text(out, "\n");
	}
}

void ctl_render_result(struct buf *out, const struct ctl_message *n)
{
	const char *name = strcmp(n->type, "task_completed") == 0 ? "outputs" : "partial_outputs";
	const json_t *outputs = json_object_get(n->payload, name);
	struct jslice payload = jtext_member(n->body, n->size, "payload"), raw = {NULL, 0};

	if (payload.at)
		raw = jtext_member(payload.at, payload.size, name);
	if (raw.at && json_is_object(outputs) &&
		(json_object_size(outputs) > 0 || strcmp(name, "outputs") == 0)) {
		ctl_render_pretty(out, raw.at, raw.size);
		buf_add_text(out, "\n");
	}
	show_artifacts(out, json_object_get(n->payload, "artifacts"));
}

/* --- the bar --- */

/* Plain text up to what is left of the line. */
static void add_fitting(struct buf *out, const char *text, int *left)
{
	struct buf shown = {0};
	int used;

	add_text(&shown, text);
	buf_add(out, shown.data ? shown.data : "",
		ctl_fit(shown.data ? shown.data : "", shown.size, *left, &used));
	*left -= used;
	buf_fini(&shown);
}

int ctl_render_bar(struct buf *out, const char *state, const char *stage, double percent, const char *message,
	long elapsed_s, int columns, bool colour)
{
	int left = columns, cells = columns / 4 < 10 ? 10 : columns / 4 > 40 ? 40 : columns / 4;
	const char *code = colour ? ctl_watch_table_colour(state) : NULL;
	struct buf text = {0};

	if (code)
		buf_add_text(out, code);
	add_fitting(out, *state ? state : "working", &left);
	if (code)
		buf_add_text(out, "\033[0m");
	if (*stage) { /* at most a quarter: the bar comes first */
		int most = left < columns / 4 ? left : columns / 4, room = most;

		add_fitting(out, " ", &room);
		add_fitting(out, stage, &room);
		left -= most - room;
	}
	if (percent >= 0 && left > cells + 8) {
		buf_add_text(out, " ");
		ctl_watch_table_add_bar(out, percent, cells + 7, colour);
		left -= cells + 8;
	}
	buf_add_text(&text, " ");
	ctl_watch_table_add_time(&text, elapsed_s);
	add_fitting(out, buf_text(&text), &left);
	if (*message) {
		add_fitting(out, " ", &left);
		add_fitting(out, message, &left);
	}
	buf_fini(&text);
	return columns - left;
}

void ctl_render_json(struct buf *out, const struct ctl_message *n)
{
	if (memchr(n->body, '\n', n->size) || memchr(n->body, '\r', n->size))
		jtext_add_minified(out, n->body, n->size);
	else
		buf_add(out, n->body, n->size);
	buf_add_text(out, "\n");
}
