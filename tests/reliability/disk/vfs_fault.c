/* SPDX-License-Identifier: MIT */
/* vfs_fault.c: the shim over the unix VFS: counts, strikes, and knows what would be left without power.
 * Owns an image of each file as of its last sync, and what was done to it since. Everything is also written
 * through to the real file, so that other connections see what a living system would show them. Never decides
 * when to strike. */
#include "vfs_fault.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/buf.h"

#define SECTOR 512
#define FILES_MAX 16
#define BAD_SYNC_LIFE 30 /* I/Os between a bad sync and the crash that shows what it lost */

/* ---- what would be left ---- */

struct change { /* since the last sync */
	struct change *next;
	bool is_truncate;
	int64_t at; /* of a truncate: the new size */
	size_t size;
	char data[];
};

struct durable { /* one path */
	char path[512];
	bool in_use;
	bool exists, is_gone; /* in the directory as of its last sync; deleted since */
	/* a journal or WAL that was never synced: its sync syncs the directory, too */
	bool is_new;
	char *image; /* its content as of its last sync */
	size_t size, room;
	struct change *changes, **end;
};

static struct durable files[FILES_MAX];

static struct {
	enum vfs_fault fault;
	uint64_t at, count, syncs;
	bool is_failing, is_full, is_dead, ends_after;
	char struck[600];
	void (*on_crash)(void *ctx);
	void *ctx;
	uint64_t random;
} disk;

static uint64_t next_random(uint64_t *seed)
{
	uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static void image_resize(struct durable *d, size_t size)
{
	if (size > d->room) {
		d->room = size * 2;
		d->image = xrealloc(d->image, d->room);
	}
	if (size > d->size)
		memset(d->image + d->size, 0, size - d->size);
	d->size = size;
}

static void image_write(struct durable *d, int64_t at, const char *data, size_t size)
{
	if ((size_t)at + size > d->size)
		image_resize(d, (size_t)at + size);
	if (size > 0)
		memcpy(d->image + at, data, size);
}

static void forget_changes(struct durable *d)
{
	for (struct change *c = d->changes, *next; c != NULL; c = next) {
		next = c->next;
		free(c);
	}
	d->changes = NULL;
	d->end = &d->changes;
}

static void forget_file(struct durable *d)
{
	forget_changes(d);
	free(d->image);
	memset(d, 0, sizeof *d);
}

static void read_image(struct durable *d)
{
	struct stat st;
	int fd = open(d->path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_size > 0) {
		image_resize(d, (size_t)st.st_size);
		if (read(fd, d->image, d->size) != (ssize_t)d->size)
			abort();
	}
	d->exists = true;
	close(fd);
}

/* What is there when we first hear of it is taken for durable. */
static struct durable *durable_of(const char *path, bool is_journal)
{
	struct durable *d = NULL;

	for (int i = 0; i < FILES_MAX; i++)
		if (files[i].in_use && strcmp(files[i].path, path) == 0)
			return &files[i];
	for (int i = 0; i < FILES_MAX && d == NULL; i++)
		if (!files[i].in_use)
			d = &files[i];
	if (d == NULL || strlen(path) >= sizeof d->path)
		abort();
	d->in_use = true;
	d->end = &d->changes;
	snprintf(d->path, sizeof d->path, "%s", path);
	read_image(d);
	d->is_new = is_journal && !d->exists;
	return d;
}

static void sync_directory(void)
{
	for (int i = 0; i < FILES_MAX; i++) {
		struct durable *d = &files[i];

		if (!d->in_use)
			continue;
		d->is_new = false;
		if (d->is_gone)
			forget_file(d);
		else
			d->exists = true; /* perhaps empty: its content is its own sync's affair */
	}
}

static void apply(struct durable *d, const struct change *c)
{
	if (c->is_truncate)
		image_resize(d, (size_t)c->at);
	else
		image_write(d, c->at, c->data, c->size);
}

static void sync_file(struct durable *d)
{
	for (const struct change *c = d->changes; c != NULL; c = c->next)
		apply(d, c);
	forget_changes(d);
	if (d->is_new)
		sync_directory();
	d->exists = true;
}

static void add_change(struct durable *d, bool is_truncate, int64_t at, const void *data, size_t size)
{
	struct change *c = xcalloc(1, sizeof *c + size);

	c->is_truncate = is_truncate;
	c->at = at;
	c->size = size;
	if (size > 0)
		memcpy(c->data, data, size);
	*d->end = c;
	d->end = &c->next;
}

static void apply_sectors(struct durable *d, const struct change *c, uint64_t *seed)
{
	for (size_t from = 0, to; from < c->size; from = to) {
		to = from + SECTOR - (size_t)(c->at + (int64_t)from) % SECTOR;
		if (to > c->size)
			to = c->size;
		if (next_random(seed) & 1)
			image_write(d, c->at + (int64_t)from, c->data + from, to - from);
	}
}

static void write_image(const struct durable *d)
{
	int fd = open(d->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || (d->size > 0 && write(fd, d->image, d->size) != (ssize_t)d->size))
		abort();
	close(fd);
}

static void lose_file(struct durable *d, enum vfs_loss how, uint64_t *seed)
{
	bool coin = how != VFS_LOSE_ALL && (next_random(seed) & 1);

	if (d->is_gone && coin)
		return; /* the delete was in time */
	if (!d->exists && !coin) {
		unlink(d->path); /* and its making was not */
		return;
	}
	for (const struct change *c = d->changes; c != NULL && how != VFS_LOSE_ALL; c = c->next) {
		if (how == VFS_LOSE_SECTORS && !c->is_truncate)
			apply_sectors(d, c, seed);
		else if (next_random(seed) & 1)
			apply(d, c);
	}
	write_image(d);
}

/* The index is made anew by whoever opens next, whatever it holds. */
static void lose_index(const char *db_path, enum vfs_loss how, uint64_t *seed)
{
	char path[520], garbage[4096];
	int fd;

	snprintf(path, sizeof path, "%s-shm", db_path);
	if (how == VFS_LOSE_ALL) {
		unlink(path);
		return;
	}
	if (access(path, F_OK) != 0 || (fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC)) < 0)
		return;
	for (size_t i = 0; i < sizeof garbage; i++)
		garbage[i] = (char)next_random(seed);
	if (write(fd, garbage, sizeof garbage) != (ssize_t)sizeof garbage)
		abort();
	close(fd);
}

void vfs_lose(enum vfs_loss how, uint64_t seed)
{
	for (int i = 0; i < FILES_MAX; i++) {
		struct durable *d = &files[i];
		size_t n = strlen(d->path);

		if (!d->in_use)
			continue;
		if (how != VFS_KEEP) {
			lose_file(d, how, &seed);
			if (n > 3 && strcmp(d->path + n - 3, ".db") == 0)
				lose_index(d->path, how, &seed);
		}
		forget_file(d);
	}
}

/* ---- striking ---- */

/* What an I/O says when it fails, by its kind. */
enum io {
	IO_READ,
	IO_WRITE,
	IO_SYNC,
	IO_TRUNCATE,
	IO_SIZE,
	IO_LOCK,
	IO_OPEN,
	IO_DELETE,
	IO_ACCESS,
	IO_SHM_MAP,
	IO_SHM_LOCK,
	IO_COUNT
};
static const struct {
	const char *name;
	int error, full; /* full: what it says on a full disk; 0: it works */
} ios[IO_COUNT] = {
	[IO_READ] = {"read", SQLITE_IOERR_READ, 0},
	[IO_WRITE] = {"write", SQLITE_IOERR_WRITE, SQLITE_FULL},
	[IO_SYNC] = {"sync", SQLITE_IOERR_FSYNC, 0},
	[IO_TRUNCATE] = {"truncate", SQLITE_IOERR_TRUNCATE, 0},
	[IO_SIZE] = {"size", SQLITE_IOERR_FSTAT, 0},
	[IO_LOCK] = {"lock", SQLITE_IOERR_LOCK, 0},
	[IO_OPEN] = {"open", SQLITE_CANTOPEN, 0},
	[IO_DELETE] = {"delete", SQLITE_IOERR_DELETE, 0},
	[IO_ACCESS] = {"access", SQLITE_IOERR_ACCESS, 0},
	[IO_SHM_MAP] = {"shm-map", SQLITE_IOERR_SHMMAP, SQLITE_IOERR_SHMSIZE},
	[IO_SHM_LOCK] = {"shm-lock", SQLITE_IOERR_SHMLOCK, 0},
};

static void crash(void)
{
	disk.is_dead = true;
	if (disk.on_crash != NULL)
		disk.on_crash(disk.ctx);
}

/* Counts one; SQLITE_OK: it may go on. is_half: it is to be done by half, and then fails, or ends the
 * process. */
static int strike(enum io io, const char *path, int64_t at, size_t size, bool *is_half)
{
	const char *slash = path != NULL ? strrchr(path, '/') : NULL;
	bool is_hit;

	*is_half = false;
	if (disk.is_dead)
		return ios[io].error;
	is_hit = ++disk.count == disk.at && disk.fault != VFS_BAD_SYNC;
	if (is_hit) {
		snprintf(disk.struck, sizeof disk.struck, "%s %s %zu@%lld", ios[io].name,
			slash != NULL ? slash + 1 : "-", size, (long long)at);
		disk.is_failing = disk.fault == VFS_FAIL_ON;
		disk.is_full = disk.fault == VFS_FULL;
		switch (disk.fault) {
		case VFS_CRASH: crash(); return ios[io].error;
		case VFS_CUT:
			*is_half = io == IO_WRITE;
			if (*is_half)
				return SQLITE_OK;
			crash();
			return ios[io].error;
		case VFS_TEAR:
			*is_half = io == IO_WRITE || io == IO_READ;
			return *is_half ? SQLITE_OK : ios[io].error;
		case VFS_FAIL: return ios[io].error;
		case VFS_CRASH_AFTER:
			disk.ends_after = io == IO_WRITE || io == IO_TRUNCATE || io == IO_SYNC;
			if (disk.ends_after)
				return SQLITE_OK;
			crash();
			return ios[io].error;
		default: break;
		}
	}
	if (disk.is_failing)
		return ios[io].error;
	return disk.is_full ? ios[io].full : SQLITE_OK;
}

/* An I/O that changes the disk has its answer. */
static int done(int rc)
{
	if (disk.ends_after)
		crash();
	return rc;
}

/* ---- files ---- */

struct file {
	sqlite3_file base;
	const char *path; /* SQLite's; lives as long as the file is open */
	bool is_tracked;
	bool is_journal;
	sqlite3_file *real;
};

static sqlite3_vfs *below;

static struct file *file_of(sqlite3_file *f)
{
	return (struct file *)(void *)f;
}

static struct durable *durable_file(const struct file *f)
{
	return f->is_tracked ? durable_of(f->path, f->is_journal) : NULL;
}

static int f_close(sqlite3_file *sf)
{
	struct file *f = file_of(sf);

	return f->real->pMethods != NULL ? f->real->pMethods->xClose(f->real) : SQLITE_OK;
}

static int f_read(sqlite3_file *sf, void *data, int size, sqlite3_int64 at)
{
	struct file *f = file_of(sf);
	bool is_half;
	int rc = strike(IO_READ, f->path, at, (size_t)size, &is_half);

	if (rc != SQLITE_OK)
		return rc;
	if (!is_half)
		return f->real->pMethods->xRead(f->real, data, size, at);
	f->real->pMethods->xRead(f->real, data, size / 2, at);
	return ios[IO_READ].error;
}

static int f_write(sqlite3_file *sf, const void *data, int size, sqlite3_int64 at)
{
	struct file *f = file_of(sf);
	struct durable *d = durable_file(f);
	bool is_half;
	int rc = strike(IO_WRITE, f->path, at, (size_t)size, &is_half);

	if (rc != SQLITE_OK)
		return rc;
	if (is_half)
		size /= 2;
	if ((rc = f->real->pMethods->xWrite(f->real, data, size, at)) != SQLITE_OK)
		return rc;
	if (d != NULL)
		add_change(d, false, at, data, (size_t)size);
	if (!is_half)
		return done(SQLITE_OK);
	if (disk.fault == VFS_CUT)
		crash();
	return ios[IO_WRITE].error;
}

static int f_truncate(sqlite3_file *sf, sqlite3_int64 size)
{
	struct file *f = file_of(sf);
	struct durable *d = durable_file(f);
	bool is_half;
	int rc = strike(IO_TRUNCATE, f->path, size, 0, &is_half);

	if (rc == SQLITE_OK && (rc = f->real->pMethods->xTruncate(f->real, size)) == SQLITE_OK && d != NULL)
		add_change(d, true, size, NULL, 0);
	return done(rc);
}

static int f_sync(sqlite3_file *sf, int flags)
{
	struct file *f = file_of(sf);
	struct durable *d = durable_file(f);
	bool is_half;
	int rc = strike(IO_SYNC, f->path, 0, 0, &is_half);

	if (++disk.syncs == disk.at && disk.fault == VFS_BAD_SYNC && d != NULL) {
		snprintf(disk.struck, sizeof disk.struck, "sync %zu of %s", (size_t)disk.syncs, f->path);
		forget_changes(d);
		disk.fault = VFS_CRASH;
		disk.at = disk.count + BAD_SYNC_LIFE;
		return ios[IO_SYNC].error;
	}
	if (rc == SQLITE_OK && (rc = f->real->pMethods->xSync(f->real, flags)) == SQLITE_OK && d != NULL)
		sync_file(d);
	return done(rc);
}

static int f_size(sqlite3_file *sf, sqlite3_int64 *size)
{
	struct file *f = file_of(sf);
	bool is_half;
	int rc = strike(IO_SIZE, f->path, 0, 0, &is_half);

	return rc != SQLITE_OK ? rc : f->real->pMethods->xFileSize(f->real, size);
}

static int f_lock(sqlite3_file *sf, int level)
{
	struct file *f = file_of(sf);
	bool is_half;
	int rc = strike(IO_LOCK, f->path, level, 0, &is_half);

	return rc != SQLITE_OK ? rc : f->real->pMethods->xLock(f->real, level);
}

static int f_unlock(sqlite3_file *sf, int level)
{
	return file_of(sf)->real->pMethods->xUnlock(file_of(sf)->real, level);
}

static int f_check_reserved(sqlite3_file *sf, int *out)
{
	return file_of(sf)->real->pMethods->xCheckReservedLock(file_of(sf)->real, out);
}

static int f_control(sqlite3_file *sf, int op, void *arg)
{
	return file_of(sf)->real->pMethods->xFileControl(file_of(sf)->real, op, arg);
}

static int f_sector_size(sqlite3_file *sf)
{
	return file_of(sf)->real->pMethods->xSectorSize(file_of(sf)->real);
}

static int f_characteristics(sqlite3_file *sf)
{
	return file_of(sf)->real->pMethods->xDeviceCharacteristics(file_of(sf)->real);
}

static int f_shm_map(sqlite3_file *sf, int region, int size, int extend, void volatile **out)
{
	struct file *f = file_of(sf);
	bool is_half;
	int rc = strike(IO_SHM_MAP, f->path, region, (size_t)size, &is_half);

	return rc != SQLITE_OK ? rc : f->real->pMethods->xShmMap(f->real, region, size, extend, out);
}

static int f_shm_lock(sqlite3_file *sf, int offset, int n, int flags)
{
	struct file *f = file_of(sf);
	bool is_half;
	int rc = flags & SQLITE_SHM_LOCK ? strike(IO_SHM_LOCK, f->path, offset, (size_t)n, &is_half) :
					   SQLITE_OK;

	return rc != SQLITE_OK ? rc : f->real->pMethods->xShmLock(f->real, offset, n, flags);
}

static void f_shm_barrier(sqlite3_file *sf)
{
	file_of(sf)->real->pMethods->xShmBarrier(file_of(sf)->real);
}

static int f_shm_unmap(sqlite3_file *sf, int delete_it)
{
	return file_of(sf)->real->pMethods->xShmUnmap(file_of(sf)->real, delete_it && !disk.is_dead);
}

/* Version 2: no xFetch, so that every page is read by xRead. */
static const sqlite3_io_methods methods = {
	2,
	f_close,
	f_read,
	f_write,
	f_truncate,
	f_sync,
	f_size,
	f_lock,
	f_unlock,
	f_check_reserved,
	f_control,
	f_sector_size,
	f_characteristics,
	f_shm_map,
	f_shm_lock,
	f_shm_barrier,
	f_shm_unmap,
	NULL,
	NULL,
};

/* ---- the VFS ---- */

static int v_open(sqlite3_vfs *v, const char *path, sqlite3_file *sf, int flags, int *out_flags)
{
	struct file *f = file_of(sf);
	bool is_half;
	int rc;

	(void)v;
	memset(f, 0, sizeof *f);
	f->real = (sqlite3_file *)(void *)(f + 1);
	f->path = path;
	f->is_journal = flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL);
	f->is_tracked = path != NULL && (f->is_journal || (flags & SQLITE_OPEN_MAIN_DB));
	if ((rc = strike(IO_OPEN, path, 0, 0, &is_half)) != SQLITE_OK)
		return rc;
	if (f->is_tracked && (flags & SQLITE_OPEN_CREATE)) {
		struct durable *d = durable_of(path, f->is_journal); /* before it is made */

		/* another of the same name; that the old one may come back is not modelled */
		if (d->is_gone)
			forget_file(d);
	}
	if ((rc = below->xOpen(below, path, f->real, flags, out_flags)) == SQLITE_OK)
		f->base.pMethods = &methods;
	return rc;
}

static int v_delete(sqlite3_vfs *v, const char *path, int sync_dir)
{
	struct durable *d;
	bool is_half;
	int rc = strike(IO_DELETE, path, 0, 0, &is_half);

	(void)v;
	if (rc != SQLITE_OK)
		return rc;
	d = durable_of(path, false);
	rc = below->xDelete(below, path, sync_dir);
	if (rc == SQLITE_OK) {
		forget_changes(d);
		d->is_gone = true;
		if (!d->exists)
			forget_file(d);
		if (sync_dir)
			sync_directory();
	} else if (!d->exists && d->changes == NULL) {
		forget_file(d); /* there was none */
	}
	return rc;
}

static int v_access(sqlite3_vfs *v, const char *path, int flags, int *out)
{
	bool is_half;
	int rc = strike(IO_ACCESS, path, 0, 0, &is_half);

	(void)v;
	return rc != SQLITE_OK ? rc : below->xAccess(below, path, flags, out);
}

static int v_full_pathname(sqlite3_vfs *v, const char *path, int size, char *out)
{
	(void)v;
	return below->xFullPathname(below, path, size, out);
}

/* The WAL's salts: a run must be the same every time. */
static int v_randomness(sqlite3_vfs *v, int size, char *out)
{
	(void)v;
	for (int i = 0; i < size; i++)
		out[i] = (char)next_random(&disk.random);
	return size;
}

static int v_sleep(sqlite3_vfs *v, int us)
{
	(void)v;
	return below->xSleep(below, us);
}

static int v_current_time(sqlite3_vfs *v, double *out)
{
	(void)v;
	return below->xCurrentTime(below, out);
}

static int v_last_error(sqlite3_vfs *v, int size, char *out)
{
	(void)v;
	return below->xGetLastError(below, size, out);
}

void vfs_register(void)
{
	static sqlite3_vfs ours = {
		.iVersion = 1,
		.zName = "fault",
		.xOpen = v_open,
		.xDelete = v_delete,
		.xAccess = v_access,
		.xFullPathname = v_full_pathname,
		.xRandomness = v_randomness,
		.xSleep = v_sleep,
		.xCurrentTime = v_current_time,
		.xGetLastError = v_last_error,
	};

	below = sqlite3_vfs_find("unix");
	ours.mxPathname = below->mxPathname;
	ours.szOsFile = (int)sizeof(struct file) + below->szOsFile;
	if (sqlite3_vfs_register(&ours, 1) != SQLITE_OK)
		abort();
}

void vfs_arm(enum vfs_fault fault, uint64_t n)
{
	disk.fault = n > 0 ? fault : VFS_NO_FAULT;
	disk.at = n;
	disk.count = disk.syncs = 0;
	disk.struck[0] = '\0';
	disk.is_dead = disk.ends_after = false;
	vfs_heal();
}

void vfs_heal(void)
{
	disk.is_failing = disk.is_full = false;
}

uint64_t vfs_count(void)
{
	return disk.count;
}

uint64_t vfs_count_syncs(void)
{
	return disk.syncs;
}

const char *vfs_struck(void)
{
	return disk.struck[0] != '\0' ? disk.struck : NULL;
}

void vfs_on_crash(void (*fn)(void *ctx), void *ctx)
{
	disk.on_crash = fn;
	disk.ctx = ctx;
}
