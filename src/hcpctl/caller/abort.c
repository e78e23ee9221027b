/* SPDX-License-Identifier: MIT */
/* abort.c: `hcpctl abort`.
 * Owns which way an abort goes: with a token over the broker; without one, or with --operator, to the
 * daemon's socket as its operator; and where no daemon listens there, over the broker in the name of the
 * log-in.
 * Never waits for the session's end: `watch` shows it. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "hcpctl/common/client.h"
#include "hcpctl/common/command.h"
#include "hcpctl/caller/broker.h"
#include "hcpctl/common/token_cache.h"
#include "hcpctl/common/task.h"

#define CONFIRM_US (INT64_C(10) * 1000000)

struct target {
	const char *word; /* as it was typed */
	struct ctl_session
		session;        /* id "": the word is only a prefix, and fits no session of the token cache */
	char why[CTL_WHY_SIZE]; /* what is wrong with the word then */
	bool is_sent;
};

/* False: the reason was printed. A prefix that is not in the token cache may still be known to the daemon. */
static bool find_target(const struct ctl_settings *s, struct target *t)
{
	enum ctl_found found = ctl_token_cache_find(s->home, t->word, &t->session, t->why);

	if (found == CTL_FOUND)
		return true;
	t->session = (struct ctl_session){0};
	if (found == CTL_UNREADABLE || (found == CTL_AMBIGUOUS && !id_is_uuid4(t->word)))
		ctl_say("%s", t->why);
	if (id_is_uuid4(t->word))
		for (int i = 0; i < ID_SIZE - 1; i++)
			t->session.id[i] = (char)tolower((unsigned char)t->word[i]);
	return found != CTL_AMBIGUOUS && *t->word != '\0';
}

/* Aborts the sessions without a token over the daemon's socket; CTL_OK also where no daemon listens. With
 * --operator: all sessions, and only this way. Returns an exit status. */
static int send_by_socket(const struct ctl_settings *s, struct target *targets, size_t count,
	const char *reason, bool is_operator)
{
	for (size_t i = 0; i < count; i++) {
		struct target *t = &targets[i];
		int status;

		if (t->session.token && !is_operator)
			continue;
		status = ctl_client_abort(s, is_operator ? CTL_NEED_DAEMON : CTL_DAEMON_QUIETLY,
			t->session.id[0] ? t->session.id : t->word, reason);
		if (status == CTL_CLIENT_ABSENT && !t->session.id[0]) {
			ctl_say("%s", t->why);
			return CTL_ERROR;
		}
		if (status != CTL_CLIENT_ABSENT && status != CTL_OK)
			return status;
		t->is_sent = status == CTL_OK;
	}
	return CTL_OK;
}

static enum ctl_what wait_for_broker(struct ctl_broker *p)
{
	int64_t until_us = clock_boot_us() + CONFIRM_US;
	struct ctl_message *message;
	enum ctl_what what;

	do
		what = ctl_broker_step(p, until_us, &message);
	while (what == CTL_NOTE);
	return what;
}

static int send_abort(
	struct ctl_broker *p, const struct ctl_session *s, const char *callee, const char *reason)
{
	struct buf body = {0};
	enum ctl_what what = CTL_QUIET;
	int status = CTL_ERROR;

	ctl_task_compose_abort(&body, s->id, s->token, reason);
	if (ctl_broker_publish(p, callee, "abort", s->id, body.data, body.size))
		what = wait_for_broker(p);
	buf_fini(&body);
	switch (what) {
	case CTL_CONFIRMED:
		printf("sent abort of session %s to %s%s\n", s->id, callee,
			s->token ? "" : " (no token is known here: it goes by the user name of our log-in)");
		status = CTL_OK;
		break;
	case CTL_UNROUTABLE:
		ctl_say("no callee named %s listens (queue hcp.cmd.%s does not exist); is hcpd running?",
			callee, callee);
		status = CTL_NO_ANSWER;
		break;
	case CTL_REFUSED: ctl_say("abort of %s: %s", s->id, ctl_broker_error(p)); break;
	case CTL_SIGNAL:
		ctl_say("interrupted; whether the abort of %s was sent is not known", s->id);
		status = CTL_INTERRUPTED;
		break;
	default:
		ctl_say("the broker did not confirm the abort of %s; try again", s->id);
		status = CTL_UNAVAILABLE;
	}
	return status;
}

/* An option wins; then the callee that got the task; then the default callee. */
static const char *pick_callee(
	const struct ctl_settings *s, const struct ctl_options *o, const struct ctl_session *session)
{
	return o->callee ? s->callee : session->callee ? session->callee : s->callee;
}

static int send_by_broker(const struct ctl_settings *s, const struct ctl_options *o,
	const struct target *targets, size_t count, const char *reason)
{
	struct ctl_broker *p;
	int worst = CTL_OK, status;
	struct connection_error e;
	bool is_open;

	/* not earlier: while hcpctl waits for the daemon's socket, Ctrl-C just ends it */
	ctl_broker_catch_signals();
	p = ctl_broker_new(s);
	if (!(is_open = ctl_broker_open(p, &e) == 0))
		worst = ctl_command_unreachable(s, &e);
	for (size_t i = 0; is_open && i < count && worst != CTL_INTERRUPTED && worst != CTL_UNAVAILABLE;
		i++) {
		const struct ctl_session *session = &targets[i].session;

		if (targets[i].is_sent)
			continue;
		status = send_abort(p, session, pick_callee(s, o, session), reason);
		if (status != CTL_OK)
			worst = status;
	}
	ctl_broker_end(p, false);
	return worst;
}

/* Checks all sessions before the first abort is sent, so that a typing error does not end half of them. */
static int abort_all(const struct ctl_settings *s, const struct ctl_options *o, char **words, size_t count,
	const char *reason, bool is_operator)
{
	struct target *targets = xcalloc(count, sizeof *targets);
	int status = CTL_OK;
	size_t left = 0;

	for (size_t i = 0; i < count && status == CTL_OK; i++) {
		targets[i].word = words[i];
		if (!find_target(s, &targets[i]))
			status = CTL_ERROR;
		else if (targets[i].session.token && !is_operator && !pick_callee(s, o, &targets[i].session))
			status = ctl_command_missing(s, "callee");
	}
	if (status == CTL_OK)
		status = send_by_socket(s, targets, count, reason, is_operator);
	for (size_t i = 0; i < count && status == CTL_OK; i++) {
		left += !targets[i].is_sent;
		if (!targets[i].is_sent && !pick_callee(s, o, &targets[i].session))
			status = ctl_command_missing(s, "callee");
	}
	if (status == CTL_OK && left > 0)
		status = send_by_broker(s, o, targets, count, reason);
	for (size_t i = 0; i < count; i++)
		ctl_session_fini(&targets[i].session);
	free(targets);
	return status;
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = {{"reason", required_argument, NULL, 'r'},
		{"operator", no_argument, NULL, 'o'}, CTL_GLOBAL_OPTIONS};
	bool is_operator = false;
	const char *reason = NULL;
	struct ctl_settings s;
	int c, status;

	while ((c = getopt_long(argc, argv, ":hor:", options, NULL)) != -1) {
		if (c == 'r')
			reason = optarg;
		else if (c == 'o')
			is_operator = true;
		else if ((status = ctl_command_option(c, argv, &ctl_abort, o)) >= 0)
			return status;
	}
	if (optind >= argc)
		return ctl_command_usage(
			"abort ", "which session? an id, or the beginning of one, is missing");
	if ((status = ctl_command_settings(&s, o)))
		return status;
	status = abort_all(&s, o, argv + optind, (size_t)(argc - optind), reason, is_operator);
	ctl_settings_fini(&s);
	return status;
}

const struct ctl_command ctl_abort = {
	.name = "abort",
	.summary = "end sessions: SESSION... [--reason TEXT] [--operator]",
	.help = "usage: hcpctl abort [options] SESSION...\n\n"
		"Asks the callee to end sessions. A session is named by its id, or by the beginning of the "
		"id. With\n"
		"the token of a session that was submitted from here the request goes over the broker; of "
		"others it\n"
		"goes to the daemon's control socket, as its operator, where that can be reached. Waits "
		"until the\n"
		"request was taken, not for the end: hcpctl watch shows that. Over the broker nobody says "
		"whether the\n"
		"token still counts: where it was revoked (hcpctl token), --operator ends the session.\n\n"
		"  -o, --operator      as the daemon's operator, by its control socket, whatever token there "
		"is\n"
		"  -r, --reason TEXT   why; told to the worker, and logged by the daemon\n" CTL_GLOBAL_HELP
			CTL_OPERATOR_HELP "\nExample:\n  hcpctl abort 5f0c --reason 'wrong input'\n",
	.run = run,
};
