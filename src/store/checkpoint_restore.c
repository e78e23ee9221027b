/* SPDX-License-Identifier: MIT */
/* checkpoint_restore.c: from a row to the text of a state, verified: stored rows are not trusted.
 * Owns what "good" means of a state. Pure; never reads a store, never changes a row. */
#include "store/checkpoint_restore.h"

#include <string.h>

#include "json/canonical.h"
#include "json/text.h"
#include "store/state_compress.h"

#define SIZE_MAX_TEXT (INT64_C(1) << 30) /* no configurable limit is above this */

static const char *unpack_delta(const struct store_kept *row, const struct store_kept *base, struct buf *text)
{
	struct buf before = {0};
	const char *damage = NULL;

	/* The number of a lost row may have been given to another row. */
	if (base == NULL || base->row != row->base || base->session != row->session)
		return "the full checkpoint that it builds on is gone";
	if (checkpoint_unpack(base, NULL, &before) != NULL)
		damage = "the full checkpoint that it builds on is damaged";
	else if (state_restore(STATE_DELTA, row->state.data, row->state.size, (size_t)row->whole_size,
			 before.data, before.size, text) < 0)
		damage = "its state cannot be restored from what is stored and the full checkpoint that it "
			 "builds on";
	buf_fini(&before);
	return damage;
}

const char *checkpoint_unpack(const struct store_kept *row, const struct store_kept *base, struct buf *text)
{
	int kind = state_encoding_parse(row->encoding);

	if (kind < 0)
		return "its state is stored in a way that is not known";
	if (kind == STATE_JSON) {
		buf_add(text, row->state.data, row->state.size);
		return NULL;
	}
	if (row->whole_size <= 0 || row->whole_size > SIZE_MAX_TEXT)
		return "its state has no size that could be true";
	if (kind == STATE_DELTA)
		return unpack_delta(row, base, text);
	return state_restore(STATE_ZSTD, row->state.data, row->state.size, (size_t)row->whole_size, NULL, 0,
		       text) < 0 ?
		"its state cannot be restored from what is stored" :
		NULL;
}

bool checkpoint_is_step(const char *text, size_t size)
{
	char why[128];
	json_t *value;
	bool is_good;

	/* a step is written into a line */
	if (size == 0 || size > CHECKPOINT_STEP_MAX || memchr(text, '\n', size) != NULL)
		return size == 0;
	value = jtext_parse(text, size, why, sizeof why);
	is_good = json_is_string(value) || json_is_number(value) || json_is_null(value);
	json_decref(value);
	return is_good;
}

const char *checkpoint_restore(const struct store_kept *row, const struct store_kept *base, struct buf *text)
{
	const char *damage = checkpoint_unpack(row, base, text);
	char why[128], now[CANONICAL_HASH_SIZE];
	json_t *value;

	if (damage != NULL)
		return damage;
	if (!checkpoint_is_step(row->step.data, row->step.size))
		return "its step is no short string or number";
	value = jtext_parse(text->data, text->size, why, sizeof why);
	if (!json_is_object(value)) {
		json_decref(value);
		return "its state is no JSON object";
	}
	canonical_hash(value, now);
	json_decref(value);
	if (row->sha256[0] == '\0') /* a row that lost its hash cannot be verified */
		return "the hash of its state is gone";
	return strcmp(row->sha256, now) == 0 ? NULL :
					       "its state does not have the hash that was stored with it";
}
