/* SPDX-License-Identifier: MIT */
/* continuity.h: what a session leaves to later ones, and what a task takes from an earlier one.
 *
 * A session leaves a record (summary, decisions, open questions, next steps) and its checkpoints.
 * context.continues names a session whose record the worker gets; constraints.checkpoint names a checkpoint
 * that the first process starts from. */
#ifndef HCPD_CORE_RUNNING_CONTINUITY_H
#define HCPD_CORE_RUNNING_CONTINUITY_H

#include "base/buf.h"

struct checkpoint;
struct command;
struct core;
struct session;
struct gate_result;
struct worker_line;

/* A worker's `continuity` line; the last one counts. */
void continuity_record(struct session *s, const struct worker_line *l);
/* The session reached its final state: closes the record, in the same transaction. */
void continuity_close(struct session *s);

/* Do the session and the checkpoint that a task names exist, belong to its caller, and have data of no higher
 * class than the task's? If not, the gate's
 * result becomes a rejection. -1: the store cannot be read now. */
int continuity_check(struct core *c, const struct command *cmd, struct gate_result *v)
	__attribute__((warn_unused_result));
/* Appends ,"continues":{...} where the task names one. -1: the store cannot be read now. */
int continuity_add(struct session *s, const struct buf *task, struct buf *b)
	__attribute__((warn_unused_result));
/* Appends ,"recent":[...] where the capability wants records of earlier sessions, newest first. -1: the store
 * cannot be read now. */
int continuity_add_recent(struct session *s, struct buf *b) __attribute__((warn_unused_result));
/* Loads the checkpoint that the task names. 1: it is in *out; 0: the task names none, or it is gone, and then
 * the session's failure is decided; -1: the store cannot be read now; RESTORE_LATER: it is large, and another
 * start follows when it is restored, with the state in s->checkpoint.restored and none in *out. The caller
 * calls checkpoint_fini in all cases. */
int continuity_find_checkpoint(struct session *s, const struct buf *task, struct checkpoint *out)
	__attribute__((warn_unused_result));

#endif
