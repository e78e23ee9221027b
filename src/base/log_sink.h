/* SPDX-License-Identifier: MIT */
/* log_sink.h: whole lines to stderr, without ever waiting for its reader. For log.c.
 *
 * What stderr does not take now waits in a backlog of LOG_BACKLOG_BYTES, in order. A line that the backlog
 * has no room for is lost and counted. */
#ifndef HCPD_BASE_LOG_SINK_H
#define HCPD_BASE_LOG_SINK_H

#include <stdbool.h>
#include <stddef.h>

#define LOG_LINE_MAX 4000 /* below PIPE_BUF: a pipe takes such a line whole or not at all */
#define LOG_BACKLOG_BYTES (256u << 10)
#define LOG_HELD_BYTES 8192

/* Locks. Where the line is not to be held, writes what waits as far as stderr takes it. Returns the number of
 * lost lines that the next line can report; 0 also where there is no room for one. */
unsigned log_sink_begin(bool hold);
/* Writes or keeps a line of at most LOG_LINE_MAX bytes, which reports `lost` lines. Size 0: no line. A line
 * that is held is kept, without a system call, until a line that is not held, a call of size 0, or
 * LOG_HELD_BYTES of them: then all go out together, in order. Unlocks. */
void log_sink_end(const char *line, size_t size, unsigned lost, bool hold);
/* Does something wait for stderr? */
bool log_sink_is_behind(void);
/* Waits until stderr takes more, at most so long. False: it does not. */
bool log_sink_wait(int timeout_ms);

#endif
