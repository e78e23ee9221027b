/* SPDX-License-Identifier: MIT */
/* wal_vfs.c: gathers what SQLite writes into the log, and hands it to the file in one piece at the sync.
 * Owns the bytes between. Stands over the default VFS, whichever that is: the files of the database and of
 * other connections do not come by here. Never keeps bytes back over a sync, and never forgets bytes because
 * a write failed: SQLite hears of the failure, and rolls back.
 *
 * Why that breaks no promise: with synchronous = FULL SQLite syncs the log in each commit, and only then
 * moves the end of the log in the index, which all connections go by. Before the sync no other connection
 * reads these bytes, and no crash has to leave them. */
#include "store/wal_vfs.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/crashpoint.h"

/* 31 pages with their headers, which is more than most commits; a larger one is several writes. SQLite's VFS
 * for Unix takes no more than 128 KiB - 1 at once: of a longer write it would look at the lowest 17 bits. */
#define GATHER_BYTES ((sqlite3_int64)127 * 1024)

struct wal_file {
	sqlite3_file base;
	sqlite3_file *real;
	char *bytes;            /* NULL: nothing is gathered */
	sqlite3_int64 at, size; /* where they belong; 0 bytes: none are waiting */
};

static sqlite3_vfs *below; /* the VFS under this one */

static struct wal_file *file_of(sqlite3_file *f)
{
	return (struct wal_file *)(void *)f;
}

/* Where it fails, the bytes stay: SQLite may still ask for them. */
static int flush(struct wal_file *w)
{
	int rc;

	if (w->size == 0)
		return SQLITE_OK;
	rc = w->real->pMethods->xWrite(w->real, w->bytes, (int)w->size, w->at);
	if (rc == SQLITE_OK)
		w->size = 0;
	return rc;
}

/* ---- the file ---- */

static int wal_close(sqlite3_file *f)
{
	struct wal_file *w = file_of(f);

	free(w->bytes); /* of no commit: that would have been synced */
	return w->real->pMethods->xClose(w->real);
}

/* SQLite reads what it wrote itself in a transaction that was too large for its cache. */
static int wal_read(sqlite3_file *f, void *data, int size, sqlite3_int64 at)
{
	struct wal_file *w = file_of(f);
	int rc = w->size > 0 && at < w->at + w->size && at + size > w->at ? flush(w) : SQLITE_OK;

	return rc == SQLITE_OK ? w->real->pMethods->xRead(w->real, data, size, at) : rc;
}

/* Does it fit to what is gathered: over it, or right behind it? */
static bool is_adjacent(const struct wal_file *w, int size, sqlite3_int64 at)
{
	return at >= w->at && at <= w->at + w->size && at + size <= w->at + GATHER_BYTES;
}

static int wal_write(sqlite3_file *f, const void *data, int size, sqlite3_int64 at)
{
	struct wal_file *w = file_of(f);

	if (w->size > 0 && !is_adjacent(w, size, at)) {
		int rc = flush(w);

		if (rc != SQLITE_OK)
			return rc;
	}
	if (w->bytes == NULL || size > GATHER_BYTES)
		return w->real->pMethods->xWrite(w->real, data, size, at);
	if (w->size == 0)
		w->at = at;
	memcpy(w->bytes + (at - w->at), data, (size_t)size);
	if (at + size > w->at + w->size)
		w->size = at + size - w->at;
	return SQLITE_OK;
}

static int wal_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	struct wal_file *w = file_of(f);
	int rc = flush(w);

	return rc == SQLITE_OK ? w->real->pMethods->xTruncate(w->real, size) : rc;
}

static int wal_sync(sqlite3_file *f, int flags)
{
	struct wal_file *w = file_of(f);
	int rc;

	CRASH_POINT(wal_before_write);
	rc = flush(w);
	CRASH_POINT(wal_before_sync);
	return rc == SQLITE_OK ? w->real->pMethods->xSync(w->real, flags) : rc;
}

static int wal_size(sqlite3_file *f, sqlite3_int64 *size)
{
	struct wal_file *w = file_of(f);
	int rc = w->real->pMethods->xFileSize(w->real, size);

	if (w->size > 0 && *size < w->at + w->size)
		*size = w->at + w->size;
	return rc;
}

static int wal_lock(sqlite3_file *f, int level)
{
	return file_of(f)->real->pMethods->xLock(file_of(f)->real, level);
}

static int wal_unlock(sqlite3_file *f, int level)
{
	return file_of(f)->real->pMethods->xUnlock(file_of(f)->real, level);
}

static int wal_check_reserved(sqlite3_file *f, int *out)
{
	return file_of(f)->real->pMethods->xCheckReservedLock(file_of(f)->real, out);
}

static int wal_control(sqlite3_file *f, int op, void *arg)
{
	return file_of(f)->real->pMethods->xFileControl(file_of(f)->real, op, arg);
}

static int wal_sector_size(sqlite3_file *f)
{
	return file_of(f)->real->pMethods->xSectorSize(file_of(f)->real);
}

static int wal_characteristics(sqlite3_file *f)
{
	return file_of(f)->real->pMethods->xDeviceCharacteristics(file_of(f)->real);
}

/* Version 1: a log has no index of its own, and is not mapped. */
static const sqlite3_io_methods methods = {
	.iVersion = 1,
	.xClose = wal_close,
	.xRead = wal_read,
	.xWrite = wal_write,
	.xTruncate = wal_truncate,
	.xSync = wal_sync,
	.xFileSize = wal_size,
	.xLock = wal_lock,
	.xUnlock = wal_unlock,
	.xCheckReservedLock = wal_check_reserved,
	.xFileControl = wal_control,
	.xSectorSize = wal_sector_size,
	.xDeviceCharacteristics = wal_characteristics,
};

/* ---- the VFS ---- */

static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f, int flags, int *out_flags)
{
	struct wal_file *w = file_of(f);
	int rc;

	(void)vfs;
	if (!(flags & SQLITE_OPEN_WAL))
		return below->xOpen(below, path, f, flags, out_flags);
	memset(w, 0, sizeof *w);
	w->real = (sqlite3_file *)(void *)(w + 1);
	w->real->pMethods = NULL;
	rc = below->xOpen(below, path, w->real, flags, out_flags);
	if (w->real->pMethods != NULL)
		w->base.pMethods = &methods; /* also where it failed: SQLite closes it then */
	return rc;
}

/* A copy of the VFS below with another way to open: its other functions look at no file. The default may have
 * changed since the last call. */
const char *wal_vfs_name(void)
{
	static sqlite3_vfs ours;
	sqlite3_vfs *now = sqlite3_vfs_find(NULL);

	if (now == NULL)
		return NULL;
	if (now == below)
		return ours.zName;
	if (below != NULL)
		sqlite3_vfs_unregister(&ours);
	below = now;
	ours = *below;
	ours.pNext = NULL;
	ours.zName = "hcpd";
	ours.szOsFile = (int)sizeof(struct wal_file) + below->szOsFile;
	ours.xOpen = vfs_open;
	return sqlite3_vfs_register(&ours, 0) == SQLITE_OK ? ours.zName : NULL;
}

/* The connection's log; NULL: it has none, or one that another VFS opened. */
static struct wal_file *log_of(sqlite3 *db)
{
	sqlite3_file *f = NULL;

	if (sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &f) != SQLITE_OK || f == NULL ||
		f->pMethods != &methods)
		return NULL;
	return file_of(f);
}

/* Only where a torn write spares its neighbours, as SQLite's VFS for Unix promises: else a commit is padded
 * to a sector, with a sync in the middle of a write, and the rest of that write would stay here. */
void wal_vfs_gather(sqlite3 *db)
{
	struct wal_file *w = log_of(db);

	if (w != NULL && w->bytes == NULL &&
		(w->real->pMethods->xDeviceCharacteristics(w->real) & SQLITE_IOCAP_POWERSAFE_OVERWRITE) != 0)
		w->bytes = xmalloc((size_t)GATHER_BYTES);
}

void wal_vfs_forget(sqlite3 *db)
{
	struct wal_file *w = log_of(db);

	if (w != NULL)
		w->size = 0;
}
