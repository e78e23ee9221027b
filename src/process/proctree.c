/* SPDX-License-Identifier: MIT */
/* proctree.c: reads /proc, sends signals through pidfds.
 * Owns the snapshot's memory and one spare descriptor, so that it works when descriptors have run out.
 * Never decides whose process one is. */
#include "process/proctree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

#define TEXT_MAX (4u << 20) /* the kernel's own bound for arguments and environment is near */

static void spare_give(struct proctree *t)
{
	if (t->spare_fd >= 0)
		close(t->spare_fd);
	t->spare_fd = -1;
}

static void spare_take(struct proctree *t)
{
	if (t->spare_fd < 0)
		t->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int proctree_open_spare(struct proctree *t, int dir, const char *path, int flags)
{
	int fd = openat(dir, path, flags | O_CLOEXEC);

	if (fd < 0 && (errno == EMFILE || errno == ENFILE) && t->spare_fd >= 0) {
		spare_give(t);
		fd = openat(dir, path, flags | O_CLOEXEC);
		if (fd < 0) {
			int error = errno;

			spare_take(t);
			errno = error;
		}
	}
	return fd;
}

void proctree_close_spare(struct proctree *t, int fd)
{
	close(fd);
	spare_take(t);
}

static int proc_open(struct proctree *t, const char *path, int flags)
{
	return proctree_open_spare(t, dirfd(t->dir), path, flags);
}

int proctree_init(struct proctree *t)
{
	int tid = (int)syscall(SYS_gettid);
	char path[64];

	memset(t, 0, sizeof *t);
	t->self = getpid();
	t->children_fd[0] = t->children_fd[1] = t->others_fd = t->loadavg_fd = t->spare_fd = -1;
	t->dir = opendir("/proc");
	if (!t->dir)
		return -1;
	/* A child is listed under the thread that forked it, an adopted orphan under the first thread. */
	snprintf(path, sizeof path, "%d/task/%d/children", t->self, tid);
	t->children_fd[0] = proc_open(t, path, O_RDONLY);
	if (tid != t->self && t->children_fd[0] >= 0) {
		snprintf(path, sizeof path, "%d/task/%d/children", t->self, t->self);
		t->children_fd[1] = proc_open(t, path, O_RDONLY);
		if (t->children_fd[1] < 0) { /* an incomplete list is useless */
			close(t->children_fd[0]);
			t->children_fd[0] = -1;
		}
	}
	t->loadavg_fd = proc_open(t, "loadavg", O_RDONLY);
	spare_take(t);
	return 0;
}

void proctree_drop_thread(struct proctree *t)
{
	if (t->others_fd >= 0)
		close(t->others_fd);
	t->others_fd = -1;
}

void proctree_fini(struct proctree *t)
{
	int i;

	for (i = 0; i < 2; i++)
		if (t->children_fd[i] >= 0)
			close(t->children_fd[i]);
	proctree_drop_thread(t);
	if (t->loadavg_fd >= 0)
		close(t->loadavg_fd);
	spare_give(t);
	if (t->dir)
		closedir(t->dir);
	free(t->procs);
	free(t->text);
	memset(t, 0, sizeof *t);
}

int proctree_add_thread(struct proctree *t, int tid)
{
	char path[64];

	snprintf(path, sizeof path, "%d/task/%d/children", t->self, tid);
	t->others_fd = proc_open(t, path, O_RDONLY);
	return t->others_fd < 0 || t->children_fd[0] < 0 ? -1 : 0;
}

uint64_t proctree_now(void)
{
	static long hz;

	if (!hz)
		hz = sysconf(_SC_CLK_TCK);
	return (uint64_t)clock_boot_us() / (uint64_t)(1000000 / hz);
}

/* "PID (NAME) STATE PPID PGRP SESSION ..."; the name may hold anything, brackets too. */
static bool parse_stat(char *text, struct proc *p)
{
	char *at = strrchr(text, ')'), state;
	unsigned long long field[23] = {0};
	int i;

	if (!at || at[1] != ' ' || !at[2])
		return false;
	state = at[2];
	at += 3;
	for (i = 4; i <= 22; i++) { /* numbered as in proc(5); negative values wrap, and are not used */
		char *end;

		field[i] = strtoull(at, &end, 10);
		if (end == at)
			return false;
		at = end;
	}
	memset(p, 0, sizeof *p);
	p->pid = (int)strtol(text, NULL, 10);
	p->ppid = (int)field[4];
	p->pgid = (int)field[5];
	p->sid = (int)field[6];
	p->start = field[22];
	/* A first thread that ended shows Z though others of its process still run. */
	p->dead = (state == 'Z' && field[20] <= 1) || state == 'X' || state == 'x';
	return true;
}

bool proctree_look(struct proctree *t, int pid, struct proc *out)
{
	char path[32], text[1024];
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "%d/stat", pid);
	fd = proc_open(t, path, O_RDONLY);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof text - 1);
	proctree_close_spare(t, fd);
	if (n > 0) {
		text[n] = '\0';
		if (parse_stat(text, out))
			return true;
	}
	errno = ESRCH;
	return false;
}

static int by_pid(const void *a, const void *b)
{
	const struct proc *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct proc *proc_room(struct proctree *t)
{
	if (t->count == t->room) {
		t->room = t->room ? 2 * t->room : 256;
		t->procs = xrealloc(t->procs, t->room * sizeof *t->procs);
	}
	return &t->procs[t->count];
}

int proctree_child_lives(int pid)
{
	siginfo_t si = {.si_pid = 0};

	if (waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) < 0)
		return -1;
	return si.si_pid == 0;
}

/* Numbers and blanks; the end of a read may cut one. The kernel fills a page before it ends a read, so a
 * short one is the last. */
static int read_children(int fd, bool (*on_child)(void *ctx, int pid), void *ctx)
{
	char text[4096];
	int pid = 0;
	ssize_t n, i;
	off_t at = 0;

	do {
		n = pread(fd, text, sizeof text, at);
		for (i = 0; i < n; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
			} else if (pid) {
				if (!on_child(ctx, pid))
					return 0;
				pid = 0;
			}
		}
		at += n;
	} while (n > (ssize_t)sizeof text / 2);
	return n < 0 ? -1 : 0;
}

struct child_adder {
	struct proctree *tree;
	size_t listed; /* how many the directory listed; those are sorted */
};

/* A child that the directory did not list: it is new, or hidden. The kernel group of a hidden child can
 * still be read. */
static bool add_child(void *ctx, int pid)
{
	struct child_adder *a = ctx;
	struct proc *p, key = {.pid = pid};
	int lives;

	if (a->listed && bsearch(&key, a->tree->procs, a->listed, sizeof key, by_pid))
		return true;
	p = proc_room(a->tree);
	if (!proctree_look(a->tree, pid, p)) {
		lives = proctree_child_lives(pid);
		if (lives < 0)
			return true;
		memset(p, 0, sizeof *p);
		p->pid = pid;
		p->ppid = a->tree->self;
		p->pgid = getpgid(pid);
		p->sid = getsid(pid);
		p->start = PROC_HIDDEN;
		p->dead = !lives;
	}
	a->tree->count++;
	return true;
}

static void sort(struct proctree *t)
{
	size_t i;

	for (i = 1; i < t->count; i++)
		if (t->procs[i - 1].pid >= t->procs[i].pid) {
			qsort(t->procs, t->count, sizeof *t->procs, by_pid);
			return;
		}
}

int proctree_each_pid(struct proctree *t, bool (*on_pid)(void *ctx, int pid), void *ctx)
{
	struct dirent *e;

	rewinddir(t->dir);
	for (errno = 0; (e = readdir(t->dir)) != NULL; errno = 0)
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
			!on_pid(ctx, (int)strtol(e->d_name, NULL, 10)))
			return -1;
	return errno ? -1 : 0;
}

void proctree_clear(struct proctree *t)
{
	t->count = 0;
}

bool proctree_add(struct proctree *t, int pid)
{
	if (!proctree_look(t, pid, proc_room(t)))
		return false;
	t->count++;
	return true;
}

void proctree_tidy(struct proctree *t)
{
	size_t kept = 0;

	sort(t);
	for (size_t i = 0; i < t->count; i++)
		if (kept == 0 || t->procs[kept - 1].pid != t->procs[i].pid)
			t->procs[kept++] = t->procs[i];
	t->count = kept;
}

static bool add_listed(void *ctx, int pid)
{
	/* in an incomplete snapshot a live process would seem gone */
	return proctree_add(ctx, pid) || errno == ENOENT || errno == ESRCH || errno == EACCES ||
		errno == EPERM;
}

int proctree_walk(struct proctree *t)
{
	struct child_adder a = {t, 0};

	t->count = 0;
	if (proctree_each_pid(t, add_listed, t) < 0)
		return -1;
	sort(t);
	a.listed = t->count;
	(void)proctree_children(t, add_child, &a);
	if (t->others_fd >= 0)
		(void)read_children(t->others_fd, add_child, &a);
	sort(t);
	return 0;
}

struct proc *proctree_find(struct proctree *t, int pid)
{
	struct proc key = {.pid = pid};

	if (!t->count)
		return NULL;
	return bsearch(&key, t->procs, t->count, sizeof key, by_pid);
}

struct proc *proctree_parent(struct proctree *t, struct proc *p)
{
	struct proc *parent, now;
	int tries;

	for (tries = 0; tries < 3 && p->ppid > 0; tries++) {
		parent = proctree_find(t, p->ppid);
		if (parent && parent->start <= p->start)
			return parent;
		if (!proctree_look(t, p->pid, &now) || now.start != p->start || now.ppid == p->ppid)
			return NULL;
		p->ppid = now.ppid;
	}
	return NULL;
}

int proctree_children(struct proctree *t, bool (*on_child)(void *ctx, int pid), void *ctx)
{
	int i;

	if (t->children_fd[0] < 0)
		return -1;
	for (i = 0; i < 2; i++)
		if (t->children_fd[i] >= 0 && read_children(t->children_fd[i], on_child, ctx) < 0)
			return -1;
	return 0;
}

/* "0.20 0.18 0.12 1/80 11206" */
int proctree_last_pid(struct proctree *t)
{
	char text[128], *at;
	ssize_t n = t->loadavg_fd >= 0 ? pread(t->loadavg_fd, text, sizeof text - 1, 0) : -1;

	if (n <= 0)
		return -1;
	text[n] = '\0';
	at = strrchr(text, ' ');
	return at ? (int)strtol(at, NULL, 10) : -1;
}

static int each_child_of_thread(
	struct proctree *t, int pid, const char *tid, bool (*on_child)(void *ctx, int pid), void *ctx)
{
	char path[300];
	int fd, r;

	snprintf(path, sizeof path, "%d/task/%s/children", pid, tid);
	fd = proc_open(t, path, O_RDONLY);
	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	r = read_children(fd, on_child, ctx);
	proctree_close_spare(t, fd);
	return r;
}

static int each_child_of_others(
	struct proctree *t, int pid, const char *first, bool (*on_child)(void *ctx, int pid), void *ctx)
{
	char path[32];
	struct dirent *e;
	DIR *dir;
	int fd, r = 0;

	snprintf(path, sizeof path, "%d/task", pid);
	fd = proc_open(t, path, O_RDONLY | O_DIRECTORY);
	dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir) {
		if (fd >= 0)
			proctree_close_spare(t, fd);
		return -1;
	}
	while (r == 0 && (e = readdir(dir)) != NULL)
		if (e->d_name[0] != '.' && strcmp(e->d_name, first) != 0)
			r = each_child_of_thread(t, pid, e->d_name, on_child, ctx);
	closedir(dir);
	spare_take(t);
	return r;
}

int proctree_open_children(struct proctree *t, int pid)
{
	char path[64];

	if (t->children_fd[0] < 0)
		return -1;
	snprintf(path, sizeof path, "%d/task/%d/children", pid, pid);
	return openat(dirfd(t->dir), path, O_RDONLY | O_CLOEXEC);
}

int proctree_each_child(
	struct proctree *t, int pid, int kept_fd, bool (*on_child)(void *ctx, int pid), void *ctx)
{
	char path[32], tid[16];
	struct stat st;
	int r;

	if (t->children_fd[0] < 0)
		return -1;
	snprintf(tid, sizeof tid, "%d", pid);
	r = kept_fd >= 0 ? read_children(kept_fd, on_child, ctx) :
			   each_child_of_thread(t, pid, tid, on_child, ctx);
	if (r < 0)
		return -1;
	snprintf(path, sizeof path, "%d/task", pid);
	if (fstatat(dirfd(t->dir), path, &st, 0) < 0)
		return -1;
	if (st.st_nlink == 3) /* ".", ".." and one thread */
		return 0;
	return each_child_of_others(t, pid, tid, on_child, ctx);
}

/* Reads into t->text, with a NUL after it; its size, or -1. */
static ssize_t read_text(struct proctree *t, int fd)
{
	size_t size = 0;
	ssize_t n;

	do {
		if (t->text_room - size < 8192) {
			t->text_room = t->text_room ? 2 * t->text_room : 32768;
			t->text = xrealloc(t->text, t->text_room);
		}
		n = read(fd, t->text + size, t->text_room - size - 1);
		if (n > 0)
			size += (size_t)n;
	} while (n > 0 && size < TEXT_MAX);
	t->text[size] = '\0';
	return n < 0 && size == 0 ? -1 : (ssize_t)size;
}

int64_t proctree_forks(struct proctree *t)
{
	int fd = proc_open(t, "stat", O_RDONLY);
	ssize_t size;
	char *at;

	if (fd < 0)
		return -1;
	size = read_text(t, fd);
	proctree_close_spare(t, fd);
	at = size > 0 ? strstr(t->text, "\nprocesses ") : NULL;
	return at ? strtoll(at + sizeof "\nprocesses " - 1, NULL, 10) : -1;
}

bool proctree_environ(struct proctree *t, int pid, bool (*on_var)(void *ctx, const char *var), void *ctx)
{
	char path[32], *at;
	ssize_t size;
	int fd;

	snprintf(path, sizeof path, "%d/environ", pid);
	fd = proc_open(t, path, O_RDONLY);
	if (fd < 0)
		return false;
	size = read_text(t, fd);
	proctree_close_spare(t, fd);
	for (at = t->text; size > 0 && at < t->text + size; at += strlen(at) + 1)
		if (*at && !on_var(ctx, at))
			break;
	return size >= 0;
}

/* "Max file locks            SOFT     HARD     locks" */
static uint64_t read_tag(struct proctree *t, int pid)
{
	static const char name[] = "\nMax file locks";
	char path[32], text[4096], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "%d/limits", pid);
	fd = proc_open(t, path, O_RDONLY);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof text - 1);
	proctree_close_spare(t, fd);
	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, name);
	return at ? strtoull(at + sizeof name - 1, NULL, 10) : 0;
}

uint64_t proctree_tag(struct proctree *t, int pid)
{
	struct rlimit lim;

	if (prlimit(pid, RLIMIT_LOCKS, NULL, &lim) == 0)
		return lim.rlim_cur;
	/* Refused where the process executed a set-group-ID program, such as ssh-agent; the file may be read
	 * by all. */
	return errno == EPERM ? read_tag(t, pid) : 0;
}

int proctree_open(struct proctree *t, int pid, uint64_t start)
{
	struct proc now;
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0 && (errno == EMFILE || errno == ENFILE) && t->spare_fd >= 0) {
		spare_give(t);
		fd = (int)syscall(SYS_pidfd_open, pid, 0);
	}
	if (fd < 0)
		return -1;
	/* The descriptor refers to the process that has the pid now: is it still the right one? */
	if (!proctree_look(t, pid, &now)) {
		int error = errno == EMFILE || errno == ENFILE ? errno : ESRCH;

		close(fd);
		errno = error;
		return -1;
	}
	if (now.start != start) {
		close(fd);
		errno = ESRCH;
		return -1;
	}
	return fd;
}

int proctree_signal(struct proctree *t, int pid, uint64_t start, int sig)
{
	struct proc now;
	int fd, r, error;

	if (pid <= 1 || pid == t->self) {
		errno = EINVAL;
		return -1;
	}
	if (start == PROC_HIDDEN) { /* the pid of a child is not reused before we reap it */
		if (proctree_child_lives(pid) == 1)
			return kill(pid, sig);
		errno = ESRCH;
		return -1;
	}
	fd = proctree_open(t, pid, start);
	if (fd >= 0) {
		r = (int)syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
		error = errno;
		proctree_close_spare(t, fd);
		errno = error;
		return r;
	}
	if (errno == ESRCH)
		return -1;
	/* No pidfd (no descriptor, an old kernel, a filter): the pid alone, right after a look. */
	if (!proctree_look(t, pid, &now) || now.start != start) {
		errno = ESRCH;
		return -1;
	}
	return kill(pid, sig);
}
