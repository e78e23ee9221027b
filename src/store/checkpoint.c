/* SPDX-License-Identifier: MIT */
/* checkpoint.c: finds and verifies checkpoints when they are loaded: stored rows are not trusted.
 * Owns which checkpoint a session continues from: the newest that is good (checkpoint_restore.c) and was
 * made under the session's intent. Never changes a row. */
#include "store/checkpoint.h"
#include "store/checkpoint_restore.h"

#include <string.h>

/* Loads a row and its base. 1, 0, -1 as store_load_checkpoint; the base's row is 0 where it was not found. */
static int load_rows(struct store *s, int64_t row, struct store_kept *own, struct store_kept *base)
{
	int found = store_load_checkpoint(s, row, own);

	store_kept_clear(base);
	if (found <= 0 || own->base == 0)
		return found;
	/* A damaged row counts as gone; a passing error is waited for. */
	if (store_load_checkpoint(s, own->base, base) < 0 && !store_is_damaged(s))
		return -1;
	return 1;
}

/* 1: the checkpoint is good; 0: it is not, and *damage is the reason; -1: the store cannot be read now. seal
 * NULL: any intent. */
static int load(struct store *s, int64_t row, const char *seal, struct checkpoint *out, const char **damage)
{
	struct store_kept own = {0}, base = {0};
	int found = load_rows(s, row, &own, &base);

	if (found < 0 && store_is_damaged(s))
		found = 0;
	else if (found < 0)
		goto out;
	buf_clear(&out->state);
	*damage = found == 0 ? "its row cannot be read: the store is damaged" :
			       checkpoint_restore(&own, base.row != 0 ? &base : NULL, &out->state);
	if (*damage == NULL && seal != NULL && own.seal[0] != '\0' && strcmp(own.seal, seal) != 0)
		*damage = "it was made under another intent";
	memcpy(out->id, own.checkpoint_id, ID_SIZE);
	memcpy(out->state_version, own.state_version, sizeof out->state_version);
	out->session = own.session;
	out->resumable = own.resumable;
	buf_clear(&out->step);
	buf_add(&out->step, own.step.data, own.step.size);
	buf_clear(&out->description);
	buf_add(&out->description, own.description.data, own.description.size);
	found = *damage == NULL;
out:
	store_kept_fini(&own);
	store_kept_fini(&base);
	return found;
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

int checkpoint_find(struct store *s, int64_t session, const char *seal, struct checkpoint *out)
{
	int64_t row = INT64_MAX;

	*out = (struct checkpoint){.damaged = 0};
	if (check_newest(s, session, out) < 0)
		return -1;
	while ((row = store_next_checkpoint(s, session, row)) > 0) {
		const char *damage = NULL;
		int found = load(s, row, seal, out, &damage);

		if (found != 0)
			return found;
		record_damage(out, damage);
	}
	return (int)row;
}

int checkpoint_load(struct store *s, const char *checkpoint_id, struct checkpoint *out)
{
	int64_t row = store_find_checkpoint(s, checkpoint_id);

	*out = (struct checkpoint){.damaged = 0};
	return row <= 0 ? (int)row : load(s, row, NULL, out, &out->damage);
}

int64_t checkpoint_load_base(struct store *s, const char *checkpoint_id, int64_t session, struct buf *text)
{
	struct store_kept own = {0};
	int64_t row = store_find_checkpoint(s, checkpoint_id);

	if (row <= 0 || store_load_checkpoint(s, row, &own) <= 0 || own.session != session || own.base != 0 ||
		checkpoint_unpack(&own, NULL, text) != NULL)
		row = 0;
	store_kept_fini(&own);
	return row;
}

void checkpoint_fini(struct checkpoint *c)
{
	buf_fini(&c->description);
	buf_fini(&c->step);
	buf_fini(&c->state);
}
