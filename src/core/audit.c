/* SPDX-License-Identifier: MIT */
/* audit.c: rows of the audit: composed, chained, and put into the turn's batch; refusals counted by the
 * minute.
 * Owns the chain's head and the counts. Never decides anything, and never changes or drops a row. */
#include "core/audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/audit_chain.h"
#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"

#define TEXT_MAX 512
#define MINUTE_US (INT64_C(60) * 1000000)

/* Refusals of one kind within a minute: the first have a row each, the others are counted here. */
struct audit_slot {
	bool is_used;
	char kind[192]; /* what, code, uid and counted_with of audit_put_refusal */
	char what[32], code[48], user[129], who[129];
	char session[ID_SIZE], capability[129]; /* of refusals that a session's own worker or caller caused */
	bool has_uid;
	int64_t uid, since_us; /* since_us: of the first that is counted here */
	uint64_t count;        /* not written yet */
	unsigned rows, most;   /* rows of their own, and how many there may be in a minute */
};

/* ---- a row ---- */

struct counted { /* of a row that stands for many refusals */
	uint64_t count;
	const char *since;
};

static void add_name(struct buf *b, const char *name)
{
	buf_add_text(b, b->size > 1 ? ",\"" : "\"");
	buf_add_text(b, name);
	buf_add_text(b, "\":");
}

static void add_text(struct buf *b, const char *name, const char *text)
{
	if (text == NULL || text[0] == '\0')
		return;
	add_name(b, name);
	buf_add_json(b, text, buf_utf8_cut(text, strlen(text), TEXT_MAX));
}

static void add_int(struct buf *b, const char *name, int64_t value)
{
	add_name(b, name);
	buf_add_int(b, value);
}

/* Canonical: members by name, none twice, none empty. */
static void compose(
	struct buf *b, const struct core *c, const struct audit_entry *e, const struct counted *many)
{
	char at[CLOCK_TEXT_SIZE];

	clock_format(clock_wall_us(), at);
	buf_add_text(b, "{");
	add_text(b, "about", e->about);
	add_text(b, "at", at);
	add_text(b, "capability", e->capability);
	add_text(b, "code", e->code);
	if (many != NULL)
		add_int(b, "count", (int64_t)many->count);
	add_int(b, "n", c->audit.count + 1);
	add_text(b, "outcome", e->outcome);
	add_text(b, "policy", e->policy != NULL ? e->policy : c->policy->hash);
	add_text(b, "policy_before", e->policy_before);
	add_text(b, "request", e->request);
	add_text(b, "risk", e->risk);
	add_text(b, "rules", e->rules);
	add_text(b, "session", e->session);
	add_text(b, "since", many != NULL ? many->since : NULL);
	add_text(b, "task", e->task);
	if (e->has_uid)
		add_int(b, "uid", e->uid);
	add_text(b, "user", e->user);
	add_text(b, "what", e->what);
	add_text(b, "who", e->who);
	add_text(b, "why", e->why);
	buf_add_text(b, "}");
}

static void put(struct core *c, const struct audit_entry *e, const struct counted *many)
{
	struct audit *a = &c->audit;
	struct buf b = {0};

	compose(&b, c, e, many);
	audit_link(a->head, b.data, b.size, a->head);
	a->count++;
	store_put_audit(c->store, a->count, b.data, b.size, a->head);
	CRASH_POINT(audit_put);
	a->is_unsaved = true;
	buf_fini(&b);
}

void audit_put(struct core *c, const struct audit_entry *e)
{
	put(c, e, NULL);
}

/* ---- refusals ---- */

static struct audit_slot *find_slot(struct audit *a, const char *kind)
{
	struct audit_slot *unused = NULL;

	for (int i = 0; i < AUDIT_SLOTS; i++) {
		struct audit_slot *s = &a->slots[i];

		if (s->is_used && strcmp(s->kind, kind) == 0)
			return s;
		if (!s->is_used && unused == NULL)
			unused = s;
	}
	return unused != NULL ? unused : &a->slots[AUDIT_SLOTS];
}

void audit_put_refusal(struct core *c, const struct audit_entry *e, const char *counted_with)
{
	struct audit *a = &c->audit;
	uint64_t times = e->times > 0 ? e->times : 1;
	char kind[sizeof a->slots->kind];
	struct audit_slot *s;

	snprintf(kind, sizeof kind, "%s %s %lld %s", e->what, e->code != NULL ? e->code : "",
		(long long)(e->has_uid ? e->uid : -1), counted_with != NULL ? counted_with : "");
	s = find_slot(a, kind);
	if (s->is_used && s->rows < s->most) {
		s->rows++;
		put(c, e, NULL);
		return;
	}
	if (s->is_used && s->count == 0)
		s->since_us = clock_wall_us();
	if (s->is_used) {
		s->count += times;
		return;
	}
	*s = (struct audit_slot){.is_used = true,
		.count = times - 1,
		.rows = 1,
		.most = e->rows > 0 ? e->rows : 1,
		.since_us = clock_wall_us(),
		.has_uid = e->has_uid,
		.uid = e->uid};
	snprintf(s->kind, sizeof s->kind, "%s", kind);
	if (s != &a->slots[AUDIT_SLOTS]) {
		snprintf(s->what, sizeof s->what, "%s", e->what);
		snprintf(s->code, sizeof s->code, "%s", e->code != NULL ? e->code : "");
		snprintf(s->user, sizeof s->user, "%s", e->user != NULL ? e->user : "");
		snprintf(s->who, sizeof s->who, "%s", e->who != NULL ? e->who : "");
		if (e->session != NULL && counted_with != NULL && strcmp(e->session, counted_with) == 0) {
			snprintf(s->session, sizeof s->session, "%s", e->session);
			snprintf(s->capability, sizeof s->capability, "%s",
				e->capability != NULL ? e->capability : "");
		}
	} else {
		snprintf(s->what, sizeof s->what,
			"many"); /* more kinds than there are slots: the last slot counts all others */
		s->has_uid = false;
	}
	put(c, e, NULL);
	if (!timer_is_set(&a->minute))
		timer_set(&c->timers, &a->minute, clock_boot_us() + MINUTE_US);
}

void audit_flush(struct core *c)
{
	struct audit *a = &c->audit;
	bool has_any = false;

	for (int i = 0; i <= AUDIT_SLOTS; i++) {
		struct audit_slot *s = &a->slots[i];
		struct audit_entry e = {.what = s->what,
			.outcome = "refused",
			.who = s->who,
			.user = s->user,
			.has_uid = s->has_uid,
			.uid = s->uid,
			.code = s->code,
			.session = s->session,
			.capability = s->capability,
			.about = "more of the same within a minute; who is the first one's"};
		char since[CLOCK_TEXT_SIZE];

		if (s->count == 0)
			s->is_used = false;
		if (!s->is_used)
			continue;
		clock_format(s->since_us, since);
		put(c, &e, &(struct counted){s->count, since});
		s->is_used = s->count >= s->most; /* still too many of its kind for a row each */
		s->count = 0;
		has_any = true;
	}
	timer_cancel(&c->timers, &a->minute);
	if (has_any)
		timer_set(&c->timers, &a->minute, clock_boot_us() + MINUTE_US);
}

static void on_minute(struct timer *t)
{
	audit_flush(container_of(container_of(t, struct audit, minute), struct core, audit));
}

/* ---- lifecycle ---- */

void audit_end_turn(struct core *c)
{
	if (!c->audit.is_unsaved)
		return;
	c->audit.is_unsaved = false;
	store_save_audit_head(c->store, c->audit.count, c->audit.head);
}

/* This daemon never wrote row numbers so large: such rows are damage, and the chain does not go on behind
 * them. */
#define LAST_MAX (INT64_C(1) << 53)

/* A broken chain is continued and never repaired, so that the gap stays visible. */
int audit_init(struct core *c, char *why, size_t why_size)
{
	struct audit *a = &c->audit;
	struct store_audit_end end;
	char about[200];

	a->minute.on_due = on_minute;
	a->slots = xcalloc(AUDIT_SLOTS + 1, sizeof *a->slots);
	audit_genesis(store_instance(c->store), a->head);
	if (store_find_audit_end(c->store, &end) < 0) {
		snprintf(why, why_size, "the audit in the store cannot be read: %s", store_error(c->store));
		return -1;
	}
	if (end.last > end.count && end.last < LAST_MAX) {
		a->count = end.last;
		memcpy(a->head, end.last_hash, sizeof a->head);
	} else if (end.count > 0) {
		a->count = end.count;
		memcpy(a->head, end.head, sizeof a->head);
	}
	log_info("audit: rows=%lld head=%s", (long long)a->count, a->head);
	if (end.lacked_triggers)
		audit_put(c,
			&(struct audit_entry){.what = "audit",
				.outcome = "done",
				.who = "daemon",
				.code = "triggers_missing",
				.about = "somebody took the triggers away that keep rows from being changed; "
					 "they were made again"});
	if (end.last == end.count && strcmp(end.last_hash, end.head) == 0 && !end.has_strays)
		return 0;
	snprintf(about, sizeof about, "the store had rows up to %lld and a head of %lld%s",
		(long long)end.last, (long long)end.count,
		end.has_strays ? ", and rows before the first" : "");
	log_error("ALARM: the audit was changed from outside, see hcpctl audit verify: %s", about);
	audit_put(c,
		&(struct audit_entry){.what = "audit",
			.outcome = "refused",
			.who = "daemon",
			.code = "chain_broken",
			.about = about});
	return 0;
}

void audit_fini(struct core *c)
{
	timer_cancel(&c->timers, &c->audit.minute);
	free(c->audit.slots);
	c->audit.slots = NULL;
}
