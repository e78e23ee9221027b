/* continuity.h: what a session leaves to those that come after it, and what a task takes up of an earlier
 * one.
 *
 * Left: a record (summary, decisions, open questions, next steps), and its checkpoints. Taken up:
 * context.continues names a session whose record the worker gets; constraints.checkpoint a checkpoint that
 * its first process goes on from. */
#ifndef HCPD_CONTINUITY_H
#define HCPD_CONTINUITY_H

#include "base/buf.h"

struct checkpoint;
struct command;
struct core;
struct session;
struct verdict;
struct wline;

/* A worker says what is to be known: the last time counts. */
void continuity_note(struct session *s, const struct wline *l);
/* It has reached its last state: the record is closed, in the same transaction. */
void continuity_close(struct session *s);

/* Is what a task names there, and its caller's? Else the verdict becomes a rejection. -1: the store cannot be
 * read now. */
int continuity_check(struct core *c, const struct command *cmd, struct verdict *v)
	__attribute__((warn_unused_result));
/* Appends ,"continues":{...} where the task names one. -1: the store cannot be read now. */
int continuity_add(struct session *s, const struct buf *task, struct buf *b)
	__attribute__((warn_unused_result));
/* The checkpoint that the task names. 1: here it is; 0: it names none, or it is no longer to be had, and then
 * the session's failure is decided; -1: the store cannot be read now. *out is to be finished. */
int continuity_find_checkpoint(struct session *s, const struct buf *task, struct checkpoint *out)
	__attribute__((warn_unused_result));

#endif
