/* SPDX-License-Identifier: MIT */
/* test_confine.c: what a session's process may not do by default: speak as an operator, look into another
 * session's directory. And a copy of a state directory, which is not to touch what the original runs. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sqlite3.h>

#include "support/peer.h"
#include "support/rig.h"
#include "support/talk.h"

static struct rig *r;
static struct peer *p;

static void end(void)
{
	peer_finish(p);
	rig_finish(r);
}

static bool has_landlock(void)
{
	if (syscall(444 /* landlock_create_ruleset */, NULL, 0, 1 /* which version? */) >= 1)
		return true;
	fprintf(stderr, "SKIPPED: this kernel has no Landlock\n");
	return false;
}

static void copy_file(const char *from, const char *to)
{
	char command[1500];

	snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
	must(system(command) == 0, "%s", command);
}

/* --- the control socket --- */

/* Asks for a drain in the ways that a process has: as the worker, as a child without environment and tag, as
 * an orphan of a session of its own, and as one that ends before it can be looked at. */
static const char spy[] =
	"import os, resource, socket, sys, time\n"
	"def dial():\n"
	"    s = socket.socket(socket.AF_UNIX)\n"
	"    s.connect(sys.argv[1])\n"
	"    return s\n"
	"def say(s):\n"
	"    try: s.sendall(b'{\"id\":1,\"do\":\"drain\"}\\n')\n"
	"    except BrokenPipeError: pass\n"
	"def hear(s):\n"
	"    return s.makefile().readline().strip() or 'nothing'\n"
	"def ask():\n"
	"    s = dial()\n"
	"    say(s)\n"
	"    return hear(s)\n"
	"def shed():\n"
	"    resource.setrlimit(10, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
	"    os.execve(sys.executable, [sys.executable, '-IS', sys.argv[0], sys.argv[1], '1'], {})\n"
	"def fork(f):\n"
	"    come, go = os.pipe()\n"
	"    pid = os.fork()\n"
	"    if pid == 0:\n"
	"        os.dup2(go, 1)\n"
	"        f()\n"
	"        os._exit(0)\n"
	"    os.close(go)\n"
	"    os.waitpid(pid, 0) if f is not shed else 0\n"
	"    return os.fdopen(come).read().strip()\n"
	"def orphan():\n"
	"    os.setsid()\n"
	"    middle = os.getpid()\n"
	"    if os.fork() == 0:\n"
	"        while os.getppid() == middle: time.sleep(0.01)\n"
	"        shed()\n"
	"def hasty():\n"
	"    s = socket.socket(socket.AF_UNIX)\n"
	"    pid = os.fork()\n"
	"    if pid == 0:\n"
	"        s.connect(sys.argv[1])\n"
	"        say(s)\n"
	"        os._exit(0)\n"
	"    os.waitpid(pid, 0)\n"
	"    return hear(s)\n"
	"if len(sys.argv) > 2:\n"
	"    print(ask())\n"
	"    sys.exit()\n"
	"print('plain ' + ask(), flush=True)\n"
	"print('shed ' + fork(shed), flush=True)\n"
	"print('orphan ' + fork(orphan), flush=True)\n"
	"print('hasty ' + hasty(), flush=True)\n"
	"while not os.path.exists(os.environ['HCP_WORKDIR'] + '/go'): time.sleep(0.01)\n";
static const char *const ways[] = {"plain ", "shed ", "orphan ", "hasty "};

static void must_be_refused(const char *s, const char *way)
{
	struct note *n = NULL;

	for (int i = 1; !n; i++) {
		wait_until((n = peer_find_nth(p, s, "event", "log", i)) != NULL, WAIT_S, "%s", way);
		if (strncmp(note_text(n, "payload.data.message"), way, strlen(way)) != 0)
			n = NULL;
	}
	must(strstr(note_text(n, "payload.data.message"), "\"code\":\"refused\""), "%s", n->body);
}

static void try_to_operate(const char *landlock)
{
	const char *path, *s;

	r = rig_new();
	path = talk_path(r);
	file_write(rig_path(r, "spy.py"), spy);
	rig_capability(r, "spy", "x", NULL);
	rig_set(r, "capability spy", "command", "/usr/bin/python3 -IS %s %s", rig_path(r, "spy.py"), path);
	rig_set(r, "capability spy", "protocol", "text");
	rig_set(r, "capability spy", "landlock", "%s", landlock);
	if (strcmp(landlock, "yes") == 0)
		rig_set(r, "capability spy", "landlock_read", "%s", rig_path(r, "spy.py"));
	rig_start(r);
	p = peer_new(r);
	s = peer_run(p, "spy", NULL);
	for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
		must_be_refused(s, ways[i]);
	wait_until(rig_sql(r,
			   "SELECT count(*) FROM audit WHERE json_extract(entry, '$.what') = 'control' AND "
			   "json_extract(entry, '$.who') = 'worker' AND json_extract(entry, '$.outcome') = "
			   "'refused' AND json_extract(entry, '$.session') = '%s'",
			   s) > 0,
		WAIT_S, "the audit names the session");
	must(rig_log_has(r, "a process of a session is no operator"), "the log");
	/* who comes from elsewhere still may, though its user is the same */
	json_t *e = talk_once(path, "'do':'stats'");
	must_str(talk_code(e), "");
	must(rig_sql(r, "SELECT count(*) FROM audit WHERE json_extract(entry, '$.what') = 'drain'") == 0,
		"it drains");
	file_write(rig_path(r, "state/work/%s/go", s), "");
	peer_completed(p, s);
	end();
}

START_TEST(a_process_of_a_session_is_no_operator) /* proves SA-15 */
{
	try_to_operate("no");
}
END_TEST

START_TEST(a_process_of_a_session_as_it_is_by_default_is_no_operator) /* proves SA-15 */
{
	try_to_operate("state");
}
END_TEST

START_TEST(a_process_of_a_session_under_landlock_is_no_operator) /* proves SA-15 */
{
	if (has_landlock())
		try_to_operate("yes");
}
END_TEST

/* --- the state directory, by default --- */

/* Tries are named NO where the rules of landlock = state have to refuse them. */
static const char probe[] =
	"import os, sys\n"
	"state, victim, base = sys.argv[1:4]\n"
	"def read(path): open(path, 'rb').read(1)\n"
	"def make(path): open(path, 'w').close()\n"
	"def run():\n"
	"    open('tool', 'w').write('#!/bin/sh\\nexit 7\\n'); os.chmod('tool', 0o700)\n"
	"    assert os.waitstatus_to_exitcode(os.system('./tool')) == 7\n"
	"def move():\n"
	"    make('m'); os.mkdir('d'); os.rename('m', 'd/m'); os.rename('d/m', base + '/open/m')\n"
	"tries = {\n"
	" 'task': lambda: read(os.environ['HCP_TASK']),\n"
	" 'own': lambda: (make('made'), os.listdir('.'), os.truncate('made', 0)),\n"
	" 'run': run,\n"
	" 'system': lambda: (read('/etc/passwd'), os.listdir('/usr/bin'), read('/proc/self/status'), "
	"make('/dev/null')),\n"
	" 'home': lambda: os.listdir(os.environ['HOME']),\n"
	" 'beside': lambda: read(base + '/beside'),\n"
	" 'beside_change': lambda: make(base + '/beside'),\n"
	" 'open': lambda: (make(base + '/open/new'), os.listdir(base + '/open'), os.unlink(base + "
	"'/open/new')),\n"
	" 'move': move,\n"
	" 'declaration': lambda: read(base + '/probe.json'),\n"
	" 'NO store': lambda: read(state + '/hcpd.db'),\n"
	" 'NO store_write': lambda: open(state + '/hcpd.db', 'r+').close(),\n"
	" 'NO store_truncate': lambda: os.truncate(state + '/hcpd.db', 0),\n"
	" 'NO store_remove': lambda: os.unlink(state + '/hcpd.db'),\n"
	" 'NO store_link': lambda: os.link(state + '/hcpd.db', 'db'),\n"
	" 'NO key': lambda: read(state + '/token.keys'),\n"
	" 'NO list': lambda: os.listdir(state),\n"
	" 'NO work': lambda: os.listdir(state + '/work'),\n"
	" 'NO make': lambda: make(state + '/made'),\n"
	" 'NO other': lambda: read(victim + '/task.json'),\n"
	" 'NO other_file': lambda: read(victim + '/mine.txt'),\n"
	" 'NO other_list': lambda: os.listdir(victim),\n"
	" 'NO other_make': lambda: make(victim + '/made'),\n"
	" 'NO other_remove': lambda: os.unlink(victim + '/mine.txt'),\n"
	" 'NO other_move': lambda: os.rename(victim, victim + '2'),\n"
	" 'NO ini': lambda: read(base + '/hcpd.ini'),\n"
	" 'NO env_file': lambda: read(base + '/probe.env'),\n"
	" 'NO socket': lambda: os.rename(base + '/run/control.sock', base + '/run/old'),\n"
	" 'NO socket_make': lambda: make(base + '/run/made'),\n"
	"}\n"
	"for name, attempt in tries.items():\n"
	"    try: attempt(); print(name + ': done')\n"
	"    except Exception as e: print(name + ': ' + repr(e))\n";
#define PROBES 29

static void check_probe(const char *said)
{
	char *lines = strdup(said);
	int count = 0;

	for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n"), count++) {
		bool done = strstr(line, ": done") != NULL, forbidden = strncmp(line, "NO ", 3) == 0;

		must(done != forbidden, "%s", line);
		must(done || strstr(line, "PermissionError(") || strstr(line, "OSError(18,"), "%s", line);
	}
	must(count == PROBES, "%d attempts: %s", count, said);
	free(lines);
}

/* One session really tries to get at another's directory. */
START_TEST(session_opens_no_other_directory_of_sessions_or_state) /* proves SA-03 */
{
	if (!has_landlock())
		return;
	r = rig_new();
	file_write(rig_path(r, "probe.py"), probe);
	file_write(rig_path(r, "beside"), "x");
	file_write(rig_path(r, "probe.env"), "SECRET=12345678\n");
	chmod(rig_path(r, "probe.env"), 0600);
	mkdir(rig_path(r, "open"), 0700);
	mkdir(rig_path(r, "run"), 0700);
	rig_env(r, "RUNTIME_DIRECTORY=%s", rig_path(r, "run"));
	rig_capability(r, "probe", "x", NULL);
	rig_set(r, "capability probe", "protocol", "text");
	rig_set(r, "capability probe", "env_file", "%s", rig_path(r, "probe.env"));
	rig_env(r, "HOME=%s", rig_path(r, "open"));
	rig_start(r);
	p = peer_new(r);
	const char *victim = peer_run(p, "agent",
		J("{'do':[['write','mine.txt'],['progress',1],['hold','%s'],['dump']]}", rig_path(r, "go")));
	peer_event(p, victim, "progress");
	must(file_exists(rig_path(r, "run/control.sock")), "the socket");
	/* what the rules keep open, too, is no older than the task */
	file_write(rig_path(r, "beside"), "y");
	rig_set(r, "capability probe", "command", "/usr/bin/python3 -IS %s %s %s/work/%s %s",
		rig_path(r, "probe.py"), r->state, r->state, victim, r->dir);
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	wait_until(rig_log_has(r, "configuration reloaded"), WAIT_S, "the reload");
	struct note *n = peer_completed(p, peer_run(p, "probe", NULL));
	check_probe(note_text(n, "payload.outputs.stdout"));
	must(file_exists(rig_path(r, "state/work/%s/mine.txt", victim)), "it is gone");
	rig_touch(r, "go");
	peer_completed(p, victim);
	end();
}
END_TEST

/* --- a copy of the state directory beside the original --- */

/* As `sqlite3 hcpd.db .backup` does. */
static void copy_store(const char *from, const char *to)
{
	sqlite3 *a, *b;
	sqlite3_backup *copy;

	must(sqlite3_open_v2(from, &a, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK, "%s", from);
	must(sqlite3_open(to, &b) == SQLITE_OK, "%s", to);
	sqlite3_busy_timeout(a, 5000);
	copy = sqlite3_backup_init(b, "main", a, "main");
	must(copy && sqlite3_backup_step(copy, -1) == SQLITE_DONE, "%s", sqlite3_errmsg(b));
	sqlite3_backup_finish(copy);
	sqlite3_close(a);
	sqlite3_close(b);
}

/* Of the original, with no broker: it would publish what the original does. */
static struct rig *begin_copy(void)
{
	struct rig *copy = rig_new();

	copy_store(r->db, copy->db);
	copy_file(rig_path(r, "state/token.keys"), rig_path(copy, "state/token.keys"));
	rig_set(copy, "amqp", "url", "amqp://guest:guest@127.0.0.1:1/%%2F");
	rig_set(copy, "daemon", "stop_timeout", "1s");
	copy->no_consumer_wait = true;
	rig_set(copy, "daemon", "cgroup", "off"); /* by which it would know its own */
	return copy;
}

/* A zombie has no environment, so it does not count. */
static void must_live(const char *path)
{
	char *text = file_read(path, NULL);
	pid_t pids[16];
	int count = rig_processes(r, pids, 16);
	bool lives = false;

	for (int i = 0; text && i < count && i < 16; i++)
		lives = lives || pids[i] == atoi(text);
	must(lives, "the copy killed a process of the original");
	free(text);
}

static void run_beside(bool is_asked)
{
	pid_t pids[4];

	r = rig_new();
	rig_start(r);
	p = peer_new(r);
	const char *s = peer_run(p, "agent",
		J("{'do':[['progress',1],['hold','%s'],['grandchild','pid'],['progress',1],['hold','%s'],"
		  "['dump']]}",
			rig_path(r, "grow"), rig_path(r, "go")));
	peer_event(p, s, "progress");
	struct rig *copy = begin_copy();
	if (is_asked)
		rig_set(copy, "daemon", "on_start", "ask");
	rig_start(copy);
	must(rig_log_has(copy, "the state directory is not the one of the last start"), "the log");
	must(rig_sql(copy, "SELECT count(*) FROM audit WHERE json_extract(entry, '$.code') = 'copied'") == 1,
		"the audit");
	must(rig_processes(r, pids, 4) >= 1, "the copy's start killed the original's worker");
	if (!is_asked)
		wait_until(rig_processes(copy, pids, 4) >= 1, WAIT_S, "the copy's own worker");
	else
		must(rig_sql(copy, "SELECT count(*) FROM sessions WHERE state = 'PAUSED'") == 1, "it waits");
	/* what is younger than the copy's worker, and has the same session in its environment */
	rig_touch(r, "grow");
	wait_until(peer_find_nth(p, s, "event", "progress", 2), WAIT_S, "the grandchild");
	if (!is_asked)
		wait_until(file_exists(rig_path(copy, "state/work/%s/pid", s)), WAIT_S, "the copy's");
	rig_stop(copy);
	must_live(rig_path(r, "state/work/%s/pid", s));
	rig_start(copy); /* the second time it is at home */
	must(rig_log_count(copy, "the state directory is not the one of the last start") == 1, "again");
	rig_kill(copy);
	rig_start(copy);
	rig_stop(copy);
	must_live(rig_path(r, "state/work/%s/pid", s));
	rig_finish(copy);
	rig_touch(r, "go");
	struct note *n = peer_completed(p, s);
	must(json_integer_value(note_at(n, "payload.outputs.start.attempt")) == 1, "%s", n->body);
	end();
}

START_TEST(a_copied_state_directory_leaves_the_originals_workers_alone)
{
	run_beside(false);
}
END_TEST

START_TEST(a_copy_that_asks_starts_nothing)
{
	run_beside(true);
}
END_TEST

/* The mark belongs to the directory: a new name of it is no copy. */
START_TEST(a_renamed_state_directory_is_the_same)
{
	char before[320];

	r = rig_new();
	rig_start(r);
	rig_stop(r);
	strcpy(before, r->state);
	strcat(r->state, "-renamed");
	must(rename(before, r->state) == 0, "%s", r->state);
	snprintf(r->db, sizeof r->db, "%s/hcpd.db", r->state);
	rig_set(r, "daemon", "state_dir", "%s", r->state);
	rig_start(r);
	must(!rig_log_has(r, "is not the one of the last start"), "the log");
	p = peer_new(r);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("confine");

	suite_test(s, a_process_of_a_session_is_no_operator, 60);
	suite_test(s, a_process_of_a_session_as_it_is_by_default_is_no_operator, 60);
	suite_test(s, a_process_of_a_session_under_landlock_is_no_operator, 60);
	suite_test(s, session_opens_no_other_directory_of_sessions_or_state, 60);
	suite_test(s, a_copied_state_directory_leaves_the_originals_workers_alone, 60);
	suite_test(s, a_copy_that_asks_starts_nothing, 60);
	suite_test(s, a_renamed_state_directory_is_the_same, 60);
	return harness_run(s, false);
}
