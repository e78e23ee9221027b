/* SPDX-License-Identifier: MIT */
/* caller_log.h: lines of the log that callers cause with commands that change nothing: rejected submits,
 * refused aborts. Each caller section has so many of them a minute, and senders that no section vouches for
 * have so many together, so that a flood neither fills the log nor hides what happens to other callers. */
#ifndef HCPD_CORE_ADMISSION_CALLER_LOG_H
#define HCPD_CORE_ADMISSION_CALLER_LOG_H

#include <stdbool.h>

#include "base/log.h"
#include "config/config.h"

struct core;

/* May a line of this level be written about this caller's command? NULL: its sender is not known. */
bool caller_log_may(struct core *c, const struct config_caller *caller, enum log_level level);
/* The same where only the caller's id is at hand, and its identity was checked. */
bool caller_log_may_id(struct core *c, const char *caller_id, enum log_level level);
void caller_log_fini(struct core *c);

#endif
