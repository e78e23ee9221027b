/* SPDX-License-Identifier: MIT */
/* message.c: the member names on the wire.
 * Owns the parsing of commands and the head of every message. Never decides whether a task may run (gate.c),
 * never knows a session's state (core/session.c). */
#include "protocol/message.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/semver.h"
#include "base/text.h"
#include "json/load.h"
#include "json/scan.h"

/* jansson parses by recursion: a text that nests deeper than this is not parsed, not even to find its
 * sender. */
#define PARSE_DEPTH 512

/* ---- reading ---- */

static enum message_result refuse(struct command *c, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static enum message_result refuse(struct command *c, const char *code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->message, sizeof c->message, fmt, ap);
	va_end(ap);
	c->code = code;
	return c->caller_id[0] != '\0' ? MESSAGE_REJECT : MESSAGE_DROP;
}

#define invalid(c, ...) refuse(c, "invalid_input", __VA_ARGS__)

bool message_is_caller_id(const char *text, size_t size)
{
	if (size < 1 || size >= CALLER_ID_SIZE)
		return false;
	for (size_t i = 0; i < size; i++)
		if (!isalnum((unsigned char)text[i]) && strchr("-_:", text[i]) == NULL)
			return false;
	return memchr(text, '\0', size) == NULL;
}

static bool is_printable(const char *text)
{
	while (isprint((unsigned char)*text))
		text++;
	return *text == '\0';
}

static bool is_message_id(const json_t *v)
{
	size_t size = json_string_length(v);

	return json_is_string(v) && size >= 1 && size < MESSAGE_ID_SIZE &&
		strlen(json_string_value(v)) == size && is_printable(json_string_value(v));
}

/* A string without NUL inside, which C can handle. */
static bool is_text(const json_t *v)
{
	return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v);
}

/* Optional members: absent and null are the same. */
static const json_t *optional(const json_t *object, const char *name)
{
	const json_t *v = json_object_get(object, name);

	return json_is_null(v) ? NULL : v;
}

static int name_index(const char *const *names, int count, const json_t *v)
{
	for (int i = 0; i < count; i++)
		if (json_is_string(v) && strcmp(names[i], json_string_value(v)) == 0)
			return i;
	return -1;
}

void message_copy_id(char to[ID_SIZE], const char *uuid)
{
	for (size_t i = 0; i < ID_SIZE; i++)
		to[i] = (char)tolower((unsigned char)uuid[i]);
}

static enum message_result read_constraints(struct command *c, const json_t *constraints)
{
	struct task *t = &c->task;
	const json_t *v;
	int i;

	if ((v = optional(constraints, "max_duration")) != NULL) {
		if (!is_text(v) || !duration_parse_iso(json_string_value(v), &t->max_duration_us))
			return invalid(c,
				"payload.constraints.max_duration is not an ISO 8601 duration such as PT30M");
		if (t->max_duration_us <= 0)
			return invalid(c, "payload.constraints.max_duration must be longer than nothing");
	}
	if ((v = optional(constraints, "confidence_threshold")) != NULL)
		if (!json_is_number(v) || json_number_value(v) < 0 || json_number_value(v) > 1)
			return invalid(
				c, "payload.constraints.confidence_threshold is not a number from 0 to 1");
	if ((v = optional(constraints, "priority")) != NULL) {
		if ((i = name_index(priority_names, PRIORITY_COUNT, v)) < 0)
			return invalid(
				c, "payload.constraints.priority is not one of low, normal, high, urgent");
		t->priority = (enum priority)i;
	}
	if ((v = optional(constraints, "data_classification")) != NULL) {
		if ((i = name_index(data_class_names, 4, v)) < 0)
			return invalid(
				c, "payload.constraints.data_classification is not one of T1, T2, T3, T4");
		t->data_class = (enum data_class)i;
	}
	if ((v = optional(constraints, "checkpoint")) != NULL) {
		if (!is_text(v) || !id_is_uuid4(json_string_value(v)))
			return invalid(c, "payload.constraints.checkpoint is not the id of a checkpoint");
		message_copy_id(t->checkpoint, json_string_value(v));
	}
	return MESSAGE_OK;
}

/* The rest of the object has a meaning to the worker only. */
static enum message_result read_context(struct command *c, const json_t *context)
{
	const json_t *v = json_is_object(context) ? optional(context, "continues") : NULL;

	if (v == NULL)
		return MESSAGE_OK;
	if (!is_text(v) || !id_is_uuid4(json_string_value(v)))
		return invalid(c, "payload.context.continues is not the id of a session");
	message_copy_id(c->task.continues, json_string_value(v));
	return MESSAGE_OK;
}

static enum message_result check_expected(struct command *c, const json_t *expected)
{
	const json_t *v, *field;
	size_t i;

	if ((v = optional(expected, "format")) != NULL && !json_is_string(v))
		return invalid(c, "payload.expected_output.format is not a string");
	if ((v = optional(expected, "required_fields")) != NULL) {
		if (!json_is_array(v))
			return invalid(c, "payload.expected_output.required_fields is not an array");
		json_array_foreach(v, i, field)
			if (!json_is_string(field))
				return invalid(
					c, "payload.expected_output.required_fields[%zu] is not a string", i);
	}
	if ((v = optional(expected, "schema")) != NULL && !json_is_object(v) && !json_is_boolean(v))
		return invalid(c, "payload.expected_output.schema is not a JSON Schema");
	return MESSAGE_OK;
}

/* The members of the worker's `task`, in their order: which are required, and their types. */
#define ANY_TYPE JSON_NULL /* never validated */
static const struct {
	const char *name;
	json_type type;
	bool required;
} task_members[] = {
	{"capability", JSON_STRING, true},
	{"capability_version", JSON_STRING, false},
	{"intent", JSON_STRING, true},
	{"inputs", JSON_OBJECT, true},
	{"constraints", JSON_OBJECT, false},
	{"expected_output", JSON_OBJECT, false},
	{"context", ANY_TYPE, false},
	{"caller_id", JSON_STRING, true},
};
#define TASK_MEMBERS (sizeof task_members / sizeof *task_members)

static enum message_result check_members(struct command *c, const json_t *payload)
{
	for (size_t i = 0; i < TASK_MEMBERS; i++) {
		const json_t *v = json_object_get(payload, task_members[i].name);
		const char *what = task_members[i].type == JSON_STRING ? "a string" : "an object";

		if (v == NULL && task_members[i].required)
			return invalid(c, "payload.%s is missing", task_members[i].name);
		if (v == NULL || (json_is_null(v) && !task_members[i].required) ||
			task_members[i].type == ANY_TYPE)
			continue;
		if (json_typeof(v) != task_members[i].type)
			return invalid(c, "payload.%s is not %s", task_members[i].name, what);
	}
	return MESSAGE_OK;
}

static void write_task(struct task *t, const json_t *payload, struct jslice raw)
{
	struct buf b = {0};

	for (size_t i = 0; i < TASK_MEMBERS; i++) {
		const char *name = task_members[i].name;
		const json_t *v = json_object_get(payload, name);

		if (v == NULL && task_members[i].type == JSON_STRING)
			continue;
		buf_add_text(&b, i == 0 ? "{\"" : ",\"");
		buf_add_text(&b, name);
		buf_add_text(&b, "\":");
		if (v == NULL) /* an absent object reaches the worker as an empty one */
			buf_add_text(&b, "{}");
		else
			jtext_add_value(&b, jtext_member(raw.at, raw.size, name), v);
	}
	buf_add_text(&b, "}");
	(void)buf_text(&b); /* intent_seal.h needs a NUL behind it */
	t->json = b.data;
	t->json_size = b.size;
}

static const char *find_label_fault(const char *name, const json_t *value, size_t count)
{
	if (!is_text(value))
		return "a label is not text";
	if (name[0] == '\0' || strlen(name) > LABEL_SIZE_MAX || json_string_length(value) > LABEL_SIZE_MAX)
		return "the name of a label has 1 to 256 bytes, and its value at most 256";
	return count < LABELS_MAX ? NULL : "16 labels are indexed, and there are more";
}

/* A caller may have used the name `labels` for something else: what cannot be indexed costs no task. */
static void read_labels(struct task *t, const json_t *metadata)
{
	json_t *labels = json_object_get(metadata, "labels"), *value;
	const char *name, *fault;

	if (labels == NULL || json_is_null(labels))
		return;
	if (!json_is_object(labels)) {
		t->label_fault = "metadata.labels is not an object";
		return;
	}
	t->labels = json_object();
	json_object_foreach(labels, name, value) {
		fault = find_label_fault(name, value, json_object_size(t->labels));
		if (fault != NULL)
			t->label_fault = fault;
		else
			json_object_set(t->labels, name, value);
	}
}

static enum message_result read_submit(struct command *c, const json_t *payload, struct jslice raw)
{
	struct task *t = &c->task;
	enum message_result result;
	const json_t *v;

	t->priority = PRIORITY_NORMAL;
	if ((result = check_members(c, payload)) != MESSAGE_OK)
		return result;
	v = json_object_get(payload, "capability");
	if (!is_text(v) || json_string_length(v) == 0)
		return invalid(c, "payload.capability is not a name");
	t->capability = xstrdup(json_string_value(v));
	if ((v = optional(payload, "capability_version")) != NULL) {
		if (!is_text(v) || !semver_is_range(json_string_value(v)))
			return invalid(c,
				"payload.capability_version is not a version range such as 1.x or >=2.0.0");
		t->version_range = xstrdup(json_string_value(v));
	}
	if ((v = optional(payload, "constraints")) != NULL && (result = read_constraints(c, v)) != MESSAGE_OK)
		return result;
	if ((result = read_context(c, json_object_get(payload, "context"))) != MESSAGE_OK)
		return result;
	if ((v = optional(payload, "expected_output")) != NULL &&
		(result = check_expected(c, v)) != MESSAGE_OK)
		return result;
	if ((v = optional(payload, "metadata")) != NULL) {
		struct buf b = {0};

		if (!json_is_object(v))
			return invalid(c, "payload.metadata is not an object");
		t->harp = json_is_true(json_object_get(v, "harp"));
		jtext_add_value(&b, jtext_member(raw.at, raw.size, "metadata"), v);
		t->metadata = xstrndup(b.data, b.size);
		read_labels(t, v);
		buf_fini(&b);
	}
	t->inputs = json_incref(json_object_get(payload, "inputs"));
	t->expected_output = json_incref(json_object_get(payload, "expected_output"));
	write_task(t, payload, raw);
	return MESSAGE_OK;
}

static enum message_result read_abort(struct command *c, const json_t *payload)
{
	const json_t *v;

	if ((v = optional(payload, "session_token")) != NULL) {
		if (!is_text(v))
			return invalid(c, "payload.session_token is not a string");
		c->token = xstrdup(json_string_value(v));
	}
	if ((v = optional(payload, "reason")) != NULL) {
		if (!json_is_string(v))
			return invalid(c, "payload.reason is not a string");
		c->reason = xstrdup(json_string_value(v));
	}
	return MESSAGE_OK;
}

static void find_caller(struct command *c, const json_t *payload)
{
	const json_t *v = json_object_get(payload, "caller_id");

	if (json_is_string(v) && message_is_caller_id(json_string_value(v), json_string_length(v)))
		text_copy(c->caller_id, sizeof c->caller_id, json_string_value(v));
}

/* Numbers with a dot between them, at least two, and the first is our major version: 1.0, 1.12, 1.0.3. */
static bool is_spoken(const char *version)
{
	const char *at = version + 1;

	if (version[0] != '1' || *at != '.')
		return false;
	while (*at == '.') {
		size_t digits = strspn(at + 1, "0123456789");

		if (digits == 0)
			return false;
		at += 1 + digits;
	}
	return *at == '\0';
}

static enum message_result check_version(struct command *c, const json_t *root)
{
	const json_t *v = json_object_get(root, "hcp_version");
	const char *text = json_string_value(v);

	if (!is_text(v))
		return invalid(c, "hcp_version is %s", v == NULL ? "missing" : "not a string");
	if (!is_spoken(text))
		return refuse(c, "unsupported_version", "hcp_version %.32s is not spoken here; 1.0 is", text);
	return MESSAGE_OK;
}

static enum message_result check_envelope(struct command *c, const json_t *root, const char **type)
{
	const json_t *v;
	int64_t wall_us;
	enum message_result result;

	if ((result = check_version(c, root)) != MESSAGE_OK)
		return result;
	if (c->message_id[0] == '\0')
		return invalid(c, "message_id is missing or not 1 to 128 printable characters");
	v = json_object_get(root, "timestamp");
	if (!is_text(v) || !clock_parse(json_string_value(v), &wall_us))
		return invalid(c,
			"timestamp is missing or not an ISO 8601 instant such as 2026-01-31T12:00:00.000Z");
	v = json_object_get(root, "type");
	if (!is_text(v))
		return invalid(c, "type is missing or not a string");
	*type = json_string_value(v);
	if (json_object_get(root, "session_id") == NULL)
		return invalid(c, "session_id is missing");
	if (!json_is_object(json_object_get(root, "payload")))
		return invalid(c, "payload is missing or not an object");
	return MESSAGE_OK;
}

static enum message_result read_root(struct command *c, const json_t *root, const char *body, size_t size)
{
	const json_t *payload = json_object_get(root, "payload"), *session;
	const char *type = NULL;
	enum message_result result;
	struct jslice raw;

	if ((result = check_envelope(c, root, &type)) != MESSAGE_OK)
		return result;
	session = json_object_get(root, "session_id");
	raw = jtext_member(body, size, "payload");
	if (strcmp(type, "task_submit") == 0) {
		c->kind = COMMAND_SUBMIT;
		if (c->caller_id[0] == '\0')
			return invalid(
				c, "payload.caller_id is missing or not 1 to 128 of letters, digits, - _ :");
		if (!json_is_null(session))
			return invalid(c, "session_id must be null in a task_submit: the callee makes it");
		result = read_submit(c, payload, raw);
		/* not for stored tasks (message_read_task): earlier versions accepted an empty intent */
		if (result == MESSAGE_OK && json_string_length(json_object_get(payload, "intent")) == 0)
			return invalid(c, "payload.intent is empty");
		return result;
	}
	if (strcmp(type, "abort") == 0) {
		c->kind = COMMAND_ABORT;
		if (!is_text(session) || !id_is_uuid4(json_string_value(session)))
			return invalid(c, "session_id of an abort is not a UUID v4");
		for (int i = 0; i < ID_SIZE; i++)
			c->session_id[i] = (char)tolower((unsigned char)json_string_value(session)[i]);
		return read_abort(c, payload);
	}
	return invalid(c, "type %.64s is not a command; task_submit and abort are", type);
}

enum message_result message_read(const char *body, size_t size, int max_depth, struct command *c)
{
	/* A tree of load.c nests no deeper than JLOAD_DEPTH_MAX. */
	json_t *root = max_depth >= JLOAD_DEPTH_MAX ? jload_tree(body, size) : NULL;
	size_t depth = root == NULL ? jtext_depth(body, size) : 0;
	enum message_result result;
	char why[256];

	memset(c, 0, sizeof *c);
	if (depth > PARSE_DEPTH && depth > (size_t)max_depth)
		return invalid(c, "the message nests %zu deep; %d is allowed", depth, max_depth);
	if (root == NULL)
		root = jtext_parse(body, size, why, sizeof why);
	if (root == NULL)
		return invalid(c, "not JSON: %s", why);
	if (!json_is_object(root)) {
		result = invalid(c, "the message is not a JSON object");
	} else {
		const json_t *id = json_object_get(root, "message_id");

		/* Both first: an error is answered to this caller, about this message. */
		find_caller(c, json_object_get(root, "payload"));
		if (is_message_id(id))
			text_copy(c->message_id, sizeof c->message_id, json_string_value(id));
		if (depth > (size_t)max_depth)
			result = invalid(c, "the message nests %zu deep; %d is allowed", depth, max_depth);
		else
			result = read_root(c, root, body, size);
	}
	json_decref(root);
	return result;
}

/* The text of a member without escapes, up to size - 1 bytes. */
static bool take_plain(struct jslice v, char *out, size_t size)
{
	if (v.at == NULL || *v.at != '"' || v.size - 2 >= size || memchr(v.at, '\\', v.size) != NULL)
		return false;
	memcpy(out, v.at + 1, v.size - 2);
	out[v.size - 2] = '\0';
	return true;
}

bool message_scan_submit(const char *body, size_t size, struct command *c)
{
	enum { TYPE, ID, PAYLOAD };
	enum { CALLER, CAPABILITY };
	struct jscan_member inner[] = {
		[CALLER] = {.name = "caller_id"}, [CAPABILITY] = {.name = "capability"}};
	struct jscan_member members[] = {[TYPE] = {.name = "type"},
		[ID] = {.name = "message_id"},
		[PAYLOAD] = {.name = "payload", .inner = inner, .inner_count = 2}};
	char type[32], capability[129];
	bool is_escaped = false;

	memset(c, 0, sizeof *c);
	if (!jscan_object(body, size, members, 3, &is_escaped) || is_escaped ||
		!take_plain(members[TYPE].at, type, sizeof type) || strcmp(type, "task_submit") != 0 ||
		!take_plain(members[ID].at, c->message_id, sizeof c->message_id) ||
		!take_plain(inner[CALLER].at, c->caller_id, sizeof c->caller_id) ||
		!message_is_caller_id(c->caller_id, strlen(c->caller_id)) || !is_printable(c->message_id))
		return false;
	if (take_plain(inner[CAPABILITY].at, capability, sizeof capability))
		c->task.capability = xstrdup(capability);
	return true;
}

bool message_read_task(const char *json, size_t size, int max_depth, struct command *c)
{
	size_t depth = jtext_depth(json, size) + 1; /* as it was inside of its message */
	enum message_result result;
	json_t *task;
	char why[256];

	memset(c, 0, sizeof *c);
	c->kind = COMMAND_SUBMIT;
	if (depth > (size_t)max_depth) {
		invalid(c, "the message nests %zu deep; %d is allowed", depth, max_depth);
		return false;
	}
	task = jtext_parse(json, size, why, sizeof why);
	find_caller(c, task);
	if (task == NULL)
		result = invalid(c, "not JSON: %s", why);
	else if (!json_is_object(task))
		result = invalid(c, "payload is missing or not an object");
	else if (c->caller_id[0] == '\0')
		result = invalid(c, "payload.caller_id is missing or not 1 to 128 of letters, digits, - _ :");
	else
		result = read_submit(c, task, (struct jslice){json, size});
	json_decref(task);
	return result == MESSAGE_OK;
}

void command_fini(struct command *c)
{
	free(c->task.capability);
	free(c->task.version_range);
	free(c->task.json);
	free(c->task.metadata);
	json_decref(c->task.labels);
	json_decref(c->task.inputs);
	json_decref(c->task.expected_output);
	free(c->token);
	free(c->reason);
}

/* ---- composing ---- */

#define HEAD_ID "{\"hcp_version\":\"" HCP_VERSION "\",\"message_id\":\""
#define HEAD_TIME "\",\"timestamp\":\""
#define ID_AT (sizeof HEAD_ID - 1)
#define TIME_AT (ID_AT + ID_SIZE - 1 + sizeof HEAD_TIME - 1)

void message_begin_as(
	struct buf *b, const char *message_id, const char *time, const char *session_id, const char *type)
{
	buf_add(b, HEAD_ID, sizeof HEAD_ID - 1);
	buf_add(b, message_id, ID_SIZE - 1);
	buf_add(b, HEAD_TIME, sizeof HEAD_TIME - 1);
	buf_add(b, time, CLOCK_TEXT_SIZE - 1);
	if (session_id != NULL) {
		buf_add_text(b, "\",\"session_id\":\"");
		buf_add(b, session_id, ID_SIZE - 1);
		buf_add_text(b, "\",\"type\":\"");
	} else {
		buf_add_text(b, "\",\"session_id\":null,\"type\":\"");
	}
	buf_add_text(b, type);
	buf_add_text(b, "\",\"payload\":");
}

void message_begin(struct buf *b, const char *session_id, const char *type)
{
	char message_id[ID_SIZE], time[CLOCK_TEXT_SIZE];

	id_make(message_id);
	clock_format(clock_wall_us(), time);
	message_begin_as(b, message_id, time, session_id, type);
}

void message_end(struct buf *b)
{
	buf_add(b, "}", 1);
}

#define SECOND_SIZE (sizeof "2026-01-31T12:34:56" - 1)

/* Is a time that clock_parse takes one that clock_format wrote? Then its first SECOND_SIZE characters are its
 * second. */
static bool is_formatted(const char time[CLOCK_TEXT_SIZE])
{
	const char *fraction = time + SECOND_SIZE;

	return time[4] == '-' && fraction[0] == '.' && isdigit((unsigned char)fraction[1]) &&
		isdigit((unsigned char)fraction[2]) && isdigit((unsigned char)fraction[3]) &&
		fraction[4] == 'Z';
}

/* Most messages are of the second of the one before. */
static bool parse_second(const char time[CLOCK_TEXT_SIZE], int64_t *second)
{
	static _Thread_local char last[SECOND_SIZE];
	static _Thread_local int64_t last_second;
	bool is_known = is_formatted(time);
	int64_t us;

	if (is_known && memcmp(time, last, SECOND_SIZE) == 0) {
		*second = last_second;
		return true;
	}
	if (!clock_parse(time, &us))
		return false;
	*second = us / 1000000;
	if (is_known) {
		memcpy(last, time, SECOND_SIZE);
		last_second = *second;
	}
	return true;
}

bool message_peek(const char *body, size_t size, struct message_head *head)
{
	char time[CLOCK_TEXT_SIZE];

	if (size < TIME_AT + CLOCK_TEXT_SIZE || memcmp(body, HEAD_ID, ID_AT) != 0)
		return false;
	memcpy(head->message_id, body + ID_AT, ID_SIZE - 1);
	head->message_id[ID_SIZE - 1] = '\0';
	memcpy(time, body + TIME_AT, CLOCK_TEXT_SIZE - 1);
	time[CLOCK_TEXT_SIZE - 1] = '\0';
	return parse_second(time, &head->timestamp_s);
}
