/* SPDX-License-Identifier: MIT */
/* worker.c: workers come to be and are freed.
 * Owns every struct worker, and when another thread starts the next. Never reads or writes a pipe
 * (worker_pipes.c), never reaps a child (worker_end.c), never knows a session, never waits. group.h decides
 * which worker a process belongs to. */
#include "process/worker.h"
#include "process/stale.h"

#include <assert.h>
#include <errno.h>
#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/buf.h"
#include "process/confine.h"
#include "process/forker.h"
#include "base/crashpoint.h"
#include "process/group.h"
#include "base/line_reader.h"
#include "base/log.h"
#include "base/slice.h"
#include "process/landlock.h"
#include "process/launch.h"
#include "process/worker_private.h"

/* With so many live ones another thread starts the next: below it, the two changes of threads cost more than
 * the copy of the descriptors. */
#define FORKER_FROM 64

/* --- all workers --- */

struct workers *workers_new(struct ev_loop *loop, struct timers *timers, const struct config *config,
	const char *instance, const struct worker_ops *ops)
{
	struct workers *ws = xcalloc(1, sizeof *ws);

	/* libev's default loop reaps all children itself, and would take their statuses away. */
	assert(!ev_is_default_loop(loop));
	if (groups_init(&ws->proc_groups, config->cgroup, instance) < 0) {
		log_error("cannot host processes, is /proc mounted? error=%s", strerror(errno));
		free(ws);
		return NULL;
	}
	ws->loop = loop;
	ws->timers = timers;
	ws->ops = ops;
	ws->instance = xstrdup(instance);
	ws->budget = TURN_BYTES;
	ws->tick.on_due = workers_on_tick;
	ws->hog.on_due = workers_on_hog;
	ev_timer_init(&ws->more, workers_on_more, 0., 0.);
	line_pool_init(&ws->pool, config->max_line, config->max_lines_total);
	ws->pool.slice = &ws->slice;
	return ws;
}

/* The forker ends with the last process: a daemon at rest has no thread more. */
static void forker_drop(struct workers *ws)
{
	if (!ws->forker || groups_count(&ws->proc_groups) > 0)
		return;
	proctree_drop_thread(&ws->proc_groups.tree);
	forker_free(ws->forker);
	ws->forker = NULL;
}

void worker_detach(struct worker *w)
{
	worker_drop_mute(w);
	timer_cancel(w->all->timers, &w->timer);
	worker_drop_stdin(w);
	worker_close_pipe(w->all, &w->out[0]);
	worker_close_pipe(w->all, &w->out[1]);
	groups_remove(&w->all->proc_groups, &w->proc_group);
	forker_drop(w->all);
}

void workers_free(struct workers *ws)
{
	struct worker *w, *next;
	bool left = false;

	if (!ws)
		return;
	DL_FOREACH(ws->list, w) {
		w->proc_group.killing = !w->empty && !w->gone;
		left = left || w->proc_group.killing;
	}
	/* the owner stopped waiting for them: they still must not outlive the daemon */
	if (left)
		groups_kill(&ws->proc_groups);
	DL_FOREACH_SAFE(ws->list, w, next) {
		if (!w->gone)
			worker_detach(w);
		w->gone = true;
		worker_free(w);
	}
	timer_cancel(ws->timers, &ws->tick);
	timer_cancel(ws->timers, &ws->hog);
	ev_timer_stop(ws->loop, &ws->more);
	groups_fini(&ws->proc_groups);
	landlock_forget_state();
	free(ws->instance);
	free(ws);
}

int workers_kill_stale(struct workers *ws)
{
	return stale_kill(&ws->proc_groups, ws->instance);
}

void workers_new_turn(struct workers *ws)
{
	ws->budget = TURN_BYTES;
	slice_renew(&ws->slice);
	groups_invalidate(&ws->proc_groups);
}

/* --- the beginning --- */

static struct worker *worker_adopt(
	struct workers *ws, const struct worker_spec *spec, const struct launch_pipes *pipes)
{
	struct worker *w = xcalloc(1, sizeof *w);

	w->magic = WORKER_MAGIC;
	w->all = ws;
	w->owner = spec->owner;
	w->ops = spec->ops != NULL ? spec->ops : ws->ops;
	w->timer.on_due = worker_on_timer;
	w->term_at_us = w->kill_at_us = NEVER;
	worker_take_pipes(w, pipes);
	DL_APPEND(ws->list, w);
	return w;
}

/* With a cgroup, if there can be one; without, where joining is refused: the other way to kill still
 * works. */
static int start_process(struct workers *ws, struct launch *s, unsigned *cgroup, char *why, size_t why_size)
{
	static struct log_limit limit;
	bool must_have; /* a configured limit that cannot be set refuses the start */
	int pid, error;

	*cgroup = cgroup_make(ws->proc_groups.cgroups, &s->cgroup_fd);
	if (ws->proc_groups.cgroups && !*cgroup && (errno == EMFILE || errno == ENFILE)) {
		snprintf(why, why_size, "cannot make a cgroup: %s", strerror(errno));
		return -1;
	}
	must_have = confine_has_cgroup(s->confine);
	if (must_have && cgroup_limit(ws->proc_groups.cgroups, *cgroup, s->confine, why, why_size) < 0) {
		error = errno;
		if (s->cgroup_fd >= 0)
			close(s->cgroup_fd);
		cgroup_remove(ws->proc_groups.cgroups, *cgroup);
		errno = error;
		return -1;
	}
	pid = launch_process(s, why, why_size);
	error = errno;
	if (s->cgroup_fd >= 0)
		close(s->cgroup_fd);
	if (pid < 0 && *cgroup)
		cgroup_remove(ws->proc_groups.cgroups, *cgroup);
	if (pid < 0 && s->cgroup_failed && !must_have) {
		if (log_may(&limit, 3))
			log_warn("a worker may not join its cgroup, starting it without one error=%s",
				strerror(error));
		*cgroup = 0;
		s->cgroup_fd = -1;
		return launch_process(s, why, why_size);
	}
	errno = error;
	return pid;
}

/* Who starts the next one? */
static struct forker *choose_forker(struct workers *ws)
{
	if (groups_count(&ws->proc_groups) < FORKER_FROM)
		return NULL;
	if (ws->forker || ws->forker_failed)
		return ws->forker;
	ws->forker = forker_new();
	if (ws->forker && proctree_add_thread(&ws->proc_groups.tree, forker_tid(ws->forker)) < 0) {
		forker_free(ws->forker);
		ws->forker = NULL;
	}
	ws->forker_failed = !ws->forker;
	return ws->forker;
}

int worker_start(
	struct workers *ws, const struct worker_spec *spec, struct worker **out, char *why, size_t why_size)
{
	struct launch s = {.argv = spec->argv,
		.env = spec->env,
		.workdir = spec->workdir,
		.cgroup_fd = -1,
		.confine = spec->confine,
		.forker = choose_forker(ws),
		.tag = groups_next_tag(&ws->proc_groups)};
	uint64_t start = proctree_now();
	unsigned cgroup;
	struct launch_pipes pipes;
	int pid;

	if (launch_pipes_open(&pipes, spec->has_stdin) < 0) {
		snprintf(why, why_size, "cannot make its pipes: %s", strerror(errno));
		return -1;
	}
	memcpy(s.fds, pipes.theirs, sizeof s.fds);
	CRASH_POINT(worker_before_spawn);
	pid = start_process(ws, &s, &cgroup, why, why_size);
	launch_pipes_close(pipes.theirs);
	if (pid < 0) {
		launch_pipes_close(pipes.ours);
		return -1;
	}
	CRASH_POINT(worker_spawned);
	*out = worker_adopt(ws, spec, &pipes);
	groups_add(&ws->proc_groups, &(*out)->proc_group, pid, start, s.tag, spec->mark, cgroup);
	CRASH_POINT(worker_adopted);
	return 0;
}

/* --- the rest --- */

void *worker_owner(const struct worker *w)
{
	worker_check(w);
	return w->owner;
}

void worker_set_owner(struct worker *w, void *owner)
{
	worker_check(w);
	w->owner = owner;
}

int worker_pid(const struct worker *w)
{
	worker_check(w);
	return w->proc_group.pid;
}

bool worker_has_exited(const struct worker *w)
{
	worker_check(w);
	return w->proc_group.reaped;
}

bool worker_lives(const struct worker *w)
{
	worker_check(w);
	return !w->gone && group_lives(&w->proc_group);
}

bool worker_is_alone(struct worker *w)
{
	worker_check(w);
	return !w->gone && group_is_alone(&w->all->proc_groups, &w->proc_group);
}

void worker_free(struct worker *w)
{
	if (!w)
		return;
	worker_check(w);
	assert(w->gone);
	DL_DELETE(w->all->list, w);
	w->magic = 0;
	free(w);
}
