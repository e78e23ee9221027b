/* SPDX-License-Identifier: MIT */
/* amqp.c: the broker's address and how to log in there.
 * Owns the URL's grammar and where the password comes from.
 * Never prints a password, nor any part of a URL that might hold one. */
#include "base/io.h"
#include "base/buf.h"
#include "config/table_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/shellwords.h"

#define PASSWORD_FILE_MAX 4096
#define CREDENTIAL "credential:"
#define SHORT_MAX 255 /* what an AMQP short string holds */

static int hex_value(char c)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) % 16 : -1;
}

/* NULL where a % is not followed by two hex digits, or these stand for NUL. */
static char *decode(const char *text, size_t size)
{
	char *out = xmalloc(size + 1), *to = out;

	for (size_t i = 0; i < size; i++) {
		int value = (unsigned char)text[i];

		if (text[i] == '%') {
			int high = i + 2 < size ? hex_value(text[i + 1]) : -1;
			int low = i + 2 < size ? hex_value(text[i + 2]) : -1;

			value = high < 0 || low < 0 ? 0 : high * 16 + low;
			i += 2;
		}
		if (value == 0) {
			*to = '\0';
			xfree_secret(out);
			return NULL;
		}
		*to++ = (char)value;
	}
	*to = '\0';
	return out;
}

/* host, host:port, [v6], [v6]:port. Returns what is wrong, NULL where nothing is. */
static const char *parse_host(const char *text, size_t size, struct config_amqp *a)
{
	const char *end = text + size, *host = text, *host_end, *port;
	long number = 0;

	if (size > 0 && *text == '[') {
		host = text + 1;
		host_end = memchr(host, ']', (size_t)(end - host));
		if (!host_end)
			return "the [ of an IPv6 address has no ]";
		port = host_end + 1;
	} else {
		host_end = memchr(text, ':', size);
		if (!host_end)
			host_end = end;
		port = host_end;
	}
	if (port < end && *port != ':')
		return "the host is followed by something that is no :port";
	if (port < end && ++port < end) { /* `host:` has the usual port */
		for (; port < end && *port >= '0' && *port <= '9' && number < 100000; port++)
			number = number * 10 + (*port - '0');
		if (port < end || number < 1 || number > 65535)
			return "the port is no number from 1 to 65535 (an @, : or / in a password is written "
			       "%40, %3A, %2F)";
		a->port = (int)number;
	}
	if (host_end - host > SHORT_MAX)
		return "the host is over 255 bytes";
	a->host = host_end > host ? decode(host, (size_t)(host_end - host)) : xstrdup("localhost");
	return a->host ? NULL : "a % in the host is not followed by two hex digits";
}

static const char *parse_login(const char *text, size_t size, struct config_amqp *a)
{
	const char *colon = memchr(text, ':', size);
	size_t user_size = colon ? (size_t)(colon - text) : size;

	a->user = decode(text, user_size);
	if (colon)
		a->password = decode(colon + 1, size - user_size - 1);
	if (!a->user || (colon && !a->password))
		return "a % in user or password is not followed by two hex digits; a % itself is written %25";
	if (*a->user == '\0')
		return "there is no user before the : or @";
	return NULL;
}

static const char *parse_vhost(const char *text, struct config_amqp *a)
{
	if (strpbrk(text, "?#"))
		return "parameters in a URL are not read, they have keys of their own; a ? or # itself is "
		       "written %3F, %23";
	if (strchr(text, '@'))
		return "there is an @ behind the /; a / in user or password is written %2F, an @ elsewhere "
		       "%40";
	if (strchr(text, '/'))
		return "the virtual host has a bare /; write it %2F, as in amqp://host/%2Fhcp";
	/* `amqp://host/` strictly names the virtual host "", which no broker has: the default is meant. */
	a->vhost = *text ? decode(text, strlen(text)) : xstrdup("/");
	if (!a->vhost)
		return "a % in the virtual host is not followed by two hex digits";
	return strlen(a->vhost) > SHORT_MAX ? "the virtual host is over 255 bytes" : NULL;
}

static const char *parse_url(const char *url, struct config_amqp *a)
{
	const char *why, *slash, *at = NULL;

	a->tls = strncmp(url, "amqps://", 8) == 0;
	if (!a->tls && strncmp(url, "amqp://", 7) != 0)
		return "it does not begin with amqp:// or amqps://";
	url += a->tls ? 8 : 7;
	a->port = a->tls ? 5671 : 5672;
	slash = url + strcspn(url, "/?#");
	for (const char *p = url; p < slash; p++)
		if (*p == '@')
			at = p; /* the last: a bare @ in a password does no harm */
	if (at && (why = parse_login(url, (size_t)(at - url), a)))
		return why;
	if (!a->user)
		a->user = xstrdup("guest");
	if (!at && !a->password)
		a->password = xstrdup("guest");
	if ((why = parse_host(at ? at + 1 : url, (size_t)(slash - (at ? at + 1 : url)), a)))
		return why;
	return parse_vhost(*slash == '/' ? slash + 1 : slash, a);
}

/* What messages show: everything but the password. */
static char *redact(const struct config_amqp *a, bool has_password)
{
	struct buf b = {0};
	char *text;
	bool is_v6 = strchr(a->host, ':') != NULL;

	buf_addf(&b, "amqp%s://%s%s@%s%s%s:%d/%s", a->tls ? "s" : "", a->user, has_password ? ":***" : "",
		is_v6 ? "[" : "", a->host, is_v6 ? "]" : "", a->port,
		strcmp(a->vhost, "/") == 0 ? "%2F" : a->vhost);
	text = xstrdup(buf_text(&b));
	buf_fini(&b);
	return text;
}

static bool is_loopback(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (strcasecmp(host, "localhost") == 0)
		return true;
	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* --- the password's file --- */

/* NULL where it cannot be: then the complaint was made. */
static char *find_password_file(struct config_reader *r, const struct config_value *v, const char *plain)
{
	const char *name = plain + strlen(CREDENTIAL), *dir = getenv("CREDENTIALS_DIRECTORY");
	struct buf b = {0};
	char *path;

	if (strncmp(plain, CREDENTIAL, strlen(CREDENTIAL)) != 0)
		return config_absolute(r, plain);
	if (*name == '\0' || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		config_complain(
			r, v->line, "password_file names no credential; write credential:NAME, without a /");
		return NULL;
	}
	if (!dir || *dir != '/') {
		config_complain(r, v->line,
			"password_file = credential:%s, but CREDENTIALS_DIRECTORY is not set; start hcpd by "
			"systemd with LoadCredential=%s:/path, or write a path",
			name, name);
		return NULL;
	}
	buf_addf(&b, "%s/%s", dir, name);
	path = xstrdup(buf_text(&b));
	buf_fini(&b);
	return path;
}

static char *take_password(struct config_reader *r, int line, const char *path, struct buf *text)
{
	while (text->size > 0 && (text->data[text->size - 1] == '\n' || text->data[text->size - 1] == '\r'))
		text->size--;
	if (text->size == 0 || memchr(text->data, '\0', text->size) || memchr(text->data, '\n', text->size)) {
		config_complain(r, line,
			"password_file %s is not one line of text; put the password alone into it", path);
		return NULL;
	}
	return xstrndup(text->data, text->size);
}

static void read_password(struct config_reader *r, const struct config_value *v, struct config_amqp *a)
{
	char *plain = shellwords_unquote(v->text), *path = find_password_file(r, v, plain), *password = NULL;
	struct buf text = {0};
	struct stat st;

	free(plain);
	if (!path)
		return;
	if (io_read_file(path, PASSWORD_FILE_MAX, &text, &st) < 0) {
		/* The message does not have the name: a user may have written the password itself there. */
		config_complain(r, v->line,
			"password_file cannot be read: %s; write the path of a file that this user may "
			"read",
			errno == EFBIG ? "it is over 4096 bytes" : strerror(errno));
	} else {
		if (st.st_mode & S_IROTH)
			config_warn(
				r, v->line, "password_file %s can be read by everybody; chmod 600 it", path);
		password = take_password(r, v->line, path, &text);
	}
	if (password) {
		xfree_secret(a->password);
		a->password = password;
	}
	if (text.data)
		explicit_bzero(text.data, text.room);
	buf_fini(&text);
	config_add_secret(r, path);
}

/* --- what must go together --- */

static void check_file(
	struct config_reader *r, const struct config_section *s, const char *key, const char *path)
{
	if (path && access(path, R_OK) < 0)
		config_complain(r, config_get(s, key)->line,
			"%s %s cannot be read: %s; name a PEM file that this user may read", key, path,
			strerror(errno));
}

static void check_tls(struct config_reader *r, const struct config_section *s, const struct config_amqp *a)
{
	struct stat st;

	check_file(r, s, "ca_file", a->ca_file);
	check_file(r, s, "cert_file", a->cert_file);
	check_file(r, s, "key_file", a->key_file);
	if (a->key_file && stat(a->key_file, &st) == 0 && (st.st_mode & S_IROTH))
		config_warn(r, config_get(s, "key_file")->line,
			"key_file %s can be read by everybody; chmod 600 it", a->key_file);
	if (a->cert_file && !a->key_file)
		config_complain(r, config_get(s, "cert_file")->line,
			"cert_file without key_file; name the certificate's private key too");
	if (a->key_file && !a->cert_file)
		config_complain(r, config_get(s, "key_file")->line,
			"key_file without cert_file; name the key's certificate too");
	if (a->sasl == SASL_EXTERNAL && (!a->tls || !a->cert_file || !a->key_file))
		config_complain(r, config_get(s, "sasl")->line,
			"sasl = external needs amqps:// and a client certificate, which says who we are; set "
			"url, cert_file and key_file, or sasl = plain");
	if (!a->tls && (a->ca_file || a->cert_file || a->key_file))
		config_warn(r, s->line,
			"certificates are given but the url is plain amqp://, so they are not used; write "
			"amqps://");
	if (a->tls && !a->verify)
		config_warn(r, config_get(s, "verify")->line,
			"verify = no: whoever answers is taken for the broker; set ca_file instead");
}

void config_finish_amqp(struct config_reader *r, const struct config_section *s, struct config_amqp *a)
{
	const struct config_value *url = config_get(s, "url"), *file = config_get(s, "password_file");
	char *plain = shellwords_unquote(url->text ? url->text : config_find_key(KIND_AMQP, "url")->fallback);
	const char *why = parse_url(plain, a);
	bool has_password = !why && a->password && strcmp(a->password, "guest") != 0;

	xfree_secret(plain);
	if (why)
		config_complain(
			r, url->line, "url does not do: %s; write amqp://user:password@host:port/vhost", why);
	else
		a->url = redact(a, a->password != NULL);
	if (!why && !a->tls && !is_loopback(a->host))
		config_warn(r, url->line,
			"plain amqp:// to %s: password and tasks can be read on the way; use amqps://",
			a->host);
	if (has_password && url->text && (r->mode & S_IROTH))
		config_warn(r, url->line,
			"the url has a password and this file can be read by everybody; chmod 640 it, or use "
			"password_file");
	if (file->text)
		read_password(r, file, a);
	if (!why && !a->password && a->sasl == SASL_PLAIN && !file->text)
		config_complain(r, url->line,
			"the url has a user but no password; write user:password@, or set password_file");
	if (!a->password)
		a->password = xstrdup(""); /* external: the certificate speaks */
	check_tls(r, s, a);
}
