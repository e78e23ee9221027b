/* SPDX-License-Identifier: MIT */
/* test_harp_artifact.c: a task that waits is an artifact `task.review`: built as others would, read strictly,
 * and its review goes only where HARP lets it. */
#include "support/harp_kit.h"

static char why[256];
static const char *const reasons[] = {VECTOR_REASON_1, VECTOR_REASON_2, VECTOR_REASON_3};

static struct harp_review usual(void)
{
	return (struct harp_review){.request_id = REQUEST,
		.session_id = SESSION,
		.callee_id = "lab",
		.capability = "anneal",
		.caller_id = "alpha",
		.risk = R4,
		.reasons = reasons,
		.reason_count = 3,
		.task = VECTOR_TASK,
		.task_size = strlen(VECTOR_TASK),
		.created_us = CREATED_US,
		.expires_us = ASKED_UNTIL_US};
}

static enum harp_code build(const struct harp_review *r, struct buf *b, char hash[HARP_HASH_SIZE])
{
	why[0] = '\0';
	return harp_build_review(r, b, hash, why, sizeof why);
}

START_TEST(an_artifact_is_byte_for_byte_what_python_makes) /* proves HC-01 */
{
	struct harp_review r = usual();
	char hash[HARP_HASH_SIZE];
	struct buf b = {0};

	harp_kit_expect(build(&r, &b, hash), HARP_OK, "usual", why);
	ck_assert_str_eq(buf_text(&b), VECTOR_ARTIFACT);
	ck_assert_str_eq(hash, VECTOR_HASH);
	buf_fini(&b);
}
END_TEST

START_TEST(times_are_written_in_whole_seconds_rounded_down)
{
	struct harp_review r = usual();
	char hash[HARP_HASH_SIZE];
	struct buf b = {0};

	r.created_us += 999999;
	r.expires_us += 999999;
	harp_kit_expect(build(&r, &b, hash), HARP_OK, "usual", why);
	ck_assert_str_eq(hash, VECTOR_HASH);
	buf_fini(&b);
}
END_TEST

START_TEST(artifact_that_was_built_is_read_back)
{
	json_t *o = harp_kit_parse(VECTOR_ARTIFACT);
	struct harp_artifact *a = harp_kit_artifact(o);

	ck_assert_str_eq(a->hash, VECTOR_HASH);
	ck_assert_str_eq(a->request_id, REQUEST);
	ck_assert_str_eq(a->session_id, SESSION);
	ck_assert_str_eq(a->repo_ref, "hcp:lab/anneal");
	ck_assert_str_eq(a->caller, "alpha");
	ck_assert_str_eq(a->capability, "anneal");
	ck_assert_int_eq(a->risk, R4);
	ck_assert_uint_eq(a->reason_count, 3);
	ck_assert_str_eq(a->reasons[2], VECTOR_REASON_3);
	ck_assert_str_eq(a->task, VECTOR_TASK);
	ck_assert_int_eq(a->created_us, CREATED_US);
	ck_assert_int_eq(a->expires_us, ASKED_UNTIL_US);
	harp_artifact_free(a);
	harp_artifact_free(NULL);
	json_decref(o);
}
END_TEST

START_TEST(a_real_in_the_task_does_not_reach_what_is_signed) /* proves HC-01 */
{
	json_t *o = harp_kit_parse(VECTOR_ARTIFACT);
	const char *task = json_string_value(json_object_get(json_object_get(o, "payload"), "task"));

	ck_assert(strstr(task, ":80.50,") != NULL); /* as it was sent, not as a number would be written */
	json_decref(o);
}
END_TEST

/* An artifact with one field changed; NULL: removed. */
static const struct change {
	const char *field, *value;
	enum harp_code code; /* with hashes that are right again */
} changes[] = {
	{"requestId", NULL, HARP_UNSUPPORTED},
	{"artifactType", NULL, HARP_UNSUPPORTED},
	{"repoRef", NULL, HARP_UNSUPPORTED},
	{"createdAt", NULL, HARP_UNSUPPORTED},
	{"expiresAt", NULL, HARP_UNSUPPORTED},
	{"payload", NULL, HARP_UNSUPPORTED},
	{"artifactHashAlg", NULL, HARP_UNSUPPORTED},
	{"payload.caller", NULL, HARP_UNSUPPORTED},
	{"payload.capability", NULL, HARP_UNSUPPORTED},
	{"payload.reasons", NULL, HARP_UNSUPPORTED},
	{"payload.risk", NULL, HARP_UNSUPPORTED},
	{"payload.task", NULL, HARP_UNSUPPORTED},
	{"payload.taskHash", NULL, HARP_UNSUPPORTED},
	{"sessionId", NULL, HARP_OK},
	/* other words */
	{"requestId", "'01J2V8V3K6B2Z9X6G1V7Y2QK8H'", HARP_OK},
	{"requestId", "'01j2v8v3k6b2z9x6g1v7y2qk8h'", HARP_OK},
	{"requestId", "'7C9E6679-7425-70DE-944B-E07FC1F90AE7'", HARP_OK},
	{"requestId", "'81J2V8V3K6B2Z9X6G1V7Y2QK8H'", HARP_UNSUPPORTED},
	{"requestId", "'01J2V8V3K6B2Z9X6G1V7Y2QK8U'", HARP_UNSUPPORTED},
	{"requestId", "'01J2V8V3K6B2Z9X6G1V7Y2QK8'", HARP_UNSUPPORTED},
	{"requestId", "'7c9e6679-7425-40de-944b-e07fc1f90ae'", HARP_UNSUPPORTED},
	{"requestId", "'7c9e6679x7425-40de-944b-e07fc1f90ae7'", HARP_UNSUPPORTED},
	{"requestId", "'{7c9e6679-7425-40de-944b-e07fc1f90a}'", HARP_UNSUPPORTED},
	{"requestId", "'" REQUEST "\\u0000'", HARP_UNSUPPORTED},
	{"requestId", "''", HARP_UNSUPPORTED},
	{"requestId", "7", HARP_UNSUPPORTED},
	{"sessionId", "'s1'", HARP_UNSUPPORTED},
	{"sessionId", "null", HARP_UNSUPPORTED},
	{"artifactType", "'plan.review'", HARP_UNSUPPORTED},
	{"artifactType", "'task.Review'", HARP_UNSUPPORTED},
	{"artifactType", "'task.review '", HARP_UNSUPPORTED},
	{"artifactType", "'task.review\\u0000'", HARP_UNSUPPORTED},
	{"artifactHashAlg", "'SHA-1'", HARP_UNSUPPORTED},
	{"artifactHashAlg", "'sha-256'", HARP_UNSUPPORTED},
	{"artifactHashAlg", "['SHA-256']", HARP_UNSUPPORTED},
	{"repoRef", "'hcp:\xc3\xa9'", HARP_OK},
	{"repoRef", "'a\\nb'", HARP_UNSUPPORTED},
	{"repoRef", "'a\\u007f'", HARP_UNSUPPORTED},
	{"repoRef", "{}", HARP_UNSUPPORTED},
	{"baseRevision", "'9f86d0'", HARP_OK},
	{"baseRevision", "1", HARP_UNSUPPORTED},
	{"metadata", "{'a':[1,{'b':null}]}", HARP_OK},
	{"metadata", "[]", HARP_UNSUPPORTED},
	{"metadata", "{'a':1.5}", HARP_CANONICALIZATION},
	{"extensions", "{'org.example':{}}", HARP_OK},
	{"extensions", "'x'", HARP_UNSUPPORTED},
	{"payload", "'x'", HARP_UNSUPPORTED},
	{"payload", "{}", HARP_UNSUPPORTED},
	{"payload.risk", "'R0'", HARP_UNSUPPORTED},
	{"payload.risk", "'R6'", HARP_UNSUPPORTED},
	{"payload.risk", "'r4'", HARP_UNSUPPORTED},
	{"payload.risk", "4", HARP_UNSUPPORTED},
	{"payload.risk", "'R5'", HARP_OK},
	{"payload.reasons", "[]", HARP_OK},
	{"payload.reasons", "'a'", HARP_UNSUPPORTED},
	{"payload.reasons", "['a',1]", HARP_UNSUPPORTED},
	{"payload.reasons", "['a\\u0000hidden']", HARP_UNSUPPORTED},
	{"payload.task", "{}", HARP_UNSUPPORTED},
	{"payload.task", "'{}\\u0000hidden'", HARP_UNSUPPORTED},
	{"payload.task", "'{}'", HARP_OK},
	{"payload.caller", "''", HARP_UNSUPPORTED},
	{"payload.capability", "true", HARP_UNSUPPORTED},
	{"payload.temperature", "80.5", HARP_CANONICALIZATION},
	/* unknown fields */
	{"approved", "true", HARP_UNSUPPORTED},
	{"Payload", "{}", HARP_UNSUPPORTED},
	{"signature", "'x'", HARP_UNSUPPORTED},
	{"payload.approved", "true", HARP_UNSUPPORTED},
	{"payload.payload", "{}", HARP_UNSUPPORTED},
};

static enum harp_code read_changed(const struct change *c, bool rehash)
{
	json_t *o = harp_kit_parse(VECTOR_ARTIFACT);
	struct harp_artifact *a = NULL;
	enum harp_code code;
	char *text;

	harp_kit_change(o, c->field, c->value);
	if (rehash)
		harp_kit_rehash(o);
	text = json_dumps(o, 0);
	why[0] = '\0';
	code = harp_read_artifact(text, strlen(text), &a, why, sizeof why);
	ck_assert((a != NULL) == (code == HARP_OK));
	harp_artifact_free(a);
	json_decref(o);
	free(text);
	return code;
}

START_TEST(artifact_has_the_fields_of_harp_in_their_form_and_no_others) /* proves HC-02 */
{
	harp_kit_expect(read_changed(&changes[_i], true), changes[_i].code, changes[_i].field, why);
}
END_TEST

START_TEST(artifact_changed_anywhere_no_longer_fits_its_hash) /* proves HC-02 */
{
	enum harp_code expected = changes[_i].code == HARP_OK ? HARP_HASH_MISMATCH : changes[_i].code;

	harp_kit_expect(read_changed(&changes[_i], false), expected, changes[_i].field, why);
}
END_TEST

static const struct change hashes[] = {
	{"artifactHash", NULL, HARP_UNSUPPORTED},
	{"artifactHash", "1", HARP_UNSUPPORTED},
	{"artifactHash", "''", HARP_UNSUPPORTED},
	{"artifactHash", "'" VECTOR_HASH "\\u0000'", HARP_UNSUPPORTED},
	{"artifactHash", "'9612A990DC16526FB37455BE7D0A414CBDAEDD15B37DE1103362497E384F8D36'",
		HARP_HASH_MISMATCH},
	{"artifactHash", "'0612a990dc16526fb37455be7d0a414cbdaedd15b37de1103362497e384f8d36'",
		HARP_HASH_MISMATCH},
	{"artifactHash", "'9612'", HARP_HASH_MISMATCH},
	{"artifactHash", "'" VECTOR_HASH "'", HARP_OK},
};

START_TEST(a_hash_is_64_digits_in_lower_case) /* proves HC-01 */
{
	harp_kit_expect(read_changed(&hashes[_i], false), hashes[_i].code, hashes[_i].value, why);
}
END_TEST

START_TEST(a_task_that_is_not_its_hash_is_refused)
{
	json_t *o = harp_kit_parse(VECTOR_ARTIFACT);
	struct harp_artifact *a = NULL;
	char hex[HARP_HASH_SIZE], *text;
	struct buf b = {0};

	harp_kit_change(o, "payload.task", "'{}'");
	harp_add_signable(&b, o, "artifactHash");
	harp_hash(b.data, b.size, hex);
	json_object_set_new(o, "artifactHash", json_string(hex));
	text = json_dumps(o, 0);
	why[0] = '\0';
	harp_kit_expect(harp_read_artifact(text, strlen(text), &a, why, sizeof why), HARP_HASH_MISMATCH,
		"taskHash", why);
	buf_fini(&b);
	json_decref(o);
	free(text);
}
END_TEST

static const struct {
	const char *text;
	bool is_time;
	int64_t at_us; /* after CREATED_US */
} times[] = {
	{"2026-03-01T10:00:00Z", true, 0},
	{"2026-03-01t10:00:00z", true, 0},
	{"2026-03-01T10:00:00.5Z", true, 500000},
	{"2026-03-01T10:00:00.123456789Z", true, 123456},
	{"2026-03-01T11:00:00+01:00", true, 0},
	{"2026-03-01T04:30:00-05:30", true, 0},
	{"2026-03-01T10:00:00-00:00", true, 0},
	{"2026-02-28T23:59:60Z", true, -36000 * S},
	{"2026-03-01 10:00:00Z", false, 0},
	{"2026-03-01T10:00:00", false, 0},
	{"2026-03-01T10:00Z", false, 0},
	{"2026-03-01T10:00:00,5Z", false, 0},
	{"2026-03-01T10:00:00.Z", false, 0},
	{"2026-03-01T10:00:00+01", false, 0},
	{"2026-03-01T10:00:00+0100", false, 0},
	{"2026-03-01T10:00:00+24:00", false, 0},
	{"2026-03-01T24:00:00Z", false, 0},
	{"2026-03-01T10:60:00Z", false, 0},
	{"2026-02-29T10:00:00Z", false, 0},
	{"2026-13-01T10:00:00Z", false, 0},
	{"20260301T100000Z", false, 0},
	{"2026-03-01", false, 0},
	{"2026-03-01T10:00:00Z ", false, 0},
	{" 2026-03-01T10:00:00Z", false, 0},
	{"2026-03-01T10:00:00ZZ", false, 0},
	{"+2026-03-01T10:00:00Z", false, 0},
	{"1772359200", false, 0},
	{"", false, 0},
};

START_TEST(a_time_is_any_of_rfc_3339_and_nothing_else)
{
	int64_t at = 0;

	ck_assert_msg(harp_parse_time(times[_i].text, &at) == times[_i].is_time, "%s", times[_i].text);
	if (times[_i].is_time)
		ck_assert_int_eq(at - CREATED_US, times[_i].at_us);
}
END_TEST

START_TEST(artifact_that_could_not_be_read_back_is_not_built)
{
	static const char *const bad[] = {"good", "\xe9"};
	struct harp_review rows[] = {usual(), usual(), usual(), usual(), usual(), usual(), usual(), usual()};
	const enum harp_code codes[] = {HARP_CANONICALIZATION, HARP_CANONICALIZATION, HARP_CANONICALIZATION,
		HARP_UNSUPPORTED, HARP_UNSUPPORTED, HARP_UNSUPPORTED, HARP_UNSUPPORTED,
		HARP_CANONICALIZATION};
	char hash[HARP_HASH_SIZE] = "untouched", *long_task = xmalloc(HARP_ARTIFACT_MAX);

	rows[0].task = "{\"a\":\"\xff\"}", rows[0].task_size = 9;
	rows[1].reasons = bad, rows[1].reason_count = 2;
	rows[2].caller_id = "\xc3";
	rows[3].task_size++; /* its NUL */
	rows[4].request_id = "r1";
	rows[5].session_id = "";
	rows[6].risk = R_NONE;
	memset(long_task, ' ', HARP_ARTIFACT_MAX);
	rows[7].task = long_task, rows[7].task_size = HARP_ARTIFACT_MAX;
	for (int i = 0; i < COUNT(rows); i++) {
		struct buf b = {0};
		char row[8];

		snprintf(row, sizeof row, "%d", i);
		harp_kit_expect(build(&rows[i], &b, hash), codes[i], row, why);
		ck_assert_uint_eq(b.size, 0);
		ck_assert_str_eq(hash, "untouched");
		buf_fini(&b);
	}
	free(long_task);
}
END_TEST

START_TEST(a_review_without_session_and_reasons_is_one_too)
{
	struct harp_review r = usual();
	struct harp_artifact *a = NULL;
	char hash[HARP_HASH_SIZE];
	struct buf b = {0};

	r.session_id = NULL;
	r.reasons = NULL, r.reason_count = 0;
	harp_kit_expect(build(&r, &b, hash), HARP_OK, "bare", why);
	harp_kit_expect(harp_read_artifact(b.data, b.size, &a, why, sizeof why), HARP_OK, "bare", why);
	ck_assert_str_eq(a->hash, hash);
	ck_assert(a->session_id == NULL && a->reason_count == 0);
	harp_artifact_free(a);
	buf_fini(&b);
}
END_TEST

/* ---- states ---- */

START_TEST(a_review_goes_only_where_harp_lets_it) /* proves HC-02 */
{
	static const char *const legal[] = {"CREATED AWAITING_DECISION", "AWAITING_DECISION APPROVED",
		"AWAITING_DECISION DENIED", "AWAITING_DECISION EXPIRED", "APPROVED EXECUTED",
		"APPROVED EXPIRED"};
	enum harp_state from = (enum harp_state)(_i / HARP_STATES), to = (enum harp_state)(_i % HARP_STATES);
	bool may = false;
	char pair[64];

	snprintf(pair, sizeof pair, "%s %s", harp_state_name(from), harp_state_name(to));
	for (int i = 0; i < COUNT(legal); i++)
		may = may || strcmp(legal[i], pair) == 0;
	ck_assert_msg(harp_state_may(from, to) == may, "%s", pair);
}
END_TEST

START_TEST(names_are_harp_s_both_ways)
{
	char error[256];
	struct buf b = {0};

	for (int i = 0; i < HARP_STATES; i++)
		ck_assert_int_eq(harp_state_parse(harp_state_name((enum harp_state)i)), i);
	for (int i = 0; i < HARP_SCOPES; i++)
		ck_assert_int_eq(harp_scope_parse(harp_scope_name((enum harp_scope)i)), i);
	ck_assert(harp_state_parse("approved") == -1 && harp_scope_parse("always") == -1 &&
		harp_scope_parse("") == -1);
	ck_assert(harp_state_is_over(HARP_DENIED) && harp_state_is_over(HARP_EXECUTED) &&
		harp_state_is_over(HARP_IS_EXPIRED));
	ck_assert(!harp_state_is_over(HARP_APPROVED) && !harp_state_is_over(HARP_CREATED));
	for (int i = 1; i < HARP_CODES; i++) {
		buf_clear(&b);
		harp_add_error(&b, (enum harp_code)i, "no \"good\"\n");
		snprintf(error, sizeof error,
			"{\"code\":\"%s\",\"message\":\"no \\\"good\\\"\\n\",\"retryable\":false}",
			harp_code_name((enum harp_code)i));
		ck_assert_str_eq(buf_text(&b), error);
		ck_assert(strncmp(harp_code_name((enum harp_code)i), "HARP_ERR_", 9) == 0);
	}
	buf_fini(&b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("harp_artifact");
	TCase *t = tcase_create("harp_artifact");

	suite_add_tcase(s, t);
	tcase_add_test(t, an_artifact_is_byte_for_byte_what_python_makes);
	tcase_add_test(t, times_are_written_in_whole_seconds_rounded_down);
	tcase_add_test(t, artifact_that_was_built_is_read_back);
	tcase_add_test(t, a_real_in_the_task_does_not_reach_what_is_signed);
	tcase_add_loop_test(
		t, artifact_has_the_fields_of_harp_in_their_form_and_no_others, 0, COUNT(changes));
	tcase_add_loop_test(t, artifact_changed_anywhere_no_longer_fits_its_hash, 0, COUNT(changes));
	tcase_add_loop_test(t, a_hash_is_64_digits_in_lower_case, 0, COUNT(hashes));
	tcase_add_test(t, a_task_that_is_not_its_hash_is_refused);
	tcase_add_loop_test(t, a_time_is_any_of_rfc_3339_and_nothing_else, 0, COUNT(times));
	tcase_add_test(t, artifact_that_could_not_be_read_back_is_not_built);
	tcase_add_test(t, a_review_without_session_and_reasons_is_one_too);
	tcase_add_loop_test(t, a_review_goes_only_where_harp_lets_it, 0, HARP_STATES * HARP_STATES);
	tcase_add_test(t, names_are_harp_s_both_ways);
	return harp_kit_run(s);
}
