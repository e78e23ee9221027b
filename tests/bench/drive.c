/* SPDX-License-Identifier: MIT */
/* drive.c: a caller that loads a running daemon and times it, with the same bare consumer that gives the
 * limits. Owns the daemon's figures; each is printed as key=value, one a line. Looks at messages only as far
 * as it must: the type property, and two words in the body. Never starts or stops anything (scripts/bench).
 *
 *   drive ready                        returns once the daemon consumes
 *   drive gone                         returns once nobody consumes
 *   drive stream CAPABILITY N          one session of N progress events: messages a second, sequence checked
 *   drive sessions CAPABILITY N WINDOW N sessions, at most WINDOW submitted and not closed: sessions a second
 *   drive latency CAPABILITY N         one at a time: microseconds from submit to task_completed, median; and
 *                                      each
 *   drive hold CAPABILITY N            submits N and returns once each has sent its first progress event
 *   drive grow PID CAPABILITY N        starts N that complete by themselves some seconds later: microseconds
 * of the daemon's processor time for a start, and for an end drive aborts PID CAPABILITY N      starts N and
 * aborts them all at once: microseconds of the daemon's processor time for an abort, and seconds until all
 * are closed drive fairness CAPABILITY N TIMES  while N tasks of another caller wait, or as many as may:
 * microseconds from submit to RUNNING of a single task, the slowest */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "amqp_side.h"

#define CALLEE "bench"
#define CALLER "bench"
#define FLOOD "flood"    /* the other caller */
#define FLOOD_WINDOW 500 /* its submits that have no answer yet */
#define MANY_RUNS 100000 /* of its tasks; more are not timed */
#define READY_S 30
#define SETTLE_US \
	1000000         /* what the daemon still does after the last event of a step belongs to the step \
			 */
#define HOLD_WINDOW 100 /* submits on their way while the held sessions are started */
#define GUARD_S 300     /* whatever happens, end */

enum kind { K_OTHER, K_ACCEPTED, K_REJECTED, K_RUNNING, K_PROGRESS, K_COMPLETED, K_CLOSED };

static struct side in, out;

/* --- submitting --- */

static void make_uuid(char text[37])
{
	unsigned char b[16];

	if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
		side_die("no random bytes");
	snprintf(text, 37, "%02x%02x%02x%02x-%02x%02x-4%x%02x-8%x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
		b[2], b[3], b[4], b[5], b[6] & 15u, b[7], b[8] & 15u, b[9], b[10], b[11], b[12], b[13], b[14],
		b[15]);
}

/* session_id: with its quotes, or null. payload: without its braces. */
static void command(const char *type, const char *session_id, const char *payload)
{
	char body[1024], uuid[37], stamp[32];
	struct timespec ts;
	struct tm tm;
	amqp_basic_properties_t p = {
		._flags = AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_TYPE_FLAG |
			AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_CONTENT_ENCODING_FLAG |
			AMQP_BASIC_DELIVERY_MODE_FLAG,
		.content_type = side_bytes("application/json"),
		.content_encoding = side_bytes("utf-8"),
		.delivery_mode = AMQP_DELIVERY_PERSISTENT,
		.type = side_bytes(type),
	};
	int size;

	make_uuid(uuid);
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
	size = snprintf(body, sizeof body,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"%s\",\"timestamp\":\"%s.%03ldZ\",\"session_id\":%"
		"s,"
		"\"type\":\"%s\",\"payload\":{%s}}",
		uuid, stamp, ts.tv_nsec / 1000000, session_id, type, payload);
	p.message_id = side_bytes(uuid);
	p.timestamp = (uint64_t)ts.tv_sec;
	side_publish(&out, "hcp.commands", CALLEE, &p, body, (size_t)size);
}

static void submit_as(const char *caller, const char *capability)
{
	char payload[512];

	snprintf(payload, sizeof payload,
		"\"capability\":\"%s\",\"capability_version\":\"1.x\",\"caller_id\":\"%s\",\"intent\":"
		"\"measure the daemon\",\"inputs\":{\"text\":\"nothing to do\"}",
		capability, caller);
	command("task_submit", "null", payload);
}

static void abort_session(const char *id)
{
	char quoted[64];

	snprintf(quoted, sizeof quoted, "\"%s\"", id);
	command("abort", quoted, "\"reason\":\"measured\"");
}

static void submit(const char *capability)
{
	submit_as(CALLER, capability);
}

/* --- what comes back --- */

static bool holds(amqp_bytes_t text, const char *word)
{
	return memmem(text.bytes, text.len, word, strlen(word)) != NULL;
}

static bool is_type(const amqp_envelope_t *e, const char *type)
{
	amqp_bytes_t t = e->message.properties.type;

	return (e->message.properties._flags & AMQP_BASIC_TYPE_FLAG) && t.len == strlen(type) &&
		!memcmp(t.bytes, type, t.len);
}

static bool is_of(const amqp_envelope_t *e, const char *caller)
{
	size_t size = strlen(caller);

	return e->routing_key.len > size && !memcmp(e->routing_key.bytes, caller, size) &&
		((const char *)e->routing_key.bytes)[size] == '.';
}

static enum kind kind_of(const amqp_envelope_t *e)
{
	amqp_bytes_t body = e->message.body;

	if (is_type(e, "event")) {
		if (holds(body, "\"session_closed\""))
			return K_CLOSED;
		if (holds(body, "\"to_state\":\"RUNNING\""))
			return K_RUNNING;
		return holds(body, "\"progress\"") ? K_PROGRESS : K_OTHER;
	}
	if (is_type(e, "task_completed"))
		return K_COMPLETED;
	if (is_type(e, "task_accepted"))
		return K_ACCEPTED;
	if (is_type(e, "task_rejected") && is_of(e, FLOOD) && holds(body, "\"resource_unavailable\""))
		return K_REJECTED;
	if (is_type(e, "task_rejected") || is_type(e, "task_failed"))
		side_die("not what was asked for: %.*s", (int)body.len, (char *)body.bytes);
	return K_OTHER;
}

/* 0 where it has none (task_accepted, task_completed). */
static long sequence_of(const amqp_envelope_t *e)
{
	static const char key[] = "\"sequence\":";
	amqp_bytes_t body = e->message.body;
	const char *at = memmem(body.bytes, body.len, key, sizeof key - 1);

	return at ? strtol(at + sizeof key - 1, NULL, 10) : 0; /* '}' or ',' ends it, inside the body */
}

static enum kind next_kind(long *sequence)
{
	amqp_envelope_t e;
	enum kind k;

	side_next(&in, &e);
	k = kind_of(&e);
	if (sequence)
		*sequence = sequence_of(&e);
	amqp_destroy_envelope(&e);
	return k;
}

/* --- the figures --- */

static void open_both(uint64_t ack_every)
{
	side_open(&in);
	side_declare_exchange(&in, "hcp.commands", "direct");
	side_declare_exchange(&in, "hcp.events", "topic");
	side_declare_queue(&in, "hcp.evt." CALLER, "hcp.events", CALLER ".#");
	side_consume(&in, "hcp.evt." CALLER, ack_every);
	side_open(&out);
}

/* Until the daemon consumes, or until the broker knows that it does not any more. */
static int run_ready(bool wanted)
{
	double until = side_now() + READY_S;

	for (;;) {
		const amqp_queue_declare_ok_t *ok;
		bool consumed;

		side_open(&out);
		ok = amqp_queue_declare(
			out.conn, 1, side_bytes("hcp.cmd." CALLEE), 1, 0, 0, 0, amqp_empty_table);
		consumed = ok && ok->consumer_count > 0;
		amqp_destroy_connection(out.conn);
		if (consumed == wanted)
			return 0;
		if (side_now() > until)
			side_die("the daemon %s hcp.cmd." CALLEE " after %d s",
				wanted ? "does not consume" : "still consumes", READY_S);
		usleep(20000);
	}
}

static int run_stream(const char *capability, long events)
{
	long messages = 0, progress = 0, last = 0, sequence;
	double from, took;
	enum kind k;

	open_both(SIDE_ACKS);
	from = side_now();
	submit(capability);
	do {
		k = next_kind(&sequence);
		messages++;
		progress += k == K_PROGRESS;
		if (sequence && sequence != ++last)
			side_die("sequence %ld came where %ld was due", sequence, last);
	} while (k != K_CLOSED);
	took = side_now() - from;
	if (progress != events)
		side_die("%ld progress events came, %ld were sent", progress, events);
	printf("rate=%.1f\nmessages=%ld\n", (double)messages / took, messages);
	return 0;
}

static int run_sessions(const char *capability, long count, long window)
{
	long submitted = 0, closed = 0, completed = 0, messages = 0;
	double from, took;

	open_both(SIDE_ACKS);
	from = side_now();
	while (submitted < window && submitted < count) {
		submit(capability);
		submitted++;
	}
	while (closed < count) {
		enum kind k = next_kind(NULL);

		messages++;
		completed += k == K_COMPLETED;
		if (k != K_CLOSED)
			continue;
		closed++;
		if (submitted < count) {
			submit(capability);
			submitted++;
		}
	}
	took = side_now() - from;
	if (completed != count)
		side_die("%ld of %ld sessions completed", completed, count);
	/* The submit is a message too: the broker carries it like the others. */
	printf("rate=%.1f\nmessages_per_session=%.2f\n", (double)count / took,
		(double)messages / (double)count + 1);
	return 0;
}

static int run_latency(const char *capability, long count)
{
	long warm = count / 5;
	double *took = calloc((size_t)count, sizeof *took);

	if (!took)
		side_die("out of memory");
	open_both(SIDE_ACKS);
	for (long i = -warm; i < count; i++) {
		double from = side_now();
		enum kind k;

		submit(capability);
		while ((k = next_kind(NULL)) != K_CLOSED)
			if (k == K_COMPLETED && i >= 0)
				took[i] = side_now() - from;
		side_ack(&in); /* a session's messages together, as libhcp does it */
	}
	printf("median_us=%.1f\n", side_median(took, (size_t)count) * 1e6);
	for (long i = 0; i < count; i++)
		printf("us=%.1f\n", took[i] * 1e6);
	free(took);
	return 0;
}

static int run_hold(const char *capability, long count)
{
	long submitted = 0, alive = 0;
	double from;

	open_both(SIDE_ACKS);
	from = side_now();
	while (alive < count) {
		for (; submitted < count && submitted - alive < HOLD_WINDOW; submitted++)
			submit(capability);
		alive += next_kind(NULL) == K_PROGRESS;
	}
	printf("sessions=%ld\nrate=%.1f\n", alive, (double)alive / (side_now() - from));
	return 0;
}

/* --- what a session costs the daemon --- */

/* Processor time of another process, in microseconds. */
static double cpu_us(const char *pid)
{
	struct timespec ts;
	clockid_t clock;

	if (clock_getcpuclockid((pid_t)atol(pid), &clock) != 0 || clock_gettime(clock, &ts) < 0)
		side_die("process %s has no clock", pid);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* The second word of the routing key. */
static void read_session_id(const amqp_envelope_t *e, char id[37])
{
	const char *text = e->routing_key.bytes, *dot = memchr(text, '.', e->routing_key.len);

	if (!dot || e->routing_key.len - (size_t)(dot + 1 - text) < 36)
		side_die("no session in %.*s", (int)e->routing_key.len, text);
	memcpy(id, dot + 1, 36);
	id[36] = 0;
}

/* Each has sent an event. ids: of the sessions; room for count. */
static void start_all(const char *capability, long count, char (*ids)[37])
{
	long submitted = 0, alive = 0;
	amqp_envelope_t e;

	while (alive < count) {
		for (; submitted < count && submitted - alive < HOLD_WINDOW; submitted++)
			submit(capability);
		side_next(&in, &e);
		if (kind_of(&e) == K_PROGRESS)
			read_session_id(&e, ids[alive++]);
		amqp_destroy_envelope(&e);
	}
}

static void wait_for_closed(long count)
{
	while (count > 0)
		count -= next_kind(NULL) == K_CLOSED;
	usleep(SETTLE_US);
}

static int run_grow(const char *pid, const char *capability, long count)
{
	char(*ids)[37] = calloc((size_t)count, sizeof *ids);
	double at;

	if (!ids)
		side_die("out of memory");
	open_both(SIDE_ACKS);
	at = cpu_us(pid);
	start_all(capability, count, ids);
	usleep(SETTLE_US);
	printf("start_us=%.1f\n", (cpu_us(pid) - at) / (double)count);
	at = cpu_us(pid);
	wait_for_closed(count);
	printf("end_us=%.1f\n", (cpu_us(pid) - at) / (double)count);
	free(ids);
	return 0;
}

static int run_aborts(const char *pid, const char *capability, long count)
{
	char(*ids)[37] = calloc((size_t)count, sizeof *ids);
	double at, from;

	if (!ids)
		side_die("out of memory");
	open_both(SIDE_ACKS);
	start_all(capability, count, ids);
	usleep(SETTLE_US);
	at = cpu_us(pid);
	from = side_now();
	for (long i = 0; i < count; i++)
		abort_session(ids[i]);
	wait_for_closed(count);
	printf("seconds=%.2f\nabort_us=%.1f\n", side_now() - from - SETTLE_US / 1e6,
		(cpu_us(pid) - at) / (double)count);
	free(ids);
	return 0;
}

/* --- one caller's flood, and another's single task --- */

static struct {
	const char *capability;
	long sent, accepted, rejected, started;
	struct {
		char key[200]; /* of its messages */
		double from;
	} running[1024];
	double *runs; /* seconds from RUNNING to task_completed */
	size_t run_count;
} flood;

static void flood_submit(void)
{
	submit_as(FLOOD, flood.capability);
	flood.sent++;
}

/* Begins with the caller and the session; what follows is the kind of the message. */
static void session_key(const amqp_envelope_t *e, char key[200])
{
	const char *text = e->routing_key.bytes;
	size_t size = 0;

	for (int dots = 0; size < e->routing_key.len && size < 199; size++)
		if (text[size] == '.' && ++dots == 2)
			break;
	memcpy(key, text, size);
	key[size] = 0;
}

static void flood_time(const amqp_envelope_t *e, bool is_start)
{
	char key[200];

	session_key(e, key);
	for (size_t i = 0; i < sizeof flood.running / sizeof flood.running[0]; i++) {
		if (strcmp(flood.running[i].key, is_start ? "" : key))
			continue;
		if (is_start)
			flood.running[i].from = side_now();
		else if (flood.run_count < MANY_RUNS)
			flood.runs[flood.run_count++] = side_now() - flood.running[i].from;
		strcpy(flood.running[i].key, is_start ? key : "");
		return;
	}
}

/* Two tasks more for each that starts: as many wait as before, or as many as may, and there are more. */
static void flood_take(const amqp_envelope_t *e, enum kind k)
{
	flood.accepted += k == K_ACCEPTED;
	flood.rejected += k == K_REJECTED;
	if (k == K_RUNNING || k == K_COMPLETED)
		flood_time(e, k == K_RUNNING);
	if (k != K_RUNNING)
		return;
	flood.started++;
	flood_submit();
	flood_submit();
}

/* The kind of the next message, which came within `seconds`, if it is none of the flood's. */
static enum kind next_of_mine(double seconds)
{
	amqp_envelope_t e;
	enum kind k;

	if (!side_next_within(&in, &e, seconds))
		return K_OTHER;
	k = kind_of(&e);
	if (is_of(&e, FLOOD)) {
		flood_take(&e, k);
		k = K_OTHER;
	}
	amqp_destroy_envelope(&e);
	return k;
}

static void fill_backlog(long count)
{
	while (flood.accepted - flood.started < count && !flood.rejected) {
		while (flood.sent - flood.accepted - flood.rejected < FLOOD_WINDOW)
			flood_submit();
		next_of_mine(SIDE_SILENCE_S);
	}
}

static int run_fairness(const char *capability, long count, long times)
{
	double *took = calloc((size_t)times, sizeof *took);
	long waiting;

	flood.capability = capability;
	flood.runs = calloc(MANY_RUNS, sizeof *flood.runs);
	if (!took || !flood.runs)
		side_die("out of memory");
	open_both(SIDE_ACKS);
	side_declare_queue(&in, "hcp.evt." FLOOD, "hcp.events", FLOOD ".#");
	side_consume(&in, "hcp.evt." FLOOD, SIDE_ACKS);
	fill_backlog(count);
	waiting = flood.accepted - flood.started;
	for (long i = 0; i < times; i++) {
		/* not in step with the flood's own starts */
		double from, until = side_now() + 0.2 * (double)(i * 618 % 1000) / 1000;
		enum kind k;

		while ((from = side_now()) < until)
			next_of_mine(until - from);
		submit(capability);
		while ((k = next_of_mine(SIDE_SILENCE_S)) != K_CLOSED)
			if (k == K_RUNNING)
				took[i] = side_now() - from;
		if (flood.accepted - flood.started < waiting)
			waiting = flood.accepted - flood.started;
	}
	printf("median_us=%.1f\n", side_median(took, (size_t)times) * 1e6);
	printf("slowest_us=%.1f\n", took[times - 1] * 1e6);
	printf("flood_us=%.1f\n", side_median(flood.runs, flood.run_count) * 1e6);
	printf("waiting=%ld\nrejected=%ld\n", waiting, flood.rejected);
	free(took);
	free(flood.runs);
	return 0;
}

static int run(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	long n = argc > 3 ? atol(argv[3]) : 0;

	if (!strcmp(what, "ready"))
		return run_ready(true);
	if (!strcmp(what, "gone"))
		return run_ready(false);
	if (!strcmp(what, "stream") && n > 0)
		return run_stream(argv[2], n);
	if (!strcmp(what, "sessions") && n > 0 && argc > 4 && atol(argv[4]) > 0)
		return run_sessions(argv[2], n, atol(argv[4]));
	if (!strcmp(what, "latency") && n > 0)
		return run_latency(argv[2], n);
	if (!strcmp(what, "hold") && n > 0)
		return run_hold(argv[2], n);
	if (!strcmp(what, "grow") && argc > 4 && atol(argv[4]) > 0)
		return run_grow(argv[2], argv[3], atol(argv[4]));
	if (!strcmp(what, "aborts") && argc > 4 && atol(argv[4]) > 0)
		return run_aborts(argv[2], argv[3], atol(argv[4]));
	if (!strcmp(what, "fairness") && n > 0 && argc > 4 && atol(argv[4]) > 0)
		return run_fairness(argv[2], n, atol(argv[4]));
	fputs("usage: drive ready | gone | stream CAPABILITY N | sessions CAPABILITY N WINDOW | latency "
	      "CAPABILITY "
	      "N | hold CAPABILITY N | grow PID CAPABILITY N | aborts PID CAPABILITY N | fairness CAPABILITY "
	      "N "
	      "TIMES\n",
		stderr);
	return 64;
}

int main(int argc, char **argv)
{
	int rc;

	alarm(GUARD_S);
	rc = run(argc, argv);
	if (rc == 0 && strcmp(argv[1], "ready") && strcmp(argv[1], "gone")) {
		side_close(&in);
		side_close(&out);
	}
	return rc;
}
