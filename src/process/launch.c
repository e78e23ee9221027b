/* SPDX-License-Identifier: MIT */
/* launch.c: clone and exec.
 * The child uses the daemon's memory until it executes (CLONE_VM with CLONE_VFORK), so a start costs the
 * same however large the daemon is, and a failed exec reports its errno through that memory at once.
 * Owns what a child inherits. Never knows what the program is for, never waits for a running one. */
#include "process/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "process/confine.h"
#include "process/forker.h"

#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif
#define CHILD_STACK_SIZE 65536
#define RESERVE_SHARE 16 /* of the descriptors are kept, */
#define RESERVE_MAX 64   /* and so many at most */
#define SIGNALS 64
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
/* The child leaves its frames by exec, so a sanitizer's red zones would stay behind on the stack. */
#define IN_CHILD __attribute__((no_sanitize("address", "undefined")))

enum stage {
	STAGE_FORK,
	STAGE_CGROUP,
	STAGE_PARENT,
	STAGE_GROUP,
	STAGE_FDS,
	STAGE_LIMIT,
	STAGE_USER,
	STAGE_WORKDIR,
	STAGE_RULES,
	STAGE_EXEC
};

struct child { /* shared by both sides until the exec */
	const struct launch *launch;
	struct confine confine;
	char **paths; /* paths to try, in order; NULL-terminated */
	pid_t parent;
	volatile enum stage stage;
	volatile int error;        /* 0: executed */
	const char *volatile path; /* the path that `error` is about */
};

static int ignored[SIGNALS]; /* signals; 0 ends the list */

/* The kernel's own call: libc's refuses to touch the two signals that its threads use, and the daemon's
 * parent may have left those ignored. The handler is the first word, however the rest is laid out. */
static bool is_ignored(int sig)
{
	unsigned long action[8] = {0};

	return syscall(SYS_rt_sigaction, sig, NULL, action, (size_t)8) == 0 &&
		action[0] == (unsigned long)(uintptr_t)SIG_IGN;
}

/* An exec resets handlers; ignored signals stay ignored, and the daemon never changes those. They are looked
 * up once, because each is a system call and a start must be fast. */
static void find_ignored(void)
{
	static bool done;
	int n = 0;

	for (int sig = 1; sig <= SIGNALS && !done; sig++)
		if (n < SIGNALS - 1 && is_ignored(sig))
			ignored[n++] = sig;
	done = true;
}

static IN_CHILD void child_reset_signals(void)
{
	const unsigned long dfl[8] = {0}; /* SIG_DFL with no flags */
	sigset_t none;

	for (int i = 0; ignored[i]; i++)
		(void)syscall(SYS_rt_sigaction, ignored[i], dfl, NULL, (size_t)8);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The child dies with the daemon. */
static IN_CHILD int child_tie(const struct child *c)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return -1;
	if (getppid() != c->parent) { /* the daemon died before prctl: no signal would come */
		errno = ESRCH;
		return -1;
	}
	return 0;
}

static IN_CHILD int child_limit(const struct confine *f)
{
	for (size_t i = 0; i < f->limit_count; i++)
		if (setrlimit((__rlimit_resource_t)f->limits[i].resource, &f->limits[i].value) < 0 &&
			!f->limits[i].may_fail)
			return -1;
	return 0;
}

/* The kernel's own calls: libc's would change all threads of the daemon, whose memory this still is.
 * Capabilities are dropped too: those of root with the user, and ambient ones, which systemd may have given,
 * by hand; the exec ends the rest. */
static IN_CHILD int child_become(const struct config_confine *user)
{
	/* a kernel without ambient capabilities refuses */
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (!user)
		return 0;
	if (syscall(SYS_setgroups, user->group_count, user->groups) < 0)
		return -1;
	if (syscall(SYS_setresgid, user->gid, user->gid, user->gid) < 0)
		return -1;
	return (int)syscall(SYS_setresuid, user->uid, user->uid, user->uid);
}

static IN_CHILD int child_restrict(const struct confine *f)
{
	if (f->no_capabilities && prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED) < 0)
		return -1;
	if (f->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	if (f->ruleset >= 0 && syscall(SYS_landlock_restrict_self, f->ruleset, 0) < 0)
		return -1;
	return f->filter ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, f->filter, 0, 0) : 0;
}

/* Only calls that are safe between vfork and exec. -1 with errno; `stage` says where. */
static IN_CHILD int child_prepare(struct child *c)
{
	const struct launch *s = c->launch;
	const struct confine *f = &c->confine;
	int i;

	c->stage = STAGE_CGROUP; /* first, so that everything it forks is inside */
	if (s->cgroup_fd >= 0 && write(s->cgroup_fd, "0", 1) < 0)
		return -1;
	c->stage = STAGE_PARENT;
	if (child_tie(c) < 0)
		return -1;
	c->stage = STAGE_GROUP;
	if (setpgid(0, 0) < 0)
		return -1;
	c->stage = STAGE_FDS;
	for (i = 0; i < 3; i++)
		if (dup2(s->fds[i], i) < 0)
			return -1;
	(void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC); /* a library's descriptor may lack the flag */
	c->stage = STAGE_LIMIT;
	if (child_limit(f) < 0)
		return -1;
	c->stage = STAGE_USER;
	if (child_become(f->user) < 0)
		return -1;
	c->stage = STAGE_PARENT; /* the change of the user undid it */
	if (f->user && child_tie(c) < 0)
		return -1;
	c->stage = STAGE_WORKDIR; /* as the user who has to work there */
	if (s->workdir && chdir(s->workdir) < 0)
		return -1;
	umask(077);
	c->stage = STAGE_RULES;
	return child_restrict(f);
}

static IN_CHILD int child_main(void *arg)
{
	struct child *c = arg;
	int error = ENOENT, i;

	if (child_prepare(c) < 0) {
		c->error = errno;
		_exit(127);
	}
	child_reset_signals(); /* all are blocked until here: no handler ran in our memory */
	c->stage = STAGE_EXEC;
	for (i = 0; c->paths[i]; i++) {
		execve(c->paths[i], c->launch->argv, c->launch->env);
		if (errno == ENOENT || errno == ENOTDIR) {
			if (!c->path)
				c->path = c->paths[i];
			continue;
		}
		if (error != EACCES)
			c->path = c->paths[i];
		error = errno;
		if (errno != EACCES)
			/* the program exists and is broken; a later path would be another program */
			break;
	}
	c->error = error;
	_exit(127);
}

static const char *env_find(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

/* One allocation: the pointers, then the texts. Empty elements of PATH are left out: they would mean the
 * working directory, where a task's files lie. */
static char **paths_make(const char *program, char *const *env)
{
	const char *path = env_find(env, "PATH"), *p, *end;
	size_t count = 2, texts, n = 0, len = strlen(program);
	char **paths, *at;

	if (strchr(program, '/'))
		path = NULL;
	else if (!path || !*path)
		path = DEFAULT_PATH;
	for (p = path; p && *p; p++)
		count += *p == ':';
	texts = count * (len + 2) + (path ? strlen(path) : 0);
	paths = xmalloc(count * sizeof *paths + texts);
	at = (char *)(paths + count);
	if (!path) {
		memcpy(at, program, len + 1);
		paths[n++] = at;
	}
	for (p = path; p && *p; p = *end ? end + 1 : end) {
		end = strchrnul(p, ':');
		if (end == p)
			continue;
		paths[n++] = at;
		memcpy(at, p, (size_t)(end - p));
		at += end - p;
		*at++ = '/';
		memcpy(at, program, len + 1);
		at += len + 1;
	}
	paths[n] = NULL;
	return paths;
}

/* ENOENT although the file exists: its interpreter is missing. Which one? */
static void explain_missing(const struct launch *s, const char *path, char *why, size_t why_size)
{
	char head[256], *end;
	ssize_t n = -1;
	int dir = s->workdir ? open(s->workdir, O_PATH | O_DIRECTORY | O_CLOEXEC) : AT_FDCWD;
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0) {
		n = read(fd, head, sizeof head - 1);
		close(fd);
	}
	if (dir >= 0)
		close(dir);
	if (n < 0) {
		snprintf(why, why_size, "cannot execute %s: %s", path, strerror(ENOENT));
		return;
	}
	head[n] = '\0';
	if (n < 2 || head[0] != '#' || head[1] != '!') {
		snprintf(why, why_size, "cannot execute %s: the loader that it asks for is missing", path);
		return;
	}
	head[strcspn(head, "\n")] = '\0';
	end = head + 2 + strspn(head + 2, " \t");
	end[strcspn(end, " \t\r")] = '\0';
	snprintf(why, why_size, "cannot execute %s: its interpreter %s is missing", path, end);
}

static void explain(const struct child *c, char *why, size_t why_size)
{
	static const char *const what[] = {
		[STAGE_FORK] = "cannot start a process",
		[STAGE_CGROUP] = "cannot join its cgroup",
		[STAGE_PARENT] = "cannot tie it to the daemon",
		[STAGE_GROUP] = "cannot make a process group",
		[STAGE_FDS] = "cannot pass its pipes",
		[STAGE_LIMIT] = "cannot set its limits",
		[STAGE_RULES] = "cannot put the rules of landlock on it",
	};
	const char *program = c->launch->argv[0], *user = c->confine.user ? c->confine.user->user : NULL;

	if (c->stage == STAGE_WORKDIR)
		snprintf(why, why_size, "cannot enter the working directory %s%s%s: %s", c->launch->workdir,
			user ? " as user " : "", user ? user : "", strerror(c->error));
	else if (c->stage == STAGE_USER)
		snprintf(why, why_size, "cannot become user %s: %s", user ? user : "", strerror(c->error));
	else if (c->stage != STAGE_EXEC)
		snprintf(why, why_size, "%s: %s", what[c->stage], strerror(c->error));
	else if (c->error == ENOENT && !strchr(program, '/') && c->paths[0] && c->paths[1])
		snprintf(why, why_size, "cannot execute %s: not found in PATH", program);
	else if (c->error == ENOENT)
		explain_missing(c->launch, c->path ? c->path : program, why, why_size);
	else
		snprintf(why, why_size, "cannot execute %s: %s%s", c->path ? c->path : program,
			strerror(c->error),
			c->error == EACCES && c->confine.ruleset >= 0 ?
				" (landlock_read names what it may use beside the system)" :
				"");
}

/* The child's changes end with it, except one that belongs to the shared memory: a change of the user
 * forbids core dumps and debuggers. */
static int launch_child(struct child *c)
{
	static char stack[CHILD_STACK_SIZE] __attribute__((aligned(64)));
	int dumpable = c->confine.user ? prctl(PR_GET_DUMPABLE) : -1, pid;
	sigset_t all, old;

	/* A handler in the child would run in the daemon's memory. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = clone(child_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, c);
	if (pid < 0) {
		c->error = errno;
		c->stage = STAGE_FORK;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (dumpable == 1)
		(void)prctl(PR_SET_DUMPABLE, 1);
	if (pid > 0 && c->error) { /* the child is at its _exit: this wait is short */
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		pid = -1;
	}
	return pid;
}

/* The other thread knows the descriptors by other numbers. */
static int start_in_forker(void *ctx, const int *fds)
{
	struct child *c = ctx, there = *c;
	struct launch launch = *c->launch;
	int pid;

	memcpy(launch.fds, fds, sizeof launch.fds);
	fds += 3;
	if (launch.cgroup_fd >= 0)
		launch.cgroup_fd = *fds++;
	if (there.confine.ruleset >= 0)
		there.confine.ruleset = *fds++;
	there.launch = &launch;
	pid = launch_child(&there);
	c->stage = there.stage;
	c->error = there.error;
	c->path = there.path;
	return pid;
}

static int launch_by_forker(struct forker *f, struct child *c)
{
	const struct launch *s = c->launch;
	int fds[FORKER_FDS] = {s->fds[0], s->fds[1], s->fds[2]}, pid;
	size_t n = 3;

	if (s->cgroup_fd >= 0)
		fds[n++] = s->cgroup_fd;
	if (c->confine.ruleset >= 0)
		fds[n++] = c->confine.ruleset;
	pid = forker_run(f, fds, n, start_in_forker, c);
	if (pid < 0 && !c->error) {
		c->error = errno;
		c->stage = STAGE_FORK;
	}
	return pid;
}

int launch_process(struct launch *s, char *why, size_t why_size)
{
	struct child c = {.launch = s, .parent = getpid()};
	int pid, error;

	s->cgroup_failed = false;
	if (!s->argv || !s->argv[0] || !*s->argv[0]) {
		snprintf(why, why_size, "cannot execute: the command is empty");
		errno = EINVAL;
		return -1;
	}
	if (confine_init(&c.confine, s->confine, s->workdir, s->argv[0], s->tag, why, why_size) < 0)
		return -1;
	find_ignored();
	c.paths = paths_make(s->argv[0], s->env);
	pid = s->forker ? launch_by_forker(s->forker, &c) : launch_child(&c);
	error = c.error;
	if (error) {
		explain(&c, why, why_size);
		s->cgroup_failed = c.stage == STAGE_CGROUP;
	}
	confine_fini(&c.confine);
	free(c.paths);
	errno = error;
	return pid;
}

void launch_pipes_close(int fds[3])
{
	int i, error = errno;

	for (i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	errno = error;
}

/* Above the standard descriptors, which may be closed in a daemon: dup2 would overwrite them. */
static int fd_raise(int fd)
{
	int up, error;

	if (fd < 0 || fd > 2)
		return fd;
	up = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	error = errno;
	close(fd);
	errno = error;
	return up;
}

int launch_pipes_open(struct launch_pipes *p, bool has_stdin)
{
	int i, fds[2];

	for (i = 0; i < 3; i++)
		p->ours[i] = p->theirs[i] = -1;
	if (!has_stdin) {
		p->theirs[0] = fd_raise(open("/dev/null", O_RDONLY | O_CLOEXEC));
		if (p->theirs[0] < 0)
			return -1;
	}
	for (i = !has_stdin; i < 3; i++) {
		if (pipe2(fds, O_CLOEXEC) < 0)
			goto fail;
		p->ours[i] = fd_raise(fds[i == 0]);
		p->theirs[i] = fd_raise(fds[i != 0]);
		if (p->ours[i] < 0 || p->theirs[i] < 0 || fcntl(p->ours[i], F_SETFL, O_NONBLOCK) < 0)
			goto fail;
	}
	return 0;
fail:
	launch_pipes_close(p->ours);
	launch_pipes_close(p->theirs);
	return -1;
}

/* New descriptors get the lowest free numbers, so that a high one says that few are left. */
bool launch_has_descriptors(void)
{
	struct rlimit limit;
	rlim_t reserve;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	close(fd);
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return true;
	reserve = limit.rlim_cur / RESERVE_SHARE < RESERVE_MAX ? limit.rlim_cur / RESERVE_SHARE : RESERVE_MAX;
	if ((rlim_t)fd + reserve < limit.rlim_cur)
		return true;
	errno = EMFILE;
	return false;
}
