/* SPDX-License-Identifier: MIT */
/* artifacts.h: artifacts of a session: announced by its worker, copied into the artifact store in slices,
 * named in the result.
 *
 * An announcement is committed with its turn, so neither a crash nor a stop loses it. The file is copied
 * after that commit. The session's end waits until each announced file is copied, refused or too late. */
#ifndef HCPD_CORE_RUNNING_ARTIFACTS_H
#define HCPD_CORE_RUNNING_ARTIFACTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct artifacts; /* of one session */
struct core;
struct session;

/* The worker announces a file of its working directory as an artifact. A file that cannot be one costs a
 * warning event. A later announcement of the same name replaces the earlier. type may be NULL. */
void artifact_announce(struct session *s, const char *name, size_t name_size, const char *path,
	size_t path_size, const char *type);
/* Recovery: loads the announcements of the previous run. -1: the store cannot be read. */
int artifacts_load(struct session *s) __attribute__((warn_unused_result));
/* The outcome is decided and the processes are gone: must the end wait for copies? If so, artifacts.c calls
 * session_finish again. An abort never waits. */
bool artifacts_delay_end(struct session *s);
/* Adds the JSON array of the result. */
void artifacts_add_list(const struct session *s, struct buf *b);
/* Upper bound of that array's size. */
size_t artifacts_room(const struct session *s);
/* After the commit: copies one slice of one file. True: there is more to do. */
bool artifacts_step(struct core *c);
/* Does the end of any session wait for a copy? */
bool artifacts_delay_stop(const struct core *c);
void artifacts_free(struct session *s);

#endif
