/* migrate.h: a checkpoint's state of another major version, brought to the capability's by a program that it
 * names.
 *
 * The session stays PAUSED and holds a slot meanwhile. The new state becomes a checkpoint of its own, so that
 * a crash repeats the migration or finds it done. */
#ifndef HCPD_MIGRATE_H
#define HCPD_MIGRATE_H

#include <stdbool.h>

struct checkpoint;
struct core;
struct session;

/* Its program is started in the next turn, when what was decided is committed. */
void migrate_begin(struct session *s, const struct checkpoint *cp);
/* The session ends, or the daemon stops: its program is killed, and what was decided carried out once it is
 * gone. False: there is none. */
bool migrate_stop(struct session *s);
bool migrate_has_processes(const struct core *c);
void migrate_sweep(struct core *c); /* end of the turn: frees what is gone */
void migrate_fini_all(struct core *c);

#endif
