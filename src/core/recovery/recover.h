/* recover.h: an interrupted session: how it goes on, or how it ends instead. */
#ifndef HCPD_RECOVER_H
#define HCPD_RECOVER_H

#include <stdbool.h>

#include "config/config.h"

struct session;

/* A PAUSED session without a process goes on, one way or another: as an operator said, or as its capability
 * says. -1: the store cannot be read. */
int recover_go_on(struct session *s) __attribute__((warn_unused_result));
/* The same, ended: fail, summarize or discard. -1: the store cannot be read, and nothing happened. */
int recover_end(struct session *s, enum recovery how, const char *actor) __attribute__((warn_unused_result));
/* RUNNING again, with a slot; its process is started after the commit, with its latest checkpoint or without.
 */
void recover_resume(struct session *s, const char *reason, bool from_checkpoint);

#endif
