/* SPDX-License-Identifier: MIT */
/* inbox.c: gives messages to on_event in order, each once.
 * Owns the inbox, the sessions in memory, and how long a session waits for a missing message.
 * Never acks (handle.c calls consumer.c for that, after the commit), never writes SQL (store.c). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libhcp/libhcp_private.h"

#define QUIET_US LIB_SECOND /* no delivery for so long: the queue is empty */

enum inbox_result {
	SETTLE,  /* handled, seen before, or kept in the file: ack it */
	PARK,    /* it must wait: it stays in the inbox, without an ack */
	REQUEUE, /* on_event refused it */
	BROKEN   /* the file failed: the whole batch is void */
};

/* --- sessions --- */

static void session_free(struct lib_session *s)
{
	free(s->token);
	free(s->callee);
	free(s->failing);
	free(s);
}

static void mark_gap(struct hcp *h, struct lib_session *s)
{
	if (s->has_gap)
		return;
	s->has_gap = true;
	s->gap_next = h->with_gap;
	h->with_gap = s;
}

static void mark_dirty(struct hcp *h, struct lib_session *s)
{
	if (s->is_dirty)
		return;
	s->is_dirty = true;
	s->dirty_next = h->dirty;
	h->dirty = s;
}

static void begin_gap(struct hcp *h, struct lib_session *s)
{
	if (s->gap_since_us)
		return;
	s->gap_since_us = clock_boot_us();
	s->gap_received = h->received;
}

struct lib_session *lib_inbox_session(struct hcp *h, const char *id)
{
	struct lib_session *s;

	HASH_FIND_STR(h->sessions, id, s);
	if (s)
		return s;
	s = xcalloc(1, sizeof *s + strlen(id) + 1);
	memcpy(s->id, id, strlen(id) + 1);
	if (lib_store_load_session(h, s) < 0) {
		session_free(s);
		return NULL;
	}
	HASH_ADD_STR(h->sessions, id, s);
	if (s->held) {
		mark_gap(h, s);
		begin_gap(h, s);
	}
	return s;
}

void lib_inbox_forget_sessions(struct hcp *h)
{
	struct lib_session *s, *next;

	HASH_ITER(hh, h->sessions, s, next) {
		HASH_DEL(h->sessions, s);
		session_free(s);
	}
	h->with_gap = h->dirty = NULL;
}

void lib_inbox_trim(struct hcp *h)
{
	struct lib_session *s, *next;

	if (HASH_COUNT(h->sessions) <= LIB_SESSIONS_MAX)
		return;
	HASH_ITER(hh, h->sessions, s, next)
		if (!s->has_gap && !s->is_dirty) {
			HASH_DEL(h->sessions, s);
			session_free(s);
		}
}

/* --- the inbox --- */

void lib_inbox_put(struct hcp *h, struct lib_message *n)
{
	n->next = NULL;
	*h->inbox_end = n;
	h->inbox_end = &n->next;
	h->inbox_count++;
}

static struct lib_message *unlink_message(struct hcp *h, struct lib_message **at)
{
	struct lib_message *n = *at;

	*at = n->next;
	if (!*at)
		h->inbox_end = at;
	h->inbox_count--;
	return n;
}

void lib_inbox_forget_inbox(struct hcp *h)
{
	struct lib_message **at = &h->inbox;

	while (*at)
		if ((*at)->generation != h->generation)
			lib_message_free(unlink_message(h, at));
		else
			at = &(*at)->next;
	h->parked = 0;
}

bool lib_inbox_is_full(const struct hcp *h)
{
	return h->batch_count >= h->batch_max || clock_boot_us() - h->batch_at_us > h->batch_us;
}

/* --- on_event --- */

int lib_inbox_call(struct hcp *h, const struct hcp_event *e)
{
	int rc;

	if (lib_store_begin(h) < 0 || lib_store_do(h, LIB_SAVEPOINT) < 0)
		return -1;
	h->in_callback = true;
	rc = h->on_event(h, e, h->db, h->ctx);
	h->in_callback = false;
	h->batch_count++;
	if (sqlite3_get_autocommit(h->db)) {
		lib_fail(h, HCP_E_STORE, "the transaction that on_event was handed is over: %s",
			rc ? "SQLite rolled it back (a full disk?), or on_event did" :
			     "on_event must not end it");
		return -1;
	}
	if (rc && lib_store_do(h, LIB_UNDO) < 0)
		return -1;
	if (lib_store_do(h, LIB_RELEASE) < 0)
		return -1;
	return rc == 0;
}

static enum hcp_kind kind_of(const char *type)
{
	static const struct {
		const char *type;
		enum hcp_kind kind;
	} kinds[] = {
		{"event", HCP_EVENT},
		{"task_accepted", HCP_ACCEPTED},
		{"task_rejected", HCP_REJECTED},
		{"task_completed", HCP_COMPLETED},
		{"task_failed", HCP_FAILED},
	};

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(type, kinds[i].type) == 0)
			return kinds[i].kind;
	return HCP_OTHER;
}

/* Keeps what hcp_abort needs. Runs before on_event, so that on_event may abort at once. */
static void learn(struct hcp *h, struct lib_session *s, const struct hcp_event *e)
{
	bool is_first = e->kind == HCP_EVENT && strcmp(e->event_type, "session_created") == 0;
	const char *token;
	struct lib_outgoing *l;

	if (e->kind != HCP_ACCEPTED && !is_first)
		return;
	token = hcp_get_text(e, is_first ? "data.session_token" : "session_token");
	if (token && !s->token && s->id[0])
		s->token = xstrdup(token);
	HASH_FIND_STR(h->outgoing, e->in_reply_to, l);
	if (l && !s->callee)
		s->callee = xstrdup(l->callee);
}

/* Everything that must be in one transaction with the changes of on_event. */
static int conclude(
	struct hcp *h, struct lib_session *s, const struct lib_message *n, const struct hcp_event *e)
{
	if (e->sequence)
		s->last = e->sequence;
	else if (n->message_id[0] && lib_store_put_seen(h, s->id, n->message_id) < 0)
		return -1;
	if (e->in_reply_to[0] && lib_pending_answered(h, e->in_reply_to) < 0)
		return -1;
	if (e->kind == HCP_EVENT && strcmp(e->event_type, "session_closed") == 0)
		s->is_closed = true;
	if (s->id[0])
		mark_dirty(h, s);
	free(s->failing);
	s->failing = NULL;
	s->retry_us = 0;
	s->gap_since_us = 0; /* a later gap has its own time */
	return 0;
}

static void be_refused(struct hcp *h, struct lib_session *s, const struct lib_message *n, bool is_held)
{
	s->retry_us = s->retry_us ? s->retry_us * 2 : LIB_SECOND;
	if (s->retry_us > LIB_BACKOFF_MAX)
		s->retry_us = LIB_BACKOFF_MAX;
	s->retry_at_us = clock_boot_us() + s->retry_us;
	free(s->failing);
	s->failing = xstrdup(n->message_id);
	s->failing_is_held = is_held;
	s->failing_is_here = false;
	mark_gap(h, s);
	lib_log(h, HCP_LOG_WARN,
		"on_event did not take message %s (%s %s, session %s); it comes again in %" PRId64 " s",
		n->message_id, n->type, n->event, s->id, s->retry_us / LIB_SECOND);
}

static enum inbox_result run(
	struct hcp *h, struct lib_session *s, struct lib_message *n, int64_t gap_from, bool is_held)
{
	struct hcp_event e = {.kind = kind_of(n->type),
		.type = n->type,
		.event_type = n->event,
		.session_id = s->id,
		.message_id = n->message_id,
		.in_reply_to = "",
		.sequence = n->sequence,
		.body = n->body,
		.size = n->size,
		.text = "",
		.note = n};
	int rc;

	if (e.kind == HCP_ACCEPTED || e.kind == HCP_REJECTED)
		e.in_reply_to = n->in_reply_to;
	if (gap_from) {
		e.gap_from = gap_from;
		e.gap_to = n->sequence - 1;
	}
	learn(h, s, &e);
	if ((rc = lib_inbox_call(h, &e)) < 0)
		return BROKEN;
	if (rc == 0) {
		be_refused(h, s, n, is_held);
		return REQUEUE;
	}
	return conclude(h, s, n, &e) < 0 ? BROKEN : SETTLE;
}

/* --- out of order --- */

static enum inbox_result hold(
	struct hcp *h, struct lib_session *s, const struct lib_message *n, int64_t sequence)
{
	int64_t place = sequence ? 2 * sequence : 2 * s->highest + 1;
	int rc = s->held ? lib_store_is_held(h, s->id, place, n->message_id) : 0;

	if (rc < 0)
		return BROKEN;
	if (rc > 0)
		return SETTLE;
	mark_gap(h, s);
	begin_gap(h, s);
	if (s->held >= h->reorder_max)
		return PARK;
	if (lib_store_begin(h) < 0 || lib_store_hold(h, s, place, n) < 0)
		return BROKEN;
	h->batch_count++;
	return SETTLE;
}

static enum inbox_result take(struct hcp *h, struct lib_message *n)
{
	struct lib_session *s = lib_inbox_session(h, n->session);
	int64_t sequence = n->sequence;
	bool is_next;
	int rc;

	if (!s)
		return BROKEN;
	if (sequence > s->highest)
		s->highest = sequence;
	if (sequence && sequence <= s->last)
		return SETTLE;
	if (!sequence && (rc = lib_store_is_seen(h, s->id, n->message_id)) != 0)
		return rc < 0 ? BROKEN : SETTLE;
	if (s->failing) {
		if (s->failing_is_held || strcmp(s->failing, n->message_id) != 0)
			return hold(h, s, n, sequence);
		s->failing_is_here = true;
		return clock_boot_us() < s->retry_at_us ? PARK : run(h, s, n, 0, false);
	}
	if (sequence)
		is_next = sequence == s->last + 1 && (!s->held || 2 * sequence < s->head);
	else
		is_next = !s->held;
	return is_next ? run(h, s, n, 0, false) : hold(h, s, n, sequence);
}

/* --- what is held --- */

/* The queue is empty, so a missing message is not on its way. */
static bool is_quiet(const struct hcp *h, int64_t now_us)
{
	int64_t quiet_us = h->gap_wait_us < QUIET_US ? h->gap_wait_us : QUIET_US;

	return h->connection && h->inbox_count == h->parked && now_us - h->delivered_at_us >= quiet_us;
}

/* A session stops waiting for a missing message when it holds as many messages as it may. It also stops when
 * the time is up and the queue is empty, or brought so many messages that an overtaken one would have come. A
 * slow application loses nothing. */
static bool may_pass_over(const struct hcp *h, const struct lib_session *s, int64_t now_us)
{
	if (s->held >= h->reorder_max)
		return true;
	return h->connection && now_us - s->gap_since_us >= h->gap_wait_us &&
		(is_quiet(h, now_us) || h->received - s->gap_received >= (uint64_t)h->reorder_max);
}

/* A queue without limits drops nothing. Where events are missing, another consumer of the queue got them, or
 * the queue was not there for a while. */
static void explain_missing(struct hcp *h)
{
	if (h->said_missing)
		return;
	h->said_missing = true;
	if (h->settings->ttl_ms || h->settings->max_length) {
		lib_log(h, HCP_LOG_WARN,
			"events are missing: queue %s dropped them by its limits, or another program "
			"consumes it as caller %s and each gets a part; raise the limits, or use one "
			"caller_id in one program",
			h->settings->queue, h->settings->caller);
		return;
	}
	lib_log(h, HCP_LOG_WARN,
		"events are missing though queue %s drops none: another program consumes it as caller %s, "
		"and "
		"each gets a part, or the queue was deleted meanwhile; use one caller_id in one program",
		h->settings->queue, h->settings->caller);
}

/* Handles one message from the file. 1: go on with the next; 0: it must wait; -1: the file failed. */
static int take_held(struct hcp *h, struct lib_session *s, int64_t now_us)
{
	struct lib_message *n = NULL;
	enum inbox_result v = SETTLE;
	int64_t row, gap_from = 0;
	int rc;

	if (s->head % 2 == 0 && s->head / 2 > s->last + 1) {
		if (!may_pass_over(h, s, now_us))
			return 0;
		gap_from = s->last + 1;
	}
	if (lib_store_begin(h) < 0 || (rc = lib_store_head(h, s, &row, &n)) < 0)
		return -1;
	if (rc == 0) { /* another program emptied the table */
		s->held = 0;
		return 0;
	}
	if (gap_from && n) {
		lib_log(h, HCP_LOG_WARN,
			"session %s: events %" PRId64 " to %" PRId64 " never came; going on without them",
			s->id, gap_from, n->sequence - 1);
		explain_missing(h);
	}
	if (n && !(n->sequence && n->sequence <= s->last))
		v = run(h, s, n, gap_from, true);
	if (v == SETTLE && lib_store_drop_held(h, s, row) < 0)
		v = BROKEN;
	lib_message_free(n);
	return v == BROKEN ? -1 : v == SETTLE;
}

/* The refused message went back to the broker, and did not come again. */
static bool is_failing_lost(const struct hcp *h, const struct lib_session *s, int64_t now_us)
{
	return !s->failing_is_held && !s->failing_is_here && now_us - s->retry_at_us >= h->gap_wait_us &&
		is_quiet(h, now_us);
}

static int take_gap(struct hcp *h, struct lib_session *s, int64_t now_us)
{
	int rc = 1;

	if (s->failing && is_failing_lost(h, s, now_us)) {
		lib_log(h, HCP_LOG_WARN,
			"session %s: message %s, which on_event did not take, did not come again", s->id,
			s->failing);
		free(s->failing);
		s->failing = NULL;
	}
	if (s->failing && (!s->failing_is_held || now_us < s->retry_at_us))
		return 0;
	while (rc > 0 && s->held) {
		if (lib_inbox_is_full(h)) {
			h->has_more = true;
			return 0;
		}
		rc = take_held(h, s, now_us);
	}
	return rc < 0 ? -1 : 0;
}

static int take_all_gaps(struct hcp *h, int64_t now_us)
{
	struct lib_session **at = &h->with_gap;

	while (*at) {
		struct lib_session *s = *at;

		if (take_gap(h, s, now_us) < 0)
			return -1;
		if (s->held || s->failing) {
			at = &s->gap_next;
			continue;
		}
		*at = s->gap_next;
		s->has_gap = false;
		s->gap_since_us = 0;
	}
	return 0;
}

/* --- the turn --- */

static bool has_due_held(const struct lib_session *s)
{
	return s->held && !s->failing && (s->head % 2 || s->head / 2 <= s->last + 1);
}

int lib_inbox_turn(struct hcp *h, int64_t now_us)
{
	struct lib_message **at = &h->inbox;
	size_t parked = 0;

	h->has_more = false;
	if (take_all_gaps(h, now_us) < 0)
		return HCP_E_STORE;
	if (lib_group_is_gathering(h, now_us))
		return HCP_OK;
	while (*at && !lib_inbox_is_full(h)) {
		struct lib_message *n = *at;
		enum inbox_result v = take(h, n);

		if (v == BROKEN) /* the message is still in the inbox */
			return HCP_E_STORE;
		if (v == PARK) {
			parked++;
			at = &n->next;
			continue;
		}
		unlink_message(h, at);
		if (v == SETTLE)
			lib_consumer_settle(h, n);
		else
			lib_consumer_requeue(h, n);
		lib_message_free(n);
	}
	h->parked = *at ? 0 : parked; /* the batch was full: the next turn comes at once */
	for (const struct lib_session *s = h->with_gap; s; s = s->gap_next)
		h->has_more |= has_due_held(s); /* a message of this turn may have closed a gap */
	return HCP_OK;
}

static int64_t gap_due_us(const struct hcp *h, const struct lib_session *s, int64_t now_us)
{
	int64_t due_us;

	if (s->failing) {
		due_us = s->retry_at_us;
		if (s->failing_is_held || s->failing_is_here)
			return due_us;
		if (now_us >= due_us)
			due_us += h->gap_wait_us;
	} else if (s->held >= h->reorder_max) {
		return 0;
	} else {
		due_us = s->gap_since_us + h->gap_wait_us;
	}
	if (due_us > now_us)
		return due_us;
	return h->connection ? now_us + QUIET_US : INT64_MAX; /* until the queue is empty */
}

int64_t lib_inbox_due_us(const struct hcp *h)
{
	int64_t now_us = clock_boot_us(), due_us = INT64_MAX;

	if (now_us < h->store_retry_at_us)
		return h->store_retry_at_us;
	if (h->has_more || (h->inbox_count > h->parked && !lib_group_is_gathering(h, now_us)))
		return 0; /* at once: now_us is later than the clock of the caller */
	if (h->inbox_count > h->parked)
		due_us = h->gather_until_us;
	for (const struct lib_session *s = h->with_gap; s; s = s->gap_next) {
		int64_t s_us = gap_due_us(h, s, now_us);

		if (s_us < due_us)
			due_us = s_us;
	}
	return due_us;
}
