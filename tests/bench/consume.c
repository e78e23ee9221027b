/* consume.c: libhcp's consumer beside a bare one, on the same messages, with the same prefetch.
 * Owns what is in the caller's queue: events of several sessions, as hcpd would send them.
 * Never stores anything itself: what libhcp writes for its promise is what the ratio shows.
 *
 *   consume bare N             messages a second: librabbitmq, acks for 50 at a time
 *   consume lib N FILE         libhcp with its file, every message committed before its ack
 */
#include <inttypes.h>

#include "amqp_side.h"
#include "hcp/hcp.h"

#define CALLER "bench-consume"
#define QUEUE "hcp.evt." CALLER
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
	size = snprintf(body, room, "{\"hcp_version\":\"1.0\",\"message_id\":\"%s\",\"timestamp\":\"2026-01-31T12:34:56.789Z\","
		"\"session_id\":\"%s\",\"type\":\"event\",\"payload\":{\"event_type\":\"progress\",\"sequence\":%ld,\"data\":"
		"{\"stage\":\"working\",\"percent\":%ld.5,\"message\":\"%0200ld\"}}}", id, session, i / SESSIONS + 1, i % 100, i);
	return (size_t)size;
}

static void fill(long count)
{
	static const amqp_basic_properties_t persistent = {
		._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = AMQP_DELIVERY_PERSISTENT};
	unsigned run;
	char body[1024];
	struct side s;

	if (getrandom(&run, sizeof run, 0) != sizeof run)
		side_die("no random number");
	side_open(&s);
	side_declare_exchange(&s, "hcp.events", "topic");
	amqp_queue_delete(s.conn, 1, side_bytes(QUEUE), 0, 0);
	side_check(&s, "delete");
	side_declare_queue(&s, QUEUE, "hcp.events", CALLER ".#");
	side_enable_confirms(&s);
	for (long i = 0; i < count; i++) {
		if (s.open_count >= FILL_WINDOW)
			side_await_confirms(&s, FILL_WINDOW / 2);
		side_publish(&s, "hcp.events", CALLER ".x.event", &persistent, body, make_body(body, sizeof body, run, i));
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
	double from;

	side_open(&s);
	s.ack_every = PREFETCH / 2;
	amqp_basic_qos(s.conn, 1, 0, PREFETCH, 0);
	side_check(&s, "basic.qos");
	from = side_now();
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
	struct hcp_options o = {.url = getenv("HCP_TEST_BROKER_URL"), .caller_id = CALLER, .file = file,
		.prefetch = PREFETCH, .on_event = on_event};
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

int main(int argc, char **argv)
{
	long n = argc > 2 ? atol(argv[2]) : 0;

	if (n > 0 && argc == 3 && !strcmp(argv[1], "bare")) {
		fill(n);
		return run_bare(n);
	}
	if (n > 0 && argc == 4 && !strcmp(argv[1], "lib")) {
		fill(n);
		return run_lib(n, argv[3]);
	}
	fputs("usage: consume bare N | lib N FILE\n", stderr);
	return 64;
}
