/* SPDX-License-Identifier: MIT */
/* resume_check.c: the conditions of a task's acceptance, checked again before its session goes on, or begins
 * after a wait. Owns the order of the checks and their sentences. Never ends a session (recover.c), never
 * starts one. */
#include "core/recovery/resume_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/turn.h"

static bool __attribute__((format(printf, 4, 5)))
fault(struct resume_fault *f, const char *check, const char *code, const char *fmt, ...)
{
	va_list ap;

	f->check = check;
	f->code = code;
	va_start(ap, fmt);
	vsnprintf(f->message, sizeof f->message, fmt, ap);
	va_end(ap);
	return false;
}

/* The gate's checks of the caller, without those of the task, which cannot have changed. */
static bool has_rights(const struct session *s, struct resume_fault *f)
{
	const struct config_caller *caller = config_find_caller(s->core->policy->config, s->caller_id);

	if (caller == NULL)
		return fault(f, "caller", "safety_violation", "caller %s is no longer in the configuration",
			s->caller_id);
	if (!config_caller_may(caller, s->capability))
		return fault(f, "caller", "safety_violation", "caller %s may no longer use capability %.128s",
			s->caller_id, s->capability);
	if (s->risk > caller->max_risk)
		return fault(f, "risk", "safety_violation",
			"the task's risk %s is above what caller %s may by now, %s", risk_names[s->risk],
			s->caller_id, risk_names[caller->max_risk]);
	if (s->data_class > caller->max_data_class)
		return fault(f, "data_class", "safety_violation",
			"the task's data class %s is above what caller %s may by now, %s",
			data_class_names[s->data_class], s->caller_id,
			data_class_names[caller->max_data_class]);
	return true;
}

/* What the gate demands of T3 and T4: is_fit_for_data and find_needs in gate.c. */
static bool is_fit_for_data(const struct session *s, struct resume_fault *f)
{
	/* not of a reloaded policy: the link is the one that was made at start */
	const struct config_amqp *link = &s->core->first_policy->config->amqp;
	const char *class = data_class_names[s->data_class];
	int found;

	if (s->data_class < T3)
		return true;
	if (!s->core->policy->config->store_is_encrypted)
		return fault(f, "encryption", "safety_violation",
			"data of class %s needs encryption at rest, which is no longer offered here", class);
	if (!link->tls || !link->verify)
		return fault(f, "tls", "safety_violation",
			"data of class %s needs a verified TLS link to the broker, and there is none by now",
			class);
	if (s->data_class < T4)
		return true;
	if ((found = store_find_approval(s->core->store, s->key)) < 0)
		return fault(f, NULL, "internal_error", "the store cannot be read now");
	return found > 0 ||
		fault(f, "approval", "safety_violation",
			"data of class %s needs a human's approval, and the store has none of this task",
			class);
}

bool resume_check_pass(const struct session *s, bool needs_process, struct resume_fault *f)
{
	const struct capability *cap = policy_find(s->core->policy, s->capability);
	char why[256];

	if (cap == NULL)
		return fault(f, "capability", "internal_error",
			"capability %.128s is no longer in the configuration", s->capability);
	if (!has_rights(s, f) || !is_fit_for_data(s, f))
		return false;
	if (needs_process && !capability_has_command(cap->config, why, sizeof why))
		return fault(f, "command", "resource_unavailable", "%s", why);
	return true;
}
