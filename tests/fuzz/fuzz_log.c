/* SPDX-License-Identifier: MIT */
/* fuzz_log.c: the log's promise that nothing printed can forge or break a line. Input: the text that is
 * printed. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fuzz.h"
#include "base/log.h"

static char caught[8192];
static size_t caught_size;

static ssize_t catch_write(int fd, const void *data, size_t size)
{
	/* one write(2) a line */
	MUST(fd == STDERR_FILENO && caught_size == 0 && size <= sizeof caught);
	memcpy(caught, data, size);
	caught_size = size;
	return (ssize_t)size;
}

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#define write catch_write
#include "base/log.c"
#undef write

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
	caught_size = 0;
	log_at(LOG_LVL_DEBUG, "%s", text);
	MUST(caught_size == 0);
	free(text);
	return 0;
}
