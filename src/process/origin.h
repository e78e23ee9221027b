/* SPDX-License-Identifier: MIT */
/* origin.h: does a process come from a session? For those who must not take a session's process for a person.
 *
 * The signs are those by which group.h finds what to kill, for the process and for each of its ancestors: it
 * descends from this daemon, has a tag in RLIMIT_LOCKS, HCP_INSTANCE in its environment, or is in a cgroup of
 * a worker. Descent is the one that a process cannot shed: the daemon adopts every orphan of its workers. The
 * other signs also find what another program (at, cron) started for a worker, and the workers of another
 * hcpd. */
#ifndef HCPD_PROCESS_ORIGIN_H
#define HCPD_PROCESS_ORIGIN_H

enum origin {
	ORIGIN_OUTSIDE,
	ORIGIN_SESSION, /* or another program that the daemon started */
	ORIGIN_HIDDEN,  /* /proc does not show the process, or an ancestor that may be a session's */
	ORIGIN_GONE,    /* it has ended, or the pid was used again meanwhile */
};

/* pid: as this process's namespace has it. *child: the daemon's child that the process descends from, which
 * is mostly a worker's main process; 0: not known. Any thread may call this. */
enum origin origin_find(int pid, int *child);
/* Of the process that connected to this Unix socket, and is still there: a peer that passed the socket on and
 * ended is ORIGIN_GONE. pid: of SO_PEERCRED; 0, a process outside of our namespace, is ORIGIN_OUTSIDE. */
enum origin origin_find_peer(int fd, int pid, int *child);

#endif
