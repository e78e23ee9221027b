/* SPDX-License-Identifier: MIT */
/* risk_read.c: reads floor, rules and context factors of a declaration.
 * Owns their form and the complaints about it. Never assesses a task (risk.c). */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "policy/declaration.h"
#include "policy/risk_private.h"

static const char *const junctions[] = {
	[JUNCTION_ALL] = "all", [JUNCTION_ANY] = "any", [JUNCTION_NOT] = "not"};

/* --- conditions --- */

static bool is_scalar(const json_t *v)
{
	return v && !json_is_array(v) && !json_is_object(v);
}

static bool is_pair(const json_t *v)
{
	return json_array_size(v) == 2 && json_is_number(json_array_get(v, 0)) &&
		json_is_number(json_array_get(v, 1)) &&
		jpoint_compare(json_array_get(v, 0), json_array_get(v, 1)) <= 0;
}

static bool is_list(const json_t *v)
{
	for (size_t i = 0; i < json_array_size(v); i++)
		if (!is_scalar(json_array_get(v, i)))
			return false;
	return json_array_size(v) > 0;
}

static void read_value(struct declaration *d, const struct declared *when, struct risk_test *t)
{
	static const char *const forms[] = {[ARG_NONE] = "nothing",
		[ARG_NUMBER] = "a number",
		[ARG_SCALAR] = "a string, a number, true, false or null",
		[ARG_LIST] = "an array, not empty, of strings, numbers, true, false and null",
		[ARG_PAIR] = "an array of two numbers, the lower one first",
		[ARG_SIZE] = "a whole number from 0 on"};
	struct declared value = declared_member(when, "value");
	enum risk_argument argument = risk_operators[t->op].argument;
	const json_t *v = value.value;
	bool fits = argument == ARG_NONE ? v == NULL :
		argument == ARG_NUMBER   ? json_is_number(v) :
		argument == ARG_SCALAR   ? is_scalar(v) :
		argument == ARG_LIST     ? is_list(v) :
		argument == ARG_PAIR     ? is_pair(v) :
					   json_is_integer(v) && json_integer_value(v) >= 0;

	if (fits)
		t->value = v ? json_deep_copy(v) : NULL;
	else if (v == NULL)
		declaration_complain(d, &value, "is missing; \"%s\" compares with %s",
			risk_operators[t->op].name, forms[argument]);
	else
		declaration_complain(d, &value, "does not go with \"%s\", which compares with %s",
			risk_operators[t->op].name, forms[argument]);
}

static void read_op(struct declaration *d, const struct declared *when, struct risk_test *t)
{
	struct declared op = declared_member(when, "op");
	struct buf known = {0};

	for (t->op = 0; t->op < OP_COUNT; t->op++) {
		if (json_is_string(op.value) &&
			strcmp(json_string_value(op.value), risk_operators[t->op].name) == 0)
			break;
		buf_addf(&known, "%s%s", t->op > 0 ? " " : "", risk_operators[t->op].name);
	}
	if (t->op < OP_COUNT) {
		read_value(d, when, t);
	} else {
		t->op = OP_PRESENT;
		declaration_complain(d, &op, "is %s; write one of %s", op.value ? "not known" : "missing",
			buf_text(&known));
	}
	buf_fini(&known);
}

static void read_comparison(struct declaration *d, const struct declared *when, struct risk_test *t)
{
	static const char *const members[] = {"pointer", "op", "value", NULL};
	static const char form[] = "a JSON pointer into inputs, like \"/temperature_c\"";
	struct declared pointer = declared_member(when, "pointer");

	declared_only(d, when, members);
	if (!json_is_string(pointer.value))
		declared_complain_kind(d, &pointer, form);
	else if (!(t->pointer = jpoint_new(
			   json_string_value(pointer.value), json_string_length(pointer.value))))
		declaration_complain(d, &pointer,
			"is no JSON pointer of at most %d bytes and %d steps; write %s", JPOINT_TEXT_MAX,
			JPOINT_STEPS_MAX, form);
	read_op(d, when, t);
}

static void read_test(struct declaration *d, const struct declared *when, int depth, struct risk_test *t);

static void read_junction(struct declaration *d, const struct declared *when, int depth, struct risk_test *t)
{
	struct declared parts = declared_member(when, junctions[t->junction]);
	bool is_not = t->junction == JUNCTION_NOT;

	declared_only(d, when, (const char *const[]){junctions[t->junction], NULL});
	if (depth >= RISK_DEPTH_MAX) {
		declaration_complain(d, when, "nests deeper than %d; split the rule", RISK_DEPTH_MAX);
		return;
	}
	if (!is_not && json_array_size(parts.value) == 0) {
		declared_complain_kind(d, &parts, "an array, not empty, of conditions");
		return;
	}
	t->part_count = is_not ? 1 : json_array_size(parts.value);
	t->parts = xcalloc(t->part_count, sizeof *t->parts);
	for (size_t i = 0; i < t->part_count; i++) {
		struct declared part = is_not ? parts : declared_item(&parts, i);

		read_test(d, &part, depth + 1, &t->parts[i]);
	}
}

static void read_test(struct declaration *d, const struct declared *when, int depth, struct risk_test *t)
{
	if (!declared_is_object(
		    d, when, "{\"pointer\": ..., \"op\": ..., \"value\": ...}, or one of all, any and not"))
		return;
	for (enum risk_junction j = JUNCTION_ALL; j <= JUNCTION_NOT; j++)
		if (json_object_get(when->value, junctions[j]))
			t->junction = j;
	if (t->junction == JUNCTION_NONE)
		read_comparison(d, when, t);
	else
		read_junction(d, when, depth, t);
}

static void free_test(struct risk_test *t)
{
	for (size_t i = 0; i < t->part_count; i++)
		free_test(&t->parts[i]);
	free(t->parts);
	jpoint_free(t->pointer);
	json_decref(t->value);
}

/* --- what rules and factors have in common --- */

static void read_level(
	struct declaration *d, const struct declared *entry, enum risk floor, enum risk *level, char **reason)
{
	struct declared l = declared_member(entry, "level"), r = declared_member(entry, "reason");

	*level = declared_risk(d, &l);
	if (declared_is_text(d, &r, "why it is dangerous, in a few words"))
		*reason = xstrdup(json_string_value(r.value));
	if (*level != R_NONE && *level <= floor)
		declaration_warn(d, &l,
			"never raises anything: the risk begins at R%d; lower risk_floor or leave this out",
			(int)floor);
}

/* --- context factors --- */

/* "18:00" to minutes; 24:00 is the end of the day. -1 where it is none. */
static int read_minute(const char *text)
{
	int hour, minute;

	if (!text || strlen(text) != 5 || text[2] != ':' || strspn(text, "0123456789:") != 5 ||
		strchr(text, ':') != text + 2 || strrchr(text, ':') != text + 2)
		return -1;
	hour = (text[0] - '0') * 10 + text[1] - '0';
	minute = (text[3] - '0') * 10 + text[4] - '0';
	if (minute > 59 || hour > 24 || (hour == 24 && minute > 0))
		return -1;
	return hour * 60 + minute;
}

static void read_days(struct declaration *d, const struct declared *days, struct risk_factor *f)
{
	static const char *const names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
	static const char form[] = "an array of some of sun, mon, tue, wed, thu, fri, sat";

	if (!declared_is_array(d, days, form))
		return;
	for (size_t i = 0; i < json_array_size(days->value); i++) {
		struct declared day = declared_item(days, i);
		unsigned bit = 0;

		for (unsigned j = 0; j < 7; j++)
			if (json_is_string(day.value) && strcmp(json_string_value(day.value), names[j]) == 0)
				bit = 1u << j;
		if (bit == 0)
			declaration_complain(
				d, &day, "is no day; write one of sun, mon, tue, wed, thu, fri, sat");
		f->days |= bit;
	}
}

static void read_hours(struct declaration *d, const struct declared *hours, struct risk_factor *f)
{
	static const char *const members[] = {"from", "to", "days", "zone", NULL};
	struct declared from = declared_member(hours, "from"), to = declared_member(hours, "to"),
			days = declared_member(hours, "days"), zone = declared_member(hours, "zone");
	const char *name = json_string_value(zone.value);

	f->is_hours = true;
	f->from = f->to = -1;
	if (!declared_is_object(d, hours, "{\"from\": \"18:00\", \"to\": \"07:00\"}"))
		return;
	declared_only(d, hours, members);
	if (from.value || to.value || !days.value) {
		if ((f->from = read_minute(json_string_value(from.value))) < 0)
			declaration_complain(d, &from, "is no time of day; write one like \"18:00\"");
		if ((f->to = read_minute(json_string_value(to.value))) < 0)
			declaration_complain(d, &to, "is no time of day; write one like \"07:00\"");
		if (f->from >= 0 && f->from % 1440 == f->to % 1440)
			declaration_complain(d, &to, "is when it begins; for whole days write days");
	}
	if (days.value)
		read_days(d, &days, f);
	if (zone.value && (!name || (strcmp(name, "utc") != 0 && strcmp(name, "local") != 0)))
		declaration_complain(d, &zone, "is not known; write \"local\" or \"utc\"");
	f->zone = name && strcmp(name, "utc") == 0 ? RISK_UTC : RISK_LOCAL;
}

static bool is_own_resource(const struct declared *safety, const char *name)
{
	const json_t *own = json_object_get(safety->value, "resource_types");

	for (size_t i = 0; i < json_array_size(own); i++) {
		const char *other = json_string_value(json_array_get(own, i));

		if (other && (!name || strcmp(other, name) == 0))
			return true;
	}
	return false;
}

static void read_running(struct declaration *d, const struct declared *safety, const struct declared *running,
	struct risk_factor *f)
{
	static const char *const members[] = {"at_least", "of", "resource", NULL};
	struct declared least = declared_member(running, "at_least"), of = declared_member(running, "of"),
			resource = declared_member(running, "resource");
	const char *name = json_string_value(of.value), *which = json_string_value(resource.value);

	if (!declared_is_object(d, running, "{\"at_least\": 2, \"of\": \"capability\"}"))
		return;
	declared_only(d, running, members);
	if (!json_is_integer(least.value) || json_integer_value(least.value) < 1 ||
		json_integer_value(least.value) > INT_MAX)
		declaration_complain(d, &least, "is %s; write a whole number from 1 on",
			least.value ? "none that does" : "missing");
	else
		f->at_least = (unsigned)json_integer_value(least.value);
	if (!name || (strcmp(name, "capability") != 0 && strcmp(name, "resource") != 0))
		declaration_complain(d, &of, "is %s; write \"capability\" or \"resource\"",
			of.value ? "not known" : "missing");
	f->of_resource = name && strcmp(name, "resource") == 0;
	if (resource.value && (!which || !f->of_resource))
		declaration_complain(d, &resource, "%s",
			which ? "goes with \"of\": \"resource\" only; leave it out" :
				"is no string; write a name of resource_types");
	else if (f->of_resource && !is_own_resource(safety, which))
		declaration_complain(d, which ? &resource : running,
			"names no resource that is in resource_types; add it there");
	else if (which)
		f->resource = xstrdup(which);
}

static void read_factor(struct declaration *d, const struct declared *safety, const struct declared *entry,
	enum risk floor, struct risk_factor *f)
{
	static const char *const hours_members[] = {"unattended", "level", "reason", NULL};
	static const char *const running_members[] = {"running", "level", "reason", NULL};
	struct declared hours = declared_member(entry, "unattended"),
			running = declared_member(entry, "running");

	if (!declared_is_object(d, entry, "an object with level, reason, and unattended or running"))
		return;
	if (hours.value)
		read_hours(d, &hours, f);
	else if (running.value)
		read_running(d, safety, &running, f);
	else
		declaration_complain(d, entry, "has neither unattended nor running; write one of them");
	if (hours.value || running.value)
		declared_only(d, entry, hours.value ? hours_members : running_members);
	read_level(d, entry, floor, &f->level, &f->reason);
}

/* --- the outside --- */

static void read_rule(
	struct declaration *d, const struct declared *entry, enum risk floor, struct risk_rule *r)
{
	static const char *const members[] = {"when", "level", "reason", NULL};
	struct declared when = declared_member(entry, "when");

	if (!declared_is_object(d, entry, "an object with when, level and reason"))
		return;
	declared_only(d, entry, members);
	read_test(d, &when, 0, &r->when);
	read_level(d, entry, floor, &r->level, &r->reason);
}

/* The number of entries to read; 0 where it is no array, or too long. */
static size_t count_entries(struct declaration *d, const struct declared *list, size_t most)
{
	if (!list->value || !declared_is_array(d, list, "an array of objects"))
		return 0;
	if (json_array_size(list->value) <= most)
		return json_array_size(list->value);
	declaration_complain(d, list, "has %zu entries; %zu are allowed", json_array_size(list->value), most);
	return 0;
}

struct risk_model *risk_model_read(struct declaration *d, const struct declared *safety, enum risk ceiling)
{
	struct risk_model *m = xcalloc(1, sizeof *m);
	struct declared floor = declared_member(safety, "risk_floor"),
			rules = declared_member(safety, "rules"),
			context = declared_member(safety, "context");

	m->floor = floor.value ? declared_risk(d, &floor) : ceiling;
	if (ceiling != R_NONE && m->floor > ceiling)
		declaration_complain(d, &floor, "is above risk_ceiling; lower it");
	m->rule_count = count_entries(d, &rules, RISK_RULES_MAX);
	for (size_t i = 0; i < m->rule_count; i++) {
		struct declared entry = declared_item(&rules, i);

		read_rule(d, &entry, m->floor, &m->rules[i]);
	}
	m->factor_count = count_entries(d, &context, RISK_FACTORS_MAX);
	for (size_t i = 0; i < m->factor_count; i++) {
		struct declared entry = declared_item(&context, i);

		read_factor(d, safety, &entry, m->floor, &m->factors[i]);
	}
	return m;
}

void risk_model_free(struct risk_model *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->rule_count; i++) {
		free_test(&m->rules[i].when);
		free(m->rules[i].reason);
	}
	for (size_t i = 0; i < m->factor_count; i++) {
		free(m->factors[i].resource);
		free(m->factors[i].reason);
	}
	free(m);
}
