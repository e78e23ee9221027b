/* SPDX-License-Identifier: MIT */
/* oracle_store.h: the rules for the rows of a store that no daemon is writing to, once for all tests. Reads
 * the tables and uses nothing of the daemon's code. The rules for a stream: oracle_stream.h; for the audit's
 * chain: audit_oracle.h. */
#ifndef HCPD_TESTS_SUPPORT_ORACLE_STORE_H
#define HCPD_TESTS_SUPPORT_ORACLE_STORE_H

#include <sqlite3.h>

#include "oracle_stream.h"

struct oracle_question { /* each row of the answer is a violation; its first two columns are the evidence */
	const char *rule, *what, *sql;
};

void oracle_ask(sqlite3 *db, const struct oracle_question *questions, size_t count,
	oracle_violation *on_violation, void *ctx);

/* At any time: the file is sound; a session's transitions are legal, begin at PENDING, follow each other and
 * lead to the state of its row; its sequences are 1..n; what has ended was closed in the same commit and
 * keeps no outcome. */
void oracle_store_check(sqlite3 *db, oracle_violation *on_violation, void *ctx);

/* At any time: what waits for a human is asked about and unanswered; a decision is used once; what was denied
 * does not run; a submit has one answer. */
void oracle_store_check_decisions(sqlite3 *db, oracle_violation *on_violation, void *ctx);

#endif
