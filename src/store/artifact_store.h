/* artifact_file.h: the files of the artifact store: STATE_DIR/artifacts/SESSION_ID/NAME, and how they come
 * in.
 *
 * A file is the daemon's own copy, never a link: what a worker can still write to is no artifact. It is made
 * aside, synced, and renamed; nothing is promised of it before its row is committed. */
#ifndef HCPD_ARTIFACT_FILE_H
#define HCPD_ARTIFACT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARTIFACT_HASH_SIZE 65 /* SHA-256 in lower-case hex, and a NUL */

struct artifact_source {
	const char *state_dir, *session_id;
	const char *path; /* below the session's working directory */
	const char *name; /* a good one: artifact_name.h */
	int64_t owner;    /* the user whose file it must be; -1: anybody's that we may read */
	int64_t max_bytes;
};

struct artifact_copy {
	int64_t size;                    /* so far */
	char sha256[ARTIFACT_HASH_SIZE]; /* of what was stored; once it is in */
	bool has_changed;                /* the file did while it was copied */
	struct artifact_copying *own;
};

/* Opens and looks, and copies nothing yet. Refuses whatever is no plain file of the worker's own: absolute
 * paths, "..", links of both kinds, other devices, what is larger than max_bytes. NULL, and `why` is the end
 * of a sentence. */
struct artifact_copy *artifact_copy_begin(const struct artifact_source *src, char *why, size_t why_size)
	__attribute__((warn_unused_result));
/* Copies up to `bytes` more. 1: there is more to do. 0: it is in, under its name and on the disk. -1: it
 * cannot be had, with `why`. */
int artifact_copy_step(struct artifact_copy *c, size_t bytes, char *why, size_t why_size)
	__attribute__((warn_unused_result));
/* Whatever is half done goes away. NULL is fine. */
void artifact_copy_free(struct artifact_copy *c);

/* Removes the stored file, and the session's directory where that was all. */
void artifact_remove(const char *state_dir, const char *session_id, const char *name);
/* At start: removes what is in the session's directory and is_known does not want. How many. */
int artifact_collect(const char *state_dir, const char *session_id,
	bool (*is_known)(void *ctx, const char *name), void *ctx);

#endif
