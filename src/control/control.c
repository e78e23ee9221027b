/* control.c: the control socket: who may speak, and the thread that serves it.
 * Owns every descriptor of it, and the two queues to and from the core. Never answers anything by itself
 * (control_client.c), never touches a session (operate.c), nor the socket's file (control_socket.c). */
#include "control/control_private.h"

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crashpoint.h"

#define SECOND 1000000
#define STUCK_US (30 * SECOND) /* a client that takes nothing for so long is dropped */
#define PART_US SECOND         /* for the last answers */
#define GROUPS_MAX 65536       /* of a peer; the kernel's own bound */

/* ---- who may speak ---- */

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

static bool may_speak(const struct control *ctl, int fd, struct ucred *who)
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

/* For the audit; the core writes it. */
static void note_stranger(struct control *ctl, const struct ucred *who)
{
	struct control_stranger *s = ctl->strangers, found = {.uid = who->uid, .pid = who->pid};
	bool is_first;

	control_find_user(found.uid, found.user); /* not under the lock: the core must not wait for it */
	pthread_mutex_lock(&ctl->lock);
	while (s < ctl->strangers + CONTROL_STRANGERS - 1 && s->count > 0 && s->uid != (int64_t)who->uid)
		s++;
	is_first = s->count == 0;
	if (is_first)
		*s = found;
	s->count++;
	pthread_mutex_unlock(&ctl->lock);
	if (is_first)
		ctl->wake(ctl->wake_ctx);
}

int control_take_strangers(struct control *ctl, struct control_stranger out[CONTROL_STRANGERS])
{
	int n = 0;

	pthread_mutex_lock(&ctl->lock);
	while (n < CONTROL_STRANGERS && ctl->strangers[n].count > 0)
		n++;
	memcpy(out, ctl->strangers, (size_t)n * sizeof *out);
	memset(ctl->strangers, 0, sizeof ctl->strangers);
	pthread_mutex_unlock(&ctl->lock);
	return n;
}

static void turn_away(int fd, const char *code, const char *next, const char *message)
{
	struct query_error e;
	struct buf b = {0};

	control_set_error(&e, code, next, "%s", message);
	client_add_error(&b, NULL, &e);
	(void)!send(fd, b.data, b.size, MSG_DONTWAIT | MSG_NOSIGNAL);
	buf_fini(&b);
	close(fd);
}

static struct client *find_free(struct control *ctl)
{
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (ctl->clients[i].fd < 0)
			return &ctl->clients[i];
	return NULL;
}

static void take_in(struct control *ctl, int fd)
{
	struct client *place = find_free(ctl);
	struct ucred who = {0, (uid_t)-1, (gid_t)-1};

	CRASH_POINT(control_accepted);
	if (!may_speak(ctl, fd, &who)) {
		if (log_may(&ctl->stranger_limit, 10))
			log_warn("a stranger was turned away from the control socket: uid=%ld pid=%d",
				(long)who.uid, who.pid);
		note_stranger(ctl, &who);
		turn_away(fd, "refused",
			"become root or hcpd's user, or a member of the group in [control] of hcpd.ini",
			"you may not use this socket");
	} else if (place == NULL) {
		if (log_may(&ctl->full_limit, 10))
			log_warn(
				"the control socket has no room for another client: clients=%d", CLIENTS_MAX);
		turn_away(fd, "unavailable", "try again when one of them has gone",
			"32 clients are connected already");
	} else {
		client_open(ctl, place, fd, who.uid);
	}
}

static void take_in_all(struct control *ctl)
{
	int fd;

	while ((fd = accept4(ctl->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		take_in(ctl, fd);
	if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
		ctl->accept_at_us = clock_boot_us() + SECOND; /* else poll would never rest */
}

/* ---- to and from the core ---- */

void control_ask(struct control *ctl, struct ask *a)
{
	pthread_mutex_lock(&ctl->lock);
	*ctl->asked_end = a;
	ctl->asked_end = &a->next;
	pthread_mutex_unlock(&ctl->lock);
	ctl->wake(ctl->wake_ctx);
}

struct ask *control_take(struct control *ctl)
{
	struct ask *list;

	pthread_mutex_lock(&ctl->lock);
	list = ctl->asked;
	ctl->asked = NULL;
	ctl->asked_end = &ctl->asked;
	pthread_mutex_unlock(&ctl->lock);
	return list;
}

static void wake_thread(struct control *ctl)
{
	uint64_t one = 1;

	(void)!write(ctl->event_fd, &one, sizeof one);
}

void control_answer(struct control *ctl, struct ask *a)
{
	a->next = NULL;
	pthread_mutex_lock(&ctl->lock);
	*ctl->answered_end = a;
	ctl->answered_end = &a->next;
	pthread_mutex_unlock(&ctl->lock);
	wake_thread(ctl);
}

void control_on_commit(struct control *ctl)
{
	if (atomic_load(&ctl->followers) > 0 && !atomic_exchange(&ctl->has_committed, true))
		wake_thread(ctl);
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
	struct ask *list, *next;
	uint64_t times;

	(void)!read(ctl->event_fd, &times, sizeof times);
	pthread_mutex_lock(&ctl->lock);
	list = ctl->answered;
	ctl->answered = NULL;
	ctl->answered_end = &ctl->answered;
	pthread_mutex_unlock(&ctl->lock);
	for (; list != NULL; list = next) {
		next = list->next;
		client_take_answer(ctl, list);
	}
	if (!atomic_exchange(&ctl->has_committed, false))
		return;
	for (int i = 0; i < CLIENTS_MAX; i++)
		client_look_again(&ctl->clients[i]);
}

/* All was said, and sent. */
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

/* True: it has more to do at once. */
static bool serve(struct control *ctl, struct client *c, short events)
{
	bool more = false;

	if (events & (POLLERR | POLLNVAL) || (events & POLLHUP && !(events & POLLIN))) {
		client_close(ctl, c); /* it is gone altogether */
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
	return more && c->fd >= 0 &&
		!client_is_full(c); /* as it is after the write: a full one is woken by POLLOUT */
}

/* When to look again though nothing happens, in milliseconds; -1: never. */
static int next_ms(const struct control *ctl)
{
	int64_t at = INT64_MAX, now = clock_boot_us();

	for (int i = 0; i < CLIENTS_MAX; i++) {
		const struct client *c = &ctl->clients[i];

		if (c->fd >= 0 && c->stuck_since_us != 0 && c->stuck_since_us + STUCK_US < at)
			at = c->stuck_since_us + STUCK_US;
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
	p[AT_EVENT] = (struct pollfd){.fd = ctl->event_fd, .events = POLLIN};
	p[AT_LISTEN] = (struct pollfd){.fd = ctl->accept_at_us == 0 ? ctl->listen_fd : -1, .events = POLLIN};
	for (int i = 0; i < CLIENTS_MAX; i++) {
		const struct client *c = &ctl->clients[i];

		p[AT_CLIENTS + i] = (struct pollfd){.fd = c->fd};
		if (c->fd >= 0)
			p[AT_CLIENTS + i].events = (short)((client_wants_input(c) ? POLLIN : 0) |
				(client_has_output(c) ? POLLOUT : 0));
	}
}

/* Last answers, for those who take them. */
static void part(struct control *ctl)
{
	int64_t until = clock_boot_us() + PART_US;
	struct pollfd p[CLIENTS_MAX];
	bool waits = true;

	CRASH_POINT(control_parting);
	take_answers(ctl);
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (ctl->clients[i].fd >= 0)
			client_part(ctl, &ctl->clients[i]);
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
			poll(p, CLIENTS_MAX, (int)(PART_US / 10000));
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

/* ---- life ---- */

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
	struct ask *a;

	while ((a = ctl->asked) != NULL) {
		ctl->asked = a->next;
		ask_free(a);
	}
	while ((a = ctl->answered) != NULL) {
		ctl->answered = a->next;
		ask_free(a);
	}
	if (ctl->query != NULL)
		query_close(ctl->query);
	if (ctl->listen_fd >= 0)
		close(ctl->listen_fd);
	if (ctl->event_fd >= 0)
		close(ctl->event_fd);
	pthread_mutex_destroy(&ctl->lock);
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
	ctl->wake = wake;
	ctl->wake_ctx = ctx;
	ctl->asked_end = &ctl->asked;
	ctl->answered_end = &ctl->answered;
	ctl->listen_fd = -1;
	for (int i = 0; i < CLIENTS_MAX; i++)
		ctl->clients[i].fd = -1;
	pthread_mutex_init(&ctl->lock, NULL);
	ctl->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!control_path(config, ctl->path, sizeof ctl->path)) {
		control_free(ctl);
		return EX_OK;
	}
	if (ctl->event_fd >= 0 && control_make_socket(ctl) == 0) {
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
	wake_thread(ctl);
	pthread_join(ctl->thread, NULL);
	control_remove_socket(ctl);
	CRASH_POINT(control_removed);
	control_free(ctl);
}
