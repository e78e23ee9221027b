/* ctl_submit.c: `hcpctl submit`: one task from its submission to its end.
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
#include "hcpctl/caller/token_cache.h"
#include "hcpctl/caller/submit.h"
#include "hcpctl/caller/task.h"

#define SECOND INT64_C(1000000)
#define EARLY_MAX 32              /* messages of unknown sessions kept until the answer says which is ours */
#define UNDECIDED_US (6 * SECOND) /* a machine has answered by then */
#define DETACH_QUIET_US (SECOND / 5) /* so long nothing of ours means that what was sent before has come */
#define SHORT_ID 8
#define DETACH_MAX_US (2 * SECOND)

struct submit {
	const struct ctl_settings *settings;
	const struct ctl_submit_words *words;
	struct ctl_pump *pump;
	struct ctl_follow follow;
	struct buf body;
	char message_id[ID_SIZE];
	int64_t repeat_at_us, repeat_us, give_up_us, undecided_us;
	struct ctl_note *early, **early_end;
	size_t early_count;
	struct ctl_view *view; /* NULL: no answer yet */
	struct ctl_session session;
	bool is_kept; /* so that watch and abort know it by its beginning */
	struct buf abort_body;
};

/* --- the answer --- */

static void send_submit(struct submit *s)
{
	s->repeat_at_us = clock_boot_us() + s->repeat_us;
	s->repeat_us *= 2;
	ctl_pump_publish(s->pump, s->settings->callee, "task_submit", NULL, s->body.data, s->body.size);
}

static void keep_session(struct submit *s, const struct ctl_note *n)
{
	const char *token = ctl_note_text(n->payload, "session_token");
	char why[CTL_WHY_SIZE];

	snprintf(s->session.id, sizeof s->session.id, "%s", n->session);
	s->session.token = token ? xstrdup(token) : NULL;
	s->session.caller = xstrdup(s->settings->caller);
	s->session.callee = xstrdup(s->settings->callee);
	s->session.capability = xstrdup(s->words->task.capability);
	s->session.since_us = clock_wall_us();
	if (!s->settings->home)
		ctl_say("there is no home directory, so the session's token is not kept");
	else if (ctl_sessions_put(s->settings->home, &s->session, why) < 0)
		ctl_say("%s; the session's token is not kept", why);
	else
		s->is_kept = true;
}

static void release_early(struct submit *s)
{
	struct ctl_note *n, *next;

	for (n = s->early; n; n = next) {
		next = n->next;
		n->next = NULL;
		ctl_follow_take(&s->follow, n);
	}
	s->early = NULL;
	s->early_count = 0;
}

static bool is_answer(const struct submit *s, const struct ctl_note *n)
{
	const char *to = ctl_note_text(n->payload, "in_reply_to");

	return to && strcmp(to, s->message_id) == 0 &&
		(strcmp(n->type, "task_accepted") == 0 || strcmp(n->type, "task_rejected") == 0);
}

/* The exit status, or -1 to go on. */
static int take_answer(struct submit *s, struct ctl_note *n)
{
	if (strcmp(n->type, "task_rejected") == 0 || !id_is_uuid4(n->session)) {
		ctl_follow_show(&s->follow, n);
		ctl_pump_ack(s->pump, n);
		ctl_note_free(n);
		return CTL_REJECTED;
	}
	keep_session(s, n);
	s->view = ctl_follow_add(&s->follow, n->session, 1);
	ctl_follow_take(&s->follow, n);
	release_early(s);
	return -1;
}

/* Before the answer: others' messages are let go; what might be ours is kept. */
static int take_early(struct submit *s, struct ctl_note *n)
{
	if (is_answer(s, n))
		return take_answer(s, n);
	if (strcmp(n->type, "task_accepted") == 0 || strcmp(n->type, "task_rejected") == 0 ||
		s->early_count == EARLY_MAX) {
		ctl_pump_ack(s->pump, n);
		ctl_note_free(n);
		return -1;
	}
	n->next = NULL;
	*s->early_end = n;
	s->early_end = &n->next;
	s->early_count++;
	return -1;
}

/* --- leaving it alone --- */

/* As much of the id as it takes to name it here. */
static int name_size(const struct submit *s)
{
	return s->is_kept ? SHORT_ID : ID_SIZE - 1;
}

/* A queue of the session's own, so that a later watch misses nothing; then what came until now is shown. */
static void keep_for_watch(struct submit *s)
{
	struct ctl_pump *p = ctl_pump_new(s->settings);
	int64_t end_us = clock_boot_us() + DETACH_MAX_US, quiet_us;
	struct ctl_note *note;
	struct link_error e;
	char key[CTL_NAME_SIZE], why[CTL_WHY_SIZE];

	snprintf(key, sizeof key, "%s.%s.#", s->settings->caller, s->session.id);
	ctl_pump_add_queue(p, s->session.id, key);
	if (ctl_pump_open(p, &e) < 0) {
		ctl_say("%s; what comes before the next watch will not be kept", e.text);
		ctl_pump_end(p, false);
		return;
	}
	/* Other sessions of this caller come to the same queue, and may never be silent. */
	quiet_us = clock_boot_us() + DETACH_QUIET_US;
	while (!s->view->is_done && clock_boot_us() < end_us && clock_boot_us() < quiet_us) {
		enum ctl_what what = ctl_pump_step(s->pump, quiet_us, &note);

		if (what == CTL_NOTE) {
			if (strcmp(note->session, s->session.id) == 0)
				quiet_us = clock_boot_us() + DETACH_QUIET_US;
			ctl_follow_take(&s->follow, note);
		} else if (what == CTL_QUIET || what == CTL_OUT_GONE) {
			break;
		}
	}
	ctl_pump_end(p, s->view->is_done);
	if (s->view->is_done || !s->settings->home)
		return;
	s->session.sequence = s->view->order.next - 1;
	if (ctl_sessions_put(s->settings->home, &s->session, why) < 0)
		ctl_say("%s", why);
}

static int detach(struct submit *s, int status)
{
	ctl_term_clear(&s->follow.term);
	keep_for_watch(s);
	if (s->view->is_done)
		return (int)s->view->exit;
	s->follow.term.is_live = false;
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
	if (ctl_pump_publish(s->pump, s->settings->callee, "abort", s->session.id, s->abort_body.data,
		    s->abort_body.size))
		ctl_say("asked %s to abort; waiting for its end", s->settings->callee);
	else
		ctl_say("there is no connection just now; try again when the broker is back");
}

/* The exit status, or -1 to go on. */
static int take_signal(struct submit *s)
{
	int number = ctl_pump_signal(s->pump);
	char answer = 0;

	if (!s->view) {
		ctl_say("no answer yet: the task (message_id %s) may still be taken up; hcpctl watch would "
			"show it",
			s->message_id);
		return 128 + number;
	}
	if (number == SIGINT && !s->words->json && ctl_term_may_ask()) {
		if (!s->follow.term.has_bar) /* the terminal has shown ^C; where the bar is it goes with it */
			fputs("\n", stderr);
		ctl_say("session %s goes on unless it is aborted", s->session.id);
		ctl_say("later: hcpctl abort %.*s, hcpctl watch %.*s", name_size(s), s->session.id,
			name_size(s), s->session.id);
		answer = ctl_term_ask(&s->follow.term, "abort (a), detach (d), go on (Enter)? ");
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
	int64_t due_us = ctl_follow_due_us(&s->follow);

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

static int look_at_clock(struct submit *s)
{
	int64_t now_us = clock_boot_us();

	ctl_follow_tick(&s->follow);
	if (s->view)
		return s->view->is_done ? (int)s->view->exit : -1;
	if (now_us >= s->give_up_us) {
		ctl_say("no answer from %s; the task (message_id %s) waits in its queue, or there for a "
			"human's approval, unless %s "
			"has dropped it: its log says so, for one above its limit of a message's size",
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

/* One thing that happened; the exit status, or -1 to go on. */
static int step(struct submit *s)
{
	struct ctl_note *note;

	switch (ctl_pump_step(s->pump, next_us(s), &note)) {
	case CTL_NOTE:
		if (!s->view)
			return take_early(s, note);
		ctl_follow_take(&s->follow, note);
		return -1;
	case CTL_UNROUTABLE:
		if (!s->view)
			return no_callee(s);
		ctl_say("the abort reached nobody: no callee named %s listens", s->settings->callee);
		return -1;
	case CTL_REFUSED: ctl_say("%s", ctl_pump_error(s->pump)); return s->view ? -1 : CTL_ERROR;
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
			status = look_at_clock(s);
		if (status < 0 && s->view && s->words->detach)
			status = detach(s, CTL_COMPLETED);
	}
	return status;
}

int ctl_submit_run(const struct ctl_settings *settings, const struct ctl_submit_words *w)
{
	struct submit s = {.settings = settings,
		.words = w,
		.pump = ctl_pump_new(settings),
		.repeat_us = w->retry_us,
		.give_up_us = clock_boot_us() + w->timeout_us,
		.undecided_us = clock_boot_us() + UNDECIDED_US};
	char instance[ID_SIZE], key[CTL_NAME_SIZE];
	struct codec_head head;
	struct link_error e;
	struct ctl_note *next;
	int status;

	s.early_end = &s.early;
	ctl_task_compose(&s.body, &w->task);
	if (codec_peek(s.body.data, s.body.size, &head))
		snprintf(s.message_id, sizeof s.message_id, "%s", head.message_id);
	/* Bound before the task goes out: an answer cannot come earlier than that. */
	id_make(instance);
	snprintf(key, sizeof key, "%s.#", settings->caller);
	ctl_pump_add_queue(s.pump, instance, key);
	if (ctl_pump_open(s.pump, &e) < 0) {
		status = ctl_cmd_unreachable(settings, &e);
	} else {
		ctl_follow_init(&s.follow, settings, s.pump, w->json, false);
		status = submit_and_follow(&s);
		ctl_follow_fini(&s.follow);
	}
	ctl_pump_end(s.pump, true);
	for (; s.early; s.early = next) {
		next = s.early->next;
		ctl_note_free(s.early);
	}
	ctl_session_fini(&s.session);
	buf_fini(&s.body);
	buf_fini(&s.abort_body);
	return status;
}
