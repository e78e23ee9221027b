/* test_retain_trouble.c: what may come in the way of those who leave: files that others touched, a full disk,
 * somebody who needs them, another configuration, a crash. Nothing is lost, and nothing is there twice. */
#include "retain_kit.h"

START_TEST(a_file_that_the_store_does_not_know_is_not_touched)
{
	char at[CLOCK_TEXT_SIZE], name[64], path[400];
	struct dirent *d;
	bool found = false;
	DIR *list;

	clock_format(clock_wall_us() - DAY_US, at);
	snprintf(name, sizeof name, "%.10s" ARCHIVE_SUFFIX, at);
	put_file("archive", name, "");
	put_session(1, "COMPLETED", DAY_US, 1, 10);
	settle();
	log_set_level(LOG_LVL_ERROR);
	start();
	wait_until(ask("SELECT count(*) FROM sessions") == 0);
	ck_assert_int_eq(find_archived(id_of(1), NULL), 1);
	snprintf(path, sizeof path, "%s/archive", dir);
	list = opendir(path);
	while ((d = readdir(list)) != NULL)
		found |= strstr(d->d_name, ".found-") != NULL;
	closedir(list);
	ck_assert(found);
}
END_TEST

START_TEST(a_day_that_somebody_took_from_keeps_its_sessions_in_the_store)
{
	char at[CLOCK_TEXT_SIZE], path[400];

	put_session(1, "COMPLETED", DAY_US, 1, 10);
	settle();
	start();
	wait_until(ask("SELECT count(*) FROM leaving") == 0 && ask("SELECT count(*) FROM sessions") == 0);
	clock_format(clock_wall_us() - DAY_US, at);
	snprintf(path, sizeof path, "%s/archive/%.10s" ARCHIVE_SUFFIX, dir, at);
	ck_assert_int_eq(truncate(path, 50), 0);
	put_session(2, "COMPLETED", DAY_US, 1, 10);
	settle();
	look_twice();
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 1);
}
END_TEST

/* Much of it is written by then: more than a group may have. */
START_TEST(a_disk_that_is_full_in_the_midst_of_a_session_costs_nothing) /* proves CK-06 */
{
	put_session(1, "COMPLETED", DAY_US, 12, 600000);
	put_session(2, "COMPLETED", DAY_US, 1, 10);
	settle();
	writes_left = 10;
	start();
	wait_until(writes_left == 0);
	look_twice();
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 2);
	ck_assert_int_eq(ask("SELECT coalesce(sum(size), 0) FROM archives"), 0);
	writes_left = -1;
	wait_until(ask("SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving)") == 0);
	ck_assert_int_eq(find_archived(id_of(1), NULL), 1);
	ck_assert_int_eq(find_archived(id_of(2), NULL), 1);
	ck_assert_int_eq(find_archived(NULL, NULL), 2);
}
END_TEST

/* Its row says so: nobody asks the core. */
START_TEST(who_is_needed_by_one_that_is_not_over_stays) /* proves CK-06 */
{
	static const char *const states[] = {"PENDING", "RUNNING", "PAUSED", "ABORTING"};

	for (int64_t i = 1; i <= 8; i++)
		put_session(i, "COMPLETED", DAY_US, 1, 10);
	for (int64_t i = 0; i < 4; i++)
		put_needing(11 + i, states[i], DAY_US, 1, 10, i % 2 ? id_of(1 + i) : NULL,
			i % 2 ? NULL : id_of(1 + i));
	put_needing(15, "COMPLETED", 0, 1, 10, id_of(5), id_of(6)); /* it is over, and needs nobody */
	settle();
	start();
	wait_until(ask("SELECT count(*) FROM sessions WHERE id BETWEEN 5 AND 8") == 0);
	look_twice();
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions WHERE id < 9"), 4);
	ck_assert_int_eq(ask("SELECT count(*) FROM events WHERE session < 9"), 8);
	for (int64_t i = 1; i < 5; i++)
		ck_assert_int_eq(find_archived(id_of(i), NULL), 0);
}
END_TEST

/* It was accepted after the thread looked: the core knows, and its row does not say so yet. */
START_TEST(the_core_lets_nobody_go_who_is_needed_by_now) /* proves CK-06 */
{
	char sql[128], day[64];
	struct stat st;

	config.retain_archives = _i == 0;
	for (int64_t i = 1; i <= 3; i++)
		put_session(i, "COMPLETED", DAY_US, 1, 10);
	put_file("artifacts", id_of(2), "/a");
	settle();
	need_add(&core, id_of(2));
	start();
	snprintf(day, sizeof day, "%s", day_file(DAY_US));
	if (_i == 0)
		wait_until(has_file("archive", day, ""));
	look_twice();
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 3);
	ck_assert_int_eq(ask("SELECT count(*) FROM leaving"), 0);
	ck_assert_int_eq(ask("SELECT coalesce(sum(size) + sum(sessions), 0) FROM archives"), 0);
	ck_assert(has_file("artifacts", id_of(2), "/a"));
	stop(); /* nothing of it is left in the file: it was cut, wherever it was stopped after that */
	start();
	look_twice();
	if (_i == 0) {
		wait_until(stat(path_of("archive", day, ""), &st) == 0 && st.st_size == 0);
		ck_assert_int_eq(find_archived(NULL, NULL), 0);
	}
	/* Its row says so by now: the others need not wait for it. */
	put_needing(9, "RUNNING", 0, 1, 10, id_of(2), NULL);
	settle();
	wait_until(ask("SELECT count(*) FROM sessions WHERE id IN (1, 3)") == 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions WHERE id = 2"), 1);
	need_drop(&core, id_of(2));
	snprintf(sql, sizeof sql, "UPDATE sessions SET state = 'COMPLETED' WHERE id = 9");
	ck_assert_int_eq(sqlite3_exec(core.store->db, sql, NULL, NULL, NULL), SQLITE_OK);
	wait_until(ask("SELECT (SELECT count(*) FROM sessions WHERE id < 4) + (SELECT count(*) FROM "
		       "leaving)") == 0);
	for (int64_t i = 1; i <= 3; i++)
		ck_assert_int_eq(find_archived(id_of(i), NULL), _i == 0);
}
END_TEST

/* ---- what is in its way is said ---- */

static const char *log_path(void)
{
	static char path[300];

	snprintf(path, sizeof path, "%s/log", dir);
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
	char why[RETAIN_TROUBLE_SIZE];
	int64_t since_us;

	return retain_get_trouble(&core, why, &since_us) && strstr(why, word) != NULL &&
		since_us <= clock_boot_us();
}

START_TEST(what_is_in_the_way_is_said_once_and_can_be_asked_for)
{
	char from[400], to[420];
	int kept = dup(STDERR_FILENO), fd = open(log_path(), O_WRONLY | O_CREAT | O_APPEND, 0600);

	ck_assert(kept >= 0 && fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
	log_set_level(LOG_LVL_INFO);
	put_session(1, "COMPLETED", 5 * DAY_US, 1, 10);
	settle();
	start();
	wait_until(ask("SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving)") == 0);
	ck_assert(!is_stuck(""));
	snprintf(from, sizeof from, "%s", path_of("archive", day_file(5 * DAY_US), ""));
	snprintf(to, sizeof to, "%s.kept", from);
	ck_assert_int_eq(rename(from, to), 0);
	put_session(2, "COMPLETED", 5 * DAY_US, 1, 10);
	settle();
	wait_until(is_stuck("is missing"));
	for (int i = 0; i < 3; i++)
		look_twice();
	ck_assert_int_eq(count_log("is missing"), 1);
	ck_assert_int_eq(count_log("level=error"), 1);
	ck_assert_int_eq(close(open(from, O_WRONLY | O_CREAT | O_EXCL, 0600)), 0); /* another trouble */
	wait_until(is_stuck("has 0 bytes"));
	look_twice();
	ck_assert_int_eq(count_log("has 0 bytes"), 1);
	ck_assert_int_eq(rename(to, from), 0);
	wait_until(ask("SELECT count(*) FROM sessions") == 0 && !is_stuck(""));
	ck_assert_int_eq(count_log("retention goes on"), 1);
	ck_assert_int_eq(count_log("level=error"), 2);
	dup2(kept, STDERR_FILENO);
	close(kept);
	close(fd);
}
END_TEST

START_TEST(a_day_that_cannot_be_written_is_not_in_the_way_of_the_others)
{
	put_session(1, "COMPLETED", 5 * DAY_US, 1, 10);
	settle();
	start();
	wait_until(ask("SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving)") == 0);
	ck_assert_int_eq(truncate(path_of("archive", day_file(5 * DAY_US), ""), 50), 0);
	for (int64_t i = 2; i < 50; i++)
		put_session(i, "COMPLETED", 5 * DAY_US, 1, 10);
	put_session(50, "COMPLETED", 3 * DAY_US, 1, 10);
	put_event(0, "task_rejected", "2026-01-01T00:00:00.000Z", 10);
	settle();
	wait_until(ask("SELECT count(*) FROM sessions WHERE id = 50") == 0);
	wait_until(ask("SELECT count(*) FROM events WHERE session IS NULL") == 0);
	ck_assert_int_eq(ask("SELECT count(*) FROM sessions"), 48);
	ck_assert(has_file("archive", day_file(3 * DAY_US), ""));
}
END_TEST

START_TEST(an_archive_that_was_moved_away_is_begun_anew)
{
	char from[400];

	put_session(1, "COMPLETED", 5 * DAY_US, 1, 10);
	settle();
	start();
	wait_until(ask("SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving)") == 0);
	snprintf(from, sizeof from, "%s", path_of("archive", "", ""));
	ck_assert_int_eq(rename(from, path_of("elsewhere", "", "")), 0);
	put_session(2, "COMPLETED", 5 * DAY_US, 1, 10); /* its day's file is there no more: it stays */
	put_session(3, "COMPLETED", DAY_US, 1, 10);
	settle();
	wait_until(ask("SELECT count(*) FROM sessions") == 1);
	ck_assert(has_file("archive", day_file(DAY_US), ""));
	ck_assert(!has_file("elsewhere", day_file(DAY_US), ""));
	ck_assert(!has_file("archive", day_file(5 * DAY_US), ""));
	ck_assert_int_eq(ask("SELECT id FROM sessions"), 2);
	/* It comes back, and all is well again. */
	ck_assert_int_eq(
		rename(path_of("elsewhere", day_file(5 * DAY_US), ""), strcat(from, day_file(5 * DAY_US))),
		0);
	wait_until(ask("SELECT count(*) FROM sessions") == 0);
	ck_assert_int_eq(find_archived(NULL, NULL), 3);
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
		put_session(i, "COMPLETED", 5 * DAY_US, 1, 10);
	put_file("artifacts", id_of(5), "/a");
	put_file("artifacts", "loose", "");
	put_file("work", "loose", "");
	put_file(".", "precious", "");
	settle();
	start();
	wait_until(
		ask("SELECT sum(sessions) FROM archives") == 5 && ask("SELECT count(*) FROM leaving") == 0);
	ck_assert_int_ge(fd = open(path_of("archive", day_file(5 * DAY_US), ""), O_RDWR), 0);
	r = archive_open(dup(fd), -1);
	for (int i = 0; i < 4; i++) {
		char name[ID_SIZE - 1] = "";

		snprintf(name, sizeof name, "%s", names[i]);
		ck_assert_int_eq(archive_next(r, &e, why), 1);
		ck_assert_int_eq(pwrite(fd, name, sizeof name, e.at + AT_SESSION), sizeof name);
	}
	archive_free(r);
	close(fd);
	config.retain_expire_us = 3 * DAY_US;
	wait_until(ask("SELECT count(*) FROM archives") == 0);
	ck_assert(has_file(".", "hcpd.db", ""));
	ck_assert(has_file(".", "precious", ""));
	ck_assert(has_file("artifacts", "loose", ""));
	ck_assert(has_file("work", "loose", ""));
	ck_assert(!has_file("artifacts", id_of(5), ""));
}
END_TEST

/* Written anew out of a dump, it has lost the setting: it stays large then, and no more than that. */
START_TEST(a_store_that_cannot_become_smaller_is_left_as_it_is)
{
	char path[300];
	sqlite3 *db;

	store_close(core.store);
	snprintf(path, sizeof path, "%s/hcpd.db", dir);
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, "PRAGMA auto_vacuum = NONE; VACUUM", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	open_store();
	ck_assert_int_eq(ask("PRAGMA auto_vacuum"), 0);
	store_put_caller(core.store, 1, "alpha");
	for (int64_t i = 1; i < 40; i++)
		put_session(i, "COMPLETED", DAY_US, 10, 10000);
	settle();
	start();
	wait_until(ask("SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving)") == 0);
	ck_assert_int_gt(ask("PRAGMA freelist_count"), ask("PRAGMA page_count") / 2);
	look_twice();
	put_session(100, "COMPLETED", DAY_US, 1, 10);
	settle();
	wait_until(ask("SELECT count(*) FROM sessions") == 0);
}
END_TEST

START_TEST(who_wants_nothing_deleted_any_more_need_not_wait_for_the_end_of_a_pass)
{
	int64_t left, at;

	config.retain_grace_us = SECOND;
	config.retain_archives = false;
	for (int64_t i = 1; i <= 2000; i++)
		put_session(i, "COMPLETED", DAY_US, 1, 10);
	settle();
	start();
	wait_until(ask("SELECT count(*) FROM sessions") < 1950);
	config.retain_grace_us = 0;
	timers_run(&core.timers, INT64_MAX);
	left = ask("SELECT count(*) FROM sessions");
	for (at = clock_boot_us() + 2 * SECOND; clock_boot_us() < at;)
		turn();
	ck_assert_int_gt(left, 1000);
	ck_assert_int_ge(ask("SELECT count(*) FROM sessions"), left - 64); /* of two groups at most */
}
END_TEST

/* The loop ends wherever it is, the thread with it, and another life goes on: forty times. In each somebody
 * is needed, of whom the store does not say so: who is with him in a group is refused. */
START_TEST(stopped_anywhere_nothing_is_lost_and_nothing_is_twice) /* proves CK-06 */
{
	int sessions = 0;

	config.retain_grace_us = SECOND;
	for (int64_t i = 1; i <= 300; i++)
		put_session(i, "COMPLETED", DAY_US, 20, 100);
	settle();
	for (int life = 0; life < 40; life++) {
		int64_t needed = 300 - life * 7;
		char was_there[128];

		snprintf(was_there, sizeof was_there, "SELECT count(*) FROM sessions WHERE id = %lld",
			(long long)needed);
		sessions = (int)ask(was_there);
		need_add(&core, id_of(needed));
		start();
		timers_run(&core.timers, INT64_MAX); /* it looks at once */
		for (int i = 0; i <= life; i++)
			turn();
		stop();
		ck_assert_int_eq(ask(was_there), sessions);
		need_fini(&core);
		store_close(core.store); /* with its batch: what was not committed is gone */
		open_store();
		sessions = (int)ask("SELECT count(*) FROM sessions");
		ck_assert_int_eq(sessions + find_archived(NULL, NULL), 300);
		for (int64_t i = 1; i <= 300; i++) {
			char sql[128];

			snprintf(sql, sizeof sql, "SELECT count(*) FROM sessions WHERE id = %lld",
				(long long)i);
			if (i % 37 == life % 37)
				ck_assert_int_eq(ask(sql) + find_archived(id_of(i), NULL), 1);
		}
	}
	start();
	wait_until(ask("SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM leaving)") == 0);
	ck_assert_int_eq(find_archived(NULL, NULL), 300);
	ck_assert_int_eq(ask("SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM tasks)"), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("retain_trouble");
	TCase *t = tcase_create("retain_trouble");

	tcase_add_test(t, a_file_that_the_store_does_not_know_is_not_touched);
	tcase_add_test(t, a_day_that_somebody_took_from_keeps_its_sessions_in_the_store);
	tcase_add_test(t, a_disk_that_is_full_in_the_midst_of_a_session_costs_nothing);
	tcase_add_test(t, a_day_that_cannot_be_written_is_not_in_the_way_of_the_others);
	tcase_add_test(t, an_archive_that_was_moved_away_is_begun_anew);
	tcase_add_test(t, an_archive_that_names_no_session_deletes_nothing);
	tcase_add_test(t, who_is_needed_by_one_that_is_not_over_stays);
	tcase_add_loop_test(t, the_core_lets_nobody_go_who_is_needed_by_now, 0, 2);
	tcase_add_test(t, what_is_in_the_way_is_said_once_and_can_be_asked_for);
	tcase_add_test(t, a_store_that_cannot_become_smaller_is_left_as_it_is);
	tcase_add_test(t, who_wants_nothing_deleted_any_more_need_not_wait_for_the_end_of_a_pass);
	tcase_add_test(t, stopped_anywhere_nothing_is_lost_and_nothing_is_twice);
	return kit_run(s, t);
}
