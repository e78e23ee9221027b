/* ctl_abort.c: `hcpctl abort`.
 * Owns which callee and which token an abort goes out with.
 * Never waits for the session's end: `watch` shows it. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "ctl_cmd.h"
#include "ctl_pump.h"
#include "ctl_sessions.h"
#include "ctl_task.h"

#define CONFIRM_US (INT64_C(10) * 1000000)

/* By prefix from our own sessions, or a whole id of anybody's. False: it was said why not. */
static bool find_session(const struct ctl_settings *s, const char *word, struct ctl_session *out)
{
	char why[CTL_WHY_SIZE];
	enum ctl_found found = ctl_sessions_find(s->home, word, out, why);

	if (found == CTL_FOUND)
		return true;
	if (found == CTL_UNREADABLE)
		ctl_say("%s", why);
	if (id_is_uuid4(word)) {
		*out = (struct ctl_session){ 0 };
		for (int i = 0; i < ID_SIZE - 1; i++)
			out->id[i] = (char)tolower((unsigned char)word[i]);
		return true;
	}
	if (found != CTL_UNREADABLE)
		ctl_say("%s", why);
	return false;
}

static enum ctl_what wait_for_broker(struct ctl_pump *p)
{
	int64_t until_us = clock_boot_us() + CONFIRM_US;
	struct ctl_note *note;
	enum ctl_what what;

	do
		what = ctl_pump_step(p, until_us, &note);
	while (what == CTL_NOTE);
	return what;
}

static int send_abort(struct ctl_pump *p, const struct ctl_session *s, const char *callee, const char *reason)
{
	struct buf body = { 0 };
	enum ctl_what what = CTL_QUIET;
	int status = CTL_ERROR;

	ctl_task_compose_abort(&body, s->id, s->token, reason);
	if (ctl_pump_publish(p, callee, "abort", s->id, body.data, body.size))
		what = wait_for_broker(p);
	buf_fini(&body);
	switch (what) {
	case CTL_CONFIRMED:
		printf("sent abort of session %s to %s%s\n", s->id, callee,
			s->token ? "" : " (no token is known here: it goes by the user name of our log-in)");
		status = CTL_COMPLETED;
		break;
	case CTL_UNROUTABLE:
		ctl_say("no callee named %s listens (queue hcp.cmd.%s does not exist); is hcpd running?",
			callee, callee);
		status = CTL_NO_ANSWER;
		break;
	case CTL_REFUSED:
		ctl_say("abort of %s: %s", s->id, ctl_pump_error(p));
		break;
	case CTL_SIGNAL:
		ctl_say("interrupted; whether the abort of %s was sent is not known", s->id);
		status = CTL_INTERRUPTED;
		break;
	default:
		ctl_say("the broker did not confirm the abort of %s; try again", s->id);
		status = CTL_NO_BROKER;
	}
	return status;
}

/* An option wins; then the callee that the session was handed to; then the usual one. */
static const char *pick_callee(const struct ctl_settings *s, const struct ctl_options *o,
	const struct ctl_session *session)
{
	return o->callee ? s->callee : session->callee ? session->callee : s->callee;
}

static int send_all(struct ctl_pump *p, const struct ctl_settings *s, const struct ctl_options *o,
	const struct ctl_session *sessions, size_t count, const char *reason)
{
	int worst = CTL_COMPLETED, status;

	for (size_t i = 0; i < count && worst != CTL_INTERRUPTED; i++) {
		status = send_abort(p, &sessions[i], pick_callee(s, o, &sessions[i]), reason);
		if (status != CTL_COMPLETED)
			worst = status;
	}
	return worst;
}

/* All of them are found before the first is sent: a slip of the finger should not end half of them. */
static int abort_all(const struct ctl_settings *s, const struct ctl_options *o, char **words, size_t count,
	const char *reason)
{
	struct ctl_session *sessions = xcalloc(count, sizeof *sessions);
	struct ctl_pump *p = ctl_pump_new(s);
	struct link_error e;
	size_t found = 0;
	int status = CTL_COMPLETED;

	while (found < count && status == CTL_COMPLETED) {
		if (!find_session(s, words[found], &sessions[found]))
			status = CTL_ERROR;
		else if (!pick_callee(s, o, &sessions[found++]))
			status = ctl_cmd_missing(s, "callee");
	}
	if (status == CTL_COMPLETED)
		status = ctl_pump_open(p, &e) < 0 ? ctl_cmd_unreachable(s, &e) :
			send_all(p, s, o, sessions, count, reason);
	ctl_pump_end(p, false);
	for (size_t i = 0; i < found; i++)
		ctl_session_fini(&sessions[i]);
	free(sessions);
	return status;
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = { { "reason", required_argument, NULL, 'r' }, CTL_GLOBAL_OPTIONS };
	const char *reason = NULL;
	struct ctl_settings s;
	int c, status;

	while ((c = getopt_long(argc, argv, ":hr:", options, NULL)) != -1) {
		if (c == 'r')
			reason = optarg;
		else if ((status = ctl_cmd_option(c, argv, &ctl_abort, o)) >= 0)
			return status;
	}
	if (optind >= argc)
		return ctl_cmd_usage("abort ", "which session? an id, or the beginning of one, is missing");
	if ((status = ctl_cmd_settings(&s, o)))
		return status;
	ctl_pump_catch_signals();
	status = abort_all(&s, o, argv + optind, (size_t)(argc - optind), reason);
	ctl_settings_fini(&s);
	return status;
}

const struct ctl_command ctl_abort = {
	.name = "abort",
	.summary = "end sessions: SESSION... [--reason TEXT]",
	.help = "usage: hcpctl abort [options] SESSION...\n\n"
		"Asks the callee to end sessions. A session is named by its id, or by the beginning of the id where\n"
		"it was submitted from here. Waits for the broker to have the request, not for the end: hcpctl watch\n"
		"shows that.\n\n"
		"  -r, --reason TEXT   why; told to the worker, and logged by the daemon\n" CTL_GLOBAL_HELP
		"\nExample:\n  hcpctl abort 5f0c --reason 'wrong input'\n",
	.run = run,
};
