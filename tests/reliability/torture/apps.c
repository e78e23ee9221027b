/* SPDX-License-Identifier: MIT */
/* apps.c: keeps one application of libhcp running, and compares what it stored with what the daemon said.
 * Owns its process and its file's path. Shares no code with libhcp (app.c is another program). */
#include "apps.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "violations.h"
#include "support/wire.h"

#define NAME "app"
#define QUEUE "hcp.evt." NAME

static struct rig *rig;
static const char *program;
static char file[320];
static unsigned seed;
static pid_t pid; /* 0: not running */
static bool is_quiet;
static long deaths;

static void start(void)
{
	char number[16];

	snprintf(number, sizeof number, "%u", seed++);
	fflush(NULL);
	pid = fork();
	must(pid >= 0, "fork");
	if (pid == 0) {
		if (!freopen(rig_path(rig, "app.log"), "a", stderr))
			_exit(126);
		execl(program, "app", rig->broker->url, NAME, rig->callee, file, number, (char *)NULL);
		_exit(127);
	}
	if (is_quiet)
		kill(pid, SIGUSR1);
}

void app_begin(struct rig *r, const char *path, unsigned first_seed)
{
	rig = r;
	program = path;
	seed = first_seed;
	snprintf(file, sizeof file, "%s", rig_path(r, "app.db"));
	must(program && access(program, X_OK) == 0, "there is no %s", program ? program : "TORTURE_APP");
	start();
}

static void reap(int sig)
{
	int status;

	if (!pid)
		return;
	kill(pid, sig);
	kill(pid, SIGCONT);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	pid = 0;
}

void app_kill(void)
{
	reap(SIGKILL);
	deaths++;
}

void app_freeze(bool on)
{
	if (pid)
		kill(pid, on ? SIGSTOP : SIGCONT);
}

/* One that could not open its queue (the broker had not yet seen its predecessor's death) has ended by
 * itself. */
void app_revive(void)
{
	int status;

	if (pid && waitpid(pid, &status, WNOHANG) == pid)
		pid = 0;
	if (!pid)
		start();
}

void app_bind_again(void)
{
	amqp_connection_state_t c = wire_connect(rig->broker);

	if (!c || !wire_declare_exchanges(c) || !wire_bind(c, QUEUE, "hcp.events", NAME ".#"))
		say("the application's queue could not be bound again");
	wire_disconnect(&c);
}

void app_be_quiet(void)
{
	is_quiet = true;
	app_revive();
	kill(pid, SIGUSR1);
}

/* --- the check --- */

#define SAID \
	"SELECT e.session_id AS session_id, e.sequence AS sequence, e.type AS type," \
	" json_extract(coalesce(e.substitute, e.body), '$.message_id') AS message_id" \
	" FROM store.events e JOIN store.callers c ON c.id = e.caller WHERE c.caller_id = '" NAME "'"

static const struct {
	const char *invariant, *what, *sql;
} questions[] = {
	{"exactly once", "stored more than once",
		"SELECT session_id, message_id, count(*) FROM got GROUP BY message_id HAVING count(*) > 1"},
	{"exactly once", "said, and never stored",
		"SELECT session_id, sequence, type FROM (" SAID
		") WHERE message_id NOT IN (SELECT message_id FROM got)"},
	/* The rejection of a task that never became a session goes with retention, and into no archive. */
	{"exactly once", "stored, and never said",
		"SELECT session_id, sequence, type FROM got WHERE message_id NOT IN (SELECT message_id FROM "
		"(" SAID ")) AND (type <> 'task_rejected' OR reply IN"
		" (SELECT message_id FROM store.sessions WHERE caller_id = '" NAME "'))"},
	{"in order", "stored out of order, or with a gap",
		"SELECT session_id, before, sequence FROM (SELECT session_id, sequence, lag(sequence, 1, 0)"
		" OVER (PARTITION BY session_id ORDER BY id) AS before FROM got WHERE sequence > 0)"
		" WHERE sequence <> before + 1"},
	{"each submit answered", "still in the application's file",
		"SELECT message_id, callee FROM hcp_outbox WHERE session_id IS NULL"},
	{"each submit answered", "a session that is not closed for the application",
		"SELECT s.session_id, s.state FROM store.sessions s WHERE s.caller_id = '" NAME
		"' AND s.state <> 'REJECTED'"
		" AND s.session_id NOT IN (SELECT session_id FROM got WHERE type = 'session_closed')"},
};

static sqlite3 *open_both(const char *path, const char *store)
{
	char attach[700];
	sqlite3 *db;

	snprintf(attach, sizeof attach, "ATTACH 'file:%s?mode=ro' AS store", store);
	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, NULL) == SQLITE_OK) {
		sqlite3_busy_timeout(db, 2000);
		if (sqlite3_exec(db, attach, NULL, NULL, NULL) == SQLITE_OK)
			return db;
	}
	sqlite3_close(db);
	return NULL;
}

/* Rows that should not be there; -1 where it could not be asked. */
static long ask(sqlite3 *db, const char *sql, const char *invariant, const char *what)
{
	sqlite3_stmt *st;
	long rows = 0;
	int rc;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		return -1;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		rows++;
		if (invariant)
			violation(invariant, "the application: %s: %s %s %s", what,
				(const char *)sqlite3_column_text(st, 0),
				(const char *)sqlite3_column_text(st, 1),
				sqlite3_column_count(st) > 2 ? (const char *)sqlite3_column_text(st, 2) : "");
	}
	sqlite3_finalize(st);
	return rc == SQLITE_DONE ? rows : -1;
}

bool app_is_over(void)
{
	sqlite3 *db;
	bool over = true;

	app_revive();
	db = open_both(file, rig->db);
	for (size_t i = 0; db && over && i < sizeof questions / sizeof questions[0]; i++)
		over = ask(db, questions[i].sql, NULL, NULL) == 0;
	over = over && db;
	sqlite3_close(db);
	return over;
}

long app_check_files(const char *path, const char *store)
{
	sqlite3_stmt *st;
	sqlite3 *db = open_both(path, store);
	long rows = -1;

	if (!db) {
		violation("exactly once", "the application's file or the store cannot be opened");
		return -1;
	}
	for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
		if (ask(db, questions[i].sql, questions[i].invariant, questions[i].what) < 0)
			violation("exactly once", "the application's file cannot be read: %s",
				sqlite3_errmsg(db));
	if (sqlite3_prepare_v2(db, "SELECT count(*) FROM got", -1, &st, NULL) == SQLITE_OK &&
		sqlite3_step(st) == SQLITE_ROW)
		rows = (long)sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	if (rows <= 0)
		violation("exactly once", "the application stored nothing");
	sqlite3_close(db);
	return rows;
}

void app_check(void)
{
	reap(SIGKILL);
	say("the application was killed %ld times and stored %ld messages", deaths,
		app_check_files(file, rig->db));
}
