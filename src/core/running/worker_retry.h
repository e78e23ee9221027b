/* attempt.h: a worker that died without a word about its task is not yet the end of its session. */
#ifndef HCPD_ATTEMPT_H
#define HCPD_ATTEMPT_H

#include <stdbool.h>

#include "base/timer.h"

struct session;

/* A process of the session begins. */
void attempt_begin(struct session *s);
/* It died: counted in any case. True: it is started again, which was said, and the session is PAUSED; false:
 * that is its end. */
bool attempt_take_death(struct session *s);
/* The processes of one that is started again are gone: the back-off begins. */
void attempt_wait(struct session *s);
/* Timer `retry` of a session. */
void attempt_on_retry(struct timer *t);

#endif
