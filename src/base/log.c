/* SPDX-License-Identifier: MIT */
/* log.c: lines on stderr.
 * Owns the level, the look of a line and the promise that nothing printed can forge or break one.
 * Never decides what is worth a line, never waits (log_sink.c), never changes errno. */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/log_format.h"
#include "base/log_sink.h"
#include "base/text.h"

#define HEAD_MAX_BYTES 64 /* time and level, or the priority prefix */
#define LIMIT_WINDOW_US (60 * INT64_C(1000000))

static const char *const names[] = {"error", "warn", "info", "debug"};
static const char *const priorities[] = {"<3>", "<4>", "<6>", "<7>"};
static const char ellipsis[] = "\xe2\x80\xa6";

static atomic_int current_level = LOG_LVL_INFO;

void log_set_level(enum log_level level)
{
	atomic_store(&current_level, (int)level);
}

enum log_level log_get_level(void)
{
	return (enum log_level)atomic_load_explicit(&current_level, memory_order_relaxed);
}

int log_level_parse(const char *name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return (int)i;
	return -1;
}

static bool to_journal;

/* JOURNAL_STREAM may be inherited from a parent process. Only device and inode show whether stderr of this
 * process goes to the journal. */
static void find_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	to_journal = stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
		fstat(STDERR_FILENO, &st) == 0 && st.st_dev == (dev_t)device && st.st_ino == (ino_t)inode;
}

static bool is_journal(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_journal);
	return to_journal;
}

/* How many printable ASCII characters the text begins with: none of them has an escape. */
static size_t plain_size(const unsigned char *text, size_t left)
{
	size_t size = 0;

	while (size < left && (unsigned char)(text[size] - 0x20) < 0x7f - 0x20)
		size++;
	return size;
}

/* Appends text to the line as far as it goes; a cut one ends in an ellipsis. */
static size_t append(char *line, size_t used, const char *text, bool is_cut)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t left = strlen(text), room = LOG_LINE_MAX - sizeof(ellipsis) - 1;
	char escape[ESCAPE_SIZE];

	while (left > 0) {
		size_t eaten = plain_size(p, left < room - used ? left : room - used), size = eaten;
		const char *from = (const char *)p;

		if (eaten == 0) {
			eaten = size = escape_next(p, left, escape);
			if (escape[0] != '\0') {
				from = escape;
				size = strlen(escape);
			}
		}
		if (size > room - used) {
			is_cut = true;
			break;
		}
		memcpy(line + used, from, size);
		used += size;
		p += eaten;
		left -= eaten;
	}
	if (is_cut) {
		memcpy(line + used, ellipsis, sizeof(ellipsis) - 1);
		used += sizeof(ellipsis) - 1;
	}
	return used;
}

static size_t write_head(char *line, enum log_level level, unsigned lost)
{
	char now[CLOCK_TEXT_SIZE], count[TEXT_INT_SIZE];
	size_t used;

	if (is_journal()) {
		used = text_copy(line, HEAD_MAX_BYTES, priorities[level]);
	} else {
		clock_format(clock_wall_us(), now);
		used = text_copy(line, HEAD_MAX_BYTES, now);
		used = text_append(line, HEAD_MAX_BYTES, used, " level=");
		used = text_append(line, HEAD_MAX_BYTES, used, names[level]);
		used = text_append(line, HEAD_MAX_BYTES, used, " ");
	}
	if (lost > 0) {
		text_put_uint(count, lost);
		used = text_append(line, HEAD_MAX_BYTES, used, "lost=");
		used = text_append(line, HEAD_MAX_BYTES, used, count);
		used = text_append(line, HEAD_MAX_BYTES, used, " ");
	}
	return used;
}

/* Of this thread: does it hold lines, and has it held one since it last wrote them? */
static _Thread_local bool holds_lines, has_held;

static void write_line(enum log_level level, const char *text, bool is_cut)
{
	bool hold = holds_lines && level >= LOG_LVL_INFO;
	char line[LOG_LINE_MAX];
	unsigned lost = log_sink_begin(hold);
	size_t used = write_head(line, level, lost);

	used = append(line, used, text, is_cut);
	line[used++] = '\n';
	log_sink_end(line, used, lost, hold);
	has_held |= hold;
}

void log_hold(_Bool hold)
{
	if (has_held)
		log_flush();
	has_held = false;
	holds_lines = hold;
}

void log_at(enum log_level level, const char *fmt, ...)
{
	char text[LOG_LINE_MAX];
	int saved = errno;
	bool is_whole;
	va_list args;

	if (level > log_get_level())
		return;
	va_start(args, fmt);
	is_whole = log_format(text, sizeof text, fmt, args);
	va_end(args);
	write_line(level, text, !is_whole);
	errno = saved;
}

_Bool log_is_behind(void)
{
	return log_sink_is_behind();
}

void log_flush(void)
{
	int saved = errno;
	char line[LOG_LINE_MAX];
	unsigned lost = log_sink_begin(false);
	size_t used = 0;

	if (lost > 0) { /* there is room again, and perhaps nothing else to say for a long time */
		used = write_head(line, LOG_LVL_WARN, lost);
		used = append(line, used, "lines are missing here: nobody read the log", false);
		line[used++] = '\n';
	}
	log_sink_end(line, used, lost, false);
	errno = saved;
}

void log_drain(int timeout_ms)
{
	int64_t until_us = clock_boot_us() + timeout_ms * INT64_C(1000), left_us;

	log_flush();
	while (log_is_behind() && (left_us = until_us - clock_boot_us()) > 0 &&
		log_sink_wait((int)(left_us / 1000) + 1))
		log_flush();
}

_Bool log_may(struct log_limit *limit, unsigned burst)
{
	int64_t now_us = clock_boot_us();

	/* A zeroed limit has never spoken: its window begins with its first line. */
	if ((limit->said == 0 && limit->left_out == 0) ||
		now_us - limit->window_start_us >= LIMIT_WINDOW_US) {
		if (limit->left_out > 0)
			log_warn("%u lines like the next one were left out", limit->left_out);
		*limit = (struct log_limit){.window_start_us = now_us};
	}
	if (limit->said < burst) {
		limit->said++;
		return true;
	}
	limit->left_out++;
	return false;
}
