/* SPDX-License-Identifier: MIT */
/* line_reader.h: a pipe's bytes as lines, in bounded memory and bounded portions. Knows nothing of processes.
 *
 * Complete lines are handed out where they were read; only the unfinished end of what was read is kept,
 * on the heap, and freed with its line. So a pipe between two lines costs sizeof(struct lines). Where so many
 * short lines were read that they are too much for one portion, what is left of them is kept, too. */
#ifndef HCPD_BASE_LINE_READER_H
#define HCPD_BASE_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define LINES_READ_MAX 65536    /* at most this in one line_reader_read */
#define LINES_SMALL 4096        /* an unfinished line up to this long never has to wait for memory */
#define LINES_HEAD 1024         /* of a line that is too long, this much is shown */
#define LINES_CHARGE 256        /* a line uses up its size of a portion, and at least this */
#define LINES_SILENT_US 5000000 /* no byte for so long: the line may be given up for others that wait */

struct line_reader {
	char *rest; /* the unfinished line; NULL: none */
	uint32_t size, room;
	bool skipping; /* it was too long: up to its newline all is thrown away */
	/* was read, and is to be looked at before anything else is; NULL: none */
	char *more;
	uint32_t more_at, more_size;
	int64_t fed_at_us; /* when the unfinished line last got a byte */
	bool is_kept;      /* `rest` is a line that was handed out and is still in use */
};

struct line_pool { /* what all of them may hold together */
	size_t max_line, max_total, used;
	/* the one that may go on though the total is used up: there is always one */
	const struct line_reader *over;
	bool freed;          /* memory came back since the reader last looked */
	struct slice *slice; /* when it is over, so is a portion, after its first line; NULL: never */
};

enum line_kind {
	LINE_WHOLE,
	LINE_TOO_LONG, /* was thrown away: this is its beginning */
	LINE_UNENDED   /* the last one, and no newline came */
};
typedef void line_fn(void *ctx, const char *line, size_t size, enum line_kind kind);

enum line_result {
	LINES_OK, /* something or nothing was there; more may come */
	/* the portion is used up: call again in the next turn, readable or not */
	LINES_MORE,
	LINES_END,  /* end of file, or an error; the last line was handed out */
	LINES_WAIT, /* not read: it needs memory that others hold; again when `freed` */
	LINES_KEPT  /* the line that was handed out is in use: call again after line_reader_let_go */
};

void line_pool_init(struct line_pool *p, int64_t max_line, int64_t max_total);
/* One portion: what is left of an earlier read, else one read(2) of at most `share` bytes. *got: what was
 * read; *used: how much of the share that took. */
enum line_result line_reader_read(struct line_pool *p, struct line_reader *l, int fd, size_t share,
	size_t *got, size_t *used, line_fn *on_line, void *ctx);
/* Memory that it holds though its line got no byte for LINES_SILENT_US; 0: none worth the trouble. */
size_t line_reader_idle_bytes(const struct line_reader *l, int64_t now_us);
/* Its unfinished line is too long, whatever its length: others wait for the memory. */
void line_reader_give_up(struct line_pool *p, struct line_reader *l, line_fn *on_line, void *ctx);
/* What is left, all of it; a last line without a newline counts. False: a line was kept; call again after
 * line_reader_let_go. */
bool line_reader_end(struct line_pool *p, struct line_reader *l, line_fn *on_line, void *ctx);
/* Only in on_line, and only with a line longer than LINES_READ_MAX: the line stays where it is, and counts as
 * memory that is held. Nothing is read and no other line handed out until line_reader_let_go. */
void line_reader_keep(struct line_reader *l, const char *line);
void line_reader_let_go(struct line_pool *p, struct line_reader *l);
void line_reader_fini(struct line_pool *p, struct line_reader *l);

#endif
