/* SPDX-License-Identifier: MIT */
/* fuzz_envelope.c: bytes to a command, and back. Input: a message's body. */
#include <stdlib.h>
#include <string.h>

#include "protocol/message.h"
#include "hcpctl/common/task.h"
#include "fuzz.h"
#include "base/semver.h"

#define MESSAGE_ID "6f1c8a52-0b1d-4c3e-9a7b-2d4e6f801234"
#define TIME "2026-01-31T12:00:00.000Z"

static void must_be_minified(const char *text, size_t size)
{
	struct buf b = {0};

	jtext_add_minified(&b, text, size);
	MUST(b.size == size && memcmp(b.data, text, size) == 0);
	buf_fini(&b);
}

/* A refusal can be told: to a well-formed caller, with a code of the wire, as JSON. */
static void check_refusal(const struct command *c, enum message_result verdict)
{
	struct buf b = {0};

	MUST(memchr(c->message, '\0', sizeof c->message) != NULL && c->message[0] != '\0');
	MUST(strcmp(c->code, "invalid_input") == 0 || strcmp(c->code, "unsupported_version") == 0);
	MUST((verdict == MESSAGE_REJECT) == (c->caller_id[0] != '\0'));
	buf_add_json(&b, c->message, strlen(c->message));
	json_decref(fuzz_json(b.data, b.size));
	buf_fini(&b);
}

/* The worker gets every member as it was sent, and an empty object for one that was not. */
static void check_task(const struct task *t, const json_t *payload, size_t max_depth)
{
	static const char *const texts[] = {"capability", "capability_version", "intent", "caller_id"};
	static const char *const objects[] = {"inputs", "constraints", "expected_output", "context"};
	json_t *task = fuzz_json(t->json, t->json_size), *empty = json_object(), *metadata;
	size_t members = 0;

	MUST(jtext_depth(t->json, t->json_size) <= max_depth);
	must_be_minified(t->json, t->json_size);
	for (int i = 0; i < 4; i++) {
		MUST(fuzz_same(json_object_get(task, texts[i]), json_object_get(payload, texts[i])));
		members += json_object_get(task, texts[i]) != NULL;
	}
	for (int i = 0; i < 4; i++) {
		const json_t *sent = json_object_get(payload, objects[i]);

		MUST(fuzz_same(json_object_get(task, objects[i]), sent != NULL ? sent : empty));
	}
	MUST(json_object_size(task) == members + 4);
	MUST(strcmp(t->capability, json_string_value(json_object_get(payload, "capability"))) == 0);
	MUST(t->version_range == NULL || semver_is_range(t->version_range));
	MUST(t->max_duration_us >= 0 && t->priority < PRIORITY_COUNT && t->data_class <= T4);
	if (t->metadata != NULL) {
		metadata = fuzz_json(t->metadata, strlen(t->metadata));
		MUST(json_is_object(metadata) && fuzz_same(metadata, json_object_get(payload, "metadata")));
		json_decref(metadata);
	}
	json_decref(empty);
	json_decref(task);
}

/* Sent on as we would send it, it is read as the same. */
static void check_submit_again(const struct command *c, int max_depth)
{
	struct buf b = {0};
	struct command again;
	struct message_head head;

	message_begin_as(&b, MESSAGE_ID, TIME, NULL, "task_submit");
	buf_add(&b, c->task.json, c->task.json_size - 1);
	if (c->task.metadata != NULL)
		buf_addf(&b, ",\"metadata\":%s", c->task.metadata);
	buf_add_text(&b, "}");
	message_end(&b);
	MUST(message_peek(b.data, b.size, &head) && strcmp(head.message_id, MESSAGE_ID) == 0 &&
		head.timestamp_s == 1769860800);
	MUST(message_read(b.data, b.size, max_depth, &again) == MESSAGE_OK && again.kind == COMMAND_SUBMIT);
	MUST(again.task.json_size == c->task.json_size &&
		memcmp(again.task.json, c->task.json, c->task.json_size) == 0);
	MUST(strcmp(again.caller_id, c->caller_id) == 0 && strcmp(again.message_id, MESSAGE_ID) == 0);
	MUST(again.task.max_duration_us == c->task.max_duration_us &&
		again.task.priority == c->task.priority);
	MUST(again.task.data_class == c->task.data_class &&
		strcmp(again.task.checkpoint, c->task.checkpoint) == 0 &&
		strcmp(again.task.continues, c->task.continues) == 0);
	command_fini(&again);
	buf_fini(&b);
}

static bool is_same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void check_abort_again(const struct command *c)
{
	struct buf b = {0};
	struct command again;

	MUST(id_is_uuid4(c->session_id) && strpbrk(c->session_id, "ABCDEF") == NULL);
	ctl_task_compose_abort(&b, c->session_id, c->token, c->reason);
	MUST(message_read(b.data, b.size, 8, &again) == MESSAGE_OK && again.kind == COMMAND_ABORT);
	MUST(strcmp(again.session_id, c->session_id) == 0);
	MUST(is_same_text(again.token, c->token) && is_same_text(again.reason, c->reason));
	command_fini(&again);
	buf_fini(&b);
}

/* White space between the tokens has no say. */
static void check_minified(
	const struct command *c, enum message_result verdict, const char *body, size_t size, int max_depth)
{
	struct buf b = {0};
	struct command again;

	jtext_add_minified(&b, body, size);
	MUST(message_read(b.data, b.size, max_depth, &again) == verdict);
	MUST(again.kind == c->kind && again.task.json_size == c->task.json_size);
	MUST(c->task.json_size == 0 || memcmp(again.task.json, c->task.json, c->task.json_size) == 0);
	MUST(strcmp(again.message, c->message) == 0 && strcmp(again.caller_id, c->caller_id) == 0);
	command_fini(&again);
	buf_fini(&b);
}

/* A sender that is refused by its name is answered by the scan: about the same message, as the same caller.
 */
static void check_scan(const struct command *c, const char *body, size_t size, bool is_json)
{
	char *copy = xmalloc(size + 1);
	struct command scanned;

	memcpy(copy, body, size);
	copy[size] = '\0';
	if (message_scan_submit(copy, size, &scanned)) {
		MUST(scanned.kind == COMMAND_SUBMIT &&
			message_is_caller_id(scanned.caller_id, strlen(scanned.caller_id)));
		MUST(!is_json ||
			(strcmp(scanned.caller_id, c->caller_id) == 0 &&
				strcmp(scanned.message_id, c->message_id) == 0));
		MUST(scanned.task.capability == NULL || c->task.capability == NULL ||
			strcmp(scanned.task.capability, c->task.capability) == 0);
	}
	command_fini(&scanned);
	free(copy);
}

static void check(const char *body, size_t size, int max_depth)
{
	struct command c;
	struct message_head head;
	enum message_result verdict = message_read(body, size, max_depth, &c);
	char why[256];
	json_t *root = jtext_depth(body, size) <= 512 ? jtext_parse(body, size, why, sizeof why) : NULL;

	MUST(memchr(c.message_id, '\0', sizeof c.message_id) != NULL &&
		fuzz_is_plain(c.message_id, strlen(c.message_id), ""));
	MUST(c.caller_id[0] == '\0' || message_is_caller_id(c.caller_id, strlen(c.caller_id)));
	message_peek(body, size, &head);
	check_scan(&c, body, size, root != NULL);
	if (verdict != MESSAGE_OK) {
		check_refusal(&c, verdict);
	} else if (c.kind == COMMAND_SUBMIT) {
		MUST(c.caller_id[0] != '\0' && c.message_id[0] != '\0');
		check_task(&c.task, json_object_get(root, "payload"), (size_t)max_depth);
		check_submit_again(&c, max_depth);
	} else {
		check_abort_again(&c);
	}
	if (root != NULL)
		check_minified(&c, verdict, body, size, max_depth);
	else
		MUST(verdict == MESSAGE_DROP);
	MUST(verdict != MESSAGE_OK || jtext_depth(body, size) <= (size_t)max_depth);
	json_decref(root);
	command_fini(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check((const char *)data, size, 64);
	if (jtext_depth((const char *)data, size) > 4)
		check((const char *)data, size, 8);
	return 0;
}
