/* SPDX-License-Identifier: MIT */
/* archive.h: sessions that have left the store: STATE_DIR/archive/YYYY-MM-DD.jsonl.zst, one file for each
 * day on which sessions ended.
 *
 * Each session is one entry: a skippable frame with the session's id, lengths and a hash, then a zstd frame
 * of its own. `zstdcat` gives JSON lines: first {"archive":1,"session_id":...}, then
 * {"table":...,"row":{...}} for each row. An entry can be read without the entries before it, and skipped
 * without unpacking it. Only the length that the store has committed counts. Bytes behind that length are an
 * append that a crash cut short; the next append removes them. Knows files and bytes, nothing of the store.
 * Memory is bounded, however long a session was. */
#ifndef HCPD_STORE_ARCHIVE_H
#define HCPD_STORE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

#define ARCHIVE_DAY_SIZE 11   /* "2026-01-31" and its NUL */
#define ARCHIVE_DIR "archive" /* in the state directory */
#define ARCHIVE_SUFFIX ".jsonl.zst"

enum { ARCHIVE_WHY_SIZE = 256, ARCHIVE_FIRST_LINE_MAX = 1024 };

bool archive_is_day(const char *text);

/* ---- writing: one thread, one file at a time ---- */

struct archive_writer;

/* Opens the day's file below dir_fd and cuts it to the committed length; makes the file where nothing is
 * committed yet. NULL with `why`, also where the file is gone or shorter than the committed length: then
 * another program has changed it. */
struct archive_writer *archive_append(int dir_fd, const char *day, int64_t committed, char *why)
	__attribute__((warn_unused_result));
/* An entry: begin, any number of adds, end. -1 with errno. After an error only archive_close may be
 * called. */
int archive_begin_entry(struct archive_writer *w, const char *session_id) __attribute__((warn_unused_result));
int archive_add(struct archive_writer *w, const void *data, size_t size) __attribute__((warn_unused_result));
int archive_end_entry(struct archive_writer *w) __attribute__((warn_unused_result));
/* Syncs the file and its directory. The file's length, or -1 with errno. */
int64_t archive_sync(struct archive_writer *w) __attribute__((warn_unused_result));
void archive_close(struct archive_writer *w); /* NULL is fine */

/* ---- reading: any thread or program ---- */

struct archive_reader;

struct archive_entry {
	char session_id[ID_SIZE];
	int64_t at;                   /* where it begins */
	int64_t frame_at, frame_size; /* the zstd frame in it */
	int64_t text_size;            /* unpacked */
	unsigned char hash[32];       /* SHA-256 of the frame */
};

/* Owns the descriptor from here on. limit: how much of the file counts; -1: all of it. */
struct archive_reader *archive_open(int fd, int64_t limit);
void archive_free(struct archive_reader *r);
/* The next entry. 1, 0 at the end, -1 with `why`: the file is no archive from there on. */
int archive_next(struct archive_reader *r, struct archive_entry *e, char *why)
	__attribute__((warn_unused_result));
/* Unpacks an entry in pieces; fn ends it with false. 0, or -1 with `why`: the entry is damaged, and the
 * pieces given before cannot be relied on. */
typedef bool archive_piece_fn(void *ctx, const char *data, size_t size);
int archive_read(struct archive_reader *r, const struct archive_entry *e, archive_piece_fn *fn, void *ctx,
	char *why) __attribute__((warn_unused_result));
/* Unpacks the whole entry and compares it with its header and its first line. */
int archive_verify(struct archive_reader *r, const struct archive_entry *e, char *why)
	__attribute__((warn_unused_result));

#endif
