/* SPDX-License-Identifier: MIT */
/* retain_kit.c: what retain_kit.h declares. */
#include "support/retain_kit.h"

char retain_kit_dir[200];
struct core retain_kit_core;
static struct policy retain_kit_policy;
struct config retain_kit_config;
int retain_kit_wake_fd, retain_kit_turns;
int64_t retain_kit_last_event;
struct retain_worst retain_kit_worst;

/* ---- a core that only turns ---- */

static void retain_kit_wake(void *ctx)
{
	uint64_t one = 1;

	(void)ctx;
	(void)!write(retain_kit_wake_fd, &one, sizeof one);
}

static int64_t retain_kit_cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * SECOND + t.tv_nsec / 1000;
}

/* Pages that were written since it was asked last. */
static int64_t retain_kit_pages_written(void)
{
	int now = 0, most;

	ck_assert_int_eq(
		sqlite3_db_status(retain_kit_core.store->db, SQLITE_DBSTATUS_CACHE_WRITE, &now, &most, 1),
		SQLITE_OK);
	return now;
}

static void retain_kit_note_most(int64_t *most, int64_t n)
{
	*most = n > *most ? n : *most;
}

void retain_kit_turn(void)
{
	int64_t before = retain_kit_cpu_us(), rows = sqlite3_total_changes(retain_kit_core.store->db);
	struct pollfd p = {.fd = retain_kit_wake_fd, .events = POLLIN};
	uint64_t times;
	bool more;

	(void)retain_kit_pages_written();
	ck_assert_int_eq(store_run(retain_kit_core.store), 0);
	more = retain_kit_core.retention.retain != NULL &&
		retain_kit_core.retention.ops->step(retain_kit_core.retention.retain);
	retain_kit_note_most(&retain_kit_worst.cpu_us, retain_kit_cpu_us() - before);
	retain_kit_note_most(&retain_kit_worst.rows, sqlite3_total_changes(retain_kit_core.store->db) - rows);
	retain_kit_note_most(&retain_kit_worst.pages, retain_kit_pages_written());
	retain_kit_turns++;
	timers_run(&retain_kit_core.timers, clock_boot_us());
	if (!more && poll(&p, 1, 5) > 0)
		(void)!read(retain_kit_wake_fd, &times, sizeof times);
}

void retain_kit_open_store(void)
{
	char why[512];

	ck_assert_msg(store_open(retain_kit_dir, &retain_kit_core.store, why, sizeof why) == 0, "%s", why);
	retain_kit_core.last_session = store_last_session(retain_kit_core.store);
}

void retain_kit_start(void)
{
	ck_assert_int_eq(
		retain_start(&retain_kit_core, retain_kit_wake, NULL, &retain_kit_core.retention.retain), 0);
}

void retain_kit_stop(void)
{
	retain_stop(retain_kit_core.retention.retain);
	retain_kit_core.retention.retain = NULL;
}

static void retain_kit_set_up(void)
{
	snprintf(retain_kit_dir, sizeof retain_kit_dir, "%.150s/test_retain.XXXXXX",
		getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(retain_kit_dir));
	memset(&retain_kit_core, 0, sizeof retain_kit_core);
	memset(&retain_kit_config, 0, sizeof retain_kit_config);
	retain_kit_config.retain_grace_us = 4 * SECOND;
	retain_kit_config.retain_archives = true;
	retain_kit_config.dedup_window_us = SECOND;
	retain_kit_policy.config = &retain_kit_config;
	retain_kit_core.policy = &retain_kit_policy;
	retain_kit_core.retention.ops = &retain_ops;
	retain_kit_core.state_dir = retain_kit_dir;
	retain_kit_wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	retain_kit_last_event = 0;
	retain_kit_turns = 0;
	log_set_level(LOG_LVL_ERROR);
	retain_kit_open_store();
	store_put_caller(retain_kit_core.store, 1, "alpha");
}

static void retain_kit_tear_down(void)
{
	char command[300];

	if (retain_kit_core.retention.retain != NULL)
		retain_kit_stop();
	store_close(retain_kit_core.store);
	timers_fini(&retain_kit_core.timers);
	pins_fini(&retain_kit_core);
	close(retain_kit_wake_fd);
	snprintf(command, sizeof command, "rm -rf %s", retain_kit_dir);
	ck_assert_int_eq(system(command), 0);
}

/* ---- looking, beside it ---- */

int64_t retain_kit_ask(const char *sql)
{
	char path[300];
	sqlite3 *db;
	sqlite3_stmt *st;
	int64_t n;

	snprintf(path, sizeof path, "%s/hcpd.db", retain_kit_dir);
	ck_assert_int_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	ck_assert_msg(
		sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
	ck_assert_int_eq(sqlite3_step(st), SQLITE_ROW);
	n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	sqlite3_close(db);
	return n;
}

void retain_kit_look_twice(void)
{
	for (int i = 0; i < 2; i++) {
		int64_t at = clock_boot_us() + 1300000;

		while (clock_boot_us() < at)
			retain_kit_turn();
	}
}

/* ---- making history ---- */

const char *retain_kit_id_of(int64_t key)
{
	static char id[4][ID_SIZE];
	static unsigned next;

	snprintf(id[++next % 4], ID_SIZE, "0d2b6a0e-7c1f-4b4e-9a51-%012u", (unsigned)key % 1000000);
	return id[next % 4];
}

void retain_kit_put_event(int64_t session, const char *type, const char *at, size_t filling)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
	int64_t id = ++retain_kit_last_event;
	struct store_event e = {.id = id,
		.session = session,
		.session_id = session ? retain_kit_id_of(session) : NULL,
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
	store_put_event(retain_kit_core.store, &e);
	blob_unref(e.body);
	buf_fini(&b);
}

void retain_kit_put_needing(int64_t key, const char *state, int64_t age_us, int events, size_t filling,
	const char *checkpoint_of, const char *continues)
{
	char at[CLOCK_TEXT_SIZE];
	struct store_session row = {.key = key,
		.session_id = retain_kit_id_of(key),
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
	store_put_session(retain_kit_core.store, &row, "{\"task\":1}", 10);
	retain_kit_put_event(key, "task_accepted", at, 0);
	for (int i = 0; i < events; i++)
		retain_kit_put_event(key, "event", at, filling);
	row.state = state;
	row.state_version = 2;
	store_put_transition(retain_kit_core.store, &row, "RUNNING", "completed", "worker");
	store_save_session(retain_kit_core.store, &row);
}

void retain_kit_put_session(int64_t key, const char *state, int64_t age_us, int events, size_t filling)
{
	retain_kit_put_needing(key, state, age_us, events, filling, NULL, NULL);
}

void retain_kit_put_checkpoint(int64_t key, const char *state)
{
	struct store_checkpoint c = {.session = key,
		.session_id = retain_kit_id_of(key),
		.description = "d",
		.resumable = true,
		.created_at = "2026-01-01T00:00:00.000Z",
		.state = state,
		.state_size = strlen(state),
		.sha256 = "0"};

	id_make(c.checkpoint_id);
	store_put_checkpoint(retain_kit_core.store, &c);
}

void retain_kit_settle(void)
{
	store_save_confirmed(retain_kit_core.store, 1, retain_kit_last_event);
	ck_assert_int_eq(store_run(retain_kit_core.store), 0);
}

const char *retain_kit_path_of(const char *folder, const char *name, const char *file)
{
	static char path[400];

	snprintf(path, sizeof path, "%s/%s/%s%s", retain_kit_dir, folder, name, file);
	return path;
}

void retain_kit_put_file(const char *folder, const char *name, const char *file)
{
	const char *path = retain_kit_path_of(folder, name, file);
	char command[1000];

	snprintf(command, sizeof command, "mkdir -p $(dirname %s) && echo x >%s", path, path);
	ck_assert_int_eq(system(command), 0);
}

bool retain_kit_has_file(const char *folder, const char *name, const char *file)
{
	return access(retain_kit_path_of(folder, name, file), F_OK) == 0;
}

/* ---- the archive ---- */

static bool retain_kit_add_piece(void *ctx, const char *data, size_t size)
{
	buf_add(ctx, data, size);
	return true;
}

int retain_kit_find_archived(const char *session_id, struct buf *lines)
{
	char path[400], why[ARCHIVE_WHY_SIZE], sql[128];
	int found = 0, rc;
	struct dirent *d;
	DIR *list;

	snprintf(path, sizeof path, "%s/archive", retain_kit_dir);
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
		r = archive_open(fd, retain_kit_ask(sql));
		while ((rc = archive_next(r, &e, why)) > 0) {
			ck_assert_msg(archive_verify(r, &e, why) == 0, "%s: %s", d->d_name, why);
			if (session_id != NULL && strcmp(e.session_id, session_id) != 0)
				continue;
			found++;
			if (lines != NULL)
				ck_assert_int_eq(archive_read(r, &e, retain_kit_add_piece, lines, why), 0);
		}
		ck_assert_msg(rc == 0, "%s: %s", d->d_name, why);
		archive_free(r);
	}
	closedir(list);
	return found;
}

const char *retain_kit_day_file(int64_t age_us)
{
	static char name[64];
	char at[CLOCK_TEXT_SIZE];

	clock_format(clock_wall_us() - age_us, at);
	snprintf(name, sizeof name, "%.10s" ARCHIVE_SUFFIX, at);
	return name;
}

int retain_kit_run(Suite *s, TCase *t)
{
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(t, retain_kit_set_up, retain_kit_tear_down);
	tcase_set_timeout(t, 560);
	suite_add_tcase(s, t);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
