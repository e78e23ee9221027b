/* SPDX-License-Identifier: MIT */
/* faults.c: what can go wrong: for each kind how it begins and how it is made good again.
 * Owns the means (signals, the broker's shell, the proxy's mode, limits, the clock) and the table of them.
 * Never chooses (nemesis.c), never checks a stream or the store (stream.c, watch.c). */
#include "apps.h"
#include "faults.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "violations.h"
#include "load.h"
#include "proxy.h"
#include "stream.h"
#include "support/oracle_stream.h"
#include "watch.h"
#include "support/wire.h"

#define START_S 20.0
#define STOP_SLACK_S 4.0
#define DETAIL FAULT_DETAIL

static const struct nemesis_world *w;
static unsigned *dice;
static bool mourning; /* the daemon's death is ours */

void faults_use(const struct nemesis_world *world, unsigned *seed)
{
	w = world;
	dice = seed;
}

bool faults_have_killed(void)
{
	return mourning;
}

/* --- the daemon --- */

static bool wait_for(bool (*holds)(void), double seconds)
{
	double end = harness_now() + seconds * harness_scale();

	while (!holds()) {
		if (harness_now() > end)
			return false;
		harness_tick();
	}
	return true;
}

static bool is_gone(void)
{
	return w->rig->exited;
}
static bool is_ready(void)
{
	return w->rig->ready || w->rig->exited;
}

void faults_start_daemon(const struct nemesis_world *world)
{
	w = world;
	w->rig->pid = 0;
	rig_spawn(w->rig);
	if (!wait_for(is_ready, START_S) || w->rig->exited)
		violation("recovery", "the daemon is not ready %.0f s after its start (ended: %d, status %d)",
			START_S, w->rig->exited, w->rig->wait_status);
}

void faults_stop_daemon(const struct nemesis_world *world)
{
	w = world;
	if (w->rig->exited)
		return;
	kill(w->rig->pid, SIGTERM);
	if (!wait_for(is_gone, 3 + STOP_SLACK_S)) {
		violation("stop is bounded", "the daemon still runs %.0f s after SIGTERM", 3 + STOP_SLACK_S);
		kill(w->rig->pid, SIGKILL);
		wait_for(is_gone, START_S);
	} else if (!WIFEXITED(w->rig->wait_status) || WEXITSTATUS(w->rig->wait_status) != 0) {
		violation("stop is clean", "the daemon ended with wait status %d", w->rig->wait_status);
	}
}

static bool kill_daemon(char *detail)
{
	(void)detail;
	mourning = true;
	kill(w->rig->pid, SIGKILL);
	wait_for(is_gone, START_S);
	return true;
}

static bool stop_daemon(char *detail)
{
	(void)detail;
	mourning = true;
	faults_stop_daemon(w);
	return true;
}

void faults_revive_daemon(void)
{
	faults_start_daemon(w);
	mourning = false;
}

static bool freeze_daemon(char *detail)
{
	(void)detail;
	kill(w->rig->pid, SIGSTOP);
	return true;
}

static void thaw_daemon(void)
{
	kill(w->rig->pid, SIGCONT);
}

static bool reload_daemon(char *detail)
{
	int n = 1 + rand_r(dice) % 20;

	for (int i = 0; i < n; i++)
		kill(w->rig->pid, SIGHUP);
	snprintf(detail, DETAIL, "%d times", n);
	return true;
}

static void nothing(void) {}

/* --- the policy --- */

/* In one step: a reload that is under way must not read half of it. */
static void put_ini(const char *more)
{
	char path[sizeof w->rig->ini];
	FILE *f;

	memcpy(path, w->rig->ini, sizeof path);
	snprintf(w->rig->ini, sizeof w->rig->ini, "%s", rig_path(w->rig, "hcpd.ini.new"));
	rig_write_ini(w->rig);
	if ((f = fopen(w->rig->ini, "a"))) {
		fputs(more, f);
		fclose(f);
	}
	rename(w->rig->ini, path);
	memcpy(w->rig->ini, path, sizeof path);
}

static const char *awaited; /* what the log says of the reload */
static int before;

static bool is_reloaded(void)
{
	harness_pass(0.05);
	return w->rig->exited || rig_log_count(w->rig, awaited) > before;
}

static void reload(const char *says)
{
	awaited = says;
	before = rig_log_count(w->rig, says);
	kill(w->rig->pid, SIGHUP);
	if (!wait_for(is_reloaded, 5))
		violation("a policy is taken or refused whole",
			"%.1f s after SIGHUP the log does not say: %s", 5.0, says);
}

/* Another policy while tasks wait: a higher risk, so that a human has to look again; no lab for anybody; or
 * one that is broken in its last line, and must change nothing. */
static bool reload_policy(char *detail)
{
	int what = rand_r(dice) % 3;

	if (what == 0)
		rig_set(w->rig, "capability lab", "declaration", "%s", rig_path(w->rig, "lab-high.json"));
	if (what == 1)
		rig_set(w->rig, "caller *", "capabilities",
			"counter, reuser, agent, plain, oven, sturdy, frail, rester, hoarder");
	put_ini(what == 2 ? "[caller *]\ncapabilities = counter\n[capability lab]\nrisk = none\n" : "");
	reload(what == 2 ? "is broken and refused whole" : "configuration reloaded");
	snprintf(detail, DETAIL, "%s", what == 0 ? "a higher risk" : what == 1 ? "no lab" : "a broken one");
	return true;
}

static void restore_policy(void)
{
	rig_set(w->rig, "capability lab", "declaration", "%s", rig_path(w->rig, "lab.json"));
	rig_set(w->rig, "caller *", "capabilities", "*");
	put_ini("");
	reload("configuration reloaded");
}

void faults_let_go(const struct nemesis_world *world)
{
	w = world;
	rig_set(w->rig, "retention", "grace", "2s");
	rig_set(w->rig, "daemon", "dedup_window", "1s");
	w->rig->forgets = true;
	put_ini("");
	reload("configuration reloaded");
}

static int program = -1; /* a pidfd */

static bool signal_program(int sig, char *detail)
{
	pid_t pid = watch_program();

	if (program >= 0)
		close(program);
	program = pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	snprintf(detail, DETAIL, "%s",
		program >= 0 && watch_program() == pid ? "" : "it does not run just now");
	if (!detail[0])
		syscall(SYS_pidfd_send_signal, program, sig, NULL, 0);
	return !detail[0];
}

static bool kill_program(char *detail)
{
	return signal_program(SIGKILL, detail);
}
static bool freeze_program(char *detail)
{
	return signal_program(SIGSTOP, detail);
}
static void thaw_program(void)
{
	syscall(SYS_pidfd_send_signal, program, SIGCONT, NULL, 0);
}

/* --- workers --- */

#define VICTIMS 3
static int victims[VICTIMS]; /* pidfds */
static int victim_count;

/* By descriptor, and looked at again through it: a pid may belong to another process by now. */
static void pick_victims(void)
{
	pid_t pids[128], again[128];
	int n = watch_workers(pids, 128), m;

	victim_count = 0;
	for (int i = 0; n > 0 && i < VICTIMS; i++) {
		pid_t pid = pids[rand_r(dice) % n];
		int fd = (int)syscall(SYS_pidfd_open, pid, 0);
		bool still = false;
		m = watch_workers(again, 128);
		for (int k = 0; k < m; k++)
			still |= again[k] == pid;
		if (fd >= 0 && still)
			victims[victim_count++] = fd;
		else if (fd >= 0)
			close(fd);
	}
}

static void signal_victims(int sig)
{
	for (int i = 0; i < victim_count; i++)
		syscall(SYS_pidfd_send_signal, victims[i], sig, NULL, 0);
}

static void release_victims(void)
{
	signal_victims(SIGCONT);
	while (victim_count > 0)
		close(victims[--victim_count]);
}

static bool kill_workers(char *detail)
{
	pick_victims();
	signal_victims(SIGKILL);
	snprintf(detail, DETAIL, "%d processes", victim_count);
	return true;
}

static bool freeze_workers(char *detail)
{
	pick_victims();
	signal_victims(SIGSTOP);
	snprintf(detail, DETAIL, "%d processes", victim_count);
	return true;
}

/* Trees that refuse to die, all to be aborted at once. */
static bool raise_crowds(char *detail)
{
	char id[40];

	for (int i = 0; i < 3; i++) {
		struct order o = {.kind = "crowd",
			.capability = "counter",
			.abort_after = 0.3,
			.inputs = J("{'goal':2,'every':1,'crowd':3,'deaf':true,'end':'hang'}")};
		caller_submit_one(w->well, &o, id);
	}
	snprintf(detail, DETAIL, "3 trees of 4, deaf, aborted");
	return true;
}

/* --- the broker --- */

static bool kill_broker(char *detail)
{
	(void)detail;
	broker_kill(w->broker);
	return true;
}

static void revive_broker(void)
{
	broker_start(w->broker, w->broker->dir);
}

static bool freeze_broker(char *detail)
{
	(void)detail;
	kill(w->broker->pid, SIGSTOP);
	return true;
}

static void thaw_broker(void)
{
	kill(w->broker->pid, SIGCONT);
}

static bool eval(const char *fmt, const char *argument)
{
	char text[12000];
	const char *at = strstr(fmt, "%s");

	snprintf(text, sizeof text, "%.*s%s%s", (int)(at ? at - fmt : (long)strlen(fmt)), fmt,
		at ? argument : "", at ? at + 2 : "");
	/* A busy node may refuse the first connection of its shell. */
	for (int tries = 0; tries < 6; tries++) {
		if (broker_eval(w->broker, text) == 0)
			return true;
		harness_pass(0.3);
	}
	say("note: the broker did not evaluate %.60s", text);
	return false;
}

static char *base64(const char *text)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t n = strlen(text);
	char *out = calloc(1, n * 4 / 3 + 8), *o = out;

	for (size_t i = 0; i < n; i += 3) {
		unsigned v = (unsigned)(unsigned char)text[i] << 16;
		v |= i + 1 < n ? (unsigned)(unsigned char)text[i + 1] << 8 : 0;
		v |= i + 2 < n ? (unsigned char)text[i + 2] : 0;
		*o++ = digits[v >> 18];
		*o++ = digits[v >> 12 & 63];
		*o++ = i + 1 < n ? digits[v >> 6 & 63] : '=';
		*o++ = i + 2 < n ? digits[v & 63] : '=';
	}
	return out;
}

/* During an alarm no client can publish, so this abort is put into the queue from inside the node. */
static bool inject_abort(const char *session, const char *token)
{
	char body[4096], command[9000];

	snprintf(body, sizeof body,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"%s\",\"timestamp\":\"2026-01-01T00:00:00.000Z\","
		"\"session_id\":\"%s\",\"type\":\"abort\",\"payload\":{\"session_token\":\"%s\"}}",
		session, session, token);
	char *coded = base64(body);
	snprintf(command, sizeof command,
		"rabbit_basic:publish(rabbit_misc:r(<<\"/\">>, exchange, <<\"hcp.commands\">>), <<\"%s\">>, "
		"[{delivery_mode, 2}], base64:decode(<<\"%s\">>)).",
		w->rig->callee, coded);
	bool done = eval(command, NULL);
	free(coded);
	return done;
}

static char hung_id[40], hung_session[40], hung_token[2048], hung_state[16];

static bool hung_is_accepted(void)
{
	return caller_find(w->probe, hung_id, hung_session, hung_token);
}
static bool hung_is_running(void)
{
	return watch_state(hung_session, hung_state) && strcmp(hung_state, "RUNNING") == 0;
}
static bool hung_is_over(void)
{
	return watch_state(hung_session, hung_state) && oracle_is_final(hung_state);
}

/* An alarm, and in it an abort that must be done in time although nothing can be published. */
static bool alarm_broker(const char *kind, char *detail)
{
	struct order o = {.kind = "hang",
		.capability = "counter",
		.abort_after = 15,
		.inputs = J("{'goal':1,'crowd':1,'end':'hang'}")};

	caller_submit_one(w->probe, &o, hung_id);
	bool runs = wait_for(hung_is_accepted, 5) && wait_for(hung_is_running, 5);
	if (!eval("rabbit_alarm:set_alarm({{resource_limit, %s, node()}, []}).", kind))
		violation("torture", "no alarm could be set");
	if (!runs) {
		/* Something else goes on: it is aborted later, in the ordinary way. */
		snprintf(detail, DETAIL, "no session was there to abort");
		return true;
	}
	caller_expect_abort(w->probe, hung_id);
	if (!inject_abort(hung_session, hung_token)) {
		snprintf(detail, DETAIL, "no abort could be put into the queue");
		return true;
	}
	double from = harness_now();
	if (!wait_for(hung_is_over, w->abort_timeout_s + 3))
		violation("abort is bounded", "%s is %s %.1f s after its abort, while publishing is blocked",
			hung_session, hung_state, harness_now() - from);
	snprintf(detail, DETAIL, "an abort in it took %.1f s", harness_now() - from);
	return true;
}

static bool alarm_memory(char *detail)
{
	return alarm_broker("memory", detail);
}
static bool alarm_disk(char *detail)
{
	return alarm_broker("disk", detail);
}
static void calm_memory(void)
{
	eval("rabbit_alarm:clear_alarm({resource_limit, memory, node()}).", NULL);
}
static void calm_disk(void)
{
	eval("rabbit_alarm:clear_alarm({resource_limit, disk, node()}).", NULL);
}

static bool close_connections(char *detail)
{
	(void)detail;
	return eval(
		"[rabbit_networking:close_connection(P, \"by the nemesis\") || P <- "
		"rabbit_networking:connections()].",
		NULL);
}

/* What was in the queue is gone by our doing: callers may say it again. */
static bool delete_queue(char *detail)
{
	(void)detail;
	callers_may_repeat();
	wire_delete_queue(w->broker, w->rig->queue);
	callers_may_repeat();
	return true;
}

static void delete_exchange(const char *name)
{
	amqp_connection_state_t c = wire_connect(w->broker);

	if (c)
		amqp_exchange_delete(c, 1, amqp_cstring_bytes(name), 0);
	wire_disconnect(&c);
}

static bool delete_commands(char *detail)
{
	(void)detail;
	delete_exchange("hcp.commands");
	return true;
}

static bool delete_events(char *detail)
{
	(void)detail;
	for (int i = 0; i < w->caller_count; i++)
		caller_expect_disorder(w->callers[i]);
	delete_exchange("hcp.events");
	return true;
}

/* The callers' bindings went with the exchange: they make them again, as callers do when they connect. */
static void bind_callers(void)
{
	for (int i = 0; i < w->caller_count; i++)
		caller_bind_again(w->callers[i]);
	app_bind_again();
}

static bool kill_app(char *detail)
{
	(void)detail;
	app_kill();
	return true;
}
static bool freeze_app(char *detail)
{
	(void)detail;
	app_freeze(true);
	return true;
}
static void thaw_app(void)
{
	app_freeze(false);
}

static bool fill_caller(char *detail)
{
	(void)detail;
	caller_hear(w->full, false);
	return true;
}

static void empty_caller(void)
{
	caller_hear(w->full, true);
}

/* --- the network --- */

static bool net_cut(char *detail)
{
	(void)detail;
	proxy_set(PROXY_CUT);
	return true;
}
static bool net_reset(char *detail)
{
	(void)detail;
	proxy_set(PROXY_RESET);
	return true;
}
static bool net_half_open(char *detail)
{
	(void)detail;
	proxy_set(PROXY_HALF_OPEN);
	return true;
}
static bool net_stall(char *detail)
{
	(void)detail;
	proxy_set(PROXY_STALL);
	return true;
}
static bool net_trickle(char *detail)
{
	(void)detail;
	proxy_set(PROXY_TRICKLE);
	return true;
}
static bool net_delay(char *detail)
{
	(void)detail;
	proxy_set(PROXY_DELAY);
	return true;
}
static void net_pass(void)
{
	proxy_set(PROXY_PASS);
}

/* --- disk, descriptors, clock --- */

static bool fill_disk(char *detail)
{
	static char zeros[65536];
	size_t written = 0;

	if (!w->own_disk) {
		struct rlimit small = {100, RLIM_INFINITY};
		prlimit(w->rig->pid, RLIMIT_FSIZE, &small, NULL);
		snprintf(detail, DETAIL, "by RLIMIT_FSIZE");
		return true;
	}
	int fd = open(rig_path(w->rig, "state/balloon"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	for (size_t piece = sizeof zeros; fd >= 0 && piece > 0; piece /= 2)
		while (write(fd, zeros, piece) == (ssize_t)piece)
			written += piece;
	if (fd >= 0)
		close(fd);
	snprintf(detail, DETAIL, "%zu KiB were free", written >> 10);
	return fd >= 0;
}

static void free_disk(void)
{
	struct rlimit any = {RLIM_INFINITY, RLIM_INFINITY};

	if (w->own_disk)
		unlink(rig_path(w->rig, "state/balloon"));
	else
		prlimit(w->rig->pid, RLIMIT_FSIZE, &any, NULL);
}

/* Frozen until commands wait for it: then its first turn has many, and cannot be stored. */
static bool fill_disk_and_wake(char *detail)
{
	double end = harness_now() + 0.7;

	kill(w->rig->pid, SIGSTOP);
	while (harness_now() < end)
		harness_tick();
	bool done = fill_disk(detail);
	kill(w->rig->pid, SIGCONT);
	return done;
}

/* What came in while nothing could be stored dies with the daemon: none of it may have been acknowledged. */
static void free_disk_of_the_dead(void)
{
	char ignored[DETAIL];

	kill_daemon(ignored);
	free_disk();
	faults_revive_daemon();
}

static struct rlimit descriptors;

/* No number below the limit is free any more, or hardly one. */
static bool take_descriptors(char *detail)
{
	prlimit(w->rig->pid, RLIMIT_NOFILE, NULL, &descriptors);
	struct rlimit few = {8, descriptors.rlim_max};
	prlimit(w->rig->pid, RLIMIT_NOFILE, &few, NULL);
	snprintf(detail, DETAIL, "at most %d", (int)few.rlim_cur);
	return true;
}

static void give_descriptors(void)
{
	prlimit(w->rig->pid, RLIMIT_NOFILE, &descriptors, NULL);
}

/* Less than half of max_duration: across a restart wall time counts, and must not end what has time left. */
static bool jump_clock(char *detail)
{
	long seconds = 60 + rand_r(dice) % 1400;

	if (rand_r(dice) % 2)
		seconds = -seconds;
	if (!w->skew) {
		snprintf(detail, DETAIL, "not under AddressSanitizer: nothing can be preloaded");
		return false;
	}
	*w->skew = seconds * INT64_C(1000000000);
	snprintf(detail, DETAIL, "%+ld s", seconds);
	return true;
}

static void set_clock(void)
{
	if (w->skew)
		*w->skew = 0;
}

/* --- the table --- */

const struct fault faults[] = {
	{"daemon-kill", DAEMON, 0.0, 1.5, kill_daemon, faults_revive_daemon, true, 0},
	{"daemon-freeze", DAEMON, 0.5, 5.5, freeze_daemon, thaw_daemon, true, 0},
	{"daemon-stop", DAEMON, 0.0, 1.0, stop_daemon, faults_revive_daemon, true, 0},
	{"daemon-reload", DAEMON, 0.0, 0.5, reload_daemon, nothing, false, 0},
	{"policy-reload", DAEMON, 0.3, 2.0, reload_policy, restore_policy, false, FORBIDS},
	{"policy-kill", PROGRAM, 0.0, 0.5, kill_program, nothing, false, DENIES},
	{"policy-freeze", PROGRAM, 0.5, 4.0, freeze_program, thaw_program, false, 0},
	{"worker-kill", WORKER, 0.0, 0.2, kill_workers, release_victims, false, FAILS},
	{"worker-freeze", WORKER, 0.5, 3.0, freeze_workers, release_victims, false, 0},
	{"worker-crowd", WORKER, 0.5, 2.5, raise_crowds, nothing, false, 0},
	{"broker-kill", BROKER, 0.0, 1.0, kill_broker, revive_broker, false, 0},
	{"broker-freeze", BROKER, 4.5, 6.5, freeze_broker, thaw_broker, false, 0},
	{"memory-alarm", BROKER, 0.5, 2.0, alarm_memory, calm_memory, false, 0},
	{"disk-alarm", BROKER, 0.5, 2.0, alarm_disk, calm_disk, false, 0},
	{"connections-closed", BROKER, 0.0, 0.2, close_connections, nothing, false, 0},
	{"queue-deleted", BROKER, 0.0, 0.2, delete_queue, nothing, false, 0},
	{"commands-deleted", BROKER, 0.0, 0.2, delete_commands, nothing, false, 0},
	{"events-deleted", BROKER, 0.0, 1.0, delete_events, bind_callers, false, 0},
	{"caller-full", CALLER, 1.0, 4.0, fill_caller, empty_caller, false, 0},
	{"app-kill", CALLER, 0.0, 1.0, kill_app, app_revive, false, 0},
	{"app-freeze", CALLER, 0.5, 4.0, freeze_app, thaw_app, false, 0},
	{"net-cut", NETWORK, 0.0, 1.5, net_cut, net_pass, false, 0},
	{"net-reset", NETWORK, 0.0, 1.5, net_reset, net_pass, false, 0},
	{"net-half-open", NETWORK, 0.5, 5.0, net_half_open, net_pass, false, 0},
	{"net-stall", NETWORK, 1.0, 5.0, net_stall, net_pass, false, 0},
	{"net-trickle", NETWORK, 2.0, 5.0, net_trickle, net_pass, false, 0},
	{"net-delay", NETWORK, 1.0, 3.0, net_delay, net_pass, false, 0},
	{"disk-full", DISK, 0.5, 3.0, fill_disk, free_disk, true, FAILS},
	{"disk-full-and-kill", DISK, 0.5, 2.5, fill_disk_and_wake, free_disk_of_the_dead, true, FAILS},
	/* It hampers: without one, nobody can look into /proc and know that a tree is gone. */
	{"descriptors", DESCRIPTORS, 0.5, 2.5, take_descriptors, give_descriptors, true, FAILS | DENIES},
	{"clock-jump", CLOCK, 0.5, 3.0, jump_clock, set_clock, false, 0},
};
const int fault_count = sizeof faults / sizeof faults[0];
_Static_assert(sizeof faults / sizeof faults[0] <= FAULTS_MAX, "room for each kind");
