/* SPDX-License-Identifier: MIT */
/* test_aborts.c: who may abort, and that nothing is left of what was aborted. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/scene.h"

static double moment_in(const char *path, const char *word)
{
	char *text = file_read(path, NULL);
	char *at = text ? strstr(text, word) : NULL;
	double t = at ? atof(at + strlen(word)) : 0;

	free(text);
	return t;
}

START_TEST(an_abort_ends_a_worker_that_listens) /* proves L2-11 */
{
	scene_begin();
	const char *s = peer_run(p, "agent", J("{'do':[['progress',1],['forever']]}"));
	peer_event(p, s, "progress");
	must(rig_processes(r, NULL, 0) == 1, "one worker");
	double t = harness_now();
	peer_abort(p, s);
	struct note *n = peer_closed(p, s, "ABORTED", "aborted_by_caller");
	must(rig_processes(r, NULL, 0) == 0, "a terminal state means that every process is gone");
	must(n->at - t < 1.5 * harness_scale(), "it took %.2f s although it obeyed at once", n->at - t);
	must_str(note_text(peer_state(p, s, "ABORTING"), "payload.data.reason"), "aborted_by_caller");
	must(!peer_find(p, s, "task_completed", NULL) && !peer_find(p, s, "task_failed", NULL),
		"a result for an aborted task");
	scene_end();
}
END_TEST

START_TEST(an_abort_ends_the_deaf_with_their_runaway_grandchildren) /* proves L2-11 */
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'on':{'abort':'ignore','eof':'ignore'},'do':[['deaf'],['grandchild','%s',true],"
		  "['progress',1],['stuck']]}",
			rig_path(r, "grandchild")));
	peer_event(p, s, "progress");
	must(rig_processes(r, NULL, 0) >= 2, "the grandchild");
	double t = harness_now();
	peer_abort(p, s);
	peer_state(p, s, "ABORTING");
	must(harness_now() - t < 1 * harness_scale(), "ABORTING comes at once");
	struct note *n = peer_closed(p, s, "ABORTED", "aborted_by_caller");
	must(rig_processes(r, NULL, 0) == 0, "something survived");
	must(n->at - t < 2.0 + 0.5 * harness_scale(), "%.2f s with an abort_timeout of 2", n->at - t);
	must(n->at - t > 1.3, "killed after %.2f s, three quarters of 2 would be 1.5", n->at - t);
	scene_end();
}
END_TEST

START_TEST(an_abort_ends_a_grandchild_that_shed_its_environment) /* proves L2-11 */
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'on':{'abort':'ignore','eof':'ignore'},'do':[['deaf'],['grandchild','%s',false,true],['"
		  "progress',1],"
		  "['stuck']]}",
			rig_path(r, "grandchild")));
	peer_event(p, s, "progress");
	char *text = file_read(rig_path(r, "grandchild"), NULL);
	pid_t pid = atoi(text);
	free(text);
	must(kill(pid, 0) == 0, "the grandchild");
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	must(kill(pid, 0) < 0, "it belongs by descent, and survived");
	scene_end();
}
END_TEST

START_TEST(an_abort_ends_those_that_grow_again) /* proves L2-11 */
{
	scene_begin();
	const char *s = peer_run(
		p, "agent", J("{'do':[['hydra','%s'],['progress',1],['forever']]}", rig_path(r, "hydra")));
	peer_event(p, s, "progress");
	must(rig_processes(r, NULL, 0) >= 3, "worker and two heads");
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	harness_pass(0.2);
	must(rig_processes(r, NULL, 0) == 0, "a head grew again");
	scene_end();
}
END_TEST

START_TEST(the_ladder_has_its_rungs_at_none_half_and_three_quarters) /* proves L2-11 */
{
	scene_begin_with("session", "abort_timeout", "4s");
	const char *lines = rig_path(r, "lines"), *terms = rig_path(r, "terms");
	const char *s = peer_run(p, "agent",
		J("{'on':{'abort':'ignore','eof':'ignore'},'do':[['note_lines','%s'],['note_term','%s'],"
		  "['progress',1],['forever']]}",
			lines, terms));
	peer_event(p, s, "progress");
	double t = harness_now();
	peer_abort_with(
		p, s, json_pack("{s:s,s:s}", "session_token", peer_token(p, s), "reason", "changed my mind"));
	struct note *n = peer_closed(p, s, "ABORTED", NULL);
	double said = moment_in(lines, "abort ") - t, termed = moment_in(terms, "") - t, killed = n->at - t;
	double slack = 0.7 * harness_scale();
	must(said >= 0 && said < slack, "the line came after %.2f s", said);
	must(termed > 1.8 && termed < 2 + slack, "SIGTERM came after %.2f s, half of 4 would be 2", termed);
	must(killed > 2.8 && killed < 3 + slack, "it was gone after %.2f s, three quarters of 4 would be 3",
		killed);
	scene_end();
}
END_TEST

START_TEST(a_text_worker_gets_sigterm_at_once) /* proves L2-11 */
{
	r = rig_new();
	rig_text(r, "sleeper", "echo up; trap 'echo got term; exit 0' TERM; while :; do sleep 0.05; done");
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "sleeper", NULL);
	peer_event(p, s, "log");
	double t = harness_now();
	peer_abort(p, s);
	struct note *n = peer_closed(p, s, "ABORTED", "aborted_by_caller");
	must(n->at - t < 1.5 * harness_scale(), "%.2f s", n->at - t);
	must(peer_find_text(p, s, "log", "payload.data.message", "got term"),
		"output is published until the pipe is drained");
	scene_end();
}
END_TEST

START_TEST(only_the_right_token_aborts) /* proves L2-13 */
{
	scene_begin();
	const char *s = peer_run(p, "agent", J("{'do':[['progress',1],['forever']]}"));
	const char *other = peer_run(p, "agent", J("{'do':[['progress',1],['forever']]}"));
	peer_event(p, s, "progress");
	peer_event(p, other, "progress");
	char *token = strdup(peer_token(p, s));
	token[strlen(token) / 2] = token[strlen(token) / 2] == 'A' ? 'B' : 'A';
	peer_abort_with(p, s, json_pack("{s:s}", "session_token", token));                /* damaged */
	peer_abort_with(p, s, json_pack("{s:s}", "session_token", peer_token(p, other))); /* another's */
	peer_abort_with(p, s, json_pack("{s:s}", "session_token", ""));
	peer_abort_with(p, s, J("{'session_token':17}"));
	peer_abort(p, other);
	/* FIFO: the others were seen before */
	peer_closed(p, other, "ABORTED", "aborted_by_caller");
	harness_pass(0.2);
	must(!peer_find_state(p, s, "ABORTING", 1), "a wrong token was obeyed");
	peer_abort_with(p, s, J("{}")); /* [caller *] has no amqp_user: identity is not checked for it */
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	free(token);
	scene_end();
}
END_TEST

START_TEST(a_user_id_of_the_sessions_caller_aborts_without_a_token) /* proves L2-13 */
{
	r = rig_new();
	rig_set(r, "caller mine", "capabilities", "*");
	rig_set(r, "caller mine", "amqp_user", "guest");
	rig_start(r);
	p = peer_named(r, "mine");
	snprintf(p->user_id, sizeof p->user_id, "guest");
	const char *a = peer_run(p, "agent", J("{'do':[['forever']]}")),
		   *b = peer_run(p, "agent", J("{'do':[['forever']]}"));
	p->user_id[0] = 0;
	peer_abort_with(p, a, J("{}")); /* nobody said who it was */
	peer_abort(p, b);               /* a valid token needs no user-id */
	peer_closed(p, b, "ABORTED", "aborted_by_caller");
	must(!peer_find_state(p, a, "ABORTING", 1), "an abort without token and user-id was obeyed");
	snprintf(p->user_id, sizeof p->user_id, "guest");
	peer_abort_with(p, a, J("{'session_token':'wrong'}")); /* a wrong token is refused always */
	peer_abort_with(p, uuid_text(p), J("{}"));
	harness_pass(0.3);
	must(!peer_find_state(p, a, "ABORTING", 1), "an abort with a wrong token was obeyed");
	peer_abort_with(p, a, J("{}"));
	peer_closed(p, a, "ABORTED", "aborted_by_caller");
	scene_end();
}
END_TEST

START_TEST(an_abort_for_nothing_has_no_effect) /* proves L2-13 */
{
	int messages = -1, consumers;

	scene_begin();
	const char *s = peer_run(p, "agent", J("{'do':[['complete']]}"));
	peer_completed(p, s);
	size_t count = p->note_count;
	peer_abort(p, s);                          /* ended */
	peer_abort_with(p, uuid_text(p), J("{}")); /* unknown */
	peer_abort_with(p, uuid_text(p), json_pack("{s:s}", "session_token", peer_token(p, s)));
	wait_until(queue_look(r->broker, r->queue, &messages, &consumers) && messages == 0, WAIT_S,
		"they are taken");
	harness_pass(0.3);
	must(p->note_count == count, "something was said about it: %s", p->notes[p->note_count - 1]->body);
	peer_completed(p, peer_run(p, "agent", NULL));
	scene_end();
}
END_TEST

START_TEST(two_aborts_are_one) /* proves L2-12 */
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'on':{'abort':'ignore','eof':'ignore'},'do':[['deaf'],['progress',1],['forever']]}"));
	peer_event(p, s, "progress");
	for (int i = 0; i < 5; i++)
		peer_abort(p, s);
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	peer_abort(p, s);
	must(peer_count(p, s, "event", "state_changed") == 3, "ABORTING more than once");
	scene_end();
}
END_TEST

START_TEST(an_abort_while_queued_starts_no_worker) /* proves L2-12, L2-02 */
{
	scene_begin_with("daemon", "max_sessions", "1");
	const char *first = peer_run(
		p, "agent", J("{'do':[['progress',1],['hold','%s'],['complete']]}", rig_path(r, "go")));
	peer_event(p, first, "progress");
	const char *s =
		peer_run(p, "agent", J("{'do':[['write','%s'],['complete']]}", rig_path(r, "started")));
	peer_event(p, s, "session_created");
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	must(peer_count(p, s, "event", "state_changed") == 3, "PENDING, RUNNING, ABORTING, ABORTED");
	rig_touch(r, "go");
	peer_completed(p, first);
	peer_completed(p, peer_run(p, "agent", NULL)); /* the slot is free again */
	must(!file_exists(rig_path(r, "started")), "its worker was started");
	scene_end();
}
END_TEST

START_TEST(an_abort_while_paused_ends_it) /* proves L2-12 */
{
	scene_begin();
	const char *s =
		peer_run(p, "agent", J("{'do':[['emit',{'type':'paused','reason':'tea'}],['forever']]}"));
	struct note *n = peer_state(p, s, "PAUSED");
	must_str(note_text(n, "payload.data.from_state"), "RUNNING");
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	must_str(note_text(peer_state(p, s, "ABORTING"), "payload.data.from_state"), "PAUSED");
	scene_end();
}
END_TEST

START_TEST(a_worker_may_pause_and_go_on)
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['emit',{'type':'paused','reason':'tea'}],['hold','%s'],['emit',{'type':'resumed'}]"
		  ","
		  "['progress',1],['complete']]}",
			rig_path(r, "go")));
	peer_state(p, s, "PAUSED");
	rig_touch(r, "go");
	peer_completed(p, s);
	must(peer_find_state(p, s, "RUNNING", 2), "RUNNING again");
	scene_end();
}
END_TEST

START_TEST(an_answer_to_an_abort_comes_too_late) /* proves L2-12 */
{
	scene_begin();
	const char *s =
		peer_run(p, "agent", J("{'on':{'abort':'complete'},'do':[['progress',1],['forever']]}"));
	peer_event(p, s, "progress");
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", "aborted_by_caller"); /* the first committed cause decides */
	must(!peer_find(p, s, "task_completed", NULL), "completed after the abort");
	scene_end();
}
END_TEST

START_TEST(an_abort_racing_with_completion_has_one_end) /* proves L2-12 */
{
	enum { RACES = 80 };
	const char *ids[RACES], *s[RACES];
	unsigned seed = 4711;
	int completed = 0;

	scene_begin();
	printf("seed %u\n", seed);
	for (int i = 0; i < RACES; i += 4) {
		for (int k = i; k < i + 4; k++)
			ids[k] = peer_submit(p, "agent",
				J("{'do':[['progress',1],['sleep',%.3f],['complete']]}",
					(double)(rand_r(&seed) % 30) / 1000));
		for (int k = i; k < i + 4; k++)
			s[k] = peer_accepted(p, ids[k]);
		for (int k = i; k < i + 4; k++) {
			if (k % 4) /* the first of each four while its process starts */
				peer_event(p, s[k], "progress");
			harness_pass((double)(rand_r(&seed) % 10) / 1000);
			peer_abort(p, s[k]);
		}
	}
	for (int i = 0; i < RACES; i++) {
		const char *end_state =
			note_text(peer_event(p, s[i], "session_closed"), "payload.data.final_state");
		must(strcmp(end_state, "ABORTED") == 0 || strcmp(end_state, "COMPLETED") == 0, "%s",
			end_state);
		completed += strcmp(end_state, "COMPLETED") == 0;
	}
	printf("%d of %d won the race\n", completed, RACES);
	scene_end(); /* the oracle looks at each stream */
}
END_TEST

START_TEST(an_abort_before_the_worker_has_started_holds) /* proves L2-12 */
{
	scene_begin();
	for (int i = 0; i < 10; i++) {
		/* Both commands are in the queue before the daemon sees either. */
		rig_signal(r, SIGSTOP);
		const char *id = peer_submit(p, "agent", J("{'do':[['forever']]}"));
		rig_signal(r, SIGCONT);
		const char *s = peer_accepted(p, id);
		peer_abort(p, s);
		peer_closed(p, s, "ABORTED", "aborted_by_caller");
	}
	scene_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("aborts");

	suite_test(s, an_abort_ends_a_worker_that_listens, 40);
	suite_test(s, an_abort_ends_the_deaf_with_their_runaway_grandchildren, 40);
	suite_test(s, an_abort_ends_a_grandchild_that_shed_its_environment, 40);
	suite_test(s, an_abort_ends_those_that_grow_again, 40);
	suite_test(s, the_ladder_has_its_rungs_at_none_half_and_three_quarters, 40);
	suite_test(s, a_text_worker_gets_sigterm_at_once, 40);
	suite_test(s, only_the_right_token_aborts, 40);
	suite_test(s, a_user_id_of_the_sessions_caller_aborts_without_a_token, 40);
	suite_test(s, an_abort_for_nothing_has_no_effect, 40);
	suite_test(s, two_aborts_are_one, 40);
	suite_test(s, an_abort_while_queued_starts_no_worker, 40);
	suite_test(s, an_abort_while_paused_ends_it, 40);
	suite_test(s, a_worker_may_pause_and_go_on, 40);
	suite_test(s, an_answer_to_an_abort_comes_too_late, 40);
	suite_test(s, an_abort_racing_with_completion_has_one_end, 90);
	suite_test(s, an_abort_before_the_worker_has_started_holds, 40);
	return harness_run(s, false);
}
