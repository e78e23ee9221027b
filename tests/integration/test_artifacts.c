/* SPDX-License-Identifier: MIT */
/* test_artifacts.c: files that workers announce, from the working directory to the artifact store and
 * the result. */
#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/scene.h"

#define ARTIFACT(name, path) \
	"['emit',{'type':'artifact','name':'" name "','path':'" path "','mime':'text/plain'}]"

static const char *stored(const char *session, const char *name)
{
	static char paths[8][900];
	static unsigned turn;

	snprintf(paths[++turn % 8], sizeof paths[0], "%s/artifacts/%s/%s", r->state, session, name);
	return paths[turn % 8];
}

/* As another program computes it. */
static const char *hash_of(const char *path)
{
	static char text[80];
	char command[1000];
	FILE *f;

	snprintf(command, sizeof command, "sha256sum '%s'", path);
	f = popen(command, "r");
	must(f && fread(text, 1, 64, f) == 64, "%s", command);
	pclose(f);
	text[64] = '\0';
	return text;
}

/* The one of that name in a result; it must be what lies in the store. NULL: there is none. */
static json_t *must_match(struct note *n, const char *session, const char *name)
{
	json_t *list = note_at(n, "payload.artifacts"), *a;
	char uri[400], sum[100];
	struct stat st;
	size_t i;

	json_array_foreach(list, i, a) {
		if (strcmp(json_text_at(a, "name"), name) != 0)
			continue;
		must(stat(stored(session, name), &st) == 0, "%s: %s", stored(session, name), strerror(errno));
		must(st.st_size == json_integer_value(json_at(a, "size_bytes")), "%lld bytes: %s",
			(long long)st.st_size, n->body);
		must((st.st_mode & 07777) == 0400 && st.st_nlink == 1, "mode %o, %d links", st.st_mode,
			(int)st.st_nlink);
		snprintf(uri, sizeof uri, "hcp://%s/artifacts/%s", session, name);
		must_str(json_text_at(a, "uri"), uri);
		snprintf(sum, sizeof sum, "sha256:%s", hash_of(stored(session, name)));
		must_str(json_text_at(a, "checksum"), sum);
		return a;
	}
	return NULL;
}

static int warnings_of(const char *session)
{
	int count = 0;
	struct note *n;

	for (int i = 1; (n = peer_find_nth(p, session, "event", "warning", i)); i++)
		count += strcmp(note_text(n, "payload.data.code"), "artifact_not_kept") == 0;
	return count;
}

START_TEST(a_file_that_is_announced_is_kept_when_its_directory_is_gone) /* proves L4-05 */
{
	scene_begin_with("capability agent", "keep_workdir", "never");
	const char *s = peer_run(p, "agent",
		J("{'do':[['shell','mkdir d; printf hello > d/out']," ARTIFACT("report.txt",
			"d/out") ",['shell','rm -r d; :']," ARTIFACT("empty", "e") ",['complete']]}"));
	struct note *n = peer_completed(p, s);

	/* The first may be gone before it was looked at: what is promised is that the result and the
	 * store agree. */
	must(json_array_size(note_at(n, "payload.artifacts")) + (size_t)warnings_of(s) == 2, "%s", n->body);
	s = peer_run(p, "agent",
		J("{'do':[['shell','mkdir d; printf hello > d/out; : > e']," ARTIFACT(
			"report.txt", "d/out") "," ARTIFACT("empty", "./e") ",['complete']]}"));
	n = peer_completed(p, s);
	must(json_array_size(note_at(n, "payload.artifacts")) == 2, "%s", n->body);
	must_str(json_text_at(must_match(n, s, "report.txt"), "type"), "text/plain");
	must(json_integer_value(json_at(must_match(n, s, "report.txt"), "size_bytes")) == 5, "%s", n->body);
	must(must_match(n, s, "empty") != NULL, "%s", n->body);
	char work[600];
	snprintf(work, sizeof work, "%s/work/%s", r->state, s);
	wait_until(!file_exists(work), WAIT_S, "its working directory goes");
	rig_stop(r);
	rig_start(r);
	must(must_match(n, s, "report.txt") != NULL, "kept over a restart");
	scene_end();
}
END_TEST

START_TEST(a_failed_task_names_its_artifacts) /* proves L4-05 */
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['shell','echo so far > log']," ARTIFACT(
			"log", "log") ",['failing',{'error_code':'input_error'}]]}"));
	struct note *n = peer_failed(p, s, "worker_failed", "input_error");

	must(must_match(n, s, "log") != NULL, "%s", n->body);
	s = peer_run(p, "agent",
		J("{'do':[['shell','echo so far > log']," ARTIFACT("log", "log") ",['exit',3]]}"));
	n = peer_failed(p, s, "worker_failed", "execution_error");
	must(must_match(n, s, "log") != NULL, "%s", n->body);
	scene_end();
}
END_TEST

/* ---- tricks ---- */

static const char *const tricks[] = {
	ARTIFACT("absolute", "/etc/passwd"),
	ARTIFACT("up", "../../hcpd.db"),
	ARTIFACT("round", "d/../../../hcpd.db"),
	ARTIFACT("link", "link"),
	ARTIFACT("inner", "inner"),
	ARTIFACT("dirlink", "dirlink/hcpd.db"),
	ARTIFACT("proc", "proc/environ"),
	ARTIFACT("hard", "hard"),
	ARTIFACT("fifo", "fifo"),
	ARTIFACT("dir", "d"),
	ARTIFACT("self", "."),
	ARTIFACT("device", "device"),
	ARTIFACT("loop", "loop"),
	ARTIFACT("none", "none"),
	ARTIFACT("huge", "huge"),
	ARTIFACT("sock", "sock"),
	ARTIFACT("a/b", "good"),
	ARTIFACT("../x", "good"),
	ARTIFACT(".hidden", "good"),
	ARTIFACT("", "good"),
	ARTIFACT("a\\nb", "good"),
	ARTIFACT("a\\u001b[2J", "good"),
	ARTIFACT("a\\u0000b", "good"),
	ARTIFACT("nul", "good\\u0000x"),
	ARTIFACT("nothing", ""),
};
enum { TRICKS = sizeof tricks / sizeof *tricks };

/* What a session may not get at through us lies beside its directory, and in the daemon's own. */
#define MAKE_TRICKS \
	"echo good > good; mkdir d; ln -s %s/hcpd.db link; ln -s good inner; ln -s ../.. dirlink; ln -s " \
	"/proc/self proc\n" \
	"ln %s hard; mkfifo fifo; mknod device c 1 5 2>/dev/null; ln -s loop loop; truncate -s 2G huge\n" \
	"python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'\n"

START_TEST(every_trick_costs_a_warning_and_no_more) /* proves L4-05 */
{
	char script[2000], text[10000];
	size_t size;

	scene_begin_with("limits", "artifact", "1GiB");
	file_write(rig_path(r, "secret"), "the daemon's own");
	snprintf(script, sizeof script, MAKE_TRICKS, r->state, rig_path(r, "secret"));
	file_write(rig_path(r, "tricks.sh"), script);
	size = (size_t)snprintf(text, sizeof text, "{'do':[['shell','sh %s']", rig_path(r, "tricks.sh"));
	for (int i = 0; i < TRICKS; i++)
		size += (size_t)snprintf(text + size, sizeof text - size, ",%s", tricks[i]);
	snprintf(text + size, sizeof text - size, "," ARTIFACT("good", "good") ",['complete']]}");
	const char *s = peer_run(p, "agent", J("%s", text));
	struct note *n = peer_completed(p, s);

	must(json_array_size(note_at(n, "payload.artifacts")) == 1 && must_match(n, s, "good"), "%s",
		n->body);
	must(warnings_of(s) == TRICKS, "%d warnings for %d tricks", warnings_of(s), (int)TRICKS);
	DIR *d = opendir(stored(s, ""));
	int files = 0;
	for (struct dirent *e; d && (e = readdir(d));)
		files += e->d_name[0] != '.';
	closedir(d);
	must(files == 1 && !file_exists(stored(s, ".new")), "%d files", files);
	scene_end();
}
END_TEST

START_TEST(a_worker_of_another_user_hands_out_only_what_is_its_own) /* proves L4-05 */
{
	char work[600];

	if (geteuid() != 0 || !getpwnam("nobody")) {
		printf("skipped: only root can have workers of another user\n");
		return;
	}
	r = rig_new();
	/* Everybody must be able to come to the agent, which is in the source tree, and to the state
	 * directory. */
	char open_dir[] = "/tmp/hcp-artifacts-XXXXXX";
	must(mkdtemp(open_dir) && chmod(open_dir, 0711) == 0, "%s", strerror(errno));
	snprintf(r->state, sizeof r->state, "%s/state", open_dir);
	snprintf(r->db, sizeof r->db, "%s/state/hcpd.db", open_dir);
	rig_set(r, "daemon", "state_dir", "%s", r->state);
	file_write(rig_path(r, "x"), "");
	char command[900];
	snprintf(command, sizeof command, "cp '%s' %s/agent.py && chmod 755 %s/agent.py", AGENT, open_dir,
		open_dir);
	must(system(command) == 0, "%s", command);
	snprintf(command, sizeof command, "%s/agent.py", open_dir);
	rig_capability(r, "other", command, NULL);
	rig_set(r, "capability other", "user", "nobody");
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "other",
		J("{'do':[['shell','id -u > mine; chmod 0 mine'],['progress',1],['hold','%s/go']," ARTIFACT(
			  "mine", "mine") "," ARTIFACT("planted", "planted") ",['complete']]}",
			open_dir));
	peer_event(p, s, "progress");
	snprintf(work, sizeof work, "%s/work/%s/planted", r->state, s);
	file_write(work, "root's");
	snprintf(work, sizeof work, "%s/go", open_dir);
	file_write(work, "");
	struct note *n = peer_completed(p, s);
	must(must_match(n, s, "mine") != NULL && json_array_size(note_at(n, "payload.artifacts")) == 1, "%s",
		n->body);
	must(warnings_of(s) == 1, "%d", warnings_of(s));
	scene_end();
	tree_remove(open_dir);
}
END_TEST

START_TEST(a_reused_process_announces_files_of_its_sessions_directory)
{
	r = rig_new();
	rig_set(r, "capability agent", "reuse", "5");
	rig_start(r);
	p = peer_new(r);
	for (int i = 0; i < 3; i++) {
		const char *s = peer_run(p, "agent",
			J("{'do':[['shell','echo %d > out']," ARTIFACT("out", "out") ",['complete']]}", i));
		struct note *n = peer_completed(p, s);
		char want[8], *got = NULL;

		must(must_match(n, s, "out") != NULL, "%s", n->body);
		snprintf(want, sizeof want, "%d\n", i);
		got = file_read(stored(s, "out"), NULL);
		must_str(got, want);
		free(got);
	}
	scene_end();
}
END_TEST

START_TEST(the_later_file_of_a_name_is_the_one)
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[['shell','echo one > one; echo second > two']," ARTIFACT("a", "one") "," ARTIFACT(
			"b", "one") "," ARTIFACT("a", "two") ",['complete']]}"));
	struct note *n = peer_completed(p, s);
	char *text;

	must(json_array_size(note_at(n, "payload.artifacts")) == 2 && must_match(n, s, "a"), "%s", n->body);
	text = file_read(stored(s, "a"), NULL);
	must_str(text, "second\n");
	free(text);
	scene_end();
}
END_TEST

/* ---- large ones ---- */

#define MAKE_LARGE(mib) "['shell','yes 0123456789 | head -c " #mib "M > large']"
#define MAKE_SLOW "['shell','truncate -s 600M large']" /* made at once; the copy takes a while */

START_TEST(a_large_one_delays_nobody_elses_events) /* proves L4-05 */
{
	double worst = 0, last = 0, from, until;
	int count = 0;

	scene_begin();
	const char *a = peer_run(p, "agent",
		J("{'do':[" MAKE_LARGE(200) ",['progress',1],['hold','%s']," ARTIFACT(
			  "large", "large") ",['emit',{'type':'log','message':'announced'}],['complete']]}",
			rig_path(r, "go")));
	peer_event(p, a, "progress");
	const char *b = peer_run(p, "agent", J("{'do':[['count',100000,0,0.01]]}"));
	wait_until(peer_count(p, b, "event", "progress") > 20, WAIT_S, "the other one's events");
	rig_touch(r, "go");
	from = peer_event(p, a, "log")->at;
	wait_until(peer_find(p, a, "event", "session_closed"), 4 * WAIT_S, "its end");
	until = harness_now();
	struct note *n = peer_completed(p, a);
	must(must_match(n, a, "large") != NULL, "%s", n->body);
	peer_abort(p, b);
	peer_closed(p, b, "ABORTED", NULL);
	for (size_t i = 0; i < p->note_count; i++) {
		const struct note *e = p->notes[i];

		if (strcmp(e->session, b) != 0 || strcmp(e->event, "progress") != 0 || e->at < from ||
			e->at > until)
			continue;
		if (last > 0 && e->at - last > worst)
			worst = e->at - last;
		last = e->at;
		count++;
	}
	printf("200 MiB stored in %.2f s; %d events of another session meanwhile, %.3f s between two at "
	       "most\n",
		until - from, count, worst);
	fflush(stdout);
	must(count > 3 && worst < 1.5 * harness_scale(), "%d events, %.3f s apart", count, worst);
	scene_end();
}
END_TEST

/* Half of it is there. */
static void wait_for_half(const char *s)
{
	wait_until(file_exists(stored(s, ".new")), WAIT_S, "a copy under way");
}

START_TEST(a_daemon_killed_while_it_copies_copies_again) /* proves L4-05 */
{
	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[" MAKE_SLOW ",['shell','echo small > small']," ARTIFACT(
			"large", "large") "," ARTIFACT("small", "small") ",['complete']]}"));
	wait_for_half(s);
	rig_kill(r);
	must(rig_sql(r, "SELECT count(*) FROM artifacts WHERE name = 'large' AND size_bytes IS NULL") == 1,
		"too late");
	rig_start(r);
	wait_until(peer_find(p, s, "event", "session_closed"), 4 * WAIT_S, "its end");
	struct note *n = peer_completed(p, s);
	must(must_match(n, s, "large") != NULL && must_match(n, s, "small") != NULL, "%s", n->body);
	must(!file_exists(stored(s, ".new")), "half of it is left");
	scene_end();
}
END_TEST

START_TEST(a_session_that_goes_on_after_a_crash_keeps_its_artifacts) /* proves L4-05 */
{
	scene_begin();
	/* Announced before the checkpoint, and not again behind it. */
	const char *s = peer_run(p, "agent",
		J("{'do':[['first',['shell','echo small > small']," MAKE_SLOW
		  "," ARTIFACT("small", "small") "," ARTIFACT(
			  "large", "large") ",['checkpoint',{'n':1}]],['hold','%s'],['complete']]}",
			rig_path(r, "go")));
	peer_event(p, s, "checkpoint_created");
	wait_for_half(s);
	rig_kill(r);
	must(rig_sql(r, "SELECT count(*) FROM artifacts WHERE name = 'large' AND size_bytes IS NULL") == 1,
		"too late");
	rig_touch(r, "go");
	rig_start(r);
	wait_until(peer_find(p, s, "event", "session_closed"), 4 * WAIT_S, "its end");
	struct note *n = peer_completed(p, s);
	must(must_match(n, s, "small") != NULL && must_match(n, s, "large") != NULL, "%s", n->body);
	scene_end();
}
END_TEST

START_TEST(an_abort_while_it_copies_is_obeyed_in_time)
{
	scene_begin_with("session", "abort_timeout", "2s");
	const char *s = peer_run(p, "agent",
		J("{'do':[" MAKE_SLOW "," ARTIFACT("large", "large") ",['progress',1],['forever']]}"));
	peer_event(p, s, "progress");
	wait_for_half(s);
	peer_abort(p, s);
	double t = harness_now();
	peer_closed(p, s, "ABORTED", NULL);
	must(harness_now() - t < 2 + 2 * harness_scale(), "%.1f s", harness_now() - t);
	/* It was dropped, or had come in before. */
	must(!file_exists(stored(s, ".new")), "half of it is left");
	must(rig_sql(r, "SELECT count(*) FROM artifacts WHERE size_bytes IS NULL") == 0,
		"a row without a file");
	scene_end();
}
END_TEST

/* ---- a full disk ---- */

START_TEST(a_file_that_has_no_room_costs_a_warning) /* proves L4-05 */
{
	struct rlimit old, limit = {2 << 20, RLIM_INFINITY};

	scene_begin();
	const char *s = peer_run(p, "agent",
		J("{'do':[" MAKE_LARGE(
			  4) ",['shell','echo small > small'],['progress',1],['hold','%s']," ARTIFACT("large",
			  "large") "," ARTIFACT("small", "small") ",['complete']]}",
			rig_path(r, "go")));
	peer_event(p, s, "progress");
	must(prlimit(r->pid, RLIMIT_FSIZE, &limit, &old) == 0, "prlimit");
	rig_touch(r, "go");
	struct note *n = peer_completed(p, s);
	must(json_array_size(note_at(n, "payload.artifacts")) == 1 && must_match(n, s, "small"), "%s",
		n->body);
	must(warnings_of(s) == 1 && !file_exists(stored(s, ".new")) && !file_exists(stored(s, "large")), "%d",
		warnings_of(s));
	scene_end();
}
END_TEST

#define SMALL "/mnt" /* nobody else sees what is mounted there */

START_TEST(a_disk_that_fills_up_with_it_is_given_its_room_back) /* proves L4-05 */
{
	r = rig_new();
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", SMALL, "tmpfs", 0, "size=12m") < 0) {
		printf("skipped: a tmpfs cannot be mounted here (%s)\n", strerror(errno));
		rig_finish(r);
		return;
	}
	snprintf(r->state, sizeof r->state, SMALL "/state");
	snprintf(r->db, sizeof r->db, SMALL "/state/hcpd.db");
	rig_set(r, "daemon", "state_dir", "%s", r->state);
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent",
		J("{'do':[" MAKE_LARGE(7) "," ARTIFACT(
			"large", "large") ",['shell','echo small > small']," ARTIFACT("small",
			"small") ",['complete']]}"));
	struct note *n = peer_completed(p, s);
	must(json_array_size(note_at(n, "payload.artifacts")) == 1 && must_match(n, s, "small"), "%s",
		n->body);
	struct note *warning = peer_find(p, s, "event", "warning");
	must(warning && strstr(warning->body, "No space left"), "%s", warning ? warning->body : "no warning");
	must(!file_exists(stored(s, ".new")), "half of it is left");
	peer_completed(p, peer_run(p, "agent", NULL));
	scene_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("artifacts");

	suite_test(s, a_file_that_is_announced_is_kept_when_its_directory_is_gone, 60);
	suite_test(s, a_failed_task_names_its_artifacts, 60);
	suite_test(s, every_trick_costs_a_warning_and_no_more, 60);
	suite_test(s, a_worker_of_another_user_hands_out_only_what_is_its_own, 60);
	suite_test(s, a_reused_process_announces_files_of_its_sessions_directory, 60);
	suite_test(s, the_later_file_of_a_name_is_the_one, 60);
	suite_test(s, a_large_one_delays_nobody_elses_events, 150);
	suite_test(s, a_daemon_killed_while_it_copies_copies_again, 150);
	suite_test(s, a_session_that_goes_on_after_a_crash_keeps_its_artifacts, 90);
	suite_test(s, an_abort_while_it_copies_is_obeyed_in_time, 90);
	suite_test(s, a_file_that_has_no_room_costs_a_warning, 60);
	suite_test(s, a_disk_that_fills_up_with_it_is_given_its_room_back, 60);
	return harness_run(s, false);
}
