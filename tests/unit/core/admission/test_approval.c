/* SPDX-License-Identifier: MIT */
/* test_approval.c: tasks that wait for a human: in the core, with fakes for everything around it. The keys
 * and signatures are real ones. */
#include "support/fakes/fake_world.h"

#include <sqlite3.h>

#include "support/fakes/fake_operators.h"
#include "harp/harp.h"
#include "core/operator/operator.h"

#define ASKING \
	"\"risk_ceiling\":\"R5\",\"requires_human_approval\":true,\"involves_physical_resources\":false," \
	"\"risk_floor\":"
#define KEYS 4 /* ann, ann's other one, bob; and one that nobody knows */

static struct world w;
static struct op_queue operators;
static char lines[KEYS][HARP_PUBLIC_SIZE];
static struct harp_private *keys[KEYS];
static const char *const names[KEYS] = {"ann", "ann-new", "bob", "mallory"};
enum { ANN, ANN_NEW, BOB, MALLORY };

/* ---- the scene ---- */

static void on_answer(void *ctx, const struct op_request *a)
{
	const char *state = strstr(buf_text(&((struct op_request *)(uintptr_t)a)->done), "\"state\":\"");

	(void)ctx;
	world_check_rows(&w);
	if (a->code == NULL && state != NULL) {
		const char *stored =
			world_text(&w, "SELECT state FROM sessions WHERE session_id = ?", a->session_id);

		ck_assert_msg(
			strncmp(state + 9, stored, strlen(stored)) == 0, "said %s, stored %s", state, stored);
	}
}

/* No key may be given twice: what `more` says of an approver is left out here. */
static void add_approver(struct buf *b, const char *more, const char *name, const char *const given[][2])
{
	char said[64];

	buf_addf(b, "[approver %s]\n", name);
	for (; (*given)[0] != NULL; given++) {
		snprintf(said, sizeof said, "[approver %s]\n%s = ", name, (*given)[0]);
		if (strstr(more, said) == NULL)
			buf_addf(b, "%s = %s\n", (*given)[0], (*given)[1]);
	}
}

/* more: other lines, such as an [approver ...] with one key that is to be otherwise. */
static void configure(const char *risk_floor, const char *more)
{
	const char *const ann[][2] = {{"key", lines[ANN]}, {"max_risk", "R5"}, {"person", "Ann"},
		{NULL, NULL}},
			  *const ann_new[][2] = {{"key", lines[ANN_NEW]}, {"max_risk", "R5"},
				  {"person", "Ann"}, {NULL, NULL}},
			  *const bob[][2] = {{"key", lines[BOB]}, {"max_risk", "R4"}, {NULL, NULL}};
	struct buf b = {0};
	char safety[200];

	snprintf(safety, sizeof safety, ASKING "\"%s\"", risk_floor);
	add_approver(&b, more, "ann", ann);
	add_approver(&b, more, "ann-new", ann_new);
	add_approver(&b, more, "bob", bob);
	buf_addf(&b, "[capability lab]\ndeclaration = lab.json\ncommand = /bin/true lab\n%s", more);
	world_declare(&w, "lab", "2.0.0", safety, "");
	world_configure(&w, buf_text(&b));
	buf_fini(&b);
}

static void reconfigure(const char *risk_floor, const char *more)
{
	configure(risk_floor, more);
	core_reload(&w.core);
	world_run(&w);
}

static void begin_with(const char *more)
{
	configure("R3", more);
	world_begin(&w);
	w.core.operator.queue = & operators;
}

static void setup(void)
{
	char path[300], why[256];

	world_init(&w, "");
	for (int i = 0; i < KEYS; i++) {
		snprintf(path, sizeof path, "%s/%s.pem", w.dir, names[i]);
		ck_assert_msg(harp_key_make(path, lines[i], why, sizeof why) == 0, "%s", why);
		keys[i] = harp_key_load(path, why, sizeof why);
		ck_assert_msg(keys[i] != NULL, "%s", why);
	}
	fake_operators_init(&operators);
	operators.on_answer = on_answer;
}

static void teardown(void)
{
	world_fini(&w);
	fake_operators_fini(&operators);
	for (int i = 0; i < KEYS; i++)
		harp_key_free(keys[i]);
}

static void crash(void)
{
	world_crash(&w);
	w.core.operator.queue = & operators;
	world_run(&w);
}

static void submit(const char *message_id)
{
	world_submit(&w, message_id, "lab");
	world_run(&w);
}

/* ---- decisions ---- */

/* The newest review, as a human's program reads it. */
static struct harp_artifact *artifact(void)
{
	sqlite3_stmt *st;
	struct harp_artifact *a = NULL;
	char why[256];

	ck_assert(sqlite3_prepare_v2(w.watch, "SELECT artifact FROM reviews ORDER BY id DESC LIMIT 1", -1,
			  &st, NULL) == SQLITE_OK);
	ck_assert(sqlite3_step(st) == SQLITE_ROW);
	ck_assert_msg(harp_read_artifact((const char *)sqlite3_column_text(st, 0),
			      (size_t)sqlite3_column_bytes(st, 0), &a, why, sizeof why) == HARP_OK,
		"%s", why);
	sqlite3_finalize(st);
	return a;
}

static const char *nonce(void)
{
	static char text[16][HARP_NONCE_SIZE];
	static unsigned count;
	unsigned char bytes[16] = {0};

	count++;
	memcpy(bytes, &count, sizeof count);
	harp_nonce(bytes, text[count % 16]);
	return text[count % 16];
}

/* The caller frees it. */
static char *sign_as(const struct harp_artifact *a, int key, const struct harp_answer *answer)
{
	struct buf b = {0};
	char why[256];

	ck_assert_msg(harp_sign(a, answer, keys[key], &b, why, sizeof why) == HARP_OK, "%s", why);
	buf_text(&b);
	return b.data;
}

static char *sign(int key, bool allow)
{
	struct harp_artifact *a = artifact();
	char *text = sign_as(a, key,
		&(struct harp_answer){.allow = allow,
			.scope = HARP_ONCE,
			.expires_us = a->expires_us,
			.nonce = nonce(),
			.signer_key_id = names[key]});

	harp_artifact_free(a);
	return text;
}

static struct op_request *put_because(const char *text, const char *session, const char *reason)
{
	struct op_request *a = fake_operators_ask(&operators, OP_DECIDE, session);

	a->reason = reason != NULL ? xstrdup(reason) : NULL;
	a->decision = xstrdup(text);
	a->decision_size = strlen(text);
	core_on_requests(&w.core);
	return a;
}

static struct op_request *put(const char *text, const char *session)
{
	return put_because(text, session, NULL);
}

/* Takes the text. */
static struct op_request *decide(char *text)
{
	struct op_request *a = put(text, NULL);

	free(text);
	world_run(&w);
	return a;
}

static void expect_done(const struct op_request *a, const char *state, const char *review)
{
	char text[96];

	ck_assert_msg(a->code == NULL, "%s: %s", a->code, a->message);
	snprintf(text, sizeof text, "\"state\":\"%s\",\"review\":\"%s\"", state, review);
	ck_assert_msg(strstr(buf_text(&((struct op_request *)(uintptr_t)a)->done), text) != NULL, "%s",
		a->done.data);
}

static void expect_code(const struct op_request *a, const char *code)
{
	ck_assert_msg(a->code != NULL, "done: %s", buf_text(&((struct op_request *)(uintptr_t)a)->done));
	ck_assert_msg(strcmp(a->code, code) == 0, "%s, not %s: %s", a->code, code, a->message);
	ck_assert_str_ne(a->message, "");
	ck_assert_str_ne(a->remedy, "");
}

/* Whatever was tried: it waits on. */
static void expect_waiting(int key)
{
	ck_assert_str_eq(world_state(&w, key), "PENDING");
	ck_assert_int_eq(world_said(&w, "task_accepted") + world_said(&w, "task_rejected"), 0);
	ck_assert_uint_eq(w.workers.count, 0);
	ck_assert_str_eq(world_text(&w, "SELECT state FROM reviews ORDER BY id DESC LIMIT 1", NULL),
		"AWAITING_DECISION");
}

static const char *review_state(void)
{
	return world_text(
		&w, "SELECT group_concat(state) FROM (SELECT state FROM reviews ORDER BY id)", NULL);
}

/* How often it was published, the same message twice too. */
static int copies(const char *needle)
{
	int n = 0;

	for (size_t i = 0; i < world_sent_count(&w); i++)
		n += strstr(world_sent(&w, i)->body, needle) != NULL;
	return n;
}

/* ---- waiting, and a yes ---- */

START_TEST(task_waits_unanswered_across_crashes_until_approved) /* proves L3-09, HC-02 */
{
	begin_with("");
	submit("m1");
	expect_waiting(1);
	ck_assert_uint_eq(w.bus.acked, 1); /* it is stored: never an unacked message */
	submit("m1");
	world_pass(&w, 3600 * SECONDS);
	crash();
	expect_waiting(1);
	submit("m1");
	expect_waiting(1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions", NULL), 1);
	expect_done(decide(sign(ANN, true)), "RUNNING", "EXECUTED");
	ck_assert_int_eq(world_said(&w, "\"type\":\"task_accepted\""), 1);
	ck_assert_int_eq(world_said(&w, "\"in_reply_to\":\"m1\""), 1);
	ck_assert_str_eq(world_path(&w, 1), "PENDING>RUNNING:approved");
	ck_assert_int_eq(
		world_count(&w, "SELECT count(*) FROM decisions WHERE is_final AND signer = 'ann'", NULL), 1);
	ck_assert_ptr_nonnull(world_worker(&w, 1));
	ck_assert(world_check_stream(&w, 1).accepted);
	submit("m1"); /* now it has an answer, and gets it again */
	ck_assert_int_eq(world_said(&w, "\"type\":\"task_accepted\""), 1);
	ck_assert_int_eq(copies("\"type\":\"task_accepted\""), 2);
	ck_assert_uint_eq(w.workers.count, 1);
	crash();
	ck_assert_str_eq(review_state(), "EXECUTED");
}
END_TEST

START_TEST(approved_task_waits_for_a_slot_like_any_other)
{
	begin_with("");
	w.core.phase.is_draining = true;
	submit("m1");
	expect_done(decide(sign(ANN, true)), "PENDING", "EXECUTED");
	ck_assert_int_eq(world_said(&w, "session_created"), 1);
	ck_assert_uint_eq(w.workers.count, 0);
	crash(); /* a new run drains no more */
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert(world_check_stream(&w, 1).accepted);
}
END_TEST

/* ---- a no ---- */

START_TEST(a_denial_rejects_it_and_is_told_once) /* proves L3-09 */
{
	struct op_request *a;

	begin_with("");
	submit("m1");
	a = put("", NULL);
	world_run(&w);
	expect_code(a, "HARP_ERR_CANONICALIZATION");
	char *text = sign(BOB, false);
	a = put_because(text, NULL, "not today");
	free(text);
	world_run(&w);
	expect_done(a, "REJECTED", "DENIED");
	ck_assert_str_eq(world_path(&w, 1), "PENDING>REJECTED:approval_denied");
	ck_assert_int_eq(world_said(&w,
				 "\"reason_code\":\"approval_denied\",\"reason_message\":\"bob denied it: "
				 "not today\""),
		1);
	ck_assert_int_eq(world_said(&w, "\"in_reply_to\":\"m1\""), 1);
	/* The answer is a row of the session, and leaves the store with it; the message names no session. */
	ck_assert_int_eq(world_count(&w,
				 "SELECT count(*) FROM events WHERE session = 1 AND session_id IS NULL AND "
				 "type = 'task_rejected'",
				 NULL),
		1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM events", NULL), 1);
	crash();
	int before = copies("task_rejected"); /* what was not known to be confirmed came again */
	submit("m1");
	ck_assert_int_eq(world_said(&w, "task_rejected"), 1);
	ck_assert_int_eq(copies("task_rejected"), before + 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions", NULL), 1);
	ck_assert_uint_eq(w.core.slots.undecided, 0);
}
END_TEST

START_TEST(a_human_is_told_of_physical_resources)
{
	begin_with("");
	submit("m1");
	world_declare(&w, "lab", "2.0.0",
		"\"risk_ceiling\":\"R5\",\"requires_human_approval\":true,\"risk_floor\":\"R3\","
		"\"involves_physical_resources\":true",
		"");
	core_reload(&w.core);
	world_run(&w);
	submit("m2");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM reviews", NULL), 2);
	ck_assert_int_eq(world_count(&w,
				 "SELECT sum(session) FROM reviews WHERE artifact LIKE '%lab involves "
				 "physical resources%'",
				 NULL),
		2);
}
END_TEST

START_TEST(approval_without_a_decision_expires_at_its_time) /* proves L3-09 */
{
	char *late;

	begin_with("[approval]\nexpires = 10m\n");
	submit("m1");
	late = sign(ANN, true);
	world_pass(&w, 599 * SECONDS);
	if (_i == 1) { /* the time runs on while nobody is there */
		world_end(&w, true);
		fake_clock_pass(3600 * SECONDS);
		world_open(&w);
		ck_assert_int_eq(core_recover(&w.core), EX_OK);
		core_end_turn(&w.core);
		fake_bus_up(&w.bus);
		w.core.operator.queue = & operators;
		world_run(&w);
	} else {
		expect_waiting(1);
		world_pass(&w, 2 * SECONDS);
	}
	ck_assert_str_eq(world_path(&w, 1), "PENDING>REJECTED:approval_expired");
	ck_assert_int_eq(world_said(&w, "\"reason_code\":\"approval_expired\""), 1);
	ck_assert_str_eq(review_state(), "EXPIRED");
	expect_code(decide(late), "HARP_ERR_EXPIRED");
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

START_TEST(an_operator_ends_one_that_waits_and_its_caller_cannot) /* proves HC-02 */
{
	struct op_request *a;

	begin_with("");
	submit("m1");
	world_abort(&w, world_id(&w, 1));
	world_run(&w);
	expect_waiting(1);
	a = fake_operators_ask(&operators, OP_ABORT, world_id(&w, 1));
	core_on_requests(&w.core);
	world_run(&w);
	ck_assert_ptr_null(a->code);
	ck_assert_str_eq(world_path(&w, 1), "PENDING>REJECTED:aborted_by_operator");
	ck_assert_int_eq(world_said(&w, "\"reason_code\":\"policy_denied\""), 1);
	ck_assert_str_eq(review_state(), "EXPIRED"); /* DENIED is a signed decision */
	expect_code(decide(sign(ANN, true)), "HARP_ERR_EXPIRED");
}
END_TEST

/* Of whatever risk, and of a capability that wants nobody to be asked. */
START_TEST(data_of_class_t4_waits_for_a_human) /* proves L3-06 */
{
	static const char t3[] = ",\"constraints\":{\"data_classification\":\"T3\"}";
	static const char t4[] = ",\"constraints\":{\"data_classification\":\"T4\"}";

	begin_with("[amqp]\nurl = amqps://127.0.0.1/\n[store]\nencrypted = yes\n");
	world_submit_as(&w, "alpha", NULL, "m1", "plain", t3);
	world_submit_as(&w, "alpha", NULL, "m2", "plain", t4);
	world_run(&w);
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	ck_assert_str_eq(world_state(&w, 2), "PENDING");
	ck_assert_int_eq(world_said(&w, "task_accepted"), 1);
	ck_assert_uint_eq(w.workers.count, 1);
	expect_done(decide(sign(BOB, true)), "RUNNING", "EXECUTED");
	ck_assert_int_eq(world_said(&w, "\"data_classification\":\"T4\""), 1);
	ck_assert_uint_eq(w.workers.count, 2);
}
END_TEST

static void change_store(const char *sql)
{
	char path[300];
	sqlite3 *db;

	snprintf(path, sizeof path, "%s/hcpd.db", w.state);
	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

START_TEST(data_of_class_t4_goes_on_only_with_its_approval) /* proves CK-09, L3-06 */
{
	begin_with("[amqp]\nurl = amqps://127.0.0.1/\n[store]\nencrypted = yes\n");
	world_submit_as(
		&w, "alpha", NULL, "m1", "plain", ",\"constraints\":{\"data_classification\":\"T4\"}");
	world_run(&w);
	expect_done(decide(sign(BOB, true)), "RUNNING", "EXECUTED");
	crash();
	ck_assert_str_eq(world_state(&w, 1), "RUNNING");
	change_store("UPDATE reviews SET state = 'DENIED'");
	crash();
	ck_assert_str_eq(world_state(&w, 1), "FAILED");
	ck_assert_int_eq(world_said(&w, "\"check\":\"approval\""), 1);
	ck_assert_uint_eq(w.workers.count, 0);
}
END_TEST

/* ---- decisions that do not count ---- */

static char *changed(char *text, const char *from, const char *to)
{
	char *at = strstr(text, from);

	ck_assert_msg(at != NULL && strlen(from) == strlen(to), "%s in %s", from, text);
	memcpy(at, to, strlen(to));
	return text;
}

static char *forged(void)
{
	return sign(MALLORY, true); /* a key that is not configured */
}

static char *in_anothers_name(void)
{
	struct harp_artifact *a = artifact();
	char *text = sign_as(a, MALLORY,
		&(struct harp_answer){.allow = true,
			.expires_us = a->expires_us,
			.nonce = nonce(),
			.signer_key_id = "ann"});

	harp_artifact_free(a);
	return text;
}

static char *turned_about(void)
{
	char *text = sign(ANN, false), *to = xcalloc(1, strlen(text) + 2), *at = strstr(text, "\"deny\"");

	snprintf(to, strlen(text) + 2, "%.*s\"allow\"%s", (int)(at - text), text, at + 6);
	free(text);
	return to;
}

static char *past(void)
{
	struct harp_artifact *a = artifact();
	char *text = sign_as(a, ANN,
		&(struct harp_answer){.allow = true,
			.expires_us = fake_wall_us - 61 * SECONDS,
			.nonce = nonce(),
			.signer_key_id = "ann"});

	harp_artifact_free(a);
	return text;
}

/* Well signed, but about what this task would have been with less in it. */
static char *about_another(void)
{
	struct harp_artifact *a = artifact();
	char *text;

	a->hash[0] = a->hash[0] == '0' ? '1' : '0';
	text = sign_as(a, ANN,
		&(struct harp_answer){.allow = true,
			.expires_us = a->expires_us,
			.nonce = nonce(),
			.signer_key_id = "ann"});
	harp_artifact_free(a);
	return text;
}

static char *for_another_request(void)
{
	struct harp_artifact *a = artifact();
	char *text;

	a->request_id[0] = a->request_id[0] == '0' ? '1' : '0';
	text = sign_as(a, ANN,
		&(struct harp_answer){.allow = true,
			.expires_us = a->expires_us,
			.nonce = nonce(),
			.signer_key_id = "ann"});
	harp_artifact_free(a);
	return text;
}

static char *for_another_session(void)
{
	struct harp_artifact *a = artifact();
	char *text;

	a->session_id[0] = a->session_id[0] == '0' ? '1' : '0';
	text = sign_as(a, ANN,
		&(struct harp_answer){.allow = true,
			.scope = HARP_SESSION,
			.expires_us = a->expires_us,
			.nonce = nonce(),
			.signer_key_id = "ann"});
	harp_artifact_free(a);
	return text;
}

static char *by_a_key_of_less_risk(void)
{
	reconfigure("R3", "[approver ann]\nmax_risk = R2\n");
	return sign(ANN, true);
}

static char *by_a_revoked_key(void)
{
	char *text = sign(ANN, true); /* signed before, and brought after */

	reconfigure("R3", "[approver ann]\nrevoked = yes\n");
	return text;
}

static char *no_json(void)
{
	return xstrdup("{\"requestId\":");
}

static char *with_a_real(void)
{
	return changed(sign(ANN, true), "\"expiresAt\":\"2", "\"e\":1.5,\"x\":\"2");
}

static char *with_a_field_too_many(void)
{
	return changed(sign(ANN, true), "\"nonce\"", "\"noncy\"");
}

static const struct {
	char *(*make)(void);
	const char *code;
} bad[] = {
	{forged, "HARP_ERR_SIGNATURE_INVALID"},
	{in_anothers_name, "HARP_ERR_SIGNATURE_INVALID"},
	{turned_about, "HARP_ERR_SIGNATURE_INVALID"},
	{past, "HARP_ERR_EXPIRED"},
	{about_another, "HARP_ERR_HASH_MISMATCH"},
	{for_another_request, "HARP_ERR_HASH_MISMATCH"},
	{for_another_session, "HARP_ERR_SCOPE"},
	{by_a_key_of_less_risk, "HARP_ERR_POLICY_DENY"},
	{by_a_revoked_key, "HARP_ERR_POLICY_DENY"},
	{no_json, "HARP_ERR_CANONICALIZATION"},
	{with_a_real, "HARP_ERR_CANONICALIZATION"},
	{with_a_field_too_many, "HARP_ERR_UNSUPPORTED"},
};

START_TEST(decision_that_does_not_count_is_refused_with_its_code) /* proves HC-03 */
{
	begin_with("");
	submit("m1");
	expect_code(decide(bad[_i].make()), bad[_i].code);
	expect_waiting(1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM decisions", NULL), 0);
	crash();
	expect_waiting(1);
	expect_done(decide(sign(BOB, true)), "RUNNING", "EXECUTED"); /* and a good one still does */
}
END_TEST

START_TEST(a_decision_is_used_once) /* proves HC-03 */
{
	char *text, *other;

	begin_with("");
	submit("m1");
	text = sign(ANN, true);
	other = sign(BOB, true);
	expect_done(decide(xstrdup(text)), "RUNNING", "EXECUTED");
	expect_code(decide(xstrdup(text)), "HARP_ERR_REPLAY");
	expect_code(decide(other), "HARP_ERR_REPLAY");
	crash();
	expect_code(decide(xstrdup(text)), "HARP_ERR_REPLAY");
	submit("m2"); /* the same task once more is another request */
	expect_code(decide(xstrdup(text)), "HARP_ERR_REPLAY");
	struct op_request *a = put(text, world_id(&w, 2)); /* aimed at the one that waits */
	world_run(&w);
	expect_code(a, "HARP_ERR_HASH_MISMATCH");
	free(text);
	ck_assert_str_eq(world_state(&w, 2), "PENDING");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM decisions", NULL), 1);
}
END_TEST

START_TEST(twice_in_one_turn_it_counts_once) /* proves HC-03 */
{
	struct op_request *first, *second, *third;
	char *text, *again;

	begin_with("");
	submit("m1");
	text = sign(ANN, true);
	again = sign(ANN, false);
	first = put(text, NULL);
	second = put(text, NULL);
	third = put(again, NULL);
	world_run(&w);
	expect_done(first, "RUNNING", "EXECUTED");
	expect_code(second, "HARP_ERR_REPLAY");
	expect_code(third, "HARP_ERR_REPLAY");
	free(text);
	free(again);
}
END_TEST

/* A nonce that was used for one task is worn out for every other. */
START_TEST(a_nonce_is_its_signers_once_and_for_all) /* proves HC-03 */
{
	struct harp_artifact *a;
	const char *used = nonce();

	begin_with("");
	for (int i = 0; i < 3; i++) {
		submit(i == 0 ? "m1" : i == 1 ? "m2" : "m3");
		a = artifact();
		int key = i == 2 ? BOB : ANN;
		struct op_request *asked = decide(sign_as(a, key,
			&(struct harp_answer){.allow = true,
				.expires_us = a->expires_us,
				.nonce = used,
				.signer_key_id = names[key]}));

		if (i == 1)
			expect_code(asked, "HARP_ERR_REPLAY");
		else
			expect_done(asked, "RUNNING", "EXECUTED");
		harp_artifact_free(a);
		if (i == 1)
			crash();
	}
}
END_TEST

/* Before the commit too, when the store does not know of the first. */
START_TEST(a_nonce_is_used_once_in_one_turn) /* proves HC-03 */
{
	const char *used = nonce();
	struct op_request *asked[2];
	char *texts[2];

	begin_with("");
	for (int i = 0; i < 2; i++) {
		submit(i == 0 ? "m1" : "m2");
		struct harp_artifact *a = artifact();
		texts[i] = sign_as(a, ANN,
			&(struct harp_answer){.allow = i > 0,
				.expires_us = a->expires_us,
				.nonce = used,
				.signer_key_id = "ann"});
		harp_artifact_free(a);
	}
	for (int i = 0; i < 2; i++)
		asked[i] = put(texts[i], NULL);
	world_run(&w);
	expect_done(asked[0], "REJECTED", "DENIED");
	expect_code(asked[1], "HARP_ERR_REPLAY");
	ck_assert_str_eq(world_state(&w, 2), "PENDING");
	free(texts[0]);
	free(texts[1]);
}
END_TEST

/* ---- two persons ---- */

#define TWO "[approval]\ntwo_person = R3\n"

START_TEST(first_of_two_approvals_waits_for_another_person) /* proves L3-09, HC-03 */
{
	begin_with(TWO);
	submit("m1");
	expect_done(decide(sign(ANN, true)), "PENDING", "AWAITING_DECISION");
	expect_waiting(1);
	expect_code(decide(sign(ANN, true)), "HARP_ERR_POLICY_DENY");
	/* another key, the same person */
	expect_code(decide(sign(ANN_NEW, true)), "HARP_ERR_POLICY_DENY");
	crash(); /* her vote is remembered */
	expect_code(decide(sign(ANN_NEW, true)), "HARP_ERR_POLICY_DENY");
	expect_waiting(1);
	expect_done(decide(sign(BOB, true)), "RUNNING", "EXECUTED");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM decisions", NULL), 2);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM decisions WHERE is_final", NULL), 1);
}
END_TEST

START_TEST(two_votes_in_one_turn_are_two)
{
	struct op_request *first, *second;
	char *a, *b;

	operators.on_answer = NULL; /* the first one's is past when it is given */
	begin_with(TWO);
	submit("m1");
	a = sign(ANN, true);
	b = sign(BOB, true);
	first = put(a, NULL);
	second = put(b, NULL);
	world_run(&w);
	ck_assert_ptr_null(first->code);
	expect_done(second, "RUNNING", "EXECUTED");
	free(a);
	free(b);
}
END_TEST

START_TEST(a_vote_dies_with_its_key_and_one_denial_is_enough) /* proves HC-03 */
{
	begin_with(TWO);
	submit("m1");
	expect_done(decide(sign(ANN, true)), "PENDING", "AWAITING_DECISION");
	reconfigure("R3", TWO "[approver ann]\nrevoked = yes\n");
	expect_done(decide(sign(BOB, true)), "PENDING", "AWAITING_DECISION"); /* he is the first again */
	expect_done(decide(sign(ANN_NEW, true)), "RUNNING", "EXECUTED");
	submit("m2");
	expect_done(decide(sign(ANN_NEW, true)), "PENDING", "AWAITING_DECISION");
	expect_done(decide(sign(BOB, false)), "REJECTED", "DENIED");
}
END_TEST

/* ---- the policy of now ---- */

/* A member of the newest row of the audit of a kind. */
static const char *audited(const char *what, const char *member)
{
	char sql[256];

	snprintf(sql, sizeof sql,
		"SELECT json_extract(entry, '$.%s') FROM audit WHERE json_extract(entry, '$.what') = ?"
		" ORDER BY id DESC LIMIT 1",
		member);
	return world_text(&w, sql, what);
}

static void reconfigure_with_rule(const char *level)
{
	char safety[400];

	configure("R1", "");
	snprintf(safety, sizeof safety,
		ASKING
		"\"R1\",\"rules\":[{\"when\":{\"pointer\":\"\",\"op\":\"present\"},\"level\":\"%s\","
		"\"reason\":\"it is there\"}]",
		level);
	world_declare(&w, "lab", "2.0.0", safety, "");
	core_reload(&w.core);
	world_run(&w);
}

START_TEST(audit_of_an_approval_has_its_risk_and_its_rules)
{
	char *text;

	begin_with("");
	submit("m1");
	text = sign(ANN, true);
	reconfigure_with_rule("R4");
	expect_code(decide(text), "refused");
	ck_assert_str_eq(audited("approve", "code"), "risk_rose");
	ck_assert_str_eq(audited("approve", "outcome"), "waits");
	ck_assert_str_eq(audited("approve", "risk"), "R4");
	ck_assert_str_eq(audited("approve", "rules"), "it is there (R4)");
	text = sign(ANN, true);
	reconfigure_with_rule("R2");
	expect_done(decide(text), "RUNNING", "EXECUTED");
	ck_assert_str_eq(audited("approve", "outcome"), "accepted");
	ck_assert_str_eq(audited("approve", "risk"), "R2");
	ck_assert_str_eq(audited("approve", "rules"), "it is there (R2)");
}
END_TEST

/* Each of them signs what is past, twice. */
START_TEST(refused_decisions_are_counted_by_signer)
{
	static const int by[] = {ANN, BOB, ANN, BOB, MALLORY};
	char *texts[5];

	begin_with("");
	submit("m1");
	for (int i = 0; i < 5; i++)
		texts[i] = sign(by[i], true);
	expect_done(decide(sign(BOB, false)), "REJECTED", "DENIED");
	for (int i = 0; i < 5; i++) {
		struct op_request *a = decide(texts[i]);

		expect_code(a, i < 4 ? "HARP_ERR_REPLAY" : a->code);
	}
	ck_assert_str_eq(world_text(&w,
				 "SELECT group_concat(json_extract(entry, '$.who')) FROM (SELECT entry FROM "
				 "audit WHERE"
				 " json_extract(entry, '$.outcome') = 'refused' ORDER BY id)",
				 NULL),
		"ann,bob,operator");
	world_pass(&w, 61 * SECONDS);
	ck_assert_str_eq(
		world_text(&w,
			"SELECT group_concat(json_extract(entry, '$.who') || json_extract(entry, '$.count')) "
			"FROM"
			" (SELECT entry FROM audit WHERE json_extract(entry, '$.count') > 0 ORDER BY id)",
			NULL),
		"ann1,bob1");
}
END_TEST

START_TEST(approved_task_that_is_forbidden_now_is_rejected) /* proves HC-02 */
{
	static const struct {
		const char *floor, *more, *code;
	} changes[] = {
		{"R3", "[caller alpha]\ncapabilities = work\n", "forbidden"},
		{"R4", "[caller alpha]\nmax_risk = R3\n", "risk_too_high"},
		{"R5", "[approver ann]\nmax_risk = R3\n[approver ann-new]\nmax_risk = R3\n", "policy_denied"},
	};
	char said[64];

	begin_with("");
	submit("m1");
	char *text = sign(ANN, true);

	reconfigure(changes[_i].floor, changes[_i].more);
	expect_code(decide(text), "refused");
	snprintf(said, sizeof said, "\"reason_code\":\"%s\"", changes[_i].code);
	ck_assert_int_eq(world_said(&w, said), 1);
	ck_assert_str_eq(world_state(&w, 1), "REJECTED");
	ck_assert_str_eq(review_state(), "APPROVED"); /* a human did, and nothing was executed */
	expect_code(decide(sign(BOB, true)), "HARP_ERR_REPLAY");
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM decisions", NULL), 1);
	ck_assert_uint_eq(w.workers.count, 0);
	ck_assert_str_eq(audited("approve", "outcome"), "rejected");
	ck_assert_str_eq(audited("approve", "code"), changes[_i].code);
	/* not assessed: as it was shown */
	ck_assert_str_eq(audited("approve", "risk"), changes[_i].floor);
	ck_assert_str_ne(audited("approve", "about"), "");
}
END_TEST

START_TEST(a_risk_that_rose_since_needs_a_new_decision) /* proves HC-02 */
{
	char *text, *old;

	begin_with("");
	submit("m1");
	text = sign(ANN, true);
	old = sign(BOB, true);
	reconfigure("R4", "");
	expect_code(decide(xstrdup(text)), "refused");
	expect_waiting(1);
	ck_assert_str_eq(review_state(), "EXPIRED,AWAITING_DECISION");
	expect_code(decide(text), "HARP_ERR_REPLAY");
	expect_code(decide(old), "HARP_ERR_EXPIRED");
	crash();
	expect_waiting(1);
	expect_done(decide(sign(BOB, true)), "RUNNING", "EXECUTED");
	ck_assert_int_eq(world_said(&w, "\"type\":\"task_accepted\",\"payload\":{\"session_token\":"), 1);
	ck_assert_str_eq(world_text(&w, "SELECT risk_level FROM sessions", NULL), "R4");
	ck_assert_str_eq(review_state(), "EXPIRED,EXECUTED");
}
END_TEST

/* ---- keys ---- */

static void note_error(void *ctx, bool is_error, const char *text)
{
	if (is_error)
		buf_addf(ctx, "%s\n", text);
}

/* proves HC-03 */
START_TEST(approval_keys_that_are_wrong_leave_the_old_set)
{
	char more[200];
	struct buf said = {0};

	begin_with("");
	submit("m1");
	snprintf(more, sizeof more, "[approver bob]\nkey = %s\n", _i == 0 ? lines[ANN] : "ed25519:short");
	configure("R3", more);
	ck_assert_ptr_null(policy_load(w.ini, note_error, &said));
	ck_assert_ptr_nonnull(strstr(buf_text(&said),
		_i == 0 ? ": [approver bob]: key bob: the same public key as ann" :
			  ": [approver bob]: key bob: not ed25519:"));
	buf_fini(&said);
	core_reload(&w.core);
	expect_done(decide(sign(BOB, true)), "RUNNING", "EXECUTED");
}
END_TEST

START_TEST(a_policy_that_was_loaded_again_unchanged_changes_nothing)
{
	begin_with("");
	submit("m1");
	reconfigure("R3", "");
	expect_waiting(1);
	expect_done(decide(sign(ANN, true)), "RUNNING", "EXECUTED");
}
END_TEST

START_TEST(with_nobody_who_may_decide_it_is_denied_at_once)
{
	static const char *const none[] = {
		"[approver ann]\nrevoked = yes\n[approver ann-new]\nrevoked = yes\n[approver bob]\nmax_risk "
		"= R2\n",
		TWO "[approver bob]\nmax_risk = R2\n", /* Ann is one person */
	};

	begin_with(none[_i]);
	submit("m1");
	ck_assert_int_eq(world_said(&w, "\"reason_code\":\"policy_denied\""), 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions", NULL), 0);
}
END_TEST

START_TEST(tasks_that_wait_for_approval_count_as_backlog)
{
	begin_with("[daemon]\nmax_pending = 2\n");
	submit("m1");
	submit("m2");
	submit("m3");
	ck_assert_int_eq(world_said(&w, "\"reason_code\":\"resource_unavailable\""), 1);
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions WHERE waits_for = 'human'", NULL), 2);
	crash();
	ck_assert_uint_eq(w.core.slots.undecided, 2);
	submit("m4");
	ck_assert_int_eq(world_said(&w, "\"reason_code\":\"resource_unavailable\""), 2);
	decide(sign(ANN, true));
	submit("m5"); /* there is room again */
	ck_assert_int_eq(world_count(&w, "SELECT count(*) FROM sessions WHERE waits_for = 'human'", NULL), 2);
}
END_TEST

/* ---- the store ---- */

START_TEST(while_the_store_refuses_nothing_is_decided_and_then_once)
{
	char *text;
	struct op_request *a;

	begin_with("");
	submit("m1");
	text = sign(ANN, true);
	fake_disk_refuse(ENOSPC);
	a = put(text, NULL);
	core_end_turn(&w.core);
	ck_assert(w.core.phase.is_suspended);
	ck_assert_uint_eq(operators.answers, 0);
	ck_assert_int_eq(world_said(&w, "task_accepted"), 0);
	ck_assert_uint_eq(w.workers.count, 0);
	fake_disk_mend();
	world_pass(&w, 2 * SECONDS);
	expect_done(a, "RUNNING", "EXECUTED");
	ck_assert_int_eq(world_said(&w, "\"type\":\"task_accepted\""), 1);
	free(text);
}
END_TEST

/* Died before the commit: it was never decided, and the same decision does. */
START_TEST(a_decision_that_was_not_committed_was_not_made)
{
	char *text;

	begin_with("");
	submit("m1");
	text = sign(ANN, true);
	put(text, NULL);
	crash();
	expect_waiting(1);
	expect_done(decide(text), "RUNNING", "EXECUTED");
}
END_TEST

START_TEST(stored_task_that_differs_from_the_shown_one_does_not_run)
{
	begin_with("");
	submit("m1");
	world_exec(&w, "UPDATE tasks SET task = replace(task, 'do it', 'do more')");
	expect_code(decide(sign(ANN, true)), "HARP_ERR_HASH_MISMATCH");
	expect_waiting(1);
	expect_done(decide(sign(ANN, false)), "REJECTED", "DENIED");
}
END_TEST

START_TEST(the_approvers_are_listed_with_their_public_keys)
{
	struct op_request *a;

	begin_with(TWO);
	a = fake_operators_ask(&operators, OP_APPROVERS, NULL);
	core_on_requests(&w.core);
	ck_assert_ptr_nonnull(strstr(buf_text(&a->item), lines[BOB]));
	ck_assert_ptr_nonnull(strstr(buf_text(&a->item), "\"two_person\":\"R3\""));
	ck_assert_ptr_nonnull(strstr(buf_text(&a->item), "\"person\":\"Ann\""));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("review");
	TCase *t = tcase_create("review");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, task_waits_unanswered_across_crashes_until_approved);
	tcase_add_test(t, approved_task_waits_for_a_slot_like_any_other);
	tcase_add_test(t, a_denial_rejects_it_and_is_told_once);
	tcase_add_test(t, a_human_is_told_of_physical_resources);
	tcase_add_loop_test(t, approval_without_a_decision_expires_at_its_time, 0, 2);
	tcase_add_test(t, an_operator_ends_one_that_waits_and_its_caller_cannot);
	tcase_add_test(t, data_of_class_t4_waits_for_a_human);
	tcase_add_test(t, data_of_class_t4_goes_on_only_with_its_approval);
	tcase_add_loop_test(
		t, decision_that_does_not_count_is_refused_with_its_code, 0, sizeof bad / sizeof *bad);
	tcase_add_test(t, a_decision_is_used_once);
	tcase_add_test(t, twice_in_one_turn_it_counts_once);
	tcase_add_test(t, a_nonce_is_its_signers_once_and_for_all);
	tcase_add_test(t, a_nonce_is_used_once_in_one_turn);
	tcase_add_test(t, first_of_two_approvals_waits_for_another_person);
	tcase_add_test(t, two_votes_in_one_turn_are_two);
	tcase_add_test(t, a_vote_dies_with_its_key_and_one_denial_is_enough);
	tcase_add_loop_test(t, approved_task_that_is_forbidden_now_is_rejected, 0, 3);
	tcase_add_test(t, audit_of_an_approval_has_its_risk_and_its_rules);
	tcase_add_test(t, refused_decisions_are_counted_by_signer);
	tcase_add_test(t, a_risk_that_rose_since_needs_a_new_decision);
	tcase_add_test(t, a_policy_that_was_loaded_again_unchanged_changes_nothing);
	tcase_add_loop_test(t, approval_keys_that_are_wrong_leave_the_old_set, 0, 2);
	tcase_add_loop_test(t, with_nobody_who_may_decide_it_is_denied_at_once, 0, 2);
	tcase_add_test(t, tasks_that_wait_for_approval_count_as_backlog);
	tcase_add_test(t, while_the_store_refuses_nothing_is_decided_and_then_once);
	tcase_add_test(t, a_decision_that_was_not_committed_was_not_made);
	tcase_add_test(t, stored_task_that_differs_from_the_shown_one_does_not_run);
	tcase_add_test(t, the_approvers_are_listed_with_their_public_keys);
	suite_add_tcase(s, t);
	return world_main(s);
}
