/* SPDX-License-Identifier: MIT */
/* restore.c: large states of checkpoints, restored on other threads.
 * Owns the queue of sessions that wait for theirs, and how many are in memory at once. Never decides what a
 * session does with its state (recover.c, run_start.c). */
#include "core/recovery/restore.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/crashpoint.h"
#include "base/jobs.h"
#include "core/recovery/recover.h"
#include "core/running/run.h"
#include "core/turn.h"
#include "policy/state_check.h"

#define AT_ONCE 4 /* rows of the store in memory, of 3 MiB each at most, and their texts */

struct restore {
	struct job job;
	struct restore *prev, *next; /* in core->restores.waiting */
	struct core *core;
	struct session *session; /* NULL: the session no longer needs the state */
	enum restore_for what;
	char named[ID_SIZE]; /* this checkpoint, of any session; "": the session's newest */
	bool is_begun, is_working;
	struct policy *policy; /* under which the state is checked; NULL: not begun */
	const struct capability *cap;
	struct checkpoint_search search;
	bool is_unfit; /* it does not fit the state_schema: `why` */
	char why[512];
};

static void restore_free(struct restore *r)
{
	checkpoint_search_fini(&r->search);
	policy_unref(r->policy);
	free(r);
}

/* ---- on another thread ---- */

static void work(struct job *j)
{
	struct restore *r = container_of(j, struct restore, job);
	const struct buf *state = &r->search.found.state;

	checkpoint_search_verify(&r->search);
	r->is_unfit = r->search.damage == NULL && r->cap != NULL &&
		!state_check_fits(r->cap, state->data, state->size, r->why, sizeof r->why);
}

/* ---- on the core's thread ---- */

static void wait_first(struct restore *r)
{
	r->is_working = false;
	DL_PREPEND(r->core->restores.waiting, r);
}

static struct checkpoint *take_found(struct restore *r)
{
	struct checkpoint *cp = xmalloc(sizeof *cp);

	*cp = r->search.found;
	r->search.found = (struct checkpoint){.damaged = 0};
	return cp;
}

/* The row named the newest checkpoint; this one is good, or none is. One of this turn is not in the store
 * yet.
 */
static void note_last(struct session *s, const struct checkpoint *cp, bool found)
{
	if (found)
		memcpy(s->checkpoint.last_id, cp->id, ID_SIZE);
	else if (cp->damaged > 0)
		s->checkpoint.last_id[0] = '\0';
}

static void conclude(struct restore *r, bool found)
{
	struct session *s = r->session;

	s->checkpoint.restore = NULL;
	CRASH_POINT(restore_done);
	if (r->named[0] == '\0')
		note_last(s, &r->search.found, found);
	if (r->what == RESTORE_GO_ON) {
		recover_restored(s, &r->search.found, found, found && r->is_unfit ? r->why : NULL);
		if (found && s->state == S_RUNNING && s->checkpoint.is_used) /* for the start line */
			s->checkpoint.restored = take_found(r);
	} else if (r->what == RESTORE_START) {
		s->checkpoint.restored = take_found(r);
		s->checkpoint.is_unfit = found && r->is_unfit;
		if (!found)
			s->checkpoint.restored->id[0] = '\0';
		effect_start(s);
	}
	restore_free(r);
}

static void drop(struct job *j)
{
	struct restore *r = container_of(j, struct restore, job);

	if (r->session != NULL)
		r->session->checkpoint.restore = NULL;
	r->core->restores.working--;
	restore_free(r);
}

/* The policy under which the session goes on, or was started. */
static struct policy *policy_of(const struct restore *r)
{
	return r->what == RESTORE_START ? r->session->run.policy : r->core->policy;
}

static void begin_work(struct restore *r)
{
	policy_unref(r->policy);
	r->policy = policy_ref(policy_of(r));
	r->cap = policy_find(r->policy, r->session->capability);
	jobs_put(r->core->jobs, &r->job);
}

static void done(struct job *j)
{
	struct restore *r = container_of(j, struct restore, job);

	if (r->session == NULL) {
		drop(j);
		return;
	}
	if (r->policy != policy_of(r)) { /* a reload: the same again, under the new one */
		begin_work(r);
		return;
	}
	r->core->restores.working--;
	if (checkpoint_search_take(&r->search))
		conclude(r, true);
	else
		wait_first(r); /* the next older one */
}

/* The next row to be verified: 1, 0, -1 as checkpoint_search_next. */
static int load_next(struct core *c, struct restore *r)
{
	const struct session *s = r->session;
	int found;

	if (r->is_begun)
		return checkpoint_search_next(c->store, &r->search);
	checkpoint_search_fini(&r->search);
	found = r->named[0] != '\0' ? checkpoint_search_begin_at(c->store, r->named, &r->search) :
				      checkpoint_search_begin(c->store, s->key, s->intent.seal, &r->search);
	r->is_begun = found >= 0;
	return found < 0 || r->named[0] != '\0' ? found : checkpoint_search_next(c->store, &r->search);
}

/* The first in the queue. False: the store cannot be read. */
static bool begin_next(struct core *c)
{
	struct restore *r = c->restores.waiting;
	int found = load_next(c, r);

	if (found < 0)
		return false;
	DL_DELETE(c->restores.waiting, r);
	if (found == 0) {
		conclude(r, false);
		return true;
	}
	r->is_working = true;
	c->restores.working++;
	CRASH_POINT(restore_begun);
	begin_work(r);
	return true;
}

bool restore_step(struct core *c)
{
	while (c->restores.waiting != NULL && c->restores.working < AT_ONCE)
		if (!begin_next(c))
			return false;
	return true;
}

static struct restore *wait_last(struct session *s, enum restore_for what)
{
	struct restore *r = xcalloc(1, sizeof *r);

	r->job = (struct job){.work = work, .done = done, .drop = drop};
	r->core = s->core;
	r->session = s;
	r->what = what;
	s->checkpoint.restore = r;
	DL_APPEND(s->core->restores.waiting, r);
	return r;
}

void restore_begin_named(struct session *s, const char *checkpoint_id)
{
	restore_drop(s);
	memcpy(wait_last(s, RESTORE_START)->named, checkpoint_id, ID_SIZE);
}

/* checkpoint_find, but for large ones. RESTORE_LATER: the next one is large, or builds on a large one. */
static int find_small(struct session *s, struct checkpoint *out)
{
	struct store *store = s->core->store;
	int64_t most = (int64_t)s->core->large_bytes;
	struct checkpoint_search f;
	int found = checkpoint_search_begin(store, s->key, s->intent.seal, &f);

	while (found == 0) {
		if ((found = checkpoint_search_is_large(store, &f, most)) != 0) {
			checkpoint_search_fini(&f);
			return found < 0 ? -1 : RESTORE_LATER;
		}
		if ((found = checkpoint_search_next(store, &f)) <= 0)
			break;
		checkpoint_search_verify(&f);
		found = checkpoint_search_take(&f);
	}
	checkpoint_rows_fini(&f.rows);
	*out = f.found;
	return found;
}

int restore_find(struct session *s, enum restore_for what, struct checkpoint *out)
{
	int found;

	*out = (struct checkpoint){.damaged = 0};
	if (s->checkpoint.restore != NULL) {
		if (s->checkpoint.restore->what < what)
			s->checkpoint.restore->what = what;
		return RESTORE_LATER;
	}
	found = s->core->jobs != NULL ? find_small(s, out) :
					checkpoint_find(s->core->store, s->key, s->intent.seal, out);
	if (found == RESTORE_LATER)
		(void)wait_last(s, what);
	else if (found >= 0)
		note_last(s, out, found > 0);
	return found;
}

bool restore_is_under_way(const struct session *s)
{
	return s->checkpoint.restore != NULL && s->checkpoint.restore->what != RESTORE_RECALL;
}

void restore_drop(struct session *s)
{
	struct restore *r = s->checkpoint.restore;

	s->checkpoint.restore = NULL;
	if (r != NULL && r->is_working) {
		r->session = NULL; /* `done` frees it */
	} else if (r != NULL) {
		DL_DELETE(s->core->restores.waiting, r);
		restore_free(r);
	}
	if (s->checkpoint.restored != NULL) {
		checkpoint_fini(s->checkpoint.restored);
		free(s->checkpoint.restored);
		s->checkpoint.restored = NULL;
	}
}
