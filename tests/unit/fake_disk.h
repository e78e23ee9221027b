/* fake_disk.h: the system calls by which SQLite writes, so that a test can make the disk full, broken or slow
 * to answer. Include it in one file of a program: the definitions stand in for libc's. Nothing is really
 * synced: a test's files need not survive the machine. */
#ifndef HCPD_FAKE_DISK_H
#define HCPD_FAKE_DISK_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
	int write_error;     /* errno of every write; 0: they work */
	int64_t writes_left; /* with write_error: so many still work */
	bool write_dies;     /* with write_error: the process ends there, as in a crash */
	int sync_error;
	unsigned wal_syncs, other_syncs;
	unsigned naps; /* times that SQLite waited for a lock */
	bool sleeps;   /* they take their time, for somebody else who must have his */
} fake_disk;

static inline void fake_disk_refuse(int error)
{
	fake_disk.write_error = error;
	fake_disk.writes_left = 0;
}

static inline void fake_disk_mend(void)
{
	fake_disk.write_error = fake_disk.sync_error = 0;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
	if (fake_disk.write_error != 0 && fake_disk.writes_left-- <= 0) {
		if (fake_disk.write_dies)
			_exit(0);
		errno = fake_disk.write_error;
		return -1;
	}
	return syscall(SYS_pwrite64, fd, data, size, at);
}

int fdatasync(int fd)
{
	char link[64], path[4096];
	ssize_t n;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	path[n > 0 ? n : 0] = '\0';
	if (n > 4 && strcmp(path + n - 4, "-wal") == 0)
		fake_disk.wal_syncs++;
	else
		fake_disk.other_syncs++;
	if (fake_disk.sync_error != 0) {
		errno = fake_disk.sync_error;
		return -1;
	}
	return 0;
}

int fsync(int fd)
{
	(void)fd;
	return 0;
}

/* A busy database is waited for in naps that are counted by their number, not by the clock. */
int usleep(useconds_t us)
{
	fake_disk.naps++;
	return fake_disk.sleeps ? poll(NULL, 0, (int)(us / 1000)) : 0;
}

#endif
