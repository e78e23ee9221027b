/* SPDX-License-Identifier: MIT */
/* test_landlock.c: a worker under Landlock, of the daemon's own user, tries to get at what is not its own.
 * Each version of the kernel's interface that this knows is played through. */
#include "support/launch_kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "process/landlock.h"
#include "support/log_kit.h"

/* Run by python3 -c; each attempt prints its name and "done", or why not. */
static const char attempts[] =
	"import os, sys\n"
	"base, daemon = sys.argv[1], int(sys.argv[2])\n"
	"def read(p): open(p, 'rb').read(1)\n"
	"def write(p): open(p, 'r+').write('x')\n"
	"def make(p): open(p, 'w').close()\n"
	"def sym():\n"
	"    os.symlink(base + '/state/hcpd.db', 'sym'); read('sym')\n"
	"def run():\n"
	"    open('tool', 'w').write('#!/bin/sh\\nexit 7\\n'); os.chmod('tool', 0o700)\n"
	"    assert os.waitstatus_to_exitcode(os.system('./tool')) == 7\n"
	"tries = {\n"
	" 'own': lambda: (make('mine'), write('mine'), os.mkdir('d'), os.rename('mine', 'd2')),\n"
	" 'own_dirs': lambda: (make('m'), os.rename('m', 'd/m')),\n"
	" 'own_truncate': lambda: os.truncate('d2', 0),\n"
	" 'run': run,\n"
	" 'task': lambda: read(base + '/state/work/one/task.json'),\n"
	" 'system': lambda: (read('/etc/passwd'), os.listdir('/usr/bin'), read('/proc/self/status'), "
	"read('/dev/urandom')),\n"
	" 'null': lambda: make('/dev/null'),\n"
	" 'pipes': lambda: os.close(os.open('/proc/self/fd/1', os.O_WRONLY)),\n"
	" 'named_read': lambda: read(base + '/agents/lib.txt'),\n"
	" 'named_write': lambda: make(base + '/cache/new'),\n"
	" 'beside': lambda: read(base + '/etc/plain.txt'),\n"
	" 'below': lambda: read(base + '/etc/sub/plain.txt'),\n"
	" 'NO store': lambda: read(base + '/state/hcpd.db'),\n"
	" 'NO store_write': lambda: write(base + '/state/hcpd.db'),\n"
	" 'NO store_truncate': lambda: os.truncate(base + '/state/hcpd.db', 0),\n"
	" 'NO store_truncate_open': lambda: os.close(os.open(base + '/state/hcpd.db', os.O_RDONLY | "
	"os.O_TRUNC)),\n"
	" 'NO store_symlink': sym,\n"
	" 'NO store_up': lambda: read('../../hcpd.db'),\n"
	" 'NO state_list': lambda: os.listdir(base + '/state'),\n"
	" 'NO state_make': lambda: make(base + '/state/new'),\n"
	" 'NO other': lambda: read(base + '/state/work/two/task.json'),\n"
	" 'NO other_list': lambda: os.listdir(base + '/state/work/two'),\n"
	" 'NO other_make': lambda: make(base + '/state/work/two/new'),\n"
	" 'NO work_list': lambda: os.listdir(base + '/state/work'),\n"
	" 'NO env_file': lambda: read(base + '/etc/agent.env'),\n"
	" 'NO key_file': lambda: read(base + '/etc/sub/deep/client.key'),\n"
	" 'NO credential': lambda: read(base + '/credentials/password'),\n"
	" 'NO read_is_no_write': lambda: make(base + '/agents/new'),\n"
	" 'NO cache_secret': lambda: read(base + '/cache/secret/key'),\n"
	" 'NO cache_secret_make': lambda: make(base + '/cache/secret/new'),\n"
	" 'NO elsewhere': lambda: read(base + '/elsewhere.txt'),\n"
	" 'NO tmp': lambda: make('/tmp/hcpd-landlock-escaped'),\n"
	" 'NO tmp_list': lambda: os.listdir('/tmp'),\n"
	" 'NO shm': lambda: make('/dev/shm/hcpd-landlock-escaped'),\n"
	" 'NO daemon_environ': lambda: read('/proc/%d/environ' % daemon),\n"
	" 'NO daemon_mem': lambda: os.close(os.open('/proc/%d/mem' % daemon, os.O_RDONLY)),\n"
	" 'NO daemon_fd': lambda: os.readlink('/proc/%d/fd/0' % daemon),\n"
	" 'NO daemon_root': lambda: read('/proc/%d/root%s/state/hcpd.db' % (daemon, base)),\n"
	" 'NO other_session_environ': lambda: read('/proc/%s/environ' % sys.argv[3]),\n"
	" 'NO other_session_dir': lambda: os.listdir('/proc/%s/cwd' % sys.argv[3]),\n"
	" 'NO signal': lambda: os.kill(daemon, 0),\n"
	" 'NO store_link': lambda: (os.link(base + '/state/hcpd.db', 'db2'), read('db2')),\n"
	" 'NO store_take': lambda: os.rename(base + '/state/hcpd.db', 'db'),\n"
	" 'NO store_replace': lambda: os.rename('d2', base + '/state/hcpd.db'),\n"
	" 'NO store_delete': lambda: os.unlink(base + '/state/hcpd.db'),\n"
	" 'NO work_move': lambda: os.rename(base + '/state/work/one', base + '/state/work/three'),\n"
	"}\n"
	"for name, attempt in tries.items():\n"
	"    try: attempt(); print(name + ': done')\n"
	"    except Exception as e: print(name + ': ' + repr(e))\n";

#define ATTEMPTS 46

static char read_path[200], write_path[200], etc_path[200];
static char *reads[] = {read_path, etc_path, NULL}, *writes[] = {write_path, NULL};
static char secret_paths[6][200], *secrets[7];
static struct config_confine f;

/* This path cannot be opened: the program's own open() stands before the C library's. */
static char unopened[200];
static int unopened_error = EIO;

int open(const char *path, int flags, ...);
int __open_2(const char *path, int flags);
static int open_or_fail(const char *path, int flags, mode_t mode)
{
	if (unopened[0] && strcmp(path, unopened) == 0) {
		errno = unopened_error;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	return open_or_fail(path, flags, mode);
}

int __open_2(const char *path, int flags)
{
	return open_or_fail(path, flags, 0);
}

static void secret(int i, const char *name)
{
	snprintf(secret_paths[i], sizeof secret_paths[i], "%s/%s", launch_kit_base, name);
	secrets[i] = secret_paths[i];
}

/* As an ordinary user, for whom modes alone would forbid nothing: it owns all of this. */
static bool begin(int abi)
{
	if (geteuid() == 0)
		ck_assert_int_eq(
			setgroups(0, NULL) | setresgid(65534, 65534, 65534) | setresuid(65534, 65534, 65534),
			0);
	prctl(PR_SET_DUMPABLE, 1); /* else the kernel forbids what the rules should */
	if (landlock_find_abi() == 0) {
		fprintf(stderr, "SKIPPED: %s\n", landlock_find_fault());
		return false;
	}
	landlock_abi_max = abi;
	launch_kit_begin();
	for (const char *const *d = (const char *const[]){"state", "state/work", "state/work/one",
		     "state/work/two", "etc", "etc/sub", "etc/sub/deep", "agents", "cache", "cache/secret",
		     "credentials", NULL};
		*d; d++)
		launch_kit_make_dir(*d, 0700);
	for (const char *const *p = (const char *const[]){"state/hcpd.db", "state/work/one/task.json",
		     "state/work/two/task.json", "etc/agent.env", "etc/plain.txt", "etc/sub/plain.txt",
		     "etc/sub/deep/client.key", "agents/lib.txt", "cache/secret/key", "credentials/password",
		     "elsewhere.txt", NULL};
		*p; p++)
		launch_kit_put(*p, "secret", 0600);
	snprintf(read_path, sizeof read_path, "%s/agents", launch_kit_base);
	snprintf(etc_path, sizeof etc_path, "%s/etc", launch_kit_base);
	snprintf(write_path, sizeof write_path, "%s/cache", launch_kit_base);
	secret(0, "state");
	secret(1, "etc/agent.env");
	secret(2, "etc/sub/deep/client.key");
	secret(3, "cache/secret");
	secret(4, "not/there");
	setenv("CREDENTIALS_DIRECTORY", launch_kit_in_base("credentials"), 1);
	f = (struct config_confine){.landlock = LANDLOCK_YES,
		.landlock_read = reads,
		.landlock_write = writes,
		.secrets = secrets};
	return true;
}

/* A directory with a secret in it is open entry by entry, so nothing new can be made at its top. */
static bool is_expected(const char *line, int abi)
{
	bool done = strstr(line, ": done") != NULL, forbidden = strncmp(line, "NO ", 3) == 0;

	/* Refused, not failed for another reason; 18 is EXDEV: not from one directory to another. */
	if (!done && !strstr(line, "PermissionError(") && !strstr(line, "OSError(18,"))
		return false;
	if (strncmp(line, "NO signal", 9) == 0)
		return done == (abi < 6);
	if (strncmp(line, "own_dirs", 8) == 0)
		return done == (abi >= 2); /* the first version let nothing change its directory */
	if (strncmp(line, "own_truncate", 12) == 0)
		return done == (abi >= 3); /* it is refused everywhere, since its rules do not know it */
	if (strncmp(line, "named_write", 11) == 0)
		return !done;
	return done != forbidden;
}

static int try_all(const char *workdir, const char *script)
{
	char python[] = "/usr/bin/python3", flags[] = "-ISc", *copy = xstrdup(script), pid[16], other[16],
	     top[64];
	char *argv[] = {python, flags, copy, top, pid, other, NULL};
	char sleep[] = "/bin/sleep", time[] = "60", *argv_other[] = {sleep, time, NULL};
	int out, sleeper = launch_kit_start(&f, launch_kit_in_base("state/work/two"), argv_other, &out);

	ck_assert_msg(sleeper > 0, "%s", launch_kit_why);
	snprintf(top, sizeof top, "%s", launch_kit_base);
	snprintf(pid, sizeof pid, "%d", getpid());
	snprintf(other, sizeof other, "%d", sleeper);
	ck_assert_msg(launch_kit_run(&f, workdir, argv), "%s", launch_kit_why);
	kill(sleeper, SIGKILL);
	waitpid(sleeper, NULL, 0);
	close(out);
	free(copy);
	return WIFEXITED(launch_kit_status) ? WEXITSTATUS(launch_kit_status) : -1;
}

START_TEST(worker_under_landlock_has_the_system_and_its_directory_only) /* proves SA-03 */
{
	int lines = 0, abi = _i;

	if (!begin(abi) || landlock_find_abi() < abi)
		return;
	ck_assert_msg(try_all(launch_kit_in_base("state/work/one"), attempts) == 0, "%s", launch_kit_output);
	for (char *line = strtok(launch_kit_output, "\n"); line; line = strtok(NULL, "\n"), lines++)
		ck_assert_msg(is_expected(line, abi), "version %d: %.200s", abi, line);
	ck_assert_int_eq(lines, ATTEMPTS);
	launch_kit_end();
}
END_TEST

/* Under landlock = state: refused are secrets, what the kernel shows of processes outside, and changes of a
 * directory that holds a secret. */
static bool is_closed_by_state(const char *line, int abi)
{
	static const char *const open[] = {
		"NO read_is_no_write", "NO elsewhere", "NO shm", "NO signal", NULL};

	for (const char *const *o = open; *o; o++)
		if (strncmp(line, *o, strlen(*o)) == 0)
			return false;
	if (strncmp(line, "NO store_truncate:", 18) == 0)
		return abi >= 3; /* before, the rules do not know it */
	return strncmp(line, "NO ", 3) == 0 || strncmp(line, "named_write", 11) == 0;
}

START_TEST(by_default_secrets_are_closed_and_nothing_else_is) /* proves SA-03 */
{
	int lines = 0, abi = _i;

	if (!begin(abi) || landlock_find_abi() < abi)
		return;
	f = (struct config_confine){.landlock = LANDLOCK_STATE, .secrets = secrets};
	ck_assert_msg(try_all(launch_kit_in_base("state/work/one"), attempts) == 0, "%s", launch_kit_output);
	unlink("/dev/shm/hcpd-landlock-escaped");
	for (char *line = strtok(launch_kit_output, "\n"); line; line = strtok(NULL, "\n"), lines++) {
		bool done = strstr(line, ": done") != NULL;

		ck_assert_msg(done == !is_closed_by_state(line, abi), "version %d: %.200s", abi, line);
		ck_assert_msg(done || strstr(line, "PermissionError(") || strstr(line, "OSError(18,"),
			"%.200s", line);
	}
	ck_assert_int_eq(lines, ATTEMPTS);
	launch_kit_end();
}
END_TEST

/* The descriptors of one worker's rules are kept for the next. */
START_TEST(file_made_beside_a_secret_is_open_to_the_next_worker) /* proves SA-03 */
{
	char script[600], *work;

	if (!begin(6))
		return;
	f = (struct config_confine){.landlock = LANDLOCK_STATE, .secrets = secrets};
	work = xstrdup(launch_kit_in_base("state/work/one"));
	snprintf(script, sizeof script, "cd %s && cat new.txt elsewhere.txt state/hcpd.db etc/agent.env",
		launch_kit_base);
	for (int i = 0; i < 5; i++) {
		char text[16];

		snprintf(text, sizeof text, "round%d\n", i);
		launch_kit_put("new.txt", text, 0600);
		launch_kit_put("elsewhere.tmp", text, 0600);
		ck_assert_int_eq(
			rename(launch_kit_in_base("elsewhere.tmp"), launch_kit_in_base("elsewhere.txt")), 0);
		launch_kit_run_sh(&f, work, script);
		ck_assert_msg(strncmp(launch_kit_output, text, strlen(text)) == 0, "%s", launch_kit_output);
		ck_assert_msg(strncmp(launch_kit_output + strlen(text), text, strlen(text)) == 0, "%s",
			launch_kit_output);
		ck_assert_msg(!strstr(launch_kit_output, "secret"), "%s", launch_kit_output);
		ck_assert_int_eq(unlink(launch_kit_in_base("new.txt")), 0);
	}
	free(work);
	landlock_forget_state();
	launch_kit_end();
}
END_TEST

/* A file system in trouble, for one moment. */
START_TEST(entry_that_could_not_be_opened_is_open_to_the_next_worker)
{
	bool is_yes = _i == 1;
	char script[300], *work;

	if (!begin(6))
		return;
	work = xstrdup(launch_kit_in_base("state/work/one"));
	f.landlock = is_yes ? LANDLOCK_YES : LANDLOCK_STATE;
	snprintf(unopened, sizeof unopened, "%s", launch_kit_in_base(is_yes ? "agents" : "elsewhere.txt"));
	snprintf(script, sizeof script, "cat %s%s", unopened, is_yes ? "/lib.txt" : "");
	log_kit_begin(LOG_LVL_WARN);
	launch_kit_run_sh(&f, work, script);
	ck_assert_msg(!strstr(launch_kit_output, "secret"), "%s", launch_kit_output);
	ck_assert_int_eq(log_kit_count(unopened), 1);
	unopened[0] = '\0';
	launch_kit_run_sh(&f, work, script);
	log_kit_end();
	ck_assert_msg(strstr(launch_kit_output, "secret") != NULL, "%s", launch_kit_output);
	free(work);
	landlock_forget_state();
	launch_kit_end();
}
END_TEST

/* The worker would run without what it needs. */
START_TEST(without_descriptors_there_are_no_rules)
{
	char *argv[] = {(char[]){"true"}, NULL};

	if (!begin(6))
		return;
	snprintf(unopened, sizeof unopened, "%s", launch_kit_in_base("agents"));
	unopened_error = EMFILE;
	ck_assert(!launch_kit_run(&f, launch_kit_in_base("state/work/one"), argv));
	ck_assert_msg(strstr(launch_kit_why, "Too many open files") != NULL, "%s", launch_kit_why);
	unopened[0] = '\0';
	unopened_error = EIO;
	ck_assert_msg(launch_kit_run(&f, launch_kit_in_base("state/work/one"), argv), "%s", launch_kit_why);
	launch_kit_end();
}
END_TEST

START_TEST(without_the_kernels_help_the_default_starts_a_worker_as_ever)
{
	if (!begin(1)) /* the first version would forbid moving a file to another directory */
		return;
	f = (struct config_confine){.landlock = LANDLOCK_STATE, .secrets = secrets};
	launch_kit_run_sh(&f, launch_kit_in_base("state/work/one"),
		"touch a; mkdir b; mv a b/a && cat ../two/task.json");
	ck_assert_msg(strstr(launch_kit_output, "secret") != NULL, "%s", launch_kit_output);
	launch_kit_end();
}
END_TEST

/* Or the first test would prove nothing. */
START_TEST(without_landlock_every_one_of_these_attempts_succeeds)
{
	int lines = 0;

	if (!begin(6))
		return;
	f.landlock = LANDLOCK_NO;
	ck_assert_msg(try_all(launch_kit_in_base("state/work/one"), attempts) == 0, "%s", launch_kit_output);
	unlink("/tmp/hcpd-landlock-escaped");
	unlink("/dev/shm/hcpd-landlock-escaped");
	for (char *line = strtok(launch_kit_output, "\n"); line; line = strtok(NULL, "\n"), lines++)
		ck_assert_msg(strstr(line, ": done") != NULL, "%.200s", line);
	ck_assert_int_eq(lines, ATTEMPTS);
	launch_kit_end();
}
END_TEST

START_TEST(a_directory_without_secrets_can_be_written_to_as_a_whole)
{
	if (!begin(6))
		return;
	secrets[3] = NULL;
	ck_assert_int_eq(try_all(launch_kit_in_base("state/work/one"), attempts), 0);
	ck_assert_msg(strstr(launch_kit_output, "named_write: done") != NULL, "%s", launch_kit_output);
	launch_kit_end();
}
END_TEST

START_TEST(program_outside_the_system_can_be_run_and_nothing_beside_it)
{
	char program[200], *argv[] = {program, NULL};

	if (!begin(6))
		return;
	launch_kit_make_dir("programs", 0700);
	launch_kit_put("programs/lib.sh", "secret", 0600);
	snprintf(program, sizeof program, "%s",
		launch_kit_put("programs/agent.sh", "#!/bin/sh\necho ran; cat ${0%/*}/lib.sh\n", 0700));
	ck_assert_msg(launch_kit_run(&f, launch_kit_in_base("state/work/one"), argv), "%s", launch_kit_why);
	ck_assert_msg(strstr(launch_kit_output, "ran\n") && strstr(launch_kit_output, "Permission denied") &&
			!strstr(launch_kit_output, "secret"),
		"%s", launch_kit_output);
	launch_kit_end();
}
END_TEST

START_TEST(a_secret_is_not_run_either)
{
	char program[200], *argv[] = {program, NULL};

	if (!begin(6))
		return;
	snprintf(program, sizeof program, "%s",
		launch_kit_put("state/agent.sh", "#!/bin/sh\necho ran\n", 0700));
	ck_assert(!launch_kit_run(&f, launch_kit_in_base("state/work/one"), argv));
	ck_assert_msg(strstr(launch_kit_why, "Permission denied") && strstr(launch_kit_why, "landlock_read"),
		"%s", launch_kit_why);
	launch_kit_end();
}
END_TEST

START_TEST(the_whole_file_system_named_is_still_without_the_secrets)
{
	char all[] = "/", *everything[] = {all, NULL};

	if (!begin(6))
		return;
	f.landlock_read = everything;
	launch_kit_run_sh(&f, launch_kit_in_base("state/work/one"),
		"cat ../../hcpd.db ../two/task.json ../../../etc/agent.env; ls ../..; cat "
		"../../../elsewhere.txt; echo; cat /proc/1/cmdline >/dev/null && echo proc");
	ck_assert_msg(
		strncmp(launch_kit_output, "secret", 6) != 0 && strstr(launch_kit_output, "\nsecret\nproc\n"),
		"%s", launch_kit_output);
	launch_kit_end();
}
END_TEST

START_TEST(a_working_directory_that_is_a_link_gives_no_rights)
{
	if (!begin(6))
		return;
	ck_assert_int_eq(
		rename(launch_kit_in_base("state/work/one"), launch_kit_in_base("state/work/three")), 0);
	ck_assert_int_eq(symlink(launch_kit_in_base("state"), launch_kit_in_base("state/work/one")), 0);
	launch_kit_run_sh(&f, launch_kit_in_base("state/work/one"), "cat hcpd.db; echo >new");
	ck_assert_msg(strstr(launch_kit_output, "secret") == NULL, "%s", launch_kit_output);
	ck_assert_int_eq(access(launch_kit_in_base("state/new"), F_OK), -1);
	launch_kit_end();
}
END_TEST

static int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

START_TEST(no_descriptor_of_the_rules_is_left_in_either)
{
	int before;

	if (!begin(6))
		return;
	launch_kit_run_sh(
		&f, launch_kit_in_base("state/work/one"), "true"); /* the first one starts the thread */
	before = count_fds();
	launch_kit_run_sh(&f, launch_kit_in_base("state/work/one"), "ls /proc/self/fd | wc -l");
	ck_assert_int_eq(atoi(launch_kit_output), 4); /* 0, 1, 2 and the directory that ls reads */
	ck_assert_int_eq(count_fds(), before);
	launch_kit_end();
}
END_TEST

START_TEST(root_cannot_make_devices_under_landlock)
{
	if (geteuid() != 0 || landlock_find_abi() == 0) {
		fprintf(stderr, "SKIPPED: only root can make devices, and only Landlock forbids it\n");
		return;
	}
	launch_kit_begin();
	f = (struct config_confine){.landlock = LANDLOCK_YES,
		.landlock_read = reads + 2,
		.landlock_write = writes + 1,
		.secrets = secrets};
	launch_kit_run_sh(&f, launch_kit_make_dir("work", 0700),
		"mknod memory c 1 1; mknod disk b 8 0; mkfifo fifo; ls");
	ck_assert_msg(strstr(launch_kit_output, "\nfifo\n") && !strstr(launch_kit_output, "\ndisk\n") &&
			!strstr(launch_kit_output, "\nmemory\n"),
		"%s", launch_kit_output);
	launch_kit_end();
}
END_TEST

START_TEST(root_under_landlock_has_no_capabilities)
{
	if (geteuid() != 0 || landlock_find_abi() == 0) {
		fprintf(stderr, "SKIPPED: only root has capabilities to lose\n");
		return;
	}
	launch_kit_begin();
	f = (struct config_confine){.landlock = LANDLOCK_YES, .secrets = secrets};
	launch_kit_run_sh(&f, launch_kit_make_dir("work", 0700),
		"grep -E '^Cap(Prm|Eff)|^Uid' /proc/self/status; cat /proc/$PPID/environ; echo >own && cat "
		"own");
	ck_assert_msg(strstr(launch_kit_output, "Uid:\t0") &&
			strstr(launch_kit_output, "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"),
		"%s", launch_kit_output);
	ck_assert_msg(
		strstr(launch_kit_output, "environ: Permission denied") != NULL, "%s", launch_kit_output);
	launch_kit_end();
}
END_TEST

START_TEST(a_kernel_without_it_starts_nothing_and_says_so)
{
	char program[] = "/bin/true", *argv[] = {program, NULL};

	if (!begin(0))
		return;
	ck_assert_int_eq(landlock_find_abi(), 0);
	ck_assert(!launch_kit_run(&f, launch_kit_in_base("state/work/one"), argv));
	ck_assert_str_eq(launch_kit_why,
		"landlock = yes cannot be kept, so it is not started: this kernel has no Landlock (it came "
		"with Linux 5.13)");
	launch_kit_end();
}
END_TEST

static TCase *make_case(const char *name)
{
	TCase *t = tcase_create(name);

	tcase_set_timeout(t, 150);
	tcase_add_loop_test(t, worker_under_landlock_has_the_system_and_its_directory_only, 1, 7);
	tcase_add_loop_test(t, by_default_secrets_are_closed_and_nothing_else_is, 2, 7);
	tcase_add_test(t, file_made_beside_a_secret_is_open_to_the_next_worker);
	tcase_add_loop_test(t, entry_that_could_not_be_opened_is_open_to_the_next_worker, 0, 2);
	tcase_add_test(t, without_descriptors_there_are_no_rules);
	tcase_add_test(t, without_the_kernels_help_the_default_starts_a_worker_as_ever);
	tcase_add_test(t, without_landlock_every_one_of_these_attempts_succeeds);
	tcase_add_test(t, a_directory_without_secrets_can_be_written_to_as_a_whole);
	tcase_add_test(t, program_outside_the_system_can_be_run_and_nothing_beside_it);
	tcase_add_test(t, a_secret_is_not_run_either);
	tcase_add_test(t, the_whole_file_system_named_is_still_without_the_secrets);
	tcase_add_test(t, a_working_directory_that_is_a_link_gives_no_rights);
	tcase_add_test(t, no_descriptor_of_the_rules_is_left_in_either);
	tcase_add_test(t, root_cannot_make_devices_under_landlock);
	tcase_add_test(t, root_under_landlock_has_no_capabilities);
	tcase_add_test(t, a_kernel_without_it_starts_nothing_and_says_so);
	return t;
}

static Suite *suite(void)
{
	Suite *s = suite_create("landlock");
	TCase *t = make_case("by another thread");

	tcase_add_checked_fixture(t, launch_kit_use_forker, NULL);
	suite_add_tcase(s, make_case("by this thread"));
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	SRunner *r = srunner_create(suite());
	int failed;

	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
