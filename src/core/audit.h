/* audit.h: who decided what, and why: an append-only table, each row chained to the one before it by SHA-256.
 *
 * A row is a canonical JSON text and the hash of the hash before it followed by that text; before the first
 * stands the hash of the instance's id. Rows go into the turn's batch, so a decision and its row are stored
 * together or not at all. The number of rows and the last hash are kept apart from them (meta), are shown by
 * stats and STATUS=, and are logged at start and stop: whoever can write the file can also compute a new
 * chain, and only a head that was noted elsewhere shows that.
 *
 * Only the core's thread calls these. Hashes of tasks are over the text in `tasks` (canon_hash_bytes). How
 * the chain is computed and verified is in audit_chain.h. */
#ifndef HCPD_AUDIT_H
#define HCPD_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/canonical.h"
#include "base/timer.h"

#define AUDIT_SLOTS 32 /* kinds of refusals that are counted apart in a minute */

struct core;

/* One row. NULL and "" leave a member out; texts are cut at 512 bytes. */
struct audit_entry {
	const char *what; /* task, abort, pause, approve, revoke, action, reload, control ... : what somebody
			     wanted */
	const char *outcome; /* accepted, rejected, waits, done, refused, ended */
	const char *who;     /* a caller's id, a signer's key id, "operator", "program", "worker", "daemon" */
	const char *user;    /* the broker-validated user, or the login name of uid */
	bool has_uid;        /* a peer of the control socket ... */
	int64_t uid;         /* ... is that one */
	const char *session, *capability;
	const char *task;          /* SHA-256 in hex */
	const char *risk, *rules;  /* rules: the reasons that raised it */
	const char *code, *why;    /* of a refusal; why may also be an operator's reason */
	const char *request;       /* of a review */
	const char *policy;        /* NULL: the one in force */
	const char *policy_before; /* reload */
	const char *about;         /* anything else, in words */
	uint64_t times;            /* refusals: that it stands for; 0: one */
};

/* Appends a row. For what is bounded by itself: decisions on tasks, what operators and approvers do. */
void audit_put(struct core *c, const struct audit_entry *e);
/* The same, for refusals that anybody may cause at any rate. The first of its kind in a minute is a row at
 * once; those that follow are counted, and become one row with `count` when the minute is over. Of one kind
 * are those with the same what, code, uid and `counted_with`: something that strangers cannot make up, such
 * as the broker's user, or the session, which the row of those that follow then has, too; NULL: none. A crash
 * loses what was counted and not yet written. */
void audit_put_refusal(struct core *c, const struct audit_entry *e, const char *counted_with);

/* ---- for core.c ---- */

struct audit {
	int64_t count;              /* rows, those of the batch too ... */
	char head[CANON_HASH_SIZE]; /* ... and the hash of the last */
	bool is_unsaved;            /* the head, of this turn */
	struct audit_slot *slots;   /* AUDIT_SLOTS, and one for all the others */
	struct timer minute;
};

/* Goes on where the last life ended. -1 where the store's chain cannot be gone on with; why says so. */
int audit_init(struct core *c, char *why, size_t why_size) __attribute__((warn_unused_result));
/* Puts the head into the batch, before the commit. */
void audit_end_turn(struct core *c);
/* Writes what was counted: at the end of the minute, and of a life. */
void audit_flush(struct core *c);
void audit_fini(struct core *c);

#endif
