/* SPDX-License-Identifier: MIT */
/* fuzz_state_compress.c: states packed, restored, and restored from what a disk made of them. Input: a byte
 * that says what is tried, a byte that says how often a text is repeated, the length of the base, the base,
 * the text; see below for damaged rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/canonical.h"
#include "store/checkpoint_restore.h"
#include "fuzz.h"
#include "json/diff.h"
#include "json/text.h"
#include "store/state_compress.h"

enum { TRY_ROUND, TRY_DAMAGE, TRY_ROW, TRY_DIFF, TRIES };

static void repeat(struct buf *b, const char *text, size_t size, unsigned times)
{
	for (unsigned i = 0; i <= times; i++)
		buf_add(b, text, size);
}

/* What is packed comes back; what it says about its size holds. */
static enum state_encoding round_trip(const struct buf *text, const struct buf *base, struct buf *packed)
{
	enum state_encoding kind = state_compress(
		text->data, text->size, base->size > 0 ? base->data : NULL, base->size, packed);
	struct buf back = {0};

	MUST(kind != STATE_DELTA || base->size > 0);
	MUST(text->size > STATE_PLAIN_MAX || kind == STATE_JSON);
	MUST(packed->size <= text->size);
	MUST(state_restore(kind, packed->data, packed->size, text->size,
		     kind == STATE_DELTA ? base->data : NULL, base->size, &back) == 0);
	MUST(back.size == text->size && memcmp(back.data, text->data, back.size) == 0);
	buf_fini(&back);
	return kind;
}

/* One byte is another: it is refused, or it is the text. */
static void damage(enum state_encoding kind, struct buf *packed, const struct buf *text,
	const struct buf *base, struct chance *c)
{
	struct buf back = {0};
	size_t at;

	if (kind == STATE_JSON || packed->size == 0)
		return;
	at = chance_below(c, (uint32_t)packed->size);
	packed->data[at] = (char)(packed->data[at] ^ (int)(1 + chance_below(c, 255)));
	if (state_restore(kind, packed->data, packed->size, text->size,
		    kind == STATE_DELTA ? base->data : NULL, base->size, &back) == 0)
		MUST(back.size == text->size && memcmp(back.data, text->data, back.size) == 0);
	else
		MUST(back.size == 0);
	buf_fini(&back);
}

/* Their hash is right, lest all of them end there. */
static void set_hash(struct store_kept *own, const struct store_kept *base)
{
	struct buf text = {0};
	char why[128];
	json_t *state = checkpoint_unpack(own, base, &text) == NULL ?
		jtext_parse(text.data, text.size, why, sizeof why) :
		NULL;

	if (json_is_object(state))
		canonical_hash(state, own->sha256);
	json_decref(state);
	buf_fini(&text);
}

/* Rows that nobody of ours wrote. */
static void read_row(struct feed *f)
{
	struct store_kept own = {.row = 2, .session = 1, .base = feed_byte(f) % 2},
			  base = {.row = 1, .session = 1};
	struct buf text = {0};
	const char *wrong;
	size_t own_size;

	snprintf(own.encoding, sizeof own.encoding, "%s", state_encoding_names[feed_byte(f) % STATE_COUNT]);
	snprintf(base.encoding, sizeof base.encoding, "%s", state_encoding_names[feed_byte(f) % STATE_COUNT]);
	own.whole_size = feed_byte(f) * 17;
	base.whole_size = feed_byte(f) * 17;
	own_size = feed_byte(f);
	if (own_size > f->left)
		own_size = f->left;
	buf_add(&own.state, f->at, own_size);
	buf_add(&base.state, f->at + own_size, f->left - own_size);
	set_hash(&own, own.base != 0 ? &base : NULL);
	wrong = checkpoint_restore(&own, own.base != 0 ? &base : NULL, &text);
	if (wrong == NULL) {
		json_t *state = fuzz_json(text.data, text.size);

		MUST(json_is_object(state));
		json_decref(state);
	}
	store_kept_fini(&own);
	store_kept_fini(&base);
	buf_fini(&text);
}

static void on_change(void *ctx, const char *path, const json_t *was, const json_t *is)
{
	(void)ctx;
	MUST((was != NULL || is != NULL) && (*path == '\0' || *path == '/'));
	MUST(was == NULL || is == NULL || !json_equal(was, is));
}

/* Nothing differs from itself; what differs from another has a difference. */
static void compare(const struct buf *text, const struct buf *base)
{
	char why[64];
	json_t *a = jtext_depth(base->data, base->size) < 64 ?
		jtext_parse(base->data, base->size, why, sizeof why) :
		NULL;
	json_t *b = jtext_depth(text->data, text->size) < 64 ?
		jtext_parse(text->data, text->size, why, sizeof why) :
		NULL;

	if (a != NULL && b != NULL) {
		MUST(jdiff(a, a, on_change, NULL) == 0);
		MUST((jdiff(a, b, on_change, NULL) == 0) == json_equal(a, b));
		MUST((jdiff(a, b, NULL, NULL) == 0) == (jdiff(b, a, NULL, NULL) == 0));
	}
	json_decref(a);
	json_decref(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size};
	struct chance c = chance_of(data, size);
	uint8_t what = feed_byte(&f) % TRIES, times = feed_byte(&f);
	struct buf base = {0}, text = {0}, packed = {0};
	size_t first;

	if (what == TRY_ROW) {
		read_row(&f);
		return 0;
	}
	first = (size_t)feed_byte(&f) * f.left / 255;
	repeat(&base, f.at, first, what == TRY_DIFF ? 0 : times % 64);
	repeat(&text, f.at + first, f.left - first, what == TRY_DIFF ? 0 : times);
	if (what == TRY_DIFF) {
		compare(&text, &base);
	} else if (text.size > 0) { /* "{}" is the shortest state */
		enum state_encoding kind = round_trip(&text, &base, &packed);

		if (what == TRY_DAMAGE)
			damage(kind, &packed, &text, &base, &c);
	}
	buf_fini(&base);
	buf_fini(&text);
	buf_fini(&packed);
	return 0;
}
