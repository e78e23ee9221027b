/* ctl_task.h: what hcpctl sends: a task_submit from the words of a command line, and an abort. */
#ifndef HCPD_CTL_TASK_H
#define HCPD_CTL_TASK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define CTL_TASK_WHY_SIZE 256

/* k=v, also a.b=v, into an object. v is JSON where it is valid JSON, else a string. False with a reason. */
bool ctl_task_set(json_t *object, const char *assignment, char *why);
/* Compact; reals as short as they can be read back. */
void ctl_task_add_json(struct buf *b, const json_t *v);

struct ctl_task {
	const char *capability, *version, *intent; /* version, intent: NULL where not given */
	const char *caller;
	const char *inputs_text; /* a whole JSON object, checked; NULL: none */
	size_t inputs_size;
	const json_t *inputs;     /* from --input, laid over inputs_text; NULL: none */
	const json_t *context;    /* NULL: none */
	const char *max_duration; /* ISO 8601 */
	const char *priority, *data_class;
	const char *checkpoint; /* id of one of an ended session, to begin from */
	const char *continues;  /* id of an ended session; goes into context, over what stands there */
};

/* Appends the whole message. What inputs_text has is sent as it is written, but for white space. */
void ctl_task_compose(struct buf *b, const struct ctl_task *t);
void ctl_task_compose_abort(struct buf *b, const char *session, const char *token, const char *reason);

#endif
