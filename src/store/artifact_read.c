/* SPDX-License-Identifier: MIT */
/* artifact_read.c: opens and reads stored artifacts. Owns nothing, never changes a file. */
#include "store/artifact_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "store/artifact_name.h"
#include "base/id.h"

#define ITEM_BYTES (24 << 10) /* 32 KiB as base64 */

int artifact_open(const char *state_dir, const char *session_id, const char *name)
{
	char path[4096];
	int dir, fd, error;

	if (!id_is_uuid4(session_id) || artifact_name_fault(name, strlen(name)) != NULL) {
		errno = EINVAL;
		return -1;
	}
	if ((size_t)snprintf(path, sizeof path, "%s/artifacts/%s", state_dir, session_id) >= sizeof path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if ((dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		return -1;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	error = errno;
	close(dir);
	errno = error;
	return fd;
}

int artifact_add_item(int fd, struct buf *out)
{
	unsigned char bytes[ITEM_BYTES], text[ITEM_BYTES / 3 * 4 + 1];
	ssize_t n;

	do
		n = read(fd, bytes, sizeof bytes);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return (int)n;
	buf_add_text(out, "{\"data\":\"");
	buf_add(out, text, (size_t)EVP_EncodeBlock(text, bytes, (int)n));
	buf_add_text(out, "\"}");
	return 1;
}
