/* SPDX-License-Identifier: MIT */
/* final_check.h: the check of what got out of a daemon against what its store holds. It is none of the
 * daemon's code: it reads the messages as bytes and the store through a plain connection of its own, never
 * through a shim.
 *
 * A test tells it what happened on the outside, as it happens, over as many lives as there are;
 * final_check_run then says whether all of that is justified. */
#ifndef HCPD_TESTS_RELIABILITY_DISK_FINAL_CHECK_H
#define HCPD_TESTS_RELIABILITY_DISK_FINAL_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct final_check;

struct final_check *final_check_new(void);
void final_check_free(struct final_check *v);

/* ---- what got out, or in ---- */

/* as often as you like */
void final_check_submitted(struct final_check *v, const char *caller_id, const char *message_id);
void final_check_acked_submit(struct final_check *v, const char *caller_id, const char *message_id);
void final_check_acked_abort(struct final_check *v, const char *session_id);
void final_check_published(struct final_check *v, const char *body, size_t size);         /* every copy */
void final_check_started(struct final_check *v, const char *session_id, int64_t attempt); /* a process */
/* and was answered: done */
void final_check_decided(struct final_check *v, const char *request_id, bool allow);
/* a line to a worker */
void final_check_sent_line(struct final_check *v, const char *session_id, const char *line, size_t size);

/* To a file and back, so that a record outlives its process. False: not to be had. */
bool final_check_save(const struct final_check *v, const char *path);
bool final_check_load(struct final_check *v, const char *path);

/* ---- checking ---- */

enum {
	/* it came to rest: every submit is answered, every session over, everything published */
	GATE_OVER = 1,
	GATE_LOSSY = 2, /* the store was robbed of what it had: only what is left of it is checked */
};
/* How many violations; why gets the first ones, a line each. At any time: the integrity of the file; the rows
 * agree with each other; transitions are legal and sequences whole; what was acked, published, started or
 * told is in the store, with the same bytes; no sequence and no message has two contents; one session a
 * submit; the first copies are in order; nothing after session_closed; nothing of a task that waits or was
 * rejected, nothing that runs unapproved; no decision that counts twice; the audit's chain. */
int final_check_run(
	const struct final_check *v, const char *db_path, unsigned flags, char *why, size_t why_size);

#endif
