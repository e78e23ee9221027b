/* SPDX-License-Identifier: MIT */
/* doctor_tls.c: how long certificates are valid: the one that the broker presents, and the local files.
 * Owns a TLS connection that ends after the handshake.
 * Never checks trust: librabbitmq does at the log-in, and amqp/connection.c reports it. */
#include "hcpctl/setup/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOON_DAYS 14
#define WAIT_MS 5000

static void check_certificate(struct doctor *d, const X509 *cert, const char *whose, const char *todo)
{
	char end[64] = "";
	int days = 0, seconds = 0;
	BIO *b = BIO_new(BIO_s_mem());

	if (b && ASN1_TIME_print(b, X509_get0_notAfter(cert)))
		(void)BIO_read(b, end, sizeof end - 1); /* the rest stays zero */
	BIO_free(b);
	ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(cert));
	if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
		doctor_say(d, DOCTOR_FAIL, "tls", "set the clock right, or wait",
			"the certificate of %s is not good yet", whose);
	else if (days < 0 || seconds < 0)
		doctor_say(d, DOCTOR_FAIL, "tls", todo, "the certificate of %s has expired: %s", whose, end);
	else if (days < SOON_DAYS)
		doctor_say(d, DOCTOR_WARN, "tls", todo, "the certificate of %s expires in %d days: %s", whose,
			days, end);
	else
		doctor_say(d, DOCTOR_OK, "tls", NULL, "the certificate of %s is good until %s", whose, end);
}

static void check_file(struct doctor *d, const char *path, const char *key)
{
	FILE *f = path ? fopen(path, "re") : NULL;
	X509 *cert = f ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;
	char whose[600];

	if (f)
		fclose(f);
	if (path && !cert)
		doctor_say(d, DOCTOR_FAIL, "tls", "name a PEM file", "%s %s holds no certificate", key, path);
	if (!cert)
		return;
	snprintf(whose, sizeof whose, "%s %.500s", key, path);
	check_certificate(d, cert, whose, "have it renewed, and restart hcpd");
	X509_free(cert);
}

/* --- the broker's --- */

static int try_address(const struct addrinfo *a)
{
	struct pollfd p = {.events = POLLOUT};
	struct timeval wait = {.tv_sec = WAIT_MS / 1000};
	int error = 0, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t size = sizeof error;

	if (fd < 0)
		return -1;
	p.fd = fd;
	if ((connect(fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS) ||
		poll(&p, 1, WAIT_MS) <= 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ||
		error) {
		close(fd);
		return -1;
	}
	/* The socket blocks from here on, with time limits. */
	if (fcntl(fd, F_SETFL, 0) < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static int connect_to_broker(const struct config_amqp *a)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
	char port[16];
	int fd = -1;

	snprintf(port, sizeof port, "%d", a->port);
	if (getaddrinfo(a->host, port, &hints, &list) != 0)
		return -1;
	for (const struct addrinfo *i = list; i && fd < 0; i = i->ai_next)
		fd = try_address(i);
	freeaddrinfo(list);
	return fd;
}

static X509 *shake_hands(const struct config_amqp *a, int fd)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = ctx ? SSL_new(ctx) : NULL;
	X509 *cert = NULL;

	/* Accepts every certificate and sends no data. A broker that wants a client certificate presents its
	 * own before that. */
	if (ssl && SSL_set_fd(ssl, fd) == 1 && SSL_set_tlsext_host_name(ssl, a->host) == 1) {
		(void)SSL_connect(ssl);
		cert = SSL_get1_peer_certificate(ssl);
	}
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	ERR_clear_error();
	return cert;
}

void doctor_check_tls(struct doctor *d)
{
	const struct config_amqp *a = &d->config->amqp;
	int fd = connect_to_broker(a);
	X509 *cert = fd >= 0 ? shake_hands(a, fd) : NULL;
	char whose[300];

	if (cert) {
		snprintf(whose, sizeof whose, "%.250s:%d", a->host, a->port);
		check_certificate(d, cert, whose, "renew it at the broker, and restart its listener");
		X509_free(cert);
	} else {
		doctor_say(d, DOCTOR_SKIP, "tls", NULL, "%s:%d shows no certificate", a->host, a->port);
	}
	if (fd >= 0)
		close(fd);
	check_file(d, a->cert_file, "cert_file");
	check_file(d, a->ca_file, "ca_file");
}
