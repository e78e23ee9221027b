/* SPDX-License-Identifier: MIT */
/* control.c: the control socket: which peers are accepted, and the thread that serves them.
 * Owns every descriptor of the socket, and the two queues to and from the core. Never answers by itself
 * (client.c), never touches a session (operator.c), nor the socket's file (socket.c). */
#include "control/control_private.h"

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crashpoint.h"
#include "process/origin.h"

#define SECOND 1000000
#define STUCK_US (30 * SECOND) /* a client that reads nothing for so long is closed */
#define LAST_ANSWERS_US SECOND /* for the last answers */
#define GROUPS_MAX 65536       /* of a peer; the kernel's own bound */

/* ---- which peers are accepted ---- */

static bool is_in_group(int fd, gid_t group)
{
	socklen_t size = 64 * sizeof(gid_t);
	gid_t *groups = xmalloc(size);
	bool found = false;
	int rc;

	while ((rc = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size)) < 0 && errno == ERANGE &&
		size <= GROUPS_MAX * sizeof(gid_t))
		groups = xrealloc(groups, size);
	for (size_t i = 0; rc == 0 && i < size / sizeof(gid_t); i++)
		found |= groups[i] == group;
	free(groups);
	return found;
}

static bool is_allowed(const struct control *ctl, int fd, struct ucred *who)
{
	socklen_t size = sizeof *who;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, who, &size) < 0)
		return false;
	if (who->uid == 0 || who->uid == geteuid())
		return true;
	return ctl->group >= 0 && (who->gid == (gid_t)ctl->group || is_in_group(fd, (gid_t)ctl->group));
}

void control_find_user(int64_t uid, char user[33])
{
	char text[4096];
	struct passwd pw, *found = NULL;

	user[0] = '\0';
	if (getpwuid_r((uid_t)uid, &pw, text, sizeof text, &found) == 0 && found != NULL)
		snprintf(user, 33, "%s", pw.pw_name);
}

static void log_denied(struct control *ctl, struct denied_peer *peer)
{
	/* the lookup may be slow, so it is done here and not in the core */
	control_find_user(peer->uid, peer->user);
	control_put_denied(ctl, peer);
}

static void refuse_peer(int fd, const char *code, const char *next, const char *message)
{
	struct query_error e;
	struct buf b = {0};

	control_set_error(&e, code, next, "%s", message);
	client_add_error(&b, NULL, &e);
	(void)!send(fd, b.data, b.size, MSG_DONTWAIT | MSG_NOSIGNAL);
	buf_fini(&b);
	close(fd);
}

/* Closes a client that was silent for too long, with an error as the last message to it. */
static void turn_out(struct control *ctl, struct client *c)
{
	struct query_error e;

	if (log_may(&ctl->silent_limit, 10))
		log_info("a silent client of the control socket was closed: uid=%lld", (long long)c->uid);
	control_set_error(&e, "unavailable", "connect again when there is something to ask",
		"this connection was silent for too long");
	client_add_error(&c->out, NULL, &e);
	client_write(ctl, c);
	if (c->fd >= 0)
		client_close(ctl, c);
}

/* A session's process is no operator, under any user: workers mostly run as the daemon's own. A client whose
 * process cannot be examined counts as a session's process. Root is the exception: the workers of a daemon
 * that is not root are never root. */
static bool is_of_session(struct control *ctl, int fd, const struct ucred *who)
{
	struct denied_peer peer = {.uid = who->uid, .pid = who->pid, .who = "worker"};
	enum origin origin = origin_find_peer(fd, who->pid, &peer.worker_pid);

	if (origin == ORIGIN_OUTSIDE || (origin == ORIGIN_HIDDEN && who->uid == 0 && geteuid() != 0))
		return false;
	if (origin != ORIGIN_SESSION)
		peer.who = "stranger";
	snprintf(peer.why, sizeof peer.why, "%s",
		origin == ORIGIN_SESSION ? "a process of a session is no operator" :
			origin == ORIGIN_GONE ?
					   "the process that connected has ended" :
					   "the process, or one that it comes from, cannot be looked at");
	if (log_may(&ctl->denied_limit, 10))
		log_warn("a peer was turned away from the control socket: uid=%ld pid=%d worker=%d why=%s",
			(long)who->uid, who->pid, peer.worker_pid, peer.why);
	log_denied(ctl, &peer);
	refuse_peer(fd, "refused", "use hcpctl outside of hcpd's workers; hcp-control(7) says who may speak",
		peer.why);
	return true;
}

static void take_in(struct control *ctl, int fd)
{
	struct ucred who = {0, (uid_t)-1, (gid_t)-1};
	struct client *place;
	const char *why;

	CRASH_POINT(control_accepted);
	if (!is_allowed(ctl, fd, &who)) {
		if (log_may(&ctl->denied_limit, 10))
			log_warn("a stranger was turned away from the control socket: uid=%ld pid=%d",
				(long)who.uid, who.pid);
		log_denied(ctl, &(struct denied_peer){.uid = who.uid, .pid = who.pid});
		refuse_peer(fd, "refused",
			"become root or hcpd's user, or a member of the group in [control] of hcpd.ini",
			"you may not use this socket");
		return;
	}
	if (is_of_session(ctl, fd, &who))
		return;
	if ((place = place_find(ctl, who.uid, clock_boot_us(), &why)) == NULL) {
		if (log_may(&ctl->full_limit, 10))
			log_warn("the control socket has no room for another client: uid=%ld why=%s",
				(long)who.uid, why);
		refuse_peer(fd, "unavailable", "try again when one of them has gone", why);
		return;
	}
	if (place->fd >= 0)
		turn_out(ctl, place);
	client_open(ctl, place, fd, who.uid);
}

static void take_in_all(struct control *ctl)
{
	int fd;

	while ((fd = accept4(ctl->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		take_in(ctl, fd);
	if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
		ctl->accept_at_us = clock_boot_us() + SECOND; /* otherwise poll would not sleep */
}

/* ---- to and from the core ---- */

void control_send_to_core(struct control *ctl, struct op_request *a)
{
	op_queue_put(ctl->requests, a);
}

void control_put_denied(struct control *ctl, const struct denied_peer *peer)
{
	op_queue_put_denied(ctl->requests, peer);
}

struct query *control_query(struct control *ctl, struct query_error *e)
{
	char why[512];

	if (ctl->query == NULL && query_open(ctl->state_dir, &ctl->query, why, sizeof why) != 0) {
		ctl->query = NULL;
		control_set_error(e, "unavailable", "look at the disk and at hcpd's log",
			"the store cannot be read: %s", why);
	}
	return ctl->query;
}

/* ---- the thread ---- */

static void take_answers(struct control *ctl)
{
	bool has_committed;
	struct op_request *list = op_queue_take_answers(ctl->requests, &has_committed), *next;

	for (; list != NULL; list = next) {
		next = list->next;
		client_take_answer(ctl, list);
	}
	if (!has_committed)
		return;
	for (int i = 0; i < CLIENTS_MAX; i++)
		client_on_commit(&ctl->clients[i]);
}

/* Every answer was written and sent. */
static bool is_over(const struct client *c)
{
	if (client_has_output(c))
		return false;
	for (int i = 0; i < REQUESTS_MAX; i++)
		if (c->requests[i].state != REQUEST_FREE)
			return false;
	return c->is_ending || (c->at_eof && c->in.size == 0);
}

static bool is_stuck(struct control *ctl, const struct client *c, int64_t now)
{
	if (c->stuck_since_us == 0 || now - c->stuck_since_us < STUCK_US)
		return false;
	if (log_may(&ctl->stuck_limit, 10))
		log_warn("a client of the control socket does not read and was dropped: uid=%lld",
			(long long)c->uid);
	return true;
}

/* True: the client has more to do at once. */
static bool serve(struct control *ctl, struct client *c, short events)
{
	bool more = false;

	if (events & (POLLERR | POLLNVAL) || (events & POLLHUP && !(events & POLLIN))) {
		client_close(ctl, c); /* the peer is gone */
		return false;
	}
	if (events & POLLIN)
		client_read(ctl, c);
	if (c->fd >= 0)
		more = client_work(ctl, c);
	if (c->fd >= 0)
		client_write(ctl, c);
	if (c->fd >= 0 && ((!more && is_over(c)) || is_stuck(ctl, c, clock_boot_us())))
		client_close(ctl, c);
	if (c->fd >= 0 && !more && clock_boot_us() >= place_silent_at(c))
		turn_out(ctl, c);
	/* state after the write: POLLOUT wakes a full client */
	return more && c->fd >= 0 && !client_is_full(c);
}

/* When to check again without an event, in milliseconds; -1: never. */
static int next_ms(const struct control *ctl)
{
	int64_t at = INT64_MAX, now = clock_boot_us();

	for (int i = 0; i < CLIENTS_MAX; i++) {
		const struct client *c = &ctl->clients[i];

		if (c->fd >= 0 && c->stuck_since_us != 0 && c->stuck_since_us + STUCK_US < at)
			at = c->stuck_since_us + STUCK_US;
		if (place_silent_at(c) < at)
			at = place_silent_at(c);
	}
	if (ctl->accept_at_us != 0 && ctl->accept_at_us < at)
		at = ctl->accept_at_us;
	return at == INT64_MAX ? -1 : at <= now ? 0 : (int)((at - now) / 1000 + 1);
}

enum { AT_EVENT, AT_LISTEN, AT_CLIENTS };

static void prepare(struct control *ctl, struct pollfd *p)
{
	if (ctl->accept_at_us != 0 && ctl->accept_at_us <= clock_boot_us())
		ctl->accept_at_us = 0;
	p[AT_EVENT] = (struct pollfd){.fd = op_queue_fd(ctl->requests), .events = POLLIN};
	p[AT_LISTEN] = (struct pollfd){.fd = ctl->accept_at_us == 0 ? ctl->listen_fd : -1, .events = POLLIN};
	for (int i = 0; i < CLIENTS_MAX; i++) {
		const struct client *c = &ctl->clients[i];

		p[AT_CLIENTS + i] = (struct pollfd){.fd = c->fd};
		if (c->fd >= 0)
			p[AT_CLIENTS + i].events = (short)((client_wants_input(c) ? POLLIN : 0) |
				(client_has_output(c) ? POLLOUT : 0));
	}
}

/* Sends the last answers to the clients that still read. */
static void part(struct control *ctl)
{
	int64_t until = clock_boot_us() + LAST_ANSWERS_US;
	struct pollfd p[CLIENTS_MAX];
	bool waits = true;

	CRASH_POINT(control_parting);
	take_answers(ctl);
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (ctl->clients[i].fd >= 0)
			client_end_requests(ctl, &ctl->clients[i]);
	while (waits && clock_boot_us() < until) {
		waits = false;
		for (int i = 0; i < CLIENTS_MAX; i++) {
			struct client *c = &ctl->clients[i];

			if (c->fd >= 0)
				client_write(ctl, c);
			if (c->fd >= 0 && is_over(c))
				client_close(ctl, c);
			p[i] = (struct pollfd){.fd = c->fd, .events = POLLOUT};
			waits |= c->fd >= 0;
		}
		if (waits)
			poll(p, CLIENTS_MAX, (int)(LAST_ANSWERS_US / 10000));
	}
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (ctl->clients[i].fd >= 0)
			client_close(ctl, &ctl->clients[i]);
}

static void *thread_main(void *arg)
{
	struct control *ctl = arg;
	struct pollfd p[AT_CLIENTS + CLIENTS_MAX];
	bool more = false;

	while (!atomic_load(&ctl->is_stopping)) {
		prepare(ctl, p);
		if (poll(p, AT_CLIENTS + CLIENTS_MAX, more ? 0 : next_ms(ctl)) < 0)
			continue;
		more = false;
		if (p[AT_EVENT].revents)
			take_answers(ctl);
		for (int i = 0; i < CLIENTS_MAX; i++)
			if (ctl->clients[i].fd >= 0)
				more |= serve(ctl, &ctl->clients[i], p[AT_CLIENTS + i].revents);
		if (p[AT_LISTEN].revents)
			take_in_all(ctl);
	}
	part(ctl);
	return NULL;
}

/* ---- lifecycle ---- */

static int start_thread(struct control *ctl)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all); /* signals are the core's */
	pthread_sigmask(SIG_BLOCK, &all, &before);
	rc = pthread_create(&ctl->thread, NULL, thread_main, ctl);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static void control_free(struct control *ctl)
{
	if (ctl->requests != NULL)
		op_queue_free(ctl->requests);
	if (ctl->query != NULL)
		query_close(ctl->query);
	if (ctl->listen_fd >= 0)
		close(ctl->listen_fd);
	free(ctl->state_dir);
	free(ctl);
}

int control_start(const struct config *config, void (*wake)(void *ctx), void *ctx, struct control **out)
{
	struct control *ctl = xcalloc(1, sizeof *ctl);
	int rc = EX_CANTCREAT;

	*out = NULL;
	ctl->group = config->control_gid;
	ctl->state_dir = xstrdup(config->state_dir);
	ctl->listen_fd = -1;
	for (int i = 0; i < CLIENTS_MAX; i++)
		ctl->clients[i].fd = -1;
	ctl->requests = op_queue_new(wake, ctx);
	if (!control_path(config, ctl->path, sizeof ctl->path)) {
		control_free(ctl);
		return EX_OK;
	}
	if (ctl->requests != NULL && control_make_socket(ctl) == 0) {
		int error = start_thread(ctl);

		if (error == 0) {
			*out = ctl;
			return EX_OK;
		}
		log_error("the thread for the control socket cannot be started: %s", strerror(error));
		control_remove_socket(ctl);
		rc = EX_OSERR;
	}
	control_free(ctl);
	return rc;
}

void control_stop(struct control *ctl)
{
	atomic_store(&ctl->is_stopping, true);
	op_queue_wake(ctl->requests);
	pthread_join(ctl->thread, NULL);
	control_remove_socket(ctl);
	CRASH_POINT(control_removed);
	control_free(ctl);
}

struct op_queue *control_requests(struct control *ctl)
{
	return ctl->requests;
}
