/* SPDX-License-Identifier: MIT */
/* operator_private.h: what operator.c, pause.c, recover_choice.c and stats.c share. No other file includes
 * it. */
#ifndef HCPD_CORE_OPERATOR_OPERATOR_PRIVATE_H
#define HCPD_CORE_OPERATOR_OPERATOR_PRIVATE_H

#include "config/config.h"
#include "core/operator/operator.h"

/* Adds the members "session" and "state" to an answer. */
void operator_say_state(struct op_request *a, const struct session *s);

void operator_pause(struct session *s, struct op_request *a);
void operator_resume(struct session *s, struct op_request *a);
void operator_checkpoint(struct session *s, struct op_request *a);
/* Fills in the request that the worker has not answered. */
void operator_describe_pending(const struct session *s, struct op_live *l);

/* Ends the pause: the session joins the queue for a slot, at once or when its process is gone. how
 * RECOVERY_NONE: as its capability says. */
void operator_go_on(struct session *s, enum recovery how);
void operator_recover(struct session *s, struct op_request *a);
/* May the session go on under the policy in force? False: the request is refused with the reason. */
bool operator_may_go_on(const struct session *s, bool needs_process, struct op_request *a);
void operator_extend(struct session *s, struct op_request *a);

void operator_stats(struct core *c, struct op_request *a);

#endif
