/* SPDX-License-Identifier: MIT */
/* test_config_gate.c: the keys that the gate reads: classes of data, encryption, rates. */
#include "support/config_kit.h"

#define ANN "[approver ann@lab.example]\nkey = ed25519:abc\n"

START_TEST(approvals_have_defaults_and_take_what_is_written)
{
	ck_assert_ptr_nonnull(cfg_load(GOOD ANN));
	ck_assert_int_eq(cfg->approval_expires_us, INT64_C(86400000000));
	ck_assert_int_eq(cfg->two_person, R_NONE);
	ck_assert_uint_eq(cfg->approver_count, 1);
	ck_assert_str_eq(cfg->approvers[0].name, "ann@lab.example");
	ck_assert_str_eq(cfg->approvers[0].key, "ed25519:abc");
	ck_assert_int_eq(cfg->approvers[0].max_risk, R3);
	ck_assert_ptr_null(cfg->approvers[0].person);
	ck_assert(!cfg->approvers[0].revoked);
	ck_assert_ptr_nonnull(
		cfg_load(GOOD ANN "person = Ann\nrevoked = yes\nmax_risk = R5\n[approval]\nexpires = 10m\n"
				  "two_person = R5\n[approver bob]\nkey = x\n"));
	ck_assert_int_eq(cfg->approval_expires_us, INT64_C(600000000));
	ck_assert_int_eq(cfg->two_person, R5);
	ck_assert_uint_eq(cfg->approver_count, 2);
	ck_assert_str_eq(cfg->approvers[0].person, "Ann");
	ck_assert(cfg->approvers[0].revoked && cfg->approvers[0].max_risk == R5);
}
END_TEST

START_TEST(second_section_of_an_approver_may_add_what_the_first_lacks)
{
	ck_assert_ptr_nonnull(cfg_load(GOOD ANN "[approver ann@lab.example]\nrevoked = yes\n"));
	ck_assert_uint_eq(cfg->approver_count, 1);
	ck_assert(cfg->approvers[0].revoked);
	ck_assert_str_eq(cfg->approvers[0].key, "ed25519:abc");
}
END_TEST

START_TEST(without_them_nothing_is_limited_and_nothing_is_encrypted)
{
	ck_assert_ptr_nonnull(cfg_load(GOOD));
	ck_assert(!cfg->store_is_encrypted);
	ck_assert_int_eq(cfg->callers[0].max_data_class, T4);
	ck_assert_int_eq(cfg->callers[0].rate.count, 0);
	ck_assert_int_eq(cfg->callers[0].rate.burst, 10);
}
END_TEST

START_TEST(keys_of_the_gate_have_the_written_values) /* proves L3-04 */
{
	ck_assert_ptr_nonnull(cfg_load(
		GOOD "max_data_class = T2\nrate_burst = 3\nrate_limit = 90/h\n[store]\nencrypted = yes\n"));
	ck_assert(cfg->store_is_encrypted);
	ck_assert_int_eq(cfg->callers[0].max_data_class, T2);
	ck_assert_int_eq(cfg->callers[0].rate.count, 90);
	ck_assert_int_eq(cfg->callers[0].rate.period_us, INT64_C(3600000000));
	ck_assert_int_eq(cfg->callers[0].rate.burst, 3);
}
END_TEST

static const struct {
	const char *lines, *says;
} wrong[] = {
	{"rate_limit = 90\n",
		"E DIR/hcpd.ini:9: rate_limit = 90 is not understood; write off, or tasks for a time"},
	{"rate_limit = 90/week\n", "is not understood"},
	{"rate_limit =\n", "is not understood"},
	{"rate_burst = 0\n", "rate_burst = 0 is too little"},
	{"rate_burst = 10001\n", "is too much"},
	{"max_data_class = R2\n", "is not known; write one of T1, T2, T3, T4"},
	{"max_data_class = t2\n", "is not known"},
	{"[store]\nencrypted = maybe\n", "write yes or no"},
	{"[approver ann]\n", "E DIR/hcpd.ini:9: [approver ann] needs key; write the line ed25519:"},
	{"[approver]\nkey = x\n", "[approver] has no name"},
	{"[approver a b]\nkey = x\n", "[approver a b] does not do"},
	{"[approver ann]\nkey = x\nmax_risk = R6\n", "is not known; write one of R1, R2, R3, R4, R5"},
	{"[approver ann]\nkey = x\nrevoked = perhaps\n", "write yes or no"},
	{ANN "[approver ann@lab.example]\nkey = ed25519:def\n",
		"E DIR/hcpd.ini:12: [approver ann@lab.example] has key already, in line 10; give the other "
		"approver another name"},
	{ANN "max_risk = R2\n[approver bob]\nkey = x\n[approver ann@lab.example]\nmax_risk = R5\n",
		"hcpd.ini:15: [approver ann@lab.example] has max_risk already, in line 11"},
	{ANN "revoked = yes\n[approver ann@lab.example]\nrevoked = no\n",
		":13: [approver ann@lab.example] has revoked already, in line 11"},
	{"[approval]\ntwo_person = R6\n", "write one of off, R1, R2, R3, R4, R5"},
	{"[approval]\nexpires = 0\n", "expires = 0 is too little"},
};

START_TEST(wrong_keys_are_told_with_their_line)
{
	char text[400];

	snprintf(text, sizeof text, "%s%s", GOOD, wrong[_i].lines);
	ck_assert_ptr_null(cfg_load(text));
	ck_assert_int_eq(cfg_errors, 1);
	ck_assert_msg(strstr(buf_text(&cfg_said), wrong[_i].says) != NULL, "%s", buf_text(&cfg_said));
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, without_them_nothing_is_limited_and_nothing_is_encrypted);
	tcase_add_test(t, keys_of_the_gate_have_the_written_values);
	tcase_add_test(t, approvals_have_defaults_and_take_what_is_written);
	tcase_add_test(t, second_section_of_an_approver_may_add_what_the_first_lacks);
	tcase_add_loop_test(t, wrong_keys_are_told_with_their_line, 0, COUNT(wrong));
}

int main(void)
{
	return cfg_run("config_gate", add_tests);
}
