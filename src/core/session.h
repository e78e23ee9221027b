/* session.h: a task's life: its state, its stream of events, its end. The only place that changes a state. */
#ifndef HCPD_SESSION_H
#define HCPD_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uthash.h>

#include "json/canonical.h"
#include "protocol/message.h"
#include "policy/gate.h"
#include "store/store.h"
#include "base/timer.h"
#include "protocol/token.h"
#include "core/running/checkpoint_request.h"

struct core;
struct expectation;
struct host;
struct lane;
struct migration;
struct refusals;

enum sstate {
	S_PENDING,
	S_REJECTED,
	S_RUNNING,
	S_PAUSED,
	S_ABORTING,
	S_ABORTED,
	S_COMPLETED,
	S_FAILED,
	S_COUNT
};

extern const char *const sstate_names[S_COUNT];
extern const char *const recovery_names[RECOVERY_COUNT];
bool session_may(enum sstate from, enum sstate to); /* is the transition legal? */
bool session_is_over(enum sstate s);
int sstate_parse(const char *name); /* -1: no state */

/* PENDING and undecided: nothing is said of it to its caller before it is accepted. */
enum waits_for { WAITS_NOT, WAITS_FOR_HUMAN, WAITS_FOR_PROGRAM, WAITS_COUNT };

/* PAUSED_NOT while it is PAUSED: nobody holds it, it waits for a slot. */
enum paused_by {
	PAUSED_NOT,
	PAUSED_BY_CRASH,
	PAUSED_BY_STOP,
	PAUSED_BY_WORKER,
	PAUSED_BY_OPERATOR,
	PAUSED_BY_RETRY,
	PAUSED_COUNT
};

enum asked { ASKED_NOTHING, ASKED_PAUSE, ASKED_RESUME };

/* How it will end: decided by the first cause, committed, then carried out once its processes are gone. */
struct outcome {
	enum sstate state; /* COMPLETED, FAILED or ABORTED; S_COUNT: undecided */
	char reason[32];
	const char *actor;
	char *payload; /* of task_completed or task_failed, without its closing brace; NULL for ABORTED */
	size_t payload_size;
	bool stored; /* it was committed apart from the end */
};

/* The last full checkpoint that was made in this life, on which deltas build (report_checkpoint.c). */
struct checkpoint_base {
	char id[ID_SIZE];           /* "": none yet */
	char hash[CANON_HASH_SIZE]; /* of its bytes */
	int deltas;                 /* that build on it */
	char last_id[ID_SIZE];      /* the last checkpoint of all, in this life */
};

struct session {
	UT_hash_handle by_id, by_key;
	struct core *core;
	/* what is kept in the store */
	int64_t key;
	char id[ID_SIZE];
	char caller_id[CALLER_ID_SIZE];
	struct addressee *to; /* pinned */
	char *capability, *capability_version;
	enum sstate state;
	enum waits_for waits_for;
	char *message_id; /* of its submit; NULL: it was accepted at once */
	int64_t state_version, sequence;
	enum risk risk;
	enum data_class data_class;
	enum priority priority;
	char *token;
	bool token_revoked;
	char seal[CANON_HASH_SIZE];      /* of its intent (seal.h); "": it is older than seals */
	char task_hash[CANON_HASH_SIZE]; /* of the task's bytes, as they were accepted; "": of an earlier
					    life, and not looked at yet */
	int64_t created_us, updated_us, started_us, deadline_us; /* wall clock; 0: not yet */
	int64_t max_duration_us, attempt;
	enum paused_by paused_by;
	int64_t deaths;           /* of its worker; attempt.c */
	enum recovery recover_as; /* while PAUSED: an operator's choice; RECOVERY_COUNT: the capability's */
	int64_t steps, checkpoints;
	char *step;
	struct buf warnings; /* JSON texts, comma between; see session_warn */
	unsigned warning_count;
	struct buf risk_events; /* the same, of what its worker did at the limits; see session_risk_event */
	unsigned risk_event_count;
	int64_t tokens_in, tokens_out;
	double cost;
	char last_checkpoint[ID_SIZE];
	int64_t answer; /* the event that said task_accepted; 0 in a later life */
	bool harp;      /* its capability had harp = yes when it was made */
	char checkpoint_of[ID_SIZE],
		continues[ID_SIZE]; /* ended sessions that it needs (need.h) for these; "": nobody */
	/* what lives only in memory */
	struct outcome outcome;
	struct consult *consult;      /* consult.c: a verdict that waits for the store; NULL: none */
	struct tell *tell;            /* tell.c: NULL: the world is not told of it */
	struct review *review;        /* review.c: what a human was asked last in this life; NULL: nothing */
	struct policy *policy;        /* while it runs: what it was started under ... */
	const struct capability *cap; /* ... and its capability there */
	struct host *host;            /* its process; NULL: none */
	struct artifacts *artifacts;  /* artifact.c: what it announced; NULL: nothing */
	struct expectation *expect;   /* of its outputs; NULL before its first start */
	struct refusals *refusals;    /* action.c: what this attempt may not announce again; NULL: nothing */
	struct lane *lane;            /* where its slot is counted */
	bool has_slot, is_waiting, is_fresh; /* fresh: accepted in this turn */
	struct session *lane_prev, *lane_next;
	bool is_dirty, is_closed;
	bool is_unread; /* its pipes are left alone: too much waits in the outbox */
	struct session *dirty_next, *closed_next;
	struct timer deadline, idle;
	struct timer again;         /* its start, where the disk was full */
	struct timer retry;         /* attempt.c: its next attempt */
	struct timer grace;         /* PAUSED for too long */
	int64_t retry_us;           /* the back-off before its last attempt; 0: none yet in this life */
	int64_t checkpoints_before; /* when this attempt began */
	struct migration
		*migration;    /* migrate.c: a program that brings its state to another version; NULL: none */
	bool from_checkpoint;  /* its next start gets its own latest one */
	bool is_saved;         /* its latest checkpoint has all that its worker said it did */
	struct timer mute;     /* its stdout ended: a word about it, unless it was its death */
	int64_t active_us;     /* boot clock: the worker last said something */
	int64_t waiting_bytes; /* stored and not yet confirmed */
	bool said_unroutable, stop_asked, stdout_closed;
	bool is_leaving;    /* its process ends, and it does not: PAUSED once that is gone */
	enum asked asked;   /* what an operator had its worker told last: a pause or a resume; operate.c */
	unsigned words_due; /* of those that were told, one after the other in turn: not answered yet */
	int64_t asked_us;   /* boot clock */
	struct trigger trigger; /* what checkpoints it is asked for */
	struct checkpoint_base base;
	int exit_status;            /* a wait(2) status, -1: not yet */
	int64_t bad_lines_since_us; /* window of the rate limit ... */
	unsigned bad_lines;         /* ... and what it holds */
	struct buf text_output, stderr_tail;
	bool text_cut;
};

/* Names of the envelope's types. */
#define TYPE_EVENT "event"
#define TYPE_ACCEPTED "task_accepted"
#define TYPE_REJECTED "task_rejected"
#define TYPE_COMPLETED "task_completed"
#define TYPE_FAILED "task_failed"

/* ---- beginning ---- */

/* Accepts a task: the session, PENDING, with task_accepted and session_created. */
struct session *session_new(
	struct core *c, const struct command *cmd, const struct verdict *v, struct addressee *to);
/* The task is undecided: the session, PENDING, of which nothing is said yet. */
struct session *session_ask(struct core *c, const struct command *cmd, const struct verdict *v,
	struct addressee *to, enum waits_for whom, const char *id);
/* The one that waits, waits for a human from now on. */
void session_hand_over(struct session *s, const struct verdict *v);
/* The one that waited is accepted, as this verdict says: task_accepted and session_created. */
void session_accept(struct session *s, const struct verdict *v);
/* The one that waited is REJECTED, and over; its answer is task_rejected, an event that the caller of this
 * has put. */
void session_reject(struct session *s, const char *reason, const char *actor, int64_t answer);
/* From a row of an earlier life. It can say nothing before it has an addressee. */
struct session *session_load(struct core *c, const struct store_session *row);
void session_free(struct session *s);
void session_address(struct session *s, struct addressee *to);
struct session *session_find(struct core *c, const char *id);
struct session *session_find_key(struct core *c, int64_t key);

/* Is it this session's token? Every command that carries one asks here. now_us 0: expiry does not count (an
 * abort). */
enum token_fault session_check_token(const struct session *s, const char *token, int64_t now_us);

/* Is the stored task the one that was accepted? NULL, or what is wrong. What was accepted in this life, or
 * held against its token in it, memory knows: that is much quicker than the token. */
const char *session_find_change(struct session *s, struct buf *task);

/* ---- the stream ---- */

/* Gives the event its sequence and stores it. False where it would be over the message limit: then nothing
 * happened but a warning event. */
bool session_event(struct session *s, const char *event_type, const char *data, size_t size);
/* A warning event of the daemon's own; its text also goes into the summary. */
void session_warn(struct session *s, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void session_note_warning(struct session *s, const char *text);
/* A warning event about the safety envelope; its text goes into the summary's risk_events. */
void session_risk_event(struct session *s, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- states ---- */

/* One legal step: row, event, version. An illegal one is logged and changes nothing: false. */
bool session_go(struct session *s, enum sstate to, const char *reason, const char *actor);
/* First RUNNING: the clock of max_duration starts. Later ones keep their deadline. */
bool session_run(struct session *s, const char *reason, const char *actor);
void session_mark_dirty(struct session *s);

/* ---- the end ---- */

bool session_has_outcome(const struct session *s);
/* The first one wins; false for any later. The payload is a JSON object's text. */
bool session_decide(struct session *s, enum sstate state, const char *reason, const char *actor,
	const char *payload, size_t size);
/* Decides FAILED. details: members of error_details of its own, as JSON text without braces, or NULL. */
bool session_fail(struct session *s, const char *reason, const char *error_code, const char *actor,
	const char *details, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* Its processes are gone: over legal steps to the decided state, and closed; later, where artifacts are still
 * to be stored. */
void session_finish(struct session *s);
/* Writes phase, step, last_checkpoint and recoverable, as members. */
void session_add_details(const struct session *s, struct buf *b, const char *phase);

/* ---- end of the turn ---- */

void sessions_save_dirty(struct core *c);    /* before the commit */
void sessions_sweep(struct session *closed); /* after it: frees a list of closed ones */
/* The whole decided outcome as stored JSON, and back. */
void session_save_outcome(struct session *s);
int session_load_outcome(struct session *s) __attribute__((warn_unused_result)); /* -1: unreadable */

#endif
