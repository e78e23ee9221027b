/* SPDX-License-Identifier: MIT */
/* pins.c: which ended sessions are needed, and which are leaving the store.
 * Owns the order of the two: the core accepts tasks and lets sessions leave on one thread, and consults the
 * pins before both. Never reads the store. */
#include "core/pins.h"

#include <stdlib.h>
#include <string.h>

#include "core/turn.h"

struct pin {
	UT_hash_handle hh;
	char session_id[ID_SIZE];
	unsigned by; /* number of sessions that are not over and need this one */
	bool is_going;
};

static struct pin *find(struct core *c, const char *session_id)
{
	struct pin *n;

	HASH_FIND_STR(c->pins, session_id, n);
	return n;
}

static struct pin *get(struct core *c, const char *session_id)
{
	struct pin *n = find(c, session_id);

	if (n == NULL) {
		n = xcalloc(1, sizeof *n);
		snprintf(n->session_id, sizeof n->session_id, "%s", session_id);
		HASH_ADD_STR(c->pins, session_id, n);
	}
	return n;
}

static void forget(struct core *c, struct pin *n)
{
	if (n->by > 0 || n->is_going)
		return;
	HASH_DEL(c->pins, n);
	free(n);
}

void pins_add(struct core *c, const char *session_id)
{
	if (session_id[0] != '\0')
		get(c, session_id)->by++;
}

void pins_drop(struct core *c, const char *session_id)
{
	struct pin *n = session_id[0] != '\0' ? find(c, session_id) : NULL;

	if (n == NULL)
		return;
	n->by -= n->by > 0;
	forget(c, n);
}

bool pins_is_pinned(struct core *c, const char *session_id)
{
	const struct pin *n = find(c, session_id);

	return n != NULL && n->by > 0;
}

void pins_let_leave(struct core *c, const char *session_id)
{
	get(c, session_id)->is_going = true;
}

bool pins_is_leaving(struct core *c, const char *session_id)
{
	const struct pin *n = find(c, session_id);

	return n != NULL && n->is_going;
}

void pins_forget_gone(struct core *c)
{
	struct pin *n, *tmp;

	HASH_ITER(hh, c->pins, n, tmp) {
		n->is_going = false;
		forget(c, n);
	}
}

void pins_fini(struct core *c)
{
	struct pin *n, *tmp;

	HASH_ITER(hh, c->pins, n, tmp) {
		HASH_DEL(c->pins, n);
		free(n);
	}
}
