/* SPDX-License-Identifier: MIT */
/* store.h: everything that survives a crash: SQLite, one writer, one transaction a turn.
 *
 * Verbs that change something (put, save, drop) append to the turn's batch and cannot fail; store_run runs
 * the batch as one transaction. If store_run fails, nothing has changed, the batch is kept, and store_run
 * may be called again. Verbs that read (find, load) see what was committed, not the batch. */
#ifndef HCPD_STORE_STORE_H
#define HCPD_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"
#include "store/session_row.h"

struct store;

/* A request for a human's decision. */
struct store_review {
	int64_t session;
	const char *session_id;
	const char *request_id, *state, *risk_level, *created_at, *expires_at, *artifact_hash;
	const char *artifact;
	size_t artifact_size;
};

/* A human's decision. */
struct store_decision {
	const char *request_id, *artifact_hash, *signer, *nonce;
	bool allow, is_final;
	const char *expires_at, *at;
	const char *reason; /* NULL: none was given */
	int64_t uid;        /* of the operator who passed it on */
	const char *text;   /* the signed text, unchanged */
	size_t text_size;
};

/* A session.snapshot that was put as an event. */
struct store_snapshot {
	int64_t session, event;
	const char *session_id, *snapshot_id, *snapshot_type, *created_at, *sha256;
};

struct store_event {
	int64_t id;             /* rowid: the order of all messages */
	int64_t session;        /* its key; 0: none */
	const char *session_id; /* NULL: none */
	int64_t caller;         /* key in callers */
	const char *type;       /* of the envelope */
	int64_t sequence;       /* 0: has none */
	const char *event_type; /* NULL: not an event */
	struct blob *body;      /* putting: a reference is taken */
	const char *bytes;      /* loading: the published text, the substitute where there is one */
	size_t size;
	/* outbox only, not stored: is not kept for a caller without a queue */
	bool is_transient;
};

struct store_checkpoint {
	int64_t session;
	const char *session_id;
	char checkpoint_id[ID_SIZE];
	const char *description;
	const char *step; /* JSON text or NULL */
	bool resumable;
	const char *created_at;
	const char *state; /* as it is stored (state_compress.h): JSON text, or bytes */
	size_t state_size;
	const char *encoding;      /* of the state; NULL: JSON text */
	int64_t base;              /* of a delta: row of the full checkpoint; 0: none */
	int64_t whole_size;        /* of the text; 0: the text is stored as it is */
	const char *trigger;       /* why it was made (checkpoint_request.h); NULL: not known */
	const char *state_version; /* of the state's own schema; NULL: the worker gave none */
	const char *sha256;        /* of the text's canonical form */
	const char *seal;          /* of the session's intent; NULL: none */
};

enum { STORE_CALLER_SIZE = 129 };
struct store_artifact {
	int64_t session;
	const char *session_id; /* only when putting */
	const char *name, *type;
	const char *path;   /* in the working directory */
	int64_t size_bytes; /* -1: announced, not stored yet ... */
	const char *sha256; /* ... and NULL then; only when loading */
};

/* The last row of the table `audit`, and the copy of it in meta: number and hash; 0 and "" where there is
 * none. */
struct store_audit_end {
	int64_t last, count;
	char last_hash[65], head[65];
	bool has_strays;      /* rows with numbers below 1, which the daemon never writes */
	bool lacked_triggers; /* at the opening; the store made them again */
};

/* of a session, and as many resumable ones; and the bases of their deltas */
enum { STORE_CHECKPOINTS_KEPT = 3 };

/* A checkpoint's row as it was read: nothing in it is trusted (checkpoint.h). A text is "" where the row has
 * none. */
enum { STORE_WORD_SIZE = 64 };
struct store_kept {
	int64_t row, session, base; /* base 0: no delta */
	int64_t whole_size;
	char checkpoint_id[ID_SIZE], encoding[16], sha256[65], seal[65], state_version[STORE_WORD_SIZE];
	char created_at[STORE_WORD_SIZE];
	bool resumable;
	struct buf description;
	struct buf step;  /* JSON text */
	struct buf state; /* as it is stored */
};
void store_kept_clear(struct store_kept *k); /* keeps the memory */
void store_kept_fini(struct store_kept *k);

/* ---- lifecycle ---- */

/* Opens, or makes, DIR/hcpd.db and brings its schema up to date. 0, or a sysexits code with a sentence. */
int store_open(const char *dir, struct store **out, char *why, size_t why_size)
	__attribute__((warn_unused_result));
void store_close(struct store *s);
/* The store's id, made once; a copy of the store has the same. The audit's chain begins with it. */
const char *store_instance(const struct store *s);
/* HCP_INSTANCE of the processes that this directory's daemon starts. Belongs to the directory on this
 * machine: a copy of the directory gets another one. */
const char *store_mark(const struct store *s);
/* The directory is not the one of the last start: a copy of it, or it was moved to another file system. */
bool store_is_copy(const struct store *s);
/* The greatest keys in use. */
int64_t store_last_session(const struct store *s);
int64_t store_last_event(const struct store *s);
int64_t store_last_caller(const struct store *s);

/* ---- the batch ---- */

void store_put_caller(struct store *s, int64_t key, const char *caller_id);
/* Drops a caller that has no message and no submit. */
void store_drop_caller(struct store *s, int64_t key);
/* The same caller is needed again, in the batch that may drop it. */
void store_keep_caller(struct store *s, int64_t key, const char *caller_id, int64_t confirmed);
void store_save_confirmed(struct store *s, int64_t caller, int64_t event);
void store_put_session(struct store *s, const struct store_session *row, const char *task, size_t task_size);
void store_save_session(struct store *s, const struct store_session *row); /* what can change of it */
void store_put_transition(struct store *s, const struct store_session *row, const char *from,
	const char *reason, const char *actor);
void store_put_event(struct store *s, const struct store_event *e);
void store_put_substitute(struct store *s, int64_t event, const char *body, size_t size);
void store_put_checkpoint(struct store *s, const struct store_checkpoint *c); /* prunes older ones */
/* replaces an earlier one of that name */
void store_put_artifact(struct store *s, const struct store_artifact *a, const char *at);
void store_save_artifact(
	struct store *s, int64_t session, const char *name, int64_t size_bytes, const char *sha256);
void store_drop_artifact(struct store *s, int64_t session, const char *name);
/* The record that a session leaves: what its worker reported, and what is known at the end. One row for each
 * session; lists are JSON. */
struct store_continuity {
	int64_t session;
	const char *session_id, *caller_id, *capability;
	const char *summary;                                 /* text */
	const char *decisions, *open_questions, *next_steps; /* JSON arrays */
	int64_t checkpoint_count;
	const char *completion; /* full, partial, aborted; NULL: the session has not ended */
	const char *closed_at;
};
/* replaces an earlier one */
void store_put_continuity(struct store *s, const struct store_continuity *k);
/* At the end: keeps what the worker reported, if it reported anything. */
void store_close_continuity(struct store *s, const struct store_continuity *k);
/* A label of the session's task; each name once. */
void store_put_label(struct store *s, int64_t session, const char *name, const char *value);
/* From here on no earlier checkpoint of the session is resumed from. */
void store_retire_checkpoints(struct store *s, int64_t session);
void store_put_outcome(struct store *s, int64_t session, const char *json, size_t size);
void store_drop_outcome(struct store *s, int64_t session);
void store_put_submit(struct store *s, int64_t caller, const char *message_id, const char *at,
	int64_t session, int64_t answer);
/* Accepts a waiting session: writes the columns that were not certain before. */
void store_accept_session(struct store *s, const struct store_session *row);
/* An undecided submit gets its answer. */
void store_save_answer(struct store *s, int64_t caller, const char *message_id, int64_t answer);
void store_put_review(struct store *s, const struct store_review *r);
void store_save_review(struct store *s, const char *request_id, const char *state, const char *at);
void store_put_decision(struct store *s, const struct store_decision *d);
void store_put_snapshot(struct store *s, const struct store_snapshot *n);
/* only those of ended sessions */
void store_drop_submits(struct store *s, int64_t after, int64_t upto, const char *before);
/* The submit that this event answered is as if it never came. */
void store_forget_submit(struct store *s, int64_t caller, const char *message_id, int64_t answer);
void store_put_unroutable(struct store *s, int64_t event, int64_t caller);
void store_drop_unroutable(struct store *s, int64_t event);
void store_put_audit(struct store *s, int64_t n, const char *entry, size_t size, const char *hash);
void store_save_audit_head(struct store *s, int64_t n, const char *hash);

/* Retention (retain/retain.h). A table belongs to sessions where it has a column `session`; decisions do
 * too. A table's number is its index here, the same for every connection to one store. */
enum { STORE_OWNED_MAX = 24, STORE_TABLE_SIZE = 32 };
struct store_owned {
	int count;
	char tables[STORE_OWNED_MAX][STORE_TABLE_SIZE];
};
/* The WHERE condition for a session's rows of such a table, with the session as ?1. */
const char *store_owned_where(const char *table);
/* replaces the day's row */
void store_put_archive(struct store *s, const char *day, int64_t size, int64_t sessions);
void store_drop_archive(struct store *s, const char *day);
/* Must come before a drop of a row that may have the greatest key: that key is not given out again. */
void store_keep_keys(struct store *s);
/* Removes an ended session's row; the rest of it may be dropped from here on. */
void store_leave_session(struct store *s, int64_t session, bool with_artifacts);
/* rowids up to `upto` */
void store_drop_rows(struct store *s, int table, int64_t session, int64_t upto);
/* the session's events up to `upto` no longer wait for a queue */
void store_drop_kept(struct store *s, int64_t session, int64_t upto);
void store_drop_leaving(struct store *s, int64_t session); /* after its last row and file */
void store_drop_answer(struct store *s, int64_t event);    /* an answer without a session; keeps the keys */
void store_vacuum(struct store *s); /* gives STORE_VACUUM_PAGES free pages back to the file system */
enum { STORE_VACUUM_PAGES = 32 };

bool store_has_batch(const struct store *s);
/* 0, or -1: the reason is in store_error, and is not logged yet. */
int store_run(struct store *s) __attribute__((warn_unused_result));
const char *store_error(const struct store *s);

/* ---- reading ---- */

/* The event that answered this submit; 0: it is undecided. The turn must end with store_run, also without a
 * batch: until then the log cannot begin anew. */
enum { STORE_UNSEEN = -1, STORE_UNREADABLE = -2 };
int64_t store_find_answer(struct store *s, int64_t caller, const char *message_id);
/* One row: 1 found, 0 there is none, -1 the store cannot be read. */
int store_find_session(struct store *s, const char *session_id, char state[16]);
/* As store_find_answer: the tasks of the workers that a turn starts are one transaction, which
 * store_end_reads ends. */
int store_load_task(struct store *s, int64_t session, struct buf *out);
void store_end_reads(struct store *s);
int store_find_audit_end(struct store *s, struct store_audit_end *out);
int store_load_outcome(struct store *s, int64_t session, struct buf *out);
/* The newest resumable checkpoint of a session before row `before`: its row, 0 there is none, -1. */
int64_t store_next_checkpoint(struct store *s, int64_t session, int64_t before);
/* The id of the newest resumable checkpoint that was ever put, whether its row is still there or not. */
int store_find_newest(struct store *s, int64_t session, char checkpoint_id[ID_SIZE]);
/* By its id, of any session: its row, 0 there is none, -1. */
int64_t store_find_checkpoint(struct store *s, const char *checkpoint_id);
int store_load_checkpoint(struct store *s, int64_t row, struct store_kept *out); /* clears *out first */
/* Is its state, or the one that it builds on, above `most` bytes, stored or as text? No state is loaded. 1,
 * 0, -1. */
int store_is_large_checkpoint(struct store *s, int64_t row, int64_t most) __attribute__((warn_unused_result));
/* Id, description and step of the newest checkpoint, resumable or not: 1, 0, -1. step: JSON text. */
int store_find_last_checkpoint(struct store *s, int64_t session, char checkpoint_id[ID_SIZE],
	struct buf *description, struct buf *step);
/* When the newest message of a session was made, as text: 1, 0, -1. */
int store_find_last_event_time(struct store *s, int64_t session, char at[STORE_WORD_SIZE])
	__attribute__((warn_unused_result));
#define STORE_CLASS_SIZE 4 /* T1 to T4 */

/* The owner of any session, by its key. */
struct store_owner {
	char session_id[ID_SIZE], caller_id[STORE_CALLER_SIZE], capability[129], state[16];
	char data_class[STORE_CLASS_SIZE];
};
int store_find_owner(struct store *s, int64_t session, struct store_owner *out);
/* The record of an ended session of that caller, as a JSON object, and the class of its data: 1, 0 there is
 * none, -1. */
int store_load_continuity(struct store *s, const char *session_id, const char *caller_id, struct buf *out,
	char data_class[STORE_CLASS_SIZE]);
/* Records of ended sessions of that caller and capability, with the same label `group` as this session (or
 * without one, like it), and with data of no higher class: the last `count` of the last 1000, newest first,
 * separated by commas, up to `most` bytes. 0, -1. */
int store_load_recent(struct store *s, int64_t session, const char *caller_id, const char *capability,
	int count, size_t most, struct buf *out) __attribute__((warn_unused_result));
/* A review by its request; -1, 0, 1. */
int store_load_review(
	struct store *s, const char *request_id, int64_t *session, char state[24], struct buf *artifact);
/* The undecided review of a session; the texts have room for a HARP id and a time. */
int store_find_open_review(
	struct store *s, int64_t session, char request_id[STORE_WORD_SIZE], char expires_at[STORE_WORD_SIZE]);
/* Has a human approved the session's task? -1, 0, 1. */
int store_find_approval(struct store *s, int64_t session);
int store_find_snapshot(
	struct store *s, int64_t session, const char *snapshot_id, char sha256[65], struct buf *created_at);
/* The newest HARP-SESSION event of a session that has the daemon's own time: a worker may give its snapshots
 * any date. */
int store_find_last_harp(struct store *s, int64_t session, struct buf *out);
int store_find_nonce(struct store *s, const char *nonce, const char *signer);
int store_find_caller(
	struct store *s, const char *caller_id, int64_t *key, int64_t *confirmed, int64_t *last_event);

typedef void store_caller_fn(void *ctx, int64_t key, const char *caller_id, int64_t confirmed,
	int64_t last_event, int64_t first_unroutable);
typedef void store_session_fn(void *ctx, const struct store_session *row);
typedef bool store_event_fn(void *ctx, const struct store_event *e); /* false: no more */
typedef void store_backlog_fn(void *ctx, int64_t session, int64_t bytes);
typedef void store_artifact_fn(void *ctx, const struct store_artifact *a);
typedef void store_vote_fn(void *ctx, const char *signer, const char *expires_at);

/* These return -1 where the store cannot be read. */
int store_load_callers(struct store *s, store_caller_fn *fn, void *ctx) __attribute__((warn_unused_result));
int store_load_live(struct store *s, store_session_fn *fn, void *ctx) __attribute__((warn_unused_result));
/* In the order of the announcements. */
int store_load_artifacts(struct store *s, int64_t session, store_artifact_fn *fn, void *ctx)
	__attribute__((warn_unused_result));
/* The signers who allowed it, where one is not enough. */
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
/* The messages of a session to its caller, from a sequence on; a message without a sequence comes at its
 * place. */
struct store_replay {
	int64_t session;
	char caller_id[STORE_CALLER_SIZE], state[16];
	int64_t first, last, count; /* rows; first and count are 0: there are none */
};
int store_find_replay(struct store *s, const char *session_id, int64_t from, struct store_replay *out);
int store_load_replay(struct store *s, int64_t session, int64_t after, int64_t upto, int limit,
	store_event_fn *fn, void *ctx) __attribute__((warn_unused_result));
/* The intermediate results among the session's last `rows` messages, newest first. */
int store_load_results(struct store *s, int64_t session, int rows, store_event_fn *fn, void *ctx)
	__attribute__((warn_unused_result));
int store_load_event(struct store *s, int64_t id, store_event_fn *fn, void *ctx)
	__attribute__((warn_unused_result));
/* Answers to submits that became no session, in the order of their ids: those after one, up to another. */
struct store_answer {
	int64_t id, caller;
	const char *caller_id;  /* NULL: there is no row of it */
	const char *message_id; /* of the submit; NULL: it had none */
	bool is_settled, is_unroutable;
	bool is_remembered; /* the submit would get this answer again */
};
typedef bool store_answer_fn(void *ctx, const struct store_answer *a); /* false: no more */
int store_load_answers(struct store *s, int64_t after, int64_t upto, int limit, store_answer_fn *fn,
	void *ctx) __attribute__((warn_unused_result));
int64_t store_count_answers(struct store *s); /* -1: unreadable */
/* Did the last read fail because the file is damaged? Then a retry does not help. */
bool store_is_damaged(const struct store *s);
/* Can the tables that a turn reads be read? */
bool store_is_readable(struct store *s);
int64_t store_last_submit(struct store *s);
/* Is there a submit that store_drop_submits would drop? */
bool store_has_old_submits(struct store *s, int64_t after, int64_t upto, const char *before);

#endif
