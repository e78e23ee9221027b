/* SPDX-License-Identifier: MIT */
/* partial_result.c: partial outputs, made of what a session reported while it ran.
 * Owns their form and their bounds. Never ends the session (recover.c). */
#include "core/recovery/partial_result.h"

#include <stdlib.h>
#include <string.h>

#include "store/checkpoint_restore.h"
#include "core/turn.h"
#include "base/crashpoint.h"

#define ROWS_MAX 2000 /* messages that are read, from the last one back */
#define TYPES_MAX 32  /* of results */

struct collected {
	struct buf list; /* JSON objects, a comma between */
	size_t room;     /* bytes that are left for the list */
	char *types[TYPES_MAX];
	size_t count;
	int omitted; /* too large, or of too many types */
};

static bool is_there(const struct collected *k, struct jslice type)
{
	for (size_t i = 0; i < k->count; i++)
		if (strlen(k->types[i]) == type.size && memcmp(k->types[i], type.at, type.size) == 0)
			return true;
	return false;
}

/* Results come newest first, so the first of a type is its last one. */
static bool on_result(void *ctx, const struct store_event *e)
{
	struct collected *k = ctx;
	struct jslice payload = jtext_member(e->bytes, e->size, "payload"), data, type;

	data = payload.at != NULL ? jtext_member(payload.at, payload.size, "data") : (struct jslice){NULL, 0};
	type = data.at != NULL ? jtext_member(data.at, data.size, "result_type") : (struct jslice){NULL, 0};
	if (type.at == NULL || is_there(k, type))
		return true;
	if (k->count == TYPES_MAX) {
		k->omitted++;
		return false;
	}
	k->types[k->count++] = xstrndup(type.at, type.size);
	if (data.size + 1 > k->room) {
		k->omitted++;
		return true;
	}
	k->room -= data.size + 1;
	if (k->list.size > 0)
		buf_add_text(&k->list, ",");
	buf_add(&k->list, data.at, data.size);
	return true;
}

static int add_checkpoint(struct session *s, struct buf *b)
{
	struct buf description = {0}, step = {0};
	char id[ID_SIZE];
	int found = store_find_last_checkpoint(s->core->store, s->key, id, &description, &step);

	if (found > 0) {
		buf_addf(b, "{\"checkpoint_id\":\"%s\",\"description\":", id);
		buf_add_json(b, description.data, description.size);
		buf_add_text(b, ",\"step\":");
		buf_add_text(b, checkpoint_is_step(step.data, step.size) ? buf_text(&step) : "null");
		buf_add_text(b, "}");
	} else {
		buf_add_text(b, "null");
	}
	buf_fini(&description);
	buf_fini(&step);
	return found < 0 && !store_is_damaged(s->core->store) ? -1 : 0;
}

int partial_result_decide(struct session *s, const char *actor)
{
	struct collected k = {.room = (size_t)s->core->first_policy->config->max_message / 2};
	struct buf b = {0};
	int rc = store_load_results(s->core->store, s->key, ROWS_MAX, on_result, &k);

	if (rc < 0 && store_is_damaged(s->core->store))
		rc = 0; /* the rows before the damage are enough */
	buf_add_text(&b,
		"{\"error_code\":\"internal_error\",\"error_message\":\"the session was interrupted, and is "
		"closed with what it came to\",\"error_details\":{");
	session_add_details(s, &b, "recovery");
	buf_add_text(&b, "},\"partial_outputs\":{\"intermediate_results\":[");
	buf_add(&b, k.list.data, k.list.size);
	buf_add_text(&b, "],\"checkpoint\":");
	if (rc == 0)
		rc = add_checkpoint(s, &b);
	if (k.omitted > 0)
		buf_addf(&b, ",\"omitted\":%d", k.omitted);
	buf_add_text(&b, "}}");
	if (rc == 0)
		session_set_outcome(s, S_FAILED, "summarized", actor, b.data, b.size);
	CRASH_POINT(partial_result_decided);
	for (size_t i = 0; i < k.count; i++)
		free(k.types[i]);
	buf_fini(&k.list);
	buf_fini(&b);
	return rc;
}
