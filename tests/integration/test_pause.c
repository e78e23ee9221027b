/* SPDX-License-Identifier: MIT */
/* test_pause.c: sessions that rest, with real processes: given up, brought back, decided about, expired,
 * extended. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "support/scene.h"
#include "support/talk.h"

static char path[300];

static void begin_resting(const char *section, const char *key, const char *value)
{
	r = rig_new();
	snprintf(path, sizeof path, "%s", talk_path(r));
	rig_set(r, "capability agent", "pause_frees_worker", "yes");
	if (section)
		rig_set(r, section, key, "%s", value);
	rig_start(r);
	p = peer_new(r);
}

static void ask(const char *verb, const char *s, const char *more)
{
	json_t *done = talk_once(path, "'do':'%s','session':'%s'%s", verb, s, more);

	must(*talk_code(done) == '\0', "%s: %s", verb, talk_code(done));
}

static int processes(void)
{
	pid_t pids[16];

	return rig_processes(r, pids, 16);
}

#define WORK \
	"{'do':[['checkpoint',{'n':3}],['await','checkpoint_saved'],['progress',1],['hold','%s'],['dump']]}"

START_TEST(a_paused_session_has_no_process_and_no_slot_and_comes_back) /* proves SA-11 */
{
	begin_resting("daemon", "max_sessions", "1");
	const char *s = peer_run(p, "agent", J(WORK, rig_path(r, "go")));
	peer_event(p, s, "progress");
	ask("pause", s, "");
	peer_state(p, s, "PAUSED");
	wait_until(processes() == 0, WAIT_S, "its process goes");
	const char *other = peer_run(
		p, "agent", J("{'do':[['progress',1],['hold','%s'],['complete']]}", rig_path(r, "other")));
	peer_event(p, other, "progress"); /* in its slot */
	ask("resume", s, "");
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE session_id = '%s' AND state = 'PAUSED'", s) == 1,
		"it did not queue");
	rig_touch(r, "other");
	peer_completed(p, other);
	rig_touch(r, "go");
	struct note *n = peer_completed(p, s);
	must(json_integer_value(note_at(n, "payload.outputs.start.checkpoint.state.n")) == 3, "%s", n->body);
	scene_end();
}
END_TEST

START_TEST(session_that_is_paused_too_long_ends_with_its_processes) /* proves CK-10 */
{
	begin_resting("session", "pause_grace", "1s");
	const char *s = peer_run(p, "agent",
		J("{'on':{'abort':'ignore','eof':'ignore'},'do':[['deaf'],['emit',{'type':'paused'}],"
		  "['forever']]}"));
	peer_failed(p, s, "pause_expired", "timeout");
	must(processes() == 0, "a process is left");
	scene_end();
}
END_TEST

START_TEST(interrupted_sessions_wait_for_an_operator) /* proves CK-04 */
{
	static const char *const ways[] = {"resume", "restart", "summarize", "discard", "fail"};
	const char *s[5];

	begin_resting("daemon", "on_start", "ask");
	for (int i = 0; i < 5; i++) {
		s[i] = peer_run(p, "agent",
			J("{'do':[['emit',{'type':'intermediate_result','result_type':'draft','data':{'n':%d}"
			  "}],"
			  "['checkpoint',{'n':3},'three'],['await','checkpoint_saved'],['progress',1],['hold'"
			  ",'%s'],['dump']]}",
				i, rig_path(r, "go")));
		peer_event(p, s[i], "progress");
	}
	rig_kill(r);
	rig_start(r);
	rig_touch(r, "go");
	for (int i = 0; i < 5; i++) {
		char how[32];

		peer_state(p, s[i], "PAUSED");
		must(rig_sql(r, "SELECT count(*) FROM sessions WHERE session_id = '%s' AND state = 'PAUSED'",
			     s[i]) == 1,
			"not asked");
		snprintf(how, sizeof how, ",'how':'%s'", ways[i]);
		ask("recover", s[i], how);
	}
	must(json_integer_value(
		     note_at(peer_completed(p, s[0]), "payload.outputs.start.checkpoint.state.n")) == 3,
		"resumed");
	must(json_is_null(note_at(peer_completed(p, s[1]), "payload.outputs.start.checkpoint")), "restarted");
	struct note *n = peer_failed(p, s[2], "summarized", "internal_error");
	must(json_integer_value(json_object_get(
		     json_object_get(
			     json_array_get(note_at(n, "payload.partial_outputs.intermediate_results"), 0),
			     "data"),
		     "n")) == 2,
		"%s", n->body);
	must_str(note_text(n, "payload.partial_outputs.checkpoint.description"), "three");
	peer_closed(p, s[3], "ABORTED", "discarded");
	must_str(note_text(n, "payload.error_details.last_checkpoint"),
		note_text(n, "payload.partial_outputs.checkpoint.checkpoint_id"));
	n = peer_failed(p, s[4], "failed_by_operator", "internal_error");
	must(json_is_true(note_at(n, "payload.error_details.recoverable")), "%s", n->body);
	scene_end();
}
END_TEST

START_TEST(a_session_gets_more_time) /* proves SA-10 */
{
	begin_resting("session", "max_duration", "4s");
	const char *s = peer_run(
		p, "agent", J("{'do':[['progress',1],['await','extended'],['sleep',5],['complete']]}"));
	peer_event(p, s, "progress");
	ask("extend", s, ",'by':'60s'");
	peer_completed(p, s);
	const char *late = peer_run(p, "agent", J("{'do':[['progress',1],['forever']]}"));
	peer_event(p, late, "progress");
	json_t *no = talk_once(path, "'do':'extend','session':'%s','by':'25h'", late);
	must_str(talk_code(no), "refused");
	peer_failed(p, late, "timeout", "timeout");
	scene_end();
}
END_TEST

START_TEST(session_that_may_no_longer_run_does_not_start_again) /* proves CK-09 */
{
	begin_resting(NULL, NULL, NULL);
	const char *s = peer_run(
		p, "agent", J("{'do':[['write','%s'],['progress',1],['forever']]}", rig_path(r, "starts")));
	peer_event(p, s, "progress");
	rig_kill(r);
	rig_set(r, "capability agent", "command", "%s", rig_path(r, "no-such-agent"));
	rig_start(r);
	struct note *n = peer_failed(p, s, "recheck_failed", "resource_unavailable");
	must_str(note_text(n, "payload.error_details.check"), "command");
	must(file_lines(rig_path(r, "starts")) == 1, "it was started");
	scene_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pause");

	suite_test(s, a_paused_session_has_no_process_and_no_slot_and_comes_back, 40);
	suite_test(s, session_that_is_paused_too_long_ends_with_its_processes, 90);
	suite_test(s, interrupted_sessions_wait_for_an_operator, 60);
	suite_test(s, a_session_gets_more_time, 60);
	suite_test(s, session_that_may_no_longer_run_does_not_start_again, 40);
	return harness_run(s, false);
}
