/* SPDX-License-Identifier: MIT */
/* test_rules.c: what holds while a session runs, seen from outside: actions are asked for, outputs keep their
 * promise, an intent stays what it was, and a token is good for what it was given for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sqlite3.h>

#include "support/scene.h"
#include "support/talk.h"

#define ENVELOPE "{'parameters':{'t':{'max':80,'unit':'C','hard_limit':95}},'prohibited_actions':['vent']}"

static void begin_oven(void)
{
	r = rig_new();
	rig_capability(r, "oven", AGENT,
		J("{'output_schema':{'properties':{'grade':{'maximum':6}}},'safety':{'envelope':" ENVELOPE
		  "}}"));
	rig_start(r);
	p = peer_new(r);
}

/* ---- actions ---- */

START_TEST(a_worker_asks_before_it_acts_and_hears_what_it_may) /* proves L3-07 */
{
	begin_oven();
	const char *s = peer_run(p, "oven",
		J("{'do':[['action','heat',{'t':80}],['action','heat',{'t':81}],['action','heat',{'t':79}],"
		  "['verdicts']]}"));
	struct note *n = peer_completed(p, s);
	json_t *envelope = J(ENVELOPE);

	must(json_equal(note_at(peer_find(p, s, "task_accepted", NULL), "payload.safety_envelope"), envelope),
		"the envelope is told");
	json_decref(envelope);
	json_t *verdicts = note_at(n, "payload.outputs.verdicts");
	must(json_array_size(verdicts) == 3, "%s", n->body);
	must(json_is_true(json_object_get(json_array_get(verdicts, 0), "allowed")), "%s", n->body);
	must(json_is_false(json_object_get(json_array_get(verdicts, 1), "allowed")), "%s", n->body);
	must_str(json_string_value(json_object_get(json_array_get(verdicts, 1), "reason")),
		"/t is 81 C, and the limit is at most 80 C");
	must(json_is_true(json_object_get(json_array_get(verdicts, 2), "allowed")), "%s", n->body);
	must(json_array_size(note_at(n, "payload.execution_summary.risk_events")) == 1, "%s", n->body);
	scene_end();
}
END_TEST

static void violates(const char *steps)
{
	const char *s = peer_run(p, "oven", J("{'do':[%s,['forever']]}", steps));
	struct note *n = peer_failed(p, s, "safety_violation", "safety_violation");

	must(json_array_size(note_at(n, "payload.execution_summary.risk_events")) > 0, "%s", n->body);
}

START_TEST(beyond_a_hard_limit_prohibited_or_asked_again_ends_it) /* proves L3-07 */
{
	begin_oven();
	violates("['action','heat',{'t':96}]");
	violates("['action','vent']");
	violates("['action','heat',{'t':90}],['action','heat',{'t':90}]");
	scene_end();
}
END_TEST

/* ---- outputs ---- */

START_TEST(outputs_that_break_their_promise_fail_with_what_is_missing) /* proves L4-02 */
{
	begin_oven();
	struct note *n = peer_failed(p,
		peer_run_more(p, "oven", J("{'do':[['complete',{'a':1}]]}"),
			J("{'expected_output':{'required_fields':['a','summary']}}")),
		"worker_failed", "execution_error");
	must(strstr(note_text(n, "payload.error_message"), "/summary") != NULL, "%s", n->body);
	must_str(json_string_value(json_array_get(note_at(n, "payload.error_details.missing"), 0)),
		"/summary");
	must(json_integer_value(note_at(n, "payload.partial_outputs.a")) == 1, "%s", n->body);
	n = peer_failed(p,
		peer_run_more(p, "oven", J("{'do':[['complete',{'list':[1,'x']}]]}"),
			J("{'expected_output':{'schema':{'properties':{'list':{'items':{'type':'integer'}}}}}"
			  "}")),
		"worker_failed", "execution_error");
	must(strstr(note_text(n, "payload.error_message"), "/list/1") != NULL, "%s", n->body);
	n = peer_failed(p, peer_run(p, "oven", J("{'do':[['complete',{'grade':7}]]}")), "worker_failed",
		"execution_error");
	must(strstr(note_text(n, "payload.error_message"), "output_schema") != NULL, "%s", n->body);
	peer_completed(p,
		peer_run_more(p, "oven", J("{'do':[['complete',{'grade':6,'summary':''}]]}"),
			J("{'expected_output':{'required_fields':['summary'],'schema':{'required':['grade']}}"
			  "}")));
	n = peer_rejected(p,
		peer_submit_more(p, "oven", NULL, J("{'expected_output':{'schema':{'type':'numbr'}}}")),
		"invalid_input");
	must(strstr(note_text(n, "payload.reason_message"), "/type") != NULL, "%s", n->body);
	scene_end();
}
END_TEST

/* ---- the sealed intent ---- */

static void tamper(const char *sql)
{
	sqlite3 *db;

	must(sqlite3_open(r->db, &db) == SQLITE_OK && sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK,
		"%s", sqlite3_errmsg(db));
	must(sqlite3_changes(db) == 1, "one row is changed");
	sqlite3_close(db);
}

START_TEST(a_task_that_was_changed_in_the_store_does_not_go_on) /* proves CK-08 */
{
	/* the goal; an input */
	static const char *const changes[] = {"'\"intent\":\"', '\"intent\":\"not '", "'\"n\":1', '\"n\":9'"};
	enum { CHANGES = sizeof changes / sizeof *changes };
	const char *s[CHANGES], *seal;
	char sql[300];

	scene_begin();
	for (int i = 0; i < CHANGES; i++) {
		s[i] = peer_run(p, "agent", J("{'do':[['checkpoint',{'n':1}],['forever']]}"));
		peer_event(p, s[i], "checkpoint_created");
	}
	const char *t =
		peer_run(p, "agent", J("{'do':[['checkpoint',{'n':1}],['first',['forever']],['complete']]}"));
	peer_event(p, t, "checkpoint_created");
	seal = note_text(peer_find(p, s[0], "task_accepted", NULL), "payload.intent_checksum");
	must(strncmp(seal, "sha256:", 7) == 0 && strlen(seal) == 71, "%s", seal);
	rig_kill(r);
	for (int i = 0; i < CHANGES; i++) {
		snprintf(sql, sizeof sql,
			"UPDATE tasks SET task = replace(replace(task, '\"n\": 1', '\"n\":1'), %s) WHERE "
			"session = (SELECT id FROM sessions WHERE session_id = '%s')",
			changes[i], s[i]);
		tamper(sql);
	}
	rig_start(r);
	for (int i = 0; i < CHANGES; i++) {
		struct note *n = peer_failed(p, s[i], "intent_changed", "internal_error");

		must(strstr(note_text(n, "payload.error_message"), "sealed intent is broken") != NULL, "%s",
			n->body);
		must(rig_sql(r, "SELECT attempt FROM sessions WHERE session_id = '%s'", s[i]) == 1,
			"nothing was started");
	}
	must(rig_log_count(r, "ALARM: a sealed intent was changed") == CHANGES, "the operator hears of each");
	peer_completed(p, t); /* the other one is as it was */
	scene_end();
}
END_TEST

/* ---- tokens ---- */

static size_t base64url(const unsigned char *data, size_t size, char *out)
{
	int n = EVP_EncodeBlock((unsigned char *)out, data, (int)size);

	while (n > 0 && out[n - 1] == '=')
		n--;
	for (int i = 0; i < n; i++)
		out[i] = out[i] == '+' ? '-' : out[i] == '/' ? '_' : out[i];
	out[n] = '\0';
	return (size_t)n;
}

/* As somebody could who has got hold of the daemon's own key. old: the form before keys had names. */
static const char *sign_with_its_key(const char *claims, bool old)
{
	static char token[2048];
	char *keys = file_read(rig_path(r, "state/token.keys"), NULL);
	unsigned char key[32], mac[EVP_MAX_MD_SIZE];
	unsigned mac_size, byte;
	size_t n = 0;

	must(keys != NULL && strlen(keys) > 73, "the keys");
	for (int i = 0; i < 32; i++) {
		must(sscanf(keys + 9 + 2 * i, "%2x", &byte) == 1, "%s", keys);
		key[i] = (unsigned char)byte;
	}
	if (!old)
		n = (size_t)snprintf(token, sizeof token, "%.8s.", keys);
	free(keys);
	n += base64url((const unsigned char *)claims, strlen(claims), token + n);
	must(HMAC(EVP_sha256(), key, 32, (unsigned char *)token, n, mac, &mac_size) != NULL && mac_size == 32,
		"HMAC");
	token[n] = '.';
	base64url(mac, 32, token + n + 1);
	return token;
}

static void refused_with(const char *session, const char *token, const char *code)
{
	char text[80];
	int before;

	snprintf(text, sizeof text, "code=%s", code);
	before = rig_log_count(r, text);
	peer_abort_with(p, session, json_pack("{s:s}", "session_token", token));
	wait_until(rig_log_count(r, text) == before + 1, WAIT_S, "%s", code);
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE session_id = '%s' AND state = 'RUNNING'",
		     session) == 1,
		"%s", code);
}

static const char *run_on(void)
{
	const char *s = peer_run(p, "agent", J("{'do':[['progress',1],['forever']]}"));

	peer_event(p, s, "progress");
	return s;
}

START_TEST(token_forged_replayed_or_downgraded_has_its_own_error_code) /* proves L3-08 */
{
	scene_begin();
	const char *s = run_on(), *other = run_on();
	char *token = strdup(peer_token(p, s)), claims[400];
	size_t size = strlen(token);

	token[size - 5] = token[size - 5] == 'A' ? 'B' : 'A';
	refused_with(s, token, "token_forged");
	token[0] = token[0] == '0' ? '1' : '0';
	refused_with(s, token, "token_unknown_key");
	refused_with(s, "nothing of the kind", "token_malformed");
	refused_with(s, peer_token(p, other), "token_other_session");
	/* With the key itself: another risk, a later end, and the form of older versions. */
	snprintf(claims, sizeof claims,
		"{\"v\":2,\"session_id\":\"%s\",\"caller_id\":\"%s\",\"risk\":\"R5\",\"data\":\"T4\","
		"\"expires_at\":\"2999-01-01T00:00:00.000Z\"}",
		s, p->id);
	refused_with(s, sign_with_its_key(claims, false), "token_not_issued");
	refused_with(s, sign_with_its_key(claims, true), "token_not_issued");
	peer_abort(p, s);
	peer_abort(p, other);
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	peer_closed(p, other, "ABORTED", "aborted_by_caller");
	free(token);
	scene_end();
}
END_TEST

START_TEST(an_expired_token_still_aborts_what_it_owns) /* proves L3-08 */
{
	r = rig_new();
	rig_set(r, "daemon", "max_sessions", "1");
	rig_start(r);
	p = peer_new(r);
	const char *first = run_on();
	const char *s = peer_accepted(
		p, peer_submit_more(p, "agent", NULL, J("{'constraints':{'max_duration':'PT1S'}}")));
	double issued = harness_now();

	peer_token(p, s);
	wait_until(harness_now() > issued + 1.5, WAIT_S, "its expiry");
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	peer_abort(p, first);
	peer_closed(p, first, "ABORTED", NULL);
	scene_end();
}
END_TEST

START_TEST(keys_rotate_and_tokens_are_revoked_by_an_operator) /* proves L3-08 */
{
	r = rig_new();
	const char *path = talk_path(r);
	rig_start(r);
	p = peer_new(r);
	const char *old = run_on(), *revoked = run_on();

	must_str(talk_code(talk_once(path, "'do':'rotate_token_key'")), "");
	const char *young = run_on();
	must(strncmp(peer_token(p, old), peer_token(p, young), 8) != 0, "another key signs");
	must(file_lines(rig_path(r, "state/token.keys")) == 2, "and both verify");
	must_str(talk_code(
			 talk_once(path, "'do':'revoke_token','session':'%s','reason':'it leaked'", revoked)),
		"");
	rig_kill(r); /* all of it lasts */
	rig_start(r);
	refused_with(revoked, peer_token(p, revoked), "token_revoked");
	peer_abort(p, old);
	peer_abort(p, young);
	peer_closed(p, old, "ABORTED", "aborted_by_caller");
	peer_closed(p, young, "ABORTED", "aborted_by_caller");
	must_str(talk_code(talk_once(path, "'do':'abort','session':'%s'", revoked)), "");
	peer_closed(p, revoked, "ABORTED", "aborted_by_operator");
	scene_end();
}
END_TEST

START_TEST(tokens_whose_key_was_removed_are_counted_at_the_start)
{
	r = rig_new();
	const char *path = talk_path(r);
	rig_start(r);
	p = peer_new(r);
	const char *first = run_on(), *second = run_on();

	rig_kill(r);
	rig_start(r);
	must(!rig_log_has(r, "given out before are void"), "they are not");
	rig_kill(r);
	must(unlink(rig_path(r, "state/token.keys")) == 0, "the keys");
	rig_start(r);
	must(rig_log_count(r, "given out before are void, their key is not in token.keys: sessions=2") == 1,
		"said once");
	must_str(talk_code(talk_once(path, "'do':'abort','session':'%s'", first)), "");
	must_str(talk_code(talk_once(path, "'do':'abort','session':'%s'", second)), "");
	peer_closed(p, first, "ABORTED", NULL);
	peer_closed(p, second, "ABORTED", NULL);
	scene_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rules");

	suite_test(s, a_worker_asks_before_it_acts_and_hears_what_it_may, 40);
	suite_test(s, beyond_a_hard_limit_prohibited_or_asked_again_ends_it, 60);
	suite_test(s, outputs_that_break_their_promise_fail_with_what_is_missing, 40);
	suite_test(s, a_task_that_was_changed_in_the_store_does_not_go_on, 60);
	suite_test(s, token_forged_replayed_or_downgraded_has_its_own_error_code, 60);
	suite_test(s, an_expired_token_still_aborts_what_it_owns, 40);
	suite_test(s, keys_rotate_and_tokens_are_revoked_by_an_operator, 60);
	suite_test(s, tokens_whose_key_was_removed_are_counted_at_the_start, 60);
	return harness_run(s, false);
}
