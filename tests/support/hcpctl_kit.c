/* SPDX-License-Identifier: MIT */
/* hcpctl_kit.c: what hcpctl_kit.h declares. */
#include "support/hcpctl_kit.h"

char ctl_caller[64];

const char *ctl_program(void)
{
	static char path[600];
	const char *build = getenv("HCP_BUILD");

	snprintf(path, sizeof path, "%s/hcpctl", build ? build : "build");
	return path[0] == '/' ? path : source_path(path);
}

static void ctl_write_number(const char *path, int number)
{
	char text[16], aside[320];

	snprintf(aside, sizeof aside, "%s.new", path);
	snprintf(text, sizeof text, "%d", number);
	file_write(aside, text);
	rename(aside, path);
}

void ctl_set_environment(void)
{
	setenv("XDG_CONFIG_HOME", rig_path(r, "home"), 1);
	setenv("HCP_URL", r->broker->url, 1);
	setenv("HCP_CALLER", ctl_caller, 1);
	setenv("HCP_CALLEE", r->callee, 1);
	setenv("TZ", "UTC", 1);
	setenv("TERM", "xterm", 1);
}

static void __attribute__((noreturn))
ctl_become_hcpctl(const struct ctl_run *run, char **words, bool on_terminal)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	if (!on_terminal) {
		dup2(open("/dev/null", O_RDONLY), 0);
		dup2(open(run->out, O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
		dup2(open(run->err, O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
	}
	execv(ctl_program(), words);
	_exit(127);
}

/* Copies what the terminal shows into a file and types the keys when their time has come. */
static void ctl_serve_terminal(const struct ctl_run *run, int fd, const struct ctl_key *keys)
{
	char bytes[4096], *shown;
	size_t from = 0;
	int out = open(run->out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ssize_t got;

	while ((got = read(fd, bytes, sizeof bytes)) > 0) {
		if (write(out, bytes, (size_t)got) != got)
			break;
		shown = file_read(run->out, NULL);
		while (keys && keys->shown) {
			char *at = strstr(shown + from, keys->shown);

			if (!at || write(fd, keys->typed, strlen(keys->typed)) < 0)
				break;
			from = (size_t)(at - shown) + strlen(keys->shown);
			keys++;
		}
		free(shown);
	}
	close(out);
}

static void __attribute__((noreturn))
ctl_stand_between(const struct ctl_run *run, char **words, const struct ctl_key *keys)
{
	struct winsize size = {.ws_row = 25, .ws_col = 100};
	int status, fd = -1;
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, SIG_DFL);
	ctl_set_environment();
	pid = keys ? forkpty(&fd, NULL, NULL, &size) : fork();
	if (pid == 0)
		ctl_become_hcpctl(run, words, keys != NULL);
	ctl_write_number(run->pid, pid);
	if (keys)
		ctl_serve_terminal(run, fd, keys);
	waitpid(pid, &status, 0);
	ctl_write_number(run->rc, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	_exit(0);
}

static struct ctl_run ctl_start_with(const struct ctl_key *keys, const char *first, va_list ap)
{
	static int count;
	struct ctl_run run;
	char *words[WORDS_MAX] = {strdup("hcpctl")};
	int n = 1;

	for (const char *word = first; word; word = va_arg(ap, const char *)) {
		must(n < WORDS_MAX - 1, "too many words");
		words[n++] = strdup(word);
	}
	count++;
	snprintf(run.out, sizeof run.out, "%s", rig_path(r, "ctl-%d.out", count));
	snprintf(run.err, sizeof run.err, "%s", rig_path(r, "ctl-%d.err", count));
	snprintf(run.rc, sizeof run.rc, "%s", rig_path(r, "ctl-%d.rc", count));
	snprintf(run.pid, sizeof run.pid, "%s", rig_path(r, "ctl-%d.pid", count));
	fflush(NULL);
	pid_t pid = fork();
	must(pid >= 0, "fork: %s", strerror(errno));
	if (pid == 0)
		ctl_stand_between(&run, words, keys);
	while (n > 0)
		free(words[--n]);
	return run;
}

struct ctl_run ctl_start(const char *first, ...)
{
	va_list ap;

	va_start(ap, first);
	struct ctl_run run = ctl_start_with(NULL, first, ap);
	va_end(ap);
	return run;
}

struct ctl_run ctl_start_on_terminal(const struct ctl_key *keys, const char *first, ...)
{
	va_list ap;

	va_start(ap, first);
	struct ctl_run run = ctl_start_with(keys, first, ap);
	va_end(ap);
	return run;
}

const char *ctl_text_of(const char *path)
{
	static char *texts[16];
	static int turn;
	char **at = &texts[turn++ % 16];

	free(*at);
	*at = file_read(path, NULL);
	return *at ? *at : "";
}

void ctl_finish(struct ctl_run *run, int status)
{
	wait_until(file_exists(run->rc), WAIT_S, "hcpctl's end; it said: %s %s", ctl_text_of(run->out),
		ctl_text_of(run->err));
	must(atoi(ctl_text_of(run->rc)) == status, "status %s, not %d: %s %s", ctl_text_of(run->rc), status,
		ctl_text_of(run->out), ctl_text_of(run->err));
}

void ctl_must_have(const char *path, const char *text)
{
	must(strstr(ctl_text_of(path), text), "no \"%s\" in: %s", text, ctl_text_of(path));
}

void ctl_wait_for(const char *path, const char *text)
{
	wait_until(strstr(ctl_text_of(path), text), WAIT_S, "\"%s\" in: %s", text, ctl_text_of(path));
}

void ctl_signal_run(struct ctl_run *run, int number)
{
	wait_until(file_exists(run->pid), WAIT_S, "its pid");
	kill(atoi(ctl_text_of(run->pid)), number);
}

/* --- what else the tests look at --- */

const char *ctl_session_of(const char *path)
{
	static char id[4][37];
	static int turn;
	char *to = id[turn++ % 4];
	const char *at = strstr(ctl_text_of(path), "session ");
	const char *json = strstr(ctl_text_of(path), "\"session_id\":\"");

	must(at || json, "no session in: %s", ctl_text_of(path));
	snprintf(to, 37, "%s", json ? json + 14 : at + 8);
	return to;
}

const char *ctl_short_id(const char *id)
{
	static char text[9];

	snprintf(text, sizeof text, "%.8s", id);
	return text;
}

const char *ctl_ask_broker(const char *expression)
{
	static char answer[600];
	char command[2048];
	FILE *f;

	snprintf(command, sizeof command, "%s eval %s '%s'", source_path("scripts/broker"), r->broker->dir,
		expression);
	f = popen(command, "r");
	must(f && fgets(answer, sizeof answer, f), "no answer to %s", command);
	pclose(f);
	return answer;
}

int ctl_count_queues(void)
{
	char expression[600];
	const char *answer, *at;

	snprintf(expression, sizeof expression,
		"length([Q || Q <- rabbit_amqqueue:list(), string:prefix(element(4, amqqueue:get_name(Q)), "
		"<<\"hcp.evt.%s.\">>) =/= nomatch]).",
		ctl_caller);
	answer = ctl_ask_broker(expression);
	at = strstr(answer, "ok, ");
	must(at, "%s", answer);
	return atoi(at + 4);
}

const char *ctl_sessions_file(void)
{
	return ctl_text_of(rig_path(r, "home/hcp/sessions.json"));
}

bool ctl_is_consumed(const char *instance)
{
	char queue[200];
	int messages, consumers;

	snprintf(queue, sizeof queue, "hcp.evt.%s.%s", ctl_caller, instance);
	return queue_look(r->broker, queue, &messages, &consumers) && consumers > 0;
}

/* --- the frame --- */

void ctl_begin_on(const struct broker *b, bool with_daemon)
{
	static int count;

	r = rig_new_on(b);
	snprintf(ctl_caller, sizeof ctl_caller, "ctl-%d-%d", getpid(), ++count);
	if (with_daemon)
		rig_start(r);
}

void ctl_begin(void)
{
	ctl_begin_on(broker_shared(), true);
}

void ctl_end(void)
{
	rig_finish(r);
}
