/* SPDX-License-Identifier: MIT */
/* retention_oracle.c: sessions that leave the store: each is in one place, once and whole, at every moment;
 * nobody leaves before all is settled, nothing of those who left is left behind, and no key is given out
 * twice. Owns the rules for that. Reads the store through the store watch's connection, and the archive as
 * memory (fake_retention.c). What it finds ends the run (violation). */
#include "store_watch.h"

#include <jansson.h>

static bool is_there[ORDERS_MAX + 2];
static struct {
	char day[16];
	int64_t counts;
} days[64];
static int day_count;

static void read_store(void)
{
	sqlite3_stmt *st;

	memset(is_there, 0, sizeof is_there);
	day_count = 0;
	if (sqlite3_prepare_v2(watch_db(),
		    "SELECT id, '', 0 FROM sessions UNION ALL SELECT 0, day, size FROM archives", -1, &st,
		    NULL) != SQLITE_OK)
		violation("%s", sqlite3_errmsg(watch_db()));
	while (sqlite3_step(st) == SQLITE_ROW)
		if (sqlite3_column_int64(st, 0) > 0) {
			is_there[sqlite3_column_int64(st, 0)] = true;
		} else {
			snprintf(days[day_count].day, sizeof days[0].day, "%s",
				(const char *)sqlite3_column_text(st, 1));
			days[day_count++].counts = sqlite3_column_int64(st, 2);
		}
	sqlite3_finalize(st);
}

/* How often it is in the archive; the lines of one. */
static int count_entries(const struct jsession *s, const char **lines, size_t *size)
{
	int count = 0;

	for (int i = 0; i < day_count; i++)
		for (int n = 0;; n++) {
			size_t length;
			const char *at = keeper_entry(days[i].day, days[i].counts, s->id, n, &length);

			if (at == NULL)
				break;
			*lines = at;
			*size = length;
			count++;
		}
	return count;
}

/* ---- one that left ---- */

/* Every message and every transition that was ever committed of it. */
static void check_whole(const struct jsession *s, const char *lines, size_t size)
{
	int64_t key = s - watch.sessions, messages = 0, transitions = 0, rows = 0;
	const char *end = lines + size;

	for (const char *at = lines, *next; at < end; at = next) {
		json_t *line, *row;
		const char *table;

		next = memchr(at, '\n', (size_t)(end - at));
		next = next != NULL ? next + 1 : end;
		line = json_loadb(at, (size_t)(next - at), JSON_REJECT_DUPLICATES, NULL);
		row = json_object_get(line, "row");
		table = json_string_value(json_object_get(line, "table"));
		if (line == NULL || (row == NULL && rows > 0))
			violation("session %.8s has a line in the archive that is none: %.*s", s->id,
				(int)(next - at), at);
		rows++;
		if (table != NULL && strcmp(table, "events") == 0) {
			int64_t id = json_integer_value(json_object_get(row, "id"));
			const char *body = json_string_value(json_object_get(row, "body"));

			if (id < 1 || id > watch.message_count || watch.messages[id].owner != key ||
				watch.messages[id].bytes != watch_hash(body, strlen(body)))
				violation("session %.8s: message %lld is another in the archive", s->id,
					(long long)id);
			messages++;
		}
		transitions += table != NULL && strcmp(table, "transitions") == 0;
		json_decref(line);
	}
	for (int64_t id = 1; id <= watch.message_count; id++)
		messages -= watch.messages[id].is_there && watch.messages[id].owner == key;
	if (messages != 0 || transitions != s->version)
		violation("session %.8s left with %lld transitions of %lld, and %lld messages too %s", s->id,
			(long long)transitions, (long long)s->version,
			(long long)(messages < 0 ? -messages : messages), messages < 0 ? "few" : "many");
}

static void check_leaver(struct jsession *s, const char *lines, size_t size)
{
	int64_t key = s - watch.sessions;

	if (!oracle_is_final(s->state) || !s->is_closed)
		violation("session %.8s is %s, and leaves", s->id, s->state);
	for (int64_t id = 1; id <= watch.message_count; id++)
		if (watch.messages[id].is_there && watch.messages[id].owner == key &&
			!watch.messages[id].is_settled)
			violation(
				"session %.8s leaves, and message %lld is not settled", s->id, (long long)id);
	check_whole(s, lines, size);
	s->has_left = true;
	cover(KEEP_LEFT);
}

/* After each commit. proves CK-06 */
void leaving_look(void)
{
	if (!sim.retires)
		return;
	read_store();
	for (int64_t key = 1; key <= watch.session_count; key++) {
		struct jsession *s = &watch.sessions[key];
		const char *lines = "";
		size_t size = 0;
		int count;

		if (s->has_left && is_there[key])
			violation("key %lld, which was session %.8s, is given out again", (long long)key,
				s->id);
		if (!s->has_left && is_there[key] && key > sim.retire_from)
			continue; /* too young */
		count = s->has_left && !sim.is_healed ? 1 : count_entries(s, &lines, &size);
		if (count != !is_there[key])
			violation("session %.8s is %d times in the archive, and %s in the store", s->id,
				count, is_there[key] ? "also" : "not");
		if (!s->has_left && !is_there[key])
			check_leaver(s, lines, size);
	}
}

/* A life begins. */
void leaving_begin(void)
{
	if (sim.core.last_session < watch.session_count)
		violation("the next session has key %lld, and there were %lld",
			(long long)sim.core.last_session + 1, (long long)watch.session_count);
	if (store_last_event(sim.core.store) < watch.message_count)
		violation("the next message has key %lld, and there were %lld",
			(long long)store_last_event(sim.core.store) + 1, (long long)watch.message_count);
}

/* ---- in the end ---- */

static void must_be_none(const char *sql)
{
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(watch_db(), sql, -1, &st, NULL) != SQLITE_OK)
		violation("%s: %s", sql, sqlite3_errmsg(watch_db()));
	if (sqlite3_step(st) == SQLITE_ROW)
		violation("all is over, and left is %s: %s", (const char *)sqlite3_column_text(st, 0), sql);
	sqlite3_finalize(st);
}

void leaving_check(void)
{
	static const char *const tables[] = {"tasks", "outcomes", "transitions", "events", "checkpoints",
		"artifacts", "reviews", "continuity", "snapshots"};
	char sql[200];

	for (int64_t key = 1; key <= sim.retire_from; key++)
		if (!watch.sessions[key].has_left)
			violation("session %.8s ended long ago, and is still in the store",
				watch.sessions[key].id);
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		snprintf(sql, sizeof sql,
			"SELECT session FROM %s WHERE session IS NOT NULL AND session NOT IN (SELECT id FROM "
			"sessions)",
			tables[i]);
		must_be_none(sql);
	}
	must_be_none("SELECT session_id FROM leaving");
	must_be_none("SELECT d.id FROM decisions d WHERE request_id NOT IN (SELECT request_id FROM reviews)");
}
