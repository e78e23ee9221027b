/* SPDX-License-Identifier: MIT */
/* approval_oracle.c: tasks that wait for a human or for the policy program, as they were committed: nobody is
 * told of one before it is decided, it is decided once, by whoever may, and answered once. Owns the check's
 * copy of reviews and decisions, and the rules for them. What it finds ends the run (violation). */
#include "store_watch.h"

#include <string.h>

/* ---- sessions ---- */

static bool needs_human(const struct jsession *s)
{
	return strcmp(s->capability, "asked") == 0 || strcmp(s->capability, "grave") == 0;
}

void waiting_new(struct jsession *s, const char *waits_for)
{
	snprintf(s->waits, sizeof s->waits, "%s", waits_for);
	s->did_wait = waits_for[0] != '\0';
	s->asked_human = strcmp(waits_for, "human") == 0;
	s->asked_program = strcmp(waits_for, "program") == 0;
	s->asked_us = clock_boot_us();
	if (s->did_wait)
		cover(s->asked_human ? WAIT_HUMAN : WAIT_PROGRAM);
	if (!s->did_wait && (needs_human(s) || (setup_has_program(false) && setup_has_program(true))))
		violation("session %.8s of %s was accepted, and nobody was asked", s->id, s->capability);
	if (s->asked_human && setup_has_program(false) && setup_has_program(true))
		violation("session %.8s waits for a human, and the program was not asked", s->id);
}

/* Before the transitions are looked at: whom does each wait for by now? */
void waiting_look(void)
{
	for (int64_t key = 1; key <= watch.session_count; key++) {
		struct jsession *s = &watch.sessions[key];
		sqlite3_stmt *st;

		if (s->waits[0] == '\0')
			continue;
		st = watch_ask_about(Q_WAITS, key);
		watch_row(Q_WAITS);
		if (strcmp(s->waits, "program") == 0 && strcmp(watch_text(Q_WAITS, 0), "human") == 0) {
			s->asked_human = true;
			cover(WAIT_HANDED);
		} else if (sqlite3_column_type(st, 0) != SQLITE_NULL &&
			strcmp(s->waits, watch_text(Q_WAITS, 0)) != 0) {
			violation("session %.8s waited for a %s, and waits for a %s", s->id, s->waits,
				watch_text(Q_WAITS, 0));
		}
		snprintf(s->waits, sizeof s->waits, "%s", watch_text(Q_WAITS, 0));
		snprintf(s->token, sizeof s->token, "%s", watch_text(Q_WAITS, 1));
		if ((s->token[0] == '\0') != (s->waits[0] != '\0'))
			violation("session %.8s %s, and its token is \"%s\"", s->id,
				s->waits[0] != '\0' ? "waits" : "is accepted", s->token);
		watch_done(Q_WAITS);
	}
}

/* Nothing leaves PENDING but out of an approval, or to REJECTED. proves L3-09 */
void waiting_transition(struct jsession *s, const char *from, const char *to, const char *reason)
{
	bool rejects = strcmp(to, "REJECTED") == 0;

	if (strcmp(from, "PENDING") != 0)
		return;
	if (!rejects && s->waits[0] != '\0')
		violation("session %.8s waits for a %s, and goes to %s", s->id, s->waits, to);
	if (!rejects)
		return;
	if (s->waits[0] == '\0')
		violation("session %.8s was accepted, and then rejected: %s", s->id, reason);
	if (strcmp(reason, "aborted_by_operator") == 0 && !s->cancel_came)
		violation("session %.8s was aborted while it waited, and no operator asked for it", s->id);
	if (strcmp(reason, "aborted_by_operator") == 0)
		cover(strcmp(s->waits, "human") == 0 ? WAIT_CANCELLED_HUMAN : WAIT_CANCELLED_PROGRAM);
	if (strncmp(reason, "approval_", 9) == 0 && strcmp(s->waits, "human") != 0)
		violation("session %.8s waited for a %s, and was rejected with %s", s->id, s->waits, reason);
	s->waits[0] = '\0';
	s->is_closed = true; /* nobody was told of it, and nobody will be */
	watch.rejections++;
}

void waiting_message(struct jsession *s, const struct jmessage *m, const char *body)
{
	if (s->waits[0] != '\0')
		violation("session %.8s waits for a %s, and its caller is told of it: %s", s->id, s->waits,
			body);
	if (m->kind != J_ACCEPTED && s->accepted == 0)
		violation("session %.8s was not accepted, and its caller is told of it: %s", s->id, body);
	if (m->kind == J_ACCEPTED && s->accepted != 0)
		violation("session %.8s is accepted twice: %s", s->id, body);
	if (m->kind == J_ACCEPTED)
		s->accepted = m->id;
}

/* ---- reviews ---- */

static bool is_open(const struct jreview *r)
{
	return strcmp(r->state, "AWAITING_DECISION") == 0;
}

static void look_at_new_reviews(void)
{
	sqlite3_stmt *st = watch_ask_about(Q_REVIEWS, watch.review_count);

	while (watch_row(Q_REVIEWS)) {
		int64_t id = sqlite3_column_int64(st, 0);
		struct jreview *r = &watch.reviews[id];

		if (id >= REVIEWS_MAX)
			violation("review %lld is too many", (long long)id);
		memset(r, 0, sizeof *r);
		watch.review_count = id;
		r->session = sqlite3_column_int64(st, 2);
		r->risk = watch_text(Q_REVIEWS, 3)[1] - '0';
		snprintf(r->request, sizeof r->request, "%s", watch_text(Q_REVIEWS, 1));
		snprintf(r->state, sizeof r->state, "AWAITING_DECISION");
		r->late_us = clock_boot_us() + SIM_EXPIRES_US;
		r->early_us = sim.clear_us + SIM_EXPIRES_US - SECONDS; /* written in whole seconds */
		for (int64_t i = 1; i < id; i++)
			if (watch.reviews[i].session == r->session)
				cover(WAIT_AGAIN);
	}
}

static struct jreview *find_review(const char *request)
{
	for (int64_t i = 1; i <= watch.review_count; i++)
		if (strcmp(watch.reviews[i].request, request) == 0)
			return &watch.reviews[i];
	violation("a decision about %s, which nobody was asked", request);
}

/* One is used once, and only while its review is open. proves HC-03 */
static void look_at_decisions(void)
{
	static const struct {
		const char *name;
		int person, max_risk;
	} signers[] = {{"ann", 0, 5}, {"ann-new", 0, 5}, {"bob", 1, 5}, {"carl", 2, 3}};
	sqlite3_stmt *st = watch_ask_about(Q_DECISIONS, watch.decision_count);

	while (watch_row(Q_DECISIONS)) {
		struct jreview *r = find_review(watch_text(Q_DECISIONS, 1));
		const char *signer = watch_text(Q_DECISIONS, 2);
		bool allow = strcmp(watch_text(Q_DECISIONS, 3), "allow") == 0,
		     is_final = sqlite3_column_int(st, 4) != 0;
		size_t i = 0;

		watch.decision_count = sqlite3_column_int64(st, 0);
		while (i < 4 && strcmp(signers[i].name, signer) != 0)
			i++;
		if (i == 4 || signers[i].max_risk < r->risk)
			violation("%s has decided about a task of risk R%d", signer, r->risk);
		if (!is_open(r) || r->finals > 0)
			violation("review %s was decided, and then %s decided", r->request, signer);
		if (allow)
			r->persons |= 1u << signers[i].person;
		r->finals += is_final;
		r->is_allowed = is_final && allow;
		if (is_final && allow && r->risk >= 5 && (r->persons & (r->persons - 1)) == 0)
			violation("one person has decided about a task of risk R%d, review %s", r->risk,
				r->request);
		if (!is_final && (!allow || r->risk < 5))
			violation("a decision of %s is not the last word on review %s", signer, r->request);
		cover(!allow ? DECISION_DENY : is_final ? DECISION_ALLOW : DECISION_VOTE);
	}
}

static bool has_open_review(int64_t session)
{
	for (int64_t i = watch.review_count; i > 0; i--)
		if (watch.reviews[i].session == session && is_open(&watch.reviews[i]))
			return true;
	return false;
}

static void check_change(struct jreview *r, const char *to)
{
	struct jsession *s = watch_session(r->session);
	bool is_rejected = strcmp(s->state, "REJECTED") == 0;

	if (strcmp(to, "EXECUTED") == 0) {
		if (!r->is_allowed || s->accepted == 0)
			violation("review %s is EXECUTED, %s", r->request,
				r->is_allowed ? "and its task not accepted" : "and nobody allowed it");
		if (++s->executed > 1)
			violation("session %.8s was allowed twice", s->id);
		watch_ask_about(Q_WAITS, r->session);
		watch_row(Q_WAITS);
		if (watch_text(Q_WAITS, 2)[1] - '0' > r->risk)
			violation("session %.8s is of risk %s, and R%d was allowed", s->id,
				watch_text(Q_WAITS, 2), r->risk);
		watch_done(Q_WAITS);
	} else if (strcmp(to, "DENIED") == 0) {
		if (!is_rejected || r->finals == 0 || r->is_allowed)
			violation("review %s is DENIED, %s", r->request,
				is_rejected ? "and nobody did so" : "and its task not rejected");
	} else if (strcmp(to, "APPROVED") == 0) { /* and the gate of now refused the task */
		if (!is_rejected || !r->is_allowed)
			violation("review %s is APPROVED, %s", r->request,
				is_rejected ? "and nobody allowed it" : "and its task not rejected");
	} else if (strcmp(to, "EXPIRED") == 0) {
		if (r->finals == 0 && ((clock_boot_us() < r->early_us && !s->cancel_came) || !is_rejected))
			violation("review %s is EXPIRED %lld us too early, its session %s", r->request,
				(long long)(r->early_us - clock_boot_us()), s->state);
	} else {
		violation("review %s went to %s", r->request, to);
	}
	snprintf(r->state, sizeof r->state, "%s", to);
}

static void look_at_review(int64_t id)
{
	struct jreview *r = &watch.reviews[id];

	watch_ask_about(Q_REVIEW, id);
	if (!watch_row(Q_REVIEW))
		violation("review %s is gone", r->request);
	if (strcmp(watch_text(Q_REVIEW, 0), r->state) != 0 && !is_open(r))
		violation("review %s was %s, and is %s", r->request, r->state, watch_text(Q_REVIEW, 0));
	if (is_open(r) && strcmp(watch_text(Q_REVIEW, 0), r->state) != 0)
		check_change(r, watch_text(Q_REVIEW, 0));
	watch_done(Q_REVIEW);
}

/* What lets it run: a human, two of them, the program, or both. proves L3-09, L3-11 */
static void check_accepted(struct jsession *s)
{
	bool two = false;

	if (!s->did_wait || s->accepted == 0 || s->was_counted)
		return;
	s->was_counted = true;
	if ((s->asked_human || needs_human(s)) && s->executed != 1)
		violation("session %.8s needed a human, and was accepted without one", s->id);
	if (s->asked_program &&
		(s->program_said & (s->asked_human ? SAID_ALLOW | SAID_ASK : SAID_ALLOW)) == 0)
		violation("session %.8s waited for the program, and was accepted without its word", s->id);
	for (int64_t i = 1; i <= watch.review_count; i++)
		two |= watch_session(watch.reviews[i].session) == s && watch.reviews[i].risk >= 5;
	cover(!s->asked_human            ? WAIT_RAN_PROGRAM :
			s->asked_program ? WAIT_RAN_BOTH :
			two              ? WAIT_RAN_TWO :
					   WAIT_RAN_HUMAN);
}

void waiting_look_at_reviews(void)
{
	if (watch_may_ask(Q_REVIEWS))
		look_at_new_reviews();
	if (watch_may_ask(Q_DECISIONS) && watch_may_ask(Q_REVIEWS))
		look_at_decisions();
	for (int64_t i = 1; i <= watch.review_count && watch_may_ask(Q_REVIEW); i++)
		if (is_open(&watch.reviews[i]))
			look_at_review(i);
	for (int64_t key = 1; key <= watch.session_count; key++) {
		struct jsession *s = &watch.sessions[key];

		check_accepted(s);
		if ((strcmp(s->waits, "human") == 0) != has_open_review(key))
			violation("session %.8s %s a human, and its review %s", s->id,
				s->waits[0] != '\0' ? "waits for" : "no longer waits for",
				s->waits[0] != '\0' ? "is decided" : "is open");
	}
}

/* ---- submits ---- */

/* An answer is given once; what is undecided waits. */
void waiting_look_at_submits(bool at_all)
{
	struct jsubmit *n, *tmp;

	HASH_ITER(hh, watch.submits, n, tmp) {
		int64_t answer;
		const struct jsession *s = n->session != 0 ? watch_session(n->session) : NULL;
		const struct jmessage *m;
		sqlite3_stmt *st;

		if (n->answer != 0 && !at_all)
			continue;
		st = watch_ask_about(Q_SUBMIT, n->id);
		answer = watch_row(Q_SUBMIT) ? sqlite3_column_int64(st, 0) : -1;
		watch_done(Q_SUBMIT);
		if (n->answer != 0 && answer != n->answer)
			violation("submit %s was answered by message %lld, and now by %lld", n->key,
				(long long)n->answer, (long long)answer);
		if (answer == 0 && (s == NULL || s->waits[0] == '\0'))
			violation("submit %s is undecided, and its session %s", n->key,
				s != NULL ? s->state : "not there");
		if (answer == 0 || n->answer != 0)
			continue;
		n->answer = answer;
		m = answer > 0 && answer <= watch.message_count ? &watch.messages[answer] : NULL;
		if (m == NULL || !m->is_there || (s->waits[0] != '\0') ||
			(strcmp(s->state, "REJECTED") == 0 ?
					m->kind != J_REJECTED :
					m->kind != J_ACCEPTED || m->session != n->session))
			violation("submit %s is answered by message %lld, and its session is %s", n->key,
				(long long)answer, s->state);
	}
}

/* ---- life, effects, rest ---- */

void waiting_reset(void)
{
	watch.review_count = watch.decision_count = watch.rejections = 0;
}

/* From here on the stored wall time counts; the program is asked again. */
void waiting_recover(void)
{
	for (int64_t i = 1; i <= watch.review_count; i++) {
		struct jreview *r = &watch.reviews[i];
		int64_t expires;

		if (!is_open(r))
			continue;
		watch_ask_about(Q_REVIEW, i);
		if (!watch_row(Q_REVIEW) || !clock_parse(watch_text(Q_REVIEW, 1), &expires))
			violation("review %s has no expiry", r->request);
		r->late_us = r->early_us =
			clock_boot_us() + (expires > clock_wall_us() ? expires - clock_wall_us() : 0);
		watch_done(Q_REVIEW);
	}
	for (int64_t key = 1; key <= watch.session_count; key++)
		watch.sessions[key].asked_us = clock_boot_us();
}

void policy_question(const struct worker *w, const char *session_id)
{
	struct jsession *s;

	watch_look();
	s = watch_find(session_id);
	if (s == NULL || !s->asked_program)
		violation("program %d is asked about session %.8s, which is %s", w->number, session_id,
			s != NULL ? "not to wait for it" : "not stored");
	s->program_said = 0; /* what an earlier one said of it counts no more */
}

/* Nobody waits longer than there is time to decide: what is not allowed then is denied. */
void waiting_quiet(void)
{
	int64_t now = clock_boot_us();

	for (int64_t i = 1; i <= watch.review_count; i++)
		if (is_open(&watch.reviews[i]) && now > watch.reviews[i].late_us)
			violation("review %s is open %lld us after its expiry", watch.reviews[i].request,
				(long long)(now - watch.reviews[i].late_us));
	for (int64_t key = 1; key <= watch.session_count; key++) {
		const struct jsession *s = &watch.sessions[key];
		int64_t since = s->asked_us > sim.let_go_us ? s->asked_us : sim.let_go_us;

		if (strcmp(s->waits, "program") == 0 && now > since + SIM_VERDICT_US)
			violation("session %.8s waits for the program %lld us after its time", s->id,
				(long long)(now - since - SIM_VERDICT_US));
	}
}
