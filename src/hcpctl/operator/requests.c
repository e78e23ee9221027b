/* SPDX-License-Identifier: MIT */
/* requests.c: operator requests to the daemon: pause, resume, checkpoint, recover, extend, replay, drain,
 * undrain.
 * Owns their options and the texts about the result. Never waits for a worker: the daemon answers as soon as
 * the worker was notified. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hcpctl/common/op_common.h"
#include "base/duration.h"
#include "protocol/names.h"

enum { OPT_JSON = 256, OPT_HOW, OPT_BY, OPT_TOKEN };

static const struct request {
	const struct ctl_command *command;
	const char *options; /* letters: s takes sessions, r a reason, f a sequence to begin from, t a token;
			      * H needs to know how, B by how much */
	const char *asked;   /* text where the worker was notified; the session's state follows it */
	const char *done;
} requests[] = {
	{&ctl_pause, "sr", "was asked to pause: PAUSED when its worker says so, which hcpctl show tells; now",
		"is"},
	{&ctl_resume, "s",
		"was asked to go on: RUNNING when its worker says so, which hcpctl show tells; now",
		"goes on when there is a slot; now"},
	{&ctl_checkpoint, "s", "was asked for a checkpoint, which hcpctl checkpoints shows; now", "is"},
	{&ctl_recover, "srH", NULL, "is"},
	{&ctl_extend, "srBt", NULL, NULL},
	{&ctl_replay, "sf", NULL, NULL},
	{&ctl_drain, "", NULL,
		"draining: what runs goes on, new tasks are accepted and wait; undrain or a restart ends it"},
	{&ctl_undrain, "", NULL, "no longer draining: what waits starts"},
};

struct request_arguments {
	const struct request *request;
	const char *reason, *how, *by, *token;
	int64_t from;
	bool is_json;
};

static void print_answer(const struct request_arguments *a, const json_t *done)
{
	const struct request *r = a->request;
	bool was_asked = r->asked && json_is_true(json_object_get(done, "asked"));
	struct buf b = {0};
	char *text;

	if (a->is_json) {
		if ((text = json_dumps(done, JSON_COMPACT)))
			printf("%s\n", text);
		free(text);
		return;
	}
	if (strchr(r->options, 'f'))
		buf_addf(&b,
			"%lld messages of session %s are published again, behind what waits for its caller",
			(long long)json_integer_value(json_object_get(done, "messages")),
			ctl_op_text(done, "session"));
	else if (strchr(r->options, 'B'))
		buf_addf(&b, "session %s may take until %s", ctl_op_text(done, "session"),
			ctl_op_text(done, "deadline"));
	else if (!strchr(r->options, 's'))
		buf_add_text(&b, r->done);
	else
		buf_addf(&b, "session %s %s %s", ctl_op_text(done, "session"), was_asked ? r->asked : r->done,
			ctl_op_text(done, "state"));
	buf_add_text(&b, "\n");
	ctl_op_print(&b);
	buf_fini(&b);
}

static int send_one(struct ctl_client *c, const struct request_arguments *a, const char *session)
{
	const char *const texts[][2] = {
		{"reason", a->reason}, {"how", a->how}, {"by", a->by}, {"token", a->token}};
	json_t *request = ctl_client_request(a->request->command->name, session), *done = NULL;
	bool good = request != NULL;
	int status;

	for (size_t i = 0; good && i < sizeof texts / sizeof *texts; i++)
		good = !texts[i][1] || ctl_client_set(request, texts[i][0], texts[i][1]);
	if (!good) {
		json_decref(request);
		return CTL_USAGE;
	}
	if (a->from > 0)
		json_object_set_new(request, "from", json_integer(a->from));
	status = ctl_client_ask(c, request, NULL, NULL, &done);
	if (status == CTL_OK) {
		json_object_del(done, "id");
		print_answer(a, done);
	}
	json_decref(done);
	return status;
}

static int send_all(const struct request_arguments *a, struct ctl_options *o, char **sessions, int count)
{
	struct ctl_settings s;
	struct ctl_client *c;
	int status, worst = CTL_OK;

	if ((status = ctl_command_settings(&s, o)) != 0)
		return status;
	if ((c = ctl_client_open(&s, CTL_NEED_DAEMON, &worst)) != NULL) {
		if (!strchr(a->request->options, 's'))
			worst = send_one(c, a, NULL);
		for (int i = 0; i < count && worst != CTL_CLIENT_LOST; i++)
			if ((status = send_one(c, a, sessions[i])) != CTL_OK)
				worst = status;
		if (worst == CTL_CLIENT_LOST)
			worst = ctl_client_say_lost();
	}
	ctl_client_close(c);
	ctl_settings_fini(&s);
	return ctl_op_flush(worst);
}

static bool take_from(struct request_arguments *a, const char *word)
{
	char *end;

	a->from = strtoll(word, &end, 10);
	return end != word && *end == '\0' && a->from > 0;
}

static const struct own_option { /* options with a text that only some commands have */
	int letter;
	const char *in, *word;
	size_t at; /* in struct request_arguments */
} own_options[] = {
	{'r', "r", "--reason", offsetof(struct request_arguments, reason)},
	{OPT_HOW, "H", "--how", offsetof(struct request_arguments, how)},
	{OPT_BY, "B", "--by", offsetof(struct request_arguments, by)},
	{OPT_TOKEN, "t", "--token", offsetof(struct request_arguments, token)},
};
enum { OWN = sizeof own_options / sizeof *own_options };

/* -1: taken, go on; otherwise an exit status. */
static int take_own_option(struct request_arguments *a, int c, const char *name)
{
	size_t i = 0;

	if (c == 'n' && !strchr(a->request->options, 'f'))
		return ctl_command_usage(name, "it has no option --from");
	if (c == 'n')
		return take_from(a, optarg) ?
			-1 :
			ctl_command_usage(name, "--from %s is no sequence; they count from 1 on", optarg);
	while (own_options[i].letter != c)
		i++;
	if (!strstr(a->request->options, own_options[i].in))
		return ctl_command_usage(name, "it has no option %s", own_options[i].word);
	*(const char **)((char *)a + own_options[i].at) = optarg;
	return -1;
}

static bool is_own_option(int c)
{
	for (size_t i = 0; i < OWN; i++)
		if (own_options[i].letter == c)
			return true;
	return c == 'n';
}

static int check_words(const struct request_arguments *a, const char *name, int argc, char **argv)
{
	const char *options = a->request->options;
	int64_t by_us;

	if (strchr(options, 's') && optind >= argc)
		return ctl_command_usage(name,
			"which session? an id, or the beginning of one, is missing (hcpctl list shows them)");
	if (!strchr(options, 's') && optind < argc)
		return ctl_command_usage(name, "it is for the whole daemon: %s is too much", argv[optind]);
	if (strchr(options, 'H') && !a->how)
		return ctl_command_usage(
			name, "how? --how resume, restart, fail, summarize or discard is missing");
	if (a->how && name_find(recovery_names, a->how) < 0)
		return ctl_command_usage(name,
			"--how %s is no way; write resume, restart, fail, summarize or discard", a->how);
	if (strchr(options, 'B') && !a->by)
		return ctl_command_usage(name, "how much longer? --by is missing, as in --by 30m");
	if (a->by && (!duration_parse(a->by, &by_us) || by_us <= 0))
		return ctl_command_usage(
			name, "--by %s is no duration; write 90s, 30m, 2h or PT1H30M", a->by);
	return 0;
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = {{"reason", required_argument, NULL, 'r'},
		{"from", required_argument, NULL, 'n'}, {"how", required_argument, NULL, OPT_HOW},
		{"by", required_argument, NULL, OPT_BY}, {"token", required_argument, NULL, OPT_TOKEN},
		{"json", no_argument, NULL, OPT_JSON}, CTL_OPERATOR_OPTIONS};
	const struct request *r = requests;
	struct request_arguments a = {0};
	char name[32];
	int c, status;

	while (strcmp(r->command->name, argv[0]) != 0)
		r++;
	a.request = r;
	snprintf(name, sizeof name, "%s ", argv[0]);
	while ((c = getopt_long(argc, argv, ":hr:n:", options, NULL)) != -1) {
		if (c == OPT_JSON)
			a.is_json = true;
		else if ((status = is_own_option(c) ? take_own_option(&a, c, name) :
						      ctl_command_option(c, argv, r->command, o)) >= 0)
			return status;
	}
	if ((status = check_words(&a, name, argc, argv)) != 0)
		return status;
	return send_all(&a, o, argv + optind, argc - optind);
}

#define JSON_HELP "      --json          the daemon's answer as JSON\n"

const struct ctl_command ctl_pause = {
	.name = "pause",
	.summary = "ask workers to pause: SESSION... [--reason TEXT]",
	.help = "usage: hcpctl pause [options] SESSION...\n\n"
		"Asks the workers of running sessions to pause. A session is PAUSED when its worker says "
		"that it\n"
		"has, and stays so, through restarts of the daemon too, until `hcpctl resume`. Its time runs "
		"on:\n"
		"max_duration counts, and pause_grace. With pause_frees_worker its process ends once its "
		"checkpoint\n"
		"is stored.\n\n"
		"  -r, --reason TEXT   why; told to the worker, and in the log of hcpd\n" JSON_HELP
			CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl pause 5f0c --reason 'the lab is being cleaned'\n",
	.run = run,
};

const struct ctl_command ctl_resume = {
	.name = "resume",
	.summary = "let paused sessions go on: SESSION...",
	.help = "usage: hcpctl resume [options] SESSION...\n\n"
		"Lets paused sessions go on. One without a process, since the daemon was restarted or it "
		"gave its\n"
		"process up, starts again from its checkpoint when there is a slot.\n\n" JSON_HELP
			CTL_OPERATOR_HELP "\nExample:\n  hcpctl resume 5f0c\n",
	.run = run,
};

const struct ctl_command ctl_checkpoint = {
	.name = "checkpoint",
	.summary = "ask workers for a checkpoint: SESSION...",
	.help = "usage: hcpctl checkpoint [options] SESSION...\n\n"
		"Asks the workers of running sessions for a checkpoint. `hcpctl checkpoints` shows what came "
		"of it.\n\n" JSON_HELP CTL_OPERATOR_HELP "\nExample:\n  hcpctl checkpoint 5f0c\n",
	.run = run,
};

const struct ctl_command ctl_recover = {
	.name = "recover",
	.summary = "decide about interrupted sessions: SESSION... --how WAY",
	.help = "usage: hcpctl recover [options] --how WAY SESSION...\n\n"
		"Decides what becomes of PAUSED sessions without a process: those that a restart of the "
		"daemon left\n"
		"(on_start = ask), that gave up their process, or that wait for their worker's next "
		"attempt.\n\n"
		"      --how WAY       resume: from the latest good checkpoint; restart: from the beginning, "
		"for good;\n"
		"                      fail: FAILED; summarize: FAILED, with what there is as partial "
		"outputs;\n"
		"                      discard: ABORTED\n"
		"  -r, --reason TEXT   why; in the log of hcpd and in the audit\n" JSON_HELP CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl recover 5f0c --how summarize\n",
	.run = run,
};

const struct ctl_command ctl_extend = {
	.name = "extend",
	.summary = "give sessions more time: SESSION... --by DURATION",
	.help = "usage: hcpctl extend [options] --by DURATION SESSION...\n\n"
		"Moves the deadline of sessions that have begun, as far as max_extended of hcpd.ini(5) lets "
		"it. The\n"
		"caller gets a log event, and the worker is told.\n\n"
		"      --by DURATION   how much longer: 30m, 2h, PT90M\n"
		"      --token TOKEN   proves that its owner wants it: refused where it is not the "
		"session's\n"
		"  -r, --reason TEXT   why; in the log of hcpd and in the audit\n" JSON_HELP CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl extend 5f0c --by 30m\n",
	.run = run,
};

const struct ctl_command ctl_replay = {
	.name = "replay",
	.summary = "publish messages again, for a caller that lost them: SESSION... [--from SEQ]",
	.help = "usage: hcpctl replay [options] SESSION...\n\n"
		"Publishes the stored messages of sessions again, byte for byte, behind what waits for their "
		"caller.\n"
		"A caller knows them by message_id and sequence, and passes over what it has. A restart of "
		"the daemon\n"
		"ends a replay where it is.\n\n"
		"  -n, --from SEQ      from this sequence on\n" JSON_HELP CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl replay 5f0c --from 17\n",
	.run = run,
};

const struct ctl_command ctl_drain = {
	.name = "drain",
	.summary = "start nothing new; what runs goes on",
	.help = "usage: hcpctl drain [options]\n\n"
		"The daemon starts no worker: what runs goes on to its end, new tasks are accepted and wait. "
		"A restart\n"
		"of the daemon ends it, and so does `hcpctl undrain`. `hcpctl stats` shows it.\n\n" JSON_HELP
			CTL_OPERATOR_HELP "\nExample:\n  hcpctl drain && hcpctl list --state live\n",
	.run = run,
};

const struct ctl_command ctl_undrain = {
	.name = "undrain",
	.summary = "start what waits again",
	.help = "usage: hcpctl undrain [options]\n\nWhat waits starts again.\n\n" JSON_HELP CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl undrain\n",
	.run = run,
};
