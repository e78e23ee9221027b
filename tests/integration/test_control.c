/* SPDX-License-Identifier: MIT */
/* test_control.c: the control socket of a real daemon: every verb, those who may not speak, those who speak
 * nonsense or do not listen, and what a stop or a crash leaves. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/peer.h"
#include "support/rig.h"
#include "support/talk.h"
#include "support/wire.h"

static struct rig *r;
static struct peer *p;
static const char *path;
static struct talk t;

static void begin(void)
{
	r = rig_new();
	path = talk_path(r);
	rig_set(r, "daemon", "stop_timeout", "4s");
	rig_start(r);
	p = peer_new(r);
	talk_open(&t, path);
}

static void end(void)
{
	talk_close(&t);
	peer_finish(p);
	rig_finish(r);
}

#define call(...) talk_call(&t, __VA_ARGS__)
#define must_code(end, code) must_str(talk_code(end), code)

static json_t *item(json_t *end, size_t i)
{
	json_t *one = json_array_get(json_object_get(end, "items"), i);

	must(one, "no item %zu: %s", i, json_dumps(end, 0));
	return one;
}

static size_t items(json_t *end)
{
	return json_array_size(json_object_get(end, "items"));
}

static const char *run(const char *steps)
{
	const char *s = peer_run(p, "agent", J("{'do':[%s]}", steps));

	peer_event(p, s, "progress");
	return s;
}

/* --- every verb --- */

START_TEST(questions_are_answered_from_the_store)
{
	begin();
	const char *s =
		run("['emit',{'type':'log','level':'info','message':'hello'}],['checkpoint',{'n':1}],['"
		    "progress',3],"
		    "['hold','/nonexistent']");
	json_t *e = call("'do':'list'");
	must(items(e) == 1, "%s", json_dumps(e, 0));
	must_str(json_text_at(item(e, 0), "session_id"), s);
	must_str(json_text_at(item(e, 0), "state"), "RUNNING");
	e = call("'do':'list','state':['PAUSED']");
	must(items(e) == 0 && !*talk_code(e), "none is PAUSED");
	e = call("'do':'show','session':'%.8s'", s);
	must_str(json_text_at(item(e, 0), "session.session_id"), s);
	must(!json_at(item(e, 0), "session.session_token"), "the token shows");
	json_t *live = json_object_get(item(e, items(e) - 1), "live");
	must(json_integer_value(json_object_get(live, "pid")) > 0, "%s", json_dumps(e, 0));
	must(json_integer_value(json_object_get(live, "processes")) >= 1, "%s", json_dumps(live, 0));
	must(json_integer_value(json_object_get(live, "rss_bytes")) > 1000000, "%s", json_dumps(live, 0));
	e = call("'do':'events','session':'%s'", s);
	must((long long)items(e) == rig_sql(r, "SELECT count(*) FROM events"), "%s", json_dumps(e, 0));
	e = call("'do':'events','session':'%s','from':3", s);
	must(json_integer_value(json_at(item(e, 0), "event.payload.sequence")) == 3, "%s", json_dumps(e, 0));
	e = call("'do':'checkpoints','session':'%s'", s);
	must(items(e) == 1, "%s", json_dumps(e, 0));
	e = call("'do':'log','session':'%s'", s);
	must_str(json_text_at(item(e, 0), "message"), "hello");
	e = call("'do':'stats'");
	must(json_integer_value(json_object_get(item(e, 0), "pid")) == r->pid, "%s", json_dumps(e, 0));
	must(json_integer_value(json_object_get(item(e, 0), "running")) == 1, "%s", json_dumps(e, 0));
	e = call("'do':'live','session':'%.8s'", s);
	must(json_integer_value(json_at(item(e, 0), "live.pid")) > 0, "%s", json_dumps(e, 0));
	must_code(call("'do':'show','session':'00000000'"), "not_found");
	must_code(call("'do':'abort','session':'00000000'"), "not_found");
	must_code(call("'do':'show','session':'abc'"), "bad_request");
	e = call("'do':'abort','session':'%s','reason':'enough'", s);
	must_code(e, "");
	must_str(json_text_at(e, "state"), "ABORTING");
	must_str(json_text_at(e, "session"), s);
	peer_closed(p, s, "ABORTED", "aborted_by_operator");
	must_code(call("'do':'abort','session':'%s'", s), "not_now");
	must_code(call("'do':'live','session':'%s'", s), "not_now");
	e = call("'do':'show','session':'%s'", s);
	must_code(e, "");
	must(!json_object_get(item(e, items(e) - 1), "live"), "an ended session has nothing live");
	end();
}
END_TEST

static int accesses(const char *session, const char *by)
{
	char *log = file_read(r->log, NULL), start[80];
	int count = 0;

	snprintf(start, sizeof start, "access to data: class=T2 session=%.8s", session);
	for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n"))
		count += strstr(line, start) && strstr(line, by);
	free(log);
	return count;
}

/* At acceptance, at each start of a worker, and for each operator who looks. */
START_TEST(every_access_to_data_of_class_T2_is_logged) /* proves L3-06 */
{
	static const char *const verbs[] = {"show", "events", "log", "checkpoints", "replay"};
	static const char *const classes[] = {"T1", "T2"};
	const char *s[2];

	begin();
	for (int i = 0; i < 2; i++) {
		s[i] = peer_run_more(p, "agent",
			J("{'do':[['checkpoint',{'n':1}],['progress',1],['hold','/nonexistent']]}"),
			J("{'constraints':{'data_classification':'%s'}}", classes[i]));
		peer_event(p, s[i], "checkpoint_created");
	}
	must(accesses(s[1], "") == 2 && accesses(s[1], "by=worker attempt=1") == 1, "acceptance and start");
	talk_close(&t);
	rig_kill(r);
	rig_start(r);
	talk_open(&t, path);
	wait_until(accesses(s[1], "by=worker attempt=2") == 1, WAIT_S, "the recovery");
	for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
		char by[100];

		snprintf(by, sizeof by, "by=operator uid=%d user=", (int)geteuid());
		must_code(call("'do':'%s','session':'%s'", verbs[i], s[0]), "");
		must(accesses(s[1], by) == (int)i, "%s", verbs[i]);
		must_code(call("'do':'%s','session':'%s'", verbs[i], s[1]), "");
		wait_until(accesses(s[1], by) == (int)i + 1, WAIT_S, "%s", verbs[i]);
		snprintf(by, sizeof by, " verb=%s", verbs[i]);
		must(accesses(s[1], by) == 1, "%s", verbs[i]);
	}
	must(accesses(s[0], "") == 0 && rig_log_count(r, "access to data: class=T1") == 0,
		"T1 is nobody's business");
	for (int i = 0; i < 2; i++) {
		call("'do':'abort','session':'%s'", s[i]);
		peer_closed(p, s[i], "ABORTED", NULL);
	}
	end();
}
END_TEST

static long long audited(const char *verb, const char *code)
{
	char sql[300];

	snprintf(sql, sizeof sql,
		"SELECT coalesce(sum(coalesce(json_extract(entry, '$.count'), 1)), 0) FROM audit"
		" WHERE json_extract(entry, '$.what') = '%s' AND json_extract(entry, '$.code') = '%s'"
		" AND json_extract(entry, '$.who') = 'operator' AND json_extract(entry, '$.uid') = %d",
		verb, code, (int)geteuid());
	return rig_sql(r, "%s", sql);
}

/* The core never sees them. */
START_TEST(control_refusals_of_changes_are_audited_and_counted) /* proves SA-15 */
{
	enum { TIMES = 500 };

	begin();
	const char *s = run("['progress',1],['hold','/nonexistent']");
	long long rows;

	must_code(call("'do':'show','session':'00000000'"), "not_found");
	must_code(call("'do':'approvals','session':'00000000'"), "not_found");
	must_code(call("'do':'live','session':'00000000'"), "not_found");
	must_code(call("'do':'dance'"), "unknown_verb");
	must_code(call("'do':'list','state':7"), "bad_request");
	must_code(call("'do':'stop','of':4711"), "not_found");
	call("'do':'stats'"); /* the core has taken what came before it */
	rows = rig_sql(r, "SELECT max(id) FROM audit");
	must_code(call("'do':'abort','session':'00000000'"), "not_found");
	must_code(call("'do':'pause','session':'abc'"), "bad_request");
	must_code(call("'do':'extend','session':'%s','by':'7 eons'", s), "bad_request");
	must_code(call("'do':'decide','decision':7"), "bad_request");
	must_code(call("'do':'artifact','session':'00000000','name':'x'"), "not_found");
	must_code(call("'do':'artifact','session':'%s'", s), "bad_request");
	wait_until(audited("abort", "not_found") == 1 && audited("pause", "bad_request") == 1 &&
			audited("extend", "bad_request") == 1 && audited("decide", "bad_request") == 1 &&
			audited("artifact", "not_found") == 1 && audited("artifact", "bad_request") == 1,
		WAIT_S, "each has a row");
	must(rig_sql(r, "SELECT max(id) FROM audit") == rows + 6, "those that only look have none");
	must(rig_log_has(r, "operator: verb=abort session=- uid="), "the log");
	for (int i = 0; i < TIMES; i++)
		call("'do':'abort','session':'00000000'");
	call("'do':'stats'");
	must(rig_sql(r, "SELECT max(id) FROM audit") < rows + 30, "a row each would flood the store");
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", NULL);
	rig_stop(r);
	must(audited("abort", "not_found") == TIMES + 1, "%lld", audited("abort", "not_found"));
	end();
}
END_TEST

START_TEST(a_worker_is_paused_checkpointed_and_resumed)
{
	begin();
	const char *s = run("['note_lines','/dev/null'],['count',100000,0,0.02]");
	must_code(call("'do':'resume','session':'%s'", s), "not_now");
	must_code(call("'do':'checkpoint','session':'%s'", s), "");
	peer_event(p, s, "checkpoint_created");
	json_t *e = call("'do':'pause','session':'%s','reason':'lunch'", s);
	must(json_is_true(json_object_get(e, "asked")), "%s", json_dumps(e, 0));
	must_str(note_text(peer_state(p, s, "PAUSED"), "payload.data.reason"), "paused_by_operator");
	int before = peer_count(p, s, "event", "progress");
	harness_pass(0.3);
	must(peer_count(p, s, "event", "progress") == before, "it counts on");
	must_code(call("'do':'resume','session':'%s'", s), "");
	wait_until(peer_find_state(p, s, "RUNNING", 2), WAIT_S, "it runs again");
	must_str(note_text(peer_find_state(p, s, "RUNNING", 2), "payload.data.reason"), "resumed");
	wait_until(peer_count(p, s, "event", "progress") > before, WAIT_S, "it counts on");
	must(rig_sql(r, "SELECT count(*) FROM transitions WHERE actor = 'operator'") == 2, "actors");
	call("'do':'abort','session':'%s'", s);
	peer_closed(p, s, "ABORTED", NULL);
	end();
}
END_TEST

/* Does `hcpctl show` say so? */
static bool shows(const char *s, const char *words)
{
	const char *build = getenv("HCP_BUILD");
	char command[1024], line[512];
	bool found = false;
	FILE *f;

	snprintf(command, sizeof command, "'%s/hcpctl' show --socket '%s' %s", build ? build : "build", path,
		s);
	must((f = popen(command, "re")) != NULL, "%s", command);
	while (fgets(line, sizeof line, f))
		found |= strstr(line, words) != NULL;
	must(pclose(f) == 0, "%s", command);
	return found;
}

START_TEST(a_request_that_waits_for_its_worker_shows_and_is_told_once)
{
	begin();
	char *heard = strdup(rig_path(r, "heard")), *text;
	const char *s = peer_run(p, "agent",
		J("{'on':{'pause':'ignore'},'do':[['note_lines','%s'],['progress',1],"
		  "['hold','/nonexistent']]}",
			heard));
	peer_event(p, s, "progress");
	json_t *live = json_object_get(item(call("'do':'live','session':'%s'", s), 0), "live");
	must(json_is_null(json_object_get(live, "asked")) &&
			json_is_null(json_object_get(live, "asked_seconds")),
		"%s", json_dumps(live, 0));
	for (int i = 0; i < 2; i++) {
		json_t *e = call("'do':'pause','session':'%s','reason':'lunch break'", s);
		must(json_is_true(json_object_get(e, "asked")), "%s", json_dumps(e, 0));
		must_str(json_text_at(e, "state"), "RUNNING");
	}
	json_t *e = call("'do':'show','session':'%s'", s);
	live = json_object_get(item(e, items(e) - 1), "live");
	must_str(json_text_at(live, "asked"), "pause");
	must(json_is_real(json_object_get(live, "asked_seconds")), "%s", json_dumps(live, 0));
	must(shows(s, "was asked to pause"), "hcpctl show does not tell");
	must(rig_log_count(r, "verb=pause") == 2 && rig_log_count(r, "why=lunch break") == 2,
		"the log has no reason");
	for (int i = 0; i < 2; i++)
		must_code(call("'do':'resume','session':'%s'", s), "");
	live = json_object_get(item(call("'do':'live','session':'%s'", s), 0), "live");
	/* it runs, as it was asked to */
	must(json_is_null(json_object_get(live, "asked")), "%s", json_dumps(live, 0));
	call("'do':'abort','session':'%s'", s);
	peer_closed(p, s, "ABORTED", NULL);
	must((text = file_read(heard, NULL)) != NULL, "%s", heard);
	must(file_lines(heard) == 4 && strncmp(text, "checkpoint_request ", 19) == 0 &&
			strstr(text, "\npause ") && strstr(text, "\nresume ") && strstr(text, "\nabort "),
		"%s", text);
	free(text);
	free(heard);
	end();
}
END_TEST

static void pause_it(const char *s)
{
	call("'do':'pause','session':'%s'", s);
	peer_state(p, s, "PAUSED");
}

START_TEST(pause_survives_a_restart_and_a_crash_until_it_is_resumed)
{
	begin();
	const char *s = run("['count',40,5,0.02]");
	peer_event(p, s, "checkpoint_created");
	pause_it(s);
	for (int i = 0; i < 2; i++) {
		talk_close(&t);
		if (i == 0)
			rig_stop(r);
		else
			rig_kill(r);
		must(i == 1 || !file_exists(path), "the socket is left behind");
		must(i == 0 || file_exists(path), "who removed it?");
		rig_start(r);
		talk_open(&t, path);
		harness_pass(0.3);
		json_t *e = call("'do':'show','session':'%s'", s);
		must_str(json_text_at(item(e, 0), "session.state"), "PAUSED");
		must_str(json_text_at(item(e, 0), "session.paused_by"), "operator");
		must(json_is_null(json_at(item(e, items(e) - 1), "live.pid")), "%s", json_dumps(e, 0));
	}
	json_t *e = call("'do':'resume','session':'%s'", s);
	must_code(e, "");
	must_str(json_text_at(e, "state"), "RUNNING");
	struct note *n = peer_completed(p, s);
	must(json_integer_value(note_at(n, "payload.outputs.first")) > 5, "%s", n->body);
	must(json_integer_value(note_at(n, "payload.outputs.attempt")) == 2, "%s", n->body);
	must_str(note_text(peer_find_state(p, s, "RUNNING", 2), "payload.data.reason"),
		"recovered_from_checkpoint");
	end();
}
END_TEST

START_TEST(drain_lets_new_tasks_wait_and_the_others_run_to_their_end)
{
	begin();
	const char *s = run("['progress',1],['hold','/nonexistent']");
	must(json_is_true(json_object_get(call("'do':'drain'"), "draining")), "draining");
	const char *waits = peer_accepted(p, peer_submit(p, "agent", NULL));
	must(json_is_true(json_object_get(item(call("'do':'stats'"), 0), "draining")), "stats");
	wait_until(strstr(r->status, "draining"), WAIT_S, "STATUS=%s", r->status);
	call("'do':'abort','session':'%s'", s);
	peer_closed(p, s, "ABORTED", NULL);
	must(rig_sql(r, "SELECT state = 'PENDING' FROM sessions WHERE session_id = '%s'", waits) == 1,
		"it waits");
	must(json_is_false(json_object_get(call("'do':'undrain'"), "draining")), "no longer");
	peer_completed(p, waits);
	call("'do':'drain'");
	talk_close(&t);
	rig_stop(r);
	rig_start(r);
	talk_open(&t, path);
	peer_completed(p, peer_run(p, "agent", NULL));
	end();
}
END_TEST

/* --- replay --- */

static size_t notes_of(const char *s, size_t from)
{
	size_t n = 0;

	for (size_t i = from; i < p->note_count; i++)
		n += strcmp(p->notes[i]->session, s) == 0;
	return n;
}

START_TEST(replay_sends_the_same_bytes_in_order_beside_another_session) /* proves L2-17 */
{
	begin();
	const char *s = run("['progress',500,20],['checkpoint',{'n':1}],['complete',{'x':1.50}]");
	peer_completed(p, s);
	const char *other = run("['count',100000,0,0.002]");
	size_t rows = (size_t)rig_sql(r, "SELECT count(*) FROM events WHERE session_id = '%s'", s),
	       first = p->note_count, at = 0;
	must(notes_of(s, 0) == rows, "it came once");
	json_t *e = call("'do':'replay','session':'%.8s'", s);
	must_code(e, "");
	must((size_t)json_integer_value(json_object_get(e, "messages")) == rows, "%s", json_dumps(e, 0));
	wait_until(notes_of(s, first) >= rows, WAIT_S, "%zu of %zu came again", notes_of(s, first), rows);
	for (size_t i = first; i < p->note_count; i++) {
		struct note *n = p->notes[i], *was;

		if (strcmp(n->session, s) != 0)
			continue;
		while (strcmp(p->notes[at]->session, s) != 0)
			at++;
		was = p->notes[at++];
		must(n->size == was->size && memcmp(n->body, was->body, n->size) == 0, "other bytes: %s",
			n->body);
		must_str(n->message_id, was->message_id);
		must_str(n->key, was->key);
		must_str(n->correlation_id, was->correlation_id);
		must(n->timestamp == was->timestamp, "another time");
	}
	first = p->note_count;
	e = call("'do':'replay','session':'%s','from':500", s);
	must(json_integer_value(json_object_get(e, "messages")) == 7, "%s", json_dumps(e, 0));
	wait_until(notes_of(s, first) >= 7, WAIT_S, "from a sequence on");
	harness_pass(0.3);
	must(notes_of(s, first) == 7, "%zu", notes_of(s, first));
	call("'do':'abort','session':'%s'", other);
	peer_closed(p, other, "ABORTED", NULL);
	end(); /* the oracle looks at both streams */
}
END_TEST

START_TEST(a_replay_to_nobody_is_given_up_and_may_be_asked_for_again) /* proves L2-17 */
{
	begin();
	struct peer *away = peer_absent(r, "away-and-back");
	peer_open(away, "");
	const char *s = peer_run(away, "agent", J("{'do':[['progress',50],['complete']]}"));
	peer_completed(away, s);
	size_t rows = away->note_count;
	peer_drop(away);
	away->lossy = true;
	must_code(call("'do':'replay','session':'%s'", s), "");
	wait_until(rig_log_has(r, "a replay is given up"), WAIT_S, "nobody takes it");
	must(rig_sql(r, "SELECT count(*) FROM unroutable") == 0, "it was settled before");
	peer_open(away, "");
	must_code(call("'do':'replay','session':'%s'", s), "");
	wait_until(away->note_count >= 2 * rows, WAIT_S, "%zu of %zu", away->note_count, 2 * rows);
	for (size_t i = 0; i < rows; i++)
		must_str(away->notes[rows + i]->body, away->notes[i]->body);
	peer_finish(away);
	end();
}
END_TEST

/* --- the protocol --- */

START_TEST(requests_sent_ahead_are_answered_in_order)
{
	begin();
	struct talk u;
	static const char ahead[] =
		"{\"id\":1,\"do\":\"stats\"}\n{\"id\":2,\"do\":\"list\"}\n\n{\"id\":3,\"do\":\"drain\"}\n"
		"{\"id\":4,\"do\":\"nonsense\"}\n{\"id\":5,\"do\":\"undrain\"}\n{\"id\":6,\"do\":\"list\"}";
	int id = 0;
	json_t *line;

	talk_open(&u, path);
	talk_send(&u, ahead, sizeof ahead - 1);
	shutdown(u.fd, SHUT_WR); /* and the last line counts without its newline */
	while ((line = talk_line(&u))) {
		if (!json_object_get(line, "item"))
			must(json_integer_value(json_object_get(line, "id")) == ++id, "%s",
				json_dumps(line, 0));
		json_decref(line);
	}
	must(id == 6, "%d were answered", id);
	talk_close(&u);
	end();
}
END_TEST

static json_t *next_event(struct talk *from, int id)
{
	json_t *line = talk_line(from);

	must(line && json_integer_value(json_object_get(line, "id")) == id && json_object_get(line, "item"),
		"%s", line ? json_dumps(line, 0) : "closed");
	return line;
}

START_TEST(follower_hears_each_event_and_the_end_or_stops_by_itself)
{
	begin();
	const char *s = run("['progress',1],['hold','@'],['progress',1],['complete']");
	struct talk u;
	json_t *line;
	long long seen = 0, told = 0;

	talk_open(&u, path);
	talk_say(&u, "{'id':7,'do':'events','session':'%s','follow':true}", s);
	talk_say(&u, "{'id':8,'do':'log','session':'%s','follow':true}", s);
	for (int i = 0; i < 4; i++, seen++)
		json_decref(next_event(&u, 7));
	/* The same connection is of use meanwhile. */
	talk_say(&u, "{'id':9,'do':'stop','of':8}");
	line = talk_line(&u);
	must(json_integer_value(json_object_get(line, "id")) == 8 &&
			json_is_true(json_object_get(line, "done")),
		"%s", json_dumps(line, 0));
	json_decref(line);
	line = talk_line(&u);
	must(json_integer_value(json_object_get(line, "id")) == 9 &&
			json_is_true(json_object_get(line, "done")),
		"%s", json_dumps(line, 0));
	json_decref(line);
	harness_pass(0.2);
	must(!talk_has_line(&u), "nothing happened, but something was said");
	call("'do':'abort','session':'%s'", s);
	peer_closed(p, s, "ABORTED", NULL);
	for (;; told++) {
		line = talk_line(&u);
		must(line && json_integer_value(json_object_get(line, "id")) == 7, "it ends");
		if (json_object_get(line, "done"))
			break;
		json_decref(line);
	}
	json_decref(line);
	must(seen + told == rig_sql(r, "SELECT count(*) FROM events WHERE session_id = '%s'", s), "%lld",
		seen + told);
	talk_close(&u);
	end();
}
END_TEST

START_TEST(nonsense_costs_an_error_line_and_no_more)
{
	static const struct {
		const char *line, *code;
	} cases[] = {
		{"hello", "bad_request"},
		{"[]", "bad_request"},
		{"{}", "bad_request"},
		{"{\"id\":\"x\",\"do\":\"list\"}", "bad_request"},
		{"{\"id\":1}", "bad_request"},
		{"{\"id\":1,\"do\":7}", "bad_request"},
		{"{\"id\":1,\"do\":\"frobnicate\"}", "unknown_verb"},
		{"{\"id\":1,\"do\":\"abort\"}", "bad_request"},
		{"{\"id\":1,\"do\":\"stats\",\"x\":1}", "bad_request"},
		{"{\"id\":1,\"do\":\"abort\",\"session\":7}", "bad_request"},
		{"{\"id\":1,\"do\":\"abort\",\"session\":\"\"}", "bad_request"},
		{"{\"id\":1,\"do\":\"replay\",\"session\":\"abcdef12\",\"from\":0}", "bad_request"},
		{"{\"id\":1,\"do\":\"replay\",\"session\":\"abcdef12\",\"from\":-5}", "bad_request"},
		{"{\"id\":1,\"do\":\"list\",\"x\":1}", "bad_request"},
		{"{\"id\":1,\"do\":\"list\",\"limit\":\"many\"}", "bad_request"},
		{"{\"id\":1,\"do\":\"stop\",\"of\":99}", "not_found"},
		{"{\"id\":1,\"id\":2,\"do\":\"list\"}", "bad_request"},
		{"{\"id\":1,\"do\":\"abort\",\"session\":\"abcd\\u0000\"}", "bad_request"},
		{"\xff\xfe", "bad_request"},
		{"{\"id\":99999999999999999999,\"do\":\"list\"}", "bad_request"},
	};
	char *long_line;
	struct talk u;
	json_t *line;

	begin();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		talk_send(&t, cases[i].line, strlen(cases[i].line));
		talk_send(&t, "\n", 1);
		line = talk_line(&t);
		must(line && strcmp(talk_code(line), cases[i].code) == 0, "%s: %s", cases[i].line,
			line ? json_dumps(line, 0) : "closed");
		json_decref(line);
	}
	talk_send(&t, "\0\0\0\n", 4);
	must_code((line = talk_line(&t)), "bad_request");
	json_decref(line);
	talk_send(&t, "{\"id\":1\0,\"do\":\"stats\"}\n", 23); /* jansson would step over it */
	must_code((line = talk_line(&t)), "bad_request");
	json_decref(line);
	/* 64 KiB are a line, one more is none. */
	long_line = malloc(70001);
	memset(long_line, ' ', 70000);
	memcpy(long_line, "{\"id\":5,\"do\":\"list\"}", 20);
	long_line[65536] = '\n';
	talk_send(&t, long_line, 65537);
	line = talk_line(&t);
	must(json_is_true(json_object_get(line, "done")), "%s", json_dumps(line, 0));
	json_decref(line);
	long_line[65536] = ' ';
	talk_open(&u, path);
	talk_send(&u, long_line, 70000);
	must_code((line = talk_line(&u)), "bad_request");
	json_decref(line);
	must(!talk_line(&u), "it goes on where no line can begin");
	talk_close(&u);
	free(long_line);
	t.last_id = 5;
	must_code(call("'do':'list'"), "");
	end();
}
END_TEST

START_TEST(half_a_line_and_silence_hold_up_nobody)
{
	struct talk half[5];

	begin();
	for (int i = 0; i < 5; i++) {
		talk_open(&half[i], path);
		talk_send(&half[i], "{\"id\":1,\"do\":", 13);
	}
	must_code(call("'do':'list'"), "");
	talk_send(&half[2], "\"stats\"}\n", 9);
	json_t *line = talk_line(&half[2]);
	must(json_object_get(line, "item"), "%s", json_dumps(line, 0));
	json_decref(line);
	for (int i = 0; i < 5; i++)
		talk_close(&half[i]);
	must_code(call("'do':'list'"), "");
	end();
}
END_TEST

/* More than there are places for; none of them ever says a word. */
START_TEST(silent_clients_do_not_lock_operators_out)
{
	enum { SILENT = 100 };
	int silent[SILENT];
	struct talk u;
	json_t *line;

	begin();
	for (int i = 0; i < SILENT; i++)
		must((silent[i] = talk_dial(path)) >= 0, "%s", strerror(errno));
	wait_until(({
		talk_open(&u, path);
		talk_say(&u, "{'id':1,'do':'list'}");
		line = talk_line(&u);
		bool ok = json_object_get(line, "done");
		json_decref(line);
		talk_close(&u);
		ok;
	}),
		WAIT_S, "a place");
	for (int i = 0; i < SILENT; i++)
		close(silent[i]);
	end();
}
END_TEST

START_TEST(client_65_is_refused_and_has_room_when_another_one_goes)
{
	struct talk many[64];
	json_t *line;

	begin();
	const char *s = run("['progress',1],['hold','@'],['complete']");
	must_code(call("'do':'list'"), "");
	for (int i = 1; i < 64; i++) { /* busy: each follows something */
		talk_open(&many[i], path);
		talk_say(&many[i], "{'id':1,'do':'events','session':'%s','follow':true}", s);
		json_decref(talk_line(&many[i]));
	}
	talk_open(&many[0], path);
	must_code((line = talk_line(&many[0])), "unavailable");
	json_decref(line);
	must(!talk_line(&many[0]), "closed");
	talk_close(&many[0]);
	talk_close(&many[7]);
	wait_until(({
		talk_open(&many[7], path);
		talk_say(&many[7], "{'id':1,'do':'list','state':'FAILED'}");
		line = talk_line(&many[7]);
		bool ok = json_object_get(line, "done");
		json_decref(line);
		if (!ok)
			talk_close(&many[7]);
		ok;
	}),
		WAIT_S, "room again");
	for (int i = 1; i < 64; i++)
		talk_close(&many[i]);
	must_code(call("'do':'list'"), "");
	peer_abort(p, s);
	peer_event(p, s, "session_closed");
	end();
}
END_TEST

START_TEST(a_client_that_does_not_read_is_dropped_and_costs_little)
{
	begin();
	const char *s = run("['progress',20000,500],['complete']");
	peer_completed(p, s);
	long long before = json_integer_value(json_object_get(item(call("'do':'stats'"), 0), "rss_bytes"));
	struct talk deaf[4];
	for (int i = 0; i < 4; i++) {
		talk_open(&deaf[i], path);
		for (int k = 1; k < 50; k++)
			talk_say(&deaf[i], "{'id':%d,'do':'events','session':'%s'}", k, s);
	}
	double began = harness_now();
	while (harness_now() - began < 5) {
		double asked = harness_now();
		must_code(call("'do':'show','session':'%s'", s), "");
		must(harness_now() - asked < 2 * harness_scale(), "others wait for it: %.1f s",
			harness_now() - asked);
		harness_pass(0.2);
	}
	long long after = json_integer_value(json_object_get(item(call("'do':'stats'"), 0), "rss_bytes"));
	must(harness_is_sanitized() || after - before < 8 << 20, "%lld bytes more", after - before);
	peer_completed(p, peer_run(p, "agent", NULL));
	wait_until(rig_log_count(r, "does not read and was dropped") == 4, 40, "dropped after 30 s");
	must(harness_now() - began > 28, "too soon");
	for (int i = 0; i < 4; i++)
		talk_close(&deaf[i]);
	end();
}
END_TEST

/* --- who may speak --- */

/* As another user: what connect said (an errno), or the code of the line that came, "" for a proper
 * answer. */
static void try_as(uid_t uid, gid_t gid, gid_t more, char *out, size_t size)
{
	int pipes[2], status;
	ssize_t n;

	must(pipe(pipes) == 0, "pipe");
	pid_t pid = fork();
	if (pid == 0) {
		char text[1024] = "";
		gid_t groups[1] = {more};
		int fd;

		if (setgroups(more ? 1 : 0, groups) < 0 || setgid(gid) < 0 || setuid(uid) < 0)
			_exit(9);
		fd = talk_dial(path);
		if (fd < 0) {
			dprintf(pipes[1], "%s", strerror(errno));
			_exit(0);
		}
		(void)!send(fd, "{\"id\":1,\"do\":\"drain\"}\n", 22, MSG_NOSIGNAL);
		n = recv(fd, text, sizeof text - 1, 0);
		dprintf(pipes[1], "%s", n > 0 ? text : "closed");
		_exit(0);
	}
	close(pipes[1]);
	n = read(pipes[0], out, size - 1);
	out[n > 0 ? n : 0] = '\0';
	close(pipes[0]);
	must(waitpid(pid, &status, 0) == pid && status == 0, "the other user's process: %d", status);
}

START_TEST(strangers_are_turned_away_and_members_of_the_group_are_not) /* proves SA-15 */
{
	const gid_t group = 1; /* daemon, on every Debian */
	char open_dir[64] = "/tmp/hcpd-control-XXXXXX", place[128], said[1100];
	struct stat st;

	if (geteuid() != 0) {
		printf("SKIPPED: strangers_are_turned_away...: only root can become another user\n");
		return;
	}
	r = rig_new();
	must(mkdtemp(open_dir) && chmod(open_dir, 0755) == 0, "%s", open_dir);
	snprintf(place, sizeof place, "%s/ctl", open_dir);
	path = place;
	rig_set(r, "control", "socket", "%s", place);
	rig_start(r);
	p = peer_new(r);
	must(stat(place, &st) == 0 && (st.st_mode & 07777) == 0600, "mode %o", st.st_mode);
	try_as(65534, 65534, 0, said, sizeof said);
	must_str(said, "Permission denied");
	must(chmod(place, 0666) == 0, "chmod"); /* even if somebody opens the file, */
	try_as(65534, 65534, group, said, sizeof said);
	/* hcpd looks who it is */
	must(strstr(said, "\"code\":\"refused\"") && strstr(said, "[control]"), "%s", said);
	rig_stop(r);
	rig_set(r, "control", "group", "%s", "daemon");
	rig_write_ini(r);
	rig_start(r);
	must(stat(place, &st) == 0 && (st.st_mode & 07777) == 0660 && st.st_gid == group, "mode %o",
		st.st_mode);
	try_as(65534, 65534, 0, said, sizeof said);
	must_str(said, "Permission denied");
	try_as(65534, 65534, group, said, sizeof said);
	must(strstr(said, "\"done\":true"), "%s", said);
	try_as(65534, group, 0, said, sizeof said);
	must(strstr(said, "\"done\":true"), "%s", said);
	must(chmod(place, 0666) == 0, "chmod");
	try_as(65534, 65534, 2, said, sizeof said);
	must(strstr(said, "\"code\":\"refused\""), "%s", said);
	must(rig_log_count(r, "a stranger was turned away") == 2, "the log");
	wait_until(rig_sql(r,
			   "SELECT count(*) FROM audit WHERE json_extract(entry, '$.what') = 'control' AND "
			   "json_extract(entry, '$.uid')"
			   " = 65534 AND json_extract(entry, '$.outcome') = 'refused'") == 2,
		WAIT_S, "the audit, in both lives");
	peer_finish(p);
	rig_finish(r);
	rmdir(open_dir);
}
END_TEST

START_TEST(a_group_that_cannot_get_to_the_socket_is_warned_of)
{
	char dir[64] = "/tmp/hcpd-control-XXXXXX";
	const struct group *own = getgrgid(getegid());

	must(own, "a group without a name");
	r = rig_new();
	r->no_consumer_wait = true;
	must(mkdtemp(dir), "%s", dir);
	rig_set(r, "control", "group", "%s", own->gr_name);
	rig_set(r, "control", "socket", "%s/ctl", dir);
	rig_start(r);
	must(rig_log_count(r, "may not enter") == 1 && rig_log_has(r, dir), "a directory of mode 0700");
	rig_stop(r);
	must(chmod(dir, 0710) == 0, "chmod");
	rig_start(r);
	must(rig_log_count(r, "may not enter") == 1, "its group may enter");
	rig_stop(r);
	must(chmod(dir, 0700) == 0, "chmod");
	rig_set(r, "control", "group", NULL);
	rig_start(r);
	must(rig_log_count(r, "may not enter") == 1, "there is no group");
	rig_finish(r);
	rmdir(dir);
}
END_TEST

/* --- stops, crashes, and what stands in the way --- */

START_TEST(a_stop_answers_who_follows_and_removes_the_socket)
{
	begin();
	const char *s = run("['progress',1],['hold','/nonexistent']");
	struct talk u;
	json_t *line, *last = NULL;

	talk_open(&u, path);
	talk_say(&u, "{'id':7,'do':'events','session':'%s','follow':true}", s);
	json_decref(next_event(&u, 7));
	rig_stop(r);
	while ((line = talk_line(&u))) {
		json_decref(last);
		last = line;
	}
	must(last, "nothing was said");
	must_code(last, "unavailable");
	must(json_integer_value(json_object_get(last, "id")) == 7, "%s", json_dumps(last, 0));
	json_decref(last);
	must(!file_exists(path), "the socket is left behind");
	talk_close(&u);
	p->may_be_open = true;
	end();
}
END_TEST

START_TEST(control_socket_of_a_crashed_run_is_replaced)
{
	begin();
	const char *s = run("['progress',3000,500],['hold','/nonexistent']");
	struct talk u[6];

	wait_until(peer_count(p, s, "event", "progress") >= 3000, WAIT_S, "all came");
	for (int i = 0; i < 6; i++) {
		talk_open(&u[i], path);
		talk_say(&u[i], "{'id':1,'do':'events','session':'%s','follow':true}", s);
		talk_say(&u[i], "{'id':2,'do':'replay','session':'%s'}", s);
		talk_say(&u[i], "{'id':3,'do':'pause','session':'%s'}", s);
	}
	rig_kill(r);
	for (int i = 0; i < 6; i++) {
		for (json_t *line; (line = talk_line(&u[i]));)
			json_decref(line); /* whole lines, until it ends */
		talk_close(&u[i]);
	}
	must(file_exists(path), "a crash cannot remove it");
	talk_close(&t);
	rig_start(r);
	talk_open(&t, path);
	must_code(call("'do':'show','session':'%s'", s), "");
	call("'do':'abort','session':'%s'", s);
	peer_closed(p, s, "ABORTED", "aborted_by_operator");
	end();
}
END_TEST

START_TEST(file_in_place_of_the_socket_is_left_alone)
{
	struct rig *second;
	int fd;

	begin();
	second = rig_new();
	second->no_consumer_wait = true;
	rig_set(second, "control", "socket", "%s", path);
	rig_spawn(second);
	must(rig_wait_exit(second, WAIT_S) == 73, "status %d", second->wait_status);
	must(rig_log_has(second, "somebody listens at"), "the log");
	must_code(call("'do':'list'"), "");
	rig_set(second, "control", "socket", "%s", rig_path(second, "file"));
	rig_touch(second, "file");
	rig_spawn(second);
	must(rig_wait_exit(second, WAIT_S) == 73, "status %d", second->wait_status);
	must(rig_log_has(second, "is no socket") && file_exists(rig_path(second, "file")), "the log");
	rig_set(second, "control", "socket", "%0200d", 7);
	rig_write_ini(second);
	rig_spawn(second);
	must(rig_wait_exit(second, WAIT_S) == 78, "status %d", second->wait_status);
	must(rig_log_has(second, "no socket can have it"), "the log");
	rig_set(second, "control", "socket", "off");
	rig_set(second, "control", "group", "no-such-group");
	rig_spawn(second);
	must(rig_wait_exit(second, WAIT_S) == 78 && rig_log_has(second, "there is no group"),
		"a group that is none");
	rig_set(second, "control", "group", NULL);
	rig_start(second);
	must(!file_exists(rig_path(second, "state/control.sock")), "off is off");
	rig_stop(second);
	/* Without a word in the configuration it is in the state directory, or where systemd says. */
	rig_set(second, "control", "socket", NULL);
	rig_start(second);
	must((fd = talk_dial(rig_path(second, "state/control.sock"))) >= 0, "in the state directory");
	close(fd);
	rig_stop(second);
	mkdir(rig_path(second, "run"), 0700);
	rig_env(second, "RUNTIME_DIRECTORY=%s", rig_path(second, "run"));
	rig_start(second);
	must((fd = talk_dial(rig_path(second, "run/control.sock"))) >= 0, "in the runtime directory");
	close(fd);
	rig_finish(second);
	end();
}
END_TEST

/* The queue of its socket is full. */
START_TEST(daemon_goes_on_where_nobody_reads_its_status)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int unread, fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	begin();
	unread = r->notify_fd;
	r->notify_fd = -1;
	snprintf(sun.sun_path, sizeof sun.sun_path, "%s", rig_path(r, "notify"));
	must(fd >= 0 && connect(fd, (struct sockaddr *)&sun, sizeof sun) == 0, "%s", strerror(errno));
	while (send(fd, "X=1", 3, 0) > 0)
		;
	must(errno == EAGAIN, "%s", strerror(errno));
	must_code(call("'do':'drain'"), ""); /* which changes the status */
	must_code(call("'do':'undrain'"), "");
	peer_completed(p, peer_run(p, "agent", NULL));
	rig_stop(r);
	r->notify_fd = unread;
	close(fd);
	end();
}
END_TEST

START_TEST(while_the_store_refuses_stats_are_answered)
{
	begin();
	must_code(call("'do':'stats'"), "");
	must(json_is_false(json_object_get(item(call("'do':'stats'"), 0), "held")), "not held");
	struct rlimit limit, full;
	must(prlimit(r->pid, RLIMIT_FSIZE, NULL, &limit) == 0, "%s", strerror(errno));
	full = (struct rlimit){4096, limit.rlim_max}; /* no file may grow any more */
	must(prlimit(r->pid, RLIMIT_FSIZE, &full, NULL) == 0, "%s", strerror(errno));
	peer_submit(p, "agent", NULL);
	wait_until(rig_log_has(r, "the store refuses"), WAIT_S, "held");
	json_t *e = call("'do':'stats'");
	must(json_is_true(json_object_get(item(e, 0), "held")), "%s", json_dumps(e, 0));
	must_code(call("'do':'list'"), "");
	must(prlimit(r->pid, RLIMIT_FSIZE, &limit, NULL) == 0, "%s", strerror(errno));
	wait_until(rig_log_has(r, "the store takes again"), WAIT_S, "it goes on");
	peer_completed(p, peer_wait(p, NULL, "task_accepted", NULL)->session);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("control");

	suite_test(s, questions_are_answered_from_the_store, 60);
	suite_test(s, every_access_to_data_of_class_T2_is_logged, 60);
	suite_test(s, control_refusals_of_changes_are_audited_and_counted, 60);
	suite_test(s, a_worker_is_paused_checkpointed_and_resumed, 60);
	suite_test(s, a_request_that_waits_for_its_worker_shows_and_is_told_once, 60);
	suite_test(s, pause_survives_a_restart_and_a_crash_until_it_is_resumed, 60);
	suite_test(s, drain_lets_new_tasks_wait_and_the_others_run_to_their_end, 60);
	suite_test(s, replay_sends_the_same_bytes_in_order_beside_another_session, 60);
	suite_test(s, a_replay_to_nobody_is_given_up_and_may_be_asked_for_again, 60);
	suite_test(s, requests_sent_ahead_are_answered_in_order, 40);
	suite_test(s, follower_hears_each_event_and_the_end_or_stops_by_itself, 60);
	suite_test(s, nonsense_costs_an_error_line_and_no_more, 60);
	suite_test(s, half_a_line_and_silence_hold_up_nobody, 40);
	suite_test(s, silent_clients_do_not_lock_operators_out, 60);
	suite_test(s, client_65_is_refused_and_has_room_when_another_one_goes, 60);
	suite_test(s, a_client_that_does_not_read_is_dropped_and_costs_little, 120);
	suite_test(s, strangers_are_turned_away_and_members_of_the_group_are_not, 60);
	suite_test(s, a_group_that_cannot_get_to_the_socket_is_warned_of, 60);
	suite_test(s, a_stop_answers_who_follows_and_removes_the_socket, 60);
	suite_test(s, control_socket_of_a_crashed_run_is_replaced, 60);
	suite_test(s, file_in_place_of_the_socket_is_left_alone, 60);
	suite_test(s, daemon_goes_on_where_nobody_reads_its_status, 60);
	suite_test(s, while_the_store_refuses_stats_are_answered, 60);
	return harness_run(s, false);
}
