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
#include <unistd.h>
#include <utlist.h>

#include "base/buf.h"
#include "base/crashpoint.h"
#include "base/log.h"

#define STOP_ROUNDS 6 /* walks to stop a tree that forks while it is being stopped */
#define INSTANCE "HCP_INSTANCE="
#define TAG_SERIALS (1u << 24)   /* low bits of a tag; above them 38 bits that name the instance */
#define NO_FOREIGNERS UINT64_MAX /* value of since: no search for foreign processes */
#define ANCESTORS_MAX 10000

struct member {
	int pid;
	bool foreign; /* no descendant of ours: found by its mark */
	unsigned stopped;
	uint64_t start;
	struct proc_group *proc_group; /* NULL: no group's */
	UT_hash_handle hh;
};

struct orphan {
	int pid;
	struct proc_group *proc_group;
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
	outsiders_fini(&gs->outsiders);
	free(gs->orphans);
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
	g->children_fd = -1;
	groups_invalidate(gs); /* the snapshot does not have it */
	DL_APPEND(gs->all, g);
	gs->live++;
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
	if (!g->reaped)
		gs->live--;
	if (g->reaped)
		DL_DELETE2(gs->ended, g, prev_ended, next_ended);
	HASH_ITER(hh, gs->members, m, next)
		if (m->proc_group == g)
			member_drop(gs, m);
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
	struct proc_group *g = main_find(gs, pid);
	struct member *m = member_find(gs, pid);

	groups_invalidate(gs); /* its children got a new parent */
	if (m)
		member_drop(gs, m);
	if (!g || g->reaped)
		return NULL;
	g->reaped = true;
	gs->live--;
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
	if (g) {
		g->seen = gs->check;
		orphan_record(gs, pid, g);
	}
	return true;
}

/* Looks only at our children, with one small read. False: for one of them a walk is needed. */
static bool look_at_children(struct proc_groups *gs)
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
	const struct proc_group *g = main_find(gs, pid);

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
	const struct member *m = member_find(gs, o->pid);
	struct proc p = {.pid = o->pid};
	struct proc_group *g;

	if (m && m->start == o->start)
		return;
	g = find_by_mark(gs, &p);
	if (!g || !proctree_look(&gs->tree, o->pid, &p) || p.start != o->start || p.dead)
		return;
	if (descends(gs, p) || !is_process(gs, &p))
		return;
	p.owner = g;
	member_record(gs, &p);
}

/* Finds processes with a mark of ours among those that started since then, unless that was done in this turn.
 * They are members afterwards. */
static bool search_foreigners(struct proc_groups *gs, uint64_t since)
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

/* Makes a snapshot that has only these groups' processes. False: not all can be read. */
static bool gather(struct proc_groups *gs, struct proc_group *one, uint64_t since)
{
	struct proc_group *g;

	gs->fresh = false;
	proctree_clear(&gs->tree);
	if (!look_at_children(gs) || !search_foreigners(gs, since))
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
		member_record(gs, &gs->tree.procs[i]);
	return true;
}

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
		(void)gather(gs, g, g->start);
}

/* --- what is left of a group --- */

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

	gs->unsure = !search_foreigners(gs, since);
	follow_foreigners(gs);
	if (look_at_children(gs))
		check_members(gs);
	else if (walk(gs, since))
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
	if (has_no_children(gs, g) && look_at_children(gs) && !g->cgroup)
		return g->seen != gs->check;
	if (!walk(gs, NO_FOREIGNERS))
		return false; /* not known: counts as no */
	claim_cgroup(gs, g);
	return count_live(gs, g, &pid) == 1;
}

/* --- signals --- */

/* The processes of one group, or of all that are being killed, are in the snapshot afterwards; maybe others,
 * too. anew: also where this turn has a snapshot. */
static bool look_for(struct proc_groups *gs, struct proc_group *one, bool anew, uint64_t since)
{
	struct proc_group *g;

	gs->readable = (!gs->cgroups && gather(gs, one, since)) || (anew ? walk(gs, since) : look(gs, since));
	if (!gs->readable || !gs->cgroups)
		return gs->readable;
	DL_FOREACH(gs->all, g)
		if (is_meant(g, one))
			claim_cgroup(gs, g);
	return true;
}

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

	if (look_for(gs, g, false, g->start)) {
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
	struct member *m = member_find(gs, p->pid);
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
	if (!look_for(gs, NULL, true, since))
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
