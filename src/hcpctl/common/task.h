/* SPDX-License-Identifier: MIT */
/* task.h: what hcpctl sends: a task_submit from the options of a command line, and an abort. */
#ifndef HCPD_HCPCTL_COMMON_TASK_H
#define HCPD_HCPCTL_COMMON_TASK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define CTL_TASK_WHY_SIZE 256

/* k=v, also a.b=v, into an object. v is JSON where it is valid JSON, else a string. False with a reason. */
bool ctl_task_set(json_t *object, const char *assignment, char *why);
/* Compact JSON; reals with as few digits as read back to the same value. */
void ctl_task_add_json(struct buf *b, const json_t *v);

struct ctl_task {
	const char *capability, *version, *intent; /* version, intent: NULL where not given */
	const char *caller;
	const char *inputs_text; /* a whole JSON object, checked; NULL: none */
	size_t inputs_size;
	const json_t *inputs;     /* from --input, replaces members of inputs_text; NULL: none */
	const json_t *context;    /* NULL: none */
	const json_t *labels;     /* the same */
	const char *max_duration; /* ISO 8601 */
	const char *priority, *data_class;
	const char *checkpoint; /* id of a checkpoint of an ended session, to begin from */
	/* id of an ended session; goes into context, and replaces the member there */
	const char *continues;
};

/* Appends the whole message. inputs_text is sent as it is written, except for white space. */
void ctl_task_compose(struct buf *b, const struct ctl_task *t);
void ctl_task_compose_abort(struct buf *b, const char *session, const char *token, const char *reason);

#endif
