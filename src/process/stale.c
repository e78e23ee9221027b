/* SPDX-License-Identifier: MIT */
/* stale.c: kills the processes that a previous run of the daemon left, before this run begins.
 * Owns the search by HCP_INSTANCE and by tag. The only file of this room that waits: nothing else runs yet.
 * Never runs after the start. */
#include "base/crashpoint.h"
#include "process/stale.h"
#include "process/group.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"

#define BOUND_US (10 * 1000000LL)
#define PAUSE_MS 20

struct stale_search {
	struct proc_groups *proc_groups;
	struct proctree *tree;
	char *mark;
	struct proc *seen; /* each counts once, however often it is killed */
	size_t count, room;
	bool has_mark; /* the process that is looked at */
	size_t left;   /* in this round */
	int pid;       /* a process that is left */
	uint64_t start;
};

static bool look_at_var(void *ctx, const char *var)
{
	struct stale_search *l = ctx;

	l->has_mark = strcmp(var, l->mark) == 0;
	return !l->has_mark;
}

static bool has_mark(struct stale_search *l, int pid)
{
	l->has_mark = groups_may_be_tag(l->proc_groups, proctree_tag(l->tree, pid));
	if (l->has_mark)
		return true;
	proctree_environ(l->tree, pid, look_at_var, l);
	return l->has_mark;
}

static void kill_one(struct stale_search *l, const struct proc *p)
{
	size_t i;

	if (p->dead || p->pid == l->tree->self)
		return;
	l->left++;
	l->pid = p->pid;
	l->start = p->start;
	proctree_signal(l->tree, p->pid, p->start, SIGKILL);
	CRASH_POINT(stale_killed);
	for (i = 0; i < l->count; i++)
		if (l->seen[i].pid == p->pid && l->seen[i].start == p->start)
			return;
	if (l->count == l->room) {
		l->room = l->room ? 2 * l->room : 16;
		l->seen = xrealloc(l->seen, l->room * sizeof *l->seen);
	}
	l->seen[l->count++] = *p;
}

static void kill_pid(void *ctx, int pid)
{
	struct stale_search *l = ctx;
	struct proc *p = proctree_find(l->tree, pid);

	if (p)
		kill_one(l, p);
}

/* Parents mostly have lower pids; the next round finds the others. */
static void kill_marked(struct stale_search *l)
{
	size_t i;

	for (i = 0; i < l->tree->count; i++) {
		struct proc *p = &l->tree->procs[i], *parent;

		if (p->dead || p->pid == l->tree->self)
			continue;
		parent = proctree_parent(l->tree, p);
		if ((parent && parent->owner) || has_mark(l, p->pid)) {
			p->owner = l;
			kill_one(l, p);
		}
	}
}

static bool still_lives(struct stale_search *l, const struct proc *p)
{
	struct proc now;

	return proctree_look(l->tree, p->pid, &now) && now.start == p->start && !now.dead;
}

/* A killed process loses its environment, and maybe its parent, some time before it is dead. Until then it
 * still holds its files, and only this list knows it. */
static void wait_for_seen(struct stale_search *l)
{
	size_t i;

	for (i = 0; i < l->count && !l->left; i++)
		if (still_lives(l, &l->seen[i])) {
			l->left++;
			l->pid = l->seen[i].pid;
			l->start = l->seen[i].start;
		}
}

static void wait_a_little(struct stale_search *l)
{
	struct pollfd pfd = {.events = POLLIN, .fd = l->left ? proctree_open(l->tree, l->pid, l->start) : -1};

	poll(&pfd, 1, PAUSE_MS);
	if (pfd.fd >= 0)
		close(pfd.fd);
}

static void log_survivors(struct stale_search *l, int cgroups_left)
{
	size_t i;

	for (i = 0; i < l->count; i++)
		if (still_lives(l, &l->seen[i]))
			log_error(
				"a process of a previous life will not die, going on pid=%d", l->seen[i].pid);
	if (cgroups_left)
		log_error("cgroups of a previous life cannot be emptied, going on count=%d", cgroups_left);
}

int stale_kill(struct proc_groups *gs, const char *instance)
{
	static const char name[] = "HCP_INSTANCE=";
	struct stale_search l = {.proc_groups = gs, .tree = &gs->tree};
	int64_t until = clock_boot_us() + BOUND_US;
	int count, cgroups_left = 0;

	l.mark = xmalloc(sizeof name + strlen(instance));
	memcpy(l.mark, name, sizeof name);
	strcat(l.mark, instance);
	for (;;) {
		l.left = 0;
		if (proctree_walk(&gs->tree) < 0) {
			log_error("cannot look for processes of a previous life error=%s", strerror(errno));
			break;
		}
		kill_marked(&l);
		wait_for_seen(&l);
		cgroups_left = cgroups_kill_stale(gs->cgroups, kill_pid, &l);
		if (!l.left && !cgroups_left)
			break;
		if (clock_boot_us() >= until) {
			log_survivors(&l, cgroups_left);
			break;
		}
		wait_a_little(&l);
	}
	groups_invalidate(gs);
	count = (int)l.count;
	if (count)
		log_info("killed what a previous life left running count=%d", count);
	free(l.seen);
	free(l.mark);
	return count;
}
