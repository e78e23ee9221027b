/* SPDX-License-Identifier: MIT */
/* worker_line.h: one line of a worker: is it valid, what is its type, and what data its event gets. */
#ifndef HCPD_PROTOCOL_WORKER_LINE_H
#define HCPD_PROTOCOL_WORKER_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "json/load.h"
#include "json/text.h"

/* A worker that leaves so many checkpoint_requests in a row unanswered gets no more, until it makes a
 * checkpoint by itself. */
enum { CHECKPOINT_UNANSWERED_MAX = 2 };

enum worker_line_type {
	/* these become events of the same name */
	WL_PROGRESS,
	WL_INTERMEDIATE_RESULT,
	WL_LOG,
	WL_WARNING,
	WL_ERROR,
	WL_CHECKPOINT,
	WL_STEP,
	WL_USAGE,
	WL_ARTIFACT,
	WL_ACTION,
	WL_SNAPSHOT,
	WL_CONTINUITY,
	WL_PAUSED,
	WL_RESUMED,
	WL_COMPLETED,
	WL_FAILED,
	WL_COUNT
};

#define WORKER_LINE_MEMBERS 12 /* of a line without a tree */

struct worker_line {
	enum worker_line_type type;
	const char *text; /* borrowed: the line itself */
	size_t size;
	json_t *root; /* NULL: there is no tree, and `members` has what is in the line */
	struct jload_member members[WORKER_LINE_MEMBERS];
	size_t member_count;
	bool are_reals; /* an integer beyond 64 bits: `root` has all integers as reals */
};

/* Checks and parses one line; -1 with the reason in `why`. Call worker_line_fini only after 0. */
int worker_line_read(struct worker_line *l, const char *line, size_t size, int max_depth, char *why,
	size_t why_size) __attribute__((warn_unused_result));
/* The same without a tree, for a line that becomes an event and is used for nothing else: progress, log,
 * error or intermediate_result with no value inside another one. Only worker_line_type_name,
 * worker_line_is_event, worker_line_add_data and worker_line_fini may be called for it. False says nothing
 * about the line: worker_line_read decides. */
bool worker_line_scan(struct worker_line *l, const char *line, size_t size)
	__attribute__((warn_unused_result));
/* For a line that worker_line_read refused: as much of it as is known, so that a caller that waits for an
 * answer gets one. False: no JSON object of a known type. Call worker_line_fini only after true. No member is
 * checked. */
bool worker_line_salvage(struct worker_line *l, const char *line, size_t size)
	__attribute__((warn_unused_result));
void worker_line_fini(struct worker_line *l);

const char *worker_line_type_name(enum worker_line_type type);
static inline bool worker_line_is_event(const struct worker_line *l)
{
	return l->type <= WL_ERROR;
}
/* Writes the event's data object: the fields of the type in their order, defaults filled in. */
void worker_line_add_data(const struct worker_line *l, struct buf *b);
/* A member, NULL where absent or null. Its raw text is appended to b, `otherwise` where absent or null. */
const json_t *worker_line_get(const struct worker_line *l, const char *name);
void worker_line_add_raw(const struct worker_line *l, struct buf *b, const char *name, const char *otherwise);
/* A string member, or `otherwise`. */
const char *worker_line_string(const struct worker_line *l, const char *name, const char *otherwise);

#endif
