/* retain.h: ended sessions leave: after [retention] grace into the archive, or for good; after expire the
 *archive too.
 *
 * A thread of its own with a read-only connection finds them, packs them, and syncs the file. What it wants
 *changed in the store it asks the core for, in notes of a bounded size, one at a time; the core puts a note
 *into a turn's batch like anything else. So a crash anywhere leaves a session whole, in one of the two
 *places: 1 the day's row says how much of its file counts          (committed) 2 the file is cut to that,
 *entries appended and synced    (nothing counts yet) 3 the new length counts, and the sessions' rows are gone
 *(committed, at once) 4 what else they had in the store goes in slices; `leaving` names them until nothing is
 *left, also over a restart. */
#ifndef HCPD_RETAIN_H
#define HCPD_RETAIN_H

#include <stdbool.h>
#include <stdint.h>

struct core;
struct retain;

/* Starts the thread; wake() is called from it. 0, or a sysexits code with what is wrong logged. */
int retain_start(struct core *c, void (*wake)(void *ctx), void *ctx, struct retain **out)
	__attribute__((warn_unused_result));
/* Ends it, within the time that a slice takes. */
void retain_stop(struct retain *r);
/* What keeps sessions from leaving, in one line, and since when on the boot clock. False: nothing does. */
enum { RETAIN_TROUBLE_SIZE = 512 };
bool retain_get_trouble(struct core *c, char out[RETAIN_TROUBLE_SIZE], int64_t *since_us);
/* After a commit: what was in it is done, and the next note goes into the batch. True: it did. NULL is
 * nobody. */
bool retain_step(struct core *c);

#endif
