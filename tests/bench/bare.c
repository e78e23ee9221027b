/* SPDX-License-Identifier: MIT */
/* bare.c: the limits: what broker, kernel and disk do when nobody asks for more.
 * Owns the figures that the daemon's are divided by; each is printed as key=value, one a line.
 * Never talks to the daemon (drive.c).
 *
 *   bare limit N                     L: messages a second, published with confirms and drained at once
 *   bare roundtrip N [unconfirmed]   microseconds from publish to delivery, one persistent message in
 *                                    flight, median of N; confirms are on, as the daemon's are, unless
 *                                    `unconfirmed` is given
 *   bare spawn N WIDTH FILE COMMAND...   processes a second: fed with FILE, read to the end, waited for
 *   bare disk DIR                    fsyncs and SQLite commits a second, for context */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <sys/wait.h>

#include <sqlite3.h>

#include "amqp_side.h"

#define LIMIT_WINDOW 1000 /* unconfirmed messages, as the issue defines L */
#define LIMIT_BODY 500
#define MAX_WIDTH 64

static const char EXCHANGE[] = "bench.bare", QUEUE[] = "bench.bare";

static const amqp_basic_properties_t persistent = {
	._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = AMQP_DELIVERY_PERSISTENT};

/* --- L --- */

static void *limit_publish(void *arg)
{
	long count = *(const long *)arg;
	char body[LIMIT_BODY];
	struct side s;

	memset(body, 'x', sizeof body);
	side_open(&s);
	side_enable_confirms(&s);
	for (long i = 0; i < count; i++) {
		/* A quarter of the window at a time: never idle for want of a confirm, and few reads. */
		if (s.open_count >= LIMIT_WINDOW)
			side_await_confirms(&s, LIMIT_WINDOW - LIMIT_WINDOW / 4);
		side_publish(&s, EXCHANGE, "bare.limit.event", &persistent, body, sizeof body);
	}
	side_await_confirms(&s, 0);
	side_close(&s);
	return NULL;
}

static void open_drain(struct side *s, uint64_t ack_every)
{
	side_open(s);
	side_declare_exchange(s, EXCHANGE, "topic");
	side_declare_queue(s, QUEUE, EXCHANGE, "bare.#");
	side_consume(s, QUEUE, ack_every);
}

static int run_limit(long count)
{
	pthread_t publisher;
	struct side s;
	double from;

	open_drain(&s, SIDE_ACKS);
	from = side_now();
	if (pthread_create(&publisher, NULL, limit_publish, &count))
		side_die("no thread");
	for (long i = 0; i < count; i++) {
		amqp_envelope_t e;

		side_next(&s, &e);
		amqp_destroy_envelope(&e);
	}
	pthread_join(publisher, NULL);
	printf("rate=%.1f\n", (double)count / (side_now() - from));
	side_close(&s);
	return 0;
}

/* --- round trip --- */

static int run_roundtrip(long count, bool confirms)
{
	long warm = count / 10;
	double *took = calloc((size_t)count, sizeof *took);
	char body[LIMIT_BODY];
	struct side in, out;

	if (!took)
		side_die("out of memory");
	memset(body, 'x', sizeof body);
	open_drain(&in, 1);
	side_open(&out);
	if (confirms)
		side_enable_confirms(&out);
	for (long i = -warm; i < count; i++) {
		amqp_envelope_t e;
		double from = side_now();

		side_publish(&out, EXCHANGE, "bare.trip.event", &persistent, body, sizeof body);
		side_next(&in, &e);
		amqp_destroy_envelope(&e);
		if (i >= 0)
			took[i] = side_now() - from;
		/* Confirms are read where they lie, not waited for: the next message is sent as soon as this
		 * one is here, and the broker's writing for the one overlaps the other, as it does for a
		 * daemon. */
		if (confirms)
			side_await_confirms(&out, 1);
	}
	printf("median_us=%.1f\n", side_median(took, (size_t)count) * 1e6);
	free(took);
	side_close(&out);
	side_close(&in);
	return 0;
}

/* --- spawn, feed, read, wait --- */

struct child {
	pid_t pid;
	int out;
};

static void make_pipe(int fd[2])
{
	if (pipe2(fd, O_CLOEXEC) < 0)
		side_die("pipe: %s", strerror(errno));
}

/* What posix_spawn does, which our own spawn.h hides from this directory: the child borrows our memory until
 * it is another program, so it calls nothing that would change it. */
static pid_t spawn_piped(char **argv, int in, int out)
{
	pid_t pid = vfork();

	if (pid == 0) {
		if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
			execv(argv[0], argv);
		_exit(127);
	}
	return pid;
}

static void child_start(struct child *c, char **argv, const char *line, size_t size)
{
	int in[2], out[2];

	make_pipe(in);
	make_pipe(out);
	c->pid = spawn_piped(argv, in[0], out[1]);
	if (c->pid < 0)
		side_die("%s: %s", argv[0], strerror(errno));
	close(in[0]);
	close(out[1]);
	/* A start line is far below a pipe's capacity, so this never blocks. */
	if (write(in[1], line, size) != (ssize_t)size)
		side_die("cannot feed %s", argv[0]);
	close(in[1]);
	c->out = out[0];
}

/* True once its output ended and it was waited for. */
static bool child_is_done(struct child *c, size_t *bytes)
{
	char buf[4096];
	ssize_t n = read(c->out, buf, sizeof buf);
	int status;

	if (n > 0) {
		*bytes += (size_t)n;
		return false;
	}
	close(c->out);
	if (waitpid(c->pid, &status, 0) != c->pid || status)
		side_die("the agent failed: wait status %d", status);
	return true;
}

static int run_spawn(long count, long width, const char *file, char **argv)
{
	struct child kids[MAX_WIDTH];
	struct pollfd polls[MAX_WIDTH];
	long started = 0, live = 0;
	size_t bytes = 0, size;
	char line[65536];
	double from;
	FILE *f = fopen(file, "r");

	if (!f)
		side_die("%s: %s", file, strerror(errno));
	size = fread(line, 1, sizeof line, f);
	fclose(f);
	if (!size || line[size - 1] != '\n' || width < 1 || width > MAX_WIDTH)
		side_die("%s: not a line, or WIDTH not in 1 to %d", file, MAX_WIDTH);
	signal(SIGPIPE, SIG_IGN);
	from = side_now();
	while (started < count || live) {
		for (; live < width && started < count; live++, started++) {
			child_start(&kids[live], argv, line, size);
			polls[live] = (struct pollfd){.fd = kids[live].out, .events = POLLIN};
		}
		if (poll(polls, (nfds_t)live, SIDE_SILENCE_S * 1000) <= 0)
			side_die("the agent is silent");
		for (long i = live - 1; i >= 0; i--) {
			if (!polls[i].revents || !child_is_done(&kids[i], &bytes))
				continue;
			kids[i] = kids[--live];
			polls[i] = polls[live];
		}
	}
	if (!bytes)
		side_die("the agent said nothing");
	printf("rate=%.1f\n", (double)count / (side_now() - from));
	return 0;
}

/* --- disk --- */

static void sql(sqlite3 *db, const char *text)
{
	char *why = NULL;

	if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
		side_die("%s: %s", text, why);
}

/* Commits a second with so many rows of 500 bytes in each. */
static double commit_rate(sqlite3 *db, sqlite3_stmt *insert, int rows, int commits)
{
	char body[LIMIT_BODY];
	double from = side_now();

	memset(body, 'x', sizeof body);
	for (int i = 0; i < commits; i++) {
		sql(db, "BEGIN IMMEDIATE");
		for (int j = 0; j < rows; j++) {
			sqlite3_bind_text(insert, 1, body, (int)sizeof body, SQLITE_STATIC);
			if (sqlite3_step(insert) != SQLITE_DONE)
				side_die("insert: %s", sqlite3_errmsg(db));
			sqlite3_reset(insert);
		}
		sql(db, "COMMIT");
	}
	return commits / (side_now() - from);
}

static double fsync_rate(const char *dir, int count)
{
	char path[4096], block[4096];
	double from, rate;
	int fd;

	memset(block, 'x', sizeof block);
	snprintf(path, sizeof path, "%s/bare.bin", dir);
	fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		side_die("%s: %s", path, strerror(errno));
	from = side_now();
	for (int i = 0; i < count; i++)
		if (write(fd, block, sizeof block) != (ssize_t)sizeof block || fdatasync(fd) < 0)
			side_die("%s: %s", path, strerror(errno));
	rate = count / (side_now() - from);
	close(fd);
	unlink(path);
	return rate;
}

static int run_disk(const char *dir)
{
	char path[4096];
	sqlite3 *db;
	sqlite3_stmt *insert;

	printf("fdatasync_rate=%.0f\n", fsync_rate(dir, 2000));
	snprintf(path, sizeof path, "%s/bare.db", dir);
	if (sqlite3_open(path, &db) != SQLITE_OK)
		side_die("%s: %s", path, sqlite3_errmsg(db));
	sql(db,
		"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t(id INTEGER PRIMARY KEY, "
		"body TEXT)");
	if (sqlite3_prepare_v2(db, "INSERT INTO t(body) VALUES(?)", -1, &insert, NULL) != SQLITE_OK)
		side_die("prepare: %s", sqlite3_errmsg(db));
	commit_rate(db, insert, 1, 200);
	printf("commit_1_rate=%.0f\n", commit_rate(db, insert, 1, 3000));
	printf("commit_50_rate=%.0f\n", commit_rate(db, insert, 50, 1500));
	sqlite3_finalize(insert);
	sqlite3_close(db);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	long n = argc > 2 ? atol(argv[2]) : 0;

	if (!strcmp(what, "limit") && n > 0)
		return run_limit(n);
	if (!strcmp(what, "roundtrip") && n > 0)
		return run_roundtrip(n, argc < 4);
	if (!strcmp(what, "spawn") && n > 0 && argc > 5)
		return run_spawn(n, atol(argv[3]), argv[4], argv + 5);
	if (!strcmp(what, "disk"))
		return run_disk(argv[2]);
	fputs("usage: bare limit N | roundtrip N [unconfirmed] | spawn N WIDTH FILE COMMAND... | disk DIR\n",
		stderr);
	return 64;
}
