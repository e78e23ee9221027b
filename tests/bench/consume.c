/* SPDX-License-Identifier: MIT */
/* consume.c: libhcp's consumer and `hcpctl watch` beside a bare one: the same messages, the same prefetch
 * (100), acks in groups (bare and watch for 50, libhcp for what one commit holds), the time from before the
 * connection until the last message. Owns what is in the caller's queue: events of several sessions, as hcpd
 * would send them. Never stores anything itself: what libhcp writes for its promise is what the ratio shows.
 *
 *   consume bare N               messages a second: librabbitmq, nothing done with them
 *   consume lib N FILE           libhcp with its file, every message committed before its ack
 *   consume watch N HCPCTL HOME  hcpctl watch --all --json into a pipe whose lines are counted;
 *                                HOME is a directory */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "amqp_side.h"
#include "hcp/hcp.h"

#define CALLER "bench-consume"
#define QUEUE "hcp.evt." CALLER
#define INSTANCE "00000000-0000-4000-8000-000000000001" /* of hcpctl, in its HOME */
#define PREFETCH 100
#define SESSIONS 10
#define FILL_WINDOW 1000

/* --- filling the queue --- */

static void make_id(char out[HCP_ID_SIZE], unsigned run, unsigned session, long number)
{
	snprintf(out, HCP_ID_SIZE, "%08x-%04x-4000-8000-%012lx", run, session & 0xffff,
		(unsigned long)number & 0xffffffffffff);
}

static size_t make_body(char *body, size_t room, unsigned run, long i)
{
	char session[HCP_ID_SIZE], id[HCP_ID_SIZE];
	int size;

	make_id(session, run, (unsigned)(i % SESSIONS), 0);
	make_id(id, run, 0xffff, i);
	size = snprintf(body, room,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"%s\",\"timestamp\":\"2026-01-31T12:34:56.789Z\","
		"\"session_id\":\"%s\",\"type\":\"event\",\"payload\":{\"event_type\":\"progress\","
		"\"sequence\":%ld,\"data\":"
		"{\"stage\":\"working\",\"percent\":%ld.5,\"message\":\"%0200ld\"}}}",
		id, session, i / SESSIONS + 1, i % 100, i);
	return (size_t)size;
}

/* expires: what hcpctl's queues are made with. */
static void fill(const char *queue, bool expires, long count)
{
	amqp_table_entry_t entry = {.key = side_bytes("x-expires"),
		.value = {.kind = AMQP_FIELD_KIND_I64, .value = {.i64 = 86400000}}};
	amqp_table_t arguments = {.num_entries = expires, .entries = &entry};
	static const amqp_basic_properties_t persistent = {
		._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = AMQP_DELIVERY_PERSISTENT};
	unsigned run;
	char body[1024];
	struct side s;

	if (getrandom(&run, sizeof run, 0) != sizeof run)
		side_die("no random number");
	side_open(&s);
	side_declare_exchange(&s, "hcp.events", "topic");
	/* Both, so that no message is kept twice. */
	amqp_queue_delete(s.conn, 1, side_bytes(QUEUE), 0, 0);
	side_check(&s, "delete");
	amqp_queue_delete(s.conn, 1, side_bytes(QUEUE "." INSTANCE), 0, 0);
	side_check(&s, "delete");
	amqp_queue_declare(s.conn, 1, side_bytes(queue), 0, 1, 0, 0, arguments);
	side_check(&s, queue);
	amqp_queue_bind(s.conn, 1, side_bytes(queue), side_bytes("hcp.events"), side_bytes(CALLER ".#"),
		amqp_empty_table);
	side_check(&s, queue);
	side_enable_confirms(&s);
	for (long i = 0; i < count; i++) {
		if (s.open_count >= FILL_WINDOW)
			side_await_confirms(&s, FILL_WINDOW / 2);
		side_publish(&s, "hcp.events", CALLER ".x.event", &persistent, body,
			make_body(body, sizeof body, run, i));
	}
	side_await_confirms(&s, 0);
	side_close(&s);
}

/* --- emptying it --- */

static void print_rate(long count, double from)
{
	printf("rate=%.1f\n", (double)count / (side_now() - from));
}

static int run_bare(long count)
{
	struct side s;
	double from = side_now();

	side_open(&s);
	s.ack_every = PREFETCH / 2;
	amqp_basic_qos(s.conn, 1, 0, PREFETCH, 0);
	side_check(&s, "basic.qos");
	amqp_basic_consume(s.conn, 1, side_bytes(QUEUE), amqp_empty_bytes, 0, 0, 1, amqp_empty_table);
	side_check(&s, "basic.consume");
	for (long i = 0; i < count; i++) {
		amqp_envelope_t e;

		side_next(&s, &e);
		amqp_destroy_envelope(&e);
	}
	print_rate(count, from);
	side_close(&s);
	return 0;
}

static long taken, wanted;

static int on_event(struct hcp *h, const struct hcp_event *e, struct sqlite3 *db, void *ctx)
{
	(void)e, (void)db, (void)ctx;
	if (++taken == wanted)
		hcp_stop(h);
	return 0;
}

static int run_lib(long count, const char *file)
{
	struct hcp_options o = {.url = getenv("HCP_TEST_BROKER_URL"),
		.caller_id = CALLER,
		.file = file,
		.prefetch = PREFETCH,
		.on_event = on_event};
	struct hcp *h;
	double from = side_now();

	wanted = count;
	if (hcp_open(&h, &o) < 0)
		side_die("%s", hcp_error(h));
	if (hcp_run(h, SIDE_SILENCE_S * 1000) != HCP_OK)
		side_die("only %ld of %ld came: %s", taken, wanted, hcp_error(h));
	print_rate(count, from);
	hcp_close(h);
	return 0;
}

/* A home in which hcpctl finds the name of the queue that was filled. */
static void make_home(const char *home)
{
	char path[600];
	FILE *f;

	snprintf(path, sizeof path, "%s/hcp", home);
	mkdir(home, 0700);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/hcp/instance", home);
	f = fopen(path, "w");
	if (!f || fputs(INSTANCE, f) < 0 || fclose(f) != 0)
		side_die("%s cannot be written", path);
	setenv("XDG_CONFIG_HOME", home, 1);
	setenv("HCP_CALLER", CALLER, 1);
	setenv("HCP_URL", getenv("HCP_TEST_BROKER_URL"), 1);
}

static void count_lines(int fd, long count)
{
	static char bytes[1 << 16];
	ssize_t got;

	while (count > 0 && (got = read(fd, bytes, sizeof bytes)) > 0)
		for (const char *p = bytes, *end = bytes + got; (p = memchr(p, '\n', (size_t)(end - p))); p++)
			count--;
	if (count > 0)
		side_die("%ld messages did not come", count);
}

static int run_watch(long count, const char *hcpctl, const char *home)
{
	int fds[2];
	pid_t pid;
	double from;

	make_home(home);
	from = side_now();
	if (pipe(fds) < 0 || (pid = fork()) < 0)
		side_die("no process");
	if (pid == 0) {
		dup2(fds[1], 1);
		close(fds[0]);
		execl(hcpctl, "hcpctl", "watch", "--all", "--json", (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	count_lines(fds[0], count);
	print_rate(count, from);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	return 0;
}

int main(int argc, char **argv)
{
	long n = argc > 2 ? atol(argv[2]) : 0;

	if (n > 0 && argc == 3 && !strcmp(argv[1], "bare")) {
		fill(QUEUE, false, n);
		return run_bare(n);
	}
	if (n > 0 && argc == 4 && !strcmp(argv[1], "lib")) {
		fill(QUEUE, false, n);
		return run_lib(n, argv[3]);
	}
	if (n > 0 && argc == 5 && !strcmp(argv[1], "watch")) {
		fill(QUEUE "." INSTANCE, true, n);
		return run_watch(n, argv[3], argv[4]);
	}
	fputs("usage: consume bare N | lib N FILE | watch N HCPCTL HOME\n", stderr);
	return 64;
}
