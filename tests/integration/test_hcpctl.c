/* test_hcpctl.c: hcpctl as a user has it: against a daemon and a broker, in a pipe and on a terminal. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "judge.h"
#include "peer.h"
#include "rig.h"
#include "wire.h"

#define WORDS_MAX 24

static struct rig *r;
static char caller[64];

/* --- one run of hcpctl ---
 * A process of ours stands between: it waits for hcpctl and writes its status into a file, because the
 * harness reaps whatever child it finds. */

struct run {
	char out[300], err[300], rc[300], pid[300];
};

struct key {                            /* on a terminal: when this was shown, type that */
	const char *shown, *typed;
};

static const char *program(void)
{
	static char path[600];
	const char *build = getenv("HCP_BUILD");

	snprintf(path, sizeof path, "%s/hcpctl", build ? build : "build");
	return path[0] == '/' ? path : source_path(path);
}

static void write_number(const char *path, int number)
{
	char text[16], aside[320];

	snprintf(aside, sizeof aside, "%s.new", path);
	snprintf(text, sizeof text, "%d", number);
	file_write(aside, text);
	rename(aside, path);
}

static void set_environment(void)
{
	setenv("XDG_CONFIG_HOME", rig_path(r, "home"), 1);
	setenv("HCP_URL", r->broker->url, 1);
	setenv("HCP_CALLER", caller, 1);
	setenv("HCP_CALLEE", r->callee, 1);
	setenv("TZ", "UTC", 1);
	setenv("TERM", "xterm", 1);
}

static void __attribute__((noreturn)) become_hcpctl(const struct run *run, char **words, bool on_terminal)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	if (!on_terminal) {
		dup2(open("/dev/null", O_RDONLY), 0);
		dup2(open(run->out, O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
		dup2(open(run->err, O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
	}
	execv(program(), words);
	_exit(127);
}

/* Copies what the terminal shows into a file and types the keys when their time has come. */
static void serve_terminal(const struct run *run, int fd, const struct key *keys)
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

static void __attribute__((noreturn)) stand_between(const struct run *run, char **words, const struct key *keys)
{
	struct winsize size = { .ws_row = 25, .ws_col = 100 };
	int status, fd = -1;
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, SIG_DFL);
	set_environment();
	pid = keys ? forkpty(&fd, NULL, NULL, &size) : fork();
	if (pid == 0)
		become_hcpctl(run, words, keys != NULL);
	write_number(run->pid, pid);
	if (keys)
		serve_terminal(run, fd, keys);
	waitpid(pid, &status, 0);
	write_number(run->rc, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	_exit(0);
}

static struct run start_with(const struct key *keys, const char *first, va_list ap)
{
	static int count;
	struct run run;
	char *words[WORDS_MAX] = { strdup("hcpctl") };
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
		stand_between(&run, words, keys);
	while (n > 0)
		free(words[--n]);
	return run;
}

static struct run start(const char *first, ...)
{
	va_list ap;

	va_start(ap, first);
	struct run run = start_with(NULL, first, ap);
	va_end(ap);
	return run;
}

static struct run start_on_terminal(const struct key *keys, const char *first, ...)
{
	va_list ap;

	va_start(ap, first);
	struct run run = start_with(keys, first, ap);
	va_end(ap);
	return run;
}

/* The text of a file so far; the last few live at the same time. */
static const char *text_of(const char *path)
{
	static char *texts[16];
	static int turn;
	char **at = &texts[turn++ % 16];

	free(*at);
	*at = file_read(path, NULL);
	return *at ? *at : "";
}

static void finish(struct run *run, int status)
{
	wait_until(file_exists(run->rc), WAIT_S, "hcpctl's end; it said: %s %s", text_of(run->out),
		text_of(run->err));
	must(atoi(text_of(run->rc)) == status, "status %s, not %d: %s %s", text_of(run->rc), status,
		text_of(run->out),
		text_of(run->err));
}

static void must_have(const char *path, const char *text)
{
	must(strstr(text_of(path), text), "no \"%s\" in: %s", text, text_of(path));
}

static void wait_for(const char *path, const char *text)
{
	wait_until(strstr(text_of(path), text), WAIT_S, "\"%s\" in: %s", text, text_of(path));
}

static void signal_run(struct run *run, int number)
{
	wait_until(file_exists(run->pid), WAIT_S, "its pid");
	kill(atoi(text_of(run->pid)), number);
}

/* --- what else the tests look at --- */

/* The session_id in the `accepted` line, or in the first body. */
static const char *session_of(const char *path)
{
	static char id[4][37];
	static int turn;
	char *to = id[turn++ % 4];
	const char *at = strstr(text_of(path), "session ");
	const char *json = strstr(text_of(path), "\"session_id\":\"");

	must(at || json, "no session in: %s", text_of(path));
	snprintf(to, 37, "%s", json ? json + 14 : at + 8);
	return to;
}

static const char *short_id(const char *id)
{
	static char text[9];

	snprintf(text, sizeof text, "%.8s", id);
	return text;
}

/* One line of what the broker says about queues that begin with a name. */
static const char *ask_broker(const char *expression)
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

static int count_queues(void)
{
	char expression[600];
	const char *answer, *at;

	snprintf(expression, sizeof expression,
		"length([Q || Q <- rabbit_amqqueue:list(), string:prefix(element(4, amqqueue:get_name(Q)), "
		"<<\"hcp.evt.%s.\">>) =/= nomatch]).", caller);
	answer = ask_broker(expression);
	at = strstr(answer, "ok, ");
	must(at, "%s", answer);
	return atoi(at + 4);
}

static const char *sessions_file(void)
{
	return text_of(rig_path(r, "home/hcp/sessions.json"));
}

static bool is_consumed(const char *instance)
{
	char queue[200];
	int messages, consumers;

	snprintf(queue, sizeof queue, "hcp.evt.%s.%s", caller, instance);
	return queue_look(r->broker, queue, &messages, &consumers) && consumers > 0;
}

/* --- the frame --- */

static void begin_on(const struct broker *b, bool with_daemon)
{
	static int count;

	r = rig_new_on(b);
	snprintf(caller, sizeof caller, "ctl-%d-%d", getpid(), ++count);
	if (with_daemon)
		rig_start(r);
}

static void begin(void)
{
	begin_on(broker_shared(), true);
}

static void end(void)
{
	rig_finish(r);
}

/* --- submit --- */

START_TEST(a_submit_shows_the_events_and_the_result_and_ends_with_the_state)
{
	begin();
	struct run good = start("submit", "agent", "--intent", "a test", "--input",
		"do=[[\"progress\",2],[\"checkpoint\",{}],[\"complete\",{\"answer\":42}]]", NULL);
	finish(&good, 0);
	must_have(good.out, " accepted   session ");
	must_have(good.out, " PENDING    risk R2\n");
	must_have(good.out, " RUNNING    was PENDING");
	must_have(good.out, " progress   100% work: event 2\n");
	must_have(good.out, " checkpoint a checkpoint (");
	must_have(good.out, " COMPLETED  session closed: completed\n{\n  \"answer\": 42\n}\n");
	must(!strchr(text_of(good.out), '\033') && !strchr(text_of(good.out), '\r'),
		"no terminal, so no colour and no bar");
	must_str(text_of(good.err), "");

	struct run bad = start("submit", "agent", "--input",
		"do=[[\"failing\",{\"error_code\":\"input_error\",\"error_message\":\"no salt\"}]]", NULL);
	finish(&bad, 2);
	must_have(bad.out, " FAILED     input_error: no salt\n");

	struct run refused = start("submit", "nonsense", NULL);
	finish(&refused, 3);
	must_have(refused.out, " REJECTED   unknown_capability: ");
	must_str(sessions_file(), "{}");
	must(count_queues() == 0, "a queue is left: %d", count_queues());
	end();
}
END_TEST

START_TEST(what_is_on_the_command_line_reaches_the_worker)
{
	begin();
	file_write(rig_path(r, "inputs.json"), "{ \"do\": [[\"dump\"]], \"n\": 1.10, \"o\": {\"a\": 1} }");
	struct run run = start("submit", "agent", "--json", "--intent", "why \"not\"", "--inputs", rig_path(r,
		"inputs.json"), "--input", "o.b=x",
		"--max-duration", "90s", "--priority", "high", "--data-class", "T2", "--context", "purpose=test", "--capability-version",
		"^1.0", NULL);
	finish(&run, 0);
	const char *line = strstr(text_of(run.out), "\"type\":\"task_completed\"");
	must(line, "%s", text_of(run.out));
	while (line[-1] != '\n')
		line--;
	json_t *root = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL), *task = json_at(root,
		"payload.outputs.start.task");
	must_str(json_text_at(task, "intent"), "why \"not\"");
	json_t *inputs = J("{'do':[['dump']],'n':1.10,'o':{'a':1,'b':'x'}}");
	must(json_equal(json_at(task, "inputs"), inputs), "%s", line);
	json_decref(inputs);
	must_str(json_text_at(task, "constraints.max_duration"), "PT1M30S");
	must_str(json_text_at(task, "constraints.priority"), "high");
	must_str(json_text_at(task, "constraints.data_classification"), "T2");
	must_str(json_text_at(task, "context.purpose"), "test");
	must_str(json_text_at(task, "capability_version"), "^1.0");
	must_str(json_text_at(task, "caller_id"), caller);
	json_decref(root);
	end();
}
END_TEST

START_TEST(json_is_what_was_received_and_an_application_gets_it_too)
{
	begin();
	struct peer *p = peer_named(r, caller); /* on hcp.evt.{caller}, as an application would be */
	struct run run = start("submit", "agent", "--json", "--input",
		"do=[[\"progress\",20],[\"complete\",{\"n\":1}]]", NULL);
	finish(&run, 0);
	const char *s = session_of(run.out);
	peer_completed(p, s);
	char *want = calloc(1, 1 << 20);
	for (size_t i = 0; i < p->note_count; i++) {
		strcat(want, p->notes[i]->body);
		strcat(want, "\n");
	}
	must_str(text_of(run.out), want);
	must_str(text_of(run.err), "");
	free(want);
	peer_finish(p);
	end();
}
END_TEST

START_TEST(nothing_that_a_worker_says_reaches_the_terminal_as_a_command)
{
	begin();
	struct run run = start("submit", "agent", "--input",
		"do=[[\"emit\",{\"type\":\"log\",\"level\":\"info\",\"message\":\"a\\u001b[2Jb\\nc\"}],"
		"[\"stderr\",\"d\\u0007e\"],[\"complete\",{\"x\":\"\\u001b[0m\"}]]", NULL);
	finish(&run, 0);
	must(!strpbrk(text_of(run.out), "\033\007"), "%s", text_of(run.out));
	must_have(run.out, "a\\x1b[2Jb\\nc\n");
	must_have(run.out, "d\\x07e\n");
	end();
}
END_TEST

START_TEST(the_log_ins_user_name_goes_with_every_command)
{
	begin_on(broker_shared(), false);
	char section[100];
	snprintf(section, sizeof section, "caller %s", caller);
	rig_set(r, section, "capabilities", "*");
	rig_set(r, section, "amqp_user", "guest");
	rig_start(r);
	struct run run = start("submit", "agent", "--detach", "--input", "do=[[\"forever\"]]", NULL);
	finish(&run, 0);
	const char *s = session_of(run.out);
	/* Without a token only the user name speaks for us. */
	tree_remove(rig_path(r, "home/hcp"));
	struct run aborted = start("abort", s, NULL);
	finish(&aborted, 0);
	must_have(aborted.out, "no token is known here");
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE session_id = '%s' AND state = 'ABORTED'",
		s) == 1, WAIT_S, "the abort");
	end();
}
END_TEST

/* --- answers that do not come --- */

START_TEST(a_callee_that_is_nowhere_is_told_at_once)
{
	begin();
	struct run run = start("submit", "agent", "--callee", "nobody-at-all", NULL);
	finish(&run, 5);
	must_str(text_of(run.err),
		"hcpctl: no callee named nobody-at-all listens (queue hcp.cmd.nobody-at-all does not exist); is hcpd running?\n");
	must_str(text_of(run.out), "");
	end();
}
END_TEST

START_TEST(an_unanswered_submit_is_sent_again_and_given_up_in_time)
{
	size_t sizes[3];
	char *bodies[3];

	begin_on(broker_shared(), false);
	wire_make_queue(r->broker, r->queue, "", "hcp.commands", r->callee);
	struct run run = start("submit", "agent", "--retry", "300ms", "--timeout", "1.5s", NULL);
	finish(&run, 5);
	must_have(run.err, "no answer from ");
	for (int i = 0; i < 3; i++)     /* at 0, 0.3 and 0.9 s */
		must((bodies[i] = wire_get(r->broker, r->queue, &sizes[i])), "message %d", i);
	must(!wire_get(r->broker, r->queue, &sizes[0]), "sent too often");
	must_str(bodies[1], bodies[0]);
	must_str(bodies[2], bodies[0]);
	for (int i = 0; i < 3; i++)
		free(bodies[i]);
	wire_delete_queue(r->broker, r->queue);
	must(count_queues() == 0, "a queue is left");
	end();
}
END_TEST

START_TEST(a_daemon_that_comes_late_runs_the_task_once)
{
	begin_on(broker_shared(), false);
	rig_start(r);
	rig_stop(r);                    /* its queue is there now */
	struct run run = start("submit", "agent", "--retry", "100ms", "--input", "do=[[\"complete\",{}]]", NULL);
	int messages = 0, consumers;
	wait_until(queue_look(r->broker, r->queue, &messages, &consumers) && messages >= 3, WAIT_S, "repeats");
	rig_start(r);
	finish(&run, 0);
	must(strstr(strstr(text_of(run.out), " accepted ") + 1, " accepted ") == NULL, "shown twice: %s",
		text_of(run.out));
	must(rig_sql(r, "SELECT count(*) FROM sessions") == 1, "more than one session");
	end();
}
END_TEST

/* --- leaving and coming back --- */

static int check_sequences(const char *path, int from)
{
	for (const char *at = text_of(path); (at = strstr(at, "\"sequence\":")); at++)
		must(atoi(at + 11) == ++from, "%d is due in: %s", from, text_of(path));
	return from;
}

START_TEST(a_detached_session_is_watched_later_without_a_gap)
{
	begin();
	char input[400];
	snprintf(input, sizeof input,
		"do=[[\"progress\",5],[\"hold\",\"%s\"],[\"progress\",5],[\"complete\",{\"n\":1}]]", rig_path(r, "go"));
	struct run first = start("submit", "agent", "--json", "--detach", "--input", input, NULL);
	finish(&first, 0);
	must_have(first.err, " goes on; see it: hcpctl watch ");
	const char *s = session_of(first.out);
	must(strstr(sessions_file(), s), "not kept: %s", sessions_file());
	int seen = check_sequences(first.out, 0);
	must(seen >= 1, "session_created comes with the answer: %s", text_of(first.out));

	struct run second = start("watch", "--json", short_id(s), NULL);
	wait_until(is_consumed(s), WAIT_S, "the watch");
	signal_run(&second, SIGINT);
	finish(&second, 130);
	rig_touch(r, "go");
	wait_until(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'COMPLETED'") == 1, WAIT_S, "its end");

	struct run third = start("watch", "--json", short_id(s), NULL);
	finish(&third, 0);
	seen = check_sequences(second.out, seen);
	seen = check_sequences(third.out, seen);
	must(seen == rig_sql(r, "SELECT max(sequence) FROM events"), "only %d", seen);
	must_have(third.out, "\"type\":\"task_completed\"");
	must_str(sessions_file(), "{}");
	must(count_queues() == 0, "a queue is left");
	end();
}
END_TEST

START_TEST(ctrl_c_without_a_terminal_leaves_the_session_alone)
{
	begin();
	struct run run = start("submit", "agent", "--input", "do=[[\"progress\",1],[\"forever\"]]", NULL);
	wait_for(run.out, " progress ");
	signal_run(&run, SIGINT);
	finish(&run, 130);
	const char *s = session_of(run.out);
	must_have(run.err, " goes on; see it: hcpctl watch ");
	must_have(run.err, "end it: hcpctl abort ");
	must(rig_sql(r, "SELECT count(*) FROM sessions WHERE state = 'RUNNING'") == 1, "it runs");

	struct run aborted = start("abort", short_id(s), "--reason", "enough", NULL);
	finish(&aborted, 0);
	must_have(aborted.out, "sent abort of session ");
	struct run watched = start("watch", short_id(s), NULL);
	finish(&watched, 4);
	must_have(watched.out, " ABORTED    session closed: aborted_by_caller\n");
	struct run again = start("abort", short_id(s), NULL);
	finish(&again, 1);
	must_have(again.err, "no session of ours begins with ");
	must(count_queues() == 0, "a queue is left");
	end();
}
END_TEST

START_TEST(ctrl_c_on_a_terminal_asks)
{
	static const struct key keys[] = { { "100%", "\003" }, { "go on (Enter)? ", "\n" }, { "100%", "\003" },
		{ "go on (Enter)? ", "a\n" }, { NULL, NULL } };

	begin();
	struct run run = start_on_terminal(keys, "submit", "agent", "--input",
		"do=[[\"progress\",1],[\"forever\"]]", NULL);
	finish(&run, 4);
	must_have(run.out, "] 100% 00:0");
	must_have(run.out, "later: hcpctl abort ");
	must_have(run.out, "\033[33mABORTED   \033[0m session closed: aborted_by_caller");
	end();
}
END_TEST

START_TEST(no_color_is_honoured_on_a_terminal)
{
	static const struct key keys[] = { { NULL, NULL } };

	begin();
	setenv("NO_COLOR", "1", 1);
	struct run run = start_on_terminal(keys, "submit", "agent", "--input",
		"do=[[\"progress\",3],[\"complete\",{}]]", NULL);
	finish(&run, 0);
	unsetenv("NO_COLOR");
	must(!strstr(text_of(run.out), "\033[3"), "%s", text_of(run.out));
	must_have(run.out, "COMPLETED  session closed");
	end();
}
END_TEST

/* --- watch --- */

START_TEST(a_watch_of_all_shows_what_came_while_it_was_away)
{
	begin();
	struct run first = start("watch", NULL);
	wait_until(file_exists(rig_path(r, "home/hcp/instance")), WAIT_S, "the instance");
	wait_until(is_consumed(text_of(rig_path(r, "home/hcp/instance"))), WAIT_S, "the watch");
	const char *about = ask_broker("[{amqqueue:is_durable(Q), [V || {<<\"x-expires\">>, _, V} <- amqqueue:get_arguments(Q)]} || "
		"Q <- rabbit_amqqueue:list(), string:prefix(element(4, amqqueue:get_name(Q)), <<\"hcp.evt.ctl-\">>) =/= nomatch].");
	must(strstr(about, "true") && strstr(about, "86400000"), "durable, and expires after a day: %s", about);
	struct run submit = start("submit", "agent", "--input", "do=[[\"complete\",{\"first\":1}]]", NULL);
	finish(&submit, 0);
	wait_for(first.out, "\"first\": 1");

	/* Two at once do not take each other's events. */
	struct run other = start("watch", "--all", NULL);
	wait_for(other.err, "another hcpctl is watching the same");
	wait_until(count_queues() == 2, WAIT_S, "a queue of its own");
	submit = start("submit", "agent", "--input", "do=[[\"complete\",{\"second\":2}]]", NULL);
	finish(&submit, 0);
	wait_for(first.out, "\"second\": 2");
	wait_for(other.out, "\"second\": 2");
	signal_run(&other, SIGTERM);
	signal_run(&first, SIGINT);
	finish(&other, 0);
	finish(&first, 0);
	must(count_queues() == 1, "the kept one is left: %d", count_queues());

	submit = start("submit", "agent", "--input", "do=[[\"complete\",{\"third\":3}]]", NULL);
	finish(&submit, 0);
	struct run later = start("watch", NULL);
	wait_for(later.out, "\"third\": 3");
	must(!strstr(text_of(later.out), "second"), "shown before: %s", text_of(later.out));
	signal_run(&later, SIGINT);
	finish(&later, 0);
	char queue[200];
	snprintf(queue, sizeof queue, "hcp.evt.%s.%s", caller, text_of(rig_path(r, "home/hcp/instance")));
	wire_delete_queue(r->broker, queue);
	end();
}
END_TEST

/* A callee of our own: events as nobody should send them. */
static void say_event(struct peer *p, const char *session, int sequence, const char *event, const char *data)
{
	char key[300], body[1000];

	snprintf(key, sizeof key, "%s.%s.event", caller, session);
	snprintf(body, sizeof body,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"%s\",\"timestamp\":\"2026-01-31T12:00:00.000Z\",\"session_id\":\"%s\","
		"\"type\":\"event\",\"payload\":{\"event_type\":\"%s\",\"sequence\":%d,\"data\":%s}}", uuid_text(p), session, event, sequence, data);
	peer_publish_to(p, "hcp.events", key, body, strlen(body));
}

START_TEST(events_are_put_in_order_shown_once_and_gaps_are_told)
{
	const char *s = "5f0c1111-1111-4111-8111-111111111111";

	begin_on(broker_shared(), false);
	struct peer *p = peer_absent(r, "somebody-else");
	struct run run = start("watch", s, NULL);
	wait_until(is_consumed(s), WAIT_S, "the watch");
	say_event(p, s, 1, "log", "{\"level\":\"info\",\"message\":\"m1\"}");
	say_event(p, s, 3, "log", "{\"level\":\"info\",\"message\":\"m3\"}");
	say_event(p, s, 1, "log", "{\"level\":\"info\",\"message\":\"m1\"}");
	say_event(p, s, 3, "log", "{\"level\":\"info\",\"message\":\"m3\"}");
	say_event(p, s, 2, "log", "{\"level\":\"info\",\"message\":\"m2\"}");
	wait_for(run.out, "m3\n");
	double from = harness_now();
	say_event(p, s, 6, "log", "{\"level\":\"info\",\"message\":\"m6\"}");
	say_event(p, s, 7, "session_closed", "{\"final_state\":\"ABORTED\",\"reason\":\"x\"}");
	finish(&run, 4);
	must(harness_now() - from > 4, "it did not wait for what was missing");
	must_str(text_of(run.out),
		"12:00:00 info       m1\n12:00:00 info       m2\n12:00:00 info       m3\n12:00:00 info       m6\n"
		"12:00:00 ABORTED    session closed: x\n");
	must_have(run.err, "events 4 to 5 are missing");
	p->unjudged = true;
	peer_finish(p);
	end();
}
END_TEST

START_TEST(a_broker_that_restarts_interrupts_nothing)
{
	struct broker b = { .own = false };
	char dir[300], input[400];

	snprintf(dir, sizeof dir, "%sown-broker-%d", harness_tmp(), getpid());
	broker_start(&b, dir);
	begin_on(&b, true);
	snprintf(input, sizeof input,
		"do=[[\"progress\",5],[\"hold\",\"%s\"],[\"progress\",5],[\"complete\",{\"n\":1}]]", rig_path(r, "go"));
	struct run run = start("submit", "agent", "--input", input, NULL);
	wait_for(run.out, " progress ");
	kill(b.pid, SIGKILL);
	wait_for(run.err, "broker gone");
	rig_touch(r, "go");
	broker_start(&b, b.dir);
	finish(&run, 0);
	must_have(run.out, "\"n\": 1");
	const char *gone = strstr(text_of(run.err), "broker gone");
	must(!strstr(gone + 1, "broker gone"), "said twice: %s", text_of(run.err));
	must_have(run.err, "broker is back");
	must(!strstr(text_of(run.err), "missing"), "%s", text_of(run.err));
	end();
	broker_stop(&b);
}
END_TEST

/* --- what is wrong here --- */

START_TEST(trouble_of_our_own_has_its_own_status)
{
	begin_on(broker_shared(), false);
	struct run run = start("submit", "agent", "--url", "amqp://127.0.0.1:1/", NULL);
	finish(&run, 69);
	must_have(run.err, "cannot connect to 127.0.0.1:1");
	run = start("submit", "agent", "--caller", "a.b", NULL);
	finish(&run, 78);
	run = start("submit", "--inputs", "/nonexistent", "agent", NULL);
	finish(&run, 1);
	run = start("submit", NULL);
	finish(&run, 64);
	run = start("submit", "agent", "--priority", "whatever", NULL);
	finish(&run, 64);
	run = start("nonsense", NULL);
	finish(&run, 64);
	run = start("watch", "zz", NULL);
	finish(&run, 1);
	run = start("submit", "--help", NULL);
	finish(&run, 0);
	must_have(run.out, "Example:\n");
	run = start("-V", NULL);
	finish(&run, 0);
	must_have(run.out, "hcpctl ");
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hcpctl");

	suite_test(s, a_submit_shows_the_events_and_the_result_and_ends_with_the_state, 60);
	suite_test(s, what_is_on_the_command_line_reaches_the_worker, 40);
	suite_test(s, json_is_what_was_received_and_an_application_gets_it_too, 40);
	suite_test(s, nothing_that_a_worker_says_reaches_the_terminal_as_a_command, 40);
	suite_test(s, the_log_ins_user_name_goes_with_every_command, 40);
	suite_test(s, a_callee_that_is_nowhere_is_told_at_once, 40);
	suite_test(s, an_unanswered_submit_is_sent_again_and_given_up_in_time, 40);
	suite_test(s, a_daemon_that_comes_late_runs_the_task_once, 60);
	suite_test(s, a_detached_session_is_watched_later_without_a_gap, 60);
	suite_test(s, ctrl_c_without_a_terminal_leaves_the_session_alone, 60);
	suite_test(s, ctrl_c_on_a_terminal_asks, 60);
	suite_test(s, no_color_is_honoured_on_a_terminal, 40);
	suite_test(s, a_watch_of_all_shows_what_came_while_it_was_away, 60);
	suite_test(s, events_are_put_in_order_shown_once_and_gaps_are_told, 60);
	suite_test(s, a_broker_that_restarts_interrupts_nothing, 120);
	suite_test(s, trouble_of_our_own_has_its_own_status, 40);
	return harness_run(s, false);
}
