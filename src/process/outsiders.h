/* SPDX-License-Identifier: MIT */
/* outsiders.h: the processes of the machine that do not come from the daemon. One of them may have been
 * started by another program on a worker's behalf; group.h looks for its mark. The list is kept from look to
 * look: each looks only at the pids that were given out since the last one, and reads the whole of /proc
 * where those are too many. */
#ifndef HCPD_PROCESS_OUTSIDERS_H
#define HCPD_PROCESS_OUTSIDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proctree;

struct outsider {
	int pid;
	uint64_t start;
};

struct outsiders {
	struct outsider *list; /* also some that have ended meanwhile */
	size_t count, room;
	size_t most;         /* entries; more are mostly of ended processes */
	int last_pid;        /* the newest that was looked at; 0: none was yet */
	uint64_t looked_at;  /* when; in the unit of a start */
	int64_t forks;       /* the machine's count at a look before; -1: not known */
	unsigned full_looks; /* at the whole of /proc */
};

/* Brings the list up to date. is_inside: is this one known to come from the daemon? It is asked for every
 * pid, so it must be fast. -1 with errno: /proc cannot be read. */
int outsiders_look(struct outsiders *o, struct proctree *t, bool (*is_inside)(void *ctx, int pid), void *ctx)
	__attribute__((warn_unused_result));
void outsiders_fini(struct outsiders *o);

#endif
