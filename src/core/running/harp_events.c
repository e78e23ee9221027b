/* SPDX-License-Identifier: MIT */
/* harp_events.c: publishes a session's events in HARP-SESSION's form.
 * Owns when an event is due, its time, and that no status is published twice. Never composes an event
 * (harp/session.c), never changes a session. */
#include "core/running/harp_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "core/running/run.h"

#define STATUS_NONE HARP_STATUSES
#define COUNT(table) (sizeof(table) / sizeof *(table))

struct harp_events {
	struct outbox_caller *to; /* pinned */
	enum harp_status status;  /* the last one published in this run; STATUS_NONE: none */
	int64_t at_us;            /* the last event's time */
};

/* A caller may ask for what the operator has not set up at the broker. Such events would wait in the store
 * for ever, so further sessions of that caller have none. */
static bool is_published(const struct core *c, const char *capability, const char *caller_id, bool is_asked)
{
	const struct capability *cap = capability != NULL ? policy_find(c->policy, capability) : NULL;

	return cap != NULL && (cap->config->harp || (is_asked && !outbox_refuses_harp(c->outbox, caller_id)));
}

bool harp_events_prepare(struct core *c, const struct command *cmd)
{
	return !is_published(c, cmd->task.capability, cmd->caller_id, cmd->task.harp) ||
		outbox_find_harp_caller(c->outbox, cmd->caller_id) != NULL;
}

static int begin(struct session *s)
{
	struct outbox_caller *to = outbox_find_harp_caller(s->core->outbox, s->caller_id);

	if (to == NULL)
		return -1;
	s->harp_session.events = xcalloc(1, sizeof *s->harp_session.events);
	s->harp_session.events->to = to;
	s->harp_session.events->status = STATUS_NONE;
	outbox_caller_pin(to);
	return 0;
}

void harp_events_begin(struct session *s, bool is_asked)
{
	/* begin cannot fail: harp_events_prepare loaded this caller earlier in the turn. */
	s->harp_session.is_on = is_published(s->core, s->capability, s->caller_id, is_asked) && begin(s) == 0;
}

static int64_t time_of(const struct buf *event)
{
	static const char *const names[] = {"createdAt", "updatedAt", "endedAt"};
	char text[CLOCK_TEXT_SIZE + 1];
	int64_t us = 0;

	for (size_t i = 0; i < COUNT(names) && us == 0; i++) {
		struct jslice at = jtext_member(event->data, event->size, names[i]);

		if (at.at != NULL && at.size > 2 && at.size - 2 < sizeof text) {
			snprintf(text, sizeof text, "%.*s", (int)at.size - 2, at.at + 1);
			(void)clock_parse(text, &us);
		}
	}
	return us;
}

int harp_events_again(struct session *s)
{
	struct buf last = {0};
	int found;

	if (!s->harp_session.is_on)
		return 0;
	if (begin(s) < 0)
		return -1;
	/* The events of this run must be later than those of the previous one, also where the clock was set
	 * back. */
	if ((found = store_find_last_harp(s->core->store, s->key, &last)) > 0)
		s->harp_session.events->at_us = time_of(&last);
	if (s->harp_session.events->at_us < s->times.updated_us)
		s->harp_session.events->at_us = s->times.updated_us;
	buf_fini(&last);
	return found < 0 ? -1 : 0;
}

void harp_events_forget(struct session *s)
{
	if (s->harp_session.events == NULL)
		return;
	outbox_caller_unpin(s->harp_session.events->to);
	free(s->harp_session.events);
	s->harp_session.events = NULL;
}

/* Receivers sort a session's events by time, so no two have the same time, whatever the clock does. */
int64_t harp_events_time(struct session *s)
{
	int64_t now = clock_wall_us(), least = s->harp_session.events->at_us + 1000;

	s->harp_session.events->at_us = now > least ? now : least;
	return s->harp_session.events->at_us;
}

int64_t harp_events_last_time(const struct session *s)
{
	return s->harp_session.events->at_us;
}

static int64_t put(struct session *s, enum harp_event kind, const char *text, size_t size)
{
	struct store_event e = {.session = s->key,
		.session_id = s->id,
		.type = OUTBOX_HARP,
		.event_type = harp_event_name(kind),
		.body = blob_new(text, size)};
	int64_t id = outbox_put(s->core->outbox, s->harp_session.events->to, &e);

	CRASH_POINT(harp_events_put);
	s->outbox.waiting_bytes += e.body->size;
	blob_unref(e.body);
	run_check_backlog(s);
	return id;
}

static void put_start(struct session *s)
{
	const char *callee = s->core->first_policy->config->callee_id;
	struct buf host = {0}, repo = {0}, b = {0};
	const struct harp_member metadata[] = {{"callerId", s->caller_id, NULL},
		{"capability", s->capability, NULL}, {"capabilityVersion", s->capability_version, NULL},
		{"riskLevel", risk_names[s->risk], NULL}};

	buf_addf(&host, "hcp:%s", callee);
	buf_addf(&repo, "hcp:%s/%s", callee, s->capability); /* the same as in the question to a human */
	harp_add_start(
		&b, s->id, harp_events_time(s), buf_text(&host), buf_text(&repo), metadata, COUNT(metadata));
	put(s, HARP_EVENT_START, b.data, b.size);
	buf_fini(&host);
	buf_fini(&repo);
	buf_fini(&b);
}

static void put_status(struct session *s, enum harp_status status)
{
	struct buf b = {0};

	if (s->harp_session.events->status == status)
		return;
	s->harp_session.events->status = status;
	harp_add_status(&b, s->id, harp_events_time(s), status);
	put(s, HARP_EVENT_STATUS, b.data, b.size);
	buf_fini(&b);
}

void harp_events_undecided(struct session *s)
{
	if (s->harp_session.events != NULL)
		put_status(s, HARP_WAITING_APPROVAL);
}

void harp_events_state(struct session *s)
{
	static const enum harp_status statuses[S_COUNT] = {
		[S_PENDING] = STATUS_NONE,
		[S_REJECTED] = STATUS_NONE,
		[S_RUNNING] = HARP_EXECUTING,
		[S_PAUSED] = HARP_IDLE,
		[S_ABORTING] = STATUS_NONE,
		[S_ABORTED] = STATUS_NONE,
		[S_COMPLETED] = STATUS_NONE,
		[S_FAILED] = HARP_ERROR,
	};

	if (s->harp_session.events == NULL)
		return;
	if (s->state == S_RUNNING && s->times.started_us == 0)
		put_start(s);
	if (statuses[s->state] != STATUS_NONE)
		put_status(s, statuses[s->state]);
}

void harp_events_stage(struct session *s, const char *stage)
{
	int status = harp_status_parse(stage);

	if (s->harp_session.events != NULL && s->state == S_RUNNING && !session_has_outcome(s))
		put_status(s,
			status == HARP_PLANNING || status == HARP_EDITING ? (enum harp_status)status :
									    HARP_EXECUTING);
}

enum harp_end harp_events_reason(const char *reason, const char *error_code)
{
	static const struct {
		const char *word;
		enum harp_end end;
	} ends[] = {
		{"timeout", HARP_TIMEOUT},
		{"idle_timeout", HARP_TIMEOUT},
		{"pause_expired", HARP_TIMEOUT},
		{"approval_expired", HARP_TIMEOUT},
		{"safety_violation", HARP_POLICY_KILL},
		{"budget_spent", HARP_POLICY_KILL},
		{"aborted_by_operator", HARP_POLICY_KILL},
		{"discarded", HARP_POLICY_KILL},
		{"policy_denied", HARP_POLICY_KILL},
	};

	for (size_t i = 0; i < COUNT(ends); i++)
		if (strcmp(ends[i].word, reason) == 0 ||
			(error_code != NULL && strcmp(ends[i].word, error_code) == 0))
			return ends[i].end;
	return HARP_USER_END;
}

void harp_events_end(struct session *s, const char *reason, const char *error_code)
{
	const struct harp_member metadata[] = {
		{"finalState", sstate_names[s->state], NULL}, {"reason", reason, NULL}};
	struct buf b = {0};

	if (s->harp_session.events == NULL)
		return;
	harp_add_end(&b, s->id, harp_events_time(s), harp_events_reason(reason, error_code), metadata,
		COUNT(metadata));
	put(s, HARP_EVENT_END, b.data, b.size);
	CRASH_POINT(harp_events_ended);
	buf_fini(&b);
}

/* ---- snapshots ---- */

static void put_snapshot(struct session *s, const char *snapshot_id, enum harp_view view,
	const char *created_at, const char *hash, const char *text, size_t size)
{
	int64_t event = put(s, HARP_EVENT_SNAPSHOT, text, size);

	store_put_snapshot(s->core->store,
		&(struct store_snapshot){.session = s->key,
			.session_id = s->id,
			.event = event,
			.snapshot_id = snapshot_id,
			.snapshot_type = harp_view_name(view),
			.created_at = created_at,
			.sha256 = hash});
	CRASH_POINT(harp_events_snapshot_stored);
}

/* Others than the caller read harp.sessions. Data of class T3 or T4 stay out of it, and so does the worker's
 * text about them. */
static bool is_confidential(const struct session *s)
{
	return s->data_class >= T3;
}

/* The state itself is not published: it may be large, and only the worker understands it. */
void harp_events_checkpoint(struct session *s, const struct store_checkpoint *cp)
{
	struct harp_member payload[7];
	char at[CLOCK_TEXT_SIZE], hash[HARP_HASH_SIZE], steps[24];
	struct buf b = {0};
	size_t n = 0;

	if (s->harp_session.events == NULL)
		return;
	payload[n++] = (struct harp_member){"checkpointId", cp->checkpoint_id, NULL};
	if (is_confidential(s))
		payload[n++] =
			(struct harp_member){"dataClassification", data_class_names[s->data_class], NULL};
	else
		payload[n++] = (struct harp_member){"description", cp->description, NULL};
	payload[n++] = (struct harp_member){"resumable", NULL, cp->resumable ? "true" : "false"};
	if (!is_confidential(s)) /* a hash of little data says what they are */
		payload[n++] = (struct harp_member){"stateHash", cp->sha256, NULL};
	if (cp->step != NULL && !is_confidential(s))
		/* as JSON text: a step may be any number */
		payload[n++] = (struct harp_member){"step", cp->step, NULL};
	snprintf(steps, sizeof steps, "%lld", (long long)s->summary.steps);
	payload[n++] = (struct harp_member){"stepsDone", NULL, steps};
	if (is_confidential(s))
		payload[n++] = (struct harp_member){"withheld", NULL, "true"};
	harp_add_snapshot(&b, s->id, harp_events_time(s), cp->checkpoint_id, HARP_CONTEXT, payload, n, hash);
	clock_format(s->harp_session.events->at_us, at);
	put_snapshot(s, cp->checkpoint_id, HARP_CONTEXT, at, hash, b.data, b.size);
	buf_fini(&b);
}

/* What is published in place of a worker's snapshot: the same id, type and time. The store keeps the hash of
 * the worker's snapshot, so that sending it again is noticed. */
static void put_withheld(struct session *s, const struct harp_heard *h)
{
	const struct harp_member payload[] = {
		{"dataClassification", data_class_names[s->data_class], NULL}, {"withheld", NULL, "true"}};
	char hash[HARP_HASH_SIZE];
	struct buf b = {0};

	harp_add_snapshot(&b, s->id, h->at_us, h->snapshot_id, h->view, payload, COUNT(payload), hash);
	put_snapshot(s, h->snapshot_id, h->view, h->created_at, h->hash, b.data, b.size);
	buf_fini(&b);
}

bool harp_events_snapshot(struct session *s, const struct harp_heard *h)
{
	int64_t most = s->core->first_policy->config->max_message;

	if ((int64_t)h->size > most) {
		session_warn(s, "event_too_large",
			"a session.snapshot of %zu bytes was dropped; %lld is the limit", h->size,
			(long long)most);
		return false;
	}
	if (is_confidential(s))
		put_withheld(s, h);
	else
		put_snapshot(s, h->snapshot_id, h->view, h->created_at, h->hash, h->text, h->size);
	return true;
}
