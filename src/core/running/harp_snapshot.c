/* SPDX-License-Identifier: MIT */
/* harp_snapshot.c: snapshots that workers send.
 * Owns the memory of this turn's snapshots, which the store does not know yet. Never says what a good one
 * is (harp/session.c), never publishes one (harp_events.c). */
#include "core/running/harp_snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "core/running/worker_messages.h"
#include "core/running/harp_events.h"
#include "protocol/worker_line.h"

struct harp_snapshot_seen {
	UT_hash_handle hh;
	char hash[HARP_HASH_SIZE];
	char *created_at;
	char key[]; /* session and snapshotId */
};

/* What is known of a snapshotId. */
struct known {
	char hash[HARP_HASH_SIZE]; /* "": nothing */
	struct buf created_at;
};

static void make_key(struct buf *b, const struct session *s, const char *snapshot_id)
{
	buf_addf(b, "%lld/%s", (long long)s->key, snapshot_id);
}

/* -1: the store cannot be read. */
static int find_known(struct session *s, const char *snapshot_id, struct known *out)
{
	struct harp_snapshot_seen *n;
	struct buf key = {0};

	make_key(&key, s, snapshot_id);
	HASH_FIND(hh, s->core->turn.snapshots, buf_text(&key), key.size, n);
	buf_fini(&key);
	if (n == NULL)
		return store_find_snapshot(s->core->store, s->key, snapshot_id, out->hash, &out->created_at);
	memcpy(out->hash, n->hash, sizeof out->hash);
	buf_add_text(&out->created_at, n->created_at);
	return 1;
}

static void remember(struct session *s, const struct harp_heard *h)
{
	struct harp_snapshot_seen *n;
	struct buf key = {0};

	make_key(&key, s, h->snapshot_id);
	n = xcalloc(1, sizeof *n + key.size + 1);
	memcpy(n->key, key.data, key.size);
	memcpy(n->hash, h->hash, sizeof n->hash);
	n->created_at = xstrdup(h->created_at);
	HASH_ADD(hh, s->core->turn.snapshots, key, key.size, n);
	buf_fini(&key);
}

void harp_snapshot_end_turn(struct core *c)
{
	struct harp_snapshot_seen *n, *tmp;

	HASH_ITER(hh, c->turn.snapshots, n, tmp) {
		HASH_DEL(c->turn.snapshots, n);
		free(n->created_at);
		free(n);
	}
}

/* A snapshot that is sent again without a time has the time of the first one. */
static enum harp_code verify(struct session *s, const struct worker_line *l, struct known *k,
	struct harp_heard *h, bool *is_new, char *why, size_t why_size)
{
	/* After the worker ended the session itself, snapshots are refused. Where another cause ended it,
	 * they are still taken. */
	bool is_ended = session_has_outcome(s) && strcmp(s->outcome.actor, "worker") == 0;
	size_t most = (size_t)s->core->policy->config->max_line;
	char now[CLOCK_TEXT_SIZE];
	enum harp_code code;

	clock_format(harp_events_time(s), now);
	code = harp_read_snapshot(l->text, l->size, most, s->id,
		k->created_at.size > 0 ? buf_text(&k->created_at) : now, h, why, why_size);
	if (code != HARP_OK)
		return code;
	if ((code = harp_check_event(
		     h, is_ended, k->hash[0] != '\0' ? k->hash : NULL, is_new, why, why_size)) != HARP_OK)
		harp_heard_fini(h);
	return code;
}

static void refuse(struct session *s, enum harp_code code, const char *why)
{
	CRASH_POINT(snapshot_refused);
	if (worker_message_may_complain(s))
		session_warn(s, harp_code_name(code), "a snapshot was refused: %s", why);
}

static void drop(struct session *s, const char *why)
{
	if (worker_message_may_complain(s))
		session_warn(s, "snapshot_dropped", "a snapshot was dropped: %s", why);
}

static void take(struct session *s, const struct worker_line *l, struct known *k)
{
	struct harp_heard h;
	bool is_new = false;
	char why[256];
	enum harp_code code = verify(s, l, k, &h, &is_new, why, sizeof why);

	if (code != HARP_OK) {
		refuse(s, code, why);
		return;
	}
	if (is_new && harp_events_snapshot(s, &h))
		remember(s, &h);
	CRASH_POINT(snapshot_taken);
	harp_heard_fini(&h);
}

static const char not_published[] = "its capability has harp = no";

void harp_snapshot_reported(struct session *s, const struct worker_line *l)
{
	const char *id = worker_line_string(l, "snapshotId", "");
	struct known k = {.hash = ""};

	if (s->harp_session.events == NULL)
		drop(s, not_published);
	else if (find_known(s, id, &k) < 0)
		drop(s, store_error(s->core->store));
	else
		take(s, l, &k);
	buf_fini(&k.created_at);
}

void harp_snapshot_unreadable(struct session *s, const char *why)
{
	if (s->harp_session.events == NULL)
		drop(s, not_published);
	else
		refuse(s, HARP_CANONICALIZATION, why);
}
