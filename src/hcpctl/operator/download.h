/* SPDX-License-Identifier: MIT */
/* download.h: bytes into a file that appears whole or not at all, with their hash; or to stdout. */
#ifndef HCPD_HCPCTL_OPERATOR_DOWNLOAD_H
#define HCPD_HCPCTL_OPERATOR_DOWNLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ctl_download;

/* path "-": stdout. The temporary file stands in the same directory; a signal that ends the process removes
 * it. An existing file is replaced only where `replaces` is set. NULL: the reason was printed. */
struct ctl_download *ctl_download_begin(const char *path, bool replaces);
bool ctl_download_add(struct ctl_download *s, const void *data, size_t size);
/* Verifies size and checksum ("sha256:..."), then gives the file its name. False: the reason was printed, and
 * no file is left. */
bool ctl_download_end(struct ctl_download *s, int64_t size, const char *checksum);
void ctl_download_drop(struct ctl_download *s); /* NULL is fine */

#endif
