/* SPDX-License-Identifier: MIT */
/* submit.c: `hcpctl submit`: one task from its submission to its end.
 * Owns the submit's own queue, the repeats until there is an answer, and what Ctrl-C means.
 * Never makes a second task of it: every repeat is the same bytes, with the same message_id. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "protocol/message.h"
#include "hcpctl/common/command.h"
#include "hcpctl/caller/watch_model.h"
#include "hcpctl/caller/broker.h"
#include "hcpctl/common/token_cache.h"
#include "hcpctl/caller/submit.h"
#include "hcpctl/common/task.h"

#define SECOND INT64_C(1000000)
#define EARLY_MAX 32              /* messages of unknown sessions, kept until the answer names the session */
#define UNDECIDED_US (6 * SECOND) /* a program would have answered by then */
#define DETACH_QUIET_US (SECOND / 5) /* after so much silence, all messages sent before have come */
#define SHORT_ID 8
#define DETACH_MAX_US (2 * SECOND)

struct submit {
	const struct ctl_settings *settings;
	const struct ctl_submit_options *words;
	struct ctl_broker *broker;
	struct ctl_watch_model model;
	struct buf body;
	char message_id[ID_SIZE];
	int64_t repeat_at_us, repeat_us, give_up_us, undecided_us;
	struct ctl_message *early, **early_end;
	size_t early_count;
	struct ctl_view *view; /* NULL: no answer yet */
	struct ctl_session session;
	bool is_kept; /* so that watch and abort find the session by the beginning of its id */
	struct buf abort_body;
};

/* --- the answer --- */

static void send_submit(struct submit *s)
{
	s->repeat_at_us = clock_boot_us() + s->repeat_us;
	s->repeat_us *= 2;
	ctl_broker_publish(s->broker, s->settings->callee, "task_submit", NULL, s->body.data, s->body.size);
}

static void keep_session(struct submit *s, const struct ctl_message *n)
{
	const char *token = ctl_message_text(n->payload, "session_token");
	char why[CTL_WHY_SIZE];

	snprintf(s->session.id, sizeof s->session.id, "%s", n->session);
	s->session.token = token ? xstrdup(token) : NULL;
	s->session.caller = xstrdup(s->settings->caller);
	s->session.callee = xstrdup(s->settings->callee);
	s->session.capability = xstrdup(s->words->task.capability);
	s->session.since_us = clock_wall_us();
	if (!s->settings->home)
		ctl_say("there is no home directory, so the session's token is not kept");
	else if (ctl_token_cache_put(s->settings->home, &s->session, why) < 0)
		ctl_say("%s; the session's token is not kept", why);
	else
		s->is_kept = true;
}

static void pass_on_early(struct submit *s)
{
	struct ctl_message *n, *next;

	for (n = s->early; n; n = next) {
		next = n->next;
		n->next = NULL;
		ctl_watch_model_take(&s->model, n);
	}
	s->early = NULL;
	s->early_count = 0;
}

static bool is_answer(const struct submit *s, const struct ctl_message *n)
{
	const char *to = ctl_message_text(n->payload, "in_reply_to");

	return to && strcmp(to, s->message_id) == 0 &&
		(strcmp(n->type, "task_accepted") == 0 || strcmp(n->type, "task_rejected") == 0);
}

/* The exit status, or -1 to go on. */
static int take_answer(struct submit *s, struct ctl_message *n)
{
	if (strcmp(n->type, "task_rejected") == 0 || !id_is_uuid4(n->session)) {
		ctl_watch_model_show(&s->model, n);
		ctl_broker_ack(s->broker, n);
		ctl_message_free(n);
		return CTL_REJECTED;
	}
	keep_session(s, n);
	s->view = ctl_watch_model_add(&s->model, n->session, 1);
	ctl_watch_model_take(&s->model, n);
	pass_on_early(s);
	return -1;
}

/* Before the answer: keeps messages that may belong to the session, and acks and drops the others. */
static int take_before_answer(struct submit *s, struct ctl_message *n)
{
	if (is_answer(s, n))
		return take_answer(s, n);
	if (strcmp(n->type, "task_accepted") == 0 || strcmp(n->type, "task_rejected") == 0 ||
		s->early_count == EARLY_MAX) {
		ctl_broker_ack(s->broker, n);
		ctl_message_free(n);
		return -1;
	}
	n->next = NULL;
	*s->early_end = n;
	s->early_end = &n->next;
	s->early_count++;
	return -1;
}

/* --- detaching --- */

/* How much of the id is needed to name the session. */
static int name_size(const struct submit *s)
{
	return s->is_kept ? SHORT_ID : ID_SIZE - 1;
}

/* Makes a queue for this session, so that a later watch misses nothing; then prints the messages that came
 * until now. */
static void keep_for_watch(struct submit *s)
{
	struct ctl_broker *p = ctl_broker_new(s->settings);
	int64_t end_us = clock_boot_us() + DETACH_MAX_US, quiet_us;
	struct ctl_message *message;
	struct connection_error e;
	char key[CTL_NAME_SIZE], why[CTL_WHY_SIZE];

	names_event_binding(key, sizeof key, s->settings->caller, s->session.id);
	ctl_broker_add_queue(p, s->session.id, key);
	if (ctl_broker_open(p, &e) < 0) {
		ctl_say("%s; what comes before the next watch will not be kept", e.text);
		ctl_broker_end(p, false);
		return;
	}
	/* Messages of other sessions of this caller come to the same queue, so the queue may never be
	 * silent. */
	quiet_us = clock_boot_us() + DETACH_QUIET_US;
	while (!s->view->is_done && clock_boot_us() < end_us && clock_boot_us() < quiet_us) {
		enum ctl_what what = ctl_broker_step(s->broker, quiet_us, &message);

		if (what == CTL_NOTE) {
			if (strcmp(message->session, s->session.id) == 0)
				quiet_us = clock_boot_us() + DETACH_QUIET_US;
			ctl_watch_model_take(&s->model, message);
		} else if (what == CTL_QUIET || what == CTL_OUT_GONE) {
			break;
		}
	}
	ctl_broker_end(p, s->view->is_done);
	if (s->view->is_done || !s->settings->home)
		return;
	s->session.sequence = s->view->order.next - 1;
	if (ctl_token_cache_put(s->settings->home, &s->session, why) < 0)
		ctl_say("%s", why);
}

static int detach(struct submit *s, int status)
{
	ctl_term_clear(&s->model.term);
	keep_for_watch(s);
	if (s->view->is_done)
		return (int)s->view->exit;
	s->model.term.is_live = false;
	fflush(stdout);
	ctl_say("session %s goes on", s->session.id);
	ctl_say("see it: hcpctl watch %.*s   end it: hcpctl abort %.*s", name_size(s), s->session.id,
		name_size(s), s->session.id);
	return status;
}

static void send_abort(struct submit *s)
{
	buf_clear(&s->abort_body);
	ctl_task_compose_abort(&s->abort_body, s->session.id, s->session.token, "interrupted by the user");
	if (ctl_broker_publish(s->broker, s->settings->callee, "abort", s->session.id, s->abort_body.data,
		    s->abort_body.size))
		ctl_say("asked %s to abort; waiting for its end", s->settings->callee);
	else
		ctl_say("there is no connection just now; try again when the broker is back");
}

/* The exit status, or -1 to go on. */
static int take_signal(struct submit *s)
{
	int number = ctl_broker_signal(s->broker);
	char answer = 0;

	if (!s->view) {
		ctl_say("no answer yet: the task (message_id %s) may still be taken up; hcpctl watch would "
			"show it",
			s->message_id);
		return 128 + number;
	}
	if (number == SIGINT && !s->words->json && ctl_term_may_ask()) {
		/* the terminal has printed ^C; a bar that is redrawn replaces it */
		if (!s->model.term.has_bar)
			fputs("\n", stderr);
		ctl_say("session %s goes on unless it is aborted", s->session.id);
		ctl_say("later: hcpctl abort %.*s, hcpctl watch %.*s", name_size(s), s->session.id,
			name_size(s), s->session.id);
		answer = ctl_term_ask(&s->model.term, "abort (a), detach (d), go on (Enter)? ");
	}
	if (answer == 'a') {
		send_abort(s);
		return -1;
	}
	if (answer != 0 && answer != 'd')
		return -1;
	return detach(s, 128 + number);
}

/* --- the loop --- */

static int64_t next_us(const struct submit *s)
{
	int64_t due_us = ctl_watch_model_due_us(&s->model);

	if (!s->view && s->repeat_at_us < due_us)
		due_us = s->repeat_at_us;
	if (!s->view && s->give_up_us < due_us)
		due_us = s->give_up_us;
	if (!s->view && s->undecided_us < due_us)
		due_us = s->undecided_us;
	return due_us;
}

static int no_callee(const struct submit *s)
{
	ctl_say("no callee named %s listens (queue hcp.cmd.%s does not exist); is hcpd running?",
		s->settings->callee, s->settings->callee);
	return CTL_NO_ANSWER;
}

static int check_deadlines(struct submit *s)
{
	int64_t now_us = clock_boot_us();

	ctl_watch_model_tick(&s->model);
	if (s->view)
		return s->view->is_done ? (int)s->view->exit : -1;
	if (now_us >= s->give_up_us) {
		ctl_say("no answer from %s; the task (message_id %s) waits in its queue, or there for a "
			"human's approval, unless %s has dropped it: its log says so, for one above its "
			"limit of a message's size",
			s->settings->callee, s->message_id, s->settings->callee);
		return CTL_NO_ANSWER;
	}
	if (now_us >= s->undecided_us) {
		s->undecided_us = INT64_MAX;
		ctl_say("no answer yet: the task may be waiting for a human's approval (hcpctl approvals, "
			"where %s runs)",
			s->settings->callee);
	}
	if (now_us >= s->repeat_at_us)
		send_submit(s);
	return -1;
}

/* Handles one event of the broker; the exit status, or -1 to go on. */
static int step(struct submit *s)
{
	struct ctl_message *message;

	switch (ctl_broker_step(s->broker, next_us(s), &message)) {
	case CTL_NOTE:
		if (!s->view)
			return take_before_answer(s, message);
		ctl_watch_model_take(&s->model, message);
		return -1;
	case CTL_UNROUTABLE:
		if (!s->view)
			return no_callee(s);
		ctl_say("the abort reached nobody: no callee named %s listens", s->settings->callee);
		return -1;
	case CTL_REFUSED: ctl_say("%s", ctl_broker_error(s->broker)); return s->view ? -1 : CTL_ERROR;
	case CTL_UP:
		if (!s->view)
			send_submit(s);
		return -1;
	case CTL_SIGNAL: return take_signal(s);
	case CTL_OUT_GONE:
		ctl_say("the standard output cannot be written");
		return s->view ? detach(s, CTL_ERROR) : CTL_ERROR;
	case CTL_CONFIRMED:
	case CTL_QUIET: break;
	}
	return -1;
}

static int submit_and_follow(struct submit *s)
{
	int status = -1;

	send_submit(s);
	while (status < 0) {
		status = step(s);
		if (status < 0)
			status = check_deadlines(s);
		if (status < 0 && s->view && s->words->detach)
			status = detach(s, CTL_OK);
	}
	return status;
}

int ctl_submit_run(const struct ctl_settings *settings, const struct ctl_submit_options *w)
{
	struct submit s = {.settings = settings,
		.words = w,
		.broker = ctl_broker_new(settings),
		.repeat_us = w->retry_us,
		.give_up_us = clock_boot_us() + w->timeout_us,
		.undecided_us = clock_boot_us() + UNDECIDED_US};
	char instance[ID_SIZE], key[CTL_NAME_SIZE];
	struct message_head head;
	struct connection_error e;
	struct ctl_message *next;
	int status;

	s.early_end = &s.early;
	ctl_task_compose(&s.body, &w->task);
	if (message_peek(s.body.data, s.body.size, &head))
		snprintf(s.message_id, sizeof s.message_id, "%s", head.message_id);
	/* The queue is bound before the task is sent, so no answer can be missed. */
	id_make(instance);
	names_event_binding(key, sizeof key, settings->caller, NULL);
	ctl_broker_add_queue(s.broker, instance, key);
	if (ctl_broker_open(s.broker, &e) < 0) {
		status = ctl_command_unreachable(settings, &e);
	} else {
		ctl_watch_model_init(&s.model, settings, s.broker, w->json, false);
		status = submit_and_follow(&s);
		ctl_watch_model_fini(&s.model);
	}
	ctl_broker_end(s.broker, true);
	for (; s.early; s.early = next) {
		next = s.early->next;
		ctl_message_free(s.early);
	}
	ctl_session_fini(&s.session);
	buf_fini(&s.body);
	buf_fini(&s.abort_body);
	return status;
}
