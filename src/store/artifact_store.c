/* SPDX-License-Identifier: MIT */
/* artifact_store.c: copies files into the artifact store, a slice at a time.
 * Owns everything below STATE_DIR/artifacts. Below work/ a worker may have put anything: each step of a path
 * starts from an open directory and follows no link, so the opened file is below the session's directory,
 * whatever is renamed meanwhile. The checks and the reads use the same descriptor. Never knows a session or
 * the store (artifacts.c). */
#include "store/artifact_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/buf.h"
#include "base/crashpoint.h"
#include "base/id.h"
#include "base/log.h"

#define HALF ".new" /* no artifact has this name: it begins with a dot; one at a time for each session */
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define PIECE (128 << 10)
/* Bytes that are not synced yet: the last sync waits for no more than these. */
#define BEHIND (4 << 20)

struct artifact_copying {
	char *name;
	int in, dir, out; /* out: -1 before the first slice */
	char *state_dir, *session_id;
	struct stat was; /* of the source when it was opened */
	EVP_MD_CTX *hash;
	int64_t synced;
	char piece[PIECE];
};

static int close_keep(int fd)
{
	int error = errno;

	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

/* ---- the way to the source ---- */

static int work_open(const struct artifact_source *src)
{
	char path[4096];

	if ((size_t)snprintf(path, sizeof path, "%s/work/%s", src->state_dir, src->session_id) >=
		sizeof path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return open(path, OPEN_DIR);
}

/* The next component, "" at the end; "." and an empty one between two slashes are skipped. */
static const char *next_part(const char *at, char part[NAME_MAX + 1], const char **fault)
{
	size_t n;

	do {
		at += strspn(at, "/");
		n = strcspn(at, "/");
		if (n > NAME_MAX) {
			*fault = "has too long a name in it";
			n = 0;
		}
		memcpy(part, at, n);
		part[n] = '\0';
		at += n;
	} while (strcmp(part, ".") == 0);
	if (strcmp(part, "..") == 0)
		*fault = "leaves the working directory";
	return at;
}

/* An O_PATH descriptor of the path's target. It is not opened yet, so that a device or a FIFO is not
 * touched. The descriptor of a link is the link itself. */
static int walk(int dir, const char *path, const char **fault)
{
	int here = fcntl(dir, F_DUPFD_CLOEXEC, 0), next;
	char part[NAME_MAX + 1];

	for (path = next_part(path, part, fault); here >= 0 && part[0] != '\0' && *fault == NULL;
		path = next_part(path, part, fault)) {
		next = openat(here, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		close_keep(here);
		if (next < 0 && errno == ENOTDIR)
			*fault = "leads through a link, or through what is no directory";
		here = next;
	}
	if (*fault != NULL && here >= 0) {
		close(here);
		here = -1;
	}
	return here;
}

static const char *find_fault(
	const struct stat *st, const struct stat *dir, const struct artifact_source *src)
{
	if (S_ISLNK(st->st_mode))
		return "is a symbolic link";
	if (S_ISDIR(st->st_mode))
		return "is a directory";
	if (!S_ISREG(st->st_mode))
		return "is no plain file";
	if (st->st_dev != dir->st_dev)
		return "is on another file system";
	/* A worker may have linked a file that it cannot read: the daemon must not read it on the worker's
	 * behalf. */
	if (st->st_nlink != 1)
		return "has other names, too; copy it, and announce the copy";
	if (src->owner >= 0 && (int64_t)st->st_uid != src->owner)
		return "is not the worker's own";
	return NULL;
}

/* Opens the file of the O_PATH descriptor. O_NONBLOCK: a lease on the file must not block. */
static int reopen(int fd)
{
	char path[40];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* -1 with `why`. */
static int source_open(const struct artifact_source *src, struct stat *st, char *why, size_t why_size)
{
	int dir = work_open(src), fd = -1, in = -1;
	const char *fault = NULL;
	struct stat dir_st;

	if (src->path[0] == '/')
		fault = "is not relative to the working directory";
	else if (dir >= 0 && fstat(dir, &dir_st) == 0)
		fd = walk(dir, src->path, &fault);
	if (fd >= 0 && fstat(fd, st) == 0 && (fault = find_fault(st, &dir_st, src)) == NULL)
		in = reopen(fd);
	if (fault != NULL)
		errno = EINVAL;
	if (in < 0)
		snprintf(why, why_size, "%s", fault != NULL ? fault : strerror(errno));
	close_keep(fd);
	close_keep(dir);
	return in;
}

/* ---- the way to the store ---- */

/* Makes the directory and syncs its name, unless it is there. */
static int dir_make(int at, const char *name)
{
	bool made = mkdirat(at, name, 0700) == 0;
	int fd;

	if (!made && errno != EEXIST)
		return -1;
	fd = openat(at, name, OPEN_DIR);
	if (fd >= 0 && made && fsync(at) < 0)
		return close_keep(fd), -1;
	return fd;
}

static int state_open(const char *state_dir)
{
	return open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The session's directory, made where `make` says so. The id may come from a damaged file; one that is no id
 * could lead to any path, so it is refused. */
static int session_dir(const char *state_dir, const char *session_id, bool make)
{
	int state = -1, all = -1, fd = -1;

	if (!id_is_uuid4(session_id))
		errno = EINVAL;
	else if ((state = state_open(state_dir)) >= 0)
		all = make ? dir_make(state, "artifacts") : openat(state, "artifacts", OPEN_DIR);
	if (all >= 0)
		fd = make ? dir_make(all, session_id) : openat(all, session_id, OPEN_DIR);
	close_keep(all);
	close_keep(state);
	return fd;
}

/* Removes the session's directory too, where it is empty. */
static void dir_drop(const char *state_dir, const char *session_id)
{
	int state = state_open(state_dir), all = state >= 0 ? openat(state, "artifacts", OPEN_DIR) : -1;

	if (all >= 0 && id_is_uuid4(session_id))
		(void)unlinkat(all, session_id, AT_REMOVEDIR);
	close_keep(all);
	close_keep(state);
}

/* ---- the copy ---- */

struct artifact_copy *artifact_copy_begin(const struct artifact_source *src, char *why, size_t why_size)
{
	struct artifact_copy *c;
	struct stat st;
	int in = source_open(src, &st, why, why_size);

	if (in < 0)
		return NULL;
	if (st.st_size > src->max_bytes) {
		snprintf(why, why_size, "has %lld bytes, and %lld are the limit", (long long)st.st_size,
			(long long)src->max_bytes);
		close(in);
		errno = EFBIG;
		return NULL;
	}
	c = xcalloc(1, sizeof *c);
	c->own = xcalloc(1, sizeof *c->own);
	*c->own = (struct artifact_copying){.in = in,
		.dir = -1,
		.out = -1,
		.was = st,
		.name = xstrdup(src->name),
		.state_dir = xstrdup(src->state_dir),
		.session_id = xstrdup(src->session_id),
		.hash = EVP_MD_CTX_new()};
	if (c->own->hash == NULL || EVP_DigestInit_ex(c->own->hash, EVP_sha256(), NULL) != 1) {
		log_error("libcrypto has no SHA-256");
		abort();
	}
	return c;
}

static int half_make(struct artifact_copying *o)
{
	o->dir = session_dir(o->state_dir, o->session_id, true);
	if (o->dir < 0 || (unlinkat(o->dir, HALF, 0) < 0 && errno != ENOENT))
		return -1;
	o->out = openat(o->dir, HALF, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
	CRASH_POINT(artifact_half_made);
	return o->out < 0 ? -1 : 0;
}

static int write_all(int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Never more than the size at the opening: a file that grows as fast as we read would have no end. */
static ssize_t copy_piece(struct artifact_copy *c)
{
	struct artifact_copying *o = c->own;
	int64_t left = (int64_t)o->was.st_size - c->size;
	ssize_t n;

	do
		n = read(o->in, o->piece, left < PIECE ? (size_t)left : PIECE);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n;
	if (write_all(o->out, o->piece, (size_t)n) < 0)
		return -1;
	EVP_DigestUpdate(o->hash, o->piece, (size_t)n);
	c->size += n;
	return n;
}

/* Starts the write-out of new bytes, and waits for that of older ones: so the last sync is short. */
static void push(struct artifact_copy *c)
{
	struct artifact_copying *o = c->own;

	(void)sync_file_range(o->out, o->synced, c->size - o->synced, SYNC_FILE_RANGE_WRITE);
	o->synced = c->size;
	if (c->size > BEHIND)
		(void)sync_file_range(o->out, 0, c->size - BEHIND,
			SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

static int finish(struct artifact_copy *c)
{
	struct artifact_copying *o = c->own;
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned size = 0;
	struct stat now;

	c->has_changed = fstat(o->in, &now) < 0 || now.st_size != c->size || now.st_size != o->was.st_size ||
		now.st_mtim.tv_sec != o->was.st_mtim.tv_sec || now.st_mtim.tv_nsec != o->was.st_mtim.tv_nsec;
	if (fsync(o->out) < 0)
		return -1;
	CRASH_POINT(artifact_synced);
	if (renameat(o->dir, HALF, o->dir, o->name) < 0)
		return -1;
	CRASH_POINT(artifact_renamed);
	close(o->out);
	o->out = -1;
	if (fsync(o->dir) < 0)
		return -1;
	EVP_DigestFinal_ex(o->hash, digest, &size);
	for (unsigned i = 0; i < size; i++)
		snprintf(c->sha256 + 2 * i, 3, "%02x", digest[i]);
	return 0;
}

static int step(struct artifact_copy *c, size_t bytes)
{
	int64_t until = c->size + (int64_t)bytes;
	ssize_t n = 1;

	if (c->own->out < 0 && half_make(c->own) < 0)
		return -1;
	while (c->size < until && n > 0)
		n = copy_piece(c);
	if (n < 0)
		return -1;
	if (n == 0 || c->size == (int64_t)c->own->was.st_size)
		return finish(c);
	push(c);
	CRASH_POINT(artifact_slice);
	return 1;
}

int artifact_copy_step(struct artifact_copy *c, size_t bytes, char *why, size_t why_size)
{
	int r = step(c, bytes);

	if (r < 0)
		snprintf(why, why_size, "cannot be stored: %s", strerror(errno));
	return r;
}

void artifact_copy_free(struct artifact_copy *c)
{
	struct artifact_copying *o;

	if (c == NULL)
		return;
	o = c->own;
	if (o->out >= 0) {
		(void)unlinkat(o->dir, HALF, 0);
		close(o->out);
		dir_drop(o->state_dir, o->session_id);
	}
	close_keep(o->dir);
	close_keep(o->in);
	EVP_MD_CTX_free(o->hash);
	free(o->name);
	free(o->state_dir);
	free(o->session_id);
	free(o);
	free(c);
}

/* ---- what is stored ---- */

void artifact_remove(const char *state_dir, const char *session_id, const char *name)
{
	int dir = session_dir(state_dir, session_id, false);

	if (dir < 0)
		return;
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		log_warn("cannot remove an artifact, leaving it: session=%.8s name=%s error=%s", session_id,
			name, strerror(errno));
	close(dir);
	dir_drop(state_dir, session_id);
}

int artifact_collect(const char *state_dir, const char *session_id,
	bool (*is_known)(void *ctx, const char *name), void *ctx)
{
	int dir = session_dir(state_dir, session_id, false), count = 0;
	DIR *d = dir >= 0 ? fdopendir(dir) : NULL;
	struct dirent *e;

	if (d == NULL) {
		close_keep(dir);
		return 0;
	}
	while ((e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
			!is_known(ctx, e->d_name)) {
			count += unlinkat(dir, e->d_name, 0) == 0;
			CRASH_POINT(artifact_collected);
		}
	closedir(d);
	dir_drop(state_dir, session_id);
	return count;
}
