/* SPDX-License-Identifier: MIT */
/* test_repeated_submits.c: the same submit again is the same answer and no second session, over restarts
 * too. */
#include <string.h>

#include "support/scene.h"

START_TEST(repeated_submit_gets_the_same_bytes_also_after_restarts) /* proves L1-06 */
{
	scene_begin();
	rig_capability(r, "risky", AGENT, J("{'safety':{'risk_ceiling':'R4'}}"));
	json_t *good = peer_payload(
		p, "agent", J("{'do':[['write','%s'],['complete']]}", rig_path(r, "starts")), NULL);
	json_t *bad = peer_payload(p, "no-such", NULL, NULL);
	const char *yes = peer_send(p, "task_submit", NULL, json_incref(good));
	const char *no = peer_send(p, "task_submit", NULL, json_incref(bad));
	const char *s = peer_accepted(p, yes);
	peer_rejected(p, no, "unknown_capability");
	peer_completed(p, s);
	for (int round = 2; round <= 4; round++) {
		int yeses = peer_count_replies(p, yes), noes = peer_count_replies(p, no);
		if (round == 3) {
			rig_kill(r); /* before an ack perhaps: then a submit of before comes once more */
			rig_start(r);
		} else if (round == 4) {
			rig_stop(r);
			rig_start(r);
		}
		peer_send_as(p, yes, "task_submit", NULL, json_incref(good));
		peer_send_as(p, no, "task_submit", NULL, json_incref(bad));
		wait_until(peer_count_replies(p, yes) > yeses && peer_count_replies(p, no) > noes, WAIT_S,
			"answers in round %d", round);
	}
	struct note *first = peer_find_reply(p, yes);
	int same = 0;
	for (size_t i = 0; i < p->note_count; i++)
		same += p->notes[i]->size == first->size &&
			memcmp(p->notes[i]->body, first->body, first->size) == 0;
	must(same == peer_count_replies(p, yes) && same >= 4, "%d answers with the same bytes", same);
	must(file_lines(rig_path(r, "starts")) == 1, "a second session was made");
	must(rig_sql(r, "SELECT count(*) FROM sessions") == 1, "a second session was made");
	/* The same message_id from another caller is another submit. */
	struct peer *q = peer_new(r);
	peer_send_as(q, yes, "task_submit", NULL, peer_payload(q, "agent", NULL, NULL));
	peer_completed(q, peer_accepted(q, yes));
	peer_finish(q);
	scene_end();
}
END_TEST

START_TEST(a_submit_repeated_while_it_runs_is_still_one_session) /* proves L1-06 */
{
	scene_begin();
	json_t *payload =
		peer_payload(p, "agent", J("{'do':[['hold','%s'],['complete']]}", rig_path(r, "go")), NULL);
	const char *id = uuid_text(p);
	for (int i = 0; i < 5; i++)
		peer_send_as(p, id, "task_submit", NULL, json_incref(payload));
	const char *s = peer_accepted(p, id);
	rig_touch(r, "go");
	peer_completed(p, s);
	int before = peer_count_replies(p, id); /* an answer still under way need not be said twice */
	peer_send_as(p, id, "task_submit", NULL, json_incref(payload));
	wait_until(peer_count_replies(p, id) > before, WAIT_S, "the answer once more");
	must(rig_sql(r, "SELECT count(*) FROM sessions") == 1, "more than one session");
	scene_end();
}
END_TEST

START_TEST(submit_is_remembered_for_the_window_and_its_sessions_life) /* proves L1-06 */
{
	scene_begin_with("daemon", "dedup_window", "1s");
	json_t *payload =
		peer_payload(p, "agent", J("{'do':[['hold','%s'],['complete']]}", rig_path(r, "go")), NULL);
	const char *id = peer_send(p, "task_submit", NULL, json_incref(payload));
	const char *s = peer_accepted(p, id);
	harness_pass(2.5); /* the window is over, the session is not */
	peer_send_as(p, id, "task_submit", NULL, json_incref(payload));
	wait_until(peer_count_replies(p, id) >= 2, WAIT_S, "the same answer");
	must(rig_sql(r, "SELECT count(*) FROM sessions") == 1, "forgotten while it ran");
	rig_touch(r, "go");
	peer_completed(p, s);
	scene_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("repeated_submits");

	suite_test(s, repeated_submit_gets_the_same_bytes_also_after_restarts, 40);
	suite_test(s, a_submit_repeated_while_it_runs_is_still_one_session, 40);
	suite_test(s, submit_is_remembered_for_the_window_and_its_sessions_life, 40);
	return harness_run(s, false);
}
