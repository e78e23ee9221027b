/* SPDX-License-Identifier: MIT */
/* risk.c: the risk level of a task.
 * Owns when a condition holds, and the explanation. Never reads a declaration (risk_read.c), never keeps
 * anything. */
#include "policy/risk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "protocol/message.h"
#include "policy/risk_private.h"

const struct risk_operator risk_operators[OP_COUNT] = {
	[OP_ABOVE] = {">", ARG_NUMBER, SIGN(1), OP_UPTO},
	[OP_FROM] = {">=", ARG_NUMBER, SIGN(0) | SIGN(1), OP_BELOW},
	[OP_BELOW] = {"<", ARG_NUMBER, SIGN(-1), OP_FROM},
	[OP_UPTO] = {"<=", ARG_NUMBER, SIGN(-1) | SIGN(0), OP_ABOVE},
	[OP_IS] = {"==", ARG_SCALAR, 0, OP_IS_NOT},
	[OP_IS_NOT] = {"!=", ARG_SCALAR, 0, OP_IS},
	[OP_IN] = {"in", ARG_LIST, 0, OP_NOT_IN},
	[OP_NOT_IN] = {"not_in", ARG_LIST, 0, OP_IN},
	[OP_BETWEEN] = {"between", ARG_PAIR, 0, OP_NOT_BETWEEN},
	[OP_PRESENT] = {"present", ARG_NONE, 0, OP_ABSENT},
	[OP_ABSENT] = {"absent", ARG_NONE, 0, OP_PRESENT},
	[OP_COUNT_ABOVE] = {"count>", ARG_SIZE, SIGN(1), OP_COUNT_UPTO},
	[OP_COUNT_FROM] = {"count>=", ARG_SIZE, SIGN(0) | SIGN(1), OP_COUNT_BELOW},
	[OP_COUNT_BELOW] = {"count<", ARG_SIZE, SIGN(-1), OP_COUNT_FROM},
	[OP_COUNT_UPTO] = {"count<=", ARG_SIZE, SIGN(-1) | SIGN(0), OP_COUNT_ABOVE},
	[OP_COUNT_IS] = {"count==", ARG_SIZE, SIGN(0), OP_COUNT_IS_NOT},
	[OP_COUNT_IS_NOT] = {"count!=", ARG_SIZE, SIGN(-1) | SIGN(1), OP_COUNT_IS},
};

/* --- conditions --- */

static bool is_listed(const json_t *list, const json_t *v)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (jpoint_same(json_array_get(list, i), v))
			return true;
	return false;
}

static bool is_between(const json_t *pair, const json_t *v)
{
	return json_is_number(v) && jpoint_compare(v, json_array_get(pair, 0)) >= 0 &&
		jpoint_compare(v, json_array_get(pair, 1)) <= 0;
}

static bool accepts_size(const struct risk_test *t, const json_t *v)
{
	json_int_t most = json_integer_value(t->value);
	json_int_t size = (json_int_t)(json_is_object(v) ? json_object_size(v) : json_array_size(v));

	if (!json_is_object(v) && !json_is_array(v))
		return false;
	return (risk_operators[t->op].accepts & SIGN((size > most) - (size < most))) != 0;
}

/* A missing value, or one of another type, meets no condition except `absent`. The input_schema says what
 * must be there, and was checked before. */
static bool compare(const struct risk_test *t, const json_t *inputs)
{
	const json_t *v = jpoint_get(t->pointer, inputs);

	if (v == NULL || t->op == OP_ABSENT)
		return v == NULL && t->op == OP_ABSENT;
	switch (risk_operators[t->op].argument) {
	case ARG_NONE: return true;
	case ARG_NUMBER:
		return json_is_number(v) &&
			(risk_operators[t->op].accepts & SIGN(jpoint_compare(v, t->value))) != 0;
	case ARG_SCALAR: return jpoint_same(v, t->value) == (t->op == OP_IS);
	case ARG_LIST: return is_listed(t->value, v) == (t->op == OP_IN);
	case ARG_PAIR: return is_between(t->value, v);
	case ARG_SIZE: return accepts_size(t, v);
	}
	return false;
}

/* Recursion is bounded: risk_read.c refuses conditions deeper than RISK_DEPTH_MAX. */
bool risk_test_holds(const struct risk_test *t, const json_t *inputs)
{
	bool looking_for = t->junction == JUNCTION_ANY;

	if (t->junction == JUNCTION_NONE)
		return compare(t, inputs);
	if (t->junction == JUNCTION_NOT)
		return !risk_test_holds(&t->parts[0], inputs);
	for (size_t i = 0; i < t->part_count; i++)
		if (risk_test_holds(&t->parts[i], inputs) == looking_for)
			return looking_for;
	return !looking_for;
}

/* --- context --- */

void risk_clock_read(int64_t wall_us, struct risk_clock *out)
{
	time_t now = (time_t)(wall_us / 1000000);
	struct tm tm[RISK_ZONES] = {{0}};

	gmtime_r(&now, &tm[RISK_UTC]);
	localtime_r(&now, &tm[RISK_LOCAL]);
	for (int i = 0; i < RISK_ZONES; i++) {
		out->minute[i] = tm[i].tm_hour * 60 + tm[i].tm_min;
		out->weekday[i] = tm[i].tm_wday;
	}
}

static bool factor_holds(const struct risk_factor *f, const struct risk_context *context)
{
	int now = context->clock.minute[f->zone];

	if (!f->is_hours)
		return (context->running ? context->running(context->arg, f->of_resource && !f->resource,
						   f->resource) :
					   0) >= f->at_least;
	if (f->days & (1u << context->clock.weekday[f->zone]))
		return true;
	if (f->from < 0)
		return false;
	if (f->from < f->to)
		return now >= f->from && now < f->to;
	return now >= f->from || now < f->to; /* the span goes over midnight */
}

/* --- the level --- */

void risk_assess_without(const struct risk_model *m, const json_t *inputs, const struct risk_context *context,
	uint32_t without, struct risk_result *out)
{
	*out = (struct risk_result){.level = m->floor};
	for (size_t i = 0; i < m->rule_count; i++) {
		const struct risk_rule *r = &m->rules[i];

		if (r->level <= m->floor || !risk_test_holds(&r->when, inputs))
			continue;
		out->rules |= UINT64_C(1) << i;
		out->level = r->level > out->level ? r->level : out->level;
	}
	for (size_t i = 0; i < m->factor_count; i++) {
		const struct risk_factor *f = &m->factors[i];

		if ((without & (1u << i)) != 0 || f->level <= m->floor || !factor_holds(f, context))
			continue;
		out->factors |= 1u << i;
		out->level = f->level > out->level ? f->level : out->level;
	}
}

void risk_assess(const struct risk_model *m, const json_t *inputs, const struct risk_context *context,
	struct risk_result *out)
{
	risk_assess_without(m, inputs, context, 0, out);
}

static void add_reason(char *out, size_t size, enum risk level, const char *reason)
{
	size_t used = strlen(out);
	int wrote = snprintf(
		out + used, size - used, "%s%s (%s)", used > 0 ? "; " : "", reason, risk_names[level]);

	/* a later reason is left out where it does not fit; the first one is cut between characters */
	if (wrote >= (int)(size - used))
		out[used > 0 ? used : buf_utf8_cut(out, size - 1, size - 4)] = '\0';
}

void risk_explain(const struct risk_model *m, const struct risk_result *result, char *out, size_t size)
{
	out[0] = '\0';
	for (enum risk level = R5; level > m->floor; level--) {
		for (size_t i = 0; i < m->rule_count; i++)
			if ((result->rules >> i & 1) != 0 && m->rules[i].level == level)
				add_reason(out, size, level, m->rules[i].reason);
		for (size_t i = 0; i < m->factor_count; i++)
			if ((result->factors >> i & 1) != 0 && m->factors[i].level == level)
				add_reason(out, size, level, m->factors[i].reason);
	}
}
