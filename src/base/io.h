/* SPDX-License-Identifier: MIT */
/* io.h: whole files and paths. Never keeps a descriptor open, never writes. */
#ifndef HCPD_BASE_IO_H
#define HCPD_BASE_IO_H

#include <stddef.h>
#include <sys/stat.h>

#include "base/buf.h"

/* The whole file, bounded, with what fstat returned for that very file. -1 with errno (EFBIG: over max,
 * EINVAL: a FIFO). */
int io_read_file(const char *path, size_t max, struct buf *out, struct stat *st)
	__attribute__((warn_unused_result));
/* A relative path starts at dir, which is absolute. The caller frees the result. */
char *io_absolute(const char *dir, const char *path);

#endif
