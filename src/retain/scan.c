/* SPDX-License-Identifier: MIT */
/* scan.c: one pass over all sessions that may leave, and over the rows that earlier ones left.
 * Owns the order of the parts: what an earlier pass, or a previous run of the daemon, began is finished
 * first. Never writes to the store: it gives orders to the core. */
#include "retain/retain_private.h"

#include <stdio.h>
#include <string.h>

#include "base/crashpoint.h"
#include "base/log.h"
#include "store/retain.h"

/* SQLite reuses free pages. Only a file that has become much too large gives some back. */
#define UNUSED_MIN 256
#define UNUSED_BEGIN 8 /* an eighth of it ... */
#define UNUSED_END 32  /* ... until a thirty-second is left */

/* ---- rows of sessions that left ---- */

static bool count_row(void *ctx, sqlite3_stmt *st, int64_t row)
{
	struct retain *r = ctx;

	(void)row;
	r->slice_rows++;
	for (int i = 1; i < sqlite3_column_count(st); i++)
		r->slice_bytes += sqlite3_column_bytes(st, i);
	return r->slice_rows < SLICE_ROWS && r->slice_bytes < SLICE_BYTES;
}

static bool commit_slice(struct retain *r)
{
	r->slice_rows = 0;
	r->slice_bytes = 0;
	return retain_is_empty(r) || retain_commit_order(r);
}

/* 1: all its rows were in orders, 0: stop, -1: unreadable. */
static int drop_table(struct retain *r, int table, int64_t session, bool is_kept)
{
	int64_t at = 0;
	int n, most;

	do {
		most = SLICE_ROWS - r->slice_rows;
		n = retain_each_row(r->reader, r->owned.tables[table], session, &at, most, count_row, r);
		if (n < 0)
			return -1;
		if (n > 0)
			r->order.drops[r->order.drop_count++] =
				(struct retain_drop){table, session, at, is_kept};
		if ((r->slice_rows >= SLICE_ROWS || r->slice_bytes >= SLICE_BYTES ||
			    r->order.drop_count == DROPS_MAX) &&
			!commit_slice(r))
			return 0;
	} while (n == most || (n > 0 && r->slice_rows == 0));
	return 1;
}

static int drop_one(struct retain *r, const struct retain_who *who, bool with_artifacts)
{
	int unroutable = retain_count_unroutable(r->reader), rc;

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
	r->order.left[r->order.left_count++] = *who;
	return r->order.left_count < GROUP_MAX || commit_slice(r);
}

/* 1: no session is leaving any more, 0: stop, -1: unreadable. */
static int finish_leaving(struct retain *r)
{
	struct retain_who who[GROUP_MAX];
	bool with_artifacts[GROUP_MAX];
	int n, rc;

	while ((n = retain_find_leaving(r->reader, who, with_artifacts)) > 0) {
		CRASH_POINT(retain_leaving);
		for (int i = 0; i < n; i++)
			if ((rc = drop_one(r, &who[i], with_artifacts[i])) <= 0)
				return rc;
		if (!commit_slice(r))
			return 0;
	}
	return n < 0 ? -1 : 1;
}

/* ---- the parts of a pass: 1 continue, 0 stop, -1 unreadable ---- */

static int move_sessions_out(struct retain *r)
{
	struct retain_candidate from = {.who = {0}};
	int64_t gone = 0, before;
	int n, rc;

	if (r->now.grace_us == 0)
		return 1;
	do {
		before = r->committed;
		n = retain_pack_group(r, &from);
		retain_close_dir(r); /* an operator may move the directory between two groups */
		if (n < 0)
			return atomic_load(&r->is_stopping) ? 0 : -1;
		if ((rc = r->committed != before ? finish_leaving(r) : 1) <= 0)
			return rc;
		gone += r->committed != before;
	} while (n > 0 && !atomic_load(&r->is_stopping) && retain_rules_hold(r));
	if (gone > 0)
		log_debug("sessions have left the store: groups=%lld", (long long)gone);
	return !atomic_load(&r->is_stopping);
}

static int drop_answers(struct retain *r)
{
	char before[CLOCK_TEXT_SIZE];
	int64_t at = 0;
	int n = 0;

	/* The second round is for unroutable answers, which are kept for longer. */
	for (int too = 0; too < 2 && n >= 0; too++) {
		int64_t age = too ? r->now.expire_us : r->now.grace_us;

		if (age == 0 || r->now.grace_us == 0)
			continue;
		clock_format(r->now_us - age, before);
		do {
			n = retain_find_answers(r->reader, &at, before, too != 0, r->order.answers);
			r->order.answer_count = n > 0 ? n : 0;
			if (n > 0 && !retain_commit_order(r))
				return 0;
		} while (n >= 0 && at != 0 && !atomic_load(&r->is_stopping));
	}
	return n < 0 ? -1 : 1;
}

static int give_pages_back(struct retain *r)
{
	int64_t pages, unused, before;

	if (retain_count_pages(r->reader, &pages, &unused) < 0)
		return -1;
	if (unused < UNUSED_MIN || unused < pages / UNUSED_BEGIN)
		return 1;
	do {
		before = unused;
		r->order.vacuums = true;
		if (!retain_commit_order(r))
			return 0;
		if (retain_count_pages(r->reader, &pages, &unused) < 0)
			return -1;
		/* a store that was restored from a dump cannot shrink */
	} while (unused > pages / UNUSED_END && unused < before);
	return 1;
}

static int tidy_days(struct retain *r)
{
	return retain_tidy_days(r) && (r->now.expire_us == 0 || retain_expire_days(r));
}

/* A connection that changes no row: it only moves committed pages from the log to the file. */
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

	if (reader_open(r->state_dir, &r->reader, why, sizeof why) == 0) {
		if (store_list_owned(r->reader->db, &r->owned) == 0) {
			open_mover(r);
			return 0;
		}
		snprintf(why, sizeof why, "%s", sqlite3_errmsg(r->reader->db));
		reader_close(r->reader);
	}
	retain_add_trouble(
		r, "the store cannot be looked through for old sessions, trying again later: error=%s", why);
	return -1;
}

void retain_scan(struct retain *r)
{
	static int (*const parts[])(struct retain * r) = {
		finish_leaving, tidy_days, move_sessions_out, drop_answers, give_pages_back, NULL};
	int rc = 1;

	if (open_store(r) < 0) {
		retain_end_trouble(r);
		return;
	}
	for (int i = 0; rc > 0 && parts[i] != NULL; i++)
		rc = parts[i](r);
	if (rc < 0 && r->reader->error[0] != '\0')
		retain_add_trouble(r, "the store cannot be read for retention, trying again later: error=%s",
			r->reader->error);
	retain_end_trouble(r);
	sqlite3_close(r->mover);
	r->mover = NULL;
	reader_close(r->reader);
	retain_close_dir(r);
}
