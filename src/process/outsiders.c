/* SPDX-License-Identifier: MIT */
/* outsiders.c: the list of processes that do not come from the daemon.
 * Owns the list, and the rule when the pids since the last look are enough. Never reads an environment, never
 * decides whose a process is. */
#include "process/outsiders.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/buf.h"
#include "process/proctree.h"

#define PIDS_MAX 4096 /* above this many new pids a look at the whole of /proc costs less */
/* The kernel hands out pids in a circle of 32,768 or more. So the pids since the last look are known if that
 * was a moment ago, or if fewer processes and threads than these began meanwhile. */
#define SURE_AGE 200 /* in the unit of a start: 2 s */
#define SURE_FORKS 20000
#define COUNT_LAG 64   /* the count is read a moment after the pid */
#define ROOM_MORE 1024 /* entries beyond twice those that a full look found */

struct looker {
	struct outsiders *outsiders;
	struct proctree *tree;
	bool (*is_inside)(void *ctx, int pid);
	void *ctx;
};

/* False with errno: it cannot be read, although it is there. */
static bool add(void *ctx, int pid)
{
	struct looker *l = ctx;
	struct outsiders *o = l->outsiders;
	struct proc p;

	if (pid == l->tree->self || l->is_inside(l->ctx, pid))
		return true;
	if (!proctree_look(l->tree, pid, &p))
		return errno == ENOENT || errno == ESRCH || errno == EACCES || errno == EPERM;
	if (p.dead)
		return true;
	if (o->count == o->room) {
		o->room = o->room ? 2 * o->room : 64;
		o->list = xrealloc(o->list, o->room * sizeof *o->list);
	}
	o->list[o->count++] = (struct outsider){p.pid, p.start};
	return true;
}

static bool may_go_on(struct outsiders *o, struct proctree *t, int last_pid, uint64_t now)
{
	int64_t forks;
	int pids = last_pid - o->last_pid;

	if (o->last_pid <= 0 || pids < 0 || pids > PIDS_MAX || o->count > o->most)
		return false;
	if (now - o->looked_at <= SURE_AGE)
		return true;
	forks = proctree_forks(t) - o->forks;
	/* a count that does not fit the pids is none: some containers make /proc/stat up */
	return o->forks > 0 && forks + COUNT_LAG >= pids && forks < SURE_FORKS;
}

static int look_at_new(struct looker *l, int last_pid)
{
	for (int pid = l->outsiders->last_pid + 1; pid <= last_pid; pid++)
		if ((kill(pid, 0) == 0 || errno != ESRCH) && !add(l, pid))
			return -1;
	return 0;
}

static int look_at_all(struct looker *l)
{
	struct outsiders *o = l->outsiders;

	o->count = 0;
	o->full_looks++;
	if (proctree_each_pid(l->tree, add, l) < 0)
		return -1;
	o->most = 2 * o->count + ROOM_MORE;
	return 0;
}

int outsiders_look(struct outsiders *o, struct proctree *t, bool (*is_inside)(void *ctx, int pid), void *ctx)
{
	struct looker l = {o, t, is_inside, ctx};
	/* All from before the look: what begins during it is new in the next one. */
	int last_pid = proctree_last_pid(t);
	uint64_t now = proctree_now();
	bool is_sure = now - o->looked_at <= SURE_AGE;
	int r = may_go_on(o, t, last_pid, now) ? look_at_new(&l, last_pid) : look_at_all(&l);

	if (r < 0) {
		o->last_pid = 0;
		return -1;
	}
	if (!is_sure || o->last_pid <= 0)
		o->forks = proctree_forks(t);
	o->last_pid = last_pid;
	o->looked_at = now;
	return 0;
}

void outsiders_fini(struct outsiders *o)
{
	free(o->list);
	*o = (struct outsiders){0};
}
