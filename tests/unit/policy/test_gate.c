/* SPDX-License-Identifier: MIT */
/* test_gate.c: the verdict on a task, as a table; and that it depends on nothing else. */
#include "policy/gate.h"

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[200], ini[256];
static struct policy *p;

static const struct {
	const char *name, *version, *safety, *constraints;
} caps[] = {
	{"easy", "1.4.2", "\"risk_ceiling\":\"R1\",\"requires_human_approval\":false",
		"\"max_duration\":\"PT10M\",\"concurrent_limit\":2"},
	{"hard", "2.0.0-rc.1", "\"risk_ceiling\":\"R4\",\"requires_human_approval\":false", ""},
	{"asked", "1.0.0", "\"risk_ceiling\":\"R3\",\"requires_human_approval\":true", ""},
	{"mild", "1.0.0", "\"risk_ceiling\":\"R2\",\"requires_human_approval\":true", ""},
};

static void write_file(const char *name, const char *text)
{
	char path[400];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	f = fopen(path, "w");
	ck_assert(f != NULL);
	fputs(text, f);
	fclose(f);
}

static void say(void *ctx, bool is_error, const char *text)
{
	(void)ctx;
	ck_assert_msg(!is_error, "%s", text);
}

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");
	struct buf b = {0}, d = {0};

	snprintf(dir, sizeof dir, "%s/hcp-gate-XXXXXX", tmp != NULL && strlen(tmp) < 150 ? tmp : "/tmp");
	ck_assert(mkdtemp(dir) != NULL);
	snprintf(ini, sizeof ini, "%s/hcpd.ini", dir);
	buf_add_text(&b, "[daemon]\ncallee_id = c\n[session]\nmax_duration = 1h\n");
	for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
		char file[32];

		buf_clear(&d);
		buf_addf(&d,
			"{\"capability\":{\"name\":\"%s\",\"version\":\"%s\",\"description\":\"d\",\"input_"
			"schema\":{},\"output_schema\":{},"
			"\"safety\":{%s,\"involves_physical_resources\":false},\"constraints\":{%s}}}",
			caps[i].name, caps[i].version, caps[i].safety, caps[i].constraints);
		snprintf(file, sizeof file, "%s.json", caps[i].name);
		write_file(file, buf_text(&d));
		buf_addf(&b, "[capability %s]\ndeclaration = %s\ncommand = /bin/true\n", caps[i].name, file);
	}
	buf_add_text(&b,
		"[caller all]\ncapabilities = *\nmax_risk = R5\n[caller some]\ncapabilities = easy, "
		"hard\nmax_risk = R3\n"
		"[caller none]\ncapabilities =\n[caller low]\ncapabilities = *\nmax_risk = R1\n"
		"[caller named]\ncapabilities = *\nmax_risk = R5\namqp_user = u1\n");
	write_file("hcpd.ini", buf_text(&b));
	buf_fini(&b);
	buf_fini(&d);
	ck_assert((p = policy_load(ini, say, NULL)) != NULL);
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(name);
}

static void teardown(void)
{
	policy_unref(p);
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- who ---- */

static const struct {
	const char *caller, *user;
	bool known;
} identities[] = {
	{"all", NULL, true},
	{"all", "anybody", true},
	{"named", "u1", true},
	{"named", NULL, false},
	{"named", "", false},
	{"named", "U1", false},
	{"named", "u1x", false},
	{"nobody", NULL, false},
	{"nobody", "u1", false},
	{"", NULL, false},
	{"*", NULL, false},
	{"ALL", NULL, false},
};

START_TEST(a_caller_is_known_by_its_section_and_its_user) /* proves L3-05 L1-15 */
{
	struct gate_result v;
	const struct config_caller *c = gate_identify(p, identities[_i].caller, identities[_i].user, &v);

	ck_assert_int_eq(c != NULL, identities[_i].known);
	if (c == NULL) {
		ck_assert(v.kind == GATE_REJECTED);
		ck_assert_str_eq(v.code, "unauthorized");
		ck_assert_uint_gt(strlen(v.message), 0);
	} else {
		ck_assert_str_eq(c->name, identities[_i].caller);
	}
}
END_TEST

START_TEST(an_exact_section_wins_over_the_star) /* proves L3-04 */
{
	struct gate_result v;
	FILE *f = fopen(ini, "a");

	fputs("[caller *]\ncapabilities = easy\nmax_risk = R2\namqp_user = everyone\n", f);
	fclose(f);
	policy_unref(p);
	ck_assert((p = policy_load(ini, say, NULL)) != NULL);
	ck_assert(gate_identify(p, "stranger", NULL, &v) == NULL);
	ck_assert_str_eq(gate_identify(p, "stranger", "everyone", &v)->name, "*");
	ck_assert_str_eq(gate_identify(p, "all", NULL, &v)->name, "all");
	ck_assert(gate_identify(p, "named", "everyone", &v) == NULL);
}
END_TEST

/* ---- what ---- */

static const struct {
	const char *caller, *capability, *range;
	enum data_class data_class;
	bool may_start, may_wait;
	const char *code; /* NULL: approved */
	enum risk risk;
} verdicts[] = {
	{"all", "easy", NULL, T1, true, true, NULL, R1},
	{"all", "easy", "1.x", T1, true, true, NULL, R1},
	{"all", "easy", "^1.4", T2, true, true, NULL, R1},
	{"all", "easy", "~1.4.0 || 9.x", T1, true, true, NULL, R1},
	{"all", "easy", "", T1, true, true, NULL, R1},
	{"all", "easy", "*", T1, true, true, NULL, R1},
	{"all", "easy", "2.x", T1, true, true, "unknown_capability", R_NONE},
	{"all", "easy", ">=1.5.0", T1, true, true, "unknown_capability", R_NONE},
	{"all", "hard", "2.x", T1, true, true, "unknown_capability", R_NONE}, /* a pre-release is not in it */
	{"all", "hard", ">=2.0.0-rc.0", T1, true, true, NULL, R4},
	{"all", "absent", NULL, T1, true, true, "unknown_capability", R_NONE},
	{"all", "Easy", NULL, T1, true, true, "unknown_capability", R_NONE},
	{"all", "*", NULL, T1, true, true, "unknown_capability", R_NONE},
	{"some", "easy", NULL, T1, true, true, NULL, R1},
	{"some", "asked", NULL, T1, true, true, "forbidden", R_NONE},
	{"none", "easy", NULL, T1, true, true, "forbidden", R_NONE},
	{"some", "hard", NULL, T1, true, true, "risk_too_high", R4},
	{"low", "easy", NULL, T1, true, true, NULL, R1},
	{"low", "hard", NULL, T1, true, true, "risk_too_high", R4},
	{"low", "mild", NULL, T1, true, true, "risk_too_high", R2},
	/* what cannot be kept is refused */
	{"all", "asked", NULL, T1, true, true, "policy_denied", R3},
	{"all", "mild", NULL, T1, true, true, NULL, R2}, /* approval is asked for from R3 on */
	{"all", "easy", NULL, T3, true, true, "policy_denied", R1},
	{"all", "easy", NULL, T4, true, true, "policy_denied", R1},
	/* room */
	{"all", "easy", NULL, T1, true, false, NULL, R1},
	{"all", "easy", NULL, T1, false, true, NULL, R1},
	{"all", "easy", NULL, T1, false, false, "resource_unavailable", R1},
	/* the order: who, what, risk, room */
	{"none", "easy", NULL, T4, false, false, "forbidden", R_NONE},
	{"some", "hard", NULL, T4, false, false, "risk_too_high", R4},
};

static void decide(int i, struct gate_result *v)
{
	char name[32], range[32];
	struct task task = {
		.capability = name, .inputs = json_object(), .data_class = verdicts[i].data_class};
	const struct gate_context context = {
		.may_start = verdicts[i].may_start, .may_wait = verdicts[i].may_wait};
	const struct config_caller *caller = gate_identify(p, verdicts[i].caller, NULL, v);

	snprintf(name, sizeof name, "%s", verdicts[i].capability);
	if (verdicts[i].range != NULL) {
		snprintf(range, sizeof range, "%s", verdicts[i].range);
		task.version_range = range;
	}
	ck_assert(caller != NULL);
	gate_decide(p, caller, &task, &context, v);
	json_decref(task.inputs);
}

START_TEST(each_task_has_its_verdict) /* proves L3-04 L3-10 L1-15 L4-01 */
{
	struct gate_result v;

	memset(&v, 0xaa, sizeof v);
	decide(_i, &v);
	ck_assert_msg((v.kind == GATE_APPROVED) == (verdicts[_i].code == NULL), "%s: %s",
		v.code ? v.code : "", v.message);
	ck_assert_int_eq(v.risk, verdicts[_i].risk);
	if (v.kind == GATE_APPROVED) {
		ck_assert_str_eq(v.capability->name, verdicts[_i].capability);
		return;
	}
	ck_assert_str_eq(v.code, verdicts[_i].code);
	ck_assert_uint_gt(strlen(v.message), 0);
	if (strcmp(v.code, "risk_too_high") == 0)
		ck_assert_uint_gt(strlen(v.suggestion), 0);
}
END_TEST

START_TEST(the_same_question_has_the_same_answer)
{
	struct gate_result a, b;

	for (int round = 0; round < 3; round++)
		for (int i = 0; i < (int)(sizeof verdicts / sizeof *verdicts); i++) {
			memset(&a, 0x11, sizeof a);
			memset(&b, 0x22, sizeof b);
			decide(i, &a);
			decide((i * 7 + 3) % (int)(sizeof verdicts / sizeof *verdicts), &b);
			memset(&b, 0x33, sizeof b);
			decide(i, &b);
			ck_assert(a.kind == b.kind && a.risk == b.risk &&
				a.max_duration_us == b.max_duration_us && a.capability == b.capability);
			ck_assert_str_eq(a.message, b.message);
			ck_assert_str_eq(a.suggestion, b.suggestion);
		}
}
END_TEST

static const struct {
	const char *capability;
	int64_t task_s, wanted_s;
} durations[] = {{"easy", 0, 600}, {"easy", 60, 60}, {"easy", 3600, 600}, {"hard", 0, 3600},
	{"hard", 7200, 3600}, {"hard", 5, 5}};

START_TEST(max_duration_is_the_least_of_three) /* proves L2-09 L3-10 */
{
	char name[16];
	struct task task = {.capability = name,
		.inputs = json_object(),
		.max_duration_us = durations[_i].task_s * 1000000};
	struct gate_result v;

	snprintf(name, sizeof name, "%s", durations[_i].capability);
	gate_decide(
		p, gate_identify(p, "all", NULL, &v), &task, &(struct gate_context){.may_start = true}, &v);
	json_decref(task.inputs);
	ck_assert(v.kind == GATE_APPROVED);
	ck_assert_int_eq(v.max_duration_us, durations[_i].wanted_s * 1000000);
}
END_TEST

START_TEST(long_names_from_outside_do_not_overflow_the_answer)
{
	char name[5000];
	struct task task = {.capability = name};
	struct gate_result v;

	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	gate_decide(
		p, gate_identify(p, "all", NULL, &v), &task, &(struct gate_context){.may_start = true}, &v);
	ck_assert_str_eq(v.code, "unknown_capability");
	ck_assert_uint_lt(strlen(v.message), sizeof v.message);
	ck_assert(gate_identify(p, "named", name, &v) == NULL);
	ck_assert_uint_lt(strlen(v.message), sizeof v.message);
}
END_TEST

static void count_errors(void *ctx, bool is_error, const char *text)
{
	(void)text;
	*(int *)ctx += is_error;
}

START_TEST(a_policy_with_a_broken_declaration_is_no_policy) /* proves L3-01 */
{
	int errors = 0;

	write_file("hard.json", "{\"capability\":{\"name\":\"hard\"}}");
	write_file("mild.json", "not JSON");
	ck_assert(policy_load(ini, count_errors, &errors) == NULL);
	ck_assert_int_ge(errors, 2); /* all of them are said */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("gate");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, a_caller_is_known_by_its_section_and_its_user, 0,
		(int)(sizeof identities / sizeof *identities));
	tcase_add_test(t, an_exact_section_wins_over_the_star);
	tcase_add_loop_test(t, each_task_has_its_verdict, 0, (int)(sizeof verdicts / sizeof *verdicts));
	tcase_add_test(t, the_same_question_has_the_same_answer);
	tcase_add_loop_test(t, max_duration_is_the_least_of_three, 0, 6);
	tcase_add_test(t, long_names_from_outside_do_not_overflow_the_answer);
	tcase_add_test(t, a_policy_with_a_broken_declaration_is_no_policy);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
