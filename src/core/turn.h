/* core.h: what the core's thread owns. Everything here is touched by that thread alone, so no locks. */
#ifndef HCPD_CORE_H
#define HCPD_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/audit.h"
#include "bus/bus.h"
#include "core/effect.h"
#include "policy/gate.h"
#include "outbox/outbox.h"
#include "core/session.h"
#include "core/slots.h"
#include "store/store.h"
#include "base/timer.h"
#include "protocol/token.h"
#include "process/worker.h"

struct core_stats {
	uint64_t submits, duplicates, rejected, dropped, aborts, late_lines, unroutable;
};

struct core {
	const char *config_path;
	struct policy *policy;       /* the newest */
	struct policy *first_policy; /* what the broker side was made from: never reloaded */
	const char *state_dir;
	struct store *store;
	struct outbox *outbox;
	struct bus *bus;
	struct control *control; /* NULL: operators are not heard */
	struct retain *retain;   /* NULL: nobody ever leaves */
	struct workers *workers;
	struct timers timers;
	struct token_keys keys;
	struct effects effects;
	struct session *by_id, *by_key; /* every session that is not over */
	struct needed *needed;          /* need.c: ended ones that these need, or that leave now */
	struct session *dirty, *closed; /* of this turn */
	struct slots slots;
	struct rates rates; /* of the callers, by section */
	struct audit audit;
	struct policy_program *program;  /* judge.c; there also where the configuration names none */
	struct migration *migrations;    /* migrate.c: programs that bring states to another version */
	struct host *hosts, *idle_hosts; /* run.c: processes, and those that serve nobody now */
	bool host_is_gone;               /* there is something to sweep */
	struct artifacts *collecting;    /* artifact.c: of sessions that have files to be stored */
	int64_t last_session;
	struct nonce_seen *turn_nonces;       /* review.c: the same of decisions */
	struct snapshot_seen *turn_snapshots; /* snapshot.c: the same of snapshots */
	struct submit_seen *turn_submits;     /* of this turn: the store does not know them yet */
	struct buf scratch;                   /* for composing one message */
	struct core_stats stats;
	/* phases of a life */
	bool is_held;     /* the store refuses: nothing may happen */
	bool is_draining; /* no worker is started: by an operator, or at a stop */
	bool is_stopping, is_done;
	bool has_committed; /* the last commit was of something */
	bool all_paused;    /* the outbox is over its limit for all */
	bool has_trash;     /* working directories to be deleted, in slices */
	bool save_due;      /* watermarks go into this turn's commit */
	int exit_code;
	int64_t stop_at_us; /* SIGKILL to all at a stop */
	int64_t hold_retry_us, held_since_us, began_us;
	struct timer save, stop_half, stop_end, health;
	int64_t submit_cursor;   /* how far old submits were looked through */
	struct bus_in *deferred; /* came while the store could not be read */
	struct ask *asks;        /* of operators, while nothing may happen */
	struct log_limit drop_limit, room_limit, judge_limit;
	void (*on_status)(void *ctx, const char *text);
	void *status_ctx;
};

/* ---- life; main.c and the simulation call these ---- */

/* Opens the store and the key. 0, or a sysexits code with a sentence. The caller then makes the bus and the
 * workers, puts them in, and calls core_make_outbox. */
int core_init(struct core *c, struct policy *policy, const char *config_path, char *why, size_t why_size)
	__attribute__((warn_unused_result));
void core_make_outbox(struct core *c);
/* Ends leftovers, brings every session back, and commits that. 0, or a sysexits code. */
int core_recover(struct core *c) __attribute__((warn_unused_result));
void core_fini(struct core *c);

/* The loop hands in what happened, then calls core_end_turn before it sleeps. */
void core_on_bus(struct core *c);   /* the bus woke us */
void core_on_asks(struct core *c);  /* an operator asks something */
void core_on_time(struct core *c);  /* a timer may be due */
void core_on_child(struct core *c); /* SIGCHLD */
void core_stop(struct core *c);     /* SIGTERM; the second time means now */
void core_reload(struct core *c);   /* SIGHUP */
/* Commits the turn and releases its effects. True: there is more to do at once. */
bool core_end_turn(struct core *c);
/* When to wake, on the boot clock. */
int64_t core_next_us(const struct core *c);
/* Do the bus threads come round? For the watchdog; the loop itself is asking. */
bool core_is_alive(struct core *c);

/* ---- for the modules of the core ---- */

/* The store refuses: nothing happens until it takes and gives again. */
void core_hold(struct core *c);
/* What is wrong with a configuration, to the log. */
void core_say_log(void *ctx, bool is_error, const char *text);
/* Starts what may start now. False: the store cannot be read, and somebody waits for that. */
bool core_fill_slots(struct core *c);
void core_say_status(struct core *c);

/* intake.c: one command of the bus. False: the store cannot be read now, try it again later. */
bool intake_take(struct core *c, const struct bus_in *in) __attribute__((warn_unused_result));
void intake_end_turn(struct core *c);
/* Puts a task_rejected into the outbox: its event. message_id "": none that could be read. */
int64_t intake_put_rejected(struct core *c, struct addressee *to, const char *message_id, const char *code,
	const char *message, const char *suggestion, enum risk risk, bool is_fleeting);
/* What the gate says of a task now. Again: of one that waits already, and so neither takes room nor counts as
 * sent. */
void intake_look(struct core *c, const struct config_caller *caller, const struct task *task, bool again,
	struct verdict *v);

#endif
