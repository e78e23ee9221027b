/* told.h: what the world is told of sessions, in HARP-SESSION's words, by somebody who listens to all of it.
 */
#ifndef TOLD_H
#define TOLD_H

#include <stddef.h>

#include "rig.h"

/* Before the daemon is there: its queue, and a thread that empties it. */
void told_begin(struct rig *r);
void told_end(void);
/* One event as it came. Charges what is wrong with it by itself, and two contents under one id. */
void told_take(const char *key, const char *id, const char *body, size_t size);
/* Against the rows of the store: everything came, in order, and nothing else did. How many events that were.
 */
long told_judge(const char *store);
void told_forget(void); /* for tests */

#endif
