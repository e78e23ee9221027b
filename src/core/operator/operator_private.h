/* operate_private.h: what the handlers of operators' verbs share. Only operate*.c include it. */
#ifndef HCPD_OPERATE_PRIVATE_H
#define HCPD_OPERATE_PRIVATE_H

#include "config/config.h"
#include "core/operator/operator.h"

/* The members "session" and "state" of an answer. */
void operate_say_state(struct ask *a, const struct session *s);

void operate_pause(struct session *s, struct ask *a);
void operate_resume(struct session *s, struct ask *a);
void operate_checkpoint(struct session *s, struct ask *a);
/* What its worker was told and has not done. */
void operate_look_asked(const struct session *s, struct ask_live *l);

/* Nobody holds it any more: it queues for a slot, or does so once its former process is gone. how:
 * RECOVERY_COUNT: as its capability says. */
void operate_go_on(struct session *s, enum recovery how);
void operate_recover(struct session *s, struct ask *a);
void operate_extend(struct session *s, struct ask *a);

void operate_stats(struct core *c, struct ask *a);

#endif
