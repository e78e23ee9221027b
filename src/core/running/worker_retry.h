/* SPDX-License-Identifier: MIT */
/* worker_retry.h: new attempts after a worker died without completing or failing its task. */
#ifndef HCPD_CORE_RUNNING_WORKER_RETRY_H
#define HCPD_CORE_RUNNING_WORKER_RETRY_H

#include <stdbool.h>

#include "base/timer.h"

struct session;

/* A process of the session starts. */
void worker_retry_begin(struct session *s);
/* The worker died; every death is counted. True: the session is PAUSED and gets another attempt, which was
 * published; false: there is none left. */
bool worker_retry_take_death(struct session *s);
/* The processes of the last attempt are gone: the back-off begins. */
void worker_retry_wait(struct session *s);
/* Timer attempts.timer of a session. */
void worker_retry_on_due(struct timer *t);

#endif
