/* SPDX-License-Identifier: MIT */
/* rig.c: one hcpd under test, from its configuration to its end.
 * Never checks streams (oracle.c); the broker is only asked about queues (peer.c does the rest). */
#include "rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "oracle.h"

#define LOG_END 12000 /* bytes of the log that a failure shows */

static struct rig *rigs;

/* --- making --- */

static void open_notify(struct rig *r)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};

	r->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	snprintf(sun.sun_path, sizeof sun.sun_path, "%s", rig_path(r, "notify"));
	if (r->notify_fd < 0 || bind(r->notify_fd, (struct sockaddr *)&sun, sizeof sun) < 0)
		give_up("notify socket: %s", strerror(errno));
}

struct rig *rig_new_on(const struct broker *b)
{
	static int count;
	struct rig *r = calloc(1, sizeof *r);

	if (count == 0)
		harness_begin();
	snprintf(r->dir, sizeof r->dir, "%s%d-%d", harness_tmp(), getpid(), ++count);
	if (mkdir(r->dir, 0755) < 0)
		give_up("%s: %s", r->dir, strerror(errno));
	snprintf(r->callee, sizeof r->callee, "it-%d-%d", getpid(), count);
	snprintf(r->queue, sizeof r->queue, "hcp.cmd.%s", r->callee);
	snprintf(r->closed, sizeof r->closed, "%s.d", r->dir);
	snprintf(r->state, sizeof r->state, "%s/s", r->closed); /* short: it has sockets */
	snprintf(r->db, sizeof r->db, "%s/hcpd.db", r->state);
	snprintf(r->ini, sizeof r->ini, "%s/hcpd.ini", r->closed);
	snprintf(r->log, sizeof r->log, "%s/log", r->dir);
	if (mkdir(r->closed, 0755) < 0 || mkdir(r->state, 0700) < 0 ||
		symlink(r->state, rig_path(r, "state")) < 0 || symlink(r->ini, rig_path(r, "hcpd.ini")) < 0)
		give_up("%s: %s", r->closed, strerror(errno));
	r->broker = b;
	r->watchdog_usec = 20000000;
	open_notify(r);
	rig_set(r, "daemon", "callee_id", "%s", r->callee);
	rig_set(r, "daemon", "state_dir", "%s", r->state);
	rig_set(r, "daemon", "stop_timeout", "4s");
	rig_set(r, "daemon", "log_level", "debug");
	rig_set(r, "amqp", "url", "%s", b->url);
	rig_set(r, "amqp", "reconnect_max", "2s");
	rig_set(r, "session", "abort_timeout", "2s");
	rig_set(r, "caller *", "capabilities", "*");
	rig_set(r, "caller *", "max_risk", "R5");
	rig_capability(r, "agent", source_path("tests/integration/agents/agent.py"), NULL);
	r->next = rigs;
	rigs = r;
	return r;
}

struct rig *rig_new(void)
{
	return rig_new_on(broker_shared());
}

static void remove_files(const struct rig *r)
{
	if (getenv("HCP_TEST_KEEP"))
		return;
	tree_remove(r->dir);
	tree_remove(r->closed);
}

static struct rig_key *find_key(struct rig *r, const char *section, const char *key)
{
	for (size_t i = 0; i < r->key_count; i++)
		if (strcmp(r->keys[i].section, section) == 0 && strcmp(r->keys[i].key, key) == 0)
			return &r->keys[i];
	return NULL;
}

void rig_set(struct rig *r, const char *section, const char *key, const char *fmt, ...)
{
	struct rig_key *k = find_key(r, section, key);
	char *value = NULL;
	va_list ap;

	if (fmt) {
		va_start(ap, fmt);
		if (vasprintf(&value, fmt, ap) < 0)
			abort();
		va_end(ap);
	}
	if (!k) {
		r->keys = realloc(r->keys, (r->key_count + 1) * sizeof *k);
		k = &r->keys[r->key_count++];
		*k = (struct rig_key){strdup(section), strdup(key), NULL};
	}
	free(k->value);
	k->value = value;
}

void rig_capability(struct rig *r, const char *name, const char *command, json_t *more)
{
	char section[128];
	const char *file = rig_path(r, "%s.json", name);
	json_t *cap =
		J("{'name':'%s','version':'1.2.3','description':'for tests','input_schema':{'type':'object'},"
		  "'output_schema':{'type':'object'},'safety':{'risk_ceiling':'R2','requires_human_approval':"
		  "false,"
		  "'involves_physical_resources':false}}",
			name);

	if (more) {
		json_object_update_recursive(cap, more);
		json_decref(more);
	}
	json_t *whole = json_pack("{s:o}", "capability", cap);
	if (json_dump_file(whole, file, JSON_INDENT(1)) < 0)
		give_up("%s: cannot be written", file);
	json_decref(whole);
	snprintf(section, sizeof section, "capability %s", name);
	/* relative to the file, as promised */
	rig_set(r, section, "declaration", "../%s/%s.json", strrchr(r->dir, '/') + 1, name);
	rig_set(r, section, "command", "%s", command);
	rig_set(r, section, "env", "RIG_MARK=%s", r->dir);
}

void rig_text(struct rig *r, const char *name, const char *script)
{
	char section[128];
	const char *file = rig_path(r, "%s.sh", name);

	file_write(file, script);
	rig_capability(r, name, "x", NULL);
	snprintf(section, sizeof section, "capability %s", name);
	rig_set(r, section, "command", "/bin/sh %s", file);
	rig_set(r, section, "protocol", "text");
}

void rig_env(struct rig *r, const char *fmt, ...)
{
	va_list ap;

	r->env = realloc(r->env, (r->env_count + 1) * sizeof *r->env);
	va_start(ap, fmt);
	if (vasprintf(&r->env[r->env_count++], fmt, ap) < 0)
		abort();
	va_end(ap);
}

void rig_write_ini(struct rig *r)
{
	FILE *f = fopen(r->ini, "w");

	if (!f)
		give_up("%s: %s", r->ini, strerror(errno));
	for (size_t i = 0; i < r->key_count; i++) {
		bool first = r->keys[i].value != NULL; /* a section without values is left out */
		for (size_t j = 0; j < i && first; j++)
			first = !r->keys[j].value || strcmp(r->keys[j].section, r->keys[i].section) != 0;
		if (!first)
			continue;
		fprintf(f, "[%s]\n", r->keys[i].section);
		for (size_t j = i; j < r->key_count; j++)
			if (r->keys[j].value && strcmp(r->keys[j].section, r->keys[i].section) == 0)
				fprintf(f, "%s = %s\n", r->keys[j].key, r->keys[j].value);
	}
	fclose(f);
}

/* --- running --- */

static const char *program(void)
{
	static char path[600];
	const char *build = getenv("HCP_BUILD");
	char relative[500];

	snprintf(relative, sizeof relative, "%s/hcpd", build ? build : "build");
	if (relative[0] == '/')
		return strcpy(path, relative);
	return strcpy(path, source_path(relative));
}

static void __attribute__((noreturn)) become_hcpd(struct rig *r, const char *const *args)
{
	const char *argv[16] = {"hcpd"};
	int fd = open(r->log, O_WRONLY | O_CREAT | O_APPEND, 0644);
	sigset_t none;

	for (int i = 0; args[i] && i < 14; i++)
		argv[i + 1] = args[i];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	signal(SIGXFSZ, SIG_IGN); /* a test may limit the size of files: EFBIG, not death */
	dup2(open("/dev/null", O_RDONLY), 0);
	dup2(fd, 1);
	dup2(r->stderr_fd > 0 ? r->stderr_fd : fd, 2);
	char number[32], socket_path[300];
	snprintf(socket_path, sizeof socket_path, "%s", rig_path(r, "notify"));
	setenv("NOTIFY_SOCKET", socket_path, 1);
	snprintf(number, sizeof number, "%d", r->watchdog_usec);
	setenv("WATCHDOG_USEC", number, 1);
	snprintf(number, sizeof number, "%d", getpid());
	setenv("WATCHDOG_PID", number, 1);
	for (size_t i = 0; i < r->env_count; i++)
		putenv(r->env[i]);
	const char *path = program();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 3; i < 256; i++)
		if (i != fd)
			close(i);
	close(fd);
	execv(path, (char *const *)(uintptr_t)argv);
	_exit(127);
}

static void start_process(struct rig *r, const char *const *args)
{
	const char *path = program();

	must(access(path, X_OK) == 0, "%s", path);
	must(r->pid == 0, "the rig runs already");
	r->ready = r->watchdog = 0;
	r->status[0] = 0;
	r->exited = false;
	fflush(NULL);
	/* A signal for hcpd that comes before it is hcpd must not meet the handlers of Check. */
	sigset_t all, old;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	r->pid = fork();
	if (r->pid == 0)
		become_hcpd(r, args);
	sigprocmask(SIG_SETMASK, &old, NULL);
	must(r->pid > 0, "fork");
}

void rig_spawn(struct rig *r)
{
	const char *args[] = {"-c", r->ini, NULL};

	rig_write_ini(r);
	start_process(r, args);
}

int rig_run(struct rig *r, const char *const *args)
{
	start_process(r, args);
	return rig_wait_exit(r, WAIT_S);
}

void rig_wait_ready(struct rig *r)
{
	wait_until(r->ready || r->exited, WAIT_S, "READY=1");
	must(!r->exited, "hcpd ended at its start, status %d", r->wait_status);
}

void rig_wait_consuming(struct rig *r)
{
	int messages, consumers = 0;

	wait_until(r->exited || (queue_look(r->broker, r->queue, &messages, &consumers) && consumers > 0),
		WAIT_S, "a consumer on %s", r->queue);
	must(!r->exited, "hcpd ended, status %d", r->wait_status);
}

void rig_start(struct rig *r)
{
	rig_spawn(r);
	rig_wait_ready(r);
	if (!r->no_consumer_wait)
		rig_wait_consuming(r);
}

void rig_signal(struct rig *r, int sig)
{
	must(r->pid > 0 && !r->exited, "hcpd is not running (status %d)", r->wait_status);
	kill(r->pid, sig);
}

int rig_wait_exit(struct rig *r, double seconds)
{
	wait_until(r->exited, seconds, "hcpd's end");
	r->pid = 0;
	return WIFEXITED(r->wait_status) ? WEXITSTATUS(r->wait_status) : 128 + WTERMSIG(r->wait_status);
}

void rig_stop(struct rig *r)
{
	rig_signal(r, SIGTERM);
	int status = rig_wait_exit(r, WAIT_S);
	must(status == 0, "a graceful stop ended with %d", status);
}

void rig_kill(struct rig *r)
{
	rig_signal(r, SIGKILL);
	int status = rig_wait_exit(r, WAIT_S);
	must(status == 128 + SIGKILL, "it ended before it was killed, with %d", status);
}

void rig_finish(struct rig *r)
{
	pid_t pids[16];

	if (r->pid)
		rig_stop(r);
	int left = rig_processes(r, pids, 16);
	must(left == 0, "%d processes are left, the first is %d", left, pids[0]);
	must(!rig_log_has(r, "AddressSanitizer") && !rig_log_has(r, "runtime error:"), "see the log");
	if (file_exists(r->db))
		oracle_check_store(r);
	for (struct rig **p = &rigs; *p; p = &(*p)->next)
		if (*p == r) {
			*p = r->next;
			break;
		}
	close(r->notify_fd);
	remove_files(r);
}

/* --- looking --- */

const char *rig_path(struct rig *r, const char *fmt, ...)
{
	static char paths[8][600];
	static int turn;
	char *path = paths[turn++ % 8], name[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof name, fmt, ap);
	va_end(ap);
	snprintf(path, sizeof paths[0], "%s/%s", r->dir, name);
	return path;
}

void rig_touch(struct rig *r, const char *name)
{
	file_write(rig_path(r, "%s", name), "");
}

int rig_log_count(struct rig *r, const char *text)
{
	char *log = file_read(r->log, NULL);
	int n = 0;

	for (char *at = log; at && (at = strstr(at, text)); at++)
		n++;
	free(log);
	return n;
}

int rig_processes(struct rig *r, pid_t *pids, int max)
{
	char path[300], mark[300];
	struct dirent *e;
	size_t size;
	int n = 0;
	DIR *d = opendir("/proc");

	snprintf(mark, sizeof mark, "RIG_MARK=%s", r->dir);
	while (d && (e = readdir(d))) {
		pid_t pid = atoi(e->d_name);
		if (pid <= 1 || pid == getpid())
			continue;
		snprintf(path, sizeof path, "/proc/%d/environ", pid);
		char *env = file_read(path, &size);
		/* With its final zero, or the mark of rig 1 would be found in rig 10. */
		if (env && memmem(env, size, mark, strlen(mark) + 1)) {
			if (n < max)
				pids[n] = pid;
			n++;
		}
		free(env);
	}
	if (d)
		closedir(d);
	return n;
}

long long rig_sql(struct rig *r, const char *fmt, ...)
{
	sqlite3 *db;
	sqlite3_stmt *st;
	char *sql = NULL;
	long long value = -1;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&sql, fmt, ap) < 0)
		abort();
	va_end(ap);
	if (sqlite3_open_v2(r->db, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
		give_up("%s: %s", r->db, sqlite3_errmsg(db));
	sqlite3_busy_timeout(db, 5000);
	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		give_up("%s: %s", sql, sqlite3_errmsg(db));
	int rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		value = sqlite3_column_int64(st, 0);
	else if (rc != SQLITE_DONE)
		give_up("%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_finalize(st);
	sqlite3_close(db);
	free(sql);
	return value;
}

/* --- for harness.c --- */

static void take_notification(struct rig *r, char *text)
{
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (strcmp(line, "READY=1") == 0)
			r->ready++;
		else if (strcmp(line, "WATCHDOG=1") == 0)
			r->watchdog++;
		else if (strncmp(line, "STATUS=", 7) == 0)
			snprintf(r->status, sizeof r->status, "%s", line + 7);
	}
}

void rigs_tick(void)
{
	char text[2048];
	ssize_t n;

	for (struct rig *r = rigs; r; r = r->next)
		while ((n = recv(r->notify_fd, text, sizeof text - 1, 0)) >= 0) {
			text[n] = 0;
			take_notification(r, text);
		}
}

void rigs_reaped(pid_t pid, int status)
{
	for (struct rig *r = rigs; r; r = r->next)
		if (r->pid == pid) {
			r->exited = true;
			r->wait_status = status;
		}
}

void rigs_show_and_end(void)
{
	pid_t pids[64];
	size_t size;

	for (struct rig *r = rigs; r; r = r->next) {
		char *log = file_read(r->log, &size);
		if (log)
			fprintf(stderr, "--- end of %s\n%s--- pid %d, exited %d, status %d, last said: %s\n",
				r->log, size > LOG_END ? log + size - LOG_END : log, r->pid, r->exited,
				r->wait_status, r->status);
		free(log);
		if (r->pid > 0 && !r->exited)
			kill(r->pid, SIGKILL);
		for (int tries = 0; tries < 20; tries++) {
			int n = rig_processes(r, pids, 64);
			for (int i = 0; i < n && i < 64; i++)
				kill(pids[i], SIGKILL);
			if (n == 0)
				break;
			usleep(20000);
		}
		remove_files(r);
	}
}
