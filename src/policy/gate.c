/* gate.c: the policy's answer to a task.
 * Owns the order of the checks, and the sentence for each refusal. Never does I/O once the policy is loaded,
 * never keeps anything between two tasks. */
#include "policy/gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/canonical.h"
#include "process/confine.h"
#include "policy/envelope.h"
#include "policy/output_check.h"
#include "harp/harp.h"
#include "jschema/jschema.h"
#include "base/semver.h"

/* A key that anybody could sign with, or that two would share, is found only beside the others. */
static bool load_approvers(struct policy *p, config_say_fn *say, void *ctx)
{
	bool good = true;
	char why[256];

	p->approvers = harp_keys_new();
	for (size_t i = 0; i < p->config->approver_count; i++) {
		const struct config_approver *a = &p->config->approvers[i];
		const struct harp_key key = {.id = a->name,
			.person = a->person,
			.public_line = a->key,
			.max_risk = a->max_risk,
			.revoked = a->revoked};
		struct buf text = {0};

		if (a->key == NULL)
			continue; /* config.c has said so */
		if (harp_keys_add(p->approvers, &key, why, sizeof why) == 0)
			continue;
		buf_addf(&text, "%s:%d: [approver %s]: %s", p->config->path, a->line, a->name, why);
		say(ctx, true, buf_text(&text));
		buf_fini(&text);
		good = false;
	}
	return good;
}

static const char *person_of(const struct config_approver *a)
{
	return a->person != NULL ? a->person : a->name;
}

bool policy_can_ask(const struct policy *p, enum risk risk)
{
	const struct config *c = p->config;
	bool takes_two = c->two_person != R_NONE && risk >= c->two_person;
	const char *first = NULL;

	for (size_t i = 0; i < c->approver_count; i++) {
		if (!harp_keys_may(p->approvers, c->approvers[i].name, risk))
			continue;
		if (!takes_two || (first != NULL && strcmp(first, person_of(&c->approvers[i])) != 0))
			return true;
		first = person_of(&c->approvers[i]);
	}
	return false;
}

/* The file's hash, then name and hash of each declaration. */
static void hash_texts(struct policy *p)
{
	struct buf b = {0};

	buf_add_text(&b, p->config->sha256);
	for (size_t i = 0; i < p->config->capability_count; i++)
		buf_addf(&b, "\n%s %s", p->capabilities[i]->name, p->capabilities[i]->sha256);
	canon_hash_bytes(b.data, b.size, p->hash);
	buf_fini(&b);
}

/* False: it has no good declaration. Of a broken configuration, what is there is looked at. */
static bool load_capability(struct policy *p, size_t i, bool is_whole, config_say_fn *say, void *ctx)
{
	const struct config_capability *cc = &p->config->capabilities[i];

	if (cc->command != NULL)
		capability_check_command(cc, say, ctx);
	if (is_whole)
		(void)confine_check(cc, say, ctx);
	return cc->declaration != NULL && (p->capabilities[i] = capability_load(cc, say, ctx)) != NULL;
}

struct policy *policy_load(const char *path, config_say_fn *say, void *ctx)
{
	struct policy *p = xcalloc(1, sizeof *p);
	bool is_whole, good;

	p->refs = 1;
	if ((p->config = config_load_partly(path, say, ctx, &is_whole)) == NULL) {
		free(p);
		return NULL;
	}
	capability_check_policy(p->config, say, ctx);
	good = load_approvers(p, say, ctx) && is_whole;
	p->capabilities = xcalloc(p->config->capability_count + 1, sizeof *p->capabilities);
	for (size_t i = 0; i < p->config->capability_count; i++)
		good = load_capability(p, i, is_whole, say, ctx) && good;
	if (!good) {
		policy_unref(p);
		return NULL;
	}
	hash_texts(p);
	return p;
}

struct policy *policy_ref(struct policy *p)
{
	p->refs++;
	return p;
}

void policy_unref(struct policy *p)
{
	if (p == NULL || --p->refs > 0)
		return;
	for (size_t i = 0; i < p->config->capability_count; i++)
		capability_free(p->capabilities[i]);
	free(p->capabilities);
	harp_keys_free(p->approvers);
	config_free(p->config);
	free(p);
}

const struct capability *policy_find(const struct policy *p, const char *name)
{
	for (size_t i = 0; i < p->config->capability_count; i++)
		if (strcmp(p->capabilities[i]->name, name) == 0)
			return p->capabilities[i];
	return NULL;
}

static void reject(struct verdict *v, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void reject(struct verdict *v, const char *code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(v->message, sizeof v->message, fmt, ap);
	va_end(ap);
	v->kind = VERDICT_REJECTED;
	v->code = code;
}

const struct config_caller *gate_identify(
	const struct policy *p, const char *caller_id, const char *user, struct verdict *v)
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

/* --- the checks, each true where the task passes it --- */

struct question {
	const struct policy *policy;
	const struct config_caller *caller;
	const struct task *task;
	const struct gate_context *context;
	const struct capability *capability; /* from the first check on */
};

static bool is_offered(struct question *q, struct verdict *v)
{
	q->capability = policy_find(q->policy, q->task->capability);
	if (q->capability == NULL)
		reject(v, "unknown_capability", "there is no capability %.128s here", q->task->capability);
	return q->capability != NULL;
}

static bool is_allowed(struct question *q, struct verdict *v)
{
	if (config_caller_may(q->caller, q->capability->name))
		return true;
	reject(v, "forbidden", "capability %s is not among those of this caller", q->capability->name);
	return false;
}

static bool is_in_range(struct question *q, struct verdict *v)
{
	const struct capability *cap = q->capability;

	if (q->task->version_range == NULL || semver_satisfies(cap->version, q->task->version_range))
		return true;
	reject(v, "unknown_capability",
		"capability %s is here in version %s, which is not in the range %.128s", cap->name,
		cap->version, q->task->version_range);
	snprintf(v->suggestion, sizeof v->suggestion, "ask for %s", cap->version);
	return false;
}

/* The property that is missing or unexpected, else the last step of the pointer. */
static const char *property_of(const struct jschema_failure *f)
{
	const char *slash = strrchr(f->instance, '/');

	return f->property[0] != '\0' ? f->property : slash != NULL ? slash + 1 : "";
}

static bool is_valid(struct question *q, struct verdict *v)
{
	struct jschema_failure f;
	const char *property;

	if (q->task->inputs == NULL) {
		reject(v, "invalid_input", "payload.inputs is missing");
		return false;
	}
	if (jschema_check(q->capability->input_schema, q->task->inputs, &f))
		return true;
	property = property_of(&f);
	reject(v, "invalid_input",
		"inputs do not fit the input_schema of %.64s: %.256s (at \"%.80s\"%s%.60s%s)",
		q->capability->name, f.message, f.instance, *property != '\0' ? ", property \"" : "",
		property, *property != '\0' ? "\"" : "");
	return false;
}

/* A schema that cannot be used is found now, not when the work is done. */
static bool is_expectation_sound(struct question *q, struct verdict *v)
{
	char why[JSCHEMA_WHY_SIZE] = "";
	struct expectation *e = expect_new(q->task->expected_output, why, sizeof why);

	if (e == NULL)
		reject(v, "invalid_input", "payload.expected_output.schema is broken: %.400s", why);
	expect_free(e);
	return e != NULL;
}

static bool is_inside_envelope(struct question *q, struct verdict *v)
{
	struct envelope_breach breach;

	if (envelope_check_inputs(q->capability->envelope, q->task->inputs, &breach) == ENVELOPE_INSIDE)
		return true;
	reject(v, "policy_denied", "outside the safety envelope of %.64s: %s", q->capability->name,
		breach.message);
	snprintf(v->suggestion, sizeof v->suggestion, "%s", breach.suggestion);
	return false;
}

/* For risk.c: sessions of this capability, of a resource, or of any resource that this one uses. */
static unsigned count_running(void *arg, bool own, const char *resource)
{
	const struct question *q = arg;
	const struct gate_context *context = q->context;
	unsigned sum = 0;

	if (context->running == NULL)
		return 0;
	if (!own && resource == NULL)
		return context->running(context->running_arg, q->capability->name);
	for (size_t i = 0; i < q->policy->config->capability_count; i++) {
		const struct capability *other = q->policy->capabilities[i];
		bool shares = resource != NULL && capability_uses(other, resource);

		for (char **name = q->capability->resource_types; own && name && *name && !shares; name++)
			shares = capability_uses(other, *name);
		if (shares)
			sum += context->running(context->running_arg, other->name);
	}
	return sum;
}

static bool is_within_risk(struct question *q, struct verdict *v)
{
	const struct capability *cap = q->capability;
	const struct risk_context context = {.clock = q->context->clock, .running = count_running, .arg = q};
	enum risk caller_limit = q->caller->max_risk,
		  limit = caller_limit < cap->risk_ceiling ? caller_limit : cap->risk_ceiling;

	risk_assess(cap->risk, q->task->inputs, &context, &v->assessed);
	risk_explain(cap->risk, &v->assessed, v->why, sizeof v->why);
	v->risk = v->assessed.level;
	if (v->risk <= limit)
		return true;
	reject(v, "risk_too_high", "%s %.64s is of risk %s%s%s%s, and %s is %s",
		v->why[0] != '\0' ? "this task of" : "capability", cap->name, risk_names[v->risk],
		v->why[0] != '\0' ? " (" : "", v->why, v->why[0] != '\0' ? ")" : "",
		limit == caller_limit ? "this caller's limit" : "the most that is ever done here",
		risk_names[limit]);
	if (!risk_suggest(cap->risk, q->task->inputs, &context, &v->assessed, limit, v->suggestion,
		    sizeof v->suggestion))
		snprintf(v->suggestion, sizeof v->suggestion,
			limit == caller_limit ? "use a capability of risk %s or less, or ask the operator to "
						"raise max_risk of this caller" :
						"change the inputs so that the risk is %s or less",
			risk_names[limit]);
	return false;
}

static bool is_fit_for_data(struct question *q, struct verdict *v)
{
	enum data_class class = q->task->data_class;

	if (class > q->caller->max_data_class) {
		reject(v, "forbidden", "data of class %s is above this caller's limit, %s",
			data_class_names[class], data_class_names[q->caller->max_data_class]);
		return false;
	}
	if (class >= T3 && !q->policy->config->store_is_encrypted) {
		reject(v, "policy_denied",
			"data of class %s needs encryption at rest, which is not offered here",
			data_class_names[class]);
		return false;
	}
	if (class >= T3 && !q->context->link_is_safe) {
		reject(v, "policy_denied",
			"data of class %s needs a verified TLS link to the broker, and there is none here",
			data_class_names[class]);
		return false;
	}
	return true;
}

static bool is_within_rate(struct question *q, struct verdict *v)
{
	const struct rate_limit *limit = &q->caller->rate;
	long long ms;

	v->retry_us = rate_wait_us(limit, q->context->rate, q->context->now_us);
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

static void reject_full(struct verdict *v)
{
	reject(v, "resource_unavailable", "all slots are taken and as many tasks as may wait do wait");
	snprintf(v->suggestion, sizeof v->suggestion, "submit it again later, under a new message_id");
}

static bool has_room(struct question *q, struct verdict *v)
{
	if (q->context->may_start || q->context->may_wait)
		return true;
	reject_full(v);
	return false;
}

/* The order is part of the protocol: who may not ask learns nothing of what would have been wrong with the
 * question. */
static bool (*const checks[])(struct question *q, struct verdict *v) = {is_offered, is_allowed, is_in_range,
	is_valid, is_expectation_sound, is_inside_envelope, is_within_risk, is_fit_for_data, is_within_rate,
	has_room};

/* Whom to ask, where nothing speaks against it. */
static unsigned whom_to_ask(const struct question *q, const struct verdict *v)
{
	bool needs_human =
		(q->capability->requires_human_approval && v->risk >= R3) || q->task->data_class >= T4;

	return (needs_human ? ASK_HUMAN : 0u) | (q->context->has_program ? ASK_PROGRAM : 0u);
}

/* What would have to be asked and cannot be is denied, not forgotten. */
static void deny_unasked(const struct question *q, struct verdict *v)
{
	if ((v->ask & ASK_HUMAN) == 0)
		reject(v, "policy_denied",
			"the policy program has the last word here, and it cannot be asked");
	else if (q->task->data_class >= T4)
		reject(v, "policy_denied",
			"data of class %s needs a human's approval, and there is nobody to ask here",
			data_class_names[q->task->data_class]);
	else
		reject(v, "policy_denied",
			"capability %s needs a human's approval, and there is nobody to ask here",
			q->capability->name);
}

void gate_decide(const struct policy *p, const struct config_caller *caller, const struct task *task,
	const struct gate_context *context, struct verdict *v)
{
	struct question q = {.policy = p, .caller = caller, .task = task, .context = context};

	memset(v, 0, sizeof *v);
	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
		if (!checks[i](&q, v))
			return;
	v->ask = whom_to_ask(&q, v);
	if (v->ask != 0 && !context->can_ask) {
		deny_unasked(&q, v);
		return;
	}
	if (v->ask != 0 && !context->may_wait) { /* a free slot does not help: it would not take it */
		reject_full(v);
		return;
	}
	v->kind = v->ask != 0 ? VERDICT_ASK : VERDICT_APPROVED;
	v->capability = q.capability;
	v->max_duration_us = least(
		task->max_duration_us, least(q.capability->max_duration_us, p->config->max_duration_us));
}
