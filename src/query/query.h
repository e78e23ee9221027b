/* SPDX-License-Identifier: MIT */
/* query.h: queries of the store for people: list, show, events, checkpoints, log, audit, approvals.
 *
 * Read-only, on a connection of its own: the daemon's control thread has one beside the core's, and hcpctl
 * has one where no daemon answers. A query belongs to one thread. Answers come in slices. A cursor is plain
 * data with the position; between two slices neither a transaction nor a statement is open. Nothing is ever
 * written or migrated. No session token is shown: where a stored message has one, it is "***". */
#ifndef HCPD_QUERY_QUERY_H
#define HCPD_QUERY_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/clock.h"
#include "protocol/message.h"
#include "protocol/names.h"
#include "base/id.h"

struct query;

enum { QUERY_SLICE = 256, QUERY_PREFIX_MIN = 4, QUERY_LABELS_MAX = 4 };

/* An error as the control socket sends it; texts are UTF-8 and may quote the request. */
struct query_error {
	const char *code; /* bad_request, not_found, ambiguous, unavailable */
	char message[512];
	char next[256]; /* what to do about it */
};

enum query_verb {
	QUERY_LIST,
	QUERY_SHOW,
	QUERY_EVENTS,
	QUERY_CHECKPOINTS,
	QUERY_LOG,
	QUERY_AUDIT,
	QUERY_APPROVALS,
	QUERY_VERBS
};

/* The position of an answer. Plain data: may be copied, needs no fini. */
struct query_cursor {
	enum query_verb verb;
	bool is_follow;              /* events, log: goes on at the end of what there is */
	bool has_state;              /* checkpoints: with their state, restored and verified */
	char checkpoint[ID_SIZE];    /* checkpoints: only those whose id begins so; "": all */
	int part;                    /* show, audit: what comes next */
	int64_t session;             /* its key; 0 for list, and for approvals of all */
	char session_id[ID_SIZE];    /* whole; "" for list */
	int64_t row;                 /* the last one that was given */
	int64_t limit;               /* list: how many items yet; 0: all */
	bool is_cut;                 /* list: the limit ended it; query_add_done adds where */
	int64_t items;               /* given so far */
	uint32_t states;             /* list: a bit for each state; 0: all */
	char since[CLOCK_TEXT_SIZE]; /* list, audit: created then or later; "": at any time */
	char caller[CALLER_ID_SIZE], capability[129]; /* list: "": any */
	struct query_label {                          /* list: the session has all of them */
		char name[LABEL_SIZE_MAX + 1], value[LABEL_SIZE_MAX + 1];
	} labels[QUERY_LABELS_MAX];
	int label_count;
};

/* One item: a JSON object in one line without its newline; the text is borrowed. False: the item was taken,
 * but no more now. */
typedef bool query_item_fn(void *ctx, const char *json, size_t size);

/* Opens STATE_DIR/hcpd.db. 0, or a sysexits code with one or two sentences that say what to do. */
int query_open(const char *state_dir, struct query **out, char *why, size_t why_size)
	__attribute__((warn_unused_result));
void query_close(struct query *q);

/* Is the word one of the verbs? */
bool query_knows(const char *verb);
/* Begins an answer. `request` is the whole request: an object with `do`, and maybe `id`; every other member
 * must be one of that verb's. A session's word is resolved here. 0, or -1 with the error filled in. */
int query_begin(struct query *q, struct query_cursor *c, const json_t *request, struct query_error *e)
	__attribute__((warn_unused_result));

enum { QUERY_UNREADABLE = -1, QUERY_DONE = 0, QUERY_MORE = 1, QUERY_WAIT = 2 };
/* Gives up to `max_rows` rows (at least 1; QUERY_SLICE is good) to fn, and moves the cursor behind them.
 * QUERY_MORE: call again when there is room. QUERY_DONE: that was all. QUERY_WAIT (only where is_follow):
 * that was all for now, call again after the next commit or a while; when the session is over, it becomes
 * QUERY_DONE by itself. QUERY_UNREADABLE: query_fault says why, the cursor stays where it was and may be
 * tried again. QUERY_MORE may come with no item given: rows that a filter passes over count as rows. */
int query_more(struct query *q, struct query_cursor *c, int max_rows, query_item_fn *fn, void *ctx)
	__attribute__((warn_unused_result));
/* The reason of the last QUERY_UNREADABLE; its code is unavailable. */
void query_fault(const struct query *q, struct query_error *e);
/* Members of the closing line, each with a comma before it: ,"items":N and, where there is one,
 * ,"session":"ID"; for a list that its limit cut also ,"before":KEY, to go on with. */
void query_add_done(const struct query_cursor *c, struct buf *out);

/* Finds a session by its whole id, or by a beginning that fits only one, in either case. For verbs of other
 * rooms. 0, or -1 with not_found, ambiguous, bad_request or unavailable. */
int query_find(struct query *q, const char *word, int64_t *key, char session_id[ID_SIZE],
	struct query_error *e) __attribute__((warn_unused_result));

/* The class of a session's data, and whose they are. */
struct query_data {
	char data_class[4], caller_id[CALLER_ID_SIZE], capability[129];
};
/* False where there is no such session, or the store cannot be read. */
bool query_find_data(struct query *q, int64_t key, struct query_data *out);

/* The session of the item of approvals that was given last: for query_item_fn. False like query_find_data. */
bool query_find_waiting(
	struct query *q, const struct query_cursor *c, int64_t *key, char session_id[ID_SIZE]);

#endif
