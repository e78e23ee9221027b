/* gate.h: may this task run? Pure: policy, task, caller and context in, verdict out. No I/O, no globals. */
#ifndef HCPD_GATE_H
#define HCPD_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "capability.h"
#include "codec.h"
#include "config.h"

/* One reading of the configuration and its declarations. Swapped whole on reload; who still runs under
 * an old one holds a reference. */
struct policy {
	unsigned refs;
	struct config *config;
	struct capability **capabilities;       /* as many as config->capability_count */
};

/* Reads configuration and declarations; says everything that is wrong. NULL where anything is. */
struct policy *policy_load(const char *path, config_say_fn *say, void *ctx);
struct policy *policy_ref(struct policy *p);
void policy_unref(struct policy *p);
const struct capability *policy_find(const struct policy *p, const char *name);

/* What the task cannot know. */
struct gate_context {
	bool may_start, may_wait;       /* a slot is free now; the backlog has room */
};

struct verdict {
	bool approved;
	enum risk risk;                 /* R_NONE where it was not assessed */
	/* approved */
	const struct capability *capability;
	int64_t max_duration_us;
	/* rejected */
	const char *code;
	char message[512], suggestion[256];     /* suggestion may be empty */
};

/* Is this user the one who may speak for the caller? The caller's section, or NULL with the verdict filled
 * in. user is the broker-validated user-id, NULL where the message had none. */
const struct config_caller *gate_identify(const struct policy *p, const char *caller_id, const char *user,
	struct verdict *v);
void gate_decide(const struct policy *p, const struct config_caller *caller, const struct task *task,
	const struct gate_context *context, struct verdict *v);

#endif
