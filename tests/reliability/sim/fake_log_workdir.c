/* SPDX-License-Identifier: MIT */
/* fake_log_workdir.c: log.h and the working directories of worker.h, for the simulation.
 * Reads along in the daemon's log: what it calls a defect or impossible is a violation. Directories are
 * names. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "sim.h"
#include "process/workdir.h"

#define DIRS_MAX 512

static char dirs[DIRS_MAX][ID_SIZE];
static size_t dir_count;
static int failing;

/* ---- log.h ---- */

void log_set_level(enum log_level level)
{
	(void)level;
}

enum log_level log_get_level(void)
{
	return LOG_LVL_DEBUG;
}

int log_level_parse(const char *name)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};

	for (int i = 0; i < 4; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

void log_hold(_Bool hold)
{
	(void)hold; /* nothing is written here */
}

void log_at(enum log_level level, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (!sim.verbose && level > LOG_LVL_ERROR)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (sim.verbose)
		printf("      log: %s\n", text);
	if (level == LOG_LVL_ERROR && (strstr(text, "defect") != NULL || strstr(text, "illegal") != NULL) &&
		!sim.is_dead)
		violation("the daemon says: %s", text);
}

_Bool log_may(struct log_limit *limit, unsigned burst)
{
	(void)limit, (void)burst;
	return true;
}

/* ---- working directories ---- */

static size_t find(const char *name)
{
	size_t i = 0;

	while (i < dir_count && strcmp(dirs[i], name) != 0)
		i++;
	return i;
}

static void drop(size_t i)
{
	memmove(dirs[i], dirs[dir_count - 1], ID_SIZE);
	dir_count--;
}

int workdir_make(const char *state_dir, const char *session_id, const void *task, size_t task_size,
	char *path, size_t path_size)
{
	(void)task, (void)task_size;
	if (failing > 0 && !sim.is_dead) {
		failing--;
		errno = ENOSPC;
		return -1;
	}
	snprintf(path, path_size, "%s/work/%s", state_dir, session_id);
	if (!sim.is_dead && find(session_id) == dir_count) {
		if (dir_count == DIRS_MAX)
			violation("%d working directories are left", DIRS_MAX);
		snprintf(dirs[dir_count++], ID_SIZE, "%s", session_id);
	}
	return 0;
}

bool workdir_remove(const char *state_dir, const char *session_id)
{
	size_t i = find(session_id);

	(void)state_dir;
	if (i < dir_count && !sim.is_dead)
		drop(i);
	return false;
}

bool workdir_offer(const char *state_dir, const char *session_id)
{
	size_t i = find(session_id);

	(void)state_dir;
	if (i == dir_count || sim.is_dead)
		return false;
	drop(i);
	return true;
}

bool workdir_end_offers(const char *state_dir)
{
	(void)state_dir;
	return false;
}

bool workdir_sweep(const char *state_dir, int entries)
{
	(void)state_dir, (void)entries;
	return false;
}

int workdir_collect(const char *state_dir, bool (*is_known)(void *ctx, const char *name), void *ctx)
{
	int dropped = 0;

	(void)state_dir;
	for (size_t i = dir_count; i-- > 0;)
		if (!is_known(ctx, dirs[i])) {
			drop(i);
			dropped++;
		}
	return dropped;
}

bool sim_world_has_workdir(const char *session_id)
{
	return find(session_id) < dir_count;
}

void sim_world_fail_workdirs(int count)
{
	failing = count;
	if (count < 0)
		dir_count = (size_t)(failing = 0); /* a new seed */
}
