/* SPDX-License-Identifier: MIT */
/* test_intent_seal.c: an intent is sealed by its meaning, and whatever changes it breaks the seal. */
#include "protocol/intent_seal.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define TASK(members) "{\"capability\":\"c\"," members ",\"caller_id\":\"alpha\"}"
#define PLAIN \
	TASK("\"intent\":\"warm " \
	     "it\",\"inputs\":{\"t\":20},\"constraints\":{\"max_duration\":\"PT1H\",\"priority\":\"low\"}," \
	     "\"expected_output\":{\"required_fields\":[\"a\"]},\"context\":{}")
/* sha256sum of
 * {"constraints":{"max_duration":"PT1H","priority":"low"},"expected_output":{"required_fields":["a"]},"intent":"warm
 * it"} */
#define PLAIN_SEAL "dfeb813b10d33bd307fa41c34767886d2c10c323f356f1ad0c67444a7b320ffc"

static struct token_keys keys = {
	.list = {{.kid = "0badcafe", .bytes = "0123456789abcdef0123456789abcde"}}, .count = 1};

/* task: what the token says of it, a hash; "": nothing, as tokens of old. */
static const char *token_of(const char *seal, const char *task)
{
	static char token[TOKEN_SIZE];

	token_make(&keys,
		&(struct token_claims){.session_id = "s",
			.caller_id = "alpha",
			.risk = "R1",
			.data_class = "T1",
			.max_duration = "PT1H",
			.envelope = "",
			.intent = seal,
			.task = task},
		token);
	return token;
}

static const char *token_for(const char *seal)
{
	return token_of(seal, "");
}

static const char *fault_of(const char *task, const char *seal, const char *token)
{
	return intent_seal_find_fault(task, strlen(task), seal, &keys, token);
}

START_TEST(the_seal_is_the_hash_that_anybody_can_compute) /* proves CK-08 */
{
	char seal[CANONICAL_HASH_SIZE];

	ck_assert(intent_seal_task(PLAIN, strlen(PLAIN), seal));
	ck_assert_str_eq(seal, PLAIN_SEAL);
	ck_assert(fault_of(PLAIN, seal, token_for(seal)) == NULL);
}
END_TEST

/* The same intent, written in another way or with other things around it. */
static const char *const same[] = {
	TASK("\"intent\":\"warm\\u0020it\",\"inputs\":{\"t\":21},\"constraints\":{\"priority\":\"low\",\"max_"
	     "duration\":\"PT1H\"},"
	     "\"expected_output\":{\"required_fields\":[\"a\"]}"),
	TASK("\"expected_output\":{\"required_fields\":[ \"a\" ]},\"constraints\" : "
	     "{\"max_duration\":\"PT1H\",\"priority\":\"low\"},"
	     "\"context\":{\"intent\":\"another\"},\"intent\":\"warm it\""),
};

START_TEST(how_it_is_written_does_not_count)
{
	ck_assert(fault_of(same[_i], PLAIN_SEAL, token_for(PLAIN_SEAL)) == NULL);
}
END_TEST

#define REST \
	"\"constraints\":{\"max_duration\":\"PT1H\",\"priority\":\"low\"},\"expected_output\":{\"required_" \
	"fields\":[\"a\"]}"
static const char *const changed[] = {
	TASK("\"intent\":\"warm it up\"," REST),
	TASK("\"intent\":\"warm it\",\"constraints\":{\"max_duration\":\"PT2H\",\"priority\":\"low\"},"
	     "\"expected_output\":{\"required_fields\":[\"a\"]}"),
	TASK("\"intent\":\"warm "
	     "it\",\"constraints\":{\"max_duration\":\"PT1H\",\"priority\":\"low\",\"x\":1},"
	     "\"expected_output\":{\"required_fields\":[\"a\"]}"),
	TASK("\"intent\":\"warm "
	     "it\",\"constraints\":{\"max_duration\":\"PT1H\",\"priority\":\"low\"},\"expected_output\":{}"),
	TASK("\"intent\":\"warm it\",\"constraints\":{\"max_duration\":\"PT1H\",\"priority\":\"low\"}"),
	/* The first is the old one: some readers take the last. */
	TASK("\"intent\":\"warm it\"," REST ",\"intent\":\"burn it\""),
	TASK("\"intent\":\"warm it\"," REST ",\"\\u0069ntent\":\"burn it\""),
	TASK("\"intent\":\"warm it\"," REST) "{}",
	"",
	"null",
	"[]",
	"{\"intent\":",
};
enum { CHANGED = sizeof changed / sizeof *changed };

START_TEST(any_change_of_goal_constraints_or_criteria_breaks_it) /* proves CK-08 */
{
	ck_assert_msg(fault_of(changed[_i], PLAIN_SEAL, token_for(PLAIN_SEAL)) != NULL, "%s", changed[_i]);
	ck_assert_msg(fault_of(changed[_i], PLAIN_SEAL, "no token of ours") != NULL, "%s", changed[_i]);
}
END_TEST

START_TEST(a_new_seal_for_a_new_intent_is_not_the_one_in_the_token) /* proves CK-08 */
{
	char seal[CANONICAL_HASH_SIZE];

	ck_assert(intent_seal_task(changed[0], strlen(changed[0]), seal));
	ck_assert(fault_of(changed[0], seal, token_for(seal)) == NULL);
	ck_assert(fault_of(changed[0], seal, token_for(PLAIN_SEAL)) != NULL);
	ck_assert(fault_of(changed[0], "", token_for(PLAIN_SEAL)) != NULL); /* nor is none */
}
END_TEST

START_TEST(a_change_of_the_inputs_or_the_context_breaks_it_too) /* proves CK-08 */
{
	char seal[CANONICAL_HASH_SIZE], hash[CANONICAL_HASH_SIZE], *other = strdup(PLAIN),
								   *at = strstr(other, "\"t\":20");

	ck_assert(intent_seal_task(PLAIN, strlen(PLAIN), seal) && at != NULL);
	canonical_hash_bytes(PLAIN, strlen(PLAIN), hash);
	ck_assert(fault_of(PLAIN, seal, token_of(seal, hash)) == NULL);
	memcpy(at, "\"t\":90", 6);
	ck_assert(fault_of(other, seal, token_of(seal, "")) == NULL);   /* the intent is as it was ... */
	ck_assert(fault_of(other, seal, token_of(seal, hash)) != NULL); /* ... and the task is not */
	free(other);
}
END_TEST

START_TEST(session_accepted_before_there_were_seals_has_none)
{
	ck_assert(fault_of(PLAIN, "", "a.b") == NULL);
	ck_assert(fault_of(PLAIN, "", "") == NULL);
}
END_TEST

START_TEST(a_task_deeper_than_usual_is_sealed_as_well)
{
	char *task = calloc(1, 4000), seal[CANONICAL_HASH_SIZE], again[CANONICAL_HASH_SIZE];
	size_t n;

	strcpy(task, "{\"intent\":\"warm it\"," REST ",\"inputs\":{\"a\":");
	for (int i = 0; i < 600; i++)
		strcat(task, "[");
	for (int i = 0; i < 600; i++)
		strcat(task, "]");
	strcat(task, "}}");
	n = strlen(task);
	ck_assert(intent_seal_task(task, n, seal));
	ck_assert_str_eq(seal, PLAIN_SEAL);
	strcpy(task + n - 1, ",\"intent\":\"x\"}");
	ck_assert(!intent_seal_task(task, strlen(task), again));
	strcpy(task + n - 1, ",\"inten\\u0074\":\"x\"}");
	ck_assert(!intent_seal_task(task, strlen(task), again));
	free(task);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("seal");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_test(t, the_seal_is_the_hash_that_anybody_can_compute);
	tcase_add_loop_test(t, how_it_is_written_does_not_count, 0, 2);
	tcase_add_loop_test(t, any_change_of_goal_constraints_or_criteria_breaks_it, 0, CHANGED);
	tcase_add_test(t, a_new_seal_for_a_new_intent_is_not_the_one_in_the_token);
	tcase_add_test(t, a_change_of_the_inputs_or_the_context_breaks_it_too);
	tcase_add_test(t, session_accepted_before_there_were_seals_has_none);
	tcase_add_test(t, a_task_deeper_than_usual_is_sealed_as_well);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
