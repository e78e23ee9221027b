/* SPDX-License-Identifier: MIT */
/* test_chaos.c: everything at once: crashes, stops, lost connections, a full caller, an absent one.
 * Seeded. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/peer.h"
#include "support/rig.h"

#define FULL "x-max-length=15,x-overflow=reject-publish"

static struct rig *r;
static struct peer *well, *full, *away;
static unsigned seed;

static double some(double most)
{
	return most * (double)(rand_r(&seed) % 1000) / 1000;
}

static void submit_to(struct peer *p, const char **ids, int *n)
{
	ids[(*n)++] = peer_submit(
		p, "agent", J("{'do':[['progress',15],['count',%d,4,0.01]]}", 10 + rand_r(&seed) % 40));
}

/* One piece of bad luck; the daemon runs afterwards, or is about to. */
static void strike(int which)
{
	switch (which) {
	case 0:
		kill(r->pid, SIGKILL);
		rig_wait_exit(r, WAIT_S);
		rig_spawn(r);
		break;
	case 1:
		must(broker_eval(r->broker,
			     "[rabbit_networking:close_connection(P, \"for a test\") || P <- "
			     "rabbit_networking:connections()].") == 0,
			"eval");
		break;
	case 2:
		kill(r->pid, SIGTERM);
		harness_pass(some(0.4));
		if (!r->exited)
			kill(r->pid, SIGKILL);
		rig_wait_exit(r, WAIT_S);
		rig_spawn(r);
		break;
	case 3: peer_close(full); break;
	case 4:
		if (!full->sub)
			peer_open(full, FULL);
		break;
	default: rig_wait_ready(r); rig_signal(r, SIGHUP);
	}
}

static void must_all_complete(struct peer *p, const char *const *ids, int n)
{
	for (int i = 0; i < n; i++) {
		const char *s = peer_accepted(p, ids[i]);
		peer_completed(p, s);
		must(peer_count(p, s, "task_completed", NULL) == 1, "%s", s);
	}
}

static void chaos(unsigned start)
{
	const char *a[40], *b[40], *c[40];
	int na = 0, nb = 0, nc = 0;

	seed = start;
	printf("seed %u\n", seed);
	r = rig_new();
	rig_set(r, "daemon", "max_sessions", "12");
	rig_set(r, "daemon", "stop_timeout", "2s");
	rig_start(r);
	well = peer_new(r);
	full = peer_absent(r, "chaos-full");
	away = peer_absent(r, "chaos-away");
	peer_drop(full);
	peer_drop(away);
	peer_open(full, FULL);
	full->any_order = away->any_order = true;
	for (int i = 0; i < 14; i++) {
		submit_to(well, a, &na);
		if (i % 2)
			submit_to(full, b, &nb);
		if (i % 3 == 0)
			submit_to(away, c, &nc);
		harness_pass(some(0.4));
		strike(rand_r(&seed) % 6);
	}
	rig_wait_ready(r);
	if (!full->sub)
		peer_open(full, FULL);
	peer_open(away, "");
	must_all_complete(well, a, na);
	must_all_complete(full, b, nb);
	must_all_complete(away, c, nc);
	harness_pass(0.5); /* what was nacked early may come last */
	peer_finish(well);
	peer_finish(full);
	peer_finish(away);
	rig_finish(r);
}

START_TEST(stream_is_whole_whatever_happens) /* proves L2-04, L1-07, L1-10, L1-21 */
{
	const char *env = getenv("HCP_TEST_SEED");

	chaos(env ? (unsigned)atoi(env) : 101);
}
END_TEST

START_TEST(stream_is_whole_whatever_else_happens) /* proves L2-04, L1-07, L1-10, L1-21 */
{
	const char *env = getenv("HCP_TEST_SEED");

	chaos(env ? (unsigned)atoi(env) + 1000 : 202);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("chaos");

	suite_test(s, stream_is_whole_whatever_happens, 150);
	suite_test(s, stream_is_whole_whatever_else_happens, 150);
	return harness_run(s, false);
}
