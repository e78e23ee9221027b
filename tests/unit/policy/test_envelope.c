/* SPDX-License-Identifier: MIT */
/* test_envelope.c: the safety envelope: its reading, and what is inside. */
#include "policy/envelope.h"

#include "support/declared_kit.h"

static struct envelope *e;

static void read_envelope(const char *text, int errors)
{
	struct declaration d = decl_new();
	json_t *v = text != NULL ? decl_parse(text) : NULL;
	struct declared place = {.at = "/capability/safety/envelope", .value = v};

	envelope_free(e);
	e = envelope_read(&d, &place);
	ck_assert_msg(d.errors == errors, "%s\n%s", text, buf_text(&decl_said));
	json_decref(v);
}

static void teardown(void)
{
	envelope_free(e);
	e = NULL;
	buf_fini(&decl_said);
}

#define AT "E f: /capability/safety/envelope"

static const struct {
	const char *text, *says;
	int errors;
} broken[] = {
	{"[]", AT ": is an array", 1},
	{"{'prohibitd_actions':[]}",
		AT "/prohibitd_actions: is not known here; did you mean prohibited_actions?", 1},
	{"{'parameters':[]}", AT "/parameters: is an array", 1},
	{"{'parameters':{'a':5}}", AT "/parameters/a: is a whole number", 1},
	{"{'parameters':{'a':{}}}", AT "/parameters/a: limits nothing", 1},
	{"{'parameters':{'a':{'unit':'C'}}}", AT "/parameters/a: limits nothing", 1},
	{"{'parameters':{'a':{'max':'5'}}}", AT "/parameters/a/max: is a string", 2},
	{"{'parameters':{'a':{'max':5,'hard_limt':6}}}",
		AT "/parameters/a/hard_limt: is not known here; did you mean hard_limit?", 1},
	{"{'parameters':{'a':{'max':5,'min':6}}}", AT "/parameters/a: has a min above its max", 1},
	{"{'parameters':{'a':{'max':5,'hard_limit':4}}}", AT "/parameters/a/hard_limit: is below max", 1},
	{"{'parameters':{'a':{'min':5,'hard_limit':6}}}", AT "/parameters/a/hard_limit: is above min", 1},
	{"{'parameters':{'a':{'hard_limit':true}}}",
		AT "/parameters/a/hard_limit: is true, and there is no max", 2},
	{"{'parameters':{'a':{'hard_limit':false}}}", AT "/parameters/a: limits nothing", 1},
	{"{'parameters':{'a':{'max':5,'hard_limit':'yes'}}}", AT "/parameters/a/hard_limit: is a string", 1},
	{"{'parameters':{'a':{'max':5,'unit':7}}}", AT "/parameters/a/unit: is a whole number", 1},
	{"{'parameters':{'/a~7':{'max':5}}}", AT "/parameters/~1a~07: has a name", 1},
	{"{'prohibited_actions':'vent'}", AT "/prohibited_actions: is a string", 1},
	{"{'prohibited_actions':['vent','',7]}", AT "/prohibited_actions/1: is empty", 2},
	{"{'emergency_procedures':[]}", AT "/emergency_procedures: is an array", 1},
	{"{'emergency_procedures':{'fire':7}}", AT "/emergency_procedures/fire: is a whole number", 1},
};

START_TEST(a_broken_envelope_is_refused_with_its_pointer) /* proves L3-01 */
{
	read_envelope(broken[_i].text, broken[_i].errors);
	ck_assert_msg(strstr(buf_text(&decl_said), broken[_i].says) != NULL, "%s\n%s", broken[_i].text,
		buf_text(&decl_said));
}
END_TEST

#define FULL \
	"{'parameters':{'t':{'max':80,'min':5,'unit':'C','hard_limit':100},'low':{'min':3,'hard_limit':1}," \
	"'hard':{'hard_limit':10},'/deep/0/x':{'max':1.5},'a~b':{'max':1}}," \
	"'prohibited_actions':['vent','drop table'],'emergency_procedures':{'fire':'water'}}"

static const struct {
	const char *inputs;
	enum envelope_result verdict;
	const char *says;
} rows[] = {
	{"{}", ENVELOPE_INSIDE, ""},
	{"{'other':1000}", ENVELOPE_INSIDE, ""},
	{"{'t':80}", ENVELOPE_INSIDE, ""},
	{"{'t':80.0}", ENVELOPE_INSIDE, ""},
	{"{'t':5}", ENVELOPE_INSIDE, ""},
	{"{'t':80.5}", ENVELOPE_OUTSIDE, "/t is 80.5 C, and the limit is at most 80 C"},
	{"{'t':4}", ENVELOPE_OUTSIDE, "/t is 4 C, and the limit is at least 5 C"},
	{"{'t':-1e9}", ENVELOPE_OUTSIDE, "at least"},
	{"{'t':100}", ENVELOPE_OUTSIDE, "the limit is"},
	{"{'t':100.01}", ENVELOPE_VIOLATED, "/t is 100.01 C, and the hard limit is at most 100 C"},
	{"{'t':99999999999999999999999}", ENVELOPE_VIOLATED, "hard limit"},
	{"{'t':'20'}", ENVELOPE_OUTSIDE, "/t is not a number"},
	{"{'t':null}", ENVELOPE_OUTSIDE, "/t is not a number"},
	{"{'t':[20]}", ENVELOPE_OUTSIDE, "/t is not a number"},
	{"{'low':3}", ENVELOPE_INSIDE, ""},
	{"{'low':1000}", ENVELOPE_INSIDE, ""},
	{"{'low':2}", ENVELOPE_OUTSIDE, "at least 3"},
	{"{'low':1}", ENVELOPE_OUTSIDE, "at least 3"},
	{"{'low':0.5}", ENVELOPE_VIOLATED, "hard limit is at least 1"},
	{"{'hard':10}", ENVELOPE_INSIDE, ""},
	{"{'hard':-10}", ENVELOPE_INSIDE, ""},
	{"{'hard':11}", ENVELOPE_VIOLATED, "at most 10"},
	{"{'deep':[{'x':1.5}]}", ENVELOPE_INSIDE, ""},
	{"{'deep':[{'x':2}]}", ENVELOPE_OUTSIDE, "/deep/0/x is 2"},
	{"{'deep':[{},{'x':2}]}", ENVELOPE_INSIDE, ""},
	{"{'a~b':2}", ENVELOPE_OUTSIDE, "/a~0b is 2"},
	{"{'t':90,'hard':11}", ENVELOPE_VIOLATED, "/hard"}, /* the gravest is told */
	{"{'hard':11,'t':90}", ENVELOPE_VIOLATED, "/hard"},
	{"{'action':'stir'}", ENVELOPE_INSIDE, ""},
	{"{'action':'vent'}", ENVELOPE_VIOLATED, "the action vent is prohibited here"},
	{"{'action':{'name':'vent'}}", ENVELOPE_VIOLATED, "vent"},
	{"{'actions':['stir','drop table']}", ENVELOPE_VIOLATED, "drop table"},
	{"{'actions':[{'name':'stir'},{'name':'vent'}]}", ENVELOPE_VIOLATED, "vent"},
	{"{'actions':['VENT',5,null,{}]}", ENVELOPE_INSIDE, ""},
	{"{'name':'vent'}", ENVELOPE_INSIDE, ""},
};

START_TEST(each_task_is_inside_or_not) /* proves L3-07 */
{
	struct envelope_breach breach = {0};
	json_t *v = decl_parse(rows[_i].inputs);
	enum envelope_result verdict;

	read_envelope(FULL, 0);
	verdict = envelope_check_inputs(e, v, &breach);
	ck_assert_msg(
		verdict == rows[_i].verdict, "%s: %d, %s", rows[_i].inputs, (int)verdict, breach.message);
	ck_assert_msg(strstr(breach.message, rows[_i].says) != NULL, "%s", breach.message);
	json_decref(v);
}
END_TEST

static const struct {
	const char *inputs;
	enum envelope_result verdict;
	const char *says;
} true_rows[] = {
	{"{'t':80}", ENVELOPE_INSIDE, ""},
	{"{'t':80.5}", ENVELOPE_VIOLATED, "/t is 80.5 C, and the hard limit is at most 80 C"},
	{"{'t':4}", ENVELOPE_OUTSIDE, "the limit is at least 5 C"},
	{"{'low':2}", ENVELOPE_VIOLATED, "the hard limit is at least 3"},
	{"{'soft':6}", ENVELOPE_OUTSIDE, "the limit is at most 5"},
};

START_TEST(hard_limit_true_makes_max_hard_and_min_where_there_is_no_max) /* proves L3-07 */
{
	struct envelope_breach breach = {0};
	json_t *v = decl_parse(true_rows[_i].inputs);

	read_envelope(
		"{'parameters':{'t':{'max':80,'min':5,'unit':'C','hard_limit':true},"
		"'low':{'min':3,'hard_limit':true},'soft':{'max':5,'hard_limit':false}}}",
		0);
	ck_assert_int_eq(envelope_check_inputs(e, v, &breach), true_rows[_i].verdict);
	ck_assert_msg(strstr(breach.message, true_rows[_i].says) != NULL, "%s", breach.message);
	json_decref(v);
}
END_TEST

START_TEST(each_announced_action_is_inside_or_not)
{
	struct envelope_breach breach;
	json_t *v = decl_parse("{'t':90}"), *worse = decl_parse("{'t':101}"),
	       *fine = decl_parse("{'t':20,'action':'vent'}");

	read_envelope(FULL, 0);
	ck_assert_int_eq(envelope_check_action(e, "heat", fine, &breach), ENVELOPE_INSIDE);
	ck_assert_int_eq(envelope_check_action(e, "heat", NULL, &breach), ENVELOPE_INSIDE);
	ck_assert_int_eq(envelope_check_action(e, "heat", v, &breach), ENVELOPE_OUTSIDE);
	ck_assert_str_eq(breach.where, "/t");
	ck_assert_str_eq(breach.suggestion, "keep /t at most 80 C");
	ck_assert_int_eq(envelope_check_action(e, "heat", worse, &breach), ENVELOPE_VIOLATED);
	ck_assert_int_eq(envelope_check_action(e, "vent", NULL, &breach), ENVELOPE_VIOLATED);
	ck_assert_int_eq(envelope_check_action(e, "vent", fine, &breach), ENVELOPE_VIOLATED);
	json_decref(v);
	json_decref(worse);
	json_decref(fine);
}
END_TEST

START_TEST(envelope_is_shown_as_it_was_declared)
{
	json_t *shown, *declared = decl_parse(FULL);

	read_envelope(NULL, 0);
	ck_assert_str_eq(envelope_text(e), "{}");
	read_envelope("{}", 0);
	ck_assert_str_eq(envelope_text(e), "{}");
	read_envelope(FULL, 0);
	shown = json_loads(envelope_text(e), 0, NULL);
	ck_assert(json_equal(shown, declared));
	json_decref(shown);
	json_decref(declared);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_checked_fixture(t, NULL, teardown);
	tcase_add_loop_test(t, a_broken_envelope_is_refused_with_its_pointer, 0, COUNT(broken));
	tcase_add_loop_test(t, each_task_is_inside_or_not, 0, COUNT(rows));
	tcase_add_loop_test(
		t, hard_limit_true_makes_max_hard_and_min_where_there_is_no_max, 0, COUNT(true_rows));
	tcase_add_test(t, each_announced_action_is_inside_or_not);
	tcase_add_test(t, envelope_is_shown_as_it_was_declared);
}

int main(void)
{
	return decl_run("envelope", add_tests);
}
