/* SPDX-License-Identifier: MIT */
/* gate.c: the policy's answer to a task.
 * Owns the order of the checks, and the sentence for each refusal. Never does I/O, never reads a clock,
 * never keeps anything between two tasks. */
#include "policy/gate.h"

#include <stdio.h>
#include <string.h>

#include "policy/envelope.h"
#include "policy/output_check.h"
#include "jschema/jschema.h"
#include "base/semver.h"

static void reject(struct gate_result *v, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void reject(struct gate_result *v, const char *code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(v->message, sizeof v->message, fmt, ap);
	va_end(ap);
	v->kind = GATE_REJECTED;
	v->code = code;
}

const struct config_caller *gate_identify(
	const struct policy *p, const char *caller_id, const char *user, struct gate_result *v)
{
	const struct config_caller *caller = config_find_caller(p->config, caller_id);

	memset(v, 0, sizeof *v);
	if (caller == NULL) {
		reject(v, "unauthorized", "caller %s is not known here", caller_id);
		return NULL;
	}
	if (caller->amqp_user != NULL && (user == NULL || strcmp(user, caller->amqp_user) != 0)) {
		if (user == NULL)
			reject(v, "unauthorized", "caller %s must send its AMQP user-id", caller_id);
		else
			reject(v, "unauthorized", "AMQP user %.128s may not speak for caller %s", user,
				caller_id);
		return NULL;
	}
	return caller;
}

static int64_t least(int64_t a, int64_t b)
{
	return a == 0 ? b : b == 0 ? a : a < b ? a : b;
}

bool gate_is_within_rate(
	const struct config_caller *caller, const struct rate *rate, int64_t now_us, struct gate_result *v)
{
	const struct rate_limit *limit = &caller->rate;
	long long ms;

	v->retry_us = rate_wait_us(limit, rate, now_us);
	if (v->retry_us == 0)
		return true;
	ms = (v->retry_us + 999) / 1000;
	reject(v, "rate_limited",
		"this caller may send %lld tasks in %lld s, with %d at once, and has sent more",
		(long long)limit->count, (long long)limit->period_us / 1000000, limit->burst);
	snprintf(v->suggestion, sizeof v->suggestion,
		"submit it again in %lld.%03lld s, under a new message_id", ms / 1000, ms % 1000);
	return false;
}

/* --- the checks, each true where the task passes it --- */

struct gate_input {
	const struct policy *policy;
	const struct config_caller *caller;
	const struct task *task;
	const struct gate_context *context;
	const struct capability *capability; /* set by is_offered */
};

static bool is_within_rate(struct gate_input *in, struct gate_result *v)
{
	return gate_is_within_rate(in->caller, in->context->rate, in->context->now_us, v);
}

static bool is_offered(struct gate_input *in, struct gate_result *v)
{
	in->capability = policy_find(in->policy, in->task->capability);
	if (in->capability == NULL)
		reject(v, "unknown_capability", "there is no capability %.128s here", in->task->capability);
	return in->capability != NULL;
}

static bool is_allowed(struct gate_input *in, struct gate_result *v)
{
	if (config_caller_may(in->caller, in->capability->name))
		return true;
	reject(v, "forbidden", "capability %s is not among those of this caller", in->capability->name);
	return false;
}

static bool is_in_range(struct gate_input *in, struct gate_result *v)
{
	const struct capability *cap = in->capability;

	if (in->task->version_range == NULL || semver_satisfies(cap->version, in->task->version_range))
		return true;
	reject(v, "unknown_capability",
		"capability %s is here in version %s, which is not in the range %.128s", cap->name,
		cap->version, in->task->version_range);
	snprintf(v->suggestion, sizeof v->suggestion, "ask for %s", cap->version);
	return false;
}

/* The name of the missing or unexpected property, else the last step of the pointer. */
static const char *property_of(const struct jschema_failure *f)
{
	const char *slash = strrchr(f->instance, '/');

	return f->property[0] != '\0' ? f->property : slash != NULL ? slash + 1 : "";
}

static bool is_valid(struct gate_input *in, struct gate_result *v)
{
	struct jschema_failure f;
	const char *property;

	if (in->task->inputs == NULL) {
		reject(v, "invalid_input", "payload.inputs is missing");
		return false;
	}
	if (jschema_check(in->capability->input_schema, in->task->inputs, &f))
		return true;
	property = property_of(&f);
	reject(v, "invalid_input",
		"inputs do not fit the input_schema of %.64s: %.256s (at \"%.80s\"%s%.60s%s)",
		in->capability->name, f.message, f.instance, *property != '\0' ? ", property \"" : "",
		property, *property != '\0' ? "\"" : "");
	return false;
}

/* A broken schema is found now, and not when the work is done. */
static bool is_expectation_sound(struct gate_input *in, struct gate_result *v)
{
	char why[JSCHEMA_WHY_SIZE] = "";
	struct output_check *e = output_check_new(in->task->expected_output, why, sizeof why);

	if (e == NULL)
		reject(v, "invalid_input", "payload.expected_output.schema is broken: %.400s", why);
	output_check_free(e);
	return e != NULL;
}

static bool is_inside_envelope(struct gate_input *in, struct gate_result *v)
{
	struct envelope_breach breach;

	if (envelope_check_inputs(in->capability->envelope, in->task->inputs, &breach) == ENVELOPE_INSIDE)
		return true;
	reject(v, "policy_denied", "outside the safety envelope of %.64s: %s", in->capability->name,
		breach.message);
	snprintf(v->suggestion, sizeof v->suggestion, "%s", breach.suggestion);
	return false;
}

/* For risk.c: counts running sessions of this capability, of a resource, or of any resource that this
 * capability uses. */
static unsigned count_running(void *arg, bool own, const char *resource)
{
	const struct gate_input *in = arg;
	const struct gate_context *context = in->context;
	unsigned sum = 0;

	if (context->running == NULL)
		return 0;
	if (!own && resource == NULL)
		return context->running(context->running_arg, in->capability->name);
	for (size_t i = 0; i < in->policy->config->capability_count; i++) {
		const struct capability *other = in->policy->capabilities[i];
		bool shares = resource != NULL && capability_uses(other, resource);

		for (char **name = in->capability->resource_types; own && name && *name && !shares; name++)
			shares = capability_uses(other, *name);
		if (shares)
			sum += context->running(context->running_arg, other->name);
	}
	return sum;
}

static bool is_within_risk(struct gate_input *in, struct gate_result *v)
{
	const struct capability *cap = in->capability;
	const struct risk_context context = {
		.clock = in->context->clock, .running = count_running, .arg = in};
	enum risk caller_limit = in->caller->max_risk,
		  limit = caller_limit < cap->risk_ceiling ? caller_limit : cap->risk_ceiling;

	risk_assess(cap->risk, in->task->inputs, &context, &v->assessed);
	risk_explain(cap->risk, &v->assessed, v->why, sizeof v->why);
	v->risk = v->assessed.level;
	if (v->risk <= limit)
		return true;
	reject(v, "risk_too_high", "%s %.64s is of risk %s%s%s%s, and %s is %s",
		v->why[0] != '\0' ? "this task of" : "capability", cap->name, risk_names[v->risk],
		v->why[0] != '\0' ? " (" : "", v->why, v->why[0] != '\0' ? ")" : "",
		limit == caller_limit ? "this caller's limit" : "the most that is ever done here",
		risk_names[limit]);
	if (!risk_suggest(cap->risk, in->task->inputs, &context, &v->assessed, limit, v->suggestion,
		    sizeof v->suggestion))
		snprintf(v->suggestion, sizeof v->suggestion,
			limit == caller_limit ? "use a capability of risk %s or less, or ask the operator to "
						"raise max_risk of this caller" :
						"change the inputs so that the risk is %s or less",
			risk_names[limit]);
	return false;
}

static bool is_fit_for_data(struct gate_input *in, struct gate_result *v)
{
	enum data_class class = in->task->data_class;

	if (class > in->caller->max_data_class) {
		reject(v, "forbidden", "data of class %s is above this caller's limit, %s",
			data_class_names[class], data_class_names[in->caller->max_data_class]);
		return false;
	}
	if (class >= T3 && !in->policy->config->store_is_encrypted) {
		reject(v, "policy_denied",
			"data of class %s needs encryption at rest, which is not offered here",
			data_class_names[class]);
		return false;
	}
	if (class >= T3 && !in->context->link_is_safe) {
		reject(v, "policy_denied",
			"data of class %s needs a verified TLS link to the broker, and there is none here",
			data_class_names[class]);
		return false;
	}
	return true;
}

static void reject_full(const struct gate_input *in, struct gate_result *v)
{
	static const char *const suggestions[] = {
		[FULL_DAEMON] = "submit it again later, under a new message_id",
		[FULL_SHARE] =
			"submit it again when tasks of this caller have started, under a new message_id",
		[FULL_CALLER] =
			("submit it again when tasks of this caller have started, under a new message_id, "
			 "or ask the operator to raise max_pending of this caller"),
	};

	if (in->context->full == FULL_CALLER)
		reject(v, "resource_unavailable", "%d tasks of this caller may wait, and so many do",
			in->caller->max_pending);
	else if (in->context->full == FULL_SHARE)
		reject(v, "resource_unavailable",
			"all slots are taken; %d tasks may wait here, and what is left of that is kept for "
			"callers that have nothing waiting",
			in->policy->config->max_pending);
	else
		reject(v, "resource_unavailable",
			"all slots are taken and as many tasks as may wait do wait, %d",
			in->policy->config->max_pending);
	snprintf(v->suggestion, sizeof v->suggestion, "%s", suggestions[in->context->full]);
}

int gate_kept_places(int max_pending)
{
	return max_pending < 10 ? 1 : max_pending / 10;
}

bool gate_may_wait(const struct config *config, const struct config_caller *caller, unsigned all,
	unsigned own, enum gate_full *full)
{
	unsigned limit = (unsigned)config->max_pending,
		 kept = (unsigned)gate_kept_places(config->max_pending),
		 shared = limit < 10 ? limit : limit - kept; /* below 10 the kept place is one more */

	*full = FULL_DAEMON;
	if (caller->max_pending > 0 && own >= (unsigned)caller->max_pending)
		*full = FULL_CALLER;
	else if (own > 0 && all >= shared)
		*full = FULL_SHARE;
	else
		return all < shared + kept;
	return false;
}

static bool has_room(struct gate_input *in, struct gate_result *v)
{
	if (in->context->may_start || in->context->may_wait)
		return true;
	reject_full(in, v);
	return false;
}

/* The order is part of the protocol: a caller without a right must not learn what else is wrong with its
 * task. The rate comes first, so that it bounds what all tasks of a caller cost, good or bad. */
static bool (*const checks[])(struct gate_input *in, struct gate_result *v) = {is_within_rate, is_offered,
	is_allowed, is_in_range, is_valid, is_expectation_sound, is_inside_envelope, is_within_risk,
	is_fit_for_data, has_room};

/* Whose approval the task needs, after all checks are passed. */
static unsigned find_needs(const struct gate_input *in, const struct gate_result *v)
{
	bool needs_human =
		(in->capability->requires_human_approval && v->risk >= R3) || in->task->data_class >= T4;

	return (needs_human ? NEEDS_HUMAN : 0u) | (in->context->has_program ? NEEDS_PROGRAM : 0u);
}

/* A task that needs an approval which cannot be had is denied. */
static void deny_unapproved(const struct gate_input *in, struct gate_result *v)
{
	if ((v->needs & NEEDS_HUMAN) == 0)
		reject(v, "policy_denied",
			"the policy program has the last word here, and it cannot be asked");
	else if (in->task->data_class >= T4)
		reject(v, "policy_denied",
			"data of class %s needs a human's approval, and there is nobody to ask here",
			data_class_names[in->task->data_class]);
	else
		reject(v, "policy_denied",
			"capability %s needs a human's approval, and there is nobody to ask here",
			in->capability->name);
}

void gate_decide(const struct policy *p, const struct config_caller *caller, const struct task *task,
	const struct gate_context *context, struct gate_result *v)
{
	struct gate_input in = {.policy = p, .caller = caller, .task = task, .context = context};

	memset(v, 0, sizeof *v);
	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
		if (!checks[i](&in, v))
			return;
	v->needs = find_needs(&in, v);
	if (v->needs != 0 && !context->has_approver) {
		deny_unapproved(&in, v);
		return;
	}
	if (v->needs != 0 && !context->may_wait) { /* waiting for approval takes no slot */
		reject_full(&in, v);
		return;
	}
	v->kind = v->needs != 0 ? GATE_NEEDS_APPROVAL : GATE_APPROVED;
	v->capability = in.capability;
	v->priority_asked = task->priority;
	v->priority = task->priority < caller->max_priority ? task->priority : caller->max_priority;
	v->max_duration_us = least(
		task->max_duration_us, least(in.capability->max_duration_us, p->config->max_duration_us));
}
