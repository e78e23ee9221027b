/* SPDX-License-Identifier: MIT */
/* retain_private.h: shared by the core's side (retain.c), the thread (thread.c, scan.c, archive.c,
 * status.c), and its queries (read.c); no other file includes it. */
#ifndef HCPD_RETAIN_RETAIN_PRIVATE_H
#define HCPD_RETAIN_RETAIN_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/archive.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/reader.h"
#include "retain/retain.h"
#include "core/turn.h"
#include "store/store.h"
#include "base/timer.h"

/* Limits of an order: with these it takes about 1 ms of a turn, and 2 to 3 ms on a busy machine. */
enum { GROUP_MAX = 32, SLICE_ROWS = 100, SLICE_BYTES = 256 * 1024, DROPS_MAX = GROUP_MAX * STORE_OWNED_MAX };

struct retain_rules {
	int64_t grace_us, expire_us;
	bool archives;
};

struct retain_who {
	int64_t session;
	char session_id[ID_SIZE];
};

struct retain_drop {
	int table;
	int64_t session, upto;
	bool is_kept; /* unroutable events: they no longer wait for a queue */
};

/* Changes of the store, all made in one turn. */
struct retain_order {
	char day[ARCHIVE_DAY_SIZE]; /* "": the archive does not change */
	int64_t size, sessions;     /* what counts of the day's file from now on */
	bool forgets_day;           /* drop the day's row */
	struct retain_who leave[GROUP_MAX];
	int leave_count;
	bool with_artifacts; /* of the sessions in `leave` */
	struct retain_drop drops[DROPS_MAX];
	int drop_count;
	struct retain_who left[GROUP_MAX]; /* sessions without any row left */
	int left_count;
	int64_t answers[SLICE_ROWS]; /* events that belong to no session */
	int answer_count;
	bool vacuums;
};

enum order_state { ORDER_IDLE, ORDER_WAITING, ORDER_IN_BATCH };

struct retain {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t news;
	atomic_bool is_stopping;
	/* under the lock */
	struct retain_rules rules;
	bool is_due;
	enum order_state state; /* ORDER_IDLE: the thread owns the order; else the core does */
	struct retain_order order;
	char trouble[RETENTION_TROUBLE_SIZE]; /* of the last pass; "": none */
	int64_t trouble_since_us;             /* boot clock */
	bool is_refused;                      /* the core refused the last order: nothing of it was done */
	/* the core's */
	struct core *core;
	struct timer tick;
	/* the thread's */
	void (*wake)(void *ctx);
	void *wake_ctx;
	char *state_dir;
	int dir_fd; /* the archive's; -1: not open */
	struct store_reader *reader;
	sqlite3 *mover; /* checkpoints the store's log; NULL: the core does */
	struct store_owned owned;
	struct retain_rules now; /* the rules of this pass */
	int64_t now_us;
	int slice_rows;      /* of the current order ... */
	int64_t slice_bytes; /* ... and their bytes */
	int64_t paced_us;    /* of this pass: its orders and the pauses after them */
	struct buf line;
	int64_t committed;                   /* orders that were committed or refused */
	char met[RETENTION_TROUBLE_SIZE];    /* the first trouble of this pass ... */
	int met_count;                       /* ... and how many there were */
	char logged[RETENTION_TROUBLE_SIZE]; /* logged last; "": the trouble is over */
	int64_t logged_us;
	struct log_limit limit;
};

/* ---- retain.c ---- */

void retain_on_tick(struct timer *t);

/* ---- read.c: queries; -1 where the store cannot be read, with the reason in reader->error ---- */

struct retain_candidate {
	struct retain_who who;
	char ended_at[CLOCK_TEXT_SIZE];
};
/* Sessions after one, in the order of their ends, that ended before a time: how many. */
int retain_find_ended(struct store_reader *q, const struct retain_candidate *after, const char *before,
	struct retain_candidate out[GROUP_MAX]);
/* May the session leave? Its messages are settled, its submit is no longer remembered, the decisions about
 * it have expired, and no live session needs it. 1, 0. */
int retain_may_leave(struct store_reader *q, int64_t session, const char *nonces_before, bool unroutable_too);
/* How much of a day's file counts: 1, or 0: the day has no row. */
int retain_find_day(struct store_reader *q, const char *day, int64_t *size, int64_t *sessions);
/* The first day after one that has length 0 (where `empty`), or that is before another day. 1, 0. */
int retain_next_day(struct store_reader *q, const char *after, const char *before, bool empty,
	char day[ARCHIVE_DAY_SIZE], int64_t *size);
/* Sessions that left and still have rows: how many. */
int retain_find_leaving(
	struct store_reader *q, struct retain_who out[GROUP_MAX], bool with_artifacts[GROUP_MAX]);
/* Answers without a session, after *at, that are no longer needed: how many. *at becomes the last row that
 * was checked; 0: the end. */
int retain_find_answers(struct store_reader *q, int64_t *at, const char *before, bool unroutable_too,
	int64_t out[SLICE_ROWS]);
int retain_count_unroutable(struct store_reader *q);
int retain_count_pages(struct store_reader *q, int64_t *pages, int64_t *unused);
/* Gives a session's rows of a table after *at to fn, at most `most`; fn ends it with false. *at becomes the
 * last row's number. How many were given. The table "sessions" has the session's own row. */
typedef bool retain_row_fn(void *ctx, sqlite3_stmt *st, int64_t row);
int retain_each_row(struct store_reader *q, const char *table, int64_t session, int64_t *at, int most,
	retain_row_fn *fn, void *ctx);
/* Adds {"table":...,"row":{...}} and a newline; the first column is the row's number, and is left out. */
void retain_add_row(struct buf *b, const char *table, sqlite3_stmt *st);

/* ---- status.c ---- */

/* Records a trouble of this pass: the first one counts. */
void retain_add_trouble(struct retain *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Ends the pass: logs its trouble, unless that was logged already. */
void retain_end_trouble(struct retain *r);

/* ---- thread.c, for scan.c ---- */

/* Hands the order to the core and waits until it is committed. False: the thread must stop. */
bool retain_commit_order(struct retain *r);
bool retain_is_empty(const struct retain *r); /* the order has nothing to do */
/* Is the configuration still that of this pass? A change to a longer grace must count at once. */
bool retain_rules_hold(struct retain *r);
/* The rest after a pass that took so long, paced_us of it for orders and their pauses. */
int64_t retain_rest_us(int64_t took_us, int64_t paced_us);
/* One pass over everything. */
void retain_scan(struct retain *r);
/* archive.c: archives a group of sessions, then commits the order about them. How many were checked, -1: not
 * now. */
int retain_pack_group(struct retain *r, struct retain_candidate *from);
void retain_close_dir(struct retain *r);
/* Deletes the stored files of a session. */
void retain_drop_artifacts(struct retain *r, const char *session_id);
/* Days that a crash left with length 0, and old days. False: the thread must stop. */
bool retain_tidy_days(struct retain *r);
bool retain_expire_days(struct retain *r);

/* status.c; for retention_ops. */
bool retain_get_trouble(struct retain *r, char out[RETENTION_TROUBLE_SIZE], int64_t *since_us);

#endif
