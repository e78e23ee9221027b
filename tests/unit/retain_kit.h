/* retain_kit.h: a core that only turns, the real thread and the real store, a history to be retained, and a
 * disk that fills up. */
#ifndef RETAIN_KIT_H
#define RETAIN_KIT_H

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>
#include <sqlite3.h>

#include "store/archive.h"
#include "base/clock.h"
#include "core/turn.h"
#include "core/pins.h"
#include "retain/retain.h"
#include "store/retain.h"
#include "store/archive_private.h" /* where a header has what */
#include "store/store_private.h"   /* how much a turn wrote is nobody else's business */

#define SECOND INT64_C(1000000)
#define DAY_US (86400 * SECOND)
#define WAIT_S 30

static char dir[200];
static struct core core;
static struct policy policy;
static struct config config;
static int wake_fd, turns;
static int64_t last_event;

/* What the most laborious turn did. Of its time only the processor's, and that only to be printed: it is the
 * machine's. */
static struct {
	int64_t rows, pages, cpu_us;
} worst;

/* ---- a disk that fills up ---- */

static _Atomic int writes_left = -1; /* to the archive, before it is full; -1: it never is */

/* In the place of libc's, for what is linked with this. */
ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
	char link[64], path[300];
	ssize_t n;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	path[n > 0 ? n : 0] = '\0';
	if (strstr(path, ARCHIVE_SUFFIX) != NULL && writes_left >= 0 && --writes_left < 0) {
		writes_left = 0;
		errno = ENOSPC;
		return -1;
	}
	return syscall(SYS_pwrite64, fd, data, size, at);
}

/* ---- a core that only turns ---- */

static inline void wake(void *ctx)
{
	uint64_t one = 1;

	(void)ctx;
	(void)!write(wake_fd, &one, sizeof one);
}

static inline int64_t cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * SECOND + t.tv_nsec / 1000;
}

/* Pages that were written since it was asked last. */
static inline int64_t pages_written(void)
{
	int now = 0, most;

	ck_assert_int_eq(
		sqlite3_db_status(core.store->db, SQLITE_DBSTATUS_CACHE_WRITE, &now, &most, 1), SQLITE_OK);
	return now;
}

static inline void note_most(int64_t *most, int64_t n)
{
	*most = n > *most ? n : *most;
}

static inline void turn(void)
{
	int64_t before = cpu_us(), rows = sqlite3_total_changes(core.store->db);
	struct pollfd p = {.fd = wake_fd, .events = POLLIN};
	uint64_t times;
	bool more;

	(void)pages_written();
	ck_assert_int_eq(store_run(core.store), 0);
	more = retain_step(&core);
	note_most(&worst.cpu_us, cpu_us() - before);
	note_most(&worst.rows, sqlite3_total_changes(core.store->db) - rows);
	note_most(&worst.pages, pages_written());
	turns++;
	timers_run(&core.timers, clock_boot_us());
	if (!more && poll(&p, 1, 5) > 0)
		(void)!read(wake_fd, &times, sizeof times);
}

static inline void open_store(void)
{
	char why[512];

	ck_assert_msg(store_open(dir, &core.store, why, sizeof why) == 0, "%s", why);
	core.last_session = store_last_session(core.store);
}

static inline void start(void)
{
	ck_assert_int_eq(retain_start(&core, wake, NULL, &core.retain), 0);
}

static inline void stop(void)
{
	retain_stop(core.retain);
	core.retain = NULL;
}

static inline void set_up(void)
{
	snprintf(dir, sizeof dir, "%.150s/test_retain.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	memset(&core, 0, sizeof core);
	memset(&config, 0, sizeof config);
	config.retain_grace_us = 4 * SECOND;
	config.retain_archives = true;
	config.dedup_window_us = SECOND;
	policy.config = &config;
	core.policy = &policy;
	core.state_dir = dir;
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	last_event = 0;
	turns = 0;
	writes_left = -1;
	log_set_level(LOG_LVL_ERROR);
	open_store();
	store_put_caller(core.store, 1, "alpha");
}

static inline void tear_down(void)
{
	char command[300];

	if (core.retain != NULL)
		stop();
	store_close(core.store);
	timers_fini(&core.timers);
	need_fini(&core);
	close(wake_fd);
	snprintf(command, sizeof command, "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

/* ---- looking, beside it ---- */

static inline int64_t ask(const char *sql)
{
	char path[300];
	sqlite3 *db;
	sqlite3_stmt *st;
	int64_t n;

	snprintf(path, sizeof path, "%s/hcpd.db", dir);
	ck_assert_int_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	ck_assert_msg(
		sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
	ck_assert_int_eq(sqlite3_step(st), SQLITE_ROW);
	n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	sqlite3_close(db);
	return n;
}

#define wait_until(condition) \
	do { \
		int64_t until_ = clock_boot_us() + WAIT_S * SECOND; \
		while (!(condition)) { \
			ck_assert_msg(clock_boot_us() < until_, "waited in vain for " #condition); \
			turn(); \
		} \
	} while (0)

/* Two whole looks at everything have gone by: what may leave has left. */
static inline void look_twice(void)
{
	for (int i = 0; i < 2; i++) {
		int64_t at = clock_boot_us() + 1300000;

		while (clock_boot_us() < at)
			turn();
	}
}

/* ---- making history ---- */

static inline const char *id_of(int64_t key)
{
	static char id[4][ID_SIZE];
	static unsigned next;

	snprintf(id[++next % 4], ID_SIZE, "0d2b6a0e-7c1f-4b4e-9a51-%012u", (unsigned)key % 1000000);
	return id[next % 4];
}

static inline void put_event(int64_t session, const char *type, const char *at, size_t filling)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
	int64_t id = ++last_event;
	struct store_event e = {.id = id,
		.session = session,
		.session_id = session ? id_of(session) : NULL,
		.caller = 1,
		.type = type,
		.sequence = strcmp(type, "event") == 0 ? id : 0,
		.event_type = "log"};
	struct buf b = {0};

	buf_addf(&b, "{\"timestamp\":\"%s\",\"payload\":{\"in_reply_to\":\"m-%lld\",\"x\":\"", at,
		(long long)session);
	for (size_t i = 0; i < filling; i++)
		buf_add(&b, &letters[(i * i + i / 7) % 26], 1);
	buf_add_text(&b, "\"}}");
	e.body = blob_new(b.data, b.size);
	store_put_event(core.store, &e);
	blob_unref(e.body);
	buf_fini(&b);
}

static inline void put_needing(int64_t key, const char *state, int64_t age_us, int events, size_t filling,
	const char *checkpoint_of, const char *continues)
{
	char at[CLOCK_TEXT_SIZE];
	struct store_session row = {.key = key,
		.session_id = id_of(key),
		.caller_id = "alpha",
		.capability = "c",
		.capability_version = "1.0.0",
		.state = "PENDING",
		.state_version = 1,
		.risk_level = "R1",
		.data_classification = "T1",
		.priority = "normal",
		.session_token = "t",
		.created_at = at,
		.updated_at = at,
		.max_duration_us = 1,
		.warnings = "[]",
		.checkpoint_of = checkpoint_of,
		.continues = continues};

	clock_format(clock_wall_us() - age_us, at);
	store_put_session(core.store, &row, "{\"task\":1}", 10);
	put_event(key, "task_accepted", at, 0);
	for (int i = 0; i < events; i++)
		put_event(key, "event", at, filling);
	row.state = state;
	row.state_version = 2;
	store_put_transition(core.store, &row, "RUNNING", "completed", "worker");
	store_save_session(core.store, &row);
}

static inline void put_session(int64_t key, const char *state, int64_t age_us, int events, size_t filling)
{
	put_needing(key, state, age_us, events, filling, NULL, NULL);
}

static inline void put_checkpoint(int64_t key, const char *state)
{
	struct store_checkpoint c = {.session = key,
		.session_id = id_of(key),
		.description = "d",
		.resumable = true,
		.created_at = "2026-01-01T00:00:00.000Z",
		.state = state,
		.state_size = strlen(state),
		.sha256 = "0"};

	id_make(c.checkpoint_id);
	store_put_checkpoint(core.store, &c);
}

static inline void settle(void)
{
	store_save_confirmed(core.store, 1, last_event);
	ck_assert_int_eq(store_run(core.store), 0);
}

static inline const char *path_of(const char *folder, const char *name, const char *file)
{
	static char path[400];

	snprintf(path, sizeof path, "%s/%s/%s%s", dir, folder, name, file);
	return path;
}

static inline void put_file(const char *folder, const char *name, const char *file)
{
	const char *path = path_of(folder, name, file);
	char command[1000];

	snprintf(command, sizeof command, "mkdir -p $(dirname %s) && echo x >%s", path, path);
	ck_assert_int_eq(system(command), 0);
}

static inline bool has_file(const char *folder, const char *name, const char *file)
{
	return access(path_of(folder, name, file), F_OK) == 0;
}

/* ---- the archive ---- */

static inline bool add_piece(void *ctx, const char *data, size_t size)
{
	buf_add(ctx, data, size);
	return true;
}

/* How often a session is in the archive, in what counts of it; its lines, where text is not NULL. Every entry
 * is good. */
static inline int find_archived(const char *session_id, struct buf *lines)
{
	char path[400], why[ARCHIVE_WHY_SIZE], sql[128];
	int found = 0, rc;
	struct dirent *d;
	DIR *list;

	snprintf(path, sizeof path, "%s/archive", dir);
	if ((list = opendir(path)) == NULL)
		return 0;
	while ((d = readdir(list)) != NULL) {
		struct archive_reader *r;
		struct archive_entry e;
		int fd;

		if (d->d_name[0] == '.' || strstr(d->d_name, "found"))
			continue;
		fd = openat(dirfd(list), d->d_name, O_RDONLY);
		snprintf(sql, sizeof sql,
			"SELECT coalesce((SELECT size FROM archives WHERE day = '%.10s'), 0)", d->d_name);
		r = archive_open(fd, ask(sql));
		while ((rc = archive_next(r, &e, why)) > 0) {
			ck_assert_msg(archive_verify(r, &e, why) == 0, "%s: %s", d->d_name, why);
			if (session_id != NULL && strcmp(e.session_id, session_id) != 0)
				continue;
			found++;
			if (lines != NULL)
				ck_assert_int_eq(archive_read(r, &e, add_piece, lines, why), 0);
		}
		ck_assert_msg(rc == 0, "%s: %s", d->d_name, why);
		archive_free(r);
	}
	closedir(list);
	return found;
}

static inline const char *day_file(int64_t age_us)
{
	static char name[64];
	char at[CLOCK_TEXT_SIZE];

	clock_format(clock_wall_us() - age_us, at);
	snprintf(name, sizeof name, "%.10s" ARCHIVE_SUFFIX, at);
	return name;
}

/* Runs them, each in a world of its own. */
static inline int kit_run(Suite *s, TCase *t)
{
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_set_timeout(t, 120);
	suite_add_tcase(s, t);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
