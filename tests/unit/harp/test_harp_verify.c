/* SPDX-License-Identifier: MIT */
/* test_harp_verify.c: only a decision that was signed by one who may, for this very request, now, and for the
 * first time, counts. Every other one has its code. */
#include "support/harp_kit.h"

#define OTHER_HASH "0612a990dc16526fb37455be7d0a414cbdaedd15b37de1103362497e384f8d36"
#define OTHER_ID "7c9e6679-7425-40de-944b-e07fc1f90ae8"

enum { ANN, BEN, ANN_OLD, DORA }; /* the four keys of RFC 8032 */

static char why[256];
static json_t *asked;
static struct harp_private *privates[4];
static struct harp_keys *keys;
static struct harp_artifact *artifact;
static struct harp_case c;

/* What was used before, and what the memory was asked. */
static struct memory {
	const char *request_id, *artifact_hash, *nonce, *signer_key_id;
	unsigned asked;
} memory;

static bool is_request_used(void *ctx, const char *request_id, const char *artifact_hash)
{
	struct memory *m = ctx;

	m->asked++;
	return m->request_id != NULL && strcmp(m->request_id, request_id) == 0 &&
		strcmp(m->artifact_hash, artifact_hash) == 0;
}

static bool is_nonce_used(void *ctx, const char *nonce, const char *signer_key_id)
{
	struct memory *m = ctx;

	m->asked++;
	return m->nonce != NULL && strcmp(m->nonce, nonce) == 0 &&
		strcmp(m->signer_key_id, signer_key_id) == 0;
}

static void add_key(
	struct harp_keys *set, int i, const char *id, const char *person, enum risk max_risk, bool revoked)
{
	char line[HARP_PUBLIC_SIZE];

	harp_key_public(privates[i], line);
	ck_assert_msg(harp_keys_add(set, &(struct harp_key){id, person, line, max_risk, revoked}, why,
			      sizeof why) == 0,
		"%s", why);
}

static void setup(void)
{
	for (int i = 0; i < 4; i++)
		privates[i] = harp_kit_key(i);
	keys = harp_keys_new();
	add_key(keys, ANN, "ann-2026", "ann", R5, false);
	add_key(keys, BEN, "ben", NULL, R5, false);
	add_key(keys, ANN_OLD, "ann-2025", "ann", R5, false);
	add_key(keys, DORA, "dora", "dora", R3, false);
	asked = harp_kit_parse(VECTOR_ARTIFACT);
	artifact = harp_kit_artifact(asked);
	memory = (struct memory){0};
	c = (struct harp_case){.artifact = artifact,
		.keys = keys,
		.lookups = {is_request_used, is_nonce_used, &memory},
		.now_us = CREATED_US + 60 * S};
}

static void teardown(void)
{
	harp_artifact_free(artifact);
	json_decref(asked);
	harp_keys_free(keys);
	for (int i = 0; i < 4; i++)
		harp_key_free(privates[i]);
}

/* Another artifact than the vector's. */
static void ask(const char *field, const char *value)
{
	harp_kit_change(asked, field, value);
	harp_kit_rehash(asked);
	harp_artifact_free(artifact);
	c.artifact = artifact = harp_kit_artifact(asked);
}

static enum harp_code verify_text(const char *text, struct harp_accepted *accepted)
{
	static struct harp_decision *d; /* until the next: accepted's texts are its */
	enum harp_code code;

	harp_decision_free(d);
	d = NULL;
	why[0] = '\0';
	code = harp_read_decision(text, strlen(text), &d, why, sizeof why);
	return code != HARP_OK ? code : harp_verify(d, &c, accepted, why, sizeof why);
}

static enum harp_code verify_object(const json_t *o, struct harp_accepted *accepted)
{
	char *text = json_dumps(o, 0);
	enum harp_code code = verify_text(text, accepted);

	free(text);
	return code;
}

/* Signed by one of the four, on the artifact as it is now. */
static enum harp_code verify_answer(
	int signer, const struct harp_answer *answer, struct harp_accepted *accepted)
{
	struct buf b = {0};
	enum harp_code code;

	why[0] = '\0';
	harp_kit_expect(
		harp_sign(artifact, answer, privates[signer], &b, why, sizeof why), HARP_OK, "signing", why);
	code = verify_text(buf_text(&b), accepted);
	buf_fini(&b);
	return code;
}

static struct harp_answer allow(const char *id, const char *nonce)
{
	return (struct harp_answer){.allow = true,
		.scope = HARP_ONCE,
		.expires_us = DECIDED_UNTIL_US,
		.nonce = nonce,
		.signer_key_id = id};
}

static void expect_refusal(enum harp_code code, enum harp_code expected, const char *what)
{
	harp_kit_expect(code, expected, what, why);
}

/* ---- the good one ---- */

START_TEST(a_good_decision_counts_and_says_what_to_store) /* proves HC-03 */
{
	struct harp_accepted a;

	harp_kit_expect(verify_text(VECTOR_DECISION, &a), HARP_OK, "vector", why);
	ck_assert_str_eq(a.request_id, REQUEST);
	ck_assert_str_eq(a.artifact_hash, VECTOR_HASH);
	ck_assert_str_eq(a.nonce, VECTOR_NONCE);
	ck_assert_str_eq(a.signer_key_id, "ann-2026");
	ck_assert_str_eq(a.person, "ann");
	ck_assert(a.allow && a.is_final && a.scope == HARP_SESSION);
	ck_assert_int_eq(a.expires_us, DECIDED_UNTIL_US);
	ck_assert_int_eq(a.use_until_us, DECIDED_UNTIL_US);
	ck_assert_int_eq(a.remember_until_us, ASKED_UNTIL_US + HARP_SKEW_US);
	ck_assert_uint_eq(memory.asked, 2);
}
END_TEST

START_TEST(decision_counts_to_the_first_expiry_and_is_kept_to_the_last)
{
	struct harp_answer answer = allow("ben", "n1");
	struct harp_accepted a;

	answer.expires_us = ASKED_UNTIL_US + 7200 * S;
	harp_kit_expect(verify_answer(BEN, &answer, &a), HARP_OK, "later than the artifact", why);
	ck_assert_int_eq(a.use_until_us, ASKED_UNTIL_US);
	ck_assert_int_eq(a.remember_until_us, ASKED_UNTIL_US + 7200 * S + HARP_SKEW_US);
	c.now_us = ASKED_UNTIL_US;
	answer = allow("ben", "n2");
	answer.expires_us = ASKED_UNTIL_US;
	harp_kit_expect(verify_answer(BEN, &answer, &a), HARP_OK, "in the last second", why);
	ck_assert_int_eq(a.remember_until_us, ASKED_UNTIL_US + HARP_REMEMBER_US);
}
END_TEST

START_TEST(a_denial_counts_like_an_approval)
{
	struct harp_answer answer = allow("ben", "n1");
	struct harp_accepted a;

	answer.allow = false;
	harp_kit_expect(verify_answer(BEN, &answer, &a), HARP_OK, "deny", why);
	ck_assert(!a.allow && a.is_final);
}
END_TEST

/* ---- forged ---- */

static const struct {
	const char *field, *value; /* NULL: removed */
} forgeries[] = {
	{"requestId", "'" OTHER_ID "'"},
	{"artifactHash", "'" OTHER_HASH "'"},
	{"repoRef", "'hcp:lab/melt'"},
	{"decision", "'deny'"},
	{"scope", "'once'"},
	{"scope", "'timebox'"},
	{"expiresAt", "'2027-03-01T10:30:00Z'"},
	{"expiresAt", "'2026-03-01T10:30:00.0Z'"}, /* the same instant: the text is signed */
	{"nonce", "'another'"},
	{"signerKeyId", "'ben'"},
	{"signerKeyId", "'ann-2025'"}, /* the same person's other key */
	{"signerKeyId", "'nobody'"},
	{"policyHints", NULL},
	{"policyHints", "{}"},
	{"policyHints.sessionId", "'" OTHER_ID "'"},
	{"policyHints.more", "1"},
	{"signature", "'" VECTOR_MALLEABLE "'"},
	{"signature",
		"'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'"},
};

START_TEST(a_decision_changed_after_signing_is_not_believed) /* proves HC-03 */
{
	json_t *o = harp_kit_parse(VECTOR_DECISION);
	struct harp_accepted a;

	harp_kit_change(o, forgeries[_i].field, forgeries[_i].value);
	expect_refusal(verify_object(o, &a), HARP_SIGNATURE_INVALID, forgeries[_i].field);
	ck_assert_msg(memory.asked == 0, "the memory is asked only about what is well signed");
	json_decref(o);
}
END_TEST

START_TEST(a_decision_signed_by_another_s_key_is_not_believed) /* proves HC-03 */
{
	struct harp_answer answer = allow("ann-2026", "n1");
	struct harp_accepted a;

	for (int i = BEN; i <= DORA; i++)
		expect_refusal(verify_answer(i, &answer, &a), HARP_SIGNATURE_INVALID, "another's key");
	answer.signer_key_id = "mallory";
	expect_refusal(
		verify_answer(ANN, &answer, &a), HARP_SIGNATURE_INVALID, "a key that nobody configured");
	answer.signer_key_id = "ann-2026 ";
	expect_refusal(
		verify_answer(ANN, &answer, &a), HARP_SIGNATURE_INVALID, "a name that is not quite a key's");
}
END_TEST

/* ---- replayed ---- */

START_TEST(neither_pair_is_used_twice) /* proves HC-03 */
{
	static const struct {
		struct memory used;
		enum harp_code code;
	} rows[] = {
		{{REQUEST, VECTOR_HASH, NULL, NULL, 0}, HARP_REPLAY},
		{{REQUEST, OTHER_HASH, NULL, NULL, 0}, HARP_OK},
		{{OTHER_ID, VECTOR_HASH, NULL, NULL, 0}, HARP_OK},
		{{NULL, NULL, VECTOR_NONCE, "ann-2026", 0}, HARP_REPLAY},
		{{NULL, NULL, VECTOR_NONCE, "ben", 0}, HARP_OK},
		{{NULL, NULL, "other", "ann-2026", 0}, HARP_OK},
		{{REQUEST, VECTOR_HASH, VECTOR_NONCE, "ann-2026", 0}, HARP_REPLAY},
	};
	struct harp_accepted a;

	memory = rows[_i].used;
	harp_kit_expect(verify_text(VECTOR_DECISION, &a), rows[_i].code, "replay", why);
}
END_TEST

START_TEST(a_decided_request_takes_no_other_decision_either) /* proves HC-03 */
{
	struct harp_answer answer = allow("ben", "fresh");
	struct harp_accepted a;

	memory = (struct memory){.request_id = REQUEST, .artifact_hash = VECTOR_HASH};
	answer.allow = false;
	expect_refusal(verify_answer(BEN, &answer, &a), HARP_REPLAY, "a denial afterwards");
}
END_TEST

/* ---- expired ---- */

static const struct {
	int64_t now_us, decision_us, artifact_us;
	enum harp_code code;
	const char *says;
} clocks[] = {
	{CREATED_US, DECIDED_UNTIL_US, ASKED_UNTIL_US, HARP_OK, ""},
	{DECIDED_UNTIL_US, DECIDED_UNTIL_US, ASKED_UNTIL_US, HARP_OK, ""},
	{DECIDED_UNTIL_US + 60 * S, DECIDED_UNTIL_US, ASKED_UNTIL_US, HARP_OK, ""},
	{DECIDED_UNTIL_US + 60 * S + 1, DECIDED_UNTIL_US, ASKED_UNTIL_US, HARP_EXPIRED, "the decision"},
	{DECIDED_UNTIL_US + 86400 * S, DECIDED_UNTIL_US, ASKED_UNTIL_US, HARP_EXPIRED, "the decision"},
	{ASKED_UNTIL_US + 60 * S, ASKED_UNTIL_US + 3600 * S, ASKED_UNTIL_US, HARP_OK, ""},
	{ASKED_UNTIL_US + 60 * S + 1, ASKED_UNTIL_US + 3600 * S, ASKED_UNTIL_US, HARP_EXPIRED, "the request"},
	{CREATED_US + 60 * S, CREATED_US, CREATED_US, HARP_OK, ""},
	{CREATED_US + 60 * S + 1, CREATED_US, CREATED_US, HARP_EXPIRED, "the decision"},
	{0, DECIDED_UNTIL_US, ASKED_UNTIL_US, HARP_OK, ""}, /* our clock may be behind */
};

START_TEST(after_either_expiry_and_60_seconds_it_counts_no_more) /* proves HC-03 */
{
	struct harp_answer answer = allow("ben", "n1");
	struct harp_accepted a;
	char until[HARP_TIME_SIZE + 2];

	until[0] = '\'';
	harp_format_time(clocks[_i].artifact_us, until + 1);
	memcpy(until + HARP_TIME_SIZE, "'", 2);
	ask("expiresAt", until);
	c.now_us = clocks[_i].now_us;
	answer.expires_us = clocks[_i].decision_us;
	harp_kit_expect(verify_answer(BEN, &answer, &a), clocks[_i].code, "clock", why);
	ck_assert_msg(strstr(why, clocks[_i].says) != NULL, "%s", why);
}
END_TEST

/* ---- aimed at something else, well signed; widened ---- */

static const struct {
	const char *field, *value; /* of the decision, signed anew */
	enum harp_code code;
} others[] = {
	{"artifactHash", "'" OTHER_HASH "'", HARP_HASH_MISMATCH},
	{"artifactHash", "'9612A990DC16526FB37455BE7D0A414CBDAEDD15B37DE1103362497E384F8D36'",
		HARP_HASH_MISMATCH},
	{"artifactHash", "'9612'", HARP_HASH_MISMATCH},
	{"artifactHash", "'" VECTOR_HASH "0'", HARP_HASH_MISMATCH},
	{"requestId", "'" OTHER_ID "'", HARP_HASH_MISMATCH},
	{"requestId", "'7C9E6679-7425-40DE-944B-E07FC1F90AE7'", HARP_HASH_MISMATCH},
	{"repoRef", "'hcp:lab/melt'", HARP_HASH_MISMATCH},
	{"repoRef", "'hcp:lab'", HARP_HASH_MISMATCH},
	{"policyHints.sessionId", "'" OTHER_ID "'", HARP_SCOPE},
	{"policyHints.sessionId", "''", HARP_SCOPE},
	{"policyHints.sessionId", NULL, HARP_SCOPE},
	{"policyHints", NULL, HARP_SCOPE},
	{"policyHints", "{}", HARP_SCOPE},
	{"policyHints", "{'session':'" SESSION "'}", HARP_SCOPE},
	{"policyHints.note", "'fine'", HARP_OK},
	{"scope", "'once'", HARP_OK},
	{"scope", "'always'", HARP_SCOPE},
	{"sigAlg", "'none'", HARP_UNSUPPORTED},
	{"artifactHashAlg", "'SHA-1'", HARP_UNSUPPORTED},
};

START_TEST(a_decision_about_something_else_is_no_decision_about_this) /* proves HC-03 */
{
	json_t *o = harp_kit_parse(VECTOR_DECISION);
	struct harp_accepted a;

	harp_kit_change(o, others[_i].field, others[_i].value);
	harp_kit_resign(o, privates[ANN]);
	harp_kit_expect(verify_object(o, &a), others[_i].code, others[_i].field, why);
	json_decref(o);
}
END_TEST

static const struct {
	const char *field, *value; /* of the artifact, hashed anew */
} substitutions[] = {
	{"payload.task", "'{}'"},
	{"payload.risk", "'R5'"},
	{"payload.caller", "'beta'"},
	{"payload.capability", "'melt'"},
	{"payload.reasons", "[]"},
	{"requestId", "'" OTHER_ID "'"},
	{"sessionId", "'" OTHER_ID "'"},
	{"repoRef", "'hcp:lab/melt'"},
	{"expiresAt", "'2026-03-02T11:00:00Z'"},
	{"createdAt", "'2026-03-01T10:00:01Z'"},
	{"baseRevision", "'1'"},
	{"metadata", "{}"},
	{"extensions", "{}"},
};

START_TEST(a_decision_does_not_fit_an_artifact_that_was_changed) /* proves HC-03 */
{
	struct harp_accepted a;

	ask(substitutions[_i].field, substitutions[_i].value);
	expect_refusal(verify_text(VECTOR_DECISION, &a), HARP_HASH_MISMATCH, substitutions[_i].field);
}
END_TEST

START_TEST(scope_session_needs_an_artifact_of_that_session) /* proves HC-03 */
{
	json_t *o = harp_kit_parse(VECTOR_DECISION);
	struct harp_accepted a;

	ask("sessionId", NULL);
	json_object_set_new(o, "artifactHash", json_string(artifact->hash));
	harp_kit_resign(o, privates[ANN]);
	expect_refusal(verify_object(o, &a), HARP_SCOPE, "of no session");
	json_decref(o);
}
END_TEST

START_TEST(only_scopes_that_the_rules_let_count) /* proves HC-03 */
{
	enum harp_scope scope = (enum harp_scope)(_i / 8);
	struct harp_answer answer = allow("ben", "n1");
	struct harp_accepted a;

	c.rules.scopes = (unsigned)_i % 8;
	answer.scope = scope;
	harp_kit_expect(verify_answer(BEN, &answer, &a),
		_i % 8 == 0 || (_i % 8 & 1 << scope) ? HARP_OK : HARP_SCOPE, harp_scope_name(scope), why);
}
END_TEST

/* ---- the order of the checks ---- */

/* Every row breaks what its code says and everything that is checked later. */
START_TEST(the_first_check_that_fails_gives_the_code) /* proves HC-03 */
{
	static const enum harp_code order[] = {HARP_SIGNATURE_INVALID, HARP_POLICY_DENY, HARP_EXPIRED,
		HARP_EXPIRED, HARP_HASH_MISMATCH, HARP_REPLAY, HARP_SCOPE, HARP_POLICY_DENY, HARP_OK};
	static const char *const says[] = {"not signed", "revoked", "the decision has", "the request has",
		"another", "decided", "scope", "may decide up to", ""};
	struct harp_keys *set = harp_keys_new();
	struct harp_accepted a;
	json_t *o;

	add_key(set, ANN, "ann-2026", "ann", _i > 7 ? R5 : R3, _i <= 1);
	c.keys = set;
	if (_i <= 3)
		ask("expiresAt", "'2026-03-01T10:01:00Z'");
	c.now_us = _i <= 3 ? CREATED_US + 600 * S : CREATED_US;
	o = harp_kit_parse(VECTOR_DECISION);
	json_object_set_new(o, "artifactHash", json_string(_i <= 4 ? OTHER_HASH : artifact->hash));
	if (_i <= 2)
		harp_kit_change(o, "expiresAt", "'2026-03-01T10:01:00Z'");
	if (_i <= 6)
		harp_kit_change(o, "policyHints", NULL);
	if (_i <= 5)
		memory = (struct memory){
			.request_id = REQUEST, .artifact_hash = _i <= 4 ? OTHER_HASH : VECTOR_HASH};
	harp_kit_resign(o, privates[_i == 0 ? BEN : ANN]);
	harp_kit_expect(verify_object(o, &a), order[_i], says[_i], why);
	ck_assert_msg(strstr(why, says[_i]) != NULL, "%s instead of %s", why, says[_i]);
	json_decref(o);
	harp_keys_free(set);
}
END_TEST

/* ---- who may ---- */

START_TEST(a_revoked_key_decides_nothing_from_the_next_question_on) /* proves HC-03 */
{
	struct harp_keys *set = harp_keys_new();
	struct harp_accepted a;

	add_key(set, ANN, "ann-2026", "ann", R5, true);
	add_key(set, ANN_OLD, "ann-2025", "ann", R5, false);
	harp_kit_expect(verify_text(VECTOR_DECISION, &a), HARP_OK, "before", why);
	c.keys = set;
	expect_refusal(verify_text(VECTOR_DECISION, &a), HARP_POLICY_DENY, "after");
	ck_assert_uint_eq(memory.asked, 2);
	ck_assert(!harp_keys_may(set, "ann-2026", R1) && harp_keys_may(set, "ann-2025", R5) &&
		!harp_keys_may(set, "ben", R1));
	c.keys = NULL;
	harp_keys_free(set);
}
END_TEST

START_TEST(old_and_new_key_decide_side_by_side_until_the_old_one_goes) /* proves HC-03 */
{
	struct harp_answer by_old = allow("ann-2025", "n1"), by_new = allow("ann-2026", "n2");
	struct harp_keys *set = harp_keys_new();
	struct harp_accepted a;

	add_key(set, ANN, "ann-2026", "ann", R5, false);
	harp_kit_expect(verify_answer(ANN_OLD, &by_old, &a), HARP_OK, "old", why);
	harp_kit_expect(verify_answer(ANN, &by_new, &a), HARP_OK, "new", why);
	c.keys = set;
	expect_refusal(verify_answer(ANN_OLD, &by_old, &a), HARP_SIGNATURE_INVALID, "old, gone");
	harp_kit_expect(verify_answer(ANN, &by_new, &a), HARP_OK, "new", why);
	harp_keys_free(set);
}
END_TEST

START_TEST(a_key_decides_up_to_its_risk) /* proves HC-03 */
{
	enum risk risk = (enum risk)(R1 + _i / 5), most = (enum risk)(R1 + _i % 5);
	struct harp_keys *set = harp_keys_new();
	struct harp_answer answer = allow("x", "n1");
	struct harp_accepted a;
	char level[8];

	add_key(set, BEN, "x", NULL, most, false);
	c.keys = set;
	snprintf(level, sizeof level, "'R%d'", risk);
	ask("payload.risk", level);
	harp_kit_expect(
		verify_answer(BEN, &answer, &a), most >= risk ? HARP_OK : HARP_POLICY_DENY, level, why);
	answer.allow = false;
	harp_kit_expect(
		verify_answer(BEN, &answer, &a), most >= risk ? HARP_OK : HARP_POLICY_DENY, level, why);
	ck_assert(harp_keys_may(set, "x", risk) == (most >= risk));
	harp_keys_free(set);
}
END_TEST

/* ---- two persons ---- */

static const struct {
	const char *what;
	enum risk from; /* two persons from this risk on; the artifact is R4 */
	struct harp_vote votes[2];
	int signer;
	const char *id;
	bool allow;
	enum harp_code code;
	bool is_final;
	int64_t use_until_us;
} persons[] = {
	{"no rule: one is enough", R_NONE, {{0}}, BEN, "ben", true, HARP_OK, true, DECIDED_UNTIL_US},
	{"a rule for R5 only", R5, {{0}}, BEN, "ben", true, HARP_OK, true, DECIDED_UNTIL_US},
	{"the first of two", R4, {{0}}, BEN, "ben", true, HARP_OK, false, DECIDED_UNTIL_US},
	{"a rule from R3 on", R3, {{0}}, BEN, "ben", true, HARP_OK, false, DECIDED_UNTIL_US},
	{"the second of two", R4, {{"ann-2026", DECIDED_UNTIL_US}}, BEN, "ben", true, HARP_OK, true,
		DECIDED_UNTIL_US},
	{"the first one's ends first", R4, {{"ann-2026", CREATED_US + 90 * S}}, BEN, "ben", true, HARP_OK,
		true, CREATED_US + 90 * S},
	{"the same key again", R4, {{"ben", DECIDED_UNTIL_US}}, BEN, "ben", true, HARP_POLICY_DENY, false, 0},
	{"the same person by another key", R4, {{"ann-2025", DECIDED_UNTIL_US}}, ANN, "ann-2026", true,
		HARP_POLICY_DENY, false, 0},
	{"a vote that has expired", R4, {{"ann-2026", CREATED_US - 1}}, BEN, "ben", true, HARP_OK, false,
		DECIDED_UNTIL_US},
	{"a vote within the skew", R4, {{"ann-2026", CREATED_US}}, BEN, "ben", true, HARP_OK, true,
		CREATED_US},
	{"one's own expired vote", R4, {{"ben", CREATED_US - 1}}, BEN, "ben", true, HARP_OK, false,
		DECIDED_UNTIL_US},
	{"a vote of a key that is gone", R4, {{"zoe", DECIDED_UNTIL_US}}, BEN, "ben", true, HARP_OK, false,
		DECIDED_UNTIL_US},
	{"a vote of a key for less", R4, {{"dora", DECIDED_UNTIL_US}}, BEN, "ben", true, HARP_OK, false,
		DECIDED_UNTIL_US},
	{"one to deny is enough", R4, {{0}}, BEN, "ben", false, HARP_OK, true, DECIDED_UNTIL_US},
	{"who allowed may still deny", R4, {{"ben", DECIDED_UNTIL_US}}, BEN, "ben", false, HARP_OK, true,
		DECIDED_UNTIL_US},
	{"a key for less is no second", R4, {{"ann-2026", DECIDED_UNTIL_US}}, DORA, "dora", true,
		HARP_POLICY_DENY, false, 0},
};

START_TEST(second_person_is_needed_where_two_must_allow) /* proves HC-03 */
{
	struct harp_answer answer = allow(persons[_i].id, "n1");
	struct harp_accepted a;

	c.rules.two_persons_from = persons[_i].from;
	c.votes = persons[_i].votes;
	c.vote_count = persons[_i].votes[0].signer_key_id != NULL;
	answer.allow = persons[_i].allow;
	harp_kit_expect(
		verify_answer(persons[_i].signer, &answer, &a), persons[_i].code, persons[_i].what, why);
	if (persons[_i].code != HARP_OK)
		return;
	ck_assert_msg(a.is_final == persons[_i].is_final, "%s", persons[_i].what);
	ck_assert_msg(a.use_until_us == persons[_i].use_until_us, "%s", persons[_i].what);
}
END_TEST

START_TEST(a_vote_of_a_key_revoked_since_is_no_vote) /* proves HC-03 */
{
	struct harp_vote votes[] = {{"ann-2025", DECIDED_UNTIL_US}, {"ann-2026", DECIDED_UNTIL_US}};
	struct harp_keys *set = harp_keys_new();
	struct harp_answer answer = allow("ben", "n1");
	struct harp_accepted a;

	add_key(set, ANN_OLD, "ann-2025", "ann", R5, true);
	add_key(set, BEN, "ben", NULL, R5, false);
	c.rules.two_persons_from = R4;
	c.votes = votes;
	c.vote_count = 1;
	harp_kit_expect(verify_answer(BEN, &answer, &a), HARP_OK, "before", why);
	ck_assert(a.is_final);
	c.keys = set;
	harp_kit_expect(verify_answer(BEN, &answer, &a), HARP_OK, "after", why);
	ck_assert(!a.is_final);
	add_key(set, ANN, "ann-2026", "ann", R5, false);
	c.vote_count = 2;
	harp_kit_expect(verify_answer(BEN, &answer, &a), HARP_OK, "voted again with the new key", why);
	ck_assert(a.is_final);
	harp_keys_free(set);
}
END_TEST

/* ---- sets of keys ---- */

START_TEST(a_set_refuses_what_is_no_key_or_is_there)
{
	static const struct {
		const char *id, *line, *says;
	} rows[] = {
		{"new", "", "not ed25519:"},
		{"new", "ed25519:", "not ed25519:"},
		{"new", "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "not ed25519:"},
		{"new", "ED25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "not ed25519:"},
		{"new", "ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo=", "not ed25519:"},
		{"new", "ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURp", "not ed25519:"},
		{"new", "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo", "not ed25519:"},
		{"new", "ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHUR", "not ed25519:"},
		{"new", " ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "not ed25519:"},
		{"new", "ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "anybody"},
		{"new", "ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
			"the same public key as ann-2026"},
		{"ben", "ed25519:68GYuLi_rncjJ4w7MWKfKd5ygpeXzMjCzM5tlDakz_I", "taken"},
		{"", "ed25519:68GYuLi_rncjJ4w7MWKfKd5ygpeXzMjCzM5tlDakz_I", "an id has"},
	};
	struct harp_key key = {rows[_i].id, NULL, rows[_i].line, R5, false};

	ck_assert_int_eq(harp_keys_add(keys, &key, why, sizeof why), -1);
	ck_assert_msg(strstr(why, rows[_i].says) != NULL, "%s", why);
	ck_assert(!harp_keys_may(keys, "new", R1) && harp_keys_may(keys, "ben", R5));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("harp_verify");
	TCase *t = tcase_create("harp_verify");

	suite_add_tcase(s, t);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_good_decision_counts_and_says_what_to_store);
	tcase_add_test(t, decision_counts_to_the_first_expiry_and_is_kept_to_the_last);
	tcase_add_test(t, a_denial_counts_like_an_approval);
	tcase_add_loop_test(t, a_decision_changed_after_signing_is_not_believed, 0, COUNT(forgeries));
	tcase_add_test(t, a_decision_signed_by_another_s_key_is_not_believed);
	tcase_add_loop_test(t, neither_pair_is_used_twice, 0, 7);
	tcase_add_test(t, a_decided_request_takes_no_other_decision_either);
	tcase_add_loop_test(t, after_either_expiry_and_60_seconds_it_counts_no_more, 0, COUNT(clocks));
	tcase_add_loop_test(t, a_decision_about_something_else_is_no_decision_about_this, 0, COUNT(others));
	tcase_add_loop_test(t, a_decision_does_not_fit_an_artifact_that_was_changed, 0, COUNT(substitutions));
	tcase_add_test(t, scope_session_needs_an_artifact_of_that_session);
	tcase_add_loop_test(t, only_scopes_that_the_rules_let_count, 0, HARP_SCOPES * 8);
	tcase_add_loop_test(t, the_first_check_that_fails_gives_the_code, 0, 9);
	tcase_add_test(t, a_revoked_key_decides_nothing_from_the_next_question_on);
	tcase_add_test(t, old_and_new_key_decide_side_by_side_until_the_old_one_goes);
	tcase_add_loop_test(t, a_key_decides_up_to_its_risk, 0, 25);
	tcase_add_loop_test(t, second_person_is_needed_where_two_must_allow, 0, COUNT(persons));
	tcase_add_test(t, a_vote_of_a_key_revoked_since_is_no_vote);
	tcase_add_loop_test(t, a_set_refuses_what_is_no_key_or_is_there, 0, 13);
	return harp_kit_run(s);
}
