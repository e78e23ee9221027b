/* SPDX-License-Identifier: MIT */
/* checkpoint_store.h: a checkpoint that a worker made. */
#ifndef HCPD_CORE_RUNNING_CHECKPOINT_STORE_H
#define HCPD_CORE_RUNNING_CHECKPOINT_STORE_H

struct session;
struct worker_line;
struct checkpoint_pack;

/* A `checkpoint` line, packed: stores the checkpoint and publishes checkpoint_created. One over the size
 * limit costs a warning event and is not stored. */
void checkpoint_store_put(struct session *s, const struct worker_line *l, const struct checkpoint_pack *p);

#endif
