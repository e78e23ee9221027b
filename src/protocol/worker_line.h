/* wline.h: one line of a worker: is it good, what is it, what does its event say. */
#ifndef HCPD_WLINE_H
#define HCPD_WLINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "json/text.h"

enum wline_type {
	WL_PROGRESS,
	WL_INTERMEDIATE_RESULT,
	WL_LOG,
	WL_WARNING,
	WL_ERROR, /* become events of that name */
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

struct wline {
	enum wline_type type;
	const char *text; /* the line itself, a loan */
	size_t size;
	json_t *root;
};

/* Checks and takes apart one line; -1 with the reason in `why`. wline_fini only after 0. */
int wline_read(struct wline *l, const char *line, size_t size, int max_depth, char *why, size_t why_size)
	__attribute__((warn_unused_result));
/* Of a line that wline_read refused: what can be made out of it, so that whoever waits for an answer gets
 * one. False where it is no JSON object of a known type; wline_fini only after true. Nothing in it is
 * checked. */
bool wline_salvage(struct wline *l, const char *line, size_t size) __attribute__((warn_unused_result));
void wline_fini(struct wline *l);

const char *wline_type_name(enum wline_type type);
static inline bool wline_is_event(const struct wline *l)
{
	return l->type <= WL_ERROR;
}
/* Writes the event's data object: the fields of the type in their order, defaults filled in. */
void wline_add_data(const struct wline *l, struct buf *b);
/* A member, NULL where absent or null; its raw text appended to b, `otherwise` where absent or null. */
const json_t *wline_get(const struct wline *l, const char *name);
void wline_add_raw(const struct wline *l, struct buf *b, const char *name, const char *otherwise);
/* A string member, or `otherwise`. */
const char *wline_string(const struct wline *l, const char *name, const char *otherwise);

#endif
