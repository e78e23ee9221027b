/* SPDX-License-Identifier: MIT */
/* artifact_read.h: stored artifacts, for readers in any thread and any process that may open them. */
#ifndef HCPD_STORE_ARTIFACT_READ_H
#define HCPD_STORE_ARTIFACT_READ_H

#include "base/buf.h"

/* Opens a stored file. -1 with errno: EINVAL the session or the name is not valid, ENOENT there is no such
 * file. The open file stays the same even where another one takes its name. */
int artifact_open(const char *state_dir, const char *session_id, const char *name);
/* The file's next piece, as an item of the control socket: {"data":"base64"}. 1; 0 at the end, and nothing
 * is added; -1. */
int artifact_add_item(int fd, struct buf *out);

#endif
