/* SPDX-License-Identifier: MIT */
/* peer.c: a caller: what it says, and what it gets. Never says whether that was right (oracle.c). */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "oracle.h"
#include "wire.h"

#define PREFETCH 500
#define SHOWN 60 /* messages of a caller that a failure shows */

static struct peer *peers;

/* --- making --- */

struct peer *peer_absent(struct rig *r, const char *id)
{
	struct peer *p = calloc(1, sizeof *p);

	p->rig = r;
	p->broker = r->broker;
	p->seen = json_object();
	snprintf(p->id, sizeof p->id, "%s", id);
	snprintf(p->queue, sizeof p->queue, "hcp.evt.%s", id);
	p->next = peers;
	peers = p;
	return p;
}

/* Declares before it consumes, on every new connection: a broker that was killed may have lost a binding that
 * it had confirmed. A caller does so too (L1-16). */
static bool consume(struct peer *p)
{
	amqp_connection_state_t c = wire_connect(p->broker);
	char key[200];

	if (!c)
		return false;
	snprintf(key, sizeof key, "%s.#", p->id);
	if (!wire_declare_bound(c, p->queue, p->args, "hcp.events", key)) {
		wire_disconnect(&c);
		return false;
	}
	amqp_basic_qos(c, 1, 0, PREFETCH, 0);
	amqp_basic_consume(c, 1, amqp_cstring_bytes(p->queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
	if (!wire_ok(c)) {
		wire_disconnect(&c);
		return false;
	}
	p->sub = c;
	return true;
}

void peer_declare(struct peer *p, const char *args)
{
	char key[200];

	snprintf(p->args, sizeof p->args, "%s", args);
	snprintf(key, sizeof key, "%s.#", p->id);
	wire_make_queue(p->broker, p->queue, args, "hcp.events", key);
}

void peer_open(struct peer *p, const char *args)
{
	snprintf(p->args, sizeof p->args, "%s", args);
	must(consume(p), "%s cannot be consumed", p->queue);
}

void peer_close(struct peer *p)
{
	amqp_connection_state_t c = p->sub;

	wire_disconnect(&c);
	p->sub = NULL;
}

void peer_drop(struct peer *p)
{
	peer_close(p);
	wire_delete_queue(p->broker, p->queue);
}

struct peer *peer_named(struct rig *r, const char *id)
{
	struct peer *p = peer_absent(r, id);

	peer_open(p, "");
	return p;
}

struct peer *peer_new(struct rig *r)
{
	static int count;
	char id[64];

	snprintf(id, sizeof id, "caller-%d-%d", getpid(), ++count);
	return peer_named(r, id);
}

static void note_free(struct note *n)
{
	free(n->key);
	free(n->body);
	json_decref(n->json);
	free(n);
}

static void peer_free(struct peer *p)
{
	amqp_connection_state_t c = p->pub;

	for (struct peer **at = &peers; *at; at = &(*at)->next)
		if (*at == p) {
			*at = p->next;
			break;
		}
	peer_close(p);
	wire_disconnect(&c);
	for (size_t i = 0; i < p->note_count; i++)
		note_free(p->notes[i]);
	for (size_t i = 0; i < p->id_count; i++)
		free(p->ids[i]);
	json_decref(p->seen);
	free(p->notes);
	free(p->ids);
	free(p);
}

void peer_finish(struct peer *p)
{
	if (!p->unchecked)
		oracle_check_peer(p);
	if (!p->unchecked && !p->substituted && !p->rig->forgets && file_exists(p->rig->db))
		oracle_check_history(p->rig, p);
	wire_delete_queue(p->broker, p->queue);
	peer_free(p);
}

/* --- saying --- */

static char *keep_id(struct peer *p, const char *text)
{
	p->ids = realloc(p->ids, (p->id_count + 1) * sizeof *p->ids);
	return p->ids[p->id_count++] = strdup(text);
}

char *uuid_text(struct peer *p)
{
	unsigned char b[16];
	char text[40];

	if (getrandom(b, sizeof b, 0) != sizeof b)
		abort();
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	snprintf(text, sizeof text, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
		b[15]);
	return keep_id(p, text);
}

static void publish(struct peer *p, const char *exchange, const char *key, const void *body, size_t size,
	const char *message_id)
{
	amqp_basic_properties_t props = {
		._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG};
	double end = harness_now() + WAIT_S * harness_scale();

	props.content_type = amqp_cstring_bytes("application/json");
	props.delivery_mode = 2;
	if (message_id) {
		props._flags |= AMQP_BASIC_MESSAGE_ID_FLAG;
		props.message_id = amqp_cstring_bytes(message_id);
	}
	if (p->user_id[0]) {
		props._flags |= AMQP_BASIC_USER_ID_FLAG;
		props.user_id = amqp_cstring_bytes(p->user_id);
	}
	for (;;) {
		amqp_connection_state_t c = p->pub;
		if (!c && (c = wire_connect(p->broker)) && !(wire_declare_exchanges(c) && wire_confirms(c)))
			wire_disconnect(&c);
		p->pub = c;
		int rc = c ? wire_publish(c, exchange, key, &props, body, size) : -1;
		if (rc == 1)
			return;
		if (rc == -1 && c) {
			wire_disconnect(&c);
			p->pub = NULL;
		}
		if (harness_now() > end)
			give_up("the broker would not take a message for %s (%d)", key, rc);
		harness_pass(0.05);
	}
}

void peer_publish_to(struct peer *p, const char *exchange, const char *key, const void *body, size_t size)
{
	publish(p, exchange, key, body, size, NULL);
}

void peer_publish(struct peer *p, const void *body, size_t size, const char *message_id)
{
	publish(p, "hcp.commands", p->rig->callee, body, size, message_id);
}

const char *peer_send_as(
	struct peer *p, const char *message_id, const char *type, const char *session, json_t *payload)
{
	char stamp[40], whole[80];
	struct timespec ts;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(whole, sizeof whole, "%s.%03ldZ", stamp, ts.tv_nsec / 1000000);
	json_t *m = json_pack("{s:s,s:s,s:s,s:s?,s:s,s:o}", "hcp_version", "1.0", "message_id", message_id,
		"timestamp", whole, "session_id", session, "type", type, "payload", payload);
	char *body = json_dumps(m, JSON_COMPACT);
	peer_publish(p, body, strlen(body), message_id);
	free(body);
	json_decref(m);
	return message_id;
}

const char *peer_send(struct peer *p, const char *type, const char *session, json_t *payload)
{
	return peer_send_as(p, uuid_text(p), type, session, payload);
}

json_t *peer_payload(struct peer *p, const char *capability, json_t *inputs, json_t *more)
{
	json_t *payload = json_pack("{s:s,s:s,s:s,s:o}", "capability", capability, "caller_id", p->id,
		"intent", "a test's wish", "inputs", inputs ? inputs : json_object());

	if (more) {
		json_object_update(payload, more);
		json_decref(more);
	}
	return payload;
}

const char *peer_submit_more(struct peer *p, const char *capability, json_t *inputs, json_t *more)
{
	return peer_send(p, "task_submit", NULL, peer_payload(p, capability, inputs, more));
}

const char *peer_submit(struct peer *p, const char *capability, json_t *inputs)
{
	return peer_submit_more(p, capability, inputs, NULL);
}

const char *peer_run_more(struct peer *p, const char *capability, json_t *inputs, json_t *more)
{
	return peer_accepted(p, peer_submit_more(p, capability, inputs, more));
}

const char *peer_run(struct peer *p, const char *capability, json_t *inputs)
{
	return peer_run_more(p, capability, inputs, NULL);
}

void peer_abort_with(struct peer *p, const char *session, json_t *payload)
{
	peer_send(p, "abort", session, payload);
}

void peer_abort(struct peer *p, const char *session)
{
	peer_abort_with(p, session, json_pack("{s:s}", "session_token", peer_token(p, session)));
}

/* --- getting --- */

static void copy_text(char *to, size_t room, amqp_bytes_t from)
{
	snprintf(to, room, "%.*s", (int)from.len, (char *)from.bytes);
}

static void read_properties(struct note *n, const amqp_basic_properties_t *q)
{
	if ((n->has_message_id = q->_flags & AMQP_BASIC_MESSAGE_ID_FLAG))
		copy_text(n->message_id, sizeof n->message_id, q->message_id);
	if ((n->has_correlation_id = q->_flags & AMQP_BASIC_CORRELATION_ID_FLAG))
		copy_text(n->correlation_id, sizeof n->correlation_id, q->correlation_id);
	if (q->_flags & AMQP_BASIC_TYPE_FLAG)
		copy_text(n->type, sizeof n->type, q->type);
	if (q->_flags & AMQP_BASIC_CONTENT_TYPE_FLAG)
		copy_text(n->content_type, sizeof n->content_type, q->content_type);
	if (q->_flags & AMQP_BASIC_CONTENT_ENCODING_FLAG)
		copy_text(n->content_encoding, sizeof n->content_encoding, q->content_encoding);
	if (q->_flags & AMQP_BASIC_DELIVERY_MODE_FLAG)
		n->delivery_mode = q->delivery_mode;
	if ((n->has_timestamp = q->_flags & AMQP_BASIC_TIMESTAMP_FLAG))
		n->timestamp = q->timestamp;
}

static void keep_note(struct peer *p, amqp_envelope_t *e)
{
	struct note *n = calloc(1, sizeof *n);
	const char *s;

	n->at = harness_now();
	n->redelivered = e->redelivered;
	n->key = strndup(e->routing_key.bytes, e->routing_key.len);
	n->size = e->message.body.len;
	n->body = calloc(1, n->size + 1);
	memcpy(n->body, e->message.body.bytes, n->size);
	read_properties(n, &e->message.properties);
	n->json = json_loadb(n->body, n->size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	n->session = (s = note_text(n, "session_id")) ? s : "";
	n->kind = (s = note_text(n, "type")) ? s : "";
	n->event = (s = note_text(n, "payload.event_type")) ? s : "";
	n->sequence = json_integer_value(note_at(n, "payload.sequence"));
	n->repeated = json_object_get(p->seen, n->message_id);
	json_object_set_new(p->seen, n->message_id, json_true());
	if (p->note_count == p->note_room) {
		p->note_room = p->note_room ? p->note_room * 2 : 64;
		p->notes = realloc(p->notes, p->note_room * sizeof *p->notes);
	}
	p->notes[p->note_count++] = n;
}

/* Takes what is there; true where something was. A lost connection is made anew by the next tick. */
static bool pump(struct peer *p)
{
	amqp_connection_state_t c = p->sub;
	struct timeval none = {0, 0};
	uint64_t last = 0;
	amqp_envelope_t e;
	amqp_frame_t f;

	for (int i = 0; i < PREFETCH; i++) {
		amqp_maybe_release_buffers(c);
		amqp_rpc_reply_t r = amqp_consume_message(c, &e, &none, 0);
		if (r.reply_type == AMQP_RESPONSE_NORMAL) {
			last = e.delivery_tag;
			keep_note(p, &e);
			amqp_destroy_envelope(&e);
			continue;
		}
		if (r.library_error == AMQP_STATUS_TIMEOUT)
			break;
		if (r.library_error == AMQP_STATUS_UNEXPECTED_STATE &&
			amqp_simple_wait_frame_noblock(c, &f, &none) == AMQP_STATUS_OK &&
			f.frame_type != AMQP_FRAME_METHOD)
			continue;
		peer_close(p); /* closed, cancelled or lost */
		p->durable_gone = true;
		return last != 0;
	}
	if (last)
		amqp_basic_ack(c, 1, last, 1);
	return last != 0;
}

bool peers_tick(void)
{
	static double again;
	bool any = false;

	for (struct peer *p = peers; p; p = p->next) {
		if (!p->sub && p->durable_gone && harness_now() > again) {
			again = harness_now() + 0.1;
			p->durable_gone = !consume(p);
		}
		if (p->sub && pump(p))
			any = true;
	}
	return any;
}

int peers_sockets(int *fds, int max)
{
	int n = 0;

	for (struct peer *p = peers; p && n < max; p = p->next)
		if (p->sub)
			fds[n++] = amqp_get_sockfd(p->sub);
	return n;
}

void peers_show(void)
{
	for (struct peer *p = peers; p; p = p->next) {
		fprintf(stderr, "--- %s got %zu messages\n", p->id, p->note_count);
		for (size_t i = p->note_count > SHOWN ? p->note_count - SHOWN : 0; i < p->note_count; i++)
			fprintf(stderr, "%.600s\n", p->notes[i]->body);
	}
}

void peers_end(void)
{
	for (struct peer *p = peers; p; p = p->next)
		wire_delete_queue(p->broker, p->queue);
}

/* --- finding --- */

static bool fits(const struct note *n, const char *session, const char *kind, const char *event)
{
	return !n->repeated && (!session || strcmp(n->session, session) == 0) &&
		(!kind || strcmp(n->kind, kind) == 0) && (!event || strcmp(n->event, event) == 0);
}

struct note *peer_find_nth(struct peer *p, const char *session, const char *kind, const char *event, int nth)
{
	for (size_t i = 0; i < p->note_count; i++)
		if (fits(p->notes[i], session, kind, event) && --nth == 0)
			return p->notes[i];
	return NULL;
}

struct note *peer_find(struct peer *p, const char *session, const char *kind, const char *event)
{
	return peer_find_nth(p, session, kind, event, 1);
}

int peer_count(struct peer *p, const char *session, const char *kind, const char *event)
{
	int n = 0;

	for (size_t i = 0; i < p->note_count; i++)
		n += fits(p->notes[i], session, kind, event);
	return n;
}

struct note *peer_find_reply(struct peer *p, const char *message_id)
{
	for (size_t i = 0; i < p->note_count; i++) {
		const char *to = note_text(p->notes[i], "payload.in_reply_to");
		if (to && strcmp(to, message_id) == 0)
			return p->notes[i];
	}
	return NULL;
}

int peer_count_replies(struct peer *p, const char *message_id)
{
	int n = 0;

	for (size_t i = 0; i < p->note_count; i++) {
		const char *to = note_text(p->notes[i], "payload.in_reply_to");
		n += to && strcmp(to, message_id) == 0;
	}
	return n;
}

struct note *peer_find_text(
	struct peer *p, const char *session, const char *event, const char *path, const char *text)
{
	for (size_t i = 0; i < p->note_count; i++) {
		const char *got =
			fits(p->notes[i], session, "event", event) ? note_text(p->notes[i], path) : NULL;
		if (got && strstr(got, text))
			return p->notes[i];
	}
	return NULL;
}

struct note *peer_find_state(struct peer *p, const char *session, const char *to_state, int nth)
{
	for (size_t i = 0; i < p->note_count; i++) {
		const char *to = fits(p->notes[i], session, "event", "state_changed") ?
			note_text(p->notes[i], "payload.data.to_state") :
			NULL;
		if (to && strcmp(to, to_state) == 0 && --nth == 0)
			return p->notes[i];
	}
	return NULL;
}

/* --- waiting --- */

struct note *peer_reply(struct peer *p, const char *message_id)
{
	wait_until(peer_find_reply(p, message_id), WAIT_S, "an answer to %s", message_id);
	return peer_find_reply(p, message_id);
}

const char *peer_accepted(struct peer *p, const char *message_id)
{
	struct note *n = peer_reply(p, message_id);

	must(strcmp(n->kind, "task_accepted") == 0, "%s", n->body);
	return n->session;
}

struct note *peer_rejected(struct peer *p, const char *message_id, const char *code)
{
	struct note *n = peer_reply(p, message_id);

	must(strcmp(n->kind, "task_rejected") == 0, "%s", n->body);
	must_str(note_text(n, "payload.reason_code"), code);
	must(note_text(n, "payload.reason_message"), "%s", n->body);
	return n;
}

struct note *peer_wait(struct peer *p, const char *session, const char *kind, const char *event)
{
	wait_until(peer_find(p, session, kind, event), WAIT_S, "%s %s of %s", kind, event ? event : "",
		session ? session : "");
	return peer_find(p, session, kind, event);
}

struct note *peer_event(struct peer *p, const char *session, const char *event)
{
	return peer_wait(p, session, "event", event);
}

struct note *peer_state(struct peer *p, const char *session, const char *to_state)
{
	wait_until(peer_find_state(p, session, to_state, 1), WAIT_S, "%s of %s", to_state, session);
	return peer_find_state(p, session, to_state, 1);
}

struct note *peer_closed(struct peer *p, const char *session, const char *final_state, const char *reason)
{
	struct note *n = peer_event(p, session, "session_closed");

	must_str(note_text(n, "payload.data.final_state"), final_state);
	if (reason)
		must_str(note_text(n, "payload.data.reason"), reason);
	return n;
}

struct note *peer_completed(struct peer *p, const char *session)
{
	peer_closed(p, session, "COMPLETED", "completed");
	return peer_wait(p, session, "task_completed", NULL);
}

struct note *peer_failed(struct peer *p, const char *session, const char *reason, const char *code)
{
	peer_closed(p, session, "FAILED", reason);
	struct note *n = peer_wait(p, session, "task_failed", NULL);
	must_str(note_text(n, "payload.error_code"), code);
	must(note_text(n, "payload.error_message"), "%s", n->body);
	return n;
}

const char *peer_token(struct peer *p, const char *session)
{
	return note_text(peer_wait(p, session, "task_accepted", NULL), "payload.session_token");
}
