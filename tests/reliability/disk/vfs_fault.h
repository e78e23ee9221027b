/* SPDX-License-Identifier: MIT */
/* vfs_fault.h: a disk that fails when a test says so: a SQLite VFS over the usual one, for test programs
 * only.
 *
 * Counted as one I/O each: read, write, sync, truncate, size, lock, open, delete, access, and of the WAL's
 * index the mapping of a region and the taking of a lock. Giving up a lock and closing always work.
 *
 * Power loss is modelled so: a file has what it had at its last sync; each later write and truncate is there
 * or not. A file that was made counts as there once it, or its directory, was synced. A deleted file may come
 * back until its directory was synced: by the first sync of a new journal or WAL, as the unix VFS does it, or
 * by a delete that asks for it. A failed sync has made nothing durable. Bytes next to a write are never
 * harmed (SQLite calls that power-safe overwrite). The index of the WAL (-shm) is no file here: it is gone,
 * or garbage. */
#ifndef HCPD_TESTS_RELIABILITY_DISK_VFS_FAULT_H
#define HCPD_TESTS_RELIABILITY_DISK_VFS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum vfs_fault {
	VFS_NO_FAULT,
	VFS_FAIL,    /* the n-th I/O fails, once */
	VFS_FAIL_ON, /* it and everything after it fails, until vfs_heal */
	VFS_FULL,    /* from it on nothing grows: SQLITE_FULL, until vfs_heal */
	/* a write leaves its first half and fails, a read gives half and fails */
	VFS_TEAR,
	VFS_CRASH,       /* in place of it the process ends */
	VFS_CUT,         /* the same in the middle of it: half of a write is there */
	VFS_CRASH_AFTER, /* the same right after it, where it is a write, truncate or sync */
	VFS_BAD_SYNC,    /* the n-th sync fails and its writes never reach the disk, though they are read back
			  * and a later sync works, as Linux does it; a little later the process ends */
};

enum vfs_loss {
	VFS_KEEP,         /* nothing: only the process ended */
	VFS_LOSE_ALL,     /* everything that was not synced */
	VFS_LOSE_SOME,    /* of the writes not synced, whichever the seed says */
	VFS_LOSE_SECTORS, /* the same for each sector of 512 bytes of each write */
};

/* Makes it the default VFS. Once a process, before the first connection. */
void vfs_register(void);
/* The n-th I/O from now on (1 is the next) will be hit; 0: none. Starts counting anew, and heals. */
void vfs_arm(enum vfs_fault fault, uint64_t n);
void vfs_heal(void);
uint64_t vfs_count(void);
uint64_t vfs_count_syncs(void);
/* What was hit, "write hcpd.db-wal 24@32"; NULL: nothing yet. */
const char *vfs_struck(void);
/* Called for VFS_CRASH and VFS_CUT. Where it returns, all I/O fails until vfs_arm. */
void vfs_on_crash(void (*fn)(void *ctx), void *ctx);
/* Brings the files to what a power loss at this moment leaves, and forgets them: whoever has them open must
 * never use them again, or fail at it. */
void vfs_lose(enum vfs_loss how, uint64_t seed);

#endif
