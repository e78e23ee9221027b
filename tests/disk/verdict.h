/* verdict.h: the judge of what got out of a daemon against what its store holds. It is none of the daemon's
 * code: it reads the messages as bytes and the store through a plain connection of its own, never through a
 * shim.
 *
 * A test tells it what happened on the outside, as it happens, over as many lives as there are; verdict_check
 * then says whether all of that is justified. */
#ifndef HCPD_VERDICT_H
#define HCPD_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct verdict;

struct verdict *verdict_new(void);
void verdict_free(struct verdict *v);

/* ---- what got out, or in ---- */

void verdict_submitted(
	struct verdict *v, const char *caller_id, const char *message_id); /* as often as you like */
void verdict_acked_submit(struct verdict *v, const char *caller_id, const char *message_id);
void verdict_acked_abort(struct verdict *v, const char *session_id);
void verdict_published(struct verdict *v, const char *body, size_t size);         /* every copy */
void verdict_started(struct verdict *v, const char *session_id, int64_t attempt); /* a process */
void verdict_decided(struct verdict *v, const char *request_id, bool allow);      /* and was answered: done */
void verdict_told(
	struct verdict *v, const char *session_id, const char *line, size_t size); /* a line to a worker */

/* To a file and back, so that a record outlives its process. False: not to be had. */
bool verdict_save(const struct verdict *v, const char *path);
bool verdict_load(struct verdict *v, const char *path);

/* ---- judging ---- */

enum {
	VERDICT_OVER =
		1, /* it came to rest: every submit is answered, every session over, everything published */
	VERDICT_LOSSY = 2, /* the store was robbed of what it had: only what is left of it is judged */
};
/* How many violations; why gets the first ones, a line each. At any time: the integrity of the file; the rows
 * agree with each other; transitions are legal and sequences whole; what was acked, published, started or
 * told is in the store, with the same bytes; no sequence and no message has two contents; one session a
 * submit; the first copies are in order; nothing after session_closed; nothing of a task that waits or was
 * rejected, nothing that runs unapproved; no decision that counts twice; the audit's chain. */
int verdict_check(const struct verdict *v, const char *db_path, unsigned flags, char *why, size_t why_size);

#endif
