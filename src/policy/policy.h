/* SPDX-License-Identifier: MIT */
/* policy.h: what is allowed here: one reading of the configuration, its declarations and the approvers' keys.
 * A reload makes a new policy and leaves the old one as it is. */
#ifndef HCPD_POLICY_POLICY_H
#define HCPD_POLICY_POLICY_H

#include <stdbool.h>

#include "config/config.h"
#include "policy/capability.h"

struct harp_keys;

/* Swapped whole on reload. A session that runs under an old policy holds a reference to it. */
struct policy {
	unsigned refs;
	struct config *config;
	struct capability **capabilities; /* as many as config->capability_count */
	struct harp_keys *approvers;      /* the keys of the humans who may approve */
	/* SHA-256 over all these texts, in hex: it names the policy in the audit */
	char hash[65];
};

/* Reads configuration and declarations. Reports all faults through say. NULL where there is any. */
struct policy *policy_load(const char *path, config_say_fn *say, void *ctx);
/* The part of policy_load that looks at the approvers' keys. False: reported. */
bool policy_check_approvers(const struct config *c, config_say_fn *say, void *ctx);
struct policy *policy_ref(struct policy *p);
void policy_unref(struct policy *p);
const struct capability *policy_find(const struct policy *p, const char *name);

/* Is there an approver for a task of this risk, or two persons where the risk needs two? */
bool policy_has_approver(const struct policy *p, enum risk risk);

#endif
