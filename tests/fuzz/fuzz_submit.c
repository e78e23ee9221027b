/* SPDX-License-Identifier: MIT */
/* fuzz_submit.c: a command line of hcpctl to a task_submit. Input: capability, caller, intent, a JSON object
 * of inputs (or nothing), a line each; then a line an --input, name=value; behind a line `--` those of
 * --context. */
#include <stdlib.h>
#include <string.h>

#include "protocol/message.h"
#include "hcpctl/common/task.h"
#include "fuzz.h"

/* Laid over each other as --input and a file are. */
static void lay_over(json_t *base, json_t *over)
{
	const char *key;
	json_t *value;

	json_object_foreach(over, key, value) {
		json_t *below = json_object_get(base, key);

		if (json_is_object(below) && json_is_object(value))
			lay_over(below, value);
		else
			json_object_set(base, key, value);
	}
}

static void set(json_t *object, const char *assignment)
{
	char why[CTL_TASK_WHY_SIZE] = "";
	const char *equals = strchr(assignment, '=');
	bool ok = ctl_task_set(object, assignment, why);

	MUST(ok == (why[0] == '\0') && memchr(why, '\0', sizeof why) != NULL);
	MUST(!ok || (equals != NULL && equals != assignment));
}

static void check(const struct ctl_task *t, json_t *base)
{
	struct buf b = {0};
	struct command c;
	enum message_result verdict;
	json_t *task;

	ctl_task_compose(&b, t);
	json_decref(fuzz_json(b.data, b.size));
	verdict = message_read(b.data, b.size, 1024, &c);
	/* All that the daemon may refuse is what the words said, never how we wrote them. */
	MUST(verdict == MESSAGE_OK || (verdict == MESSAGE_REJECT && strstr(c.message, "capability") != NULL));
	MUST(strcmp(c.caller_id, t->caller) == 0);
	if (verdict == MESSAGE_OK) {
		task = fuzz_json(c.task.json, c.task.json_size);
		lay_over(base, (json_t *)(uintptr_t)t->inputs);
		MUST(fuzz_same(json_object_get(task, "inputs"), base));
		MUST(json_object_size(t->context) == 0 ||
			fuzz_same(json_object_get(task, "context"), t->context));
		json_decref(task);
	}
	command_fini(&c);
	buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size};
	char *capability = feed_line(&f), *caller = feed_line(&f), *intent = feed_line(&f),
	     *text = feed_line(&f);
	char why[256];
	json_t *inputs = json_object(), *context = json_object(), *to = inputs;
	json_t *base = jtext_depth(text, strlen(text)) < 500 ?
		jtext_parse(text, strlen(text), why, sizeof why) :
		NULL;
	struct ctl_task t = {.capability = capability,
		.caller = "alpha",
		.intent = *intent != '\0' ? intent : NULL,
		.inputs = inputs,
		.context = context,
		.max_duration = "PT1M",
		.priority = "high"};

	if (message_is_caller_id(caller, strlen(caller)))
		t.caller = caller;
	if (json_is_object(base)) {
		t.inputs_text = text;
		t.inputs_size = strlen(text);
	} else {
		json_decref(base);
		base = json_object();
	}
	while (!feed_is_empty(&f)) {
		char *line = feed_line(&f);

		if (strcmp(line, "--") == 0)
			to = context;
		else
			set(to, line);
		free(line);
	}
	check(&t, base);
	json_decref(inputs);
	json_decref(context);
	json_decref(base);
	free(capability);
	free(caller);
	free(intent);
	free(text);
	return 0;
}
