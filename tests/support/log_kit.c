/* SPDX-License-Identifier: MIT */
/* log_kit.c: stderr as a file in memory. */
#include "support/log_kit.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

static int file = -1, real_stderr = -1;
static enum log_level level_before;

void log_kit_begin(enum log_level level)
{
	file = memfd_create("log", MFD_CLOEXEC);
	real_stderr = dup(STDERR_FILENO);
	ck_assert(file >= 0 && real_stderr >= 0);
	ck_assert_int_eq(dup2(file, STDERR_FILENO), STDERR_FILENO);
	level_before = log_get_level();
	log_set_level(level);
}

int log_kit_count(const char *text)
{
	struct stat st;
	int count = 0;
	char *all;

	ck_assert_int_eq(fstat(file, &st), 0);
	all = xcalloc(1, (size_t)st.st_size + 1);
	ck_assert_int_eq(pread(file, all, (size_t)st.st_size, 0), st.st_size);
	for (const char *at = all; (at = strstr(at, text)) != NULL; at++)
		count++;
	free(all);
	return count;
}

void log_kit_end(void)
{
	log_set_level(level_before);
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	close(file);
}
