/* SPDX-License-Identifier: MIT */
/* io.c: reads whole files, and makes paths absolute.
 * Owns the bound on what is read, and that no read waits for a writer.
 * Never writes a file; never says what a file means. */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int io_read_file(const char *path, size_t max, struct buf *out, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), saved;
	ssize_t got = -1;

	if (fd < 0)
		return -1;
	if (fstat(fd, st) < 0)
		goto done;
	if (S_ISFIFO(st->st_mode)) { /* a FIFO may never get a writer, and a reload must not wait */
		errno = EINVAL;
		goto done;
	}
	do {
		buf_reserve(out, 4096);
		got = read(fd, out->data + out->size, 4096);
		if (got > 0)
			out->size += (size_t)got;
		if (out->size > max) {
			errno = EFBIG;
			got = -1;
			break;
		}
	} while (got > 0 || (got < 0 && errno == EINTR));
done:
	saved = errno;
	close(fd);
	errno = saved;
	return got < 0 ? -1 : 0;
}

char *io_absolute(const char *dir, const char *path)
{
	struct buf b = {0};

	if (*path == '/')
		return xstrdup(path);
	while (path[0] == '.' && path[1] == '/') /* messages show /etc/hcpd/x, not /etc/hcpd/./x */
		path += 2 + strspn(path + 2, "/");
	buf_addf(&b, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, path);
	buf_text(&b);
	return b.data; /* the buffer's memory moves over */
}
