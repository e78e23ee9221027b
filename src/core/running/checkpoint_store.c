/* SPDX-License-Identifier: MIT */
/* checkpoint_store.c: a checkpoint that a worker made: stored and published.
 * Owns which checkpoint the next one may be a delta of. Never decides when one is made
 * (checkpoint_request.c), never packs it (checkpoint_pack.c). */
#include "core/running/checkpoint_store.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "store/checkpoint_restore.h"
#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "core/running/checkpoint_pack.h"
#include "core/running/run.h"
#include "policy/state_check.h"
#include "core/running/worker_messages.h"
#include "core/running/harp_events.h"
#include "protocol/worker_line.h"

#define DESCRIPTION_MAX 1024

/* Fills in how the state is stored, and records what the next delta may build on. */
static void take_pack(struct session *s, struct store_checkpoint *cp, const struct checkpoint_pack *p)
{
	struct checkpoint_base *base = &s->checkpoint.base;

	cp->sha256 = p->sha256;
	cp->encoding = state_encoding_names[p->encoding];
	cp->state = p->bytes.data;
	cp->state_size = p->bytes.size;
	cp->whole_size = (int64_t)p->whole_size;
	base->last_size = p->whole_size;
	if (p->encoding == STATE_DELTA) {
		cp->base = p->base_row;
		base->deltas++;
		if (base->last_size < base->size)
			base->last_size = base->size;
	} else if (p->is_beside) {
		base->deltas++;
	} else if (cp->resumable) { /* others may be deleted while deltas need them */
		memcpy(base->id, cp->checkpoint_id, ID_SIZE);
		memcpy(base->hash, p->bytes_hash, sizeof base->hash);
		base->size = p->whole_size;
		base->deltas = 0;
	}
	if (p->change >= 0)
		checkpoint_request_adapt(s, p->change);
}

/* A worker that does not read its stdin gets no more lines. */
static void answer(struct session *s, const struct buf *line)
{
	if (worker_unwritten(run_worker(s)) < RUN_UNWRITTEN_MAX)
		effect_line(s, line->data, line->size);
}

static void say(struct session *s, const struct worker_line *l, const struct store_checkpoint *cp)
{
	struct buf b = {0};

	buf_addf(&b, "{\"checkpoint_id\":\"%s\",\"description\":", cp->checkpoint_id);
	buf_add_json(&b, cp->description, strlen(cp->description));
	buf_addf(&b, ",\"resumable\":%s,\"created_at\":\"%s\"}", cp->resumable ? "true" : "false",
		cp->created_at);
	session_event(s, "checkpoint_created", b.data, b.size);
	s->run.active_us = clock_boot_us();
	harp_events_checkpoint(s, cp);
	CRASH_POINT(checkpoint_said);
	buf_clear(&b);
	buf_addf(&b, "{\"type\":\"checkpoint_saved\",\"checkpoint_id\":\"%s\",\"ref\":", cp->checkpoint_id);
	worker_line_add_raw(l, &b, "ref", "null");
	buf_add_text(&b, "}");
	answer(s, &b);
	buf_fini(&b);
}

void checkpoint_store_refuse(struct session *s, const struct worker_line *l, const char *why)
{
	struct buf b = {0};

	buf_add_text(&b, "{\"type\":\"checkpoint_refused\",\"ref\":");
	worker_line_add_raw(l, &b, "ref", "null");
	buf_add_text(&b, ",\"reason\":");
	buf_add_json(&b, why, strlen(why));
	buf_add_text(&b, "}");
	answer(s, &b);
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

static void keep(struct session *s, const struct worker_line *l, const struct checkpoint_pack *p,
	enum checkpoint_cause cause)
{
	char at[CLOCK_TEXT_SIZE], description[DESCRIPTION_MAX + 1], version[STORE_WORD_SIZE];
	const char *of = worker_line_string(l, "state_version", "");
	struct store_checkpoint cp = {.session = s->key,
		.session_id = s->id,
		.created_at = at,
		.description = description,
		.resumable = !json_is_false(worker_line_get(l, "resumable")),
		.trigger = checkpoint_cause_names[cause],
		.seal = s->intent.seal[0] != '\0' ? s->intent.seal : NULL};
	struct buf step = {0};

	clock_format(clock_wall_us(), at);
	id_make(cp.checkpoint_id);
	take_description(s, worker_line_string(l, "description", ""), description);
	snprintf(version, sizeof version, "%.*s", (int)buf_utf8_cut(of, strlen(of), sizeof version - 1), of);
	cp.step = take_step(s, l, &step);
	cp.state_version = version[0] != '\0' ? version : NULL;
	take_pack(s, &cp, p);
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
}

void checkpoint_store_put(struct session *s, const struct worker_line *l, const struct checkpoint_pack *p)
{
	/* a checkpoint that is refused answers the request, too */
	enum checkpoint_cause cause = checkpoint_request_take_answer(s);

	assert(p->is_made);
	if (p->is_too_large) {
		session_warn(s, "checkpoint_too_large",
			"a checkpoint of %zu bytes was not kept; %lld is the limit", p->whole_size,
			(long long)p->max_size);
		checkpoint_store_refuse(s, l, "its state is larger than [limits] checkpoint_state");
		return;
	}
	if (p->is_unfit) {
		if (worker_message_may_complain(s))
			session_warn(s, "state_invalid",
				"a checkpoint was not kept, its state does not fit the capability's "
				"state_schema: %s",
				p->why);
		checkpoint_store_refuse(s, l, p->why);
		return;
	}
	keep(s, l, p, cause);
	if (s->run.stop_requested)
		run_stop_now(s, s->core->stop.kill_at_us);
}
