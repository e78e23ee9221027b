/* SPDX-License-Identifier: MIT */
/* test_session.c: the state machine, the stream and the ends of a session. */
#include "support/fakes/fake_world.h"
#include "support/log_kit.h"

static struct world w;
static struct session *s;

/* The spec's list, written down once more. */
static bool spec_allows(enum sstate from, enum sstate to)
{
	static const char *const pairs[] = {"PENDING RUNNING", "PENDING REJECTED", "RUNNING PAUSED",
		"RUNNING ABORTING", "RUNNING COMPLETED", "RUNNING FAILED", "PAUSED RUNNING",
		"PAUSED ABORTING", "ABORTING ABORTED"};
	char pair[40];

	snprintf(pair, sizeof pair, "%s %s", sstate_names[from], sstate_names[to]);
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (strcmp(pair, pairs[i]) == 0)
			return true;
	return false;
}

/* One waiting session, everything committed; no slot is given out, so that nothing happens by itself. */
static void setup(void)
{
	world_init(&w, "");
	world_begin(&w);
	w.core.phase.is_draining = true;
	world_submit(&w, "m1", "work");
	world_run(&w);
	s = session_find(&w.core, world_id(&w, 1));
	ck_assert(s != NULL && s->state == S_PENDING);
	log_set_level(LOG_LVL_ERROR);
}

static void teardown(void)
{
	world_fini(&w);
}

/* ---- ids ---- */

static long long short_id(int key)
{
	return strtoll(world_text(&w, "SELECT substr(session_id, 1, 8) FROM sessions WHERE id = ?",
			       (char[2]){(char)('0' + key), '\0'}),
		NULL, 16);
}

START_TEST(first_digits_of_ids_count_also_over_a_crash) /* proves L2-01 */
{
	long long first = short_id(1);

	ck_assert(id_is_uuid4(world_id(&w, 1)));
	world_submit(&w, "m2", "work");
	world_run(&w);
	world_crash(&w);
	world_submit(&w, "m3", "work");
	world_run(&w);
	ck_assert(id_is_uuid4(world_id(&w, 2)) && id_is_uuid4(world_id(&w, 3)));
	ck_assert_int_eq(short_id(2), (first + 1) & 0xffffffff);
	ck_assert_int_eq(short_id(3), (first + 2) & 0xffffffff);
	ck_assert_str_ne(strchr(world_id(&w, 2), '-'), strchr(world_id(&w, 3), '-'));
}
END_TEST

/* ---- pairs ---- */

START_TEST(a_pair_is_legal_only_if_the_spec_lists_it) /* proves L2-02 */
{
	enum sstate from = (enum sstate)(_i / S_COUNT), to = (enum sstate)(_i % S_COUNT);

	ck_assert_msg(session_may(from, to) == spec_allows(from, to), "%d -> %d", from, to);
}
END_TEST

START_TEST(transition_from_or_to_no_state_is_never_legal)
{
	for (int i = 0; i <= S_COUNT + 1; i++) {
		ck_assert(!session_may((enum sstate)i, S_COUNT));
		ck_assert(!session_may(S_COUNT, (enum sstate)i));
	}
	ck_assert_int_eq(name_find(sstate_names, "RUNNING"), S_RUNNING);
	ck_assert_int_eq(name_find(sstate_names, "running"), -1);
	ck_assert_int_eq(name_find(sstate_names, ""), -1);
}
END_TEST

START_TEST(refused_step_is_a_log_line_and_a_legal_one_a_row_and_event) /* proves L2-02 L2-03 */
{
	enum sstate from = (enum sstate)(_i / S_COUNT), to = (enum sstate)(_i % S_COUNT);
	bool legal = spec_allows(from, to);
	int64_t rows, events, version = s->state_version, sequence = s->sequence,
			      updated = s->times.updated_us;
	char text[160], refused[160];

	snprintf(refused, sizeof refused,
		"level=error refused an illegal transition, nothing changed: session=%.8s from=%s to=%s "
		"reason=because\n",
		s->id, sstate_names[from], sstate_names[to]);
	w.bus.on_publish = NULL; /* its state is not what its rows say: that is our doing */
	s->state = from;
	rows = world_count(&w, "SELECT count(*) FROM transitions", NULL);
	events = world_count(&w, "SELECT count(*) FROM events", NULL);
	fake_clock_pass(SECONDS);
	log_kit_begin(LOG_LVL_ERROR);
	ck_assert_int_eq(session_transition(s, to, "because", "tester"), legal);
	ck_assert_int_eq(log_kit_count(refused), !legal);
	ck_assert_int_eq(log_kit_count("refused an illegal transition"), !legal);
	log_kit_end();
	if (!legal) {
		ck_assert(s->state == from && s->state_version == version && s->sequence == sequence &&
			s->times.updated_us == updated);
		ck_assert(!s->turn.is_dirty && !store_has_batch(w.core.store) &&
			w.core.turn.effects.count == 0);
	}
	core_end_turn(&w.core);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM transitions", NULL), rows + legal);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM events", NULL), events + legal);
	if (legal) {
		snprintf(text, sizeof text, "%s|%s|because|tester|2026-01-31T12:00:01.000Z|%d",
			sstate_names[from], sstate_names[to], (int)version + 1);
		ck_assert_str_eq(world_text(&w,
					 "SELECT "
					 "from_state||'|'||to_state||'|'||reason||'|'||actor||'|'||at||'|'||"
					 "state_version"
					 " FROM transitions ORDER BY id DESC",
					 NULL),
			text);
		snprintf(text, sizeof text,
			"{\"event_type\":\"state_changed\",\"sequence\":%d,\"data\":{\"from_state\":\"%s\","
			"\"to_state\":"
			"\"%s\",\"reason\":\"because\"}}",
			(int)sequence + 1, sstate_names[from], sstate_names[to]);
		ck_assert(strstr(world_text(&w, "SELECT body FROM events ORDER BY id DESC", NULL), text) !=
			NULL);
		ck_assert_str_eq(world_state(&w, 1), sstate_names[to]);
	}
	s->state = S_PENDING;
}
END_TEST

/* ---- ends over several steps ---- */

enum { FROM_PENDING, FROM_RUNNING, FROM_PAUSED, FROM_ABORTING };
static const struct {
	int from;
	enum sstate end;
	const char *path;
} ends[] = {
	{FROM_PENDING, S_FAILED, "PENDING>RUNNING:end RUNNING>FAILED:end"},
	{FROM_PENDING, S_ABORTED, "PENDING>RUNNING:end RUNNING>ABORTING:end ABORTING>ABORTED:end"},
	{FROM_RUNNING, S_FAILED, "PENDING>RUNNING:go RUNNING>FAILED:end"},
	{FROM_RUNNING, S_COMPLETED, "PENDING>RUNNING:go RUNNING>COMPLETED:end"},
	{FROM_RUNNING, S_ABORTED, "PENDING>RUNNING:go RUNNING>ABORTING:end ABORTING>ABORTED:end"},
	{FROM_PAUSED, S_FAILED, "PENDING>RUNNING:go RUNNING>PAUSED:go PAUSED>RUNNING:end RUNNING>FAILED:end"},
	{FROM_PAUSED, S_COMPLETED,
		"PENDING>RUNNING:go RUNNING>PAUSED:go PAUSED>RUNNING:end RUNNING>COMPLETED:end"},
	{FROM_PAUSED, S_ABORTED,
		"PENDING>RUNNING:go RUNNING>PAUSED:go PAUSED>ABORTING:end ABORTING>ABORTED:end"},
	{FROM_ABORTING, S_ABORTED, "PENDING>RUNNING:go RUNNING>ABORTING:go ABORTING>ABORTED:end"},
};

START_TEST(an_end_goes_over_legal_steps_in_one_transaction) /* proves L2-02 L2-05 */
{
	unsigned syncs;
	struct oracle_stream j;

	if (ends[_i].from != FROM_PENDING)
		session_run(s, "go", "t");
	if (ends[_i].from == FROM_PAUSED)
		session_transition(s, S_PAUSED, "go", "t");
	if (ends[_i].from == FROM_ABORTING)
		session_transition(s, S_ABORTING, "go", "t");
	world_run(&w);
	slots_leave(&w.core, s);
	ck_assert(session_set_outcome(
		s, ends[_i].end, "end", "t", ends[_i].end == S_ABORTED ? NULL : "{\"outputs\":{}}", 14));
	session_finish(s);
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM events WHERE event_type = 'session_closed'", NULL), 0);
	syncs = fake_disk.wal_syncs;
	world_turn(&w);
	ck_assert_uint_eq(fake_disk.wal_syncs - syncs, 1);
	ck_assert_str_eq(world_path(&w, 1), ends[_i].path);
	world_run(&w);
	j = world_check_stream(&w, 1);
	ck_assert(j.closed);
	ck_assert_str_eq(j.state, sstate_names[ends[_i].end]);
	ck_assert(session_find(&w.core, world_id(&w, 1)) == NULL);
}
END_TEST

START_TEST(the_first_cause_decides_the_end) /* proves L2-12 */
{
	ck_assert(!session_has_outcome(s));
	ck_assert(session_fail(s, "timeout", "timeout", "daemon", NULL, "first"));
	ck_assert(!session_set_outcome(s, S_COMPLETED, "completed", "worker", "{\"outputs\":{}}", 14));
	ck_assert(!session_set_outcome(s, S_ABORTED, "aborted_by_caller", "caller", NULL, 0));
	ck_assert(!session_fail(s, "x", "internal_error", "daemon", NULL, "second"));
	session_finish(s);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "FAILED");
	ck_assert_int_eq(world_said(&w, "\"error_message\":\"first\""), 1);
	ck_assert_int_eq(world_said(&w, "second"), 0);
}
END_TEST

START_TEST(a_stored_outcome_comes_back_as_it_was)
{
	static const char payload[] = "{\"outputs\":{\"a\":1.10,\"b\":\"\\u00e9\"}}";

	session_run(s, "go", "t");
	session_set_outcome(s, S_COMPLETED, "completed", "worker", payload, sizeof payload - 1);
	session_mark_dirty(s);
	world_run(&w);
	world_crash(&w);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
	ck_assert_int_eq(world_said(&w, "\"outputs\":{\"a\":1.10,\"b\":\"\\u00e9\"}"), 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM outcomes", NULL), 0);
}
END_TEST

/* ---- what the messages say ---- */

START_TEST(task_accepted_and_session_created_have_all_fields) /* proves L1-19 L2-05 L2-06 */
{
	json_t *a = json_loads(world_sent(&w, 0)->body, 0, NULL),
	       *e = json_loads(world_sent(&w, 1)->body, 0, NULL);
	const json_t *pa = json_object_get(a, "payload"), *pe = json_object_get(e, "payload"), *c, *d;
	const char *token = json_string_value(json_object_get(pa, "session_token"));

	ck_assert_str_eq(json_string_value(json_object_get(a, "type")), "task_accepted");
	ck_assert_str_eq(json_string_value(json_object_get(a, "session_id")), s->id);
	ck_assert(id_is_uuid4(s->id));
	ck_assert_str_eq(json_string_value(json_object_get(pa, "in_reply_to")), "m1");
	ck_assert_str_eq(json_string_value(json_object_get(pa, "risk_level")), "R2");
	ck_assert_str_eq(json_string_value(json_object_get(pa, "data_classification")), "T1");
	ck_assert(json_is_object(json_object_get(pa, "safety_envelope")));
	c = json_object_get(pa, "constraints");
	ck_assert_str_eq(json_string_value(json_object_get(c, "max_duration")), "PT1H");
	ck_assert_str_eq(json_string_value(json_object_get(c, "abort_timeout")), "PT30S");
	d = json_object_get(pe, "data");
	ck_assert_str_eq(json_string_value(json_object_get(pe, "event_type")), "session_created");
	ck_assert_int_eq(json_integer_value(json_object_get(pe, "sequence")), 1);
	ck_assert_str_eq(json_string_value(json_object_get(d, "state")), "PENDING");
	ck_assert_str_eq(json_string_value(json_object_get(d, "risk_level")), "R2");
	ck_assert_str_eq(json_string_value(json_object_get(d, "session_token")), token);
	ck_assert_int_eq(session_check_token(s, token, clock_wall_us()), TOKEN_GOOD);
	json_decref(a);
	json_decref(e);
}
END_TEST

START_TEST(a_session_keeps_what_L2_01_lists) /* proves L2-01 */
{
	w.core.phase.is_draining = false;
	world_submit_as(&w, "alpha", NULL, "m2", "work",
		",\"metadata\":{\"k\":1.10},\"constraints\":{\"priority\":\"high\","
		"\"data_classification\":\"T2\"}");
	world_run(&w);
	ck_assert_str_eq(world_text(&w,
				 "SELECT caller_id||' '||capability||' '||capability_version||' '||state||' "
				 "'||state_version"
				 "||' '||risk_level||' '||data_classification||' '||priority||' "
				 "'||metadata||' '||attempt||' '||created_at||' '||deadline"
				 " FROM sessions WHERE id = 2",
				 NULL),
		"alpha work 1.2.3 RUNNING 1 R2 T2 high {\"k\":1.10} 1 2026-01-31T12:00:00.000Z "
		"2026-01-31T13:00:00.000Z");
	ck_assert_int_gt(
		world_count(&w, "SELECT length(session_token) FROM sessions WHERE id = 2", NULL), 20);
	ck_assert_str_eq(world_text(&w, "SELECT task FROM tasks WHERE session = 2", NULL),
		"{\"capability\":\"work\",\"intent\":\"do "
		"it\",\"inputs\":{},\"constraints\":{\"priority\":\"high\","
		"\"data_classification\":\"T2\"},\"expected_output\":{},\"context\":{},\"caller_id\":"
		"\"alpha\"}");
}
END_TEST

START_TEST(event_over_the_limit_is_dropped_and_leaves_no_gap) /* proves L1-21 L2-04 */
{
	char *big = xmalloc(2 << 20);

	memset(big, 'x', 2 << 20);
	memcpy(big, "{\"a\":\"", 6);
	memcpy(big + (2 << 20) - 2, "\"}", 2);
	ck_assert(!session_event(s, "log", big, 2 << 20));
	ck_assert(session_event(s, "log", "{}", 2));
	free(big);
	world_run(&w);
	ck_assert_int_eq(world_check_stream(&w, 1).sequence, 3);
	ck_assert_int_eq(world_said(&w, "\"event_type\":\"warning\""), 1);
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM events WHERE length(body) > 1048576", NULL), 0);
}
END_TEST

START_TEST(warnings_go_into_the_summary_and_are_bounded) /* proves L4-03 */
{
	for (int i = 0; i < 500; i++)
		session_warn(s, "many", "warning number %d \"quoted\" %300s", i, "");
	session_set_outcome(s, S_COMPLETED, "completed", "t", "{\"outputs\":{}}", 14);
	session_finish(s);
	world_run(&w);
	ck_assert_str_eq(world_check_stream(&w, 1).state, "COMPLETED");
	ck_assert_int_eq(world_said(&w, "\"event_type\":\"warning\""), 500);
	ck_assert_int_eq(world_said(&w, "\"warnings\":[\"warning number 0 \\\"quoted\\\""), 1);
	ck_assert_int_lt(
		world_count(&w, "SELECT length(body) FROM events WHERE type = 'task_completed'", NULL),
		20000);
}
END_TEST

START_TEST(task_failed_has_all_fields) /* proves L4-04 */
{
	json_t *root;
	const json_t *p, *d;

	session_fail(
		s, "worker_failed", "resource_unavailable", "daemon", "\"why_else\":[1]", "no %s", "means");
	session_finish(s);
	world_run(&w);
	root = json_loads(
		world_text(&w, "SELECT body FROM events WHERE type = 'task_failed'", NULL), 0, NULL);
	p = json_object_get(root, "payload");
	d = json_object_get(p, "error_details");
	ck_assert_str_eq(json_string_value(json_object_get(p, "error_code")), "resource_unavailable");
	ck_assert_str_eq(json_string_value(json_object_get(p, "error_message")), "no means");
	ck_assert(json_is_string(json_object_get(d, "phase")));
	ck_assert(json_object_get(d, "step") != NULL && json_object_get(d, "last_checkpoint") != NULL);
	ck_assert(json_is_boolean(json_object_get(d, "recoverable")));
	ck_assert(json_is_array(json_object_get(d, "why_else")));
	ck_assert(json_is_object(json_object_get(p, "partial_outputs")));
	ck_assert(json_is_array(json_object_get(p, "artifacts")));
	d = json_object_get(p, "execution_summary");
	ck_assert(json_is_string(json_object_get(d, "duration")) &&
		json_is_integer(json_object_get(d, "steps_executed")));
	ck_assert(json_is_array(json_object_get(d, "risk_events")) &&
		json_is_array(json_object_get(d, "warnings")));
	json_decref(root);
}
END_TEST

START_TEST(every_message_has_an_exact_envelope) /* proves L1-01 L1-02 L1-04 */
{
	w.core.phase.is_draining = false;
	world_run(&w);
	world_submit(&w, "m9", "nothing-here");
	fake_worker_say(w.workers.list[0], "{\"type\":\"completed\",\"outputs\":{}}");
	fake_worker_exit(w.workers.list[0], 0);
	world_run(&w);
	for (size_t i = 0; i < world_sent_count(&w); i++) {
		const struct fake_sent *m = world_sent(&w, i);
		json_t *root = json_loadb(m->body, m->size, JSON_REJECT_DUPLICATES, NULL);
		const char *id = json_string_value(json_object_get(root, "message_id"));
		const char *at = json_string_value(json_object_get(root, "timestamp"));
		const char *session = json_string_value(json_object_get(root, "session_id"));
		char key[300];

		ck_assert_uint_eq(json_object_size(root), 6);
		ck_assert_str_eq(json_string_value(json_object_get(root, "hcp_version")), "1.0");
		ck_assert(id_is_uuid4(id));
		ck_assert_str_eq(id, m->message_id);
		ck_assert_uint_eq(strlen(at), 24);
		ck_assert_str_eq(at, "2026-01-31T12:00:00.000Z");
		ck_assert_int_eq(m->timestamp_s, 1769860800);
		ck_assert_str_eq(json_string_value(json_object_get(root, "type")), m->type);
		ck_assert(json_is_object(json_object_get(root, "payload")));
		ck_assert_int_eq(session == NULL, strcmp(m->type, "task_rejected") == 0);
		ck_assert_str_eq(m->correlation_id, session != NULL ? session : "");
		snprintf(key, sizeof key, "alpha.%s.%s", session != NULL ? session : "-", m->type);
		ck_assert_str_eq(m->key, key);
		json_decref(root);
	}
	ck_assert_uint_ge(world_sent_count(&w), 7);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("session");
	TCase *p = tcase_create("pairs"), *t = tcase_create("states"), *m = tcase_create("messages");

	tcase_add_loop_test(p, a_pair_is_legal_only_if_the_spec_lists_it, 0, S_COUNT * S_COUNT);
	tcase_add_test(p, transition_from_or_to_no_state_is_never_legal);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(
		t, refused_step_is_a_log_line_and_a_legal_one_a_row_and_event, 0, S_COUNT * S_COUNT);
	tcase_add_loop_test(
		t, an_end_goes_over_legal_steps_in_one_transaction, 0, (int)(sizeof ends / sizeof *ends));
	tcase_add_test(t, the_first_cause_decides_the_end);
	tcase_add_test(t, a_stored_outcome_comes_back_as_it_was);
	tcase_add_checked_fixture(m, setup, teardown);
	tcase_add_test(m, first_digits_of_ids_count_also_over_a_crash);
	tcase_add_test(m, task_accepted_and_session_created_have_all_fields);
	tcase_add_test(m, a_session_keeps_what_L2_01_lists);
	tcase_add_test(m, event_over_the_limit_is_dropped_and_leaves_no_gap);
	tcase_add_test(m, warnings_go_into_the_summary_and_are_bounded);
	tcase_add_test(m, task_failed_has_all_fields);
	tcase_add_test(m, every_message_has_an_exact_envelope);
	suite_add_tcase(suite, p);
	suite_add_tcase(suite, t);
	suite_add_tcase(suite, m);
	return world_main(suite);
}
