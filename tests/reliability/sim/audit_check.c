/* SPDX-License-Identifier: MIT */
/* audit_check.c: the audit, in the end: every row there, each bound to the one before it, and a row for what
 * was decided. Computes the chain itself, with libcrypto alone. */
#include "sim.h"

#include <openssl/sha.h>
#include <sqlite3.h>

#define HEX (2 * SHA256_DIGEST_LENGTH)

static void hash_hex(const char *before, size_t before_size, const char *text, size_t size, char hex[HEX + 1])
{
	struct buf b = {0};
	unsigned char digest[SHA256_DIGEST_LENGTH];

	buf_add(&b, before, before_size);
	buf_add(&b, text, size);
	SHA256((const unsigned char *)b.data, b.size, digest);
	buf_fini(&b);
	for (int i = 0; i < SHA256_DIGEST_LENGTH; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		violation("%s: %s", sql, sqlite3_errmsg(db));
	return st;
}

static void read_meta(sqlite3 *db, const char *key, char *out, size_t size)
{
	sqlite3_stmt *st = prepare(db, "SELECT value FROM meta WHERE key = ?");

	sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
	if (sqlite3_step(st) != SQLITE_ROW)
		violation("meta has no %s", key);
	snprintf(out, size, "%s", (const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
}

/* A task that runs was accepted by one row: of the gate, a human or the program. */
static void check_accepted(sqlite3 *db)
{
	sqlite3_stmt *st = prepare(db,
		"SELECT count(*), count(DISTINCT json_extract(entry, '$.session')) FROM audit"
		" WHERE json_extract(entry, '$.outcome') = 'accepted'");
	int64_t accepted = 0;

	for (int64_t key = 1; key <= watch.session_count; key++)
		accepted += watch.sessions[key].accepted != 0;
	sqlite3_step(st);
	if (sqlite3_column_int64(st, 0) != accepted || sqlite3_column_int64(st, 1) != accepted)
		violation("%lld tasks were accepted, and the audit has %lld rows of %lld",
			(long long)accepted, (long long)sqlite3_column_int64(st, 0),
			(long long)sqlite3_column_int64(st, 1));
	sqlite3_finalize(st);
}

void chain_check(sqlite3 *db)
{
	char instance[64], head[200], hex[HEX + 1], end[200];
	sqlite3_stmt *st = prepare(db, "SELECT id, entry, hash FROM audit ORDER BY id");
	int64_t n = 0;

	read_meta(db, "instance", instance, sizeof instance);
	read_meta(db, "audit", head, sizeof head);
	hash_hex("hcpd audit ", 11, instance, strlen(instance), hex);
	while (sqlite3_step(st) == SQLITE_ROW) {
		hash_hex(hex, HEX, (const char *)sqlite3_column_text(st, 1),
			(size_t)sqlite3_column_bytes(st, 1), hex);
		if (sqlite3_column_int64(st, 0) != ++n ||
			strcmp((const char *)sqlite3_column_text(st, 2), hex) != 0)
			violation("the audit is broken at row %lld: %s", (long long)n,
				(const char *)sqlite3_column_text(st, 1));
	}
	sqlite3_finalize(st);
	snprintf(end, sizeof end, "%lld %s", (long long)n, hex);
	if (strcmp(head, end) != 0)
		violation("the audit ends with %s, and meta says %s", end, head);
	check_accepted(db);
}

void chain_tamper(void)
{
	const char *why = sim_world_exec(
		"DROP TRIGGER audit_stays;"
		"UPDATE audit SET entry = replace(entry, 'rejected', 'accepted') WHERE id = (SELECT max(id) "
		"FROM audit) / 2");

	if (why != NULL)
		sim_trace("the audit cannot be changed: %s", why);
}
