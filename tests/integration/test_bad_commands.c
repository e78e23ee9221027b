/* SPDX-License-Identifier: MIT */
/* test_bad_commands.c: what callers may send wrongly, and what they hear. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/peer.h"
#include "support/rig.h"
#include "support/wire.h"

static struct rig *r;
static struct peer *p;

static void begin(void)
{
	r = rig_new();
	rig_start(r);
	p = peer_new(r);
}

static void end(void)
{
	peer_finish(p);
	rig_finish(r);
}

static void still_works(void)
{
	peer_completed(p, peer_run(p, "agent", J("{'do':[['progress',1],['complete']]}")));
}

/* An envelope with every part there, to be spoiled. */
static json_t *whole(const char *mid)
{
	return J(
		"{'hcp_version':'1.0','message_id':'%s','timestamp':'2024-05-06T07:08:09.123Z','session_id':"
		"null,"
		"'type':'task_submit','payload':{'capability':'agent','caller_id':'%s','intent':'i','inputs'"
		":{}}}",
		mid, p->id);
}

static void publish_json(json_t *j)
{
	char *body = json_dumps(j, JSON_COMPACT);

	peer_publish(p, body, strlen(body), NULL);
	free(body);
	json_decref(j);
}

/* Sets a member by its path to JSON, or takes it out. */
static void spoil(json_t *root, const char *path, const char *value)
{
	char parent[100];
	const char *dot = strrchr(path, '.');

	snprintf(parent, sizeof parent, "%.*s", dot ? (int)(dot - path) : 0, path);
	json_t *object = json_at(root, parent);
	if (value)
		json_object_set_new(object, dot ? dot + 1 : path, J("%s", value));
	else
		json_object_del(object, dot ? dot + 1 : path);
}

START_TEST(a_known_caller_hears_what_was_wrong) /* proves L1-15, L1-12, CW-06 */
{
	static const struct {
		const char *path, *value, *code;
	} rows[] = {
		{"hcp_version", "'2.0'", "unsupported_version"},
		{"hcp_version", "1.0", "invalid_input"},
		{"hcp_version", NULL, "invalid_input"},
		{"timestamp", NULL, "invalid_input"},
		{"timestamp", "'yesterday'", "invalid_input"},
		{"timestamp", "17", "invalid_input"},
		{"type", "'task_sumbit'", "invalid_input"},
		{"type", NULL, "invalid_input"},
		{"payload.capability", NULL, "invalid_input"},
		{"payload.capability", "7", "invalid_input"},
		{"payload.capability", "'nobody-has-it'", "unknown_capability"},
		{"payload.intent", NULL, "invalid_input"},
		{"payload.intent", "[]", "invalid_input"},
		{"payload.intent", "''", "invalid_input"},
		{"payload.inputs", NULL, "invalid_input"},
		{"payload.inputs", "[1]", "invalid_input"},
		{"payload.inputs", "null", "invalid_input"},
		{"payload.capability_version", "1", "invalid_input"},
		{"payload.constraints", "[]", "invalid_input"},
		{"payload.constraints", "{'max_duration':'5 minutes'}", "invalid_input"},
		{"payload.constraints", "{'max_duration':'PT'}", "invalid_input"},
		{"payload.constraints", "{'max_duration':'-PT5S'}", "invalid_input"},
		{"payload.constraints", "{'max_duration':60}", "invalid_input"},
		{"payload.constraints", "{'confidence_threshold':1.5}", "invalid_input"},
		{"payload.constraints", "{'confidence_threshold':'high'}", "invalid_input"},
		{"payload.constraints", "{'data_classification':'T9'}", "invalid_input"},
		{"payload.constraints", "{'priority':'asap'}", "invalid_input"},
		{"payload.expected_output", "[]", "invalid_input"},
		{"payload.expected_output", "{'required_fields':[1]}", "invalid_input"},
	};

	begin();
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		const char *id = uuid_text(p);
		json_t *j = whole(id);
		spoil(j, rows[i].path, rows[i].value);
		publish_json(j);
		struct note *n = peer_reply(p, id);
		const char *code = note_text(n, "payload.reason_code");
		must(code && strcmp(code, rows[i].code) == 0, "%s = %s gave %s", rows[i].path,
			rows[i].value ? rows[i].value : "-", n->body);
	}
	still_works();
	end();
}
END_TEST

START_TEST(without_a_usable_message_id_in_reply_to_is_null) /* proves L1-15 */
{
	static const char *const ids[] = {NULL, "17", "''", "null", "'with\\ncontrol'"};
	char longest[140];

	begin();
	for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
		json_t *j = whole("x");
		spoil(j, "message_id", ids[i]);
		publish_json(j);
		wait_until(peer_count(p, NULL, "task_rejected", NULL) == (int)i + 1, WAIT_S,
			"an answer to message_id %s", ids[i]);
		struct note *n = peer_find_nth(p, NULL, "task_rejected", NULL, (int)i + 1);
		must(json_is_null(note_at(n, "payload.in_reply_to")), "%s", n->body);
		must_str(note_text(n, "payload.reason_code"), "invalid_input");
	}
	memset(longest, 'm', 129);
	longest[129] = 0;
	publish_json(whole(longest));
	wait_until(peer_count(p, NULL, "task_rejected", NULL) == 6, WAIT_S, "an answer");
	longest[128] = 0;
	publish_json(whole(longest));
	peer_completed(p, peer_accepted(p, longest));
	end();
}
END_TEST

START_TEST(commands_that_others_write_a_little_differently_are_taken) /* proves L1-20, L1-01 */
{
	static const struct {
		const char *path, *value;
	} rows[] = {
		{"hcp_version", "'1.7'"},
		{"timestamp", "'2024-05-06T07:08:09Z'"},
		{"timestamp", "'2024-05-06T07:08:09.123456Z'"},
		{"timestamp", "'2024-05-06T07:08:09+00:00'"},
		{"payload.context", "[1,2,3]"},
		{"payload.constraints", "{}"},
		{"payload.unknown", "{'x':1}"},
		{"unknown", "1"},
		{"payload.constraints", "{'max_duration':'P1DT30M'}"},
		{"payload.constraints", "{'max_duration':'PT2H15M0.25S'}"},
		{"payload.constraints", "{'max_duration':'PT72H'}"},
	};
	const char *ids[20];

	begin();
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		json_t *j = whole(ids[i] = uuid_text(p));
		spoil(j, rows[i].path, rows[i].value);
		publish_json(j);
		struct note *n = peer_reply(p, ids[i]);
		must(strcmp(n->kind, "task_accepted") == 0, "%s = %s gave %s", rows[i].path, rows[i].value,
			n->body);
		peer_completed(p, n->session);
	}
	json_t *j = whole("any-printable id: ~!");
	publish_json(j);
	peer_completed(p, peer_accepted(p, "any-printable id: ~!"));
	end();
}
END_TEST

/* A dead-letter queue for the rig's command queue, by policy: the daemon declares the queue itself. */
static void make_dead_letters(char *name, size_t room)
{
	char expression[700];

	snprintf(name, room, "%s.dead", r->callee);
	wire_make_queue(r->broker, name, "", NULL, NULL);
	snprintf(expression, sizeof expression,
		"rabbit_policy:set(<<\"/\">>, <<\"%s\">>, <<\"^hcp[.]cmd[.]%s$\">>, "
		"[{<<\"dead-letter-exchange\">>, <<>>}, {<<\"dead-letter-routing-key\">>, <<\"%s\">>}], 0, "
		"<<\"queues\">>, <<\"tests\">>).",
		r->callee, r->callee, name);
	must(broker_eval(r->broker, expression) == 0, "no policy could be set");
}

static void drop_dead_letters(const char *name)
{
	char expression[300];

	snprintf(expression, sizeof expression, "rabbit_policy:delete(<<\"/\">>, <<\"%s\">>, <<\"tests\">>).",
		r->callee);
	broker_eval(r->broker, expression);
	wire_delete_queue(r->broker, name);
}

START_TEST(command_without_a_known_caller_is_dead_lettered) /* proves L1-15, L1-20 */
{
	static const char *const callers[] = {
		"a.b", "#", "*", "", "\\u00fc", "sp ace", "a/b", "caller\\u0000x"};
	char dead[120], longest[140], *body;
	int messages, consumers, sent = 0;
	size_t size;

	r = rig_new();
	make_dead_letters(dead, sizeof dead);
	rig_start(r);
	p = peer_new(r);
	for (size_t i = 0; i < sizeof callers / sizeof callers[0]; i++, sent++) {
		char text[500];
		snprintf(text, sizeof text,
			"{\"hcp_version\":\"1.0\",\"message_id\":\"m%zu\",\"timestamp\":\"2024-05-06T07:08:"
			"09.123Z\","
			"\"session_id\":null,\"type\":\"task_submit\",\"payload\":{\"capability\":\"agent\","
			"\"caller_id\":\"%s\",\"intent\":\"i\","
			"\"inputs\":{}}}",
			i, callers[i]);
		peer_publish(p, text, strlen(text), NULL);
	}
	memset(longest, 'c', 129);
	longest[129] = 0;
	json_t *j = whole("m");
	json_object_set_new(json_object_get(j, "payload"), "caller_id", json_string(longest));
	publish_json(j), sent++;
	j = whole("m");
	spoil(j, "payload", "[]");
	publish_json(j), sent++;
	j = whole("m");
	spoil(j, "payload.caller_id", "{}");
	publish_json(j), sent++;
	peer_publish(p, "", 0, NULL), sent++;
	peer_publish(p, "nonsense", 8, NULL), sent++;
	peer_publish(p, "[1,2]", 5, NULL), sent++;
	peer_publish(p, "{\"a\":", 5, NULL), sent++;
	peer_publish(p, "\xff\xfe{}", 4, NULL), sent++;
	publish_json(
		J("{'hcp_version':'1.0','message_id':'m','timestamp':'2024-05-06T07:08:09.123Z','"
		  "session_id':'no-uuid',"
		  "'type':'abort','payload':{}}")),
		sent++;
	publish_json(
		J("{'hcp_version':'1.0','message_id':'m','timestamp':'2024-05-06T07:08:09.123Z','"
		  "session_id':null,"
		  "'type':'abort','payload':{}}")),
		sent++;
	body = calloc(1, size = 1100000);
	memset(body, ' ', size);
	peer_publish(p, body, size, NULL), sent++;
	free(body);
	still_works();
	wait_until(queue_look(r->broker, dead, &messages, &consumers) && messages == sent, WAIT_S,
		"%d dead letters, there are %d", sent, messages);
	must(peer_count(p, NULL, "task_rejected", NULL) == 0, "somebody was answered");
	drop_dead_letters(dead);
	end();
}
END_TEST

START_TEST(a_command_that_is_too_deep_or_not_utf8_runs_nothing) /* proves L1-15 */
{
	char deep[9000] = "", bad[500];

	begin();
	for (int levels = 70; levels <= 3000; levels *= 5) {
		snprintf(deep, sizeof deep,
			"{\"hcp_version\":\"1.0\",\"message_id\":\"deep%d\",\"timestamp\":\"2024-05-06T07:08:"
			"09.123Z\","
			"\"session_id\":null,\"type\":\"task_submit\",\"payload\":{\"capability\":\"agent\","
			"\"caller_id\":\"%s\",\"intent\":\"i\","
			"\"inputs\":{\"a\":",
			levels, p->id);
		size_t n = strlen(deep);
		memset(deep + n, '[', (size_t)levels);
		memset(deep + n + levels, ']', (size_t)levels);
		strcpy(deep + n + 2 * levels, "}}}");
		peer_publish(p, deep, strlen(deep), NULL);
	}
	snprintf(bad, sizeof bad,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"utf\",\"timestamp\":\"2024-05-06T07:08:09.123Z\","
		"\"session_id\":null,\"type\":\"task_submit\",\"payload\":{\"capability\":\"agent\",\"caller_"
		"id\":\"%s\",\"intent\":\"\xc3\x28\","
		"\"inputs\":{}}}",
		p->id);
	peer_publish(p, bad, strlen(bad), NULL);
	/* A raw NUL behind a number: jansson would step over it, and the metadata would be stored with it. */
	snprintf(bad, sizeof bad,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"nul\",\"timestamp\":\"2024-05-06T07:08:09.123Z\","
		"\"session_id\":null,\"type\":\"task_submit\",\"payload\":{\"capability\":\"agent\",\"caller_"
		"id\":\"%s\",\"intent\":\"i\",\"inputs\":{},\"metadata\":{\"n\":1~}}}",
		p->id);
	size_t size = strlen(bad);
	*strchr(bad, '~') = '\0';
	peer_publish(p, bad, size, NULL);
	still_works();
	must(peer_count(p, NULL, "task_accepted", NULL) == 1, "a bad one was accepted");
	end();
}
END_TEST

START_TEST(three_hundred_malformed_commands_change_nothing) /* proves L1-15 */
{
	unsigned seed = 20240607;
	char *text, path[64];
	int messages = -1, consumers;
	size_t before = 0, after = 0;

	begin();
	still_works();
	snprintf(path, sizeof path, "/proc/%d/statm", r->pid);
	char *statm = file_read(path, NULL);
	sscanf(statm, "%*u %zu", &before);
	free(statm);
	pid_t pid = r->pid;
	printf("seed %u\n", seed);
	for (int i = 0; i < 300; i++) {
		json_t *j = whole(uuid_text(p));
		text = json_dumps(j, 0);
		size_t size = strlen(text);
		for (int k = 0; k < 1 + i % 5; k++) /* bytes changed, ends cut off, middles doubled */
			text[(unsigned)rand_r(&seed) % size] = (char)rand_r(&seed);
		if (i % 3 == 0)
			size = (unsigned)rand_r(&seed) % size;
		peer_publish(p, text, size, NULL);
		free(text);
		json_decref(j);
	}
	still_works();
	wait_until(queue_look(r->broker, r->queue, &messages, &consumers) && messages == 0 && consumers == 1,
		WAIT_S, "an empty queue");
	must(r->pid == pid && !r->exited, "the daemon ended");
	for (size_t i = 0; i < p->note_count; i++) /* a spoilt byte may spoil nothing that matters */
		if (strcmp(p->notes[i]->kind, "task_accepted") == 0)
			peer_wait(p, p->notes[i]->session, "event", "session_closed");
	statm = file_read(path, NULL);
	sscanf(statm, "%*u %zu", &after);
	free(statm);
	must(harness_is_sanitized() || after < before + 2048, "it grew from %zu to %zu pages", before, after);
	end();
}
END_TEST

START_TEST(command_of_nearly_1_MiB_is_taken_and_one_over_it_is_not)
{
	begin();
	char *big = malloc(1048577);
	memset(big, 'x', 1048576);
	big[1000000] = 0;
	peer_completed(p, peer_run(p, "agent", json_pack("{s:s}", "big", big)));
	const char *id = peer_submit(
		p, "agent", (big[1000000] = 'x', big[1048576] = 0, json_pack("{s:s}", "big", big)));
	still_works();
	must(!peer_find_reply(p, id) || strcmp(peer_find_reply(p, id)->kind, "task_rejected") == 0,
		"it was accepted");
	free(big);
	end();
}
END_TEST

/* --- who may --- */

START_TEST(callers_have_their_capabilities_and_their_risk) /* proves L3-04 */
{
	r = rig_new();
	rig_capability(r, "risky", source_path("tests/integration/agents/agent.py"),
		J("{'safety':{'risk_ceiling':'R4'}}"));
	rig_set(r, "caller *", "capabilities", NULL);
	rig_set(r, "caller *", "max_risk", NULL);
	rig_set(r, "caller known", "capabilities", "agent, risky");
	rig_set(r, "caller known", "max_risk", "R3");
	rig_set(r, "caller narrow", "capabilities", "risky");
	rig_set(r, "caller narrow", "max_risk", "R4");
	rig_start(r);
	p = peer_named(r, "known");
	struct peer *narrow = peer_named(r, "narrow"), *stranger = peer_named(r, "stranger");
	peer_completed(p, peer_run(p, "agent", NULL));
	struct note *n = peer_rejected(p, peer_submit(p, "risky", NULL), "risk_too_high");
	must_str(note_text(n, "payload.assessed_risk_level"), "R4");
	peer_rejected(narrow, peer_submit(narrow, "agent", NULL), "forbidden");
	peer_completed(narrow, peer_run(narrow, "risky", NULL));
	peer_rejected(stranger, peer_submit(stranger, "agent", NULL), "unauthorized");
	peer_rejected(stranger, peer_submit(stranger, "nobody-has-it", NULL), "unauthorized");
	peer_finish(narrow);
	peer_finish(stranger);
	end();
}
END_TEST

START_TEST(an_exact_caller_section_wins_over_the_star)
{
	r = rig_new();
	rig_set(r, "caller strict", "capabilities", "other");
	rig_capability(r, "other", source_path("tests/integration/agents/agent.py"), NULL);
	rig_start(r);
	p = peer_named(r, "strict");
	peer_rejected(p, peer_submit(p, "agent", NULL), "forbidden");
	peer_completed(p, peer_run(p, "other", NULL));
	end();
}
END_TEST

START_TEST(a_callers_identity_is_what_the_broker_says) /* proves L3-05 */
{
	r = rig_new();
	rig_set(r, "caller mine", "capabilities", "*");
	rig_set(r, "caller mine", "amqp_user", "guest");
	rig_set(r, "caller others", "capabilities", "*");
	rig_set(r, "caller others", "amqp_user", "somebody-else");
	rig_start(r);
	must(rig_log_has(r, "amqp_user"), "no warning that [caller *] is not checked");
	p = peer_named(r, "mine");
	struct peer *foreign = peer_named(r, "others");
	peer_rejected(p, peer_submit(p, "agent", NULL), "unauthorized"); /* no user-id at all */
	snprintf(p->user_id, sizeof p->user_id, "guest");
	peer_completed(p, peer_run(p, "agent", NULL));
	snprintf(foreign->user_id, sizeof foreign->user_id, "guest");
	peer_rejected(foreign, peer_submit(foreign, "agent", NULL), "unauthorized");
	peer_finish(foreign);
	end();
}
END_TEST

START_TEST(stranger_who_is_rejected_takes_no_dedup_entry_of_the_caller) /* proves L1-06 */
{
	r = rig_new();
	rig_set(r, "caller mine", "capabilities", "*");
	rig_set(r, "caller mine", "amqp_user", "guest");
	rig_start(r);
	p = peer_named(r, "mine");
	const char *id = peer_submit(p, "agent", NULL);
	peer_rejected(p, id, "unauthorized");
	snprintf(p->user_id, sizeof p->user_id, "guest");
	peer_send_as(p, id, "task_submit", NULL, peer_payload(p, "agent", NULL, NULL));
	wait_until(peer_count(p, NULL, "task_accepted", NULL) == 1, WAIT_S,
		"the identity is looked at before the memory");
	peer_completed(p, peer_find(p, NULL, "task_accepted", NULL)->session);
	end();
}
END_TEST

/* The configuration says nothing about rates, windows and retention. */
START_TEST(a_flood_of_rejected_submits_is_counted_in_the_audit) /* proves SA-06 */
{
	enum { KNOWN = 2000, STRANGE = 200 };

	r = rig_new();
	rig_set(r, "caller *", "capabilities", NULL);
	rig_set(r, "caller *", "max_risk", NULL);
	rig_set(r, "caller known", "capabilities", "agent");
	rig_start(r);
	p = peer_named(r, "known");
	struct peer *stranger = peer_named(r, "stranger");
	for (int i = 0; i < KNOWN; i++) {
		peer_submit(p, "nobody-has-it", NULL);
		if (i < STRANGE)
			peer_submit(stranger, "agent", NULL);
	}
	wait_until(peer_count(p, NULL, "task_rejected", NULL) == KNOWN &&
			peer_count(stranger, NULL, "task_rejected", NULL) == STRANGE,
		60, "%d answers, %d to the stranger", peer_count(p, NULL, "task_rejected", NULL),
		peer_count(stranger, NULL, "task_rejected", NULL));
	wait_until(rig_sql(r, "SELECT count(*) FROM events") == KNOWN, WAIT_S, "a stranger's answer is kept");
	must(rig_sql(r, "SELECT count(*) FROM submits") == KNOWN, "%lld submits",
		rig_sql(r, "SELECT count(*) FROM submits"));
	/* a row each of the first sixty, then one a minute of each kind */
	must(rig_sql(r, "SELECT count(*) FROM audit") < 60 + 20, "%lld rows in the audit",
		rig_sql(r, "SELECT count(*) FROM audit"));
	still_works();
	peer_finish(stranger);
	peer_finish(p);
	rig_stop(r); /* what was counted is written */
	must(rig_sql(r,
		     "SELECT sum(coalesce(json_extract(entry, '$.count'), 1)) FROM audit WHERE"
		     " json_extract(entry, '$.code') IN ('unknown_capability', 'unauthorized')") ==
			KNOWN + STRANGE,
		"a rejection is not in the audit");
	rig_finish(r);
}
END_TEST

START_TEST(rejections_leave_the_store_after_their_window) /* proves SA-06 */
{
	r = rig_new();
	rig_set(r, "daemon", "dedup_window", "1s");
	rig_set(r, "amqp", "heartbeat", "1");
	rig_start(r);
	p = peer_new(r);
	for (int i = 0; i < 500; i++)
		peer_submit(p, "nobody-has-it", NULL);
	wait_until(peer_count(p, NULL, "task_rejected", NULL) == 500, 60, "500 answers");
	wait_until(rig_sql(r, "SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM submits)") == 0,
		60, "no row of a rejection");
	still_works();
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("bad commands");

	suite_test(s, a_known_caller_hears_what_was_wrong, 60);
	suite_test(s, without_a_usable_message_id_in_reply_to_is_null, 40);
	suite_test(s, commands_that_others_write_a_little_differently_are_taken, 40);
	suite_test(s, command_without_a_known_caller_is_dead_lettered, 60);
	suite_test(s, a_command_that_is_too_deep_or_not_utf8_runs_nothing, 40);
	suite_test(s, three_hundred_malformed_commands_change_nothing, 60);
	suite_test(s, command_of_nearly_1_MiB_is_taken_and_one_over_it_is_not, 40);
	suite_test(s, callers_have_their_capabilities_and_their_risk, 40);
	suite_test(s, an_exact_caller_section_wins_over_the_star, 40);
	suite_test(s, a_callers_identity_is_what_the_broker_says, 40);
	suite_test(s, stranger_who_is_rejected_takes_no_dedup_entry_of_the_caller, 40);
	suite_test(s, a_flood_of_rejected_submits_is_counted_in_the_audit, 120);
	suite_test(s, rejections_leave_the_store_after_their_window, 120);
	return harness_run(s, false);
}
