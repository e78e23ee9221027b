/* summary.h: a session that does not go on, closed with what it came to. */
#ifndef HCPD_SUMMARY_H
#define HCPD_SUMMARY_H

struct session;

/* Decides FAILED, reason `summarized`: the last intermediate result of each type and the last checkpoint in
 * words are its partial outputs. 0, or -1: the store cannot be read now, and nothing was decided. */
int summary_decide(struct session *s, const char *actor) __attribute__((warn_unused_result));

#endif
