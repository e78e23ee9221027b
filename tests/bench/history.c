/* SPDX-License-Identifier: MIT */
/* history.c: a state directory with a past, for what is measured over one.
 * Owns its rows: written through the store, as the daemon writes them, and as large as real ones are.
 * Never runs a daemon.
 *
 *   history DIR SESSIONS [EVENTS [EACH]]
 *
 * SESSIONS of 20 callers in DIR, each with 2 events and EACH more (0). An operator paused the last 20 of
 * them; the very last has EVENTS more (0). All is confirmed, so a daemon has nothing to do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/id.h"
#include "store/store.h"

#define CALLERS 20
#define LIVE 20
#define A_COMMIT 2000                      /* sessions or events */
#define START_US INT64_C(1767225600000000) /* 2026-01-01; a session every 10 s from there on */

static struct store *store;
static int64_t event_key;
static char token[340];

static void commit(void)
{
	if (store_run(store) == 0)
		return;
	fprintf(stderr, "history: %s\n", store_error(store));
	exit(1);
}

static void put_event(int64_t session, const char *id, const char *type, int64_t sequence,
	const char *event_type, const char *payload)
{
	struct store_event e = {.id = ++event_key,
		.session = session,
		.session_id = id,
		.caller = session % CALLERS + 1,
		.type = type,
		.sequence = sequence,
		.event_type = event_type};
	char body[1024], message_id[ID_SIZE];

	id_make(message_id);
	snprintf(body, sizeof body,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"%s\",\"timestamp\":\"2026-01-01T00:00:00.000Z\","
		"\"session_id\":\"%s\",\"type\":\"%s\",\"payload\":%s}",
		message_id, id, type, payload);
	e.body = blob_new(body, strlen(body));
	store_put_event(store, &e);
	blob_unref(e.body);
}

static void put_progress(int64_t session, const char *id, int64_t sequence)
{
	char payload[256];

	snprintf(payload, sizeof payload,
		"{\"event_type\":\"progress\",\"sequence\":%lld,\"data\":{\"stage\":\"work\","
		"\"percent\":%lld,\"message\":\"step %lld of many\"}}",
		(long long)sequence, (long long)sequence % 100, (long long)sequence);
	put_event(session, id, "event", sequence, "progress", payload);
}

static void put_session(int64_t key, bool is_live, char id[ID_SIZE])
{
	char at[CLOCK_TEXT_SIZE], caller[32];
	struct store_session row = {.key = key,
		.session_id = id,
		.caller_id = caller,
		.capability = key % 3 ? "summarize" : "translate",
		.capability_version = "1.0.0",
		.state = "PENDING",
		.state_version = 1,
		.risk_level = "R2",
		.data_classification = "T1",
		.priority = "normal",
		.session_token = token,
		.created_at = at,
		.updated_at = at,
		.max_duration_us = INT64_C(3600000000),
		.warnings = "[]",
		.step = "write"};
	static const char task[] =
		"{\"capability\":\"summarize\",\"intent\":\"make it short\",\"inputs\":{\"text\":\"a text\"},"
		"\"constraints\":{\"max_duration\":\"PT1H\"},\"caller_id\":\"caller-1\"}";

	id_make(id);
	clock_format(START_US + key * 10000000, at);
	snprintf(caller, sizeof caller, "caller-%lld", (long long)(key % CALLERS));
	store_put_session(store, &row, task, sizeof task - 1);
	row.state = "RUNNING";
	row.state_version = 2;
	row.started_at = row.deadline = at;
	row.attempt = 1;
	store_put_transition(store, &row, "PENDING", "slot_free", "daemon");
	row.state = is_live ? "PAUSED" : key % 500 ? "COMPLETED" : "FAILED";
	row.state_version = 3;
	row.paused_by = is_live ? "operator" : NULL;
	store_put_transition(store, &row, "RUNNING",
		is_live           ? "paused_by_operator" :
			key % 500 ? "completed" :
				    "worker_failed",
		is_live ? "operator" : "worker");
	store_save_session(store, &row);
	put_event(key, id, "event", 1, "session_created",
		"{\"event_type\":\"session_created\",\"sequence\":1,\"data\":{}}");
	put_progress(key, id, 2);
}

int main(int argc, char **argv)
{
	int64_t sessions = argc > 2 ? atoll(argv[2]) : 0, events = argc > 3 ? atoll(argv[3]) : 0,
		each = argc > 4 ? atoll(argv[4]) : 0;
	char why[512], id[ID_SIZE] = "";

	if (sessions < 1 || events < 0 || each < 0) {
		fprintf(stderr, "usage: history DIR SESSIONS [EVENTS [EACH]]\n");
		return 64;
	}
	if (mkdir(argv[1], 0700) < 0)
		perror(argv[1]);
	if (store_open(argv[1], &store, why, sizeof why) != 0) {
		fprintf(stderr, "history: %s\n", why);
		return 1;
	}
	memset(token, 'x', sizeof token - 1);
	for (int64_t i = 0; i < CALLERS; i++) {
		char caller[32];

		snprintf(caller, sizeof caller, "caller-%lld", (long long)i);
		store_put_caller(store, i + 1, caller);
	}
	for (int64_t i = 1; i <= sessions; i++) {
		put_session(i, i > sessions - LIVE, id);
		for (int64_t k = 0; k < each; k++)
			put_progress(i, id, k + 3);
		if (i % A_COMMIT == 0)
			commit();
	}
	for (int64_t i = 0; i < events; i++) {
		put_progress(sessions, id, i + each + 3);
		if (i % A_COMMIT == 0)
			commit();
	}
	for (int64_t i = 1; i <= CALLERS; i++)
		store_save_confirmed(store, i, event_key);
	commit();
	store_close(store);
	printf("last=%s\n", id);
	return 0;
}
