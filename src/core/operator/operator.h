/* operate.h: what an operator asks of the core, and its answers.
 *
 * An ask is a plain message: the control thread makes it, the core's thread fills in the answer, and the
 * control thread sends that and frees it. Verbs that change something are answered by an effect, after the
 * turn's commit; verbs that only look are answered at once, also while the store refuses. */
#ifndef HCPD_OPERATE_H
#define HCPD_OPERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"

struct core;
struct session;

enum ask_verb {
	ASK_ABORT,
	ASK_PAUSE,
	ASK_RESUME,
	ASK_CHECKPOINT,
	ASK_REPLAY,
	ASK_DRAIN,
	ASK_UNDRAIN,
	ASK_REVOKE_TOKEN,
	ASK_ROTATE_KEY,
	ASK_STATS,
	ASK_LIVE,
	ASK_DECIDE,
	ASK_APPROVERS,
	ASK_RECOVER,
	ASK_EXTEND,
	ASK_VERBS
};

struct ask_live {             /* of a session that is not over */
	int pid;              /* of its process's main one; 0: none */
	bool reads;           /* its pipes are read */
	bool waits;           /* for a slot */
	bool migrates;        /* a program brings its state to another version, and it goes on then */
	int64_t idle_us;      /* since its worker last said something */
	int64_t outbox_bytes; /* stored and not yet settled */
	const char *asked;    /* pause, resume or checkpoint: its worker was told, and has not answered; NULL:
				 nothing */
	int64_t asked_us;     /* since then */
	unsigned unanswered;  /* requests for checkpoints, in a row */
};

struct ask {
	struct ask *next;
	uint64_t ticket; /* the asker's own */
	int64_t uid;     /* of whoever asked ... */
	char user[33];   /* ... and the login name; "": it has none */
	enum ask_verb verb;
	char session_id[ID_SIZE]; /* whole; "" where the verb has none */
	char *reason;             /* NULL: none was given */
	int64_t from;             /* replay: the first sequence; 1: everything */
	char how[16];             /* recover: which of recovery_names; may be anything */
	int64_t by_us;            /* extend: how much longer */
	char *token;              /* extend: the session's, NULL: none was given */
	char *decision;           /* decide: as it came */
	size_t decision_size;
	char signer[129]; /* decide: the approver whom it names, proven where it was not refused; "": none of
			     ours */
	/* the answer */
	const char *code; /* of the error; NULL: done */
	char message[256], remedy[192];
	struct buf item; /* a JSON object; empty: none */
	struct buf done; /* members of the closing line, each with a comma before it */
	bool has_live;
	struct ask_live live;
};

struct ask *ask_new(enum ask_verb verb);
void ask_free(struct ask *a);
/* The answer is no: code, what to do about it, and why. */
void ask_refuse(struct ask *a, const char *code, const char *remedy, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The name of the verb in the protocol. */
const char *ask_name(enum ask_verb verb);

/* Does it change nothing? */
bool operate_only_looks(enum ask_verb verb);
/* Does what is asked, or says why not, and takes the ask. False: the store cannot be read now, nothing
 * happened, the ask is still the caller's. */
bool operate_take(struct core *c, struct ask *a) __attribute__((warn_unused_result));

/* Puts those who were turned away from the control socket into the audit. */
void operate_note_strangers(struct core *c);

/* The worker says that it has paused, or resumed: is it what an operator asked for? Then the state changes
 * here, unless it is so already. False: it is the worker's own affair. */
bool operate_on_paused(struct session *s);
bool operate_on_resumed(struct session *s);

#endif
