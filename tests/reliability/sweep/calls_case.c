/* SPDX-License-Identifier: MIT */
/* calls_case.c: one case: a daemon on a fresh directory, or after one that was killed; one task with
 * checkpoints; a stop. Somewhere on the way one call fails. Then another task where the daemon lives on, or
 * another life where it does not, and the final check of the sweeps. Owns the script and what may come of
 * which fault. Never makes a call fail (calls_watch.c). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "calls.h"
#include "support/oracle.h"
#include "life.h"
#include "support/wire.h"

#define SERVE_S 15.0 /* a failed connection waits a second, a refused commit too, a deaf worker five */
#define LIVES 5

static const struct task task = {.capability = "agent", .ends = "COMPLETED FAILED"};

static struct life life;
static const struct trial *trial;
static struct report *report;
static int watched;    /* the number of the life with the fault in it */
static long log_begin; /* where this life's part of the log begins */

/* --- making --- */

static void make(void)
{
	struct rig *r = life.rig = rig_new();
	char agent[600], caller[64];

	snprintf(agent, sizeof agent, "%s/sweep/agent", getenv("HCP_BUILD"));
	rig_capability(r, "agent", agent, NULL);
	rig_set(r, "daemon", "log_level", "info");
	rig_set(r, "daemon", "stop_timeout", "4s");
	rig_set(r, "amqp", "reconnect_max", "1s");
	rig_set(r, "amqp", "heartbeat", "2");
	rig_set(r, "session", "exit_grace", "1s");
	/* Names are made of a pid, which a case that failed may have had before us. */
	wire_delete_queue(r->broker, r->queue);
	snprintf(caller, sizeof caller, "caller-%d-%lld", getpid(), (long long)(harness_now() * 1e6));
	/* The queue is there before the daemon, and so is the task: nobody waits for anybody. */
	wire_make_queue(r->broker, r->queue, "", "hcp.commands", r->callee);
	life.peers[WELL] = peer_named(r, caller);
}

static struct errand *submit(void)
{
	struct errand *e = &life.errands[life.count];

	*e = (struct errand){.task = &task, .peer = life.peers[WELL], .sent_in = life.number};
	e->message_id = peer_submit(e->peer, e->task->capability,
		J("{'count':4,'every':2,'notes':'%s','hold':'%s'}",
			rig_path(life.rig, "notes-%d", life.count + 1), rig_path(life.rig, "go")));
	life.count++;
	return e;
}

/* --- last words --- */

/* Is there a line of this life, at least as grave as that, which says why? */
static bool has_said(const char *level, const char *why)
{
	char *log = file_read(life.rig->log, NULL), *save = NULL;
	bool found = false;

	for (char *line = log ? strtok_r(log + log_begin, "\n", &save) : NULL; line && !found;
		line = strtok_r(NULL, "\n", &save))
		found = strstr(line, level) && strstr(line, why);
	free(log);
	return found;
}

/* errno by its own text, or as SQLite puts it: to it, what cannot be read is malformed, and what cannot be
 * opened for writing is read-only. */
static bool has_said_why(const char *level)
{
	static const char *const sqlite[] = {"disk I/O error", "disk is full", "unable to open database",
		"disk image is malformed", "readonly database"};

	if (has_said(level, strerror(trial->fault)))
		return true;
	for (size_t i = 0; i < sizeof sqlite / sizeof *sqlite; i++)
		if (has_said(level, sqlite[i]))
			return true;
	return false;
}

static long log_size(void)
{
	size_t size = 0;

	free(file_read(life.rig->log, &size));
	return (long)size;
}

/* --- what may come of it --- */

/* Interrupted calls are made again, but for an open at start, where the next start is as good. No fork is
 * ever interrupted, nor an fsync of a disk; where a file system's is, that is an error like others, to SQLite
 * too. */
static bool is_no_error(void)
{
	return trial->fault == EINTR && strcmp(kinds[trial->kind].name, "fork") &&
		strcmp(kinds[trial->kind].name, "fsync");
}

static bool is_killed(void)
{
	return trial->n > 0 && trial->fault == DEATH && report->hit;
}

/* The watched life is over. */
static void check_exit(bool was_ready, bool was_told)
{
	int status = life.status;

	if (is_killed()) {
		must(status == 128 + SIGKILL, "killed, and its status is %d", status);
		snprintf(report->end, sizeof report->end, "killed");
		return;
	}
	must(status < 128, "%s: it crashed, by signal %d", report->what, status - 128);
	if (status == EX_OK && was_told)
		return;
	must(report->hit, "it ended with %d, and nothing had failed", status);
	snprintf(report->end, sizeof report->end, "ended with %d %s", status,
		was_told          ? "at its stop" :
			was_ready ? "in service" :
				    "at its start");
	must(status >= EX__BASE && status <= EX__MAX, "%s: it ended with status %d", report->what, status);
	must(!was_ready || was_told, "%s: it did not survive, status %d", report->what, status);
	must(!is_no_error() || strcmp(kinds[trial->kind].name, "open") == 0,
		"%s: an interrupted call is no reason to end, status %d", report->what, status);
	must(has_said_why("level=error"), "%s: no last words", report->what);
}

/* A session may fail for want of descriptors, memory or a disk, but not for the store's sake: that waits. */
static void check_failure(const struct errand *e)
{
	struct note *closed = peer_find(e->peer, errand_session(e), "event", "session_closed");
	struct note *failed = peer_find(e->peer, errand_session(e), "task_failed", NULL);

	if (strcmp(note_text(closed, "payload.data.final_state"), "COMPLETED") == 0)
		return;
	must(failed, "no task_failed");
	snprintf(
		report->end, sizeof report->end, "failed: %.60s", note_text(failed, "payload.error_message"));
	must(report->hit && !is_killed(), "it failed, and nothing had: %s", failed->body);
	must(e == life.errands, "%s: the fault was over, and yet: %s", report->what, failed->body);
	must(!is_no_error(), "%s: an interrupted call ended the session: %s", report->what, failed->body);
	must(!report->on_store, "%s: the store's trouble ended the session: %s", report->what, failed->body);
	must(has_said_why("level="), "%s: the session failed, and no line says why: %s", report->what,
		failed->body);
}

/* A commit that failed was a hold, and the hold is over. */
static void check_hold(bool was_ready, bool was_told)
{
	const char *call = report->what;
	bool is_commit =
		report->on_wal && (strncmp(call, "pwrite64", 8) == 0 || strncmp(call, "fdatasync", 9) == 0);

	if (!report->hit || trial->fault == DEATH || trial->fault == EINTR || !is_commit || !was_ready ||
		was_told)
		return;
	must(has_said("level=error", "the store refuses"), "%s: a commit failed, and nobody noticed",
		report->what);
	must(has_said("level=warn", "the store takes again"), "%s: the hold did not end", report->what);
	snprintf(report->end, sizeof report->end, "held");
}

/* --- playing --- */

static bool all_ended(void)
{
	for (int i = 0; i < life.count; i++)
		if (!errand_has_ended(&life.errands[i]))
			return false;
	return true;
}

/* Until all that was submitted has ended, or the daemon has. */
static void serve(void)
{
	wait_until(life.rig->exited || all_ended(), SERVE_S, "the end of task %d in life %d, after %s",
		life.count, life.number, report->hit ? report->what : "no fault");
}

/* A life that is killed in the middle of the task. */
static void live_before(void)
{
	rig_spawn(life.rig);
	wait_until(peer_find_text(life.peers[WELL], NULL, "progress", "payload.data.message", "holding"),
		SERVE_S, "the worker");
	rig_kill(life.rig);
	life.status = 128 + SIGKILL;
	final_check_at_rest(&life);
	log_begin = log_size();
	life.number++;
}

/* The life with the fault in it. */
static void live_watched(void)
{
	struct rig *r = life.rig;
	bool was_ready = false, was_told = false, was_hit;

	watched = life.number;
	watch_spawn(r, trial, report);
	serve();
	if (!r->exited && trial->n > 0 && report->hit) {
		was_ready = true;
		submit(); /* is it still what it was? */
		serve();
	}
	was_hit = report->hit;
	if (!r->exited) {
		was_ready = was_told = true;
		must(r->ready || has_said("level=", "READY"), "%s: the service manager was never told",
			report->what);
		rig_signal(r, SIGTERM);
	}
	was_ready |= r->ready > 0;
	life.status = rig_wait_exit(r, SERVE_S);
	watch_end();
	check_exit(was_ready, was_told);
	check_hold(was_ready, was_told && !was_hit);
}

static bool has_litter(void)
{
	char command[700];

	snprintf(command, sizeof command, "ls %s/work | grep -q '^[0-9a-f-]*$'", life.rig->state);
	return system(command) == 0;
}

/* A submit whose acknowledgement was lost comes again, and is answered as before. */
static bool is_queue_empty(int consumers_wanted)
{
	int messages = -1, consumers = 0;

	return queue_look(life.rig->broker, life.rig->queue, &messages, &consumers) && messages == 0 &&
		consumers == consumers_wanted;
}

/* Lives in which nothing fails, until all is done. */
static void live_on(void)
{
	while (life.status != EX_OK || !all_ended() || !is_queue_empty(0) ||
		(life.number == watched && has_litter())) {
		must(++life.number <= LIVES, "it does not end in %d lives", LIVES);
		log_begin = log_size();
		rig_spawn(life.rig);
		wait_until(life.rig->exited || (life.rig->ready && all_ended() && is_queue_empty(1)), SERVE_S,
			"the end of all tasks in life %d, after %s", life.number, report->what);
		must(!life.rig->exited, "%s: life %d ended by itself, status %d", report->what, life.number,
			life.rig->wait_status);
		rig_signal(life.rig, SIGTERM);
		life.status = rig_wait_exit(life.rig, SERVE_S);
		must(life.status == EX_OK, "%s: life %d ended with %d", report->what, life.number,
			life.status);
		final_check_at_rest(&life);
	}
}

void case_run(const struct trial *t, struct report *to)
{
	trial = t;
	report = to;
	life.number = 1;
	make();
	submit();
	if (t->scene == AGAIN)
		live_before();
	rig_touch(life.rig, "go");
	live_watched();
	final_check_at_rest(&life);
	live_on();
	log_begin = 0; /* its words may be of an earlier life */
	for (int i = 0; i < life.count; i++)
		check_failure(&life.errands[i]);
	final_check_at_end(&life);
	peer_finish(life.peers[WELL]);
	wire_delete_queue(life.rig->broker, life.rig->queue);
	rig_finish(life.rig);
}
