/* report_checkpoint.c: a checkpoint that a worker made: packed, stored, said.
 * Owns which one the next may be a delta of. Never decides when one is made (trigger.c). */
#include "core/running/worker_messages.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "json/canonical.h"
#include "store/checkpoint.h"
#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "store/state_compress.h"
#include "core/running/run.h"
#include "core/running/harp_events.h"
#include "protocol/worker_line.h"

#define DESCRIPTION_MAX 1024

/* Of the text that is stored, as it will be read again: the line's own values may have been read in another
 * way (a number beyond 64 bits elsewhere in it makes reals of all), and may have no state at all. */
static void hash_text(const struct buf *state, char hash[CANON_HASH_SIZE])
{
	char why[128];
	json_t *value = jtext_parse(state->data, state->size, why, sizeof why);

	assert(value != NULL); /* it is part of a line that was parsed */
	canon_hash(value, hash);
	json_decref(value);
}

/* The text that the next one may build on: the last full one of this life, if it is committed, its turn is
 * not over, and it is what it was. Its row, or 0. */
static int64_t load_base(struct session *s, struct buf *text)
{
	const struct checkpoint_base *base = &s->base;
	char hash[CANON_HASH_SIZE];
	int64_t row;

	if (base->id[0] == '\0' || base->deltas + 1 >= s->cap->config->checkpoint_full_every)
		return 0;
	if ((row = checkpoint_load_base(s->core->store, base->id, s->key, text)) == 0)
		return 0;
	canon_hash_bytes(text->data, text->size, hash);
	return strcmp(hash, base->hash) == 0 ? row : 0;
}

/* Fills in how the state is stored; *out has the bytes. */
static void pack(struct session *s, struct store_checkpoint *cp, const struct buf *state, struct buf *out)
{
	struct checkpoint_base *base = &s->base;
	struct buf before = {0};
	int64_t row = state->size > PACK_PLAIN_MAX ? load_base(s, &before) : 0;
	enum pack_kind kind =
		pack_state(state->data, state->size, row != 0 ? before.data : NULL, before.size, out);

	buf_fini(&before);
	cp->encoding = pack_names[kind];
	cp->state = out->data;
	cp->state_size = out->size;
	cp->whole_size = (int64_t)state->size;
	if (kind == PACK_DELTA) {
		cp->base = row;
		base->deltas++;
	} else if (cp->resumable) { /* others may be gone while what builds on them is wanted */
		memcpy(base->id, cp->checkpoint_id, ID_SIZE);
		canon_hash_bytes(state->data, state->size, base->hash);
		base->deltas = 0;
	}
}

/* Against the one before, where that is committed. */
static void adapt(struct session *s, const struct buf *state)
{
	struct checkpoint before;

	if (!s->cap->config->checkpoint_adaptive || s->trigger.interval_us == 0 || s->base.last_id[0] == '\0')
		return;
	if (checkpoint_load(s->core->store, s->base.last_id, &before) > 0)
		trigger_adapt(s, pack_change(state->data, state->size, before.state.data, before.state.size));
	checkpoint_fini(&before);
}

static void say(struct session *s, const struct wline *l, const struct store_checkpoint *cp)
{
	struct buf b = {0};

	buf_addf(&b, "{\"checkpoint_id\":\"%s\",\"description\":", cp->checkpoint_id);
	buf_add_json(&b, cp->description, strlen(cp->description));
	buf_addf(&b, ",\"resumable\":%s,\"created_at\":\"%s\"}", cp->resumable ? "true" : "false",
		cp->created_at);
	session_event(s, "checkpoint_created", b.data, b.size);
	tell_checkpoint(s, cp);
	CRASH_POINT(checkpoint_said);
	buf_clear(&b);
	buf_addf(&b, "{\"type\":\"checkpoint_saved\",\"checkpoint_id\":\"%s\",\"ref\":", cp->checkpoint_id);
	wline_add_raw(l, &b, "ref", "null");
	buf_add_text(&b, "}");
	if (worker_unwritten(run_worker(s)) <
		RUN_UNWRITTEN_MAX) /* one that does not listen is told no more */
		effect_line(s, b.data, b.size);
	buf_fini(&b);
}

/* Cut at a character. */
static void take_description(struct session *s, const char *said, char out[DESCRIPTION_MAX + 1])
{
	size_t size = strlen(said), cut = buf_utf8_cut(said, size, DESCRIPTION_MAX);

	memcpy(out, said, cut);
	out[cut] = '\0';
	if (cut < size && report_may_complain(s))
		session_warn(s, "description_cut",
			"the description of a checkpoint was cut: it has %zu bytes, %d is the limit", size,
			DESCRIPTION_MAX);
}

/* NULL: it has none. One that is cut would be another one: it is left out. */
static const char *take_step(struct session *s, const struct wline *l, struct buf *step)
{
	if (wline_get(l, "step") == NULL)
		return NULL;
	wline_add_raw(l, step, "step", "null");
	if (step->size <= CHECKPOINT_STEP_MAX)
		return buf_text(step);
	if (report_may_complain(s))
		session_warn(s, "step_too_long",
			"the step of a checkpoint was left out: it has %zu bytes, %d is the limit",
			step->size, CHECKPOINT_STEP_MAX);
	return NULL;
}

static void keep(struct session *s, const struct wline *l, const struct buf *state, enum trigger_cause cause)
{
	char at[CLOCK_TEXT_SIZE], description[DESCRIPTION_MAX + 1], version[STORE_WORD_SIZE],
		hash[CANON_HASH_SIZE];
	const char *of = wline_string(l, "state_version", "");
	struct store_checkpoint cp = {.session = s->key,
		.session_id = s->id,
		.created_at = at,
		.description = description,
		.sha256 = hash,
		.resumable = !json_is_false(wline_get(l, "resumable")),
		.trigger = trigger_names[cause],
		.seal = s->seal[0] != '\0' ? s->seal : NULL};
	struct buf step = {0}, bytes = {0};

	clock_format(clock_wall_us(), at);
	id_make(cp.checkpoint_id);
	take_description(s, wline_string(l, "description", ""), description);
	snprintf(version, sizeof version, "%.*s", (int)buf_utf8_cut(of, strlen(of), sizeof version - 1), of);
	cp.step = take_step(s, l, &step);
	cp.state_version = version[0] != '\0' ? version : NULL;
	hash_text(state, hash);
	adapt(s, state);
	pack(s, &cp, state, &bytes);
	CRASH_POINT(checkpoint_packed);
	store_put_checkpoint(s->core->store, &cp);
	CRASH_POINT(checkpoint_stored);
	memcpy(s->base.last_id, cp.checkpoint_id, ID_SIZE);
	s->checkpoints++;
	if (cp.resumable)
		memcpy(s->last_checkpoint, cp.checkpoint_id, ID_SIZE);
	session_mark_dirty(s);
	say(s, l, &cp);
	buf_fini(&step);
	buf_fini(&bytes);
}

void report_checkpoint(struct session *s, const struct wline *l)
{
	int64_t most = s->core->policy->config->max_checkpoint;
	enum trigger_cause cause =
		trigger_take_answer(s); /* also one that cannot be kept: there is a warning then */
	struct buf state = {0};

	wline_add_raw(l, &state, "state", "{}");
	if ((int64_t)state.size > most) {
		session_warn(s, "checkpoint_too_large",
			"a checkpoint of %zu bytes was not kept; %lld is the limit", state.size,
			(long long)most);
	} else {
		keep(s, l, &state, cause);
		if (s->stop_asked)
			run_stop_now(s, s->core->stop_at_us);
	}
	buf_fini(&state);
}
