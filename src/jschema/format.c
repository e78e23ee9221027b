/* SPDX-License-Identifier: MIT */
/* format.c: the formats that can be asserted: date-time, uuid, uri, email, ipv4, ipv6.
 * Owns one function for each. Never allocates; each is one pass over the text. */
#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

#include "jschema/jschema_private.h"

/* Exactly `digits` digits; -1: not there. */
static int number_at(const char *text, size_t size, size_t at, size_t digits)
{
	int n = 0;

	if (at + digits > size)
		return -1;
	for (size_t i = at; i < at + digits; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		n = n * 10 + (text[i] - '0');
	}
	return n;
}

static bool char_is(const char *text, size_t size, size_t at, const char *one_of)
{
	return at < size && text[at] != '\0' && strchr(one_of, text[at]) != NULL;
}

static int days_in(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return month >= 1 && month <= 12 ? days[month - 1] + (month == 2 && is_leap) : 0;
}

/* RFC 3339; a leap second is valid only at 23:59:60 UTC. */
static bool is_date_time(const char *text, size_t size)
{
	int year = number_at(text, size, 0, 4), month = number_at(text, size, 5, 2),
	    day = number_at(text, size, 8, 2);
	int hour = number_at(text, size, 11, 2), minute = number_at(text, size, 14, 2),
	    second = number_at(text, size, 17, 2);
	int away_hour = 0, away_minute = 0, sign = 0;
	size_t at = 19;

	if (year < 0 || day < 1 || day > days_in(year, month) || hour < 0 || hour > 23 || minute < 0 ||
		minute > 59)
		return false;
	if (second < 0 || second > 60 || text[4] != '-' || text[7] != '-' || text[13] != ':' ||
		text[16] != ':' || !char_is(text, size, 10, "Tt"))
		return false;
	if (char_is(text, size, at, ".")) {
		if (number_at(text, size, ++at, 1) < 0)
			return false;
		while (number_at(text, size, at, 1) >= 0)
			at++;
	}
	if (char_is(text, size, at, "+-")) {
		sign = text[at] == '+' ? 1 : -1;
		away_hour = number_at(text, size, at + 1, 2);
		away_minute = number_at(text, size, at + 4, 2);
		if (away_hour < 0 || away_hour > 23 || away_minute < 0 || away_minute > 59 ||
			text[at + 3] != ':')
			return false;
		at += 5;
	} else if (!char_is(text, size, at, "Zz")) {
		return false;
	}
	minute += hour * 60 - sign * (away_hour * 60 + away_minute) + 2 * 1440;
	return at + 1 == size && (second < 60 || minute % 1440 == 1439);
}

static bool is_uuid(const char *text, size_t size)
{
	for (size_t i = 0; i < size && size == 36; i++) {
		bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (is_dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
			return false;
	}
	return size == 36;
}

static bool is_address(int family, const char *text, size_t size)
{
	unsigned char address[sizeof(struct in6_addr)];
	char copy[INET6_ADDRSTRLEN];

	if (size >= sizeof copy || memchr(text, '\0', size) != NULL)
		return false;
	memcpy(copy, text, size);
	copy[size] = '\0';
	return inet_pton(family, copy, address) == 1;
}

/* As inet_pton: four numbers, no leading zeros. */
static bool is_ipv4(const char *text, size_t size)
{
	return is_address(AF_INET, text, size);
}

static bool is_ipv6(const char *text, size_t size)
{
	return is_address(AF_INET6, text, size);
}

/* ---- RFC 3986: a scheme, then what the rest may hold ---- */

#define UNRESERVED "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
#define SUB_DELIMS "!$&'()*+,;="

static bool has_only(const char *text, size_t size, const char *allowed)
{
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '%' && i + 2 < size && isxdigit((unsigned char)text[i + 1]) &&
			isxdigit((unsigned char)text[i + 2]))
			i += 2;
		else if (text[i] == '\0' || strchr(allowed, text[i]) == NULL)
			return false;
	}
	return true;
}

static bool is_ip_literal(const char *text, size_t size)
{
	if (is_ipv6(text, size))
		return true;
	return size > 3 && (text[0] | 0x20) == 'v' && isxdigit((unsigned char)text[1]) &&
		memchr(text, '%', size) == NULL && memchr(text, '.', size) != NULL &&
		has_only(text, size, UNRESERVED SUB_DELIMS ":");
}

static bool is_authority(const char *text, size_t size)
{
	const char *host = memrchr(text, '@', size), *end = text + size, *port;

	if (host != NULL && !has_only(text, (size_t)(host - text), UNRESERVED SUB_DELIMS ":"))
		return false;
	host = host != NULL ? host + 1 : text;
	if (host < end && *host == '[') {
		if ((port = memchr(host, ']', (size_t)(end - host))) == NULL ||
			!is_ip_literal(host + 1, (size_t)(port - host - 1)))
			return false;
		port++;
	} else {
		port = memchr(host, ':', (size_t)(end - host));
		port = port != NULL ? port : end;
		if (!has_only(host, (size_t)(port - host), UNRESERVED SUB_DELIMS))
			return false;
	}
	if (port == end)
		return true;
	for (const char *p = port + 1; p < end; p++)
		if (!isdigit((unsigned char)*p))
			return false;
	return *port == ':';
}

static size_t until(const char *text, size_t at, size_t size, const char *ends)
{
	while (at < size && (text[at] == '\0' || strchr(ends, text[at]) == NULL))
		at++;
	return at;
}

static bool is_uri(const char *text, size_t size)
{
	size_t at = until(text, 0, size, ":/?#"), end;

	if (at == 0 || at == size || text[at] != ':' || !isalpha((unsigned char)text[0]))
		return false;
	for (size_t i = 0; i < at; i++)
		if (!isalnum((unsigned char)text[i]) && !char_is(text, at, i, "+-."))
			return false;
	at++;
	if (at + 2 <= size && memcmp(text + at, "//", 2) == 0) {
		end = until(text, at + 2, size, "/?#");
		if (!is_authority(text + at + 2, end - at - 2))
			return false;
		at = end;
	}
	end = until(text, at, size, "?#");
	if (!has_only(text + at, end - at, UNRESERVED SUB_DELIMS ":@/"))
		return false;
	if (end < size && text[end] == '?') {
		at = end + 1;
		end = until(text, at, size, "#");
		if (!has_only(text + at, end - at, UNRESERVED SUB_DELIMS ":@/?"))
			return false;
	}
	return end == size || has_only(text + end + 1, size - end - 1, UNRESERVED SUB_DELIMS ":@/?");
}

/* ---- RFC 5321: local part, '@', domain or address literal; no comments, no folding ---- */

static bool is_dotted(const char *text, size_t size, const char *more, size_t most)
{
	size_t label = 0;

	for (size_t i = 0; i <= size; i++) {
		if (i == size || text[i] == '.') {
			if (label == 0 || label > most)
				return false;
			label = 0;
		} else if (!isalnum((unsigned char)text[i]) && !char_is(text, size, i, more)) {
			return false;
		} else {
			label++;
		}
	}
	return true;
}

static bool is_domain(const char *text, size_t size)
{
	if (!is_dotted(text, size, "-", 63) || size > 253)
		return false;
	for (size_t i = 0; i < size; i++) /* no hyphen at the end of a label */
		if (text[i] == '-' && (i == 0 || i + 1 == size || text[i - 1] == '.' || text[i + 1] == '.'))
			return false;
	return true;
}

static bool is_quoted(const char *text, size_t size)
{
	if (size < 2 || text[0] != '"' || text[size - 1] != '"')
		return false;
	for (size_t i = 1; i + 1 < size; i++) {
		if (text[i] == '\\' && ++i + 1 >= size)
			return false;
		if (text[i] < ' ' || text[i] > '~' || (text[i] == '"' && text[i - 1] != '\\'))
			return false;
	}
	return true;
}

static bool is_email(const char *text, size_t size)
{
	const char *at = memrchr(text, '@', size);
	size_t local = at != NULL ? (size_t)(at - text) : 0, domain = size - local - 1;

	if (local == 0 || local > 64)
		return false;
	if (!is_dotted(text, local, "!#$%&'*+-/=?^_`{|}~", 64) && !is_quoted(text, local))
		return false;
	at++;
	if (domain > 2 && at[0] == '[' && at[domain - 1] == ']')
		return is_ipv4(at + 1, domain - 2) ||
			(domain > 7 && strncasecmp(at + 1, "IPv6:", 5) == 0 && is_ipv6(at + 6, domain - 7));
	return is_domain(at, domain);
}

format_fn *format_find(const char *name)
{
	static const struct {
		const char *name;
		format_fn *fn;
	} formats[] = {{"date-time", is_date_time}, {"uuid", is_uuid}, {"uri", is_uri}, {"email", is_email},
		{"ipv4", is_ipv4}, {"ipv6", is_ipv6}};

	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (strcmp(formats[i].name, name) == 0)
			return formats[i].fn;
	return NULL;
}
