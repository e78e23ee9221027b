/* SPDX-License-Identifier: MIT */
/* fuzz_rules.c: a declaration with schema, rules, context and envelope, and a task that is decided by it.
 * Input: the members of the declaration's `safety` object as JSON, its input_schema, the task's inputs, a
 * line each; then bytes: the caller's limits, the hour, the day, running sessions, and flags of the
 * moment. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "policy/envelope.h"
#include "files.h"
#include "fuzz.h"
#include "policy/gate.h"
#include "jschema/jschema.h"

#define PATH FILES_DIR "/echo.json"

static void say(void *ctx, bool is_error, const char *text)
{
	MUST(strncmp(text, PATH ":", sizeof PATH) == 0 && strlen(text) < 4096);
	*(int *)ctx += is_error;
}

static struct capability *load(json_t *safety, json_t *schema, const struct config_capability *cc)
{
	struct capability *c;
	int errors = 0;
	char *text;
	json_t *root = json_pack("{s:{s:s,s:s,s:s,s:O,s:b,s:O}}", "capability", "name", "echo", "version",
		"1.0.0", "description", "d", "input_schema", schema, "output_schema", 1, "safety", safety);

	text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	files_clear();
	files_add("echo.json", text, strlen(text), 0644);
	c = capability_load(cc, say, &errors);
	MUST((c == NULL) == (errors > 0));
	free(text);
	return c;
}

static unsigned running(void *arg, const char *capability)
{
	MUST(strcmp(capability, "echo") == 0);
	return *(unsigned *)arg;
}

static void check(const struct gate_result *v, const struct capability *c, const struct task *task,
	const struct config_caller *caller, const struct gate_context *context)
{
	struct envelope_breach breach;
	const char *would;

	MUST(memchr(v->message, '\0', sizeof v->message) &&
		memchr(v->suggestion, '\0', sizeof v->suggestion));
	MUST(v->kind == GATE_REJECTED ? v->code != NULL && v->message[0] != '\0' : v->capability == c);
	MUST((v->risk == R_NONE) ==
		(v->code != NULL &&
			(strcmp(v->code, "invalid_input") == 0 ||
				(strcmp(v->code, "policy_denied") == 0 && v->assessed.level == R_NONE))));
	if (v->kind != GATE_REJECTED) {
		MUST(v->risk <= caller->max_risk && v->risk <= c->risk_ceiling);
		MUST(jschema_check(c->input_schema, task->inputs, NULL));
		MUST(envelope_check_inputs(c->envelope, task->inputs, &breach) == ENVELOPE_INSIDE);
		MUST(v->kind == GATE_NEEDS_APPROVAL || !c->requires_human_approval || v->risk < R3);
		MUST(v->kind == GATE_APPROVED || context->has_approver);
	}
	/* A promise about the risk is one that would be kept. */
	if (v->kind == GATE_REJECTED && strcmp(v->code, "risk_too_high") == 0 &&
		(would = strstr(v->suggestion, " the risk would be R")) != NULL && strlen(would) == 21)
		MUST(would[20] - '0' <= (int)caller->max_risk && would[20] - '0' <= (int)c->risk_ceiling);
}

static void decide(const struct capability *c, json_t *inputs, struct feed *f)
{
	char name[] = "echo", star[] = "*", *all[] = {star, NULL};
	const struct capability *listed[1] = {c};
	struct config config = {.capability_count = 1, .max_duration_us = 1};
	struct policy policy = {.refs = 1, .config = &config};
	struct config_caller caller = {.name = star,
		.capabilities = all,
		.max_risk = (enum risk)(1 + feed_byte(f) % 5),
		.max_data_class = T4};
	struct task task = {.capability = name, .inputs = inputs};
	unsigned count = 0;
	struct gate_context context = {.may_start = true, .running = running, .running_arg = &count};
	struct gate_result v, again;
	uint8_t flags;

	memcpy(&policy.capabilities, &(const struct capability **){listed}, sizeof policy.capabilities);
	for (int i = 0; i < RISK_ZONES; i++) {
		context.clock.minute[i] = feed_byte(f) * 1439 / 255;
		context.clock.weekday[i] = feed_byte(f) % 7;
	}
	count = feed_byte(f);
	flags = feed_byte(f);
	context.has_approver = (flags & 1) != 0;
	context.has_program = (flags & 2) != 0;
	memset(&v, 0x11, sizeof v);
	memset(&again, 0x22, sizeof again);
	gate_decide(&policy, &caller, &task, &context, &v);
	gate_decide(&policy, &caller, &task, &context, &again);
	MUST(v.kind == again.kind && v.risk == again.risk && v.code == again.code &&
		strcmp(v.message, again.message) == 0 && strcmp(v.suggestion, again.suggestion) == 0);
	check(&v, c, &task, &caller, &context);
}

static json_t *take_json(struct feed *f)
{
	char *line = feed_line(f);
	json_t *v = json_loads(line, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);

	free(line);
	return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {.at = (const char *)data, .left = size};
	char declaration[] = PATH, name[] = "echo";
	struct config_capability cc = {.name = name, .declaration = declaration};
	json_t *safety = take_json(&f), *schema = take_json(&f), *inputs = take_json(&f);
	struct capability *c;

	if (json_is_object(safety) && schema != NULL && json_is_object(inputs)) {
		c = load(safety, schema, &cc);
		if (c != NULL)
			decide(c, inputs, &f);
		capability_free(c);
	}
	json_decref(safety);
	json_decref(schema);
	json_decref(inputs);
	return 0;
}
