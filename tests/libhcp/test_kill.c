/* SPDX-License-Identifier: MIT */
/* test_kill.c: the caller is killed at random moments; what it stored in the transaction it was handed is
 * there exactly once. LIBHCP_KILL_SEED and LIBHCP_KILLS choose another run. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"
#include "support/rig.h"

enum { KILLS = 200, SESSIONS = 7, FOLLOW_UP_EVERY = 20 };

static unsigned seed;
static int step_fd = -1; /* the child's: a byte for each event that on_event was called with */

static unsigned dice(unsigned sides)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 16) % sides;
}

/* --- the application that is killed --- */

/* Follow-up tasks are part of the transaction too: one for each such event, whatever happens. */
static int child_hook(struct app *a, const struct hcp_event *e, struct sqlite3 *db)
{
	char inputs[160];

	(void)db;
	if (write(step_fd, "", 1) < 0 && errno != EAGAIN)
		_exit(2);
	if (e->kind == HCP_EVENT && e->sequence % FOLLOW_UP_EVERY == 0) {
		snprintf(inputs, sizeof inputs, "{\"about\":\"%s/%lld\"}", e->session_id,
			(long long)e->sequence);
		if (hcp_submit(a->h, &(struct hcp_task){.capability = "next", .inputs = inputs}, NULL) < 0)
			_exit(3);
	}
	return 0;
}

static void live(struct app *a)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(0);
	a->hook = child_hook;
	if (app_try_open(a) < 0) {
		fprintf(stderr, "child: %s\n", hcp_error(a->h));
		_exit(4);
	}
	hcp_run(a->h, -1);
	_exit(5);
}

/* --- whoever kills it --- */

struct life {
	pid_t pid;
	int fd; /* its steps */
	long steps;
};

static void life_begin(struct life *l, struct app *a)
{
	int p[2];

	must(pipe2(p, O_NONBLOCK) == 0, "pipe");
	l->steps = 0;
	l->pid = fork();
	must(l->pid >= 0, "fork");
	if (l->pid == 0) {
		step_fd = p[1];
		live(a);
	}
	close(p[1]);
	l->fd = p[0];
}

/* Waits for so many steps, or for ms; false where it is no more. */
static bool life_follow(struct life *l, long steps, int ms)
{
	double end = harness_now() + ms / 1000.0;
	struct pollfd p = {.fd = l->fd, .events = POLLIN};
	char buffer[256];

	while (l->steps < steps && harness_now() < end) {
		ssize_t n;

		if (poll(&p, 1, (int)((end - harness_now()) * 1000) + 1) <= 0)
			continue;
		n = read(l->fd, buffer, sizeof buffer);
		if (n <= 0)
			return false;
		l->steps += n;
	}
	return true;
}

static void life_end(struct life *l)
{
	int status;

	kill(l->pid, SIGKILL);
	must(waitpid(l->pid, &status, 0) == l->pid, "wait");
	must(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "it ended by itself: %x", (unsigned)status);
	close(l->fd);
}

/* What is in the queue: events of several sessions in turn, some twice, some in disorder, some without a
 * sequence. */
struct feed {
	char *session[SESSIONS];
	long long sequence[SESSIONS]; /* said up to here */
	long loose;                   /* without a sequence */
};

static void feed_some(struct feed *f, struct app *a, int count)
{
	while (count-- > 0) {
		unsigned i = dice(SESSIONS);
		char id[80];

		switch (dice(20)) {
		case 0: /* the next two change places */
			stub_event(a->caller, f->session[i], f->sequence[i] + 2, "progress");
			stub_event(a->caller, f->session[i], f->sequence[i] + 1, "progress");
			f->sequence[i] += 2;
			break;
		case 1: /* again */
			if (f->sequence[i] > 0)
				stub_event(a->caller, f->session[i],
					1 + (long long)dice((unsigned)f->sequence[i]), "progress");
			break;
		case 2:
			snprintf(id, sizeof id, "loose-%ld", ++f->loose);
			stub_say(a->caller, f->session[i], "task_noted", id, J("{'note':1}"));
			break;
		default: stub_event(a->caller, f->session[i], ++f->sequence[i], "progress");
		}
	}
}

static bool is_all_there(struct feed *f, struct app *a)
{
	long long want = f->loose;

	for (int i = 0; i < SESSIONS; i++)
		want += f->sequence[i];
	return app_count(a, NULL) >= want;
}

static void check_events(struct feed *f, struct app *a)
{
	for (int i = 0; i < SESSIONS; i++)
		app_must_have(a, f->session[i], f->sequence[i]);
	must(app_sql(a, "SELECT count(*) FROM got WHERE kind = %d", HCP_OTHER) == f->loose,
		"without a sequence: %lld, not %ld",
		app_sql(a, "SELECT count(*) FROM got WHERE kind = %d", HCP_OTHER), f->loose);
	must(app_sql(a, "SELECT count(DISTINCT message_id) FROM got WHERE kind = %d", HCP_OTHER) == f->loose,
		"some twice");
}

/* Each follow-up was sent under one message_id, however often. */
static void check_follow_ups(struct feed *f)
{
	json_t *by_event = json_object(), *j;
	size_t want = 0;

	while ((j = stub_hear())) {
		const char *about = json_text_at(j, "payload.inputs.about"),
			   *id = json_text_at(j, "message_id");
		const char *before = json_string_value(json_object_get(by_event, about));

		must(!before || strcmp(before, id) == 0, "two tasks came of event %s", about);
		json_object_set_new(by_event, about, json_string(id));
		json_decref(j);
	}
	for (int i = 0; i < SESSIONS; i++)
		want += (size_t)(f->sequence[i] / FOLLOW_UP_EVERY);
	must(json_object_size(by_event) == want, "%zu follow-up tasks, not %zu", json_object_size(by_event),
		want);
}

START_TEST(each_event_is_stored_exactly_once_through_200_kills) /* proves L1-16, L2-14 */
{
	const char *text = getenv("LIBHCP_KILLS");
	int kills = text ? atoi(text) : KILLS, busy = 0;
	struct feed f = {0};
	struct life l;
	struct app *a;

	kit_begin();
	text = getenv("LIBHCP_KILL_SEED");
	seed = text ? (unsigned)strtoul(text, NULL, 10) : 20260131;
	a = app_new(NULL);
	a->o.gap_wait_ms = 60000; /* nothing is ever missing, only late */
	a->o.prefetch = 20;
	a->o.repeat_s = 3600;
	for (int i = 0; i < SESSIONS; i++)
		f.session[i] = kit_id();
	stub_listen();
	app_open(a); /* makes file, table and queue */
	app_close(a);
	for (int i = 0; i < kills; i++) {
		feed_some(&f, a, 16);
		life_begin(&l, a);
		/* A moment after a random event, so most of them are between on_event, commit and ack;
		 * some at any time. */
		if (dice(10) == 0)
			life_follow(&l, 1000, (int)dice(60));
		else if (life_follow(&l, 1 + (long)dice(20), 300))
			usleep(dice(3000));
		busy += l.steps > 0;
		life_end(&l);
	}
	life_begin(&l, a);
	wait_until(is_all_there(&f, a), 60, "%lld rows", app_count(a, NULL));
	life_follow(&l, 1000000, 300); /* whatever comes too often may come */
	life_end(&l);
	printf("libhcp kills: %d kills, %d of them while events were dealt with, %lld events and %lld "
	       "follow-up tasks\n",
		kills, busy, app_count(a, NULL),
		app_sql(a, "SELECT seq FROM sqlite_sequence WHERE name = 'hcp_outbox'"));
	must(busy > kills / 2, "only %d kills hit an application at work", busy);
	check_events(&f, a);
	app_open(a); /* what is still to be sent */
	must(hcp_flush(a->h, 30000) == HCP_OK, "%s", hcp_error(a->h));
	check_follow_ups(&f);
	app_must_be_idle(a);
	app_free(a);
	kit_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("libhcp kills");

	suite_test(s, each_event_is_stored_exactly_once_through_200_kills, 240);
	return harness_run(s, false);
}
