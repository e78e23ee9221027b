/* SPDX-License-Identifier: MIT */
/* log_kit.h: what the code under test logs: stderr is a file in memory between begin and end. */
#ifndef HCPD_TESTS_SUPPORT_LOG_KIT_H
#define HCPD_TESTS_SUPPORT_LOG_KIT_H

#include "base/log.h"

/* From here on lines up to this level are kept. */
void log_kit_begin(enum log_level level);
/* How often the text occurs in them so far. */
int log_kit_count(const char *text);
/* stderr and the level are as before. */
void log_kit_end(void);

#endif
