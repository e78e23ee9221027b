/* SPDX-License-Identifier: MIT */
/* life.h: a scripted life of hcpd: what callers want of it, how its lives end, and what must hold whenever it
 * is dead. Whoever runs one says before each start how that life may be cut short (struct life_ops). */
#ifndef HCPD_TESTS_RELIABILITY_SWEEP_LIFE_H
#define HCPD_TESTS_RELIABILITY_SWEEP_LIFE_H

#include <stdbool.h>
#include <stddef.h>

#include "support/peer.h"
#include "support/rig.h"

#define TASKS_MAX 12
#define ERRANDS_MAX 80
#define LIVES_MAX 6

/* Callers: one that listens, one whose queue is full for a while, one that comes late, one that is sent an
 * event that the broker refuses for good. */
enum who { WELL, FULL, AWAY, REFUSED, WHO_COUNT };

struct task {
	const char *capability;
	/* JSON, ' for ", @ for the rig's directory, # for the errand's number */
	const char *inputs;
	const char *ends; /* the states in which it may end, or the codes of its rejection */
	enum who who;
	/* part of a message after which the first life may end, or ASKED; NULL: only its end */
	const char *ready;
	const char *abort_on; /* part of a message after which it is aborted */
	const char *more;     /* merged into the payload */
	int times;            /* so often; 0: once */
	bool in_turn;         /* each waits for the end of the one before */
	/* by an operator: abort, replay, revoke (its token; and a new key), recover (summarize), extend,
	 * rest (pause and resume), restart (across lives), wake (resume it when it is idle) */
	const char *operate;
	bool twice; /* submitted twice, under one message_id */
};

#define ASKED "asked" /* it waits for a human, and nothing is said */

struct scenario {
	const char *name;
	struct task tasks[TASKS_MAX];
	const char *max_sessions, *exit_grace, *abort_timeout, *pause_grace;
	const char *idle_timeout; /* with on_idle = pause */
	bool is_killed;           /* its first life ends by SIGKILL, not by SIGTERM */
	bool is_reloaded;         /* SIGHUP before that */
	/* and the reload brings another policy: what waits "after" is decided under that one */
	bool changes;
	/* a policy program is asked: it does what `policy` in the inputs says */
	bool has_policy_program;
	bool is_operated;               /* an operator is at the control socket */
	bool is_told;                   /* a listener is bound to harp.sessions */
	bool is_archived, is_discarded; /* ended sessions leave the store, into the archive or for good */
	bool is_large;                  /* takes longer: only for passings that others do not reach */
	int garbage;                    /* commands that are none */
};

extern const struct scenario scenarios[];
extern const int scenario_count;

/* A task on its way. */
struct errand {
	int number; /* 1, 2 ... */
	const struct task *task;
	struct peer *peer;
	const char *message_id;  /* NULL: not yet sent */
	const char *abort_id;    /* the newest abort's */
	const char *stray_id;    /* of an abort that finds nothing to end */
	int sent_in, aborted_in; /* which life it was last sent in */
	int operated_in;         /* in which life an operator last was obeyed */
	bool rested;             /* it was paused and resumed */
	const char *must_be;     /* what an operator was told: SQL on its row */
	bool end_seen;           /* its end was seen, and looked at */
};

/* A decision that was signed, and said until it was answered. */
struct signed_one {
	char request[40];
	char *text;
	bool is_answered, is_refused; /* refused: it was good, and the policy of now is another */
	int replayed_in;              /* in which life it was last said once more, in vain */
};

struct life;
struct life_ops {
	void (*arm)(struct life *l);     /* before each start: rig_env and the like */
	bool (*was_cut)(struct life *l); /* did it die of what it was armed with? */
};

struct life {
	const struct scenario *scenario;
	const struct life_ops *ops;
	struct rig *rig;
	struct peer *peers[WHO_COUNT];
	struct errand errands[ERRANDS_MAX];
	int count;
	int number; /* of the daemon's life: 1, 2 ... */
	int status; /* how the last one ended: an exit status, or 128 + signal */
	bool reloaded, changed, full_consumed, away_opened;
	int garbage_sent;
	double operated_at;
	int drained_in, follow_fd;
	bool has_old_day; /* there was an archive that has to expire */
	char ear[80];     /* the queue at harp.sessions; "": none */
	struct signed_one decisions[ERRANDS_MAX];
	int decision_count;
	void *ctx; /* of the ops */
};

/* From the first start to the end of every task; fails as tests do (give_up). */
void life_run(struct life *l, const struct scenario *s, const struct life_ops *ops, void *ctx);
const char *errand_session(const struct errand *e); /* NULL: none (yet) */
bool errand_has_ended(const struct errand *e);
bool life_has_changed(struct life *l); /* the policy of now is the other one */

/* fake_operator.c */
void operator_act(struct life *l);
void operator_at_rest(struct life *l); /* hcpd is dead */

/* final_check.c. hcpd is dead: what it left, compared with what it said and heard. */
void final_check_at_rest(struct life *l);
/* A session's end was seen: nobody of it may live. */
void final_check_on_end(struct life *l, const struct errand *e);
/* Everything has ended. */
void final_check_at_end(struct life *l);

#endif
