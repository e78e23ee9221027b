/* SPDX-License-Identifier: MIT */
/* test_continuity.c: what a session leaves to those that come after it, and who may take it up. */
#include "support/fakes/operator_kit.h"

#include "core/pins.h"

#define NOTE(summary) \
	"{\"type\":\"continuity\",\"summary\":\"" summary \
	"\",\"decisions\":[\"use 2\",\"not 3\"]," \
	"\"open_questions\":[\"why?\"],\"next_steps\":[\"go\"]}"
#define RECORD(what) "SELECT " what " FROM continuity WHERE session = ?"

static void setup(void)
{
	opkit_begin("");
}

static void end(struct worker *p, const char *last)
{
	opkit_say(p, last);
	opkit_die(p, 0);
}

static void submit_with(
	const char *id, const char *capability, const char *caller, const char *what, const char *named)
{
	char more[256];

	snprintf(more, sizeof more, ",%s\"%s\"}", what, named);
	world_submit_as(&w, caller, strcmp(caller, "beta") == 0 ? "beta-user" : NULL, id, capability, more);
	world_run(&w);
}

#define CONTINUES "\"context\":{\"notes\":1,\"continues\":"
#define FROM "\"constraints\":{\"checkpoint\":"

/* ---- the record ---- */

START_TEST(a_session_leaves_what_its_worker_said_last) /* proves CK-05 */
{
	struct worker *p = world_start(&w, "m1", "work");

	opkit_say(p, NOTE("first"));
	opkit_say(p, CHECKPOINT("1"));
	opkit_say(p, NOTE("last"));
	ck_assert_str_eq(world_text(&w, RECORD("completion"), "1"), "");
	opkit_crash(); /* it is kept from the moment that it was said */
	end(w.workers.list[0], COMPLETED);
	ck_assert_str_eq(
		world_text(&w, RECORD("summary || completion || checkpoint_count"), "1"), "lastfull1");
	ck_assert_str_eq(world_text(&w, RECORD("decisions"), "1"), "[\"use 2\",\"not 3\"]");
	ck_assert_str_eq(world_text(&w, RECORD("open_questions || next_steps"), "1"), "[\"why?\"][\"go\"]");
}
END_TEST

START_TEST(a_summary_of_more_than_4_KiB_is_cut_with_a_warning)
{
	struct worker *p = world_start(&w, "m1", "work");
	struct buf line = {0};

	buf_add_text(&line, "{\"type\":\"continuity\",\"summary\":\"");
	for (int i = 0; i < 4096 + _i; i++)
		buf_add_text(&line, "x");
	buf_add_text(&line, "\"}");
	opkit_say(p, buf_text(&line));
	buf_fini(&line);
	ck_assert_int_eq(world_count(&w, RECORD("length(summary)"), "1"), 4096);
	ck_assert_int_eq(world_said(&w, "\"code\":\"summary_cut\""), _i);
}
END_TEST

START_TEST(worker_without_continuity_leaves_what_is_known) /* proves CK-05 */
{
	struct worker *p = world_start(&w, "m1", "work");

	opkit_say(p, "{\"type\":\"step\",\"name\":\"boil\"}");
	end(p, "{\"type\":\"failed\",\"error_message\":\"cold\"}");
	ck_assert_str_eq(world_text(&w, RECORD("summary"), "1"),
		"FAILED (worker_failed) after 1 steps and 0 checkpoints; the last step was boil");
	ck_assert_str_eq(world_text(&w, RECORD("completion || decisions"), "1"), "partial[]");
	world_start(&w, "m2", "work");
	world_abort(&w, world_id(&w, 2));
	world_pass(&w, 60 * SECONDS);
	ck_assert_str_eq(world_text(&w, RECORD("completion"), "2"), "aborted");
}
END_TEST

static const char *const bad_notes[] = {
	"{\"type\":\"continuity\",\"decisions\":\"one\"}",
	"{\"type\":\"continuity\",\"next_steps\":[1]}",
	"{\"type\":\"continuity\",\"summary\":[]}",
};

START_TEST(a_record_that_is_none_is_dropped_with_a_warning)
{
	opkit_say(world_start(&w, "m1", "work"), bad_notes[_i]);
	ck_assert_int_eq(world_said(&w, "\"code\":\"bad_line\""), 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM continuity", NULL), 0);
}
END_TEST

START_TEST(a_record_is_bounded)
{
	struct worker *p = world_start(&w, "m1", "work");
	struct buf b = {0};

	opkit_say(p, NOTE("small"));
	buf_add_text(&b, "{\"type\":\"continuity\",\"summary\":\"s\",\"decisions\":[\"");
	for (int i = 0; i < 70000; i++)
		buf_add_text(&b, "x");
	buf_add_text(&b, "\"]}");
	opkit_say(p, buf_text(&b));
	buf_fini(&b);
	ck_assert_int_eq(world_said(&w, "\"code\":\"continuity_too_large\""), 1);
	ck_assert_str_eq(world_text(&w, RECORD("summary"), "1"), "small");
}
END_TEST

START_TEST(the_next_task_gets_the_record) /* proves CK-05 */
{
	struct worker *p = world_start(&w, "m1", "work");

	opkit_say(p, NOTE("so far"));
	end(p, COMPLETED);
	submit_with("m2", "again", "alpha", CONTINUES, world_id(&w, 1));
	p = world_worker(&w, 2);
	ck_assert(p != NULL && fake_worker_has_line(p, ",\"continues\":{\"session_id\":\""));
	ck_assert(fake_worker_has_line(p,
		"\"summary\":\"so far\",\"decisions\":[\"use 2\",\"not 3\"],\"open_questions\":[\"why?\"],"
		"\"next_steps\":[\"go\"],\"checkpoint_count\":0,\"completion\":\"full\""));
	opkit_crash(); /* and after a crash again */
	ck_assert(fake_worker_has_line(world_worker(&w, 2), "\"summary\":\"so far\""));
}
END_TEST

static void is_refused(int n)
{
	ck_assert_int_eq(world_said(&w, "\"reason_code\":\"invalid_input\""), n);
	ck_assert_int_eq(world_said(&w, "\"reason_code\""), n);
}

START_TEST(only_its_own_ended_sessions_are_continued) /* proves CK-05 */
{
	struct worker *p = world_start(&w, "m1", "work");

	submit_with("m2", "work", "alpha", CONTINUES, world_id(&w, 1)); /* it runs yet */
	is_refused(1);
	end(p, COMPLETED);
	submit_with("m3", "work", "beta", CONTINUES, world_id(&w, 1));
	is_refused(2);
	submit_with("m4", "work", "alpha", CONTINUES, "00000000-0000-4000-8000-000000000000");
	is_refused(3);
	submit_with("m5", "work", "alpha", CONTINUES, "yesterday");
	is_refused(4);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions", NULL), 1);
}
END_TEST

/* ---- a checkpoint of an ended session ---- */

static const char *last_checkpoint(void)
{
	return world_text(
		&w, "SELECT checkpoint_id FROM checkpoints WHERE session = 1 ORDER BY id DESC LIMIT 1", NULL);
}

static void end_with_checkpoint(const char *line)
{
	struct worker *p = world_start(&w, "m1", "work");

	opkit_say(p, line);
	end(p, "{\"type\":\"failed\"}");
}

START_TEST(a_task_goes_on_from_a_checkpoint_of_an_ended_session) /* proves L4-06 */
{
	struct worker *p;

	end_with_checkpoint(CHECKPOINT("5"));
	submit_with("m2", "work", "alpha", FROM, last_checkpoint());
	p = world_worker(&w, 2);
	ck_assert(p != NULL && fake_worker_has_line(p, "\"attempt\":1,"));
	ck_assert(fake_worker_has_line(p, "\"step\":\"s5\",\"state\":{\"n\":5}}"));
	opkit_crash(); /* it has none of its own yet: from there again */
	ck_assert(fake_worker_has_line(world_worker(&w, 2), "\"attempt\":2,"));
	ck_assert(fake_worker_has_line(world_worker(&w, 2), "\"state\":{\"n\":5}"));
	opkit_say(world_worker(&w, 2), CHECKPOINT("6"));
	opkit_crash(); /* then from its own */
	ck_assert(fake_worker_has_line(world_worker(&w, 2), "\"state\":{\"n\":6}"));
	world_check_stream(&w, 2);
}
END_TEST

START_TEST(no_other_checkpoint_is_gone_on_from) /* proves L4-06 */
{
	struct worker *p = world_start(&w, "m1", "work");

	opkit_say(p, CHECKPOINT("5"));
	submit_with("m2", "work", "alpha", FROM, last_checkpoint()); /* of one that runs */
	is_refused(1);
	end(p, COMPLETED);
	submit_with("m3", "work", "beta", FROM, last_checkpoint()); /* of another's */
	is_refused(2);
	submit_with("m4", "again", "alpha", FROM, last_checkpoint()); /* of another capability */
	is_refused(3);
	submit_with("m5", "work", "alpha", FROM, "00000000-0000-4000-8000-000000000000");
	is_refused(4);
	submit_with("m6", "work", "alpha", FROM, "last");
	is_refused(5);
	world_exec(&w, "UPDATE checkpoints SET state = '{\"n\":50}'");
	submit_with("m7", "work", "alpha", FROM, last_checkpoint()); /* damaged */
	is_refused(6);
	ck_assert_int_eq(world_said(&w, "is damaged"), 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions", NULL), 1);
}
END_TEST

START_TEST(checkpoint_that_is_not_resumable_is_not_resumed_from) /* proves L4-06 */
{
	end_with_checkpoint("{\"type\":\"checkpoint\",\"state\":{},\"resumable\":false}");
	submit_with("m2", "work", "alpha", FROM, last_checkpoint());
	is_refused(1);
}
END_TEST

static bool is_needed(int key)
{
	return pins_is_pinned(&w.core, world_id(&w, key));
}

/* So that it does not leave the store before. */
START_TEST(session_that_a_task_names_is_pinned_until_the_task_is_over) /* proves CK-06, L4-06 */
{
	opkit_reload("[daemon]\nmax_sessions = 1\n");
	end_with_checkpoint(CHECKPOINT("5"));
	ck_assert(!is_needed(1));
	world_start(&w, "m2", "again");
	submit_with("m3", "work", "alpha", FROM, last_checkpoint()); /* it waits for a slot */
	submit_with("m4", "again", "alpha", CONTINUES, world_id(&w, 1));
	ck_assert(is_needed(1) && !is_needed(2));
	ck_assert_int_eq(world_count(&w,
				 "SELECT count(*) FROM sessions a JOIN sessions b ON a.session_id IN "
				 "(b.checkpoint_of, b.continues)"
				 " WHERE a.id = 1 AND b.id IN (3, 4)",
				 NULL),
		2);
	opkit_crash();
	ck_assert(is_needed(1));
	end(world_worker(&w, 2), COMPLETED);
	ck_assert(is_needed(1));
	end(world_worker(&w, 3), COMPLETED);
	ck_assert(is_needed(1));
	end(world_worker(&w, 4), COMPLETED);
	ck_assert_str_eq(world_state(&w, 4), "COMPLETED");
	ck_assert(!is_needed(1) && w.core.pins == NULL);
}
END_TEST

START_TEST(session_that_is_archived_in_this_turn_is_not_continued) /* proves CK-06 */
{
	end_with_checkpoint(CHECKPOINT("5"));
	pins_let_leave(&w.core, world_id(&w, 1)); /* as retention does; the store has it until the commit */
	submit_with("m2", "work", "alpha", FROM, last_checkpoint());
	is_refused(1);
	submit_with("m3", "work", "alpha", CONTINUES, world_id(&w, 1));
	is_refused(2);
	pins_forget_gone(&w.core);
	submit_with("m4", "work", "alpha", FROM, last_checkpoint());
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
}
END_TEST

START_TEST(checkpoint_that_is_gone_in_its_turn_fails_the_session)
{
	opkit_reload("[daemon]\nmax_sessions = 1\n");
	end_with_checkpoint(CHECKPOINT("5"));
	world_start(&w, "m2", "again");
	submit_with("m3", "work", "alpha", FROM, last_checkpoint());
	ck_assert_str_eq(world_state(&w, 3), "PENDING");
	world_exec(&w, "DELETE FROM checkpoints");
	end(w.workers.list[1], COMPLETED);
	ck_assert_str_eq(world_check_stream(&w, 3).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"error_code\":\"input_error\""), 1);
	ck_assert_uint_eq(w.workers.count, 2);
}
END_TEST

START_TEST(a_task_waits_while_what_it_names_cannot_be_read)
{
	end_with_checkpoint(CHECKPOINT("5"));
	char id[ID_SIZE];

	snprintf(id, sizeof id, "%s", last_checkpoint());
	world_exec(&w, "ALTER TABLE checkpoints RENAME TO elsewhere");
	submit_with("m2", "work", "alpha", FROM, id);
	ck_assert(w.core.phase.is_suspended);
	world_exec(&w, "ALTER TABLE elsewhere RENAME TO checkpoints");
	world_pass(&w, 3 * SECONDS);
	ck_assert(!w.core.phase.is_suspended);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
}
END_TEST

/* ---- recent records ---- */

/* A whole session of work with data of this class, which says this summary. */
static void run_with_class(const char *id, const char *class)
{
	char more[128];
	struct worker *p;

	snprintf(more, sizeof more, ",\"constraints\":{\"data_classification\":\"%s\"}", class);
	world_submit_as(&w, "alpha", NULL, id, "work", more);
	world_run(&w);
	p = world_worker(&w, (int)world_count(&w, "SELECT max(id) FROM sessions", NULL));
	ck_assert(p != NULL);
	snprintf(more, sizeof more, "{\"type\":\"continuity\",\"summary\":\"of %s\"}", class);
	opkit_say(p, more);
	opkit_say(p, CHECKPOINT("5"));
	world_pass(&w, SECONDS);
	end(p, COMPLETED);
}

START_TEST(a_record_of_a_higher_data_class_is_not_continued) /* proves CK-05, L3-06 */
{
	run_with_class("m1", "T2");
	submit_with("m2", "work", "alpha", CONTINUES, world_id(&w, 1));
	is_refused(1);
	ck_assert_int_eq(world_said(&w, "is of class T2, above this task's, T1"), 1);
	submit_with("m3", "work", "alpha", "\"constraints\":{\"data_classification\":\"T2\"}," CONTINUES,
		world_id(&w, 1));
	ck_assert(fake_worker_has_line(world_worker(&w, 2), "\"summary\":\"of T2\""));
	end(world_worker(&w, 2), COMPLETED);
	run_with_class("m4", "T1");
	submit_with("m5", "work", "alpha", "\"constraints\":{\"data_classification\":\"T2\"}," CONTINUES,
		world_id(&w, 3));
	ck_assert(fake_worker_has_line(world_worker(&w, 4), "\"summary\":\"of T1\""));
}
END_TEST

START_TEST(a_checkpoint_of_a_higher_data_class_is_not_gone_on_from) /* proves L4-06, L3-06 */
{
	run_with_class("m1", "T2");
	submit_with("m2", "work", "alpha", FROM, last_checkpoint());
	is_refused(1);
	ck_assert_int_eq(world_said(&w, "of a higher class than this task's"), 1);
	submit_with("m3", "work", "alpha",
		"\"constraints\":{\"data_classification\":\"T2\",\"checkpoint\":", last_checkpoint());
	ck_assert(fake_worker_has_line(world_worker(&w, 2), "\"state\":{\"n\":5}"));
}
END_TEST

START_TEST(recent_records_are_of_no_higher_data_class) /* proves CK-05, L3-06 */
{
	struct worker *p;

	opkit_reload("[capability work]\ncontinuity_recent = 2\n");
	run_with_class("m1", "T1");
	run_with_class("m2", "T1");
	run_with_class("m3", "T2");
	run_with_class("m4", "T2");
	p = world_start(&w, "m5", "work");
	ck_assert(!fake_worker_has_line(p, "of T2"));
	ck_assert(fake_worker_has_line(p, world_id(&w, 1)) && fake_worker_has_line(p, world_id(&w, 2)));
	world_submit_as(&w, "alpha", NULL, "m6", "work", ",\"constraints\":{\"data_classification\":\"T2\"}");
	world_run(&w);
	p = world_worker(&w, 6);
	ck_assert(fake_worker_has_line(p, world_id(&w, 3)) && fake_worker_has_line(p, world_id(&w, 4)));
	ck_assert(!fake_worker_has_line(p, "of T1"));
}
END_TEST

/* A whole session of work with this label `group`; "": without one. */
static void run_in_group(const char *caller, const char *capability, const char *group, const char *summary)
{
	static int number;
	char id[16], more[128] = "", line[256];
	struct worker *p;

	snprintf(id, sizeof id, "r%d", number++);
	if (*group)
		snprintf(more, sizeof more, ",\"metadata\":{\"labels\":{\"x\":\"y\",\"group\":\"%s\"}}",
			group);
	world_submit_as(&w, caller, strcmp(caller, "beta") == 0 ? "beta-user" : NULL, id, capability, more);
	world_run(&w);
	p = world_worker(&w, (int)world_count(&w, "SELECT max(id) FROM sessions", NULL));
	ck_assert(p != NULL);
	snprintf(line, sizeof line, "{\"type\":\"continuity\",\"summary\":\"%s\"}", summary);
	opkit_say(p, line);
	world_pass(&w, SECONDS);
	end(p, COMPLETED);
}

/* The summaries in `recent` of the start line of a new session. */
static const char *recent_of(const char *group)
{
	static char text[512];
	static int number;
	char id[16], more[128] = "", *line;
	struct worker *p;
	json_t *start, *record;
	size_t i;

	snprintf(id, sizeof id, "s%d", number++);
	if (*group)
		snprintf(more, sizeof more, ",\"metadata\":{\"labels\":{\"group\":\"%s\"}}", group);
	world_submit_as(&w, "alpha", NULL, id, "work", more);
	world_run(&w);
	p = world_worker(&w, (int)world_count(&w, "SELECT max(id) FROM sessions", NULL));
	ck_assert(p != NULL);
	line = strndup(p->in.data, strcspn(p->in.data, "\n"));
	start = json_loads(line, 0, NULL);
	ck_assert(start != NULL);
	snprintf(text, sizeof text, "%s", json_is_array(json_object_get(start, "recent")) ? "" : "none");
	json_array_foreach(json_object_get(start, "recent"), i, record)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i > 0 ? " " : "",
			json_string_value(json_object_get(record, "summary")));
	json_decref(start);
	free(line);
	end(p, "{\"type\":\"failed\",\"message\":\"x\"}");
	world_exec(&w, "DELETE FROM continuity WHERE session = (SELECT max(id) FROM sessions)");
	return text;
}

static void reload_with(const char *more)
{
	world_configure(&w, more);
	core_reload(&w.core);
	world_run(&w);
}

START_TEST(the_last_records_of_the_same_group_come_with_the_start) /* proves CK-05 */
{
	ck_assert_str_eq(recent_of("a"), "none");
	reload_with("[capability work]\ncontinuity_recent = 2\n");
	ck_assert_str_eq(recent_of("a"), "");
	run_in_group("alpha", "work", "a", "first");
	run_in_group("alpha", "work", "b", "other-group");
	run_in_group("beta", "work", "a", "other-caller");
	run_in_group("alpha", "again", "a", "other-capability");
	run_in_group("alpha", "work", "", "no-group");
	ck_assert_str_eq(recent_of("a"), "first");
	run_in_group("alpha", "work", "a", "second");
	run_in_group("alpha", "work", "a", "third");
	ck_assert_str_eq(recent_of("a"), "third second");
	ck_assert_str_eq(recent_of("b"), "other-group");
	ck_assert_str_eq(recent_of(""), "no-group");
	opkit_crash(); /* the label is stored with the session */
	ck_assert_str_eq(recent_of("a"), "third second");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("continuity");
	TCase *t = tcase_create("continuity");

	tcase_add_checked_fixture(t, setup, opkit_end);
	tcase_add_test(t, a_session_leaves_what_its_worker_said_last);
	tcase_add_loop_test(t, a_summary_of_more_than_4_KiB_is_cut_with_a_warning, 0, 2);
	tcase_add_test(t, worker_without_continuity_leaves_what_is_known);
	tcase_add_loop_test(t, a_record_that_is_none_is_dropped_with_a_warning, 0, 3);
	tcase_add_test(t, a_record_is_bounded);
	tcase_add_test(t, the_next_task_gets_the_record);
	tcase_add_test(t, only_its_own_ended_sessions_are_continued);
	tcase_add_test(t, a_task_goes_on_from_a_checkpoint_of_an_ended_session);
	tcase_add_test(t, no_other_checkpoint_is_gone_on_from);
	tcase_add_test(t, checkpoint_that_is_not_resumable_is_not_resumed_from);
	tcase_add_test(t, checkpoint_that_is_gone_in_its_turn_fails_the_session);
	tcase_add_test(t, session_that_a_task_names_is_pinned_until_the_task_is_over);
	tcase_add_test(t, session_that_is_archived_in_this_turn_is_not_continued);
	tcase_add_test(t, a_task_waits_while_what_it_names_cannot_be_read);
	tcase_add_test(t, a_record_of_a_higher_data_class_is_not_continued);
	tcase_add_test(t, a_checkpoint_of_a_higher_data_class_is_not_gone_on_from);
	tcase_add_test(t, recent_records_are_of_no_higher_data_class);
	tcase_add_test(t, the_last_records_of_the_same_group_come_with_the_start);
	suite_add_tcase(s, t);
	return world_main(s);
}
