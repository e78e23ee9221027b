/* SPDX-License-Identifier: MIT */
/* fake_disk.h: the system calls by which SQLite writes, so that a test can make the disk full, broken or slow
 * to answer. In a program that uses it the definitions replace libc's. Nothing is really
 * synced: a test's files need not survive the machine. */
#ifndef HCPD_TESTS_SUPPORT_FAKES_FAKE_DISK_H
#define HCPD_TESTS_SUPPORT_FAKES_FAKE_DISK_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern struct fake_disk {
	int write_error;     /* errno of every write; 0: they work */
	int64_t writes_left; /* with write_error: so many still work */
	bool write_dies;     /* with write_error: the process ends there, as in a crash */
	bool write_halves;   /* with write_error: half of its bytes are written */
	int sync_error;
	unsigned wal_writes, wal_syncs, other_syncs;
	unsigned naps; /* times that SQLite waited for a lock */
	bool sleeps;   /* a nap takes its real time, so that another process gets on */
} fake_disk;

void fake_disk_refuse(int error);
void fake_disk_mend(void);

#endif
