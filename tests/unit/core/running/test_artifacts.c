/* SPDX-License-Identifier: MIT */
/* test_artifacts.c: artifacts in the core: announced, stored behind the commit, waited for, named in the
 * result. */
#include "support/fakes/fake_world.h"

#include <fcntl.h>
#include <sys/resource.h>

#define SAY(name, path) "{\"type\":\"artifact\",\"name\":\"" name "\",\"path\":\"" path "\"}"
#define LARGE (30 << 20) /* many more slices than it takes a worker to go */
#define COMPLETED "{\"type\":\"completed\",\"outputs\":{}}"
#define SHA_OF_ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static struct world w;

static void setup(void)
{
	world_init(&w,
		"[limits]\nartifact = 40MiB\nartifacts_total = 60MiB\n[session]\nartifact_timeout = 20s\n");
	world_begin(&w);
}

static void teardown(void)
{
	world_fini(&w);
}

static const char *path_of(const char *where, const char *name)
{
	static char paths[4][700];
	static unsigned turn;

	snprintf(paths[++turn % 4], sizeof paths[0], "%s/%s/%s/%s", w.state, where, world_id(&w, 1), name);
	return paths[turn % 4];
}

static void put(const char *name, const char *text)
{
	world_write_file(path_of("work", ""), name, text);
}

static void put_large(const char *name, off_t size)
{
	put(name, "");
	ck_assert_int_eq(truncate(path_of("work", name), size), 0);
}

static bool is_stored(const char *name)
{
	return access(path_of("artifacts", name), F_OK) == 0;
}

static void say(struct worker *p, const char *line)
{
	fake_worker_say(p, line);
}

static void exit_well(struct worker *p)
{
	fake_worker_exit(p, 0);
	world_run(&w);
}

START_TEST(a_result_names_what_was_stored) /* proves L4-05 */
{
	struct worker *p = world_start(&w, "m1", "work");
	char wanted[512];

	put("out.txt", "abc");
	say(p, "{\"type\":\"artifact\",\"name\":\"r p\",\"path\":\"out.txt\",\"mime\":\"text/plain\"}");
	say(p, COMPLETED);
	exit_well(p);
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	snprintf(wanted, sizeof wanted,
		"\"artifacts\":[{\"name\":\"r "
		"p\",\"type\":\"text/plain\",\"uri\":\"hcp://%s/artifacts/r%%20p\","
		"\"size_bytes\":3,\"checksum\":\"sha256:" SHA_OF_ABC "\"}]",
		world_id(&w, 1));
	ck_assert_msg(world_said(&w, wanted) == 1, "%s", wanted);
	ck_assert(is_stored("r p"));
	ck_assert_str_eq(world_text(&w, "SELECT size_bytes || type || sha256 FROM artifacts", NULL),
		"3text/plain" SHA_OF_ABC);
	ck_assert_int_eq(access(path_of("work", ""), F_OK), -1);
	world_check_stream(&w, 1);
}
END_TEST

static void limit_descriptors(rlim_t count)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = count < limit.rlim_max ? count : limit.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Room for so many descriptors: the file is opened, or not even its directory. */
START_TEST(an_artifact_waits_while_there_are_no_descriptors)
{
	struct worker *p = world_start(&w, "m1", "work");
	struct rlimit before;
	int next = dup(0);

	put("out.txt", "abc");
	say(p, SAY("a", "out.txt"));
	say(p, COMPLETED);
	close(next);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit_descriptors((rlim_t)(next + _i));
	exit_well(p);
	world_pass(&w, 3 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(!is_stored("a"));
	limit_descriptors(before.rlim_cur);
	world_pass(&w, 1 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	ck_assert(is_stored("a"));
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM events WHERE type = 'warning'", NULL), 0);
	world_check_stream(&w, 1);
}
END_TEST

START_TEST(a_failure_names_them_too) /* proves L4-05 */
{
	struct worker *p = world_start(&w, "m1", "work");

	put("out.txt", "abc");
	say(p, SAY("a", "out.txt"));
	fake_worker_exit(p, 256); /* without a word */
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "FAILED");
	ck_assert_int_eq(world_said(&w,
				 "\"partial_outputs\":{},\"artifacts\":[{\"name\":\"a\",\"type\":"
				 "\"application/octet-stream\""),
		1);
}
END_TEST

START_TEST(an_end_waits_until_all_is_stored)
{
	struct worker *p = world_start(&w, "m1", "work");

	put_large("large", LARGE);
	say(p, SAY("a", "large"));
	say(p, COMPLETED);
	fake_worker_exit(p, 0);
	while (!p->is_gone)
		world_turn(&w);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_turn(&w);
	/* decided it is */
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM outcomes", NULL), 1);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	ck_assert_int_eq(world_said(&w, "\"size_bytes\":31457280"), 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM outcomes", NULL), 0);
}
END_TEST

START_TEST(a_reused_process_serves_on_while_they_are_stored)
{
	struct worker *p = world_start(&w, "m1", "reused");

	put_large("large", LARGE);
	say(p, SAY("a", "large"));
	say(p, COMPLETED);
	for (int i = 0; i < 8; i++) {
		world_turn(&w);
		if (i == 3)
			world_submit(&w, "m2", "reused");
	}
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	ck_assert_ptr_eq(world_worker(&w, 2), p);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	ck_assert(is_stored("a"));
}
END_TEST

static const struct {
	const char *line, *why;
} refused[] = {
	{SAY("x/y", "out"), "slash"},
	{SAY("../x", "out"), "dot"},
	{SAY(".x", "out"), "dot"},
	{SAY("", "out"), "empty"},
	{SAY("a", ""), "path"},
	{SAY("a", "/etc/passwd"), "relative"},
	{SAY("a", "../../hcpd.db"), "leaves"},
	{SAY("a", "none"), "No such file"},
	{SAY("a\\u0000b", "out"), "control"},
	{SAY("a", "out\\u0000x"), "path"},
	{SAY("a", "huge"), "limit"},
	{SAY("a", "."), "directory"},
};

START_TEST(line_that_announces_no_artifact_costs_only_a_warning) /* proves L4-05 */
{
	struct worker *p = world_start(&w, "m1", "work");

	put("out", "abc");
	put_large("huge", (40 << 20) + 1);
	say(p, refused[_i].line);
	say(p, COMPLETED);
	exit_well(p);
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	ck_assert_int_eq(world_said(&w, "\"code\":\"artifact_not_kept\""), 1);
	ck_assert_msg(world_said(&w, refused[_i].why) >= 1, "%s", refused[_i].why);
	ck_assert_int_eq(world_said(&w, "\"artifacts\":[]"), 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM artifacts", NULL), 0);
	ck_assert_int_eq(access(path_of("artifacts", ""), F_OK), -1);
}
END_TEST

START_TEST(all_of_a_session_have_a_limit_together)
{
	struct worker *p = world_start(&w, "m1", "work");

	put_large("two", 25 << 20);
	put_large("three", 40 << 20);
	say(p, SAY("a", "two"));
	say(p, SAY("b", "three"));
	say(p, SAY("c", "two"));
	say(p, SAY("d", "two"));
	say(p, COMPLETED);
	exit_well(p);
	ck_assert_str_eq(
		world_text(&w, "SELECT group_concat(name) FROM artifacts WHERE size_bytes NOT NULL", NULL),
		"a,c");
	ck_assert_int_eq(world_said(&w, "\"code\":\"artifact_not_kept\""), 2);
}
END_TEST

START_TEST(the_later_of_a_name_takes_the_place_of_the_earlier)
{
	struct worker *p = world_start(&w, "m1", "work");

	put("one", "abc");
	put("two", "other");
	say(p, SAY("a", "one"));
	world_run(&w);
	ck_assert(is_stored("a"));
	say(p, SAY("a", "two"));
	say(p, COMPLETED);
	exit_well(p);
	ck_assert_int_eq(world_said(&w, "\"size_bytes\":5"), 1);
	ck_assert_int_eq(world_said(&w, SHA_OF_ABC), 0);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM artifacts", NULL), 1);
}
END_TEST

START_TEST(a_later_one_that_is_refused_takes_the_earlier_with_it)
{
	struct worker *p = world_start(&w, "m1", "work");

	put("one", "abc");
	say(p, SAY("a", "one"));
	world_run(&w);
	say(p, SAY("a", "none"));
	say(p, COMPLETED);
	exit_well(p);
	ck_assert_int_eq(world_said(&w, "\"artifacts\":[]"), 1);
	ck_assert(!is_stored("a"));
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM artifacts", NULL), 0);
}
END_TEST

START_TEST(a_type_that_is_none_is_told_and_replaced)
{
	struct worker *p = world_start(&w, "m1", "work");

	put("one", "abc");
	say(p, "{\"type\":\"artifact\",\"name\":\"a\",\"path\":\"one\",\"mime\":\"text\\nX: y\"}");
	say(p, COMPLETED);
	exit_well(p);
	ck_assert_int_eq(world_said(&w, "\"code\":\"artifact_type\""), 1);
	ck_assert_int_eq(world_said(&w, "\"type\":\"application/octet-stream\",\"uri\""), 1);
}
END_TEST

START_TEST(more_than_a_result_can_name_are_refused)
{
	struct worker *p = world_start(&w, "m1", "work");
	char line[600];

	put("one", "abc");
	for (int i = 0; i < 1200; i++) {
		snprintf(
			line, sizeof line, "{\"type\":\"artifact\",\"name\":\"%0200d\",\"path\":\"one\"}", i);
		say(p, line);
	}
	say(p, COMPLETED);
	exit_well(p);
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	ck_assert_int_gt(world_count(&w, "SELECT count(*) FROM artifacts WHERE size_bytes = 3", NULL), 300);
	ck_assert_int_gt(world_said(&w, "one too many"), 100);
	ck_assert_int_eq(world_count(&w,
				 "SELECT json_array_length(body, '$.payload.artifacts') - (SELECT count(*) "
				 "FROM artifacts)"
				 " FROM events WHERE type = 'task_completed'",
				 NULL),
		0);
}
END_TEST

START_TEST(an_abort_waits_for_none)
{
	struct worker *p = world_start(&w, "m1", "work");

	put_large("large", LARGE);
	put("one", "abc");
	say(p, SAY("done", "one"));
	world_run(&w);
	say(p, SAY("a", "large"));
	world_turn(&w);
	ck_assert_ptr_nonnull(w.core.run.collecting);
	world_abort(&w, world_id(&w, 1));
	fake_worker_exit(p, 0);
	for (int i = 0; i < 2; i++)
		world_turn(&w);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "ABORTED");
	ck_assert_int_eq(access(path_of("artifacts", ".new"), F_OK), -1);
	ck_assert(!is_stored("a"));
	ck_assert(is_stored("done")); /* kept, for whoever looks */
	ck_assert_ptr_null(w.core.run.collecting);
}
END_TEST

START_TEST(an_end_waits_no_longer_than_it_may)
{
	struct worker *p = world_start(&w, "m1", "work");

	put_large("large", LARGE);
	put("one", "abc");
	say(p, SAY("done", "one"));
	world_run(&w);
	say(p, SAY("a", "large"));
	say(p, COMPLETED);
	fake_worker_exit(p, 0);
	while (!p->is_gone)
		world_turn(&w);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	fake_clock_pass(20 * SECONDS);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	ck_assert_int_eq(world_said(&w, "artifact_timeout is over"), 1);
	ck_assert_int_eq(world_said(&w, "\"artifacts\":[{\"name\":\"done\""), 1);
	ck_assert_int_eq(access(path_of("artifacts", ".new"), F_OK), -1);
}
END_TEST

START_TEST(nothing_is_copied_while_the_store_refuses)
{
	struct worker *p = world_start(&w, "m1", "work");

	put("one", "abc");
	fake_disk_refuse(ENOSPC);
	say(p, SAY("a", "one"));
	world_run(&w);
	ck_assert(w.core.phase.is_suspended && access(path_of("artifacts", ""), F_OK) != 0);
	fake_disk_mend();
	world_pass(&w, 2 * SECONDS);
	ck_assert(is_stored("a"));
}
END_TEST

START_TEST(artifact_announced_before_a_crash_is_stored_after_it) /* proves L4-05 */
{
	struct worker *p = world_start(&w, "m1", "work");

	put_large("large", LARGE);
	put("one", "abc");
	say(p, SAY("done", "one"));
	world_run(&w);
	say(p, SAY("a", "large"));
	say(p, COMPLETED);
	fake_worker_exit(p, 0);
	while (!p->is_gone)
		world_turn(&w);
	world_turn(&w);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM outcomes", NULL), 1);
	world_write_file(path_of("artifacts", ""), ".new", "half");
	world_write_file(path_of("artifacts", ""), "a", "renamed, and its row was not committed");
	world_write_file(path_of("artifacts", ""), "ghost", "of no row");
	world_crash(&w);
	ck_assert(!is_stored("ghost"));
	ck_assert(!is_stored("a") || access(path_of("artifacts", ".new"), F_OK) == 0);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	ck_assert_int_eq(world_said(&w, "\"size_bytes\":31457280"), 1);
	ck_assert_int_eq(world_said(&w, "\"artifacts\":[{\"name\":\"done\""), 1);
	ck_assert(is_stored("a") && is_stored("done") && access(path_of("artifacts", ".new"), F_OK) != 0);
	world_check_stream(&w, 1);
}
END_TEST

START_TEST(a_session_that_goes_on_after_a_crash_keeps_what_it_had) /* proves L4-05 */
{
	struct worker *p = world_start(&w, "m1", "work");

	put("one", "abc");
	say(p, SAY("a", "one"));
	world_run(&w);
	world_crash(&w);
	world_run(&w);
	ck_assert(is_stored("a"));
	p = world_worker(&w, 1);
	say(p, COMPLETED);
	exit_well(p);
	ck_assert_int_eq(world_said(&w, "\"checksum\":\"sha256:" SHA_OF_ABC "\""), 1);
}
END_TEST

START_TEST(a_stop_waits_for_an_end_that_only_waits_for_a_file)
{
	struct worker *p = world_start(&w, "m1", "work");

	put_large("large", LARGE);
	say(p, SAY("a", "large"));
	say(p, COMPLETED);
	fake_worker_exit(p, 0);
	while (!p->is_gone)
		world_turn(&w);
	core_stop(&w.core);
	world_run(&w);
	ck_assert(w.core.phase.is_done);
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("artifact");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_result_names_what_was_stored);
	tcase_add_loop_test(t, an_artifact_waits_while_there_are_no_descriptors, 0, 4);
	tcase_add_test(t, a_failure_names_them_too);
	tcase_add_test(t, an_end_waits_until_all_is_stored);
	tcase_add_test(t, a_reused_process_serves_on_while_they_are_stored);
	tcase_add_loop_test(
		t, line_that_announces_no_artifact_costs_only_a_warning, 0, sizeof refused / sizeof *refused);
	tcase_add_test(t, all_of_a_session_have_a_limit_together);
	tcase_add_test(t, the_later_of_a_name_takes_the_place_of_the_earlier);
	tcase_add_test(t, a_later_one_that_is_refused_takes_the_earlier_with_it);
	tcase_add_test(t, a_type_that_is_none_is_told_and_replaced);
	tcase_add_test(t, more_than_a_result_can_name_are_refused);
	tcase_add_test(t, an_abort_waits_for_none);
	tcase_add_test(t, an_end_waits_no_longer_than_it_may);
	tcase_add_test(t, nothing_is_copied_while_the_store_refuses);
	tcase_add_test(t, artifact_announced_before_a_crash_is_stored_after_it);
	tcase_add_test(t, a_session_that_goes_on_after_a_crash_keeps_what_it_had);
	tcase_add_test(t, a_stop_waits_for_an_end_that_only_waits_for_a_file);
	suite_add_tcase(s, t);
	return world_main(s);
}
