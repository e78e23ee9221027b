/* SPDX-License-Identifier: MIT */
/* group_signal.c: signals to all processes of a group.
 * Owns the rounds of stopping before the kill. Never waits for an end: the caller repeats a round until no
 * process is left. */
#include "process/group.h"

#include <signal.h>
#include <utlist.h>

#include "base/crashpoint.h"
#include "process/group_private.h"

#define STOP_ROUNDS 6 /* walks to stop a tree that forks while it is being stopped */

/* The pid of a child is not used again before we reap it, so a main process needs no second look. */
static int signal_one(struct proc_groups *gs, const struct proc *p, int sig)
{
	const struct proc_group *g = p->owner;

	if (p->pid == g->pid && !g->reaped)
		return kill(p->pid, sig);
	return proctree_signal(&gs->tree, p->pid, p->start, sig);
}

static int signal_all(struct proc_groups *gs, const struct proc_group *g, int sig)
{
	int n = 0;

	for (size_t i = 0; i < gs->tree.count; i++) {
		const struct proc *p = &gs->tree.procs[i];

		n += p->owner == g && !p->dead && signal_one(gs, p, sig) == 0;
	}
	return n;
}

int group_terminate(struct proc_groups *gs, struct proc_group *g)
{
	int n;

	if (groups_look_for(gs, g, false, g->start)) {
		n = signal_all(gs, g, SIGTERM);
		signal_all(gs, g, SIGCONT);
		return n;
	}
	/* at least the kernel's process group; the main process is not reaped, so the group is ours */
	n = !g->reaped && kill(-g->pid, SIGTERM) == 0;
	if (n)
		kill(-g->pid, SIGCONT);
	return n;
}

/* True: the process was not stopped in this round before. */
static bool stop_one(struct proc_groups *gs, const struct proc *p)
{
	struct proc_group *g = p->owner;
	struct member *m = groups_find_member(gs, p->pid);
	unsigned *stopped = m ? &m->stopped : &g->stopped;

	if (*stopped == gs->round)
		return false;
	*stopped = gs->round;
	return signal_one(gs, p, SIGSTOP) == 0;
}

static bool is_being_killed(const struct proc *p)
{
	return p->owner && !p->dead && ((struct proc_group *)p->owner)->killing;
}

/* A walk that stops every process it finds: a stopped process does not fork, keeps its parent, and can be
 * assigned. True: no new process was found. */
static bool stop_all(struct proc_groups *gs)
{
	uint64_t since = NO_FOREIGNERS;
	bool anew = false;
	struct proc_group *g;
	size_t i;

	DL_FOREACH(gs->all, g)
		if (g->killing && g->start < since)
			since = g->start;
	if (!groups_look_for(gs, NULL, true, since))
		return true;
	for (i = 0; i < gs->tree.count; i++) {
		const struct proc *p = &gs->tree.procs[i];

		if (is_being_killed(p) && !((struct proc_group *)p->owner)->cgroup_killed && stop_one(gs, p))
			anew = true;
	}
	return !anew;
}

void groups_kill(struct proc_groups *gs)
{
	struct proc_group *g;
	size_t i;
	int n;

	gs->round++;
	DL_FOREACH(gs->all, g)
		if (g->killing)
			g->cgroup_killed = cgroup_kill(gs->cgroups, g->cgroup);
	for (n = 0; n < STOP_ROUNDS && !stop_all(gs); n++)
		;
	CRASH_POINT(group_stopped);
	if (!gs->readable) {
		DL_FOREACH(gs->all, g)
			if (g->killing && !g->reaped)
				kill(-g->pid, SIGKILL);
		return;
	}
	for (i = 0; i < gs->tree.count; i++)
		if (is_being_killed(&gs->tree.procs[i]))
			signal_one(gs, &gs->tree.procs[i], SIGKILL);
	CRASH_POINT(group_killed);
	gs->fresh = false;
}
