/* tell.c: from the life of a session to HARP-SESSION's events.
 * Owns when one is due, its time, and that nothing is said twice. Never composes one (harp_session.c), never
 * changes a session. */
#include "core/running/harp_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "core/running/run.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

struct tell {
	struct addressee *to;    /* pinned */
	enum harp_status status; /* the last that was told in this life; HARP_STATUSES: none */
	int64_t at_us;           /* the last event's time */
};

bool tell_prepare(struct core *c, const char *capability, const char *caller_id)
{
	const struct capability *cap = capability != NULL ? policy_find(c->policy, capability) : NULL;

	return cap == NULL || !cap->config->harp || outbox_harp_addressee(c->outbox, caller_id) != NULL;
}

static int begin(struct session *s)
{
	struct addressee *to = outbox_harp_addressee(s->core->outbox, s->caller_id);

	if (to == NULL)
		return -1;
	s->tell = xcalloc(1, sizeof *s->tell);
	s->tell->to = to;
	s->tell->status = HARP_STATUSES;
	addressee_pin(to);
	return 0;
}

void tell_begin(struct session *s)
{
	const struct capability *cap = policy_find(s->core->policy, s->capability);

	/* tell_prepare was here in this turn, so it is known. */
	s->harp = cap != NULL && cap->config->harp && begin(s) == 0;
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

int tell_again(struct session *s)
{
	struct buf last = {0};
	int found;

	if (!s->harp)
		return 0;
	if (begin(s) < 0)
		return -1;
	/* A clock that was set back must not put this life before the last one, nor may the events that it
	 * had in hand within its last millisecond. */
	if ((found = store_find_told(s->core->store, s->key, &last)) > 0)
		s->tell->at_us = time_of(&last);
	if (s->tell->at_us < s->updated_us)
		s->tell->at_us = s->updated_us;
	buf_fini(&last);
	return found < 0 ? -1 : 0;
}

void tell_forget(struct session *s)
{
	if (s->tell == NULL)
		return;
	addressee_unpin(s->tell->to);
	free(s->tell);
	s->tell = NULL;
}

/* Receivers put a session's events in the order of their times: no two have the same, whatever the clock
 * does. */
int64_t tell_time(struct session *s)
{
	int64_t now = clock_wall_us(), least = s->tell->at_us + 1000;

	s->tell->at_us = now > least ? now : least;
	return s->tell->at_us;
}

static int64_t put(struct session *s, enum harp_event kind, const char *text, size_t size)
{
	struct store_event e = {.session = s->key,
		.session_id = s->id,
		.type = OUTBOX_HARP,
		.event_type = harp_event_name(kind),
		.body = blob_new(text, size)};
	int64_t id = outbox_put(s->core->outbox, s->tell->to, &e);

	CRASH_POINT(tell_put);
	s->waiting_bytes += e.body->size;
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
	buf_addf(&repo, "hcp:%s/%s", callee, s->capability); /* as in what a human is asked */
	harp_add_start(&b, s->id, tell_time(s), buf_text(&host), buf_text(&repo), metadata, COUNT(metadata));
	put(s, HARP_EVENT_START, b.data, b.size);
	buf_fini(&host);
	buf_fini(&repo);
	buf_fini(&b);
}

static void put_status(struct session *s, enum harp_status status)
{
	struct buf b = {0};

	if (s->tell->status == status)
		return;
	s->tell->status = status;
	harp_add_status(&b, s->id, tell_time(s), status);
	put(s, HARP_EVENT_STATUS, b.data, b.size);
	buf_fini(&b);
}

void tell_asked(struct session *s)
{
	if (s->tell != NULL)
		put_status(s, HARP_WAITING_APPROVAL);
}

void tell_state(struct session *s)
{
	static const enum harp_status statuses[S_COUNT] = {
		[S_PENDING] = HARP_STATUSES,
		[S_REJECTED] = HARP_STATUSES,
		[S_RUNNING] = HARP_EXECUTING,
		[S_PAUSED] = HARP_IDLE,
		[S_ABORTING] = HARP_STATUSES,
		[S_ABORTED] = HARP_STATUSES,
		[S_COMPLETED] = HARP_STATUSES,
		[S_FAILED] = HARP_ERROR,
	};

	if (s->tell == NULL)
		return;
	if (s->state == S_RUNNING && s->started_us == 0)
		put_start(s);
	if (statuses[s->state] != HARP_STATUSES)
		put_status(s, statuses[s->state]);
}

void tell_stage(struct session *s, const char *stage)
{
	int status = harp_status_parse(stage);

	if (s->tell != NULL && s->state == S_RUNNING && !session_has_outcome(s))
		put_status(s,
			status == HARP_PLANNING || status == HARP_EDITING ? (enum harp_status)status :
									    HARP_EXECUTING);
}

enum harp_end tell_reason(const char *reason, const char *error_code)
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

void tell_end(struct session *s, const char *reason, const char *error_code)
{
	const struct harp_member metadata[] = {
		{"finalState", sstate_names[s->state], NULL}, {"reason", reason, NULL}};
	struct buf b = {0};

	if (s->tell == NULL)
		return;
	harp_add_end(&b, s->id, tell_time(s), tell_reason(reason, error_code), metadata, COUNT(metadata));
	put(s, HARP_EVENT_END, b.data, b.size);
	CRASH_POINT(tell_ended);
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
	CRASH_POINT(tell_snapshot_stored);
}

/* Its state stays here: it may be large, and is nobody's but the worker's. */
void tell_checkpoint(struct session *s, const struct store_checkpoint *cp)
{
	struct harp_member payload[6];
	char at[CLOCK_TEXT_SIZE], hash[HARP_HASH_SIZE], steps[24];
	struct buf b = {0};
	size_t n = 0;

	if (s->tell == NULL)
		return;
	payload[n++] = (struct harp_member){"checkpointId", cp->checkpoint_id, NULL};
	payload[n++] = (struct harp_member){"description", cp->description, NULL};
	payload[n++] = (struct harp_member){"resumable", NULL, cp->resumable ? "true" : "false"};
	payload[n++] = (struct harp_member){"stateHash", cp->sha256, NULL};
	if (cp->step != NULL)
		payload[n++] = (struct harp_member){
			"step", cp->step, NULL}; /* JSON text: it may be a number, and any */
	snprintf(steps, sizeof steps, "%lld", (long long)s->steps);
	payload[n++] = (struct harp_member){"stepsDone", NULL, steps};
	harp_add_snapshot(&b, s->id, tell_time(s), cp->checkpoint_id, HARP_CONTEXT, payload, n, hash);
	clock_format(s->tell->at_us, at);
	put_snapshot(s, cp->checkpoint_id, HARP_CONTEXT, at, hash, b.data, b.size);
	buf_fini(&b);
}

bool tell_snapshot(struct session *s, const struct harp_heard *h)
{
	int64_t most = s->core->first_policy->config->max_message;

	if ((int64_t)h->size > most) {
		session_warn(s, "event_too_large",
			"a session.snapshot of %zu bytes was dropped; %lld is the limit", h->size,
			(long long)most);
		return false;
	}
	put_snapshot(s, h->snapshot_id, h->view, h->created_at, h->hash, h->text, h->size);
	return true;
}
