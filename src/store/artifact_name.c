/* SPDX-License-Identifier: MIT */
/* artifact_name.c: which names an artifact may have, and its address.
 * Owns nothing. A name that passes here is used as a file name, in a URI and on terminals. Never touches a
 * file. */
#include "store/artifact_name.h"

#include <string.h>

/* C0 and DEL are single bytes, C1 is two. */
static bool is_control(const unsigned char *c, size_t size)
{
	return size == 1 ? *c < 0x20 || *c == 0x7f : size == 2 && c[0] == 0xc2 && c[1] < 0xa0;
}

const char *artifact_name_fault(const char *name, size_t size)
{
	const unsigned char *c = (const unsigned char *)name;

	if (size == 0)
		return "is empty";
	if (size > ARTIFACT_NAME_MAX)
		return "is longer than 255 bytes";
	if (*c == '.')
		return "begins with a dot";
	for (size_t i = 0, n; i < size; i += n) {
		if ((n = buf_utf8_size(c + i, size - i)) == 0)
			return "is not UTF-8";
		if (is_control(c + i, n))
			return "has a control character";
		if (c[i] == '/')
			return "has a slash";
	}
	return NULL;
}

bool artifact_type_is_good(const char *type, size_t size)
{
	if (size < 3 || size > ARTIFACT_TYPE_MAX || memchr(type, '/', size) == NULL)
		return false;
	for (size_t i = 0; i < size; i++)
		if (type[i] < 0x20 || type[i] > 0x7e)
			return false;
	return true;
}

/* The characters of a path segment in RFC 3986 that need no escape. */
static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		(c != '\0' && strchr("-._~!$&'()*+,;=:@", c) != NULL);
}

void artifact_add_uri(struct buf *b, const char *session_id, const char *name)
{
	buf_addf(b, "hcp://%s/artifacts/", session_id);
	for (const char *c = name; *c != '\0'; c++)
		if (is_plain(*c))
			buf_add(b, c, 1);
		else
			buf_addf(b, "%%%02X", (unsigned)(unsigned char)*c);
}
