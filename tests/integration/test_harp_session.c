/* SPDX-License-Identifier: MIT */
/* test_harp_session.c: sessions that others are told of, on a real broker. What comes is held against the
 * rules as this file knows them: it uses nothing of hcpd's. */
#include <amqp.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scene.h"
#include "support/talk.h"
#include "support/wire.h"

#define EXCHANGE "harp.sessions"

/* ---- a listener ---- */

struct heard {
	json_t *json;
	char *body;
	char key[256], message_id[64], type[64];
};

static struct heard heard[4096];
static size_t heard_count;
static char ear[200]; /* the queue */

static void listen_with(const char *args)
{
	snprintf(ear, sizeof ear, "harp.test.%s", p->id);
	char key[200];

	snprintf(key, sizeof key, "%s.#", p->id);
	wire_make_queue(r->broker, ear, args, EXCHANGE, key);
}

static void begin_told(const char *args)
{
	r = rig_new();
	rig_set(r, "capability agent", "harp", "yes");
	rig_start(r);
	p = peer_new(r);
	listen_with(args);
}

static void end_told(void)
{
	wire_delete_queue(r->broker, ear);
	for (size_t i = 0; i < heard_count; i++) {
		json_decref(heard[i].json);
		free(heard[i].body);
	}
	heard_count = 0;
	scene_end();
}

static void copy(char *to, size_t size, amqp_bytes_t from)
{
	snprintf(to, size, "%.*s", (int)from.len, (const char *)from.bytes);
}

/* Takes everything out of the queue. */
static void hear(void)
{
	amqp_connection_state_t c = wire_connect(r->broker);

	must(c != NULL, "no broker");
	for (;;) {
		amqp_rpc_reply_t reply;
		amqp_message_t m;
		struct heard *h = &heard[heard_count];

		amqp_maybe_release_buffers(c);
		reply = amqp_basic_get(c, 1, amqp_cstring_bytes(ear), 1);
		must(reply.reply_type == AMQP_RESPONSE_NORMAL, "%s cannot be read", ear);
		if (reply.reply.id != AMQP_BASIC_GET_OK_METHOD)
			break;
		must(heard_count < sizeof heard / sizeof *heard, "too much");
		copy(h->key, sizeof h->key, ((amqp_basic_get_ok_t *)reply.reply.decoded)->routing_key);
		must(amqp_read_message(c, 1, &m, 0).reply_type == AMQP_RESPONSE_NORMAL,
			"a message without a body");
		h->body = strndup(m.body.bytes, m.body.len);
		h->json = json_loadb(m.body.bytes, m.body.len, JSON_REJECT_DUPLICATES, NULL);
		must(json_is_object(h->json), "no object: %s", h->body);
		copy(h->message_id, sizeof h->message_id, m.properties.message_id);
		copy(h->type, sizeof h->type, m.properties.type);
		must(m.properties.delivery_mode == 2 && (m.properties._flags & AMQP_BASIC_TIMESTAMP_FLAG),
			"properties of %s", h->body);
		amqp_destroy_message(&m);
		heard_count++;
	}
	wire_disconnect(&c);
}

/* ---- the rules ---- */

static const struct {
	const char *name, *fields; /* a * behind those that must be there */
} kinds[] = {
	{"session.start", " sessionId* eventType* createdAt* agentHost* repoRef metadata "},
	{"session.status", " sessionId* eventType* state* updatedAt* details "},
	{"session.snapshot",
		" sessionId* eventType* snapshotId* snapshotType* createdAt* payload* snapshotHash* "
		"snapshotHashAlg* metadata "},
	{"session.end", " sessionId* eventType* endedAt* reason* metadata "},
};

static void check_hash(const struct heard *h)
{
	json_t *rest = json_deep_copy(h->json);
	unsigned char digest[EVP_MAX_MD_SIZE];
	char hex[65], *text;

	json_object_del(rest, "snapshotHash");
	/* all ASCII here, and no control characters */
	text = json_dumps(rest, JSON_SORT_KEYS | JSON_COMPACT);
	must(EVP_Digest(text, strlen(text), digest, NULL, EVP_sha256(), NULL) == 1, "no SHA-256");
	for (int i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	must_str(json_text_at(h->json, "snapshotHash"), hex);
	must_str(json_text_at(h->json, "snapshotHashAlg"), "SHA-256");
	free(text);
	json_decref(rest);
}

static void check_one(const struct heard *h)
{
	const char *kind = json_text_at(h->json, "eventType"), *fields = NULL, *name;
	char word[64], want[256], *canonical = json_dumps(h->json, JSON_SORT_KEYS | JSON_COMPACT);
	json_t *v;

	must(kind != NULL, "no eventType: %s", h->body);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i].name, kind) == 0)
			fields = kinds[i].fields;
	must(fields != NULL, "eventType %s", kind);
	json_object_foreach(h->json, name, v) {
		snprintf(word, sizeof word, " %s", name);
		must(strstr(fields, word) && strchr(" *", strstr(fields, word)[strlen(word)]),
			"%s has no field %s", kind, name);
	}
	for (const char *f = fields + 1; *f; f += strcspn(f, " ") + 1) {
		snprintf(word, sizeof word, "%.*s", (int)strcspn(f, "* "), f);
		must(f[strlen(word)] != '*' || json_object_get(h->json, word), "%s lacks %s: %s", kind, word,
			h->body);
	}
	must_str(h->body, canonical);
	must_str(h->type, kind);
	snprintf(want, sizeof want, "%s.%s.%s", p->id, json_text_at(h->json, "sessionId"), kind);
	must_str(h->key, want);
	must(strlen(h->message_id) == 36, "message_id");
	if (strcmp(kind, "session.snapshot") == 0)
		check_hash(h);
	free(canonical);
}

/* The stream of one session in short; copies of a message have to be the same. */
static const char *told(const char *session)
{
	static char text[65536];
	size_t n = 0;

	hear();
	text[0] = '\0';
	for (size_t i = 0; i < heard_count; i++) {
		const struct heard *h = &heard[i];
		const char *kind = json_text_at(h->json, "eventType"), *part;
		bool is_first = true;

		check_one(h);
		if (strcmp(json_text_at(h->json, "sessionId"), session) != 0)
			continue;
		for (size_t k = 0; k < i && is_first; k++)
			if (strcmp(heard[k].message_id, h->message_id) == 0) {
				must_str(h->body, heard[k].body);
				is_first = false;
			}
		if (!is_first)
			continue;
		part = strcmp(kind, "session.start") == 0   ? "start" :
			strcmp(kind, "session.status") == 0 ? json_text_at(h->json, "state") :
			strcmp(kind, "session.end") == 0    ? json_text_at(h->json, "reason") :
			strcmp(json_text_at(h->json, "snapshotType"), "context") == 0 ?
							   "checkpoint" :
							   json_text_at(h->json, "snapshotId");
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", part);
	}
	return text;
}

static bool has_told(const char *session, const char *part)
{
	return strstr(told(session), part) != NULL;
}

/* ---- the tests ---- */

START_TEST(a_session_is_told_of_on_harp_sessions) /* proves HS-01, HS-02 */
{
	begin_told("");
	const char *s = peer_run(p, "agent",
		J("{'do':[['emit',{'type':'progress','stage':'planning'}],['checkpoint',{'share':0.5}],"
		  "['await','checkpoint_saved'],['snapshot','own',{'files':['a','b'],'n':3}],['emit',{'type':"
		  "'snapshot','snapshotId':'bare',"
		  "'snapshotType':'plan','payload':{}}],['complete']]}"));
	peer_completed(p, s);
	wait_until(has_told(s, "user_end"), WAIT_S, "the end");
	must_str(told(s), "start executing planning checkpoint own bare user_end");
	must(peer_count(p, s, "event", "warning") == 0, "a warning");
	must(rig_sql(r, "SELECT count(*) FROM snapshots WHERE session_id = '%s'", s) == 3, "three snapshots");
	for (size_t i = 0; i < p->note_count; i++)
		must(strncmp(p->notes[i]->kind, "session.", 8) != 0, "its caller heard %s",
			p->notes[i]->body);
	const char *failed = peer_run(p, "agent", J("{'do':[['fail']]}"));
	peer_failed(p, failed, "worker_failed", "execution_error");
	wait_until(has_told(failed, "user_end"), WAIT_S, "the end");
	must_str(told(failed), "start executing error user_end");
	const char *late = peer_run_more(
		p, "agent", J("{'do':[['forever']]}"), J("{'constraints':{'max_duration':'PT0.3S'}}"));
	peer_failed(p, late, "timeout", "timeout");
	wait_until(has_told(late, "timeout"), WAIT_S, "the end");
	must_str(told(late), "start executing error timeout");
	end_told();
}
END_TEST

START_TEST(an_operator_s_abort_is_a_policy_kill) /* proves HS-01 */
{
	r = rig_new();
	rig_set(r, "capability agent", "harp", "yes");
	const char *path = talk_path(r);
	rig_start(r);
	p = peer_new(r);
	listen_with("");
	const char *s = peer_run(p, "agent", J("{'do':[['progress',1],['forever']]}"));
	peer_event(p, s, "progress");
	must_str(talk_code(talk_once(path, "'do':'abort','session':'%s'", s)), "");
	peer_closed(p, s, "ABORTED", "aborted_by_operator");
	wait_until(has_told(s, "policy_kill"), WAIT_S, "the end");
	must_str(told(s), "start executing policy_kill");
	end_told();
}
END_TEST

START_TEST(a_bad_snapshot_goes_nowhere) /* proves HS-02, HS-03 */
{
	static const char *const codes[] = {"HARP_ERR_HASH_MISMATCH", "HARP_SESSION_ERR_DUPLICATE_SNAPSHOT",
		"HARP_ERR_UNSUPPORTED", "HARP_ERR_CANONICALIZATION", "HARP_ERR_SCOPE",
		"HARP_SESSION_ERR_INVALID_STATE", "HARP_SESSION_ERR_SESSION_CLOSED"};

	begin_told("");
	const char *s = peer_run(p, "agent",
		J("{'do':[['snapshot','one',{'n':1}],['snapshot','one',{'n':1}],['snapshot','one',{'n':2}],"
		  "['emit',{'type':'snapshot','snapshotId':'two','snapshotType':'plan','payload':{},'"
		  "createdAt':'2026-01-31T12:00:00Z',"
		  "'snapshotHash':'0000'}],['emit',{'type':'snapshot','snapshotId':'two','snapshotType':'"
		  "poem','payload':{}}],"
		  "['emit',{'type':'snapshot','snapshotId':'two','snapshotType':'plan','payload':{'share':0."
		  "5}}],"
		  "['emit',{'type':'snapshot','snapshotId':'two','snapshotType':'plan','payload':{},'"
		  "sessionId':"
		  "'11111111-2222-4333-8444-555555555555'}],['emit',{'type':'snapshot','eventType':'session."
		  "status','state':'dancing',"
		  "'updatedAt':'2026-01-31T12:00:00Z'}],['complete'],['snapshot','late',{}]]}"));
	peer_completed(p, s);
	wait_until(has_told(s, "user_end"), WAIT_S, "the end");
	must_str(told(s), "start executing one user_end");
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		must(peer_find_text(p, s, "warning", "payload.data.code", codes[i]), "no warning %s",
			codes[i]);
	must(peer_count(p, s, "event", "warning") == 7, "one warning each");
	must(rig_sql(r, "SELECT count(*) FROM snapshots WHERE session_id = '%s'", s) == 1, "one snapshot");
	end_told();
}
END_TEST

START_TEST(through_kills_nothing_is_lost_or_said_in_another_way) /* proves HS-01, HS-03 */
{
	begin_told("");
	/* It sends the same snapshots in every attempt. */
	json_t *inputs = J("{'do':[]}"), *steps = json_object_get(inputs, "do");
	char want[4096] = "";
	for (int i = 0; i < 40; i++) {
		char step[96];
		snprintf(step, sizeof step, "['snapshot','s%02d',{'n':%d}]", i, i);
		json_array_append_new(steps, J("%s", step));
		if (i % 4 == 0)
			json_array_append_new(steps, J("['sleep',0.05]"));
		snprintf(want + strlen(want), sizeof want - strlen(want), " s%02d", i);
	}
	json_array_append_new(steps, J("['hold','%s']", rig_path(r, "go")));
	json_array_append_new(steps, J("['complete']"));
	const char *s = peer_run(p, "agent", inputs);
	for (int i = 1; i <= 4; i++) {
		long long before = 8 * i;
		wait_until(rig_sql(r, "SELECT count(*) FROM snapshots") >= before, WAIT_S, "%lld snapshots",
			before);
		rig_kill(r);
		rig_start(r);
	}
	rig_touch(r, "go");
	peer_completed(p, s);
	wait_until(has_told(s, "user_end"), WAIT_S, "the end");
	/* Each snapshot once, in order, whatever came between. */
	char got[4096] = "", *all = strdup(told(s)), *rest = all, *word;
	int lives = 0;
	while ((word = strsep(&rest, " ")) != NULL) {
		if (word[0] == 's' && word[1] >= '0' && word[1] <= '9')
			snprintf(got + strlen(got), sizeof got - strlen(got), " %s", word);
		lives += strcmp(word, "idle") == 0;
	}
	must_str(got, want);
	must(lives == 4 && strncmp(told(s), "start executing ", 16) == 0, "%s", told(s));
	free(all);
	/* What is in the store is what was heard, byte for byte. */
	for (size_t i = 0; i < heard_count; i++)
		must(rig_sql(r, "SELECT count(*) FROM events WHERE type = 'harp' AND body = '%s'",
			     heard[i].body) == 1,
			"%s", heard[i].body);
	must(peer_count(p, s, "event", "warning") == 0, "a warning");
	end_told();
}
END_TEST

START_TEST(session_events_need_no_listener)
{
	r = rig_new();
	rig_set(r, "capability agent", "harp", "yes");
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent", J("{'do':[['snapshot','one',{}],['complete']]}"));
	peer_completed(p, s);
	wait_until(rig_sql(r,
			   "SELECT count(*) FROM events e JOIN callers c ON c.id = e.caller WHERE e.type = "
			   "'harp' AND e.id > c.confirmed") == 0,
		WAIT_S, "all of it done with");
	must(rig_sql(r, "SELECT count(*) FROM unroutable") == 0, "kept");
	must(!rig_log_has(r, "no queue"), "a word about it");
	listen_with("");
	const char *t = peer_run(p, "agent", J("{'do':[['complete']]}"));
	peer_completed(p, t);
	wait_until(has_told(t, "user_end"), WAIT_S, "the next one is told of");
	must_str(told(s), "");
	end_told();
}
END_TEST

START_TEST(a_full_queue_of_a_listener_is_not_in_the_caller_s_way)
{
	begin_told("x-max-length=2,x-overflow=reject-publish");
	const char *s = peer_run(p, "agent",
		J("{'do':[['snapshot','a',{}],['snapshot','b',{}],['snapshot','c',{}],['complete']]}"));
	peer_completed(p, s);
	wait_until(rig_log_has(r, "broker refused a message"), WAIT_S, "a refusal");
	const char *t = peer_run(p, "agent", J("{'do':[['complete']]}"));
	peer_completed(p, t);
	wait_until(has_told(t, "user_end"), 60.0, "all of it, as there is room");
	must(has_told(s, "user_end") && has_told(s, "a") && has_told(s, "b") && has_told(s, "c"), "%s",
		told(s));
	end_told();
}
END_TEST

START_TEST(exchange_is_made_when_it_is_wanted_and_again_when_gone)
{
	r = rig_new();
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent", J("{'do':[['complete']]}"));
	peer_completed(p, s);
	wire_delete_exchange(r->broker, EXCHANGE);
	rig_set(r, "capability agent", "harp", "yes");
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	wait_until(rig_log_has(r, "configuration reloaded"), WAIT_S, "the reload");
	s = peer_run(p, "agent", J("{'do':[['complete']]}"));
	peer_completed(p, s);
	wait_until(rig_sql(r,
			   "SELECT count(*) FROM events e JOIN callers c ON c.id = e.caller WHERE e.type = "
			   "'harp' AND e.id > c.confirmed") == 0,
		WAIT_S, "published");
	must(rig_log_has(r, "exchange harp.sessions is needed"), "why it connected anew");
	listen_with(""); /* fails where there is none */
	s = peer_run(p, "agent", J("{'do':[['complete']]}"));
	peer_completed(p, s);
	wait_until(has_told(s, "user_end"), WAIT_S, "the end");
	wire_delete_exchange(r->broker, EXCHANGE);
	s = peer_run(p, "agent", J("{'do':[['complete']]}"));
	peer_completed(p, s); /* its own stream goes on */
	wait_until(rig_sql(r,
			   "SELECT count(*) FROM events e JOIN callers c ON c.id = e.caller WHERE e.type = "
			   "'harp' AND e.id > c.confirmed") == 0,
		WAIT_S, "published to a new one");
	end_told();
}
END_TEST

/* Somebody else's exchange of that name came up while we ran: nobody is told of sessions then, and that
 * is all. */
START_TEST(an_exchange_of_another_type_is_not_in_the_callers_way)
{
	r = rig_new();
	rig_start(r);
	p = peer_new(r);
	peer_completed(p, peer_run(p, "agent", J("{'do':[['complete']]}")));
	wire_delete_exchange(r->broker, EXCHANGE);
	wire_make_exchange(r->broker, EXCHANGE, "fanout");
	rig_set(r, "capability agent", "harp", "yes");
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	wait_until(rig_log_has(r, "configuration reloaded"), WAIT_S, "the reload");
	const char *s = peer_run(p, "agent", J("{'do':[['snapshot','one',{}],['complete']]}"));
	peer_completed(p, s);
	wait_until(rig_log_has(r, "exchange harp.sessions exists with other arguments"), WAIT_S,
		"what is wrong");
	for (int i = 0; i < 5; i++)
		peer_completed(p, peer_run(p, "agent", J("{'do':[['complete']]}")));
	must(rig_sql(r,
		     "SELECT count(*) FROM events e JOIN callers c ON c.id = e.caller WHERE e.type = 'harp' "
		     "AND e.id > c.confirmed") > 0,
		"they wait");
	/* It is mended, and everything comes. */
	wire_delete_exchange(r->broker, EXCHANGE);
	wire_make_exchange(r->broker, EXCHANGE, "topic");
	listen_with("");
	rig_stop(r);
	rig_start(r);
	wait_until(has_told(s, "user_end"), WAIT_S, "the end");
	must_str(told(s), "start executing one user_end");
	end_told();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("harp_session");

	suite_test(s, a_session_is_told_of_on_harp_sessions, 120);
	suite_test(s, an_operator_s_abort_is_a_policy_kill, 60);
	suite_test(s, a_bad_snapshot_goes_nowhere, 60);
	suite_test(s, through_kills_nothing_is_lost_or_said_in_another_way, 180);
	suite_test(s, session_events_need_no_listener, 60);
	suite_test(s, a_full_queue_of_a_listener_is_not_in_the_caller_s_way, 120);
	suite_test(s, exchange_is_made_when_it_is_wanted_and_again_when_gone, 120);
	suite_test(s, an_exchange_of_another_type_is_not_in_the_callers_way, 180);
	return harness_run(s, true);
}
