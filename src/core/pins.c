/* need.c: who is needed, and who is about to leave.
 * Owns the order of the two: the core, on whose thread tasks are accepted and sessions leave, asks here
 * before it does either. Never reads the store. */
#include "core/pins.h"

#include <stdlib.h>
#include <string.h>

#include "core/turn.h"

struct needed {
	UT_hash_handle hh;
	char session_id[ID_SIZE];
	unsigned by; /* sessions that are not over */
	bool is_going;
};

static struct needed *find(struct core *c, const char *session_id)
{
	struct needed *n;

	HASH_FIND_STR(c->needed, session_id, n);
	return n;
}

static struct needed *get(struct core *c, const char *session_id)
{
	struct needed *n = find(c, session_id);

	if (n == NULL) {
		n = xcalloc(1, sizeof *n);
		snprintf(n->session_id, sizeof n->session_id, "%s", session_id);
		HASH_ADD_STR(c->needed, session_id, n);
	}
	return n;
}

static void forget(struct core *c, struct needed *n)
{
	if (n->by > 0 || n->is_going)
		return;
	HASH_DEL(c->needed, n);
	free(n);
}

void need_add(struct core *c, const char *session_id)
{
	if (session_id[0] != '\0')
		get(c, session_id)->by++;
}

void need_drop(struct core *c, const char *session_id)
{
	struct needed *n = session_id[0] != '\0' ? find(c, session_id) : NULL;

	if (n == NULL)
		return;
	n->by -= n->by > 0;
	forget(c, n);
}

bool need_is_needed(struct core *c, const char *session_id)
{
	const struct needed *n = find(c, session_id);

	return n != NULL && n->by > 0;
}

void need_let_go(struct core *c, const char *session_id)
{
	get(c, session_id)->is_going = true;
}

bool need_is_going(struct core *c, const char *session_id)
{
	const struct needed *n = find(c, session_id);

	return n != NULL && n->is_going;
}

void need_forget_gone(struct core *c)
{
	struct needed *n, *tmp;

	HASH_ITER(hh, c->needed, n, tmp) {
		n->is_going = false;
		forget(c, n);
	}
}

void need_fini(struct core *c)
{
	struct needed *n, *tmp;

	HASH_ITER(hh, c->needed, n, tmp) {
		HASH_DEL(c->needed, n);
		free(n);
	}
}
