/* SPDX-License-Identifier: MIT */
/* policy_program.c: the policy program: its process, its questions, its answers.
 * Owns the process and the time limits. Turns every way in which the program can fail into a denial; while
 * the machine has no room to start it, questions wait up to their limit. Never decides by itself, and never
 * touches a session (policy_wait.c). */
#include "core/admission/policy_program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <uthash.h>

#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "json/text.h"
#include "base/log.h"
#include "core/running/run.h"

#define SECOND INT64_C(1000000)
#define BACKOFF_MAX_US (60 * SECOND)
#define STEADY_US (10 * SECOND)   /* a process that ran so long is started again at once */
#define UNANSWERED_MAX (32 << 20) /* bytes of questions that are kept: further ones fail */
#define END_US (2 * SECOND)       /* to SIGTERM of a replaced process, and from SIGTERM to SIGKILL */
#define REASON_MAX 512

struct question {
	UT_hash_handle hh, by_session;
	struct policy_program *program;
	uint64_t id;
	int64_t session;
	struct timer limit;
	char *line; /* with its newline; kept, since a new process gets it again */
	size_t size;
	bool is_put; /* it was written to the process that runs now */
};

struct process { /* one process of the program */
	struct policy_program *program;
	struct worker *worker;
	int64_t began_us;
	bool is_gone;
	struct process *next; /* replaced processes, until they are gone */
};

struct policy_program {
	struct core *core;
	policy_answer_fn *on_answer;
	struct question *questions, *by_session;
	struct process *now, *former;
	uint64_t last_id;
	size_t bytes;       /* of all questions */
	int64_t backoff_us; /* 0: the next start is at once */
	struct timer again; /* set: the program is down until then */
	bool is_short;      /* and a shortage is all that it is down for */
	/* since when it does not run; processes that ran too short a time do not count as running; 0: it
	 * never failed */
	int64_t down_us;
	char down_why[128];
	struct log_limit talk_limit, late_limit, garbage_limit;
	char mark[64];
};

bool policy_program_is_there(const struct core *c)
{
	return c->policy->config->policy_command != NULL;
}

void policy_program_get_state(const struct policy_program *p, struct policy_program_state *out)
{
	int64_t now = clock_boot_us();

	if (p->now != NULL)
		*out = (struct policy_program_state){
			.pid = worker_pid(p->now->worker), .span_us = now - p->now->began_us, .why = ""};
	else
		*out = (struct policy_program_state){
			.span_us = p->down_us > 0 ? now - p->down_us : 0, .why = p->down_why};
}

/* ---- questions ---- */

static void question_free(struct question *q)
{
	struct policy_program *p = q->program;

	HASH_DELETE(hh, p->questions, q);
	HASH_DELETE(by_session, p->by_session, q);
	timer_cancel(&p->core->timers, &q->limit);
	p->bytes -= q->size;
	free(q->line);
	free(q);
}

static void answer(
	struct question *q, enum policy_decision decision, const char *reason, size_t size, bool has_failed)
{
	struct policy_program *p = q->program;
	int64_t session = q->session;
	char text[REASON_MAX + 1];

	snprintf(text, sizeof text, "%.*s", (int)buf_utf8_cut(reason, size, REASON_MAX), reason);
	question_free(q);
	CRASH_POINT(policy_program_answered);
	p->on_answer(p->core, session, decision, text, has_failed);
}

static void fail(struct question *q, const char *reason)
{
	answer(q, PROGRAM_DENY, reason, strlen(reason), true);
}

static void fail_all(struct policy_program *p, bool only_put, const char *reason)
{
	struct question *q, *tmp;

	HASH_ITER(hh, p->questions, q, tmp)
		if (q->is_put || !only_put)
			fail(q, reason);
}

static void on_limit(struct timer *t)
{
	fail(container_of(t, struct question, limit), "the policy program did not answer in time");
}

static void add_member(struct buf *b, const char *name, const char *text)
{
	buf_addf(b, ",\"%s\":", name);
	if (text != NULL)
		buf_add_json(b, text, strlen(text));
	else
		buf_add_text(b, "null");
}

void policy_program_put(struct policy_program *p, const struct policy_question *question)
{
	struct question *q = xcalloc(1, sizeof *q);
	struct buf b = {0};

	policy_program_forget(p, question->session);
	q->program = p;
	q->id = ++p->last_id;
	q->session = question->session;
	q->limit.on_due = on_limit;
	buf_addf(&b, "{\"type\":\"decide\",\"id\":%llu", (unsigned long long)q->id);
	add_member(&b, "session", question->session_id);
	add_member(&b, "caller", question->caller);
	add_member(&b, "user", question->user);
	add_member(&b, "capability", question->capability);
	add_member(&b, "version", question->version);
	add_member(&b, "risk", question->risk);
	add_member(&b, "data_classification", question->data_class);
	add_member(&b, "raised_by", question->rules);
	buf_addf(&b, ",\"involves_physical_resources\":%s", question->is_physical ? "true" : "false");
	buf_add_text(&b, ",\"task\":");
	buf_add(&b, question->task, question->task_size);
	buf_add_text(&b, "}\n");
	q->line = b.data;
	q->size = b.size;
	p->bytes += q->size;
	HASH_ADD(hh, p->questions, id, sizeof q->id, q);
	HASH_ADD(by_session, p->by_session, session, sizeof q->session, q);
	timer_set(&p->core->timers, &q->limit, clock_boot_us() + p->core->policy->config->policy_timeout_us);
}

void policy_program_forget(struct policy_program *p, int64_t session)
{
	struct question *q;

	HASH_FIND(by_session, p->by_session, &session, sizeof session, q);
	if (q != NULL)
		question_free(q);
}

/* ---- answers ---- */

static int find_decision(const char *word)
{
	static const char *const words[] = {
		[PROGRAM_DENY] = "deny", [PROGRAM_ALLOW] = "allow", [PROGRAM_ASK] = "ask"};

	for (int i = 0; word != NULL && i < (int)(sizeof words / sizeof *words); i++)
		if (strcmp(words[i], word) == 0)
			return i;
	return -1;
}

/* {"id":N,"decision":"allow|deny|ask","reason":"..."}; reason may be left out, other members are passed
 * over. */
static void take_answer(struct policy_program *p, const json_t *said)
{
	const json_t *id = json_object_get(said, "id"), *reason = json_object_get(said, "reason");
	int decision = find_decision(json_string_value(json_object_get(said, "decision")));
	uint64_t number = json_is_integer(id) ? (uint64_t)json_integer_value(id) : 0;
	struct question *q;

	HASH_FIND(hh, p->questions, &number, sizeof number, q);
	if (!json_is_integer(id)) {
		if (log_may(&p->garbage_limit, 10))
			log_warn(
				"the policy program said something that answers no question, passed over: "
				"why=no id");
	} else if (q == NULL || !q->is_put) {
		if (log_may(&p->late_limit, 10))
			log_warn(
				"the policy program answered late, or what it was not asked, passed over: "
				"id=%llu",
				(unsigned long long)number);
	} else if (decision < 0 || (reason != NULL && !json_is_string(reason))) {
		fail(q, "the policy program gave an answer that is neither allow nor deny nor ask");
	} else {
		answer(q, (enum policy_decision)decision,
			json_is_string(reason) ? json_string_value(reason) : "", json_string_length(reason),
			false);
	}
}

static void on_line(
	struct worker *w, enum worker_stream s, const char *line, size_t size, enum line_kind kind)
{
	struct process *o = worker_owner(w);
	struct policy_program *p = o->program;
	char why[128] = "the line is too long";
	json_t *said = NULL;

	if (s == WORKER_STDERR) {
		if (log_may(&p->talk_limit, 60))
			log_info("the policy program writes: says=%.*s", (int)buf_utf8_cut(line, size, 1000),
				line);
		return;
	}
	if (o != p->now)
		return; /* a replaced process: the new one got the question */
	if (kind != LINE_TOO_LONG)
		said = jtext_parse(line, size, why, sizeof why);
	if (json_is_object(said))
		take_answer(p, said);
	else if (log_may(&p->garbage_limit, 10))
		log_warn("the policy program said something that is no JSON object, passed over: why=%s",
			said != NULL ? "another type" : why);
	json_decref(said);
}

static void on_eof(struct worker *w, enum worker_stream s)
{
	struct process *o = worker_owner(w);
	int64_t now = clock_boot_us();

	if (s == WORKER_STDOUT && o == o->program->now)
		worker_end(w, now, now + END_US); /* without stdout it cannot answer any more */
}

/* ---- the process ---- */

static void go_down(struct policy_program *p, const char *why)
{
	struct process *o = p->now;
	int64_t now = clock_boot_us();

	if (p->down_us == 0 || (o != NULL && now - o->began_us >= STEADY_US))
		p->down_us = now;
	snprintf(p->down_why, sizeof p->down_why, "%.*s",
		(int)buf_utf8_cut(why, strlen(why), sizeof p->down_why - 1), why);
	if (o != NULL) {
		if (now - o->began_us >= STEADY_US)
			p->backoff_us = 0;
		o->next = p->former;
		p->former = o;
		p->now = NULL;
	}
	timer_set(&p->core->timers, &p->again, now + p->backoff_us);
	log_error("the policy program is down, tasks are denied until it runs again: again_in=%llds why=%s",
		(long long)(p->backoff_us / SECOND), why);
	p->backoff_us = p->backoff_us == 0         ? SECOND :
		p->backoff_us * 2 < BACKOFF_MAX_US ? p->backoff_us * 2 :
						     BACKOFF_MAX_US;
	CRASH_POINT(policy_program_down);
}

static void on_exit_of(struct worker *w, int status)
{
	struct process *o = worker_owner(w);
	int64_t now = clock_boot_us();
	char why[64];

	worker_end(w, now, now + END_US); /* its whole process group ends with it */
	if (o != o->program->now)
		return;
	if (WIFSIGNALED(status))
		snprintf(why, sizeof why, "killed by signal %d", WTERMSIG(status));
	else
		snprintf(why, sizeof why, "exit status %d", WEXITSTATUS(status));
	fail_all(o->program, true, "the policy program died before it answered");
	go_down(o->program, why);
}

static void on_gone(struct worker *w)
{
	((struct process *)worker_owner(w))->is_gone = true;
}

static void on_stuck(struct worker *w, int pid)
{
	(void)w;
	log_error("ALARM: the policy program cannot be killed: pid=%d", pid);
}

static const struct worker_ops ops = {.on_line = on_line,
	.on_eof = on_eof,
	.on_exit = on_exit_of,
	.on_gone = on_gone,
	.on_stuck = on_stuck};

/* A shortage passes, as in run_start.c: it is no failure of the program. The questions are kept, and their
 * limits go on. */
static bool waits_for_room(struct policy_program *p, int error, const char *why)
{
	int64_t now = clock_boot_us();

	if (error != ENOMEM && run_find_shortage(error) == SHORT_OF_NOTHING)
		return false;
	run_retire_idle(p->core); /* they hold descriptors */
	p->is_short = true;
	if (p->down_us == 0)
		p->down_us = now;
	snprintf(p->down_why, sizeof p->down_why, "no room to start it: %s", strerror(error));
	if (log_may(&p->core->limits.room, 3))
		log_error(
			"the policy program is not started until there is room for it, tried again every "
			"second, its tasks wait: error=%s",
			why);
	timer_set(&p->core->timers, &p->again, now + SECOND);
	return true;
}

static void start(struct policy_program *p)
{
	struct process *o = xcalloc(1, sizeof *o);
	size_t count = 0, used = 0;
	char instance[64], why[512], **env;
	struct worker_spec spec = {.argv = p->core->policy->config->policy_command,
		.workdir = "/",
		.has_stdin = true,
		.mark = p->mark,
		.owner = o,
		.ops = &ops};
	int rc, error;

	p->is_short = false;
	while (environ[count] != NULL)
		count++;
	env = xcalloc(count + 3, sizeof *env);
	for (size_t i = 0; i < count; i++)
		if (worker_passes_on(environ[i]))
			env[used++] = environ[i];
	snprintf(instance, sizeof instance, "HCP_INSTANCE=%s", store_mark(p->core->store));
	env[used++] = instance;
	env[used++] = p->mark;
	spec.env = env;
	o->program = p;
	o->began_us = clock_boot_us();
	CRASH_POINT(policy_program_starting);
	rc = worker_start(p->core->workers, &spec, &o->worker, why, sizeof why);
	error = errno;
	free(env);
	if (rc < 0) {
		free(o);
		if (waits_for_room(p, error, why))
			return;
		if (p->backoff_us == 0)
			p->backoff_us = SECOND;
		go_down(p, why);
		return;
	}
	p->now = o;
	log_info("the policy program runs: pid=%d command=%s", worker_pid(o->worker), spec.argv[0]);
}

static void on_again(struct timer *t)
{
	(void)t; /* policy_program_end_turn starts it */
}

/* Without a process, the questions that fit wait for it. */
static void put_all(struct policy_program *p)
{
	struct question *q, *tmp;

	HASH_ITER(hh, p->questions, q, tmp) {
		if (q->is_put)
			continue;
		if (p->bytes > UNANSWERED_MAX) {
			fail(q, "the policy program has too many unanswered questions");
			continue;
		}
		if (p->now == NULL)
			continue;
		q->is_put = true;
		worker_write(p->now->worker, q->line, q->size);
		CRASH_POINT(policy_program_asked);
	}
}

static void sweep(struct policy_program *p)
{
	for (struct process **at = &p->former, *o; (o = *at) != NULL;) {
		if (!o->is_gone) {
			at = &o->next;
			continue;
		}
		*at = o->next;
		worker_free(o->worker);
		free(o);
	}
}

void policy_program_end_turn(struct policy_program *p)
{
	sweep(p);
	if (!policy_program_is_there(p->core)) {
		fail_all(p, false, "there is no policy program any more");
		return;
	}
	if (p->now == NULL && (!timer_is_set(&p->again) || p->again.at_us <= clock_boot_us())) {
		timer_cancel(&p->core->timers, &p->again);
		start(p);
	}
	if (p->now != NULL || p->is_short)
		put_all(p);
	else
		fail_all(p, false, "the policy program is not running");
}

static void retire(struct policy_program *p)
{
	struct process *o = p->now;
	int64_t now = clock_boot_us();

	if (o == NULL)
		return;
	worker_close_stdin(o->worker);
	worker_end(o->worker, now + END_US, now + 2 * END_US);
	o->next = p->former;
	p->former = o;
	p->now = NULL;
}

void policy_program_reload(struct policy_program *p)
{
	struct question *q, *tmp;

	retire(p);
	timer_cancel(&p->core->timers, &p->again);
	p->backoff_us = 0;
	p->down_us = 0;
	p->down_why[0] = '\0';
	HASH_ITER(hh, p->questions, q, tmp)
		q->is_put = false;
	CRASH_POINT(policy_program_reloaded);
}

void policy_program_touch_all(struct policy_program *p)
{
	int64_t at = clock_boot_us() + p->core->policy->config->policy_timeout_us;
	struct question *q, *tmp;

	HASH_ITER(hh, p->questions, q, tmp)
		timer_set(&p->core->timers, &q->limit, at);
}

struct policy_program *policy_program_new(struct core *c, policy_answer_fn *on_answer)
{
	struct policy_program *p = xcalloc(1, sizeof *p);
	char id[ID_SIZE];

	p->core = c;
	p->on_answer = on_answer;
	p->again.on_due = on_again;
	id_make(id);
	snprintf(p->mark, sizeof p->mark, "HCP_WORKER_ID=%s", id);
	return p;
}

void policy_program_free(struct policy_program *p)
{
	struct question *q, *tmp;

	if (p == NULL)
		return;
	HASH_ITER(hh, p->questions, q, tmp)
		question_free(q);
	timer_cancel(&p->core->timers, &p->again);
	free(p->now);
	for (struct process *o = p->former, *next; o != NULL; o = next) {
		next = o->next;
		free(o);
	}
	free(p);
}
