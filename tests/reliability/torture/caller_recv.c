/* SPDX-License-Identifier: MIT */
/* caller_recv.c: what comes to a caller's queue: kept, compared, given to the stream of its session.
 * Acks only what it has kept, so a lost connection repeats and never loses. Says nothing (caller.c). */
#include "caller_private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "violations.h"

#define PREFETCH 200

static struct heard *heard_of(struct caller *c, const char *session)
{
	struct heard *h;

	HASH_FIND_STR(c->sessions, session, h);
	if (h)
		return h;
	h = calloc(1, sizeof *h);
	snprintf(h->stream.session, sizeof h->stream.session, "%s", session);
	HASH_ADD_STR(c->sessions, stream.session, h);
	c->sum.sessions++;
	return h;
}

/* A rejection: is it of the task's own nature, or is there something that may have done it, to be looked
 * for at the end? */
static bool is_due(struct task *t, const char *code)
{
	const struct order *o = &t->order;

	if (strcmp(o->kind, "unknown") == 0)
		return true;
	if (strcmp(code, "approval_denied") == 0)
		return o->human && strcmp(o->human, "deny") == 0;
	if (strcmp(code, "approval_expired") == 0)
		return o->human;
	if (o->is_barred && strcmp(code, "policy_denied") == 0)
		return true;
	if (strcmp(code, "policy_denied") == 0 ||
		(strcmp(code, "forbidden") == 0 && strcmp(o->capability, "lab") == 0))
		snprintf(t->excuse, sizeof t->excuse, "%s", code);
	return t->excuse[0];
}

static void take_answer(struct caller *c, json_t *message, const char *type, const char *body, size_t size)
{
	const char *to = json_text_at(message, "payload.in_reply_to"),
		   *session = json_text_at(message, "session_id");
	const char *token = json_text_at(message, "payload.session_token");
	bool rejected = strcmp(type, "task_rejected") == 0;
	struct task *t = NULL;

	if (to)
		HASH_FIND_STR(c->tasks, to, t);
	if (!t) {
		violation("one session a submit", "an answer to what was never asked: %.*s", (int)size, body);
		return;
	}
	if (t->answered &&
		(rejected != t->rejected || (rejected && t->rejection != hash_bytes(body, size)) ||
			(!rejected && strcmp(t->session, session) != 0)))
		violation("one session a submit",
			"%s was answered twice, differently; session %s and now: %.*s", t->id, t->session,
			(int)size, body);
	if (t->answered)
		return;
	t->answered = true;
	t->rejected = rejected;
	t->answered_at = harness_now();
	c->sum.answered++;
	c->sum.rejected += rejected;
	if (rejected) {
		t->rejection = hash_bytes(body, size);
		const char *code = json_text_at(message, "payload.reason_code");
		if (!is_due(t, code ? code : ""))
			violation("accepted work", "%s (%s) was rejected: %.*s", t->id, t->order.kind,
				(int)size, body);
		return;
	}
	if (t->order.is_barred || (t->order.human && strcmp(t->order.human, "allow") != 0))
		violation("a denied task does not run", "%s (%s) was accepted: %.*s", t->id, t->order.kind,
			(int)size, body);
	snprintf(t->session, sizeof t->session, "%s", session);
	t->token = strdup(token ? token : "");
	t->heard = heard_of(c, session);
	t->heard->task = t;
	t->heard->stream.attempts = t->order.attempts;
	snprintf(
		t->heard->stream.wanted_output, sizeof t->heard->stream.wanted_output, "%s", t->order.wanted);
	if (t->heard->stream.closed && t->closed_at <= 0)
		t->closed_at = t->answered_at;
}

static bool has_property(
	const amqp_basic_properties_t *p, amqp_flags_t flag, amqp_bytes_t got, const char *want)
{
	return (p->_flags & flag) && got.len == strlen(want) && memcmp(got.bytes, want, got.len) == 0;
}

static bool envelope_is_right(struct caller *c, json_t *message, const amqp_envelope_t *e)
{
	const amqp_basic_properties_t *p = &e->message.properties;
	const char *type = json_text_at(message, "type"), *id = json_text_at(message, "message_id");
	const char *session = json_text_at(message, "session_id");
	char key[300];

	if (!type || !id || !json_is_object(json_at(message, "payload")))
		return false;
	snprintf(key, sizeof key, "%s.%s.%s", c->id, session ? session : "-", type);
	return has_property(p, AMQP_BASIC_TYPE_FLAG, p->type, type) &&
		has_property(p, AMQP_BASIC_MESSAGE_ID_FLAG, p->message_id, id) &&
		(!session || has_property(p, AMQP_BASIC_CORRELATION_ID_FLAG, p->correlation_id, session)) &&
		(session || strcmp(type, "task_rejected") == 0) && p->delivery_mode == 2 &&
		e->routing_key.len == strlen(key) &&
		memcmp(e->routing_key.bytes, key, e->routing_key.len) == 0;
}

static void take_message(struct caller *c, amqp_envelope_t *e)
{
	const char *body = e->message.body.bytes;
	size_t size = e->message.body.len;
	json_t *message = json_loadb(body, size, JSON_REJECT_DUPLICATES, NULL);

	if (c->tape)
		fprintf(c->tape, "%.3f %s%.*s\n", say_clock(), e->redelivered ? "(again) " : "", (int)size,
			body);
	pthread_mutex_lock(&c->lock);
	c->sum.messages++;
	if (!message || !envelope_is_right(c, message, e)) {
		violation("envelope", "%s got under %.*s: %.*s", c->id, (int)e->routing_key.len,
			(char *)e->routing_key.bytes, (int)size, body);
	} else {
		const char *type = json_text_at(message, "type"),
			   *session = json_text_at(message, "session_id");
		if (strcmp(type, "task_accepted") == 0 || strcmp(type, "task_rejected") == 0)
			take_answer(c, message, type, body, size);
		if (session) {
			struct heard *h = heard_of(c, session);
			bool was_closed = h->stream.closed;
			h->stream.any_order = c->any_order;
			stream_take(&h->stream, message, body, size);
			c->sum.closed += h->stream.closed && !was_closed;
			if (h->task && h->stream.closed && h->task->closed_at <= 0)
				h->task->closed_at = harness_now();
		}
	}
	pthread_mutex_unlock(&c->lock);
	json_decref(message);
}

static amqp_table_t read_args(const char *args, char *copy, size_t room, amqp_table_entry_t entries[8])
{
	amqp_table_t table = {0, entries};
	char *save = NULL;

	snprintf(copy, room, "%s", args);
	for (char *arg = strtok_r(copy, ",", &save); arg; arg = strtok_r(NULL, ",", &save)) {
		char *value = strchr(arg, '=');
		amqp_table_entry_t *e = &entries[table.num_entries++];
		*value++ = 0;
		e->key = amqp_cstring_bytes(arg);
		e->value.kind = strspn(value, "0123456789") == strlen(value) ? AMQP_FIELD_KIND_I64 :
									       AMQP_FIELD_KIND_UTF8;
		if (e->value.kind == AMQP_FIELD_KIND_I64)
			e->value.value.i64 = atoll(value);
		else
			e->value.value.bytes = amqp_cstring_bytes(value);
	}
	return table;
}

bool hearer_declare(struct caller *c, amqp_connection_state_t conn)
{
	amqp_table_entry_t entries[8];
	char copy[256], key[100];

	snprintf(key, sizeof key, "%s.#", c->id);
	return wire_declare_exchanges(conn) &&
		wire_declare_queue(
			conn, c->queue, read_args(c->plan.queue_args, copy, sizeof copy, entries)) &&
		wire_bind(conn, c->queue, "hcp.events", key);
}

static bool consume(struct caller *c, amqp_connection_state_t *sub)
{
	if (!(*sub = wire_connect(&c->broker)))
		return false;
	if (hearer_declare(c, *sub)) {
		amqp_basic_qos(*sub, 1, 0, PREFETCH, 0);
		amqp_basic_consume(
			*sub, 1, amqp_cstring_bytes(c->queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
		if (wire_ok(*sub))
			return true;
	}
	wire_disconnect(sub);
	return false;
}

/* Takes what is there; false where the connection is lost. Acked in groups, after it was kept. */
static bool pump(struct caller *c, amqp_connection_state_t sub)
{
	struct timeval wait = {.tv_usec = 50000};
	uint64_t last = 0;
	amqp_envelope_t e;

	for (int i = 0; i < PREFETCH / 2; i++) {
		amqp_maybe_release_buffers(sub);
		amqp_rpc_reply_t r = amqp_consume_message(sub, &e, &wait, 0);
		if (r.reply_type != AMQP_RESPONSE_NORMAL && r.library_error == AMQP_STATUS_TIMEOUT)
			break;
		if (r.reply_type != AMQP_RESPONSE_NORMAL)
			return false;
		last = e.delivery_tag;
		take_message(c, &e);
		amqp_destroy_envelope(&e);
		wait.tv_usec = 0;
	}
	return !last || amqp_basic_ack(sub, 1, last, 1) == AMQP_STATUS_OK;
}

void *hearer_run(void *arg)
{
	struct caller *c = arg;
	amqp_connection_state_t sub = NULL;

	while (!c->stop) {
		if (c->deaf || atomic_exchange(&c->rebind, false))
			wire_disconnect(&sub);
		if (c->deaf || (!sub && !consume(c, &sub)))
			usleep(50000);
		else if (!pump(c, sub))
			wire_disconnect(&sub);
	}
	wire_disconnect(&sub);
	return NULL;
}
