/* SPDX-License-Identifier: MIT */
/* test_hcpctl_artifact.c: artifacts fetched by people: from the disk, through the daemon, whole or not
 * at all. */
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>

#include "support/hcpctl_kit.h"

#define HELLO "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

static char here[300]; /* where files are fetched to */

/* A session that kept two files. */
static const char *keep_some(void)
{
	const char *inputs = rig_path(r, "inputs.json");

	file_write(inputs,
		"{\"do\":[[\"shell\",\"printf hello > hello; seq 1000000 | head -c 3000000 > noise\"],"
		"[\"emit\",{\"type\":\"artifact\",\"name\":\"hello.txt\",\"path\":\"hello\",\"mime\":\"text/"
		"plain\"}],"
		"[\"emit\",{\"type\":\"artifact\",\"name\":\"big "
		"noise\",\"path\":\"noise\"}],[\"complete\"]]}");
	struct ctl_run run = ctl_start("submit", "agent", "--inputs", inputs, "--json", NULL);
	ctl_finish(&run, 0);
	snprintf(here, sizeof here, "%s", rig_path(r, "here"));
	mkdir(here, 0777);
	return ctl_session_of(run.out);
}

static const char *in_here(const char *name)
{
	return rig_path(r, "here/%s", name);
}

/* `cd here` is not hcpctl's affair: paths are given. */
static struct ctl_run artifact(
	const char *a, const char *b, const char *c, const char *d, const char *e, const char *f)
{
	return ctl_start("artifact", "--daemon-config", r->ini, a, b, c, d, e, f, NULL);
}

static void must_be_empty(void)
{
	must(rmdir(here) == 0, "something was left in %s: %s", here, strerror(errno));
	mkdir(here, 0777);
}

START_TEST(artifacts_are_listed) /* proves L4-05 */
{
	ctl_begin();
	const char *s = keep_some();
	struct ctl_run run = artifact("list", ctl_short_id(s), NULL, NULL, NULL, NULL);

	ctl_finish(&run, 0);
	ctl_must_have(run.out, "hello.txt");
	ctl_must_have(run.out, "text/plain");
	ctl_must_have(run.out, HELLO);
	ctl_must_have(run.out, "big noise");
	run = artifact("list", s, "--json", NULL, NULL, NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "\"size_bytes\":5");
	ctl_must_have(run.out, "/artifacts/big%20noise\"");
	ctl_end();
}
END_TEST

static void fetch_all(const char *s, bool daemon_is_down)
{
	char there[900];
	struct ctl_run run = artifact("get", ctl_short_id(s), "hello.txt", "-o", in_here("x"), NULL);

	ctl_finish(&run, 0);
	must_str(ctl_text_of(in_here("x")), "hello");
	ctl_must_have(run.err, HELLO);
	if (daemon_is_down)
		ctl_must_have(run.err, "not running");
	run = artifact("get", s, "big noise", "-o", in_here("noise"), NULL);
	ctl_finish(&run, 0);
	snprintf(there, sizeof there, "cmp '%s' '%s/artifacts/%s/big noise'", in_here("noise"), r->state, s);
	must(system(there) == 0, "%s", there);
	run = artifact("get", s, "hello.txt", "-o", "-", NULL);
	ctl_finish(&run, 0);
	must_str(ctl_text_of(run.out), "hello");
	unlink(in_here("x"));
	unlink(in_here("noise"));
	must_be_empty();
}

START_TEST(an_artifact_is_fetched_whether_the_daemon_runs_or_not) /* proves L4-05 */
{
	ctl_begin();
	const char *s = keep_some();

	fetch_all(s, false);
	rig_stop(r);
	fetch_all(s, true);
	ctl_end();
}
END_TEST

START_TEST(a_file_that_is_there_is_not_replaced_unless_told)
{
	ctl_begin();
	const char *s = keep_some();
	struct stat st;
	struct ctl_run run;

	file_write(in_here("x"), "mine");
	run = artifact("get", s, "hello.txt", "-o", in_here("x"), NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "--force");
	must_str(ctl_text_of(in_here("x")), "mine");
	run = artifact("get", s, "hello.txt", "-o", in_here("x"), "--force");
	ctl_finish(&run, 0);
	must_str(ctl_text_of(in_here("x")), "hello");
	run = artifact("get", s, "hello.txt", "-o", here, NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "directory");
	unlink(in_here("x"));
	must(mkfifo(in_here("x"), 0600) == 0, "a FIFO");
	/* /dev/null would go the same way */
	run = artifact("get", s, "hello.txt", "-o", in_here("x"), "--force");
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "no plain file");
	must(lstat(in_here("x"), &st) == 0 && S_ISFIFO(st.st_mode), "it is still one");
	unlink(in_here("x"));
	must_be_empty();
	ctl_end();
}
END_TEST

START_TEST(damaged_artifact_is_not_taken_for_the_artifact) /* proves L4-05 */
{
	char path[900];

	ctl_begin();
	const char *s = keep_some();
	snprintf(path, sizeof path, "%s/artifacts/%s/hello.txt", r->state, s);
	must(chmod(path, 0600) == 0, "%s", path);
	file_write(path, "hellx");
	struct ctl_run run = artifact("get", s, "hello.txt", "-o", in_here("x"), NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "should have");
	must_be_empty();
	run = artifact("get", s, "hello.txt", "-o", "-", NULL);
	ctl_finish(&run, 1);
	ctl_end();
}
END_TEST

START_TEST(artifact_that_is_absent_is_named_with_those_present)
{
	ctl_begin();
	const char *s = keep_some();
	struct ctl_run run = artifact("get", s, "none", "-o", in_here("x"), NULL);

	ctl_finish(&run, 1);
	ctl_must_have(run.err, "hello.txt");
	run = artifact("get", s, "../../hcpd.db", "-o", in_here("x"), NULL);
	ctl_finish(&run, 1);
	must_be_empty();
	run = artifact("get", s, NULL, NULL, NULL, NULL);
	ctl_finish(&run, 64);
	run = artifact("list", NULL, NULL, NULL, NULL, NULL);
	ctl_finish(&run, 64);
	run = artifact("fetch", s, NULL, NULL, NULL, NULL);
	ctl_finish(&run, 64);
	ctl_end();
}
END_TEST

/* Somebody who cannot read the state directory, and is in the group that may use the socket. */
START_TEST(a_member_of_the_group_fetches_it_through_the_daemon) /* proves L4-05 */
{
	char open_dir[] = "/tmp/hcp-ctl-artifact-XXXXXX", command[1200], to[300], socket[300];

	if (geteuid() != 0 || !getgrnam("games") || !getpwnam("nobody") ||
		system("command -v setpriv >/dev/null") != 0) {
		printf("skipped: only root can be somebody else\n");
		return;
	}
	must(mkdtemp(open_dir) && chmod(open_dir, 0777) == 0, "%s", strerror(errno));
	ctl_begin_on(broker_shared(), false);
	snprintf(socket, sizeof socket, "%s/socket", open_dir);
	rig_set(r, "control", "socket", "%s", socket);
	rig_set(r, "control", "group", "games");
	rig_start(r);
	const char *s = keep_some();
	snprintf(command, sizeof command, "cp %s %s/hcpctl && chmod 755 %s/hcpctl", ctl_program(), open_dir,
		open_dir);
	must(system(command) == 0, "%s", command);
	snprintf(to, sizeof to, "%s/noise", open_dir);
	snprintf(command, sizeof command,
		"HOME=%s setpriv --reuid=nobody --regid=nogroup --groups=%u %s/hcpctl artifact get --socket "
		"%s %s 'big noise' -o %s"
		" 2>'%s'",
		open_dir, (unsigned)getgrnam("games")->gr_gid, open_dir, socket, s, to, rig_path(r, "err"));
	int status = system(command);
	must(status == 0, "%d: %s", status, ctl_text_of(rig_path(r, "err")));
	snprintf(command, sizeof command, "cmp '%s' '%s/artifacts/%s/big noise'", to, r->state, s);
	must(system(command) == 0, "%s", command);
	ctl_end();
	tree_remove(open_dir);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hcpctl_artifact");

	suite_test(s, artifacts_are_listed, 60);
	suite_test(s, an_artifact_is_fetched_whether_the_daemon_runs_or_not, 60);
	suite_test(s, a_file_that_is_there_is_not_replaced_unless_told, 60);
	suite_test(s, damaged_artifact_is_not_taken_for_the_artifact, 60);
	suite_test(s, artifact_that_is_absent_is_named_with_those_present, 60);
	suite_test(s, a_member_of_the_group_fetches_it_through_the_daemon, 60);
	return harness_run(s, false);
}
