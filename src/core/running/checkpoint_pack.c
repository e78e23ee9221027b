/* SPDX-License-Identifier: MIT */
/* checkpoint_pack.c: a state as it is stored: hashed and compressed.
 * Owns which checkpoint a delta builds on, and whether that one is still as it was stored. Never stores
 * anything (checkpoint_store.c); `make` never touches a session or the store. */
#include "core/running/checkpoint_pack.h"

#include <assert.h>
#include <string.h>

#include "core/turn.h"
#include "policy/state_check.h"
#include "protocol/worker_line.h"
#include "store/checkpoint_restore.h"

/* ---- on the core's thread ---- */

/* A line that is not large is packed on the core's thread, which has no time for a large state. */
static bool has_time(const struct session *s, size_t line, size_t state)
{
	return line > s->core->large_bytes || state <= s->core->large_bytes;
}

/* Is there a full checkpoint of this run that has room for another delta? */
static bool has_room(const struct session *s)
{
	const struct checkpoint_base *base = &s->checkpoint.base;

	return base->id[0] != '\0' && base->deltas + 1 < s->run.cap->config->checkpoint_full_every;
}

/* The checkpoint before, where it is committed and the interval between requests adapts. */
static bool load_before(struct session *s, struct checkpoint_rows *out)
{
	return s->run.cap->config->checkpoint_adaptive && s->checkpoint.request.interval_us != 0 &&
		s->checkpoint.base.last_id[0] != '\0' &&
		checkpoint_load_rows(s->core->store, s->checkpoint.base.last_id, out) > 0;
}

void checkpoint_pack_load(struct checkpoint_pack *p, struct session *s, size_t size)
{
	const struct checkpoint_base *base = &s->checkpoint.base;

	*p = (struct checkpoint_pack){
		.max_size = s->core->policy->config->max_checkpoint, .cap = s->run.cap, .change = -1};
	p->is_beside = has_room(s) && !has_time(s, size, base->size);
	p->has_base = size > STATE_PLAIN_MAX && has_room(s) && !p->is_beside &&
		checkpoint_load_base(s->core->store, base->id, s->key, &p->base) > 0;
	memcpy(p->base_hash, base->hash, sizeof p->base_hash);
	p->wants_change = has_time(s, size, base->last_size) && load_before(s, &p->before);
}

/* ---- on any thread ---- */

/* Checks and hashes the text that is stored, as it will be read again. The line's own values serve for that,
 * but where a number beyond 64 bits elsewhere in the line made reals of all of them. */
static void read_state(struct checkpoint_pack *p, const struct worker_line *l, const struct buf *text)
{
	const json_t *value = worker_line_get(l, "state");
	json_t *again = NULL;
	char why[128];

	if (value == NULL || l->are_reals) {
		value = again = jtext_parse(text->data, text->size, why, sizeof why);
		assert(value != NULL); /* the text is part of a line that was parsed, or an empty object */
	}
	p->is_unfit = !state_check_value(p->cap, value, p->why, sizeof p->why);
	if (!p->is_unfit)
		canonical_hash(value, p->sha256);
	json_decref(again);
}

/* False: the base is not what was stored, and no delta builds on it. */
static bool unpack_base(const struct checkpoint_pack *p, struct buf *text)
{
	char hash[CANONICAL_HASH_SIZE];

	if (!p->has_base)
		return false;
	canonical_hash_bytes(p->base.state.data, p->base.state.size, hash);
	return strcmp(hash, p->base_hash) == 0 && checkpoint_unpack(&p->base, NULL, text) == NULL;
}

static void pack(struct checkpoint_pack *p, const struct buf *text)
{
	struct buf base = {0};
	bool has_base = text->size > STATE_PLAIN_MAX && unpack_base(p, &base);

	p->encoding =
		state_compress(text->data, text->size, has_base ? base.data : NULL, base.size, &p->bytes);
	if (p->encoding == STATE_DELTA)
		p->base_row = p->base.row;
	else
		canonical_hash_bytes(p->bytes.data, p->bytes.size, p->bytes_hash);
	buf_fini(&base);
}

/* Compares with the checkpoint before. What packing compressed already is not compressed again. */
static void measure(struct checkpoint_pack *p, const struct buf *text)
{
	const struct store_kept *own = &p->before.own,
				*base = p->before.base.row != 0 ? &p->before.base : NULL;
	bool is_delta_of_it = p->encoding == STATE_DELTA && own->row == p->base_row;
	struct buf before = {0};

	if (!p->wants_change)
		return;
	if (checkpoint_unpack(own, base, &before) == NULL)
		p->change = state_change(text->data, text->size, before.data, before.size,
			p->encoding == STATE_ZSTD ? p->bytes.size : 0, is_delta_of_it ? p->bytes.size : 0);
	buf_fini(&before);
}

void checkpoint_pack_make(struct checkpoint_pack *p, const struct worker_line *l)
{
	struct buf text = {0};

	worker_line_add_raw(l, &text, "state", "{}");
	p->is_made = true;
	p->whole_size = text.size;
	p->is_too_large = (int64_t)text.size > p->max_size;
	if (!p->is_too_large) {
		read_state(p, l, &text);
	}
	if (!p->is_too_large && !p->is_unfit) {
		pack(p, &text);
		measure(p, &text);
	}
	buf_fini(&text);
}

void checkpoint_pack_fini(struct checkpoint_pack *p)
{
	store_kept_fini(&p->base);
	checkpoint_rows_fini(&p->before);
	buf_fini(&p->bytes);
}
