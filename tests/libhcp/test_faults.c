/* SPDX-License-Identifier: MIT */
/* test_faults.c: the broker dies, hangs, comes back and cuts connections; the disk is full. The suite has a
 * broker of its own to do that to. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit.h"
#include "support/rig.h"

static struct app *a;
static struct broker *broker;

static void begin(void)
{
	broker = broker_private();
	kit_begin();
	a = app_new(NULL);
}

static void end(void)
{
	app_must_be_idle(a);
	app_free(a);
	kit_end();
}

START_TEST(a_killed_broker_costs_nothing_once_it_is_back) /* proves L1-16 */
{
	char *s = kit_id(), id[HCP_ID_SIZE];
	json_t *j;

	begin();
	stub_listen();
	app_open(a);
	stub_events(a->caller, s, 1, 50);
	app_until(a, app_count(a, s) >= 20, "some events");
	broker_kill(broker);
	app_until(a, !hcp_is_up(a->h), "noticed");
	must(hcp_submit(a->h, &(struct hcp_task){.capability = "x"}, id) == HCP_OK,
		"submits are taken meanwhile: %s", hcp_error(a->h));
	app_pass(a, 0.5);
	broker_start(broker, broker->dir);
	app_until(a, hcp_is_up(a->h), "up again");
	app_until(a, app_count(a, s) == 50, "what was there before");
	stub_events(a->caller, s, 51, 80);
	app_until(a, app_count(a, s) == 80, "what comes now");
	app_must_have(a, s, 80);
	app_until(a, stub_waiting() > 0, "the submit");
	j = stub_hear();
	must_str(json_text_at(j, "message_id"), id);
	must(app_said(a, "the broker is gone") && app_said(a, "connected again"), "%s", a->log);
	end();
}
END_TEST

START_TEST(connections_that_are_cut_again_and_again_cost_nothing) /* proves L1-16, L2-14 */
{
	char *s = kit_id();

	begin();
	stub_listen();
	a->o.prefetch = 50;
	app_open(a);
	for (int round = 0; round < 6; round++) {
		stub_events(a->caller, s, round * 200 + 1, round * 200 + 200);
		must(hcp_submit(a->h, &(struct hcp_task){.capability = "x"}, NULL) == HCP_OK, "%s",
			hcp_error(a->h));
		app_until(a, app_count(a, s) > round * 200, "some of round %d", round);
		must(broker_eval(broker,
			     "[rabbit_networking:close_connection(P, \"cut\") || P <- "
			     "rabbit_networking:connections()].") == 0,
			"cut");
	}
	app_until(a, app_count(a, s) == 1200, "all");
	app_must_have(a, s, 1200);
	must(hcp_flush(a->h, 20000) == HCP_OK, "%s", hcp_error(a->h));
	must(stub_waiting() >= 6, "%d submits", stub_waiting());
	end();
}
END_TEST

START_TEST(a_broker_that_hangs_is_noticed_by_the_heartbeat)
{
	char *s = kit_id();

	begin();
	a->o.heartbeat_s = 1;
	app_open(a);
	stub_events(a->caller, s, 1, 5);
	app_until(a, app_count(a, s) == 5, "events");
	kill(broker->pid, SIGSTOP);
	app_until(a, !hcp_is_up(a->h), "noticed");
	kill(broker->pid, SIGCONT);
	app_until(a, hcp_is_up(a->h), "up again");
	stub_events(a->caller, s, 6, 10);
	app_until(a, app_count(a, s) == 10, "events again");
	app_must_have(a, s, 10);
	end();
}
END_TEST

/* A turn waits for nobody: not for a connect that gets no answer either. */
START_TEST(no_turn_waits_for_the_broker)
{
	double slowest = 0;

	begin();
	a->o.heartbeat_s = 1;
	app_open(a);
	kill(broker->pid, SIGSTOP);
	for (double end_at = harness_now() + 6; harness_now() < end_at;) {
		double t;

		poll(NULL, 0, 5);
		if (hcp_timeout(a->h) > 0 && !hcp_is_up(a->h))
			must(hcp_submit(a->h, &(struct hcp_task){.capability = "x"}, NULL) == HCP_OK, "%s",
				hcp_error(a->h));
		t = harness_now();
		hcp_process(a->h);
		slowest = harness_now() - t > slowest ? harness_now() - t : slowest;
	}
	must(slowest < 1.5 * harness_scale(), "a turn took %g s", slowest);
	/* Nor does closing, with a connect under way. */
	double t = harness_now();
	app_close(a);
	must(harness_now() - t < 3 * harness_scale(), "closing took %g s", harness_now() - t);
	kill(broker->pid, SIGCONT);
	app_free(a);
	kit_end();
}
END_TEST

START_TEST(a_deleted_queue_is_made_again)
{
	char *s = kit_id();

	begin();
	app_open(a);
	stub_events(a->caller, s, 1, 3);
	app_until(a, app_count(a, s) == 3, "events");
	wire_delete_queue(kit_broker(), a->queue);
	app_until(a, !hcp_is_up(a->h), "noticed");
	app_until(a, hcp_is_up(a->h), "made again");
	stub_events(a->caller, s, 4, 6);
	app_until(a, app_count(a, s) == 6, "events again");
	must(app_said(a, "our queue was deleted"), "%s", a->log);
	end();
}
END_TEST

START_TEST(an_alarm_of_the_broker_stops_submits_but_no_events)
{
	char *s = kit_id();
	double t;

	begin();
	stub_listen();
	app_open(a);
	must(hcp_submit(a->h, &(struct hcp_task){.capability = "x"}, NULL) == HCP_OK, "%s", hcp_error(a->h));
	must(hcp_flush(a->h, 20000) == HCP_OK, "%s", hcp_error(a->h));
	/* before the alarm: the stub could not publish in it either */
	stub_events(a->caller, s, 1, 40);
	app_until(a, app_count(a, s) == 40, "events");
	app_close(a);
	stub_events(a->caller, s, 41, 60);
	app_open(a);
	must(broker_eval(broker, "rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).") == 0,
		"alarm");
	for (int i = 0; i < 5; i++)
		must(hcp_submit(a->h, &(struct hcp_task){.capability = "x"}, NULL) == HCP_OK, "%s",
			hcp_error(a->h));
	app_until(a, app_count(a, s) == 60, "events in spite of it");
	app_until(a, app_said(a, "has an alarm"), "it is said");
	t = harness_now();
	hcp_process(a->h);
	must(harness_now() - t < 1 * harness_scale(), "a turn took %g s", harness_now() - t);
	must(broker_eval(broker, "rabbit_alarm:clear_alarm({resource_limit, memory, node()}).") == 0,
		"no alarm");
	must(hcp_flush(a->h, 30000) == HCP_OK, "%s", hcp_error(a->h));
	app_until(a, stub_waiting() >= 6, "the submits: %d", stub_waiting());
	end();
}
END_TEST

static void limit_pages(struct app *app, int pages)
{
	char text[80];

	snprintf(text, sizeof text, "PRAGMA max_page_count = %d", pages);
	must(sqlite3_exec(hcp_db(app->h), text, NULL, NULL, NULL) == SQLITE_OK, "%s",
		sqlite3_errmsg(hcp_db(app->h)));
}

START_TEST(a_full_disk_loses_nothing_and_is_told) /* proves L1-16 */
{
	char *s = kit_id();
	long long before;
	int calls;

	begin();
	app_open(a);
	stub_events(a->caller, s, 1, 10);
	app_until(a, app_count(a, s) == 10, "events");
	limit_pages(a, (int)app_sql(a, "PRAGMA page_count"));
	stub_events(a->caller, s, 11, 400);
	app_until(a, app_said(a, "comes again in 1 s") || app_said(a, "trying again in 1 s"), "it is told");
	before = app_count(a, s);
	calls = a->calls;
	app_pass(a, 0.5);
	must(a->calls - calls < 5 && app_count(a, s) == before, "no spin: %d calls", a->calls - calls);
	limit_pages(a, 100000);
	app_until(a, app_count(a, s) == 400, "all, once there is room");
	app_must_have(a, s, 400);
	end();
}
END_TEST

/* The file is held by somebody else when a batch begins. */
START_TEST(a_locked_file_is_tried_again) /* proves L1-16 */
{
	char *s = kit_id();
	sqlite3 *other;

	begin();
	app_open(a);
	sqlite3_busy_timeout(hcp_db(a->h), 50);
	must(sqlite3_open(a->file, &other) == SQLITE_OK, "open");
	must(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK, "%s",
		sqlite3_errmsg(other));
	stub_events(a->caller, s, 1, 30);
	app_until(a, app_said(a, "database is locked"), "it is told");
	must(app_said(a, "nothing is acknowledged"), "%s", a->log);
	sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL);
	sqlite3_close(other);
	app_until(a, app_count(a, s) == 30, "all");
	app_must_have(a, s, 30);
	end();
}
END_TEST

/* --- two handles, two threads --- */

static void *use_handle(void *arg)
{
	struct app *app = arg;
	int stop_at = 600;

	app_open(app);
	while (app->calls < stop_at && hcp_run(app->h, 50) >= 0)
		;
	return NULL;
}

START_TEST(two_threads_have_a_handle_each) /* proves L1-18 */
{
	struct app *b;
	pthread_t one, two;
	char *s = kit_id(), *t = kit_id();

	begin();
	b = app_new(NULL);
	app_open(a);
	app_close(a);
	app_open(b);
	app_close(b);
	must(pthread_create(&one, NULL, use_handle, a) == 0 && pthread_create(&two, NULL, use_handle, b) == 0,
		"threads");
	for (int i = 1; i <= 600; i++) {
		stub_event(a->caller, s, i, "progress");
		stub_event(b->caller, t, i, "progress");
		if (i == 300)
			must(broker_eval(broker,
				     "[rabbit_networking:close_connection(P, \"cut\") || P <- "
				     "rabbit_networking:connections()].") == 0,
				"cut");
	}
	pthread_join(one, NULL);
	pthread_join(two, NULL);
	app_must_have(a, s, 600);
	app_must_have(b, t, 600);
	must(app_count(a, t) == 0 && app_count(b, s) == 0, "to each its own");
	app_must_be_idle(b);
	app_free(b);
	end();
}
END_TEST

/* hcp_stop from a signal handler. */
static struct app *stopped;
static void on_signal(int number)
{
	(void)number;
	hcp_stop(stopped->h);
}

START_TEST(hcp_run_ends_when_it_is_told_to)
{
	double t;

	begin();
	app_open(a);
	must(hcp_run(a->h, 300) == HCP_TIMEOUT, "the time is up");
	stopped = a;
	signal(SIGUSR1, on_signal);
	t = harness_now();
	alarm(0);
	pid_t pid = fork();
	if (pid == 0) {
		poll(NULL, 0, 300);
		kill(getppid(), SIGUSR1);
		_exit(0);
	}
	must(hcp_run(a->h, 20000) == HCP_OK, "stopped");
	must(harness_now() - t < 10, "%g s", harness_now() - t);
	harness_pass(0.1);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("libhcp faults");

	suite_test(s, a_killed_broker_costs_nothing_once_it_is_back, 90);
	suite_test(s, connections_that_are_cut_again_and_again_cost_nothing, 90);
	suite_test(s, a_broker_that_hangs_is_noticed_by_the_heartbeat, 60);
	suite_test(s, no_turn_waits_for_the_broker, 60);
	suite_test(s, a_deleted_queue_is_made_again, 60);
	suite_test(s, an_alarm_of_the_broker_stops_submits_but_no_events, 90);
	suite_test(s, a_full_disk_loses_nothing_and_is_told, 90);
	suite_test(s, a_locked_file_is_tried_again, 60);
	suite_test(s, two_threads_have_a_handle_each, 90);
	suite_test(s, hcp_run_ends_when_it_is_told_to, 60);
	return harness_run(s, true);
}
