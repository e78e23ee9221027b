/* SPDX-License-Identifier: MIT */
/* audit_oracle.c: recomputes the audit's chain from the rows: SHA-256 over the hash before and the entry,
 * from a beginning that is the instance's own. Reads any open store. Never uses audit_chain.c: that is what
 * is checked. */
#include "audit_oracle.h"

#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#define HEX 65

void chain_link(const char *before, const char *text, char hex[HEX])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned size = 0;

	EVP_DigestInit_ex(ctx, EVP_sha256(), NULL);
	EVP_DigestUpdate(ctx, before, strlen(before));
	EVP_DigestUpdate(ctx, text, strlen(text));
	EVP_DigestFinal_ex(ctx, digest, &size);
	EVP_MD_CTX_free(ctx);
	for (unsigned i = 0; i < size && 2 * i + 2 < HEX; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static bool read_text(sqlite3 *db, const char *sql, char *text, size_t size)
{
	sqlite3_stmt *st = NULL;
	bool found = sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK &&
		sqlite3_step(st) == SQLITE_ROW && sqlite3_column_text(st, 0) != NULL;

	snprintf(text, size, "%s", found ? (const char *)sqlite3_column_text(st, 0) : "");
	sqlite3_finalize(st);
	return found;
}

bool chain_holds(sqlite3 *db, char *why, size_t why_size)
{
	char instance[80], head[120], end[120] = "", hex[HEX] = "", table[8];
	sqlite3_stmt *st = NULL;
	long long rows = 0;
	int rc;

	if (!read_text(db, "SELECT 1 FROM sqlite_schema WHERE name = 'audit'", table, sizeof table))
		return true;
	if (read_text(db, "SELECT value FROM meta WHERE key = 'instance'", instance, sizeof instance))
		chain_link("hcpd audit ", instance, hex);
	if (sqlite3_prepare_v2(db, "SELECT id, entry, hash FROM audit ORDER BY id", -1, &st, NULL) !=
		SQLITE_OK) {
		snprintf(why, why_size, "it cannot be read: %s", sqlite3_errmsg(db));
		return false;
	}
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		char before[HEX];

		memcpy(before, hex, sizeof before);
		chain_link(before, (const char *)sqlite3_column_text(st, 1), hex);
		if (sqlite3_column_int64(st, 0) == ++rows &&
			strcmp(hex, (const char *)sqlite3_column_text(st, 2)) == 0)
			continue;
		snprintf(why, why_size,
			"row %lld stands at place %lld and is not linked to the one before it",
			(long long)sqlite3_column_int64(st, 0), rows);
		sqlite3_finalize(st);
		return false;
	}
	sqlite3_finalize(st);
	read_text(db, "SELECT value FROM meta WHERE key = 'audit'", head, sizeof head);
	if (rows > 0)
		snprintf(end, sizeof end, "%lld %s", rows, hex);
	if (rc == SQLITE_DONE && strcmp(end, head) == 0)
		return true;
	snprintf(why, why_size, "it ends with \"%.80s\", and \"%.80s\" was noted", end, head);
	return false;
}
