/* SPDX-License-Identifier: MIT */
/* sim.h: one simulated world: the core on a disk of memory, with a broker, workers and clocks that a
 * seed plays.
 *
 *	simulate.c             options, processes, figures
 *	scenario.c             what may happen, and how often
 *	world.c                runs of the daemon, turns, time, dice
 *	setup.c                configurations
 *	command_gen.c          commands of callers
 *	memdisk.c              the disk
 *	fake_broker.c          commands in, messages out, and what becomes of them
 *	fake_operator.c        an operator at the control socket
 *	fake_approver.c        humans who sign decisions
 *	fake_policy_program.c  the policy program
 *	fake_migrator.c        programs that migrate states
 *	fake_retention.c       retention's thread, and its files
 *	fake_artifacts.c       stored files
 *	fake_log_workdir.c     log and working directories
 *	store_watch.c          what was committed, row by row
 *	effect_oracle.c        what must hold at every effect
 *	approval_oracle.c      what was committed of tasks that wait
 *	harp_oracle.c          the HARP events
 *	retention_oracle.c     sessions that leave for the archive
 *	audit_check.c          the audit
 *	final_check.c          what must hold in the end
 *	cover.c                what happened how often
 *
 * There is one world in a process, and nothing in it depends on anything but the seed. */
#ifndef HCPD_TESTS_RELIABILITY_SIM_SIM_H
#define HCPD_TESTS_RELIABILITY_SIM_SIM_H

#include "core/turn.h"
#include "support/fakes/fake_bus.h"
#include "support/fakes/fake_clock.h"
#include "support/fakes/fake_workers.h"
#include "core/operator/operator.h"
#include "support/oracle_stream.h"

#include "cover.h"
#include "memdisk.h"

#define SECONDS FAKE_SECOND
#define ORDERS_MAX 96 /* commands in the life of a seed */
#define WATCH_CALLERS 32
#define VARIANTS 5 /* configurations to start with, each with one to reload */

/* ---- what all variants of the configuration have in common ---- */

#define SIM_ABORT_US (8 * SECONDS)
#define SIM_GRACE_US (2 * SECONDS)
#define SIM_STOP_US (10 * SECONDS)
#define SIM_IDLE_US (60 * SECONDS)
#define SIM_EXTENDED_US (650 * SECONDS) /* since its start: how far a deadline may be moved */
#define SIM_EXPIRES_US (120 * SECONDS)  /* what a human has to decide */
#define SIM_VERDICT_US (2 * SECONDS)    /* what the policy program has */

/* ---- commands ---- */

enum expect {
	EXPECT_VERDICT, /* remembered: one answer for its message_id, ever */
	EXPECT_REFUSAL, /* task_rejected with that code, and not remembered */
	EXPECT_DROP,    /* nobody can be answered */
	EXPECT_ABORT,   /* its session ends, if it had not */
	EXPECT_NOTHING  /* an abort that has no effect */
};

enum command_state { QUEUED, DELIVERED, ANSWERED, DONE };

struct order { /* a command in the broker's queue; the first QUEUED is the next */
	enum expect expect;
	enum command_state state;
	char *body;
	size_t size;               /* of a body that is NULL: over the limit */
	const char *caller, *user; /* static; NULL: none */
	char message_id[24];       /* "": none that is usable */
	char session_id[ID_SIZE];  /* of an abort */
	unsigned codes;            /* answers that it may get, as 1 << (CODE_... - CODE_ACCEPTED) */
	uint64_t tag;
	unsigned deliveries, born_in; /* born_in: which life */
	bool ack_sent, is_submit;
};

/* ---- the world ---- */

enum lie { LIE_NONE, LIE_LOSES, LIE_FORGETS, LIE_SURVIVES, LIE_ACKS, LIE_PUPPET, LIE_TAMPERS, LIE_COUNT };

struct sim {
	uint64_t seed, dice, hash;
	unsigned steps, turns, crashes, lives;
	bool verbose;
	enum lie lie; /* for testing the check: the world breaks a rule itself */
	/* the daemon, and what it has to do with */
	struct core core;
	struct bus bus;
	struct workers workers;
	int variant;
	bool reloaded;     /* the configuration file is the variant's second */
	bool reads_broken; /* the reload that is under way reads the broken file */
	/* between begin and end of a life; a crash happens: nothing has effects */
	bool is_alive, is_dead;
	bool is_healed; /* nothing goes wrong any more */
	size_t flushed_at_death;
	int effects_left;               /* it dies at so many-th effect; 0: it does not */
	const char *unreadable;         /* a table that was renamed; NULL: none */
	bool is_locked;                 /* another has the database's write lock */
	int64_t stop_since_us;          /* boot clock; 0: not stopping */
	int64_t held_us, held_since_us; /* how long the core was held in all; 0: is not */
	int64_t clear_us;               /* when all that was decided was last stored */
	int64_t let_go_us;              /* when the core was last let go */
	bool forgets;                   /* submits are old enough to be */
	bool retires;                   /* the last part: sessions leave ... */
	int64_t retire_from;            /* ... whose keys are up to there */
	unsigned broker_links;          /* bus.pub_drops that were obeyed */
	/* the broker's command queue */
	struct order orders[ORDERS_MAX];
	size_t order_count;
};
extern struct sim sim;

struct mood {       /* what a worker is like; by its number, anew in each life */
	bool obeys; /* ends at `abort`, answers checkpoint_request */
	bool said_end, is_paused;
	unsigned started, forked; /* in which turn; 0: did not */
	char served[ID_SIZE];     /* a reused one: whom before */
	unsigned refused;         /* actions, as bits of their refs: a, b */
	int asked_n;              /* one that migrates: of which state; 0: not yet */
};
struct mood *sim_mood(const struct worker *w);

/* ---- world.c ---- */

void sim_world_init(const char *dir); /* once a process */
void sim_world_fini(void);
void sim_world_reset(uint64_t seed);
void sim_world_finish(void); /* of a seed: frees what it left */
void life_begin(void);
void life_crash(bool power_loss);
void life_stop(void);             /* the loop has ended: what hcpd/main.c does then */
void sim_die(enum covered where); /* from inside: nothing has effects from here on */
bool sim_world_turn(void);        /* true: something happened */
void sim_world_run(void);         /* until nothing happens any more at this instant */
void sim_world_pass(int64_t us);
void sim_world_step_wall(int64_t us);
void sim_world_suspend(int64_t us); /* time passes, and nobody is there */
void sim_world_reload(bool broken);
void sim_world_lock(bool lock);
const char *sim_world_exec(const char *sql); /* NULL, or what is wrong */
bool sim_world_has_workdir(const char *session_id);
void sim_world_fail_workdirs(int count); /* the next so many cannot be made */
void shelf_reset(void);                  /* fake_artifacts.c: stored artifacts */
bool shelf_has(const char *session_id, const char *name);
bool shelf_has_half(void);
size_t workers_alive(void); /* processes */

unsigned sim_choose(unsigned n); /* 0 to n-1 */
static inline bool sim_chance(unsigned n)
{
	return sim_choose(n) == 0;
}
void sim_trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sim_hash(const void *data, size_t size);
/* Ends this seed, and this process. */
_Noreturn void violation(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- setup.c ---- */

void setup_init(const char *dir);
void setup_fini(void);
struct policy *setup_policy(void);   /* a reference, of the present variant */
const char *setup_ini(bool broken);  /* its file */
bool setup_has_program(bool second); /* does the variant's first, or second, name one? */

/* ---- command_gen.c ---- */

void orders_submit(void);
void orders_abort(void);
void orders_submit_moved(void);              /* one whose states have versions */
void orders_submit_simple(void);             /* one that needs nobody's word */
const struct order *orders_repeat(size_t i); /* the same submit again; NULL: no room for it */

/* ---- fake_operator.c ---- */

struct jsession;

void operator_begin(void); /* a life */
void operator_end(void);
void operator_act(void);
bool operator_has_asked(void);
void operator_heal(void); /* whoever was paused goes on, whoever waits is decided about */
struct op_request *operator_ask(enum op_verb verb, const struct jsession *s);

/* ---- fake_approver.c ---- */

#define APPROVERS 4                  /* who are in the configuration */
void approver_init(const char *dir); /* makes the keys */
void approver_fini(void);
const char *approver_key(int i); /* the public half */
void approver_reset(void);       /* a seed */
bool approver_act(void);         /* false: there is nothing to decide */
void approver_heal(int64_t review);
void approver_begin(void); /* a life: what became of what was not answered? */
void approver_told(const struct op_request *a);

/* ---- fake_policy_program.c ---- */

bool program_is(const struct worker *w);
void program_begin(void); /* a life */
bool program_act(void);   /* false: it has nothing to say */
void program_on_line(struct worker *w, const char *line, size_t size);
void program_note_reload(void);

/* ---- fake_migrator.c ---- */

bool mover_is(const struct worker *w);
bool mover_act(void); /* false: there is none that was asked */
void mover_heal(struct worker *w);
void mover_on_line(const struct worker *w, const char *line, size_t size);
const char *mover_some_checkpoint(void); /* of a worker whose states have versions; static */

/* ---- fake_retention.c ---- */

void keeper_reset(void);    /* a seed */
bool keeper_is_ready(void); /* the thread has something to do */
bool keeper_step(void);     /* the thread runs until it waits; false: it has nothing to do */
void keeper_lose_power(void);
const char *keeper_entry(const char *day, int64_t counts, const char *session_id, int n, size_t *size);

/* ---- scenario.c ---- */

void script_on_start(const struct worker *w); /* its mood */
void script_on_line(struct worker *w, const char *line);
void script_play(void); /* one seed, from its first step to its verdict */

/* ---- fake_broker.c ---- */

void broker_reset(void);
void broker_begin(void); /* a life begins: both connections come up */
void broker_crash(void); /* it ended */
struct order *broker_queue(enum expect expect, const char *caller, const char *user);
void broker_deliver(unsigned most);
void broker_on_answer(uint64_t tag, bool is_ack);
void broker_end_turn(void); /* acks of this turn are on their way */
void broker_take_acks(void);
void broker_work(unsigned most); /* takes messages in order, each meets its fate */
void broker_confirm(unsigned most, bool in_order);
void broker_swallow(void); /* a message that it has is never confirmed */
void broker_drop_pub(void);
void broker_drop_sub(void);
void broker_raise(void); /* connections that are down come up again */
void broker_block(bool block);
bool broker_is_blocked(void);
void broker_refuse(int code);                         /* the next message closes the channel so */
void broker_upset(const char *caller, unsigned what); /* 0 well, 1 unbound, 2 full, 3 forbidden */
void broker_heal(void);
bool broker_has_work(void);
bool broker_is_quiet(void); /* nothing queued, nothing under way */

/* ---- store_watch.c: what was committed ---- */

enum jkind { J_EVENT, J_ACCEPTED, J_REJECTED, J_COMPLETED, J_FAILED, J_HARP };

struct jmessage { /* a row of events; id is its place */
	UT_hash_handle hh;
	char message_id[ID_SIZE];
	bool is_there, is_published, has_arrived, was_returned, is_settled;
	enum jkind kind;
	int64_t id, session, caller, sequence;
	int64_t owner; /* the session whose row it is and with which it leaves; of a rejection, too */
	uint64_t bytes, substitute; /* hashes; 0: no substitute */
	unsigned arrivals;
	char *body; /* of a rejection without a session, whose row may go; else NULL */
};

struct jsession {
	bool is_there, is_closed, has_outcome;
	char id[ID_SIZE], state[16], caller[32], capability[16], token[TOKEN_SIZE];
	int64_t version, sequence, published; /* published: the newest event that was, but answers */
	int64_t paused_version;               /* of the last transition for an operator's pause; 0: none */
	int64_t deadline_us;                  /* boot clock, at the latest; 0: has none yet */
	int64_t early_us;                     /* ... and at the earliest */
	int64_t ending_us, ending_held_us;    /* since when its end is decided; how long was held before */
	int64_t arrived;                      /* the newest sequence that a queue took */
	bool abort_came;                      /* a rightful one */
	bool resume_came; /* an operator chose its newest checkpoint; may have been refused */
	/* undecided ones */
	char waits[8]; /* human, program; "": it does not */
	bool did_wait, asked_program, asked_human, cancel_came;
	bool was_counted;      /* it ran after it waited */
	int64_t accepted;      /* the message that says so; 0: none does */
	int64_t asked_us;      /* the program: since when, at the latest */
	unsigned program_said; /* to the latest question: SAID_... */
	int executed;          /* reviews that allowed it */
	bool announced;        /* its worker announced what it may not do */
	/* the HARP events of it (harp_oracle.c) */
	int harp_starts, harp_ends;
	int64_t harp_count, harp_points, harp_arrived, harp_published;
	char harp_status[20], harp_at[32];
	/* what it saved last, where that has a version and a number (fake_migrator.c) */
	int saved_n;
	char saved_version[16];
	bool mover_said; /* its program answered well, and ends well */
	int64_t mover_us;
	/* its time: asked for, moved, and granted in an answer */
	int64_t deadline_wall_us, extend_asked_us, extend_moved_us, extend_granted_us;
	bool has_left; /* for the archive */
};

enum { SAID_ALLOW = 1, SAID_ASK = 2 };

#define REVIEWS_MAX 256
struct jreview { /* by id */
	char request[ID_SIZE], state[24];
	int64_t session, late_us, early_us; /* boot clock: when it must have expired, and may have */
	int risk;
	unsigned persons; /* who allowed it, a bit each */
	int finals;
	bool is_allowed; /* the last word */
};

struct jsubmit {
	UT_hash_handle hh;
	int64_t id, session, answer; /* answer 0: undecided */
	char key[64];                /* "caller message_id" */
};

struct watch {
	struct jmessage *messages, *by_message_id;
	struct jsession *sessions;
	struct jsubmit *submits;
	int64_t message_count, session_count, message_room, session_room;
	int64_t transition_count, submit_count, review_count, decision_count, point_count, rejections;
	struct jreview reviews[REVIEWS_MAX];
	struct jcaller {
		char id[CALLER_ID_SIZE];
		int64_t confirmed;
		/* a message was refused or returned: the order of arrival is not promised */
		bool is_upset;
	} callers[WATCH_CALLERS]; /* by key */
};
extern struct watch watch;

void watch_reset(void);
void watch_begin(void); /* a life: opens its own connection */
void watch_end(void);
void watch_look(void); /* at what was committed since it last looked */
void watch_forget_submits(void);
bool watch_is_remembered(int64_t answer);
/* A rejection without a session may go once it is settled, where no submit would get it again. */
bool watch_may_be_gone(const struct jmessage *m);
struct sqlite3 *watch_db(void);
struct jsession *watch_find(const char *session_id);

/* ---- effect_oracle.c: at every effect ---- */

void effect_oracle_publish(const struct bus_out *out);
void effect_oracle_arrive(const struct bus_out *out, enum bus_status fate);
void effect_oracle_settle(const struct bus_out *out, enum bus_status told);
void effect_oracle_refuse(const struct bus_out *out); /* for good */
bool effect_oracle_has_arrived(const struct bus_out *out);
void effect_oracle_answer(const struct order *o, bool is_ack);
void effect_oracle_start(const struct worker *w);
void effect_oracle_line(const struct worker *w, const char *line, size_t size);
void effect_oracle_worker_end(const struct worker *w);
void effect_oracle_quiet(void); /* nothing happens any more at this instant */
/* the stored answer to a submit; NULL: it is undecided */
struct jmessage *effect_oracle_answer_to(const struct order *o);
void policy_question(const struct worker *w, const char *session_id); /* the policy program is asked */
void effect_oracle_stopped(void);                                     /* a graceful end */

/* ---- audit_check.c: the audit, in the end ---- */

void audit_check(struct sqlite3 *db);
void audit_tamper(void); /* a lie */

/* ---- final_check.c: in the end ---- */

void final_check(void);
void final_check_forget(void); /* what was checked so far: it may leave */

#endif
