/* SPDX-License-Identifier: MIT */
/* group_check.c: what is left of a group?
 * Owns the decision that a group is empty, and the proof that it needs: a check that could read /proc, and a
 * search for foreign processes after the main process was reaped. Never signals a process. */
#include "process/group.h"

#include <utlist.h>

#include "process/group_private.h"

/* What a foreign process of these groups starts may have no mark. */
static void follow_foreigners(struct proc_groups *gs)
{
	struct proc_group *g;
	struct member *m, *next;
	bool any = false;

	HASH_ITER(hh, gs->members, m, next)
		any = any ||
			(m->foreign && m->proc_group && m->proc_group->reaped && !m->proc_group->searched);
	if (!any)
		return;
	DL_FOREACH2(gs->ended, g, next_ended)
	if (!g->searched)
		(void)groups_gather(gs, g, g->start);
}

static void check_members(struct proc_groups *gs)
{
	struct member *m, *next;

	HASH_ITER(hh, gs->members, m, next)
		if (m->foreign && m->proc_group && m->proc_group->seen != gs->check &&
			group_member_lives(gs, m))
			m->proc_group->seen = gs->check;
}

static void check_snapshot(struct proc_groups *gs)
{
	size_t i;

	for (i = 0; i < gs->tree.count; i++) {
		struct proc *p = &gs->tree.procs[i];
		bool is_child = p->ppid == gs->tree.self;

		if (p->owner && (!p->dead || is_child))
			((struct proc_group *)p->owner)->seen = gs->check;
		else if (!p->owner && p->dead && is_child && !gs->tag_base)
			/* its group and its children are found when it is reaped */
			gs->unsure = true;
	}
}

static uint64_t find_unsearched(struct proc_groups *gs)
{
	uint64_t since = NO_FOREIGNERS;
	struct proc_group *g;

	DL_FOREACH2(gs->ended, g, next_ended)
	if (!g->searched && g->start < since)
		since = g->start;
	return since;
}

void groups_check(struct proc_groups *gs)
{
	uint64_t since = find_unsearched(gs);
	struct proc_group *g;

	gs->unsure = !groups_search_foreigners(gs, since);
	follow_foreigners(gs);
	if (groups_look_at_children(gs))
		check_members(gs);
	else if (groups_walk(gs, since))
		check_snapshot(gs);
	else
		gs->unsure = true;
	DL_FOREACH2(gs->ended, g, next_ended)
	g->searched = g->searched || !gs->unsure;
}

bool group_is_empty(struct proc_groups *gs, const struct proc_group *g)
{
	return g->reaped && !gs->unsure && g->seen != gs->check &&
		!cgroup_is_populated(gs->cgroups, g->cgroup);
}

static int count_live(struct proc_groups *gs, const struct proc_group *g, int *pid)
{
	int n = 0;
	size_t i;

	for (i = 0; i < gs->tree.count; i++)
		if (gs->tree.procs[i].owner == g && !gs->tree.procs[i].dead) {
			*pid = gs->tree.procs[i].pid;
			n++;
		}
	return n;
}

int group_find_live(struct proc_groups *gs, const struct proc_group *g)
{
	int pid = 0;

	(void)groups_look(gs, g->start);
	count_live(gs, g, &pid);
	return pid;
}

static bool record_child(void *ctx, int pid)
{
	(void)pid;
	*(bool *)ctx = true;
	return false;
}

static bool has_no_children(struct proc_groups *gs, struct proc_group *g)
{
	bool any = false;

	if (g->children_fd < 0)
		g->children_fd = proctree_open_children(&gs->tree, g->pid);
	return proctree_each_child(&gs->tree, g->pid, g->children_fd, record_child, &any) == 0 && !any;
}

/* It may be a zombie whose SIGCHLD was not handled yet. */
bool group_lives(const struct proc_group *g)
{
	return !g->reaped && proctree_child_lives(g->pid) == 1;
}

bool group_is_alone(struct proc_groups *gs, struct proc_group *g)
{
	int pid;

	if (!group_lives(g))
		return false;
	if (has_no_children(gs, g) && groups_look_at_children(gs) && !g->cgroup)
		return g->seen != gs->check;
	if (!groups_walk(gs, NO_FOREIGNERS))
		return false; /* not known: counts as no */
	groups_claim_cgroup(gs, g);
	return count_live(gs, g, &pid) == 1;
}
