/* SPDX-License-Identifier: MIT */
/* checkpoint.c: finds and verifies checkpoints when they are loaded: stored rows are not trusted.
 * Owns which checkpoint a session continues from: the newest that is good (checkpoint_restore.c) and was
 * made under the session's intent. Never changes a row. */
#include "store/checkpoint.h"
#include "store/checkpoint_restore.h"

#include <stdio.h>
#include <string.h>

/* Loads a row and its base. 1, 0, -1 as store_load_checkpoint; the base's row is 0 where it was not found. */
static int load_rows(struct store *s, int64_t row, struct checkpoint_rows *r)
{
	int found = store_load_checkpoint(s, row, &r->own);

	store_kept_clear(&r->base);
	if (found <= 0 || r->own.base == 0)
		return found;
	/* A damaged row counts as gone; a passing error is waited for. */
	if (store_load_checkpoint(s, r->own.base, &r->base) < 0 && !store_is_damaged(s))
		return -1;
	return 1;
}

static void record_damage(struct checkpoint *c, const char *why)
{
	if (c->damaged++ > 0)
		return;
	memcpy(c->damaged_id, c->id, ID_SIZE);
	c->damage = why;
}

/* A missing row cannot be seen to be damaged; the session's own row names its newest checkpoint. -1: the
 * store cannot be read now. */
static int check_newest(struct store *s, int64_t session, struct checkpoint *out)
{
	int found = store_find_newest(s, session, out->id);
	int64_t row = found > 0 && out->id[0] != '\0' ? store_find_checkpoint(s, out->id) :
		found > 0                             ? 1 :
							found;

	if (row < 0 && !store_is_damaged(s))
		return -1;
	if (found > 0 && row == 0)
		record_damage(out, "it is no longer in the store");
	out->id[0] = '\0';
	return 0;
}

int checkpoint_search_begin(struct store *s, int64_t session, const char *seal, struct checkpoint_search *f)
{
	*f = (struct checkpoint_search){.session = session, .row = INT64_MAX, .is_sealed = true};
	snprintf(f->seal, sizeof f->seal, "%s", seal);
	return check_newest(s, session, &f->found);
}

/* Loads one row. 1: it can be verified, also where it cannot be read for damage; -1. */
static int load_row(struct store *s, int64_t row, struct checkpoint_search *f)
{
	int found = load_rows(s, row, &f->rows);

	if (found < 0 && !store_is_damaged(s))
		return -1;
	f->row = row;
	f->damage = found <= 0 ? "its row cannot be read: the store is damaged" : NULL;
	return 1;
}

int checkpoint_search_next(struct store *s, struct checkpoint_search *f)
{
	int64_t row = store_next_checkpoint(s, f->session, f->row);

	return row <= 0 ? (int)row : load_row(s, row, f);
}

/* What cannot be measured for damage is not large. */
static int is_large(struct store *s, int64_t row, int64_t most)
{
	int large = row > 0 ? store_is_large_checkpoint(s, row, most) : (int)row;

	return large < 0 && store_is_damaged(s) ? 0 : large;
}

int checkpoint_search_is_large(struct store *s, const struct checkpoint_search *f, int64_t most)
{
	return is_large(s, store_next_checkpoint(s, f->session, f->row), most);
}

void checkpoint_search_verify(struct checkpoint_search *f)
{
	const struct store_kept *own = &f->rows.own, *base = f->rows.base.row != 0 ? &f->rows.base : NULL;

	buf_clear(&f->found.state);
	if (f->damage == NULL)
		f->damage = checkpoint_restore(own, base, &f->found.state);
	if (f->damage == NULL && f->is_sealed && own->seal[0] != '\0' && strcmp(own->seal, f->seal) != 0)
		f->damage = "it was made under another intent";
}

static void take_row(struct checkpoint_search *f)
{
	const struct store_kept *own = &f->rows.own;
	struct checkpoint *out = &f->found;

	memcpy(out->id, own->checkpoint_id, ID_SIZE);
	memcpy(out->state_version, own->state_version, sizeof out->state_version);
	memcpy(out->created_at, own->created_at, sizeof out->created_at);
	out->session = own->session;
	out->resumable = own->resumable;
	buf_clear(&out->step);
	buf_add(&out->step, own->step.data, own->step.size);
	buf_clear(&out->description);
	buf_add(&out->description, own->description.data, own->description.size);
}

bool checkpoint_search_take(struct checkpoint_search *f)
{
	take_row(f);
	if (f->damage == NULL)
		return true;
	record_damage(&f->found, f->damage);
	return false;
}

void checkpoint_search_fini(struct checkpoint_search *f)
{
	checkpoint_rows_fini(&f->rows);
	checkpoint_fini(&f->found);
}

int checkpoint_find(struct store *s, int64_t session, const char *seal, struct checkpoint *out)
{
	struct checkpoint_search f;
	int found = checkpoint_search_begin(s, session, seal, &f);

	while (found == 0 && (found = checkpoint_search_next(s, &f)) > 0) {
		checkpoint_search_verify(&f);
		if (checkpoint_search_take(&f))
			break;
		found = 0;
	}
	checkpoint_rows_fini(&f.rows);
	*out = f.found;
	return found;
}

int checkpoint_search_begin_at(struct store *s, const char *checkpoint_id, struct checkpoint_search *f)
{
	int64_t row = store_find_checkpoint(s, checkpoint_id);

	*f = (struct checkpoint_search){.row = 0}; /* of no session: none is older */
	return row <= 0 ? (int)row : load_row(s, row, f);
}

int checkpoint_look(struct store *s, const char *checkpoint_id, int64_t most, struct checkpoint *out)
{
	struct checkpoint_search f;
	int found = checkpoint_search_begin_at(s, checkpoint_id, &f);
	int large = found > 0 && f.damage == NULL ? is_large(s, f.rows.own.row, most) : 0;

	if (large < 0)
		found = -1;
	if (found > 0) {
		f.found.is_unverified = large > 0;
		if (!f.found.is_unverified)
			checkpoint_search_verify(&f);
		take_row(&f);
		f.found.damage = f.damage;
		found = f.damage == NULL;
	}
	checkpoint_rows_fini(&f.rows);
	*out = f.found;
	return found;
}

int checkpoint_load(struct store *s, const char *checkpoint_id, struct checkpoint *out)
{
	return checkpoint_look(s, checkpoint_id, INT64_MAX, out);
}

int64_t checkpoint_load_base(
	struct store *s, const char *checkpoint_id, int64_t session, struct store_kept *out)
{
	int64_t row = store_find_checkpoint(s, checkpoint_id);
	bool is_base = row > 0 && store_load_checkpoint(s, row, out) > 0 && out->session == session &&
		out->base == 0;

	return is_base ? row : 0;
}

int checkpoint_load_rows(struct store *s, const char *checkpoint_id, struct checkpoint_rows *out)
{
	int64_t row = store_find_checkpoint(s, checkpoint_id);

	return row <= 0 ? (int)row : load_rows(s, row, out);
}

void checkpoint_rows_fini(struct checkpoint_rows *r)
{
	store_kept_fini(&r->own);
	store_kept_fini(&r->base);
}

void checkpoint_fini(struct checkpoint *c)
{
	buf_fini(&c->description);
	buf_fini(&c->step);
	buf_fini(&c->state);
}
