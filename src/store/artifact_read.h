/* artifact_read.h: stored artifacts, for readers in any thread and any process that may open them. */
#ifndef HCPD_ARTIFACT_READ_H
#define HCPD_ARTIFACT_READ_H

#include "base/buf.h"

/* A stored file, or -1 with errno: EINVAL where it is no session or no name, ENOENT where there is none. What
 * it opens stays what it was, even where another file takes the name. */
int artifact_open(const char *state_dir, const char *session_id, const char *name);
/* The next piece of it as an item of the control socket: {"data":"base64"}. 1, 0 at the end (nothing is
 * added), -1. */
int artifact_add_item(int fd, struct buf *out);

#endif
