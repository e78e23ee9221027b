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

static void make_key(struct buf *b, const struct session *s, const char *snapshot_id)
{
	buf_addf(b, "%lld/%s", (long long)s->key, snapshot_id);
}

/* What is known of a snapshotId. -1: the store cannot be read. */
static int find_known(struct session *s, const char *snapshot_id, struct harp_reading *out)
{
	struct harp_snapshot_seen *n;
	struct buf key = {0};

	make_key(&key, s, snapshot_id);
	HASH_FIND(hh, s->core->turn.snapshots, buf_text(&key), key.size, n);
	buf_fini(&key);
	if (n == NULL)
		return store_find_snapshot(
			s->core->store, s->key, snapshot_id, out->known_hash, &out->created_at);
	memcpy(out->known_hash, n->hash, sizeof out->known_hash);
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

static void refuse(struct session *s, enum harp_code code, const char *why)
{
	struct buf b = {0};
	char text[320];

	CRASH_POINT(snapshot_refused);
	if (!worker_message_may_complain(s))
		return;
	snprintf(text, sizeof text, "a snapshot was refused: %s", why);
	harp_add_error(&b, code, why);
	session_warn_details(s, harp_code_name(code), text, buf_text(&b));
	buf_fini(&b);
}

static void drop(struct session *s, const char *why)
{
	if (worker_message_may_complain(s))
		session_warn(s, "snapshot_dropped", "a snapshot was dropped: %s", why);
}

static const char not_published[] = "its capability has harp = no, and its caller did not ask for it";

/* A snapshot that is sent again without a time has the time of the first one. */
void harp_reading_load(struct harp_reading *r, struct session *s, const struct worker_line *l)
{
	char now[CLOCK_TEXT_SIZE];

	*r = (struct harp_reading){
		.is_loaded = true, .most = (size_t)s->core->policy->config->max_line, .session_id = s->id};
	if (s->harp_session.events == NULL) {
		snprintf(r->why, sizeof r->why, "%s", not_published);
		r->is_dropped = true;
	} else if (find_known(s, worker_line_string(l, "snapshotId", ""), r) < 0) {
		snprintf(r->why, sizeof r->why, "%s", store_error(s->core->store));
		r->is_dropped = true;
	} else if (r->created_at.size == 0) {
		r->at_us = harp_events_time(s);
		clock_format(r->at_us, now);
		buf_add_text(&r->created_at, now);
	}
}

void harp_reading_make(struct harp_reading *r, const struct worker_line *l)
{
	if (!r->is_dropped)
		r->code = harp_read_snapshot(l->text, l->size, r->most, r->session_id,
			buf_text(&r->created_at), &r->heard, r->why, sizeof r->why);
}

bool harp_reading_is_late(const struct harp_reading *r, const struct session *s)
{
	return r->at_us != 0 && harp_events_last_time(s) != r->at_us;
}

void harp_reading_fini(struct harp_reading *r)
{
	if (r->is_loaded && r->code == HARP_OK)
		harp_heard_fini(&r->heard);
	buf_fini(&r->created_at);
}

void harp_snapshot_reported(struct session *s, const struct harp_reading *r)
{
	/* After the worker ended the session itself, snapshots are refused. Where another cause ended it,
	 * they are still taken. */
	bool is_ended = session_has_outcome(s) && strcmp(s->outcome.actor, "worker") == 0, is_new = false;
	const char *known = r->known_hash[0] != '\0' ? r->known_hash : NULL;
	enum harp_code code = r->code;
	char why[256];

	if (r->is_dropped) {
		drop(s, r->why);
		return;
	}
	snprintf(why, sizeof why, "%s", r->why);
	if (code == HARP_OK)
		code = harp_check_event(&r->heard, is_ended, known, &is_new, why, sizeof why);
	if (code != HARP_OK) {
		refuse(s, code, why);
		return;
	}
	if (is_new && harp_events_snapshot(s, &r->heard))
		remember(s, &r->heard);
	CRASH_POINT(snapshot_taken);
}

void harp_snapshot_unreadable(struct session *s, const char *why)
{
	if (s->harp_session.events == NULL)
		drop(s, not_published);
	else
		refuse(s, HARP_CANONICALIZATION, why);
}
