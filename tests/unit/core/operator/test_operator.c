/* SPDX-License-Identifier: MIT */
/* test_operator.c: what an operator asks of the core: each verb, what it answers and when, and what comes
 * of it later. */
#include "support/fakes/fake_world.h"

#include "support/fakes/fake_operators.h"

static struct world w;
static struct op_queue operators;

/* Nothing is said that is not stored. */
static void on_answer(void *ctx, const struct op_request *a)
{
	const char *state = strstr(buf_text(&((struct op_request *)(uintptr_t)a)->done), "\"state\":\"");

	(void)ctx;
	world_check_rows(&w);
	if (a->code == NULL && state != NULL && a->verb != OP_REPLAY) {
		const char *stored =
			world_text(&w, "SELECT state FROM sessions WHERE session_id = ?", a->session_id);

		ck_assert_msg(
			strncmp(state + 9, stored, strlen(stored)) == 0, "said %s, stored %s", state, stored);
	}
}

static void setup(void)
{
	world_init(&w, "");
	world_begin(&w);
	fake_operators_init(&operators);
	operators.on_answer = on_answer;
	w.core.operator.queue = & operators;
}

static void teardown(void)
{
	world_fini(&w);
	fake_operators_fini(&operators);
}

static void crash(void)
{
	world_crash(&w);
	w.core.operator.queue = & operators;
}

static struct op_request *put(enum op_verb verb, int key)
{
	struct op_request *a = fake_operators_ask(&operators, verb, key > 0 ? world_id(&w, key) : NULL);

	core_on_requests(&w.core);
	return a;
}

static struct op_request *ask(enum op_verb verb, int key)
{
	unsigned before = operators.answers;
	struct op_request *a = put(verb, key);

	world_run(&w);
	ck_assert_uint_eq(operators.answers, before + 1);
	return a;
}

static void expect_done(struct op_request *a, const char *state)
{
	char text[64];

	snprintf(text, sizeof text, "\"state\":\"%s\"", state);
	ck_assert_msg(a->code == NULL, "%s: %s", a->code, a->message);
	ck_assert_msg(strstr(buf_text(&a->done), text) != NULL, "%s", buf_text(&a->done));
}

static void expect_error(struct op_request *a, const char *code)
{
	ck_assert_msg(a->code != NULL, "done: %s", buf_text(&a->done));
	ck_assert_str_eq(a->code, code);
	ck_assert_str_ne(a->message, "");
	ck_assert_str_ne(a->remedy, "");
}

static void say(struct worker *p, const char *line)
{
	fake_worker_say(p, line);
	world_run(&w);
}

#define COMPLETED "{\"type\":\"completed\",\"outputs\":{}}"
#define PAUSED "{\"type\":\"paused\",\"reason\":\"as told\"}"
#define RESUMED "{\"type\":\"resumed\"}"
#define CHECKPOINT "{\"type\":\"checkpoint\",\"state\":{\"n\":5},\"step\":\"five\"}"
#define ACTOR "SELECT actor FROM transitions WHERE to_state = ? ORDER BY id DESC LIMIT 1"

static struct worker *start_paused(const char *capability)
{
	struct worker *p = world_start(&w, "m1", capability);

	say(p, CHECKPOINT);
	ask(OP_PAUSE, 1);
	say(p, PAUSED);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	return p;
}

/* ---- abort ---- */

START_TEST(an_abort_is_answered_once_it_is_stored_and_ends_the_session)
{
	struct worker *p = world_start(&w, "m1", "work");
	struct op_request *a = fake_operators_ask(&operators, OP_ABORT, world_id(&w, 1));

	a->reason = xstrdup("too \"dear\"");
	core_on_requests(&w.core);
	ck_assert_uint_eq(operators.answers, 0);
	core_end_turn(&w.core);
	ck_assert_uint_eq(operators.answers, 1);
	expect_done(a, "ABORTING");
	ck_assert(fake_worker_has_line(p, "{\"type\":\"abort\",\"reason\":\"too \\\"dear\\\"\","));
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_str_eq(world_path(&w, 1),
		"PENDING>RUNNING:approved RUNNING>ABORTING:aborted_by_operator "
		"ABORTING>ABORTED:aborted_by_operator");
	ck_assert_str_eq(world_text(&w, ACTOR, "ABORTING"), "operator");
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(no_answer_comes_while_the_store_refuses)
{
	struct worker *p = world_start(&w, "m1", "work");
	struct op_request *a;

	fake_disk_refuse(ENOSPC);
	a = put(OP_ABORT, 1);
	world_run(&w);
	ck_assert(w.core.phase.is_suspended);
	ck_assert_uint_eq(operators.answers, 0);
	put(OP_PAUSE, 1);
	world_pass(&w, 5 * SECONDS);
	ck_assert_uint_eq(operators.answers, 0);
	ck_assert(!fake_worker_has_line(p, "abort"));
	fake_disk_mend();
	world_pass(&w, 2 * SECONDS);
	ck_assert_uint_eq(operators.answers, 2);
	expect_done(a, "ABORTING");
	expect_error(operators.answered, "not_now");
}
END_TEST

START_TEST(stats_are_answered_while_the_store_refuses_and_say_so)
{
	struct op_request *a;

	fake_disk_refuse(ENOSPC);
	world_submit(&w, "m1", "work");
	world_run(&w);
	ck_assert(w.core.phase.is_suspended);
	a = put(OP_STATS, 0);
	ck_assert_uint_eq(operators.answers, 1);
	ck_assert(strstr(buf_text(&a->item), "\"held\":true") != NULL);
	fake_disk_mend();
	world_pass(&w, 2 * SECONDS);
}
END_TEST

START_TEST(abort_is_done_twice_and_refused_once_the_session_ended)
{
	struct worker *p = world_start(&w, "m1", "work");
	struct op_request *a;

	ask(OP_ABORT, 1);
	expect_done(ask(OP_ABORT, 1), "ABORTING");
	fake_worker_exit(p, 0);
	world_run(&w);
	a = ask(OP_ABORT, 1);
	expect_error(a, "not_now");
	ck_assert(strstr(a->message, "ABORTED") != NULL);
	a = fake_operators_ask(&operators, OP_ABORT, "00000000-0000-4000-8000-000000000000");
	core_on_requests(&w.core);
	world_run(&w);
	expect_error(a, "not_found");
}
END_TEST

START_TEST(an_abort_after_the_result_is_too_late)
{
	struct worker *p = world_start(&w, "m1", "work");

	say(p, COMPLETED);
	expect_error(ask(OP_ABORT, 1), "not_now");
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
}
END_TEST

START_TEST(a_waiting_session_is_aborted_without_a_worker)
{
	world_start(&w, "m1", "narrow");
	world_submit(&w, "m2", "narrow");
	world_run(&w);
	expect_done(ask(OP_ABORT, 2), "ABORTED");
	ck_assert(world_worker(&w, 2) == NULL);
}
END_TEST

/* ---- pause and resume ---- */

START_TEST(worker_told_to_pause_pauses_the_session_when_it_says_so)
{
	struct worker *p = world_start(&w, "m1", "work");
	struct op_request *a = ask(OP_PAUSE, 1);

	expect_done(a, "RUNNING");
	ck_assert(strstr(buf_text(&a->done), "\"asked\":true") != NULL);
	ck_assert(fake_worker_has_line(p, "{\"type\":\"pause\",\"reason\":\"operator\"}\n"));
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	say(p, PAUSED);
	ck_assert_str_eq(world_path(&w, 1), "PENDING>RUNNING:approved RUNNING>PAUSED:paused_by_operator");
	ck_assert_str_eq(world_text(&w, ACTOR, "PAUSED"), "operator");
	ck_assert_str_eq(world_text(&w, "SELECT paused_by FROM sessions", NULL), "operator");
	expect_error(ask(OP_PAUSE, 1), "not_now");
	expect_done(ask(OP_RESUME, 1), "PAUSED");
	ck_assert(fake_worker_has_line(p, "{\"type\":\"resume\"}\n"));
	say(p, RESUMED);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_str_eq(world_text(&w, ACTOR, "RUNNING"), "operator");
	ck_assert_str_eq(world_text(&w, "SELECT coalesce(paused_by, '-') FROM sessions", NULL), "-");
	expect_error(ask(OP_RESUME, 1), "not_now");
	say(p, COMPLETED);
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(a_worker_that_pauses_by_itself_is_not_the_operators)
{
	struct worker *p = world_start(&w, "m1", "work");

	say(p, PAUSED);
	ck_assert_str_eq(world_text(&w, "SELECT paused_by FROM sessions", NULL), "worker");
	ask(OP_RESUME, 1);
	say(p, RESUMED);
	say(p, PAUSED);
	ck_assert_str_eq(world_text(&w, "SELECT paused_by FROM sessions", NULL), "worker");
	say(p, RESUMED);
	ck_assert_str_eq(world_text(&w, ACTOR, "RUNNING"), "worker");
}
END_TEST

START_TEST(worker_that_reads_no_lines_cannot_be_paused)
{
	struct worker *p = world_start(&w, "m1", "plain");

	expect_error(ask(OP_PAUSE, 1), "refused");
	expect_error(ask(OP_CHECKPOINT, 1), "refused");
	fake_worker_exit(p, 0);
	world_run(&w);
	expect_error(ask(OP_PAUSE, 1), "not_now");
	world_start(&w, "m2", "narrow");
	world_submit(&w, "m3", "narrow");
	world_run(&w);
	expect_error(ask(OP_PAUSE, 3), "not_now");
	expect_error(ask(OP_RESUME, 3), "not_now");
	expect_error(ask(OP_CHECKPOINT, 3), "not_now");
}
END_TEST

START_TEST(pause_by_an_operator_survives_a_crash_and_is_resumed)
{
	struct worker *p;

	start_paused("work");
	crash();
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_uint_eq(w.workers.count, 0);
	expect_done(ask(OP_RESUME, 1), "RUNNING");
	ck_assert_uint_eq(w.workers.count, 1);
	p = w.workers.list[0];
	ck_assert(fake_worker_has_line(p, "\"attempt\":2"));
	ck_assert(fake_worker_has_line(p, "\"state\":{\"n\":5}"));
	ck_assert_str_eq(world_path(&w, 1),
		"PENDING>RUNNING:approved RUNNING>PAUSED:paused_by_operator "
		"PAUSED>RUNNING:recovered_from_checkpoint");
	say(p, COMPLETED);
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert(world_check_stream(&w, 1).closed);
}
END_TEST

START_TEST(a_session_that_an_operator_paused_stays_so_across_a_stop)
{
	start_paused("work");
	core_stop(&w.core);
	world_pass(&w, 20 * SECONDS);
	ck_assert(w.core.phase.is_done);
	world_end(&w, false);
	world_begin(&w);
	w.core.operator.queue = & operators;
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ck_assert_str_eq(world_text(&w, "SELECT paused_by FROM sessions", NULL), "operator");
	expect_done(ask(OP_RESUME, 1), "RUNNING");
}
END_TEST

START_TEST(a_paused_session_without_a_process_waits_for_a_slot)
{
	struct worker *p;

	start_paused("narrow");
	crash();
	p = world_start(&w, "m2", "narrow"); /* it gave its slot back */
	expect_done(ask(OP_RESUME, 1), "PAUSED");
	ck_assert_uint_eq(w.workers.count, 1);
	expect_done(ask(OP_PAUSE, 1), "PAUSED");
	say(p, COMPLETED);
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	p = world_start(&w, "m3", "narrow");
	expect_done(ask(OP_RESUME, 1), "PAUSED");
	say(p, COMPLETED);
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(a_resume_that_waits_for_a_slot_survives_a_crash)
{
	start_paused("narrow");
	crash();
	world_start(&w, "m2", "narrow");
	expect_done(ask(OP_RESUME, 1), "PAUSED");
	crash();
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED"); /* it has given its slot back, and another has it */
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	say(w.workers.list[0], COMPLETED);
	fake_worker_exit(w.workers.list[0], 0);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

START_TEST(a_resume_waits_while_its_checkpoint_cannot_be_read)
{
	struct op_request *a;

	start_paused("work");
	crash();
	operators.on_answer = NULL; /* it says what was so when it was asked */
	world_exec(&w, "ALTER TABLE checkpoints RENAME TO hidden");
	a = put(OP_RESUME, 1);
	world_run(&w);
	ck_assert(w.core.phase.is_suspended);
	ck_assert_uint_eq(w.workers.count, 0);
	world_exec(&w, "ALTER TABLE hidden RENAME TO checkpoints");
	world_pass(&w, 2 * SECONDS);
	ck_assert(!w.core.phase.is_suspended);
	ck_assert(a->code == NULL);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(fake_worker_has_line(w.workers.list[0], "\"state\":{\"n\":5}"));
}
END_TEST

START_TEST(session_that_cannot_recover_is_not_resumed_without_process)
{
	start_paused("never");
	crash();
	world_run(&w);
	expect_error(ask(OP_RESUME, 1), "refused");
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	expect_done(ask(OP_ABORT, 1), "ABORTED");
}
END_TEST

START_TEST(a_session_that_an_operator_paused_ends_at_its_deadline)
{
	start_paused("brief");
	crash();
	world_pass(&w, 9 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	world_pass(&w, 2 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "FAILED");
	expect_error(ask(OP_RESUME, 1), "not_now");
}
END_TEST

START_TEST(a_step_of_the_clock_ends_nothing_that_is_resumed)
{
	start_paused("work");
	crash();
	fake_wall_us += 86400 * SECONDS;
	expect_done(ask(OP_RESUME, 1), "RUNNING");
}
END_TEST

START_TEST(a_session_that_waits_for_disk_room_is_paused_at_once)
{
	w.workers.fail_errno = ENOSPC;
	world_submit(&w, "m1", "work");
	world_turn(&w);
	world_turn(&w);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_uint_eq(w.workers.count, 0);
	expect_done(ask(OP_PAUSE, 1), "PAUSED");
	world_pass(&w, 10 * SECONDS);
	ck_assert_uint_eq(w.workers.count, 0);
	expect_done(ask(OP_RESUME, 1), "RUNNING");
	ck_assert_uint_eq(w.workers.count, 1);
}
END_TEST

START_TEST(an_operator_may_change_his_mind_before_the_worker_answers)
{
	struct worker *p = world_start(&w, "m1", "work");

	ask(OP_PAUSE, 1);
	expect_done(ask(OP_RESUME, 1), "RUNNING");
	say(p, PAUSED);
	say(p, RESUMED);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
}
END_TEST

/* How often the worker was told so. */
static int told(struct worker *p, const char *type)
{
	char text[64];
	int n = 0;

	snprintf(text, sizeof text, "{\"type\":\"%s\"", type);
	for (const char *at = buf_text(&p->in); (at = strstr(at, text)) != NULL; at++)
		n++;
	return n;
}

static void expect_asked(struct op_request *a, const char *state)
{
	expect_done(a, state);
	ck_assert_msg(strstr(buf_text(&a->done), "\"asked\":true") != NULL, "%s", buf_text(&a->done));
}

static void expect_live(const char *asked, int64_t us)
{
	struct op_request *a = ask(OP_LIVE, 1);

	ck_assert(a->has_live);
	ck_assert_pstr_eq(a->live.asked, asked);
	ck_assert_int_eq(a->live.asked_us, us);
}

static void expect_no_bad_line(void)
{
	ck_assert_int_eq(world_said(&w, "bad_line"), 0);
}

START_TEST(a_worker_is_told_once_whoever_asks_and_how_often)
{
	struct worker *p = world_start(&w, "m1", "work");

	expect_asked(ask(OP_PAUSE, 1), "RUNNING");
	expect_asked(ask(OP_PAUSE, 1), "RUNNING");
	ck_assert_int_eq(told(p, "pause"), 1);
	say(p, PAUSED);
	expect_asked(ask(OP_RESUME, 1), "PAUSED");
	expect_asked(ask(OP_RESUME, 1), "PAUSED");
	ck_assert_int_eq(told(p, "resume"), 1);
	say(p, RESUMED);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	expect_asked(ask(OP_CHECKPOINT, 1), "RUNNING");
	expect_asked(ask(OP_CHECKPOINT, 1), "RUNNING");
	ck_assert_int_eq(told(p, "checkpoint_request"), 2); /* for the pause, and for him who asks */
	say(p, CHECKPOINT);
	ask(OP_CHECKPOINT, 1);
	ask(OP_PAUSE, 1);
	ck_assert_int_eq(told(p, "checkpoint_request"), 3); /* one is under way */
	ck_assert_int_eq(told(p, "pause"), 2);
	expect_no_bad_line();
}
END_TEST

START_TEST(worker_that_repeats_its_state_after_a_request_is_not_blamed)
{
	struct worker *p = world_start(&w, "m1", "work");

	ask(OP_PAUSE, 1);
	say(p, PAUSED); /* by itself, a moment before it read that, */
	say(p, PAUSED); /* and in answer */
	ask(OP_RESUME, 1);
	say(p, RESUMED);
	say(p, RESUMED);
	expect_no_bad_line();
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	say(p, PAUSED);
	say(p, PAUSED); /* nobody asked for that */
	ck_assert_int_eq(world_said(&w, "bad_line"), 1);
}
END_TEST

START_TEST(operators_last_word_holds_when_the_worker_answers_each)
{
	struct worker *p = world_start(&w, "m1", "work");

	ask(OP_PAUSE, 1);
	ask(OP_RESUME, 1);
	ask(OP_PAUSE, 1);
	ck_assert_int_eq(told(p, "pause"), 2);
	say(p, PAUSED);
	say(p, RESUMED);
	say(p, PAUSED);
	ck_assert_str_eq(world_text(&w, "SELECT paused_by FROM sessions", NULL), "operator");
	expect_error(ask(OP_PAUSE, 1), "not_now");
	ask(OP_RESUME, 1);
	expect_asked(ask(OP_PAUSE, 1), "PAUSED");
	say(p, RESUMED);
	say(p, PAUSED);
	ck_assert_str_eq(world_text(&w, "SELECT paused_by FROM sessions", NULL), "operator");
	ask(OP_RESUME, 1);
	ask(OP_PAUSE, 1);
	say(p, PAUSED); /* it never stirred */
	ck_assert_str_eq(world_state(&w, 1), "PAUSED");
	ask(OP_RESUME, 1);
	say(p, RESUMED);
	ask(OP_PAUSE, 1);
	ask(OP_RESUME, 1);
	say(p, RESUMED); /* it never paused */
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	expect_error(ask(OP_RESUME, 1), "not_now");
	expect_no_bad_line();
}
END_TEST

START_TEST(live_tells_what_its_worker_has_not_answered)
{
	struct worker *p = world_start(&w, "m1", "work");

	expect_live(NULL, 0);
	ask(OP_CHECKPOINT, 1);
	world_pass(&w, 1 * SECONDS);
	expect_live("checkpoint", 1 * SECONDS);
	ask(OP_PAUSE, 1);
	world_pass(&w, 2 * SECONDS);
	ask(OP_PAUSE, 1);
	expect_live("pause", 2 * SECONDS);
	say(p, PAUSED);
	expect_live("checkpoint", 3 * SECONDS);
	ask(OP_RESUME, 1);
	expect_live("resume", 0);
	say(p, RESUMED);
	say(p, CHECKPOINT);
	expect_live(NULL, 0);
}
END_TEST

/* ---- checkpoint ---- */

START_TEST(a_checkpoint_is_asked_for)
{
	struct worker *p = world_start(&w, "m1", "work");

	expect_done(ask(OP_CHECKPOINT, 1), "RUNNING");
	ck_assert(fake_worker_has_line(p, "{\"type\":\"checkpoint_request\",\"reason\":\"operator\"}\n"));
	say(p, CHECKPOINT);
	ck_assert(!p->was_termed);
}
END_TEST

START_TEST(a_worker_that_reads_nothing_is_told_no_more)
{
	struct worker *p = world_start(&w, "m1", "work");
	char *long_reason = xmalloc(1001);

	p->is_deaf = true;
	memset(long_reason, 'x', 1000);
	long_reason[1000] = '\0';
	for (int i = 0; i < 2200; i++) {
		struct op_request *a =
			fake_operators_ask(&operators, i % 2 == 0 ? OP_PAUSE : OP_RESUME, world_id(&w, 1));

		a->reason = xstrdup(long_reason);
		core_on_requests(&w.core);
		world_run(&w);
	}
	expect_error(operators.answered, "not_now");
	ck_assert_uint_lt(p->in.size, 1200000);
	free(long_reason);
}
END_TEST

/* ---- drain ---- */

START_TEST(while_draining_new_tasks_wait_and_running_ones_go_on)
{
	struct worker *p = world_start(&w, "m1", "narrow");
	struct op_request *a;

	world_submit(&w, "m2", "narrow");
	world_run(&w);
	a = ask(OP_DRAIN, 0);
	ck_assert(strstr(buf_text(&a->done), "\"draining\":true") != NULL);
	world_submit(&w, "m3", "work");
	world_submit(&w, "m4", "nosuch");
	world_run(&w);
	ck_assert_int_eq(world_said(&w, "unknown_capability"), 1);
	say(p, COMPLETED);
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	ck_assert_str_eq(world_state(&w, 2), "PENDING"); /* its slot is free, and it waits */
	ck_assert_str_eq(world_state(&w, 3), "PENDING");
	world_abort(&w, world_id(&w, 2));
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "ABORTED");
	ask(OP_UNDRAIN, 0);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 3), "RUNNING");
}
END_TEST

START_TEST(a_restart_ends_the_draining)
{
	ask(OP_DRAIN, 0);
	crash();
	world_start(&w, "m1", "work");
}
END_TEST

/* ---- stats and live ---- */

START_TEST(stats_tell_what_is_so)
{
	struct op_request *a;
	json_t *root;

	world_start(&w, "m1", "narrow");
	world_submit(&w, "m2", "narrow");
	world_submit(&w, "m2", "narrow");
	world_run(&w);
	a = ask(OP_STATS, 0);
	root = json_loadb(a->item.data, a->item.size, 0, NULL);
	ck_assert_msg(root != NULL, "%s", buf_text(&a->item));
	ck_assert_int_eq(json_integer_value(json_object_get(root, "running")), 1);
	ck_assert_int_eq(json_integer_value(json_object_get(root, "waiting")), 1);
	ck_assert_int_eq(
		json_integer_value(json_object_get(json_object_get(root, "by_state"), "PENDING")), 1);
	ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(root, "totals"), "submits")), 3);
	ck_assert_int_eq(
		json_integer_value(json_object_get(json_object_get(root, "totals"), "duplicates")), 1);
	ck_assert_str_eq(json_string_value(json_object_get(root, "callee_id")), "tested");
	ck_assert(json_integer_value(json_object_get(root, "rss_bytes")) > 100000);
	ck_assert_uint_eq(json_array_size(json_object_get(root, "capabilities")), 7);
	json_decref(root);
}
END_TEST

START_TEST(live_tells_of_the_process)
{
	struct worker *p = world_start(&w, "m1", "work");
	struct op_request *a;

	world_pass(&w, 3 * SECONDS);
	a = ask(OP_LIVE, 1);
	ck_assert(a->has_live && a->live.reads && !a->live.waits);
	ck_assert_int_eq(a->live.pid, p->pid);
	ck_assert_int_eq(a->live.idle_us, 3 * SECONDS);
	say(p, COMPLETED);
	fake_worker_exit(p, 0);
	world_run(&w);
	a = ask(OP_LIVE, 1);
	ck_assert(!a->has_live);
	expect_error(a, "not_now");
}
END_TEST

START_TEST(followers_are_woken_by_commits_alone)
{
	struct worker *p = world_start(&w, "m1", "work");
	unsigned before;

	world_pass(&w, 1 * SECONDS);
	before = operators.commits;
	ask(OP_STATS, 0);
	core_end_turn(&w.core);
	ck_assert_uint_eq(operators.commits, before);
	fake_worker_say(p, "{\"type\":\"progress\",\"stage\":\"s\",\"message\":\"m\"}");
	world_turn(&w);
	ck_assert_uint_eq(operators.commits, before + 1);
}
END_TEST

static Suite *suite(void)
{
	const TTest *const tests[] = {an_abort_is_answered_once_it_is_stored_and_ends_the_session,
		no_answer_comes_while_the_store_refuses,
		stats_are_answered_while_the_store_refuses_and_say_so,
		abort_is_done_twice_and_refused_once_the_session_ended, an_abort_after_the_result_is_too_late,
		a_waiting_session_is_aborted_without_a_worker,
		worker_told_to_pause_pauses_the_session_when_it_says_so,
		a_worker_that_pauses_by_itself_is_not_the_operators,
		worker_that_reads_no_lines_cannot_be_paused,
		pause_by_an_operator_survives_a_crash_and_is_resumed,
		a_session_that_an_operator_paused_stays_so_across_a_stop,
		a_paused_session_without_a_process_waits_for_a_slot,
		a_resume_that_waits_for_a_slot_survives_a_crash,
		a_resume_waits_while_its_checkpoint_cannot_be_read,
		session_that_cannot_recover_is_not_resumed_without_process,
		a_session_that_an_operator_paused_ends_at_its_deadline,
		a_step_of_the_clock_ends_nothing_that_is_resumed,
		a_session_that_waits_for_disk_room_is_paused_at_once,
		an_operator_may_change_his_mind_before_the_worker_answers,
		a_worker_is_told_once_whoever_asks_and_how_often,
		worker_that_repeats_its_state_after_a_request_is_not_blamed,
		operators_last_word_holds_when_the_worker_answers_each,
		live_tells_what_its_worker_has_not_answered, a_checkpoint_is_asked_for,
		a_worker_that_reads_nothing_is_told_no_more,
		while_draining_new_tasks_wait_and_running_ones_go_on, a_restart_ends_the_draining,
		stats_tell_what_is_so, live_tells_of_the_process, followers_are_woken_by_commits_alone};
	Suite *s = suite_create("operate");
	TCase *t = tcase_create("operate");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 30);
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return world_main(suite());
}
