/* ctl_shelf.h: sessions that have left the store, found in the archive's files.
 *
 * Of the store only how much of each file counts is read; the files are read directly, so this is for who may
 * read them. Unless it is quiet, what is wrong with a file is said, and counted. Never writes. */
#ifndef HCPD_CTL_SHELF_H
#define HCPD_CTL_SHELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/archive.h"
#include "query/query.h"

struct ctl_shelf_day {
	char day[ARCHIVE_DAY_SIZE];
	int64_t size, sessions; /* as the store says */
};

struct ctl_shelf {
	char *state_dir;
	struct ctl_shelf_day *days;
	size_t count;
	size_t found; /* the day of the session that was found last */
	bool is_quiet;
	int faults; /* files and entries that are not as they were written */
};

/* 0, or a sysexits code with a sentence or two. It is to be finished in either case. */
int ctl_shelf_open(struct ctl_shelf *s, const char *state_dir, char *why, size_t why_size)
	__attribute__((warn_unused_result));
void ctl_shelf_fini(struct ctl_shelf *s);
void ctl_shelf_path(const struct ctl_shelf *s, const struct ctl_shelf_day *d, char *path, size_t size);

/* What is done with an entry: 1 go on, 0 enough, -1 it is damaged, with why. */
typedef int ctl_shelf_fn(void *ctx, struct archive_reader *r, const struct archive_entry *e, char *why);
/* Each entry of a day; false: fn had enough. */
bool ctl_shelf_each(struct ctl_shelf *s, const struct ctl_shelf_day *d, ctl_shelf_fn *fn, void *ctx);

/* By its beginning, as everywhere. How many sessions fit it: 0, 1 with the id, 2 for more. */
int ctl_shelf_find(struct ctl_shelf *s, const char *word, char session_id[ID_SIZE]);
/* The lines of a session that ctl_shelf_find found. True: they are all there, and whole. */
typedef bool ctl_shelf_line_fn(
	void *ctx, struct buf *line); /* with its newline; may be changed. False: enough */
bool ctl_shelf_read(struct ctl_shelf *s, const char *session_id, ctl_shelf_line_fn *fn, void *ctx);
/* The lines of one entry: 1 go on, 0 enough, -1. */
int ctl_shelf_lines(
	struct archive_reader *r, const struct archive_entry *e, ctl_shelf_line_fn *fn, void *ctx, char *why);
/* Its artifacts, in the order and the form in which `show` gives them: {"artifact":{...}}. */
bool ctl_shelf_artifacts(struct ctl_shelf *s, const char *session_id, query_item_fn *fn, void *ctx);

#endif
