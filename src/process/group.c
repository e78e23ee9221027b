/* SPDX-License-Identifier: MIT */
/* group.c: assigns processes to process groups, over a snapshot of /proc.
 * Owns the tables of main processes, tags, marks and processes seen before. Never talks to a worker: no
 * pipe, no deadline, no callback. */
#include "process/group.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <utlist.h>

#include "base/buf.h"
#include "base/crashpoint.h"
#include "base/log.h"

#define STOP_ROUNDS 6 /* walks to stop a tree that forks while it is being stopped */
#define INSTANCE "HCP_INSTANCE="
#define TAG_SERIALS (1u << 24)   /* low bits of a tag; above them 38 bits that name the instance */
#define NO_FOREIGNERS UINT64_MAX /* value of since: no search for foreign processes */
/* Foreign processes (no descendants of ours) of workers that ran for a short time are looked up one by one,
 * among the pids that were given out meanwhile. That takes some microseconds, a walk hundreds. Above these
 * limits the pids may have wrapped, or a walk is cheaper. */
#define SCAN_PIDS 256
#define SCAN_AGE 200 /* in the unit of `start`: 2 s */

struct member {
	int pid;
	bool foreign; /* no descendant of ours: found by its mark */
	unsigned stopped;
	uint64_t start;
	struct proc_group *proc_group; /* NULL: no group's */
	UT_hash_handle hh;
};

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

static void member_drop(struct proc_groups *gs, struct member *m)
{
	HASH_DEL(gs->members, m);
	free(m);
}

static struct member *member_find(struct proc_groups *gs, int pid)
{
	struct member *m;

	HASH_FIND_INT(gs->members, &pid, m);
	return m;
}

static struct proc_group *main_find(struct proc_groups *gs, int pid)
{
	struct proc_group *g;

	HASH_FIND(by_pid, gs->by_pid, &pid, sizeof pid, g);
	return g;
}

void groups_fini(struct proc_groups *gs)
{
	struct member *m, *next;

	assert(!gs->all);
	HASH_ITER(hh, gs->members, m, next)
		member_drop(gs, m);
	cgroups_free(gs->cgroups);
	proctree_fini(&gs->tree);
	free(gs->instance);
}

bool groups_may_be_tag(const struct proc_groups *gs, uint64_t tag)
{
	return gs->tag_base && tag / TAG_SERIALS == gs->tag_base / TAG_SERIALS;
}

static struct proc_group *tag_find(struct proc_groups *gs, uint64_t tag)
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
	} while (tag_find(gs, gs->last_tag));
	return gs->last_tag;
}

void groups_add(struct proc_groups *gs, struct proc_group *g, int pid, uint64_t start, uint64_t tag,
	const char *mark, unsigned cgroup)
{
	struct proc_group *old = main_find(gs, pid);
	struct member *m = member_find(gs, pid);

	memset(g, 0, sizeof *g);
	g->pid = pid;
	g->start = start;
	g->tag = tag;
	g->cgroup = cgroup;
	gs->fresh = false; /* the snapshot does not have it */
	DL_APPEND(gs->all, g);
	if (old) { /* the group's main process was reaped long ago, and the pid was used again */
		HASH_DELETE(by_pid, gs->by_pid, old);
		old->has_pid = false;
	}
	if (m)
		member_drop(gs, m);
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
	if (g->reaped)
		DL_DELETE2(gs->ended, g, prev_ended, next_ended);
	HASH_ITER(hh, gs->members, m, next)
		if (m->proc_group == g)
			member_drop(gs, m);
	for (i = 0; i < gs->tree.count; i++) /* the snapshot may outlive the group */
		if (gs->tree.procs[i].owner == g)
			gs->tree.procs[i].owner = NULL;
	cgroup_remove(gs->cgroups, g->cgroup);
	free(g->mark);
	g->mark = NULL;
}

void groups_invalidate(struct proc_groups *gs)
{
	gs->fresh = false;
}

struct proc_group *groups_on_reaped(struct proc_groups *gs, int pid)
{
	struct proc_group *g = main_find(gs, pid);
	struct member *m = member_find(gs, pid);

	gs->fresh = false; /* its children got a new parent */
	if (m)
		member_drop(gs, m);
	if (!g || g->reaped)
		return NULL;
	g->reaped = true;
	DL_APPEND2(gs->ended, g, prev_ended, next_ended);
	return g;
}

/* --- attribution --- */

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

static struct proc_group *find_by_mark(struct proc_groups *gs, const struct proc *p)
{
	struct mark_look l = {.gs = gs};

	if (gs->by_mark && !p->dead)
		proctree_environ(&gs->tree, p->pid, look_for_mark, &l);
	return l.is_others ? NULL : l.found;
}

static struct proc_group *find_by_evidence(struct proc_groups *gs, const struct proc *p)
{
	struct proc_group *g = tag_find(gs, proctree_tag(&gs->tree, p->pid));

	if (!g || g->start > p->start) /* of a previous run, and could not be killed */
		g = main_find(gs, p->pgid);
	if (!g || g->start > p->start)
		g = main_find(gs, p->sid);
	if (g && g->start <= p->start)
		return g;
	return find_by_mark(gs, p);
}

/* The parent of p is settled, or NULL. */
static void settle_one(struct proc_groups *gs, struct proc *p, const struct proc *parent)
{
	struct proc_group *g = main_find(gs, p->pid);
	struct member *m = member_find(gs, p->pid);

	p->settled = true;
	if (p->pid == gs->tree.self) {
		p->ours = true;
		return;
	}
	/* A parent that the snapshot lacks may be a hidden one of ours. */
	p->ours = parent ? parent->ours : p->ppid > 0 && tag_find(gs, proctree_tag(&gs->tree, p->pid));
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

static void member_record(struct proc_groups *gs, const struct proc *p)
{
	struct proc_group *g = p->owner;
	struct member *m;

	if (p->dead || (g ? p->pid == g->pid && !g->reaped : !p->ours || p->pid == gs->tree.self))
		return;
	m = member_find(gs, p->pid);
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

/* Processes started by another daemon (at, systemd-run) on a worker's behalf, found by their environment. */
static void find_foreign(struct proc_groups *gs)
{
	size_t i;

	for (i = 0; i < gs->tree.count; i++) {
		struct proc *p = &gs->tree.procs[i], *parent;

		if (p->owner || p->dead || p->start < gs->since || p->pid == gs->tree.self)
			continue;
		parent = proctree_parent(&gs->tree, p);
		p->owner = parent && parent->owner ? parent->owner : find_by_mark(gs, p);
	}
}

/* Foreign processes are searched among those that started since then. */
static bool walk(struct proc_groups *gs, uint64_t since)
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
			member_drop(gs, m);
	}
	for (i = 0; i < gs->tree.count; i++)
		member_record(gs, &gs->tree.procs[i]);
	return true;
}

/* A walk, unless there was one in this turn. */
static bool look(struct proc_groups *gs, uint64_t since)
{
	return (gs->fresh && gs->since <= since) || walk(gs, since);
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
	member_record(l->gs, p);
}

static void claim_cgroup(struct proc_groups *gs, struct proc_group *g)
{
	struct cgroup_look l = {gs, g};

	cgroup_each_pid(gs->cgroups, g->cgroup, claim_pid, &l);
}

/* --- queries --- */

static bool member_lives(struct proc_groups *gs, const struct member *m)
{
	struct proc now;

	if (m->start == PROC_HIDDEN)
		return proctree_child_lives(m->pid) == 1;
	return proctree_look(&gs->tree, m->pid, &now) && now.start == m->start && !now.dead;
}

/* A zombie counts: its SIGCHLD comes next, and its children are ours by then. */
static bool look_at_child(void *ctx, int pid)
{
	struct proc_groups *gs = ctx;
	struct proc_group *g = main_find(gs, pid);
	struct member *m;

	if (g && !g->reaped)
		return true;
	g = tag_find(gs, proctree_tag(&gs->tree, pid));
	m = g ? NULL : member_find(gs, pid);
	if (m && member_lives(gs, m))
		g = m->proc_group;
	else if (!g)
		gs->unknown = true;
	if (g)
		g->seen = gs->check;
	return true;
}

/* Looks only at our children, with one small read. False: for one of them a walk is needed. */
static bool look_at_children(struct proc_groups *gs)
{
	gs->check++;
	gs->unknown = false;
	return proctree_children(&gs->tree, look_at_child, gs) == 0 && !gs->unknown;
}

/* May a process that does not descend from us carry a mark of the groups that have just ended? *since: the
 * start of the oldest of those. */
static bool may_have_foreigners(struct proc_groups *gs, uint64_t *since)
{
	int first = INT_MAX, last, pid;
	struct proc_group *g;

	*since = NO_FOREIGNERS;
	DL_FOREACH2(gs->ended, g, next_ended)
	if (!g->searched) {
		*since = g->start < *since ? g->start : *since;
		first = g->pid < first ? g->pid : first;
	}
	if (*since == NO_FOREIGNERS)
		return false;
	last = proctree_last_pid(&gs->tree);
	if (last < first || last - first > SCAN_PIDS || proctree_now() - *since > SCAN_AGE)
		return true;
	for (pid = first; pid <= last; pid++) {
		struct proc p = {.pid = pid};

		g = main_find(gs, pid);
		if ((g && !g->reaped) || (kill(pid, 0) < 0 && errno == ESRCH))
			continue;
		g = find_by_mark(gs, &p);
		if (g && g->reaped && !g->searched)
			return true;
	}
	*since = NO_FOREIGNERS;
	return false;
}

static void check_members(struct proc_groups *gs)
{
	struct member *m, *next;

	HASH_ITER(hh, gs->members, m, next)
		if (m->foreign && m->proc_group && m->proc_group->seen != gs->check && member_lives(gs, m))
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

void groups_check(struct proc_groups *gs)
{
	bool known = look_at_children(gs);
	uint64_t since;
	struct proc_group *g;

	gs->unsure = false;
	if (!may_have_foreigners(gs, &since) && known)
		check_members(gs);
	else if (look(gs, since))
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

	(void)look(gs, g->start);
	count_live(gs, g, &pid);
	return pid;
}

bool group_is_alone(struct proc_groups *gs, struct proc_group *g)
{
	int pid;

	/* It may be a zombie whose SIGCHLD was not handled yet. */
	if (g->reaped || proctree_child_lives(g->pid) != 1)
		return false;
	if (proctree_has_children(&gs->tree, g->pid) == 0 && look_at_children(gs) && !g->cgroup)
		return g->seen != gs->check;
	if (!walk(gs, NO_FOREIGNERS))
		return false; /* not known: counts as no */
	claim_cgroup(gs, g);
	return count_live(gs, g, &pid) == 1;
}

/* --- signals --- */

int group_signal(struct proc_groups *gs, struct proc_group *g, int sig)
{
	int n = 0;
	size_t i;

	if (!look(gs, g->start)) /* at least the kernel's process group; the main process is not reaped, so
				    the group is ours */
		return !g->reaped && kill(-g->pid, sig) == 0;
	claim_cgroup(gs, g);
	for (i = 0; i < gs->tree.count; i++) {
		struct proc *p = &gs->tree.procs[i];

		if (p->owner == g && !p->dead && proctree_signal(&gs->tree, p->pid, p->start, sig) == 0)
			n++;
	}
	return n;
}

/* True: the process was not stopped in this round before. */
static bool stop_one(struct proc_groups *gs, const struct proc *p)
{
	struct proc_group *g = p->owner;
	struct member *m = member_find(gs, p->pid);
	unsigned *stopped = m ? &m->stopped : &g->stopped;

	if (*stopped == gs->round)
		return false;
	*stopped = gs->round;
	return proctree_signal(&gs->tree, p->pid, p->start, SIGSTOP) == 0;
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
	if (!walk(gs, since))
		return true;
	DL_FOREACH(gs->all, g)
		if (g->killing)
			claim_cgroup(gs, g);
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
	if (!gs->fresh) {
		DL_FOREACH(gs->all, g)
			if (g->killing && !g->reaped)
				kill(-g->pid, SIGKILL);
		return;
	}
	for (i = 0; i < gs->tree.count; i++)
		if (is_being_killed(&gs->tree.procs[i]))
			proctree_signal(&gs->tree, gs->tree.procs[i].pid, gs->tree.procs[i].start, SIGKILL);
	CRASH_POINT(group_killed);
	gs->fresh = false;
}
