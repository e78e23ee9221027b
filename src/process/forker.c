/* SPDX-License-Identifier: MIT */
/* forker.c: a thread with a descriptor table of its own, which starts processes.
 * Owns that thread and the socket to it. The core's thread waits while the other works, so nothing needs a
 * lock. Never knows what is started. */
#include "process/forker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"

#define STACK_SIZE (256u << 10)

struct job {
	int (*start)(void *ctx, const int *fds);
	void *ctx;
	size_t count;
	int result, error;
};

struct forker {
	pthread_t thread;
	int ours, theirs; /* the two ends; ours is also open in the thread, and means nothing there */
	int tid, error;
};

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(FORKER_FDS * sizeof(int))];
};

/* A copy of the table with nothing in it but 0 to 2 and the socket. */
static int own_table(struct forker *f)
{
	int fd;

	if (close_range((unsigned)f->theirs + 1, ~0U, CLOSE_RANGE_UNSHARE) < 0)
		return -1;
	if (f->theirs > 3)
		(void)close_range(3, (unsigned)f->theirs - 1, 0);
	do { /* what comes later is above 2 */
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= 2);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? -1 : 0;
}

/* The descriptors of a message. False: the other side is closed. */
static bool receive(int socket, struct job **job, int fds[FORKER_FDS])
{
	union control control;
	struct iovec iov = {job, sizeof *job};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	struct cmsghdr *head;
	ssize_t n;

	do {
		n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n != sizeof *job)
		return false;
	head = CMSG_FIRSTHDR(&m);
	if (!head || (m.msg_flags & MSG_CTRUNC) || head->cmsg_len != CMSG_LEN((*job)->count * sizeof(int))) {
		(*job)->count = 0;
		(*job)->error = EMFILE;
		return true;
	}
	memcpy(fds, CMSG_DATA(head), (*job)->count * sizeof(int));
	return true;
}

static void *serve(void *arg)
{
	struct forker *f = arg;
	int fds[FORKER_FDS], socket = f->theirs;
	struct job *job;
	char done = 0;

	f->tid = (int)syscall(SYS_gettid);
	f->error = own_table(f) < 0 ? errno : 0;
	if (write(socket, &done, 1) != 1 || f->error)
		return NULL;
	while (receive(socket, &job, fds)) {
		if (!job->error) {
			errno = 0;
			job->result = job->start(job->ctx, fds);
			job->error = errno;
		}
		for (size_t i = 0; i < job->count; i++)
			close(fds[i]);
		if (write(socket, &done, 1) != 1)
			break;
	}
	close(socket);
	return NULL;
}

static bool wait_for_it(struct forker *f)
{
	char done;
	ssize_t n;

	do {
		n = read(f->ours, &done, 1);
	} while (n < 0 && errno == EINTR);
	return n == 1;
}

/* Without signals: their handlers belong to the core's thread. */
static int thread_start(struct forker *f)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int error;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&f->thread, &attr, serve, f);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (!error)
		(void)pthread_setname_np(f->thread, "fork");
	return error;
}

struct forker *forker_new(void)
{
	struct forker *f = xcalloc(1, sizeof *f);
	int pair[2], error;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		free(f);
		return NULL;
	}
	f->ours = pair[0];
	f->theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, 3);
	error = f->theirs < 0 ? errno : thread_start(f);
	close(pair[1]);
	if (!error && wait_for_it(f)) {
		close(f->theirs); /* the thread has its own */
		f->theirs = -1;
		if (!f->error)
			return f;
		error = f->error;
		pthread_join(f->thread, NULL);
	}
	if (f->theirs >= 0)
		close(f->theirs);
	close(f->ours);
	free(f);
	errno = error;
	return NULL;
}

void forker_free(struct forker *f)
{
	if (!f)
		return;
	close(f->ours); /* the thread reads the end, and leaves */
	pthread_join(f->thread, NULL);
	free(f);
}

int forker_tid(const struct forker *f)
{
	return f->tid;
}

int forker_run(
	struct forker *f, const int *fds, size_t count, int (*start)(void *ctx, const int *fds), void *ctx)
{
	struct job job = {.start = start, .ctx = ctx, .count = count, .result = -1}, *at = &job;
	union control control = {.head = {.cmsg_len = CMSG_LEN(count * sizeof(int)),
					 .cmsg_level = SOL_SOCKET,
					 .cmsg_type = SCM_RIGHTS}};
	struct iovec iov = {&at, sizeof at};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(count * sizeof(int))};

	memcpy(CMSG_DATA(&control.head), fds, count * sizeof(int));
	if (sendmsg(f->ours, &m, MSG_NOSIGNAL) < 0 || !wait_for_it(f))
		return -1;
	errno = job.error;
	return job.result;
}
