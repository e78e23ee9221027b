/* SPDX-License-Identifier: MIT */
/* test_harp_decision.c: a decision is signed as others sign, and read strictly. */
#include "support/harp_kit.h"

static char why[256];
static json_t *asked;
static struct harp_artifact *artifact;
static struct harp_private *key;

static void setup(void)
{
	asked = harp_kit_parse(VECTOR_ARTIFACT);
	artifact = harp_kit_artifact(asked);
	key = harp_kit_key(0);
	why[0] = '\0';
}

static void teardown(void)
{
	harp_key_free(key);
	harp_artifact_free(artifact);
	json_decref(asked);
}

static struct harp_answer usual(void)
{
	return (struct harp_answer){.allow = true,
		.scope = HARP_SESSION,
		.expires_us = DECIDED_UNTIL_US,
		.nonce = VECTOR_NONCE,
		.signer_key_id = "ann-2026"};
}

static bool is_signed_by(const struct harp_decision *d, const char *line)
{
	unsigned char public_key[HARP_PUBLIC_BYTES];

	ck_assert(harp_public_parse(line, public_key));
	return harp_ed25519_verify(public_key, d->signable, d->signable_size, d->signature);
}

START_TEST(a_decision_is_byte_for_byte_what_python_makes) /* proves HC-01, HC-03 */
{
	struct harp_answer answer = usual();
	unsigned char random[16];
	char nonce[HARP_NONCE_SIZE];
	struct buf b = {0};

	for (int i = 0; i < 16; i++)
		random[i] = (unsigned char)(240 + i);
	harp_nonce(random, nonce);
	answer.nonce = nonce;
	harp_kit_expect(harp_sign(artifact, &answer, key, &b, why, sizeof why), HARP_OK, "usual", why);
	ck_assert_str_eq(buf_text(&b), VECTOR_DECISION);
	buf_fini(&b);
}
END_TEST

START_TEST(a_decision_is_read_field_by_field)
{
	struct harp_decision *d = NULL;
	char line[HARP_PUBLIC_SIZE];

	harp_kit_expect(harp_read_decision(VECTOR_DECISION, strlen(VECTOR_DECISION), &d, why, sizeof why),
		HARP_OK, "vector", why);
	ck_assert_str_eq(d->request_id, REQUEST);
	ck_assert_str_eq(d->artifact_hash, VECTOR_HASH);
	ck_assert_str_eq(d->repo_ref, "hcp:lab/anneal");
	ck_assert_str_eq(d->nonce, VECTOR_NONCE);
	ck_assert_str_eq(d->signer_key_id, "ann-2026");
	ck_assert_str_eq(d->session_id, SESSION);
	ck_assert(d->allow && d->scope == HARP_SESSION && d->expires_us == DECIDED_UNTIL_US);
	harp_key_public(key, line);
	ck_assert(is_signed_by(d, line));
	harp_decision_free(d);
	harp_decision_free(NULL);
}
END_TEST

/* Indented, escaped, in another order than the canonical one, and hints that are hard to write alike. */
START_TEST(hints_are_signed_too_in_the_form_that_python_writes) /* proves HC-01, HC-03 */
{
	struct harp_decision *d = NULL;
	char line[HARP_PUBLIC_SIZE];

	harp_kit_expect(harp_read_decision(VECTOR_HINTS, strlen(VECTOR_HINTS), &d, why, sizeof why), HARP_OK,
		"hints", why);
	ck_assert_uint_eq(d->signable_size, strlen(VECTOR_HINTS_SIGNABLE));
	ck_assert_mem_eq(d->signable, VECTOR_HINTS_SIGNABLE, d->signable_size);
	harp_key_public(key, line);
	ck_assert(is_signed_by(d, line));
	harp_decision_free(d);
}
END_TEST

/* The second of the two vectors that HARP-CORE 0.2 itself gives. */
START_TEST(decision_of_the_specification_is_signed_by_its_key) /* proves HC-03 */
{
	char *text = harp_kit_quoted(
		"{'artifactHash':'8e326e1f69e5859a3b5b12965f06b5829f09b12d1748aa2fddb609fb44f831c1','"
		"artifactHashAlg':"
		"'SHA-256','decision':'allow','expiresAt':'2026-02-21T12:05:00Z','nonce':'bm9uY2UtMDAx','"
		"repoRef':"
		"'repo:acme/"
		"widgets','requestId':'01J2V8V3K6B2Z9X6G1V7Y2QK8H','scope':'once','sigAlg':'Ed25519','"
		"signature':"
		"'tszU90YldEomMTTrJpUYz-h8xXcAvJ6U97aaEy-1-Oo_vkCx3o63aZps6dN0VaJVKmXY2UnVW6ldoCuXv5sZDA','"
		"signerKeyId':"
		"'ma-key-01'}");
	struct harp_decision *d = NULL;

	harp_kit_expect(
		harp_read_decision(text, strlen(text), &d, why, sizeof why), HARP_OK, "vector 2", why);
	ck_assert(is_signed_by(d, "ed25519:68GYuLi_rncjJ4w7MWKfKd5ygpeXzMjCzM5tlDakz_I"));
	harp_decision_free(d);
	free(text);
}
END_TEST

/* The words of 0.2 as first published, and those of its later text; both are signed over what stands there.
 */
static const struct {
	const char *word;
	bool allow;
} decision_words[] = {{"allow", true}, {"deny", false}, {"approve", true}, {"reject", false}};

START_TEST(both_pairs_of_words_are_read) /* proves HC-03 */
{
	json_t *o = harp_kit_parse(VECTOR_DECISION);
	struct harp_decision *d = NULL;
	char *text, word[64];

	snprintf(word, sizeof word, "\"%s\"", decision_words[_i].word);
	harp_kit_change(o, "decision", word);
	text = json_dumps(o, 0);
	harp_kit_expect(harp_read_decision(text, strlen(text), &d, why, sizeof why), HARP_OK, word, why);
	ck_assert_int_eq(d->allow, decision_words[_i].allow);
	ck_assert(memmem(d->signable, d->signable_size, word, strlen(word)) != NULL);
	harp_decision_free(d);
	json_decref(o);
	free(text);
}
END_TEST

START_TEST(the_words_of_0_2_as_first_published_are_written)
{
	for (int allow = 0; allow < 2; allow++) {
		struct harp_answer answer = usual();
		struct buf b = {0};

		answer.allow = allow;
		harp_kit_expect(harp_sign(artifact, &answer, key, &b, why, sizeof why), HARP_OK, "sign", why);
		ck_assert(strstr(buf_text(&b), allow ? "\"decision\":\"allow\"" : "\"decision\":\"deny\""));
		buf_fini(&b);
	}
}
END_TEST

static const struct {
	const char *field, *value; /* NULL: removed */
	enum harp_code code;
} changes[] = {
	{"requestId", NULL, HARP_UNSUPPORTED},
	{"artifactHash", NULL, HARP_UNSUPPORTED},
	{"artifactHashAlg", NULL, HARP_UNSUPPORTED},
	{"repoRef", NULL, HARP_UNSUPPORTED},
	{"decision", NULL, HARP_UNSUPPORTED},
	{"scope", NULL, HARP_UNSUPPORTED},
	{"expiresAt", NULL, HARP_UNSUPPORTED},
	{"nonce", NULL, HARP_UNSUPPORTED},
	{"signerKeyId", NULL, HARP_UNSUPPORTED},
	{"sigAlg", NULL, HARP_UNSUPPORTED},
	{"signature", NULL, HARP_UNSUPPORTED},
	{"policyHints", NULL, HARP_OK},
	/* another type */
	{"requestId", "1", HARP_UNSUPPORTED},
	{"artifactHash", "null", HARP_UNSUPPORTED},
	{"artifactHashAlg", "256", HARP_UNSUPPORTED},
	{"repoRef", "['hcp:lab/anneal']", HARP_UNSUPPORTED},
	{"decision", "true", HARP_UNSUPPORTED},
	{"scope", "['once']", HARP_UNSUPPORTED},
	{"expiresAt", "1772361000", HARP_UNSUPPORTED},
	{"nonce", "17", HARP_UNSUPPORTED},
	{"signerKeyId", "{}", HARP_UNSUPPORTED},
	{"sigAlg", "null", HARP_UNSUPPORTED},
	{"signature", "null", HARP_UNSUPPORTED},
	{"policyHints", "[]", HARP_UNSUPPORTED},
	{"policyHints", "null", HARP_UNSUPPORTED},
	{"expiresAt", "1772361000.5", HARP_CANONICALIZATION},
	{"policyHints.x", "0.5", HARP_CANONICALIZATION},
	{"policyHints.x", "9007199254740992", HARP_CANONICALIZATION},
	/* another word */
	{"decision", "'Allow'", HARP_UNSUPPORTED},
	{"decision", "'allow '", HARP_UNSUPPORTED},
	{"decision", "'allow\\u0000'", HARP_UNSUPPORTED},
	{"decision", "'deny'", HARP_OK},
	{"scope", "'always'", HARP_SCOPE},
	{"scope", "'Session'", HARP_SCOPE},
	{"scope", "'once,session'", HARP_SCOPE},
	{"scope", "''", HARP_UNSUPPORTED},
	{"expiresAt", "'tomorrow'", HARP_UNSUPPORTED},
	{"expiresAt", "'2026-03-01 10:30:00Z'", HARP_UNSUPPORTED},
	{"expiresAt", "'2026-03-01T11:30:00.000+01:00'", HARP_OK},
	{"nonce", "''", HARP_UNSUPPORTED},
	{"nonce", "'a\\u0000b'", HARP_UNSUPPORTED},
	{"signerKeyId", "'ann-2026\\u0000'", HARP_UNSUPPORTED},
	{"signerKeyId", "'ann\\n2026'", HARP_UNSUPPORTED},
	{"policyHints.sessionId", "7", HARP_SCOPE},
	{"policyHints.sessionId", "null", HARP_SCOPE},
	{"policyHints.sessionId", "'" SESSION "\\u0000'", HARP_SCOPE},
	/* downgrades */
	{"sigAlg", "'none'", HARP_UNSUPPORTED},
	{"sigAlg", "'ed25519'", HARP_UNSUPPORTED},
	{"sigAlg", "'Ed25519ph'", HARP_UNSUPPORTED},
	{"sigAlg", "'Ed448'", HARP_UNSUPPORTED},
	{"sigAlg", "'HS256'", HARP_UNSUPPORTED},
	{"sigAlg", "''", HARP_UNSUPPORTED},
	{"artifactHashAlg", "'SHA-1'", HARP_UNSUPPORTED},
	{"artifactHashAlg", "'MD5'", HARP_UNSUPPORTED},
	{"artifactHashAlg", "'sha-256'", HARP_UNSUPPORTED},
	{"artifactHashAlg", "'SHA-512'", HARP_UNSUPPORTED},
	/* unknown fields */
	{"comment", "'fine by me'", HARP_UNSUPPORTED},
	{"Decision", "'allow'", HARP_UNSUPPORTED},
	{"sessionId", "'" SESSION "'", HARP_UNSUPPORTED},
	{"", "1", HARP_UNSUPPORTED},
	/* signatures that are none */
	{"signature", "''", HARP_SIGNATURE_INVALID},
	{"signature",
		"'f2lnHH-3cL91L6Wc9LkF0k_LDpu5N62-khKwMAC-_1Unu_vf8uVzUTGH1dK2onWavzItHxZXZLfbFEOJHF9NAA=='",
		HARP_SIGNATURE_INVALID},
	{"signature",
		"'f2lnHH-3cL91L6Wc9LkF0k_LDpu5N62-khKwMAC-_1Unu_vf8uVzUTGH1dK2onWavzItHxZXZLfbFEOJHF9NAB'",
		HARP_SIGNATURE_INVALID},
	{"signature",
		"'f2lnHH+3cL91L6Wc9LkF0k/LDpu5N62+khKwMAC+/1Unu/vf8uVzUTGH1dK2onWavzItHxZXZLfbFEOJHF9NAA'",
		HARP_SIGNATURE_INVALID},
	{"signature",
		"'f2lnHH-3cL91L6Wc9LkF0k_LDpu5N62-khKwMAC-_1Unu_vf8uVzUTGH1dK2onWavzItHxZXZLfbFEOJHF9NA'",
		HARP_SIGNATURE_INVALID},
	{"signature",
		"'f2lnHH-3cL91L6Wc9LkF0k_LDpu5N62-khKwMAC-_1Unu_vf8uVzUTGH1dK2onWavzItHxZXZLfbFEOJHF9NAAA'",
		HARP_SIGNATURE_INVALID},
	{"signature",
		"'\\n2lnHH-3cL91L6Wc9LkF0k_LDpu5N62-khKwMAC-_1Unu_vf8uVzUTGH1dK2onWavzItHxZXZLfbFEOJHF9NAA'",
		HARP_SIGNATURE_INVALID},
};

/* Signed again where that is possible: it is the form that is refused, not a signature that no longer
 * fits. */
START_TEST(decision_has_the_fields_of_harp_in_their_form_and_no_others) /* proves HC-03 */
{
	json_t *o = harp_kit_parse(VECTOR_DECISION);
	struct harp_decision *d = NULL;
	enum harp_code code;
	char *text;

	harp_kit_change(o, changes[_i].field, changes[_i].value);
	if (strcmp(changes[_i].field, "signature") != 0)
		harp_kit_resign(o, key);
	text = json_dumps(o, 0);
	code = harp_read_decision(text, strlen(text), &d, why, sizeof why);
	harp_kit_expect(code, changes[_i].code, changes[_i].field, why);
	ck_assert((d != NULL) == (code == HARP_OK));
	harp_decision_free(d);
	json_decref(o);
	free(text);
}
END_TEST

START_TEST(a_field_twice_is_no_decision) /* proves HC-01 */
{
	struct harp_decision *d = NULL;
	struct buf b = {0};

	buf_add(&b, VECTOR_DECISION, strlen(VECTOR_DECISION) - 1);
	buf_add_text(&b, ",\"decision\":\"allow\"}");
	harp_kit_expect(
		harp_read_decision(b.data, b.size, &d, why, sizeof why), HARP_CANONICALIZATION, "twice", why);
	buf_fini(&b);
}
END_TEST

START_TEST(a_refusal_quotes_nothing_that_a_terminal_obeys)
{
	json_t *o = harp_kit_parse(VECTOR_DECISION);
	struct harp_decision *d = NULL;
	char *text;

	harp_kit_change(o, "\033[2J\x7f\n", "1");
	text = json_dumps(o, 0);
	harp_kit_expect(harp_read_decision(text, strlen(text), &d, why, sizeof why), HARP_UNSUPPORTED,
		"unknown field", why);
	ck_assert_str_eq(why, "decision: unknown field ?[2J??");
	json_decref(o);
	free(text);
}
END_TEST

START_TEST(decision_that_could_not_be_read_back_is_not_signed)
{
	struct harp_answer rows[] = {usual(), usual(), usual(), usual(), usual()};
	const enum harp_code codes[] = {
		HARP_CANONICALIZATION, HARP_UNSUPPORTED, HARP_UNSUPPORTED, HARP_CANONICALIZATION, HARP_SCOPE};

	rows[0].nonce = "\xff";
	rows[1].nonce = "";
	rows[2].signer_key_id = "a\tb";
	rows[3].signer_key_id = "\xe9";
	for (int i = 0; i < COUNT(rows); i++) {
		struct buf b = {0};
		char row[8];

		if (i == 4) { /* an artifact of no session cannot have scope session */
			free(artifact->session_id);
			artifact->session_id = NULL;
		}
		snprintf(row, sizeof row, "%d", i);
		why[0] = '\0';
		harp_kit_expect(harp_sign(artifact, &rows[i], key, &b, why, sizeof why), codes[i], row, why);
		ck_assert_uint_eq(b.size, 0);
		buf_fini(&b);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("harp_decision");
	TCase *t = tcase_create("harp_decision");

	suite_add_tcase(s, t);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_decision_is_byte_for_byte_what_python_makes);
	tcase_add_test(t, a_decision_is_read_field_by_field);
	tcase_add_test(t, hints_are_signed_too_in_the_form_that_python_writes);
	tcase_add_test(t, decision_of_the_specification_is_signed_by_its_key);
	tcase_add_loop_test(t, both_pairs_of_words_are_read, 0, COUNT(decision_words));
	tcase_add_test(t, the_words_of_0_2_as_first_published_are_written);
	tcase_add_loop_test(
		t, decision_has_the_fields_of_harp_in_their_form_and_no_others, 0, COUNT(changes));
	tcase_add_test(t, a_field_twice_is_no_decision);
	tcase_add_test(t, a_refusal_quotes_nothing_that_a_terminal_obeys);
	tcase_add_test(t, decision_that_could_not_be_read_back_is_not_signed);
	return harp_kit_run(s);
}
