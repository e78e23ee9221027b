/* kin.c: attributes processes to kins, over a snapshot of /proc.
 * Owns the tables of main processes, tags, marks and processes seen before.
 * Never talks to a worker: no pipe, no deadline, no callback. */
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

#define STOP_ROUNDS 6          /* walks to get hold of a tree that forks while it is being stopped */
#define TAG_SERIALS (1u << 24) /* low bits of a tag; above them 38 bits that name the instance */
#define NOBODY_ELSE UINT64_MAX /* since: no foreigner is looked for */
/* Foreigners of a short life are looked for one by one, among the pids that were given out meanwhile. That is
 * some microseconds, a walk hundreds. Beyond these the pids may have gone round, or a walk is cheaper. */
#define SCAN_PIDS 256
#define SCAN_AGE 200 /* in the unit of `start`: 2 s */

struct member {
	int pid;
	bool foreign; /* no descendant of ours: only its mark gave it away */
	unsigned stopped;
	uint64_t start;
	struct kin *kin; /* NULL: nobody's */
	UT_hash_handle hh;
};

/* FNV-1a: the same in every life of the instance, so that leftovers of the last one are known by their tags.
 */
static uint64_t make_tag_base(const char *instance)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *instance; instance++)
		h = (h ^ (unsigned char)*instance) * 0x100000001b3u;
	return (h >> 26 | 1) * TAG_SERIALS;
}

int kins_init(struct kins *ks, const char *cgroup_setting, const char *instance)
{
	struct rlimit lim;

	memset(ks, 0, sizeof *ks);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || proctree_init(&ks->tree) < 0)
		return -1;
	if (getrlimit(RLIMIT_LOCKS, &lim) == 0 && lim.rlim_max == RLIM_INFINITY)
		ks->tag_base = make_tag_base(instance);
	else
		log_warn(
			"a limit on file locks (LimitLOCKS=, ulimit -x) is set: daemons of workers may go "
			"unnoticed");
	ks->cgroups = cgroups_new(cgroup_setting, instance, &ks->tree);
	return 0;
}

static void member_drop(struct kins *ks, struct member *m)
{
	HASH_DEL(ks->members, m);
	free(m);
}

static struct member *member_find(struct kins *ks, int pid)
{
	struct member *m;

	HASH_FIND_INT(ks->members, &pid, m);
	return m;
}

static struct kin *main_find(struct kins *ks, int pid)
{
	struct kin *k;

	HASH_FIND(by_pid, ks->by_pid, &pid, sizeof pid, k);
	return k;
}

void kins_fini(struct kins *ks)
{
	struct member *m, *next;

	assert(!ks->all);
	HASH_ITER(hh, ks->members, m, next)
		member_drop(ks, m);
	cgroups_free(ks->cgroups);
	proctree_fini(&ks->tree);
}

bool kins_may_be_tag(const struct kins *ks, uint64_t tag)
{
	return ks->tag_base && tag / TAG_SERIALS == ks->tag_base / TAG_SERIALS;
}

static struct kin *tag_find(struct kins *ks, uint64_t tag)
{
	struct kin *k = NULL;

	if (kins_may_be_tag(ks, tag))
		HASH_FIND(by_tag, ks->by_tag, &tag, sizeof tag, k);
	return k;
}

uint64_t kins_next_tag(struct kins *ks)
{
	if (!ks->tag_base)
		return 0;
	do { /* after sixteen million processes they come round */
		ks->last_tag = ks->tag_base | ((ks->last_tag + 1) & (TAG_SERIALS - 1));
	} while (tag_find(ks, ks->last_tag));
	return ks->last_tag;
}

void kins_add(struct kins *ks, struct kin *k, int pid, uint64_t start, uint64_t tag, const char *mark,
	unsigned cgroup)
{
	struct kin *old = main_find(ks, pid);
	struct member *m = member_find(ks, pid);

	memset(k, 0, sizeof *k);
	k->pid = pid;
	k->start = start;
	k->tag = tag;
	k->cgroup = cgroup;
	ks->fresh = false; /* the snapshot does not have it */
	DL_APPEND(ks->all, k);
	if (old) { /* its main process was reaped long ago, and the pid went round */
		HASH_DELETE(by_pid, ks->by_pid, old);
		old->has_pid = false;
	}
	if (m)
		member_drop(ks, m);
	HASH_ADD(by_pid, ks->by_pid, pid, sizeof k->pid, k);
	k->has_pid = true;
	if (tag)
		HASH_ADD(by_tag, ks->by_tag, tag, sizeof k->tag, k);
	if (!mark)
		return;
	k->mark = xstrdup(mark);
	HASH_FIND(by_mark, ks->by_mark, mark, strlen(mark), old);
	if (old) { /* the newest of a session has it */
		HASH_DELETE(by_mark, ks->by_mark, old);
		old->has_mark = false;
	}
	HASH_ADD_KEYPTR(by_mark, ks->by_mark, k->mark, strlen(k->mark), k);
	k->has_mark = true;
}

void kins_remove(struct kins *ks, struct kin *k)
{
	struct member *m, *next;
	size_t i;

	DL_DELETE(ks->all, k);
	if (k->has_pid)
		HASH_DELETE(by_pid, ks->by_pid, k);
	if (k->has_mark)
		HASH_DELETE(by_mark, ks->by_mark, k);
	if (k->tag)
		HASH_DELETE(by_tag, ks->by_tag, k);
	if (k->reaped)
		DL_DELETE2(ks->ended, k, prev_ended, next_ended);
	HASH_ITER(hh, ks->members, m, next)
		if (m->kin == k)
			member_drop(ks, m);
	for (i = 0; i < ks->tree.count; i++) /* the snapshot may live longer */
		if (ks->tree.procs[i].owner == k)
			ks->tree.procs[i].owner = NULL;
	cgroup_remove(ks->cgroups, k->cgroup);
	free(k->mark);
	k->mark = NULL;
}

void kins_forget(struct kins *ks)
{
	ks->fresh = false;
}

struct kin *kins_on_reaped(struct kins *ks, int pid)
{
	struct kin *k = main_find(ks, pid);
	struct member *m = member_find(ks, pid);

	ks->fresh = false; /* what it left behind got a new parent */
	if (m)
		member_drop(ks, m);
	if (!k || k->reaped)
		return NULL;
	k->reaped = true;
	DL_APPEND2(ks->ended, k, prev_ended, next_ended);
	return k;
}

/* --- attribution --- */

struct mark_look {
	struct kins *ks;
	struct kin *found;
};

static bool look_for_mark(void *ctx, const char *var)
{
	struct mark_look *l = ctx;

	HASH_FIND(by_mark, l->ks->by_mark, var, strlen(var), l->found);
	return l->found == NULL;
}

static struct kin *find_by_mark(struct kins *ks, const struct proc *p)
{
	struct mark_look l = {ks, NULL};

	if (ks->by_mark && !p->dead)
		proctree_environ(&ks->tree, p->pid, look_for_mark, &l);
	return l.found;
}

static struct kin *find_by_evidence(struct kins *ks, const struct proc *p)
{
	struct kin *k = tag_find(ks, proctree_tag(&ks->tree, p->pid));

	if (!k || k->start > p->start) /* an earlier life's that would not die */
		k = main_find(ks, p->pgid);
	if (!k || k->start > p->start)
		k = main_find(ks, p->sid);
	if (k && k->start <= p->start)
		return k;
	return find_by_mark(ks, p);
}

/* p's parent is settled, or NULL. */
static void settle_one(struct kins *ks, struct proc *p, const struct proc *parent)
{
	struct kin *k = main_find(ks, p->pid);
	struct member *m = member_find(ks, p->pid);

	p->settled = true;
	if (p->pid == ks->tree.self) {
		p->ours = true;
		return;
	}
	/* A parent that is not to be seen may be a hidden one of ours. */
	p->ours = parent ? parent->ours : p->ppid > 0 && tag_find(ks, proctree_tag(&ks->tree, p->pid));
	if (k && !k->reaped)
		p->owner = k;
	else if (m && m->start == p->start)
		p->owner = m->kin;
	else if (parent && parent->owner)
		p->owner = parent->owner;
	else if (p->ours)
		p->owner = find_by_evidence(ks, p);
}

/* From the top down, without recursion: a chain of processes may be as long as it likes. */
static void settle(struct kins *ks, struct proc *p)
{
	while (!p->settled) {
		struct proc *at = p, *parent;
		size_t steps = 0;

		while ((parent = proctree_parent(&ks->tree, at)) && !parent->settled &&
			steps++ < ks->tree.count)
			at = parent;
		settle_one(ks, at, parent && parent->settled ? parent : NULL);
	}
}

static void member_record(struct kins *ks, const struct proc *p)
{
	struct kin *k = p->owner;
	struct member *m;

	if (p->dead || (k ? p->pid == k->pid && !k->reaped : !p->ours || p->pid == ks->tree.self))
		return;
	m = member_find(ks, p->pid);
	if (!m) {
		m = xcalloc(1, sizeof *m);
		m->pid = p->pid;
		HASH_ADD_INT(ks->members, pid, m);
	} else if (m->start != p->start) {
		m->stopped = 0;
	}
	m->start = p->start;
	m->kin = k;
	m->foreign = !p->ours;
}

/* Those who carry a mark though nobody of ours started them: somebody else did, for a worker. */
static void find_foreign(struct kins *ks)
{
	size_t i;

	for (i = 0; i < ks->tree.count; i++) {
		struct proc *p = &ks->tree.procs[i], *parent;

		if (p->owner || p->dead || p->start < ks->since || p->pid == ks->tree.self)
			continue;
		parent = proctree_parent(&ks->tree, p);
		p->owner = parent && parent->owner ? parent->owner : find_by_mark(ks, p);
	}
}

/* Foreigners are looked for among those that started since then. */
static bool walk(struct kins *ks, uint64_t since)
{
	static struct log_limit limit;
	struct member *m, *next;
	size_t i;

	ks->since = since;
	ks->fresh = proctree_walk(&ks->tree) == 0;
	if (!ks->fresh) {
		if (log_may(&limit, 3))
			log_warn("cannot read /proc, trying again error=%s", strerror(errno));
		ks->tree.count = 0;
		return false;
	}
	for (i = 0; i < ks->tree.count; i++)
		settle(ks, &ks->tree.procs[i]);
	if (since != NOBODY_ELSE)
		find_foreign(ks);
	HASH_ITER(hh, ks->members, m, next) {
		struct proc *p = proctree_find(&ks->tree, m->pid);

		if (!p || p->start != m->start || p->dead)
			member_drop(ks, m);
	}
	for (i = 0; i < ks->tree.count; i++)
		member_record(ks, &ks->tree.procs[i]);
	return true;
}

/* A walk, unless there was one in this turn. */
static bool look(struct kins *ks, uint64_t since)
{
	return (ks->fresh && ks->since <= since) || walk(ks, since);
}

struct cgroup_look {
	struct kins *ks;
	struct kin *kin;
};

static void claim_pid(void *ctx, int pid)
{
	struct cgroup_look *l = ctx;
	struct proc *p = proctree_find(&l->ks->tree, pid);

	if (!p || pid == l->ks->tree.self)
		return;
	p->owner = l->kin;
	member_record(l->ks, p);
}

static void claim_cgroup(struct kins *ks, struct kin *k)
{
	struct cgroup_look l = {ks, k};

	cgroup_each_pid(ks->cgroups, k->cgroup, claim_pid, &l);
}

/* --- questions --- */

static bool member_lives(struct kins *ks, const struct member *m)
{
	struct proc now;

	if (m->start == PROC_HIDDEN)
		return proctree_child_lives(m->pid) == 1;
	return proctree_look(&ks->tree, m->pid, &now) && now.start == m->start && !now.dead;
}

/* A zombie counts: we are about to be told of it, and whoever it left behind is our child by then. */
static bool look_at_child(void *ctx, int pid)
{
	struct kins *ks = ctx;
	struct kin *k = main_find(ks, pid);
	struct member *m;

	if (k && !k->reaped)
		return true;
	k = tag_find(ks, proctree_tag(&ks->tree, pid));
	m = k ? NULL : member_find(ks, pid);
	if (m && member_lives(ks, m))
		k = m->kin;
	else if (!k)
		ks->unknown = true;
	if (k)
		k->seen = ks->check;
	return true;
}

/* Looks at our children and at nobody else, one small read. False: there is one that only a walk can tell. */
static bool look_at_children(struct kins *ks)
{
	ks->check++;
	ks->unknown = false;
	return proctree_children(&ks->tree, look_at_child, ks) == 0 && !ks->unknown;
}

/* May somebody who does not descend from us carry a mark of those who have just ended? *since: the start of
 * the oldest of those. */
static bool may_have_foreigners(struct kins *ks, uint64_t *since)
{
	int first = INT_MAX, last, pid;
	struct kin *k;

	*since = NOBODY_ELSE;
	DL_FOREACH2(ks->ended, k, next_ended)
	if (!k->searched) {
		*since = k->start < *since ? k->start : *since;
		first = k->pid < first ? k->pid : first;
	}
	if (*since == NOBODY_ELSE)
		return false;
	last = proctree_last_pid(&ks->tree);
	if (last < first || last - first > SCAN_PIDS || proctree_now() - *since > SCAN_AGE)
		return true;
	for (pid = first; pid <= last; pid++) {
		struct proc p = {.pid = pid};

		k = main_find(ks, pid);
		if ((k && !k->reaped) || (kill(pid, 0) < 0 && errno == ESRCH))
			continue;
		k = find_by_mark(ks, &p);
		if (k && k->reaped && !k->searched)
			return true;
	}
	*since = NOBODY_ELSE;
	return false;
}

static void check_members(struct kins *ks)
{
	struct member *m, *next;

	HASH_ITER(hh, ks->members, m, next)
		if (m->foreign && m->kin && m->kin->seen != ks->check && member_lives(ks, m))
			m->kin->seen = ks->check;
}

static void check_snapshot(struct kins *ks)
{
	size_t i;

	for (i = 0; i < ks->tree.count; i++) {
		struct proc *p = &ks->tree.procs[i];
		bool is_child = p->ppid == ks->tree.self;

		if (p->owner && (!p->dead || is_child))
			((struct kin *)p->owner)->seen = ks->check;
		else if (!p->owner && p->dead && is_child && !ks->tag_base)
			ks->unsure =
				true; /* whose it was, and whom it left behind, shows when it is reaped */
	}
}

void kins_check(struct kins *ks)
{
	bool known = look_at_children(ks);
	uint64_t since;
	struct kin *k;

	ks->unsure = false;
	if (!may_have_foreigners(ks, &since) && known)
		check_members(ks);
	else if (look(ks, since))
		check_snapshot(ks);
	else
		ks->unsure = true;
	DL_FOREACH2(ks->ended, k, next_ended)
	k->searched = k->searched || !ks->unsure;
}

bool kin_is_empty(struct kins *ks, const struct kin *k)
{
	return k->reaped && !ks->unsure && k->seen != ks->check &&
		!cgroup_is_populated(ks->cgroups, k->cgroup);
}

static int count_live(struct kins *ks, const struct kin *k, int *pid)
{
	int n = 0;
	size_t i;

	for (i = 0; i < ks->tree.count; i++)
		if (ks->tree.procs[i].owner == k && !ks->tree.procs[i].dead) {
			*pid = ks->tree.procs[i].pid;
			n++;
		}
	return n;
}

int kin_find_live(struct kins *ks, const struct kin *k)
{
	int pid = 0;

	(void)look(ks, k->start);
	count_live(ks, k, &pid);
	return pid;
}

bool kin_is_alone(struct kins *ks, struct kin *k)
{
	int pid;

	/* It may be a zombie whose SIGCHLD we have not come to yet. */
	if (k->reaped || proctree_child_lives(k->pid) != 1)
		return false;
	if (proctree_has_children(&ks->tree, k->pid) == 0 && look_at_children(ks) && !k->cgroup)
		return k->seen != ks->check;
	if (!walk(ks, NOBODY_ELSE))
		return false; /* not known: then not */
	claim_cgroup(ks, k);
	return count_live(ks, k, &pid) == 1;
}

/* --- signals --- */

int kin_signal(struct kins *ks, struct kin *k, int sig)
{
	int n = 0;
	size_t i;

	if (!look(ks, k->start)) /* better the group than nobody; not reaped, so it is ours */
		return !k->reaped && kill(-k->pid, sig) == 0;
	claim_cgroup(ks, k);
	for (i = 0; i < ks->tree.count; i++) {
		struct proc *p = &ks->tree.procs[i];

		if (p->owner == k && !p->dead && proctree_signal(&ks->tree, p->pid, p->start, sig) == 0)
			n++;
	}
	return n;
}

/* True: it was not stopped in this round before. */
static bool stop_one(struct kins *ks, const struct proc *p)
{
	struct kin *k = p->owner;
	struct member *m = member_find(ks, p->pid);
	unsigned *stopped = m ? &m->stopped : &k->stopped;

	if (*stopped == ks->round)
		return false;
	*stopped = ks->round;
	return proctree_signal(&ks->tree, p->pid, p->start, SIGSTOP) == 0;
}

static bool is_doomed(const struct proc *p)
{
	return p->owner && !p->dead && ((struct kin *)p->owner)->doomed;
}

/* A walk, and whoever it finds is stopped: what is stopped forks no more, keeps its parent, and can be told
 * for what it is. True: nobody new was found. */
static bool stop_all(struct kins *ks)
{
	uint64_t since = NOBODY_ELSE;
	bool anew = false;
	struct kin *k;
	size_t i;

	DL_FOREACH(ks->all, k)
		if (k->doomed && k->start < since)
			since = k->start;
	if (!walk(ks, since))
		return true;
	DL_FOREACH(ks->all, k)
		if (k->doomed)
			claim_cgroup(ks, k);
	for (i = 0; i < ks->tree.count; i++) {
		const struct proc *p = &ks->tree.procs[i];

		if (is_doomed(p) && !((struct kin *)p->owner)->cgroup_killed && stop_one(ks, p))
			anew = true;
	}
	return !anew;
}

void kins_kill(struct kins *ks)
{
	struct kin *k;
	size_t i;
	int n;

	ks->round++;
	DL_FOREACH(ks->all, k)
		if (k->doomed)
			k->cgroup_killed = cgroup_kill(ks->cgroups, k->cgroup);
	for (n = 0; n < STOP_ROUNDS && !stop_all(ks); n++)
		;
	CRASH_POINT(kin_stopped);
	if (!ks->fresh) {
		DL_FOREACH(ks->all, k)
			if (k->doomed && !k->reaped)
				kill(-k->pid, SIGKILL);
		return;
	}
	for (i = 0; i < ks->tree.count; i++)
		if (is_doomed(&ks->tree.procs[i]))
			proctree_signal(&ks->tree, ks->tree.procs[i].pid, ks->tree.procs[i].start, SIGKILL);
	CRASH_POINT(kin_killed);
	ks->fresh = false;
}
