/* SPDX-License-Identifier: MIT */
/* large_line.c: long lines of workers, read on other threads.
 * Owns the queue of lines that wait, and how many are in memory at once with what was made of them; a line
 * from begin to done: the worker is not gone before that, and so neither is its session. Never
 * acts on a line (worker_messages.c). */
#include "core/running/large_line.h"

#include <stdlib.h>

#include <utlist.h>

#include "base/crashpoint.h"
#include "base/jobs.h"
#include "core/running/checkpoint_pack.h"
#include "core/running/harp_snapshot.h"
#include "core/running/run.h"
#include "core/running/worker_messages.h"
#include "core/turn.h"
#include "protocol/worker_line.h"

struct large_line {
	struct job job;
	struct large_line *prev, *next; /* in core->large_lines.waiting */
	struct session *session;
	struct worker *worker;
	const char *text; /* kept by the worker */
	size_t size;
	int max_depth;
	struct worker_line line; /* where it is good, or salvaged */
	bool is_good, is_salvaged;
	char why[320];
	struct checkpoint_pack pack;
	bool has_reading; /* of a snapshot: it is on a thread again, for its hash */
	struct harp_reading reading;
};

bool large_line_is(const struct session *s, size_t size)
{
	return size > s->core->large_bytes && s->core->jobs != NULL;
}

static void fini(struct large_line *g)
{
	if (g->is_good || g->is_salvaged)
		worker_line_fini(&g->line);
	checkpoint_pack_fini(&g->pack);
	harp_reading_fini(&g->reading);
	free(g);
}

/* ---- on another thread ---- */

static void read_line(struct large_line *g)
{
	g->is_good = worker_line_read(&g->line, g->text, g->size, g->max_depth, g->why, sizeof g->why) == 0;
	if (!g->is_good)
		g->is_salvaged = worker_line_salvage(&g->line, g->text, g->size);
	if (!g->is_good || g->line.type != WL_CHECKPOINT)
		return;
	checkpoint_pack_make(&g->pack, &g->line);
	json_object_del(g->line.root, "state"); /* it is packed; freeing it here takes no time of the core */
}

static void work(struct job *j)
{
	struct large_line *g = container_of(j, struct large_line, job);

	if (!g->has_reading) {
		read_line(g);
		return;
	}
	harp_reading_make(&g->reading, &g->line);
	json_object_del(g->line.root, "payload");
}

/* ---- on the core's thread ---- */

static void begin(struct large_line *g)
{
	CRASH_POINT(large_line_begun);
	jobs_put(g->session->core->jobs, &g->job);
}

static void done(struct job *j)
{
	struct large_line *g = container_of(j, struct large_line, job);
	struct session *s = g->session;

	if (g->is_good && g->line.type == WL_SNAPSHOT &&
		(!g->has_reading || harp_reading_is_late(&g->reading, s))) {
		/* only now its id is known, and with it what the store has of it */
		harp_reading_fini(&g->reading);
		g->has_reading = true;
		harp_reading_load(&g->reading, s, &g->line);
		begin(g);
		return;
	}
	s->core->large_lines.working--;
	s->run.has_large_line = false;
	CRASH_POINT(large_line_read);
	if (g->is_good)
		worker_message_take(s, &g->line, &g->pack, &g->reading);
	else
		worker_message_refuse(s, g->why, g->text, g->size, g->is_salvaged ? &g->line : NULL);
	worker_let_line_go(g->worker, WORKER_STDOUT);
	if (s->core->phase.is_stopping && !timer_is_set(&s->core->stop.half))
		run_stop_at_half(s); /* it waited for this line, which may have been no checkpoint */
	fini(g);
}

static void drop(struct job *j)
{
	struct large_line *g = container_of(j, struct large_line, job);

	g->session->core->large_lines.working--;
	fini(g);
}

void large_line_step(struct core *c)
{
	struct large_line *g;

	while (!c->phase.is_suspended && (g = c->large_lines.waiting) != NULL &&
		c->large_lines.working < jobs_at_once(c->jobs)) {
		DL_DELETE(c->large_lines.waiting, g);
		c->large_lines.working++;
		checkpoint_pack_load(&g->pack, g->session, g->size);
		begin(g);
	}
}

void large_line_begin(struct session *s, const char *line, size_t size)
{
	struct large_line *g = xcalloc(1, sizeof *g);

	*g = (struct large_line){.job = {.work = work, .done = done, .drop = drop},
		.session = s,
		.worker = run_worker(s),
		.text = line,
		.size = size,
		.max_depth = s->core->policy->config->max_depth};
	worker_keep_line(g->worker, WORKER_STDOUT, line);
	s->run.has_large_line = true;
	DL_APPEND(s->core->large_lines.waiting, g);
}

void large_line_fini_all(struct core *c)
{
	struct large_line *g, *tmp;

	DL_FOREACH_SAFE(c->large_lines.waiting, g, tmp) {
		DL_DELETE(c->large_lines.waiting, g);
		fini(g);
	}
}
