/* SPDX-License-Identifier: MIT */
/* test_risk.c: rules and context factors: what is refused when they are read, when they hold, and what
 * is suggested. */
#include "policy/risk.h"

#include <time.h>

#include "protocol/message.h"
#include "support/declared_kit.h"

static struct risk_model *m;

static void read_model(const char *safety, int errors)
{
	struct declaration d = decl_new();
	json_t *v = decl_parse(safety);
	struct declared place = {.at = "/capability/safety", .value = v};

	risk_model_free(m);
	m = risk_model_read(&d, &place, R4);
	ck_assert_msg(d.errors == errors, "%s\n%s", safety, buf_text(&decl_said));
	json_decref(v);
}

static enum risk level(const char *inputs, const struct risk_context *context)
{
	json_t *v = decl_parse(inputs);
	struct risk_result result;

	risk_assess(m, v, context, &result);
	json_decref(v);
	return result.level;
}

static const struct risk_context nothing;

#define RULES(text) "{'risk_floor':'R1','rules':[" text "]}"
#define WHEN(text) RULES("{'when':" text ",'level':'R3','reason':'r'}")
#define FACTOR(text) \
	"{'risk_floor':'R1','resource_types':['oven'],'context':[{" text ",'level':'R3','reason':'r'}]}"
#define AT "E f: /capability/safety"

static const struct {
	const char *safety, *says;
	int errors;
} broken[] = {
	{"{'risk_floor':'R5'}", AT "/risk_floor: is above risk_ceiling", 1},
	{"{'risk_floor':'low'}", AT "/risk_floor: is \"low\"; write \"R1\" to \"R5\"", 1},
	{"{'risk_floor':1}", AT "/risk_floor: is a whole number", 1},
	{"{'rules':{}}", AT "/rules: is an object; write an array", 1},
	{"{'rules':[7]}", AT "/rules/0: is a whole number", 1},
	{RULES("{}"), AT "/rules/0/when: is missing", 3},
	{RULES("{'when':{'pointer':'/a','op':'present'},'level':'R9','reason':'r'}"),
		AT "/rules/0/level: is \"R9\"", 1},
	{RULES("{'when':{'pointer':'/a','op':'present'},'level':'R3'}"), AT "/rules/0/reason: is missing", 1},
	{RULES("{'when':{'pointer':'/a','op':'present'},'level':'R3','reason':''}"),
		AT "/rules/0/reason: is empty", 1},
	{RULES("{'when':{'pointer':'/a','op':'present'},'level':'R3','reason':'r','levle':'R4'}"),
		AT "/rules/0/levle: is not known here; did you mean level?", 1},
	{WHEN("[]"), AT "/rules/0/when: is an array", 1},
	{WHEN("{'op':'present'}"), AT "/rules/0/when/pointer: is missing", 1},
	{WHEN("{'pointer':'a','op':'present'}"), AT "/rules/0/when/pointer: is no JSON pointer", 1},
	{WHEN("{'pointer':'/a~2','op':'present'}"), AT "/rules/0/when/pointer: is no JSON pointer", 1},
	{WHEN("{'pointer':'/a~','op':'present'}"), AT "/rules/0/when/pointer: is no JSON pointer", 1},
	{WHEN("{'pointer':5,'op':'present'}"), AT "/rules/0/when/pointer: is a whole number", 1},
	{WHEN("{'pointer':'/a'}"), AT "/rules/0/when/op: is missing; write one of > >= < <=", 1},
	{WHEN("{'pointer':'/a','op':'=>','value':1}"), AT "/rules/0/when/op: is not known; write one of", 1},
	{WHEN("{'pointer':'/a','op':'>'}"),
		AT "/rules/0/when/value: is missing; \">\" compares with a number", 1},
	{WHEN("{'pointer':'/a','op':'>','value':'5'}"), AT "/rules/0/when/value: does not go with \">\"", 1},
	{WHEN("{'pointer':'/a','op':'<=','value':[5]}"), AT "/rules/0/when/value: does not go", 1},
	{WHEN("{'pointer':'/a','op':'==','value':[5]}"), AT "/rules/0/when/value: does not go with \"==\"",
		1},
	{WHEN("{'pointer':'/a','op':'!=','value':{}}"), AT "/rules/0/when/value: does not go", 1},
	{WHEN("{'pointer':'/a','op':'in','value':5}"), AT "/rules/0/when/value: does not go with \"in\"", 1},
	{WHEN("{'pointer':'/a','op':'in','value':[]}"), AT "/rules/0/when/value: does not go", 1},
	{WHEN("{'pointer':'/a','op':'not_in','value':[[]]}"), AT "/rules/0/when/value: does not go", 1},
	{WHEN("{'pointer':'/a','op':'between','value':[2,1]}"),
		AT "/rules/0/when/value: does not go with \"between\"", 1},
	{WHEN("{'pointer':'/a','op':'between','value':[1,2,3]}"), AT "/rules/0/when/value: does not go", 1},
	{WHEN("{'pointer':'/a','op':'between','value':['a','b']}"), AT "/rules/0/when/value: does not go", 1},
	{WHEN("{'pointer':'/a','op':'present','value':1}"),
		AT "/rules/0/when/value: does not go with \"present\"", 1},
	{WHEN("{'pointer':'/a','op':'count>','value':-1}"),
		AT "/rules/0/when/value: does not go with \"count>\"", 1},
	{WHEN("{'pointer':'/a','op':'count==','value':1.5}"), AT "/rules/0/when/value: does not go", 1},
	{WHEN("{'all':[]}"), AT "/rules/0/when/all: is an array; write an array, not empty", 1},
	{WHEN("{'any':{}}"), AT "/rules/0/when/any: is an object", 1},
	{WHEN("{'not':[]}"), AT "/rules/0/when/not: is an array", 1},
	{WHEN("{'all':[{'pointer':'/a','op':'present'},{'pointer':'/b','op':'?'}]}"),
		AT "/rules/0/when/all/1/op: is not known", 1},
	{WHEN("{'all':[{'pointer':'/a','op':'present'}],'pointer':'/b'}"),
		AT "/rules/0/when/pointer: is not known here", 1},
	{WHEN("{'not':{'not':{'not':{'not':{'not':{'not':{'not':{'not':{'not':{'pointer':'/"
	      "a','op':'present'}}}}}}}}}}"),
		"nests deeper than 8", 1},
	{"{'context':5}", AT "/context: is a whole number", 1},
	{"{'context':[{'level':'R3','reason':'r'}]}", AT "/context/0: has neither unattended nor running", 1},
	{FACTOR("'unattended':5"), AT "/context/0/unattended: is a whole number", 1},
	{FACTOR("'unattended':{}"), AT "/context/0/unattended/from: is no time of day", 2},
	{FACTOR("'unattended':{'from':'18:00'}"), AT "/context/0/unattended/to: is no time of day", 1},
	{FACTOR("'unattended':{'from':'6pm','to':'7:00'}"),
		AT "/context/0/unattended/from: is no time of day", 2},
	{FACTOR("'unattended':{'from':'24:01','to':'07:60'}"),
		AT "/context/0/unattended/to: is no time of day", 2},
	{FACTOR("'unattended':{'from':'07:00','to':'07:00'}"),
		AT "/context/0/unattended/to: is when it begins", 1},
	{FACTOR("'unattended':{'from':'00:00','to':'24:00'}"),
		AT "/context/0/unattended/to: is when it begins", 1},
	{FACTOR("'unattended':{'days':['sat','Sunday']}"), AT "/context/0/unattended/days/1: is no day", 1},
	{FACTOR("'unattended':{'days':'sat'}"), AT "/context/0/unattended/days: is a string", 1},
	{FACTOR("'unattended':{'days':['sat'],'zone':'CET'}"), AT "/context/0/unattended/zone: is not known",
		1},
	{FACTOR("'unattended':{'days':['sat'],'zones':'utc'}"),
		AT "/context/0/unattended/zones: is not known here; did you mean zone?", 1},
	{FACTOR("'running':{'of':'capability'}"), AT "/context/0/running/at_least: is missing", 1},
	{FACTOR("'running':{'at_least':0,'of':'capability'}"),
		AT "/context/0/running/at_least: is none that does", 1},
	{FACTOR("'running':{'at_least':1}"), AT "/context/0/running/of: is missing", 1},
	{FACTOR("'running':{'at_least':1,'of':'caller'}"), AT "/context/0/running/of: is not known", 1},
	{FACTOR("'running':{'at_least':1,'of':'resource','resource':'press'}"),
		AT "/context/0/running/resource: names no resource", 1},
	{FACTOR("'running':{'at_least':1,'of':'capability','resource':'oven'}"),
		AT "/context/0/running/resource: goes with", 1},
	{FACTOR("'running':{'at_least':1,'of':'resource','resource':5}"),
		AT "/context/0/running/resource: is no string", 1},
	{FACTOR("'running':{'at_least':1,'of':'capability'},'unattended':{'days':['sat']}"),
		AT "/context/0/running: is not known here", 1},
};

START_TEST(a_broken_rule_is_refused_with_its_pointer) /* proves L3-01 */
{
	read_model(broken[_i].safety, broken[_i].errors);
	ck_assert_msg(strstr(buf_text(&decl_said), broken[_i].says) != NULL, "%s\n%s", broken[_i].safety,
		buf_text(&decl_said));
}
END_TEST

START_TEST(too_many_entries_are_refused)
{
	struct buf b = {0};

	buf_add_text(&b, "{'rules':[");
	for (int i = 0; i <= RISK_RULES_MAX; i++)
		buf_addf(&b, "%s{'when':{'pointer':'/a','op':'present'},'level':'R4','reason':'r'}",
			i > 0 ? "," : "");
	buf_add_text(&b, "]}");
	read_model(buf_text(&b), 1);
	ck_assert_ptr_nonnull(strstr(buf_text(&decl_said), "/rules: has 65 entries; 64 are allowed"));
	buf_fini(&b);
}
END_TEST

START_TEST(a_rule_that_can_raise_nothing_is_a_warning)
{
	read_model("{'rules':[{'when':{'pointer':'/a','op':'present'},'level':'R4','reason':'r'}]}", 0);
	ck_assert_ptr_nonnull(strstr(buf_text(&decl_said),
		"W f: /capability/safety/rules/0/level: never raises anything: the risk begins at R4"));
	ck_assert_int_eq(level("{'a':1}", &nothing), R4);
}
END_TEST

START_TEST(without_a_floor_the_risk_is_the_ceiling) /* proves L3-03 */
{
	read_model("{}", 0);
	ck_assert_int_eq(level("{}", &nothing), R4);
	read_model("{'risk_floor':'R2'}", 0);
	ck_assert_int_eq(level("{}", &nothing), R2);
}
END_TEST

/* 2^53 + 1 cannot be a double: a comparison by way of one would not see it. */
START_TEST(large_numbers_are_not_rounded)
{
	read_model(WHEN("{'pointer':'/a','op':'>','value':9007199254740992.0}"), 0);
	ck_assert_int_eq(level("{'a':9007199254740992}", &nothing), R1);
	ck_assert_int_eq(level("{'a':9007199254740993}", &nothing), R3);
	read_model(WHEN("{'pointer':'/a','op':'<','value':-9223372036854775808}"), 0);
	ck_assert_int_eq(level("{'a':-9223372036854775808}", &nothing), R1);
	ck_assert_int_eq(level("{'a':-9223372036854777856.0}", &nothing), R3);
	ck_assert_int_eq(level("{'a':9223372036854775808.0}", &nothing), R1);
	read_model(WHEN("{'pointer':'/a','op':'==','value':0}"), 0);
	ck_assert_int_eq(level("{'a':-0.0}", &nothing), R3);
}
END_TEST

START_TEST(pointers_follow_rfc_6901)
{
	static const struct {
		const char *pointer, *inputs;
		enum risk level;
	} rows[] = {{"", "{}", R3}, {"/", "{'':1}", R3}, {"/", "{}", R1}, {"/a~1b", "{'a/b':1}", R3},
		{"/a~01", "{'a~1':1}", R3}, {"/a/0", "{'a':[1]}", R3}, {"/a/00", "{'a':[1]}", R1},
		{"/a/-", "{'a':[1]}", R1}, {"/a/1", "{'a':[1]}", R1}, {"/a/b", "{'a':[1]}", R1},
		{"/a/b", "{'a':'b'}", R1}, {"/a/0/b/0", "{'a':[{'b':[null]}]}", R3}, {"/ü", "{'ü':1}", R3}};
	char text[200];

	for (int i = 0; i < COUNT(rows); i++) {
		snprintf(text, sizeof text, WHEN("{'pointer':'%s','op':'present'}"), rows[i].pointer);
		read_model(text, 0);
		ck_assert_msg(level(rows[i].inputs, &nothing) == rows[i].level, "%s in %s", rows[i].pointer,
			rows[i].inputs);
	}
}
END_TEST

START_TEST(hours_are_of_the_zone_that_is_named) /* proves L3-03 */
{
	struct risk_context c = {0};

	setenv("TZ", "XYZ-5", 1); /* five hours ahead of UTC */
	tzset();
	risk_clock_read(INT64_C(1767312000) * 1000000, &c.clock); /* 2026-01-02, a Friday, 00:00 UTC */
	ck_assert_int_eq(c.clock.minute[RISK_UTC], 0);
	ck_assert_int_eq(c.clock.minute[RISK_LOCAL], 300);
	ck_assert_int_eq(c.clock.weekday[RISK_UTC], 5);
	read_model(FACTOR("'unattended':{'from':'04:00','to':'06:00','zone':'utc'}"), 0);
	ck_assert_int_eq(level("{}", &c), R1);
	read_model(FACTOR("'unattended':{'from':'04:00','to':'06:00'}"), 0);
	ck_assert_int_eq(level("{}", &c), R3);
	read_model(FACTOR("'unattended':{'from':'04:00','to':'24:00','zone':'local'}"), 0);
	ck_assert_int_eq(level("{}", &c), R3);
	read_model(FACTOR("'unattended':{'days':['fri'],'zone':'local'}"), 0);
	ck_assert_int_eq(level("{}", &c), R3);
	read_model(FACTOR("'unattended':{'days':['thu'],'zone':'utc'}"), 0);
	ck_assert_int_eq(level("{}", &c), R1);
}
END_TEST

START_TEST(window_begins_with_its_first_minute_and_ends_before_its_last) /* proves L3-03 */
{
	static const struct {
		const char *from, *to;
		int minute;
		enum risk level;
	} rows[] = {{"09:00", "17:00", 539, R1}, {"09:00", "17:00", 540, R3}, {"09:00", "17:00", 1019, R3},
		{"09:00", "17:00", 1020, R1}, {"17:00", "09:00", 1019, R1}, {"17:00", "09:00", 1020, R3},
		{"17:00", "09:00", 0, R3}, {"17:00", "09:00", 539, R3}, {"17:00", "09:00", 540, R1},
		{"20:00", "24:00", 1439, R3}, {"20:00", "24:00", 0, R1}, {"00:00", "06:00", 0, R3}};
	char text[200];

	for (int i = 0; i < COUNT(rows); i++) {
		const struct risk_context c = {.clock = {.minute = {rows[i].minute, 700}}};

		snprintf(text, sizeof text, FACTOR("'unattended':{'from':'%s','to':'%s','zone':'utc'}"),
			rows[i].from, rows[i].to);
		read_model(text, 0);
		ck_assert_msg(level("{}", &c) == rows[i].level, "%s to %s at %d", rows[i].from, rows[i].to,
			rows[i].minute);
	}
}
END_TEST

static unsigned seven(void *arg, bool own, const char *resource)
{
	struct buf *b = arg;

	buf_addf(b, "%s%s ", own ? "own" : "", resource ? resource : "-");
	return 7;
}

START_TEST(running_sessions_are_counted_as_asked) /* proves L3-03 */
{
	struct buf asked = {0};
	const struct risk_context c = {.running = seven, .arg = &asked};

	read_model(FACTOR("'running':{'at_least':7,'of':'capability'}"), 0);
	ck_assert_int_eq(level("{}", &c), R3);
	read_model(FACTOR("'running':{'at_least':8,'of':'resource','resource':'oven'}"), 0);
	ck_assert_int_eq(level("{}", &c), R1);
	read_model(FACTOR("'running':{'at_least':7,'of':'resource'}"), 0);
	ck_assert_int_eq(level("{}", &c), R3);
	ck_assert_str_eq(buf_text(&asked), "- oven own- ");
	ck_assert_int_eq(level("{}", &nothing), R1);
	buf_fini(&asked);
}
END_TEST

/* A sentence that would not be true is not said. */
START_TEST(a_change_that_another_rule_punishes_is_not_suggested)
{
	struct risk_result result;
	char out[256];
	json_t *v = decl_parse("{'a':20}");

	read_model(RULES("{'when':{'pointer':'/a','op':'>','value':10},'level':'R4','reason':'high'},"
			 "{'when':{'pointer':'/a','op':'<=','value':10},'level':'R4','reason':'low'}"),
		0);
	risk_assess(m, v, &nothing, &result);
	ck_assert_int_eq(result.level, R4);
	ck_assert(!risk_suggest(m, v, &nothing, &result, R2, out, sizeof out));
	ck_assert_str_eq(out, "");
	json_decref(v);
}
END_TEST

START_TEST(a_suggestion_that_does_not_fit_is_not_cut)
{
	struct risk_result result;
	char out[256];
	json_t *v = decl_parse("{'a':20}");

	read_model(WHEN("{'pointer':'/a','op':'>','value':10}"), 0);
	risk_assess(m, v, &nothing, &result);
	ck_assert(!risk_suggest(m, v, &nothing, &result, R2, out, 30));
	ck_assert_str_eq(out, "");
	ck_assert(risk_suggest(m, v, &nothing, &result, R2, out, sizeof out));
	ck_assert_str_eq(out, "with /a at most 10 the risk would be R1");
	json_decref(v);
}
END_TEST

START_TEST(long_reasons_are_cut_at_a_character)
{
	struct risk_result result = {.level = R3, .rules = 3};
	char out[16];

	read_model(RULES("{'when':{'pointer':'/a','op':'present'},'level':'R3','reason':'ääääääääääääääää'},"
			 "{'when':{'pointer':'/a','op':'present'},'level':'R3','reason':'b'}"),
		0);
	risk_explain(m, &result, out, sizeof out);
	ck_assert_uint_lt(strlen(out), sizeof out);
	ck_assert_uint_eq(strlen(out) % 2, 0);
}
END_TEST

/* ---- properties, from seeds ---- */

static uint64_t chance_state;

static unsigned chance(unsigned below)
{
	chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(chance_state >> 33) % below;
}

static const char *const names[] = {"a", "b", "c"};

/* Rules that only ever look whether something is high, many or there. */
static void add_rising(struct buf *b, int depth)
{
	static const char *const ops[] = {">", ">=", "count>", "count>=", "present"};
	unsigned op = chance(5);

	if (depth < 3 && chance(4) == 0) {
		buf_addf(b, "{'%s':[", chance(2) ? "all" : "any");
		add_rising(b, depth + 1);
		buf_add_text(b, ",");
		add_rising(b, depth + 1);
		buf_add_text(b, "]}");
		return;
	}
	buf_addf(b, "{'pointer':'/%s%s','op':'%s'", op == 2 || op == 3 ? "l" : "", names[chance(3)], ops[op]);
	if (op < 4)
		buf_addf(b, ",'value':%u", op >= 2 ? chance(4) : chance(100));
	buf_add_text(b, "}");
}

static json_t *rising_inputs(const unsigned *values, const unsigned *lists)
{
	json_t *v = json_object();
	char name[8];

	for (int i = 0; i < 3; i++) {
		json_t *list = json_array();

		if (values[i] > 0)
			json_object_set_new(
				v, names[i], values[i] % 2 ? json_integer(values[i]) : json_real(values[i]));
		for (unsigned j = 0; j < lists[i]; j++)
			json_array_append_new(list, json_null());
		snprintf(name, sizeof name, "l%s", names[i]);
		json_object_set_new(v, name, list);
	}
	return v;
}

START_TEST(raising_an_input_never_lowers_the_risk_of_rules_that_rise)
{
	struct buf b = {0};
	unsigned values[3], lists[3];

	chance_state = (uint64_t)_i + 1;
	buf_add_text(&b, "{'risk_floor':'R1','rules':[");
	for (unsigned i = 0, n = 1 + chance(8); i < n; i++) {
		buf_add_text(&b, i > 0 ? ",{'when':" : "{'when':");
		add_rising(&b, 0);
		buf_addf(&b, ",'level':'R%u','reason':'r'}", 2 + chance(4));
	}
	buf_add_text(&b, "]}");
	read_model(buf_text(&b), 0);
	for (int round = 0; round < 40; round++) {
		enum risk before = R_NONE;

		for (int i = 0; i < 3; i++)
			values[i] = lists[i] = 0;
		for (int step = 0; step < 12; step++) {
			json_t *v = rising_inputs(values, lists);
			struct risk_result now;

			risk_assess(m, v, &nothing, &now);
			ck_assert_msg(now.level >= before, "seed %d: R%d after R%d: %s", _i, (int)now.level,
				(int)before, buf_text(&b));
			before = now.level;
			json_decref(v);
			if (chance(2))
				values[chance(3)] += 1 + chance(40);
			else
				lists[chance(3)]++;
		}
	}
	buf_fini(&b);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_loop_test(t, a_broken_rule_is_refused_with_its_pointer, 0, COUNT(broken));
	tcase_add_test(t, too_many_entries_are_refused);
	tcase_add_test(t, a_rule_that_can_raise_nothing_is_a_warning);
	tcase_add_test(t, without_a_floor_the_risk_is_the_ceiling);
	tcase_add_test(t, large_numbers_are_not_rounded);
	tcase_add_test(t, pointers_follow_rfc_6901);
	tcase_add_test(t, hours_are_of_the_zone_that_is_named);
	tcase_add_test(t, window_begins_with_its_first_minute_and_ends_before_its_last);
	tcase_add_test(t, running_sessions_are_counted_as_asked);
	tcase_add_test(t, a_change_that_another_rule_punishes_is_not_suggested);
	tcase_add_test(t, a_suggestion_that_does_not_fit_is_not_cut);
	tcase_add_test(t, long_reasons_are_cut_at_a_character);
	tcase_add_loop_test(t, raising_an_input_never_lowers_the_risk_of_rules_that_rise, 0, 100);
}

static void forget(void)
{
	risk_model_free(m);
	m = NULL;
	buf_fini(&decl_said);
}

static void add_all(TCase *t)
{
	tcase_add_checked_fixture(t, NULL, forget);
	add_tests(t);
}

int main(void)
{
	return decl_run("risk", add_all);
}
