/* SPDX-License-Identifier: MIT */
/* query_private.h: shared by the files of query; no other file includes it. */
#ifndef HCPD_QUERY_QUERY_PRIVATE_H
#define HCPD_QUERY_QUERY_PRIVATE_H

#include "query/query.h"
#include "store/reader.h"

/* The states of a session that has not ended, as bits of query_cursor.states. */
#define QUERY_LIVE (1u << S_PENDING | 1u << S_RUNNING | 1u << S_PAUSED | 1u << S_ABORTING)

struct query {
	struct store_reader *reader;
	struct buf item; /* the one being written */
};

/* NULL where it cannot be prepared; query_fault then has the reason. Finalize it before returning: nothing
 * stays open between slices. */
sqlite3_stmt *query_prepare(struct query *q, const char *sql);
/* Finalizes the statement. -1 where rc is neither a row nor the end; query_fault then has the reason. */
int query_finish(struct query *q, sqlite3_stmt *st, int rc);

/* rows.c: adds JSON text as one line. */
void query_add_raw(struct buf *b, const char *json, size_t size);
/* "name":value,... of the first columns. A value is written by its type. A column's name ends in ? for a
 * boolean, and in # for a column that is JSON already. */
void query_add_members(struct buf *b, sqlite3_stmt *st, int columns);
bool query_give(struct query *q, struct query_cursor *c, query_item_fn *fn, void *ctx);

/* show.c */
int query_more_show(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx);
int query_more_approvals(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx);

/* checkpoints.c; columns of a checkpoint as people see it */
#define QUERY_CHECKPOINT \
	"checkpoint_id, description, step AS \"step#\", resumable AS \"resumable?\", trigger, created_at," \
	" coalesce(state_size, length(CAST(state AS BLOB))) AS size," \
	" length(CAST(state AS BLOB)) AS stored, encoding," \
	" (SELECT b.checkpoint_id FROM checkpoints b WHERE b.id = checkpoints.base) AS base," \
	" state_version, sha256"
/* Each checkpoint, verified; below a name where there is one. */
int query_more_checkpoints(struct query *q, struct query_cursor *c, const char *name, int max_rows,
	query_item_fn *fn, void *ctx);

/* audit.c */
int query_more_audit(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx);

#endif
