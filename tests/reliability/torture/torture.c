/* SPDX-License-Identifier: MIT */
/* torture.c: real faults on a real daemon, a real broker and real processes, for a while, by seed.
 * Owns the arena: daemon behind a proxy, a small disk, callers, the checks; faults.c does the harm.
 *   TORTURE_SEED, TORTURE_SECONDS, TORTURE_AGENT, TORTURE_POLICY, TORTURE_APP, TORTURE_CLOCK: see
 * scripts/torture. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps.h"
#include "caller.h"
#include "violations.h"
#include "fake_approver.h"
#include "faults.h"
#include "load.h"
#include "nemesis.h"
#include "proxy.h"
#include "fake_operator.h"
#include "harp_listener.h"
#include "watch.h"
#include "archive_merge.h"

#define CALLERS 5 /* three that are well, one whose queue fills, and the probe */
#define FULL_ARGS "x-max-length=15,x-overflow=reject-publish"
#define RATE 4.5    /* submits a second of each of the first three */
#define RETIRE 0.25 /* of the time: in the last part of it sessions leave the store */
#define RETIRE_FAULTS "daemon-kill,daemon-freeze,daemon-stop,disk-full,disk-full-and-kill,descriptors"
/* For all of them to be gone, once nothing goes wrong any more. After a look that took N seconds the
 * daemon rests for 4 N: on a busy machine those who came too late for it wait for minutes. */
#define RETIRE_S 600.0
#define AGED_S 3600  /* decisions about them have expired, too */
#define DRAIN_S 60.0 /* after the last fault, for everything to end: the retries of L2-17 are slow */

static unsigned seed;
static double seconds;
static struct rig *r;
static struct caller *callers[CALLERS];
static struct nemesis_world world;

/* A file system of the run's own, in a mount namespace that ends with it. Its commits take no time, so every
 * other seed stays on the real disk, where a full one is a limit on the size of files. */
static bool mount_disk(void)
{
	char options[64];

	snprintf(options, sizeof options, "mode=0700,size=%dm", 64 + (int)(seconds / 60 * 32));
	return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		mount("tmpfs", r->state, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0;
}

static volatile int64_t *open_skew(void)
{
#ifndef __has_feature
#define __has_feature(name) 0 /* gcc's word is the macro below */
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
	return NULL;
#else
	const char *path = rig_path(r, "skew"), *library = getenv("TORTURE_CLOCK");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (!library || fd < 0 || ftruncate(fd, 8) < 0)
		return NULL;
	void *at = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		return NULL;
	rig_env(r, "LD_PRELOAD=%s", library);
	rig_env(r, "HCP_CLOCK_SKEW=%s", path);
	return at;
#endif
}

static void configure(void)
{
	int port = 0;
	const char *at = strrchr(world.broker->url, ':');

	r = rig_new_on(world.broker);
	decider_begin(r, seed * 7 + 1); /* before there are threads */
	must(at && (port = atoi(at + 1)) > 0, "a port in %s", world.broker->url);
	rig_set(r, "amqp", "url", "amqp://guest:guest@127.0.0.1:%d/%%2F", proxy_start(port));
	rig_set(r, "amqp", "heartbeat", "2");
	rig_set(r, "amqp", "reconnect_max", "5s");
	rig_set(r, "daemon", "max_sessions", "32");
	rig_set(r, "daemon", "stop_timeout", "3s");
	rig_set(r, "session", "abort_timeout", "2s");
	rig_set(r, "session", "exit_grace", "1s");
	mix_prepare(r, getenv("TORTURE_AGENT"));
	mix_prepare_return(r, getenv("TORTURE_AGENT"));
	mix_prepare_gate(r, getenv("TORTURE_AGENT"), getenv("TORTURE_POLICY"));
	world.rig = r;
	world.abort_timeout_s = 2;
	world.own_disk = seed % 2 == 1 && mount_disk();
	world.skew = open_skew();
}

static void people(void)
{
	static char names[CALLERS][64];

	for (int i = 0; i < CALLERS; i++) {
		bool is_full = i == 3, is_probe = i == 4;
		snprintf(names[i], sizeof names[i], "%s-%d",
			is_full          ? "full" :
				is_probe ? "probe" :
					   "well",
			i);
		callers[i] = caller_new(r,
			&(struct caller_plan){.name = names[i],
				.seed = seed * 100 + (unsigned)i,
				.rate = is_full ? 1 : RATE,
				.most_open = 60,
				.queue_args = is_full ? FULL_ARGS : "",
				.keep_tape = true});
		caller_go(callers[i], !is_probe);
	}
	app_begin(r, getenv("TORTURE_APP"), seed * 1000);
	world.well = callers[0];
	world.full = callers[3];
	world.probe = callers[4];
	world.callers = callers;
	world.caller_count = CALLERS;
}

static bool all_over(bool are_kept)
{
	for (int i = 0; i < CALLERS; i++)
		if (!caller_is_over(callers[i]))
			return false;
	return !are_kept || app_is_over();
}

/* are_kept: all is in the store, for the application to be compared with. */
static void drain(bool are_kept)
{
	double end = harness_now() + DRAIN_S * harness_scale();
	int messages = 0, consumers = 0;

	for (int i = 0; i < CALLERS; i++)
		caller_go(callers[i], false);
	app_be_quiet();
	while (!all_over(are_kept) && harness_now() < end)
		harness_pass(0.1);
	bool seen = queue_look(r->broker, r->queue, &messages, &consumers) ||
		/* its first connection may be long dead */
		queue_look(r->broker, r->queue, &messages, &consumers);
	if (!seen || messages > 0)
		violation("every acknowledged command in the store", "%d commands are still in the queue",
			messages);
}

/* Everybody is quiet, and their sessions leave, with faults of what that needs: the daemon and its disk. */
static struct nemesis_sum retire(void)
{
	const char *stay = world.skew ? "sessions" : "sessions WHERE id NOT IN (SELECT session FROM reviews)";
	struct nemesis_sum s;

	if (world.skew)
		*world.skew = AGED_S * INT64_C(1000000000);
	faults_let_go(&world);
	world.only = RETIRE_FAULTS;
	s = nemesis_run(&world, seed + 1000, seconds * RETIRE);
	drain(false);
	double end = harness_now() + RETIRE_S * harness_scale();
	while ((watch_count(stay) != 0 || watch_count("leaving") != 0) && harness_now() < end)
		harness_pass(0.1);
	if (watch_count(stay) != 0 || watch_count("leaving") != 0)
		violation("sessions leave", "%ld are in the store and %ld on their way, long after their end",
			watch_count(stay), watch_count("leaving"));
	return s;
}

static void on_failed(
	void *ctx, const char *session, const char *kind, const char *why, double from, double to)
{
	(void)ctx;
	if (!nemesis_explains(why, from, to))
		violation("no needless failure", "%s (%s): %s, and nothing that was done explains it",
			session, kind, why);
}

static void check_all(void)
{
	struct caller_sum all = {0};
	char path[sizeof r->db];

	snprintf(path, sizeof path, "%s", rig_path(r, "whole.db"));
	long gone = whole_make(r->db, r->state, path);
	memcpy(r->db, path, sizeof path); /* from here on: as if nobody had left */
	say("%ld sessions had left the store, %ld checkpoints were deltas", gone,
		watch_count("checkpoints WHERE encoding = 'delta'"));
	if (gone == 0 || watch_count("checkpoints WHERE encoding = 'delta'") < 1)
		violation("torture", "no session left the store, or no checkpoint was a delta");
	say("the world was told %ld times", harp_listener_check(r->db));
	for (int i = 0; i < CALLERS; i++) {
		caller_check(callers[i], on_failed, NULL);
		struct caller_sum s = caller_sum(callers[i]);
		all.submits += s.submits;
		all.repeats += s.repeats;
		all.aborts += s.aborts;
		all.messages += s.messages;
		all.completed += s.completed;
		all.failed += s.failed;
		all.aborted += s.aborted;
		all.rejected += s.rejected;
	}
	watch_check(callers, CALLERS);
	decider_check();
	app_check();
	if (rig_log_has(r, "AddressSanitizer") || rig_log_has(r, "runtime error:") ||
		rig_log_has(r, "LeakSanitizer"))
		violation("sanitizers", "see %s", r->log);
	say("%ld submits (%ld said again), %ld aborts, %ld messages: %ld completed, %ld failed, %ld aborted, "
	    "%ld rejected",
		all.submits, all.repeats, all.aborts, all.messages, all.completed, all.failed, all.aborted,
		all.rejected);
	watch_say_failures();
}

/* The namespace ends with us, and the small disk with it. */
static void keep_files(void)
{
	char command[800];

	snprintf(command, sizeof command, "cp -a %s %s/state-kept", r->state, r->dir);
	if (world.own_disk && system(command) != 0)
		say("the state directory could not be kept");
}

START_TEST(promises_hold_whatever_happens)
{
	say_clock();
	world.broker = broker_private();
	configure();
	say("seed %u for %.0f s, on %s disk", seed, seconds, world.own_disk ? "a small" : "the real");
	harp_listener_begin(r);
	faults_start_daemon(&world);
	rig_wait_consuming(r);
	rester_begin(r, seed * 11 + 3);
	watch_start(r, world.abort_timeout_s);
	people();
	struct nemesis_sum s = nemesis_run(&world, seed, seconds * (1 - RETIRE));
	rester_be_kind();
	drain(true);
	s = retire();
	faults_stop_daemon(&world);
	watch_stop();
	rester_end();
	harp_listener_end();
	check_all();
	proxy_stop();
	long sessions = watch_count("sessions");
	if (violation_count() > 0)
		keep_files();
	printf("torture: seed %u, %.0f s, %d faults of %d kinds (of %d), %ld sessions, slowest intake %.1f "
	       "s, %d violations\n",
		seed, seconds, s.faults, s.kinds, s.all_kinds, sessions, s.slowest_intake, violation_count());
	fflush(stdout);
	ck_assert_msg(violation_count() == 0, "%d violations", violation_count());
}
END_TEST

int main(void)
{
	Suite *s = suite_create("torture");
	const char *number = getenv("TORTURE_SEED"), *length = getenv("TORTURE_SECONDS");

	seed = number ? (unsigned)strtoul(number, NULL, 10) : 1;
	seconds = length && atof(length) > 0 ? atof(length) : 60;
	suite_test(s, promises_hold_whatever_happens, (int)seconds + 900);
	return harness_run(s, true);
}
