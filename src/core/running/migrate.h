/* SPDX-License-Identifier: MIT */
/* migrate.h: migrates a checkpoint's state of another version with the programs that the capability names,
 * one step after another.
 *
 * The session stays PAUSED and holds a slot meanwhile. The new state becomes a checkpoint of its own, so that
 * a crash either repeats the migration or finds it done. */
#ifndef HCPD_CORE_RUNNING_MIGRATE_H
#define HCPD_CORE_RUNNING_MIGRATE_H

#include <stdbool.h>

struct checkpoint;
struct core;
struct session;

/* The program of the first step is started in the next turn, after the decision is committed. False: the
 * capability names none for this version, and nothing happened. */
bool migrate_begin(struct session *s, const struct checkpoint *cp);
/* The session ends, or the daemon stops: the program is killed after the commit, and the end goes on when it
 * is gone. False: there is no migration. */
bool migrate_stop(struct session *s);
bool migrate_has_processes(const struct core *c);
void migrate_sweep(struct core *c); /* end of the turn: frees migrations that are over */
void migrate_fini_all(struct core *c);

#endif
