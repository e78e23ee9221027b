/* SPDX-License-Identifier: MIT */
/* test_retain_status.c: what may come in the way of those who leave: files that others touched, a full disk,
 * somebody who needs them, another configuration, a crash. Nothing is lost, and nothing is there twice. */
#include <sys/syscall.h>

#include "retain/retain_private.h"
#include "support/retain_kit.h"

/* ---- a disk that fills up ---- */

static _Atomic int writes_left = -1; /* to the archive, before it is full; -1: it never is */

/* This definition replaces libc's in this program. */
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

START_TEST(a_file_that_the_store_does_not_know_is_not_touched)
{
	char at[CLOCK_TEXT_SIZE], name[64], path[400];
	struct dirent *d;
	bool found = false;
	DIR *list;

	clock_format(clock_wall_us() - DAY_US, at);
	snprintf(name, sizeof name, "%.10s" ARCHIVE_SUFFIX, at);
	retain_kit_put_file("archive", name, "");
	retain_kit_put_session(1, "COMPLETED", DAY_US, 1, 10);
	retain_kit_settle();
	log_set_level(LOG_LVL_ERROR);
	retain_kit_start();
	wait_until(retain_kit_ask("SELECT count(*) FROM sessions") == 0);
	ck_assert_int_eq(retain_kit_find_archived(retain_kit_id_of(1), NULL), 1);
	snprintf(path, sizeof path, "%s/archive", retain_kit_dir);
	list = opendir(path);
	while ((d = readdir(list)) != NULL)
		found |= strstr(d->d_name, ".found-") != NULL;
	closedir(list);
	ck_assert(found);
}
END_TEST

START_TEST(day_that_was_tampered_with_keeps_its_sessions_in_the_store)
{
	char at[CLOCK_TEXT_SIZE], path[400];

	retain_kit_put_session(1, "COMPLETED", DAY_US, 1, 10);
	retain_kit_settle();
	retain_kit_start();
	wait_until(retain_kit_ask("SELECT count(*) FROM leaving") == 0 &&
		retain_kit_ask("SELECT count(*) FROM sessions") == 0);
	clock_format(clock_wall_us() - DAY_US, at);
	snprintf(path, sizeof path, "%s/archive/%.10s" ARCHIVE_SUFFIX, retain_kit_dir, at);
	ck_assert_int_eq(truncate(path, 50), 0);
	retain_kit_put_session(2, "COMPLETED", DAY_US, 1, 10);
	retain_kit_settle();
	retain_kit_look_twice();
	ck_assert_int_eq(retain_kit_ask("SELECT count(*) FROM sessions"), 1);
}
END_TEST

/* Much of it is written by then: more than a group may have. */
START_TEST(a_disk_that_is_full_in_the_midst_of_a_session_costs_nothing) /* proves CK-06 */
{
	retain_kit_put_session(1, "COMPLETED", DAY_US, 12, 600000);
	retain_kit_put_session(2, "COMPLETED", DAY_US, 1, 10);
	retain_kit_settle();
	writes_left = 10;
	retain_kit_start();
	wait_until(writes_left == 0);
	retain_kit_look_twice();
	ck_assert_int_eq(retain_kit_ask("SELECT count(*) FROM sessions"), 2);
	ck_assert_int_eq(retain_kit_ask("SELECT coalesce(sum(size), 0) FROM archives"), 0);
	writes_left = -1;
	wait_until(retain_kit_ask(
			   "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving)") == 0);
	ck_assert_int_eq(retain_kit_find_archived(retain_kit_id_of(1), NULL), 1);
	ck_assert_int_eq(retain_kit_find_archived(retain_kit_id_of(2), NULL), 1);
	ck_assert_int_eq(retain_kit_find_archived(NULL, NULL), 2);
}
END_TEST

/* Its row says so: nobody asks the core. */
START_TEST(session_that_a_live_one_needs_stays) /* proves CK-06 */
{
	static const char *const states[] = {"PENDING", "RUNNING", "PAUSED", "ABORTING"};

	for (int64_t i = 1; i <= 8; i++)
		retain_kit_put_session(i, "COMPLETED", DAY_US, 1, 10);
	for (int64_t i = 0; i < 4; i++)
		retain_kit_put_needing(11 + i, states[i], DAY_US, 1, 10,
			i % 2 ? retain_kit_id_of(1 + i) : NULL, i % 2 ? NULL : retain_kit_id_of(1 + i));
	retain_kit_put_needing(15, "COMPLETED", 0, 1, 10, retain_kit_id_of(5),
		retain_kit_id_of(6)); /* it is over, and needs nobody */
	retain_kit_settle();
	retain_kit_start();
	wait_until(retain_kit_ask("SELECT count(*) FROM sessions WHERE id BETWEEN 5 AND 8") == 0);
	retain_kit_look_twice();
	ck_assert_int_eq(retain_kit_ask("SELECT count(*) FROM sessions WHERE id < 9"), 4);
	ck_assert_int_eq(retain_kit_ask("SELECT count(*) FROM events WHERE session < 9"), 8);
	for (int64_t i = 1; i < 5; i++)
		ck_assert_int_eq(retain_kit_find_archived(retain_kit_id_of(i), NULL), 0);
}
END_TEST

/* It was accepted after the thread looked: the core knows, and its row does not say so yet. */
START_TEST(the_core_lets_nobody_go_who_is_needed_by_now) /* proves CK-06 */
{
	char sql[128], day[64];
	struct stat st;

	retain_kit_config.retain_archives = _i == 0;
	for (int64_t i = 1; i <= 3; i++)
		retain_kit_put_session(i, "COMPLETED", DAY_US, 1, 10);
	retain_kit_put_file("artifacts", retain_kit_id_of(2), "/a");
	retain_kit_settle();
	pins_add(&retain_kit_core, retain_kit_id_of(2));
	retain_kit_start();
	snprintf(day, sizeof day, "%s", retain_kit_day_file(DAY_US));
	if (_i == 0)
		wait_until(retain_kit_has_file("archive", day, ""));
	retain_kit_look_twice();
	ck_assert_int_eq(retain_kit_ask("SELECT count(*) FROM sessions"), 3);
	ck_assert_int_eq(retain_kit_ask("SELECT count(*) FROM leaving"), 0);
	ck_assert_int_eq(retain_kit_ask("SELECT coalesce(sum(size) + sum(sessions), 0) FROM archives"), 0);
	ck_assert(retain_kit_has_file("artifacts", retain_kit_id_of(2), "/a"));
	/* nothing of it is left in the file: it was cut, wherever it was stopped after that */
	retain_kit_stop();
	retain_kit_start();
	retain_kit_look_twice();
	if (_i == 0) {
		wait_until(stat(retain_kit_path_of("archive", day, ""), &st) == 0 && st.st_size == 0);
		ck_assert_int_eq(retain_kit_find_archived(NULL, NULL), 0);
	}
	/* Its row says so by now: the others need not wait for it. */
	retain_kit_put_needing(9, "RUNNING", 0, 1, 10, retain_kit_id_of(2), NULL);
	retain_kit_settle();
	wait_until(retain_kit_ask("SELECT count(*) FROM sessions WHERE id IN (1, 3)") == 0);
	ck_assert_int_eq(retain_kit_ask("SELECT count(*) FROM sessions WHERE id = 2"), 1);
	pins_drop(&retain_kit_core, retain_kit_id_of(2));
	snprintf(sql, sizeof sql, "UPDATE sessions SET state = 'COMPLETED' WHERE id = 9");
	ck_assert_int_eq(sqlite3_exec(retain_kit_core.store->db, sql, NULL, NULL, NULL), SQLITE_OK);
	wait_until(
		retain_kit_ask("SELECT (SELECT count(*) FROM sessions WHERE id < 4) + (SELECT count(*) FROM "
			       "leaving)") == 0);
	for (int64_t i = 1; i <= 3; i++)
		ck_assert_int_eq(retain_kit_find_archived(retain_kit_id_of(i), NULL), _i == 0);
}
END_TEST

/* ---- what is in its way is said ---- */

static const char *log_path(void)
{
	static char path[300];

	snprintf(path, sizeof path, "%s/log", retain_kit_dir);
	return path;
}

static int count_log(const char *word)
{
	char line[1200];
	FILE *f = fopen(log_path(), "r");
	int n = 0;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof line, f) != NULL)
		n += strstr(line, word) != NULL;
	fclose(f);
	return n;
}

static bool is_stuck(const char *word)
{
	char why[RETENTION_TROUBLE_SIZE];
	int64_t since_us;

	return retain_kit_core.retention.ops->get_trouble(retain_kit_core.retention.retain, why, &since_us) &&
		strstr(why, word) != NULL && since_us <= clock_boot_us();
}

START_TEST(obstacle_is_logged_once_and_can_be_asked_for)
{
	char from[400], to[420];
	int kept = dup(STDERR_FILENO), fd = open(log_path(), O_WRONLY | O_CREAT | O_APPEND, 0600);

	ck_assert(kept >= 0 && fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
	log_set_level(LOG_LVL_INFO);
	retain_kit_put_session(1, "COMPLETED", 5 * DAY_US, 1, 10);
	retain_kit_settle();
	retain_kit_start();
	wait_until(retain_kit_ask(
			   "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving)") == 0);
	ck_assert(!is_stuck(""));
	snprintf(from, sizeof from, "%s", retain_kit_path_of("archive", retain_kit_day_file(5 * DAY_US), ""));
	snprintf(to, sizeof to, "%s.kept", from);
	ck_assert_int_eq(rename(from, to), 0);
	retain_kit_put_session(2, "COMPLETED", 5 * DAY_US, 1, 10);
	retain_kit_settle();
	wait_until(is_stuck("is missing"));
	for (int i = 0; i < 3; i++)
		retain_kit_look_twice();
	ck_assert_int_eq(count_log("is missing"), 1);
	ck_assert_int_eq(count_log("level=error"), 1);
	ck_assert_int_eq(close(open(from, O_WRONLY | O_CREAT | O_EXCL, 0600)), 0); /* another trouble */
	wait_until(is_stuck("has 0 bytes"));
	retain_kit_look_twice();
	ck_assert_int_eq(count_log("has 0 bytes"), 1);
	ck_assert_int_eq(rename(to, from), 0);
	wait_until(retain_kit_ask("SELECT count(*) FROM sessions") == 0 && !is_stuck(""));
	ck_assert_int_eq(count_log("retention goes on"), 1);
	ck_assert_int_eq(count_log("level=error"), 2);
	dup2(kept, STDERR_FILENO);
	close(kept);
	close(fd);
}
END_TEST

START_TEST(a_day_that_cannot_be_written_is_not_in_the_way_of_the_others)
{
	retain_kit_put_session(1, "COMPLETED", 5 * DAY_US, 1, 10);
	retain_kit_settle();
	retain_kit_start();
	wait_until(retain_kit_ask(
			   "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving)") == 0);
	ck_assert_int_eq(truncate(retain_kit_path_of("archive", retain_kit_day_file(5 * DAY_US), ""), 50), 0);
	for (int64_t i = 2; i < 50; i++)
		retain_kit_put_session(i, "COMPLETED", 5 * DAY_US, 1, 10);
	retain_kit_put_session(50, "COMPLETED", 3 * DAY_US, 1, 10);
	retain_kit_put_event(0, "task_rejected", "2026-01-01T00:00:00.000Z", 10);
	retain_kit_settle();
	wait_until(retain_kit_ask("SELECT count(*) FROM sessions WHERE id = 50") == 0);
	wait_until(retain_kit_ask("SELECT count(*) FROM events WHERE session IS NULL") == 0);
	ck_assert_int_eq(retain_kit_ask("SELECT count(*) FROM sessions"), 48);
	ck_assert(retain_kit_has_file("archive", retain_kit_day_file(3 * DAY_US), ""));
}
END_TEST

START_TEST(an_archive_that_was_moved_away_is_begun_anew)
{
	char from[400];

	retain_kit_put_session(1, "COMPLETED", 5 * DAY_US, 1, 10);
	retain_kit_settle();
	retain_kit_start();
	wait_until(retain_kit_ask(
			   "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving)") == 0);
	snprintf(from, sizeof from, "%s", retain_kit_path_of("archive", "", ""));
	ck_assert_int_eq(rename(from, retain_kit_path_of("elsewhere", "", "")), 0);
	/* its day's file is there no more: it stays */
	retain_kit_put_session(2, "COMPLETED", 5 * DAY_US, 1, 10);
	retain_kit_put_session(3, "COMPLETED", DAY_US, 1, 10);
	retain_kit_settle();
	wait_until(retain_kit_ask("SELECT count(*) FROM sessions") == 1);
	ck_assert(retain_kit_has_file("archive", retain_kit_day_file(DAY_US), ""));
	ck_assert(!retain_kit_has_file("elsewhere", retain_kit_day_file(DAY_US), ""));
	ck_assert(!retain_kit_has_file("archive", retain_kit_day_file(5 * DAY_US), ""));
	ck_assert_int_eq(retain_kit_ask("SELECT id FROM sessions"), 2);
	/* It comes back, and all is well again. */
	ck_assert_int_eq(rename(retain_kit_path_of("elsewhere", retain_kit_day_file(5 * DAY_US), ""),
				 strcat(from, retain_kit_day_file(5 * DAY_US))),
		0);
	wait_until(retain_kit_ask("SELECT count(*) FROM sessions") == 0);
	ck_assert_int_eq(retain_kit_find_archived(NULL, NULL), 3);
}
END_TEST

/* Whoever can write to the archive, or a disk that forgets, has no way from there to other files. */
START_TEST(an_archive_that_names_no_session_deletes_nothing)
{
	static const char *const names[] = {"..", ".", "../work", "../archive"};
	char why[ARCHIVE_WHY_SIZE];
	struct archive_reader *r;
	struct archive_entry e;
	int fd;

	for (int64_t i = 1; i <= 5; i++)
		retain_kit_put_session(i, "COMPLETED", 5 * DAY_US, 1, 10);
	retain_kit_put_file("artifacts", retain_kit_id_of(5), "/a");
	retain_kit_put_file("artifacts", "loose", "");
	retain_kit_put_file("work", "loose", "");
	retain_kit_put_file(".", "precious", "");
	retain_kit_settle();
	retain_kit_start();
	wait_until(retain_kit_ask("SELECT sum(sessions) FROM archives") == 5 &&
		retain_kit_ask("SELECT count(*) FROM leaving") == 0);
	ck_assert_int_ge(
		fd = open(retain_kit_path_of("archive", retain_kit_day_file(5 * DAY_US), ""), O_RDWR), 0);
	r = archive_open(dup(fd), -1);
	for (int i = 0; i < 4; i++) {
		char name[ID_SIZE - 1] = "";

		snprintf(name, sizeof name, "%s", names[i]);
		ck_assert_int_eq(archive_next(r, &e, why), 1);
		ck_assert_int_eq(pwrite(fd, name, sizeof name, e.at + AT_SESSION), sizeof name);
	}
	archive_free(r);
	close(fd);
	retain_kit_config.retain_expire_us = 3 * DAY_US;
	wait_until(retain_kit_ask("SELECT count(*) FROM archives") == 0);
	ck_assert(retain_kit_has_file(".", "hcpd.db", ""));
	ck_assert(retain_kit_has_file(".", "precious", ""));
	ck_assert(retain_kit_has_file("artifacts", "loose", ""));
	ck_assert(retain_kit_has_file("work", "loose", ""));
	ck_assert(!retain_kit_has_file("artifacts", retain_kit_id_of(5), ""));
}
END_TEST

/* Written anew out of a dump, it has lost the setting: it stays large then, and no more than that. */
START_TEST(a_store_that_cannot_become_smaller_is_left_as_it_is)
{
	char path[300];
	sqlite3 *db;

	store_close(retain_kit_core.store);
	snprintf(path, sizeof path, "%s/hcpd.db", retain_kit_dir);
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, "PRAGMA auto_vacuum = NONE; VACUUM", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	retain_kit_open_store();
	ck_assert_int_eq(retain_kit_ask("PRAGMA auto_vacuum"), 0);
	store_put_caller(retain_kit_core.store, 1, "alpha");
	for (int64_t i = 1; i < 40; i++)
		retain_kit_put_session(i, "COMPLETED", DAY_US, 10, 10000);
	retain_kit_settle();
	retain_kit_start();
	wait_until(retain_kit_ask(
			   "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving)") == 0);
	ck_assert_int_gt(retain_kit_ask("PRAGMA freelist_count"), retain_kit_ask("PRAGMA page_count") / 2);
	retain_kit_look_twice();
	retain_kit_put_session(100, "COMPLETED", DAY_US, 1, 10);
	retain_kit_settle();
	wait_until(retain_kit_ask("SELECT count(*) FROM sessions") == 0);
}
END_TEST

START_TEST(reload_that_ends_retention_stops_a_pass_under_way)
{
	int64_t left, at;

	retain_kit_config.retain_grace_us = SECOND;
	retain_kit_config.retain_archives = false;
	for (int64_t i = 1; i <= 2000; i++)
		retain_kit_put_session(i, "COMPLETED", DAY_US, 1, 10);
	retain_kit_settle();
	retain_kit_start();
	wait_until(retain_kit_ask("SELECT count(*) FROM sessions") < 1950);
	retain_kit_config.retain_grace_us = 0;
	timers_run(&retain_kit_core.timers, INT64_MAX);
	left = retain_kit_ask("SELECT count(*) FROM sessions");
	for (at = clock_boot_us() + 2 * SECOND; clock_boot_us() < at;)
		retain_kit_turn();
	ck_assert_int_gt(left, 1000);
	ck_assert_int_ge(
		retain_kit_ask("SELECT count(*) FROM sessions"), left - 64); /* of two groups at most */
}
END_TEST

/* The loop ends wherever it is, the thread with it, and another run goes on: forty times. In each somebody
 * is needed, of whom the store does not say so: who is with him in a group is refused. */
START_TEST(stopped_anywhere_nothing_is_lost_and_nothing_is_twice) /* proves CK-06 */
{
	int sessions = 0;

	retain_kit_config.retain_grace_us = SECOND;
	for (int64_t i = 1; i <= 300; i++)
		retain_kit_put_session(i, "COMPLETED", DAY_US, 20, 100);
	retain_kit_settle();
	for (int run = 0; run < 40; run++) {
		int64_t pins = 300 - run * 7;
		char was_there[128];

		snprintf(was_there, sizeof was_there, "SELECT count(*) FROM sessions WHERE id = %lld",
			(long long)pins);
		sessions = (int)retain_kit_ask(was_there);
		pins_add(&retain_kit_core, retain_kit_id_of(pins));
		retain_kit_start();
		timers_run(&retain_kit_core.timers, INT64_MAX); /* it looks at once */
		for (int i = 0; i <= run; i++)
			retain_kit_turn();
		retain_kit_stop();
		ck_assert_int_eq(retain_kit_ask(was_there), sessions);
		pins_fini(&retain_kit_core);
		store_close(retain_kit_core.store); /* with its batch: what was not committed is gone */
		retain_kit_open_store();
		sessions = (int)retain_kit_ask("SELECT count(*) FROM sessions");
		ck_assert_int_eq(sessions + retain_kit_find_archived(NULL, NULL), 300);
		for (int64_t i = 1; i <= 300; i++) {
			char sql[128];

			snprintf(sql, sizeof sql, "SELECT count(*) FROM sessions WHERE id = %lld",
				(long long)i);
			if (i % 37 == run % 37)
				ck_assert_int_eq(retain_kit_ask(sql) +
						retain_kit_find_archived(retain_kit_id_of(i), NULL),
					1);
		}
	}
	retain_kit_start();
	wait_until(retain_kit_ask(
			   "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving)") == 0);
	ck_assert_int_eq(retain_kit_find_archived(NULL, NULL), 300);
	ck_assert_int_eq(
		retain_kit_ask("SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM tasks)"), 0);
}
END_TEST

/* Sessions that ended during a long pass wait for the next one. Orders have had their pauses already. */
START_TEST(the_rest_after_a_pass_has_a_bound)
{
	const int64_t second = 1000000;

	ck_assert_int_eq(retain_rest_us(second / 2, 0), 0);
	ck_assert_int_eq(retain_rest_us(3 * second, 0), 12 * second);
	ck_assert_int_eq(retain_rest_us(153 * second, 150 * second), 12 * second);
	ck_assert_int_eq(retain_rest_us(150 * second, 150 * second), 0);
	ck_assert_int_eq(retain_rest_us(16 * second, 0), 60 * second);
	ck_assert_int_eq(retain_rest_us(100000 * second, 0), 60 * second);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("retain_trouble");
	TCase *t = tcase_create("retain_trouble");

	tcase_add_test(t, a_file_that_the_store_does_not_know_is_not_touched);
	tcase_add_test(t, day_that_was_tampered_with_keeps_its_sessions_in_the_store);
	tcase_add_test(t, a_disk_that_is_full_in_the_midst_of_a_session_costs_nothing);
	tcase_add_test(t, a_day_that_cannot_be_written_is_not_in_the_way_of_the_others);
	tcase_add_test(t, an_archive_that_was_moved_away_is_begun_anew);
	tcase_add_test(t, an_archive_that_names_no_session_deletes_nothing);
	tcase_add_test(t, session_that_a_live_one_needs_stays);
	tcase_add_loop_test(t, the_core_lets_nobody_go_who_is_needed_by_now, 0, 2);
	tcase_add_test(t, obstacle_is_logged_once_and_can_be_asked_for);
	tcase_add_test(t, a_store_that_cannot_become_smaller_is_left_as_it_is);
	tcase_add_test(t, reload_that_ends_retention_stops_a_pass_under_way);
	tcase_add_test(t, the_rest_after_a_pass_has_a_bound);
	tcase_add_test(t, stopped_anywhere_nothing_is_lost_and_nothing_is_twice);
	return retain_kit_run(s, t);
}
