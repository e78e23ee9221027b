/* SPDX-License-Identifier: MIT */
/* session_row.h: the columns of table `sessions`, once. struct store_session and the statements that write
 * and read a session's row are made from this list; a new column is one line here and one step in
 * migrations.c.
 *
 * X(name, kind, when). The name is the column's and the member's.
 * kind: INTEGER int64_t; FLAG bool, stored as 0 or 1; REAL double; TEXT, where NULL is NULL; LIST, the text
 * of a JSON array, where NULL is stored as []. when: PUT store_put_session writes the member; EMPTY it writes
 * 0 or [] instead; SAVE store_save_session, ACCEPT store_accept_session write the member; LOAD
 * store_load_live reads it. A column that has neither PUT nor EMPTY begins with the table's default. Columns
 * that are not in this list: id, which is the key. */
#ifndef HCPD_STORE_SESSION_ROW_H
#define HCPD_STORE_SESSION_ROW_H

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
#define SESSION_COLUMNS(X) \
	X(session_id,          TEXT,    PUT | LOAD) \
	X(caller_id,           TEXT,    PUT | LOAD) \
	X(capability,          TEXT,    PUT | LOAD) \
	X(capability_version,  TEXT,    PUT | ACCEPT | LOAD) \
	X(state,               TEXT,    PUT | SAVE | LOAD) \
	X(state_version,       INTEGER, PUT | SAVE | LOAD) \
	X(risk_level,          TEXT,    PUT | ACCEPT | LOAD) \
	X(data_classification, TEXT,    PUT | LOAD) \
	X(priority,            TEXT,    PUT | ACCEPT | LOAD) \
	X(session_token,       TEXT,    PUT | ACCEPT | LOAD) \
	X(metadata,            TEXT,    PUT)                   /* the core keeps no copy */ \
	X(created_at,          TEXT,    PUT | LOAD) \
	X(updated_at,          TEXT,    PUT | SAVE | ACCEPT | LOAD) \
	X(started_at,          TEXT,    SAVE | LOAD)           /* NULL before the first RUNNING ... */ \
	X(deadline,            TEXT,    SAVE | LOAD)           /* ... and so is the deadline */ \
	X(max_duration_us,     INTEGER, PUT | ACCEPT | LOAD) \
	X(attempt,             INTEGER, PUT | SAVE | LOAD) \
	X(paused_by,           TEXT,    SAVE | LOAD)           /* crash, stop ...; NULL: not PAUSED */ \
	X(steps,               INTEGER, EMPTY | SAVE | LOAD) \
	X(step,                TEXT,    SAVE | LOAD)           /* name of the last step */ \
	X(checkpoints,         INTEGER, EMPTY | SAVE | LOAD) \
	X(warnings,            LIST,    EMPTY | SAVE | LOAD) \
	X(tokens_in,           INTEGER, EMPTY | SAVE | LOAD) \
	X(tokens_out,          INTEGER, EMPTY | SAVE | LOAD) \
	X(cost,                REAL,    EMPTY | SAVE | LOAD) \
	X(waits_for,           TEXT,    PUT | ACCEPT | LOAD)   /* human, program; NULL: accepted */ \
	X(message_id,          TEXT,    PUT | LOAD)            /* of the submit; NULL: accepted at once */ \
	X(seal,                TEXT,    PUT | LOAD)            /* of the intent; NULL: older than seals */ \
	X(risk_events,         LIST,    SAVE | LOAD) \
	X(token_revoked,       FLAG,    SAVE | LOAD) \
	X(deaths,              INTEGER, SAVE | LOAD)           /* of the session's worker */ \
	X(recover_as,          TEXT,    SAVE | LOAD)           /* NULL: as the capability says */ \
	X(checkpoint_of,       TEXT,    PUT | LOAD)            /* ended sessions that it needs ... */ \
	X(continues,           TEXT,    PUT | LOAD)            /* ... until its end; NULL: none */ \
	X(harp,                FLAG,    PUT | LOAD)            /* HARP-SESSION events are published */ \
	X(last_checkpoint,     TEXT,    LOAD)                  /* store_put_checkpoint writes it */
/* clang-format on */

#define SESSION_MEMBER_INTEGER int64_t
#define SESSION_MEMBER_FLAG bool
#define SESSION_MEMBER_REAL double
#define SESSION_MEMBER_TEXT const char *
#define SESSION_MEMBER_LIST const char *
#define SESSION_MEMBER(name, kind, when) SESSION_MEMBER_##kind name;

/* A session's row. Texts are borrowed: from the caller while putting, from the store during a callback. */
struct store_session {
	int64_t key;      /* column id: 1, 2, 3 ... in order of acceptance */
	int64_t sequence; /* the last one used, from the events; only when loading */
	SESSION_COLUMNS(SESSION_MEMBER)
};

#endif
