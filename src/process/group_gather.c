/* SPDX-License-Identifier: MIT */
/* group_gather.c: finds the processes of some groups without a walk, at the same cost however many others
 * live. Owns the list of orphans, the search for foreign processes, and a snapshot of chosen ones. Never
 * decides that a group is empty, never signals a process. */
#include "process/group.h"

#include <errno.h>
#include <signal.h>
#include <utlist.h>

#include "base/buf.h"
#include "process/group_private.h"

#define ANCESTORS_MAX 10000

/* --- our children --- */

bool group_member_lives(struct proc_groups *gs, const struct member *m)
{
	struct proc now;

	if (m->start == PROC_HIDDEN)
		return proctree_child_lives(m->pid) == 1;
	return proctree_look(&gs->tree, m->pid, &now) && now.start == m->start && !now.dead;
}

static void orphan_record(struct proc_groups *gs, int pid, struct proc_group *g)
{
	if (gs->orphan_count == gs->orphan_room) {
		gs->orphan_room = gs->orphan_room ? 2 * gs->orphan_room : 16;
		gs->orphans = xrealloc(gs->orphans, gs->orphan_room * sizeof *gs->orphans);
	}
	gs->orphans[gs->orphan_count++] = (struct orphan){pid, g};
}

/* A zombie counts: its SIGCHLD comes next, and its children are ours by then. */
static bool look_at_child(void *ctx, int pid)
{
	struct proc_groups *gs = ctx;
	struct proc_group *g = groups_find_main(gs, pid);
	struct member *m;

	if (g && !g->reaped)
		return true;
	g = groups_find_tag(gs, proctree_tag(&gs->tree, pid));
	m = g ? NULL : groups_find_member(gs, pid);
	if (m && group_member_lives(gs, m))
		g = m->proc_group;
	else if (!g)
		gs->unknown = true;
	if (g) {
		g->seen = gs->check;
		orphan_record(gs, pid, g);
	}
	return true;
}

bool groups_look_at_children(struct proc_groups *gs)
{
	gs->check++;
	gs->unknown = false;
	gs->orphan_count = 0;
	return proctree_children(&gs->tree, look_at_child, gs) == 0 && !gs->unknown;
}

/* --- foreign processes --- */

/* Is it known to come from the daemon, without a look at its ancestors? */
static bool is_inside(void *ctx, int pid)
{
	struct proc_groups *gs = ctx;
	const struct proc_group *g = groups_find_main(gs, pid);

	return (g && !g->reaped) || groups_may_be_tag(gs, proctree_tag(&gs->tree, pid));
}

static bool descends(struct proc_groups *gs, struct proc p)
{
	for (int i = 0; i < ANCESTORS_MAX && p.ppid > 0; i++)
		if (p.ppid == gs->tree.self || is_inside(gs, p.ppid))
			return true;
		else if (!proctree_look(&gs->tree, p.ppid, &p))
			return false;
	return false;
}

/* A thread that is not its process's first has a pid too; the first one is looked at beside it. */
static bool is_process(struct proc_groups *gs, const struct proc *p)
{
	int fd = proctree_open(&gs->tree, p->pid, p->start);

	if (fd >= 0)
		proctree_close_spare(&gs->tree, fd);
	return fd >= 0 || (errno != EINVAL && errno != ENOENT && errno != ESRCH);
}

static void look_at_outsider(struct proc_groups *gs, const struct outsider *o)
{
	const struct member *m = groups_find_member(gs, o->pid);
	struct proc p = {.pid = o->pid};
	struct proc_group *g;

	if (m && m->start == o->start)
		return;
	g = groups_find_by_mark(gs, &p);
	if (!g || !proctree_look(&gs->tree, o->pid, &p) || p.start != o->start || p.dead)
		return;
	if (descends(gs, p) || !is_process(gs, &p))
		return;
	p.owner = g;
	groups_record_member(gs, &p);
}

bool groups_search_foreigners(struct proc_groups *gs, uint64_t since)
{
	if (since == NO_FOREIGNERS || !gs->by_mark || gs->searched_since <= since)
		return true;
	if (outsiders_look(&gs->outsiders, &gs->tree, is_inside, gs) < 0)
		return false;
	for (size_t i = 0; i < gs->outsiders.count; i++)
		if (gs->outsiders.list[i].start >= since)
			look_at_outsider(gs, &gs->outsiders.list[i]);
	gs->searched_since = since;
	return true;
}

/* --- the processes of some groups --- */

/* One group; NULL: all that are being killed. */
static bool is_meant(const struct proc_group *g, const struct proc_group *one)
{
	return g && (one ? g == one : g->killing);
}

/* parent: it must be that one's child; 0: whoever's. start: as in a member; 0: whichever. False: it is there,
 * and cannot be read. */
static bool gather_pid(struct proc_groups *gs, int pid, int parent, uint64_t start, struct proc_group *g)
{
	struct proc *p;

	if (!proctree_add(&gs->tree, pid))
		return kill(pid, 0) < 0 && errno == ESRCH;
	p = &gs->tree.procs[gs->tree.count - 1];
	if ((parent && p->ppid != parent) || (start && p->start != start)) {
		gs->tree.count--; /* another one; or an orphan by now, which is found among our children */
		return true;
	}
	p->settled = p->ours = true;
	p->owner = g;
	return true;
}

struct gatherer {
	struct proc_groups *gs;
	const struct proc *parent;
	bool failed;
};

static bool gather_child(void *ctx, int pid)
{
	struct gatherer *r = ctx;
	struct proctree *t = &r->gs->tree;
	size_t before = t->count;

	r->failed = !gather_pid(r->gs, pid, r->parent->pid, 0, r->parent->owner) || r->failed;
	if (t->count > before)
		t->procs[before].ours = r->parent->ours;
	return true;
}

/* From what is gathered down to the last descendant. */
static bool gather_descendants(struct proc_groups *gs)
{
	for (size_t i = 0; i < gs->tree.count; i++) {
		struct proc parent = gs->tree.procs[i];
		struct gatherer r = {gs, &parent, false};

		if (parent.dead)
			continue;
		if (proctree_each_child(&gs->tree, parent.pid, -1, gather_child, &r) < 0 &&
			(kill(parent.pid, 0) == 0 || errno != ESRCH))
			return false;
		if (r.failed)
			return false;
	}
	return true;
}

static bool gather_members(struct proc_groups *gs, const struct proc_group *one)
{
	struct member *m, *next;

	HASH_ITER(hh, gs->members, m, next) {
		size_t before = gs->tree.count;

		if (!is_meant(m->proc_group, one))
			continue;
		if (!gather_pid(gs, m->pid, 0, m->start, m->proc_group))
			return false;
		if (gs->tree.count > before)
			gs->tree.procs[before].ours = !m->foreign;
	}
	return true;
}

bool groups_gather(struct proc_groups *gs, struct proc_group *one, uint64_t since)
{
	struct proc_group *g;

	gs->fresh = false;
	proctree_clear(&gs->tree);
	if (!groups_look_at_children(gs) || !groups_search_foreigners(gs, since))
		return false;
	DL_FOREACH(one ? one : gs->all, g) {
		if (is_meant(g, one) && !g->reaped && !gather_pid(gs, g->pid, gs->tree.self, 0, g))
			return false;
		if (one)
			break;
	}
	for (size_t i = 0; i < gs->orphan_count; i++)
		if (is_meant(gs->orphans[i].proc_group, one) &&
			!gather_pid(gs, gs->orphans[i].pid, gs->tree.self, 0, gs->orphans[i].proc_group))
			return false;
	if (!gather_members(gs, one) || !gather_descendants(gs))
		return false;
	proctree_tidy(&gs->tree);
	for (size_t i = 0; i < gs->tree.count; i++)
		groups_record_member(gs, &gs->tree.procs[i]);
	return true;
}

bool groups_look_for(struct proc_groups *gs, struct proc_group *one, bool anew, uint64_t since)
{
	struct proc_group *g;

	gs->readable = (!gs->cgroups && groups_gather(gs, one, since)) ||
		(anew ? groups_walk(gs, since) : groups_look(gs, since));
	if (!gs->readable || !gs->cgroups)
		return gs->readable;
	DL_FOREACH(gs->all, g)
		if (is_meant(g, one))
			groups_claim_cgroup(gs, g);
	return true;
}
