/* SPDX-License-Identifier: MIT */
/* test_kills.c: counting agents, their daemon, and both are killed at random moments, and checkpoints are
 * damaged while the daemon is down. Nothing may be done again but what lies after the last good checkpoint.
 * Each seed is a test; its figures go to the file of KILLS_FIGURES. KILLS_SEED and KILLS choose another
 * run. */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scene.h"

enum { SESSIONS = 4, KILLS = 300, EVERY = 5, PAD = 6400 };

static unsigned long long seed;

static unsigned dice(unsigned sides)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % sides;
}

/* --- what the ledger says --- */

#define UNHEARD (-1)

struct saved {
	long long n; /* UNHEARD: its agent has not said so (yet) */
	char id[40];
	bool lost; /* we damaged it, or it was pruned while newer ones were damaged */
};

struct ledger {
	char session[40], path[600];
	size_t read; /* bytes that were taken in */
	pid_t pid;   /* of the last start */
	int starts;
	long long n, most, saved_since; /* the last unit; the furthest; checkpoints of this attempt */
	/* units; of those done a second time; most of those after one start */
	long long done, again, worst;
	struct saved *list;
	size_t count;
};

static struct ledger books[SESSIONS];
static int damaged, survived; /* rows that we spoilt; of those that were good enough still */

static struct saved *find_saved(struct ledger *l, const char *id)
{
	for (size_t i = l->count; i-- > 0;)
		if (strcmp(l->list[i].id, id) == 0)
			return &l->list[i];
	return NULL;
}

static struct saved *add_saved(struct ledger *l, const char *id)
{
	l->list = realloc(l->list, (l->count + 1) * sizeof *l->list);
	must(l->list != NULL, "memory");
	l->list[l->count] = (struct saved){.n = UNHEARD};
	snprintf(l->list[l->count].id, sizeof l->list[l->count].id, "%s", id);
	return &l->list[l->count++];
}

/* The last one that the agent knows to be stored, and that nobody spoilt. */
static long long last_good(const struct ledger *l)
{
	for (size_t i = l->count; i-- > 0;)
		if (!l->list[i].lost)
			return l->list[i].n;
	return 0;
}

static void on_start(struct ledger *l, pid_t pid, long long from, const char *id)
{
	long long again = l->most - from;
	struct saved *s = find_saved(l, id);

	must(from >= last_good(l), "session %s: started from %lld (%s), and %lld was stored and good",
		l->session, from, id, last_good(l));
	must(s == NULL || s->n == UNHEARD || s->n == from, "checkpoint %s is of %lld, not of %lld", id, s->n,
		from);
	survived += s != NULL && s->lost;
	if (again > l->worst)
		l->worst = again;
	l->pid = pid;
	l->starts++;
	l->n = from;
	l->saved_since = 0;
}

static void on_did(struct ledger *l, long long n)
{
	must(n == l->n + 1, "session %s: unit %lld after %lld", l->session, n, l->n);
	l->n = n;
	l->done++;
	if (n <= l->most)
		l->again++;
	else
		l->most = n;
}

static void on_line(struct ledger *l, const char *line)
{
	long long n;
	char id[40];
	int pid;

	if (sscanf(line, "start %d %lld %39s", &pid, &n, id) == 3) {
		on_start(l, pid, n, id);
	} else if (sscanf(line, "did %lld", &n) == 1) {
		on_did(l, n);
	} else if (sscanf(line, "saved %lld %39s", &n, id) == 2) {
		struct saved *s = find_saved(l, id); /* spoilt before the agent heard of it? */

		if (s == NULL)
			s = add_saved(l, id);
		s->n = n;
		l->saved_since++;
	} else {
		give_up("the ledger says %s", line);
	}
}

static void take_in(struct ledger *l)
{
	size_t size = 0;
	char *text = file_read(l->path, &size), *end;

	while (text != NULL && l->read < size &&
		(end = memchr(text + l->read, '\n', size - l->read)) != NULL) {
		*end = '\0';
		on_line(l, text + l->read);
		l->read = (size_t)(end + 1 - text);
	}
	free(text);
}

static bool has_saved(struct ledger *l, long long count)
{
	take_in(l);
	return l->saved_since >= count;
}

static bool has_started(struct ledger *l, int starts)
{
	take_in(l);
	return l->starts >= starts;
}

/* --- damage, while the daemon is down --- */

static sqlite3 *db;

static void must_sql(int rc)
{
	must(rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW, "SQLite: %s", sqlite3_errmsg(db));
}

static void run_sql(const char *sql, long long row)
{
	sqlite3_stmt *st;

	must_sql(sqlite3_prepare_v2(db, sql, -1, &st, NULL));
	must_sql(sqlite3_bind_int64(st, 1, row));
	must_sql(sqlite3_step(st));
	must_sql(sqlite3_finalize(st));
}

/* A bit of its state is another one. */
static void flip(long long row)
{
	sqlite3_blob *b;
	char c;

	must_sql(sqlite3_blob_open(db, "main", "checkpoints", "state", row, 1, &b));
	int at = (int)dice((unsigned)sqlite3_blob_bytes(b));
	must_sql(sqlite3_blob_read(b, &c, 1, at));
	c ^= (char)(1 << dice(7));
	must_sql(sqlite3_blob_write(b, &c, 1, at));
	must_sql(sqlite3_blob_close(b));
}

/* It, and what stands on it, cannot be counted on any more. */
static void note_lost(struct ledger *l, long long row)
{
	sqlite3_stmt *st;

	must_sql(sqlite3_prepare_v2(
		db, "SELECT checkpoint_id FROM checkpoints WHERE id = ?1 OR base = ?1", -1, &st, NULL));
	must_sql(sqlite3_bind_int64(st, 1, row));
	while (sqlite3_step(st) == SQLITE_ROW) {
		const char *id = (const char *)sqlite3_column_text(st, 0);
		struct saved *s = find_saved(l, id);

		if (s == NULL) /* its agent has not heard of it yet, and may still */
			s = add_saved(l, id);
		s->lost = true;
	}
	must_sql(sqlite3_finalize(st));
}

/* Three are kept, damaged ones among them: older good ones are gone when their time would come. */
static void note_pruned(struct ledger *l)
{
	sqlite3_stmt *st;

	must_sql(sqlite3_prepare_v2(db, "SELECT 1 FROM checkpoints WHERE checkpoint_id = ?", -1, &st, NULL));
	for (size_t i = 0; i < l->count; i++) {
		must_sql(sqlite3_bind_text(st, 1, l->list[i].id, -1, SQLITE_STATIC));
		if (sqlite3_step(st) == SQLITE_DONE)
			l->list[i].lost = true;
		must_sql(sqlite3_reset(st));
	}
	must_sql(sqlite3_finalize(st));
}

/* The newest row of the session, and sometimes the base of it; one that stands on another base must
 * remain. */
static void damage(struct ledger *l)
{
	static const char newest[] =
		"SELECT id, base, state IS NULL FROM checkpoints WHERE session_id = ? ORDER BY id DESC LIMIT "
		"1";
	static const char others[] =
		"SELECT count(*) FROM checkpoints WHERE session_id = ?1 AND id != ?2 AND coalesce(base, 0) "
		"!= ?2"
		" AND checkpoint_id NOT IN (SELECT value FROM json_each(?3))";
	json_t *lost = json_array();
	sqlite3_stmt *st;

	take_in(l);
	for (size_t i = 0; i < l->count; i++)
		if (l->list[i].lost)
			json_array_append_new(lost, json_string(l->list[i].id));
	must_sql(sqlite3_open_v2(r->db, &db, SQLITE_OPEN_READWRITE, NULL));
	must_sql(sqlite3_prepare_v2(db, newest, -1, &st, NULL));
	must_sql(sqlite3_bind_text(st, 1, l->session, -1, SQLITE_TRANSIENT));
	long long row = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
	if (row > 0 && sqlite3_column_type(st, 1) != SQLITE_NULL && dice(4) == 0)
		row = sqlite3_column_int64(st, 1);
	must_sql(sqlite3_finalize(st));

	char *list = json_dumps(lost, 0);
	must_sql(sqlite3_prepare_v2(db, others, -1, &st, NULL));
	must_sql(sqlite3_bind_text(st, 1, l->session, -1, SQLITE_TRANSIENT));
	must_sql(sqlite3_bind_int64(st, 2, row));
	must_sql(sqlite3_bind_text(st, 3, list, -1, SQLITE_TRANSIENT));
	must_sql(sqlite3_step(st));
	bool is_one_left = sqlite3_column_int64(st, 0) > 0;
	must_sql(sqlite3_finalize(st));
	if (row > 0 && is_one_left) {
		note_lost(l, row);
		note_pruned(l);
		damaged++;
		switch (dice(3)) {
		case 0: flip(row); break;
		case 1:
			run_sql("UPDATE checkpoints SET state = substr(state, 1, length(state) / 2) WHERE id "
				"= ?",
				row);
			break;
		default: run_sql("DELETE FROM checkpoints WHERE id = ?", row);
		}
	}
	must_sql(sqlite3_close(db));
	free(list);
	json_decref(lost);
}

/* --- kills --- */

static void kill_worker(struct ledger *l)
{
	take_in(l);
	kill(l->pid, SIGKILL); /* it is ours: the ledger of this test says so */
}

static void one_kill(int kinds[3])
{
	struct ledger *l = &books[dice(SESSIONS)];
	unsigned kind = dice(10) < 6 ? 0 : 1 + dice(2);
	int starts[SESSIONS];

	if (dice(3) > 0)
		wait_until(has_saved(l, 1 + dice(3)), WAIT_S, "checkpoints of %s", l->session);
	for (int i = 0; i < SESSIONS; i++) {
		take_in(&books[i]);
		starts[i] = books[i].starts;
	}
	kinds[kind]++;
	if (kind != 1)
		kill_worker(l);
	if (kind != 0) {
		rig_kill(r);
		if (dice(2) == 0)
			damage(&books[dice(SESSIONS)]);
		rig_start(r);
	}
	for (int i = 0; i < SESSIONS; i++)
		if (kind != 0 || &books[i] == l)
			wait_until(has_started(&books[i], starts[i] + 1), WAIT_S, "a new start of %s",
				books[i].session);
}

static void begin_sessions(void)
{
	alarm(270); /* hundreds of kills take longer on a busy machine than the 60 s of other tests */
	r = rig_new();
	rig_capability(r, "count", rig_path(r, "unused"), NULL);
	const char *build = getenv("HCP_BUILD");
	rig_set(r, "capability count", "command", "%s/kills/counter",
		build != NULL ? build : source_path("build"));
	rig_set(r, "capability count", "max_attempts", "1000");
	rig_set(r, "capability count", "retry_delay", "10ms");
	rig_set(r, "capability count", "checkpoint_full_every", "4");
	rig_start(r);
	p = peer_new(r);
	for (int i = 0; i < SESSIONS; i++) {
		books[i] = (struct ledger){.n = 0};
		snprintf(books[i].path, sizeof books[i].path, "%s", rig_path(r, "ledger.%d", i));
		snprintf(books[i].session, sizeof books[i].session, "%s",
			peer_run(p, "count",
				J("{'ledger':'%s','every':%d,'pad':%d,"
				  "'finish':'%s'}",
					books[i].path, EVERY, i == 0 ? 0 : PAD, rig_path(r, "finish"))));
		wait_until(has_started(&books[i], 1), WAIT_S, "the first start");
	}
}

static void end_sessions(unsigned long long first_seed, const int kinds[3])
{
	long long done = 0, again = 0, worst = 0;
	int starts = 0;

	rig_touch(r, "finish");
	for (int i = 0; i < SESSIONS; i++) {
		struct ledger *l = &books[i];
		struct note *n = peer_completed(p, l->session);

		take_in(l);
		must(json_integer_value(note_at(n, "payload.outputs.n")) == l->n, "%s: %s", l->session,
			n->body);
		done += l->done, again += l->again, starts += l->starts;
		worst = l->worst > worst ? l->worst : worst;
		free(l->list);
	}
	const char *path = getenv("KILLS_FIGURES");
	FILE *f = path != NULL ? fopen(path, "a") : stdout;

	must(f != NULL, "%s cannot be written", path);
	fprintf(f,
		"kills: seed %llu: %d of workers, %d of the daemon, %d of both; %d rows damaged (%d good "
		"enough still); %d starts, %lld units, %lld done again, at most %lld after one start; 0 "
		"violations\n",
		first_seed, kinds[0], kinds[1], kinds[2], damaged, survived, starts, done, again, worst);
	if (f != stdout)
		fclose(f);
}

static void run_seed(unsigned long long first_seed)
{
	const char *count = getenv("KILLS");
	int kinds[3] = {0};

	seed = first_seed;
	damaged = survived = 0;
	begin_sessions();
	for (int i = 0, kills = count != NULL ? atoi(count) : KILLS; i < kills; i++)
		one_kill(kinds);
	must(getenv("KILLS") != NULL || damaged > 0, "no row was damaged");
	end_sessions(first_seed, kinds);
	scene_end();
}

/* proves CK-02, CK-03, L2-08 */
START_TEST(work_repeats_at_most_from_the_last_good_checkpoint_on)
{
	const char *given = getenv("KILLS_SEED");

	run_seed(given != NULL ? strtoull(given, NULL, 10) : (unsigned long long)_i + 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("kills");
	TCase *tc = tcase_create("seeds");

	tcase_set_timeout(tc, 280);
	tcase_add_loop_test(tc, work_repeats_at_most_from_the_last_good_checkpoint_on, 0,
		getenv("KILLS_SEED") != NULL ? 1 : 3);
	suite_add_tcase(s, tc);
	return harness_run(s, false);
}
