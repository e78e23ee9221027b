/* SPDX-License-Identifier: MIT */
/* fake_approver.c: humans who decide about tasks that wait: they allow, deny, repeat themselves, come late,
 * sign for what is not theirs; one of them is nobody that the configuration knows. Owns the keys, and the
 * memory of what was put and what was answered to it: a decision is used at most once. */
#include "store_watch.h"

#include "harp/harp.h"

#define TEXTS_MAX 128 /* decisions in the life of a seed */
#define MALLORY APPROVERS

/* the last one forges */
static const char *const names[APPROVERS + 1] = {"ann", "ann-new", "bob", "carl", "ann"};
static char lines[APPROVERS + 1][HARP_PUBLIC_SIZE];
static struct harp_private *keys[APPROVERS + 1];

static struct text {
	char *decision, nonce[HARP_NONCE_SIZE];
	int whose;
	char session_id[ID_SIZE];
	bool is_open; /* put in this life, and not answered */
	/* it, or another with its nonce: it was told so, or stored when a life ended */
	bool is_used;
} texts[TEXTS_MAX];
static size_t text_count;
static unsigned turn_of_last; /* in which turn the last one was put */

/* ---- once a process, once a seed ---- */

void approver_init(const char *dir)
{
	char path[400], why[256];

	for (int i = 0; i <= APPROVERS; i++) {
		snprintf(path, sizeof path, "%s/key%d.pem", dir, i);
		if (harp_key_make(path, lines[i], why, sizeof why) < 0 ||
			(keys[i] = harp_key_load(path, why, sizeof why)) == NULL)
			violation("no key: %s", why);
	}
}

void approver_fini(void)
{
	approver_reset();
	for (int i = 0; i <= APPROVERS; i++)
		harp_key_free(keys[i]);
}

const char *approver_key(int i)
{
	return lines[i];
}

void approver_reset(void)
{
	for (size_t i = 0; i < text_count; i++)
		free(texts[i].decision);
	text_count = 0;
	turn_of_last = 0;
}

/* ---- what is put ---- */

static void put(size_t i, bool names_session)
{
	struct text *t = &texts[i];
	struct op_request *a = operator_ask(OP_DECIDE, names_session ? watch_find(t->session_id) : NULL);

	a->ticket = i + 1;
	a->decision = xstrdup(t->decision);
	a->decision_size = strlen(t->decision);
	t->is_open = true;
	if (turn_of_last == sim.turns + 1)
		cover(DECISION_TWO_AT_ONCE);
	turn_of_last = sim.turns + 1;
}

static struct harp_artifact *read_artifact(int64_t review)
{
	sqlite3_stmt *st;
	struct harp_artifact *a = NULL;
	char why[256];

	if (!watch_may_ask(Q_ARTIFACT))
		return NULL;
	st = watch_ask_about(Q_ARTIFACT, review);
	if (!watch_row(Q_ARTIFACT))
		violation("review %lld is gone", (long long)review);
	if (harp_read_artifact((const char *)sqlite3_column_text(st, 0), (size_t)sqlite3_column_bytes(st, 0),
		    &a, why, sizeof why) != HARP_OK)
		violation("what a human is shown cannot be read: %s", why);
	watch_done(Q_ARTIFACT);
	return a;
}

static bool is_open(int64_t review)
{
	return strcmp(watch.reviews[review].state, "AWAITING_DECISION") == 0;
}

/* Whose: the key; what it is about is the review's session, or another. */
static void sign(int64_t review, int whose, bool allow, bool names_session)
{
	struct harp_artifact *a = text_count < TEXTS_MAX ? read_artifact(review) : NULL;
	struct text *t = &texts[text_count];
	const struct text *twin;
	unsigned char random[16];
	struct buf b = {0};
	char why[256];

	if (a == NULL)
		return;
	memset(t, 0, sizeof *t);
	for (size_t i = 0; i < sizeof random; i++)
		random[i] = (unsigned char)sim_choose(256);
	harp_nonce(random, t->nonce);
	t->whose = whose;
	if (text_count > 0 && sim_chance(6) &&
		(twin = &texts[sim_choose((unsigned)text_count)])->whose == whose) {
		cover(DECISION_NONCE_AGAIN);
		memcpy(t->nonce, twin->nonce, sizeof t->nonce);
		t->is_used = twin->is_used;
	}
	if (harp_sign(a,
		    &(struct harp_answer){.allow = allow,
			    .scope = sim_chance(4) ? HARP_SESSION : HARP_ONCE,
			    .expires_us = a->expires_us,
			    .nonce = t->nonce,
			    .signer_key_id = names[whose]},
		    keys[whose], &b, why, sizeof why) != HARP_OK)
		violation("a decision cannot be signed: %s", why);
	buf_text(&b);
	t->decision = b.data;
	snprintf(t->session_id, sizeof t->session_id, "%s", a->session_id);
	/* about one, said to be for another */
	for (int64_t i = 1; names_session && i <= watch.review_count; i++)
		if (is_open(i) && i != review && sim_chance(2))
			snprintf(t->session_id, sizeof t->session_id, "%s",
				watch.sessions[watch.reviews[i].session].id);
	sim_trace("%s signs %s about session %.8s, review %lld", whose == MALLORY ? "mallory" : names[whose],
		allow ? "allow" : "deny", a->session_id, (long long)review);
	harp_artifact_free(a);
	put(text_count++, names_session);
}

/* Rather one that waits. */
static int64_t some_review(void)
{
	int64_t review = 0;

	for (unsigned tries = sim_chance(8) ? 1 : 6; tries > 0 && watch.review_count > 0; tries--) {
		review = 1 + sim_choose((unsigned)watch.review_count);
		if (is_open(review))
			break;
	}
	return review;
}

bool approver_act(void)
{
	int64_t review = some_review();
	int whose = (int)sim_choose(APPROVERS);
	bool allow = !sim_chance(4), names_session = sim_chance(2);

	if (review == 0)
		return false;
	if (text_count > 0 && sim_chance(4)) {
		cover(DECISION_PUT_AGAIN);
		put(sim_choose((unsigned)text_count), names_session);
		return true;
	}
	sign(review, sim_chance(12) ? MALLORY : whose, allow, names_session);
	if (sim_chance(3)) /* a second one, before the loop gets to the first */
		sign(review, (int)sim_choose(APPROVERS), allow, names_session);
	return true;
}

/* Decided one way or another; what nobody decides expires. */
void approver_heal(int64_t review)
{
	bool allow = !sim_chance(3);

	sign(review, sim_chance(2) ? 0 : 1, allow, false);
	if (watch.reviews[review].risk >= 5)
		sign(review, 2, allow, false);
}

/* ---- what was answered ---- */

static bool is_stored(const struct text *t)
{
	bool found;

	sqlite3_bind_text(watch_ask(Q_NONCE), 1, t->nonce, -1, SQLITE_STATIC);
	found = watch_row(Q_NONCE);
	watch_done(Q_NONCE);
	return found;
}

static void mark_used(const struct text *t)
{
	for (size_t i = 0; i < text_count; i++)
		texts[i].is_used |= strcmp(texts[i].nonce, t->nonce) == 0;
}

/* What was put and not answered in an earlier life: it is in the store, or it never was. */
void approver_begin(void)
{
	for (size_t i = 0; i < text_count; i++) {
		struct text *t = &texts[i];

		if (!t->is_open)
			continue;
		t->is_open = false;
		if (!t->is_used && is_stored(t)) {
			cover(DECISION_UNTOLD);
			mark_used(t);
		} else if (!t->is_used) {
			cover(DECISION_LOST);
		}
	}
}

void approver_told(const struct op_request *a)
{
	struct text *t = &texts[a->ticket - 1];

	t->is_open = false;
	if (a->code != NULL) {
		/* "refused": it counted, and the policy of now said no. */
		if (strcmp(a->code, "refused") == 0)
			mark_used(t);
		if (!cover_name("decision", a->code))
			violation("a decision is refused with %s: %s", a->code, a->message);
		return;
	}
	if (t->is_used)
		violation("a decision is used a second time: session %.8s", a->session_id);
	mark_used(t);
	if (watch_may_ask(Q_NONCE) && !is_stored(t))
		violation("a human is told that his decision counts, and it is not stored: session %.8s",
			a->session_id);
}
