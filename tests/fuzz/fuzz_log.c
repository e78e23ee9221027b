/* SPDX-License-Identifier: MIT */
/* fuzz_log.c: the log's promise that nothing printed can forge or break a line. Input: the text that is
 * printed. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fuzz.h"
#include "base/log.h"
#include "base/log_sink.h"

static char caught[8192];
static size_t caught_size;

/* log_sink.h */
unsigned log_sink_begin(bool hold)
{
	MUST(!hold);
	return 0;
}

void log_sink_end(const char *line, size_t size, unsigned lost, bool hold)
{
	/* one line a call */
	MUST(!hold && lost == 0 && caught_size == 0 && size <= sizeof caught);
	memcpy(caught, line, size);
	caught_size = size;
}

bool log_sink_is_behind(void)
{
	return false;
}

bool log_sink_wait(int timeout_ms)
{
	(void)timeout_ms;
	return true;
}

#include "base/log.c"

/* A reader of fields: a value that begins with a quote ends with one. */
static int count_fields(const char *p, const char *end)
{
	int count = 0;

	for (; p < end; p++) {
		if (*p != '=')
			continue;
		count++;
		if (p + 1 < end && p[1] == '"')
			for (p += 2; p < end && *p != '"'; p++)
				p += *p == '\\';
	}
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size};
	char *text = feed_rest(&f);
	bool is_cut;

	unsetenv("JOURNAL_STREAM");
	caught_size = 0;
	errno = EDOM;
	log_at(LOG_LVL_ERROR, "a=%s b=%s", text, "end");
	MUST(errno == EDOM);
	MUST(caught_size > 1 && caught_size <= 4000 && caught[caught_size - 1] == '\n');
	MUST(fuzz_is_plain(caught, caught_size - 1, "") && fuzz_is_utf8(caught, caught_size));
	MUST(memcmp(caught + 24, " level=error a=", 15) == 0);
	is_cut = memcmp(caught + caught_size - 4, "\xe2\x80\xa6", 3) == 0 && caught_size > 3900;
	MUST(is_cut || memcmp(caught + caught_size - 7, " b=end\n", 7) == 0);
	MUST(is_cut || count_fields(caught, caught + caught_size) == 3);
	caught_size = 0;
	log_at(LOG_LVL_DEBUG, "%s", text);
	MUST(caught_size == 0);
	free(text);
	return 0;
}
