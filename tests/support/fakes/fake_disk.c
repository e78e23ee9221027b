/* SPDX-License-Identifier: MIT */
/* fake_disk.c: what fake_disk.h declares. */
#include "support/fakes/fake_disk.h"

struct fake_disk fake_disk;

void fake_disk_refuse(int error)
{
	fake_disk.write_error = error;
	fake_disk.writes_left = 0;
}

void fake_disk_mend(void)
{
	fake_disk.write_error = fake_disk.sync_error = 0;
	fake_disk.write_halves = false;
}

static bool is_wal(int fd)
{
	char link[64], path[4096];
	ssize_t n;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	path[n > 0 ? n : 0] = '\0';
	return n > 4 && strcmp(path + n - 4, "-wal") == 0;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
	if (fake_disk.write_error != 0 && fake_disk.writes_left-- <= 0) {
		if (fake_disk.write_dies)
			_exit(0);
		if (fake_disk.write_halves)
			(void)!syscall(SYS_pwrite64, fd, data, size / 2, at);
		errno = fake_disk.write_error;
		return -1;
	}
	if (is_wal(fd))
		fake_disk.wal_writes++;
	return syscall(SYS_pwrite64, fd, data, size, at);
}

int fdatasync(int fd)
{
	if (is_wal(fd))
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
