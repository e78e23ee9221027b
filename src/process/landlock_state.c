/* SPDX-License-Identifier: MIT */
/* landlock_state.c: rules that close the secrets, and nothing else (landlock = state).
 * Landlock only allows, so "everything but a secret" is a rule for each entry of each directory on the way
 * from the root to a secret. Owns these directories (ways) and a descriptor for each of their other entries,
 * which are kept from one worker to the next: opening them costs more than the worker's rules. Never runs in
 * a child, and only in one thread. */
#include "process/landlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "process/landlock_private.h"

#define ENTRIES_MAX 4096
/* A mount or a symbolic link may change what a path means without a trace in the ways. */
#define AGE_US (10 * 1000000LL)
/* Times of files are this coarse: a change right after a look may leave the same time. */
#define TICK_NS 50000000LL

struct way {
	char *path;
	struct stat st; /* before its entries were read */
	bool is_young;  /* it had just been changed */
};

static struct {
	char **named;   /* the secrets as they were named; NULL: nothing is kept */
	char **secrets; /* their real paths */
	struct way *ways;
	size_t way_count;
	struct entry {
		int fd;
		bool is_dir;
	} entries[ENTRIES_MAX];
	size_t entry_count;
	int64_t made_us;
	bool has_fault; /* an entry could not be opened: the next worker may fare better */
} kept;
static struct log_limit full_limit;

static bool is_same_list(char *const *a, char *const *b)
{
	while (*a && *b && strcmp(*a, *b) == 0)
		a++, b++;
	return !*a && !*b;
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_same_way(const struct way *w)
{
	struct stat now;

	return !w->is_young && stat(w->path, &now) == 0 && now.st_dev == w->st.st_dev &&
		now.st_ino == w->st.st_ino && is_same_time(&now.st_mtim, &w->st.st_mtim) &&
		is_same_time(&now.st_ctim, &w->st.st_ctim);
}

static bool is_fresh(char *const *named)
{
	if (!kept.named || kept.has_fault || clock_boot_us() - kept.made_us > AGE_US ||
		!is_same_list(kept.named, named))
		return false;
	for (size_t i = 0; i < kept.way_count; i++)
		if (!is_same_way(&kept.ways[i]))
			return false;
	return true;
}

void landlock_forget_state(void)
{
	while (kept.entry_count > 0)
		close(kept.entries[--kept.entry_count].fd);
	while (kept.way_count > 0)
		free(kept.ways[--kept.way_count].path);
	free(kept.ways);
	kept.ways = NULL;
	landlock_free_secrets(kept.named);
	landlock_free_secrets(kept.secrets);
	kept.named = kept.secrets = NULL;
	kept.has_fault = false;
}

static void add_way(const char *path, int fd)
{
	struct way w = {.path = xstrdup(path)};
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	w.is_young = fstat(fd, &w.st) < 0 ||
		(now.tv_sec - w.st.st_ctim.tv_sec) * 1000000000LL + now.tv_nsec - w.st.st_ctim.tv_nsec <
			TICK_NS;
	kept.ways = xrealloc(kept.ways, (kept.way_count + 1) * sizeof *kept.ways);
	kept.ways[kept.way_count++] = w;
}

static int pass_over(const char *path)
{
	bool is_fault;

	if (landlock_pass_over(path, &is_fault) < 0)
		return -1;
	kept.has_fault |= is_fault;
	return 0;
}

/* Links need no rule, their targets do. */
static int keep_entry(const char *path)
{
	struct stat st;
	int fd;

	if (kept.entry_count == ENTRIES_MAX) {
		if (log_may(&full_limit, 1))
			log_warn(
				"more than %d entries beside the state directory and other secrets: the rest "
				"is closed to workers under landlock = state path=%s",
				ENTRIES_MAX, path);
		return 0;
	}
	fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return pass_over(path);
	if (fstat(fd, &st) < 0 || S_ISLNK(st.st_mode))
		close(fd);
	else
		kept.entries[kept.entry_count++] = (struct entry){.fd = fd, .is_dir = S_ISDIR(st.st_mode)};
	return 0;
}

/* path is a real path that holds a secret. The depth is that of the secrets. */
static int walk(const char *path)
{
	struct dirent *e;
	DIR *d = opendir(path);
	int rc = 0;

	if (!d)
		return pass_over(path);
	add_way(path, dirfd(d));
	while (rc == 0 && (e = readdir(d)) != NULL) {
		struct buf entry = {0};

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || e->d_type == DT_LNK)
			continue;
		buf_addf(&entry, "%s/%s", strcmp(path, "/") == 0 ? "" : path, e->d_name);
		if (!landlock_is_secret(kept.secrets, buf_text(&entry)))
			rc = landlock_holds_secret(kept.secrets, buf_text(&entry)) ?
				walk(buf_text(&entry)) :
				keep_entry(buf_text(&entry));
		buf_fini(&entry);
	}
	closedir(d);
	return rc;
}

static char **copy_list(char *const *list)
{
	size_t count = 0;
	char **copy;

	while (list[count])
		count++;
	copy = xcalloc(count + 1, sizeof *copy);
	for (size_t i = 0; i < count; i++)
		copy[i] = xstrdup(list[i]);
	return copy;
}

static int look(char *const *named)
{
	int error;

	landlock_forget_state();
	kept.named = copy_list(named);
	kept.secrets = landlock_find_secrets(named);
	kept.made_us = clock_boot_us();
	if (walk("/") == 0)
		return 0;
	error = errno;
	landlock_forget_state();
	errno = error;
	return -1;
}

static int allow_all(int ruleset, uint64_t handled, const char *workdir)
{
	int dir = open(workdir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc;

	if (dir < 0)
		return -1;
	rc = landlock_add_rule(ruleset, dir, handled);
	close(dir);
	for (size_t i = 0; rc == 0 && i < kept.entry_count; i++) {
		const struct entry *e = &kept.entries[i];

		if (landlock_add_rule(ruleset, e->fd, e->is_dir ? handled : handled & FS_FILE) < 0 &&
			errno != EBADFD)
			rc = -1;
	}
	return rc;
}

const char *landlock_find_state_fault(void)
{
	return landlock_find_abi() == 1 ? "this kernel's Landlock forbids renames between directories; Linux "
					  "5.19 lets them be allowed" :
					  landlock_find_fault();
}

int landlock_make_state(char *const *secrets, const char *workdir)
{
	/* Programs run as before: what is closed cannot be read, so it cannot be run. */
	const uint64_t handled =
		(FS_FIRST & ~FS_EXECUTE) | FS_REFER | (landlock_find_abi() >= 3 ? FS_TRUNCATE : 0);
	int ruleset, error;

	if (!is_fresh(secrets) && look(secrets) < 0)
		return -1;
	ruleset = landlock_make_ruleset(handled, 0);
	if (ruleset >= 0 && allow_all(ruleset, handled, workdir) < 0) {
		error = errno;
		close(ruleset);
		errno = error;
		ruleset = -1;
	}
	return ruleset;
}
