/* SPDX-License-Identifier: MIT */
/* audit.h: who decided what, and why: an append-only table, each row chained to the one before by SHA-256.
 *
 * A row is a canonical JSON text, and the hash of the previous hash followed by that text; the first row
 * follows the hash of the instance's id. Rows go into the turn's batch, so a decision and its row are stored
 * together or not at all. The number of rows and the last hash are also kept apart from the rows (meta),
 * shown by stats and STATUS=, and logged at start and stop. An attacker who can write the file can also
 * compute a new chain; only a head that was recorded elsewhere shows that.
 *
 * Only the core's thread calls these functions. Hashes of tasks are over the text in `tasks`
 * (canonical_hash_bytes). How the chain is computed and verified is in audit_chain.h. */
#ifndef HCPD_CORE_AUDIT_H
#define HCPD_CORE_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/canonical.h"
#include "base/timer.h"

#define AUDIT_SLOTS 128 /* kinds of refusals that are counted apart in a minute */

struct core;

/* One row. NULL and "" leave a member out; texts are cut at 512 bytes. */
struct audit_entry {
	/* what was requested: task, abort, pause, approve, revoke, action, reload, control ... */
	const char *what;
	const char *outcome; /* accepted, rejected, waits, done, refused, ended */
	/* a caller's id, a signer's key id, "operator", "program", "worker", "daemon" */
	const char *who;
	const char *user; /* the broker-validated user, or the login name of uid */
	bool has_uid;     /* the actor is a peer of the control socket ... */
	int64_t uid;      /* ... with this uid */
	const char *session, *capability;
	const char *task;          /* SHA-256 in hex */
	const char *risk, *rules;  /* rules: the reasons that raised the risk */
	const char *code, *why;    /* of a refusal; why may also be an operator's reason */
	const char *request;       /* of a request to a human */
	const char *policy;        /* NULL: the policy in force */
	const char *policy_before; /* reload: the policy before */
	const char *about;         /* anything else, in words */
	uint64_t times;            /* refusals that the row stands for; 0: one */
	unsigned rows;             /* audit_put_refusal: so many in a minute have a row each; 0: one */
};

/* Appends a row. For events that are bounded by themselves: decisions on tasks, verbs of operators and
 * approvers. */
void audit_put(struct core *c, const struct audit_entry *e);
/* The same, for refusals that any sender may cause at any rate. The first of its kind in a minute becomes a
 * row at once, or the first `rows`. The following ones are counted, and become one row with `count` when the
 * minute is over. While so many come in each minute, no further one has a row of its own.
 * Refusals with the same what, code, uid and counted_with are of one kind. counted_with is a text that
 * senders cannot make up, such as the broker's user, or the session's id, which the counting row then has,
 * too; NULL: none. A crash loses what was counted and not yet written. */
void audit_put_refusal(struct core *c, const struct audit_entry *e, const char *counted_with);

/* ---- for turn.c ---- */

struct audit {
	int64_t count;                  /* rows, with those of the batch */
	char head[CANONICAL_HASH_SIZE]; /* the hash of the last row */
	bool is_unsaved;                /* this turn changed the head */
	struct audit_slot *slots;       /* AUDIT_SLOTS, and one more for all other kinds */
	struct timer minute;
};

/* Continues the chain of the previous run. -1 with a sentence in why: the chain in the store cannot be read.
 */
int audit_init(struct core *c, char *why, size_t why_size) __attribute__((warn_unused_result));
/* Before the commit: puts the head into the batch. */
void audit_end_turn(struct core *c);
/* Writes the counted refusals: at the end of the minute, and at the daemon's end. */
void audit_flush(struct core *c);
void audit_fini(struct core *c);

#endif
