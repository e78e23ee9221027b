/* SPDX-License-Identifier: MIT */
/* test_continuity.c: sessions that take up what others left, and states that outlive their version. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/scene.h"

#define RECORD \
	"['emit',{'type':'continuity','summary':'half of it','decisions':['by hand'],'next_steps':['the " \
	"rest']}]"

START_TEST(a_task_continues_an_earlier_session) /* proves CK-05 */
{
	scene_begin();
	const char *s = peer_run(p, "agent", J("{'do':[" RECORD ",['failing',{}]]}"));
	peer_failed(p, s, "worker_failed", "execution_error");
	const char *next =
		peer_run_more(p, "agent", J("{'do':[['dump']]}"), J("{'context':{'continues':'%s'}}", s));
	struct note *n = peer_completed(p, next);
	must_str(note_text(n, "payload.outputs.start.continues.summary"), "half of it");
	must_str(note_text(n, "payload.outputs.start.continues.completion"), "partial");
	must_str(note_text(n, "payload.outputs.start.continues.session_id"), s);
	const char *stranger =
		peer_submit_more(p, "agent", NULL, J("{'context':{'continues':'%s'}}", uuid_text(p)));
	peer_rejected(p, stranger, "invalid_input");
	scene_end();
}
END_TEST

START_TEST(a_task_goes_on_from_an_ended_sessions_checkpoint) /* proves L4-06 */
{
	scene_begin();
	const char *s = peer_run(p, "agent", J("{'do':[['checkpoint',{'n':40}],['failing',{}]]}"));
	struct note *n = peer_failed(p, s, "worker_failed", "execution_error");
	const char *id = note_text(n, "payload.error_details.last_checkpoint");
	const char *next = peer_run_more(
		p, "agent", J("{'do':[['count',50]]}"), J("{'constraints':{'checkpoint':'%s'}}", id));
	n = peer_completed(p, next);
	must(json_integer_value(note_at(n, "payload.outputs.first")) == 41, "%s", n->body);
	must(json_integer_value(note_at(n, "payload.outputs.attempt")) == 1, "%s", n->body);
	struct peer *other = peer_named(r, "another");
	peer_rejected(other,
		peer_submit_more(other, "agent", NULL, J("{'constraints':{'checkpoint':'%s'}}", id)),
		"invalid_input");
	peer_finish(other);
	scene_end();
}
END_TEST

/* A checkpoint of version 1.4, and a daemon that comes back with 2.0. */
static const char *come_back(const char *script)
{
	r = rig_new();
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent",
		J("{'do':[['first',['emit',{'type':'checkpoint','state':{'old':9},'state_version':'1.4'}],"
		  "['await','checkpoint_saved'],['progress',1],['forever']],['dump']]}"));
	peer_event(p, s, "progress");
	rig_kill(r);
	file_write(rig_path(r, "migrate"), script);
	chmod(rig_path(r, "migrate"), 0755);
	rig_set(r, "capability agent", "state_version", "2.0");
	rig_set(r, "capability agent", "migrate", "%s", rig_path(r, "migrate"));
	rig_start(r);
	return s;
}

START_TEST(a_state_of_an_earlier_version_is_migrated) /* proves CK-11 */
{
	const char *s = come_back("#!/bin/sh\nsed -e 's/.*\"state\":{\"old\"/{\"new\"/' -e 's/}}$/}/'\n");
	struct note *n = peer_completed(p, s);
	must(json_integer_value(note_at(n, "payload.outputs.start.checkpoint.state.new")) == 9, "%s",
		n->body);
	must_str(note_text(n, "payload.outputs.start.checkpoint.state_version"), "2.0");
	must(peer_count(p, s, "event", "checkpoint_created") == 2, "the migrated one is told, too");
	scene_end();
}
END_TEST

START_TEST(a_migration_that_fails_ends_the_session) /* proves CK-11 */
{
	const char *s = come_back("#!/bin/sh\necho no rule >&2\nsleep 60 &\nexit 4\n");
	struct note *n = peer_failed(p, s, "migration_failed", "internal_error");
	must_str(note_text(n, "payload.error_details.stderr"), "no rule\n");
	scene_end(); /* and nothing of it is left */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("continuity");

	suite_test(s, a_task_continues_an_earlier_session, 40);
	suite_test(s, a_task_goes_on_from_an_ended_sessions_checkpoint, 40);
	suite_test(s, a_state_of_an_earlier_version_is_migrated, 40);
	suite_test(s, a_migration_that_fails_ends_the_session, 40);
	return harness_run(s, false);
}
