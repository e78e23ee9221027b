/* SPDX-License-Identifier: MIT */
/* calls_watch.c: makes the n-th call of hcpd fail. The kernel asks us about each call of the kinds in
 * question (seccomp user notification), we let it go on, refuse it with an errno, or kill the process in its
 * place.
 *
 * Why not strace --inject: its n counts in every process and thread alike, so one fault becomes as many as
 * there are threads and workers; here a case is one call of one thread, and the order in which threads run
 * does not matter. It also costs a tenth of it, which buys every n instead of some. Never checks what comes
 * of it (calls_case.c). */
#include "calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define HANDOVER_FD 250 /* not yet watched when the listener goes through it, closed by the exec */
#define FILTER_MAX (KINDS_MAX * KIND_CALLS_MAX + 16)
#define STRANGERS_MAX 3
/* main() begins with it: what the loader does before is not hcpd's. */
#define FIRST_CALL SYS_umask

static struct {
	const struct trial *trial;
	struct report *report;
	pid_t pid;
	pid_t tids[LANES];
	int listener;
	bool begun, is_running;
	pthread_t thread;
} watch;

/* --- the filter, in what becomes hcpd --- */

static bool concerns(const struct trial *t, int kind)
{
	return t->n == 0 || t->kind == kind;
}

static unsigned short make_filter(const struct trial *t, struct sock_filter *f)
{
	unsigned short n = 0;

	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 4);
	f[n++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, HANDOVER_FD, 0, 1);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int k = -1; k < kind_count; k++)
		for (int i = 0; k < 0 ? i < 1 : concerns(t, k) && i < KIND_CALLS_MAX && kinds[k].calls[i];
			i++) {
			unsigned nr = k < 0 ? FIRST_CALL : (unsigned)kinds[k].calls[i] - 1;

			f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1);
			f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
		}
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	return n;
}

static int install_filter(const struct trial *t)
{
	struct sock_filter f[2 * FILTER_MAX];
	struct sock_fprog program = {make_filter(t, f), f};
	unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
	long fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	/* A signal must not take back a question that we are thinking about: it would be counted twice. */
	fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		&program);
	if (fd < 0 && errno == EINVAL)
		fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
	return (int)fd;
}

/* One descriptor through a socket; fd -1: the errno instead. */
static void hand_over(int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.room = {0}};
	int error = fd < 0 ? errno : 0;
	struct iovec iov = {&error, sizeof error};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof control;
		control.head = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
	}
	if (sendmsg(HANDOVER_FD, &m, 0) < 0 || fd < 0)
		_exit(127);
}

static int take_over(int socket)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	int error = 0, fd = -1;
	struct iovec iov = {&error, sizeof error};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};

	must(recvmsg(socket, &m, MSG_CMSG_CLOEXEC) == sizeof error, "the child said nothing: %s",
		strerror(errno));
	must(error == 0 && m.msg_controllen > 0,
		"this kernel, or what contains us, gives no seccomp notifications: %s", strerror(error));
	memcpy(&fd, CMSG_DATA(&control.head), sizeof fd);
	return fd;
}

static void __attribute__((noreturn)) become_hcpd(struct rig *r, const struct trial *t, int socket)
{
	int log = open(r->log, O_WRONLY | O_CREAT | O_APPEND, 0644);
	char program[600];
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(open("/dev/null", O_RDONLY), 0);
	dup2(log, 1);
	dup2(log, 2);
	dup2(socket, HANDOVER_FD);
	close_range(3, HANDOVER_FD - 1, 0);
	close_range(HANDOVER_FD + 1, ~0U, 0);
	fcntl(HANDOVER_FD, F_SETFD, FD_CLOEXEC);
	setenv("NOTIFY_SOCKET", rig_path(r, "notify"), 1);
	snprintf(program, sizeof program, "%s/hcpd", getenv("HCP_BUILD"));
	hand_over(install_filter(t));
	execl(program, "hcpd", "-c", r->ini, (char *)NULL);
	_exit(127);
}

/* --- the one who is asked --- */

static bool is_of(const int *calls, int nr)
{
	for (int i = 0; i < KIND_CALLS_MAX && calls[i]; i++)
		if (calls[i] - 1 == nr)
			return true;
	return false;
}

/* Which thread this is: a number once it was seen, by its place among all that there are. */
static int lane_of(pid_t tid)
{
	char path[40];
	struct dirent *e;
	int lane = 0;
	DIR *d;

	for (int i = 0; i < LANES; i++)
		if (watch.tids[i] == tid)
			return i;
	snprintf(path, sizeof path, "/proc/%d/task", watch.pid);
	d = opendir(path);
	while (d && (e = readdir(d)))
		lane += atoi(e->d_name) > 0 && atoi(e->d_name) < tid;
	if (d)
		closedir(d);
	lane = lane < LANES ? lane : LANES - 1;
	watch.tids[lane] = tid;
	return lane;
}

static const char *call_name(int nr)
{
	static const struct {
		int nr;
		const char *name;
	} names[] = {
		{SYS_write, "write"},
		{SYS_writev, "writev"},
		{SYS_pwrite64, "pwrite64"},
		{SYS_pwritev, "pwritev"},
		{SYS_fsync, "fsync"},
		{SYS_fdatasync, "fdatasync"},
		{SYS_openat, "openat"},
		{SYS_sendto, "sendto"},
		{SYS_sendmsg, "sendmsg"},
		{SYS_clone, "clone"},
		{SYS_clone3, "clone3"},
		{SYS_read, "read"},
		{SYS_pread64, "pread64"},
		{SYS_recvfrom, "recvfrom"},
		{SYS_mkdirat, "mkdirat"},
		{SYS_unlinkat, "unlinkat"},
		{SYS_pipe2, "pipe2"},
		{SYS_socket, "socket"},
		{SYS_connect, "connect"},
		{SYS_ftruncate, "ftruncate"},
#ifdef SYS_open
		{SYS_open, "open"},
		{SYS_mkdir, "mkdir"},
		{SYS_unlink, "unlink"},
		{SYS_rmdir, "rmdir"},
#endif
	};
	static char number[16];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].nr == nr)
			return names[i].name;
	snprintf(number, sizeof number, "call %d", nr);
	return number;
}

/* The text at an address of hcpd's; as much as can be had. */
static void peek_text(uint64_t at, char *text, size_t size)
{
	struct iovec to = {text, size - 1}, from = {(void *)(uintptr_t)at, size - 1};
	ssize_t n = process_vm_readv(watch.pid, &to, 1, &from, 1, 0);

	if (n < 0) { /* the page behind it is not there */
		from.iov_len = to.iov_len = 4096 - at % 4096 < size - 1 ? 4096 - at % 4096 : size - 1;
		n = process_vm_readv(watch.pid, &to, 1, &from, 1, 0);
	}
	text[n > 0 ? n : 0] = 0;
}

/* What it is about: a path where the call has one, else what its descriptor stands for. */
static void find_object(const struct seccomp_notif *q, char *object, size_t size)
{
	char link[64];
	int nr = q->data.nr;
	ssize_t n;

	object[0] = 0;
	if (nr == SYS_openat || nr == SYS_mkdirat || nr == SYS_unlinkat || nr == SYS_renameat ||
		nr == SYS_renameat2) {
		peek_text(q->data.args[1], object, size);
#ifdef SYS_open
	} else if (nr == SYS_open || nr == SYS_mkdir || nr == SYS_unlink || nr == SYS_rmdir ||
		nr == SYS_rename) {
		peek_text(q->data.args[0], object, size);
#endif
	} else if (nr != SYS_clone && nr != SYS_clone3 && nr != SYS_pipe2 && nr != SYS_socket) {
		snprintf(link, sizeof link, "/proc/%d/fd/%d", watch.pid, (int)q->data.args[0]);
		n = readlink(link, object, size - 1);
		object[n > 0 ? n : 0] = 0;
	}
}

static void describe(const struct seccomp_notif *q, int lane, const char *object)
{
	struct report *report = watch.report;

	report->on_store = strstr(object, "/hcpd.db") != NULL;
	report->on_wal = strstr(object, "/hcpd.db-wal") != NULL;
	snprintf(report->what, sizeof report->what, "%s(%s) by %s", call_name(q->data.nr), object,
		lane_names[lane]);
}

static pid_t parent_of(int pid)
{
	char path[40], *text, *end;
	pid_t parent = 0;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	text = file_read(path, NULL);
	if (text && (end = strrchr(text, ')')) && strlen(end) > 4)
		parent = atoi(end + 4);
	free(text);
	return parent;
}

/* An entry in /proc of a process that is neither hcpd nor its child. A walk looks at all of them, one like
 * the other: of each row the first few count, or n would depend on what else runs here. */
static bool is_stranger(const char *object)
{
	const char *at = strncmp(object, "/proc/", 6) == 0 ? object + 6 : object;
	size_t digits = strspn(at, "0123456789");

	return digits > 0 && at[digits] == '/' && atoi(at) != watch.pid && parent_of(atoi(at)) != watch.pid;
}

static bool counts(int kind, bool is_strange)
{
	static int row[KINDS_MAX]; /* only the core walks */

	row[kind] = is_strange ? row[kind] + 1 : 0;
	return row[kind] <= STRANGERS_MAX;
}

/* The kernel has no error for these (a pipe whose other end is gone is EPIPE), and libev counts on it. */
static bool cannot_fail(int nr, const char *object)
{
	return (nr == SYS_read || nr == SYS_write) &&
		(strncmp(object, "anon_inode:[eventfd]", 20) == 0 ||
			strncmp(object, "anon_inode:[timerfd]", 20) == 0 || strncmp(object, "pipe:", 5) == 0);
}

/* The answer to one question: 0: let it go on; an errno; DEATH. */
static int decide(const struct seccomp_notif *q)
{
	const struct trial *t = watch.trial;
	char object[256];
	bool is_it = false;
	int lane;

	if (syscall(SYS_tgkill, watch.pid, q->pid, 0) < 0)
		return 0; /* a worker, or on the way to be one */
	if (q->data.nr == FIRST_CALL)
		watch.begun = true;
	if (!watch.begun)
		return 0;
	lane = lane_of((pid_t)q->pid);
	find_object(q, object, sizeof object);
	for (int k = 0; k < kind_count; k++)
		if (concerns(t, k) && is_of(kinds[k].calls, q->data.nr) && counts(k, is_stranger(object)))
			is_it |= ++watch.report->counts[k][lane] == t->n && lane == t->lane;
	if (!is_it)
		return 0;
	describe(q, lane, object);
	if (t->fault != DEATH && cannot_fail(q->data.nr, object)) {
		watch.report->spared = true;
		return 0;
	}
	watch.report->hit = true;
	return t->fault;
}

static void *serve(void *unused)
{
	struct seccomp_notif q;
	struct seccomp_notif_resp a;
	struct pollfd p = {.fd = watch.listener, .events = POLLIN};
	int fault;

	(void)unused;
	while (poll(&p, 1, -1) >= 0 || errno == EINTR) {
		if (!(p.revents & POLLIN)) {
			if (p.revents) /* nobody is left who could ask */
				break;
			continue;
		}
		memset(&q, 0, sizeof q);
		if (ioctl(watch.listener, SECCOMP_IOCTL_NOTIF_RECV, &q) < 0)
			continue; /* it died meanwhile */
		fault = decide(&q);
		if (fault == DEATH) {
			kill(watch.pid, SIGKILL);
			continue;
		}
		a = (struct seccomp_notif_resp){.id = q.id,
			.error = -fault,
			.flags = fault ? 0 : (unsigned)SECCOMP_USER_NOTIF_FLAG_CONTINUE};
		ioctl(watch.listener, SECCOMP_IOCTL_NOTIF_SEND, &a);
	}
	return NULL;
}

void watch_spawn(struct rig *r, const struct trial *t, struct report *report)
{
	sigset_t all, old;
	int pair[2];

	rig_write_ini(r);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
	r->ready = r->watchdog = 0;
	r->exited = false;
	fflush(NULL);
	sigfillset(&all);
	/* a signal for hcpd must not meet our handlers in the child */
	sigprocmask(SIG_BLOCK, &all, &old);
	r->pid = fork();
	if (r->pid == 0)
		become_hcpd(r, t, pair[1]);
	must(r->pid > 0, "fork");
	close(pair[1]);
	watch.trial = t;
	watch.report = report;
	watch.pid = watch.tids[0] = r->pid;
	watch.listener = take_over(pair[0]);
	close(pair[0]);
	/* all signals blocked */
	must(pthread_create(&watch.thread, NULL, serve, NULL) == 0, "no thread");
	watch.is_running = true;
	sigprocmask(SIG_SETMASK, &old, NULL);
}

void watch_end(void)
{
	if (!watch.is_running)
		return;
	pthread_join(watch.thread, NULL);
	close(watch.listener);
	watch.is_running = false;
}
