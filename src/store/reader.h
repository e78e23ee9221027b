/* SPDX-License-Identifier: MIT */
/* reader.h: a read-only connection to the store, beside the core's own. A reader belongs to one thread.
 * Nothing is ever written or migrated through it. */
#ifndef HCPD_STORE_READER_H
#define HCPD_STORE_READER_H

#include <stddef.h>

#include <sqlite3.h>

struct store_reader {
	sqlite3 *db;
	char error[256]; /* why the last call failed; "": none failed yet */
	char *dir;
};

/* Opens STATE_DIR/hcpd.db. 0, or a sysexits code with one or two sentences that say what to do. */
int reader_open(const char *state_dir, struct store_reader **out, char *why, size_t why_size)
	__attribute__((warn_unused_result));
void reader_close(struct store_reader *r); /* NULL is fine */

/* NULL where it cannot be prepared; the reason is in `error`. */
sqlite3_stmt *reader_prepare(struct store_reader *r, const char *sql);
/* Finalizes the statement. -1, with the reason in `error`, where rc is neither a row nor the end. */
int reader_finish(struct store_reader *r, sqlite3_stmt *st, int rc);

#endif
