/* SPDX-License-Identifier: MIT */
/* gate.h: may this task run? Pure: policy, task, caller and context go in, the result comes out. No I/O, no
 * globals. */
#ifndef HCPD_POLICY_GATE_H
#define HCPD_POLICY_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/message.h"
#include "base/rate.h"
#include "policy/policy.h"
#include "policy/risk.h"

/* ... which limit leaves no room for a task to wait. */
enum gate_full {
	FULL_DAEMON, /* max_pending of [daemon] */
	FULL_SHARE,  /* the rest of it is kept for callers that have nothing waiting */
	FULL_CALLER, /* the caller's max_pending */
};

/* The state of the daemon at this moment. */
struct gate_context {
	bool may_start; /* a slot is free now, and this caller may take one */
	bool may_wait;  /* the backlog has room for one more task of this caller; else ... */
	enum gate_full full;
	bool link_is_safe; /* TLS to the broker, with a verified certificate */
	/* the result may be GATE_NEEDS_APPROVAL; else a task that needs approval is denied */
	bool has_approver;
	bool has_program; /* the policy program decides last */
	struct risk_clock clock;
	/* running sessions of a capability; NULL: none */
	unsigned (*running)(void *arg, const char *capability);
	void *running_arg;
	const struct rate *rate; /* the caller's token bucket; NULL: a full one */
	int64_t now_us;          /* the bucket's clock */
};

enum gate_result_kind { GATE_REJECTED, GATE_APPROVED, GATE_NEEDS_APPROVAL };
enum { NEEDS_HUMAN = 1, NEEDS_PROGRAM = 2 };

struct gate_result {
	enum gate_result_kind kind;
	enum risk risk;              /* R_NONE: it was not assessed */
	struct risk_result assessed; /* the rules and factors that raised the risk */
	char why[256];               /* the same in words; "": nothing raised it */
	/* approved, or in need of approval */
	const struct capability *capability;
	int64_t max_duration_us;
	enum priority priority, priority_asked; /* lowered to the caller's max_priority; as the task says */
	/* set by continuity.c: the session whose checkpoint the task starts from; "": none */
	char checkpoint_of[ID_SIZE];
	unsigned needs; /* whose approval, of NEEDS_*; all of them must agree */
	/* rejected */
	const char *code;
	char message[512], suggestion[256]; /* suggestion may be empty */
	int64_t retry_us;                   /* rate_limited: how long to wait; else 0 */
};

/* May this user speak for the caller? The caller's section, or NULL with the result filled in. user: the
 * broker-validated user-id, NULL: the message had none. */
const struct config_caller *gate_identify(
	const struct policy *p, const char *caller_id, const char *user, struct gate_result *v);
/* Does the caller's rate allow one more message that is or was meant to be a task? False: v is filled in. */
bool gate_is_within_rate(
	const struct config_caller *caller, const struct rate *rate, int64_t now_us, struct gate_result *v);
/* Decides about a task. The caller's bucket is read and not changed: call rate_take, unless retry_us is set.
 */
void gate_decide(const struct policy *p, const struct config_caller *caller, const struct task *task,
	const struct gate_context *context, struct gate_result *v);

/* May one more task wait? all: tasks that wait, of all callers; own: of this one. False: full says which
 * limit is reached. */
bool gate_may_wait(const struct config *config, const struct config_caller *caller, unsigned all,
	unsigned own, enum gate_full *full);
/* Places of max_pending for callers that have nothing waiting: a tenth. Of less than ten places none can be
 * spared, and there is one more instead. */
int gate_kept_places(int max_pending);

#endif
