/* SPDX-License-Identifier: MIT */
/* places.c: who gets one of the places at the control socket, and who has to leave it.
 * Owns the bounds: of all, of a user, of all but root; and how long a client may be silent. Never closes a
 * client and never reads the clock (control.c). */
#include "control/control_private.h"

#define SECOND INT64_C(1000000)
#define USER_MAX 24   /* places of one user; root has no bound of its own */
#define ROOT_PLACES 8 /* only root gets the last ones */
/* A client that sent a request before may be a human who thinks. A client that sent none keeps its place for
 * a short time only. */
#define SILENT_NEW_US (30 * SECOND)
#define SILENT_US (600 * SECOND)
/* The same while another client waits for a place. */
#define YIELD_NEW_US (1 * SECOND)
#define YIELD_US (60 * SECOND)

static bool is_busy(const struct client *c)
{
	for (int i = 0; i < REQUESTS_MAX; i++)
		if (c->requests[i].state != REQUEST_FREE)
			return true;
	return client_has_output(c);
}

int64_t place_silent_at(const struct client *c)
{
	return c->fd < 0 || is_busy(c) ? INT64_MAX : c->heard_us + (c->has_asked ? SILENT_US : SILENT_NEW_US);
}

static bool may_yield(const struct client *c, int64_t now_us)
{
	return !is_busy(c) && now_us - c->heard_us >= (c->has_asked ? YIELD_US : YIELD_NEW_US);
}

/* Which places have run out: all, those of every user but root, or those of one user. */
enum bound { BOUND_ALL, BOUND_NOT_ROOT, BOUND_USER };

static bool counts(enum bound bound, const struct client *c, int64_t uid)
{
	return c->fd >= 0 &&
		(bound == BOUND_ALL || (bound == BOUND_NOT_ROOT && c->uid != 0) ||
			(bound == BOUND_USER && c->uid == uid));
}

static int count(const struct control *ctl, enum bound bound, int64_t uid)
{
	int n = 0;

	for (int i = 0; i < CLIENTS_MAX; i++)
		n += counts(bound, &ctl->clients[i], uid);
	return n;
}

/* The client that was silent for the longest time, of those that never asked if there is one. */
static struct client *find_silent(struct control *ctl, enum bound bound, int64_t uid, int64_t now_us)
{
	struct client *found = NULL;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct client *c = &ctl->clients[i];

		if (!counts(bound, c, uid) || !may_yield(c, now_us))
			continue;
		if (found == NULL || (found->has_asked && !c->has_asked) ||
			(found->has_asked == c->has_asked && c->heard_us < found->heard_us))
			found = c;
	}
	return found;
}

static struct client *find_free(struct control *ctl)
{
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (ctl->clients[i].fd < 0)
			return &ctl->clients[i];
	return NULL;
}

struct client *place_find(struct control *ctl, int64_t uid, int64_t now_us, const char **why)
{
	if (uid != 0 && count(ctl, BOUND_USER, uid) >= USER_MAX) {
		*why = "this user has 24 connections already";
		return find_silent(ctl, BOUND_USER, uid, now_us);
	}
	if (uid != 0 && count(ctl, BOUND_NOT_ROOT, uid) >= CLIENTS_MAX - ROOT_PLACES) {
		*why = "56 clients are connected already; the last places are root's";
		return find_silent(ctl, BOUND_NOT_ROOT, uid, now_us);
	}
	*why = "64 clients are connected already";
	return count(ctl, BOUND_ALL, uid) < CLIENTS_MAX ? find_free(ctl) :
							  find_silent(ctl, BOUND_ALL, uid, now_us);
}
