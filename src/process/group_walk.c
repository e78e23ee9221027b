/* SPDX-License-Identifier: MIT */
/* group_walk.c: assigns processes to process groups, over a snapshot of /proc.
 * Owns the order of the signs by which a process belongs to a group. Never signals a process. */
#include "process/group.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "process/group_private.h"

struct mark_look {
	struct proc_groups *gs;
	struct proc_group *found;
	bool is_others; /* another daemon's: a copy of our state directory has sessions of the same ids */
};

static bool look_for_mark(void *ctx, const char *var)
{
	struct mark_look *l = ctx;

	if (strncmp(var, INSTANCE, sizeof INSTANCE - 1) == 0)
		l->is_others = strcmp(var, l->gs->instance) != 0;
	else if (!l->found)
		HASH_FIND(by_mark, l->gs->by_mark, var, strlen(var), l->found);
	return !l->is_others;
}

struct proc_group *groups_find_by_mark(struct proc_groups *gs, const struct proc *p)
{
	struct mark_look l = {.gs = gs};

	if (gs->by_mark && !p->dead)
		proctree_environ(&gs->tree, p->pid, look_for_mark, &l);
	return l.is_others ? NULL : l.found;
}

static struct proc_group *find_by_evidence(struct proc_groups *gs, const struct proc *p)
{
	struct proc_group *g = groups_find_tag(gs, proctree_tag(&gs->tree, p->pid));

	if (!g || g->start > p->start) /* of a previous run, and could not be killed */
		g = groups_find_main(gs, p->pgid);
	if (!g || g->start > p->start)
		g = groups_find_main(gs, p->sid);
	if (g && g->start <= p->start)
		return g;
	return groups_find_by_mark(gs, p);
}

/* The parent of p is settled, or NULL. */
static void settle_one(struct proc_groups *gs, struct proc *p, const struct proc *parent)
{
	struct proc_group *g = groups_find_main(gs, p->pid);
	struct member *m = groups_find_member(gs, p->pid);

	p->settled = true;
	if (p->pid == gs->tree.self) {
		p->ours = true;
		return;
	}
	/* A parent that the snapshot lacks may be a hidden one of ours. */
	p->ours = parent ? parent->ours : p->ppid > 0 && groups_find_tag(gs, proctree_tag(&gs->tree, p->pid));
	if (g && !g->reaped)
		p->owner = g;
	else if (m && m->start == p->start)
		p->owner = m->proc_group;
	else if (parent && parent->owner)
		p->owner = parent->owner;
	else if (p->ours)
		p->owner = find_by_evidence(gs, p);
}

/* From the ancestor down, without recursion: a chain of processes may be very long. */
static void settle(struct proc_groups *gs, struct proc *p)
{
	while (!p->settled) {
		struct proc *at = p, *parent;
		size_t steps = 0;

		while ((parent = proctree_parent(&gs->tree, at)) && !parent->settled &&
			steps++ < gs->tree.count)
			at = parent;
		settle_one(gs, at, parent && parent->settled ? parent : NULL);
	}
}

/* Processes started by another daemon (at, systemd-run) on a worker's behalf, found by their environment. */
static void find_foreign(struct proc_groups *gs)
{
	size_t i;

	for (i = 0; i < gs->tree.count; i++) {
		struct proc *p = &gs->tree.procs[i], *parent;

		if (p->owner || p->dead || p->start < gs->since || p->pid == gs->tree.self)
			continue;
		parent = proctree_parent(&gs->tree, p);
		p->owner = parent && parent->owner ? parent->owner : groups_find_by_mark(gs, p);
	}
}

bool groups_walk(struct proc_groups *gs, uint64_t since)
{
	static struct log_limit limit;
	struct member *m, *next;
	size_t i;

	gs->since = since;
	gs->fresh = proctree_walk(&gs->tree) == 0;
	if (!gs->fresh) {
		if (log_may(&limit, 3))
			log_warn("cannot read /proc, trying again error=%s", strerror(errno));
		gs->tree.count = 0;
		return false;
	}
	for (i = 0; i < gs->tree.count; i++)
		settle(gs, &gs->tree.procs[i]);
	if (since != NO_FOREIGNERS)
		find_foreign(gs);
	HASH_ITER(hh, gs->members, m, next) {
		struct proc *p = proctree_find(&gs->tree, m->pid);

		if (!p || p->start != m->start || p->dead)
			groups_drop_member(gs, m);
	}
	for (i = 0; i < gs->tree.count; i++)
		groups_record_member(gs, &gs->tree.procs[i]);
	return true;
}

bool groups_look(struct proc_groups *gs, uint64_t since)
{
	return (gs->fresh && gs->since <= since) || groups_walk(gs, since);
}

struct cgroup_look {
	struct proc_groups *gs;
	struct proc_group *proc_group;
};

static void claim_pid(void *ctx, int pid)
{
	struct cgroup_look *l = ctx;
	struct proc *p = proctree_find(&l->gs->tree, pid);

	if (!p || pid == l->gs->tree.self)
		return;
	p->owner = l->proc_group;
	groups_record_member(l->gs, p);
}

void groups_claim_cgroup(struct proc_groups *gs, struct proc_group *g)
{
	struct cgroup_look l = {gs, g};

	cgroup_each_pid(gs->cgroups, g->cgroup, claim_pid, &l);
}
