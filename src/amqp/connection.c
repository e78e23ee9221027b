/* SPDX-License-Identifier: MIT */
/* connection.c: one AMQP connection with one channel.
 * Owns the librabbitmq objects, and the texts about their failures.
 * Never decides when to connect again, and knows no queue by name (bus.c, hcpctl). */
#include "amqp/connection.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/x509.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "amqp/outgoing.h"
#include "base/buf.h"
#include "base/clock.h"

#define CHANNEL FRAMES_CHANNEL
#define FRAME_MAX 131072 /* the broker's own default */
#define RELEASE_EVERY 64 /* frames: librabbitmq keeps decoded frames until they are released */

struct connection {
	amqp_connection_state_t conn;
	struct frames frames;
	unsigned unreleased;
	bool may_not_declare; /* the broker refused a declare or bind with 403 */
	bool is_plain;        /* no TLS: messages, acks and rejects go by `out`, not by librabbitmq */
	bool is_corked;       /* `out` gathers */
	struct outgoing out;
	bool is_quiet;       /* the last read, or poll, left nothing in the socket */
	int64_t empty_at_us; /* when librabbitmq last found nothing to read; it serves heartbeats then */
	char where[300];     /* host:port, for messages */
};

/* --- errors --- */

static int fail(struct connection_error *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int fail(struct connection_error *e, int code, const char *fmt, ...)
{
	va_list ap;

	e->code = code;
	e->is_login = false;
	e->is_undecodable = false;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	return -1;
}

bool connection_is_refusal(const struct connection_error *e)
{
	return e->code != 0 && e->code != AMQP_CONNECTION_FORCED && e->code != AMQP_INTERNAL_ERROR;
}

static int fail_status(struct connection *l, struct connection_error *e, const char *what, int status)
{
	fail(e, 0, "%s %s: %s", what, l->where, amqp_error_string2(status));
	e->is_undecodable = status == AMQP_STATUS_BAD_AMQP_DATA || status == AMQP_STATUS_UNKNOWN_CLASS ||
		status == AMQP_STATUS_UNKNOWN_METHOD;
	/* librabbitmq may have closed the socket, and its number may belong to another file. */
	if (!e->is_undecodable)
		outgoing_fail(&l->out, status);
	return -1;
}

/* The reply of an RPC: 0, or -1 with the error filled in. */
static int check_reply(struct connection *l, struct connection_error *e, amqp_rpc_reply_t r, const char *what)
{
	const amqp_channel_close_t *ch;
	const amqp_connection_close_t *co;

	switch (r.reply_type) {
	case AMQP_RESPONSE_NORMAL: return 0;
	case AMQP_RESPONSE_SERVER_EXCEPTION:
		if (r.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
			ch = r.reply.decoded;
			return fail(e, ch->reply_code, "%s: %.*s", what, (int)ch->reply_text.len,
				(const char *)ch->reply_text.bytes);
		}
		if (r.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
			co = r.reply.decoded;
			return fail(e, co->reply_code, "%s: %.*s", what, (int)co->reply_text.len,
				(const char *)co->reply_text.bytes);
		}
		return fail(e, 0, "%s: unexpected answer from %s", what, l->where);
	case AMQP_RESPONSE_LIBRARY_EXCEPTION:
		return fail(e, 0, "%s: %s (%s)", what, amqp_error_string2(r.library_error), l->where);
	case AMQP_RESPONSE_NONE:
	default: return fail(e, 0, "%s: no answer from %s", what, l->where);
	}
}

/* --- opening --- */

static struct timeval ms_to_timeval(int ms)
{
	return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

/* librabbitmq needs a file, and has no default. These are the places of OpenSSL and Debian. */
static const char *find_system_ca(void)
{
	const char *places[] = {getenv(X509_get_default_cert_file_env()), X509_get_default_cert_file(),
		"/etc/ssl/certs/ca-certificates.crt"};

	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (places[i] && access(places[i], R_OK) == 0)
			return places[i];
	return NULL;
}

static amqp_socket_t *make_tls_socket(
	struct connection *l, const struct config_amqp *a, struct connection_error *e)
{
	amqp_socket_t *s = amqp_ssl_socket_new(l->conn);
	const char *ca = a->ca_file ? a->ca_file : find_system_ca();

	if (!s) {
		fail(e, 0, "cannot set up TLS for %s: out of memory or a broken OpenSSL", l->where);
		return NULL;
	}
	amqp_ssl_socket_set_verify_peer(s, a->verify);
	amqp_ssl_socket_set_verify_hostname(s, a->verify);
	amqp_ssl_socket_set_ssl_versions(s, AMQP_TLSv1_2, AMQP_TLSvLATEST);
	if (a->verify && !ca) {
		fail(e, 0, "no certificate authorities found to check %s with; set ca_file", l->where);
		return NULL;
	}
	if (ca && amqp_ssl_socket_set_cacert(s, ca) != AMQP_STATUS_OK) {
		fail(e, 0, "cannot use the certificate authorities in %s; is ca_file a readable PEM file?",
			ca);
		return NULL;
	}
	if (a->cert_file &&
		amqp_ssl_socket_set_key(s, a->cert_file, a->key_file ? a->key_file : a->cert_file) !=
			AMQP_STATUS_OK) {
		fail(e, 0,
			"cannot use cert_file %s with key_file %s; are both readable PEM files that fit "
			"together?",
			a->cert_file, a->key_file ? a->key_file : a->cert_file);
		return NULL;
	}
	return s;
}

static int timeout_ms(const struct config_amqp *a)
{
	int64_t ms = a->reconnect_max_us > 0 ? a->reconnect_max_us / 1000 : CONNECTION_TIMEOUT_MS;

	return ms < CONNECTION_TIMEOUT_LEAST_MS ? CONNECTION_TIMEOUT_LEAST_MS :
		ms > CONNECTION_TIMEOUT_MS      ? CONNECTION_TIMEOUT_MS :
						  (int)ms;
}

static int fail_connect(
	struct connection *l, const struct config_amqp *a, struct connection_error *e, int status, int error)
{
	/* librabbitmq loses the error of a connect that did not end at once. */
	const char *why = error && error != EINPROGRESS ? strerror(error) : "refused or unreachable";

	switch (status) {
	case AMQP_STATUS_HOSTNAME_RESOLUTION_FAILED:
		return fail(e, 0, "cannot find the address of %s; check the url and the resolver", l->where);
	case AMQP_STATUS_TIMEOUT:
		return fail(e, 0, "no answer from %s within %d s; is the host up, is a firewall in between?",
			l->where, timeout_ms(a) / 1000);
	case AMQP_STATUS_SSL_HOSTNAME_VERIFY_FAILED:
		return fail(e, 0,
			"the certificate of %s is for another host name; use the name that it was made for "
			"(an IP address never fits: only names are compared)",
			l->where);
	case AMQP_STATUS_SSL_PEER_VERIFY_FAILED:
		return fail(e, 0,
			"the certificate of %s is not trusted; set ca_file to the authority that signed it",
			l->where);
	case AMQP_STATUS_SSL_CONNECTION_FAILED:
	case AMQP_STATUS_SSL_ERROR:
		return fail(e, 0,
			"no TLS with %s: untrusted certificate, a client certificate refused, or no TLS on "
			"that port; check ca_file, cert_file and the port",
			l->where);
	default:
		return fail(e, 0, "cannot connect to %s: %s; is the broker running, is the url right?%s",
			l->where, why, a->tls ? " (amqps is usually on port 5671)" : "");
	}
}

static int open_socket(struct connection *l, const struct connection_spec *spec, struct connection_error *e)
{
	const struct config_amqp *a = spec->amqp;
	struct timeval timeout = ms_to_timeval(timeout_ms(a));
	amqp_socket_t *s;
	int status;

	if (a->tls) {
		if (!(s = make_tls_socket(l, a, e)))
			return -1;
	} else if (!(s = amqp_tcp_socket_new(l->conn))) {
		return fail(e, 0, "out of memory");
	}
	errno = 0;
	status = amqp_socket_open_noblock(s, a->host, a->port, &timeout);
	if (status != AMQP_STATUS_OK)
		return fail_connect(l, a, e, status, errno);
	if (spec->on_socket && spec->on_socket(spec->ctx, amqp_get_sockfd(l->conn)) < 0)
		return fail(e, 0, "cannot keep the connection to %s: %s", l->where, strerror(errno));
	return 0;
}

static amqp_table_entry_t text_entry(const char *key, const char *value)
{
	amqp_table_entry_t t = {.key = amqp_cstring_bytes(key)};

	t.value.kind = AMQP_FIELD_KIND_UTF8;
	t.value.value.bytes = amqp_cstring_bytes(value);
	return t;
}

static amqp_table_entry_t flag_entry(const char *key)
{
	amqp_table_entry_t t = {.key = amqp_cstring_bytes(key)};

	t.value.kind = AMQP_FIELD_KIND_BOOLEAN;
	t.value.value.boolean = 1;
	return t;
}

static amqp_table_entry_t number_entry(const char *key, int64_t value)
{
	amqp_table_entry_t t = {.key = amqp_cstring_bytes(key)};

	t.value.kind = AMQP_FIELD_KIND_I64;
	t.value.value.i64 = value;
	return t;
}

/* The broker sends blocked and cancel notices only to clients that request them here. */
static amqp_rpc_reply_t login(struct connection *l, const struct config_amqp *a, const char *name)
{
	amqp_table_entry_t can[] = {flag_entry("connection.blocked"), flag_entry("consumer_cancel_notify"),
		flag_entry("publisher_confirms"), flag_entry("basic.nack"),
		flag_entry("authentication_failure_close")};
	amqp_table_entry_t about[] = {text_entry("product", "hcpd"), text_entry("version", HCPD_VERSION),
		text_entry("connection_name", name), {.key = amqp_cstring_bytes("capabilities")}};
	amqp_table_t properties = {.num_entries = sizeof about / sizeof *about, .entries = about};
	const char *user = a->user ? a->user : "", *password = a->password ? a->password : "";

	about[3].value.kind = AMQP_FIELD_KIND_TABLE;
	about[3].value.value.table.num_entries = sizeof can / sizeof *can;
	about[3].value.value.table.entries = can;
	/* RabbitMQ takes the name from the certificate. librabbitmq reports an empty name as out of memory.
	 */
	if (a->sasl == SASL_EXTERNAL)
		return amqp_login_with_properties(l->conn, a->vhost, 1, FRAME_MAX, a->heartbeat_s,
			&properties, AMQP_SASL_METHOD_EXTERNAL, user[0] ? user : "certificate");
	return amqp_login_with_properties(l->conn, a->vhost, 1, FRAME_MAX, a->heartbeat_s, &properties,
		AMQP_SASL_METHOD_PLAIN, user, password);
}

static int fail_login(
	struct connection *l, const struct config_amqp *a, struct connection_error *e, amqp_rpc_reply_t r)
{
	char text[FRAMES_TEXT_SIZE];

	check_reply(l, e, r, "log-in");
	snprintf(text, sizeof text, "%.300s", e->text);
	if (r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
		r.library_error == AMQP_STATUS_BROKER_UNSUPPORTED_SASL_METHOD)
		return fail(e, 0, "%s does not offer SASL %s; %s", l->where,
			a->sasl == SASL_EXTERNAL ? "EXTERNAL" : "PLAIN",
			a->sasl == SASL_EXTERNAL ? "enable its plugin rabbitmq_auth_mechanism_ssl" :
						   "set sasl");
	if (e->code == 403) {
		fail(e, 403, "%s refuses the log-in of %s (%s); check user, password and sasl", l->where,
			a->user && a->sasl == SASL_PLAIN ? a->user : "the client certificate", text);
		e->is_login = true;
		return -1;
	}
	if (e->code)
		return fail(e, e->code,
			"%s refuses virtual host %s (%s); does it exist, may the user enter it?", l->where,
			a->vhost, text);
	return fail(e, 0, "%s; is an AMQP broker listening there, with%s TLS?", text, a->tls ? "" : "out");
}

static int open_session(struct connection *l, const struct connection_spec *spec, struct connection_error *e)
{
	struct timeval timeout = ms_to_timeval(timeout_ms(spec->amqp));
	amqp_rpc_reply_t r;

	amqp_set_handshake_timeout(l->conn, &timeout);
	amqp_set_rpc_timeout(l->conn, &timeout);
	r = login(l, spec->amqp, spec->name);
	if (r.reply_type != AMQP_RESPONSE_NORMAL)
		return fail_login(l, spec->amqp, e, r);
	amqp_channel_open(l->conn, CHANNEL);
	l->is_plain = !spec->amqp->tls;
	outgoing_init(
		&l->out, connection_fd(l), connection_heartbeat_s(l), (size_t)amqp_get_frame_max(l->conn));
	return check_reply(l, e, amqp_get_rpc_reply(l->conn), "channel");
}

struct connection *connection_open(const struct connection_spec *spec, struct connection_error *e)
{
	struct connection *l = xcalloc(1, sizeof *l);

	memset(e, 0, sizeof *e);
	frames_init(&l->frames, spec->max_body);
	snprintf(l->where, sizeof l->where, "%s:%d", spec->amqp->host, spec->amqp->port);
	l->conn = amqp_new_connection();
	if (!l->conn) {
		fail(e, 0, "out of memory");
		free(l);
		return NULL;
	}
	if (open_socket(l, spec, e) < 0 || open_session(l, spec, e) < 0) {
		connection_free(l);
		return NULL;
	}
	return l;
}

void connection_close(struct connection *l, int timeout_ms)
{
	struct timeval timeout = ms_to_timeval(timeout_ms);

	connection_cork(l, false);
	amqp_set_rpc_timeout(l->conn, &timeout);
	amqp_connection_close(l->conn, AMQP_REPLY_SUCCESS);
	connection_free(l);
}

void connection_free(struct connection *l)
{
	if (!l)
		return;
	frames_fini(&l->frames);
	outgoing_fini(&l->out);
	amqp_destroy_connection(l->conn);
	free(l);
}

int connection_fd(const struct connection *l)
{
	return amqp_get_sockfd(l->conn);
}

int connection_heartbeat_s(const struct connection *l)
{
	return amqp_get_heartbeat(l->conn);
}

/* --- RPCs --- */

/* After the broker closed the channel: confirms the close, and opens a channel with the same number. */
static int reopen_channel(struct connection *l, struct connection_error *e)
{
	amqp_channel_close_ok_t ok = {0};
	int status = amqp_send_method(l->conn, CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok);

	if (status != AMQP_STATUS_OK)
		return fail_status(l, e, "connection lost to", status);
	amqp_channel_open(l->conn, CHANNEL);
	return check_reply(l, e, amqp_get_rpc_reply(l->conn), "channel");
}

static int declare_exchange(
	struct connection *l, const char *name, const char *type, bool passive, struct connection_error *e)
{
	char what[300];

	snprintf(what, sizeof what, "declare exchange %s", name);
	amqp_exchange_declare(l->conn, CHANNEL, amqp_cstring_bytes(name), amqp_cstring_bytes(type), passive,
		1, 0, 0, amqp_empty_table);
	return check_reply(l, e, amqp_get_rpc_reply(l->conn), what);
}

int connection_declare_exchange(
	struct connection *l, const char *name, const char *type, struct connection_error *e)
{
	if (declare_exchange(l, name, type, false, e) == 0)
		return 0;
	if (e->code != 403 || reopen_channel(l, e) < 0)
		return -1;
	l->may_not_declare = true;
	if (declare_exchange(l, name, type, true, e) == 0)
		return 0;
	if (e->code == 404)
		fail(e, 404,
			"exchange %s does not exist and this user may not make it; declare it, or allow the "
			"user to configure it",
			name);
	return -1;
}

int connection_find_exchange(struct connection *l, const char *name, struct connection_error *e)
{
	return declare_exchange(l, name, "", true, e);
}

static int declare_queue(struct connection *l, const struct connection_queue *q, const char *type,
	bool passive, struct connection_error *e)
{
	amqp_table_entry_t args[6];
	amqp_table_t table = {.entries = args};
	char what[300];

	if (type)
		args[table.num_entries++] = text_entry("x-queue-type", type);
	if (q->single_active_consumer)
		args[table.num_entries++] = flag_entry("x-single-active-consumer");
	if (q->message_ttl_ms)
		args[table.num_entries++] = number_entry("x-message-ttl", q->message_ttl_ms);
	if (q->max_length) {
		args[table.num_entries++] = number_entry("x-max-length", q->max_length);
		args[table.num_entries++] = text_entry("x-overflow", "drop-head");
	}
	if (q->expires_ms)
		args[table.num_entries++] = number_entry("x-expires", q->expires_ms);
	snprintf(what, sizeof what, "declare queue %s", q->name);
	amqp_queue_declare(l->conn, CHANNEL, amqp_cstring_bytes(q->name), passive, 1, 0, 0, table);
	return check_reply(l, e, amqp_get_rpc_reply(l->conn), what);
}

/* A queue that was declared without a type, on a virtual host without a default type, is classic. */
static bool is_untyped_classic(const struct connection_queue *q, const struct connection_error *e)
{
	return e->code == 406 && q->type && strcmp(q->type, "classic") == 0 &&
		strstr(e->text, "x-queue-type") && strstr(e->text, "current is none");
}

int connection_declare_queue(
	struct connection *l, const struct connection_queue *q, struct connection_error *e)
{
	const char *type = q->type;

	if (declare_queue(l, q, type, false, e) == 0)
		return 0;
	if (is_untyped_classic(q, e)) {
		if (reopen_channel(l, e) < 0)
			return -1;
		if (declare_queue(l, q, NULL, false, e) == 0)
			return 0;
	}
	if (e->code != 403 || reopen_channel(l, e) < 0)
		return -1;
	if (declare_queue(l, q, type, true, e) == 0)
		return 0;
	if (e->code == 404)
		fail(e, 404,
			"queue %s does not exist and this user may not make it; declare it, or allow the "
			"user to configure it",
			q->name);
	return -1;
}

int connection_bind_queue(struct connection *l, const char *queue, const char *exchange, const char *key,
	struct connection_error *e)
{
	char what[560];

	snprintf(what, sizeof what, "bind queue %s to %s", queue, exchange);
	amqp_queue_bind(l->conn, CHANNEL, amqp_cstring_bytes(queue), amqp_cstring_bytes(exchange),
		amqp_cstring_bytes(key), amqp_empty_table);
	if (check_reply(l, e, amqp_get_rpc_reply(l->conn), what) == 0)
		return 0;
	l->may_not_declare = l->may_not_declare || e->code == 403;
	return e->code == 403 ? reopen_channel(l, e) : -1;
}

int connection_keep_binding(struct connection *l, const char *queue, const char *exchange, const char *type,
	const char *key, struct connection_error *e)
{
	amqp_exchange_declare_t declare = {.exchange = amqp_cstring_bytes(exchange),
		.type = amqp_cstring_bytes(type),
		.durable = 1,
		.nowait = 1};
	amqp_queue_bind_t bind = {.queue = amqp_cstring_bytes(queue),
		.exchange = amqp_cstring_bytes(exchange),
		.routing_key = amqp_cstring_bytes(key),
		.nowait = 1};
	int status;

	if (l->may_not_declare)
		return 0;
	status = outgoing_flush(&l->out);
	if (status == AMQP_STATUS_OK)
		status = amqp_send_method(l->conn, CHANNEL, AMQP_EXCHANGE_DECLARE_METHOD, &declare);
	if (status == AMQP_STATUS_OK)
		status = amqp_send_method(l->conn, CHANNEL, AMQP_QUEUE_BIND_METHOD, &bind);
	return status == AMQP_STATUS_OK ? 0 : fail_status(l, e, "connection lost to", status);
}

int connection_count_consumers(
	struct connection *l, const char *queue, int *count, struct connection_error *e)
{
	const amqp_queue_declare_ok_t *ok =
		amqp_queue_declare(l->conn, CHANNEL, amqp_cstring_bytes(queue), 1, 0, 0, 0, amqp_empty_table);

	*count = ok ? (int)ok->consumer_count : 0;
	return check_reply(l, e, amqp_get_rpc_reply(l->conn), "queue");
}

int connection_consume(
	struct connection *l, const char *queue, bool exclusive, int prefetch, struct connection_error *e)
{
	char what[300];

	snprintf(what, sizeof what, "consume queue %s", queue);
	amqp_basic_qos(l->conn, CHANNEL, 0, (uint16_t)prefetch, 0);
	if (check_reply(l, e, amqp_get_rpc_reply(l->conn), what) < 0)
		return -1;
	amqp_basic_consume(l->conn, CHANNEL, amqp_cstring_bytes(queue), amqp_empty_bytes, 0, 0, exclusive,
		amqp_empty_table);
	return check_reply(l, e, amqp_get_rpc_reply(l->conn), what);
}

int connection_confirm(struct connection *l, struct connection_error *e)
{
	amqp_confirm_select(l->conn, CHANNEL);
	return check_reply(l, e, amqp_get_rpc_reply(l->conn), "publisher confirms");
}

int connection_delete_queue(struct connection *l, const char *queue, struct connection_error *e)
{
	char what[300];

	snprintf(what, sizeof what, "delete queue %s", queue);
	amqp_queue_delete(l->conn, CHANNEL, amqp_cstring_bytes(queue), 0, 0);
	return check_reply(l, e, amqp_get_rpc_reply(l->conn), what);
}

/* --- frames --- */

/* The broker closed the channel or connection, and waits for a close-ok. A failure to send it does not
 * matter. */
static void agree_to_close(struct connection *l, const struct frames_event *ev)
{
	amqp_channel_close_ok_t channel_ok = {0};
	amqp_connection_close_ok_t connection_ok = {0};

	if (ev->kind == FRAMES_CHANNEL_CLOSED)
		(void)amqp_send_method(l->conn, CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &channel_ok);
	else if (ev->kind == FRAMES_CONNECTION_CLOSED)
		(void)amqp_send_method(l->conn, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &connection_ok);
}

/* Is it sure that a read would find nothing? What librabbitmq holds counts, and so do its heartbeats: it
 * sends them, and misses those of the peer, only in a read that finds nothing. */
static bool is_read_in_vain(const struct connection *l)
{
	int64_t beat_us = connection_heartbeat_s(l) * INT64_C(1000000);

	return l->is_quiet && !amqp_frames_enqueued(l->conn) && !amqp_data_in_buffer(l->conn) &&
		(beat_us == 0 || clock_boot_us() - l->empty_at_us < beat_us / 3);
}

/* A read that finds nothing costs librabbitmq two system calls. A frame came with all that the socket had, as
 * far as librabbitmq's buffer reaches; the rest makes the socket readable, and whoever sleeps next sees it.
 */
static int read_frame(struct connection *l, amqp_frame_t *frame)
{
	struct timeval none = {0, 0};
	bool in_vain = is_read_in_vain(l);
	int status;

	l->is_quiet = false; /* for one call only: the next one looks */
	if (in_vain)
		return AMQP_STATUS_TIMEOUT;
	status = amqp_simple_wait_frame_noblock(l->conn, frame, &none);
	if (status == AMQP_STATUS_OK)
		l->is_quiet = l->is_plain;
	else if (status == AMQP_STATUS_TIMEOUT)
		l->empty_at_us = clock_boot_us();
	return status;
}

int connection_next(struct connection *l, struct frames_event **ev, struct connection_error *e)
{
	amqp_frame_t frame;
	int status;

	if (outgoing_flush(&l->out) != AMQP_STATUS_OK) /* librabbitmq may send a heartbeat */
		return fail_status(l, e, "connection lost to", l->out.status);
	for (;;) {
		if (l->unreleased >= RELEASE_EVERY)
			connection_release(l);
		status = read_frame(l, &frame);
		if (status == AMQP_STATUS_TIMEOUT)
			return 0;
		if (status != AMQP_STATUS_OK)
			return fail_status(l, e, "connection lost to", status);
		l->unreleased++;
		*ev = frames_feed(&l->frames, &frame);
		if (*ev) {
			agree_to_close(l, *ev);
			return 1;
		}
	}
}

bool connection_has_input(const struct connection *l)
{
	return amqp_frames_enqueued(l->conn) || amqp_data_in_buffer(l->conn);
}

void connection_wait(struct connection *l, int other_fd, int timeout_ms, bool *is_readable)
{
	struct pollfd p[2] = {{.fd = connection_fd(l), .events = POLLIN}, {.fd = other_fd, .events = POLLIN}};
	int count = poll(p, 2, timeout_ms);

	*is_readable = count > 0 && p[0].revents;
	l->is_quiet = l->is_plain && count > 0 && !p[0].revents;
}

void connection_release(struct connection *l)
{
	l->unreleased = 0;
	amqp_maybe_release_buffers(l->conn);
}

uint64_t connection_headless_tag(const struct connection *l)
{
	return frames_headless_tag(&l->frames);
}

static amqp_basic_properties_t make_properties(const struct connection_message *m)
{
	amqp_basic_properties_t p = {0};

	p._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_CONTENT_ENCODING_FLAG |
		AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG |
		AMQP_BASIC_TYPE_FLAG;
	p.content_type = amqp_cstring_bytes("application/json");
	p.content_encoding = amqp_cstring_bytes("utf-8");
	p.delivery_mode = AMQP_DELIVERY_PERSISTENT;
	p.message_id = amqp_cstring_bytes(m->message_id);
	p.timestamp = (uint64_t)m->timestamp_s;
	p.type = amqp_cstring_bytes(m->type);
	if (m->correlation_id && m->correlation_id[0]) {
		p._flags |= AMQP_BASIC_CORRELATION_ID_FLAG;
		p.correlation_id = amqp_cstring_bytes(m->correlation_id);
	}
	if (m->user_id) {
		p._flags |= AMQP_BASIC_USER_ID_FLAG;
		p.user_id = amqp_cstring_bytes(m->user_id);
	}
	return p;
}

/* With TLS. Frame by frame rather than by amqp_basic_publish: that one begins with a look at the heartbeat
 * deadline and, once it has passed, with a read that never ends (fixed in 0.14 only). Here it cannot happen.
 */
static int publish_by_library(struct connection *l, const struct connection_message *m)
{
	amqp_basic_publish_t method = {.exchange = amqp_cstring_bytes(m->exchange),
		.routing_key = amqp_cstring_bytes(m->key),
		.mandatory = 1};
	amqp_basic_properties_t p = make_properties(m);
	amqp_frame_t frame = {.frame_type = AMQP_FRAME_HEADER, .channel = CHANNEL};
	size_t most = (size_t)amqp_get_frame_max(l->conn) - 8, sent = 0;
	const char *body = m->body;
	int status;

	status = amqp_send_method(l->conn, CHANNEL, AMQP_BASIC_PUBLISH_METHOD, &method);
	frame.payload.properties.class_id = AMQP_BASIC_CLASS;
	frame.payload.properties.body_size = m->size;
	frame.payload.properties.decoded = &p;
	if (status == AMQP_STATUS_OK)
		status = amqp_send_frame(l->conn, &frame);
	frame.frame_type = AMQP_FRAME_BODY;
	while (status == AMQP_STATUS_OK && sent < m->size) {
		size_t part = m->size - sent < most ? m->size - sent : most;

		/* librabbitmq only reads this, but has no const. */
		frame.payload.body_fragment = (amqp_bytes_t){part, (void *)(uintptr_t)(body + sent)};
		status = amqp_send_frame(l->conn, &frame);
		sent += part;
	}
	return status;
}

/* What was added goes out at once, unless more follows. */
static int be_sent(struct connection *l, int status, struct connection_error *e)
{
	if (status == AMQP_STATUS_OK && !l->is_corked)
		status = outgoing_flush(&l->out);
	return status == AMQP_STATUS_OK ? 0 : fail_status(l, e, "connection lost to", status);
}

int connection_publish(struct connection *l, const struct connection_message *m, struct connection_error *e)
{
	return be_sent(l, l->is_plain ? outgoing_add_message(&l->out, m) : publish_by_library(l, m), e);
}

void connection_cork(struct connection *l, bool on)
{
	int value = on;

	l->is_corked = on;
	/* After a failure the packets are smaller, nothing else. */
	if (!l->is_plain)
		(void)setsockopt(connection_fd(l), IPPROTO_TCP, TCP_CORK, &value, sizeof value);
	else if (!on)
		(void)!outgoing_flush(&l->out); /* where it fails, the next call says so */
}

int connection_ack(struct connection *l, uint64_t tag, bool multiple, struct connection_error *e)
{
	return be_sent(l,
		l->is_plain ? outgoing_add_ack(&l->out, tag, multiple) :
			      amqp_basic_ack(l->conn, CHANNEL, tag, multiple),
		e);
}

int connection_reject(struct connection *l, uint64_t tag, bool requeue, struct connection_error *e)
{
	return be_sent(l,
		l->is_plain ? outgoing_add_reject(&l->out, tag, requeue) :
			      amqp_basic_reject(l->conn, CHANNEL, tag, requeue),
		e);
}
