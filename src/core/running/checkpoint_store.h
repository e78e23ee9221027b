/* SPDX-License-Identifier: MIT */
/* checkpoint_store.h: a checkpoint that a worker made. */
#ifndef HCPD_CORE_RUNNING_CHECKPOINT_STORE_H
#define HCPD_CORE_RUNNING_CHECKPOINT_STORE_H

struct session;
struct worker_line;
struct checkpoint_pack;

/* A `checkpoint` line, packed: stores the checkpoint and publishes checkpoint_created. One over the size
 * limit, or one whose state does not fit the state_schema, costs a warning event and is not stored. */
void checkpoint_store_put(struct session *s, const struct worker_line *l, const struct checkpoint_pack *p);
/* Tells the worker that its checkpoint was not kept: one that waits for the answer would wait without end. */
void checkpoint_store_refuse(struct session *s, const struct worker_line *l, const char *why);

#endif
