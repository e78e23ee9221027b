/* SPDX-License-Identifier: MIT */
/* checkpoint_store.c: a checkpoint that a worker made: compressed, stored, published.
 * Owns which checkpoint the next one may be a delta of. Never decides when one is made
 * (checkpoint_request.c). */
#include "core/running/checkpoint_store.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "json/canonical.h"
#include "store/checkpoint.h"
#include "store/checkpoint_restore.h"
#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "store/state_compress.h"
#include "core/running/run.h"
#include "core/running/worker_messages.h"
#include "core/running/harp_events.h"
#include "protocol/worker_line.h"

#define DESCRIPTION_MAX 1024

/* Hashes the text that is stored, as it will be read again. The line's own values may differ: a number beyond
 * 64 bits elsewhere in the line makes reals of all, and the line may have no state. */
static void hash_text(const struct buf *state, char hash[CANONICAL_HASH_SIZE])
{
	char why[128];
	json_t *value = jtext_parse(state->data, state->size, why, sizeof why);

	assert(value != NULL); /* the text is part of a line that was parsed */
	canonical_hash(value, hash);
	json_decref(value);
}

/* Loads the state that a delta may build on: the last full checkpoint of this run, where it is committed, has
 * room for another delta, and is unchanged. Its row, or 0. */
static int64_t load_base(struct session *s, struct buf *text)
{
	const struct checkpoint_base *base = &s->checkpoint.base;
	char hash[CANONICAL_HASH_SIZE];
	int64_t row;

	if (base->id[0] == '\0' || base->deltas + 1 >= s->run.cap->config->checkpoint_full_every)
		return 0;
	if ((row = checkpoint_load_base(s->core->store, base->id, s->key, text)) == 0)
		return 0;
	canonical_hash_bytes(text->data, text->size, hash);
	return strcmp(hash, base->hash) == 0 ? row : 0;
}

/* Compresses the state into *out, and fills in how it is stored. */
static void pack(struct session *s, struct store_checkpoint *cp, const struct buf *state, struct buf *out)
{
	struct checkpoint_base *base = &s->checkpoint.base;
	struct buf before = {0};
	int64_t row = state->size > STATE_PLAIN_MAX ? load_base(s, &before) : 0;
	enum state_encoding kind =
		state_compress(state->data, state->size, row != 0 ? before.data : NULL, before.size, out);

	buf_fini(&before);
	cp->encoding = state_encoding_names[kind];
	cp->state = out->data;
	cp->state_size = out->size;
	cp->whole_size = (int64_t)state->size;
	if (kind == STATE_DELTA) {
		cp->base = row;
		base->deltas++;
	} else if (cp->resumable) { /* others may be deleted while deltas need them */
		memcpy(base->id, cp->checkpoint_id, ID_SIZE);
		canonical_hash_bytes(state->data, state->size, base->hash);
		base->deltas = 0;
	}
}

/* Compares with the checkpoint before, where that is committed. */
static void adapt(struct session *s, const struct buf *state)
{
	struct checkpoint before;

	if (!s->run.cap->config->checkpoint_adaptive || s->checkpoint.request.interval_us == 0 ||
		s->checkpoint.base.last_id[0] == '\0')
		return;
	if (checkpoint_load(s->core->store, s->checkpoint.base.last_id, &before) > 0)
		checkpoint_request_adapt(
			s, state_change(state->data, state->size, before.state.data, before.state.size));
	checkpoint_fini(&before);
}

static void say(struct session *s, const struct worker_line *l, const struct store_checkpoint *cp)
{
	struct buf b = {0};

	buf_addf(&b, "{\"checkpoint_id\":\"%s\",\"description\":", cp->checkpoint_id);
	buf_add_json(&b, cp->description, strlen(cp->description));
	buf_addf(&b, ",\"resumable\":%s,\"created_at\":\"%s\"}", cp->resumable ? "true" : "false",
		cp->created_at);
	session_event(s, "checkpoint_created", b.data, b.size);
	harp_events_checkpoint(s, cp);
	CRASH_POINT(checkpoint_said);
	buf_clear(&b);
	buf_addf(&b, "{\"type\":\"checkpoint_saved\",\"checkpoint_id\":\"%s\",\"ref\":", cp->checkpoint_id);
	worker_line_add_raw(l, &b, "ref", "null");
	buf_add_text(&b, "}");
	/* a worker that does not read its stdin gets no more lines */
	if (worker_unwritten(run_worker(s)) < RUN_UNWRITTEN_MAX)
		effect_line(s, b.data, b.size);
	buf_fini(&b);
}

/* Cuts between characters, with a warning. */
static void take_description(struct session *s, const char *said, char out[DESCRIPTION_MAX + 1])
{
	size_t size = strlen(said), cut = buf_utf8_cut(said, size, DESCRIPTION_MAX);

	memcpy(out, said, cut);
	out[cut] = '\0';
	if (cut < size && worker_message_may_complain(s))
		session_warn(s, "description_cut",
			"the description of a checkpoint was cut: it has %zu bytes, %d is the limit", size,
			DESCRIPTION_MAX);
}

/* NULL: the line has none, or one that is too long: a part of it would be another step. */
static const char *take_step(struct session *s, const struct worker_line *l, struct buf *step)
{
	if (worker_line_get(l, "step") == NULL)
		return NULL;
	worker_line_add_raw(l, step, "step", "null");
	if (step->size <= CHECKPOINT_STEP_MAX)
		return buf_text(step);
	if (worker_message_may_complain(s))
		session_warn(s, "step_too_long",
			"the step of a checkpoint was left out: it has %zu bytes, %d is the limit",
			step->size, CHECKPOINT_STEP_MAX);
	return NULL;
}

static void keep(
	struct session *s, const struct worker_line *l, const struct buf *state, enum checkpoint_cause cause)
{
	char at[CLOCK_TEXT_SIZE], description[DESCRIPTION_MAX + 1], version[STORE_WORD_SIZE],
		hash[CANONICAL_HASH_SIZE];
	const char *of = worker_line_string(l, "state_version", "");
	struct store_checkpoint cp = {.session = s->key,
		.session_id = s->id,
		.created_at = at,
		.description = description,
		.sha256 = hash,
		.resumable = !json_is_false(worker_line_get(l, "resumable")),
		.trigger = checkpoint_cause_names[cause],
		.seal = s->intent.seal[0] != '\0' ? s->intent.seal : NULL};
	struct buf step = {0}, bytes = {0};

	clock_format(clock_wall_us(), at);
	id_make(cp.checkpoint_id);
	take_description(s, worker_line_string(l, "description", ""), description);
	snprintf(version, sizeof version, "%.*s", (int)buf_utf8_cut(of, strlen(of), sizeof version - 1), of);
	cp.step = take_step(s, l, &step);
	cp.state_version = version[0] != '\0' ? version : NULL;
	hash_text(state, hash);
	adapt(s, state);
	pack(s, &cp, state, &bytes);
	CRASH_POINT(checkpoint_packed);
	store_put_checkpoint(s->core->store, &cp);
	CRASH_POINT(checkpoint_stored);
	memcpy(s->checkpoint.base.last_id, cp.checkpoint_id, ID_SIZE);
	s->summary.checkpoints++;
	if (cp.resumable)
		memcpy(s->checkpoint.last_id, cp.checkpoint_id, ID_SIZE);
	session_mark_dirty(s);
	say(s, l, &cp);
	buf_fini(&step);
	buf_fini(&bytes);
}

void checkpoint_store_put(struct session *s, const struct worker_line *l)
{
	int64_t most = s->core->policy->config->max_checkpoint;
	/* a checkpoint that is too large answers the request, too: the worker gets a warning */
	enum checkpoint_cause cause = checkpoint_request_take_answer(s);
	struct buf state = {0};

	worker_line_add_raw(l, &state, "state", "{}");
	if ((int64_t)state.size > most) {
		session_warn(s, "checkpoint_too_large",
			"a checkpoint of %zu bytes was not kept; %lld is the limit", state.size,
			(long long)most);
	} else {
		keep(s, l, &state, cause);
		if (s->run.stop_requested)
			run_stop_now(s, s->core->stop.kill_at_us);
	}
	buf_fini(&state);
}
