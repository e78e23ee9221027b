/* artifact.h: what a session's worker made: announced, copied into the artifact store in slices, named in its
 * result.
 *
 * An announcement is committed with the turn it came in, so neither a crash nor a stop loses it; the copy is
 * made behind that commit. Until all that was announced is in, refused or too late, the session's end waits.
 */
#ifndef HCPD_ARTIFACT_H
#define HCPD_ARTIFACT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct artifacts; /* of one session */
struct core;
struct session;

/* The worker says that this file of its working directory is an artifact. What cannot be one costs a warning
 * event. The later one of a name takes the place of the earlier. type may be NULL. */
void artifact_announce(struct session *s, const char *name, size_t name_size, const char *path,
	size_t path_size, const char *type);
/* Recovery: what was announced in an earlier life. -1: the store cannot be read. */
int artifacts_load(struct session *s) __attribute__((warn_unused_result));
/* Its processes are gone and its outcome is decided: must the end wait? Then session_finish is called again,
 * from here. An abort waits for nothing. */
bool artifacts_delay_end(struct session *s);
/* The JSON array for its result. */
void artifacts_add_list(const struct session *s, struct buf *b);
/* How many bytes that will have at most. */
size_t artifacts_room(const struct session *s);
/* After the commit: one slice of one copy. True: there is more to do. */
bool artifacts_step(struct core *c);
/* Does the end of some session wait? */
bool artifacts_delay_stop(const struct core *c);
void artifacts_free(struct session *s);

#endif
