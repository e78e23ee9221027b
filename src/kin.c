/* kin.c: attributes processes to kins, over a snapshot of /proc.
 * Owns the tables of main processes, marks and processes seen before.
 * Never talks to a worker: no pipe, no deadline, no callback. */
#include "kin.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <utlist.h>

#include "buf.h"
#include "log.h"

#define STOP_ROUNDS 6                   /* walks to get hold of a tree that forks while it is being stopped */

struct member {
	int pid;
	bool foreign;                   /* no descendant of ours: only its mark gave it away */
	unsigned stopped;
	uint64_t start;
	struct kin *kin;
	UT_hash_handle hh;
};

int kins_init(struct kins *ks, const char *cgroup_setting, const char *instance)
{
	memset(ks, 0, sizeof *ks);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || proctree_init(&ks->tree) < 0)
		return -1;
	ks->cgroups = cgroups_new(cgroup_setting, instance);
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
	free(ks->strangers);
}

void kins_add(struct kins *ks, struct kin *k, int pid, uint64_t start, const char *mark, unsigned cgroup)
{
	struct kin *old = main_find(ks, pid);
	struct member *m = member_find(ks, pid);

	memset(k, 0, sizeof *k);
	k->pid = pid;
	k->start = start;
	k->cgroup = cgroup;
	ks->fresh = false;              /* the snapshot does not have it */
	DL_APPEND(ks->all, k);
	if (old) {                      /* its main process was reaped long ago, and the pid went round */
		HASH_DELETE(by_pid, ks->by_pid, old);
		old->has_pid = false;
	}
	if (m)
		member_drop(ks, m);
	HASH_ADD(by_pid, ks->by_pid, pid, sizeof k->pid, k);
	k->has_pid = true;
	if (!mark)
		return;
	k->mark = xstrdup(mark);
	HASH_FIND(by_mark, ks->by_mark, mark, strlen(mark), old);
	if (old) {                      /* the newest of a session has it */
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
	HASH_ITER(hh, ks->members, m, next)
		if (m->kin == k)
			member_drop(ks, m);
	for (i = 0; i < ks->tree.count; i++)            /* the snapshot may live longer */
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

	ks->fresh = false;              /* what it left behind got a new parent */
	if (m)
		member_drop(ks, m);
	if (!k || k->reaped)
		return NULL;
	k->reaped = true;
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

/* The one kin that can have started it, if there is but one left: whoever else might have is gone, and
 * nothing may outlive its session. */
static struct kin *find_by_exclusion(struct kins *ks, const struct proc *p)
{
	struct kin *k, *only = NULL;

	DL_FOREACH(ks->all, k) {
		if (k->start > p->start)
			continue;
		if (only)
			return NULL;
		only = k;
	}
	return only;
}

static struct kin *find_by_evidence(struct kins *ks, const struct proc *p)
{
	struct kin *k = main_find(ks, p->pgid);

	if (!k || k->start > p->start)
		k = main_find(ks, p->sid);
	if (k && k->start <= p->start)
		return k;
	k = find_by_mark(ks, p);
	if (!k && p->ppid == ks->tree.self)
		k = find_by_exclusion(ks, p);
	return k;
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
	p->ours = parent && parent->ours;
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

		while ((parent = proctree_parent(&ks->tree, at)) && !parent->settled && steps++ < ks->tree.count)
			at = parent;
		settle_one(ks, at, parent && parent->settled ? parent : NULL);
	}
}

static void member_record(struct kins *ks, const struct proc *p)
{
	struct kin *k = p->owner;
	struct member *m;

	if (!k || p->dead || (p->pid == k->pid && !k->reaped))
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

/* Those who carry a mark though they do not descend from us: somebody else started them for a worker. */
static void find_foreign(struct kins *ks)
{
	uint64_t since = UINT64_MAX;
	struct kin *k;
	size_t i;

	DL_FOREACH(ks->all, k)
		if (k->start < since)
			since = k->start;
	for (i = 0; i < ks->tree.count; i++) {
		struct proc *p = &ks->tree.procs[i], *parent;

		if (p->ours || p->owner || p->dead || p->start < since)
			continue;
		parent = proctree_parent(&ks->tree, p);
		p->owner = parent && parent->owner ? parent->owner : find_by_mark(ks, p);
	}
}

static bool walk(struct kins *ks, bool foreign_too)
{
	static struct log_limit limit;
	struct member *m, *next;
	size_t i;

	ks->fresh = proctree_walk(&ks->tree) == 0;
	if (!ks->fresh) {
		if (log_may(&limit, 3))
			log_warn("cannot read /proc, trying again error=%s", strerror(errno));
		ks->tree.count = 0;
		return false;
	}
	for (i = 0; i < ks->tree.count; i++)
		settle(ks, &ks->tree.procs[i]);
	if (foreign_too)
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

static bool note_stranger(void *ctx, int pid)
{
	struct kins *ks = ctx;
	struct kin *k = main_find(ks, pid);
	struct member *m;
	struct proc now;

	if (k && !k->reaped)
		return true;
	if (ks->stranger_count == ks->stranger_room) {
		ks->stranger_room = ks->stranger_room ? 2 * ks->stranger_room : 64;
		ks->strangers = xrealloc(ks->strangers, ks->stranger_room * sizeof *ks->strangers);
	}
	ks->strangers[ks->stranger_count++] = pid;
	m = member_find(ks, pid);
	if (m && proctree_look(&ks->tree, pid, &now) && now.start == m->start && !now.dead)
		m->kin->seen = ks->check;
	else
		ks->unknown = true;
	return true;
}

/* A stranger that died or came while we walked may have left children that the walk had passed by. */
static bool strangers_moved(struct kins *ks)
{
	size_t i;

	for (i = 0; i < ks->stranger_count; i++) {
		struct proc *p = proctree_find(&ks->tree, ks->strangers[i]);

		if (!p || (p->dead && !p->owner))
			return true;
		if (p->dead)
			((struct kin *)p->owner)->seen = ks->check;
	}
	return false;
}

void kins_check(struct kins *ks)
{
	struct member *m, *next;
	struct proc now;
	size_t i;

	ks->check++;
	ks->stranger_count = 0;
	ks->unsure = ks->unknown = false;
	if (proctree_children(&ks->tree, note_stranger, ks) < 0)
		ks->unknown = true;
	if (!ks->unknown) {
		HASH_ITER(hh, ks->members, m, next)
			if (m->foreign && m->kin->seen != ks->check && proctree_look(&ks->tree, m->pid, &now) &&
				now.start == m->start && !now.dead)
				m->kin->seen = ks->check;
		return;
	}
	if (!ks->fresh && !walk(ks, false)) {
		ks->unsure = true;
		return;
	}
	ks->unsure = strangers_moved(ks);
	for (i = 0; i < ks->tree.count; i++) {
		struct proc *p = &ks->tree.procs[i];

		if (p->owner && !p->dead)
			((struct kin *)p->owner)->seen = ks->check;
	}
}

bool kin_is_empty(struct kins *ks, const struct kin *k)
{
	return k->reaped && !ks->unsure && k->seen != ks->check && !cgroup_is_populated(ks->cgroups, k->cgroup);
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

	if (!ks->fresh)
		(void)walk(ks, true);
	count_live(ks, k, &pid);
	return pid;
}

bool kin_is_alone(struct kins *ks, struct kin *k)
{
	siginfo_t si;
	int pid;

	if (k->reaped)
		return false;
	si.si_pid = 0;
	if (waitid(P_PID, (id_t)k->pid, &si, WEXITED | WNOHANG | WNOWAIT) < 0 || si.si_pid != 0)
		return false;           /* ended: we were not told yet */
	if (proctree_has_children(&ks->tree, k->pid) == 0) {
		ks->check++;
		ks->stranger_count = 0;
		ks->unknown = false;
		if (proctree_children(&ks->tree, note_stranger, ks) == 0 && !ks->unknown && !k->cgroup)
			return k->seen != ks->check;
	}
	if (!walk(ks, false))
		return false;           /* not known: then not */
	claim_cgroup(ks, k);
	return count_live(ks, k, &pid) == 1;
}

/* --- signals --- */

int kin_signal(struct kins *ks, struct kin *k, int sig)
{
	int n = 0;
	size_t i;

	if (!ks->fresh && !walk(ks, true)) {    /* better the group than nobody; not reaped, so it is ours */
		return !k->reaped && kill(-k->pid, sig) == 0;
	}
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
	bool anew = false;
	struct kin *k;
	size_t i;

	if (!walk(ks, true))
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
	if (!ks->fresh) {
		DL_FOREACH(ks->all, k)
			if (k->doomed && !k->reaped)
				kill(-k->pid, SIGKILL);
		return;
	}
	for (i = 0; i < ks->tree.count; i++)
		if (is_doomed(&ks->tree.procs[i]))
			proctree_signal(&ks->tree, ks->tree.procs[i].pid, ks->tree.procs[i].start, SIGKILL);
	ks->fresh = false;
}
