/* SPDX-License-Identifier: MIT */
/* collect.c: a caller inside a libev loop. Results go into a table of its own, in the library's transaction:
 * each result is there exactly once, however often this program, the daemon or the broker is killed.
 *
 *   cc collect.c $(pkg-config --cflags --libs hcp) -lsqlite3 -lev
 *   ./a.out amqp://guest:guest@127.0.0.1/%2F collector demo collect.db 10
 *
 * Submits ten tasks and prints a line for each result, until all have ended. With poll(2) it is the same:
 * wait for hcp_fd or hcp_timeout, then call hcp_process. */
#include <ev.h>
#include <hcp/hcp.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct collector {
	struct hcp *h;
	ev_io readable;
	ev_timer due;
	long open; /* tasks that have not ended */
};

/* Runs inside the library's transaction: the row and the record that the event was handled are committed
 * together. */
static int store(
	struct sqlite3 *db, const struct hcp_event *e, const char *what, const char *text, size_t size)
{
	sqlite3_stmt *st;
	int rc = sqlite3_prepare_v2(
		db, "INSERT INTO results (session_id, what, text) VALUES (?,?,?)", -1, &st, NULL);

	if (rc == SQLITE_OK) {
		sqlite3_bind_text(st, 1, e->session_id, -1, SQLITE_STATIC);
		sqlite3_bind_text(st, 2, what, -1, SQLITE_STATIC);
		sqlite3_bind_text(st, 3, text, (int)size, SQLITE_STATIC);
		rc = sqlite3_step(st);
		sqlite3_finalize(st);
	}
	return rc == SQLITE_DONE ? 0 :
				   -1; /* not 0: the library rolls the row back, and the event comes again */
}

static int on_event(struct hcp *h, const struct hcp_event *e, struct sqlite3 *db, void *ctx)
{
	struct collector *c = ctx;
	const char *text;
	size_t size = 0;

	(void)h;
	switch (e->kind) {
	case HCP_COMPLETED:
		text = hcp_get_json(e, "outputs", &size);
		return store(db, e, "completed", text, size);
	case HCP_FAILED:
		text = hcp_get_text(e, "error_message");
		return store(db, e, "failed", text ? text : "", text ? strlen(text) : 0);
	case HCP_REJECTED:
		c->open--;
		text = hcp_get_text(e, "reason_message");
		return store(db, e, "rejected", text ? text : "", text ? strlen(text) : 0);
	case HCP_UNDELIVERED: c->open--; return store(db, e, "undelivered", e->text, strlen(e->text));
	default:
		if (strcmp(e->event_type, "session_closed") == 0)
			c->open--;
		return 0;
	}
}

/* After every turn: hcp_timeout says when the library must be called though no event comes. */
static void arm(struct ev_loop *loop, struct collector *c)
{
	int ms = hcp_timeout(c->h);

	ev_timer_stop(loop, &c->due);
	if (ms >= 0) {
		ev_timer_set(&c->due, ms / 1000.0, 0);
		ev_timer_start(loop, &c->due);
	}
}

static void turn(struct ev_loop *loop, struct collector *c)
{
	if (hcp_process(c->h) < 0)
		fprintf(stderr, "%s\n", hcp_error(c->h)); /* the library tries again by itself */
	if (c->open <= 0)
		ev_break(loop, EVBREAK_ALL);
	arm(loop, c);
}

static void on_readable(struct ev_loop *loop, ev_io *w, int events)
{
	(void)events;
	turn(loop, w->data);
}

static void on_due(struct ev_loop *loop, ev_timer *w, int events)
{
	(void)events;
	turn(loop, w->data);
}

static void on_log(void *ctx, enum hcp_level level, const char *text)
{
	(void)ctx;
	if (level <= HCP_LOG_WARN)
		fprintf(stderr, "%s\n", text);
}

static int print_row(void *ctx, int count, char **values, char **names)
{
	(void)ctx, (void)count, (void)names;
	printf("%s %s %s\n", values[0], values[1], values[2]);
	return 0;
}

int main(int argc, char **argv)
{
	struct ev_loop *loop = EV_DEFAULT;
	struct collector c = {0};
	struct hcp_options options = {.on_event = on_event, .ctx = &c, .on_log = on_log, .prefetch = 100};

	if (argc != 6)
		return fprintf(stderr, "usage: collect URL CALLER CALLEE FILE TASKS\n"), 64;
	options.url = argv[1], options.caller_id = argv[2], options.callee = argv[3], options.file = argv[4];
	if (hcp_open(&c.h, &options) < 0)
		return fprintf(stderr, "%s\n", hcp_error(c.h)), hcp_close(c.h), 1;
	sqlite3_exec(hcp_db(c.h),
		"CREATE TABLE IF NOT EXISTS results (session_id TEXT, what TEXT, text TEXT)", NULL, NULL,
		NULL);
	for (c.open = 0; c.open < atol(argv[5]); c.open++)
		if (hcp_submit(c.h,
			    &(struct hcp_task){.capability = "echo", .inputs = "{\"text\":\"hello\"}"},
			    NULL) < 0)
			return fprintf(stderr, "%s\n", hcp_error(c.h)), hcp_close(c.h), 1;

	ev_io_init(&c.readable, on_readable, hcp_fd(c.h), EV_READ);
	ev_timer_init(&c.due, on_due, 0, 0);
	c.readable.data = c.due.data = &c;
	ev_io_start(loop, &c.readable);
	arm(loop, &c);
	ev_run(loop, 0);

	sqlite3_exec(hcp_db(c.h), "SELECT session_id, what, text FROM results", print_row, NULL, NULL);
	hcp_close(c.h);
	return 0;
}
