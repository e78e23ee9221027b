/* gate.c: the policy's answer to a task.
 * Owns the order of the checks: known, allowed, valid, within the risk, and room for it. Never does I/O
 * once the policy is loaded, never keeps anything between two tasks. */
#include "gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "confine.h"
#include "semver.h"

struct policy *policy_load(const char *path, config_say_fn *say, void *ctx)
{
	struct policy *p = xcalloc(1, sizeof *p);
	bool good = true;

	p->refs = 1;
	if ((p->config = config_load(path, say, ctx)) == NULL) {
		free(p);
		return NULL;
	}
	p->capabilities = xcalloc(p->config->capability_count + 1, sizeof *p->capabilities);
	for (size_t i = 0; i < p->config->capability_count; i++) {
		const struct config_capability *cc = &p->config->capabilities[i];

		capability_check_command(cc, say, ctx);
		(void)confine_check(cc, say, ctx);
		if ((p->capabilities[i] = capability_load(cc, say, ctx)) == NULL)
			good = false;
	}
	if (!good) {
		policy_unref(p);
		return NULL;
	}
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

static void reject(struct verdict *v, const char *code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void reject(struct verdict *v, const char *code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(v->message, sizeof v->message, fmt, ap);
	va_end(ap);
	v->approved = false;
	v->code = code;
}

const struct config_caller *gate_identify(const struct policy *p, const char *caller_id, const char *user,
	struct verdict *v)
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
			reject(v, "unauthorized", "AMQP user %.128s may not speak for caller %s", user, caller_id);
		return NULL;
	}
	return caller;
}

static int64_t least(int64_t a, int64_t b)
{
	return a == 0 ? b : b == 0 ? a : a < b ? a : b;
}

void gate_decide(const struct policy *p, const struct config_caller *caller, const struct task *task,
	const struct gate_context *context, struct verdict *v)
{
	const struct capability *cap = policy_find(p, task->capability);

	memset(v, 0, sizeof *v);
	if (cap == NULL) {
		reject(v, "unknown_capability", "there is no capability %.128s here", task->capability);
		return;
	}
	if (!config_caller_may(caller, cap->name)) {
		reject(v, "forbidden", "capability %s is not among those of this caller", cap->name);
		return;
	}
	if (task->version_range != NULL && !semver_satisfies(cap->version, task->version_range)) {
		reject(v, "unknown_capability", "capability %s is here in version %s, which is not in the range %.128s",
			cap->name, cap->version, task->version_range);
		snprintf(v->suggestion, sizeof v->suggestion, "ask for %s", cap->version);
		return;
	}
	if (task->names_checkpoint) {
		reject(v, "invalid_input", "payload.constraints.checkpoint: resuming an ended session is not offered here");
		return;
	}
	v->risk = cap->risk_ceiling;
	if (v->risk > caller->max_risk) {
		reject(v, "risk_too_high", "capability %s is of risk %s, and this caller's limit is %s", cap->name,
			risk_names[v->risk], risk_names[caller->max_risk]);
		snprintf(v->suggestion, sizeof v->suggestion, "use a capability of risk %s or less, or ask the operator to raise "
			"max_risk of this caller", risk_names[caller->max_risk]);
		return;
	}
	/* What cannot be kept is refused, not forgotten: nobody can be asked, and nothing is encrypted at rest. */
	if (cap->requires_human_approval && v->risk >= R3) {
		reject(v, "policy_denied", "capability %s needs a human's approval, and there is nobody to ask here", cap->name);
		return;
	}
	if (task->data_class >= T3) {
		reject(v, "policy_denied", "data of class %s needs encryption at rest, which is not offered here",
			data_class_names[task->data_class]);
		return;
	}
	if (!context->may_start && !context->may_wait) {
		reject(v, "resource_unavailable", "all slots are taken and as many tasks as may wait do wait");
		snprintf(v->suggestion, sizeof v->suggestion, "submit it again later, under a new message_id");
		return;
	}
	v->approved = true;
	v->capability = cap;
	v->max_duration_us = least(task->max_duration_us, least(cap->max_duration_us, p->config->max_duration_us));
}
