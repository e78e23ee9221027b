/* SPDX-License-Identifier: MIT */
/* state_compress.c: compresses and restores texts.
 * Owns which compression is used, and when it is worth it. Pure; never knows what a text means, nor where it
 * is stored. */
#include "store/state_compress.h"

#include <stdint.h>
#include <string.h>

#include <zstd.h>

#define LEVEL 3
#define WINDOW_LOG_MIN 10
#define WINDOW_LOG_MAX 31 /* of a text and its base together */
#define SMALL_PART \
	32 /* a delta of at most this part of the text is taken without compressing the whole text, which \
	      costs more */
#define FRAME 24 /* what zstd adds to an empty text: its header, its check sum, a block or two */

const char *const state_encoding_names[STATE_COUNT] = {
	[STATE_JSON] = "json", [STATE_ZSTD] = "zstd", [STATE_DELTA] = "delta"};

int state_encoding_parse(const char *name)
{
	for (int i = 0; i < STATE_COUNT; i++)
		if (strcmp(state_encoding_names[i], name) == 0)
			return i;
	return -1;
}

/* A match may reach back to the beginning of the base. */
static int window_log(size_t size)
{
	int log = WINDOW_LOG_MIN;

	while (log < WINDOW_LOG_MAX && (size_t)1 << log < size)
		log++;
	return log;
}

/* Appends; false, with nothing appended, where zstd fails. */
static bool compress(const char *text, size_t size, const char *base, size_t base_size, struct buf *out)
{
	size_t room = ZSTD_compressBound(size), made = 0;
	ZSTD_CCtx *c = ZSTD_createCCtx();
	bool ok = c != NULL && !ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, LEVEL)) &&
		!ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1));

	/* Without the search for long matches zstd's tables forget the beginning of a base of a few MiB. */
	if (ok && base != NULL)
		ok = !ZSTD_isError(
			     ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, window_log(size + base_size))) &&
			!ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_enableLongDistanceMatching, 1)) &&
			!ZSTD_isError(ZSTD_CCtx_refPrefix(c, base, base_size));
	if (ok) {
		buf_reserve(out, room);
		made = ZSTD_compress2(c, out->data + out->size, room, text, size);
		ok = !ZSTD_isError(made);
	}
	if (ok)
		out->size += made;
	ZSTD_freeCCtx(c);
	return ok;
}

static enum state_encoding pack_whole(const char *text, size_t size, struct buf *out)
{
	size_t before = out->size;

	if (compress(text, size, NULL, 0, out) && out->size - before < size)
		return STATE_ZSTD;
	out->size = before;
	buf_add(out, text, size);
	return STATE_JSON;
}

enum state_encoding state_compress(
	const char *text, size_t size, const char *base, size_t base_size, struct buf *out)
{
	struct buf delta = {0};
	size_t before = out->size;
	enum state_encoding kind;

	if (size <= STATE_PLAIN_MAX) {
		buf_add(out, text, size);
		return STATE_JSON;
	}
	if (base == NULL || !compress(text, size, base, base_size, &delta)) {
		kind = pack_whole(text, size, out);
	} else if (delta.size <= STATE_PLAIN_MAX / 2 || delta.size <= size / SMALL_PART) {
		buf_add(out, delta.data, delta.size);
		kind = STATE_DELTA;
	} else {
		kind = pack_whole(text, size, out);
		if (delta.size <= (out->size - before) / 2) {
			out->size = before;
			buf_add(out, delta.data, delta.size);
			kind = STATE_DELTA;
		}
	}
	buf_fini(&delta);
	return kind;
}

static int decompress(
	const void *bytes, size_t stored, size_t size, const char *base, size_t base_size, struct buf *out)
{
	ZSTD_DCtx *d;
	size_t made = 0;
	bool ok;

	/* No memory is allocated for a size that may come from one damaged place. */
	if (ZSTD_getFrameContentSize(bytes, stored) != size)
		return -1;
	d = ZSTD_createDCtx();
	ok = d != NULL && (base == NULL || !ZSTD_isError(ZSTD_DCtx_refPrefix(d, base, base_size)));
	if (ok) {
		buf_reserve(out, size + 1);
		made = ZSTD_decompressDCtx(d, out->data + out->size, size, bytes, stored);
		ok = made == size;
	}
	if (ok)
		out->size += size;
	ZSTD_freeDCtx(d);
	return ok ? 0 : -1;
}

int state_restore(enum state_encoding kind, const void *bytes, size_t stored, size_t size, const char *base,
	size_t base_size, struct buf *out)
{
	if ((kind == STATE_DELTA) != (base != NULL))
		return -1;
	if (kind != STATE_JSON)
		return decompress(bytes, stored, size, base, base_size, out);
	if (stored != size)
		return -1;
	buf_add(out, bytes, size);
	return 0;
}

/* The compressed size; 0 where zstd fails. */
static size_t measure(const char *text, size_t size, const char *base, size_t base_size)
{
	struct buf b = {0};
	size_t made = compress(text, size, base, base_size, &b) ? b.size : 0;

	buf_fini(&b);
	return made;
}

double state_change(
	const char *text, size_t size, const char *before, size_t before_size, size_t packed, size_t delta)
{
	double change = 1;

	if (packed == 0)
		packed = measure(text, size, NULL, 0);
	if (delta == 0)
		delta = measure(text, size, before, before_size);
	if (packed > 0 && delta > 0)
		change = delta <= FRAME ? 0 : (double)(delta - FRAME) / (double)packed;
	return change < 1 ? change : 1;
}
