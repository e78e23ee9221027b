/* SPDX-License-Identifier: MIT */
/* gate.c: how many decisions a second the gate makes on one core: a task of 2 kB, an input_schema of 3 kB,
 * ten rules, an envelope and a rate limit. In processor time, as nothing else is waited for.
 *
 *   gate        prints key=value lines: sizes, decisions a second, and the time to read the same task
 *               from its message */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "policy/gate.h"

#define DECISIONS 20000
#define FIELDS 18

static char dir[] = "/tmp/hcpd-gate-XXXXXX";

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void die(const char *why)
{
	fprintf(stderr, "gate: %s\n", why);
	exit(1);
}

static void say(void *ctx, bool is_error, const char *text)
{
	(void)ctx;
	if (is_error)
		die(text);
}

static void write_file(const char *name, struct buf *b)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	f = fopen(path, "w");
	if (f == NULL || fwrite(b->data, 1, b->size, f) != b->size || fclose(f) != 0)
		die("cannot write");
}

/* An object with steps, each with a kind of value that contracts have. */
static size_t add_schema(struct buf *b)
{
	size_t began = b->size;

	buf_add_text(b,
		"{\"type\":\"object\",\"required\":[\"sample\",\"operator\",\"steps\"],"
		"\"additionalProperties\":false,\"properties\":{"
		"\"sample\":{\"type\":\"string\",\"pattern\":\"^[A-Z]{2}-[0-9]{4,8}$\"},\"operator\":{"
		"\"type\":\"string\",\"minLength\":1,"
		"\"maxLength\":80},\"steps\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":50,\"items\":{"
		"\"$ref\":\"#/$defs/step\"}}");
	for (int i = 0; i < FIELDS; i++)
		buf_addf(b,
			",\"setting_%d\":{\"description\":\"one of the settings of the "
			"machine\",\"type\":\"number\",\"minimum\":%d,"
			"\"maximum\":%d,\"multipleOf\":0.5}",
			i, -100 * i, 1000 + i);
	buf_add_text(b,
		"},\"$defs\":{\"step\":{\"type\":\"object\",\"required\":[\"name\",\"minutes\"],"
		"\"properties\":{\"name\":{\"enum\":["
		"\"heat\",\"cool\",\"stir\",\"wait\",\"measure\"]},\"minutes\":{\"type\":\"integer\","
		"\"minimum\":1,\"maximum\":600},"
		"\"temperature_c\":{\"type\":\"number\"},\"note\":{\"type\":[\"string\",\"null\"],"
		"\"maxLength\":200},\"tags\":{\"type\":\"array\","
		"\"items\":{\"type\":\"string\"},\"uniqueItems\":true}},\"if\":{\"properties\":{\"name\":{"
		"\"const\":\"heat\"}}},\"then\":{"
		"\"required\":[\"temperature_c\"]}}},\"dependentRequired\":{\"setting_1\":[\"setting_0\"]},"
		"\"propertyNames\":{\"maxLength\":40}}");
	return b->size - began;
}

static void add_rules(struct buf *b)
{
	buf_add_text(b,
		"\"rules\":["
		"{\"when\":{\"pointer\":\"/steps/0/"
		"temperature_c\",\"op\":\">\",\"value\":80},\"level\":\"R3\",\"reason\":\"hot\"},"
		"{\"when\":{\"pointer\":\"/steps/1/"
		"temperature_c\",\"op\":\"between\",\"value\":[150,200]},\"level\":\"R4\",\"reason\":\"very "
		"hot\"},"
		"{\"when\":{\"pointer\":\"/"
		"setting_3\",\"op\":\">=\",\"value\":900.5},\"level\":\"R3\",\"reason\":\"fast\"},"
		"{\"when\":{\"pointer\":\"/"
		"steps\",\"op\":\"count>\",\"value\":20},\"level\":\"R3\",\"reason\":\"long\"},"
		"{\"when\":{\"pointer\":\"/"
		"operator\",\"op\":\"in\",\"value\":[\"guest\",\"test\",\"nobody\"]},\"level\":\"R3\","
		"\"reason\":\"who\"},"
		"{\"when\":{\"all\":[{\"pointer\":\"/setting_5\",\"op\":\"<\",\"value\":0},{\"pointer\":\"/"
		"setting_6\",\"op\":\"<\",\"value\":0}]},"
		"\"level\":\"R4\",\"reason\":\"both negative\"},"
		"{\"when\":{\"any\":[{\"pointer\":\"/setting_7\",\"op\":\"absent\"},{\"pointer\":\"/"
		"setting_8\",\"op\":\"!=\",\"value\":8}]},"
		"\"level\":\"R2\",\"reason\":\"unusual\"},"
		"{\"when\":{\"not\":{\"pointer\":\"/"
		"setting_9\",\"op\":\"<=\",\"value\":500}},\"level\":\"R4\",\"reason\":\"high\"},"
		"{\"when\":{\"pointer\":\"/steps/2/"
		"tags\",\"op\":\"count>=\",\"value\":3},\"level\":\"R2\",\"reason\":\"tagged\"},"
		"{\"when\":{\"pointer\":\"/"
		"sample\",\"op\":\"==\",\"value\":\"ZZ-0000\"},\"level\":\"R5\",\"reason\":\"do not "
		"touch\"}],"
		"\"context\":[{\"unattended\":{\"from\":\"18:00\",\"to\":\"07:00\",\"zone\":\"utc\"},"
		"\"level\":\"R3\",\"reason\":\"night\"}],"
		"\"envelope\":{\"parameters\":{\"setting_0\":{\"max\":1000,\"min\":-5,\"hard_limit\":1200},"
		"\"/steps/0/temperature_c\":{\"max\":200}},"
		"\"prohibited_actions\":[\"vent\",\"melt\"]}");
}

static struct policy *make_policy(size_t *schema_size)
{
	struct buf b = {0};
	struct policy *p;
	char path[64];

	buf_add_text(&b,
		"{\"capability\":{\"name\":\"furnace\",\"version\":\"1.0.0\",\"description\":\"d\",\"input_"
		"schema\":");
	*schema_size = add_schema(&b);
	buf_add_text(&b, ",\"output_schema\":{},\"safety\":{\"risk_ceiling\":\"R5\",\"risk_floor\":\"R1\",");
	add_rules(&b);
	buf_add_text(&b, ",\"requires_human_approval\":true,\"involves_physical_resources\":true}}}");
	write_file("furnace.json", &b);
	buf_clear(&b);
	buf_add_text(&b,
		"[daemon]\ncallee_id = c\n[capability furnace]\ndeclaration = furnace.json\ncommand = "
		"/bin/true\n"
		"[caller bench]\ncapabilities = furnace\nmax_risk = R4\nrate_limit = 1000000/s\nrate_burst = "
		"10000\n");
	write_file("hcpd.ini", &b);
	buf_fini(&b);
	snprintf(path, sizeof path, "%s/hcpd.ini", dir);
	p = policy_load(path, say, NULL);
	unlink(path);
	snprintf(path, sizeof path, "%s/furnace.json", dir);
	unlink(path);
	rmdir(dir);
	return p;
}

static void add_task(struct buf *b)
{
	buf_add_text(b,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"m-1\",\"timestamp\":\"2026-01-01T12:00:00Z\","
		"\"session_id\":null,"
		"\"type\":\"task_submit\",\"payload\":{\"capability\":\"furnace\",\"caller_id\":\"bench\","
		"\"intent\":\"fire the sample\","
		"\"inputs\":{\"sample\":\"AB-123456\",\"operator\":\"somebody\",\"steps\":[");
	for (int i = 0; i < 15; i++)
		buf_addf(b,
			"%s{\"name\":\"%s\",\"minutes\":%d,\"temperature_c\":%d.5,\"note\":\"as it was done "
			"the last time\","
			"\"tags\":[\"a\",\"b%d\"]}",
			i > 0 ? "," : "", i % 2 ? "cool" : "heat", 10 + i, 40 + i, i);
	buf_add_text(b, "]");
	for (int i = 0; i < FIELDS; i++)
		buf_addf(b, ",\"setting_%d\":%d.5", i, i);
	buf_add_text(b, "}}}");
}

int main(void)
{
	size_t schema_size = 0;
	struct policy *p = mkdtemp(dir) != NULL ? make_policy(&schema_size) : NULL;
	struct buf b = {0};
	struct command cmd;
	struct gate_result v;
	struct rate rate = {0};
	struct gate_context context = {
		.may_start = true, .rate = &rate, .now_us = 1000000, .clock = {{720, 720}, {1, 1}}};
	const struct config_caller *caller;
	double began;

	if (p == NULL)
		die("no policy");
	add_task(&b);
	caller = gate_identify(p, "bench", NULL, &v);
	if (message_read(b.data, b.size, 64, &cmd) != MESSAGE_OK)
		die(cmd.message);
	printf("task_bytes=%zu\nschema_bytes=%zu\nrules=10\n", cmd.task.json_size, schema_size);
	began = now();
	for (int i = 0; i < DECISIONS; i++) {
		context.now_us += 100;
		gate_decide(p, caller, &cmd.task, &context, &v);
		if (v.kind != GATE_APPROVED)
			die(v.message);
		rate_take(&caller->rate, &rate, context.now_us);
	}
	printf("rate=%.0f\n", DECISIONS / (now() - began));
	command_fini(&cmd);
	began = now();
	for (int i = 0; i < DECISIONS / 10; i++) {
		if (message_read(b.data, b.size, 64, &cmd) != MESSAGE_OK)
			die(cmd.message);
		command_fini(&cmd);
	}
	printf("read_us=%.2f\n", (now() - began) / (DECISIONS / 10) * 1e6);
	buf_fini(&b);
	policy_unref(p);
	return 0;
}
