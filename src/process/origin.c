/* SPDX-License-Identifier: MIT */
/* origin.c: climbs from a process to its ancestors, and looks for the signs of a session at each.
 * Owns the order of the signs and what counts as a race. Never signals a process, never keeps one. */
#include "process/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "process/proctree.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif
#define STEPS_MAX 10000      /* ancestors; a chain of processes may be long */
#define TAG_MIN (1u << 24)   /* group.c makes no smaller one, and no RLIMIT_LOCKS in use is as large */
#define TRIES_MAX 100        /* new parents of one process */
#define CGROUP_NAME "/hcpd-" /* cgroup.c: hcpd-XXXXXXXX-NUMBER */
#define INSTANCE "HCP_INSTANCE="

static bool look_at_var(void *ctx, const char *var)
{
	bool *found = ctx;

	*found = strncmp(var, INSTANCE, sizeof INSTANCE - 1) == 0;
	return !*found;
}

static bool is_in_cgroup(struct proctree *t, int pid)
{
	char path[32], text[4096], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "%d/cgroup", pid);
	fd = proctree_open_spare(t, dirfd(t->dir), path, O_RDONLY);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof text - 1);
	proctree_close_spare(t, fd);
	text[n > 0 ? n : 0] = '\0';
	for (at = text; (at = strstr(at, CGROUP_NAME)) != NULL; at++)
		if (strspn(at + sizeof CGROUP_NAME - 1, "0123456789abcdef") == 8 &&
			at[sizeof CGROUP_NAME - 1 + 8] == '-')
			return true;
	return false;
}

static bool has_sign(struct proctree *t, int pid)
{
	uint64_t tag = proctree_tag(t, pid);
	bool found = false;

	if (tag >= TAG_MIN && tag != RLIM_INFINITY)
		return true;
	proctree_environ(t, pid, look_at_var, &found);
	return found || is_in_cgroup(t, pid);
}

/* A process that /proc does not show: gone, or hidden (hidepid, ProtectProc=). What we may signal has our
 * user, or one that we give to workers. */
static enum origin explain_unseen(int pid)
{
	if (kill(pid, 0) == 0)
		return ORIGIN_HIDDEN;
	return errno == ESRCH ? ORIGIN_GONE : ORIGIN_OUTSIDE;
}

/* The parent of p, read after p. A parent that ends hands its children to an ancestor, so p is read again
 * until the two fit. False with *why: there is none that can be seen. */
static bool find_parent(struct proctree *t, struct proc *p, struct proc *parent, enum origin *why)
{
	struct proc now;

	for (int i = 0; i < TRIES_MAX; i++) {
		*why = ORIGIN_OUTSIDE;
		if (p->ppid <= 0) /* p is the first of its namespace */
			return false;
		if (proctree_look(t, p->ppid, parent) && parent->start <= p->start)
			return true;
		*why = explain_unseen(p->ppid);
		if (!proctree_look(t, p->pid, &now) || now.start != p->start)
			break;
		if (now.ppid == p->ppid && *why != ORIGIN_GONE)
			return false;
		p->ppid = now.ppid;
	}
	*why = ORIGIN_GONE;
	return false;
}

/* ORIGIN_GONE: an ancestor ended while we looked; the process has another parent by now. */
static enum origin climb(struct proctree *t, struct proc p, int *child)
{
	enum origin why;
	struct proc parent;

	for (int i = 0; i < STEPS_MAX; i++) {
		if (p.ppid == t->self) {
			*child = p.pid;
			return ORIGIN_SESSION;
		}
		if (has_sign(t, p.pid))
			return ORIGIN_SESSION;
		if (!find_parent(t, &p, &parent, &why))
			return why;
		if (p.ppid != t->self) /* else p was adopted while we looked */
			p = parent;
	}
	return ORIGIN_HIDDEN;
}

enum origin origin_find(int pid, int *child)
{
	struct proctree t;
	struct proc first, now;
	enum origin o = ORIGIN_GONE;
	bool is_there;

	*child = 0;
	if (pid == getpid())
		return ORIGIN_OUTSIDE;
	if (proctree_init(&t) < 0)
		return ORIGIN_HIDDEN;
	is_there = proctree_look(&t, pid, &first);
	if (!is_there)
		o = explain_unseen(pid);
	for (int i = 0; is_there && o == ORIGIN_GONE && i < TRIES_MAX; i++) {
		is_there = proctree_look(&t, pid, &now) && now.start == first.start && !now.dead;
		if (is_there)
			o = climb(&t, now, child);
	}
	if (is_there && (!proctree_look(&t, pid, &now) || now.start != first.start || now.dead))
		o = ORIGIN_GONE;
	proctree_fini(&t);
	return o;
}

/* The descriptor keeps the pid from meaning another process. Kernels before 6.5 have none: there a peer that
 * ends at once can be taken for a process that got its pid before we looked. */
enum origin origin_find_peer(int fd, int pid, int *child)
{
	struct pollfd peer = {.fd = -1, .events = POLLIN};
	socklen_t size = sizeof peer.fd;
	enum origin o;

	*child = 0;
	if (pid == 0)
		return ORIGIN_OUTSIDE;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &peer.fd, &size) < 0) {
		peer.fd = -1;
		if (errno == EMFILE || errno == ENFILE)
			return ORIGIN_HIDDEN;
		if (errno != ENOPROTOOPT)
			return ORIGIN_GONE;
	}
	o = origin_find(pid, child);
	if (peer.fd >= 0) {
		if (poll(&peer, 1, 0) != 0)
			o = ORIGIN_GONE;
		close(peer.fd);
	}
	return o;
}
