/* SPDX-License-Identifier: MIT */
/* workdir.h: the working directories of sessions, STATE_DIR/work/SESSION: made, removed, swept. Knows names
 * and files; never a process. Only the core's thread calls these functions. */
#ifndef HCPD_PROCESS_WORKDIR_H
#define HCPD_PROCESS_WORKDIR_H

#include <stdbool.h>
#include <stddef.h>

#define WORKDIR_OFFERS 64

/* Makes STATE_DIR/work/SESSION with mode 0700 unless it is there. The task, which may be NULL, becomes the
 * file task.json in it. path gets the directory. 0, or -1 with errno. */
int workdir_make(const char *state_dir, const char *session_id, const void *task, size_t task_size,
	char *path, size_t path_size) __attribute__((warn_unused_result));
/* Removes a directory that has no more than its task. Moves any other one aside; workdir_sweep then deletes
 * it in slices, so that a large tree does not stop the loop. True: there is something to sweep. */
bool workdir_remove(const char *state_dir, const char *session_id);
/* The same for a directory that the next workdir_make may as well take over: after commit of the session's
 * end, before the starts of the same turn. False: it is not as new, or there are enough; workdir_remove is
 * for it then. */
bool workdir_offer(const char *state_dir, const char *session_id);
/* After those starts: removes the directories that were offered and not taken. True as workdir_remove. */
bool workdir_end_offers(const char *state_dir);
/* Deletes about `entries` at most; true while there is more to do. What cannot be deleted stays until the
 * next start, or until workdir_remove moves something aside. */
bool workdir_sweep(const char *state_dir, int entries);
/* At the start: removes from STATE_DIR/work, as workdir_remove does, every entry with the name of a session
 * that is_known denies. An entry with any other name stays. The number of entries removed; above 0 there is
 * something to sweep. */
int workdir_collect(const char *state_dir, bool (*is_known)(void *ctx, const char *name), void *ctx);

#endif
