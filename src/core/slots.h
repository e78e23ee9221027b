/* slots.h: who runs and who waits: max_sessions, a capability's concurrent_limit, priority. */
#ifndef HCPD_SLOTS_H
#define HCPD_SLOTS_H

#include <stdbool.h>
#include <uthash.h>

#include "protocol/message.h"

struct core;
struct session;

/* The sessions of one capability. Lanes outlive a reload: they are found by name. */
struct lane {
	UT_hash_handle hh;
	unsigned running;
	struct session *waiting[PRIORITY_COUNT]; /* oldest first */
	char name[];
};

struct slots {
	struct lane *lanes;
	unsigned running, waiting;
	unsigned asking; /* undecided: they wait for a human or a program, and in no lane */
};

void slots_wait(struct core *c, struct session *s);  /* joins the queue of its capability */
void slots_leave(struct core *c, struct session *s); /* out of the queue, or gives its slot back */
void slots_take(struct core *c, struct session *s);  /* takes a slot, also beyond the limits: recovery */
bool slots_has_room(struct core *c, const char *capability);
/* The next that may run: the highest priority, then the longest wait. NULL: none. */
struct session *slots_next(struct core *c);
void slots_fini(struct slots *sl);

#endif
