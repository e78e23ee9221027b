/* SPDX-License-Identifier: MIT */
/* group.c: the tables of process groups.
 * Owns the tables of main processes, tags, marks and processes seen before. Never looks for a process, never
 * talks to a worker: no pipe, no deadline, no callback. */
#include "process/group.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utlist.h>

#include "base/buf.h"
#include "base/log.h"
#include "process/group_private.h"

#define TAG_SERIALS (1u << 24) /* low bits of a tag; above them 38 bits that name the instance */

/* FNV-1a: the same in every run of the instance, so that processes of the previous run are found by their
 * tags. */
static uint64_t make_tag_base(const char *instance)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *instance; instance++)
		h = (h ^ (unsigned char)*instance) * 0x100000001b3u;
	return (h >> 26 | 1) * TAG_SERIALS;
}

int groups_init(struct proc_groups *gs, const char *cgroup_setting, const char *instance)
{
	struct rlimit lim;

	memset(gs, 0, sizeof *gs);
	gs->searched_since = NO_FOREIGNERS;
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || proctree_init(&gs->tree) < 0)
		return -1;
	if (getrlimit(RLIMIT_LOCKS, &lim) == 0 && lim.rlim_max == RLIM_INFINITY)
		gs->tag_base = make_tag_base(instance);
	else
		log_warn(
			"a limit on file locks (LimitLOCKS=, ulimit -x) is set: daemons of workers may go "
			"unnoticed");
	gs->cgroups = cgroups_new(cgroup_setting, instance, &gs->tree);
	gs->instance = xmalloc(sizeof INSTANCE + strlen(instance));
	strcpy(stpcpy(gs->instance, INSTANCE), instance);
	return 0;
}

void groups_drop_member(struct proc_groups *gs, struct member *m)
{
	HASH_DEL(gs->members, m);
	free(m);
}

struct member *groups_find_member(struct proc_groups *gs, int pid)
{
	struct member *m;

	HASH_FIND_INT(gs->members, &pid, m);
	return m;
}

struct proc_group *groups_find_main(struct proc_groups *gs, int pid)
{
	struct proc_group *g;

	HASH_FIND(by_pid, gs->by_pid, &pid, sizeof pid, g);
	return g;
}

void groups_record_member(struct proc_groups *gs, const struct proc *p)
{
	struct proc_group *g = p->owner;
	struct member *m;

	if (p->dead || (g ? p->pid == g->pid && !g->reaped : !p->ours || p->pid == gs->tree.self))
		return;
	m = groups_find_member(gs, p->pid);
	if (!m) {
		m = xcalloc(1, sizeof *m);
		m->pid = p->pid;
		HASH_ADD_INT(gs->members, pid, m);
	} else if (m->start != p->start) {
		m->stopped = 0;
	}
	m->start = p->start;
	m->proc_group = g;
	m->foreign = !p->ours;
}

void groups_fini(struct proc_groups *gs)
{
	struct member *m, *next;

	assert(!gs->all);
	HASH_ITER(hh, gs->members, m, next)
		groups_drop_member(gs, m);
	cgroups_free(gs->cgroups);
	outsiders_fini(&gs->outsiders);
	free(gs->orphans);
	proctree_fini(&gs->tree);
	free(gs->instance);
}

bool groups_may_be_tag(const struct proc_groups *gs, uint64_t tag)
{
	return gs->tag_base && tag / TAG_SERIALS == gs->tag_base / TAG_SERIALS;
}

struct proc_group *groups_find_tag(struct proc_groups *gs, uint64_t tag)
{
	struct proc_group *g = NULL;

	if (groups_may_be_tag(gs, tag))
		HASH_FIND(by_tag, gs->by_tag, &tag, sizeof tag, g);
	return g;
}

uint64_t groups_next_tag(struct proc_groups *gs)
{
	if (!gs->tag_base)
		return 0;
	do { /* tags wrap after sixteen million processes */
		gs->last_tag = gs->tag_base | ((gs->last_tag + 1) & (TAG_SERIALS - 1));
	} while (groups_find_tag(gs, gs->last_tag));
	return gs->last_tag;
}

void groups_add(struct proc_groups *gs, struct proc_group *g, int pid, uint64_t start, uint64_t tag,
	const char *mark, unsigned cgroup)
{
	struct proc_group *old = groups_find_main(gs, pid);
	struct member *m = groups_find_member(gs, pid);

	memset(g, 0, sizeof *g);
	g->pid = pid;
	g->start = start;
	g->tag = tag;
	g->cgroup = cgroup;
	g->children_fd = -1;
	groups_invalidate(gs); /* the snapshot does not have it */
	DL_APPEND(gs->all, g);
	gs->live++;
	if (old) { /* the group's main process was reaped long ago, and the pid was used again */
		HASH_DELETE(by_pid, gs->by_pid, old);
		old->has_pid = false;
	}
	if (m)
		groups_drop_member(gs, m);
	HASH_ADD(by_pid, gs->by_pid, pid, sizeof g->pid, g);
	g->has_pid = true;
	if (tag)
		HASH_ADD(by_tag, gs->by_tag, tag, sizeof g->tag, g);
	if (!mark)
		return;
	g->mark = xstrdup(mark);
	HASH_FIND(by_mark, gs->by_mark, mark, strlen(mark), old);
	if (old) { /* the newest group of a session has the mark */
		HASH_DELETE(by_mark, gs->by_mark, old);
		old->has_mark = false;
	}
	HASH_ADD_KEYPTR(by_mark, gs->by_mark, g->mark, strlen(g->mark), g);
	g->has_mark = true;
}

void groups_remove(struct proc_groups *gs, struct proc_group *g)
{
	struct member *m, *next;
	size_t i;

	DL_DELETE(gs->all, g);
	if (g->has_pid)
		HASH_DELETE(by_pid, gs->by_pid, g);
	if (g->has_mark)
		HASH_DELETE(by_mark, gs->by_mark, g);
	if (g->tag)
		HASH_DELETE(by_tag, gs->by_tag, g);
	if (!g->reaped)
		gs->live--;
	if (g->reaped)
		DL_DELETE2(gs->ended, g, prev_ended, next_ended);
	HASH_ITER(hh, gs->members, m, next)
		if (m->proc_group == g)
			groups_drop_member(gs, m);
	for (i = 0; i < gs->tree.count; i++) /* the snapshot may outlive the group */
		if (gs->tree.procs[i].owner == g)
			gs->tree.procs[i].owner = NULL;
	for (i = 0; i < gs->orphan_count; i++)
		if (gs->orphans[i].proc_group == g)
			gs->orphans[i--] = gs->orphans[--gs->orphan_count];
	if (g->children_fd >= 0)
		close(g->children_fd);
	cgroup_remove(gs->cgroups, g->cgroup);
	free(g->mark);
	g->mark = NULL;
}

size_t groups_count(const struct proc_groups *gs)
{
	return gs->live;
}

void groups_invalidate(struct proc_groups *gs)
{
	gs->fresh = false;
	gs->searched_since = NO_FOREIGNERS;
}

struct proc_group *groups_on_reaped(struct proc_groups *gs, int pid)
{
	struct proc_group *g = groups_find_main(gs, pid);
	struct member *m = groups_find_member(gs, pid);

	groups_invalidate(gs); /* its children got a new parent */
	if (m)
		groups_drop_member(gs, m);
	if (!g || g->reaped)
		return NULL;
	g->reaped = true;
	gs->live--;
	DL_APPEND2(gs->ended, g, prev_ended, next_ended);
	return g;
}
