/* SPDX-License-Identifier: MIT */
/* user_files.c: hcpctl's directory and how files get into it.
 * Owns modes, locks and the renaming.
 * Never knows what a file holds, except for the instance id. */
#include "hcpctl/common/user_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"

#define FILE_MAX (16 << 20)

static int fail(char *why, const char *what, const char *path)
{
	snprintf(why, CTL_WHY_SIZE, "%s %.350s: %s", what, path, strerror(errno));
	return -1;
}

int ctl_user_files_make(const char *dir, char *why)
{
	char path[PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path) {
		errno = ENAMETOOLONG;
		return fail(why, "cannot make", dir);
	}
	for (char *p = path + 1;; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return fail(why, "cannot make directory", path);
		if (c == '\0')
			break;
		*p = c;
	}
	if (stat(dir, &st) < 0)
		return fail(why, "cannot use", dir);
	if (!S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		return fail(why, "cannot use", dir);
	}
	if ((st.st_mode & 077) && chmod(dir, st.st_mode & 07700) < 0)
		return fail(why, "others may look into it, and cannot be kept out:", dir);
	return 0;
}

static int write_all(int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t done = write(fd, data, size);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -1;
		data += done;
		size -= (size_t)done;
	}
	return fsync(fd);
}

/* A rename is durable only after its directory is synced. */
static void sync_dir(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
}

int ctl_user_files_write(const char *dir, const char *name, const void *data, size_t size, char *why)
{
	char path[PATH_MAX], aside[PATH_MAX];
	int fd, saved, failed;

	if (ctl_user_files_make(dir, why) < 0)
		return -1;
	if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path ||
		snprintf(aside, sizeof aside, "%s/.%s.XXXXXX", dir, name) >= (int)sizeof aside) {
		errno = ENAMETOOLONG;
		return fail(why, "cannot write", dir);
	}
	fd = mkostemp(aside, O_CLOEXEC); /* makes it with mode 0600 */
	if (fd < 0)
		return fail(why, "cannot write", aside);
	failed = write_all(fd, data, size);
	saved = errno;
	if (close(fd) < 0 && !failed) {
		failed = -1;
		saved = errno;
	}
	if (!failed && rename(aside, path) < 0) {
		failed = -1;
		saved = errno;
	}
	if (failed) {
		unlink(aside);
		errno = saved;
		return fail(why, "cannot write", path);
	}
	sync_dir(dir);
	return 0;
}

int ctl_user_files_read(const char *dir, const char *name, struct buf *out, char *why)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	if (io_read_file(path, FILE_MAX, out, &st) == 0)
		return 1;
	return errno == ENOENT || errno == ENOTDIR ? 0 : fail(why, "cannot read", path);
}

int ctl_user_files_lock(const char *dir, const char *name, char *why)
{
	char path[PATH_MAX];
	int fd;

	if (ctl_user_files_make(dir, why) < 0)
		return -1;
	snprintf(path, sizeof path, "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fail(why, "cannot lock", path);
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR) {
			fail(why, "cannot lock", path);
			close(fd);
			return -1;
		}
	return fd;
}

/* One byte of the empty file stands for the text: FNV-1a, 63 bits. So no file for each text is left behind.
 */
static off_t place_of(const char *text)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
	return (off_t)(hash >> 2);
}

int ctl_user_files_claim(const char *dir, const char *name, const char *text, int *fd, char *why)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = place_of(text), .l_len = 1};
	char path[PATH_MAX];

	if (ctl_user_files_make(dir, why) < 0)
		return -1;
	snprintf(path, sizeof path, "%s/%s", dir, name);
	if (*fd < 0 && (*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
		return fail(why, "cannot lock", path);
	if (fcntl(*fd, F_OFD_SETLK, &lock) == 0)
		return 1;
	return errno == EAGAIN || errno == EACCES ? 0 : fail(why, "cannot lock", path);
}

int ctl_user_files_instance(const char *dir, char out[ID_SIZE], char *why)
{
	struct buf text = {0};
	int lock = ctl_user_files_lock(dir, "instance.lock", why), result = -1, got;

	if (lock < 0)
		return -1;
	got = ctl_user_files_read(dir, "instance", &text, why);
	if (got > 0 && text.size >= ID_SIZE - 1) {
		memcpy(out, text.data, ID_SIZE - 1);
		out[ID_SIZE - 1] = '\0';
		result = id_is_uuid4(out) ? 0 : -1;
	}
	/* There is no id yet, or a damaged one. The queue of a damaged id expires by itself. */
	if (got >= 0 && result < 0) {
		id_make(out);
		result = ctl_user_files_write(dir, "instance", out, ID_SIZE - 1, why);
	}
	buf_fini(&text);
	close(lock);
	return result;
}
