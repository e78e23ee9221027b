/* SPDX-License-Identifier: MIT */
/* read.c: the store's queries. They see what was committed, never the batch.
 * Owns nothing; each statement is reset before its function returns. Never writes. */
#include "store/store_private.h"

#include <stdio.h>
#include <string.h>

#include "json/text.h"

static const char *text(sqlite3_stmt *st, int n)
{
	return (const char *)sqlite3_column_text(st, n);
}

/* From here on the turn's reads are one transaction with its commit: each transaction of its own costs four
 * locks. For reads only that store_run or store_end_reads follows in the same turn. Where it fails, each read
 * has its own. */
static void begin_reads(struct store *s)
{
	if (!sqlite3_get_autocommit(s->db))
		return;
	(void)sqlite3_step(s->st[ST_BEGIN_READS]);
	sqlite3_reset(s->st[ST_BEGIN_READS]);
}

/* After a failure, too: the next read sees the store anew. */
void store_end_reads(struct store *s)
{
	if (sqlite3_get_autocommit(s->db))
		return;
	(void)sqlite3_step(s->st[ST_ROLLBACK]);
	sqlite3_reset(s->st[ST_ROLLBACK]);
}

static int finish(struct store *s, sqlite3_stmt *st, int rc)
{
	sqlite3_reset(st);
	if (rc == SQLITE_DONE || rc == SQLITE_ROW)
		return 0;
	s->is_damaged = (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB;
	snprintf(
		s->error, sizeof s->error, "%s (%d)", sqlite3_errmsg(s->db), sqlite3_extended_errcode(s->db));
	store_end_reads(s);
	return -1;
}

/* SQLite reports a page that the disk failed to read as malformed. A page that is really malformed is so the
 * second time too; only then is the file damaged. */
static int step_row(sqlite3_stmt *st)
{
	int rc = sqlite3_step(st);

	if ((rc & 0xff) != SQLITE_CORRUPT)
		return rc;
	sqlite3_reset(st);
	return sqlite3_step(st);
}

int64_t store_find_answer(struct store *s, int64_t caller, const char *message_id)
{
	sqlite3_stmt *st = s->st[ST_FIND_ANSWER];
	int64_t answer = STORE_UNSEEN;
	int rc;

	begin_reads(s);
	sqlite3_bind_int64(st, 1, caller);
	sqlite3_bind_text(st, 2, message_id, -1, SQLITE_STATIC);
	if ((rc = step_row(st)) == SQLITE_ROW)
		answer = sqlite3_column_int64(st, 0);
	return finish(s, st, rc) < 0 ? STORE_UNREADABLE : answer;
}

/* The result of a query for one row; its columns were read already where rc is SQLITE_ROW. */
static int one_row(struct store *s, sqlite3_stmt *st, int rc)
{
	return finish(s, st, rc) < 0 ? -1 : rc == SQLITE_ROW;
}

int store_find_caller(
	struct store *s, const char *caller_id, int64_t *key, int64_t *confirmed, int64_t *last_event)
{
	sqlite3_stmt *st = s->st[ST_FIND_CALLER];
	int rc;

	sqlite3_bind_text(st, 1, caller_id, -1, SQLITE_STATIC);
	if ((rc = step_row(st)) == SQLITE_ROW) {
		*key = sqlite3_column_int64(st, 0);
		*confirmed = sqlite3_column_int64(st, 1);
		*last_event = sqlite3_column_int64(st, 2);
	}
	return one_row(s, st, rc);
}

int store_find_session(struct store *s, const char *session_id, char state[16])
{
	sqlite3_stmt *st = s->st[ST_FIND_SESSION];
	int rc;

	sqlite3_bind_text(st, 1, session_id, -1, SQLITE_STATIC);
	if ((rc = step_row(st)) == SQLITE_ROW)
		snprintf(state, 16, "%s", text(st, 0));
	return one_row(s, st, rc);
}

/* The value may have been changed by hand: a text that is no number and hash counts as none. */
int store_find_audit_end(struct store *s, struct store_audit_end *out)
{
	sqlite3_stmt *st = s->st[ST_FIND_AUDIT_END];
	long long count = 0;
	int rc;

	memset(out, 0, sizeof *out);
	out->lacked_triggers = s->lacked_triggers;
	if ((rc = step_row(st)) == SQLITE_ROW) {
		out->last = sqlite3_column_int64(st, 0);
		out->has_strays = sqlite3_column_int64(st, 3) != 0;
		if (text(st, 1) != NULL)
			snprintf(out->last_hash, sizeof out->last_hash, "%s", text(st, 1));
		if (text(st, 2) != NULL && sscanf(text(st, 2), "%lld %64[0-9a-f]", &count, out->head) == 2 &&
			count > 0)
			out->count = count;
		else
			out->head[0] = '\0';
	}
	return one_row(s, st, rc);
}

static int load_text(struct store *s, enum statement which, int64_t key, struct buf *out)
{
	sqlite3_stmt *st = s->st[which];
	int rc;

	sqlite3_bind_int64(st, 1, key);
	if ((rc = step_row(st)) == SQLITE_ROW) {
		const char *t = text(st, 0);

		buf_add(out, t, (size_t)sqlite3_column_bytes(st, 0));
	}
	return one_row(s, st, rc);
}

int store_load_task(struct store *s, int64_t session, struct buf *out)
{
	begin_reads(s);
	return load_text(s, ST_LOAD_TASK, session, out);
}

int store_load_outcome(struct store *s, int64_t session, struct buf *out)
{
	return load_text(s, ST_LOAD_OUTCOME, session, out);
}

int64_t store_next_checkpoint(struct store *s, int64_t session, int64_t before)
{
	sqlite3_stmt *st = s->st[ST_NEXT_CHECKPOINT];
	int64_t row = 0;
	int rc;

	sqlite3_bind_int64(st, 1, session);
	sqlite3_bind_int64(st, 2, before);
	if ((rc = step_row(st)) == SQLITE_ROW)
		row = sqlite3_column_int64(st, 0); /* NULL where there is none: 0 */
	return one_row(s, st, rc) < 0 ? -1 : row;
}

int store_find_newest(struct store *s, int64_t session, char checkpoint_id[ID_SIZE])
{
	sqlite3_stmt *st = s->st[ST_FIND_NEWEST];
	int rc;

	sqlite3_bind_int64(st, 1, session);
	if ((rc = step_row(st)) == SQLITE_ROW)
		snprintf(checkpoint_id, ID_SIZE, "%s", text(st, 0) != NULL ? text(st, 0) : "");
	return one_row(s, st, rc);
}

int64_t store_find_checkpoint(struct store *s, const char *checkpoint_id)
{
	sqlite3_stmt *st = s->st[ST_FIND_CHECKPOINT];
	int64_t row = 0;
	int rc;

	sqlite3_bind_text(st, 1, checkpoint_id, -1, SQLITE_STATIC);
	if ((rc = step_row(st)) == SQLITE_ROW)
		row = sqlite3_column_int64(st, 0);
	return one_row(s, st, rc) < 0 ? -1 : row;
}

static void take_word(sqlite3_stmt *st, int n, char *out, size_t size)
{
	const char *word = text(st, n);

	snprintf(out, size, "%s", word != NULL ? word : "");
}

/* The column may have been changed by hand: it can hold text or bytes. */
static void take_bytes(sqlite3_stmt *st, int n, struct buf *out)
{
	const void *bytes =
		sqlite3_column_type(st, n) == SQLITE_BLOB ? sqlite3_column_blob(st, n) : text(st, n);

	if (bytes != NULL)
		buf_add(out, bytes, (size_t)sqlite3_column_bytes(st, n));
}

int store_is_large_checkpoint(struct store *s, int64_t row, int64_t most)
{
	sqlite3_stmt *st = s->st[ST_FIND_LARGE];

	sqlite3_bind_int64(st, 1, row);
	sqlite3_bind_int64(st, 2, most);
	return one_row(s, st, step_row(st));
}

int store_load_checkpoint(struct store *s, int64_t row, struct store_kept *out)
{
	sqlite3_stmt *st = s->st[ST_LOAD_CHECKPOINT];
	int rc;

	store_kept_clear(out);
	sqlite3_bind_int64(st, 1, row);
	if ((rc = step_row(st)) == SQLITE_ROW) {
		out->row = sqlite3_column_int64(st, 0);
		out->session = sqlite3_column_int64(st, 1);
		out->base = sqlite3_column_int64(st, 2);
		out->whole_size = sqlite3_column_int64(st, 3);
		take_word(st, 4, out->checkpoint_id, sizeof out->checkpoint_id);
		take_word(st, 5, out->encoding, sizeof out->encoding);
		take_word(st, 6, out->sha256, sizeof out->sha256);
		take_word(st, 7, out->seal, sizeof out->seal);
		take_word(st, 8, out->state_version, sizeof out->state_version);
		out->resumable = sqlite3_column_int64(st, 9) != 0;
		take_bytes(st, 10, &out->description);
		take_bytes(st, 11, &out->step);
		if (out->step.size == 0)
			buf_add_text(&out->step, "null");
		take_bytes(st, 12, &out->state);
		take_word(st, 13, out->created_at, sizeof out->created_at);
	}
	return one_row(s, st, rc);
}

int store_find_last_event_time(struct store *s, int64_t session, char at[STORE_WORD_SIZE])
{
	sqlite3_stmt *st = s->st[ST_FIND_LAST_EVENT];
	int rc;

	at[0] = '\0';
	sqlite3_bind_int64(st, 1, session);
	if ((rc = step_row(st)) == SQLITE_ROW) {
		const char *body = text(st, 0);
		struct jslice time = jtext_member(body, strlen(body), "timestamp");

		if (time.at != NULL && time.size > 2 &&
			time.size - 2 < STORE_WORD_SIZE) /* without its quotes */
			snprintf(at, STORE_WORD_SIZE, "%.*s", (int)time.size - 2, time.at + 1);
	}
	return one_row(s, st, rc);
}

void store_kept_clear(struct store_kept *k)
{
	struct store_kept empty = {.description = k->description, .step = k->step, .state = k->state};

	buf_clear(&empty.description);
	buf_clear(&empty.step);
	buf_clear(&empty.state);
	*k = empty;
}

void store_kept_fini(struct store_kept *k)
{
	buf_fini(&k->description);
	buf_fini(&k->step);
	buf_fini(&k->state);
}

int store_load_review(
	struct store *s, const char *request_id, int64_t *session, char state[24], struct buf *artifact)
{
	sqlite3_stmt *st = s->st[ST_LOAD_REVIEW];
	int rc;

	sqlite3_bind_text(st, 1, request_id, -1, SQLITE_STATIC);
	if ((rc = step_row(st)) == SQLITE_ROW) {
		const char *bytes = text(st, 2);

		*session = sqlite3_column_int64(st, 0);
		snprintf(state, 24, "%s", text(st, 1));
		buf_add(artifact, bytes, (size_t)sqlite3_column_bytes(st, 2));
	}
	return one_row(s, st, rc);
}

int store_find_open_review(
	struct store *s, int64_t session, char request_id[STORE_WORD_SIZE], char expires_at[STORE_WORD_SIZE])
{
	sqlite3_stmt *st = s->st[ST_FIND_OPEN_REVIEW];
	int rc;

	sqlite3_bind_int64(st, 1, session);
	if ((rc = step_row(st)) == SQLITE_ROW) {
		snprintf(request_id, STORE_WORD_SIZE, "%s", text(st, 0));
		snprintf(expires_at, STORE_WORD_SIZE, "%s", text(st, 1));
	}
	return one_row(s, st, rc);
}

int store_find_approval(struct store *s, int64_t session)
{
	sqlite3_stmt *st = s->st[ST_FIND_APPROVED_REVIEW];

	sqlite3_bind_int64(st, 1, session);
	return one_row(s, st, step_row(st));
}

int store_find_nonce(struct store *s, const char *nonce, const char *signer)
{
	sqlite3_stmt *st = s->st[ST_FIND_NONCE];

	sqlite3_bind_text(st, 1, nonce, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 2, signer, -1, SQLITE_STATIC);
	return one_row(s, st, step_row(st));
}

int store_find_snapshot(
	struct store *s, int64_t session, const char *snapshot_id, char sha256[65], struct buf *created_at)
{
	sqlite3_stmt *st = s->st[ST_FIND_SNAPSHOT];
	int rc;

	sqlite3_bind_int64(st, 1, session);
	sqlite3_bind_text(st, 2, snapshot_id, -1, SQLITE_STATIC);
	if ((rc = step_row(st)) == SQLITE_ROW) {
		snprintf(sha256, 65, "%s", text(st, 0));
		buf_add_text(created_at, text(st, 1));
	}
	return one_row(s, st, rc);
}

int store_find_last_harp(struct store *s, int64_t session, struct buf *out)
{
	sqlite3_stmt *st = s->st[ST_FIND_LAST_HARP];
	int rc;

	sqlite3_bind_int64(st, 1, session);
	if ((rc = step_row(st)) == SQLITE_ROW)
		buf_add_text(out, text(st, 0));
	return one_row(s, st, rc);
}

int store_load_votes(struct store *s, const char *request_id, store_vote_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_VOTES];
	int rc;

	sqlite3_bind_text(st, 1, request_id, -1, SQLITE_STATIC);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		fn(ctx, text(st, 0), text(st, 1));
	return finish(s, st, rc);
}

int store_load_artifacts(struct store *s, int64_t session, store_artifact_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_ARTIFACTS];
	int rc;

	sqlite3_bind_int64(st, 1, session);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		const struct store_artifact a = {
			.session = session,
			.name = text(st, 0),
			.type = text(st, 1),
			.path = text(st, 2),
			.size_bytes =
				sqlite3_column_type(st, 3) != SQLITE_NULL ? sqlite3_column_int64(st, 3) : -1,
			.sha256 = text(st, 4),
		};

		fn(ctx, &a);
	}
	return finish(s, st, rc);
}

int store_load_callers(struct store *s, store_caller_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_CALLERS];
	int rc;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		fn(ctx, sqlite3_column_int64(st, 0), text(st, 1), sqlite3_column_int64(st, 2),
			sqlite3_column_int64(st, 3), sqlite3_column_int64(st, 4));
	return finish(s, st, rc);
}

int store_load_live(struct store *s, store_session_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_LIVE];
	struct store_session row;
	int rc;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		store_read_session(st, &row);
		fn(ctx, &row);
	}
	return finish(s, st, rc);
}

int store_load_backlog(struct store *s, int64_t caller, int64_t after, store_backlog_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_BACKLOG];
	int rc;

	sqlite3_bind_int64(st, 1, caller);
	sqlite3_bind_int64(st, 2, after);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		fn(ctx, sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1));
	return finish(s, st, rc);
}

static int load_events(struct store *s, sqlite3_stmt *st, store_event_fn *fn, void *ctx)
{
	int rc;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct store_event e = {
			.id = sqlite3_column_int64(st, 0),
			.session = sqlite3_column_int64(st, 1),
			.session_id = text(st, 2),
			.caller = sqlite3_column_int64(st, 3),
			.type = text(st, 4),
			.sequence = sqlite3_column_int64(st, 5),
			.event_type = text(st, 6),
			.bytes = text(st, 7),
		};

		e.size = (size_t)sqlite3_column_bytes(st, 7);
		if (!fn(ctx, &e))
			break;
	}
	return finish(s, st, rc);
}

int store_load_events(
	struct store *s, int64_t caller, int64_t after, int limit, store_event_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_EVENTS];

	sqlite3_bind_int64(st, 1, caller);
	sqlite3_bind_int64(st, 2, after);
	sqlite3_bind_int(st, 3, limit);
	return load_events(s, st, fn, ctx);
}

int store_load_unroutable(
	struct store *s, int64_t caller, int64_t after, int limit, store_event_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_UNROUTABLE];

	sqlite3_bind_int64(st, 1, caller);
	sqlite3_bind_int64(st, 2, after);
	sqlite3_bind_int(st, 3, limit);
	return load_events(s, st, fn, ctx);
}

int store_find_replay(struct store *s, const char *session_id, int64_t from, struct store_replay *out)
{
	sqlite3_stmt *st = s->st[ST_FIND_REPLAY];
	int rc;

	sqlite3_bind_text(st, 1, session_id, -1, SQLITE_STATIC);
	sqlite3_bind_int64(st, 2, from);
	if ((rc = step_row(st)) == SQLITE_ROW) {
		out->session = sqlite3_column_int64(st, 0);
		snprintf(out->caller_id, sizeof out->caller_id, "%s", text(st, 1));
		snprintf(out->state, sizeof out->state, "%s", text(st, 2));
		out->first = sqlite3_column_int64(st, 3);
		out->last = sqlite3_column_int64(st, 4);
		out->count = sqlite3_column_int64(st, 5);
	}
	return one_row(s, st, rc);
}

int store_load_replay(struct store *s, int64_t session, int64_t after, int64_t upto, int limit,
	store_event_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_REPLAY];

	sqlite3_bind_int64(st, 1, session);
	sqlite3_bind_int64(st, 2, after);
	sqlite3_bind_int64(st, 3, upto);
	sqlite3_bind_int(st, 4, limit);
	return load_events(s, st, fn, ctx);
}

int store_load_results(struct store *s, int64_t session, int rows, store_event_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_RESULTS];

	sqlite3_bind_int64(st, 1, session);
	sqlite3_bind_int(st, 2, rows);
	return load_events(s, st, fn, ctx);
}

int store_load_event(struct store *s, int64_t id, store_event_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_EVENT];

	sqlite3_bind_int64(st, 1, id);
	return load_events(s, st, fn, ctx);
}

int store_load_answers(
	struct store *s, int64_t after, int64_t upto, int limit, store_answer_fn *fn, void *ctx)
{
	sqlite3_stmt *st = s->st[ST_LOAD_ANSWERS];
	int rc;

	sqlite3_bind_int64(st, 1, after);
	sqlite3_bind_int64(st, 2, upto);
	sqlite3_bind_int(st, 3, limit);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		const struct store_answer a = {.id = sqlite3_column_int64(st, 0),
			.caller = sqlite3_column_int64(st, 1),
			.message_id = text(st, 2),
			.is_settled = sqlite3_column_int(st, 3) != 0,
			.is_unroutable = sqlite3_column_int(st, 4) != 0,
			.is_remembered = sqlite3_column_int(st, 5) != 0,
			.caller_id = text(st, 6)};

		if (!fn(ctx, &a))
			break;
	}
	return finish(s, st, rc);
}

int64_t store_count_answers(struct store *s)
{
	sqlite3_stmt *st = s->st[ST_COUNT_ANSWERS];
	int64_t count = 0;
	int rc;

	if ((rc = step_row(st)) == SQLITE_ROW)
		count = sqlite3_column_int64(st, 0);
	return one_row(s, st, rc) < 0 ? -1 : count;
}

bool store_has_old_submits(struct store *s, int64_t after, int64_t upto, const char *before)
{
	sqlite3_stmt *st = s->st[ST_FIND_OLD_SUBMIT];
	bool found;

	sqlite3_bind_int64(st, 1, after);
	sqlite3_bind_int64(st, 2, upto);
	sqlite3_bind_text(st, 3, before, -1, SQLITE_STATIC);
	found = sqlite3_step(st) == SQLITE_ROW;
	sqlite3_reset(st);
	return found;
}

bool store_is_damaged(const struct store *s)
{
	return s->is_damaged;
}

bool store_is_readable(struct store *s)
{
	return one_row(s, s->st[ST_CHECK_READABLE], sqlite3_step(s->st[ST_CHECK_READABLE])) == 1;
}

int64_t store_last_submit(struct store *s)
{
	sqlite3_stmt *st = s->st[ST_LAST_SUBMIT];
	int64_t id = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;

	sqlite3_reset(st);
	return id;
}

int store_find_last_checkpoint(struct store *s, int64_t session, char checkpoint_id[ID_SIZE],
	struct buf *description, struct buf *step)
{
	sqlite3_stmt *st = s->st[ST_LAST_CHECKPOINT];
	int rc;

	sqlite3_bind_int64(st, 1, session);
	if ((rc = step_row(st)) == SQLITE_ROW) {
		take_word(st, 0, checkpoint_id, ID_SIZE);
		take_bytes(st, 1, description);
		take_bytes(st, 2, step);
		if (step->size == 0)
			buf_add_text(step, "null");
	}
	return one_row(s, st, rc);
}

int store_find_owner(struct store *s, int64_t session, struct store_owner *out)
{
	sqlite3_stmt *st = s->st[ST_FIND_OWNER];
	int rc;

	memset(out, 0, sizeof *out);
	sqlite3_bind_int64(st, 1, session);
	if ((rc = step_row(st)) == SQLITE_ROW) {
		take_word(st, 0, out->session_id, sizeof out->session_id);
		take_word(st, 1, out->caller_id, sizeof out->caller_id);
		take_word(st, 2, out->capability, sizeof out->capability);
		take_word(st, 3, out->state, sizeof out->state);
		take_word(st, 4, out->data_class, sizeof out->data_class);
	}
	return one_row(s, st, rc);
}

int store_load_continuity(struct store *s, const char *session_id, const char *caller_id, struct buf *out,
	char data_class[STORE_CLASS_SIZE])
{
	sqlite3_stmt *st = s->st[ST_LOAD_CONTINUITY];
	int rc;

	sqlite3_bind_text(st, 1, session_id, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 2, caller_id, -1, SQLITE_STATIC);
	if ((rc = step_row(st)) == SQLITE_ROW) {
		take_bytes(st, 0, out);
		take_word(st, 1, data_class, STORE_CLASS_SIZE);
	}
	return one_row(s, st, rc);
}

int store_load_recent(struct store *s, int64_t session, const char *caller_id, const char *capability,
	int count, size_t most, struct buf *out)
{
	sqlite3_stmt *st = s->st[ST_LOAD_RECENT];
	struct buf record = {0};
	int rc;

	sqlite3_bind_int64(st, 1, session);
	sqlite3_bind_text(st, 2, caller_id, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 3, capability, -1, SQLITE_STATIC);
	for (rc = step_row(st); rc == SQLITE_ROW && count > 0; rc = sqlite3_step(st)) {
		if (sqlite3_column_type(st, 0) == SQLITE_NULL)
			continue; /* of a higher class */
		count--;
		buf_clear(&record);
		take_bytes(st, 0, &record);
		if (out->size + record.size > most)
			break;
		if (out->size > 0)
			buf_add_text(out, ",");
		buf_add(out, record.data, record.size);
	}
	buf_fini(&record);
	return one_row(s, st, rc) < 0 ? -1 : 0;
}
