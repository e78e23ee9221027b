/* checkpoint.c: checkpoints are verified when they are loaded: a disk may lie.
 * Owns what "good" means: JSON, and its canonical form has the hash that was stored with it,
 * and it was made under the intent that the session has. Never changes a row. */
#include "checkpoint.h"

#include <string.h>

#include "canon.h"
#include "jtext.h"

/* NULL: it is good. */
static const char *find_damage(const struct buf *state, const char *hash, const char *made_under, const char *seal)
{
	char why[128], now[CANON_HASH_SIZE];
	json_t *value = jtext_parse(state->data, state->size, why, sizeof why);

	if (!json_is_object(value)) {
		json_decref(value);
		return "its state is no JSON object";
	}
	canon_hash(value, now);
	json_decref(value);
	/* "": stored by a version that had no hashes, or no seals yet. */
	if (hash[0] != '\0' && strcmp(hash, now) != 0)
		return "its state does not have the hash that was stored with it";
	return made_under[0] == '\0' || strcmp(made_under, seal) == 0 ? NULL : "it was made under another intent";
}

static void note_damage(struct checkpoint *c, const char *why)
{
	if (c->damaged++ > 0)
		return;
	memcpy(c->damaged_id, c->id, ID_SIZE);
	c->damage = why;
}

int checkpoint_find(struct store *s, int64_t session, const char *seal, struct checkpoint *out)
{
	int64_t row = INT64_MAX;

	*out = (struct checkpoint){.damaged = 0};
	while ((row = store_next_checkpoint(s, session, row)) > 0) {
		char hash[CANON_HASH_SIZE] = "", made_under[CANON_HASH_SIZE] = "";
		const char *damage;
		int found;

		buf_clear(&out->step);
		buf_clear(&out->state);
		out->id[0] = '\0';
		found = store_load_checkpoint(s, row, out->id, &out->step, &out->state, hash, made_under);
		if (found < 0 && !store_is_damaged(s))
			return -1;
		damage = found > 0 ? find_damage(&out->state, hash, made_under, seal) : "its row cannot be read: the store is damaged";
		if (damage == NULL)
			return 1;
		note_damage(out, damage);
	}
	return (int)row;
}

void checkpoint_fini(struct checkpoint *c)
{
	buf_fini(&c->step);
	buf_fini(&c->state);
}
