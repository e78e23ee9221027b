/* SPDX-License-Identifier: MIT */
/* effect_oracle.c: looks over the daemon's shoulder: is what justifies an effect committed when it happens?
 * And at rest: is everything over that should be? Owns the rules for effects; what was committed it knows
 * from store_watch.c. What it finds ends the run (violation). */
#include "store_watch.h"

#include <jansson.h>

/* ---- effects ---- */

static struct jmessage *message_of(const struct bus_out *out)
{
	struct jmessage *m;

	HASH_FIND_STR(watch.by_message_id, out->message_id, m);
	return m;
}

static void check_bytes(struct jmessage *m, const struct bus_out *out)
{
	uint64_t bytes = watch_hash(out->body, out->size);

	if (bytes == (m->substitute != 0 ? m->substitute : m->bytes))
		return;
	watch_ask_about(Q_SUBSTITUTE, m->id);
	watch_row(Q_SUBSTITUTE);
	if (m->substitute == 0 &&
		bytes == watch_hash(watch_text(Q_SUBSTITUTE, 0), strlen(watch_text(Q_SUBSTITUTE, 0)))) {
		if (m->has_arrived)
			violation("message %lld arrived, and now another goes out in its place",
				(long long)m->id);
		cover(FATE_SET_ASIDE);
		m->substitute = bytes;
		watch_done(Q_SUBSTITUTE);
		return;
	}
	violation("message %lld is published with other bytes than are stored: %.*s", (long long)m->id,
		(int)out->size, out->body);
}

void effect_oracle_publish(const struct bus_out *out)
{
	char key[BUS_KEY_SIZE + 256];
	struct jsession *s = NULL;
	struct jmessage *m;

	watch_look();
	if ((m = message_of(out)) == NULL)
		violation("published before it was stored: %.*s", (int)out->size, out->body);
	check_bytes(m, out);
	if (m->session != 0)
		s = watch_session(m->session);
	if (watch_may_ask(Q_CALLERS)) {
		snprintf(key, sizeof key, "%.*s.%s.%s", (int)strcspn(watch.callers[m->caller].id, "/"),
			watch.callers[m->caller].id, s != NULL ? s->id : "-", out->type);
		if (strcmp(key, out->key) != 0 || strcmp(out->correlation_id, s != NULL ? s->id : "") != 0)
			violation("message %lld goes to %s and not to %s", (long long)m->id, out->key, key);
	}
	if ((m->kind == J_HARP) != (out->exchange == BUS_TO_HARP))
		violation("message %lld goes to the wrong exchange", (long long)m->id);
	if (!m->is_published && s != NULL && m->kind != J_ACCEPTED) {
		int64_t *last = m->kind == J_HARP ? &s->harp_published : &s->published;

		if (m->id < *last)
			violation("session %.8s: message %lld is first published after %lld", s->id,
				(long long)m->id, (long long)*last);
		*last = m->id;
	}
	m->is_published = true;
}

/* First copies arrive in order. proves L1-07 */
void effect_oracle_arrive(const struct bus_out *out, enum bus_status fate)
{
	struct jmessage *m = message_of(out);
	struct jsession *s;

	if (m == NULL)
		violation("a message arrives that was never stored: %s", out->key);
	if (fate != BUS_CONFIRMED) {
		watch.callers[m->caller].is_upset = true;
		m->was_returned |= fate == BUS_UNROUTABLE;
		return;
	}
	if (m->was_returned && !m->has_arrived)
		cover(FATE_ROUTED_LATER);
	if (m->arrivals++ > 0)
		cover(FATE_TWICE);
	if (m->session != 0 && (m->kind == J_EVENT || m->kind == J_HARP) && !m->has_arrived) {
		int64_t *arrived;

		s = watch_session(m->session);
		arrived = m->kind == J_HARP ? &s->harp_arrived : &s->arrived;
		if (!watch.callers[m->caller].is_upset && m->sequence != *arrived + 1)
			violation("session %.8s: after sequence %lld arrives %lld%s", s->id,
				(long long)*arrived, (long long)m->sequence,
				m->kind == J_HARP ? " of what the world is told" : "");
		*arrived = m->sequence > *arrived ? m->sequence : *arrived;
		if (m->kind == J_HARP)
			cover(TOLD_ARRIVED);
	}
	m->has_arrived = true;
}

bool effect_oracle_has_arrived(const struct bus_out *out)
{
	const struct jmessage *m = message_of(out);

	return m != NULL && m->has_arrived;
}

void effect_oracle_settle(const struct bus_out *out, enum bus_status told)
{
	struct jmessage *m = message_of(out);

	m->is_settled |= told == BUS_CONFIRMED || told == BUS_UNROUTABLE;
}

/* A HARP event goes without what the broker does not take. */
void effect_oracle_refuse(const struct bus_out *out)
{
	struct jmessage *m = message_of(out);

	if (m != NULL && m->kind == J_HARP) {
		m->is_settled = m->was_returned = true;
		watch.callers[m->caller].is_upset = true;
		cover(TOLD_REFUSED);
	}
}

static bool is_ending(const struct jsession *s)
{
	return s->has_outcome || oracle_is_final(s->state) || strcmp(s->state, "ABORTING") == 0;
}

static bool was_refused(const char *caller)
{
	for (int64_t id = 1; id <= watch.message_count; id++)
		if (watch.messages[id].is_there && watch.messages[id].kind == J_REJECTED &&
			strcmp(watch.callers[watch.messages[id].caller].id, caller) == 0)
			return true;
	return false;
}

struct jmessage *effect_oracle_answer_to(const struct order *o)
{
	struct jsubmit *n;
	char key[64];

	snprintf(key, sizeof key, "%.32s %.30s", o->caller, o->message_id);
	HASH_FIND_STR(watch.submits, key, n);
	if (n == NULL)
		violation("submit %s is not in the store", key);
	if (n->answer == 0 && watch_session(n->session)->waits[0] != '\0')
		return NULL;
	if (n->answer < 1 || n->answer > watch.message_count || !watch.messages[n->answer].is_there)
		violation("the answer to submit %s is not in the store", key);
	return &watch.messages[n->answer];
}

/* What is acked is in the store. proves L1-05 */
void effect_oracle_answer(const struct order *o, bool is_ack)
{
	const struct jsession *s;

	watch_look();
	if (is_ack == (o->expect == EXPECT_DROP))
		violation("a command was %s: %s",
			is_ack ? "acked that nobody can be answered for" : "thrown away", o->message_id);
	if (o->expect == EXPECT_VERDICT && watch_may_ask(Q_SUBMITS) && watch_may_ask(Q_CALLERS))
		(void)effect_oracle_answer_to(o);
	if (o->expect == EXPECT_REFUSAL && watch_may_ask(Q_CALLERS) && !was_refused(o->caller))
		violation("a submit of %s is acked, and its rejection is not in the store", o->caller);
	if (o->expect == EXPECT_ABORT && (s = watch_find(o->session_id)) != NULL && !is_ending(s))
		violation("the abort of session %.8s is acked, and it is %s", s->id, s->state);
}

/* ---- workers ---- */

void effect_oracle_start(const struct worker *w)
{
	const struct jsession *s;

	watch_look();
	if (sim.workers.leftovers > 0)
		violation("a worker starts, and %d of an earlier life are alive", sim.workers.leftovers);
	if (w->session_id[0] == '\0')
		return; /* of a reused one the start line tells */
	if ((s = watch_find(w->session_id)) != NULL && mover_is(w))
		mover_begin(w, s);
	else if (s == NULL || strcmp(s->state, "RUNNING") != 0)
		violation("a worker starts for session %.8s, which is %s", w->session_id,
			s != NULL ? s->state : "not there");
	if (s->accepted == 0 || s->waits[0] != '\0')
		violation("a worker starts for session %.8s, which was not accepted", s->id);
	if (is_ending(s))
		violation("a worker starts for session %.8s, whose end is decided", s->id);
	for (size_t i = 0; i < sim.workers.count; i++) {
		const struct worker *o = sim.workers.list[i];

		if (o != w && !o->is_gone && strcmp(o->session_id, w->session_id) == 0)
			violation("session %.8s has two workers, %d and %d", s->id, o->number, w->number);
	}
}

/* Of a large one (scenario.c): both ends and all between. proves CK-02 */
static bool is_whole(const json_t *state)
{
	const json_t *large = json_object_get(state, "large");

	return large == NULL ||
		(json_equal(large, json_object_get(state, "again")) &&
			json_string_length(json_object_get(state, "fill")) == 5 * 1024);
}

/* The checkpoint that it starts from is the newest that is good. proves L2-08 */
static void check_start_line(const struct worker *w, const json_t *line)
{
	const char *id =
		json_string_value(json_object_get(json_object_get(line, "checkpoint"), "checkpoint_id"));
	const struct jsession *s = watch_find(w->session_id);
	struct mood *mood = sim_mood(w);
	bool resumes, restarts;

	if (s == NULL || strcmp(s->state, "RUNNING") != 0 || is_ending(s) || s->accepted == 0)
		violation("a start line for session %.8s, which is %s", w->session_id,
			s != NULL ? s->state : "not there");
	if (mood->served[0] != '\0') {
		const struct jsession *before = watch_find(mood->served);

		if (before == NULL || !oracle_is_final(before->state))
			violation("worker %d serves two sessions at a time", w->number);
		cover(WORKER_REUSED);
	}
	snprintf(mood->served, sizeof mood->served, "%s", w->session_id);
	if (!is_whole(json_object_get(json_object_get(line, "checkpoint"), "state")))
		violation("session %.8s starts from a state that nobody made", s->id);
	if (!watch_may_ask(Q_CHECKPOINT))
		return;
	mover_start(s, json_object_get(json_object_get(line, "checkpoint"), "state"));
	/* its capability restarts, unless an operator wants it otherwise */
	restarts = strcmp(s->capability, "again") == 0;
	resumes = json_integer_value(json_object_get(line, "attempt")) > 1 && (!restarts || s->resume_came);
	watch_ask_about(Q_CHECKPOINT, s - watch.sessions);
	if (!watch_row(Q_CHECKPOINT) || !resumes) {
		if (id != NULL)
			violation("session %.8s starts from checkpoint %s, which it should not", s->id, id);
	} else if (id == NULL ? !restarts : strcmp(id, watch_text(Q_CHECKPOINT, 0)) != 0) {
		violation("session %.8s starts from %s and not from its newest checkpoint", s->id,
			id != NULL ? id : "nothing");
	}
	watch_done(Q_CHECKPOINT);
}

/* Inside the envelope it may, outside it may not; beyond a hard limit, or again after a refusal, its end is
 * stored before it learns that. */
static void check_action(const struct worker *w, const struct jsession *s, const json_t *line)
{
	const char *ref = json_string_value(json_object_get(line, "ref"));
	bool allowed = json_is_true(json_object_get(line, "allowed"));
	unsigned *refused = &sim_mood(w)->refused, bit;

	if (ref == NULL || allowed != (strcmp(ref, "inside") == 0))
		violation("worker %d hears that its action %s is %s", w->number, ref != NULL ? ref : "?",
			allowed ? "allowed" : "refused");
	if (allowed) {
		cover(ACTION_INSIDE);
		return;
	}
	bit = strcmp(ref, "outside-a") == 0 ? 1 : strcmp(ref, "outside-b") == 0 ? 2 : 0;
	if ((bit == 0 || (*refused & bit) != 0) && !is_ending(s))
		violation("worker %d announced the action %s, and session %.8s is %s", w->number, ref, s->id,
			s->state);
	cover(strcmp(ref, "prohibited") == 0 ? ACTION_PROHIBITED :
			bit == 0             ? ACTION_BEYOND :
			*refused & bit       ? ACTION_AGAIN :
			is_ending(s)         ? ACTION_LATE :
					       ACTION_OUTSIDE);
	*refused |= bit;
}

void effect_oracle_line(const struct worker *w, const char *line, size_t size)
{
	json_t *root = json_loadb(line, size, 0, NULL);
	const char *type = json_string_value(json_object_get(root, "type"));
	const struct jsession *s;

	watch_look();
	if (type == NULL)
		violation("a worker is told what is no line: %.*s", (int)size, line);
	if (strcmp(type, "start") == 0)
		check_start_line(w, root);
	s = watch_find(w->session_id);
	if (strcmp(type, "abort") == 0 && !is_ending(s))
		violation("worker %d is told to abort before that is stored", w->number);
	if (strcmp(type, "action_verdict") == 0)
		check_action(w, s, root);
	if (strcmp(type, "checkpoint_saved") == 0 && watch_may_ask(Q_POINT)) {
		const char *id = json_string_value(json_object_get(root, "checkpoint_id"));

		sqlite3_bind_text(watch_ask(Q_POINT), 1, id, -1, SQLITE_STATIC);
		/* Older ones are pruned: three newer may be in the same turn. */
		if (watch_row(Q_POINT) && strcmp(watch_text(Q_POINT, 0), w->session_id) != 0)
			violation("checkpoint %s is another session's", id);
		watch_done(Q_POINT);
	}
	json_decref(root);
}

/* A paused session of `narrow` gives up its process; what it did is stored then. */
static bool is_freed(const struct jsession *s)
{
	sqlite3_stmt *st;
	bool found;

	if (strcmp(s->state, "PAUSED") != 0 || strcmp(s->capability, "narrow") != 0 ||
		sqlite3_prepare_v2(watch_db(), "SELECT 1 FROM checkpoints WHERE session_id = ? AND resumable",
			-1, &st, NULL) != SQLITE_OK)
		return false;
	sqlite3_bind_text(st, 1, s->id, -1, SQLITE_STATIC);
	found = sqlite3_step(st) == SQLITE_ROW;
	sqlite3_finalize(st);
	return found;
}

void effect_oracle_worker_end(const struct worker *w)
{
	const struct jsession *s;

	watch_look();
	/* It may be ended for what it did itself, by a stop, by a reload, or for an end that is stored. */
	if (sim.core.phase.is_stopping || w->has_exited || w->out_eof || w->session_id[0] == '\0')
		return;
	s = watch_find(w->session_id);
	if (mover_is(w)) {
		mover_end(w, s, s != NULL && is_ending(s));
		return;
	}
	if (s == NULL || (!is_ending(s) && !is_freed(s)))
		violation("worker %d is ended before the end of its session is stored", w->number);
}

/* ---- at rest ---- */

static bool is_immortal(const char *session_id)
{
	for (size_t i = 0; i < sim.workers.count; i++)
		if (sim.workers.list[i]->is_immortal && !sim.workers.list[i]->is_gone &&
			strcmp(sim.workers.list[i]->session_id, session_id) == 0)
			return true;
	return false;
}

/* A thread still reads its worker's last line. Here a thread may take any time; final_check sees that it
 * ends. */
static bool is_being_read(const char *session_id)
{
	const struct session *s = session_find(&sim.core, session_id);

	return s != NULL && s->run.has_large_line;
}

/* Nothing is late: max_duration, aborts and other ends, a stop. proves L2-09, L2-11 */
void effect_oracle_quiet(void)
{
	int64_t now = clock_boot_us();

	if (sim.core.phase.is_suspended)
		return;
	waiting_quiet();
	for (int64_t key = 1; key <= watch.session_count; key++) {
		const struct jsession *s = &watch.sessions[key];

		if (oracle_is_final(s->state) || strcmp(s->state, "PENDING") == 0)
			continue;
		if (s->deadline_us != 0 && now > s->deadline_us && !is_ending(s) &&
			!sim.core.phase.is_stopping)
			violation("session %.8s is %s %lld us after its max_duration", s->id, s->state,
				(long long)(now - s->deadline_us));
		if (s->ending_us != 0 &&
			now > s->ending_us + SIM_ABORT_US + (sim.held_us - s->ending_held_us) &&
			!is_immortal(s->id) && !is_being_read(s->id))
			violation("session %.8s is %s %lld us after its end was decided", s->id, s->state,
				(long long)(now - s->ending_us));
	}
	if (sim.stop_since_us != 0 && now > sim.stop_since_us + SIM_STOP_US)
		violation("the daemon still runs %lld us after it was told to stop",
			(long long)(now - sim.stop_since_us));
}

/* proves L2-16 */
void effect_oracle_stopped(void)
{
	/* the policy program goes with the workers, in workers_free */
	for (size_t i = 0; i < sim.workers.count; i++)
		if (!sim.workers.list[i]->is_gone && !program_is(sim.workers.list[i]))
			violation("the daemon ended within its time, and worker %zu is left", i);
	watch_look();
	for (int64_t key = 1; key <= watch.session_count; key++) {
		const struct jsession *s = &watch.sessions[key];

		if (!oracle_is_final(s->state) && strcmp(s->state, "PENDING") != 0 &&
			strcmp(s->state, "PAUSED") != 0)
			violation("the daemon stopped, and session %.8s is %s", s->id, s->state);
		if (s->waits[0] != '\0')
			cover(WAIT_STOP);
	}
}
