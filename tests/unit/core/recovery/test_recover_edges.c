/* SPDX-License-Identifier: MIT */
/* test_recover_edges.c: where two things come together: an end with files that are still copied, a pause that
 * cannot be saved, versions and steps that are no plain words, clocks that jump. */
#include "support/fakes/operator_kit.h"

#include <fcntl.h>

#define TRIES "[capability work]\nmax_attempts = 3\n"
#define FREES "[capability work]\npause_frees_worker = yes\n"
#define MIGRATES "[capability work]\nstate_version = 2.0\nmigrate = /bin/migrate\n"
#define FILE_SIZE (64 << 20) /* a MiB is copied in a turn */

static void setup(void)
{
	opkit_begin(TRIES);
}

/* ---- an end that waits for its artifacts ---- */

/* Session 1 is PAUSED, its worker dead, a file of it is not in the artifact store yet. */
static void die_with_a_file(void)
{
	struct worker *p = world_start(&w, "m1", "work");
	char path[600];
	int fd;

	snprintf(path, sizeof path, "%s/big", p->workdir);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	ck_assert(fd >= 0 && ftruncate(fd, FILE_SIZE) == 0);
	close(fd);
	fake_worker_say(p, CHECKPOINT("1"));
	fake_worker_say(p, "{\"type\":\"artifact\",\"name\":\"big\",\"path\":\"big\"}");
	fake_worker_exit(p, SIGKILL);
	for (int i = 0; i < 10; i++)
		world_turn(&w);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM artifacts WHERE size_bytes IS NULL", NULL), 1);
	ck_assert(session_find(&w.core, world_id(&w, 1))->run.runner == NULL);
}

START_TEST(session_that_may_not_go_on_ends_once_its_files_are_in)
{
	die_with_a_file();
	world_configure(&w, TRIES "[caller alpha]\nmax_risk = R1\n");
	core_reload(&w.core);
	fake_clock_pass(2 * SECONDS);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"size_bytes\":67108864"), 1);
}
END_TEST

/* Nothing is started, or again. */
static void kit_drain(bool drain)
{
	fake_operators_ask(&operators, drain ? OP_DRAIN : OP_UNDRAIN, NULL);
	core_on_requests(&w.core);
}

START_TEST(a_deadline_in_the_queue_ends_it_once_its_files_are_in)
{
	opkit_reload(TRIES "[session]\nmax_duration = 2s\n");
	die_with_a_file();
	kit_drain(true);
	for (int i = 0; i < 2; i++) {
		fake_clock_pass(1 * SECONDS);
		world_turn(&w);
	}
	kit_drain(false);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
}
END_TEST

/* ---- a pause that cannot be saved ---- */

/* One that cannot be gone on from; or one that is over the limit. */
static void say_unsaved(struct worker *p, bool is_large)
{
	struct buf b = {0};

	buf_addf(&b, "{\"type\":\"checkpoint\",\"state\":{\"n\":\"%0*d\"},\"resumable\":%s}",
		is_large ? 2000 : 1, 7, is_large ? "true" : "false");
	opkit_say(p, buf_text(&b));
	buf_fini(&b);
}

START_TEST(worker_without_a_usable_checkpoint_is_asked_once_to_pause)
{
	struct worker *p;
	int asked = 0;

	opkit_reload(FREES "[limits]\ncheckpoint_state = 1KiB\n");
	p = world_start(&w, "m1", "work");
	opkit_say(p, "{\"type\":\"step\",\"name\":\"a\"}");
	opkit_say(p, PAUSED);
	for (int i = 0; i < 50; i++)
		say_unsaved(p, _i == 1);
	for (const char *at = buf_text(&p->in); (at = strstr(at, "checkpoint_request")) != NULL; at++)
		asked++;
	ck_assert_int_eq(asked, 1);
	ck_assert(!p->is_gone);
	opkit_say(p, CHECKPOINT("2"));
	world_run(&w);
	ck_assert(p->is_gone);
}
END_TEST

/* ---- words that are not plain ---- */

START_TEST(a_version_with_quotes_is_migrated_and_said)
{
	opkit_say(world_start(&w, "m1", "work"),
		"{\"type\":\"checkpoint\",\"state\":{},\"state_version\":\"1\\\"\\n\\\\x\"}");
	world_configure(&w, MIGRATES);
	opkit_crash();
	fake_worker_say(w.workers.list[0], "{\"m\":1}");
	opkit_die(w.workers.list[0], 0);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	world_check_stream(&w, 1);
}
END_TEST

START_TEST(a_long_step_does_not_make_a_summary_too_large)
{
	opkit_reload("[limits]\nmessage = 64KiB\n[capability work]\nrecovery = summarize\n");
	opkit_restart();
	opkit_say(world_start(&w, "m1", "work"), CHECKPOINT("1"));
	/* none that a worker can give */
	world_exec(&w, "UPDATE checkpoints SET step = '\"' || hex(zeroblob(50000)) || '\"'");
	opkit_crash();
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	for (size_t i = 0; i < world_sent_count(&w); i++)
		ck_assert_uint_le(world_sent(&w, i)->size, 65536);
}
END_TEST

/* ---- slots ---- */

START_TEST(paused_session_without_a_slot_queues_after_a_crash_too) /* proves SA-11 */
{
	struct worker *p;

	opkit_reload(FREES "[daemon]\nmax_sessions = 1\n");
	p = world_start(&w, "m1", "work");
	opkit_say(p, CHECKPOINT("1"));
	opkit_say(p, PAUSED);
	world_run(&w);
	ck_assert(p->is_gone);
	world_start(&w, "m2", "work");
	opkit_crash();
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	ck_assert_uint_eq(w.core.slots.running, 1);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	opkit_say(w.workers.list[0], COMPLETED);
	opkit_die(w.workers.list[0], 0);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

/* ---- clocks ---- */

START_TEST(a_step_of_the_clock_does_not_expire_a_pause)
{
	opkit_reload(TRIES "[session]\npause_grace = 60s\n");
	world_start(&w, "m1", "work");
	opkit_die(w.workers.list[0], SIGKILL);
	fake_wall_us += 7200 * SECONDS;
	opkit_done(opkit_ask(OP_PAUSE, 1, ""));
	world_pass(&w, 30 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	world_pass(&w, 31 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "FAILED");
}
END_TEST

START_TEST(session_held_while_it_waits_for_a_slot_has_its_grace)
{
	opkit_reload(FREES "[daemon]\nmax_sessions = 1\n[session]\npause_grace = 60s\n");
	struct worker *p = world_start(&w, "m1", "work");

	opkit_ask(OP_PAUSE, 1, "");
	opkit_say(p, CHECKPOINT("3"));
	opkit_say(p, PAUSED);
	world_run(&w);
	world_start(&w, "m2", "work");
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	world_pass(&w, 100 * SECONDS); /* nobody holds it */
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	opkit_done(opkit_ask(OP_PAUSE, 1, ""));
	world_pass(&w, 30 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	world_pass(&w, 31 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "FAILED");
}
END_TEST

START_TEST(a_deadline_is_moved_while_it_rests_too) /* proves SA-10 */
{
	struct op_request *a;

	opkit_reload("[capability brief]\nmax_attempts = 2\nretry_delay = 30s\n");
	world_start(&w, "m1", "brief");
	opkit_die(w.workers.list[0], SIGKILL); /* its back-off is longer than it has */
	a = fake_operators_ask(&operators, OP_EXTEND, world_id(&w, 1));
	a->by_us = 40 * SECONDS;
	core_on_requests(&w.core);
	world_run(&w);
	opkit_done(a);
	world_pass(&w, 31 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(fake_worker_has_line(w.workers.list[1], "\"deadline\":\"2026-01-31T12:00:50.000Z\""));
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
}
END_TEST

/* ---- the end of a process that is given up ---- */

/* Session 1 rests, and its process has been told to go, and does not. */
static struct worker *give_up(void)
{
	struct worker *p;

	opkit_reload(FREES);
	p = world_start(&w, "m1", "work");
	p->ignores_term = true;
	opkit_say(p, CHECKPOINT("1"));
	opkit_say(p, PAUSED);
	return p;
}

START_TEST(lines_of_a_process_that_is_given_up_count)
{
	struct worker *p = give_up();

	ck_assert(p->stdin_closed && !p->is_gone);
	opkit_say(p, CHECKPOINT("2"));
	world_pass(&w, 60 * SECONDS);
	ck_assert(p->is_gone);
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	ck_assert(fake_worker_has_line(w.workers.list[1], "\"state\":{\"n\":2}"));
	world_check_stream(&w, 1);
}
END_TEST

START_TEST(session_that_completes_while_given_up_has_completed)
{
	struct worker *p = give_up();

	opkit_say(p, COMPLETED);
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
	ck_assert(p->is_gone);
}
END_TEST

START_TEST(a_stop_while_its_process_is_given_up_leaves_it_PAUSED)
{
	struct worker *p;

	opkit_reload(FREES);
	p = world_start(&w, "m1", "work");
	p->ignores_term = true;
	opkit_ask(OP_PAUSE, 1, "");
	opkit_say(p, CHECKPOINT("1"));
	opkit_say(p, PAUSED);
	ck_assert(p->stdin_closed && !p->is_gone);
	opkit_restart();
	ck_assert_str_eq(world_text(&w, "SELECT state || paused_by FROM sessions", NULL), "PAUSEDoperator");
	ck_assert_uint_eq(w.workers.count, 0);
	opkit_done(opkit_ask(OP_RESUME, 1, ""));
	ck_assert(fake_worker_has_line(w.workers.list[0], "\"state\":{\"n\":1}"));
}
END_TEST

START_TEST(its_deadline_while_its_process_is_given_up_ends_it)
{
	struct worker *p;

	opkit_reload("[capability brief]\npause_frees_worker = yes\n");
	p = world_start(&w, "m1", "brief");
	p->ignores_term = true;
	world_pass(&w, 8 * SECONDS);
	opkit_say(p, CHECKPOINT("1"));
	opkit_say(p, PAUSED);
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"error_code\":\"timeout\""), 1);
	ck_assert(p->is_gone);
	ck_assert_uint_eq(w.workers.count, 1);
}
END_TEST

/* ---- a migration, and what comes meanwhile ---- */

START_TEST(a_full_disk_does_not_fail_a_migration)
{
	opkit_say(world_start(&w, "m1", "work"),
		"{\"type\":\"checkpoint\",\"state\":{},\"state_version\":\"1\"}");
	world_configure(&w, MIGRATES);
	world_end(&w, true);
	world_begin(&w);
	w.workers.fail_errno = ENOSPC;
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_uint_eq(w.workers.count, 0);
	world_pass(&w, 1 * SECONDS);
	ck_assert_uint_eq(w.workers.count, 1);
	fake_worker_say(w.workers.list[0], "{\"m\":1}");
	opkit_die(w.workers.list[0], 0);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(an_abort_ends_a_migration_that_waits_for_room)
{
	opkit_say(world_start(&w, "m1", "work"),
		"{\"type\":\"checkpoint\",\"state\":{},\"state_version\":\"1\"}");
	world_configure(&w, MIGRATES);
	world_end(&w, true);
	world_begin(&w);
	w.workers.fail_errno = ENOSPC;
	world_run(&w);
	world_abort(&w, world_id(&w, 1));
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "ABORTED");
	world_pass(&w, 5 * SECONDS);
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

START_TEST(a_migrated_state_is_stored_as_any_other) /* proves CK-02 CK-11 */
{
	struct buf b = {0};

	opkit_say(world_start(&w, "m1", "work"),
		"{\"type\":\"checkpoint\",\"state\":{},\"state_version\":\"1\"}");
	world_configure(&w, MIGRATES);
	opkit_crash();
	buf_addf(&b, "{\"m\":\"%09000d\"}", 1);
	fake_worker_say(w.workers.list[0], buf_text(&b));
	opkit_die(w.workers.list[0], 0);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_str_eq(world_text(&w,
				 "SELECT encoding || (length(state) < 500) || state_size FROM checkpoints"
				 " WHERE trigger = 'migrate'",
				 NULL),
		"zstd19008");
	ck_assert(fake_worker_has_line(w.workers.list[1], buf_text(&b)));
	buf_fini(&b);
}
END_TEST

START_TEST(a_reload_while_it_is_migrated_counts)
{
	opkit_say(world_start(&w, "m1", "work"),
		"{\"type\":\"checkpoint\",\"state\":{},\"state_version\":\"1\"}");
	world_configure(&w, MIGRATES);
	opkit_crash();
	opkit_reload(MIGRATES "[caller alpha]\nmax_risk = R1\n");
	fake_worker_say(w.workers.list[0], "{\"m\":1}");
	opkit_die(w.workers.list[0], 0);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_uint_eq(w.workers.count, 1);
}
END_TEST

START_TEST(a_reload_to_another_version_while_it_is_migrated_counts)
{
	opkit_say(world_start(&w, "m1", "work"),
		"{\"type\":\"checkpoint\",\"state\":{},\"state_version\":\"1\"}");
	world_configure(&w, MIGRATES);
	opkit_crash();
	opkit_reload("[capability work]\nstate_version = 3.0\n");
	fake_worker_say(w.workers.list[0], "{\"m\":1}");
	opkit_die(w.workers.list[0], 0);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_uint_eq(w.workers.count, 1);
}
END_TEST

START_TEST(a_checkpoint_that_is_damaged_while_its_start_waits_is_missed) /* proves CK-03 */
{
	struct worker *p = world_start(&w, "m1", "work");

	opkit_say(p, CHECKPOINT("1"));
	opkit_die(p, SIGKILL);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	w.workers.fail_errno = ENOSPC;
	world_pass(&w, 1 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_int_eq(w.workers.fail_errno, 0);
	world_exec(&w, "UPDATE checkpoints SET state = '{\"n\":7}'");
	world_pass(&w, 1 * SECONDS);
	ck_assert_uint_eq(w.workers.count, 1);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "was to go on from its checkpoint"), 1);
}
END_TEST

/* ---- one turn ---- */

/* A state of n, and much beside it, so that it is stored as a difference where it can be. */
static void say_large(struct worker *p, int n, bool resumable)
{
	struct buf b = {0};

	buf_addf(&b, "{\"type\":\"checkpoint\",\"resumable\":%s,\"state\":{\"n\":%d,\"l\":[",
		resumable ? "true" : "false", n);
	for (int i = 0; i < 1000; i++)
		buf_addf(&b, "\"%08x\",", (unsigned)i * 2654435761u);
	buf_add_text(&b, "0]}}");
	fake_worker_say(p, buf_text(&b));
	buf_fini(&b);
}

static int at_once;

static void hand_over_at_once(void)
{
	for (; at_once > 0; at_once--)
		fake_workers_run(&w.workers);
}

START_TEST(nothing_is_built_on_what_an_operator_passed_over)
{
	struct worker *p;

	opkit_reload(FREES);
	p = world_start(&w, "m1", "work");
	say_large(p, 1, true);
	opkit_say(p, PAUSED);
	world_run(&w);
	ck_assert(p->is_gone);
	opkit_done(opkit_ask(OP_RECOVER, 1, "restart"));
	p = w.workers.list[1];
	for (int i = 0; i < 2; i++)
		opkit_say(p, "{\"type\":\"checkpoint\",\"state\":{},\"resumable\":false}");
	w.mid_turn = hand_over_at_once;
	fake_worker_say(p, "{\"type\":\"checkpoint\",\"state\":{},\"resumable\":false}");
	say_large(p, 2, true);
	at_once = 2;
	world_run(&w);
	opkit_crash();
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(fake_worker_has_line(w.workers.list[0], "\"n\":2"));
}
END_TEST

static struct worker *dying;

/* The first checkpoint, the death and an operator's resume all in one turn. */
static void all_at_once(void)
{
	if (dying == NULL)
		return;
	for (int i = 0; i < 6; i++)
		fake_workers_run(&w.workers);
	fake_operators_ask(&operators, OP_RESUME, session_find(&w.core, dying->session_id)->id);
	dying = NULL;
	core_on_requests(&w.core);
}

START_TEST(checkpoint_that_is_not_committed_yet_is_resumed_from)
{
	struct worker *p = world_start(&w, "m1", "work");

	fake_worker_say(p, CHECKPOINT("1"));
	fake_worker_exit(p, SIGKILL);
	dying = p;
	w.mid_turn = all_at_once;
	world_pass(&w, 5 * SECONDS);
	ck_assert(p->is_gone);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_uint_eq(w.workers.count, 2);
	ck_assert(fake_worker_has_line(w.workers.list[1], "\"state\":{\"n\":1}"));
}
END_TEST

/* ---- what is looked at before it goes on, and what is left ---- */

START_TEST(summary_has_the_last_checkpoint_though_it_is_not_resumed) /* proves CK-12 */
{
	struct worker *p;

	opkit_reload("[capability work]\nrecovery = summarize\n");
	p = world_start(&w, "m1", "work");
	opkit_say(p, CHECKPOINT("1"));
	opkit_say(p,
		"{\"type\":\"checkpoint\",\"description\":\"half\",\"step\":2.50,\"state\":{},\"resumable\":"
		"false}");
	opkit_crash();
	ck_assert_int_eq(world_said(&w, "\"description\":\"half\",\"step\":2.50}}"), 1);
}
END_TEST

START_TEST(a_capability_that_goes_in_the_back_off_is_named) /* proves CK-09 */
{
	world_declare(&w, "passing", "1.0.0", WORLD_SAFE, "");
	opkit_reload(
		"[capability passing]\ndeclaration = passing.json\ncommand = /bin/true\nmax_attempts = 2\n");
	world_start(&w, "m1", "passing");
	opkit_die(w.workers.list[0], SIGKILL);
	opkit_reload("");
	world_pass(&w, 2 * SECONDS);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"check\":\"capability\""), 1);
	ck_assert_uint_eq(w.workers.count, 1);
}
END_TEST

START_TEST(session_that_has_no_time_left_is_not_started) /* proves CK-09 */
{
	opkit_say(world_start(&w, "m1", "brief"), CHECKPOINT("1"));
	world_end(&w, true);
	fake_clock_pass(11 * SECONDS);
	world_begin(&w);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"final_state\":\"FAILED\",\"reason\":\"timeout\""), 1);
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

START_TEST(the_working_directory_goes_with_an_expired_pause) /* proves CK-10 */
{
	char workdir[600];
	struct worker *p;

	opkit_reload(FREES "keep_workdir = never\n[session]\npause_grace = 60s\n");
	p = world_start(&w, "m1", "work");
	snprintf(workdir, sizeof workdir, "%s", p->workdir);
	opkit_say(p, CHECKPOINT("1"));
	opkit_say(p, PAUSED);
	world_pass(&w, 59 * SECONDS);
	ck_assert(p->is_gone && access(workdir, F_OK) == 0); /* it may come back */
	world_pass(&w, 2 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "FAILED");
	ck_assert(access(workdir, F_OK) != 0);
}
END_TEST

START_TEST(no_task_begins_with_a_state_of_another_version) /* proves CK-11 L4-06 */
{
	struct worker *p = world_start(&w, "m1", "work");
	char named[128];

	opkit_say(p, "{\"type\":\"checkpoint\",\"state\":{},\"state_version\":\"1.4\"}");
	opkit_say(p, COMPLETED);
	opkit_die(p, 0);
	snprintf(named, sizeof named, ",\"constraints\":{\"checkpoint\":\"%s\"}",
		world_text(&w, "SELECT checkpoint_id FROM checkpoints", NULL));
	opkit_reload("[capability work]\nstate_version = 2.0\n");
	world_submit_as(&w, "alpha", NULL, "m2", "work", named);
	world_run(&w);
	ck_assert_int_eq(world_said(&w, "has a state of another version"), 1);
	ck_assert_uint_eq(w.workers.count, 1);
	opkit_reload("[capability work]\nstate_version = 1.4\n");
	world_submit_as(&w, "alpha", NULL, "m3", "work", named);
	world_run(&w);
	ck_assert(fake_worker_has_line(w.workers.list[1], "\"state_version\":\"1.4\""));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("recover_edges");
	TCase *t = tcase_create("recover_edges");

	tcase_add_checked_fixture(t, setup, opkit_end);
	tcase_set_timeout(t, 20);
	tcase_add_test(t, session_that_may_not_go_on_ends_once_its_files_are_in);
	tcase_add_test(t, a_deadline_in_the_queue_ends_it_once_its_files_are_in);
	tcase_add_loop_test(t, worker_without_a_usable_checkpoint_is_asked_once_to_pause, 0, 2);
	tcase_add_test(t, a_version_with_quotes_is_migrated_and_said);
	tcase_add_test(t, a_long_step_does_not_make_a_summary_too_large);
	tcase_add_test(t, paused_session_without_a_slot_queues_after_a_crash_too);
	tcase_add_test(t, a_step_of_the_clock_does_not_expire_a_pause);
	tcase_add_test(t, session_held_while_it_waits_for_a_slot_has_its_grace);
	tcase_add_test(t, a_deadline_is_moved_while_it_rests_too);
	tcase_add_test(t, lines_of_a_process_that_is_given_up_count);
	tcase_add_test(t, session_that_completes_while_given_up_has_completed);
	tcase_add_test(t, a_stop_while_its_process_is_given_up_leaves_it_PAUSED);
	tcase_add_test(t, its_deadline_while_its_process_is_given_up_ends_it);
	tcase_add_test(t, a_full_disk_does_not_fail_a_migration);
	tcase_add_test(t, an_abort_ends_a_migration_that_waits_for_room);
	tcase_add_test(t, a_migrated_state_is_stored_as_any_other);
	tcase_add_test(t, a_reload_while_it_is_migrated_counts);
	tcase_add_test(t, a_reload_to_another_version_while_it_is_migrated_counts);
	tcase_add_test(t, a_checkpoint_that_is_damaged_while_its_start_waits_is_missed);
	tcase_add_test(t, nothing_is_built_on_what_an_operator_passed_over);
	tcase_add_test(t, checkpoint_that_is_not_committed_yet_is_resumed_from);
	tcase_add_test(t, summary_has_the_last_checkpoint_though_it_is_not_resumed);
	tcase_add_test(t, a_capability_that_goes_in_the_back_off_is_named);
	tcase_add_test(t, session_that_has_no_time_left_is_not_started);
	tcase_add_test(t, the_working_directory_goes_with_an_expired_pause);
	tcase_add_test(t, no_task_begins_with_a_state_of_another_version);
	suite_add_tcase(s, t);
	return world_main(s);
}
