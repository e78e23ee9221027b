/* SPDX-License-Identifier: MIT */
/* line_reader.c: splits what a pipe brings into lines.
 * Owns the one buffer that every pipe is read into, and the account of the unfinished lines' memory.
 * Never looks into a line (NUL bytes pass), never decides when to read. */
#include "base/line_reader.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

#define ROOM_STEP 256
#define LINE_LIMIT (1u << 30) /* struct lines counts in 32 bits */

static char shared[LINES_READ_MAX];

void line_pool_init(struct line_pool *p, int64_t max_line, int64_t max_total)
{
	memset(p, 0, sizeof *p);
	p->max_line = max_line < 1 ? 1 : max_line > LINE_LIMIT ? LINE_LIMIT : (size_t)max_line;
	p->max_total = max_total < 0 ? 0 : (size_t)max_total;
}

static void lines_release(struct line_pool *p, struct line_reader *l)
{
	if (p->over == l) {
		p->over = NULL;
		p->freed = true;
	}
	if (!l->rest)
		return;
	p->used -= l->room;
	p->freed = true;
	free(l->rest);
	l->rest = NULL;
	l->size = l->room = 0;
}

static void lines_keep(struct line_pool *p, struct line_reader *l, const char *data, size_t size)
{
	size_t need = l->size + size, room = need;

	if (need > l->room) {
		/* Doubling keeps a long line's cost linear; not where it would take what others may have. */
		if (l->room && p->used + l->room <= p->max_total && 2 * (size_t)l->room > need)
			room = 2 * (size_t)l->room;
		room = (room + ROOM_STEP - 1) / ROOM_STEP * ROOM_STEP;
		l->rest = xrealloc(l->rest, room);
		p->used += room - l->room;
		l->room = (uint32_t)room;
	}
	memcpy(l->rest + l->size, data, size);
	l->size = (uint32_t)need;
	l->fed_at_us = clock_boot_us();
}

static void lines_say_too_long(struct line_pool *p, struct line_reader *l, const char *data, size_t size,
	line_fn *on_line, void *ctx)
{
	/* The same beginning, however it came in. */
	if (l->size && l->size < LINES_HEAD && size)
		lines_keep(p, l, data, size < LINES_HEAD - l->size ? size : LINES_HEAD - l->size);
	size = l->size ? l->size : size;
	on_line(ctx, l->size ? l->rest : data, size < LINES_HEAD ? size : LINES_HEAD, LINE_TOO_LONG);
	lines_release(p, l);
}

/* One line, or the beginning of one. How many bytes of data that was. */
static size_t lines_feed_one(struct line_pool *p, struct line_reader *l, const char *data, size_t size,
	line_fn *on_line, void *ctx)
{
	const char *nl = memchr(data, '\n', size);
	size_t part = nl ? (size_t)(nl - data) : size;

	if (l->skipping) {
		l->skipping = !nl;
	} else if (l->size + part > p->max_line) {
		lines_say_too_long(p, l, data, part, on_line, ctx);
		l->skipping = !nl;
	} else if (!nl) {
		lines_keep(p, l, data, part);
	} else if (l->size) {
		lines_keep(p, l, data, part);
		on_line(ctx, l->rest, l->size, LINE_WHOLE);
		if (!l->is_kept)
			lines_release(p, l);
	} else {
		on_line(ctx, data, part, LINE_WHOLE);
	}
	return part + (nl != NULL);
}

/* Until the share is used up, or the slice is over. How many bytes of data that was. */
static size_t lines_feed(struct line_pool *p, struct line_reader *l, const char *data, size_t size,
	size_t share, size_t *used, line_fn *on_line, void *ctx)
{
	size_t at = 0, n;

	for (*used = 0; at < size && *used < share && !l->is_kept; at += n) {
		if (at > 0 && p->slice != NULL && slice_is_over(p->slice))
			break;
		n = lines_feed_one(p, l, data + at, size - at, on_line, ctx);
		*used += n < LINES_CHARGE ? LINES_CHARGE : n;
	}
	return at;
}

static void more_free(struct line_pool *p, struct line_reader *l)
{
	if (!l->more)
		return;
	p->used -= l->more_size;
	p->freed = true;
	free(l->more);
	l->more = NULL;
}

static void more_feed(
	struct line_pool *p, struct line_reader *l, size_t share, size_t *used, line_fn *on_line, void *ctx)
{
	l->more_at += (uint32_t)lines_feed(
		p, l, l->more + l->more_at, l->more_size - l->more_at, share, used, on_line, ctx);
	if (l->more_at == l->more_size)
		more_free(p, l);
}

/* How much may be read, if all of it had to be kept? */
static size_t lines_may_read(struct line_pool *p, const struct line_reader *l, size_t want)
{
	size_t need = l->size + want;

	if (p->over == l || need <= l->room || p->used + (need - l->room) <= p->max_total)
		return want;
	if (l->size < LINES_SMALL)
		return want < LINES_SMALL - l->size ? want : LINES_SMALL - l->size;
	if (p->over)
		return 0;
	p->over = l;
	return want;
}

enum line_result line_reader_read(struct line_pool *p, struct line_reader *l, int fd, size_t share,
	size_t *got, size_t *used, line_fn *on_line, void *ctx)
{
	size_t max, done;
	ssize_t n;

	*got = *used = 0;
	assert(!l->is_kept);
	if (l->more) {
		more_feed(p, l, share, used, on_line, ctx);
		return l->is_kept ? LINES_KEPT : l->more ? LINES_MORE : LINES_OK;
	}
	max = lines_may_read(p, l, share < sizeof shared ? share : sizeof shared);
	if (max == 0)
		return LINES_WAIT;
	n = read(fd, shared, max);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return LINES_OK;
	if (n <= 0) /* where a line was kept, the end is read once more after it */
		return line_reader_end(p, l, on_line, ctx) ? LINES_END : LINES_KEPT;
	*got = (size_t)n;
	done = lines_feed(p, l, shared, (size_t)n, share, used, on_line, ctx);
	if (done == (size_t)n)
		return l->is_kept ? LINES_KEPT : LINES_OK;
	l->more_at = 0;
	l->more_size = (uint32_t)((size_t)n - done);
	l->more = xmalloc(l->more_size);
	memcpy(l->more, shared + done, l->more_size);
	p->used += l->more_size;
	return l->is_kept ? LINES_KEPT : LINES_MORE;
}

size_t line_reader_idle_bytes(const struct line_reader *l, int64_t now_us)
{
	return l->size > LINES_SMALL && !l->more && !l->is_kept && now_us - l->fed_at_us >= LINES_SILENT_US ?
		l->room :
		0;
}

void line_reader_give_up(struct line_pool *p, struct line_reader *l, line_fn *on_line, void *ctx)
{
	lines_say_too_long(p, l, NULL, 0, on_line, ctx);
	l->skipping = true;
}

bool line_reader_end(struct line_pool *p, struct line_reader *l, line_fn *on_line, void *ctx)
{
	size_t used;

	while (l->more && !l->is_kept)
		more_feed(p, l, SIZE_MAX, &used, on_line, ctx);
	if (l->size && !l->is_kept)
		on_line(ctx, l->rest, l->size, LINE_UNENDED);
	if (l->is_kept)
		return false;
	line_reader_fini(p, l);
	return true;
}

void line_reader_keep(struct line_reader *l, const char *line)
{
	assert(line == l->rest && l->size > LINES_READ_MAX);
	l->is_kept = true;
}

void line_reader_let_go(struct line_pool *p, struct line_reader *l)
{
	assert(l->is_kept);
	l->is_kept = false;
	lines_release(p, l);
}

void line_reader_fini(struct line_pool *p, struct line_reader *l)
{
	more_free(p, l);
	lines_release(p, l);
	l->skipping = l->is_kept = false;
}
