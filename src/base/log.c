/* SPDX-License-Identifier: MIT */
/* log.c: lines on stderr.
 * Owns the level, the look of a line and the promise that nothing printed can forge or break one.
 * Never decides what is worth a line, never waits longer than one write(2), never changes errno. */
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

#include "base/buf.h"
#include "base/clock.h"

#define LINE_MAX_BYTES 4000 /* below PIPE_BUF: lines of several threads do not mix in a pipe */
#define HEAD_MAX_BYTES 64   /* time and level, or the priority prefix */
#define LIMIT_WINDOW_US (60 * INT64_C(1000000))

static const char *const names[] = {"error", "warn", "info", "debug"};
static const char *const priorities[] = {"<3>", "<4>", "<6>", "<7>"};
static const char ellipsis[] = "\xe2\x80\xa6";

static atomic_int current_level = LOG_LVL_INFO;
static atomic_uint lost_lines; /* lines that stderr did not take; the next line has their number */

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

/* What a character becomes in the log: itself, or an escape in `spare`. C1 controls count as controls:
 * terminals obey them. */
static size_t escape(
	const unsigned char *text, size_t left, char spare[8], const char **out, size_t *out_size)
{
	size_t size = buf_utf8_size(text, left);
	bool is_control =
		size == 1 ? *text < 0x20 || *text == 0x7f : size == 2 && *text == 0xc2 && text[1] < 0xa0;

	if (size > 0 && !is_control) {
		*out = (const char *)text;
		*out_size = size;
		return size;
	}
	*out = spare;
	if (*text == '\n' || *text == '\t' || *text == '\r') {
		spare[0] = '\\';
		spare[1] = *text == '\n' ? 'n' : *text == '\t' ? 't' : 'r';
		*out_size = 2;
		return 1;
	}
	*out_size = (size_t)snprintf(spare, 8, "\\x%02x", *text);
	if (size == 2)
		*out_size = (size_t)snprintf(spare, 8, "\\u%04x", text[1]);
	return size ? size : 1;
}

/* Appends text to the line as far as it goes; a cut one ends in an ellipsis. */
static size_t append(char *line, size_t used, const char *text, bool is_cut)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t left = strlen(text), room = LINE_MAX_BYTES - sizeof(ellipsis) - 1;
	char spare[8];

	while (left > 0) {
		const char *out;
		size_t size, eaten = escape(p, left, spare, &out, &size);

		if (used + size > room) {
			is_cut = true;
			break;
		}
		memcpy(line + used, out, size);
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
	char now[CLOCK_TEXT_SIZE];
	int size;

	if (is_journal()) {
		size = snprintf(line, HEAD_MAX_BYTES, "%s", priorities[level]);
	} else {
		clock_format(clock_wall_us(), now);
		size = snprintf(line, HEAD_MAX_BYTES, "%s level=%s ", now, names[level]);
	}
	if (lost > 0)
		size += snprintf(line + size, HEAD_MAX_BYTES - (size_t)size, "lost=%u ", lost);
	return (size_t)size;
}

void log_at(enum log_level level, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES], text[LINE_MAX_BYTES];
	int saved = errno, full;
	unsigned lost;
	size_t used;
	ssize_t written;
	va_list args;

	if (level > log_get_level())
		return;
	va_start(args, fmt);
	full = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (full < 0)
		snprintf(text, sizeof(text), "a message that cannot be formatted: %s", fmt);

	lost = atomic_exchange(&lost_lines, 0);
	used = write_head(line, level, lost);
	used = append(line, used, text, full >= (int)sizeof(text));
	line[used++] = '\n';
	do
		written = write(STDERR_FILENO, line, used);
	while (written < 0 && errno == EINTR);
	if (written < 0)
		atomic_fetch_add(&lost_lines, lost + 1);
	errno = saved;
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
