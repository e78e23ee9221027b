/* SPDX-License-Identifier: MIT */
/* watch.c: what the store and /proc say, looked at from outside.
 * Never writes anything, never signals anybody, shares no code with the daemon. */
#include "watch.h"

#include <dirent.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

#include "violations.h"
#include "stream.h"
#include "support/oracle_store.h"

#define LOOK_US 200000
#define ABORT_SLACK_S 3.0 /* a busy machine; the bound itself is the daemon's */
#define REPORTED 64

struct lasting {       /* what may not last */
	char key[44];  /* which kind, and whose */
	double spent;  /* in it, while the daemon could act */
	unsigned look; /* when it was last seen */
	bool reported;
	UT_hash_handle hh;
};

static const struct {
	const char *invariant, *what, *sql;
	bool with_process;
} bounded[] = {
	{"abort is bounded", "is ABORTING", "SELECT session_id FROM sessions WHERE state = 'ABORTING'",
		false},
	{"a session that rests gives up its process", "is PAUSED and has a process",
		"SELECT session_id FROM sessions s WHERE state = 'PAUSED' AND capability = 'rester' AND "
		"paused_by = 'operator' AND EXISTS"
		" (SELECT 1 FROM checkpoints WHERE session = s.id AND resumable)",
		true},
};

struct process {
	pid_t pid;
	unsigned long long born; /* with the pid it names one process for ever */
	char session[40];        /* "": a shared one */
	bool is_program;         /* of the policy */
};

static struct rig *rig;
static double abort_bound;
static pthread_t thread;
static atomic_bool stopping;
static atomic_int hampered;
static struct lasting *lastings;
static pid_t reported[REPORTED];
static int reported_count;

/* --- the store --- */

static sqlite3 *open_store(void)
{
	sqlite3 *db;

	if (sqlite3_open_v2(rig->db, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
		sqlite3_close(db);
		return NULL;
	}
	sqlite3_busy_timeout(db, 2000);
	return db;
}

static const char *text_of(sqlite3_stmt *st, int column)
{
	const char *s = (const char *)sqlite3_column_text(st, column);

	return s ? s : "";
}

/* The first column of the first row as text; false where there is none. */
static bool ask(const char *sql, const char *parameter, char *answer, size_t room)
{
	sqlite3 *db = open_store();
	sqlite3_stmt *st = NULL;
	bool found = false;

	if (db && sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK) {
		if (parameter)
			sqlite3_bind_text(st, 1, parameter, -1, SQLITE_STATIC);
		if ((found = sqlite3_step(st) == SQLITE_ROW))
			snprintf(answer, room, "%s", text_of(st, 0));
	}
	sqlite3_finalize(st);
	sqlite3_close(db);
	return found;
}

bool watch_has_submit(const char *message_id)
{
	char one[8];

	return ask("SELECT 1 FROM submits WHERE message_id = ?", message_id, one, sizeof one);
}

bool watch_state(const char *session, char state[16])
{
	return ask("SELECT state FROM sessions WHERE session_id = ?", session, state, 16);
}

long watch_count(const char *table)
{
	char sql[100], answer[32];

	snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
	return ask(sql, NULL, answer, sizeof answer) ? atol(answer) : -1;
}

/* --- /proc --- */

/* Its start time, 0 where it is gone or a zombie. */
static unsigned long long born_at(pid_t pid)
{
	char path[64], *text, *at, state = 0;
	unsigned long long born = 0;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	text = file_read(path, NULL);
	at = text ? strrchr(text, ')') : NULL;
	if (!at ||
		sscanf(at + 1,
			" %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
			&state, &born) != 2 ||
		state == 'Z' || state == 'X')
		born = 0;
	free(text);
	return born;
}

static int list_processes(struct process *list, int max)
{
	char path[300], mark[300];
	struct dirent *e;
	size_t size;
	int n = 0;
	DIR *d = opendir("/proc");

	snprintf(mark, sizeof mark, "RIG_MARK=%s", rig->dir);
	while (d && n < max && (e = readdir(d))) {
		pid_t pid = atoi(e->d_name);
		unsigned long long born = pid > 1 && pid != getpid() ? born_at(pid) : 0;
		if (!born)
			continue;
		snprintf(path, sizeof path, "/proc/%d/environ", pid);
		char *env = file_read(path, &size), *at;
		if (env && memmem(env, size, mark, strlen(mark) + 1)) {
			list[n] = (struct process){.pid = pid, .born = born};
			if ((at = memmem(env, size, "HCP_SESSION_ID=", 15)))
				snprintf(list[n].session, sizeof list[n].session, "%s", at + 15);
			list[n].is_program = memmem(env, size, "TORTURE_PROGRAM=", 16);
			n++;
		}
		free(env);
	}
	if (d)
		closedir(d);
	return n;
}

int watch_workers(pid_t *pids, int max)
{
	struct process list[256];
	int n = list_processes(list, 256), count = 0;

	for (int i = 0; i < n && count < max; i++)
		if (!list[i].is_program)
			pids[count++] = list[i].pid;
	return count;
}

/* The youngest: one that was replaced may not be gone yet. */
pid_t watch_program(void)
{
	struct process list[256], *found = NULL;
	int n = list_processes(list, 256);

	for (int i = 0; i < n; i++)
		if (list[i].is_program && (!found || list[i].born >= found->born))
			found = &list[i];
	return found ? found->pid : 0;
}

/* --- looking all the time --- */

static bool was_charged(pid_t pid)
{
	for (int i = 0; i < reported_count; i++)
		if (reported[i] == pid)
			return true;
	if (reported_count < REPORTED)
		reported[reported_count++] = pid;
	return false;
}

/* Seen, then its session read as ended, then still there: it outlived its session, without any race. */
static void look_at_processes(const struct process *list, int n)
{
	char state[16];

	for (int i = 0; i < n; i++)
		if (list[i].session[0] && watch_state(list[i].session, state) && oracle_is_final(state) &&
			born_at(list[i].pid) == list[i].born && !was_charged(list[i].pid))
			violation("no process of an ended session", "process %d of %s, which is %s",
				list[i].pid, list[i].session, state);
}

static void note_lasting(size_t kind, const char *session, double since, unsigned look)
{
	struct lasting *a;
	char key[44];

	snprintf(key, sizeof key, "%zu %s", kind, session);
	HASH_FIND_STR(lastings, key, a);
	if (!a) {
		a = calloc(1, sizeof *a);
		memcpy(a->key, key, sizeof key);
		HASH_ADD_STR(lastings, key, a);
	} else if (a->look + 1 == look && hampered == 0) {
		a->spent += since;
	}
	a->look = look;
	if (a->spent > abort_bound && !a->reported) {
		a->reported = true;
		violation(bounded[kind].invariant, "%s %s for %.1f s in which the daemon could act", session,
			bounded[kind].what, a->spent);
	}
}

static void look_at_lasting(double since, unsigned look, const struct process *list, int count)
{
	sqlite3 *db = open_store();

	for (size_t kind = 0; db && kind < sizeof bounded / sizeof bounded[0]; kind++) {
		sqlite3_stmt *st = NULL;

		if (sqlite3_prepare_v2(db, bounded[kind].sql, -1, &st, NULL) == SQLITE_OK)
			while (sqlite3_step(st) == SQLITE_ROW) {
				int i = 0;
				while (bounded[kind].with_process && i < count &&
					strcmp(list[i].session, text_of(st, 0)) != 0)
					i++;
				if (i < count || !bounded[kind].with_process)
					note_lasting(kind, text_of(st, 0), since, look);
			}
		sqlite3_finalize(st);
	}
	sqlite3_close(db);
}

static void *run_watch(void *arg)
{
	double last = harness_now();
	struct process list[256];

	(void)arg;
	for (unsigned look = 1; !stopping; look++) {
		double now = harness_now();
		int n = list_processes(list, 256);
		look_at_lasting(now - last, look, list, n);
		last = now;
		look_at_processes(list, n);
		usleep(LOOK_US);
	}
	return NULL;
}

void watch_start(struct rig *r, double abort_timeout_s)
{
	rig = r;
	abort_bound = abort_timeout_s + ABORT_SLACK_S * harness_scale();
	must(pthread_create(&thread, NULL, run_watch, NULL) == 0, "no thread");
}

void watch_hamper(bool on)
{
	hampered += on ? 1 : -1;
}

void watch_stop(void)
{
	stopping = true;
	pthread_join(thread, NULL);
}

/* --- the end --- */

static sqlite3_stmt *query(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		violation("sound store", "%s: %s", sql, sqlite3_errmsg(db));
	return st;
}

/* Each row of a question that should have none is a violation; the first three columns are the evidence. */
static void must_be_none(sqlite3 *db, const char *invariant, const char *what, const char *sql)
{
	sqlite3_stmt *st = query(db, sql);

	while (st && sqlite3_step(st) == SQLITE_ROW)
		violation(invariant, "%s: %s %s %s", what, text_of(st, 0), text_of(st, 1), text_of(st, 2));
	sqlite3_finalize(st);
}

#define ENDS "('COMPLETED','FAILED','ABORTED','REJECTED')"
static const struct {
	const char *invariant, *what, *sql;
} questions[] = {
	{"one terminal state", "still open in the store",
		"SELECT session_id, state FROM sessions WHERE state NOT IN " ENDS},
	{"one terminal state", "ended more or less than once",
		"SELECT session_id, count(*) FROM transitions WHERE to_state IN " ENDS
		" GROUP BY 1 HAVING count(*) <> 1"},
	{"attempts", "deaths that were not told of, or told and not counted",
		"SELECT s.session_id, s.deaths, count(e.id) FROM sessions s LEFT JOIN events e ON e.session "
		"= s.id AND e.event_type ="
		" 'error' AND json_extract(e.body, '$.payload.data.code') = 'worker_died' GROUP BY s.id"
		" HAVING s.deaths NOT IN (count(e.id), count(e.id) + 1)"},
	{"the state is restored", "a delta without its base, or against another delta",
		"SELECT d.session_id, d.checkpoint_id, b.encoding FROM checkpoints d LEFT JOIN checkpoints b "
		"ON b.id = d.base AND"
		" b.session = d.session WHERE d.encoding = 'delta' AND (b.id IS NULL OR b.encoding = "
		"'delta')"},
	{"one session a submit", "two submits of one session",
		"SELECT session, count(*) FROM submits WHERE session > 0 GROUP BY 1 HAVING count(*) > 1"},
	{"one session a submit", "a session without a submit",
		"SELECT session_id, caller_id FROM sessions WHERE id NOT IN (SELECT session FROM submits "
		"WHERE session > 0)"},
};

/* A submit that the broker took and that was answered or acknowledged must be there, with its session. */
static void check_submit(void *ctx, const char *caller, const char *message_id, const char *session)
{
	/* To its caller a task that waited and was rejected has no session. */
	sqlite3_stmt *st = query(ctx,
		"SELECT CASE WHEN s.waits_for IS NULL THEN coalesce(s.session_id, '') ELSE '' END"
		" FROM submits b JOIN callers c ON c.id = b.caller"
		" LEFT JOIN sessions s ON s.id = b.session WHERE c.caller_id = ? AND b.message_id = ?");

	if (!st)
		return;
	sqlite3_bind_text(st, 1, caller, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 2, message_id, -1, SQLITE_STATIC);
	if (sqlite3_step(st) != SQLITE_ROW) {
		/* Of a submit that no session came of, the answer is all there was. */
		if (session[0] || !rig->forgets)
			violation("every acknowledged command in the store", "%s of %s is not", message_id,
				caller);
	} else if (strcmp(text_of(st, 0), session) != 0)
		violation("one session a submit", "%s of %s: %s in the store, %s to the caller", message_id,
			caller, text_of(st, 0), session);
	sqlite3_finalize(st);
}

void watch_say_failures(void)
{
	sqlite3 *db = open_store();
	sqlite3_stmt *st = db ?
		query(db,
			"SELECT count(*), json_extract(body, '$.payload.error_code') || ': ' ||"
			" substr(json_extract(body, '$.payload.error_message'), 1, 70) FROM events WHERE "
			"type = 'task_failed'"
			" GROUP BY 2 ORDER BY 1 DESC LIMIT 6") :
		NULL;

	while (st && sqlite3_step(st) == SQLITE_ROW)
		say("%4s failed by %s", text_of(st, 0), text_of(st, 1));
	sqlite3_finalize(st);
	sqlite3_close(db);
}

void watch_check(struct caller *const *callers, int count)
{
	struct process list[8];
	sqlite3 *db = open_store();

	int left = list_processes(list, 8);
	for (int i = 0; i < left; i++)
		violation("no process of an ended session", "process %d of %s after the daemon's end",
			list[i].pid, list[i].session[0] ? list[i].session : "a reused worker");
	if (!db) {
		violation("sound store", "%s cannot be opened", rig->db);
		return;
	}
	oracle_store_check(db, violation_of_rule, NULL);
	for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
		must_be_none(db, questions[i].invariant, questions[i].what, questions[i].sql);
	for (int i = 0; i < count; i++)
		caller_each(callers[i], check_submit, db);
	sqlite3_close(db);
}
