/* SPDX-License-Identifier: MIT */
/* archive_read.c: the entries of a day's file: skipped, unpacked and verified.
 * Owns the reader's buffers. Trusts nothing in the file: every length is compared with the file's size, and
 * no piece is larger than a buffer. Never writes. */
#include "store/archive_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>
#include <openssl/evp.h>
#include <zstd.h>

#include "base/buf.h"
#include "json/text.h"

#define IN_SIZE (64 * 1024)
#define OUT_SIZE (128 * 1024)
#define WINDOW_LOG_MAX 23 /* 8 MiB; ours need 2 */

struct archive_reader {
	int fd;
	int64_t at, limit;
	ZSTD_DCtx *unpacker;
	EVP_MD_CTX *hash;
	char in[IN_SIZE], out[OUT_SIZE];
};

struct archive_reader *archive_open(int fd, int64_t limit)
{
	struct archive_reader *r = xcalloc(1, sizeof *r);
	struct stat st;

	r->fd = fd;
	r->limit = limit >= 0 ? limit : fstat(fd, &st) == 0 ? st.st_size : 0;
	r->unpacker = ZSTD_createDCtx();
	r->hash = EVP_MD_CTX_new();
	if (r->unpacker == NULL || r->hash == NULL)
		abort(); /* out of memory: ends as xmalloc does */
	ZSTD_DCtx_setParameter(r->unpacker, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
	return r;
}

void archive_free(struct archive_reader *r)
{
	if (r == NULL)
		return;
	close(r->fd);
	ZSTD_freeDCtx(r->unpacker);
	EVP_MD_CTX_free(r->hash);
	free(r);
}

/* All of it, or -1 with `why`. */
static int read_at(struct archive_reader *r, void *to, size_t size, int64_t at, char *why)
{
	char *into = to;

	while (size > 0) {
		ssize_t n = pread(r->fd, into, size, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			if (n < 0)
				snprintf(why, ARCHIVE_WHY_SIZE, "cannot be read at byte %lld: %s",
					(long long)at, strerror(errno));
			else
				snprintf(why, ARCHIVE_WHY_SIZE,
					"has %lld bytes, and should have %lld: somebody took from it",
					(long long)at, (long long)r->limit);
			return -1;
		}
		into += n;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

/* ---- from entry to entry ---- */

static uint64_t get_number(const unsigned char *from, int bytes)
{
	uint64_t n = 0;

	for (int i = 0; i < bytes; i++)
		n |= (uint64_t)from[i] << 8 * i;
	return n;
}

static bool is_header(const unsigned char h[HEADER_SIZE])
{
	return get_number(h, 4) == SKIPPABLE && get_number(h + 4, 4) == HEADER_SIZE - 8 &&
		memcmp(h + AT_MARK, ENTRY_MARK, 4) == 0 && get_number(h + AT_VERSION, 4) == ENTRY_VERSION;
}

int archive_next(struct archive_reader *r, struct archive_entry *e, char *why)
{
	unsigned char h[HEADER_SIZE];
	uint64_t frame, text;

	if (r->at >= r->limit)
		return 0;
	if (r->limit - r->at < HEADER_SIZE) {
		snprintf(why, ARCHIVE_WHY_SIZE, "has %lld bytes too many at its end",
			(long long)(r->limit - r->at));
		return -1;
	}
	if (read_at(r, h, sizeof h, r->at, why) < 0)
		return -1;
	frame = get_number(h + AT_FRAME_SIZE, 8);
	text = get_number(h + AT_TEXT_SIZE, 8);
	if (!is_header(h) || frame == 0 || frame > (uint64_t)(r->limit - r->at - HEADER_SIZE) ||
		text > INT64_MAX) {
		snprintf(why, ARCHIVE_WHY_SIZE, "is no archive from byte %lld on", (long long)r->at);
		return -1;
	}
	memcpy(e->session_id, h + AT_SESSION, ID_SIZE - 1);
	e->session_id[ID_SIZE - 1] = '\0';
	memcpy(e->hash, h + AT_HASH, HASH_SIZE);
	e->at = r->at;
	e->frame_at = r->at + HEADER_SIZE;
	e->frame_size = (int64_t)frame;
	e->text_size = (int64_t)text;
	r->at = e->frame_at + e->frame_size;
	return 1;
}

/* ---- what is in one ---- */

struct unpacking {
	struct archive_reader *r;
	const struct archive_entry *e;
	archive_piece_fn *fn;
	void *ctx;
	int64_t given;
	size_t hint; /* of zstd; 0: the frame is whole */
	bool enough;
};

static int fail(const struct archive_entry *e, const char *what, char *why)
{
	snprintf(why, ARCHIVE_WHY_SIZE, "the entry at byte %lld is damaged: %s", (long long)e->at, what);
	return -1;
}

static int unpack(struct unpacking *u, const char *data, size_t size, char *why)
{
	ZSTD_inBuffer in = {data, size, 0};
	bool is_full = false; /* there may be more of it inside */

	while (!u->enough && (in.pos < in.size || is_full)) {
		ZSTD_outBuffer out = {u->r->out, OUT_SIZE, 0};

		if (u->hint == 0)
			return fail(u->e, "it goes on behind its end", why);
		u->hint = ZSTD_decompressStream(u->r->unpacker, &out, &in);
		if (ZSTD_isError(u->hint))
			return fail(u->e, ZSTD_getErrorName(u->hint), why);
		is_full = out.pos == OUT_SIZE && u->hint != 0;
		u->given += (int64_t)out.pos;
		if (u->given > u->e->text_size)
			return fail(u->e, "it is longer than it says", why);
		if (out.pos > 0 && !u->fn(u->ctx, u->r->out, out.pos))
			u->enough = true;
	}
	return 0;
}

int archive_read(
	struct archive_reader *r, const struct archive_entry *e, archive_piece_fn *fn, void *ctx, char *why)
{
	struct unpacking u = {.r = r, .e = e, .fn = fn, .ctx = ctx, .hint = 1};
	unsigned char found[EVP_MAX_MD_SIZE];

	ZSTD_DCtx_reset(r->unpacker, ZSTD_reset_session_only);
	EVP_DigestInit_ex(r->hash, EVP_sha256(), NULL);
	for (int64_t done = 0; done < e->frame_size && !u.enough;) {
		size_t size = e->frame_size - done < IN_SIZE ? (size_t)(e->frame_size - done) : IN_SIZE;

		if (read_at(r, r->in, size, e->frame_at + done, why) < 0 || unpack(&u, r->in, size, why) < 0)
			return -1;
		EVP_DigestUpdate(r->hash, r->in, size);
		done += (int64_t)size;
	}
	if (u.enough)
		return 0;
	if (u.hint != 0)
		return fail(e, "its end is missing", why);
	EVP_DigestFinal_ex(r->hash, found, NULL);
	if (memcmp(found, e->hash, HASH_SIZE) != 0)
		return fail(e, "it has another hash", why);
	return u.given == e->text_size ? 0 : fail(e, "it is shorter than it says", why);
}

/* ---- verification ---- */

struct first_line {
	char text[ARCHIVE_FIRST_LINE_MAX];
	size_t size;
	bool is_whole;
	char last; /* byte of all */
};

static bool take_first_line(void *ctx, const char *data, size_t size)
{
	struct first_line *l = ctx;

	for (size_t i = 0; i < size && !l->is_whole && l->size < sizeof l->text; i++) {
		l->is_whole = data[i] == '\n';
		if (!l->is_whole)
			l->text[l->size++] = data[i];
	}
	l->last = data[size - 1];
	return true;
}

int archive_verify(struct archive_reader *r, const struct archive_entry *e, char *why)
{
	struct first_line l = {.size = 0};
	json_t *first;
	const char *id;
	bool fits;

	if (archive_read(r, e, take_first_line, &l, why) < 0)
		return -1;
	first = l.is_whole ? jtext_load(l.text, l.size, 0, NULL) : NULL;
	id = json_string_value(json_object_get(first, "session_id"));
	fits = id != NULL && strcmp(id, e->session_id) == 0 &&
		json_integer_value(json_object_get(first, "archive")) == 1;
	json_decref(first);
	if (!fits)
		return fail(e, "its first line does not name its session", why);
	return l.last == '\n' ? 0 : fail(e, "its last line has no end", why);
}
