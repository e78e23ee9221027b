/* SPDX-License-Identifier: MIT */
/* session.h: a session: its state, its stream of events, its end. session.c has the state machine and the
 * stream, session_new.c the beginning, session_end.c the end. A state changes only through
 * session_transition. */
#ifndef HCPD_CORE_SESSION_H
#define HCPD_CORE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uthash.h>

#include "json/canonical.h"
#include "protocol/message.h"
#include "protocol/names.h"
#include "policy/gate.h"
#include "store/store.h"
#include "base/timer.h"
#include "protocol/token.h"
#include "core/running/checkpoint_request.h"

struct core;
struct output_check;
struct runner;
struct slot_queue;
struct slot_group;
struct migration;
struct held_actions;
struct restore;
struct checkpoint;
struct refusals;

bool session_may(enum sstate from, enum sstate to); /* is this transition legal? */
bool session_is_over(enum sstate s);

/* Whose decision a PENDING session waits for. Its caller hears nothing before the task is accepted. */
enum waits_for { WAITS_NOT, WAITS_FOR_HUMAN, WAITS_FOR_PROGRAM, WAITS_COUNT };

/* Who holds a PAUSED session. PAUSED_FOR_SLOT in state PAUSED: the session waits for a slot. */
enum paused_by {
	PAUSED_FOR_SLOT,
	PAUSED_BY_CRASH,
	PAUSED_BY_STOP,
	PAUSED_BY_WORKER,
	PAUSED_BY_OPERATOR,
	PAUSED_BY_RETRY,
	PAUSED_BY_IDLE, /* until its worker's next event, or an operator's resume */
	PAUSED_COUNT
};

enum pause_request { REQUEST_NONE, REQUEST_PAUSE, REQUEST_RESUME };

/* How the session will end: the first cause decides. See the drawing at "the end". */
struct outcome {
	enum sstate state; /* COMPLETED, FAILED or ABORTED; S_NONE: not decided */
	char reason[32];
	const char *actor;
	/* of task_completed or task_failed, without the closing brace; NULL for ABORTED */
	char *payload;
	size_t payload_size;
	bool stored; /* it is in the store, since the end takes more than this turn */
};

/* The last full checkpoint of this run of the daemon, which deltas build on (checkpoint_store.c). */
struct checkpoint_base {
	char id[ID_SIZE];               /* "": none yet */
	char hash[CANONICAL_HASH_SIZE]; /* of the bytes that are stored of it */
	size_t size;                    /* of its text */
	int deltas; /* number of checkpoints since: deltas that build on it, and small ones beside it */
	char last_id[ID_SIZE]; /* the last checkpoint of this run, full or not */
	size_t last_size;      /* of its text or of what it builds on, whichever is larger */
};

/* A group names the file that gives its fields their meaning. Look for the writers of a field (grep) before
 * you write it elsewhere. */
struct session {
	UT_hash_handle by_id, by_key;
	struct core *core;
	int64_t key;
	char id[ID_SIZE];
	char caller_id[CALLER_ID_SIZE];
	char *capability, *capability_version;
	enum sstate state;
	int64_t state_version, sequence;
	enum risk risk;
	enum data_class data_class;
	enum priority priority;
	char *token;
	bool token_revoked;
	struct { /* in the store, like all fields above except the handles */
		int64_t created_us, updated_us, started_us, deadline_us; /* wall clock; 0: not yet */
		int64_t max_duration_us;
		/* not in the store: when it last stopped working (wall clock), and for how long that was */
		int64_t rest_began_us, rested_us;
	} times;
	struct {                                /* protocol/intent_seal.h */
		char seal[CANONICAL_HASH_SIZE]; /* of the intent; "": an old session without */
		/* of the accepted task; "": of a previous run, and not verified yet */
		char task_hash[CANONICAL_HASH_SIZE];
	} intent;
	struct { /* admission/: the decision about the task */
		enum waits_for waits_for;
		char *message_id; /* of the submit; NULL: the task was accepted at once */
		int64_t answer;   /* the event of task_accepted; 0 in a later run of the daemon */
		struct policy_wait *policy_wait; /* an answer that waits for the store; NULL: none */
		struct approval *approval;       /* the last question to a human in this run; NULL: none */
	} admission;
	struct { /* what execution_summary says; in the store */
		int64_t steps, checkpoints;
		char *step;
		struct buf warnings; /* JSON texts, comma between; see session_warn */
		unsigned warning_count;
		struct buf risk_events; /* the same: what the worker did at the limits of its envelope */
		unsigned risk_event_count;
		int64_t tokens_in, tokens_out;
		double cost;
	} summary;
	struct { /* operator/pause.c, running/run.c */
		enum paused_by by;
		enum recovery recover_as;   /* an operator's choice; RECOVERY_NONE: the capability decides */
		enum pause_request request; /* the last request of an operator that was sent to the worker */
		unsigned replies_pending;   /* requests that the worker has not answered */
		int64_t requested_us;       /* boot clock */
		struct timer grace;         /* pause_grace is over */
	} pause;
	struct { /* running/worker_retry.c */
		int64_t number, deaths;
		struct timer timer;         /* starts the next attempt */
		int64_t delay_us;           /* back-off before the last attempt; 0: none yet in this run */
		int64_t checkpoints_before; /* number of checkpoints when this attempt began */
	} attempts;
	struct {            /* running/harp_events.c */
		bool is_on; /* published: its capability had harp = yes, or its caller asked */
		struct harp_events *events; /* NULL: the session is not published */
	} harp_session;
	struct { /* pins.h: ended sessions that this one needs; "": none */
		char checkpoint_of[ID_SIZE], continues[ID_SIZE];
	} pins;
	struct { /* running/checkpoint_request.c, checkpoint_store.c */
		char last_id[ID_SIZE];
		struct checkpoint_request request;
		struct checkpoint_base base;
		struct restore *restore;     /* recovery/restore.c: a state on its way; NULL: none */
		struct checkpoint *restored; /* it is here, for the start line; NULL: not */
		bool is_unfit;               /* that one does not fit the state_schema */
		bool is_used;                /* the next start gets the session's own latest checkpoint */
		bool is_saved;               /* the latest checkpoint has all work that the worker reported */
	} checkpoint;
	struct {                              /* outbox/ */
		struct outbox_caller *caller; /* pinned */
		int64_t waiting_bytes;        /* bytes stored and not yet confirmed */
		bool said_unroutable;
	} outbox;
	struct {                          /* slots.c */
		struct slot_queue *queue; /* the queue of the session's capability */
		struct slot_group *group; /* where it waits */
		bool is_taken, is_waiting;
		bool is_fresh; /* accepted in this turn */
		struct session *prev, *next;
	} slot;
	struct { /* turn.c */
		bool is_dirty, is_closed;
		struct session *dirty_next, *closed_next;
	} turn;
	struct outcome outcome;                    /* session_end.c */
	struct {                                   /* running/: the session's process */
		struct policy *policy;             /* the policy that it was started under ... */
		const struct capability *cap;      /* ... and the capability in that policy */
		struct runner *runner;             /* NULL: no process */
		struct artifacts *artifacts;       /* files that it announced; NULL: none */
		struct output_check *output_check; /* NULL before the first start */
		struct refusals *refusals;         /* actions that were refused in this attempt; NULL: none */
		struct held_actions *held_actions; /* that wait for a checkpoint; NULL: none */
		struct migration *migration; /* a program that migrates the session's state; NULL: none */
		struct timer deadline, idle;
		struct timer start_retry; /* tries the start again after a shortage, or in the next turn */
		struct timer mute;        /* stdout ended: a warning is due, unless the worker died */
		int64_t heard_us;         /* boot clock: the last line of the worker ... */
		int64_t active_us; /* ... and the last one that made an event: idle_timeout counts from it */
		bool has_large_line; /* a line is read on another thread (large_line.c) */
		bool is_unread;      /* its pipes are not read: too much waits in the outbox */
		bool stop_requested, stdout_closed;
		/* Its working directory. Unknown: an earlier run, or an earlier attempt, may have made one.
		 */
		enum { DIRECTORY_UNKNOWN, DIRECTORY_NONE, DIRECTORY_MADE } directory;
		bool is_exiting;            /* the process ends and the session does not: it is PAUSED then */
		int exit_status;            /* a wait(2) status, -1: not yet */
		int64_t bad_lines_since_us; /* window of the limit on warnings ... */
		unsigned bad_lines;         /* ... and the number of bad lines in it */
		struct buf text_output, stderr_tail;
		bool text_cut;
	} run;
};

/* Names of the envelope's types. */
#define TYPE_EVENT "event"
#define TYPE_ACCEPTED "task_accepted"
#define TYPE_REJECTED "task_rejected"
#define TYPE_COMPLETED "task_completed"
#define TYPE_FAILED "task_failed"

/* ---- beginning ---- */

/* An id for the next session: a UUID, version 4. Its first eight digits count up, from a start of the store's
 * own: so no two sessions have the short id of the log, and the index by id grows at its right end, where
 * random ids cost a page of their own in each commit. The other 90 bits are random. */
void session_make_id(const struct core *c, char id[ID_SIZE]);
/* Accepts a task: makes the session, PENDING, with task_accepted and session_created. */
struct session *session_new(
	struct core *c, const struct command *cmd, const struct gate_result *v, struct outbox_caller *to);
/* Makes a PENDING session for a task that waits for a decision. Its caller hears nothing yet. */
struct session *session_new_undecided(struct core *c, const struct command *cmd, const struct gate_result *v,
	struct outbox_caller *to, enum waits_for whom, const char *id);
/* A session that waited for the policy program waits for a human from now on. */
void session_wait_for_human(struct session *s, const struct gate_result *v);
/* Accepts a session that waited, as the gate's result says: task_accepted and session_created. */
void session_accept(struct session *s, const struct gate_result *v);
/* Rejects a session that waited: REJECTED, and closed. answer: the event of task_rejected, which the caller
 * of this function has put. */
void session_reject(struct session *s, const char *reason, const char *actor, int64_t answer);
/* Makes a session from a row of a previous run. It cannot publish before session_set_caller. */
struct session *session_load(struct core *c, const struct store_session *row);
void session_free(struct session *s);
void session_set_caller(struct session *s, struct outbox_caller *to);
struct session *session_find(struct core *c, const char *id);
struct session *session_find_key(struct core *c, int64_t key);

/* Is this the session's token? Every command with a token is checked here. now_us 0: expiry does not count
 * (an abort). */
enum token_fault session_check_token(const struct session *s, const char *token, int64_t now_us);

/* Is the stored task the one that was accepted? NULL, or what is wrong. The first check in a run is against
 * the token; later ones compare with a hash in memory, which is much faster. */
const char *session_verify_task(struct session *s, struct buf *task);

/* ---- the stream ---- */

/* Gives the event its sequence number and stores it. False: the event is over the message limit; only a
 * warning event was stored. */
bool session_event(struct session *s, const char *event_type, const char *data, size_t size);
/* The same in two steps, for data that is composed where it stands in the message: the caller adds the data
 * to the buffer between them, and calls nothing else that makes a message. */
struct buf *session_begin_event(struct session *s, const char *event_type);
bool session_end_event(struct session *s, const char *event_type);
/* A warning event of the daemon; its text also goes into the summary. */
void session_warn(struct session *s, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same, with details: JSON text. */
void session_warn_details(struct session *s, const char *code, const char *text, const char *details);
void session_record_warning(struct session *s, const char *text);
/* A warning event about the safety envelope; its text goes into the summary's risk_events. */
void session_risk_event(struct session *s, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- states ---- */

/* Makes one legal transition: row, event, version. False: the transition is illegal; it was logged, and
 * nothing changed. */
bool session_transition(struct session *s, enum sstate to, const char *reason, const char *actor);
/* A transition to RUNNING. The first one starts the clock of max_duration; later ones keep the deadline. */
bool session_run(struct session *s, const char *reason, const char *actor);
void session_mark_dirty(struct session *s);

/* ---- the end ----
 *
 * A session ends in five steps. Its first cause decides the outcome; later causes change nothing.
 *
 *     the worker's last line, a death, a limit, an abort, recovery
 *        |
 *        v
 *     outcome   session_set_outcome, session_fail: final state, reason, payload of the result
 *        |
 *        v
 *     stop      run_stop_or_finish, run_abort
 *        |
 *        |--->  a process runs: the commit stores the outcome; then stdin closes, SIGTERM, SIGKILL;
 *        |      all processes are gone: on_gone in run.c (of a migration: conclude in migrate.c)
 *        |<---
 *        v
 *     finish    session_finish
 *        |
 *        |--->  files are not stored yet: artifacts.c stores the files, or gives up after
 *        |      artifact_timeout, and calls session_finish again
 *        |
 *        |      transitions to the final state; task_completed or task_failed; session_closed
 *        v
 *     close     session_close: gives up the slot, joins turn.closed  <---  session_reject (no outcome)
 *        |
 *        |      the commit makes the end true
 *        v
 *     free      sessions_sweep: deletes the working directory; session_free
 *
 * A crash before the outcome is stored: the session was RUNNING, and recovery decides what becomes of it. A
 * crash after that: recovery reads the outcome (session_load_outcome) and enters at finish. */

bool session_has_outcome(const struct session *s);
/* The first outcome counts; false for any later one. payload: the text of a JSON object. */
bool session_set_outcome(struct session *s, enum sstate state, const char *reason, const char *actor,
	const char *payload, size_t size);
/* Decides FAILED. details: more members of error_details, as JSON text without braces, or NULL. */
bool session_fail(struct session *s, const char *reason, const char *error_code, const char *actor,
	const char *details, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* Needs an outcome and no process. Makes the legal transitions to the final state and closes the session;
 * where files are still to be stored, artifacts.c calls it again later. */
void session_finish(struct session *s);
/* Adds the members phase, step, last_checkpoint and recoverable. */
void session_add_details(const struct session *s, struct buf *b, const char *phase);

/* ---- end of the turn ---- */

void sessions_save_dirty(struct core *c);    /* before the commit */
void sessions_sweep(struct session *closed); /* after the commit: frees a list of closed sessions */
/* The outcome as stored JSON, and back. */
void session_save_outcome(struct session *s);
int session_load_outcome(struct session *s) __attribute__((warn_unused_result)); /* -1: unreadable */

#endif
