/* SPDX-License-Identifier: MIT */
/* memdisk.c: files in memory for SQLite, each with what is durable of it beside what was written.
 * Owns the bytes, the locks between connections, and the faults. Never looks into what is stored. */
#include "memdisk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "base/buf.h"

#define FILES 4 /* a database, its WAL, its journal */
#define SHM_REGIONS 16
#define SHM_LOCKS 8
#define SECTOR 512
#define TICKS_OF_1970 INT64_C(210866760000000) /* SQLite counts milliseconds from 4714 before Christ */

struct range {
	size_t at, size;
};

struct file {
	char name[512]; /* "": free */
	bool exists;
	unsigned char *data, *durable;
	size_t size, durable_size, room;
	struct range *dirty; /* written since the last sync */
	size_t dirty_count, dirty_room;
	unsigned shared;                  /* connections that have a lock */
	const void *reserved, *exclusive; /* who has it */
	unsigned char *shm[SHM_REGIONS];
	size_t shm_size;
	unsigned shm_users, shm_shared[SHM_LOCKS];
	bool shm_exclusive[SHM_LOCKS];
};

struct handle {
	sqlite3_file base;
	struct file *f;
	int lock;
	bool has_shm, deletes;
	unsigned shm_shared, shm_exclusive; /* bits of what it holds */
};

struct memdisk_faults memdisk_faults;
static struct file files[FILES];
static unsigned char *kept;
static size_t kept_size;
static char kept_name[512];
static bool is_dead;
static uint64_t changes;
static unsigned (*choose)(unsigned n);
static void (*on_death)(void);

/* ---- bytes ---- */

static struct file *file_find(const char *name, bool make)
{
	struct file *f, *none = NULL;

	for (f = files; f < files + FILES; f++) {
		if (strcmp(f->name, name) == 0)
			return f;
		if (f->name[0] == '\0')
			none = none != NULL ? none : f;
	}
	if (!make || none == NULL)
		return NULL;
	snprintf(none->name, sizeof none->name, "%s", name);
	return none;
}

static void file_reserve(struct file *f, size_t size)
{
	size_t room = f->room ? f->room : 65536;

	while (room < size)
		room *= 2;
	if (room == f->room)
		return;
	f->data = xrealloc(f->data, room);
	f->durable = xrealloc(f->durable, room);
	memset(f->data + f->room, 0, room - f->room);
	memset(f->durable + f->room, 0, room - f->room);
	f->room = room;
}

static void note_dirty(struct file *f, size_t at, size_t size)
{
	if (f->dirty_count == f->dirty_room) {
		f->dirty_room = f->dirty_room ? 2 * f->dirty_room : 64;
		f->dirty = xrealloc(f->dirty, f->dirty_room * sizeof *f->dirty);
	}
	f->dirty[f->dirty_count++] = (struct range){at, size};
}

static void file_write(struct file *f, const void *bytes, size_t size, size_t at)
{
	file_reserve(f, at + size);
	if (at > f->size) { /* a hole, in which an earlier file's bytes may lie */
		memset(f->data + f->size, 0, at - f->size);
		note_dirty(f, f->size, at - f->size);
	}
	memcpy(f->data + at, bytes, size);
	if (at + size > f->size)
		f->size = at + size;
	note_dirty(f, at, size);
}

static void file_sync(struct file *f)
{
	for (size_t i = 0; i < f->dirty_count; i++)
		memcpy(f->durable + f->dirty[i].at, f->data + f->dirty[i].at, f->dirty[i].size);
	f->durable_size = f->size;
	f->dirty_count = 0;
}

static void file_forget(struct file *f)
{
	f->exists = false;
	f->size = f->durable_size = f->dirty_count = 0;
}

static void file_lose_power(struct file *f)
{
	if (f->size > f->durable_size)
		memset(f->durable + f->durable_size, 0, f->size - f->durable_size);
	for (size_t i = 0; i < f->dirty_count; i++) {
		size_t end = f->dirty[i].at + f->dirty[i].size, next;

		for (size_t at = f->dirty[i].at; at < end; at = next) {
			next = (at / SECTOR + 1) * SECTOR;
			next = next < end ? next : end;
			if (choose(2) == 0)
				memcpy(f->durable + at, f->data + at, next - at);
		}
	}
	f->size = choose(2) == 0 ? f->durable_size : f->size;
	f->durable_size = f->size;
	f->dirty_count = 0;
	if (f->size > 0)
		memcpy(f->data, f->durable, f->size);
}

/* ---- faults ---- */

static void die(void)
{
	is_dead = true;
	on_death();
}

/* Before a change: may it be made? */
static int change(int error, int *left)
{
	if (is_dead)
		return SQLITE_IOERR;
	if (error != 0 && (left == NULL || (*left)-- <= 0))
		return error;
	changes++;
	if (memdisk_faults.dies_in > 0 && --memdisk_faults.dies_in == 0 && !memdisk_faults.dies_after) {
		die();
		return SQLITE_IOERR;
	}
	return SQLITE_OK;
}

/* After it: is it the last? */
static int changed(void)
{
	if (memdisk_faults.dies_after && memdisk_faults.dies_in == 0) {
		memdisk_faults.dies_after = false;
		die();
		return SQLITE_IOERR;
	}
	return SQLITE_OK;
}

/* ---- a file's methods ---- */

static int mem_close(sqlite3_file *file)
{
	struct handle *h = (struct handle *)file;

	if (h->deletes)
		file_forget(h->f);
	return SQLITE_OK;
}

static int mem_read(sqlite3_file *file, void *to, int size, sqlite3_int64 at)
{
	struct file *f = ((struct handle *)file)->f;
	size_t from = (size_t)at, n = (size_t)size;
	size_t have = from < f->size ? f->size - from : 0;

	if (have >= n) {
		memcpy(to, f->data + from, n);
		return SQLITE_OK;
	}
	if (have > 0)
		memcpy(to, f->data + from, have);
	memset((char *)to + have, 0, n - have);
	return SQLITE_IOERR_SHORT_READ;
}

static int mem_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 at)
{
	struct file *f = ((struct handle *)file)->f;
	int rc = change(memdisk_faults.write_error, &memdisk_faults.writes_left);

	if (rc != SQLITE_OK)
		return rc;
	file_write(f, bytes, (size_t)size, (size_t)at);
	return changed();
}

static int mem_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	struct file *f = ((struct handle *)file)->f;
	int rc = change(memdisk_faults.write_error, &memdisk_faults.writes_left);

	if (rc != SQLITE_OK)
		return rc;
	if ((size_t)size < f->size) { /* at once for good: the shorter file is what is asked for */
		f->size = (size_t)size;
		f->durable_size = f->durable_size < f->size ? f->durable_size : f->size;
		for (size_t i = 0; i < f->dirty_count; i++) {
			struct range *r = &f->dirty[i];

			r->size = r->at >= f->size        ? 0 :
				r->at + r->size > f->size ? f->size - r->at :
							    r->size;
		}
	}
	return changed();
}

static int mem_sync(sqlite3_file *file, int flags)
{
	int rc = change(memdisk_faults.sync_error, NULL);

	(void)flags;
	if (rc != SQLITE_OK)
		return rc;
	if (!memdisk_faults.forgets_syncs)
		file_sync(((struct handle *)file)->f);
	return changed();
}

static int mem_size(sqlite3_file *file, sqlite3_int64 *size)
{
	*size = (sqlite3_int64)((struct handle *)file)->f->size;
	return SQLITE_OK;
}

static int mem_lock(sqlite3_file *file, int level)
{
	struct handle *h = (struct handle *)file;
	struct file *f = h->f;

	if (h->lock >= level)
		return SQLITE_OK;
	if (f->exclusive != NULL && f->exclusive != h)
		return SQLITE_BUSY;
	if (level >= SQLITE_LOCK_RESERVED && f->reserved != NULL && f->reserved != h)
		return SQLITE_BUSY;
	if (level == SQLITE_LOCK_EXCLUSIVE && f->shared > 1)
		return SQLITE_BUSY;
	if (h->lock == SQLITE_LOCK_NONE)
		f->shared++;
	if (level >= SQLITE_LOCK_RESERVED)
		f->reserved = h;
	if (level == SQLITE_LOCK_EXCLUSIVE)
		f->exclusive = h;
	h->lock = level;
	return SQLITE_OK;
}

static int mem_unlock(sqlite3_file *file, int level)
{
	struct handle *h = (struct handle *)file;
	struct file *f = h->f;

	if (h->lock <= level)
		return SQLITE_OK;
	if (f->exclusive == h)
		f->exclusive = NULL;
	if (f->reserved == h)
		f->reserved = NULL;
	if (level == SQLITE_LOCK_NONE)
		f->shared--;
	h->lock = level;
	return SQLITE_OK;
}

static int mem_check_reserved(sqlite3_file *file, int *reserved)
{
	*reserved = ((struct handle *)file)->f->reserved != NULL;
	return SQLITE_OK;
}

static int mem_control(sqlite3_file *file, int what, void *arg)
{
	(void)file, (void)what, (void)arg;
	return SQLITE_NOTFOUND;
}

static int mem_sector(sqlite3_file *file)
{
	(void)file;
	return 4096;
}

static int mem_device(sqlite3_file *file)
{
	(void)file;
	return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

/* ---- the index of the WAL, shared by the connections ---- */

static int mem_shm_map(sqlite3_file *file, int region, int size, int extend, void volatile **out)
{
	struct handle *h = (struct handle *)file;
	struct file *f = h->f;

	*out = NULL;
	if (region >= SHM_REGIONS)
		return SQLITE_IOERR_SHMMAP;
	if (!h->has_shm) {
		h->has_shm = true;
		f->shm_users++;
	}
	if (f->shm[region] == NULL && extend) {
		f->shm[region] = xcalloc(1, (size_t)size);
		f->shm_size = (size_t)size;
	}
	*out = f->shm[region];
	return SQLITE_OK;
}

static int mem_shm_lock(sqlite3_file *file, int first, int n, int flags)
{
	struct handle *h = (struct handle *)file;
	struct file *f = h->f;

	for (int i = first; i < first + n; i++) {
		unsigned bit = 1u << i;

		if ((flags & SQLITE_SHM_LOCK) == 0)
			continue;
		if (f->shm_exclusive[i] && (h->shm_exclusive & bit) == 0)
			return SQLITE_BUSY;
		if ((flags & SQLITE_SHM_EXCLUSIVE) != 0 && f->shm_shared[i] > ((h->shm_shared & bit) != 0))
			return SQLITE_BUSY;
	}
	for (int i = first; i < first + n; i++) {
		unsigned bit = 1u << i;

		if ((flags & SQLITE_SHM_EXCLUSIVE) != 0) {
			f->shm_exclusive[i] = (flags & SQLITE_SHM_LOCK) != 0;
			h->shm_exclusive =
				f->shm_exclusive[i] ? h->shm_exclusive | bit : h->shm_exclusive & ~bit;
		} else if ((flags & SQLITE_SHM_LOCK) != 0) {
			f->shm_shared[i] += (h->shm_shared & bit) == 0;
			h->shm_shared |= bit;
		} else {
			f->shm_shared[i] -= (h->shm_shared & bit) != 0;
			h->shm_shared &= ~bit;
		}
	}
	return SQLITE_OK;
}

static void mem_shm_barrier(sqlite3_file *file)
{
	(void)file;
}

static int mem_shm_unmap(sqlite3_file *file, int delete)
{
	struct handle *h = (struct handle *)file;
	struct file *f = h->f;

	(void)delete;
	if (!h->has_shm)
		return SQLITE_OK;
	h->has_shm = false;
	if (--f->shm_users > 0)
		return SQLITE_OK;
	for (int i = 0; i < SHM_REGIONS; i++) { /* the last one: what is in it dies with the processes */
		free(f->shm[i]);
		f->shm[i] = NULL;
	}
	return SQLITE_OK;
}

static const sqlite3_io_methods methods = {
	.iVersion = 2,
	.xClose = mem_close,
	.xRead = mem_read,
	.xWrite = mem_write,
	.xTruncate = mem_truncate,
	.xSync = mem_sync,
	.xFileSize = mem_size,
	.xLock = mem_lock,
	.xUnlock = mem_unlock,
	.xCheckReservedLock = mem_check_reserved,
	.xFileControl = mem_control,
	.xSectorSize = mem_sector,
	.xDeviceCharacteristics = mem_device,
	.xShmMap = mem_shm_map,
	.xShmLock = mem_shm_lock,
	.xShmBarrier = mem_shm_barrier,
	.xShmUnmap = mem_shm_unmap,
};

/* ---- the disk's methods ---- */

static int disk_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags)
{
	struct handle *h = (struct handle *)file;
	struct file *f = file_find(name != NULL ? name : "temporary", true);

	(void)vfs;
	memset(h, 0, sizeof *h);
	if (f == NULL || (!f->exists && (flags & SQLITE_OPEN_CREATE) == 0))
		return SQLITE_CANTOPEN;
	if (!f->exists && is_dead)
		return SQLITE_IOERR;
	f->exists = true;
	h->f = f;
	h->deletes = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
	h->base.pMethods = &methods;
	if (out_flags != NULL)
		*out_flags = flags;
	return SQLITE_OK;
}

static int disk_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	struct file *f = file_find(name, false);
	int rc = change(memdisk_faults.write_error, &memdisk_faults.writes_left);

	(void)vfs, (void)sync;
	if (rc != SQLITE_OK)
		return rc;
	if (f == NULL || !f->exists)
		return SQLITE_IOERR_DELETE_NOENT;
	file_forget(f);
	return changed();
}

static int disk_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
	const struct file *f = file_find(name, false);

	(void)vfs, (void)flags;
	*out = f != NULL && f->exists;
	return SQLITE_OK;
}

static int disk_full_path(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
	(void)vfs;
	snprintf(out, (size_t)size, "%s", name);
	return SQLITE_OK;
}

static int disk_randomness(sqlite3_vfs *vfs, int size, char *out)
{
	(void)vfs;
	memset(out, 7, (size_t)size); /* SQLite's own generator begins with it, anew for each seed */
	return size;
}

static int disk_sleep(sqlite3_vfs *vfs, int us)
{
	(void)vfs;
	return us;
}

static int disk_time(sqlite3_vfs *vfs, sqlite3_int64 *ms)
{
	(void)vfs;
	*ms = TICKS_OF_1970; /* nothing of ours asks SQLite for the time */
	return SQLITE_OK;
}

static sqlite3_vfs disk = {
	.iVersion = 2,
	.szOsFile = sizeof(struct handle),
	.mxPathname = 500,
	.zName = "memdisk",
	.xOpen = disk_open,
	.xDelete = disk_delete,
	.xAccess = disk_access,
	.xFullPathname = disk_full_path,
	.xRandomness = disk_randomness,
	.xSleep = disk_sleep,
	.xCurrentTimeInt64 = disk_time,
};

/* ---- the simulation's side ---- */

void memdisk_init(unsigned (*choose_fn)(unsigned n), void (*death_fn)(void))
{
	choose = choose_fn;
	on_death = death_fn;
	sqlite3_vfs_register(&disk, 1);
}

void memdisk_set_dead(bool dead)
{
	is_dead = dead;
}

void memdisk_lose_power(void)
{
	for (struct file *f = files; f < files + FILES; f++)
		if (f->exists)
			file_lose_power(f);
}

void memdisk_wipe(void)
{
	sqlite3_randomness(0, NULL);
	for (struct file *f = files; f < files + FILES; f++)
		file_forget(f);
	memdisk_faults = (struct memdisk_faults){0};
	is_dead = false;
	changes = 0;
}

void memdisk_keep(void)
{
	const struct file *f = &files[0]; /* the database is the first that was opened */

	kept = xrealloc(kept, f->size);
	memcpy(kept, f->data, f->size);
	kept_size = f->size;
	snprintf(kept_name, sizeof kept_name, "%s", f->name);
}

void memdisk_restore(void)
{
	struct file *f = file_find(kept_name, true);

	memdisk_wipe();
	f->exists = true;
	file_write(f, kept, kept_size, 0);
	file_sync(f);
}

uint64_t memdisk_changes(void)
{
	return changes;
}

void memdisk_fini(void)
{
	for (struct file *f = files; f < files + FILES; f++) {
		free(f->data);
		free(f->durable);
		free(f->dirty);
	}
	free(kept);
}
