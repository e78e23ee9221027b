/* ctl_queue.c: declares queues that expire, and deletes queues.
 * Owns one short connection a call. Never consumes or publishes (link.c). */
#include "ctl_queue.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHANNEL 1
#define TIMEOUT_S 10
#define FRAME_MAX 131072

static int fail(struct link_error *e, int code, const char *what, const char *name, const char *text, size_t size)
{
	memset(e, 0, sizeof *e);
	e->code = code;
	snprintf(e->text, sizeof e->text, "%s %s: %.*s", what, name, (int)size, text);
	return -1;
}

static int check(struct link_error *e, amqp_rpc_reply_t r, const char *what, const char *name)
{
	const amqp_channel_close_t *ch = r.reply.decoded;
	const amqp_connection_close_t *co = r.reply.decoded;
	const char *text;

	if (r.reply_type == AMQP_RESPONSE_NORMAL)
		return 0;
	if (r.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && r.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
		return fail(e, ch->reply_code, what, name, ch->reply_text.bytes, ch->reply_text.len);
	if (r.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && r.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
		return fail(e, co->reply_code, what, name, co->reply_text.bytes, co->reply_text.len);
	text = r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION ? amqp_error_string2(r.library_error) : "no answer";
	return fail(e, 0, what, name, text, strlen(text));
}

/* As link.c looks for them. */
static const char *find_ca(const struct config_amqp *a)
{
	const char *places[] = { a->ca_file, getenv(X509_get_default_cert_file_env()), X509_get_default_cert_file(),
		"/etc/ssl/certs/ca-certificates.crt" };

	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (places[i] && access(places[i], R_OK) == 0)
			return places[i];
	return NULL;
}

static amqp_socket_t *make_socket(amqp_connection_state_t conn, const struct config_amqp *a)
{
	amqp_socket_t *s = a->tls ? amqp_ssl_socket_new(conn) : amqp_tcp_socket_new(conn);
	const char *ca = a->tls ? find_ca(a) : NULL;

	if (!s || !a->tls)
		return s;
	amqp_ssl_socket_set_verify_peer(s, a->verify);
	amqp_ssl_socket_set_verify_hostname(s, a->verify);
	amqp_ssl_socket_set_ssl_versions(s, AMQP_TLSv1_2, AMQP_TLSvLATEST);
	if (a->verify && !ca)
		return NULL;
	if (ca && amqp_ssl_socket_set_cacert(s, ca) != AMQP_STATUS_OK)
		return NULL;
	if (a->cert_file && amqp_ssl_socket_set_key(s, a->cert_file, a->key_file ? a->key_file : a->cert_file)
			!= AMQP_STATUS_OK)
		return NULL;
	return s;
}

static int open_channel(amqp_connection_state_t conn, const struct config_amqp *a, const char *name,
	struct link_error *e)
{
	struct timeval timeout = { .tv_sec = TIMEOUT_S };
	amqp_socket_t *s = make_socket(conn, a);
	amqp_rpc_reply_t r;
	int status;

	if (!s)
		return fail(e, 0, "no TLS for queue", name, a->host, strlen(a->host));
	status = amqp_socket_open_noblock(s, a->host, a->port, &timeout);
	if (status != AMQP_STATUS_OK)
		return fail(e, 0, "no connection for queue", name, amqp_error_string2(status),
			strlen(amqp_error_string2(status)));
	amqp_set_handshake_timeout(conn, &timeout);
	amqp_set_rpc_timeout(conn, &timeout);
	r = a->sasl == SASL_EXTERNAL ?
		amqp_login(conn, a->vhost, 1, FRAME_MAX, a->heartbeat_s, AMQP_SASL_METHOD_EXTERNAL, a->user) :
		amqp_login(conn, a->vhost, 1, FRAME_MAX, a->heartbeat_s, AMQP_SASL_METHOD_PLAIN, a->user,
			a->password);
	if (check(e, r, "log-in for queue", name) < 0)
		return -1;
	amqp_channel_open(conn, CHANNEL);
	return check(e, amqp_get_rpc_reply(conn), "channel for queue", name);
}

static int declare(amqp_connection_state_t conn, const char *name, int64_t expires_ms, struct link_error *e)
{
	amqp_table_entry_t args[2] = { { .key = amqp_cstring_bytes("x-expires") },
		{ .key = amqp_cstring_bytes("x-queue-type") } };
	amqp_table_t table = { .num_entries = 2, .entries = args };

	args[0].value.kind = AMQP_FIELD_KIND_I64;
	args[0].value.value.i64 = expires_ms;
	args[1].value.kind = AMQP_FIELD_KIND_UTF8;
	args[1].value.value.bytes = amqp_cstring_bytes("classic");
	amqp_queue_declare(conn, CHANNEL, amqp_cstring_bytes(name), 0, 1, 0, 0, table);
	return check(e, amqp_get_rpc_reply(conn), "declare queue", name);
}

int ctl_queue_declare(const struct config_amqp *a, const char *name, int64_t expires_ms, struct link_error *e)
{
	amqp_connection_state_t conn = amqp_new_connection();
	int result = -1;

	if (conn && open_channel(conn, a, name, e) == 0 && (result = declare(conn, name, expires_ms, e)) == 0)
		amqp_connection_close(conn, AMQP_REPLY_SUCCESS);
	amqp_destroy_connection(conn);
	return result;
}

void ctl_queue_delete(const struct config_amqp *a, const char *name)
{
	amqp_connection_state_t conn = amqp_new_connection();
	struct link_error e;

	if (conn && open_channel(conn, a, name, &e) == 0) {
		amqp_queue_delete(conn, CHANNEL, amqp_cstring_bytes(name), 0, 0);
		if (check(&e, amqp_get_rpc_reply(conn), "delete queue", name) == 0)
			amqp_connection_close(conn, AMQP_REPLY_SUCCESS);
	}
	amqp_destroy_connection(conn);
}
