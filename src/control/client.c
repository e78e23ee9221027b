/* SPDX-License-Identifier: MIT */
/* client.c: one client of the control socket: lines in, answers out, all of it bounded.
 * Owns which request is answered next, and that each gets exactly one end. Never waits: what cannot be sent
 * now waits in a buffer, and nothing more is read, from the client or the store, while that is long. */
#include "control/control_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/artifact_read.h"
#include "base/clock.h"
#include "base/crashpoint.h"
#include "core/operator/operator.h"
#include "harp/harp.h"

#define OUT_HIGH (128 << 10) /* no more output is made while this much waits */
#define READ_SIZE 16384
#define UNANSWERED_MAX 256 /* clients may leave before they are answered, and connect again */

/* ---- answers ---- */

static void add_id(struct buf *out, const int64_t *id)
{
	buf_add_text(out, "{\"id\":");
	if (id != NULL)
		buf_add_int(out, *id);
	else
		buf_add_text(out, "null");
}

void client_add_error(struct buf *out, const int64_t *id, const struct query_error *e)
{
	add_id(out, id);
	buf_addf(out, ",\"error\":{\"code\":\"%s\",\"message\":", e->code);
	buf_add_json(out, e->message, strlen(e->message));
	buf_add_text(out, ",\"next\":");
	buf_add_json(out, e->next, strlen(e->next));
	/* HARP's error object has this member. The same bytes are refused again. */
	if (strncmp(e->code, HARP_CODE_PREFIX, sizeof HARP_CODE_PREFIX - 1) == 0)
		buf_add_text(out, ",\"retryable\":false");
	buf_add_text(out, "}}\n");
}

static void add_item(struct client *c, int64_t id, const char *json, size_t size)
{
	add_id(&c->out, &id);
	buf_add_text(&c->out, ",\"item\":");
	buf_add(&c->out, json, size);
	buf_add_text(&c->out, "}\n");
}

static void add_done(struct client *c, int64_t id, struct buf *more)
{
	add_id(&c->out, &id);
	buf_add_text(&c->out, ",\"done\":true");
	if (more != NULL)
		buf_add(&c->out, more->data, more->size);
	buf_add_text(&c->out, "}\n");
}

static void set_free(struct control *ctl, struct request *r)
{
	if (r->state != REQUEST_FREE && r->cursor.is_follow)
		op_queue_follow(ctl->requests, -1);
	if (r->artifact > 0)
		close(r->artifact - 1);
	memset(r, 0, sizeof *r);
}

static void fail(struct control *ctl, struct client *c, struct request *r, const struct query_error *e)
{
	client_add_error(&c->out, &r->id, e);
	set_free(ctl, r);
}

/* A request that is refused here never reaches the core, which audits all others. */
static void audit_refusal(
	struct control *ctl, const struct client *c, const char *verb, const struct query_error *e)
{
	struct denied_peer d = {.uid = c->uid, .who = "operator", .what = verb, .code = e->code};

	memcpy(d.user, c->user, sizeof d.user);
	snprintf(d.why, sizeof d.why, "%.*s",
		(int)buf_utf8_cut(e->message, strlen(e->message), sizeof d.why - 1), e->message);
	if (log_may(&ctl->refused_limit, 10))
		log_info("operator: verb=%s session=- uid=%lld answer=%s why=%s", verb, (long long)c->uid,
			e->code, e->message);
	control_put_denied(ctl, &d);
}

/* Fails a request that changes something, or gives an artifact out. */
static void refuse(struct control *ctl, struct client *c, struct request *r, const char *verb,
	const struct query_error *e)
{
	if (verb != NULL)
		audit_refusal(ctl, c, verb, e);
	fail(ctl, c, r, e);
}

static void finish(struct control *ctl, struct client *c, struct request *r)
{
	struct buf more = {0};

	query_add_done(&r->cursor, &more);
	add_done(c, r->id, &more);
	buf_fini(&more);
	set_free(ctl, r);
}

/* ---- lifecycle ---- */

void client_open(struct control *ctl, struct client *c, int fd, int64_t uid)
{
	memset(c, 0, sizeof *c);
	c->fd = fd;
	c->uid = uid;
	c->heard_us = clock_boot_us();
	control_find_user(uid, c->user);
	c->serial = ++ctl->last_serial;
}

void client_close(struct control *ctl, struct client *c)
{
	for (int i = 0; i < REQUESTS_MAX; i++)
		set_free(ctl, &c->requests[i]);
	buf_fini(&c->in);
	buf_fini(&c->out);
	close(c->fd);
	memset(c, 0, sizeof *c);
	c->fd = -1;
}

static size_t unsent_size(const struct client *c)
{
	return c->out.size - c->out_at;
}

bool client_has_output(const struct client *c)
{
	return unsent_size(c) > 0;
}

bool client_is_full(const struct client *c)
{
	return unsent_size(c) >= OUT_HIGH;
}

bool client_wants_input(const struct client *c)
{
	return !c->at_eof && !c->is_ending && c->requests[0].state == REQUEST_FREE &&
		c->in.size <= REQUEST_LINE_MAX && unsent_size(c) < OUT_HIGH;
}

void client_read(struct control *ctl, struct client *c)
{
	ssize_t n;

	buf_reserve(&c->in, READ_SIZE);
	n = recv(c->fd, c->in.data + c->in.size, READ_SIZE, MSG_DONTWAIT);
	if (n > 0)
		c->in.size += (size_t)n;
	else if (n == 0)
		c->at_eof = true;
	else if (errno != EAGAIN && errno != EINTR)
		client_close(ctl, c);
}

void client_write(struct control *ctl, struct client *c)
{
	ssize_t n = 0;

	if (unsent_size(c) > 0) {
		n = send(c->fd, c->out.data + c->out_at, unsent_size(c), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			client_close(ctl, c);
			return;
		}
	}
	if (n > 0) {
		c->out_at += (size_t)n;
		c->heard_us = clock_boot_us();
	}
	if (unsent_size(c) == 0) {
		c->out_at = 0;
		c->stuck_since_us = 0;
		if (c->out.room > 2 * OUT_HIGH)
			buf_fini(&c->out); /* give the memory of one large item back */
		buf_clear(&c->out);
	} else if (n > 0 || c->stuck_since_us == 0) {
		c->stuck_since_us = clock_boot_us();
	}
}

/* ---- requests ---- */

static uint64_t make_ticket(const struct control *ctl, const struct client *c, const struct request *r)
{
	return (uint64_t)c->serial << 32 | (uint64_t)(c - ctl->clients) << 16 | (uint64_t)(r - c->requests);
}

static void send_to_core(struct control *ctl, struct client *c, struct request *r, struct op_request *a)
{
	struct query_error e;

	if (ctl->unanswered >= UNANSWERED_MAX) {
		control_set_error(&e, "unavailable", "ask again in a moment",
			"%d requests wait for the daemon already", UNANSWERED_MAX);
		refuse(ctl, c, r, operator_only_reads(a->verb) ? NULL : op_verb_name(a->verb), &e);
		op_request_free(a);
		return;
	}
	CRASH_POINT(control_asking);
	ctl->unanswered++;
	a->ticket = make_ticket(ctl, c, r);
	a->uid = c->uid;
	memcpy(a->user, c->user, sizeof a->user);
	r->state = REQUEST_IN_CORE;
	control_send_to_core(ctl, a);
}

/* A session's data of class T2 or above are given out. */
static void log_access(
	const struct client *c, struct query *store, int64_t key, const char *id, const char *verb)
{
	struct query_data d;

	if (key != 0 && query_find_data(store, key, &d) && strcmp(d.data_class, data_class_names[T2]) >= 0)
		log_info(
			"access to data: class=%s session=%.8s caller=%s capability=%s by=operator uid=%lld "
			"user=%s "
			"verb=%s",
			d.data_class, id, d.caller_id, d.capability, (long long)c->uid, c->user, verb);
}

static void begin_op(
	struct control *ctl, struct client *c, struct request *r, const struct control_request *q)
{
	struct query_error e;
	struct query *store;
	struct op_request *a = op_request_new(q->verb);
	int64_t key;

	if (q->session != NULL) {
		store = control_query(ctl, &e);
		if (store == NULL || query_find(store, q->session, &key, a->session_id, &e) < 0) {
			op_request_free(a);
			refuse(ctl, c, r, q->audited, &e);
			return;
		}
		if (q->verb == OP_REPLAY)
			log_access(c, store, key, a->session_id, "replay");
	}
	a->reason = q->reason != NULL ? xstrdup(q->reason) : NULL;
	a->token = q->token != NULL ? xstrdup(q->token) : NULL;
	snprintf(a->how, sizeof a->how, "%s", q->how != NULL ? q->how : "");
	a->by_us = q->by_us;
	a->from = q->from;
	if (q->verb == OP_DECIDE) {
		a->decision = xstrndup(q->decision.at, q->decision.size);
		a->decision_size = q->decision.size;
	}
	send_to_core(ctl, c, r, a);
}

/* The row of the artifact is not read. A file without a row yet is not announced anywhere, and hcpctl
 * compares the bytes with `show`. */
static void begin_artifact(
	struct control *ctl, struct client *c, struct request *r, const struct control_request *q)
{
	struct query_error e;
	struct query *store = control_query(ctl, &e);
	char id[ID_SIZE];
	int64_t key;
	int fd;

	if (store == NULL || query_find(store, q->session, &key, id, &e) < 0) {
		refuse(ctl, c, r, q->audited, &e);
		return;
	}
	fd = artifact_open(ctl->state_dir, id, q->name);
	if (fd >= 0) {
		r->artifact = fd + 1;
		log_access(c, store, key, id, "artifact");
		return;
	}
	if (errno == ENOENT || errno == EINVAL)
		control_set_error(&e, "not_found", "show tells which it has",
			"session %.8s has no artifact %.100s", id, q->name);
	else
		control_set_error(&e, "unavailable", "try again; the daemon's log may say more",
			"the artifact cannot be opened: %s", strerror(errno));
	refuse(ctl, c, r, q->audited, &e);
}

static struct request *find_place(struct client *c)
{
	for (int i = 1; i < REQUESTS_MAX; i++)
		if (c->requests[i].state == REQUEST_FREE)
			return &c->requests[i];
	return NULL;
}

static void begin_query(
	struct control *ctl, struct client *c, struct request *r, const struct control_request *q)
{
	struct query_error e;
	struct query *store = control_query(ctl, &e);
	struct request *place;

	if (store == NULL || query_begin(store, &r->cursor, q->root, &e) < 0) {
		r->cursor.is_follow = false;
		fail(ctl, c, r, &e);
		return;
	}
	if (r->cursor.verb != QUERY_APPROVALS) /* on_item: each item is of another session */
		log_access(c, store, r->cursor.session, r->cursor.session_id,
			json_string_value(json_object_get(q->root, "do")));
	r->state = REQUEST_READING;
	r->is_show = r->cursor.verb == QUERY_SHOW;
	if (!r->cursor.is_follow)
		return;
	op_queue_follow(ctl->requests, 1); /* before the first read, so that no later commit is missed */
	if ((place = find_place(c)) == NULL) {
		control_set_error(&e, "unavailable", "stop one, or use another connection",
			"%d requests follow already", REQUESTS_MAX - 1);
		fail(ctl, c, r, &e);
		return;
	}
	CRASH_POINT(control_following);
	*place = *r; /* later requests need not wait for its end */
	memset(r, 0, sizeof *r);
}

static void stop_following(struct control *ctl, struct client *c, struct request *r, int64_t of)
{
	struct query_error e;

	for (int i = 1; i < REQUESTS_MAX; i++)
		if (c->requests[i].state != REQUEST_FREE && c->requests[i].id == of) {
			finish(ctl, c, &c->requests[i]);
			add_done(c, r->id, NULL);
			set_free(ctl, r);
			return;
		}
	control_set_error(&e, "not_found", "it may have ended by itself", "no request %lld follows anything",
		(long long)of);
	fail(ctl, c, r, &e);
}

static void begin(struct control *ctl, struct client *c, const char *line, size_t size)
{
	struct request *r = &c->requests[0];
	struct control_request q;
	struct query_error e;

	CRASH_POINT(control_line);
	if (control_read_request(line, size, &q, &e) < 0) {
		if (q.audited != NULL)
			audit_refusal(ctl, c, q.audited, &e);
		client_add_error(&c->out, q.has_id ? &q.id : NULL, &e);
	} else {
		r->state = REQUEST_READING;
		r->id = q.id;
		if (q.kind == CONTROL_QUERY)
			begin_query(ctl, c, r, &q);
		else if (q.kind == CONTROL_OP)
			begin_op(ctl, c, r, &q);
		else if (q.kind == CONTROL_ARTIFACT)
			begin_artifact(ctl, c, r, &q);
		else
			stop_following(ctl, c, r, q.of);
	}
	control_request_fini(&q);
}

/* Takes the next line, if it is complete. True: there was one. */
static bool take_line(struct control *ctl, struct client *c)
{
	const char *end = c->in.size > 0 ? memchr(c->in.data, '\n', c->in.size) : NULL;
	size_t size = end != NULL ? (size_t)(end - c->in.data) : c->in.size;
	struct query_error e;

	if (size > REQUEST_LINE_MAX) {
		control_set_error(&e, "bad_request", "connect again, and write less",
			"a line has at most %d bytes", REQUEST_LINE_MAX);
		client_add_error(&c->out, NULL, &e);
		c->is_ending = true; /* the beginning of the next line is not known */
		return false;
	}
	if (end == NULL && (!c->at_eof || size == 0))
		return false;
	if (size > 0) {
		c->heard_us = clock_boot_us();
		c->has_asked = true;
		begin(ctl, c, c->in.data, size);
	}
	buf_drop(&c->in, end != NULL ? size + 1 : size);
	return true;
}

/* ---- slices ---- */

struct giving {
	struct client *client;
	struct query *store;
	const struct request *request;
};

static bool on_item(void *ctx, const char *json, size_t size)
{
	struct giving *g = ctx;
	const struct query_cursor *at = &g->request->cursor;
	char id[ID_SIZE];
	int64_t key;

	if (at->verb == QUERY_APPROVALS && query_find_waiting(g->store, at, &key, id))
		log_access(g->client, g->store, key, id, "approvals");
	add_item(g->client, g->request->id, json, size);
	return unsent_size(g->client) < OUT_HIGH;
}

static void read_artifact(struct control *ctl, struct client *c, struct request *r)
{
	struct buf item = {0};
	struct query_error e;
	int more = artifact_add_item(r->artifact - 1, &item);

	if (more > 0) {
		add_item(c, r->id, item.data, item.size);
	} else if (more == 0) {
		add_done(c, r->id, NULL);
		set_free(ctl, r);
	} else {
		control_set_error(&e, "unavailable", "look at the disk", "the artifact cannot be read: %s",
			strerror(errno));
		fail(ctl, c, r, &e);
	}
	buf_fini(&item);
}

static void continue_reading(struct control *ctl, struct client *c, struct request *r)
{
	struct query_error e;
	struct query *store = control_query(ctl, &e);
	struct giving g = {c, store, r};
	struct op_request *a;

	if (r->artifact > 0) {
		read_artifact(ctl, c, r);
		return;
	}
	if (store == NULL) {
		fail(ctl, c, r, &e);
		return;
	}
	CRASH_POINT(control_slice);
	switch (query_more(store, &r->cursor, QUERY_SLICE, on_item, &g)) {
	case QUERY_MORE: break;
	case QUERY_WAIT: r->state = REQUEST_FOLLOWING; break;
	case QUERY_DONE:
		if (!r->is_show) {
			finish(ctl, c, r);
			break;
		}
		a = op_request_new(OP_LIVE);
		memcpy(a->session_id, r->cursor.session_id, sizeof a->session_id);
		send_to_core(ctl, c, r, a);
		break;
	default: query_fault(store, &e); fail(ctl, c, r, &e);
	}
}

bool client_work(struct control *ctl, struct client *c)
{
	bool more = false;

	for (int i = 0; i < REQUESTS_MAX; i++)
		if (c->requests[i].state == REQUEST_READING) {
			if (!client_is_full(c))
				continue_reading(ctl, c, &c->requests[i]);
			more |= c->requests[i].state == REQUEST_READING;
		}
	if (c->requests[0].state == REQUEST_FREE && !c->is_ending)
		more |= client_is_full(c) ? c->in.size > 0 : take_line(ctl, c);
	return more;
}

void client_on_commit(struct client *c)
{
	for (int i = 1; i < REQUESTS_MAX; i++)
		if (c->requests[i].state == REQUEST_FOLLOWING)
			c->requests[i].state = REQUEST_READING;
}

/* ---- from the core ---- */

static void answer(struct control *ctl, struct client *c, struct request *r, struct op_request *a)
{
	struct query_error e;

	if (a->has_live)
		control_add_live(&a->live, &a->item);
	if (a->item.size > 0)
		add_item(c, r->id, a->item.data, a->item.size);
	if (r->is_show) {
		/* a session that ended meanwhile has no live data, which is no error */
		finish(ctl, c, r);
	} else if (a->code != NULL) {
		control_set_error(&e, a->code, a->remedy, "%s", a->message);
		fail(ctl, c, r, &e);
	} else {
		add_done(c, r->id, &a->done);
		set_free(ctl, r);
	}
}

void client_take_answer(struct control *ctl, struct op_request *a)
{
	struct client *c = &ctl->clients[a->ticket >> 16 & 0xffff];
	struct request *r = &c->requests[a->ticket & 0xffff];

	CRASH_POINT(control_answered);
	ctl->unanswered--;
	if (c->fd >= 0 && c->serial == (uint32_t)(a->ticket >> 32) && r->state == REQUEST_IN_CORE)
		answer(ctl, c, r, a);
	op_request_free(a);
}

void client_end_requests(struct control *ctl, struct client *c)
{
	struct query_error e;

	control_set_error(&e, "unavailable",
		"ask again when hcpd runs; show tells whether a request was obeyed", "hcpd ends now");
	for (int i = 0; i < REQUESTS_MAX; i++)
		if (c->requests[i].state != REQUEST_FREE)
			fail(ctl, c, &c->requests[i], &e);
	c->is_ending = true;
}
