/* retain_private.h: between the core's side (retain.c), the thread (retain_thread.c), and what it reads
 * (retain_read.c). */
#ifndef HCPD_RETAIN_PRIVATE_H
#define HCPD_RETAIN_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/archive.h"
#include "base/clock.h"
#include "base/log.h"
#include "query/query_private.h"
#include "retain/retain.h"
#include "store/store.h"
#include "base/timer.h"

/* What a note may ask for: with these a turn takes about 1 ms of it, and 2 to 3 on a machine that is busy. */
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
	bool is_kept; /* nobody took these events: they are not waited for any more */
};

/* What is to be changed in the store, all in one turn. */
struct retain_note {
	char day[ARCHIVE_DAY_SIZE]; /* "": nothing about the archive */
	int64_t size, sessions;     /* what counts of it from now on */
	bool forgets_day;           /* it has no row any more */
	struct retain_who leave[GROUP_MAX];
	int leave_count;
	bool with_artifacts; /* of those */
	struct retain_drop drops[DROPS_MAX];
	int drop_count;
	struct retain_who left[GROUP_MAX]; /* nothing is left of them */
	int left_count;
	int64_t answers[SLICE_ROWS]; /* events of no session */
	int answer_count;
	bool vacuums;
};

enum note_state { NOTE_IDLE, NOTE_ASKED, NOTE_IN_BATCH };

struct retain {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t news;
	atomic_bool is_stopping;
	/* under the lock */
	struct retain_rules rules;
	bool is_due;
	enum note_state state; /* idle: the note is the thread's, else the core's */
	struct retain_note note;
	char trouble[RETAIN_TROUBLE_SIZE]; /* that the last pass met; "": none */
	int64_t trouble_since_us;          /* boot clock */
	bool is_refused;                   /* the last one was not put into a batch: nothing of it is true */
	/* the core's */
	struct core *core;
	struct timer tick;
	/* the thread's */
	void (*wake)(void *ctx);
	void *wake_ctx;
	char *state_dir;
	int dir_fd; /* of the archive; -1: not open */
	struct query *query;
	sqlite3 *mover; /* of the store's log; NULL: the core does it */
	struct store_owned owned;
	struct retain_rules now; /* the rules of this pass */
	int64_t now_us;
	int slice_rows;      /* of the note in hand ... */
	int64_t slice_bytes; /* ... and so many bytes */
	struct buf line;
	int64_t told;                   /* notes that were committed */
	char met[RETAIN_TROUBLE_SIZE];  /* the first trouble of this pass ... */
	int met_count;                  /* ... and how many there were */
	char said[RETAIN_TROUBLE_SIZE]; /* what was logged last, unless it is over */
	int64_t said_us;
	struct log_limit limit;
};

/* ---- retain.c ---- */

void retain_on_tick(struct timer *t);

/* ---- retain_read.c: questions; -1 where the store cannot be read, with the reason in query->error ---- */

struct retain_candidate {
	struct retain_who who;
	char ended_at[CLOCK_TEXT_SIZE];
};
/* Ended sessions behind one, in the order of their ends, that ended before a time: how many. */
int retain_find_ended(struct query *q, const struct retain_candidate *after, const char *before,
	struct retain_candidate out[GROUP_MAX]);
/* May it leave? Its messages are settled, its submit is forgotten, decisions about it have expired, nobody
 * needs it. 1, 0. */
int retain_may_leave(struct query *q, int64_t session, const char *nonces_before, bool unroutable_too);
/* How much of a day's file counts; 0 there is no row. */
int retain_find_day(struct query *q, const char *day, int64_t *size, int64_t *sessions);
/* The first day behind one of which nothing counts (empty), or that is before another. 1, 0. */
int retain_next_day(struct query *q, const char *after, const char *before, bool empty,
	char day[ARCHIVE_DAY_SIZE], int64_t *size);
/* Those who left and are not wholly gone: how many. */
int retain_find_leaving(struct query *q, struct retain_who out[GROUP_MAX], bool with_artifacts[GROUP_MAX]);
/* Answers of no session, behind *at, that nobody needs any more: how many. *at is how far it looked; 0: at
 * the end. */
int retain_find_answers(
	struct query *q, int64_t *at, const char *before, bool unroutable_too, int64_t out[SLICE_ROWS]);
int retain_count_unroutable(struct query *q);
int retain_count_pages(struct query *q, int64_t *pages, int64_t *unused);
/* A session's rows of a table behind one, at most so many, each given to fn; false from there ends it. The
 * last row's number in *at; how many were given. The table "sessions" is that of the session itself. */
typedef bool retain_row_fn(void *ctx, sqlite3_stmt *st, int64_t row);
int retain_each_row(struct query *q, const char *table, int64_t session, int64_t *at, int most,
	retain_row_fn *fn, void *ctx);
/* {"table":...,"row":{...}} and a newline; the first column is its number, and not among them. */
void retain_add_row(struct buf *b, const char *table, sqlite3_stmt *st);

/* ---- retain_trouble.c ---- */

/* Something is in the way of this pass: the first of them counts. */
void retain_note_trouble(struct retain *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The pass is over: what it met is said, unless it was. */
void retain_end_trouble(struct retain *r);

/* ---- retain_thread.c, for retain_pass.c ---- */

/* Hands the note to the core and waits until it is committed. False: we are to stop. */
bool retain_tell(struct retain *r);
bool retain_is_empty(const struct retain *r); /* there is nothing in the note */
/* The configuration is still that of this pass: who wants less deleted need not wait for its end. */
bool retain_rules_hold(struct retain *r);
/* One look at everything. */
void retain_pass(struct retain *r);
/* retain_pack.c: sessions into a day's file, then the note about them. How many were looked at, -1: not now.
 */
int retain_pack_group(struct retain *r, struct retain_candidate *from);
void retain_close_dir(struct retain *r);
/* The stored files of one. */
void retain_drop_artifacts(struct retain *r, const char *session_id);
/* Old days, and days that a crash left without anything that counts. False: we are to stop. */
bool retain_tidy_days(struct retain *r);
bool retain_expire_days(struct retain *r);

#endif
