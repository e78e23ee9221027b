/* store.h: everything that survives a crash: SQLite, one writer, one transaction a turn.
 *
 * Verbs that change something (put, save, drop) append to the turn's batch and cannot fail; store_run
 * runs the batch as one transaction. Where that fails nothing has changed, the batch is kept, and
 * store_run may be called again. Verbs that read (find, load) see what was committed, not the batch. */
#ifndef HCPD_STORE_H
#define HCPD_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"

struct store;

/* A session's row. Texts are loans: the caller's while putting, the store's during a callback. */
struct store_session {
	int64_t key; /* rowid; 1, 2, 3 ... in order of acceptance */
	const char *session_id, *caller_id, *capability, *capability_version;
	const char *state;
	int64_t state_version;
	const char *risk_level, *data_classification, *priority;
	const char *session_token;
	const char *metadata; /* only when putting: memory has no need of it */
	const char *created_at, *updated_at;
	const char *started_at, *deadline; /* NULL before the first RUNNING */
	int64_t max_duration_us;
	int64_t attempt;
	const char *paused_by; /* crash, stop, worker, operator, retry; NULL while not PAUSED */
	int64_t steps;
	const char *step; /* the last one's name */
	int64_t checkpoints;
	const char *warnings; /* JSON array */
	int64_t tokens_in, tokens_out;
	double cost;
	int64_t sequence;                      /* the last one used; only when loading */
	const char *seal;                      /* of its intent; NULL: it is older than seals */
	const char *risk_events;               /* JSON array; not when putting */
	bool token_revoked;                    /* not when putting */
	int64_t deaths;                        /* of its worker; not when putting ... */
	const char *recover_as;                /* ... nor is this; NULL: as its capability says */
	bool harp;                             /* the world is told of it (tell.h) */
	const char *waits_for;                 /* human, program; NULL: it is accepted ... */
	const char *message_id;                /* ... and this may be NULL */
	const char *checkpoint_of, *continues; /* ended sessions that it needs until its own end; NULL:
						  nobody; not when saving */
};

/* What a human is asked. */
struct store_review {
	int64_t session;
	const char *session_id;
	const char *request_id, *state, *risk_level, *created_at, *expires_at, *artifact_hash;
	const char *artifact;
	size_t artifact_size;
};

/* What was answered. */
struct store_decision {
	const char *request_id, *artifact_hash, *signer, *nonce;
	bool allow, is_final;
	const char *expires_at, *at;
	const char *reason; /* NULL: none was given */
	int64_t uid;        /* of whoever brought it */
	const char *text;   /* as it came */
	size_t text_size;
};

/* Of a session.snapshot that was put as an event. */
struct store_snapshot {
	int64_t session, event;
	const char *session_id, *snapshot_id, *snapshot_type, *created_at, *sha256;
};

struct store_event {
	int64_t id;             /* rowid: the order of all that was ever said */
	int64_t session;        /* its key; 0: none */
	const char *session_id; /* NULL: none */
	int64_t caller;         /* key in callers */
	const char *type;       /* of the envelope */
	int64_t sequence;       /* 0: has none */
	const char *event_type; /* NULL: not an event */
	struct blob *body;      /* putting: a reference is taken */
	const char *bytes;      /* loading: what is published, the substitute where there is one */
	size_t size;
	bool is_fleeting; /* outbox: not worth keeping for a caller that has no queue; not stored */
};

struct store_checkpoint {
	int64_t session;
	const char *session_id;
	char checkpoint_id[ID_SIZE];
	const char *description;
	const char *step; /* JSON text or NULL */
	bool resumable;
	const char *created_at;
	const char *state; /* as it is stored (pack.h): JSON text, or bytes */
	size_t state_size;
	const char *encoding;      /* of that; NULL: JSON text */
	int64_t base;              /* a delta's: the row of the full one; 0: none */
	int64_t whole_size;        /* of the text; 0: it is stored as it is */
	const char *trigger;       /* what it was made for (trigger.h); NULL: not known */
	const char *state_version; /* of the state's own schema; NULL: the worker named none */
	const char *sha256;        /* of the text's canonical form */
	const char *seal;          /* of the session's intent; NULL: it has none */
};

enum { STORE_CALLER_SIZE = 129 };
struct store_artifact {
	int64_t session;
	const char *session_id; /* only when putting */
	const char *name, *type;
	const char *path;   /* in the working directory */
	int64_t size_bytes; /* -1: announced, and not in yet ... */
	const char *sha256; /* ... NULL then; only when loading */
};

/* The last row of the audit's table, and what meta says of it: number and hash; 0 and "" where there is none.
 */
struct store_audit_end {
	int64_t last, count;
	char last_hash[65], head[65];
	bool has_strays;      /* rows with numbers below 1, which none of ours has */
	bool lacked_triggers; /* at the opening; they were made again */
};

enum {
	STORE_CHECKPOINTS_KEPT = 3
}; /* of a session, and as many resumable ones; and what their deltas build on */

/* A checkpoint's row as it was found: nothing in it is to be trusted (checkpoint.h). Texts are "" where it
 * has none. */
enum { STORE_WORD_SIZE = 64 };
struct store_kept {
	int64_t row, session, base; /* base 0: it is whole */
	int64_t whole_size;
	char checkpoint_id[ID_SIZE], encoding[16], sha256[65], seal[65], state_version[STORE_WORD_SIZE];
	bool resumable;
	struct buf description;
	struct buf step;  /* JSON text */
	struct buf state; /* as it is stored */
};
void store_kept_clear(struct store_kept *k); /* keeps the memory */
void store_kept_fini(struct store_kept *k);

/* ---- life ---- */

/* Opens, or makes, DIR/hcpd.db and brings its schema up to date. 0, or a sysexits code with a sentence. */
int store_open(const char *dir, struct store **out, char *why, size_t why_size)
	__attribute__((warn_unused_result));
void store_close(struct store *s);
/* Made once for a state directory. */
const char *store_instance(const struct store *s);
/* The greatest keys in use. */
int64_t store_last_session(const struct store *s);
int64_t store_last_event(const struct store *s);
int64_t store_last_caller(const struct store *s);

/* ---- the batch ---- */

void store_put_caller(struct store *s, int64_t key, const char *caller_id);
void store_save_confirmed(struct store *s, int64_t caller, int64_t event);
void store_put_session(struct store *s, const struct store_session *row, const char *task, size_t task_size);
void store_save_session(struct store *s, const struct store_session *row); /* what can change of it */
void store_put_transition(struct store *s, const struct store_session *row, const char *from,
	const char *reason, const char *actor);
void store_put_event(struct store *s, const struct store_event *e);
void store_put_substitute(struct store *s, int64_t event, const char *body, size_t size);
void store_put_checkpoint(struct store *s, const struct store_checkpoint *c); /* prunes older ones */
void store_put_artifact(struct store *s, const struct store_artifact *a,
	const char *at); /* in place of an earlier of that name */
void store_save_artifact(
	struct store *s, int64_t session, const char *name, int64_t size_bytes, const char *sha256);
void store_drop_artifact(struct store *s, int64_t session, const char *name);
/* What a worker wants to be known after its session, and what is known at its end: row by session, the texts
 * JSON. */
struct store_continuity {
	int64_t session;
	const char *session_id, *caller_id, *capability;
	const char *summary;                                 /* text */
	const char *decisions, *open_questions, *next_steps; /* JSON arrays */
	int64_t checkpoint_count;
	const char *completion; /* full, partial, aborted; NULL: it has not ended */
	const char *closed_at;
};
void store_put_continuity(struct store *s, const struct store_continuity *k); /* in place of an earlier one */
/* The end: what its worker said stays, where it said anything. */
void store_close_continuity(struct store *s, const struct store_continuity *k);
/* No earlier checkpoint of the session is gone on from any more. */
void store_retire_checkpoints(struct store *s, int64_t session);
void store_put_outcome(struct store *s, int64_t session, const char *json, size_t size);
void store_drop_outcome(struct store *s, int64_t session);
void store_put_submit(struct store *s, int64_t caller, const char *message_id, const char *at,
	int64_t session, int64_t answer);
/* A waiting session is accepted: what was not yet certain of its row. */
void store_accept_session(struct store *s, const struct store_session *row);
/* A submit that was undecided has its answer. */
void store_save_answer(struct store *s, int64_t caller, const char *message_id, int64_t answer);
void store_put_review(struct store *s, const struct store_review *r);
void store_save_review(struct store *s, const char *request_id, const char *state, const char *at);
void store_put_decision(struct store *s, const struct store_decision *d);
void store_put_snapshot(struct store *s, const struct store_snapshot *n);
void store_drop_submits(
	struct store *s, int64_t after, int64_t upto, const char *before); /* of ended sessions */
void store_put_unroutable(struct store *s, int64_t event, int64_t caller);
void store_drop_unroutable(struct store *s, int64_t event);
void store_put_audit(struct store *s, int64_t n, const char *entry, size_t size, const char *hash);
void store_save_audit_head(struct store *s, int64_t n, const char *hash);

/* Retention (retain.h). A table is owned by sessions where it has a column `session`; so are their decisions.
 * Its number is its place in here, the same for every connection to one store. */
enum { STORE_OWNED_MAX = 24, STORE_TABLE_SIZE = 32 };
struct store_owned {
	int count;
	char tables[STORE_OWNED_MAX][STORE_TABLE_SIZE];
};
/* Of a session's row of such a table: what the WHERE of a statement says, with the session as ?1. */
const char *store_owned_where(const char *table);
void store_put_archive(
	struct store *s, const char *day, int64_t size, int64_t sessions); /* in place of what was */
void store_drop_archive(struct store *s, const char *day);
/* Before anything that may have the greatest key is dropped: it is not given out again. */
void store_keep_keys(struct store *s);
/* An ended session is no session of this store any more; what is left of it may be dropped. */
void store_leave_session(struct store *s, int64_t session, bool with_artifacts);
void store_drop_rows(struct store *s, int table, int64_t session, int64_t upto); /* rowids up to there */
void store_drop_kept(
	struct store *s, int64_t session, int64_t upto);   /* its events so far need no queue any more */
void store_drop_leaving(struct store *s, int64_t session); /* nothing is left of it */
void store_drop_answer(struct store *s, int64_t event);    /* one that belongs to no session */
void store_vacuum(struct store *s);                        /* gives STORE_VACUUM_PAGES free pages back */
enum { STORE_VACUUM_PAGES = 32 };

bool store_has_batch(const struct store *s);
/* 0, or -1 with the reason logged by nobody yet: store_error says it. */
int store_run(struct store *s) __attribute__((warn_unused_result));
const char *store_error(const struct store *s);

/* ---- reading ---- */

/* The event that answered this submit, 0 where it is undecided. */
enum { STORE_UNSEEN = -1, STORE_UNREADABLE = -2 };
int64_t store_find_answer(struct store *s, int64_t caller, const char *message_id);
/* One row: 1 found, 0 there is none, -1 the store cannot be read. */
int store_find_session(struct store *s, const char *session_id, char state[16]);
int store_load_task(struct store *s, int64_t session, struct buf *out);
int store_find_audit_end(struct store *s, struct store_audit_end *out);
int store_load_outcome(struct store *s, int64_t session, struct buf *out);
/* The newest resumable checkpoint of a session whose row stands before another: its row, 0 there is none, -1.
 */
int64_t store_next_checkpoint(struct store *s, int64_t session, int64_t before);
/* The id of the newest resumable one that was ever put, whether it is still there or not. */
int store_find_newest(struct store *s, int64_t session, char checkpoint_id[ID_SIZE]);
/* By its id, of whichever session: its row, 0 there is none, -1. */
int64_t store_find_checkpoint(struct store *s, const char *checkpoint_id);
int store_load_checkpoint(struct store *s, int64_t row, struct store_kept *out); /* cleared before */
/* The newest checkpoint, resumable or not, in words: -1, 0, 1. step: JSON text. */
int store_find_last_checkpoint(struct store *s, int64_t session, char checkpoint_id[ID_SIZE],
	struct buf *description, struct buf *step);
/* Of any session, by its key. */
struct store_owner {
	char session_id[ID_SIZE], caller_id[STORE_CALLER_SIZE], capability[129], state[16];
};
int store_find_owner(struct store *s, int64_t session, struct store_owner *out);
/* The record of an ended session of that caller, as a JSON object; 0 there is none, -1. */
int store_load_continuity(struct store *s, const char *session_id, const char *caller_id, struct buf *out);
/* A review by its request; -1, 0, 1. */
int store_load_review(
	struct store *s, const char *request_id, int64_t *session, char state[24], struct buf *artifact);
/* The undecided one of a session; the texts have room for a HARP id and a time. */
int store_find_open_review(
	struct store *s, int64_t session, char request_id[STORE_WORD_SIZE], char expires_at[STORE_WORD_SIZE]);
int store_find_snapshot(
	struct store *s, int64_t session, const char *snapshot_id, char sha256[65], struct buf *created_at);
/* The newest HARP-SESSION event of a session whose time is ours: a worker may date its own snapshots as it
 * likes. */
int store_find_told(struct store *s, int64_t session, struct buf *out);
int store_find_nonce(struct store *s, const char *nonce, const char *signer);
int store_find_caller(
	struct store *s, const char *caller_id, int64_t *key, int64_t *confirmed, int64_t *last_event);

typedef void store_caller_fn(void *ctx, int64_t key, const char *caller_id, int64_t confirmed,
	int64_t last_event, int64_t first_unroutable);
typedef void store_session_fn(void *ctx, const struct store_session *row);
typedef bool store_event_fn(void *ctx, const struct store_event *e); /* false: enough */
typedef void store_backlog_fn(void *ctx, int64_t session, int64_t bytes);
typedef void store_artifact_fn(void *ctx, const struct store_artifact *a);
typedef void store_vote_fn(void *ctx, const char *signer, const char *expires_at);

/* These return -1 where the store cannot be read. */
int store_load_callers(struct store *s, store_caller_fn *fn, void *ctx) __attribute__((warn_unused_result));
int store_load_live(struct store *s, store_session_fn *fn, void *ctx) __attribute__((warn_unused_result));
/* In the order of their announcements. */
int store_load_artifacts(struct store *s, int64_t session, store_artifact_fn *fn, void *ctx)
	__attribute__((warn_unused_result));
/* Those who allowed it, where one is not enough. */
int store_load_votes(struct store *s, const char *request_id, store_vote_fn *fn, void *ctx)
	__attribute__((warn_unused_result));
/* Unconfirmed, routable bytes of each session of a caller. */
int store_load_backlog(struct store *s, int64_t caller, int64_t after, store_backlog_fn *fn, void *ctx)
	__attribute__((warn_unused_result));
/* A caller's messages after one, oldest first. */
int store_load_events(struct store *s, int64_t caller, int64_t after, int limit, store_event_fn *fn,
	void *ctx) __attribute__((warn_unused_result));
int store_load_unroutable(struct store *s, int64_t caller, int64_t after, int limit, store_event_fn *fn,
	void *ctx) __attribute__((warn_unused_result));
/* What a session ever said to its caller, from a sequence on; what has none comes at its place. */
struct store_replay {
	int64_t session;
	char caller_id[STORE_CALLER_SIZE], state[16];
	int64_t first, last, count; /* rows; first and count are 0 where there are none */
};
int store_find_replay(struct store *s, const char *session_id, int64_t from, struct store_replay *out);
int store_load_replay(struct store *s, int64_t session, int64_t after, int64_t upto, int limit,
	store_event_fn *fn, void *ctx) __attribute__((warn_unused_result));
/* Its intermediate results among its last `rows` messages, newest first. */
int store_load_results(struct store *s, int64_t session, int rows, store_event_fn *fn, void *ctx)
	__attribute__((warn_unused_result));
int store_load_event(struct store *s, int64_t id, store_event_fn *fn, void *ctx)
	__attribute__((warn_unused_result));
/* Was the last read refused because the file is damaged? Then trying again does not help. */
bool store_is_damaged(const struct store *s);
/* Can the tables that a turn looks into be read? */
bool store_is_readable(struct store *s);
int64_t store_last_submit(struct store *s);
/* Is there any that store_drop_submits would drop? */
bool store_has_old_submits(struct store *s, int64_t after, int64_t upto, const char *before);

#endif
