/* SPDX-License-Identifier: MIT */
/* client.c: one request to the daemon, or to its store and archive, and the answer.
 * Owns the socket, the lines on it, and the messages about what goes wrong with them.
 * Never knows what a verb means, except abort and artifact. */
#include "hcpctl/common/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "hcpctl/common/ctl.h"
#include "hcpctl/common/archive_reader.h"
#include "json/text.h"

#define FIRST_S 10 /* for the first line of an answer */
#define NEXT_S 60  /* for each further one */
#define READ_SIZE 65536
#define LINE_MAX_BYTES ((size_t)256 << 20)

struct ctl_client {
	int fd;              /* -1: the store answers ... */
	struct query *query; /* ... or, where `query` is NULL too, there is no source left */
	struct ctl_daemon_paths paths;
	enum ctl_source source;
	struct buf in; /* bytes that were read and not yet used ... */
	size_t taken;  /* ... from here on */
	int next_id;
	bool expects_archived;
	char archived[ID_SIZE]; /* session of the last request, where it is in the archive */
};

/* ---- opening ---- */

/* A descriptor, or -1 with errno. */
static int connect_to(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = FIRST_S};
	int fd, saved;

	if (strlen(path) >= sizeof a.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(a.sun_path, path);
	if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
		return -1;
	/* A daemon that hangs accepts no connection. Without a limit, connect would wait for ever on a full
	 * backlog. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
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

enum { ABSENT = -1, BARRED = -2, SILENT = -3 };

/* A descriptor. ABSENT: no process listens on any socket. BARRED: a socket is there, but this user may not
 * use it; the reason was printed unless is_quiet. SILENT: a daemon listens and does not accept the
 * connection. */
static int connect_any(const struct ctl_daemon_paths *p, bool is_quiet)
{
	for (char *const *path = p->sockets; *path != NULL; path++) {
		int fd = connect_to(*path);

		if (fd >= 0)
			return fd;
		if (is_absence(errno))
			continue;
		if (errno == EAGAIN)
			return SILENT;
		if (is_quiet)
			return BARRED;
		if (errno == EACCES || errno == EPERM)
			ctl_say("%s may not be used by you; be root, the daemon's user, or a member of the "
				"group that [control] group in %s names",
				*path, p->config);
		else
			ctl_say("%s: %s; name the daemon's socket with --socket", *path, strerror(errno));
		return BARRED;
	}
	return ABSENT;
}

static void say_trouble(const struct ctl_daemon_paths *p)
{
	if (p->trouble)
		ctl_say("%s, where socket and state_dir stand, cannot be read: %s; taking the usual paths "
			"(--daemon-config names another)",
			p->config, p->trouble);
}

static int say_absent(const struct ctl_daemon_paths *p)
{
	say_trouble(p);
	if (!p->sockets[0])
		ctl_say("[control] socket in %s is off, and only the daemon can do this; name a path there, "
			"start it anew",
			p->config);
	else if (p->named_by)
		ctl_say("nobody listens on %s, which %s names; is that the daemon's socket, and does it run "
			"(systemctl status hcpd)?",
			p->sockets[0], p->named_by);
	else
		ctl_say("the daemon is not running: nobody listens on %s%s%s; start it (systemctl start "
			"hcpd), or name its socket with --socket",
			p->sockets[0], p->sockets[1] ? " or " : "", p->sockets[1] ? p->sockets[1] : "");
	return CTL_UNAVAILABLE;
}

static int say_silent(void)
{
	ctl_say("the daemon has not answered for %d s (what was asked may still be done when it goes on); "
		"hcpctl doctor looks for what is wrong",
		FIRST_S);
	return CTL_UNAVAILABLE;
}

/* Adds why the store answers instead of the daemon. */
static void add_store_reason(struct buf *b, const struct ctl_daemon_paths *p, bool is_silent)
{
	if (is_silent)
		buf_addf(b, "the daemon has not answered for %d s (hcpctl doctor looks for what is wrong)",
			FIRST_S);
	else if (!p->sockets[0])
		buf_add_text(b, "the daemon's socket is off");
	else if (p->named_by)
		buf_addf(b, "nobody listens on %s, which %s names", p->sockets[0], p->named_by);
	else
		buf_add_text(b, "the daemon is not running");
}

static bool is_quiet(const struct ctl_client *c)
{
	return c->source == CTL_STORE_QUIETLY || c->source == CTL_DAEMON_QUIETLY;
}

static bool may_read_store(const struct ctl_client *c)
{
	return c->source == CTL_STORE_WILL_DO || c->source == CTL_STORE_QUIETLY;
}

static int open_store(struct ctl_client *c, bool is_silent)
{
	char why[1024];
	int code = query_open(c->paths.state_dir, &c->query, why, sizeof why);
	struct buf b = {0};

	add_store_reason(&b, &c->paths, is_silent);
	if (code == EX_OK && !is_quiet(c)) {
		ctl_say("%s; this is what the store says", buf_text(&b));
	} else if (!is_quiet(c)) {
		say_trouble(&c->paths);
		ctl_say("%s, and the store does not answer either: %s", buf_text(&b), why);
	}
	buf_fini(&b);
	if (code == EX_OK)
		return CTL_OK;
	return code == EX_CONFIG                ? CTL_BAD_SETTINGS :
		code == EX_NOINPUT || is_silent ? CTL_UNAVAILABLE :
						  CTL_ERROR;
}

/* Without a connection: opens the store where that is enough, else prints why not. */
static int open_without_daemon(struct ctl_client *c, int reason)
{
	if (reason == BARRED)
		return CTL_ERROR;
	if (may_read_store(c))
		return open_store(c, reason == SILENT);
	if (is_quiet(c))
		return CTL_UNAVAILABLE;
	return reason == SILENT ? say_silent() : say_absent(&c->paths);
}

struct ctl_client *ctl_client_open(const struct ctl_settings *s, enum ctl_source source, int *status)
{
	struct ctl_client *c = xcalloc(1, sizeof *c);
	int fd;

	c->source = source;
	ctl_daemon_paths_find(&c->paths, s);
	fd = connect_any(&c->paths, is_quiet(c));
	c->fd = fd < 0 ? -1 : fd;
	*status = fd < 0 ? open_without_daemon(c, fd) : CTL_OK;
	if (*status == CTL_OK)
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
	ctl_daemon_paths_fini(&c->paths);
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
	return CTL_UNAVAILABLE;
}

/* ---- lines ---- */

static void send_line(struct ctl_client *c, const char *line, size_t size)
{
	/* A daemon that refuses a client sends the reason before it closes the socket. A failed write is
	 * ignored here, so that the reason is read. */
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

/* Waits for input: true. False: nothing came for limit_s seconds. limit_s -1: waits for ever. */
static bool wait_for_input(struct ctl_client *c, int limit_s)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};
	int64_t end_us = clock_boot_us() + limit_s * INT64_C(1000000);
	int64_t left_ms = -1;

	do {
		if (limit_s >= 0)
			left_ms = (end_us - clock_boot_us()) / 1000;
		if (limit_s >= 0 && left_ms < 0)
			return false;
	} while (poll(&p, 1, (int)left_ms) <= 0);
	return true;
}

enum { LINE_OK, LINE_LOST, LINE_LATE };

/* One line without its newline; valid until the next call. */
static int read_line(struct ctl_client *c, int limit_s, const char **line, size_t *size)
{
	size_t looked = c->taken;

	for (;;) {
		const char *end =
			c->in.size > looked ? memchr(c->in.data + looked, '\n', c->in.size - looked) : NULL;
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
		if (!wait_for_input(c, limit_s))
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

/* What went wrong, as far as hcpctl acts on it. */
enum error_kind { ERROR_OTHER, ERROR_UNAVAILABLE, ERROR_NO_SESSION };

/* The request, and the code of the error that answers it. `not_found` says that the session of the request is
 * unknown; `artifact` alone gets it for a known session, too, and its session was shown just before. */
static enum error_kind kind_of(const json_t *request, const char *code)
{
	const char *verb = json_string_value(json_object_get(request, "do"));

	if (code && strcmp(code, "unavailable") == 0)
		return ERROR_UNAVAILABLE;
	if (code && strcmp(code, "not_found") == 0 && verb && strcmp(verb, "artifact") != 0 &&
		json_is_string(json_object_get(request, "session")))
		return ERROR_NO_SESSION;
	return ERROR_OTHER;
}

static int say_error(enum error_kind kind, const char *code, const char *message, const char *next)
{
	bool is_harp = code && strncmp(code, "HARP_", 5) == 0; /* manuals of others name these codes */

	ctl_say("%s%s%s%s%s", is_harp ? code : "", is_harp ? ": " : "", message, next && *next ? "; " : "",
		next ? next : "");
	return kind == ERROR_UNAVAILABLE ? CTL_UNAVAILABLE : CTL_ERROR;
}

enum { ARCHIVE_UNREADABLE = -1 };

/* How many sessions of the archive fit the word. ARCHIVE_UNREADABLE: this user may not read the archive. */
static int find_in_archive(struct ctl_client *c, const char *word)
{
	struct ctl_archive_reader s;
	char why[1024];
	int code = ctl_archive_reader_open(&s, c->paths.state_dir, why, sizeof why), count = 0;

	s.is_quiet = true;
	if (code == EX_OK)
		count = ctl_archive_reader_find(&s, word, c->archived);
	else if (code == EX_NOPERM)
		count = ARCHIVE_UNREADABLE;
	ctl_archive_reader_fini(&s);
	return count;
}

/* As say_error. For an unknown session it also says whether the session is in the archive. */
static int report_refusal(
	struct ctl_client *c, const json_t *request, const char *code, const char *message, const char *next)
{
	enum error_kind kind = kind_of(request, code);
	const char *word = json_string_value(json_object_get(request, "session"));
	int count = 0;

	c->archived[0] = '\0';
	if (!is_quiet(c) && kind == ERROR_NO_SESSION)
		count = find_in_archive(c, word);
	if (count == 1 && c->expects_archived)
		return CTL_CLIENT_ARCHIVED;
	if (count == 1)
		ctl_say("session %.8s has left the store for the archive; `hcpctl archive show %.8s` prints "
			"what it was",
			c->archived, c->archived);
	else if (count > 1)
		ctl_say("%s, and several in the archive begin so; write more of the id", message);
	else if (count == ARCHIVE_UNREADABLE)
		ctl_say("%s; it may have left for the archive: `hcpctl archive show %s`, as root or as the "
			"daemon's user",
			message, word);
	else
		return say_error(kind, code, message, next);
	return CTL_ERROR;
}

void ctl_client_expect_archived(struct ctl_client *c)
{
	c->expects_archived = true;
}

const char *ctl_client_archived(const struct ctl_client *c)
{
	return c->archived;
}

/* The closing line of an answer: done, or an error. */
static int end_answer(
	struct ctl_client *c, const json_t *request, const char *line, size_t size, json_t **done)
{
	json_t *root = jtext_load(line, size, 0, NULL), *e = json_object_get(root, "error");
	int status = CTL_OK;

	if (e) {
		const char *message = json_string_value(json_object_get(e, "message"));

		status = report_refusal(c, request, json_string_value(json_object_get(e, "code")),
			message ? message : "the daemon refuses",
			json_string_value(json_object_get(e, "next")));
	} else if (!json_is_true(json_object_get(root, "done"))) {
		ctl_say("this is no daemon's answer: %.*s; is --socket right, and the daemon of the same "
			"version?",
			(int)(size < 100 ? size : 100), line);
		status = CTL_ERROR;
	} else if (done) {
		*done = json_incref(root);
	}
	json_decref(root);
	return status;
}

/* SILENT: no line came. */
static int ask_daemon(
	struct ctl_client *c, const json_t *request, query_item_fn *fn, void *ctx, json_t **done)
{
	bool is_patient = json_is_true(json_object_get(request, "follow")), is_first = true;
	char *text = json_dumps(request, JSON_COMPACT);
	struct buf out = {0};
	const char *line;
	size_t size;

	buf_addf(&out, "%s\n", text);
	free(text);
	send_line(c, out.data, out.size);
	buf_fini(&out);
	for (;;) {
		int rc = read_line(c, is_patient ? -1 : is_first ? FIRST_S : NEXT_S, &line, &size);
		struct jslice item;

		if (rc == LINE_LOST)
			return CTL_CLIENT_LOST;
		if (rc == LINE_LATE && is_first)
			return SILENT;
		if (rc == LINE_LATE) {
			ctl_say("the daemon stopped in the middle of its answer, %d s ago; hcpctl doctor "
				"looks for what is wrong",
				NEXT_S);
			return CTL_UNAVAILABLE;
		}
		is_first = false;
		item = jtext_member(line, size, "item");
		if (item.at == NULL)
			return end_answer(c, request, line, size, done);
		if (fn != NULL && !fn(ctx, item.at, item.size))
			return CTL_OK;
	}
}

struct store_items {
	query_item_fn *fn;
	void *ctx;
	bool is_enough;
};

static bool on_item(void *ctx, const char *json, size_t size)
{
	struct store_items *f = ctx;

	f->is_enough = f->fn != NULL && !f->fn(f->ctx, json, size);
	return !f->is_enough;
}

/* is_waiting: the request follows a session that is not over; a daemon would go on. */
static json_t *make_done(const struct query_cursor *cursor, bool is_waiting)
{
	struct buf b = {0};
	json_t *done;

	buf_add_text(&b, "{\"done\":true");
	query_add_done(cursor, &b);
	buf_add_text(&b, is_waiting ? ",\"waiting\":true}" : "}");
	done = jtext_load(b.data, b.size, 0, NULL);
	buf_fini(&b);
	return done;
}

/* Without a daemon the store does not change, so a follow ends with the rows that are there. */
static int ask_store(struct ctl_client *c, const json_t *request, query_item_fn *fn, void *ctx, json_t **done)
{
	struct store_items f = {.fn = fn, .ctx = ctx};
	struct query_cursor cursor;
	struct query_error e;
	int rc;

	if (query_begin(c->query, &cursor, request, &e) < 0)
		return report_refusal(c, request, e.code, e.message, e.next);
	while ((rc = query_more(c->query, &cursor, QUERY_SLICE, on_item, &f)) == QUERY_MORE && !f.is_enough)
		;
	if (rc == QUERY_UNREADABLE) {
		query_fault(c->query, &e);
		return say_error(ERROR_UNAVAILABLE, e.code, e.message, e.next);
	}
	if (done && !f.is_enough)
		*done = make_done(&cursor, rc == QUERY_WAIT);
	return CTL_OK;
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

/* Closes the connection first: a late answer to this request must not be read as the answer to the next. */
static int retry_with_store(
	struct ctl_client *c, const json_t *request, query_item_fn *fn, void *ctx, json_t **done)
{
	int status;

	close(c->fd);
	c->fd = -1;
	if (!may_read_store(c) || !query_knows(json_string_value(json_object_get(request, "do"))))
		return say_silent();
	status = open_store(c, true);
	return status == CTL_OK ? ask_store(c, request, fn, ctx, done) : status;
}

int ctl_client_ask(struct ctl_client *c, json_t *request, query_item_fn *fn, void *ctx, json_t **done)
{
	int status;

	if (done)
		*done = NULL;
	if (!request)
		return CTL_USAGE;
	json_object_set_new(request, "id", json_integer(++c->next_id));
	if (ctl_client_is_live(c))
		status = ask_daemon(c, request, fn, ctx, done);
	else
		status = c->query ? ask_store(c, request, fn, ctx, done) : CTL_UNAVAILABLE;
	if (status == SILENT)
		status = retry_with_store(c, request, fn, ctx, done);
	json_decref(request);
	return status;
}

/* ---- abort ---- */

int ctl_client_abort(
	const struct ctl_settings *s, enum ctl_source source, const char *session, const char *reason)
{
	json_t *request, *done = NULL;
	struct ctl_client *c;
	const char *id, *state;
	int status;

	if ((c = ctl_client_open(s, source, &status)) == NULL)
		return source == CTL_DAEMON_QUIETLY ? CTL_CLIENT_ABSENT : status;
	request = ctl_client_request("abort", session);
	if (!request || (reason && !ctl_client_set(request, "reason", reason))) {
		json_decref(request);
		ctl_client_close(c);
		return CTL_USAGE;
	}
	status = ctl_client_ask(c, request, NULL, NULL, &done);
	if (status == CTL_CLIENT_LOST)
		status = ctl_client_say_lost();
	if (status == CTL_OK) {
		id = json_string_value(json_object_get(done, "session"));
		state = json_string_value(json_object_get(done, "state"));
		printf("aborting session %s as its operator%s%s\n", id ? id : session, state ? ": " : "",
			state ? state : "");
	}
	json_decref(done);
	ctl_client_close(c);
	return status;
}
