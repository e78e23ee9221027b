/* SPDX-License-Identifier: MIT */
/* test_doctor.c: hcpctl doctor: a healthy daemon gets no word of complaint, and every fault that was prepared
 * is found, named, and told what to do about. Each test has a virtual host of its own, with a user that may
 * do what hcpd must. */
#include <amqp.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "support/hcpctl_kit.h"
#include "support/wire.h"

#define REDIRECT ">/dev/null 2>&1"

static struct broker hospital; /* the shared one, in our virtual host */
static char vhost[64], host_port[128];

/* --- the ward --- */

static void eval(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void eval(const char *fmt, ...)
{
	char text[1500];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	must(broker_eval(&hospital, text) == 0, "%s", text);
}

/* What `hcpctl topology` would set; its own test runs the real thing. */
static void permit(const char *user, const char *configure, const char *write, const char *read)
{
	eval("rabbit_auth_backend_internal:set_permissions(<<\"%s\">>, <<\"%s\">>, <<\"%s\">>, <<\"%s\">>, "
	     "<<\"%s\">>, <<\"t\">>).",
		user, vhost, configure, write, read);
}

static void make_ward(void)
{
	const struct broker *b = broker_shared();
	const char *at = strchr(b->url, '@');
	static int count;

	must(b->dir[0] && at, "a broker that can be asked is needed: %s", b->url);
	hospital = *b;
	snprintf(vhost, sizeof vhost, "doctor-%d-%d", getpid(), ++count);
	snprintf(host_port, sizeof host_port, "%.*s", (int)strcspn(at + 1, "/"), at + 1);
	snprintf(hospital.url, sizeof hospital.url, "amqp://guest:guest@%s/%s", host_port, vhost);
	eval("rabbit_vhost:add(<<\"%s\">>, <<\"t\">>).", vhost);
	permit("guest", ".*", ".*", ".*");
	eval("rabbit_auth_backend_internal:add_user(<<\"%s\">>, <<\"secret\">>, <<\"t\">>).", vhost);
	permit(vhost, "^hcp.(commands|events|cmd.*)$", "^hcp.(events|cmd.*)$", "^hcp.(commands|cmd.*)$");
}

/* Everything that doctor could wish for, but a running daemon. */
static void admit(void)
{
	amqp_connection_state_t c;

	umask(077);
	make_ward();
	ctl_begin_on(&hospital, false);
	rig_set(r, "amqp", "url", "amqp://%s:secret@%s/%s", vhost, host_port, vhost);
	rig_set(r, "daemon", "max_sessions", "8");
	rig_set(r, "session", "max_outbox_total", "64MiB");
	rig_set(r, "caller *", "capabilities", NULL);
	rig_set(r, "caller *", "max_risk", NULL);
	rig_set(r, "caller alpha", "capabilities", "*");
	rig_set(r, "caller alpha", "amqp_user", "alpha");
	must((c = wire_connect(&hospital)), "%s", hospital.url);
	must(wire_declare_exchanges(c), "exchanges");
	amqp_exchange_declare(c, 1, amqp_cstring_bytes("hcp.dead"), amqp_cstring_bytes("fanout"), 0, 1, 0, 0,
		amqp_empty_table);
	must(wire_ok(c), "hcp.dead");
	wire_disconnect(&c);
	wire_make_queue(&hospital, "hcp.dead", "x-queue-type=classic", "hcp.dead", "x");
	wire_make_queue(&hospital, "hcp.evt.alpha", "x-queue-type=classic", "hcp.events", "alpha.#");
	rig_write_ini(r);
}

static void discharge(void)
{
	rig_finish(r);
	eval("rabbit_vhost:delete(<<\"%s\">>, <<\"t\">>).", vhost);
	eval("rabbit_auth_backend_internal:delete_user(<<\"%s\">>, <<\"t\">>).", vhost);
}

/* --- the visit --- */

static struct ctl_run visit(const char *option, const char *value, int status)
{
	struct ctl_run run = ctl_start("doctor", "--daemon-config", r->ini, option, value, NULL);

	ctl_finish(&run, status);
	return run;
}

static struct ctl_run look(int status)
{
	return visit(NULL, NULL, status);
}

/* A line LEVEL SUBJECT ... what ..., and behind it one that says what to do. */
static bool has_finding(const char *out, const char *level, const char *what, const char *todo)
{
	char *text = strdup(ctl_text_of(out)), *save = NULL;
	bool found = false, was = false;

	for (char *line = strtok_r(text, "\n", &save); line && !found; line = strtok_r(NULL, "\n", &save)) {
		found = was && strstr(line, "-> ") && strstr(line, todo);
		was = strncmp(line, level, strlen(level)) == 0 && strstr(line, what);
	}
	free(text);
	return found;
}

#define found(run, level, what, todo) \
	must(has_finding((run).out, level, what, todo), "no %s %s -> %s in:\n%s", level, what, todo, \
		ctl_text_of((run).out))

/* The machine's own clock is not the test's to set. */
static int count_complaints(const char *out)
{
	char *text = strdup(ctl_text_of(out)), *save = NULL;
	int count = 0;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		count += (strncmp(line, "WARN", 4) == 0 || strncmp(line, "FAIL", 4) == 0) &&
			!strstr(line, " clock ");
	free(text);
	return count;
}

static void must_be_alone(const struct ctl_run *run)
{
	must(count_complaints(run->out) == 1, "more than the one fault:\n%s", ctl_text_of(run->out));
}

/* --- health --- */

START_TEST(a_healthy_daemon_gets_no_complaint)
{
	admit();
	rig_start(r);
	struct ctl_run run = look(0);
	must(count_complaints(run.out) == 0, "%s", ctl_text_of(run.out));
	ctl_must_have(run.out, "hcpd runs, pid");
	ctl_must_have(run.out, "has one consumer");
	ctl_must_have(run.out, "it answers: 0 sessions run");
	ctl_must_have(run.out, "is sound");
	ctl_must_have(run.out, "0 to mend");
	must(!rig_log_has(r, "level=error"), "the daemon noticed");
	run = visit("--json", NULL, 0);
	ctl_must_have(run.out, "{\"subject\":\"config\",\"level\":\"ok\",\"what\":\"");
	discharge();
}
END_TEST

START_TEST(a_daemon_that_is_down_is_told_and_is_no_failure)
{
	admit();
	rig_start(r);
	rig_stop(r);
	struct ctl_run run = look(0);
	found(run, "WARN  daemon", "hcpd does not run", "systemctl start hcpd");
	found(run, "WARN  topology", "nobody consumes queue hcp.cmd.", "start hcpd");
	must(count_complaints(run.out) == 2, "%s", ctl_text_of(run.out));
	ctl_must_have(run.out, "is sound");
	discharge();
}
END_TEST

START_TEST(doctor_hears_a_running_daemon_and_does_not_wait_for_it)
{
	admit();
	rig_start(r);
	struct ctl_run run = ctl_start("drain", "--daemon-config", r->ini, NULL);
	ctl_finish(&run, 0);
	run = look(0);
	found(run, "WARN  daemon", "hcpd is draining", "hcpctl undrain");
	must_be_alone(&run);
	rig_signal(r, SIGSTOP);
	run = look(1);
	rig_signal(r, SIGCONT);
	found(run, "FAIL  daemon", "hcpd runs and hangs: no answer on its control socket within 5 s",
		"systemctl restart hcpd");
	discharge();
}
END_TEST

/* --- configuration --- */

static void append(const char *path, const char *text)
{
	FILE *f = fopen(path, "a");

	must(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s", path);
}

START_TEST(a_broken_line_and_an_unknown_key_are_named_with_their_line)
{
	admit();
	append(r->ini, "[daemon]\nmax_session = 3\nthis is nonsense\n");
	file_write(rig_path(r, "agent.json"), "{\"capability\": {\"name\": \"agent\", ");
	struct ctl_run run = look(1);
	found(run, "FAIL  declaration", "agent.json", "correct the file");
	found(run, "FAIL  config", "[daemon] has no key max_session", "did you mean max_sessions?");
	ctl_must_have(run.out, "hcpd.ini:");
	must(count_complaints(run.out) == 3, "%s", ctl_text_of(run.out));
	ctl_must_have(run.out, "SKIP  config");
	discharge();
}
END_TEST

START_TEST(a_text_with_semicolons_is_not_cut_in_the_middle)
{
	admit();
	append(r->ini,
		"[daemon]\ncallee_id = \"a; b\"\n[capability agent]\nlandlock = yes\n"
		"landlock_read = /nonexistent\n");
	struct ctl_run run = look(1);
	found(run, "FAIL  config", "callee_id = \"a; b\" does not do",
		"-> write 1 to 128 letters, digits, - and _; callers address the daemon by it");
	/* what follows is no advice */
	ctl_must_have(run.out, "/nonexistent is not there now: No such file or directory; sessions go");
	discharge();
}
END_TEST

START_TEST(a_key_that_hcpd_refuses_is_told)
{
	admit();
	append(r->ini, "[approver ada]\nkey = ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n");
	struct ctl_run run = look(1);
	found(run, "FAIL  config", "[approver ada]: key ada: anybody could sign for it",
		"give every approver a key of its own");
	rig_write_ini(r);
	append(r->ini,
		"[approver ada]\nkey = ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\n"
		"[approver bob]\nkey = ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\n");
	run = look(1);
	found(run, "FAIL  config", "[approver bob]: key bob: the same public key as ada",
		"give every approver a key of its own");
	discharge();
}
END_TEST

START_TEST(a_configuration_that_is_nowhere_is_told)
{
	admit();
	struct ctl_run run = ctl_start("doctor", "--daemon-config", "/nonexistent/hcpd.ini", NULL);
	ctl_finish(&run, 1);
	found(run, "FAIL  config", "/nonexistent/hcpd.ini: cannot be read: No such file",
		"name the configuration with --daemon-config FILE");
	discharge();
}
END_TEST

START_TEST(an_env_file_that_others_can_read_is_told)
{
	admit();
	file_write(rig_path(r, "agent.env"), "KEY=x\n");
	chmod(rig_path(r, "agent.env"), 0644);
	rig_set(r, "capability agent", "env_file", "%s", rig_path(r, "agent.env"));
	rig_write_ini(r);
	struct ctl_run run = look(1);
	found(run, "FAIL  config", "has mode 0644, so others can get at its secrets", "chmod 600");
	must_be_alone(&run);
	discharge();
}
END_TEST

START_TEST(a_broken_declaration_is_told)
{
	admit();
	rig_start(r);
	file_write(rig_path(r, "agent.json"), "{\"capability\": {\"name\": \"agent\", ");
	struct ctl_run run = look(1);
	found(run, "FAIL  declaration", "agent.json", "correct the file");
	must_be_alone(&run);
	discharge();
}
END_TEST

START_TEST(doctor_names_a_caller_with_the_daemons_own_log_in)
{
	admit();
	rig_set(r, "caller alpha", "amqp_user", "%s", vhost);
	rig_write_ini(r);
	permit(vhost, ".*", ".*", ".*");
	struct ctl_run run = look(0);
	found(run, "WARN  permissions", "caller alpha has the user",
		"give the caller a user of its own, amqp_user in [caller alpha]");
	found(run, "WARN  permissions", "may write to exchanges that are none of hcpd's",
		"first give every caller a user of its own");
	discharge();
}
END_TEST

START_TEST(an_output_that_cannot_be_written_is_told)
{
	char command[1200];
	static const char *const what[] = {"doctor", "doctor --help", "topology --help"};

	admit();
	for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
		size_t size;

		snprintf(command, sizeof command, "%s %s --daemon-config %s 2>%s >/dev/full", ctl_program(),
			what[i], r->ini, rig_path(r, "said"));
		int status = system(command);
		char *said = file_read(rig_path(r, "said"), &size);
		must(WIFEXITED(status) && WEXITSTATUS(status) == 1, "%s: %d", what[i], status);
		must(said && strstr(said, "the standard output cannot be written"), "%s: %s", what[i],
			said ? said : "nothing");
		free(said);
	}
	discharge();
}
END_TEST

/* --- commands --- */

static void try_command(const char *text, mode_t mode, const char *what, const char *todo)
{
	const char *path = rig_path(r, "command");

	unlink(path);
	if (text) {
		file_write(path, text);
		chmod(path, mode);
	}
	rig_set(r, "capability agent", "command", "%s", path);
	rig_write_ini(r);
	struct ctl_run run = look(1);
	found(run, "FAIL  command", what, todo);
	must_be_alone(&run);
}

START_TEST(commands_that_cannot_be_executed_are_told_apart)
{
	admit();
	rig_start(r);
	try_command(NULL, 0, "command does not exist", "install it, or correct command");
	try_command("#!/bin/sh\n", 0644, "is not executable by user", "chmod +x");
	try_command("#!/nonexistent/python9\n", 0755, "wants the interpreter /nonexistent/python9",
		"install the interpreter");
	try_command("#!/usr/bin/env no-such-python\n", 0755, "wants no-such-python, which is not in PATH",
		"install it");
	try_command("#!/bin/sh\r\n", 0755, "carriage return", "Unix line ends");
	try_command("echo hello\n", 0755, "neither a program nor a script", "#!/bin/sh");
	rig_set(r, "capability agent", "command", "no-such-command --fast");
	rig_write_ini(r);
	struct ctl_run run = look(1);
	found(run, "FAIL  command", "no-such-command is not in PATH", "whole path");
	rig_set(r, "capability agent", "command", "/bin/sh /nonexistent/agent.sh");
	rig_write_ini(r);
	run = look(1);
	found(run, "FAIL  command", "script /nonexistent/agent.sh cannot be read", "correct command");
	discharge();
}
END_TEST

/* --- as another user: not below TMPDIR, which others may not pass --- */

static char open_dir[64];

static const char *in_open(const char *name)
{
	static char path[200];

	snprintf(path, sizeof path, "%s/%s", open_dir, name);
	return path;
}

/* False: only root can look as somebody else. */
static bool admit_for_nobody(void)
{
	if (geteuid() != 0) {
		printf("skipped: needs root\n");
		return false;
	}
	admit();
	snprintf(open_dir, sizeof open_dir, "/tmp/hcp-doctor.XXXXXX");
	must(mkdtemp(open_dir) && chmod(open_dir, 0755) == 0 && mkdir(in_open("state"), 0700) == 0, "%s",
		open_dir);
	rig_set(r, "daemon", "state_dir", "%s", in_open("state"));
	rig_write_ini(r);
	return true;
}

START_TEST(a_policy_program_is_looked_at_and_its_state_is_told)
{
	struct ctl_run run;

	admit();
	rig_set(r, "policy", "command", "/no/such/policy");
	rig_start(r);
	run = look(1);
	found(run, "FAIL  command", "[policy] /no/such/policy does not exist",
		"install it, or correct command in that section");
	found(run, "FAIL  policy", "the policy program /no/such/policy is down for",
		"correct command in [policy]");
	run = ctl_start("stats", "--daemon-config", r->ini, NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "policy      /no/such/policy is DOWN for ");
	ctl_must_have(
		run.out, "every task is denied: cannot execute /no/such/policy: No such file or directory");
	rig_set(r, "policy", "command", "/usr/bin/env RIG_MARK=%s /bin/cat", r->dir);
	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	wait_until(rig_log_has(r, "the policy program runs"), WAIT_S, "the other one runs");
	run = look(0);
	must(count_complaints(run.out) == 0, "%s", ctl_text_of(run.out));
	ctl_must_have(run.out, "[policy] /usr/bin/env can be executed by user");
	ctl_must_have(run.out, "the policy program /usr/bin/env runs, for ");
	run = ctl_start("stats", "--daemon-config", r->ini, NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "policy      /usr/bin/env runs for ");
	discharge();
}
END_TEST

START_TEST(a_command_is_looked_at_as_the_daemons_user)
{
	if (!admit_for_nobody())
		return;
	must(chown(in_open("state"), 65534, 65534) == 0, "chown");
	file_write(in_open("command"), "#!/bin/sh\n");
	chmod(in_open("command"), 0700); /* root's alone */
	rig_set(r, "capability agent", "command", "%s", in_open("command"));
	rig_write_ini(r);
	struct ctl_run run = look(1);
	found(run, "FAIL  command", "is not executable by user nobody", "chmod +x");
	ctl_must_have(run.out, "state can be used by user nobody");
	chmod(open_dir, 0700);
	run = visit("--user", "nobody", 1);
	found(run, "FAIL  command", "cannot be reached by user nobody: Permission denied",
		"pass the directories");
	tree_remove(open_dir);
	discharge();
}
END_TEST

/* --- state --- */

START_TEST(a_state_directory_of_somebody_else_is_told)
{
	if (!admit_for_nobody())
		return;
	struct ctl_run run = visit("--user", "nobody", 1);
	found(run, "FAIL  state", "belongs to user root, and hcpd runs as nobody", "chown -R nobody");
	must(chown(in_open("state"), 65534, 65534) == 0 && chmod(in_open("state"), 0500) == 0, "%s",
		open_dir);
	run = visit("--user", "nobody", 1);
	found(run, "FAIL  state", "cannot be used by user nobody: Permission denied", "chmod u+rwx");
	must(chmod(in_open("state"), 0700) == 0, "%s", open_dir);
	run = visit("--user", "nobody", 0);
	ctl_must_have(run.out, "state can be used by user nobody");
	run = visit("--user", "no-such-user", 1);
	found(run, "FAIL  daemon", "there is no user no-such-user", "leave --user out");
	tree_remove(open_dir);
	discharge();
}
END_TEST

START_TEST(a_state_directory_is_good_only_where_it_can_be_made)
{
	admit();
	rig_set(r, "daemon", "state_dir", "/proc/nope");
	rig_write_ini(r);
	struct ctl_run run = look(1);
	found(run, "FAIL  state", "/proc/nope is not there and cannot be made", "name a state_dir on a disk");
	rig_set(r, "daemon", "state_dir", "%s", rig_path(r, "one/two"));
	rig_write_ini(r);
	run = look(1);
	found(run, "FAIL  state", "hcpd makes only the last directory", "make it, owned by that user");
	rig_set(r, "daemon", "state_dir", "%s", rig_path(r, "one"));
	rig_write_ini(r);
	run = look(0);
	ctl_must_have(run.out, "is not there yet; hcpd makes it at its first start");
	discharge();
}
END_TEST

START_TEST(a_state_directory_that_only_root_could_make_is_told)
{
	if (!admit_for_nobody())
		return;
	rig_set(r, "daemon", "state_dir", "%s", in_open("new"));
	rig_write_ini(r);
	struct ctl_run run = visit("--user", "nobody", 1);
	found(run, "FAIL  state", "user nobody cannot make it: Permission denied",
		"make it, owned by that user");
	tree_remove(open_dir);
	discharge();
}
END_TEST

START_TEST(a_control_group_that_cannot_get_to_the_socket_is_told)
{
	if (!admit_for_nobody())
		return;
	rig_set(r, "control", "socket", NULL);
	rig_set(r, "control", "group", "daemon");
	rig_write_ini(r);
	struct ctl_run run = look(0);
	found(run, "WARN  control", "its members may not enter", "write socket = PATH into [control]");
	rig_set(r, "control", "socket", "%s", in_open("control.sock"));
	rig_write_ini(r);
	run = look(0);
	ctl_must_have(run.out, "group daemon gets to the control socket");
	tree_remove(open_dir);
	discharge();
}
END_TEST

/* What another user's doctor cannot look at is told by its name. */
START_TEST(checks_that_need_another_user_are_named)
{
	char command[1200];
	size_t size;

	if (!admit_for_nobody())
		return;
	/* The tree may be out of nobody's reach: everything that is needed comes along. */
	snprintf(command, sizeof command,
		"cp %s %s/hcpctl && cp %s %s/agent.json && chmod 755 %s/hcpctl && chmod 644 %s/agent.json",
		ctl_program(), open_dir, rig_path(r, "agent.json"), open_dir, open_dir, open_dir);
	must(system(command) == 0, "%s", command);
	rig_set(r, "capability agent", "declaration", "%s", in_open("agent.json"));
	rig_write_ini(r);
	snprintf(command, sizeof command,
		"cp %s %s/hcpd.ini && chown nobody %s/hcpd.ini && chmod 600 %s/hcpd.ini && cd / && HOME=/ "
		"setpriv --reuid=65534 --clear-groups %s/hcpctl doctor --daemon-config %s/hcpd.ini >%s/said "
		"2>&1",
		r->ini, open_dir, open_dir, open_dir, open_dir, open_dir, open_dir);
	must(system(command) >= 0, "%s", command);
	char *said = file_read(in_open("said"), &size);
	must(strstr(said, "SKIP  command     [capability agent] its command: only user root could say more"),
		"%s", said);
	must(strstr(said, "SKIP  state ") && strstr(said, "state: only user root could say more"), "%s",
		said);
	free(said);
	tree_remove(open_dir);
	discharge();
}
END_TEST

START_TEST(an_open_state_directory_and_an_open_key_are_told)
{
	admit();
	rig_start(r);
	chmod(r->state, 0755);
	chmod(rig_path(r, "state/token.keys"), 0644);
	struct ctl_run run = look(1);
	found(run, "WARN  state", "has mode 0755, so others get at tasks and tokens", "chmod 0700");
	found(run, "FAIL  state", "token.keys has mode 0644", "a new one is made");
	must(count_complaints(run.out) == 2, "%s", ctl_text_of(run.out));
	chmod(r->state, 0700);
	chmod(rig_path(r, "state/token.keys"), 0600);
	discharge();
}
END_TEST

static void set_version(int version)
{
	char sql[64];
	sqlite3 *db;

	snprintf(sql, sizeof sql, "PRAGMA user_version = %d", version);
	must(sqlite3_open(r->db, &db) == SQLITE_OK && sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK,
		"%s", r->db);
	sqlite3_close(db);
}

START_TEST(a_store_of_a_newer_hcpd_is_told_and_left_alone)
{
	admit();
	rig_start(r);
	rig_stop(r);
	int version = (int)rig_sql(r, "PRAGMA user_version");
	set_version(99);
	struct ctl_run run = look(1);
	found(run, "FAIL  store", "has schema 99, and this hcpd knows", "run the newer hcpd");
	must(rig_sql(r, "PRAGMA user_version") == 99, "it was changed");
	set_version(version);
	discharge();
}
END_TEST

START_TEST(a_damaged_store_is_told)
{
	size_t size;

	admit();
	rig_start(r);
	rig_stop(r);
	char *good = file_read(r->db, &size);
	FILE *f = fopen(r->db, "r+");
	must(f && fwrite("this is no database, and never was one", 1, 38, f) == 38 && fclose(f) == 0, "%s",
		r->db);
	struct ctl_run run = look(1);
	found(run, "FAIL  store", "cannot be read: file is not a database", "bring back a backup");
	f = fopen(r->db, "w");
	must(f && fwrite(good, 1, size, f) == size && fclose(f) == 0, "%s", r->db);
	free(good);
	discharge();
}
END_TEST

/* --- broker --- */

static void try_url(const char *url, const char *what, const char *todo)
{
	rig_set(r, "amqp", "url", "%s", url);
	rig_write_ini(r);
	struct ctl_run run = look(1);
	found(run, "FAIL  broker", what, todo);
	ctl_must_have(run.out, "SKIP  topology");
}

START_TEST(a_broker_that_does_not_let_hcpd_in_says_why)
{
	char url[600];

	admit();
	try_url("amqp://a:b@127.0.0.1:1/x", "cannot connect to 127.0.0.1:1", "is the broker running");
	snprintf(url, sizeof url, "amqp://%s:wrong@%s/%s", vhost, host_port, vhost);
	try_url(url, "refuses the log-in of", "check user, password and sasl");
	snprintf(url, sizeof url, "amqp://%s:secret@%s/no-such-host", vhost, host_port);
	try_url(url, "refuses virtual host no-such-host", "does it exist");
	discharge();
}
END_TEST

/* A port of ours with a certificate that ran out a day ago. */
START_TEST(an_expired_certificate_is_told)
{
	char command[2000];
	pid_t pid;
	int tries = 200, port = 20000 + getpid() % 10000;

	admit();
	snprintf(command, sizeof command,
		"cd %s && openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "
		"/CN=localhost -keyout k.pem -out c.csr " REDIRECT
		" && openssl x509 -req -in c.csr -signkey k.pem -days -1 -out c.pem " REDIRECT,
		r->dir);
	must(system(command) == 0, "%s", command);
	fflush(NULL);
	if ((pid = fork()) == 0) {
		char number[16];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(number, sizeof number, "%d", port);
		if (chdir(r->dir) < 0 || !freopen("/dev/null", "w", stdout) ||
			!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "r", stdin))
			_exit(1);
		execlp("openssl", "openssl", "s_server", "-accept", number, "-cert", "c.pem", "-key", "k.pem",
			"-quiet", "-naccept", "1000", NULL);
		_exit(127);
	}
	rig_set(r, "amqp", "url", "amqps://%s:secret@localhost:%d/%s", vhost, port, vhost);
	rig_set(r, "amqp", "ca_file", "%s", rig_path(r, "c.pem"));
	rig_write_ini(r);
	struct ctl_run run;
	do { /* until it listens */
		run = look(1);
		harness_pass(0.05);
	} while (strstr(ctl_text_of(run.out), "shows no certificate") && --tries > 0);
	found(run, "FAIL  tls", "the certificate of localhost:", "renew it at the broker");
	ctl_must_have(run.out, "has expired: ");
	found(run, "FAIL  tls", "the certificate of ca_file", "have it renewed");
	kill(pid, SIGKILL);
	discharge();
}
END_TEST

/* --- topology --- */

START_TEST(a_queue_with_other_arguments_is_told)
{
	admit();
	wire_make_queue(&hospital, r->queue, "x-max-length=5", NULL, NULL);
	struct ctl_run run = look(1);
	found(run, "FAIL  topology", "was made with other arguments", "delete the queue");
	ctl_must_have(run.out, "x-max-length");
	rig_set(r, "amqp", "queue_type", "quorum");
	rig_write_ini(r);
	wire_delete_queue(&hospital, r->queue);
	wire_make_queue(&hospital, r->queue, "x-queue-type=classic", NULL, NULL);
	run = look(1);
	found(run, "FAIL  topology", "(queue_type = quorum)", "set queue_type");
	discharge();
}
END_TEST

START_TEST(an_exchange_of_another_type_or_none_is_told)
{
	amqp_connection_state_t c;

	admit();
	wire_delete_exchange(&hospital, "hcp.events");
	struct ctl_run run = look(0);
	found(run, "WARN  topology", "exchange hcp.events: there is none", "hcpctl topology");
	must((c = wire_connect(&hospital)), "connect");
	amqp_exchange_declare(c, 1, amqp_cstring_bytes("hcp.events"), amqp_cstring_bytes("fanout"), 0, 1, 0,
		0, amqp_empty_table);
	must(wire_ok(c), "declare");
	run = look(1);
	found(run, "FAIL  topology", "exchange hcp.events is not durable, of type topic",
		"delete the exchange");
	amqp_exchange_delete(c, 1, amqp_cstring_bytes("hcp.events"), 0);
	wire_disconnect(&c);
	discharge();
}
END_TEST

START_TEST(a_look_makes_nothing_at_the_broker)
{
	int messages, consumers;

	admit();
	wire_delete_exchange(&hospital, "hcp.commands");
	wire_delete_queue(&hospital, "hcp.evt.alpha");
	struct ctl_run run = look(0);
	found(run, "WARN  topology", "exchange hcp.commands: there is none", "hcpctl topology");
	found(run, "WARN  topology", "hcp.cmd.", "hcpctl topology");
	run = look(0);
	found(run, "WARN  topology", "exchange hcp.commands: there is none", "hcpctl topology");
	must(!queue_look(&hospital, r->queue, &messages, &consumers), "it made the command queue");
	must(!queue_look(&hospital, "hcp.evt.alpha", &messages, &consumers), "it made the caller's queue");
	discharge();
}
END_TEST

START_TEST(missing_queues_of_callers_and_dead_letters_are_told)
{
	admit();
	rig_start(r);
	wire_delete_queue(&hospital, "hcp.evt.alpha");
	wire_delete_exchange(&hospital, "hcp.dead");
	struct ctl_run run = look(0);
	found(run, "WARN  topology", "caller alpha has no queue hcp.evt.alpha", "start the caller");
	found(run, "WARN  topology", "there is no dead-letter exchange hcp.dead", "hcpctl topology");
	must(count_complaints(run.out) == 2, "%s", ctl_text_of(run.out));
	discharge();
}
END_TEST

START_TEST(doctor_names_a_daemon_that_does_not_consume_and_strangers)
{
	amqp_connection_state_t one, two;

	admit();
	wire_make_queue(&hospital, r->queue, "x-queue-type=classic", "hcp.commands", r->callee);
	must((one = wire_connect(&hospital)) && (two = wire_connect(&hospital)), "connect");
	amqp_basic_consume(one, 1, amqp_cstring_bytes(r->queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
	struct ctl_run run = look(0);
	found(run, "WARN  topology", "is consumed, but not by the hcpd of", "list_consumers");
	amqp_basic_consume(two, 1, amqp_cstring_bytes(r->queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
	run = look(1);
	found(run, "FAIL  topology", "2 consume queue hcp.cmd.", "it takes tasks away");
	wire_disconnect(&one);
	wire_disconnect(&two);
	/* One that runs, and looks elsewhere. */
	rig_set(r, "amqp", "url", "amqp://a:b@127.0.0.1:1/x");
	r->no_consumer_wait = true;
	rig_start(r);
	rig_set(r, "amqp", "url", "amqp://%s:secret@%s/%s", vhost, host_port, vhost);
	rig_write_ini(r);
	run = look(1);
	found(run, "FAIL  topology", "hcpd runs, and nobody consumes queue", "see hcpd's log");
	found(run, "FAIL  daemon", "hcpd does not consume commands now", "see its log");
	found(run, "FAIL  daemon", "hcpd cannot publish now", "nothing is lost");
	must(count_complaints(run.out) == 3, "%s", ctl_text_of(run.out));
	discharge();
}
END_TEST

/* --- permissions --- */

START_TEST(permissions_too_few_or_too_many_are_found_without_sending)
{
	int messages, consumers;

	admit();
	rig_start(r);
	wire_make_queue(&hospital, "everything", "", "hcp.events", "#");
	permit(vhost, ".*", "^hcp.cmd.*$", ".*");
	struct ctl_run run = look(1);
	found(run, "FAIL  permissions", "may not publish to hcp.events with key alpha.", "hcpctl topology");
	permit(vhost, ".*", ".*", ".*");
	run = look(0);
	found(run, "WARN  permissions", "may write to exchanges that are none of hcpd's", "hcpctl topology");
	must_be_alone(&run);
	must(queue_look(&hospital, "everything", &messages, &consumers) && messages == 0,
		"%d messages were sent", messages);
	discharge();
}
END_TEST

START_TEST(broker_that_refuses_harp_sessions_is_named_where_it_matters)
{
	amqp_connection_state_t c;

	admit();
	must((c = wire_connect(&hospital)), "connect");
	amqp_exchange_declare(c, 1, amqp_cstring_bytes("harp.sessions"), amqp_cstring_bytes("topic"), 0, 1, 0,
		0, amqp_empty_table);
	must(wire_ok(c), "declare");
	wire_disconnect(&c);
	rig_start(r);
	struct ctl_run run = look(0);
	must(count_complaints(run.out) == 0, "nobody wants it:\n%s", ctl_text_of(run.out));
	rig_set(r, "capability agent", "harp", "yes");
	rig_write_ini(r);
	run = look(1);
	found(run, "FAIL  permissions", "may not publish to harp.sessions with key alpha.",
		"hcpctl topology");
	must_be_alone(&run);
	permit(vhost, "^(hcp.(commands|events|cmd.*)|harp.sessions)$", "^(hcp.(events|cmd.*)|harp.sessions)$",
		"^hcp.(commands|cmd.*)$");
	run = look(0);
	must(count_complaints(run.out) == 0, "%s", ctl_text_of(run.out));
	ctl_must_have(run.out, "may publish to harp.sessions");
	discharge();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("doctor");

	suite_test(s, a_healthy_daemon_gets_no_complaint, 60);
	suite_test(s, a_daemon_that_is_down_is_told_and_is_no_failure, 60);
	suite_test(s, doctor_hears_a_running_daemon_and_does_not_wait_for_it, 60);
	suite_test(s, a_broken_line_and_an_unknown_key_are_named_with_their_line, 60);
	suite_test(s, a_text_with_semicolons_is_not_cut_in_the_middle, 40);
	suite_test(s, a_key_that_hcpd_refuses_is_told, 40);
	suite_test(s, a_configuration_that_is_nowhere_is_told, 60);
	suite_test(s, doctor_names_a_caller_with_the_daemons_own_log_in, 60);
	suite_test(s, an_output_that_cannot_be_written_is_told, 60);
	suite_test(s, an_env_file_that_others_can_read_is_told, 60);
	suite_test(s, a_broken_declaration_is_told, 60);
	suite_test(s, commands_that_cannot_be_executed_are_told_apart, 60);
	suite_test(s, a_policy_program_is_looked_at_and_its_state_is_told, 60);
	suite_test(s, a_command_is_looked_at_as_the_daemons_user, 60);
	suite_test(s, a_state_directory_of_somebody_else_is_told, 60);
	suite_test(s, a_state_directory_is_good_only_where_it_can_be_made, 60);
	suite_test(s, a_state_directory_that_only_root_could_make_is_told, 60);
	suite_test(s, a_control_group_that_cannot_get_to_the_socket_is_told, 60);
	suite_test(s, checks_that_need_another_user_are_named, 60);
	suite_test(s, an_open_state_directory_and_an_open_key_are_told, 60);
	suite_test(s, a_store_of_a_newer_hcpd_is_told_and_left_alone, 60);
	suite_test(s, a_damaged_store_is_told, 60);
	suite_test(s, a_broker_that_does_not_let_hcpd_in_says_why, 60);
	suite_test(s, an_expired_certificate_is_told, 60);
	suite_test(s, a_queue_with_other_arguments_is_told, 60);
	suite_test(s, an_exchange_of_another_type_or_none_is_told, 60);
	suite_test(s, a_look_makes_nothing_at_the_broker, 60);
	suite_test(s, missing_queues_of_callers_and_dead_letters_are_told, 60);
	suite_test(s, doctor_names_a_daemon_that_does_not_consume_and_strangers, 60);
	suite_test(s, permissions_too_few_or_too_many_are_found_without_sending, 60);
	suite_test(s, broker_that_refuses_harp_sessions_is_named_where_it_matters, 60);
	return harness_run(s, false);
}
