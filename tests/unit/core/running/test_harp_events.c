/* SPDX-License-Identifier: MIT */
/* test_harp_events.c: what the world is told of a session on harp.sessions: the core with fakes for
 * everything around it. */
#include "support/fakes/fake_world.h"

#include "harp/session.h"
#include "core/running/worker_messages.h"
#include "core/running/harp_events.h"

#define TOLD "[capability told]\ndeclaration = told.json\ncommand = /bin/true told\nharp = yes\n"

static struct world w;

static void begin_with(const char *more)
{
	char keys[1024];

	world_init(&w, "");
	world_declare(&w, "told", "1.0.0", WORLD_SAFE, "");
	snprintf(keys, sizeof keys, TOLD "%s", more);
	world_configure(&w, keys);
	world_begin(&w);
}

static void setup(void)
{
	begin_with("");
}

static void teardown(void)
{
	world_fini(&w);
}

static void crash(void)
{
	fake_clock_pass(SECONDS);
	world_crash(&w);
	world_run(&w);
}

/* ---- looking ---- */

/* The first copies of what went to harp.sessions, each held against HARP's rules: "start executing ...
 * user_end". */
static const char *told(int key)
{
	static char text[2048];
	char id[ID_SIZE], prefix[64], want[BUS_KEY_SIZE], why[256];
	int64_t before_us = 0;

	snprintf(id, sizeof id, "%s", world_id(&w, key));
	text[0] = '\0';
	for (size_t i = 0; i < world_sent_count(&w); i++) {
		const struct fake_sent *s = world_sent(&w, i), *same = NULL;
		struct harp_heard h;

		if (s->exchange != BUS_TO_HARP || strcmp(s->correlation_id, id) != 0)
			continue;
		for (size_t k = 0; k < i && same == NULL; k++)
			if (strcmp(world_sent(&w, k)->message_id, s->message_id) == 0)
				same = world_sent(&w, k);
		if (same != NULL) {
			ck_assert_str_eq(same->body, s->body);
			continue;
		}
		ck_assert_msg(harp_read_event(s->body, s->size, 1 << 20, &h, why, sizeof why) == HARP_OK,
			"%s: %s", why, s->body);
		ck_assert_str_eq(h.text, s->body); /* canonical */
		ck_assert_str_eq(h.session_id, id);
		ck_assert_str_eq(s->type, harp_event_name(h.kind));
		snprintf(want, sizeof want, "alpha.%s.%s", id, s->type);
		ck_assert_str_eq(s->key, want);
		ck_assert(id_is_uuid4(s->message_id));
		ck_assert_int_eq(s->timestamp_s, h.at_us / SECONDS);
		ck_assert_msg(h.at_us > before_us || h.kind == HARP_EVENT_SNAPSHOT,
			"no later than the one before: %s", s->body);
		before_us = h.at_us;
		snprintf(prefix, sizeof prefix, "%s%s", text[0] != '\0' ? " " : "",
			h.kind == HARP_EVENT_START          ? "start" :
				h.kind == HARP_EVENT_STATUS ? harp_status_name(h.status) :
				h.kind == HARP_EVENT_END    ? harp_end_name(h.reason) :
				strlen(h.snapshot_id) == 36 ? "checkpoint" :
							      h.snapshot_id);
		strncat(text, prefix, sizeof text - strlen(text) - 1);
		harp_heard_fini(&h);
	}
	return text;
}

static int warnings(const char *code)
{
	char needle[128];

	snprintf(needle, sizeof needle, "{\"code\":\"%s\"", code);
	return world_said(&w, needle);
}

static void say(struct worker *p, const char *line)
{
	char *text = xstrdup(line);

	for (char *c = text; *c != '\0'; c++)
		*c = *c == '\'' ? '"' : *c;
	fake_worker_say(p, text);
	free(text);
	world_run(&w);
}

/* Two lines in one turn: the store knows nothing of the first when the second comes. */
static void say_at_once(const struct worker *p, const char *one, const char *other)
{
	struct session *s = session_find(&w.core, p->session_id);
	const char *const lines[] = {one, other};

	for (int i = 0; i < 2; i++) {
		char *text = xstrdup(lines[i]);

		for (char *c = text; *c != '\0'; c++)
			*c = *c == '\'' ? '"' : *c;
		worker_message_read(s, WORKER_STDOUT, text, strlen(text), LINE_WHOLE);
		free(text);
	}
	core_end_turn(&w.core);
	world_run(&w);
}

static void complete(struct worker *p)
{
	say(p, "{'type':'completed','outputs':{}}");
	fake_worker_exit(p, 0);
	world_run(&w);
}

#define SNAPSHOT(id, more) "{'type':'snapshot','snapshotId':'" id "','snapshotType':'summary'," more "}"

/* ---- states ---- */

START_TEST(each_stage_of_a_session_is_published) /* proves HS-01 */
{
	struct worker *p = world_start(&w, "m1", "told");

	ck_assert_str_eq(told(1), "start executing");
	say(p, "{'type':'progress','stage':'planning'}");
	say(p, "{'type':'progress','stage':'planning'}");
	say(p, "{'type':'progress','stage':'editing'}");
	say(p, "{'type':'progress','stage':'waiting_approval'}"); /* its own words are not HARP's */
	ck_assert_str_eq(told(1), "start executing planning editing executing");
	say(p, "{'type':'paused'}");
	say(p, "{'type':'resumed'}");
	say(p, "{'type':'checkpoint','state':{'share':0.5},'step':2.5,'description':'half \\u0001'}");
	say(p, SNAPSHOT("s1", "'payload':{'a':1}"));
	complete(p);
	ck_assert_str_eq(
		told(1), "start executing planning editing executing idle executing checkpoint s1 user_end");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM snapshots", NULL), 2);
	ck_assert(world_check_stream(&w, 1).closed); /* and its caller heard what it always hears */
	ck_assert_int_eq(
		world_count(
			&w, "SELECT count(*) FROM events WHERE type = 'harp' AND sequence IS NOT NULL", NULL),
		0);
}
END_TEST

START_TEST(a_failure_is_told_and_then_the_end) /* proves HS-01 */
{
	struct worker *p = world_start(&w, "m1", "told");

	say(p, "{'type':'failed','error_code':'safety_violation','error_message':'hot'}");
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_str_eq(told(1), "start executing error policy_kill");
}
END_TEST

START_TEST(session_that_never_ran_has_a_start_before_its_end) /* proves HS-01 */
{
	teardown();
	begin_with("[daemon]\nmax_sessions = 1\n");
	world_start(&w, "m1", "work");
	world_submit(&w, "m2", "told");
	world_run(&w);
	ck_assert_str_eq(told(2), "");
	world_abort(&w, world_id(&w, 2));
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 2), "ABORTED");
	ck_assert_str_eq(told(2), "start executing user_end");
}
END_TEST

START_TEST(only_those_who_ask_are_told_of) /* proves HS-01 */
{
	struct worker *p = world_start(&w, "m1", "work");

	say(p, "{'type':'checkpoint','state':{}}");
	say(p, SNAPSHOT("s1", "'payload':{}"));
	complete(p);
	ck_assert_str_eq(told(1), "");
	ck_assert_int_eq(warnings("snapshot_dropped"), 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM events WHERE type = 'harp'", NULL), 0);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM callers", NULL), 1);
}
END_TEST

/* Its capability has harp = no, and its caller asks. */
START_TEST(a_session_asks_for_itself) /* proves HS-01 */
{
	static const char *const metadata[] = {
		"true", "false", "1", "\"true\"", "null", "{}"}; /* only true asks */

	for (int i = 0; i < (int)(sizeof metadata / sizeof *metadata); i++) {
		char more[80], id[8];

		snprintf(more, sizeof more, ",\"metadata\":{\"harp\":%s}", metadata[i]);
		snprintf(id, sizeof id, "m%d", i);
		world_submit_as(&w, "alpha", NULL, id, "work", more);
		world_run(&w);
		ck_assert_str_eq(told(i + 1), i == 0 ? "start executing" : "");
	}
	say(world_worker(&w, 1), SNAPSHOT("s1", "'payload':{}"));
	crash();
	complete(world_worker(&w, 1));
	ck_assert_str_eq(told(1), "start executing s1 idle executing user_end");
	/* no capability of that name: the answer is the rejection, as ever */
	world_submit_as(&w, "alpha", NULL, "m9", "nothing", ",\"metadata\":{\"harp\":true}");
	world_run(&w);
	ck_assert_int_eq(world_said(&w, "\"unknown_capability\""), 1);
}
END_TEST

/* Others than the caller read harp.sessions. */
static const char *const classes[] = {"T1", "T2", "T3", "T4"};

START_TEST(data_of_class_t3_and_t4_stay_out_of_harp_sessions) /* proves HS-01, L3-06 */
{
	const char *class = classes[_i];
	bool is_open = _i < 2;
	int clear = 0;
	char more[100];
	struct worker *p;

	teardown();
	begin_with("[amqp]\nurl = amqps://127.0.0.1/\n[store]\nencrypted = yes\n");
	/* a T4 task waits for a human, and then runs as any other */
	snprintf(more, sizeof more, ",\"constraints\":{\"data_classification\":\"%s\"}",
		_i == 3 ? "T3" : class);
	world_submit_as(&w, "alpha", NULL, "m1", "told", more);
	world_run(&w);
	p = world_worker(&w, 1);
	session_find(&w.core, p->session_id)->data_class = (enum data_class)(T1 + _i);
	say(p, "{'type':'checkpoint','state':{'a':'secret-1'},'step':'secret-2','description':'secret-3'}");
	say(p, SNAPSHOT("s1", "'payload':{'a':'secret-4'},'metadata':{'b':'secret-5'}"));
	say(p, SNAPSHOT("s1", "'payload':{'a':'secret-4'},'metadata':{'b':'secret-5'}")); /* known */
	say(p, SNAPSHOT("s1", "'payload':{'a':'secret-6'}"));                             /* another */
	complete(p);
	ck_assert_str_eq(told(1), "start executing checkpoint s1 user_end");
	ck_assert_int_eq(warnings("HARP_SESSION_ERR_DUPLICATE_SNAPSHOT"), 1);
	for (size_t i = 0; i < world_sent_count(&w); i++) {
		const struct fake_sent *s = world_sent(&w, i);

		if (s->exchange != BUS_TO_HARP)
			continue;
		clear += strstr(s->body, "secret") != NULL;
		ck_assert_msg(is_open || strstr(s->body, "secret") == NULL, "%s", s->body);
		if (!is_open && strcmp(s->type, "session.snapshot") == 0)
			ck_assert_msg(strstr(s->body, "\"withheld\":true") && strstr(s->body, class) &&
					!strstr(s->body, "stateHash"),
				"%s", s->body);
	}
	ck_assert_int_eq(clear, is_open ? 2 : 0);
}
END_TEST

START_TEST(session_keeps_the_harp_setting_that_it_was_made_with)
{
	world_start(&w, "m1", "told");
	world_configure(&w, "[capability told]\ndeclaration = told.json\ncommand = /bin/true told\n");
	core_reload(&w.core);
	world_run(&w);
	crash();
	complete(world_worker(&w, 1));
	ck_assert_str_eq(told(1), "start executing idle executing user_end");
	complete(world_start(&w, "m2", "told"));
	ck_assert_str_eq(told(2), "");
}
END_TEST

static const struct {
	const char *reason, *error_code;
	enum harp_end end;
} ends[] = {
	{"completed", NULL, HARP_USER_END},
	{"worker_failed", "execution_error", HARP_USER_END},
	{"aborted_by_caller", NULL, HARP_USER_END},
	{"timeout", "timeout", HARP_TIMEOUT},
	{"idle_timeout", "execution_error", HARP_TIMEOUT},
	{"pause_expired", "timeout", HARP_TIMEOUT},
	{"approval_expired", NULL, HARP_TIMEOUT},
	{"worker_failed", "timeout", HARP_TIMEOUT},
	{"safety_violation", "safety_violation", HARP_POLICY_KILL},
	{"worker_failed", "safety_violation", HARP_POLICY_KILL},
	{"aborted_by_operator", NULL, HARP_POLICY_KILL},
	{"no_checkpoint", "internal_error", HARP_USER_END},
};

START_TEST(an_end_has_the_reason_that_harp_has_for_it) /* proves HS-01 */
{
	ck_assert_int_eq(harp_events_reason(ends[_i].reason, ends[_i].error_code), ends[_i].end);
}
END_TEST

START_TEST(a_task_that_waits_for_a_human_is_told_of) /* proves HS-01 */
{
	char path[300], line[HARP_PUBLIC_SIZE], why[256], more[600];

	teardown();
	world_init(&w, "");
	snprintf(path, sizeof path, "%s/ann.pem", w.dir);
	ck_assert_int_eq(harp_key_make(path, line, why, sizeof why), 0);
	world_declare(&w, "lab", "1.0.0",
		"\"risk_ceiling\":\"R3\",\"requires_human_approval\":true,"
		"\"involves_physical_resources\":false",
		"");
	snprintf(more, sizeof more,
		"[approver ann]\nkey = %s\n[approval]\nexpires = 1h\n[capability lab]\ndeclaration = "
		"lab.json\n"
		"command = /bin/true lab\nharp = yes\n",
		line);
	world_configure(&w, more);
	world_begin(&w);
	world_submit(&w, "m1", "lab");
	world_run(&w);
	ck_assert_str_eq(told(1), "waiting_approval");
	ck_assert_int_eq(world_said(&w, "task_accepted"), 0);
	crash();
	world_pass(&w, 3600 * SECONDS);
	ck_assert_str_eq(world_state(&w, 1), "REJECTED");
	ck_assert_str_eq(told(1), "waiting_approval timeout");
}
END_TEST

/* ---- snapshots ---- */

START_TEST(a_snapshot_is_forwarded_once) /* proves HS-03 */
{
	struct worker *p = world_start(&w, "m1", "told");

	/* twice in one turn, */
	say_at_once(p, "{'type':'snapshot','snapshotId':'s1','snapshotType':'plan','payload':{'a':1}}",
		"{'payload':{'a':1},'type':'snapshot','snapshotId':'s1','snapshotType':'plan'}");
	/* in a later one, */
	fake_clock_pass(5 * SECONDS);
	say(p, "{'type':'snapshot','snapshotId':'s1','snapshotType':'plan','payload':{'a':1}}");
	crash();
	/* and in a later run. */
	p = world_worker(&w, 1);
	say(p, "{'type':'snapshot','snapshotId':'s1','snapshotType':'plan','payload':{'a':1}}");
	complete(p);
	ck_assert_str_eq(told(1), "start executing s1 idle executing user_end");
	ck_assert_int_eq(world_said(&w, "\"event_type\":\"warning\""), 0);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM snapshots", NULL), 1);
}
END_TEST

START_TEST(artifact_id_with_another_hash_is_refused) /* proves HS-03 */
{
	struct worker *p = world_start(&w, "m1", "told");

	say_at_once(p, "{'type':'snapshot','snapshotId':'s1','snapshotType':'plan','payload':{'a':1}}",
		"{'type':'snapshot','snapshotId':'s1','snapshotType':'plan','payload':{'a':2}}");
	ck_assert_int_eq(warnings("HARP_SESSION_ERR_DUPLICATE_SNAPSHOT"), 1);
	/* HARP's error object */
	ck_assert_int_eq(
		world_said(&w, "\"details\":{\"code\":\"HARP_SESSION_ERR_DUPLICATE_SNAPSHOT\",\"message\":"),
		1);
	ck_assert_int_eq(world_said(&w, ",\"retryable\":false}}"), 1);
	say(p, "{'type':'snapshot','snapshotId':'s1','snapshotType':'plan','payload':{'a':1},'metadata':{}}");
	ck_assert_int_eq(warnings("HARP_SESSION_ERR_DUPLICATE_SNAPSHOT"), 2);
	say(p,
		"{'type':'snapshot','snapshotId':'s1','snapshotType':'plan','payload':{'a':1},'createdAt':'"
		"2020-01-01T00:00:00Z'}");
	ck_assert_int_eq(warnings("HARP_SESSION_ERR_DUPLICATE_SNAPSHOT"), 3);
	/* Another session's ids are its own; and what is older than all that was told is welcome. */
	p = world_start(&w, "m2", "told");
	say(p,
		"{'type':'snapshot','snapshotId':'s1','snapshotType':'plan','payload':{'a':2},'createdAt':'"
		"2020-01-01T00:00:00Z'}");
	ck_assert_str_eq(told(2), "start executing s1");
	ck_assert_str_eq(told(1), "start executing s1");
}
END_TEST

START_TEST(a_bad_snapshot_is_neither_stored_nor_forwarded) /* proves HS-02 */
{
	struct worker *p = world_start(&w, "m1", "told");

	say(p,
		SNAPSHOT("s1",
			"'payload':{},'createdAt':'2026-01-31T12:00:00Z','snapshotHash':"
			"'0000000000000000000000000000000000000000000000000000000000000000'"));
	ck_assert_int_eq(warnings("HARP_ERR_HASH_MISMATCH"), 1);
	say(p, SNAPSHOT("s1", "'payload':{},'sessionId':'11111111-2222-4333-8444-555555555555'"));
	ck_assert_int_eq(warnings("HARP_ERR_SCOPE"), 1);
	say(p, SNAPSHOT("s1", "'payload':{'share':0.5}"));
	ck_assert_int_eq(warnings("HARP_ERR_CANONICALIZATION"), 1);
	say(p, SNAPSHOT("s1", "'payload':{},'payload':{'a':1}"));
	say(p, SNAPSHOT("s1", "'payload':{'a':1,'a':1}"));
	ck_assert_int_eq(warnings("HARP_ERR_CANONICALIZATION"), 3);
	ck_assert_int_eq(warnings("bad_line"), 0);
	say(p, SNAPSHOT("s1", "'note':1"));
	ck_assert_int_eq(warnings("HARP_ERR_UNSUPPORTED"), 1);
	say(p,
		"{'type':'snapshot','eventType':'session.status','state':'dancing','updatedAt':'2026-01-"
		"31T12:00:00Z'}");
	ck_assert_int_eq(warnings("HARP_SESSION_ERR_INVALID_STATE"), 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM snapshots", NULL), 0);
	ck_assert_str_eq(told(1), "start executing");
	for (int i = 0; i < 50; i++)
		say(p, SNAPSHOT("s1", "'note':1"));
	ck_assert_int_eq(warnings("HARP_ERR_UNSUPPORTED"), 4); /* ten of all kinds in a minute */
	say(p, SNAPSHOT("s1", "'payload':{}"));
	ck_assert_str_eq(told(1), "start executing s1");
}
END_TEST

START_TEST(a_snapshot_after_its_own_last_word_is_refused) /* proves HS-03 */
{
	struct worker *p = world_start(&w, "m1", "told");

	fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
	say(p, SNAPSHOT("s1", "'payload':{}"));
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_int_eq(warnings("HARP_SESSION_ERR_SESSION_CLOSED"), 1);
	ck_assert_str_eq(told(1), "start executing user_end");
	/* What one that is aborted has to show is not: that was not its own word. */
	p = world_start(&w, "m2", "told");
	world_abort(&w, p->session_id);
	world_run(&w);
	say(p, SNAPSHOT("s1", "'payload':{}"));
	fake_worker_exit(p, 0);
	world_run(&w);
	ck_assert_str_eq(told(2), "start executing s1 user_end");
}
END_TEST

START_TEST(a_snapshot_over_the_message_limit_is_dropped_with_a_warning)
{
	struct worker *p;
	struct buf b = {0};

	teardown();
	begin_with("[limits]\nmessage = 64KiB\n");
	p = world_start(&w, "m1", "told");
	buf_add_text(&b,
		"{\"type\":\"snapshot\",\"snapshotId\":\"s1\",\"snapshotType\":\"plan\",\"payload\":{\"a\":"
		"\"");
	for (int i = 0; i < 65536; i++)
		buf_add_text(&b, "x");
	buf_add_text(&b, "\"}}");
	say(p, buf_text(&b));
	buf_fini(&b);
	ck_assert_int_eq(warnings("event_too_large"), 1);
	say(p, SNAPSHOT("s1", "'payload':{}")); /* its id is not used up */
	ck_assert_str_eq(told(1), "start executing s1");
}
END_TEST

/* ---- the outbox ---- */

static size_t settle_where(enum bus_exchange exchange, enum bus_status status)
{
	size_t n = 0;

	for (size_t i = 0; i < w.bus.flushed;)
		if (w.bus.flight[i].out->exchange == exchange) {
			fake_bus_settle_at(&w.bus, i, status);
			n++;
		} else {
			i++;
		}
	return n;
}

/* Whatever a worker calls a step. */
START_TEST(a_checkpoint_s_snapshot_is_never_over_the_message_limit)
{
	struct worker *p = world_start(&w, "m1", "told");
	size_t size = 2 * 1024 * 1024;
	char *line = xmalloc(size + 200);
	int n = snprintf(
		line, size, "{\"type\":\"checkpoint\",\"description\":\"d\",\"state\":{},\"step\":\"");

	memset(line + n, 'x', size);
	strcpy(line + n + size, "\"}");
	fake_worker_say(p, line);
	world_run(&w);
	free(line);
	complete(p);
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM events WHERE length(body) > 1048576", NULL), 0);
	ck_assert_str_eq(told(1), "start executing checkpoint user_end");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM checkpoints WHERE step IS NULL", NULL), 1);
}
END_TEST

START_TEST(events_that_a_crash_left_go_out_as_the_same_bytes) /* proves HS-01 */
{
	struct worker *p;

	w.broker_is_slow = true;
	p = world_start(&w, "m1", "told");
	say(p, SNAPSHOT("s1", "'payload':{'a':1}"));
	ck_assert_str_eq(told(1), "start executing s1");
	w.broker_is_slow = false;
	crash(); /* nothing was confirmed */
	complete(world_worker(&w, 1));
	/* and told() compares the copies */
	ck_assert_str_eq(told(1), "start executing s1 idle executing user_end");
	for (size_t i = 0, again = 0; i < world_sent_count(&w); i++) {
		again += world_sent(&w, i)->exchange == BUS_TO_HARP;
		ck_assert(i + 1 < world_sent_count(&w) || again == 9);
	}
}
END_TEST

static int64_t harp_rows(void)
{
	return world_count(&w, "SELECT count(*) FROM events WHERE type = 'harp'", NULL);
}

/* The operator has set nothing up for it: the broker refuses each event. */
START_TEST(a_caller_who_asks_in_vain_does_not_fill_the_store) /* proves HS-01 */
{
	static const char more[] = ",\"metadata\":{\"harp\":true}";
	int64_t rows;

	w.broker_is_slow = true;
	world_submit_as(&w, "alpha", NULL, "m1", "work", more);
	world_run(&w);
	settle_where(BUS_TO_HARP, BUS_NACKED);
	world_run(&w);
	ck_assert_int_gt(rows = harp_rows(), 0);
	world_submit_as(&w, "alpha", NULL, "m2", "work", more);
	world_run(&w);
	ck_assert_int_eq(harp_rows(), rows);
	ck_assert_str_eq(world_state(&w, 2), "RUNNING");
	/* others, and a capability whose operator wants it, are published */
	world_submit_as(&w, "beta", "beta-user", "m1", "work", more);
	world_run(&w);
	ck_assert_int_gt(harp_rows(), rows);
	rows = harp_rows();
	world_submit_as(&w, "alpha", NULL, "m3", "told", "");
	world_run(&w);
	ck_assert_int_gt(harp_rows(), rows);
	/* and so is this caller again, once the broker takes what waits */
	w.broker_is_slow = false;
	world_pass(&w, 120 * SECONDS);
	rows = harp_rows();
	world_submit_as(&w, "alpha", NULL, "m4", "work", more);
	world_run(&w);
	ck_assert_int_gt(harp_rows(), rows);
}
END_TEST

START_TEST(event_without_a_listener_is_settled)
{
	struct worker *p;

	w.broker_is_slow = true;
	p = world_start(&w, "m1", "told");
	for (int i = 0; i < 20; i++) {
		settle_where(BUS_TO_HARP, BUS_UNROUTABLE);
		settle_where(BUS_TO_EVENTS, BUS_CONFIRMED);
		world_run(&w);
		if (i == 3)
			fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
		if (i == 5)
			fake_worker_exit(p, 0);
	}
	ck_assert_str_eq(world_state(&w, 1), "COMPLETED");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM unroutable", NULL), 0);
	ck_assert_uint_eq(w.core.stats.unroutable, 0);
	ck_assert(outbox_is_empty(w.core.outbox));
	ck_assert_str_eq(told(1), "start executing user_end");
	world_pass(&w, 120 * SECONDS);
	ck_assert_uint_eq(w.bus.flight_count, 0); /* and is not tried again */
}
END_TEST

START_TEST(a_listener_s_full_queue_is_not_in_the_caller_s_way)
{
	struct worker *p;
	size_t refused = 0;

	w.broker_is_slow = true;
	p = world_start(&w, "m1", "told");
	for (int i = 0; i < 20; i++) {
		refused += settle_where(BUS_TO_HARP, BUS_NACKED);
		settle_where(BUS_TO_EVENTS, BUS_CONFIRMED);
		world_run(&w);
		if (i == 3)
			fake_worker_say(p, "{\"type\":\"completed\",\"outputs\":{}}");
		if (i == 5)
			fake_worker_exit(p, 0);
	}
	ck_assert_uint_gt(refused, 0);
	ck_assert(world_check_stream(&w, 1).closed); /* its caller heard all, at once */
	w.broker_is_slow = false;
	world_pass(&w, 300 * SECONDS);
	ck_assert_str_eq(told(1), "start executing user_end");
	ck_assert(outbox_is_empty(w.core.outbox));
}
END_TEST

START_TEST(event_that_the_broker_refuses_for_good_is_given_up)
{
	size_t before;

	w.broker_is_slow = true;
	world_start(&w, "m1", "told");
	settle_where(BUS_TO_EVENTS, BUS_CONFIRMED);
	world_run(&w);
	/* each time with fewer, and at last with the first alone in flight */
	for (int i = 0; i < 6; i++) {
		fake_bus_down(&w.bus, 406);
		world_run(&w);
		fake_bus_up(&w.bus);
		world_run(&w);
	}
	before = world_sent_count(&w);
	w.broker_is_slow = false;
	world_pass(&w, 10 * SECONDS);
	complete(world_worker(&w, 1));
	ck_assert_uint_gt(world_sent_count(&w), before);
	ck_assert(outbox_is_empty(w.core.outbox));
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM events WHERE substitute IS NOT NULL AND type = 'harp'",
			NULL),
		0);
	ck_assert_ptr_nonnull(strstr(told(1), "user_end"));
}
END_TEST

START_TEST(a_replay_is_of_the_caller_s_stream_alone)
{
	struct worker *p = world_start(&w, "m1", "told");
	struct store_replay r;
	char n[16];

	for (int i = 0; i < 30; i++) /* more of HARP's than of its own */
		say(p,
			i % 2 != 0 ? "{'type':'progress','stage':'planning'}" :
				     "{'type':'progress','stage':'editing'}");
	complete(p);
	for (int64_t from = 1; from <= 36; from++) {
		snprintf(n, sizeof n, "%lld", (long long)from);
		ck_assert_int_eq(store_find_replay(w.core.store, world_id(&w, 1), from, &r), 1);
		ck_assert_int_eq(r.first,
			world_count(&w,
				from == 1 ? "SELECT min(id) FROM events WHERE ?1 = ?1" :
					    "SELECT coalesce((SELECT min(id) FROM events WHERE sequence = "
					    "CAST(?1 AS INTEGER)), 0)",
				n));
		ck_assert_int_eq(r.count,
			world_count(&w,
				from == 1 ? "SELECT count(*) FROM events WHERE type <> 'harp' AND ?1 = ?1" :
					    "SELECT count(*) FROM events WHERE type <> 'harp' AND id >= "
					    "(SELECT id FROM events WHERE sequence = CAST(?1 AS INTEGER))",
				n));
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tell");
	TCase *t = tcase_create("tell");
	SRunner *r;
	int failed;

	suite_add_tcase(s, t);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, each_stage_of_a_session_is_published);
	tcase_add_test(t, a_failure_is_told_and_then_the_end);
	tcase_add_test(t, session_that_never_ran_has_a_start_before_its_end);
	tcase_add_test(t, only_those_who_ask_are_told_of);
	tcase_add_test(t, a_session_asks_for_itself);
	tcase_add_loop_test(
		t, data_of_class_t3_and_t4_stay_out_of_harp_sessions, 0, sizeof classes / sizeof *classes);
	tcase_add_test(t, session_keeps_the_harp_setting_that_it_was_made_with);
	tcase_add_loop_test(t, an_end_has_the_reason_that_harp_has_for_it, 0, sizeof ends / sizeof *ends);
	tcase_add_test(t, a_task_that_waits_for_a_human_is_told_of);
	tcase_add_test(t, a_snapshot_is_forwarded_once);
	tcase_add_test(t, artifact_id_with_another_hash_is_refused);
	tcase_add_test(t, a_bad_snapshot_is_neither_stored_nor_forwarded);
	tcase_add_test(t, a_snapshot_after_its_own_last_word_is_refused);
	tcase_add_test(t, a_snapshot_over_the_message_limit_is_dropped_with_a_warning);
	tcase_add_test(t, a_checkpoint_s_snapshot_is_never_over_the_message_limit);
	tcase_add_test(t, events_that_a_crash_left_go_out_as_the_same_bytes);
	tcase_add_test(t, a_caller_who_asks_in_vain_does_not_fill_the_store);
	tcase_add_test(t, event_without_a_listener_is_settled);
	tcase_add_test(t, a_listener_s_full_queue_is_not_in_the_caller_s_way);
	tcase_add_test(t, event_that_the_broker_refuses_for_good_is_given_up);
	tcase_add_test(t, a_replay_is_of_the_caller_s_stream_alone);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
