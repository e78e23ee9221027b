/* query_private.h: between the files of query only. */
#ifndef HCPD_QUERY_PRIVATE_H
#define HCPD_QUERY_PRIVATE_H

#include <sqlite3.h>

#include "query/query.h"

struct query {
	sqlite3 *db;
	struct buf item; /* the one being written */
	char error[256];
	char *dir;
};

enum { STATE_COUNT = 8, LIVE_STATES = 4 }; /* the live ones first: a bit for each in query_cursor.states */
extern const char *const query_states[STATE_COUNT];

/* NULL where it cannot be prepared: the error is noted. Finalize it before returning: nothing is held between
 * slices. */
sqlite3_stmt *query_prepare(struct query *q, const char *sql);
/* Finalizes; -1 with the error noted where rc is no good end. */
int query_finish(struct query *q, sqlite3_stmt *st, int rc);

/* query_rows.c: JSON that is there already, as one line. */
void query_add_raw(struct buf *b, const char *json, size_t size);
/* "name":value,... of the first columns. A value is written by its type; a column's name ends in ? where it
 * is a truth, and in # where it is JSON already. */
void query_add_members(struct buf *b, sqlite3_stmt *st, int columns);
bool query_give(struct query *q, struct query_cursor *c, query_item_fn *fn, void *ctx);

/* query_show.c */
int query_more_show(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx);
int query_more_approvals(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx);

/* query_checkpoints.c; columns of a checkpoint as people see it */
#define QUERY_CHECKPOINT \
	"checkpoint_id, description, step AS \"step#\", resumable AS \"resumable?\", trigger, created_at," \
	" coalesce(state_size, length(CAST(state AS BLOB))) AS size, length(CAST(state AS BLOB)) AS " \
	"stored, encoding," \
	" (SELECT b.checkpoint_id FROM checkpoints b WHERE b.id = checkpoints.base) AS base, " \
	"state_version, sha256"
int query_more_checkpoints(
	struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx);

/* query_audit.c */
int query_more_audit(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx);

#endif
