/* SPDX-License-Identifier: MIT */
/* wal_vfs.h: the way of the writing connection to its write-ahead log: a commit is one write, not two for
 * each page. */
#ifndef HCPD_STORE_WAL_VFS_H
#define HCPD_STORE_WAL_VFS_H

#include <sqlite3.h>

/* The name of a VFS for sqlite3_open_v2: the default one, but for the log. Until wal_vfs_gather the log is
 * written like any file. NULL: SQLite does not take it. */
const char *wal_vfs_name(void);
/* From here on the connection's log is gathered. Only with synchronous = FULL: what a commit wrote reaches
 * the file at the commit's sync. Without a log that was opened by this VFS nothing changes. */
void wal_vfs_gather(sqlite3 *db);
/* Drops what is gathered of a transaction that was rolled back. Never within a transaction. */
void wal_vfs_forget(sqlite3 *db);

#endif
