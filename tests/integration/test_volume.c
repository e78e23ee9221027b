/* SPDX-License-Identifier: MIT */
/* test_volume.c: much of everything: events in order, bounded memory, pressure on one worker only. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/peer.h"
#include "support/rig.h"
#include "support/talk.h"

static struct rig *r;
static struct peer *p;

static void end(void)
{
	peer_finish(p);
	rig_finish(r);
}

static size_t resident_kib(void)
{
	char path[64], *at;
	size_t kib = 0;

	snprintf(path, sizeof path, "/proc/%d/status", r->pid);
	char *text = file_read(path, NULL);
	if (text && (at = strstr(text, "VmRSS:")))
		kib = strtoul(at + 6, NULL, 10);
	free(text);
	return kib;
}

START_TEST(twenty_thousand_events_come_in_order) /* proves L2-04, L1-07 */
{
	char expected[32];
	int next = 1;

	r = rig_new();
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent", J("{'do':[['progress',20000,200],['complete']]}"));
	wait_until(peer_find(p, s, "event", "session_closed"), 120, "%zu so far", p->note_count);
	for (size_t i = 0; i < p->note_count; i++)
		if (strcmp(p->notes[i]->event, "progress") == 0) {
			snprintf(expected, sizeof expected, "event %d ", next++);
			must(strncmp(note_text(p->notes[i], "payload.data.message"), expected,
				     strlen(expected)) == 0,
				"%.200s", p->notes[i]->body);
		}
	must(next == 20001, "%d events", next - 1);
	must(harness_is_sanitized() || resident_kib() < 65536, "%zu KiB", resident_kib());
	end();
}
END_TEST

START_TEST(a_worker_waits_when_its_outbox_is_full_and_nobody_else_does)
{
	r = rig_new();
	rig_set(r, "session", "max_outbox", "64KiB");
	rig_start(r);
	p = peer_absent(r, "slow-one");
	peer_drop(p);
	peer_declare(p, "x-max-length=5,x-overflow=reject-publish");
	p->any_order = true;
	/* 3 MB: far more than the outbox and all the pipe hold */
	const char *id = peer_submit(p, "agent",
		J("{'do':[['progress',10000,200],['write','%s'],['complete']]}", rig_path(r, "written")));
	wait_until(rig_sql(r, "SELECT sum(length(body)) FROM events") > 65536, WAIT_S, "it fills");
	harness_pass(0.7);
	long long stored = rig_sql(r, "SELECT sum(length(body)) FROM events");
	must(stored < 1500000, "%lld bytes with an outbox of 64 KiB", stored);
	must(!file_exists(rig_path(r, "written")), "the worker did not wait");
	struct peer *q = peer_new(r);
	peer_completed(q, peer_run(q, "agent", J("{'do':[['progress',100],['complete']]}")));
	peer_finish(q);
	peer_drop(p); /* emptied by force: the first ones are lost with it */
	peer_open(p, "");
	p->lossy = true;
	wait_until(peer_find(p, NULL, "event", "session_closed"), 60, "it goes on");
	must(file_exists(rig_path(r, "written")), "it was written");
	(void)id;
	end();
}
END_TEST

START_TEST(a_worker_that_is_kept_waiting_is_not_idle) /* proves L2-10 */
{
	r = rig_new();
	rig_set(r, "session", "max_outbox", "64KiB");
	rig_set(r, "session", "idle_timeout", "1s");
	rig_start(r);
	p = peer_absent(r, "slow-two");
	peer_drop(p);
	peer_declare(p, "x-max-length=5,x-overflow=reject-publish");
	p->any_order = true;
	peer_submit(p, "agent", J("{'do':[['progress',3000,200],['complete']]}"));
	wait_until(rig_sql(r, "SELECT sum(length(body)) FROM events") > 65536, WAIT_S, "it fills");
	harness_pass(2.5);
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'RUNNING'") == 1,
		"it was taken for idle");
	p->lossy = true;
	peer_drop(p);
	peer_open(p, "");
	peer_completed(p, peer_wait(p, NULL, "event", "session_closed")->session);
	end();
}
END_TEST

START_TEST(the_watchdog_is_fed_through_the_flood) /* proves L1-22 */
{
	r = rig_new();
	r->watchdog_usec = 1500000;
	rig_start(r);
	p = peer_new(r);
	double last = harness_now(), worst = 0;
	int fed = r->watchdog;
	const char *id = peer_submit(p, "agent", J("{'do':[['progress',20000,300],['complete']]}"));
	while (!peer_find(p, NULL, "event", "session_closed") &&
		harness_now() < last + WAIT_S * harness_scale()) {
		harness_tick();
		if (r->watchdog != fed) {
			fed = r->watchdog;
			last = harness_now();
		}
		worst = harness_now() - last > worst ? harness_now() - last : worst;
	}
	peer_completed(p, peer_accepted(p, id));
	must(worst < 1.5 * harness_scale(), "%.2f s between two signs of life, WATCHDOG_USEC is 1.5 s",
		worst);
	end();
}
END_TEST

/* By the daemon's clock. */
static double time_of(const struct note *n)
{
	struct tm tm = {0};
	const char *fraction = strptime(note_text(n, "timestamp"), "%Y-%m-%dT%H:%M:%S", &tm);

	must(fraction, "%s", n->body);
	return (double)timegm(&tm) + strtod(fraction, NULL);
}

/* The longest time without a progress event of a session, from `since` to its last one. */
static double longest_gap(const char *session, double since)
{
	double last = since, worst = 0;

	for (size_t i = 0; i < p->note_count; i++) {
		double at;

		if (strcmp(p->notes[i]->session, session) != 0 ||
			strcmp(p->notes[i]->event, "progress") != 0 || (at = time_of(p->notes[i])) < since)
			continue;
		worst = at - last > worst ? at - last : worst;
		last = at;
	}
	return worst;
}

/* Between how many pairs of answers to commands does an event of another session stand? */
static int count_shared_gaps(const char *session)
{
	int count = 0;
	bool is_shared = false;

	for (size_t i = 0; i < p->note_count; i++) {
		if (strcmp(p->notes[i]->session, session) == 0 && strcmp(p->notes[i]->event, "progress") == 0)
			is_shared = true;
		if (strcmp(p->notes[i]->type, "task_rejected") == 0) {
			count += is_shared;
			is_shared = false;
		}
	}
	return count;
}

/* Asks the core by the control socket, again and again until so many commands are answered: how long the
 * slowest of its answers took. Counts those that came before the last of the commands was answered. */
static double slowest_answer(struct talk *t, int commands, int *asked)
{
	double worst = 0;

	for (*asked = 0;; ++*asked) {
		double from = harness_now();

		must_str(talk_code(talk_call(t, "'do':'stats'")), "");
		worst = harness_now() - from > worst ? harness_now() - from : worst;
		if (peer_count(p, NULL, "task_rejected", NULL) >= commands)
			return worst;
	}
}

/* Commands of nearly the largest size, all there at once. Another session's events go on between them, and
 * operators are answered. Where the burst was one turn, nothing of either came for 10 s. */
START_TEST(a_burst_of_large_commands_holds_up_no_session)
{
	enum { MANY = 250, SIZE = 830 << 10 };
	char *body = malloc(SIZE + 1000);
	size_t size, head;
	double slowest, gap, bound;
	struct timespec begun;
	struct talk t;
	int asked;

	r = rig_new();
	const char *path = talk_path(r);
	rig_start(r);
	talk_open(&t, path);
	p = peer_new(r);
	const char *s = peer_run(p, "agent", J("{'do':[['count',100000,0,0.02],['complete']]}"));
	peer_event(p, s, "progress");
	rig_signal(r, SIGSTOP); /* or it would keep pace with a slow publisher */
	for (int i = 0; i < MANY; i++) {
		head = (size_t)sprintf(body,
			"{\"hcp_version\":\"1.0\",\"message_id\":\"big-%d\",\"timestamp\":\"2024-05-06T07:08:"
			"09.123Z\","
			"\"session_id\":null,\"type\":\"task_submit\",\"payload\":{\"capability\":\"nothing-"
			"here\","
			"\"caller_id\":\"%s\",\"intent\":\"i\",\"inputs\":{\"list\":[0",
			i, p->id);
		for (size = head; size < SIZE; size += 14)
			memcpy(body + size, ",{\"n\":1,\"m\":2}", 14);
		strcpy(body + size, "]}}}");
		peer_publish(p, body, size + 4, NULL);
	}
	free(body);
	clock_gettime(CLOCK_REALTIME, &begun);
	rig_signal(r, SIGCONT);
	slowest = slowest_answer(&t, MANY, &asked);
	talk_close(&t);
	peer_abort(p, s);
	peer_event(p, s, "session_closed");
	gap = longest_gap(s, (double)begun.tv_sec + (double)begun.tv_nsec / 1e9);
	fprintf(stderr,
		"%d commands of %d KiB: %d gaps, at most %.2f s without an event of another session; %d "
		"answers to an"
		" operator, after at most %.2f s\n",
		MANY, SIZE >> 10, count_shared_gaps(s), gap, asked, slowest);
	bound = harness_scale();
	must(gap < bound, "%.2f s without an event", gap);
	must(count_shared_gaps(s) >= MANY / 10, "%d gaps", count_shared_gaps(s));
	must(asked > 0, "no operator was answered within the burst");
	must(slowest < bound, "an operator was answered after %.2f s", slowest);
	end();
}
END_TEST

START_TEST(unroutable_messages_do_not_fill_the_outbox)
{
	r = rig_new();
	rig_set(r, "session", "max_outbox", "64KiB");
	rig_start(r);
	p = peer_absent(r, "gone-one");
	peer_drop(p);
	peer_submit(p, "agent", J("{'do':[['progress',2000,200],['complete']]}"));
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'COMPLETED'") == 1, WAIT_S,
		"an absent caller stops nobody");
	p->unchecked = true;
	end();
}
END_TEST

START_TEST(hundreds_of_submits_at_once_are_all_served)
{
	enum { MANY = 200 };
	const char *ids[MANY];

	r = rig_new();
	rig_capability(r, "again", source_path("tests/integration/agents/agent.py"), NULL);
	rig_set(r, "capability again", "reuse", "1000");
	rig_set(r, "daemon", "max_sessions", "4");
	rig_start(r);
	p = peer_new(r);
	for (int i = 0; i < MANY; i++)
		ids[i] = peer_submit(p, "again", J("{'do':[['progress',2],['complete',{'i':%d}]]}", i));
	for (int i = 0; i < MANY; i++) {
		struct note *n = peer_completed(p, peer_accepted(p, ids[i]));
		must(json_integer_value(note_at(n, "payload.outputs.i")) == i, "%s", n->body);
	}
	end();
}
END_TEST

/* Reads what is in the pipe into the log. */
static void read_log(int fd)
{
	char text[4096];
	ssize_t n;
	FILE *f = fopen(r->log, "a");

	while ((n = read(fd, text, sizeof text)) > 0)
		fwrite(text, 1, (size_t)n, f);
	fclose(f);
}

/* A full pipe as stderr, from the daemon's first line on. */
START_TEST(a_log_that_nobody_reads_stops_nobody)
{
	enum { SESSIONS = 20 };
	int ends[2];

	must(pipe2(ends, O_CLOEXEC) == 0 && fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096, "a small pipe");
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	for (int i = 0; i < 4096; i++)
		must(write(ends[1], "\n", 1) == 1, "filled");
	r = rig_new();
	r->stderr_fd = ends[1];
	rig_start(r);
	p = peer_new(r);
	for (int i = 0; i < SESSIONS; i++)
		peer_completed(p, peer_run(p, "agent", NULL));
	must(rig_log_count(r, "session closed: ") == 0, "nobody has read the log yet");
	/* What waited comes out in its order once somebody reads. */
	wait_until(
		(read_log(ends[0]), rig_log_count(r, "session closed: ") == SESSIONS), WAIT_S, "the lines");
	must(rig_log_has(r, "ready: callee="), "its first lines, too");
	must(fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) > 0, "room for the rest");
	end();
	close(ends[0]);
	close(ends[1]);
}
END_TEST

START_TEST(idle_means_idle)
{
	char path[64];
	unsigned long before = 0, after = 0;

	r = rig_new();
	rig_start(r);
	p = peer_new(r);
	peer_completed(p, peer_run(p, "agent", NULL));
	harness_pass(1);
	snprintf(path, sizeof path, "/proc/%d/schedstat", r->pid);
	char *text = file_read(path, NULL);
	sscanf(text, "%*u %*u %lu", &before); /* times it was given a processor */
	free(text);
	harness_pass(2);
	text = file_read(path, NULL);
	sscanf(text, "%*u %*u %lu", &after);
	free(text);
	must(after - before < 10, "the loop woke %lu times in 2 s", after - before);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("volume");

	suite_test(s, twenty_thousand_events_come_in_order, 150);
	suite_test(s, a_worker_waits_when_its_outbox_is_full_and_nobody_else_does, 90);
	suite_test(s, a_worker_that_is_kept_waiting_is_not_idle, 60);
	suite_test(s, the_watchdog_is_fed_through_the_flood, 90);
	suite_test(s, a_burst_of_large_commands_holds_up_no_session, 150);
	suite_test(s, unroutable_messages_do_not_fill_the_outbox, 60);
	suite_test(s, hundreds_of_submits_at_once_are_all_served, 90);
	suite_test(s, a_log_that_nobody_reads_stops_nobody, 60);
	suite_test(s, idle_means_idle, 40);
	return harness_run(s, false);
}
