/* gate.h: may this task run? Pure: policy, task, caller and context in, verdict out. No I/O, no globals. */
#ifndef HCPD_GATE_H
#define HCPD_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/capability.h"
#include "protocol/message.h"
#include "config/config.h"
#include "base/rate.h"
#include "policy/risk.h"

struct harp_keys;

/* One reading of the configuration and its declarations. Swapped whole on reload; who still runs under
 * an old one holds a reference. */
struct policy {
	unsigned refs;
	struct config *config;
	struct capability **capabilities; /* as many as config->capability_count */
	struct harp_keys *approvers;      /* the keys of humans that may decide */
	char hash[65]; /* SHA-256 over the texts of them all, in hex: which policy it was */
};

/* Reads configuration and declarations; says everything that is wrong. NULL where anything is. */
struct policy *policy_load(const char *path, config_say_fn *say, void *ctx);
struct policy *policy_ref(struct policy *p);
void policy_unref(struct policy *p);
const struct capability *policy_find(const struct policy *p, const char *name);

/* Is there anybody who may decide about a task of this risk: one person, or two where it takes two? */
bool policy_can_ask(const struct policy *p, enum risk risk);

/* What the task cannot know. */
struct gate_context {
	bool may_start, may_wait; /* a slot is free now; the backlog has room */
	bool link_is_safe;        /* TLS to the broker, and it proved who it is */
	bool can_ask;     /* verdicts may be VERDICT_ASK; else what would have to be asked is denied */
	bool has_program; /* an external policy has the last word */
	struct risk_clock clock;
	unsigned (*running)(
		void *arg, const char *capability); /* sessions of it that run now; NULL: none do */
	void *running_arg;
	const struct rate *rate; /* the caller's bucket; NULL: a full one */
	int64_t now_us;          /* on the bucket's clock */
};

enum verdict_kind { VERDICT_REJECTED, VERDICT_APPROVED, VERDICT_ASK };
enum { ASK_HUMAN = 1, ASK_PROGRAM = 2 };

struct verdict {
	enum verdict_kind kind;
	enum risk risk;              /* R_NONE where it was not assessed */
	struct risk_result assessed; /* what raised it */
	char why[256];               /* the same in words; may be empty */
	/* approved, or to be asked */
	const struct capability *capability;
	int64_t max_duration_us;
	char checkpoint_of[ID_SIZE]; /* continuity.c: whose checkpoint it is to go on from; "": it names none
				      */
	unsigned ask;                /* whom, of ASK_*; all of them must agree */
	/* rejected */
	const char *code;
	char message[512], suggestion[256]; /* suggestion may be empty */
	int64_t retry_us;                   /* rate_limited: how long to wait; else 0 */
};

/* Is this user the one who may speak for the caller? The caller's section, or NULL with the verdict filled
 * in. user is the broker-validated user-id, NULL where the message had none. */
const struct config_caller *gate_identify(
	const struct policy *p, const char *caller_id, const char *user, struct verdict *v);
/* The caller's bucket is looked at and not changed: rate_take it where the verdict is not VERDICT_REJECTED.
 */
void gate_decide(const struct policy *p, const struct config_caller *caller, const struct task *task,
	const struct gate_context *context, struct verdict *v);

#endif
