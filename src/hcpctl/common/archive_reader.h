/* SPDX-License-Identifier: MIT */
/* archive_reader.h: sessions that have left the store, found in the archive's files.
 *
 * The store only says how many bytes of each file count; the files are read directly, so the user needs the
 * right to read them. Unless is_quiet, each fault of a file is printed, and counted. Never writes. */
#ifndef HCPD_HCPCTL_COMMON_ARCHIVE_READER_H
#define HCPD_HCPCTL_COMMON_ARCHIVE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/archive.h"
#include "query/query.h"

struct ctl_archive_reader_day {
	char day[ARCHIVE_DAY_SIZE];
	int64_t size, sessions; /* as recorded in the store */
};

struct ctl_archive_reader {
	char *state_dir;
	struct ctl_archive_reader_day *days;
	size_t count;
	size_t found; /* the day of the session that was found last */
	bool is_quiet;
	int faults; /* files and entries that differ from what was written */
};

/* 0, or a sysexits code with a sentence or two in why. Call ctl_archive_reader_fini in either case. */
int ctl_archive_reader_open(struct ctl_archive_reader *s, const char *state_dir, char *why, size_t why_size)
	__attribute__((warn_unused_result));
void ctl_archive_reader_fini(struct ctl_archive_reader *s);
void ctl_archive_reader_path(
	const struct ctl_archive_reader *s, const struct ctl_archive_reader_day *d, char *path, size_t size);

/* Handles one entry: 1 go on, 0 stop, -1 the entry is damaged, with why. */
typedef int ctl_archive_reader_fn(
	void *ctx, struct archive_reader *r, const struct archive_entry *e, char *why);
/* Calls fn for each entry of a day; false: fn stopped. */
bool ctl_archive_reader_each(struct ctl_archive_reader *s, const struct ctl_archive_reader_day *d,
	ctl_archive_reader_fn *fn, void *ctx);

/* Finds a session by the beginning of its id. How many fit: 0, 1 with the id, 2 for more. */
int ctl_archive_reader_find(struct ctl_archive_reader *s, const char *word, char session_id[ID_SIZE]);
/* Gives the lines of the session that ctl_archive_reader_find found. True: all lines came, and the entry is
 * whole. */
/* A line with its newline; fn may change it. False: stop. */
typedef bool ctl_archive_reader_line_fn(void *ctx, struct buf *line);
bool ctl_archive_reader_read(
	struct ctl_archive_reader *s, const char *session_id, ctl_archive_reader_line_fn *fn, void *ctx);
/* The lines of one entry: 1 go on, 0 stop, -1 damaged. */
int ctl_archive_reader_lines(struct archive_reader *r, const struct archive_entry *e,
	ctl_archive_reader_line_fn *fn, void *ctx, char *why);
/* The session's artifacts, in the order and the form in which `show` gives them: {"artifact":{...}}. */
bool ctl_archive_reader_artifacts(
	struct ctl_archive_reader *s, const char *session_id, query_item_fn *fn, void *ctx);

#endif
