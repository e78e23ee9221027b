/* SPDX-License-Identifier: MIT */
/* task.c: tasks and aborts as messages.
 * Owns how words of a command line become JSON.
 * Never sends. The protocol defines the members of the payload; protocol/message.c writes the envelope. */
#include "hcpctl/common/task.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/message.h"
#include "json/text.h"

#define DEPTH_MAX 512

/* --- values --- */

static json_t *read_value(const char *text)
{
	char why[160];
	size_t size = strlen(text);
	json_t *v = jtext_depth(text, size) <= DEPTH_MAX ? jtext_parse(text, size, why, sizeof why) : NULL;

	return v ? v : json_stringn(text, size); /* NULL where the text is not UTF-8 */
}

bool ctl_task_set(json_t *object, const char *assignment, char *why)
{
	const char *equals = strchr(assignment, '='), *part = assignment;
	json_t *value, *inner;

	if (!equals || equals == assignment) {
		snprintf(why, CTL_TASK_WHY_SIZE, "%.100s is not name=value", assignment);
		return false;
	}
	for (;;) {
		size_t size = strcspn(part, ".=");
		char name[256];

		if (size == 0 || size >= sizeof name) {
			snprintf(why, CTL_TASK_WHY_SIZE, "%.100s has an empty or endless name", assignment);
			return false;
		}
		snprintf(name, sizeof name, "%.*s", (int)size, part);
		part += size;
		if (part == equals) {
			value = read_value(equals + 1);
			if (value && json_object_set_new(object, name, value) == 0)
				return true;
			snprintf(why, CTL_TASK_WHY_SIZE, "%.100s is not UTF-8", name);
			return false;
		}
		inner = json_object_get(object, name);
		if (inner && !json_is_object(inner)) {
			snprintf(why, CTL_TASK_WHY_SIZE,
				"%.100s: %.60s is no object already, so nothing goes inside it", assignment,
				name);
			return false;
		}
		if (!inner &&
			(json_object_set_new(object, name, json_object()) < 0 ||
				!(inner = json_object_get(object, name)))) {
			snprintf(why, CTL_TASK_WHY_SIZE, "%.100s is not UTF-8", name);
			return false;
		}
		object = inner;
		part++;
	}
}

static void add_real(struct buf *b, double value)
{
	char text[40];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, value);
		if (!(strtod(text, NULL) < value) && !(strtod(text, NULL) > value))
			break;
	}
	buf_add_text(b, text);
	if (!strpbrk(text, ".e")) /* 1e20 stays a real, 2.0 too */
		buf_add_text(b, ".0");
}

void ctl_task_add_json(struct buf *b, const json_t *v)
{
	const char *key;
	size_t i;
	json_t *item;
	bool first = true;

	switch (json_typeof(v)) {
	case JSON_OBJECT:
		buf_add_text(b, "{");
		/* jansson's iterator does not change the object, but its type has no const. */
		json_object_foreach((json_t *)(uintptr_t)v, key, item) {
			buf_add_text(b, first ? "" : ",");
			first = false;
			buf_add_json(b, key, strlen(key));
			buf_add_text(b, ":");
			ctl_task_add_json(b, item);
		}
		buf_add_text(b, "}");
		break;
	case JSON_ARRAY:
		buf_add_text(b, "[");
		json_array_foreach(v, i, item) {
			buf_add_text(b, i ? "," : "");
			ctl_task_add_json(b, item);
		}
		buf_add_text(b, "]");
		break;
	case JSON_STRING: buf_add_json(b, json_string_value(v), json_string_length(v)); break;
	case JSON_INTEGER: buf_add_int(b, json_integer_value(v)); break;
	case JSON_REAL: add_real(b, json_real_value(v)); break;
	case JSON_TRUE:
	case JSON_FALSE: buf_add_text(b, json_is_true(v) ? "true" : "false"); break;
	case JSON_NULL: buf_add_text(b, "null");
	}
}

/* --- messages --- */

static void add_member(struct buf *b, const char *name, const char *text)
{
	if (!text)
		return;
	buf_addf(b, "%s\"%s\":", b->data[b->size - 1] == '{' ? "" : ",", name);
	buf_add_json(b, text, strlen(text));
}

static void add_key(struct buf *b, const char *key, bool *first)
{
	buf_add_text(b, *first ? "" : ",");
	*first = false;
	buf_add_json(b, key, strlen(key));
	buf_add_text(b, ":");
}

/* The members of base, replaced or extended by those of over. A member of base that over does not have keeps
 * its text: 1.10 stays 1.10. */
static void add_merged(struct buf *b, struct jslice raw, const json_t *base, const json_t *over)
{
	const char *key;
	json_t *value, *new;
	bool first = true;

	buf_add_text(b, "{");
	json_object_foreach((json_t *)(uintptr_t)base, key, value) {
		struct jslice slice = raw.at ? jtext_member(raw.at, raw.size, key) : raw;

		add_key(b, key, &first);
		new = json_object_get(over, key);
		if (json_is_object(new) && json_is_object(value))
			add_merged(b, slice, value, new);
		else if (new)
			ctl_task_add_json(b, new);
		else if (slice.at)
			jtext_add_minified(b, slice.at, slice.size);
		else
			ctl_task_add_json(b, value);
	}
	json_object_foreach((json_t *)(uintptr_t)over, key, value) {
		if (json_object_get(base, key))
			continue;
		add_key(b, key, &first);
		ctl_task_add_json(b, value);
	}
	buf_add_text(b, "}");
}

static void add_inputs(struct buf *b, const struct ctl_task *t)
{
	struct jslice raw = {t->inputs_text, t->inputs_size};
	char why[160];
	json_t *base = t->inputs_text ? jtext_parse(t->inputs_text, t->inputs_size, why, sizeof why) : NULL;

	buf_add_text(b, ",\"inputs\":");
	add_merged(b, raw, base, t->inputs);
	json_decref(base);
}

static void add_context(struct buf *b, const struct ctl_task *t)
{
	json_t *context = t->context ? json_copy((json_t *)(uintptr_t)t->context) : json_object();

	if (t->continues)
		json_object_set_new(context, "continues", json_string(t->continues));
	if (json_object_size(context) > 0) {
		buf_add_text(b, ",\"context\":");
		ctl_task_add_json(b, context);
	}
	json_decref(context);
}

void ctl_task_compose(struct buf *b, const struct ctl_task *t)
{
	struct buf intent = {0};

	buf_addf(&intent, "run %s", t->capability);
	message_begin(b, NULL, "task_submit");
	buf_add_text(b, "{");
	add_member(b, "capability", t->capability);
	add_member(b, "capability_version", t->version);
	add_member(b, "caller_id", t->caller);
	add_member(b, "intent", t->intent ? t->intent : buf_text(&intent));
	add_inputs(b, t);
	if (t->max_duration || t->priority || t->data_class || t->checkpoint) {
		buf_add_text(b, ",\"constraints\":{");
		add_member(b, "max_duration", t->max_duration);
		add_member(b, "priority", t->priority);
		add_member(b, "data_classification", t->data_class);
		add_member(b, "checkpoint", t->checkpoint);
		buf_add_text(b, "}");
	}
	add_context(b, t);
	if (json_object_size(t->labels) > 0) {
		buf_add_text(b, ",\"metadata\":{\"labels\":");
		ctl_task_add_json(b, t->labels);
		buf_add_text(b, "}");
	}
	buf_add_text(b, "}");
	message_end(b);
	buf_fini(&intent);
}

void ctl_task_compose_abort(struct buf *b, const char *session, const char *token, const char *reason)
{
	message_begin(b, session, "abort");
	buf_add_text(b, "{");
	add_member(b, "session_token", token);
	add_member(b, "reason", reason);
	buf_add_text(b, "}");
	message_end(b);
}
