/* SPDX-License-Identifier: MIT */
/* harp_oracle.c: HARP-SESSION's events as they were committed: each session begins once, ends once and says
 * nothing after that; what was told last is what it is; times grow; a snapshot is known by its hash, and no
 * id has two. Owns the rules for them, from HARP-SESSION's text; the hashes are computed here, with libcrypto
 * alone. What it finds ends the run (violation). */
#include "store_watch.h"

#include <jansson.h>
#include <openssl/sha.h>

#define HEX (2 * SHA256_DIGEST_LENGTH)
#define SNAPS_MAX 4096

enum kind { START, STATUS, SNAPSHOT, END, KINDS };

static const struct {
	const char *type, *required, *optional, *time;
} kinds[KINDS] = {
	{"session.start", " sessionId eventType createdAt agentHost ", " repoRef metadata ", "createdAt"},
	{"session.status", " sessionId eventType state updatedAt ", " details ", "updatedAt"},
	{"session.snapshot",
		" sessionId eventType snapshotId snapshotType createdAt payload snapshotHashAlg "
		"snapshotHash ",
		" metadata ", "createdAt"},
	{"session.end", " sessionId eventType endedAt reason ", " metadata ", "endedAt"},
};

/* capabilities with harp = yes (setup.c) */
static const char *const harp_of[] = {"again", "narrow", "asked", "moved"};

static struct {
	int64_t session;
	char id[48], hash[HEX + 1];
} snaps[SNAPS_MAX];
static size_t snap_count;

void harp_oracle_reset(void)
{
	snap_count = 0;
}

static bool is_told_of(const struct jsession *s)
{
	for (size_t i = 0; i < sizeof harp_of / sizeof *harp_of; i++)
		if (strcmp(harp_of[i], s->capability) == 0)
			return true;
	return false;
}

static const char *word(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "";
}

static void hash_hex(const char *text, size_t size, char hex[HEX + 1])
{
	unsigned char digest[SHA256_DIGEST_LENGTH];

	SHA256((const unsigned char *)text, size, digest);
	for (int i = 0; i < SHA256_DIGEST_LENGTH; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

/* The same for the same row, whenever it is published. */
void harp_oracle_id(const struct jsession *s, int64_t event, char out[ID_SIZE])
{
	char seed[80], hex[HEX + 1];

	snprintf(seed, sizeof seed, "%s/%lld", s->id, (long long)event);
	hash_hex(seed, strlen(seed), hex);
	snprintf(out, ID_SIZE, "%.8s-%.4s-4%.3s-8%.3s-%.12s", hex, hex + 8, hex + 12, hex + 15, hex + 18);
}

/* ---- one event ---- */

static bool is_among(const char *list, const char *name)
{
	char text[40];

	snprintf(text, sizeof text, " %s ", name);
	return strstr(list, text) != NULL;
}

static void check_fields(const json_t *event, enum kind kind, const char *body)
{
	int missing = -1;
	const char *name;
	json_t *value;

	for (const char *at = kinds[kind].required; at != NULL; at = strchr(at + 1, ' '))
		missing++;
	json_object_foreach((json_t *)(uintptr_t)event, name, value) {
		if (is_among(kinds[kind].required, name))
			missing--;
		else if (!is_among(kinds[kind].optional, name))
			violation("the world is told %s: %s", name, body);
	}
	if (missing != 0)
		violation("the world is told too little: %s", body);
}

/* Sorted and without white space: of what is in here that is the canonical form. proves HS-02 */
static void check_snapshot(struct jsession *s, const json_t *event, const char *body)
{
	json_t *bare = json_copy((json_t *)(uintptr_t)event);
	const char *id = word(event, "snapshotId"), *hash = word(event, "snapshotHash");
	char hex[HEX + 1], *text;

	json_object_del(bare, "snapshotHash");
	text = json_dumps(bare, JSON_COMPACT | JSON_SORT_KEYS);
	hash_hex(text, strlen(text), hex);
	free(text);
	json_decref(bare);
	if (strcmp(hex, hash) != 0)
		violation("a snapshot whose hash is another: %s", body);
	for (size_t i = 0; i < snap_count; i++)
		if (snaps[i].session == s - watch.sessions && strcmp(snaps[i].id, id) == 0)
			violation("session %.8s: snapshot %s is told a second time%s", s->id, id,
				strcmp(snaps[i].hash, hash) != 0 ? ", otherwise" : "");
	if (snap_count == SNAPS_MAX)
		violation("more than %d snapshots", SNAPS_MAX);
	snaps[snap_count].session = s - watch.sessions;
	snprintf(snaps[snap_count].id, sizeof snaps[0].id, "%s", id);
	snprintf(snaps[snap_count++].hash, HEX + 1, "%s", hash);
	if (json_object_get(json_object_get(event, "payload"), "checkpointId") != NULL)
		s->harp_points++;
	cover(strcmp(word(event, "snapshotType"), "context") == 0 ? TOLD_CHECKPOINT : TOLD_SNAPSHOT);
}

/* proves HS-01 */
void harp_oracle_event(struct jsession *s, struct jmessage *m, const char *body)
{
	json_t *event = json_loads(body, JSON_REJECT_DUPLICATES, NULL);
	const char *type = word(event, "eventType");
	int kind = 0;

	while (kind < KINDS && strcmp(kinds[kind].type, type) != 0)
		kind++;
	if (kind == KINDS || strcmp(word(event, "sessionId"), s->id) != 0 || !is_told_of(s))
		violation("session %.8s of %s: the world is told %s", s->id, s->capability, body);
	check_fields(event, (enum kind)kind, body);
	m->sequence = ++s->harp_count;
	if (s->harp_ends > 0)
		violation("session %.8s has ended, and the world is told %s", s->id, body);
	if (strcmp(word(event, kinds[kind].time), s->harp_at) <= 0)
		violation("session %.8s: at %s the world was told something, and then %s", s->id, s->harp_at,
			body);
	/* A worker may date its own. */
	if (kind != SNAPSHOT || strcmp(word(event, "snapshotType"), "context") == 0)
		snprintf(s->harp_at, sizeof s->harp_at, "%s", word(event, kinds[kind].time));
	s->harp_starts += kind == START;
	s->harp_ends += kind == END;
	if (s->harp_starts > 1 ||
		(s->harp_starts == 0 && kind != END && strcmp(word(event, "state"), "waiting_approval") != 0))
		violation("session %.8s was begun %d times when the world is told %s", s->id, s->harp_starts,
			body);
	if (kind == STATUS) {
		snprintf(s->harp_status, sizeof s->harp_status, "%s", word(event, "state"));
		cover_name("told", s->harp_status);
	} else if (kind == END) {
		cover_name("told", word(event, "reason"));
	} else if (kind == SNAPSHOT) {
		check_snapshot(s, event, body);
	}
	json_decref(event);
}

/* ---- all of it, after a commit ---- */

static const struct {
	const char *state, *statuses;
	int ends;
} wanted[] = {
	{"RUNNING", " executing planning editing ", 0},
	{"PAUSED", " idle ", 0},
	{"ABORTING", " executing planning editing idle ", 0},
	{"ABORTED", " executing planning editing idle ", 1},
	{"COMPLETED", " executing planning editing ", 1},
	{"FAILED", " error ", 1},
};

/* What was stored and what is told of it are one. */
void harp_oracle_look(void)
{
	for (int64_t key = 1; key <= watch.session_count; key++) {
		const struct jsession *s = &watch.sessions[key];

		if (!is_told_of(s) || s->has_left)
			continue;
		if (strcmp(s->state, "PENDING") == 0 && strcmp(s->waits, "human") == 0 &&
			strcmp(s->harp_status, "waiting_approval") != 0)
			violation("session %.8s waits for a human, and the world was told %s", s->id,
				s->harp_status);
		if (strcmp(s->state, "REJECTED") == 0 && s->harp_ends != (s->harp_count > 0))
			violation("session %.8s was rejected, and the world was told so %d times", s->id,
				s->harp_ends);
		for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
			if (strcmp(wanted[i].state, s->state) == 0 &&
				(s->harp_starts != 1 || s->harp_ends != wanted[i].ends ||
					!is_among(wanted[i].statuses, s->harp_status)))
				violation(
					"session %.8s is %s; the world was told %d starts, %d ends, and last "
					"%s",
					s->id, s->state, s->harp_starts, s->harp_ends, s->harp_status);
	}
}

/* Every checkpoint of every such session was told of, once. */
void harp_oracle_check(sqlite3 *db)
{
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(db, "SELECT id, checkpoints FROM sessions", -1, &st, NULL) != SQLITE_OK)
		violation("%s", sqlite3_errmsg(db));
	while (sqlite3_step(st) == SQLITE_ROW) {
		const struct jsession *s = watch_session(sqlite3_column_int64(st, 0));

		if (is_told_of(s) && s->harp_points != sqlite3_column_int64(st, 1))
			violation("session %.8s made %lld checkpoints, and the world was told of %lld", s->id,
				(long long)sqlite3_column_int64(st, 1), (long long)s->harp_points);
	}
	sqlite3_finalize(st);
}
