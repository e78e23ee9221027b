/* SPDX-License-Identifier: MIT */
/* app.c: an application of libhcp, made to be killed: it submits, sometimes aborts, and stores what it is
 * told in the transaction that it is handed, one row a message, without looking whether it is there already.
 *   app URL CALLER CALLEE FILE SEED
 * SIGUSR1: nothing new is submitted any more. */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "hcp/hcp.h"

#define PAUSE_MS 250 /* between two submits */

static volatile sig_atomic_t is_quiet;
static unsigned dice;

static void on_quiet(int sig)
{
	(void)sig;
	is_quiet = 1;
}

static int on_event(struct hcp *h, const struct hcp_event *e, struct sqlite3 *db, void *ctx)
{
	sqlite3_stmt *st;
	int rc;

	(void)ctx;
	if (e->kind == HCP_UNDELIVERED)
		return 1; /* goes on trying */
	if (sqlite3_prepare_v2(db,
		    "INSERT INTO got (session_id, sequence, message_id, type, reply) VALUES (?,?,?,?,?)", -1,
		    &st, NULL) != SQLITE_OK)
		return 1;
	sqlite3_bind_text(st, 1, e->session_id, -1, SQLITE_STATIC);
	sqlite3_bind_int64(st, 2, e->sequence);
	sqlite3_bind_text(st, 3, e->message_id, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 4, e->kind == HCP_EVENT ? e->event_type : e->type, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 5, e->in_reply_to, -1, SQLITE_STATIC);
	rc = sqlite3_step(st);
	sqlite3_finalize(st);
	if (rc != SQLITE_DONE)
		return 1;
	if (e->kind == HCP_ACCEPTED && rand_r(&dice) % 8 == 0 &&
		hcp_abort(h, e->session_id, "changed my mind") < 0)
		return 1;
	return 0;
}

static void on_log(void *ctx, enum hcp_level level, const char *text)
{
	(void)ctx;
	if (level <= HCP_LOG_WARN)
		fprintf(stderr, "app: %s\n", text);
}

static void submit_one(struct hcp *h)
{
	char inputs[80];

	snprintf(inputs, sizeof inputs, "{\"goal\":%d,\"every\":5,\"delay\":%d}", 1 + rand_r(&dice) % 40,
		rand_r(&dice) % 20);
	if (hcp_submit(h, &(struct hcp_task){.capability = "counter", .inputs = inputs}, NULL) < 0)
		fprintf(stderr, "app: %s\n", hcp_error(h));
}

int main(int argc, char **argv)
{
	struct hcp *h;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGUSR1, on_quiet);
	if (argc != 6)
		return 64;
	dice = (unsigned)atoi(argv[5]);
	/* What found no queue comes again much later: it is waited for, not passed over. */
	if (hcp_open(&h,
		    &(struct hcp_options){.url = argv[1],
			    .caller_id = argv[2],
			    .callee = argv[3],
			    .file = argv[4],
			    .on_event = on_event,
			    .on_log = on_log,
			    .wait_for_broker = 1,
			    .reconnect_max_s = 2,
			    .repeat_s = 3,
			    .prefetch = 50,
			    .batch_ms = 20,
			    .gap_wait_ms = 3600000,
			    .reorder_max = 100000}) < 0) {
		fprintf(stderr, "app: %s\n", hcp_error(h));
		return 1;
	}
	if (sqlite3_exec(hcp_db(h),
		    "CREATE TABLE IF NOT EXISTS got (id INTEGER PRIMARY KEY, session_id TEXT,"
		    " sequence INTEGER, message_id TEXT, type TEXT, reply TEXT)",
		    NULL, NULL, NULL) != SQLITE_OK)
		return 1;
	for (;;) {
		if (!is_quiet)
			submit_one(h);
		hcp_run(h, PAUSE_MS);
	}
}
