/* SPDX-License-Identifier: MIT */
/* submit_options.c: the command line of `hcpctl submit`.
 * Owns its options and the messages about wrong ones. Never connects (submit.c does). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "protocol/message.h"
#include "hcpctl/common/command.h"
#include "hcpctl/caller/broker.h"
#include "hcpctl/caller/submit.h"
#include "base/duration.h"
#include "json/text.h"
#include "base/semver.h"

#define SECOND INT64_C(1000000)
#define INPUTS_MAX (64u << 20)
#define DEPTH_MAX 512

struct parsed_options {
	struct ctl_submit_options out;
	json_t *inputs, *context, *labels;
	struct buf inputs_text;
	char max_duration[DURATION_TEXT_SIZE];
	bool wait;
};

enum {
	OPT_INPUTS = 256,
	OPT_VERSION,
	OPT_DURATION,
	OPT_PRIORITY,
	OPT_CLASS,
	OPT_CONTEXT,
	OPT_CHECKPOINT,
	OPT_CONTINUES,
	OPT_LABEL,
	OPT_WAIT,
	OPT_DETACH,
	OPT_TIMEOUT,
	OPT_RETRY,
	OPT_JSON
};

static const struct option options[] = {{"intent", required_argument, NULL, 'm'},
	{"input", required_argument, NULL, 'i'}, {"inputs", required_argument, NULL, OPT_INPUTS},
	{"capability-version", required_argument, NULL, OPT_VERSION},
	{"max-duration", required_argument, NULL, OPT_DURATION},
	{"priority", required_argument, NULL, OPT_PRIORITY},
	{"data-class", required_argument, NULL, OPT_CLASS}, {"context", required_argument, NULL, OPT_CONTEXT},
	{"checkpoint", required_argument, NULL, OPT_CHECKPOINT},
	{"continues", required_argument, NULL, OPT_CONTINUES}, {"label", required_argument, NULL, OPT_LABEL},
	{"wait", no_argument, NULL, OPT_WAIT}, {"detach", no_argument, NULL, OPT_DETACH},
	{"timeout", required_argument, NULL, OPT_TIMEOUT}, {"retry", required_argument, NULL, OPT_RETRY},
	{"json", no_argument, NULL, OPT_JSON}, CTL_GLOBAL_OPTIONS};

#define usage(...) ctl_command_usage("submit ", __VA_ARGS__)

/* Each take_ function returns 0, or an exit status after a message. */

static int take_duration(const char *option, const char *text, int64_t *us)
{
	if (duration_parse(text, us) && *us > 0)
		return 0;
	return usage("--%s %s is no duration; write 30s, 10m, 2h or PT1H30M", option, text);
}

static int take_name(
	const char *option, const char *text, const char *const *names, int count, const char **out)
{
	struct buf known = {0};
	int status;

	for (int i = 0; i < count; i++) {
		if (strcmp(text, names[i]) == 0) {
			buf_fini(&known);
			*out = names[i];
			return 0;
		}
		buf_addf(&known, "%s%s", i ? ", " : "", names[i]);
	}
	status = usage("--%s %s is not known; write one of %s", option, text, buf_text(&known));
	buf_fini(&known);
	return status;
}

/* The id of a session or checkpoint that has ended must be whole: hcpctl cannot complete its beginning any
 * more. */
static int take_id(const char *option, const char *text, const char *where, const char **out)
{
	*out = text;
	return id_is_uuid4(text) ? 0 : usage("--%s %s is no whole id; %s", option, text, where);
}

static int take_assignment(const char *option, const char *text, json_t *object)
{
	char why[CTL_TASK_WHY_SIZE];

	return ctl_task_set(object, text, why) ? 0 : usage("--%s: %s", option, why);
}

static int read_stream(FILE *f, const char *name, struct buf *out)
{
	size_t got;

	buf_clear(out);
	do {
		buf_reserve(out, 65536);
		got = fread(out->data + out->size, 1, 65536, f);
		out->size += got;
	} while (got > 0 && out->size <= INPUTS_MAX);
	if (!ferror(f) && out->size <= INPUTS_MAX)
		return 0;
	ctl_say("--inputs %s cannot be read: %s", name, ferror(f) ? strerror(errno) : "it is over 64 MiB");
	return CTL_ERROR;
}

static int take_inputs_file(struct parsed_options *w, const char *name)
{
	FILE *f = strcmp(name, "-") == 0 ? stdin : fopen(name, "re");
	char why[256] = "it nests too deep";
	json_t *v = NULL;
	int status;

	if (!f) {
		ctl_say("--inputs %s cannot be read: %s", name, strerror(errno));
		return CTL_ERROR;
	}
	status = read_stream(f, name, &w->inputs_text);
	if (f != stdin)
		fclose(f);
	if (status)
		return status;
	if (jtext_depth(w->inputs_text.data, w->inputs_text.size) <= DEPTH_MAX)
		v = jtext_parse(w->inputs_text.data, w->inputs_text.size, why, sizeof why);
	if (!json_is_object(v)) {
		ctl_say("--inputs %s is no JSON object: %s", name, v ? "it is another kind of value" : why);
		status = CTL_ERROR;
	}
	json_decref(v);
	return status;
}

static int take_max_duration(struct parsed_options *w, const char *text)
{
	int64_t us;
	int status = take_duration("max-duration", text, &us);

	duration_format(status ? 0 : us, w->max_duration);
	w->out.task.max_duration = w->max_duration;
	return status;
}

static int take_label(json_t *labels, const char *text)
{
	int status = ctl_command_label("submit ", labels, text);

	if (status == 0 && json_object_size(labels) > LABELS_MAX)
		status = usage("--label %s is too much; a task has at most %d", text, LABELS_MAX);
	return status;
}

/* -1: not an option of submit. */
static int take_option(struct parsed_options *w, int c)
{
	struct ctl_task *t = &w->out.task;

	switch (c) {
	case 'm': t->intent = optarg; return 0;
	case 'i': return take_assignment("input", optarg, w->inputs);
	case OPT_INPUTS: return take_inputs_file(w, optarg);
	case OPT_VERSION:
		t->version = optarg;
		return semver_is_range(optarg) ?
			0 :
			usage("--capability-version %s is no range of versions; write 1.x, ^1.2 or >=2.0.0",
				optarg);
	case OPT_DURATION: return take_max_duration(w, optarg);
	case OPT_PRIORITY: return take_name("priority", optarg, priority_names, PRIORITY_COUNT, &t->priority);
	case OPT_CLASS: return take_name("data-class", optarg, data_class_names, 4, &t->data_class);
	case OPT_CONTEXT: return take_assignment("context", optarg, w->context);
	case OPT_CHECKPOINT:
		return take_id("checkpoint", optarg, "hcpctl checkpoints shows it", &t->checkpoint);
	case OPT_CONTINUES: return take_id("continues", optarg, "hcpctl list --full shows it", &t->continues);
	case OPT_LABEL: return take_label(w->labels, optarg);
	case OPT_WAIT: w->wait = true; return 0;
	case OPT_DETACH: w->out.detach = true; return 0;
	case OPT_TIMEOUT: return take_duration("timeout", optarg, &w->out.timeout_us);
	case OPT_RETRY: return take_duration("retry", optarg, &w->out.retry_us);
	case OPT_JSON: w->out.json = true; return 0;
	default: return -1;
	}
}

/* -1: the command line is complete, go on. */
static int read_words(struct parsed_options *w, int argc, char **argv, struct ctl_options *o)
{
	int c, status;

	while ((c = getopt_long(argc, argv, ":hm:i:", options, NULL)) != -1) {
		status = take_option(w, c);
		if (status > 0)
			return status;
		if (status < 0 && (status = ctl_command_option(c, argv, &ctl_submit, o)) >= 0)
			return status;
	}
	if (w->wait && w->out.detach)
		return usage("--wait and --detach exclude each other; leave out one");
	if (optind >= argc)
		return usage("which capability? its name is missing");
	if (optind + 1 < argc)
		return usage("%s is one word too many; inputs are given with --input name=value",
			argv[optind + 1]);
	w->out.task.capability = argv[optind];
	if (w->inputs_text.data) {
		w->out.task.inputs_text = w->inputs_text.data;
		w->out.task.inputs_size = w->inputs_text.size;
	}
	w->out.task.inputs = w->inputs;
	w->out.task.context = w->context;
	w->out.task.labels = w->labels;
	return -1;
}

static int run_with(struct parsed_options *w, struct ctl_options *o)
{
	struct ctl_settings s;
	int status = ctl_command_settings(&s, o);

	if (status)
		return status;
	if (!s.caller)
		status = ctl_command_missing(&s, "caller");
	else if (!s.callee)
		status = ctl_command_missing(&s, "callee");
	if (!status) {
		w->out.task.caller = s.caller;
		ctl_broker_catch_signals();
		status = ctl_submit_run(&s, &w->out);
	}
	ctl_settings_fini(&s);
	return status;
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	struct parsed_options w = {.inputs = json_object(),
		.context = json_object(),
		.labels = json_object(),
		.out = {.timeout_us = 60 * SECOND, .retry_us = 5 * SECOND}};
	int status = read_words(&w, argc, argv, o);

	if (status < 0)
		status = run_with(&w, o);
	json_decref(w.inputs);
	json_decref(w.context);
	json_decref(w.labels);
	buf_fini(&w.inputs_text);
	return status;
}

const struct ctl_command ctl_submit = {
	.name = "submit",
	.summary = "hand over a task and show what becomes of it: CAPABILITY [--input k=v ...]",
	.help = "usage: hcpctl submit [options] CAPABILITY\n\n"
		"Hands a task to the callee, shows its events as they come and its result at the end. The "
		"exit\n"
		"status tells how it ended: 0 completed, 2 failed, 3 rejected, 4 aborted, 5 no answer.\n\n"
		"  -m, --intent TEXT          what it is for, in words\n"
		"  -i, --input NAME=VALUE     an input; VALUE is JSON where it is valid JSON, else text;\n"
		"                             a.b=1 goes inside a\n"
		"      --inputs FILE          all inputs as one JSON object; - is standard input; --input\n"
		"                             goes on top\n"
		"      --capability-version R a range of versions, as 1.x or >=2.0.0\n"
		"      --max-duration D       30s, 10m, 2h or PT1H30M\n"
		"      --priority P           low, normal, high or urgent\n"
		"      --data-class T         T1 (public) to T4 (restricted)\n"
		"      --context NAME=VALUE   goes with the task; only `continues` is checked\n"
		"      --checkpoint ID        begin from this one, of a session of yours that has ended\n"
		"      --continues SESSION    its worker gets the record of that one, which has ended, too\n"
		"      --label NAME=VALUE     hcpctl list -l finds the session by it; at most 16\n"
		"      --wait                 until the end (the default)\n"
		"      --detach               only until the task is accepted\n"
		"      --timeout D            how long to wait for an answer (60s)\n"
		"      --retry D              ask again after so long, then twice as long each time (5s)\n"
		"      --json                 each message as one line of JSON, as it was "
		"received\n" CTL_GLOBAL_HELP
		"\nExample:\n"
		"  hcpctl submit summarize -m 'for the weekly' --input url=https://example.org/ --input "
		"words=200\n"
		"  hcpctl submit summarize --continues ad72cf0a-4b1e-4c6d-9f43-0c8b8ed1a5f2 --detach\n",
	.run = run,
};
