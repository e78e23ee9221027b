/* SPDX-License-Identifier: MIT */
/* artifact_store.h: the files of the artifact store, STATE_DIR/artifacts/SESSION_ID/NAME, and how a file
 * gets there.
 *
 * A stored file is the daemon's own copy, never a link: a worker must not be able to change it. The copy is
 * made under another name, synced, and renamed. Nothing is promised of it before its row is committed. */
#ifndef HCPD_STORE_ARTIFACT_STORE_H
#define HCPD_STORE_ARTIFACT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARTIFACT_HASH_SIZE 65 /* SHA-256 in lower-case hex, and a NUL */

struct artifact_source {
	const char *state_dir, *session_id;
	const char *path; /* below the session's working directory */
	const char *name; /* a good one: artifact_name.h */
	int64_t owner;    /* the user who must own the file; -1: any file that the daemon may read */
	int64_t max_bytes;
};

struct artifact_copy {
	int64_t size;                    /* so far */
	char sha256[ARTIFACT_HASH_SIZE]; /* of what was stored; once it is in */
	bool has_changed;                /* the file did while it was copied */
	struct artifact_copying *own;
};

/* Opens and checks the file; copies nothing yet. Refuses everything but a plain file of the worker's own:
 * absolute paths, "..", links of both kinds, other devices, files larger than max_bytes. NULL, and `why` is
 * the end of a sentence; errno is EMFILE or ENFILE where only a descriptor was missing. */
struct artifact_copy *artifact_copy_begin(const struct artifact_source *src, char *why, size_t why_size)
	__attribute__((warn_unused_result));
/* Copies up to `bytes` more. 1: there is more to copy. 0: the file is stored under its name and synced. -1
 * with `why`, and errno as above: it cannot be stored. */
int artifact_copy_step(struct artifact_copy *c, size_t bytes, char *why, size_t why_size)
	__attribute__((warn_unused_result));
/* Removes an unfinished copy. NULL is fine. */
void artifact_copy_free(struct artifact_copy *c);

/* Removes the stored file, and the session's directory where it is empty then. */
void artifact_remove(const char *state_dir, const char *session_id, const char *name);
/* At the start: removes the files in the session's directory that is_known denies. How many. */
int artifact_collect(const char *state_dir, const char *session_id,
	bool (*is_known)(void *ctx, const char *name), void *ctx);

#endif
