/* SPDX-License-Identifier: MIT */
/* log.h: one line a message, key=value, on stderr. Safe to call from every thread.
 *
 * Write what happened, then what we do now, then the keys:
 *	log_warn("broker gone, reconnecting in=%dms host=%s", ms, host);
 * Control and invisible characters are escaped on the way out, so input may be printed as it is: best as a
 *value, right behind a `=`, where a text with a `=` in it is quoted and cannot look like further fields. A
 *line never waits for whoever reads stderr. It waits in memory (log_sink.h), or is lost; the next line begins
 *with the number of those, lost=N. Where stderr is the journal (JOURNAL_STREAM names it) a line starts with
 *its priority prefix, <4> and so on, and has no time and level of its own; elsewhere it starts
 *`2026-01-31T12:34:56.789Z level=warn `. A line over 4000 bytes is cut and ends in an ellipsis. */
#ifndef HCPD_BASE_LOG_H
#define HCPD_BASE_LOG_H

#include <stdint.h>

enum log_level { LOG_LVL_ERROR, LOG_LVL_WARN, LOG_LVL_INFO, LOG_LVL_DEBUG };

/* One per call site (and thread) whose rate input can drive: at most `burst` lines a minute, then silence and
 * one line that says how many were left out. */
struct log_limit {
	int64_t window_start_us;
	unsigned said, left_out;
};

void log_set_level(enum log_level level);
enum log_level log_get_level(void);
/* "error", "warn", "info", "debug"; -1 for anything else. */
int log_level_parse(const char *name);

void log_at(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes this thread's lines that are held. From here on, where `hold` is set, its lines of the levels info
 * and debug are held in memory until the next call, or until a line that is not held: all are written
 * together then, in order. For a thread that calls this again and again, and never sleeps in between. */
void log_hold(_Bool hold);
/* Do lines wait for stderr? */
_Bool log_is_behind(void);
/* Writes the lines that wait, as far as stderr takes them. */
void log_flush(void);
/* The same before the process ends, waiting at most so long. */
void log_drain(int timeout_ms);
/* May the call site speak? Counts what it may not. */
_Bool log_may(struct log_limit *limit, unsigned burst);

#define log_error(...) log_at(LOG_LVL_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_LVL_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_LVL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LVL_DEBUG, __VA_ARGS__)

#endif
