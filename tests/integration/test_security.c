/* SPDX-License-Identifier: MIT */
/* test_security.c: workers that try to get at what is not theirs, secrets that must not show, what a token
 * says, input that tries to be more than text. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "support/peer.h"
#include "support/rig.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define PASSWORD "S3cret-p4ssword-of-the-broker"

static struct rig *r;
static struct peer *p;
/* that every user can enter, which cannot be said of all temporary directories */
static char open_dir[64];

static const char *in_open(const char *name)
{
	static char paths[8][200];
	static int turn;
	char *path = paths[turn++ % 8];

	snprintf(path, sizeof paths[0], "%s/%s", open_dir, name);
	return path;
}

static void copy_file(const char *from, const char *to, mode_t mode)
{
	char command[1500];

	snprintf(command, sizeof command, "cp '%s' '%s' && chmod %o '%s'", from, to, mode, to);
	must(system(command) == 0, "%s", command);
}

/* A rig whose state directory lies where other users can go. */
static void begin_open(void)
{
	r = rig_new();
	strcpy(open_dir, "/tmp/hcpd-security-XXXXXX");
	must(mkdtemp(open_dir) && chmod(open_dir, 0755) == 0, "%s: %s", open_dir, strerror(errno));
	snprintf(r->state, sizeof r->state, "%s/state", open_dir);
	snprintf(r->db, sizeof r->db, "%s/state/hcpd.db", open_dir);
	rig_set(r, "daemon", "state_dir", "%s", r->state);
}

static void end(void)
{
	peer_finish(p);
	rig_finish(r);
	if (open_dir[0])
		tree_remove(open_dir);
}

/* --- what a worker can reach --- */

static const char probe[] =
	"import os\n"
	"state, victim = os.environ['PROBE_STATE'], os.environ.get('PROBE_VICTIM', '')\n"
	"daemon = os.getppid()\n"
	"def read(path): open(path, 'rb').read(1)\n"
	"def make(path): open(path, 'w').close()\n"
	"tries = {\n"
	" 'task': lambda: read(os.environ['HCP_TASK']),\n"
	" 'workdir': lambda: make(os.environ['HCP_WORKDIR'] + '/made'),\n"
	" 'home': lambda: os.environ['HOME'],\n"
	" 'NO store': lambda: read(state + '/hcpd.db'),\n"
	" 'NO wal': lambda: read(state + '/hcpd.db-wal'),\n"
	" 'NO key': lambda: read(state + '/token.keys'),\n"
	" 'NO lock': lambda: read(state + '/hcpd.lock'),\n"
	" 'NO list': lambda: os.listdir(state),\n"
	" 'NO work': lambda: os.listdir(state + '/work'),\n"
	" 'NO make': lambda: make(state + '/made'),\n"
	" 'NO work_make': lambda: os.mkdir(state + '/work/made'),\n"
	" 'NO truncate': lambda: os.truncate(state + '/hcpd.db', 0),\n"
	" 'NO remove': lambda: os.unlink(state + '/hcpd.db'),\n"
	" 'NO other': lambda: read(victim + '/task.json'),\n"
	" 'NO other_list': lambda: os.listdir(victim),\n"
	" 'NO other_make': lambda: make(victim + '/made'),\n"
	" 'NO ini': lambda: read(os.environ['PROBE_INI']),\n"
	" 'NO env_file': lambda: read(os.environ['PROBE_ENV']),\n"
	" 'NO environ': lambda: read('/proc/%d/environ' % daemon),\n"
	" 'NO memory': lambda: os.close(os.open('/proc/%d/mem' % daemon, os.O_RDONLY)),\n"
	" 'NO kill': lambda: os.kill(daemon, 0),\n"
	" 'NO root': lambda: os.setuid(0) if os.getuid() else os.kill(daemon, 0),\n"
	"}\n"
	"for name, attempt in tries.items():\n"
	"    try: attempt(); print(name + ': done')\n"
	"    except Exception as e: print(name + ': ' + repr(e))\n"
	"print('HOME=' + os.environ['HOME'])\n";

#define PROBES 22

struct variant {
	const char *user, *victims_user;
	bool landlock;
};

static void set_confined(const char *section, const char *user, bool landlock)
{
	if (user)
		rig_set(r, section, "user", "%s", user);
	rig_set(r, section, "landlock", landlock ? "yes" : "no");
}

static bool can_be_others(void)
{
	if (geteuid() == 0 && getpwnam("games") && getpwnam("nobody"))
		return true;
	fprintf(stderr, "SKIPPED: only root can start workers of other users\n");
	return false;
}

static bool has_landlock(void)
{
	if (syscall(444 /* landlock_create_ruleset */, NULL, 0, 1 /* which version? */) >= 6)
		return true;
	fprintf(stderr, "SKIPPED: this kernel has no Landlock, or an old one\n");
	return false;
}

static void make_victim(const struct variant *v)
{
	char command[300];

	copy_file(source_path("tests/integration/agents/agent.py"), in_open("agent.py"), 0755);
	snprintf(command, sizeof command, "%s", in_open("agent.py"));
	rig_capability(r, "victim", command, NULL);
	set_confined("capability victim", v->victims_user, v->landlock);
}

static void make_probe(const struct variant *v)
{
	char command[300];

	file_write(in_open("probe.py"), probe);
	chmod(in_open("probe.py"), 0644);
	file_write(in_open("probe.env"), "SECRET=1\n");
	chmod(in_open("probe.env"), 0600);
	snprintf(command, sizeof command, "/usr/bin/python3 -IS %s", in_open("probe.py"));
	rig_capability(r, "probe", command, NULL);
	rig_set(r, "capability probe", "protocol", "text");
	rig_set(r, "capability probe", "env_file", "%s", in_open("probe.env"));
	set_confined("capability probe", v->user, v->landlock);
	if (v->landlock)
		/* all of it: but not the secrets */
		rig_set(r, "capability probe", "landlock_read", "%s", open_dir);
	if (v->landlock)
		rig_set(r, "capability victim", "landlock_read", "%s", open_dir);
}

static void check_probe(char *lines, bool is_confined)
{
	int count = 0;

	for (char *line = strtok(lines, "\n"); line && strncmp(line, "HOME=", 5) != 0;
		line = strtok(NULL, "\n"), count++) {
		bool done = strstr(line, ": done") != NULL, forbidden = strncmp(line, "NO ", 3) == 0;

		must(done == (!forbidden || !is_confined) && (done || strstr(line, "PermissionError(")), "%s",
			line);
	}
	must(count == PROBES, "%d attempts", count);
}

static void try_to_reach(const struct variant *v)
{
	if ((v->user && !can_be_others()) || (v->landlock && !has_landlock()))
		return;
	begin_open();
	make_victim(v);
	make_probe(v);
	rig_start(r);
	p = peer_new(r);
	const char *held =
		peer_run(p, "victim", J("{'do':[['progress',1],['hold','%s'],['complete']]}", in_open("go")));
	peer_event(p, held, "progress");
	rig_set(r, "capability probe", "env",
		"RIG_MARK=%s PROBE_STATE=%s PROBE_VICTIM=%s/work/%s PROBE_INI=%s PROBE_ENV=%s", r->dir,
		r->state, r->state, held, r->ini, in_open("probe.env"));
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	wait_until(rig_log_has(r, "configuration reloaded"), WAIT_S, "the reload");
	const char *s = peer_run(p, "probe", NULL);
	struct note *n = peer_completed(p, s);
	char *said = strdup(note_text(n, "payload.outputs.stdout"));
	if (v->landlock)
		must(strstr(said, "HOME=") && strstr(strstr(said, "HOME="), s),
			"HOME is not the working directory: %s", said);
	else
		must(strstr(said, getpwnam(v->user)->pw_dir), "HOME is not the user's: %s", said);
	check_probe(said, true);
	free(said);
	wait_until(!file_exists(rig_path(r, "state/work/%s", s)), WAIT_S, "its directory is removed");
	file_write(in_open("go"), "");
	chmod(in_open("go"), 0644);
	peer_completed(p, held);
	end();
}

START_TEST(a_worker_of_another_user_reaches_its_own_and_nothing_else) /* proves SA-03 */
{
	static const struct variant v = {"games", "nobody", false};

	try_to_reach(&v);
}
END_TEST

START_TEST(a_worker_under_landlock_reaches_its_own_and_nothing_else) /* proves SA-03 */
{
	static const struct variant v = {NULL, NULL, true};

	try_to_reach(&v);
}
END_TEST

START_TEST(workers_of_one_user_under_landlock_do_not_reach_each_other) /* proves SA-03 */
{
	static const struct variant v = {"games", "games", true};

	try_to_reach(&v);
}
END_TEST

/* Or the tests above would prove nothing. The worker here is as good as the daemon. */
START_TEST(worker_of_the_same_user_reaches_it_all_without_options)
{
	static const struct variant none;

	begin_open();
	make_victim(&none);
	make_probe(&none);
	rig_set(r, "capability probe", "env",
		"RIG_MARK=%s PROBE_STATE=%s PROBE_VICTIM=%s PROBE_INI=%s PROBE_ENV=%s", r->dir,
		in_open("likeness"), in_open("likeness/work/one"), r->ini, in_open("probe.env"));
	mkdir(in_open("likeness"), 0700);
	mkdir(in_open("likeness/work"), 0700);
	mkdir(in_open("likeness/work/one"), 0700);
	static const char *const files[] = {
		"hcpd.db", "hcpd.db-wal", "token.keys", "hcpd.lock", "work/one/task.json"};
	for (size_t i = 0; i < COUNT(files); i++) {
		char path[300];
		snprintf(path, sizeof path, "%s/likeness/%s", open_dir, files[i]);
		file_write(path, "x");
	}
	rig_set(r, "daemon", "dumpable", "yes");
	rig_start(r);
	p = peer_new(r);
	struct note *n = peer_completed(p, peer_run(p, "probe", NULL));
	char *said = strdup(note_text(n, "payload.outputs.stdout"));
	check_probe(said, false);
	free(said);
	end();
}
END_TEST

START_TEST(processes_of_another_user_are_ended_and_recovered_like_any) /* proves SA-03 */
{
	static const struct variant v = {NULL, "games", false};

	if (!can_be_others())
		return;
	begin_open();
	make_victim(&v);
	mkdir(in_open("shared"), 0700);
	chmod(in_open("shared"), 01777);
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "victim",
		J("{'do':[['deaf'],['grandchild','%s',false,true],['progress',1],['forever']],"
		  "'on':{'abort':'ignore'}}",
			in_open("shared/pid")));
	peer_event(p, s, "progress");
	char *text = file_read(in_open("shared/pid"), NULL);
	pid_t pid = atoi(text);
	free(text);
	must(pid > 1 && kill(pid, 0) == 0, "no grandchild");
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	must(kill(pid, 0) < 0 && errno == ESRCH, "a grandchild of another user survives");
	must(!file_exists(rig_path(r, "state/work/%s", s)), "its directory is left");

	s = peer_run(p, "victim",
		J("{'do':[['write','kept'],['checkpoint',{'n':1}],['await','checkpoint_saved'],['progress',1]"
		  ","
		  "['hold','%s'],['dump']]}",
			in_open("shared/go")));
	peer_event(p, s, "progress");
	rig_kill(r);
	rig_start(r);
	file_write(in_open("shared/go"), "");
	chmod(in_open("shared/go"), 0644);
	struct note *n = peer_completed(p, s);
	must(json_integer_value(note_at(n, "payload.outputs.start.attempt")) == 2, "%s", n->body);
	must(json_is_object(note_at(n, "payload.outputs.task_file")), "the task is not readable");
	bool kept = false;
	for (size_t i = 0; i < json_array_size(note_at(n, "payload.outputs.files")); i++)
		kept = kept ||
			strcmp(json_string_value(json_array_get(note_at(n, "payload.outputs.files"), i)),
				"kept") == 0;
	must(kept, "what the first attempt wrote is gone");
	end();
}
END_TEST

START_TEST(a_reload_that_names_a_user_lets_it_find_its_directory)
{
	static const struct variant none;
	struct stat st;

	if (!can_be_others())
		return;
	begin_open();
	make_victim(&none);
	rig_start(r);
	p = peer_new(r);
	peer_completed(p, peer_run(p, "victim", J("{'do':[['dump']]}")));
	must(stat(r->state, &st) == 0 && (st.st_mode & 07777) == 0700, "mode %o", st.st_mode);
	rig_set(r, "capability victim", "user", "games");
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	wait_until(rig_log_has(r, "configuration reloaded"), WAIT_S, "the reload");
	struct note *n = peer_completed(p, peer_run(p, "victim", J("{'do':[['dump']]}")));
	must(json_is_object(note_at(n, "payload.outputs.task_file")), "the task is not readable");
	end();
}
END_TEST

START_TEST(a_limit_ends_the_worker_and_not_the_daemon) /* proves SA-03 */
{
	r = rig_new();
	rig_text(r, "writer", "exec head -c 3000000 /dev/zero >f\n");
	rig_set(r, "capability writer", "limit_file_size", "1MiB");
	rig_text(r, "crasher", "kill -SEGV $$\n");
	rig_text(r, "grouped", "exit 0\n");
	rig_set(r, "capability grouped", "cgroup_pids_max", "5");
	rig_set(r, "daemon", "cgroup", "off");
	rig_start(r);
	p = peer_new(r);
	struct note *n = peer_failed(p, peer_run(p, "writer", NULL), "worker_failed", "execution_error");
	must(strstr(note_text(n, "payload.error_message"), "signal"), "%s", n->body);
	const char *s = peer_run(p, "crasher", NULL);
	peer_failed(p, s, "worker_failed", "execution_error");
	must(!file_exists(rig_path(r, "state/work/%s/core", s)), "a core dump");
	n = peer_failed(p, peer_run(p, "grouped", NULL), "worker_failed", "execution_error");
	must(strstr(note_text(n, "payload.error_message"), "need a cgroup"), "%s", n->body);
	peer_completed(p, peer_run(p, "agent", J("{'do':[['complete']]}")));
	end();
}
END_TEST

/* --- secrets --- */

static void must_not_show(const char *what, const char *secret)
{
	char *log = file_read(r->log, NULL);

	must(!strstr(log, secret), "%s is in the log", what);
	must(!strstr(r->status, secret), "%s is in STATUS=", what);
	free(log);
}

START_TEST(neither_the_brokers_password_nor_a_token_shows_anywhere) /* proves SA-03 */
{
	char url[600], *at;
	const char *args[] = {"-t", "-c", NULL, NULL};

	r = rig_new();
	must(broker_eval(r->broker,
		     "rabbit_auth_backend_internal:add_user(<<\"hcp-secret\">>, <<\"" PASSWORD
		     "\">>, <<\"t\">>), rabbit_auth_backend_internal:set_permissions(<<\"hcp-secret\">>, "
		     "<<\"/\">>, <<\".*\">>, <<\".*\">>, <<\".*\">>, <<\"t\">>).") == 0,
		"no user");
	at = strchr(r->broker->url, '@');
	snprintf(url, sizeof url, "amqp://hcp-secret:" PASSWORD "%s", at);
	rig_set(r, "amqp", "url", "%s", url);
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent", J("{'do':[['dump']]}"));
	struct note *n = peer_completed(p, s);
	must(!strstr(n->body, PASSWORD), "the worker got the password: %s", n->body);
	char *token = strdup(peer_token(p, s));
	const char *held = peer_run(p, "agent", J("{'do':[['progress',1],['forever']]}"));
	peer_event(p, held, "progress");
	/* of another session: refused, and said */
	peer_abort_with(p, held, json_pack("{s:s}", "session_token", token));
	wait_until(rig_log_has(r, "abort refused"), WAIT_S, "the refusal");
	peer_abort(p, held);
	peer_closed(p, held, "ABORTED", NULL);
	broker_eval(r->broker,
		"rabbit_auth_backend_internal:change_password(<<\"hcp-secret\">>, <<\"another\">>, "
		"<<\"t\">>).");
	broker_eval(r->broker,
		"[rabbit_networking:close_connection(P, \"test\") || P <- rabbit_networking:connections()].");
	wait_until(rig_log_has(r, "no connection, trying again"), WAIT_S, "the refused login");
	rig_set(r, "amqp", "url", "%sX", url);
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	wait_until(rig_log_has(r, "configuration reloaded"), WAIT_S, "the reload");
	must_not_show("the password", PASSWORD);
	must_not_show("a token", token);
	must_not_show("the middle of a token", strndup(token + 10, 30));
	rig_signal(r, SIGTERM);
	(void)rig_wait_exit(r, WAIT_S);
	args[2] = r->ini;
	must(rig_run(r, args) == 0, "-t");
	rig_set(r, "amqp", "url", "amqp://hcp-secret:" PASSWORD "@[::1/%%2F");
	rig_write_ini(r);
	must(rig_run(r, args) != 0, "-t takes a broken url");
	must_not_show("the password", PASSWORD);
	broker_eval(r->broker, "rabbit_auth_backend_internal:delete_user(<<\"hcp-secret\">>, <<\"t\">>).");
	p->may_be_open = true;
	free(token);
	end();
}
END_TEST

START_TEST(nothing_in_the_state_directory_is_for_others) /* proves SA-03 */
{
	char command[800];

	r = rig_new();
	rig_set(r, "capability agent", "keep_workdir", "always");
	rig_start(r);
	p = peer_new(r);
	peer_completed(
		p, peer_run(p, "agent", J("{'do':[['write','f'],['checkpoint',{'n':1}],['complete']]}")));
	snprintf(command, sizeof command, "test -z \"$(find %s -perm /077 ! -type l)\" && test -f %s-wal",
		r->state, r->db);
	must(system(command) == 0, "something can be read by others");
	end();
}
END_TEST

START_TEST(open_state_directory_is_closed_with_a_warning_also_for_root)
{
	struct stat st;

	r = rig_new();
	rig_start(r);
	rig_stop(r);
	must(!rig_log_has(r, "stood open"), "a warning for nothing");
	must(rig_log_has(r, "running as root") == (geteuid() == 0), "root");
	chmod(r->state, 0755);
	chmod(r->db, 0644);
	rig_start(r);
	p = peer_new(r);
	must(stat(r->state, &st) == 0 && (st.st_mode & 07777) == 0700, "mode %o", st.st_mode);
	must(stat(r->db, &st) == 0 && (st.st_mode & 07777) == 0600, "mode %o", st.st_mode);
	must(rig_log_count(r, "stood open to others") == 2, "not said");
	peer_completed(p, peer_run(p, "agent", J("{'do':[['complete']]}")));
	rig_stop(r);
	rig_set(r, "daemon", "state_dir", "/tmp"); /* a slip of the pen must not cost /tmp its mode */
	must(stat("/tmp", &st) == 0, "/tmp");
	mode_t before = st.st_mode;
	rig_spawn(r);
	must(rig_wait_exit(r, WAIT_S) == 78, "it took /tmp");
	must(stat("/tmp", &st) == 0 && st.st_mode == before, "/tmp is another");
	end();
}
END_TEST

/* --- as an ordinary user --- */

static char plain_log[200];

/* hcpd, copied to where that user can execute it, and its configuration; without a broker. Its pid. */
static pid_t start_as(uid_t uid, const char *keys)
{
	const char *build = getenv("HCP_BUILD");
	char binary[600], ini[200], text[1500];
	pid_t pid;

	snprintf(binary, sizeof binary, "%s/hcpd", build ? build : source_path("build"));
	copy_file(binary, in_open("hcpd"), 0755);
	snprintf(text, sizeof text,
		"[daemon]\ncallee_id = plain\nstate_dir = plain-state\n%s\n[amqp]\nurl = amqp://127.0.0.1:1\n"
		"[caller *]\ncapabilities = *\n",
		keys);
	snprintf(ini, sizeof ini, "%s", in_open("plain.ini"));
	file_write(ini, text);
	chmod(ini, 0644);
	file_write(in_open("x.json"),
		"{\"capability\":{\"name\":\"x\",\"version\":\"1.0.0\",\"description\":\"x\",\"input_"
		"schema\":{},"
		"\"output_schema\":{},\"safety\":{\"risk_ceiling\":\"R1\",\"requires_human_approval\":false,"
		"\"involves_physical_resources\":false}}}");
	chmod(in_open("x.json"), 0644);
	mkdir(in_open("plain-state"), 0700);
	must(chown(in_open("plain-state"), uid, uid) == 0, "chown");
	snprintf(plain_log, sizeof plain_log, "%s", in_open("plain.log"));
	unlink(plain_log);
	pid = fork();
	if (pid == 0) {
		int fd = open(plain_log, O_WRONLY | O_CREAT | O_APPEND, 0644);

		dup2(fd, 1);
		dup2(fd, 2);
		setenv("RIG_MARK", r->dir, 1);
		setenv("A_SECRET", PASSWORD, 1);
		if (setgroups(0, NULL) == 0 && setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0)
			execl(in_open("hcpd"), "hcpd", "-c", ini, NULL);
		_exit(127);
	}
	return pid;
}

static bool plain_said(const char *text)
{
	char *log = file_read(plain_log, NULL);
	bool found = log && strstr(log, text);

	free(log);
	return found;
}

static void wait_plain(const char *text)
{
	for (double until = harness_now() + WAIT_S * harness_scale(); !plain_said(text); usleep(10000))
		must(harness_now() < until, "it never said: %s", text);
}

static int plain_exit(pid_t pid)
{
	int status;

	must(waitpid(pid, &status, 0) == pid, "waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Can another process of that user read it? */
static bool can_read_as(uid_t uid, pid_t pid, const char *file)
{
	char path[64], byte;
	pid_t child = fork();
	int status;

	if (child == 0) {
		snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
		if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
			_exit(2);
		int fd = open(path, O_RDONLY);
		_exit(fd >= 0 && read(fd, &byte, 1) == 1 ? 0 : 1);
	}
	must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) < 2, "%x",
		status);
	return WEXITSTATUS(status) == 0;
}

START_TEST(the_daemons_memory_is_closed_to_processes_of_its_own_user) /* proves SA-03 */
{
	uid_t uid = 65534;
	pid_t pid;

	if (!can_be_others())
		return;
	begin_open();
	pid = start_as(uid, "");
	wait_plain("ready:");
	must(!can_read_as(uid, pid, "environ") && !can_read_as(uid, pid, "maps") &&
			!can_read_as(uid, pid, "auxv"),
		"a worker could read the daemon's memory");
	must(!plain_said("running as root"), "it is not root");
	kill(pid, SIGTERM);
	must(plain_exit(pid) == 0, "stop");
	pid = start_as(uid, "dumpable = yes");
	wait_plain("ready:");
	must(can_read_as(uid, pid, "environ") && can_read_as(uid, pid, "maps"),
		"dumpable = yes changes nothing");
	kill(pid, SIGTERM);
	must(plain_exit(pid) == 0, "stop");
	p = peer_new(r);
	end();
}
END_TEST

START_TEST(daemon_that_cannot_change_users_does_not_start_with_user)
{
	pid_t pid;

	if (!can_be_others())
		return;
	begin_open();
	pid = start_as(65534, "[capability x]\ndeclaration = x.json\ncommand = /bin/true\nuser = games");
	must(plain_exit(pid) == 78, "it starts");
	must(plain_said("user = games cannot be done by this process, which lacks CAP_CHOWN"), "not said");
	p = peer_new(r);
	end();
}
END_TEST

/* --- input that would be more than text --- */

static const char *const nasty[] = {"../../etc/passwd", "/etc/passwd", "..", ".", "a/b", "%s%s%s%n", "%n",
	"a\nb level=error forged=1", "a\r\nb", "a\x1b[31m", "victim.x", "*", "#", "victim.#", "*.#", "a b",
	"$(id)", "`id`", "; id", "-rf", "' OR 1=1 --", "\"", "\\", "\xc2\x9b[31m", ""};

static int count_entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static json_t *envelope(const char *message_id, const char *type, json_t *session, json_t *payload)
{
	return json_pack("{s:s,s:o,s:s,s:o,s:s,s:o}", "hcp_version", "1.0", "message_id",
		json_string(message_id), "timestamp", "2026-01-01T00:00:00.000Z", "session_id", session,
		"type", type, "payload", payload);
}

static void publish(json_t *message)
{
	char *body = json_dumps(message, 0);

	peer_publish(p, body, strlen(body), NULL);
	free(body);
	json_decref(message);
}

/* ---- tokens ---- */

/* The claims of a token, as anybody can read them: they are signed, not hidden. */
static json_t *claims_of(const char *token)
{
	const char *from = strchr(token, '.') + 1;
	size_t size = strcspn(from, ".");
	char text[2048];
	unsigned char out[2048];
	json_t *claims;
	int n;

	must(size < sizeof text - 4, "%s", token);
	for (size_t i = 0; i < size; i++)
		text[i] = from[i] == '-' ? '+' : from[i] == '_' ? '/' : from[i];
	while (size % 4 != 0)
		text[size++] = '=';
	n = EVP_DecodeBlock(out, (unsigned char *)text, (int)size);
	must(n > 0, "%s", token);
	claims = json_loadb((char *)out, (size_t)n, JSON_DISABLE_EOF_CHECK, NULL);
	must(claims != NULL, "%.*s", n, out);
	return claims;
}

static double seconds_of(const json_t *claims, const char *name)
{
	struct tm tm = {0};
	int ms = 0;
	const char *text = json_text_at((json_t *)(uintptr_t)claims, name),
		   *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	must(rest != NULL && sscanf(rest, ".%3dZ", &ms) == 1, "%s: %s", name, text);
	return (double)timegm(&tm) + ms / 1000.0;
}

/* SHA-256, in hex, of the object behind a name, byte for byte as it was published. */
static void hash_member(const char *body, const char *name, char hex[65])
{
	const char *from = strstr(body, name), *to;
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned size = 0;
	int depth = 0;

	must(from, "no %s in %s", name, body);
	from += strlen(name);
	for (to = from; *to && (to == from || depth > 0); to++) /* no text in it has a brace */
		depth += (*to == '{') - (*to == '}');
	must(to - from > 2, "it is empty");
	must(EVP_Digest(from, (size_t)(to - from), sum, &size, EVP_sha256(), NULL) && size == 32,
		"no SHA-256");
	for (unsigned i = 0; i < size; i++)
		snprintf(hex + 2 * i, 3, "%02x", sum[i]);
}

START_TEST(a_token_says_what_was_approved_and_ends_with_it) /* proves L3-08 */
{
	r = rig_new();
	rig_capability(r, "oven", source_path("tests/integration/agents/agent.py"),
		J("{'safety':{'risk_floor':'R1','risk_ceiling':'R3','rules':[{'when':{'pointer':'/"
		  "hot','op':'present'},'level':'R2',"
		  "'reason':'hot'}],'envelope':{'parameters':{'hot':{'max':9}}}}}"));
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run_more(p, "oven", J("{'hot':1,'do':[['forever']]}"),
		J("{'constraints':{'max_duration':'PT90S','data_classification':'T2'}}"));
	json_t *claims = claims_of(peer_token(p, s));
	struct note *accepted = peer_find(p, s, "task_accepted", NULL);
	double issued = seconds_of(claims, "issued_at"), expires = seconds_of(claims, "expires_at");

	must_str(json_text_at(claims, "session_id"), s);
	must_str(json_text_at(claims, "caller_id"), p->id);
	must_str(json_text_at(claims, "risk"), "R2");
	must_str(json_text_at(claims, "data"), "T2");
	must_str(json_text_at(claims, "constraints.max_duration"),
		note_text(accepted, "payload.constraints.max_duration"));
	char hash[65];

	hash_member(accepted->body, "\"safety_envelope\":", hash);
	must_str(json_text_at(claims, "constraints.envelope"), hash);
	must_str(json_text_at(claims, "constraints.intent"),
		note_text(accepted, "payload.intent_checksum") + strlen("sha256:"));
	must(expires > issued && expires - issued <= 90.0005, "it is good for %.3f s", expires - issued);
	json_decref(claims);
	peer_abort(p, s);
	peer_closed(p, s, "ABORTED", "aborted_by_caller");
	end();
}
END_TEST

START_TEST(names_in_commands_are_never_paths_formats_patterns_or_lines)
{
	r = rig_new();
	rig_start(r);
	p = peer_new(r);
	struct peer *victim = peer_named(r, "victim");
	int before = count_entries(r->dir), states = count_entries(r->state);

	for (size_t i = 0; i < COUNT(nasty); i++) {
		const char *x = nasty[i];

		publish(envelope("id-1", "task_submit", json_null(),
			json_pack("{s:s,s:s,s:s,s:{}}", "capability", "agent", "caller_id", x, "intent", "i",
				"inputs")));
		publish(envelope(uuid_text(p), "task_submit", json_null(),
			json_pack("{s:s,s:s,s:s,s:{}}", "capability", x, "caller_id", p->id, "intent", "i",
				"inputs")));
		publish(envelope(x, "task_submit", json_null(),
			json_pack("{s:s,s:s,s:s,s:{}}", "capability", "none", "caller_id", p->id, "intent",
				"i", "inputs")));
		publish(envelope(uuid_text(p), "abort", json_string(x),
			json_pack("{s:s,s:s}", "session_token", x, "reason", x)));
		publish(envelope(uuid_text(p), x, json_null(), json_pack("{s:s}", "caller_id", p->id)));
		if (!*x)
			continue; /* an empty intent is refused */
		const char *s =
			peer_run_more(p, "agent", J("{'do':[['dump']]}"), json_pack("{s:s}", "intent", x));
		struct note *n = peer_completed(p, s);
		must_str(note_text(n, "payload.outputs.env.HCP_INTENT"), x);
	}
	const char *body =
		"{\"hcp_version\":\"1.0\",\"message_id\":\"n\\u0000x\",\"timestamp\":\"2026-01-01T00:00:00."
		"000Z\","
		"\"session_id\":null,\"type\":\"task_submit\",\"payload\":{\"capability\":\"agent\\u0000x\","
		"\"caller_id\":\"victim\\u0000x\","
		"\"intent\":\"i\",\"inputs\":{}}}";
	peer_publish(p, body, strlen(body), NULL);
	/* it lives, and all of that is behind it */
	peer_completed(p, peer_run(p, "agent", J("{'do':[['complete']]}")));
	must(victim->note_count == 0, "%zu messages reached another caller: %s", victim->note_count,
		victim->note_count ? victim->notes[0]->body : "");
	must(count_entries(r->dir) == before && count_entries(r->state) <= states + 1, "files were made");
	char *log = file_read(r->log, NULL);
	for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n"))
		must(strlen(line) > 25 && line[4] == '-' && line[10] == 'T' && line[23] == 'Z' &&
				strncmp(line + 24, " level=", 7) == 0,
			"a forged line: %s", line);
	free(log);
	peer_finish(victim);
	end();
}
END_TEST

/* --- what a worker plants in its directory --- */

static const struct {
	const char *name, *script; /* $1: the state directory, $2: a precious one */
	bool starts_again;
} plants[] = {
	{"a link for the task", "rm task.json; ln -s $2/file task.json", true},
	{"a link for the task to be", "ln -s $2/file .task.json.new", true},
	{"a hard link for the task", "rm task.json; ln $2/file task.json; ln $2/file .task.json.new", true},
	{"links to the store", "rm task.json; ln -s $1/hcpd.db task.json; ln $1/hcpd.db .task.json.new",
		true},
	{"a directory for the task", "rm task.json; mkdir -p .task.json.new/x", false},
	{"a fifo for the task", "rm task.json; mkfifo task.json", true},
	{"a link for the directory", "d=$(pwd); mv $d $d.away; ln -s $2 $d", false},
	{"a file for the directory", "d=$(pwd); rm -rf $d; echo >$d", false},
	{"nothing for the directory", "d=$(pwd); rm -rf $d", true},
	{"a link out of it", "ln -s $2 out; ln -s $1 state; ln $2/file hard", true},
	{"a closed one", "mkdir -p a/b; chmod 000 a/b a .", true},
};

static void plant(size_t i)
{
	char script[1024], name[16], section[32];

	snprintf(script, sizeof script,
		"set -- %s %s\nif [ $HCP_ATTEMPT = 1 ]; then\n%s\necho planted\nexec sleep 600\nfi\n"
		"test -f $HCP_TASK && cat $HCP_TASK\n",
		r->state, rig_path(r, "precious"), plants[i].script);
	snprintf(name, sizeof name, "plant%zu", i);
	rig_text(r, name, script);
	snprintf(section, sizeof section, "capability %s", name);
	rig_set(r, section, "keep_workdir", "never");
	rig_set(r, section, "landlock", "no"); /* by default some of these cannot even be planted */
}

START_TEST(links_that_a_worker_plants_in_its_directory_lead_nowhere) /* proves SA-03 */
{
	const char *s[COUNT(plants)];
	char name[16], *text;
	struct stat st;

	r = rig_new();
	mkdir(rig_path(r, "precious"), 0750);
	chmod(rig_path(r, "precious"), 0750);
	file_write(rig_path(r, "precious/file"), "precious");
	chmod(rig_path(r, "precious/file"), 0640);
	for (size_t i = 0; i < COUNT(plants); i++)
		plant(i);
	rig_start(r);
	p = peer_new(r);
	for (size_t i = 0; i < COUNT(plants); i++) {
		snprintf(name, sizeof name, "plant%zu", i);
		s[i] = peer_run(p, name, NULL);
	}
	for (size_t i = 0; i < COUNT(plants); i++)
		wait_until(peer_find_text(p, s[i], "log", "payload.data.message", "planted"), WAIT_S, "%s",
			plants[i].name);
	rig_kill(r);
	rig_start(r);
	for (size_t i = 0; i < COUNT(plants); i++) {
		if (plants[i].starts_again) {
			struct note *n = peer_completed(p, s[i]);
			must(strstr(note_text(n, "payload.outputs.stdout"), "\"intent\""), "%s: %s",
				plants[i].name, n->body);
		} else {
			peer_failed(p, s[i], "worker_failed", "resource_unavailable");
		}
		wait_until(!file_exists(rig_path(r, "state/work/%s", s[i])), WAIT_S,
			"%s: its directory is removed", plants[i].name);
	}
	wait_until(count_entries(rig_path(r, "state/work/.trash")) <= 2, WAIT_S, "the rest is deleted");
	must(stat(rig_path(r, "precious"), &st) == 0 && (st.st_mode & 07777) == 0750, "mode %o", st.st_mode);
	must(stat(rig_path(r, "precious/file"), &st) == 0 && (st.st_mode & 07777) == 0640, "mode %o",
		st.st_mode);
	text = file_read(rig_path(r, "precious/file"), NULL);
	must_str(text, "precious");
	free(text);
	end(); /* the oracle also looks at the store */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("security");

	suite_test(s, a_worker_of_another_user_reaches_its_own_and_nothing_else, 60);
	suite_test(s, a_worker_under_landlock_reaches_its_own_and_nothing_else, 60);
	suite_test(s, workers_of_one_user_under_landlock_do_not_reach_each_other, 60);
	suite_test(s, worker_of_the_same_user_reaches_it_all_without_options, 60);
	suite_test(s, processes_of_another_user_are_ended_and_recovered_like_any, 60);
	suite_test(s, a_reload_that_names_a_user_lets_it_find_its_directory, 60);
	suite_test(s, a_limit_ends_the_worker_and_not_the_daemon, 60);
	suite_test(s, neither_the_brokers_password_nor_a_token_shows_anywhere, 60);
	suite_test(s, nothing_in_the_state_directory_is_for_others, 60);
	suite_test(s, open_state_directory_is_closed_with_a_warning_also_for_root, 60);
	suite_test(s, the_daemons_memory_is_closed_to_processes_of_its_own_user, 60);
	suite_test(s, daemon_that_cannot_change_users_does_not_start_with_user, 60);
	suite_test(s, links_that_a_worker_plants_in_its_directory_lead_nowhere, 60);
	suite_test(s, a_token_says_what_was_approved_and_ends_with_it, 60);
	suite_test(s, names_in_commands_are_never_paths_formats_patterns_or_lines, 120);
	return harness_run(s, false);
}
