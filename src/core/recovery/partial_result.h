/* SPDX-License-Identifier: MIT */
/* partial_result.h: ends an interrupted session with its partial outputs. */
#ifndef HCPD_CORE_RECOVERY_PARTIAL_RESULT_H
#define HCPD_CORE_RECOVERY_PARTIAL_RESULT_H

struct session;

/* Decides FAILED, reason `summarized`. The partial outputs are the last intermediate result of each type and
 * a description of the last checkpoint. 0, or -1: the store cannot be read now, and nothing was decided. */
int partial_result_decide(struct session *s, const char *actor) __attribute__((warn_unused_result));

#endif
