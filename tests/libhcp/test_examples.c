/* SPDX-License-Identifier: MIT */
/* test_examples.c: the two examples of the documentation, built as an application would be, against the
 * real daemon. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"
#include "support/rig.h"

static struct rig *r;

static void begin(void)
{
	r = rig_new();
	kit_begin();
	rig_text(r, "echo", "echo \"you said $HCP_INTENT\"");
	rig_start(r);
}

static void end(const char *caller)
{
	char queue[200];

	snprintf(queue, sizeof queue, "hcp.evt.%s", caller);
	wire_delete_queue(r->broker, queue);
	rig_finish(r);
	kit_end();
}

static pid_t start(const char *name, char *const *words, const char *out)
{
	const char *build = getenv("HCP_BUILD");
	char program[600];
	pid_t pid;

	snprintf(program, sizeof program, "%s/libhcp/example_%s", build ? build : "build", name);
	pid = fork();
	if (pid == 0) {
		int fd = open(out, O_WRONLY | O_CREAT | O_APPEND, 0600);

		dup2(fd, 1);
		dup2(fd, 2);
		if (chdir(kit_path("")) == 0)
			execv(program, words);
		_exit(127);
	}
	return pid;
}

static int finish(pid_t pid, const char *out)
{
	int status = -1;
	char *text;

	wait_until(waitpid(pid, &status, WNOHANG) == pid, WAIT_S, "its end: %s", file_read(out, NULL));
	text = file_read(out, NULL);
	fprintf(stderr, "%s\n", text ? text : "");
	free(text);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define word(text) ((char *)(uintptr_t)(text))

START_TEST(the_blocking_example_follows_a_task_to_its_end)
{
	const char *out = kit_path("out");
	char *text;

	begin();
	out = kit_path("out");
	char *words[] = {word("submit"), word(r->broker->url), word("ex-submit"), r->callee, word("echo"),
		word("{\"text\":\"hello\"}"), NULL};
	must(finish(start("submit", words, out), out) == 0, "it failed");
	text = file_read(out, NULL);
	must(strstr(text, "task_accepted") && strstr(text, "event session_created") &&
			strstr(text, "task_completed") && strstr(text, "you said run echo") &&
			strstr(text, "event session_closed"),
		"%s", text);
	free(text);
	/* A daemon that is not there, and a capability that is none. */
	words[4] = word("none-such");
	must(finish(start("submit", words, out), out) == 1, "it succeeded");
	words[3] = word("nobody");
	must(finish(start("submit", words, out), out) == 1, "it succeeded");
	text = file_read(out, NULL);
	must(strstr(text, "task_rejected") && strstr(text, "no daemon listens as nobody"), "%s", text);
	free(text);
	end("ex-submit");
}
END_TEST

START_TEST(the_libev_example_collects_each_result_once) /* proves L1-18 */
{
	const char *out, *db;
	struct app reader = {0};
	pid_t pid;

	begin();
	out = kit_path("out");
	db = kit_path("collect.db");
	char *words[] = {word("collect"), word(r->broker->url), word("ex-collect"), r->callee, word(db),
		word("12"), NULL};
	snprintf(reader.file, sizeof reader.file, "%s", db);
	must(finish(start("collect", words, out), out) == 0, "it failed");
	must(app_sql(&reader,
		     "SELECT count(*) FROM results WHERE what = 'completed' AND text LIKE '%%you said run "
		     "echo%%'") == 12,
		"%s", file_read(out, NULL));
	must(app_sql(&reader, "SELECT count(DISTINCT session_id) FROM results") == 12, "each once");
	/* Killed in the middle and started again: the rest comes, and nothing twice. */
	words[5] = word("30");
	pid = start("collect", words, out);
	wait_until(app_sql(&reader, "SELECT count(*) FROM results") > 15, WAIT_S, "some");
	kill(pid, SIGKILL);
	finish(pid, out);
	/* It ends with the first end that it sees, and that may be one of those before. */
	words[5] = word("1");
	for (int i = 0; i < 40 &&
		app_sql(&reader,
			"SELECT (SELECT count(*) FROM hcp_outbox) +"
			" (SELECT count(*) FROM hcp_sessions WHERE NOT closed)") > 0;
		i++)
		must(finish(start("collect", words, out), out) == 0, "it failed");
	must(app_sql(&reader, "SELECT count(*) FROM results") >= 42, "all of them");
	must(app_sql(&reader, "SELECT count(*) FROM results") ==
			app_sql(&reader, "SELECT count(DISTINCT session_id) FROM results"),
		"each once");
	end("ex-collect");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("libhcp examples");

	suite_test(s, the_blocking_example_follows_a_task_to_its_end, 90);
	suite_test(s, the_libev_example_collects_each_result_once, 120);
	return harness_run(s, false);
}
