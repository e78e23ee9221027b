/* retain_pass.c: one look at everything that may leave, and what is left of those who did.
 * Owns the order: what an earlier pass, or life, began is finished first. */
#include "retain/retain_private.h"

#include <stdio.h>
#include <string.h>

#include "base/crashpoint.h"
#include "base/log.h"
#include "store/retain.h"

/* Free pages are used again; it is a file that has become much too large that gives some back. */
#define UNUSED_MIN 256
#define UNUSED_BEGIN 8 /* an eighth of it ... */
#define UNUSED_END 32  /* ... until a thirty-second is left */

/* ---- rows of those who left ---- */

static bool count_row(void *ctx, sqlite3_stmt *st, int64_t row)
{
	struct retain *r = ctx;

	(void)row;
	r->slice_rows++;
	for (int i = 1; i < sqlite3_column_count(st); i++)
		r->slice_bytes += sqlite3_column_bytes(st, i);
	return r->slice_rows < SLICE_ROWS && r->slice_bytes < SLICE_BYTES;
}

static bool tell_slice(struct retain *r)
{
	r->slice_rows = 0;
	r->slice_bytes = 0;
	return retain_is_empty(r) || retain_tell(r);
}

/* 1 all its rows are in notes, 0 to stop, -1 unreadable. */
static int drop_table(struct retain *r, int table, int64_t session, bool is_kept)
{
	int64_t at = 0;
	int n, most;

	do {
		most = SLICE_ROWS - r->slice_rows;
		n = retain_each_row(r->query, r->owned.tables[table], session, &at, most, count_row, r);
		if (n < 0)
			return -1;
		if (n > 0)
			r->note.drops[r->note.drop_count++] =
				(struct retain_drop){table, session, at, is_kept};
		if ((r->slice_rows >= SLICE_ROWS || r->slice_bytes >= SLICE_BYTES ||
			    r->note.drop_count == DROPS_MAX) &&
			!tell_slice(r))
			return 0;
	} while (n == most || (n > 0 && r->slice_rows == 0));
	return 1;
}

static int drop_one(struct retain *r, const struct retain_who *who, bool with_artifacts)
{
	int unroutable = retain_count_unroutable(r->query), rc;

	if (unroutable < 0)
		return -1;
	for (int i = 0; i < r->owned.count; i++)
		if ((rc = drop_table(r, i, who->session,
			     unroutable > 0 && strcmp(r->owned.tables[i], "events") == 0)) <= 0)
			return rc;
	if (with_artifacts) {
		retain_drop_artifacts(r, who->session_id);
		CRASH_POINT(retain_artifacts_gone);
	}
	r->note.left[r->note.left_count++] = *who;
	return r->note.left_count < GROUP_MAX || tell_slice(r);
}

/* 1 nobody is on the way any more, 0 to stop, -1 unreadable. */
static int finish_leaving(struct retain *r)
{
	struct retain_who who[GROUP_MAX];
	bool with_artifacts[GROUP_MAX];
	int n, rc;

	while ((n = retain_find_leaving(r->query, who, with_artifacts)) > 0) {
		CRASH_POINT(retain_leaving);
		for (int i = 0; i < n; i++)
			if ((rc = drop_one(r, &who[i], with_artifacts[i])) <= 0)
				return rc;
		if (!tell_slice(r))
			return 0;
	}
	return n < 0 ? -1 : 1;
}

/* ---- the parts of a pass: 1 go on, 0 to stop, -1 unreadable ---- */

static int let_sessions_go(struct retain *r)
{
	struct retain_candidate from = {.who = {0}};
	int64_t gone = 0, before;
	int n, rc;

	if (r->now.grace_us == 0)
		return 1;
	do {
		before = r->told;
		n = retain_pack_group(r, &from);
		retain_close_dir(r); /* somebody may move it away between two of them */
		if (n < 0)
			return atomic_load(&r->is_stopping) ? 0 : -1;
		if ((rc = r->told != before ? finish_leaving(r) : 1) <= 0)
			return rc;
		gone += r->told != before;
	} while (n > 0 && !atomic_load(&r->is_stopping) && retain_rules_hold(r));
	if (gone > 0)
		log_debug("sessions have left the store: groups=%lld", (long long)gone);
	return !atomic_load(&r->is_stopping);
}

static int let_answers_go(struct retain *r)
{
	char before[CLOCK_TEXT_SIZE];
	int64_t at = 0;
	int n = 0;

	/* The second time those that nobody took: they were kept for longer. */
	for (int too = 0; too < 2 && n >= 0; too++) {
		int64_t age = too ? r->now.expire_us : r->now.grace_us;

		if (age == 0 || r->now.grace_us == 0)
			continue;
		clock_format(r->now_us - age, before);
		do {
			n = retain_find_answers(r->query, &at, before, too != 0, r->note.answers);
			r->note.answer_count = n > 0 ? n : 0;
			if (n > 0 && !retain_tell(r))
				return 0;
		} while (n >= 0 && at != 0 && !atomic_load(&r->is_stopping));
	}
	return n < 0 ? -1 : 1;
}

static int give_pages_back(struct retain *r)
{
	int64_t pages, unused, before;

	if (retain_count_pages(r->query, &pages, &unused) < 0)
		return -1;
	if (unused < UNUSED_MIN || unused < pages / UNUSED_BEGIN)
		return 1;
	do {
		before = unused;
		r->note.vacuums = true;
		if (!retain_tell(r))
			return 0;
		if (retain_count_pages(r->query, &pages, &unused) < 0)
			return -1;
	} while (unused > pages / UNUSED_END && unused < before); /* a store out of a dump has lost how to */
	return 1;
}

static int look_at_days(struct retain *r)
{
	return retain_tidy_days(r) && (r->now.expire_us == 0 || retain_expire_days(r));
}

/* A connection that changes nothing: it only moves pages that the core has committed from the log to the
 * file. */
static void open_mover(struct retain *r)
{
	char path[4096];

	snprintf(path, sizeof path, "%s/hcpd.db", r->state_dir);
	if (sqlite3_open_v2(path, &r->mover, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
		SQLITE_OK) {
		sqlite3_close(r->mover);
		r->mover = NULL;
	}
}

static int open_store(struct retain *r)
{
	char why[512];

	if (query_open(r->state_dir, &r->query, why, sizeof why) == 0) {
		if (store_list_owned(r->query->db, &r->owned) == 0) {
			open_mover(r);
			return 0;
		}
		snprintf(why, sizeof why, "%s", sqlite3_errmsg(r->query->db));
		query_close(r->query);
	}
	retain_note_trouble(
		r, "the store cannot be looked through for old sessions, trying again later: error=%s", why);
	return -1;
}

void retain_pass(struct retain *r)
{
	static int (*const parts[])(struct retain * r) = {
		finish_leaving, look_at_days, let_sessions_go, let_answers_go, give_pages_back, NULL};
	int rc = 1;

	if (open_store(r) < 0) {
		retain_end_trouble(r);
		return;
	}
	for (int i = 0; rc > 0 && parts[i] != NULL; i++)
		rc = parts[i](r);
	if (rc < 0 && r->query->error[0] != '\0')
		retain_note_trouble(r, "the store cannot be read for retention, trying again later: error=%s",
			r->query->error);
	retain_end_trouble(r);
	sqlite3_close(r->mover);
	r->mover = NULL;
	query_close(r->query);
	retain_close_dir(r);
}
