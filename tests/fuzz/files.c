/* SPDX-License-Identifier: MIT */
/* files.c: the directory in memory, and the modules that read files, compiled to read it.
 * Owns what is in it. Never touches the disk. */
#include "files.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

static struct file {
	char path[64];
	const char *data;
	size_t size;
	mode_t mode;
} files[FILES_MAX];
static size_t file_count;

static const struct file *open_file; /* there is never more than one */
static size_t open_at;

void files_clear(void)
{
	file_count = 0;
	fuzz_logged = 0;
	MUST(open_file == NULL);
}

void files_add(const char *name, const void *data, size_t size, mode_t mode)
{
	struct file *f;

	if (file_count == FILES_MAX)
		return;
	f = &files[file_count++];
	snprintf(f->path, sizeof f->path, FILES_DIR "/%.40s", name);
	f->data = data;
	f->size = size;
	f->mode = S_IFREG | mode;
}

static const struct file *find_file(const char *path)
{
	for (size_t i = 0; i < file_count; i++)
		if (strcmp(files[i].path, path) == 0)
			return &files[i];
	errno = ENOENT;
	return NULL;
}

const char *files_text(const char *name, size_t *size)
{
	char path[64];
	const struct file *f;

	snprintf(path, sizeof path, FILES_DIR "/%.40s", name);
	f = find_file(path);
	*size = f != NULL ? f->size : 0;
	return f != NULL ? f->data : NULL;
}

size_t files_size(const char *name)
{
	size_t size;

	files_text(name, &size);
	return size;
}

/* `=== NAME MODE` at p: its length with the newline; 0: it is none. */
static size_t take_mark(const char *p, const char *end, char name[41], mode_t *mode)
{
	const char *newline = memchr(p, '\n', (size_t)(end - p)), *q = p + 4;
	size_t n = 0;

	if (newline == NULL || newline - p < 5 || newline - p > 60 || memcmp(p, "=== ", 4) != 0)
		return 0;
	while (q < newline && n < 40 && (isalnum((unsigned char)*q) || *q == '.'))
		name[n++] = *q++;
	name[n] = '\0';
	*mode = 0;
	for (; q < newline && (*q == ' ' || (*q >= '0' && *q <= '7')); q++)
		*mode = *q == ' ' ? *mode : (*mode * 8 + (mode_t)(*q - '0')) & 07777;
	*mode = *mode != 0 ? *mode : 0600;
	return (size_t)(newline + 1 - p);
}

void files_split(const char *first, const char *data, size_t size)
{
	const char *start = data, *p = data, *end = data + size;
	char name[41];
	mode_t mode = 0640, next_mode;

	snprintf(name, sizeof name, "%s", first);
	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		char next[41];
		size_t mark = take_mark(p, end, next, &next_mode);

		if (mark > 0) {
			files_add(name, start, (size_t)(p - start), mode);
			memcpy(name, next, sizeof name);
			mode = next_mode;
			start = p += mark;
		} else {
			p = newline != NULL ? newline + 1 : end;
		}
	}
	files_add(name, start, (size_t)(end - start), mode);
}

/* --- what the disk would do --- */

int files_open(const char *path, int flags, ...)
{
	MUST((flags & O_ACCMODE) == O_RDONLY && (flags & O_CLOEXEC) && open_file == NULL);
	open_file = find_file(path);
	open_at = 0;
	return open_file != NULL ? 1000 : -1;
}

ssize_t files_read(int fd, void *to, size_t size)
{
	size_t left;

	MUST(fd == 1000 && open_file != NULL);
	left = open_file->size - open_at;
	size = size < left ? size : left;
	if (size > 0)
		memcpy(to, open_file->data + open_at, size);
	open_at += size;
	return (ssize_t)size;
}

int files_close(int fd)
{
	MUST(fd == 1000 && open_file != NULL);
	open_file = NULL;
	return 0;
}

static int fill_stat(const struct file *f, struct stat *st)
{
	if (f == NULL)
		return -1;
	memset(st, 0, sizeof *st);
	st->st_mode = f->mode;
	st->st_size = (off_t)f->size;
	return 0;
}

int files_fstat(int fd, struct stat *st)
{
	MUST(fd == 1000);
	return fill_stat(open_file, st);
}

int files_stat(const char *path, struct stat *st)
{
	return fill_stat(find_file(path), st);
}

int files_access(const char *path, int mode)
{
	const struct file *f = find_file(path);

	if (f != NULL && mode == X_OK && !(f->mode & 0100)) {
		errno = EACCES;
		return -1;
	}
	return f != NULL ? 0 : -1;
}

char *files_realpath(const char *path, char *real)
{
	size_t size = strlen(path);

	if (size >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	if (real == NULL)
		return xstrdup(path);
	return memcpy(real, path, size + 1);
}

static struct passwd *files_getpwnam(const char *name)
{
	static char dir[] = "/home/worker";
	static struct passwd worker = {.pw_uid = 1000, .pw_gid = 1000, .pw_dir = dir}, root = {.pw_dir = dir};

	errno = 0;
	return strcmp(name, "worker") == 0 ? &worker : strcmp(name, "root") == 0 ? &root : NULL;
}

static struct group *files_getgrnam(const char *name)
{
	static struct group lab = {.gr_gid = 2000};

	errno = 0;
	return strcmp(name, "lab") == 0 ? &lab : NULL;
}

/* One more than the first that asks has room for, so that it has to ask again. */
static int files_getgrouplist(const char *name, gid_t group, gid_t *groups, int *count)
{
	int room = *count;

	(void)name;
	*count = 17;
	for (int i = 0; i < room && i < 17; i++)
		groups[i] = group;
	return room < 17 ? -1 : 17;
}

/* --- the modules; what they include was included above, so that only their own calls are renamed --- */

#include <arpa/inet.h>
#include <libgen.h>

#include "policy/capability.h"
#include "base/io.h"
#include "config/table_private.h"

#define open files_open
#define read files_read
#define close files_close
#define fstat files_fstat
#define stat(path, st) files_stat(path, st)
#define access files_access
#define realpath files_realpath
#define getpwnam files_getpwnam
#define getgrnam files_getgrnam
#define getgrouplist files_getgrouplist

#include "base/io.c"
#include "policy/capability.c"
#include "config/amqp.c"
#include "config/confine.c"
#include "config/config.c"
