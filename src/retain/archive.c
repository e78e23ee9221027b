/* SPDX-License-Identifier: MIT */
/* archive.c: writes sessions into the archive, and deletes old archives.
 * Owns the archive's directory. A file's length counts only after the store has committed it; the next
 * append removes bytes behind it. Never deletes a file that the store does not know: a file without a row is
 * renamed. */
#include "retain/retain_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/artifact_store.h"
#include "base/crashpoint.h"
#include "base/log.h"

#define GROUP_BYTES (4 * 1024 * 1024) /* of text; then the group is closed */
#define SECOND INT64_C(1000000)
#define NONCE_US (600 * SECOND) /* how long a decision is remembered beyond its expiry */

enum { NOT_NOW = -1, NOT_THAT_DAY = -2 };

/* ---- the directory ---- */

/* The directory's name is on the disk before anything in it counts. */
static int make_dir(const char *state_dir, const char *path)
{
	int state, rc;

	if (mkdir(path, 0700) < 0)
		return errno == EEXIST ? 0 : -1;
	if ((state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return -1;
	rc = fsync(state);
	close(state);
	return rc;
}

static int open_dir(struct retain *r)
{
	char path[4096];

	if (r->dir_fd >= 0)
		return r->dir_fd;
	snprintf(path, sizeof path, "%s/" ARCHIVE_DIR, r->state_dir);
	if (make_dir(r->state_dir, path) < 0) {
		retain_add_trouble(r,
			"no archive can be made, sessions stay in the store: dir=%.200s error=%s", path,
			strerror(errno));
		return -1;
	}
	r->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r->dir_fd < 0)
		retain_add_trouble(r,
			"the archive cannot be used, sessions stay in the store: dir=%.200s error=%s", path,
			strerror(errno));
	return r->dir_fd;
}

void retain_close_dir(struct retain *r)
{
	if (r->dir_fd >= 0)
		close(r->dir_fd);
	r->dir_fd = -1;
}

static void name_file(const char *day, char name[ARCHIVE_DAY_SIZE + sizeof ARCHIVE_SUFFIX])
{
	snprintf(name, ARCHIVE_DAY_SIZE + sizeof ARCHIVE_SUFFIX, "%.10s" ARCHIVE_SUFFIX, day);
}

static void add_write_trouble(struct retain *r, const char *day, const char *why)
{
	retain_add_trouble(
		r, "the archive cannot be written, sessions stay in the store: day=%s error=%s", day, why);
}

/* A day's file that the store does not know is not ours: it is neither written to nor deleted. */
static int move_aside(struct retain *r, const char *day)
{
	char name[ARCHIVE_DAY_SIZE + sizeof ARCHIVE_SUFFIX], aside[96];

	name_file(day, name);
	if (faccessat(r->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -1;
	snprintf(aside, sizeof aside, "%s.found-%lld", name, (long long)(r->now_us / SECOND));
	log_warn("the archive has a file that the store does not know, moving it aside: name=%s to=%s", name,
		aside);
	return renameat(r->dir_fd, name, r->dir_fd, aside);
}

/* From now on the day has a row, with length 0. */
static bool begin_day(struct retain *r, const char *day)
{
	if (move_aside(r, day) < 0) {
		add_write_trouble(r, day, strerror(errno));
		return false;
	}
	snprintf(r->order.day, sizeof r->order.day, "%s", day);
	r->order.size = r->order.sessions = 0;
	CRASH_POINT(retain_day_begins);
	return retain_commit_order(r);
}

/* ---- a session's rows ---- */

struct packing {
	struct retain *r;
	struct archive_writer *w;
	const char *table;
	int64_t bytes; /* of the group */
	bool failed;
};

static bool pack_row(void *ctx, sqlite3_stmt *st, int64_t row)
{
	struct packing *p = ctx;
	struct buf *b = &p->r->line;

	(void)row;
	buf_clear(b);
	retain_add_row(b, p->table, st);
	p->bytes += (int64_t)b->size;
	p->failed = archive_add(p->w, b->data, b->size) < 0;
	return !p->failed;
}

static int pack_table(struct packing *p, const char *table, int64_t session)
{
	int64_t at = 0;
	int n;

	p->table = table;
	do {
		n = retain_each_row(p->r->reader, table, session, &at, SLICE_ROWS, pack_row, p);
	} while (n == SLICE_ROWS && !p->failed && !atomic_load(&p->r->is_stopping));
	return n < 0 || p->failed || atomic_load(&p->r->is_stopping) ? -1 : 0;
}

static int pack_session(struct packing *p, const struct retain_candidate *c)
{
	const struct store_owned *owned = &p->r->owned;
	char first[256];
	int size = snprintf(first, sizeof first,
		"{\"archive\":1,\"session_id\":\"%s\",\"ended_at\":\"%s\",\"hcpd\":\"%s\"}\n",
		c->who.session_id, c->ended_at, HCPD_VERSION);

	if (archive_begin_entry(p->w, c->who.session_id) < 0 || archive_add(p->w, first, (size_t)size) < 0 ||
		pack_table(p, "sessions", c->who.session) < 0)
		return -1;
	for (int i = 0; i < owned->count; i++)
		if (pack_table(p, owned->tables[i], c->who.session) < 0)
			return -1;
	return archive_end_entry(p->w);
}

/* ---- a group: of one day ---- */

/* 1: it may leave, 0: not yet, -1. */
static int may_leave(struct retain *r, const struct retain_candidate *c)
{
	char nonces[CLOCK_TEXT_SIZE], unroutable[CLOCK_TEXT_SIZE] = "";

	clock_format(r->now_us - NONCE_US, nonces);
	if (r->now.expire_us > 0)
		clock_format(r->now_us - r->now.expire_us, unroutable);
	return retain_may_leave(r->reader, c->who.session, nonces, strcmp(c->ended_at, unroutable) < 0);
}

/* Adds the sessions that leave to the order; moves *from to the last session that was checked. How many were
 * checked, or -1. */
static int choose(struct retain *r, struct retain_candidate *from, struct retain_candidate chosen[GROUP_MAX])
{
	struct retain_candidate found[GROUP_MAX];
	char before[CLOCK_TEXT_SIZE];
	int n, looked = 0, may;

	clock_format(r->now_us - r->now.grace_us, before);
	if ((n = retain_find_ended(r->reader, from, before, found)) < 0)
		return -1;
	for (; looked < n; looked++) {
		if (r->order.leave_count > 0 && strncmp(found[looked].ended_at, chosen[0].ended_at, 10) != 0)
			break; /* the next group is of the next day */
		if ((may = may_leave(r, &found[looked])) < 0)
			return -1;
		*from = found[looked];
		if (may > 0) {
			chosen[r->order.leave_count] = found[looked];
			r->order.leave[r->order.leave_count++] = found[looked].who;
		}
	}
	return looked;
}

/* Bytes that do not count take up room; the next append would also remove them. */
static void cut_back(struct retain *r, const char *day, int64_t size)
{
	char why[ARCHIVE_WHY_SIZE];

	archive_close(archive_append(r->dir_fd, day, size, why));
}

/* Archives the sessions of the order, or only the first of them where their text is large. A session that
 * was not archived to its end must not count. */
static int pack_chosen(struct retain *r, const struct retain_candidate *chosen, const char *day,
	struct retain_candidate *from)
{
	struct packing p = {.r = r};
	char why[ARCHIVE_WHY_SIZE] = "";
	int64_t size = 0, sessions = 0, length = -1;
	bool is_whole = true;
	int n = 0;

	if (retain_find_day(r->reader, day, &size, &sessions) < 0 ||
		!(p.w = archive_append(r->dir_fd, day, size, why))) {
		add_write_trouble(r, day, why[0] != '\0' ? why : r->reader->error);
		return why[0] != '\0' ? NOT_THAT_DAY : NOT_NOW;
	}
	for (errno = 0; is_whole && n < r->order.leave_count && p.bytes < GROUP_BYTES; n += is_whole)
		is_whole = pack_session(&p, &chosen[n]) == 0;
	if (is_whole)
		length = archive_sync(p.w);
	if (length < 0)
		snprintf(why, sizeof why, "%s", errno != 0 ? strerror(errno) : r->reader->error);
	archive_close(p.w);
	if (length < 0) {
		add_write_trouble(r, day, why);
		cut_back(r, day, size);
		return NOT_NOW;
	}
	if (n < r->order.leave_count)
		*from = chosen[n - 1]; /* the other sessions come with the next group */
	r->order.leave_count = n;
	snprintf(r->order.day, sizeof r->order.day, "%s", day);
	r->order.size = length;
	r->order.sessions = sessions + n;
	return n;
}

/* Advance past this day, so that one damaged file does not block the other days. */
static void skip_day(struct retain_candidate *from, const char *day)
{
	*from = (struct retain_candidate){.who = {0}};
	snprintf(from->ended_at, sizeof from->ended_at, "%.10sT~", day);
}

int retain_pack_group(struct retain *r, struct retain_candidate *from)
{
	struct retain_candidate chosen[GROUP_MAX];
	struct retain_who keep[GROUP_MAX];
	char day[ARCHIVE_DAY_SIZE];
	int64_t size, sessions;
	int looked = choose(r, from, chosen), count = r->order.leave_count, has, packed;

	if (looked <= 0 || count == 0) {
		r->order.leave_count = 0;
		return looked;
	}
	r->order.with_artifacts = !r->now.archives;
	if (!r->now.archives) {
		CRASH_POINT(retain_group_goes);
		return retain_commit_order(r) ? looked : NOT_NOW;
	}
	snprintf(day, sizeof day, "%.10s", chosen[0].ended_at);
	memcpy(keep, r->order.leave, sizeof keep);
	r->order.leave_count = 0;
	if (!archive_is_day(day) || open_dir(r) < 0 ||
		(has = retain_find_day(r->reader, day, &size, &sessions)) < 0)
		return NOT_NOW;
	if (has == 0 && !begin_day(r, day))
		return NOT_NOW;
	memcpy(r->order.leave, keep, sizeof keep);
	r->order.leave_count = count;
	if ((packed = pack_chosen(r, chosen, day, from)) < 0) {
		r->order.leave_count = 0;
		if (packed == NOT_THAT_DAY)
			skip_day(from, day);
		return packed == NOT_THAT_DAY ? looked : NOT_NOW;
	}
	CRASH_POINT(retain_group_packed);
	if (!retain_commit_order(r))
		return NOT_NOW;
	if (r->is_refused)
		cut_back(r, day, size);
	return looked;
}

/* ---- days that go ---- */

static bool is_known(void *ctx, const char *name)
{
	(void)ctx, (void)name;
	return false;
}

void retain_drop_artifacts(struct retain *r, const char *session_id)
{
	artifact_collect(r->state_dir, session_id, is_known, NULL);
}

/* Deletes the artifacts of all sessions in the file; a damaged file may not name all of them. */
static void drop_artifacts(struct retain *r, const char *day, int64_t size)
{
	char name[ARCHIVE_DAY_SIZE + sizeof ARCHIVE_SUFFIX], why[ARCHIVE_WHY_SIZE], fault[64] = "";
	struct archive_reader *reader;
	struct archive_entry e;
	int fd, rc;

	name_file(day, name);
	if ((fd = openat(r->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) < 0)
		return;
	reader = archive_open(fd, size);
	while ((rc = archive_next(reader, &e, why)) > 0) {
		/* The id becomes a path: ".." from a changed file would be our own directory. */
		if (!id_is_uuid4(e.session_id)) {
			snprintf(fault, sizeof fault, "the entry at byte %lld names no session",
				(long long)e.at);
			continue;
		}
		retain_drop_artifacts(r, e.session_id);
		CRASH_POINT(retain_artifacts_expired);
	}
	if (rc < 0 || fault[0] != '\0')
		log_warn("an archive that expires is damaged, some artifacts may be left: name=%s error=%s",
			name, rc < 0 ? why : fault);
	archive_free(reader);
}

/* First length 0 is committed, so that no half of the file counts; then the file is deleted, then the row. */
static bool drop_day(struct retain *r, const char *day, int64_t size)
{
	char name[ARCHIVE_DAY_SIZE + sizeof ARCHIVE_SUFFIX];

	name_file(day, name);
	if (size > 0) {
		drop_artifacts(r, day, size);
		snprintf(r->order.day, sizeof r->order.day, "%s", day);
		r->order.size = r->order.sessions = 0;
		if (!retain_commit_order(r))
			return false;
		log_info("an archive has expired: name=%s bytes=%lld", name, (long long)size);
	}
	CRASH_POINT(retain_day_counts_nothing);
	if (unlinkat(r->dir_fd, name, 0) < 0 && errno != ENOENT) {
		retain_add_trouble(r, "an archive cannot be deleted, trying again later: name=%s error=%s",
			name, strerror(errno));
		return true;
	}
	fsync(r->dir_fd);
	CRASH_POINT(retain_day_unlinked);
	snprintf(r->order.day, sizeof r->order.day, "%s", day);
	r->order.forgets_day = true;
	return retain_commit_order(r);
}

static bool drop_days(struct retain *r, const char *before, bool empty)
{
	char day[ARCHIVE_DAY_SIZE] = "", after[ARCHIVE_DAY_SIZE];
	int64_t size;

	do {
		memcpy(after, day, sizeof after);
		if (retain_next_day(r->reader, after, before, empty, day, &size) <= 0)
			return true;
	} while (archive_is_day(day) && open_dir(r) >= 0 && drop_day(r, day, size) && retain_rules_hold(r));
	return !atomic_load(&r->is_stopping);
}

bool retain_tidy_days(struct retain *r)
{
	return drop_days(r, "", true);
}

bool retain_expire_days(struct retain *r)
{
	char before[CLOCK_TEXT_SIZE];

	clock_format(r->now_us - r->now.expire_us, before);
	before[ARCHIVE_DAY_SIZE - 1] = '\0'; /* days that were over by then */
	return drop_days(r, before, false);
}
