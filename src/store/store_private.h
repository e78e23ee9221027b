/* SPDX-License-Identifier: MIT */
/* store_private.h: shared by store.c (the batch), session_row.c, read.c, retain.c and open.c; no other file
 * includes it. */
#ifndef HCPD_STORE_STORE_PRIVATE_H
#define HCPD_STORE_STORE_PRIVATE_H

#include "store/store.h"

#include <sqlite3.h>

enum statement {
	/* changes: in the batch */
	ST_PUT_CALLER,
	ST_KEEP_CALLER,
	ST_DROP_CALLER,
	ST_SAVE_CONFIRMED,
	ST_PUT_SESSION,
	ST_PUT_TASK,
	ST_SAVE_SESSION,
	ST_PUT_TRANSITION,
	ST_PUT_EVENT,
	ST_PUT_3_EVENTS, /* store_run makes these two of neighbouring ST_PUT_EVENT */
	ST_PUT_8_EVENTS,
	ST_PUT_SUBSTITUTE,
	ST_PUT_CHECKPOINT,
	ST_SAVE_NEWEST,
	ST_PRUNE_CHECKPOINTS,
	ST_PUT_OUTCOME,
	ST_DROP_OUTCOME,
	ST_PUT_SUBMIT,
	ST_DROP_SUBMITS,
	ST_PUT_UNROUTABLE,
	ST_DROP_UNROUTABLE,
	ST_PUT_ARTIFACT,
	ST_SAVE_ARTIFACT,
	ST_DROP_ARTIFACT,
	ST_PUT_AUDIT,
	ST_SAVE_AUDIT_HEAD,
	ST_ACCEPT_SESSION,
	ST_SAVE_ANSWER,
	ST_PUT_REVIEW,
	ST_SAVE_REVIEW,
	ST_PUT_DECISION,
	ST_PUT_SNAPSHOT,
	ST_PUT_CONTINUITY,
	ST_PUT_LABEL,
	ST_CLOSE_CONTINUITY,
	ST_RETIRE_CHECKPOINTS,
	ST_PUT_ARCHIVE,
	ST_DROP_ARCHIVE,
	ST_KEEP_KEYS,
	ST_PUT_LEAVING,
	ST_DROP_SESSION,
	ST_DROP_LEAVING,
	ST_DROP_KEPT,
	ST_DROP_EVENT,
	ST_FORGET_SUBMIT,
	ST_VACUUM,
	/* one for each table in store.owned */
	ST_DROP_ROWS,
	ST_DROP_ROWS_END = ST_DROP_ROWS + STORE_OWNED_MAX - 1,
	/* the transaction */
	ST_BEGIN,
	ST_BEGIN_READS,
	ST_COMMIT,
	ST_ROLLBACK,
	/* reads */
	ST_FIND_ANSWER,
	ST_FIND_SESSION,
	ST_LOAD_TASK,
	ST_LOAD_OUTCOME,
	ST_NEXT_CHECKPOINT,
	ST_FIND_CHECKPOINT,
	ST_FIND_NEWEST,
	ST_LOAD_CHECKPOINT,
	ST_FIND_LARGE,
	ST_FIND_LAST_EVENT,
	ST_LOAD_CALLERS,
	ST_LOAD_LIVE,
	ST_LOAD_BACKLOG,
	ST_LOAD_EVENTS,
	ST_LOAD_UNROUTABLE,
	ST_LOAD_EVENT,
	ST_LOAD_ANSWERS,
	ST_COUNT_ANSWERS,
	ST_LAST_SUBMIT,
	ST_FIND_CALLER,
	ST_FIND_OLD_SUBMIT,
	ST_CHECK_READABLE,
	ST_LOAD_ARTIFACTS,
	ST_FIND_REPLAY,
	ST_LOAD_REPLAY,
	ST_FIND_AUDIT_END,
	ST_LOAD_REVIEW,
	ST_FIND_OPEN_REVIEW,
	ST_FIND_APPROVED_REVIEW,
	ST_FIND_NONCE,
	ST_LOAD_VOTES,
	ST_FIND_SNAPSHOT,
	ST_FIND_LAST_HARP,
	ST_LAST_CHECKPOINT,
	ST_FIND_OWNER,
	ST_LOAD_CONTINUITY,
	ST_LOAD_RECENT,
	ST_LOAD_RESULTS,
	ST_COUNT
};

/* NULL: built at the opening (session_row.c, retain.c). */
extern const char *const store_sql[ST_COUNT];

/* An operation of the batch: a statement and its values. Texts are in the batch's arena; bodies are
 * shared. */
enum value_kind { V_NULL, V_INT, V_REAL, V_TEXT, V_BYTES, V_BLOB };
struct value {
	enum value_kind kind;
	union {
		int64_t i;
		double r;
		struct {
			size_t at, size;
		} text;
		struct blob *blob;
	};
};
struct op {
	enum statement st;
	unsigned first, count; /* values */
};
struct batch {
	struct op *ops;
	size_t op_count, op_room;
	struct value *values;
	size_t value_count, value_room;
	struct buf arena;
	bool keeps_keys; /* store_keep_keys: once is enough */
};

struct store {
	sqlite3 *db;
	sqlite3_stmt *st[ST_COUNT];
	struct batch batch;
	char instance[ID_SIZE], mark[ID_SIZE];
	bool is_copy; /* mark.c made a new mark: the directory is not the one of the last start */
	int64_t last_session, last_event, last_caller;
	char error[256];
	bool is_damaged; /* the last error was damage */
	struct store_owned owned;
	bool lacked_triggers; /* the audit's triggers were missing at the opening */
};

/* Appends to the batch; `kinds` as in store.c. */
void store_add(struct store *s, enum statement st, const char *kinds, ...);
/* The same with `count` values, which the caller sets; their place is good until the next append. */
struct value *store_add_op(struct store *s, enum statement st, unsigned count);
void store_trim_op(
	struct store *s, unsigned count); /* the statement that was appended last has fewer values */
/* Copies the text into the batch; NULL is NULL. */
void store_set_text(struct batch *b, struct value *v, enum value_kind kind, const char *text, size_t size);
/* session_row.c: prepares ST_PUT_SESSION, ST_SAVE_SESSION, ST_ACCEPT_SESSION and ST_LOAD_LIVE. */
int store_prepare_sessions(struct store *s);
/* A row of ST_LOAD_LIVE; its texts are good until the statement's next step. */
void store_read_session(sqlite3_stmt *st, struct store_session *row);
/* retain.c: prepares the statements that depend on which tables there are. */
int store_prepare_retain(struct store *s);
/* mark.c: the mark of this directory, kept from the last start or new. */
int store_load_mark(struct store *s, const char *dir);

void store_clear_batch(struct batch *b);

#endif
