/* SPDX-License-Identifier: MIT */
/* life.c: plays a scenario: submits, aborts, comes late, starts hcpd again, until every task has ended.
 * A caller as the protocol wants it: what was not answered is said again under the same message_id.
 * Never checks (final_check.c), never knows why a life was cut short (struct life_ops). */
#include "life.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/approver.h"
#include "support/restore.h"
#include "support/wire.h"

#define FULL_ARGS "x-max-length=3,x-overflow=reject-publish"
#define REFUSED_LINE "broker refused a message"
#define HOLDING "\"message\":\"holding\""
#define LIFE_S 25.0

/* --- making --- */

/* more: into its declaration; taken */
static void add_agent(struct rig *r, const char *name, const char *recovery, const char *reuse, json_t *more)
{
	const char *build = getenv("HCP_BUILD");
	char command[600], section[64];

	snprintf(command, sizeof command, "%s/sweep/agent", build ? build : "build/crash");
	snprintf(section, sizeof section, "capability %s", name);
	rig_capability(r, name, command[0] == '/' ? command : source_path(command), more);
	rig_set(r, section, "recovery", "%s", recovery);
	rig_set(r, section, "reuse", "%s", reuse);
}

/* Those that die, rest, and come back. */
static void add_survivors(struct rig *r)
{
	static const char *const names[] = {"mortal", "slow", "freed", "moved", "chained", "fading"};
	const char *build = getenv("HCP_BUILD");
	char path[600], section[64];
	const char *command;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		add_agent(r, names[i], "resume", "1", NULL);
		snprintf(section, sizeof section, "capability %s", names[i]);
		rig_set(r, section, "max_attempts", "4");
		rig_set(r, section, "retry_delay", strcmp(names[i], "slow") == 0 ? "60s" : "30ms");
	}
	rig_set(r, "capability freed", "pause_frees_worker", "yes");
	snprintf(path, sizeof path, "%s/sweep/agent", build ? build : "build/crash");
	command = path[0] == '/' ? path : source_path(path);
	rig_set(r, "capability moved", "state_version", "3.0");
	rig_set(r, "capability moved", "migrate", "%s migrate", command);
	rig_set(r, "capability chained", "state_version", "3.0");
	rig_set(r, "capability chained", "migrate.1-2", "%s migrate", command);
	rig_set(r, "capability chained", "migrate.2-3", "%s migrate", command);
	if (symlink(command, rig_path(r, "fading")) == 0)
		rig_set(r, "capability fading", "command", "%s", rig_path(r, "fading"));
}

static struct rig *make_rig(const struct scenario *s)
{
	struct rig *r = rig_new();

	add_agent(r, "agent", "resume", "1", NULL);
	add_agent(r, "frail", "fail", "1", NULL);
	add_agent(r, "warm", "resume", "2", NULL);
	add_agent(r, "lab", "resume", "1",
		J("{'safety':{'risk_ceiling':'R3','requires_human_approval':true}}"));
	add_agent(r, "oven", "resume", "1",
		J("{'output_schema':{'properties':{'n':{'maximum':6}}},'safety':{'envelope':"
		  "{'parameters':{'t':{'max':80,'hard_limit':95}}}}}"));
	rig_set(r, "capability oven", "checkpoint_before_action", "yes");
	add_agent(r, "told", "resume", "1", NULL);
	add_survivors(r);
	add_agent(r, "kiln", "resume", "1",
		J("{'safety':{'risk_ceiling':'R3','requires_human_approval':true}}"));
	approver_make(r, "ann", "R4");
	rig_set(r, "approval", "expires", "8s");
	rig_text(r, "text", "echo one\necho two >&2\necho three\n");
	rig_text(r, "holding",
		"echo holding\nwhile [ ! -e \"$RIG_MARK/go\" ]; do sleep 0.01; done\necho gone\n");
	rig_set(r, "daemon", "stop_timeout", "4s");
	rig_set(r, "control", "socket", "%s", rig_path(r, "ctl"));
	rig_set(r, "amqp", "reconnect_max", "1s");
	rig_set(r, "daemon", "max_sessions", "%s", s->max_sessions ? s->max_sessions : "20");
	rig_set(r, "session", "exit_grace", "%s", s->exit_grace ? s->exit_grace : "PT0.2S");
	rig_set(r, "session", "abort_timeout", "%s", s->abort_timeout ? s->abort_timeout : "PT0.3S");
	if (s->pause_grace)
		rig_set(r, "session", "pause_grace", "%s", s->pause_grace);
	if (s->idle_timeout) {
		rig_set(r, "session", "idle_timeout", "%s", s->idle_timeout);
		rig_set(r, "session", "on_idle", "pause");
	}
	r->forgets = s->is_discarded;
	if (s->is_archived || s->is_discarded) {
		rig_set(r, "retention", "grace", "1s");
		rig_set(r, "retention", "archive", "%s", s->is_archived ? "yes" : "no");
		rig_set(r, "retention", "expire", "1h");
		rig_set(r, "daemon", "dedup_window", "3s");
		rig_set(r, "amqp", "heartbeat", "1");
	}
	if (s->has_policy_program) {
		rig_set(r, "policy", "command", "/usr/bin/env RIG_MARK=%s %s", r->dir,
			source_path("tests/integration/agents/policy.py"));
		rig_set(r, "policy", "timeout", "60s");
	}
	return r;
}

/* Another policy: what was R3 is R4, and what callers could have of `lab` they may no longer. */
static void change_policy(struct life *l)
{
	if (l->changed)
		return;
	l->changed = true;
	add_agent(l->rig, "kiln", "resume", "1",
		J("{'safety':{'risk_ceiling':'R4','requires_human_approval':true}}"));
	rig_set(l->rig, "caller *", "capabilities", "agent, kiln");
	rig_write_ini(l->rig);
}

bool life_has_changed(struct life *l)
{
	return l->changed && (l->number > 1 || rig_log_has(l->rig, "configuration reloaded"));
}

static struct peer *make_peer(struct rig *r, enum who who)
{
	static const char *const names[] = {"well", "full", "away", "refused"};
	struct peer *p;
	char id[64];

	snprintf(id, sizeof id, "%s-%d", names[who], getpid());
	p = peer_absent(r, id);
	if (who == FULL)
		peer_declare(p, FULL_ARGS);
	else if (who != AWAY)
		peer_open(p, "");
	/* what was nacked, or tried again, may be overtaken */
	p->any_order = who == FULL || who == AWAY;
	p->substituted = who == REFUSED;
	return p;
}

static void begin(struct life *l)
{
	char key[64];

	l->rig = make_rig(l->scenario);
	if (l->scenario->is_told) {
		snprintf(l->ear, sizeof l->ear, "harp.sweep.%d", getpid());
		wire_make_exchange(l->rig->broker, "harp.sessions", "topic");
		snprintf(key, sizeof key, "well-%d.#", getpid());
		wire_make_queue(l->rig->broker, l->ear, "", "harp.sessions", key);
	}
	for (const struct task *t = l->scenario->tasks; t < l->scenario->tasks + TASKS_MAX && t->capability;
		t++) {
		if (!l->peers[t->who])
			l->peers[t->who] = make_peer(l->rig, t->who);
		for (int i = 0; i < (t->times ? t->times : 1); i++, l->count++) {
			must(l->count < ERRANDS_MAX, "too many tasks");
			l->errands[l->count] =
				(struct errand){.number = l->count + 1, .task = t, .peer = l->peers[t->who]};
		}
	}
}

/* --- what was heard --- */

const char *errand_session(const struct errand *e)
{
	struct note *n = e->message_id ? peer_find_reply(e->peer, e->message_id) : NULL;

	return n && strcmp(n->kind, "task_accepted") == 0 ? n->session : NULL;
}

bool errand_has_ended(const struct errand *e)
{
	struct note *n = e->message_id ? peer_find_reply(e->peer, e->message_id) : NULL;

	if (!n)
		return false;
	return strcmp(n->kind, "task_rejected") == 0 ||
		peer_find(e->peer, n->session, "event", "session_closed");
}

static bool has_heard(const struct errand *e, const char *part)
{
	const char *session = errand_session(e);

	for (size_t i = 0; session && i < e->peer->note_count; i++)
		if (strcmp(e->peer->notes[i]->session, session) == 0 && strstr(e->peer->notes[i]->body, part))
			return true;
	return false;
}

/* --- what is said --- */

static json_t *inputs_of(struct life *l, const struct errand *e)
{
	char text[4096], one[320];
	size_t n = 0;

	for (const char *c = e->task->inputs ? e->task->inputs : "{}"; *c && n < sizeof text - sizeof one;
		c++) {
		snprintf(one, sizeof one, *c == '@' ? "%s" : "%.1s", *c == '@' ? l->rig->dir : c);
		if (*c == '#')
			snprintf(one, sizeof one, "%d", e->number);
		n += (size_t)snprintf(text + n, sizeof text - n, "%s", one);
	}
	return J("%s", text);
}

static void submit(struct life *l, struct errand *e)
{
	const struct task *t = e->task;

	if (!e->message_id)
		e->message_id = uuid_text(e->peer);
	for (int i = 0; i <= t->twice; i++)
		peer_send_as(e->peer, e->message_id, "task_submit", NULL,
			peer_payload(
				e->peer, t->capability, inputs_of(l, e), t->more ? J("%s", t->more) : NULL));
	e->sent_in = l->number;
}

static void abort_it(struct life *l, struct errand *e)
{
	const char *session = errand_session(e);

	e->stray_id = peer_send(e->peer, "abort", "b5a1cf0c-2c8c-4a43-8f3a-3c5f9d0c7e11",
		json_pack("{s:s}", "session_token", "made.up"));
	e->abort_id = peer_send(
		e->peer, "abort", session, json_pack("{s:s}", "session_token", peer_token(e->peer, session)));
	e->aborted_in = l->number;
}

/* What this caller has to say now; once a life, as long as there is no answer. */
static void say(struct life *l, struct errand *e)
{
	const struct task *t = e->task;
	bool answered = e->message_id && peer_find_reply(e->peer, e->message_id);
	bool waits = t->in_turn && e->number > 1 && e[-1].task == t && !errand_has_ended(e - 1);

	if (!answered && e->sent_in != l->number && !waits)
		submit(l, e);
	if (t->abort_on && e->aborted_in != l->number && !errand_has_ended(e) && has_heard(e, t->abort_on))
		abort_it(l, e);
	if (errand_has_ended(e) && !e->end_seen) {
		e->end_seen = true;
		final_check_on_end(l, e);
	}
}

static bool all_of_away_are_over(struct life *l)
{
	long long tasks = 0;

	for (int i = 0; i < l->count; i++)
		tasks += l->errands[i].task->who == AWAY;
	return rig_sql(l->rig,
		       "SELECT (SELECT count(*) FROM submits JOIN callers ON callers.id = submits.caller "
		       "WHERE"
		       " caller_id = '%s') - (SELECT count(*) FROM sessions WHERE caller_id = '%s' AND state "
		       "IN"
		       " ('PENDING','RUNNING','PAUSED','ABORTING'))",
		       l->peers[AWAY]->id, l->peers[AWAY]->id) == tasks;
}

static void mind_queues(struct life *l)
{
	if (l->peers[FULL] && !l->full_consumed && (l->number > 1 || rig_log_has(l->rig, REFUSED_LINE))) {
		peer_open(l->peers[FULL], FULL_ARGS);
		l->full_consumed = true;
	}
	if (l->peers[AWAY] && !l->away_opened && all_of_away_are_over(l)) {
		peer_open(l->peers[AWAY], "");
		l->away_opened = true;
	}
}

/* --- a life of the daemon --- */

static bool is_ready(struct life *l, const struct errand *e)
{
	if (e->task->ready && strcmp(e->task->ready, ASKED) == 0)
		return e->message_id &&
			rig_sql(l->rig, "SELECT count(*) FROM sessions WHERE message_id = '%s'",
				e->message_id) == 1;
	return errand_has_ended(e) || (e->task->ready && has_heard(e, e->task->ready));
}

/* The end of a stream may overtake what nobody took, or what was nacked, at first. */
static bool has_got_all(struct life *l, enum who who)
{
	const struct peer *p = l->peers[who];

	return !p ||
		rig_sql(l->rig,
			"SELECT (SELECT count(*) FROM unroutable) = 0 AND (SELECT count(*) FROM events JOIN"
			" callers ON callers.id = events.caller WHERE caller_id = '%s') = %zu",
			p->id, json_object_size(p->seen)) == 1;
}

/* In the first life some have left, in the second everybody, and the old day is gone. */
static bool has_let_go(struct life *l)
{
	if (!l->scenario->is_archived && !l->scenario->is_discarded)
		return true;
	if (l->number == 1)
		return rig_sql(l->rig, "SELECT count(*) FROM sessions") < l->count - 1;
	return rig_sql(l->rig,
		       "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving) + (SELECT "
		       "count(*) FROM events)"
		       " + (SELECT count(*) FROM archives WHERE day < '2021')") == 0;
}

static bool is_reached(struct life *l)
{
	for (int i = 0; i < l->count; i++)
		if (l->number == 1 ? !is_ready(l, &l->errands[i]) : !errand_has_ended(&l->errands[i]))
			return false;
	if (!has_got_all(l, FULL) || !has_got_all(l, AWAY))
		return false;
	if (l->scenario->is_reloaded && l->number == 1 && !l->reloaded) {
		if (l->scenario->changes)
			change_policy(l);
		rig_signal(l->rig, SIGHUP);
		l->reloaded = true;
	}
	/* Whoever rested in the first life has to be done with it; a token is revoked in it. */
	for (int i = 0; i < l->count && l->number == 1; i++) {
		const char *operate = l->errands[i].task->operate ? l->errands[i].task->operate : "";

		if (strstr(l->errands[i].task->inputs ? l->errands[i].task->inputs : "", "'after'") &&
			!errand_has_ended(&l->errands[i]))
			return false; /* it waits for the other policy */
		if ((strcmp(operate, "rest") == 0 && !l->errands[i].rested) ||
			(!l->errands[i].operated_in &&
				(strcmp(operate, "revoke") == 0 || strcmp(operate, "extend") == 0)))
			return false;
	}
	return has_let_go(l) &&
		(!l->reloaded || rig_log_has(l->rig, "configuration reloaded") || l->number > 1);
}

/* A submit that was said again in vain, just before the last end, would lie there for ever. */
static bool has_heard_all(struct life *l)
{
	int messages = 0, consumers = 0;

	return l->number == 1 ||
		(queue_look(l->rig->broker, l->rig->queue, &messages, &consumers) && messages == 0);
}

static bool is_consuming(struct life *l)
{
	int messages = 0, consumers = 0;

	return l->rig->ready && queue_look(l->rig->broker, l->rig->queue, &messages, &consumers) &&
		consumers > 0;
}

/* Not from the start: the exchange is needed then on a connection that has not declared it. */
static void want_harp(struct life *l)
{
	rig_set(l->rig, "capability told", "harp", "yes");
	rig_write_ini(l->rig);
	if (!l->rig->exited)
		rig_signal(l->rig, SIGHUP);
	wait_until(l->rig->exited || rig_log_has(l->rig, "configuration reloaded"), LIFE_S, "the reload");
}

/* Until all is said and done, or it dies. */
static void serve(struct life *l)
{
	struct rig *r = l->rig;

	wait_until(r->exited || is_consuming(l), LIFE_S, "a consumer, in life %d", l->number);
	if (l->scenario->is_told && l->number == 1)
		want_harp(l);
	for (; !r->exited && l->garbage_sent < l->scenario->garbage; l->garbage_sent++)
		peer_publish(l->peers[WELL], "{not JSON", 9, NULL);
	double end = harness_now() + LIFE_S * harness_scale();
	while (!r->exited) {
		for (int i = 0; i < l->count && !r->exited; i++)
			say(l, &l->errands[i]);
		if (!r->exited)
			mind_queues(l);
		if (!r->exited)
			operator_act(l);
		if (!r->exited && is_reached(l) && has_heard_all(l))
			break;
		must(harness_now() < end, "life %d of %s comes to no end", l->number, l->scenario->name);
		harness_tick();
	}
}

static void one_life(struct life *l)
{
	struct rig *r = l->rig;
	int wanted = 0;

	if (l->scenario->changes && l->number > 1)
		change_policy(l);
	l->ops->arm(l);
	if (l->number > 1)
		rig_set(r, "capability told", "harp", "yes");
	rig_spawn(r);
	serve(l);
	if (!r->exited) {
		bool kills = l->number == 1 && l->scenario->is_killed;

		wanted = kills ? 128 + SIGKILL : 0;
		rig_signal(r, kills ? SIGKILL : SIGTERM);
	}
	l->status = rig_wait_exit(r, LIFE_S);
	must(l->ops->was_cut(l) || l->status == wanted, "life %d ended with status %d", l->number, l->status);
	final_check_at_rest(l);
	operator_at_rest(l);
}

static bool is_over(struct life *l)
{
	for (int i = 0; i < l->count; i++)
		if (!errand_has_ended(&l->errands[i]))
			return false;
	return l->number >= 2 && l->status == 0;
}

void life_run(struct life *l, const struct scenario *s, const struct life_ops *ops, void *ctx)
{
	memset(l, 0, sizeof *l);
	l->scenario = s;
	l->ops = ops;
	l->ctx = ctx;
	l->follow_fd = -1;
	begin(l);
	do {
		must(++l->number <= LIVES_MAX, "it does not end in %d lives", LIVES_MAX);
		if (l->number == 2)
			rig_touch(l->rig, "go");
		if (l->number >= 2 && s->is_archived &&
			!l->has_old_day) /* this run of the daemon lets it expire */
			l->has_old_day = restore_make_day(l->rig, "2020-01-01");
		one_life(l);
	} while (!is_over(l));
	final_check_at_end(l);
	for (int i = 0; i < WHO_COUNT; i++)
		if (l->peers[i])
			peer_finish(l->peers[i]);
	for (int i = 0; i < l->decision_count; i++)
		free(l->decisions[i].text);
	wire_delete_queue(l->rig->broker, l->rig->queue);
	if (l->ear[0])
		wire_delete_queue(l->rig->broker, l->ear);
	rig_finish(l->rig);
}

/* --- the scenarios: small, so that each takes about a second; together they pass every crash point --- */

const struct scenario scenarios[] = {
	{.name = "mixed",
		.is_reloaded = true,
		.garbage = 1,
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':4,'every':2,'notes':'@/notes-#'}",
					.ends = "COMPLETED",
					.twice = true},
				{.capability = "text", .ends = "COMPLETED"},
				{.capability = "warm",
					.inputs = "{'count':1,'litter':2}",
					.ends = "COMPLETED",
					.times = 3,
					.in_turn = true},
				{.capability = "nosuch", .ends = "unknown_capability", .twice = true},
				{.capability = "agent",
					.inputs = "{'count':1,'litter':3}",
					.ends = "COMPLETED"},
			}},
	{.name = "ends",
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':1,'hold':'@/never','notes':'@/notes-#'}",
					.ends = "ABORTED",
					.abort_on = HOLDING},
				{.capability = "agent",
					.inputs = "{'deaf':true,'child':'@/child-#','hold':'@/"
						  "never','notes':'@/notes-#'}",
					.ends = "ABORTED",
					.abort_on = HOLDING},
				{.capability = "agent",
					.inputs = "{'count':2,'fail':true}",
					.ends = "FAILED"},
				{.capability = "agent", .inputs = "{'exit':3}", .ends = "FAILED"},
				{.capability = "agent",
					.inputs = "{'deaf':true,'hold':'@/never'}",
					.ends = "FAILED",
					.more = "{'constraints':{'max_duration':'PT0.2S'}}"},
				{.capability = "agent",
					.inputs = "{'deaf':true,'count':1,'linger':true}",
					.ends = "COMPLETED"},
				{.capability = "holding", .ends = "ABORTED COMPLETED", .abort_on = HOLDING},
			}},
	{.name = "stop",
		.max_sessions = "5",
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':4,'every':2,'hold':'@/go','notes':'@/notes-#'}",
					.ends = "COMPLETED",
					.ready = HOLDING},
				{.capability = "agent",
					.inputs = "{'count':1,'hold':'@/go','litter':1}",
					.ends = "COMPLETED",
					.ready = HOLDING},
				{.capability = "holding", .ends = "COMPLETED", .ready = HOLDING},
				{.capability = "warm",
					.inputs = "{'count':1,'hold':'@/go'}",
					.ends = "COMPLETED",
					.ready = HOLDING},
				{.capability = "frail",
					.inputs = "{'count':1,'hold':'@/go'}",
					.ends = "COMPLETED FAILED",
					.ready = HOLDING},
				{.capability = "agent",
					.inputs = "{'count':1}",
					.ends = "COMPLETED",
					.ready = "session_created"},
			}},
	{.name = "crash",
		.is_killed = true,
		.max_sessions = "7",
		.exit_grace = "1s",
		.abort_timeout = "1s",
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':4,'every':2,'hold':'@/go','notes':'@/notes-#'}",
					.ends = "COMPLETED",
					.ready = HOLDING},
				{.capability = "agent",
					.inputs = "{'count':1,'hold':'@/go','child':'@/child-#'}",
					.ends = "COMPLETED",
					.ready = HOLDING},
				{.capability = "holding", .ends = "COMPLETED", .ready = HOLDING},
				{.capability = "warm",
					.inputs = "{'count':1,'hold':'@/go'}",
					.ends = "COMPLETED",
					.ready = HOLDING},
				{.capability = "frail",
					.inputs = "{'count':1,'hold':'@/go'}",
					.ends = "COMPLETED FAILED",
					.ready = HOLDING},
				{.capability = "agent",
					.inputs = "{'deaf':true,'count':1,'linger':true}",
					.ends = "COMPLETED",
					.ready = "\"message\":\"lingering\""},
				{.capability = "agent",
					.inputs = "{'deaf':true,'hold':'@/never','child':'@/"
						  "child-#','notes':'@/notes-#'}",
					.ends = "ABORTED",
					.abort_on = HOLDING,
					.ready = "\"to_state\":\"ABORTING\""},
				{.capability = "agent",
					.inputs = "{'count':1}",
					.ends = "COMPLETED",
					.ready = "session_created"},
			}},
	{.name = "callers",
		.tasks =
			{
				{.capability = "agent", .inputs = "{'count':2}", .ends = "COMPLETED"},
				{.capability = "agent",
					.inputs = "{'count':2}",
					.ends = "COMPLETED",
					.who = AWAY},
				{.capability = "nosuch", .ends = "unknown_capability", .who = AWAY},
				{.capability = "agent",
					.inputs = "{'count':4,'every':2}",
					.ends = "COMPLETED",
					.who = FULL},
				{.capability = "agent",
					.inputs = "{'count':2,'big':40000}",
					.ends = "COMPLETED",
					.who = REFUSED},
			}},
	{.name = "operator",
		.is_operated = true,
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':4,'every':2,'hold':'@/go','notes':'@/notes-#'}",
					.ends = "COMPLETED",
					.operate = "restart",
					.ready = "\"to_state\":\"PAUSED\""},
				{.capability = "agent",
					.inputs = "{'count':1,'hold':'@/go'}",
					.ends = "COMPLETED",
					.operate = "rest",
					.ready = "resumed"},
				{.capability = "agent",
					.inputs = "{'count':1,'hold':'@/never','notes':'@/notes-#'}",
					.ends = "ABORTED",
					.operate = "abort"},
				{.capability = "agent",
					.inputs = "{'count':3,'every':1}",
					.ends = "COMPLETED",
					.operate = "replay"},
			}},
	{.name = "operated-crash",
		.is_operated = true,
		.is_killed = true,
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':4,'every':2,'hold':'@/go','notes':'@/notes-#'}",
					.ends = "COMPLETED",
					.operate = "restart",
					.ready = "\"to_state\":\"PAUSED\""},
				{.capability = "agent",
					.inputs = "{'count':3,'every':1}",
					.ends = "COMPLETED",
					.operate = "replay"},
			}},
	{.name = "rules",
		.is_operated = true,
		.is_killed = true,
		.tasks =
			{
				{.capability = "oven",
					.inputs = "{'acts':[80,81,79],'count':1,'notes':'@/notes-#'}",
					.ends = "COMPLETED"},
				{.capability = "oven",
					.inputs = "{'acts':[81,96],'hold':'@/never','notes':'@/notes-#'}",
					.ends = "FAILED"},
				{.capability = "oven",
					.inputs = "{'acts':[82,82],'hold':'@/never','notes':'@/notes-#'}",
					.ends = "FAILED"},
				{.capability = "oven", .inputs = "{'count':7,'every':3}", .ends = "FAILED"},
				{.capability = "agent",
					.inputs = "{'count':1,'hold':'@/go'}",
					.ends = "COMPLETED",
					.operate = "revoke",
					.ready = HOLDING},
			}},
	/* What the operator says of each stands in its inputs. */
	{.name = "approval",
		.is_operated = true,
		.is_reloaded = true,
		.tasks =
			{
				{.capability = "lab",
					.inputs = "{'count':2,'verdict':'allow'}",
					.ends = "COMPLETED",
					.times = 3,
					.twice = true},
				{.capability = "lab",
					.inputs = "{'verdict':'deny'}",
					.ends = "approval_denied",
					.times = 2},
				{.capability = "lab",
					.inputs = "{'verdict':'cancel'}",
					.ends = "policy_denied"},
				{.capability = "lab",
					.inputs = "{'count':1,'verdict':'later'}",
					.ends = "COMPLETED",
					.ready = ASKED},
				{.capability = "lab",
					.inputs = "{'verdict':'none'}",
					.ends = "approval_expired",
					.ready = ASKED},
			}},
	{.name = "approval-crash",
		.is_operated = true,
		.is_killed = true,
		.tasks =
			{
				{.capability = "lab",
					.inputs = "{'count':1,'verdict':'allow'}",
					.ends = "COMPLETED"},
				{.capability = "lab",
					.inputs = "{'count':1,'verdict':'later'}",
					.ends = "COMPLETED",
					.ready = ASKED,
					.times = 2},
				{.capability = "lab",
					.inputs = "{'verdict':'none'}",
					.ends = "approval_expired",
					.ready = ASKED},
			}},
	/* The policy is another when the decision comes: a new review of kiln, a rejection of lab. */
	{.name = "changed",
		.is_operated = true,
		.is_reloaded = true,
		.changes = true,
		.is_killed = true,
		.tasks =
			{
				{.capability = "kiln",
					.inputs = "{'count':1,'verdict':'allow'}",
					.ends = "COMPLETED"},
				{.capability = "kiln",
					.inputs = "{'count':1,'verdict':'after'}",
					.ends = "COMPLETED",
					.ready = ASKED,
					.times = 2},
				{.capability = "lab",
					.inputs = "{'count':1,'verdict':'after'}",
					.ends = "forbidden",
					.ready = ASKED},
				{.capability = "kiln",
					.inputs = "{'count':1,'verdict':'later'}",
					.ends = "COMPLETED",
					.ready = ASKED},
			}},
	/* Decided, and not yet started: there is one slot, and it is taken until the first life is over. */
	{.name = "approved-waits",
		.is_operated = true,
		.has_policy_program = true,
		.is_killed = true,
		.max_sessions = "1",
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':1,'hold':'@/go'}",
					.ends = "COMPLETED",
					.ready = HOLDING},
				{.capability = "lab",
					.inputs = "{'count':1,'verdict':'allow','hold':'@/go'}",
					.ends = "COMPLETED",
					.times = 2,
					.ready = "session_created"},
				{.capability = "lab",
					.inputs = "{'verdict':'deny'}",
					.ends = "approval_denied"},
				{.capability = "lab",
					.inputs = "{'count':1,'verdict':'later'}",
					.ends = "COMPLETED",
					.ready = ASKED},
			}},
	{.name = "policy program",
		.has_policy_program = true,
		.is_killed = true,
		.is_reloaded = true,
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':1,'policy':'allow'}",
					.ends = "COMPLETED",
					.times = 2,
					.twice = true},
				{.capability = "agent",
					.inputs = "{'policy':'deny'}",
					.ends = "policy_denied"},
				{.capability = "agent",
					.inputs = "{'policy':'ask'}",
					.ends = "approval_expired",
					.ready = ASKED},
				{.capability = "agent",
					.inputs = "{'count':1,'policy':'@/go'}",
					.ends = "COMPLETED",
					.ready = ASKED},
			}},
	{.name = "policy program dies",
		.has_policy_program = true,
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'policy':'die'}",
					.ends = "policy_denied",
					.times = 2},
			}},
	{.name = "many",
		.is_large = true,
		.max_sessions = "60",
		.garbage = 10,
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':1,'every':1,'litter':1}",
					.ends = "COMPLETED",
					.times = 10,
					.twice = true},
				{.capability = "warm",
					.inputs = "{'count':1}",
					.ends = "COMPLETED",
					.times = 20,
					.in_turn = true},
				{.capability = "nosuch", .ends = "unknown_capability", .times = 10},
				{.capability = "agent",
					.inputs = "{'deaf':true,'child':'@/child-#','hold':'@/"
						  "never','notes':'@/notes-#'}",
					.ends = "ABORTED",
					.abort_on = HOLDING,
					.times = 10},
			}},
	{.name = "many stop",
		.is_large = true,
		.max_sessions = "60",
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':1,'hold':'@/go','litter':1,'notes':'@/notes-#'}",
					.ends = "COMPLETED",
					.ready = HOLDING,
					.times = 10},
				{.capability = "warm",
					.inputs = "{'count':1,'hold':'@/go'}",
					.ends = "COMPLETED",
					.ready = HOLDING,
					.times = 10},
			}},
	{.name = "many crash",
		.is_large = true,
		.is_killed = true,
		.max_sessions = "60",
		.exit_grace = "1s",
		.abort_timeout = "1s",
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':1,'hold':'@/go','child':'@/child-#'}",
					.ends = "COMPLETED",
					.ready = HOLDING,
					.times = 10},
				{.capability = "agent",
					.inputs = "{'deaf':true,'count':1,'linger':true}",
					.ends = "COMPLETED",
					.ready = "\"message\":\"lingering\"",
					.times = 10},
			}},
	{.name = "artifacts",
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'keep':24,'count':2,'every':1}",
					.ends = "COMPLETED"},
				{.capability = "agent", .inputs = "{'keep':2,'fail':true}", .ends = "FAILED"},
				{.capability = "warm",
					.inputs = "{'keep':2,'count':1}",
					.ends = "COMPLETED",
					.times = 2,
					.in_turn = true},
			}},
	{.name = "told",
		.is_told = true,
		.is_killed = true,
		.tasks =
			{
				{.capability = "told",
					.inputs = "{'snapshots':3,'count':2,'every':1,'hold':'@/go'}",
					.ends = "COMPLETED",
					.ready = HOLDING},
				{.capability = "told",
					.inputs = "{'snapshots':1,'fail':true}",
					.ends = "FAILED"},
			}},
	{.name = "deaths",
		.is_operated = true,
		.tasks =
			{
				{.capability = "mortal",
					.inputs = "{'count':4,'every':2,'die':'@/"
						  "died-#','record':'r','notes':'@/notes-#'}",
					.ends = "COMPLETED"},
				{.capability = "mortal",
					.inputs = "{'count':4,'every':2,'die':'@/died-#','fill':70000}",
					.ends = "COMPLETED"},
				{.capability = "mortal", .inputs = "{'exit':3}", .ends = "FAILED"},
				{.capability = "slow",
					.inputs = "{'count':1,'every':1,'exit':3}",
					.ends = "FAILED",
					.operate = "recover"},
				{.capability = "fading",
					.inputs = "{'exit':3,'vanish':'@/fading'}",
					.ends = "FAILED"},
				{.capability = "freed",
					.inputs = "{'count':2,'hold':'@/go'}",
					.ends = "COMPLETED",
					.operate = "rest",
					.ready = HOLDING},
				{.capability = "agent",
					.inputs = "{'count':1,'hold':'@/go'}",
					.ends = "COMPLETED",
					.operate = "extend",
					.ready = HOLDING},
				{.capability = "moved",
					.inputs = "{'count':2,'every':1,'version':'1.2','die':'@/died-#'}",
					.ends = "COMPLETED"},
				{.capability = "moved",
					.inputs = "{'count':2,'every':1,'version':'0.2','die':'@/died-#'}",
					/* the latter where hcpd dies before its checkpoint is stored */
					.ends = "FAILED COMPLETED"},
				{.capability = "moved",
					.inputs = "{'count':2,'every':1,'version':'2.2','die':'@/died-#'}",
					.ends = "COMPLETED",
					.ready = "worker_died"},
				{.capability = "chained",
					.inputs = "{'count':2,'every':1,'version':'1.0','die':'@/died-#'}",
					.ends = "COMPLETED",
					.ready = "worker_died"},
			}},
	{.name = "deaths-crash",
		.is_killed = true,
		.tasks =
			{
				{.capability = "mortal",
					.inputs = "{'count':4,'every':2,'fill':70000,'hold':'@/go'}",
					.ends = "COMPLETED",
					.ready = HOLDING},
				{.capability = "mortal",
					.inputs = "{'count':4,'every':2,'die':'@/died-#','hold':'@/go'}",
					.ends = "COMPLETED",
					.ready = HOLDING},
				{.capability = "moved",
					.inputs = "{'count':2,'every':1,'version':'2.2','die':'@/died-#'}",
					.ends = "COMPLETED",
					.ready = "worker_died"},
			}},
	/* PAUSED for being idle, and RUNNING again: by an operator, by an event, by a restart. */
	{.name = "idle",
		.idle_timeout = "PT0.2S",
		.is_operated = true,
		.is_killed = true,
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':1,'every':1,'hold':'@/go'}",
					.ends = "COMPLETED",
					.ready = "\"reason\":\"idle\""},
				{.capability = "agent",
					.inputs = "{'count':1,'hold':'@/go'}",
					.ends = "COMPLETED",
					.operate = "wake",
					.ready = "\"reason\":\"resumed\""},
			}},
	{.name = "grace",
		.pause_grace = "PT0.2S",
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':1,'every':1,'rest':true}",
					.ends = "FAILED"},
			}},
	{.name = "archive",
		.is_archived = true,
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':4,'every':2,'keep':2}",
					.ends = "COMPLETED",
					.times = 2},
				{.capability = "agent",
					.inputs = "{'count':1,'fail':true}",
					.ends = "FAILED"},
				{.capability = "nosuch", .ends = "unknown_capability", .times = 2},
			}},
	{.name = "discard",
		.is_discarded = true,
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'count':4,'every':2,'keep':2}",
					.ends = "COMPLETED",
					.times = 2},
				{.capability = "agent",
					.inputs = "{'count':1,'fail':true}",
					.ends = "FAILED"},
			}},
	{.name = "artifacts crash",
		.is_killed = true,
		.exit_grace = "1s",
		.abort_timeout = "1s",
		.tasks =
			{
				{.capability = "agent",
					.inputs = "{'keep':1,'hold':'@/go'}",
					.ends = "COMPLETED",
					.ready = HOLDING},
				{.capability = "agent",
					.inputs = "{'keep':400,'begun':true,'hold':'@/go'}",
					.ends = "COMPLETED",
					.ready = HOLDING},
			}},
};
const int scenario_count = sizeof scenarios / sizeof *scenarios;
