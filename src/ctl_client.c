/* ctl_client.c: one question to the daemon, or to its store, and the answer.
 * Owns the socket, the lines on it, and the words for what goes wrong with them.
 * Never knows what a verb means, abort excepted. */
#include "ctl_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sysexits.h>
#include <unistd.h>

#include "ctl.h"
#include "jtext.h"

#define SLOW_MS 10000           /* said once that there is no answer yet */
#define GIVE_UP_MS 60000
#define READ_SIZE 65536
#define LINE_MAX_BYTES ((size_t)256 << 20)

struct ctl_client {
	int fd;                         /* -1: the store answers */
	struct query *query;
	struct buf in;                  /* what was read and not yet taken ... */
	size_t taken;                   /* ... from here on */
	int next_id;
};

/* ---- opening ---- */

/* A descriptor, or -1 with errno. */
static int connect_to(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd, saved;

	if (strlen(path) >= sizeof a.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(a.sun_path, path);
	if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
		return -1;
	if (connect(fd, (const struct sockaddr *)&a, sizeof a) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

static bool is_absence(int error)
{
	return error == ENOENT || error == ECONNREFUSED || error == ENOTDIR;
}

/* A descriptor; -1: nobody listens anywhere; -2: somebody may, but not to us, which was said unless quiet. */
static int connect_any(const struct ctl_place *p, bool is_quiet)
{
	for (char *const *path = p->sockets; *path != NULL; path++) {
		int fd = connect_to(*path);

		if (fd >= 0)
			return fd;
		if (is_absence(errno))
			continue;
		if (is_quiet)
			return -2;
		if (errno == EACCES || errno == EPERM)
			ctl_say("%s may not be used by you; be root, the daemon's user, or a member of the group that "
				"[control] group in %s names", *path, p->config);
		else
			ctl_say("%s: %s; name the daemon's socket with --socket", *path, strerror(errno));
		return -2;
	}
	return -1;
}

static void say_trouble(const struct ctl_place *p)
{
	if (p->trouble)
		ctl_say("%s, where socket and state_dir stand, cannot be read: %s; taking the usual paths "
			"(--daemon-config names another)", p->config, p->trouble);
}

static int say_absent(const struct ctl_place *p)
{
	say_trouble(p);
	if (!p->sockets[0])
		ctl_say("[control] socket in %s is off, and only the daemon can do this; name a path there, start it anew",
			p->config);
	else
		ctl_say("the daemon is not running: nobody listens on %s%s%s; start it (systemctl start hcpd), or name its "
			"socket with --socket", p->sockets[0], p->sockets[1] ? " or " : "",
			p->sockets[1] ? p->sockets[1] : "");
	return CTL_NO_BROKER;
}

static int open_store(struct ctl_client *c, const struct ctl_place *p, bool is_quiet)
{
	char why[1024];
	int code = query_open(p->state_dir, &c->query, why, sizeof why);

	if (code == EX_OK) {
		if (!is_quiet)
			ctl_say("%s; this is what the store says",
				p->sockets[0] ? "the daemon is not running" : "the daemon's socket is off");
		return CTL_COMPLETED;
	}
	if (!is_quiet) {
		say_trouble(p);
		ctl_say("the daemon is not running, and its store does not answer either: %s", why);
	}
	return code == EX_CONFIG ? CTL_BAD_SETTINGS : code == EX_NOINPUT ? CTL_NO_BROKER : CTL_ERROR;
}

struct ctl_client *ctl_client_open(const struct ctl_settings *s, enum ctl_need need, int *status)
{
	struct ctl_client *c = xcalloc(1, sizeof *c);
	bool is_quiet = need == CTL_STORE_QUIETLY || need == CTL_DAEMON_QUIETLY;
	struct ctl_place p;

	ctl_place_find(&p, s);
	*status = CTL_COMPLETED;
	c->fd = connect_any(&p, is_quiet);
	if (c->fd == -2)
		*status = CTL_ERROR;
	else if (c->fd < 0 && (need == CTL_STORE_WILL_DO || need == CTL_STORE_QUIETLY))
		*status = open_store(c, &p, is_quiet);
	else if (c->fd < 0)
		*status = is_quiet ? CTL_NO_BROKER : say_absent(&p);
	ctl_place_fini(&p);
	if (*status == CTL_COMPLETED)
		return c;
	ctl_client_close(c);
	return NULL;
}

void ctl_client_close(struct ctl_client *c)
{
	if (c == NULL)
		return;
	if (c->fd >= 0)
		close(c->fd);
	query_close(c->query);
	buf_fini(&c->in);
	free(c);
}

bool ctl_client_is_live(const struct ctl_client *c)
{
	return c->fd >= 0;
}

int ctl_client_say_lost(void)
{
	ctl_say("the daemon went away in the middle of its answer; look at its log, and ask again");
	return CTL_NO_BROKER;
}

/* ---- lines ---- */

static void send_line(struct ctl_client *c, const char *line, size_t size)
{
	/* A daemon that does not want us said so before it closed: reading tells what a failed write could not. */
	while (size > 0) {
		ssize_t sent = send(c->fd, line, size, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return;
		line += sent;
		size -= (size_t)sent;
	}
}

/* Waits for something to read: 1, or 0 after GIVE_UP_MS without. A follow waits for ever. */
static int wait_for_input(struct ctl_client *c, bool is_patient)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	int waited_ms = 0, ready;

	while ((ready = poll(&p, 1, is_patient ? -1 : SLOW_MS)) <= 0) {
		if (ready < 0)
			continue;               /* a signal that does not end us */
		waited_ms += SLOW_MS;
		if (waited_ms >= GIVE_UP_MS)
			return 0;
		if (waited_ms == SLOW_MS)
			ctl_say("the daemon has not answered yet; waiting on (its log may say why, Ctrl-C gives up)");
	}
	return 1;
}

enum { LINE_OK, LINE_LOST, LINE_LATE };

/* One line, without its newline, until the next call. */
static int read_line(struct ctl_client *c, bool is_patient, const char **line, size_t *size)
{
	size_t looked = c->taken;

	for (;;) {
		const char *end = c->in.size > looked ? memchr(c->in.data + looked, '\n', c->in.size - looked) : NULL;
		ssize_t got;

		if (end != NULL) {
			*line = c->in.data + c->taken;
			*size = (size_t)(end - *line);
			c->taken += *size + 1;
			return LINE_OK;
		}
		looked = c->in.size;
		if (c->taken > 0) {
			buf_drop(&c->in, c->taken);
			looked -= c->taken;
			c->taken = 0;
		}
		if (c->in.size > LINE_MAX_BYTES)
			return LINE_LOST;
		if (!wait_for_input(c, is_patient))
			return LINE_LATE;
		buf_reserve(&c->in, READ_SIZE);
		got = recv(c->fd, c->in.data + c->in.size, READ_SIZE, 0);
		if (got == 0 || (got < 0 && errno != EINTR))
			return LINE_LOST;
		if (got > 0)
			c->in.size += (size_t)got;
	}
}

/* ---- answers ---- */

static int say_error(const char *code, const char *message, const char *next)
{
	bool is_harp = code && strncmp(code, "HARP_", 5) == 0;  /* others know them by that */

	ctl_say("%s%s%s%s%s", is_harp ? code : "", is_harp ? ": " : "", message, next && *next ? "; " : "", next ? next : "");
	return code && strcmp(code, "unavailable") == 0 ? CTL_NO_BROKER : CTL_ERROR;
}

/* The closing line: done or an error. */
static int end_answer(const char *line, size_t size, json_t **done)
{
	json_t *root = json_loadb(line, size, 0, NULL), *e = json_object_get(root, "error");
	int status = CTL_COMPLETED;

	if (e) {
		const char *message = json_string_value(json_object_get(e, "message"));

		status = say_error(json_string_value(json_object_get(e, "code")), message ? message : "the daemon refuses",
			json_string_value(json_object_get(e, "next")));
	} else if (!json_is_true(json_object_get(root, "done"))) {
		ctl_say("this is no daemon's answer: %.*s; is --socket right, and the daemon of the same version?",
			(int)(size < 100 ? size : 100), line);
		status = CTL_ERROR;
	} else if (done) {
		*done = json_incref(root);
	}
	json_decref(root);
	return status;
}

static int ask_daemon(struct ctl_client *c, const json_t *request, query_item_fn *fn, void *ctx, json_t **done)
{
	bool is_patient = json_is_true(json_object_get(request, "follow"));
	char *text = json_dumps(request, JSON_COMPACT);
	struct buf out = { 0 };
	const char *line;
	size_t size;

	buf_addf(&out, "%s\n", text);
	free(text);
	send_line(c, out.data, out.size);
	buf_fini(&out);
	for (;;) {
		int rc = read_line(c, is_patient, &line, &size);
		struct jslice item;

		if (rc == LINE_LOST)
			return CTL_CLIENT_LOST;
		if (rc == LINE_LATE) {
			ctl_say("the daemon does not answer; look at its log, or try again later");
			return CTL_NO_ANSWER;
		}
		item = jtext_member(line, size, "item");
		if (item.at == NULL)
			return end_answer(line, size, done);
		if (fn != NULL && !fn(ctx, item.at, item.size))
			return CTL_COMPLETED;
	}
}

struct from_store {
	query_item_fn *fn;
	void *ctx;
	bool is_enough;
};

static bool on_item(void *ctx, const char *json, size_t size)
{
	struct from_store *f = ctx;

	f->is_enough = f->fn != NULL && !f->fn(f->ctx, json, size);
	return !f->is_enough;
}

/* waiting: of a follow whose session is not over; a daemon would have gone on. */
static json_t *make_done(const struct query_cursor *cursor, bool is_waiting)
{
	struct buf b = { 0 };
	json_t *done;

	buf_add_text(&b, "{\"done\":true");
	query_add_done(cursor, &b);
	buf_add_text(&b, is_waiting ? ",\"waiting\":true}" : "}");
	done = json_loadb(b.data, b.size, 0, NULL);
	buf_fini(&b);
	return done;
}

/* A follow ends here with what there is: nobody writes to a store without a daemon. */
static int ask_store(struct ctl_client *c, const json_t *request, query_item_fn *fn, void *ctx, json_t **done)
{
	struct from_store f = { .fn = fn, .ctx = ctx };
	struct query_cursor cursor;
	struct query_error e;
	int rc;

	if (query_begin(c->query, &cursor, request, &e) < 0)
		return say_error(e.code, e.message, e.next);
	while ((rc = query_more(c->query, &cursor, QUERY_SLICE, on_item, &f)) == QUERY_MORE && !f.is_enough)
		;
	if (rc == QUERY_UNREADABLE) {
		query_fault(c->query, &e);
		return say_error(e.code, e.message, e.next);
	}
	if (done && !f.is_enough)
		*done = make_done(&cursor, rc == QUERY_WAIT);
	return CTL_COMPLETED;
}

bool ctl_client_set(json_t *request, const char *name, const char *text)
{
	if (json_object_set_new(request, name, json_string(text)) == 0)
		return true;
	ctl_say("%s %s is not UTF-8; write it anew", name, text);
	return false;
}

json_t *ctl_client_request(const char *verb, const char *session)
{
	json_t *request = json_pack("{s:s}", "do", verb);

	if (!session || ctl_client_set(request, "session", session))
		return request;
	json_decref(request);
	return NULL;
}

int ctl_client_ask(struct ctl_client *c, json_t *request, query_item_fn *fn, void *ctx, json_t **done)
{
	int status;

	if (done)
		*done = NULL;
	if (!request)
		return CTL_USAGE;
	json_object_set_new(request, "id", json_integer(++c->next_id));
	status = ctl_client_is_live(c) ? ask_daemon(c, request, fn, ctx, done) : ask_store(c, request, fn, ctx, done);
	json_decref(request);
	return status;
}

/* ---- abort ---- */

int ctl_client_abort(const struct ctl_settings *s, const char *session, const char *reason)
{
	json_t *request, *done = NULL;
	struct ctl_client *c;
	const char *id, *state;
	int status;

	if ((c = ctl_client_open(s, CTL_DAEMON_QUIETLY, &status)) == NULL)
		return CTL_CLIENT_ABSENT;
	request = ctl_client_request("abort", session);
	if (!request || (reason && !ctl_client_set(request, "reason", reason))) {
		json_decref(request);
		ctl_client_close(c);
		return CTL_USAGE;
	}
	status = ctl_client_ask(c, request, NULL, NULL, &done);
	if (status == CTL_CLIENT_LOST)
		status = ctl_client_say_lost();
	if (status == CTL_COMPLETED) {
		id = json_string_value(json_object_get(done, "session"));
		state = json_string_value(json_object_get(done, "state"));
		printf("aborting session %s as its operator%s%s\n", id ? id : session, state ? ": " : "",
			state ? state : "");
	}
	json_decref(done);
	ctl_client_close(c);
	return status;
}
