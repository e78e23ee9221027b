/* SPDX-License-Identifier: MIT */
/* test_gate_random.c: what holds of every verdict, over policies, tasks and moments made from seeds. */
#include "policy/envelope.h"
#include "support/gate_kit.h"
#include "jschema/jschema.h"

#define POLICIES 60
#define TASKS 400
#define CAPABILITIES 4
#define CALLERS 5

static uint64_t chance_state;

static unsigned chance(unsigned below)
{
	chance_state = chance_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(chance_state >> 33) % below;
}

/* ---- a policy ---- */

static void add_when(struct buf *b, int depth)
{
	static const char *const ops[] = {"'>','value':3", "'>=','value':5", "'<','value':2.5",
		"'==','value':4", "'!=','value':'x'", "'in','value':[1,2,'x']", "'not_in','value':[0,null]",
		"'between','value':[2,4]", "'present'", "'absent'", "'count>','value':1"};

	if (depth < 4 && chance(3) == 0) {
		if (chance(3) == 0) {
			buf_add_text(b, "{'not':");
			add_when(b, depth + 1);
		} else {
			buf_addf(b, "{'%s':[", chance(2) ? "all" : "any");
			add_when(b, depth + 1);
			buf_add_text(b, ",");
			add_when(b, depth + 1);
			buf_add_text(b, "]");
		}
	} else {
		buf_addf(b, "{'pointer':'/%c%s','op':%s", 'a' + (int)chance(4), chance(5) == 0 ? "/0" : "",
			ops[chance(11)]);
	}
	buf_add_text(b, "}");
}

static void declare(int index)
{
	struct buf b = {0};
	char name[16];
	unsigned floor = 1 + chance(4), rules = chance(6);

	buf_addf(&b, "'risk_ceiling':'R%u','risk_floor':'R%u','resource_types':['x'],'rules':[",
		floor + chance(6 - floor), floor);
	for (unsigned i = 0; i < rules; i++) {
		buf_add_text(&b, i > 0 ? ",{'when':" : "{'when':");
		add_when(&b, 0);
		buf_addf(&b, ",'level':'R%u','reason':'rule %u'}", 1 + chance(5), i);
	}
	buf_add_text(&b, "]");
	if (chance(2))
		buf_addf(&b,
			",'context':[{'unattended':{'from':'%02u:00','to':'%02u:30'},'level':'R%u','reason':'"
			"night'},"
			"{'running':{'at_least':%u,'of':'resource'},'level':'R%u','reason':'busy'}]",
			chance(24), chance(24), 1 + chance(5), 1 + chance(4), 1 + chance(5));
	if (chance(2))
		buf_addf(&b,
			",'envelope':{'parameters':{'a':{'max':%u,'hard_limit':9}},'prohibited_actions':['x']"
			"}",
			chance(9));
	snprintf(name, sizeof name, "c%d", index);
	gate_kit_declare(name,
		chance(2) ? "{}" : "{'properties':{'a':{'type':'number','maximum':7}},'required':['a']}",
		chance(2), buf_text(&b));
	buf_fini(&b);
}

static struct policy *make_policy(void)
{
	struct buf b = {0};
	struct policy *p;

	buf_addf(&b, "[daemon]\ncallee_id = c\n[store]\nencrypted = %s\n", chance(2) ? "yes" : "no");
	for (int i = 0; i < CAPABILITIES; i++) {
		declare(i);
		buf_addf(&b, "[capability c%d]\ndeclaration = c%d.json\ncommand = /bin/true\n", i, i);
	}
	for (int i = 0; i < CALLERS; i++)
		buf_addf(&b,
			"[caller k%d]\ncapabilities = %s\nmax_risk = R%u\nmax_data_class = T%u\nrate_limit = "
			"%s\nrate_burst = %u\n",
			i, chance(4) ? "*" : "c0", 1 + chance(5), 1 + chance(4), chance(2) ? "off" : "60/min",
			1 + chance(5));
	p = gate_kit_load(buf_text(&b));
	ck_assert_msg(p != NULL, "%s", buf_text(&gate_kit_said));
	buf_fini(&b);
	return p;
}

/* ---- a task and its moment ---- */

static json_t *make_value(int depth)
{
	json_t *v;

	switch (chance(depth < 2 ? 9u : 6u)) {
	case 0: return json_null();
	case 1: return json_string(chance(2) ? "x" : "");
	case 2: return json_real(chance(20) / 2.0);
	case 3: return json_boolean(chance(2));
	case 4:
	case 5: return json_integer(chance(10));
	case 6:
		v = json_object();
		json_object_set_new(v, "0", make_value(depth + 1));
		return v;
	default:
		v = json_array();
		for (unsigned i = chance(4); i > 0; i--)
			json_array_append_new(v, make_value(depth + 1));
		return v;
	}
}

static unsigned running(void *arg, const char *capability)
{
	return *(unsigned *)arg + (capability[1] == '0');
}

struct scene {
	char capability[8], caller[8];
	struct task task;
	struct gate_context context;
	struct rate rate;
	unsigned running;
};

static void make_scene(struct scene *s)
{
	static const char *const members[] = {"a", "b", "c", "d", "action"};

	*s = (struct scene){.running = chance(5)};
	snprintf(s->capability, sizeof s->capability, "c%u", chance(CAPABILITIES));
	snprintf(s->caller, sizeof s->caller, "k%u", chance(CALLERS));
	s->task = (struct task){.capability = s->capability,
		.data_class = (enum data_class)(chance(3) ? T1 : chance(4)),
		.inputs = json_object()};
	for (int i = 0; i < COUNT(members); i++)
		if (chance(3) > 0)
			json_object_set_new(s->task.inputs, members[i], make_value(0));
	s->context = (struct gate_context){.may_start = chance(5) > 0,
		.may_wait = chance(5) > 0,
		.link_is_safe = chance(2),
		.has_approver = chance(2),
		.has_program = chance(5) == 0,
		.running = running,
		.running_arg = &s->running,
		.now_us = 60000000,
		.rate = &s->rate};
	risk_clock_read((int64_t)chance(7 * 86400) * 1000000, &s->context.clock);
	s->rate.full_at_ns = (int64_t)chance(8) * 1000000000 + INT64_C(58000000000);
}

static bool is_inside(const struct capability *c, const json_t *inputs)
{
	struct envelope_breach breach;

	return jschema_check(c->input_schema, inputs, NULL) &&
		envelope_check_inputs(c->envelope, inputs, &breach) == ENVELOPE_INSIDE;
}

/* Whatever is not refused is within every limit that there is. */
static void check_limits(const struct scene *s, const struct config_caller *caller, const struct policy *p,
	const struct gate_result *v)
{
	const struct capability *c = v->capability;

	if (v->kind == GATE_REJECTED) {
		ck_assert(v->code != NULL && v->message[0] != '\0' && c == NULL);
		return;
	}
	ck_assert(c != NULL && strcmp(c->name, s->capability) == 0 && config_caller_may(caller, c->name));
	ck_assert(v->risk >= R1 && v->risk <= caller->max_risk && v->risk <= c->risk_ceiling &&
		v->risk == v->assessed.level);
	ck_assert(s->task.data_class <= caller->max_data_class);
	ck_assert(s->task.data_class < T3 || (p->config->store_is_encrypted && s->context.link_is_safe));
	ck_assert(s->context.may_start || s->context.may_wait);
	ck_assert_int_eq(rate_wait_us(&caller->rate, &s->rate, s->context.now_us), 0);
	ck_assert(is_inside(c, s->task.inputs));
	ck_assert_int_eq((v->needs & NEEDS_HUMAN) != 0,
		(c->requires_human_approval && v->risk >= R3) || s->task.data_class == T4);
	ck_assert_int_eq((v->needs & NEEDS_PROGRAM) != 0, s->context.has_program);
	ck_assert_int_eq(v->kind == GATE_NEEDS_APPROVAL, v->needs != 0);
	ck_assert(v->kind == GATE_APPROVED || s->context.has_approver);
}

static bool is_same(const struct gate_result *a, const struct gate_result *b)
{
	return a->kind == b->kind && a->risk == b->risk && a->assessed.rules == b->assessed.rules &&
		a->assessed.factors == b->assessed.factors && a->capability == b->capability &&
		a->needs == b->needs && a->max_duration_us == b->max_duration_us &&
		a->retry_us == b->retry_us && a->code == b->code && strcmp(a->message, b->message) == 0 &&
		strcmp(a->suggestion, b->suggestion) == 0 && strcmp(a->why, b->why) == 0;
}

/* proves L3-03, L3-04, L3-06 */
START_TEST(gate_passes_nothing_beyond_a_limit_and_answers_the_same)
{
	struct policy *p;
	int kinds[3] = {0};

	chance_state = (uint64_t)_i + 1;
	p = make_policy();
	for (int i = 0; i < TASKS; i++) {
		struct scene s;
		struct gate_result v, again;
		const struct config_caller *caller;
		json_t *before;

		make_scene(&s);
		before = json_deep_copy(s.task.inputs);
		caller = gate_identify(p, s.caller, NULL, &v);
		memset(&v, 0x55, sizeof v);
		memset(&again, 0xaa, sizeof again);
		gate_decide(p, caller, &s.task, &s.context, &v);
		gate_decide(p, caller, &s.task, &s.context, &again);
		ck_assert_msg(
			is_same(&v, &again), "seed %d task %d: %s | %s", _i, i, v.message, again.message);
		ck_assert(json_equal(before, s.task.inputs));
		check_limits(&s, caller, p, &v);
		kinds[v.kind]++;
		json_decref(before);
		json_decref(s.task.inputs);
	}
	ck_assert_int_gt(kinds[GATE_REJECTED], 0);
	policy_unref(p);
}
END_TEST

/* With less strict a caller, a task that passed passes still. */
START_TEST(caller_with_more_rights_is_refused_nothing_another_may)
{
	struct policy *p;

	chance_state = (uint64_t)_i + 1000;
	p = make_policy();
	for (int i = 0; i < TASKS; i++) {
		struct scene s;
		struct gate_result v, more;
		const struct config_caller *caller;
		struct config_caller mighty;

		make_scene(&s);
		caller = gate_identify(p, s.caller, NULL, &v);
		mighty = *caller;
		mighty.max_risk = R5;
		mighty.max_data_class = T4;
		mighty.rate.count = 0;
		gate_decide(p, caller, &s.task, &s.context, &v);
		gate_decide(p, &mighty, &s.task, &s.context, &more);
		ck_assert(v.kind == GATE_REJECTED || more.kind == v.kind);
		json_decref(s.task.inputs);
	}
	policy_unref(p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("gate_random");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, gate_kit_setup, gate_kit_teardown);
	tcase_add_loop_test(t, gate_passes_nothing_beyond_a_limit_and_answers_the_same, 0, POLICIES);
	tcase_add_loop_test(t, caller_with_more_rights_is_refused_nothing_another_may, 0, POLICIES / 3);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
