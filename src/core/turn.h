/* SPDX-License-Identifier: MIT */
/* turn.h: the core: all state of the core's thread, and the functions that the main loop calls. Only that
 * thread touches these fields, so there are no locks. */
#ifndef HCPD_CORE_TURN_H
#define HCPD_CORE_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/audit.h"
#include "bus/bus.h"
#include "core/effect.h"
#include "policy/policy.h"
#include "outbox/outbox.h"
#include "core/session.h"
#include "core/slots.h"
#include "store/store.h"
#include "base/slice.h"
#include "base/timer.h"
#include "protocol/token.h"
#include "process/worker.h"

/* Retention stands above the core in src/LAYERS; hcpd/main.c connects the two. */
enum { RETENTION_TROUBLE_SIZE = 512 };
struct retain;
struct retention_ops {
	/* After a commit: finishes what the commit stored, and puts the next order into the batch. True: it
	 * put one. */
	bool (*step)(struct retain *r);
	/* Why sessions cannot leave the store, in one line, and since when on the boot clock. False: no
	 * trouble. */
	bool (*get_trouble)(struct retain *r, char out[RETENTION_TROUBLE_SIZE], int64_t *since_us);
};

struct core_stats {
	uint64_t submits, duplicates, rejected, dropped, aborts, late_lines, unroutable;
};

enum { TURN_ENDS = 8 };

/* A group names the file that gives its fields their meaning. Look for the writers of a field (grep) before
 * you write it elsewhere. */
struct core {
	const char *config_path;
	struct policy *policy;       /* the policy in force */
	struct policy *first_policy; /* the policy at start; the connections use its settings until the end */
	const char *state_dir;
	struct store *store;
	struct outbox *outbox;
	struct { /* turn.c: keys of the last sessions of whose unroutable messages the log told */
		int64_t said[64];
		unsigned next;
	} unroutable;
	struct bus *bus;
	struct workers *workers;
	struct jobs *jobs;  /* threads for large states; NULL: none, the core's own thread does it */
	size_t large_bytes; /* lines and states above this are large */
	struct timers timers;
	struct token_keys keys;
	struct session *by_id, *by_key; /* all sessions that are not over */
	int64_t last_session;
	uint32_t first_id; /* where the session ids of this store begin to count (session_make_id) */
	struct pin *pins;  /* pins.c: ended sessions that are needed, or are leaving */
	struct slots slots;
	struct rates rates; /* of the callers, by their ids */
	struct audit audit;
	struct policy_program *program; /* never NULL after core_init, also where no program is configured */
	struct core_stats stats;
	struct { /* turn.c: what this turn has decided so far */
		struct effects effects;
		struct session *dirty, *closed;
		struct submit_seen *submits;          /* submits that the store does not know yet */
		struct nonce_seen *nonces;            /* the same of decisions (approval.c) */
		struct harp_snapshot_seen *snapshots; /* the same of snapshots (harp_snapshot.c) */
		struct buf scratch;                   /* one message is composed in it */
		bool has_committed;                   /* the last commit was not empty */
		int64_t ends_us[TURN_ENDS]; /* when the last turns with such a commit ended: a ring */
		unsigned end_count;
		bool has_taken_job; /* one a turn */
		bool save_due;      /* watermarks go into this turn's commit */
		struct slice bus_slice, request_slice, start_slice;
	} turn;
	struct {                                       /* running/ */
		struct runner *runners, *idle_runners; /* all processes; those without a session */
		bool runner_is_gone;                   /* a process is gone: run_sweep has work */
		struct migration *migrations;          /* programs that migrate states */
		struct artifacts *collecting;          /* sessions with files to be stored */
		struct timer collect_again;            /* set: none is stored until then */
		bool all_paused; /* the outbox is over its total limit: no worker is read */
	} run;
	struct { /* running/large_line.c: lines that wait for a thread, and how many are under way */
		struct large_line *waiting;
		unsigned working;
	} large_lines;
	struct { /* recovery/restore.c: large states on their way from the store */
		struct restore *waiting;
		unsigned working;
	} restores;
	struct {                     /* reload.c */
		struct jobs *thread; /* it may wait for the name service; NULL: the core's own does it */
		bool is_under_way;
		bool is_due; /* and once more after that */
		int64_t since_us;
	} reload;
	struct {
		bool is_suspended; /* the store refuses: no turn may end */
		bool is_draining;  /* no worker is started: an operator's wish, or a stop */
		bool is_stopping, is_done;
		int exit_code;
		int64_t began_us;
	} phase;
	struct { /* while the store refuses */
		int64_t retry_us, since_us;
	} suspended;
	struct bus_in
		*inbox; /* deliveries that were taken and wait for their turn; [amqp] prefetch at most */
	struct {
		int64_t kill_at_us; /* boot clock: SIGKILL to all workers */
		struct timer half, end;
	} stop;
	struct {                            /* operator/ */
		struct op_queue *queue;     /* NULL: there is no control socket */
		struct op_request *waiting; /* requests that were taken and wait for their turn */
	} operator;
	struct {                       /* retain/, which stands above the core */
		struct retain *retain; /* NULL: sessions never leave the store */
		const struct retention_ops *ops;
	} retention;
	bool has_trash; /* there are working directories to delete, in slices */
	struct timer save, health;
	struct { /* admission/answers.c: rejections without a session */
		/* rows after `forgotten`, and how many of them there may be */
		int64_t count, most;
		int64_t forgotten; /* no submit is remembered whose answer is up to this one */
		int64_t swept;     /* how far the search for rows that may go has come */
	} answers;
	int64_t submit_cursor; /* how far the search for old submits has come */
	struct {               /* of lines in the log */
		struct log_limit drop, room, program, artifact;
		struct caller_log *callers; /* admission/caller_log.c */
	} limits;
	struct {
		void (*fn)(void *ctx, const char *text);
		void *ctx;
	} status;
};

/* ---- lifecycle; hcpd/main.c and the simulation call these ---- */

/* Opens the store and the key. 0, or a sysexits code with a sentence. The caller then makes the bus and the
 * workers, puts them in, and calls core_make_outbox. */
int core_init(struct core *c, struct policy *policy, const char *config_path, char *why, size_t why_size)
	__attribute__((warn_unused_result));
void core_make_outbox(struct core *c);
/* Kills processes of the previous run and recovers every session. 0, or a sysexits code. core_end_turn
 * commits it. */
int core_recover(struct core *c) __attribute__((warn_unused_result));
void core_fini(struct core *c);

/* The loop passes on what happened, then calls core_end_turn before it sleeps. */
void core_on_bus(struct core *c);      /* the bus woke us */
void core_on_requests(struct core *c); /* an operator sent a request */
void core_on_jobs(struct core *c);     /* a job may be finished */
void core_on_reload(struct core *c);   /* a configuration may be read */
void core_go_on(struct core *c);       /* core_end_turn said that there is more */
void core_on_time(struct core *c);     /* a timer may be due */
void core_on_child(struct core *c);    /* SIGCHLD */
void core_stop(struct core *c);        /* SIGTERM; the second time means now */
void core_reload(struct core *c);      /* SIGHUP */
/* How long the end of this turn waits for more input, before it is asked again; 0: no longer. A commit costs
 * much the same for the results of three workers as for that of one: so, where several sessions run and
 * commits are many, a turn ends some time after the last one. */
int64_t core_gather_us(const struct core *c);
/* Commits the turn and releases its effects. True: there is more to do at once. */
bool core_end_turn(struct core *c);
/* When the loop has to wake, on the boot clock. */
int64_t core_next_us(const struct core *c);
/* Do the bus threads make progress? For the watchdog; the core's own thread is alive if it calls this. */
bool core_is_alive(struct core *c);

/* ---- for the modules of the core ---- */

/* The store refuses: suspends turns until the store reads and writes again. */
void core_suspend(struct core *c);
/* Logs what is wrong with a configuration; a config_say_fn. */
void core_say_log(void *ctx, bool is_error, const char *text);
/* Starts the sessions that may start now. False: the store cannot be read, and a session waits for that. */
bool core_fill_slots(struct core *c);
/* A task was accepted: its session joins the queue for a slot, and starts in this turn where a slot is free.
 */
void core_queue_accepted(struct session *s);
void core_say_status(struct core *c);

#endif
