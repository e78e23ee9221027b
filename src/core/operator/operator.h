/* SPDX-License-Identifier: MIT */
/* operator.h: what operators may do to sessions and to the daemon. The verbs stand in operator.c, pause.c,
 * recover_choice.c and stats.c.
 *
 * A verb that changes something is answered by an effect, after the turn's commit. A verb that only reads is
 * answered at once, also while the store refuses. */
#ifndef HCPD_CORE_OPERATOR_OPERATOR_H
#define HCPD_CORE_OPERATOR_OPERATOR_H

#include <stdbool.h>

#include "core/op_request.h"

struct core;
struct session;

/* The name of the verb in the protocol. */
const char *op_verb_name(enum op_verb verb);
/* Does the verb change nothing? */
bool operator_only_reads(enum op_verb verb);
/* Carries the request out, or refuses it, and takes it. False: the store cannot be read now; nothing
 * happened, and the request still belongs to the caller. */
bool operator_take(struct core *c, struct op_request *a) __attribute__((warn_unused_result));

/* Puts the peers that were denied the control socket into the audit. */
void operator_audit_denied(struct core *c);

/* The worker reports that it has paused, or resumed. True: that answers an operator's request; the state is
 * changed here where it has to. False: the worker did it by itself. */
bool operator_on_paused(struct session *s);
bool operator_on_resumed(struct session *s);

#endif
