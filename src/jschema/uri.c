/* SPDX-License-Identifier: MIT */
/* uri.c: resolves a reference against a base, as in RFC 3986 section 5.2.
 * Owns the splitting of a URI. Never checks whether a URI is well-formed (format.c does), never fetches. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "jschema/jschema_private.h"

struct part {
	const char *at; /* NULL: absent, which is not the same as empty */
	size_t size;
};

struct parts {
	struct part scheme, authority, path, query, fragment;
};

static struct part part_until(const char **p, const char *ends)
{
	struct part found = {*p, strcspn(*p, ends)};

	*p += found.size;
	return found;
}

static struct parts parts_of(const char *uri)
{
	struct parts u = {0};
	size_t colon = strcspn(uri, ":/?#");

	if (colon > 0 && uri[colon] == ':') {
		u.scheme = (struct part){uri, colon};
		uri += colon + 1;
	}
	if (strncmp(uri, "//", 2) == 0) {
		uri += 2;
		u.authority = part_until(&uri, "/?#");
	}
	u.path = part_until(&uri, "?#");
	if (*uri == '?') {
		uri++;
		u.query = part_until(&uri, "#");
	}
	if (*uri == '#')
		u.fragment = (struct part){uri + 1, strlen(uri + 1)};
	return u;
}

/* 5.2.4, on a path that it owns: moves segments from the front to the output. */
static size_t remove_dots(char *path, size_t size)
{
	size_t in = 0, out = 0;

	while (in < size) {
		const char *p = path + in;
		size_t left = size - in, segment = 1;

		if (left >= 3 && memcmp(p, "../", 3) == 0) {
			in += 3;
		} else if (left >= 2 && memcmp(p, "./", 2) == 0) {
			in += 2;
		} else if (left >= 3 && memcmp(p, "/./", 3) == 0) {
			in += 2;
		} else if (left == 2 && memcmp(p, "/.", 2) == 0) {
			path[++in] = '/';
		} else if ((left >= 4 && memcmp(p, "/../", 4) == 0) ||
			(left == 3 && memcmp(p, "/..", 3) == 0)) {
			in += left == 3 ? 2 : 3;
			path[in] = '/';
			while (out > 0 && path[--out] != '/')
				;
		} else if ((left == 1 && *p == '.') || (left == 2 && memcmp(p, "..", 2) == 0)) {
			in = size;
		} else {
			while (segment < left && p[segment] != '/')
				segment++;
			memmove(path + out, p, segment);
			out += segment;
			in += segment;
		}
	}
	return out;
}

static void add_path(struct buf *b, struct part path)
{
	char *copy = xmalloc(path.size + 1);

	memcpy(copy, path.at, path.size);
	buf_add(b, copy, remove_dots(copy, path.size));
	free(copy);
}

static void add_merged(struct buf *b, const struct parts *base, struct part path)
{
	struct buf merged = {0};
	size_t keep = base->path.size;

	while (keep > 0 && base->path.at[keep - 1] != '/')
		keep--;
	if (base->authority.at != NULL && base->path.size == 0)
		buf_add_text(&merged, "/");
	buf_add(&merged, base->path.at, keep);
	buf_add(&merged, path.at, path.size);
	add_path(b, (struct part){buf_text(&merged), merged.size});
	buf_fini(&merged);
}

static void add_part(struct buf *b, const char *before, struct part p, const char *behind)
{
	if (p.at == NULL)
		return;
	buf_add_text(b, before);
	buf_add(b, p.at, p.size);
	buf_add_text(b, behind);
}

char *uri_resolve(const char *base_text, const char *reference)
{
	struct parts r = parts_of(reference), base = parts_of(base_text);
	bool is_whole = r.scheme.at != NULL, has_authority = is_whole || r.authority.at != NULL;
	struct buf b = {0};
	char *out;

	add_part(&b, "", is_whole ? r.scheme : base.scheme, ":");
	add_part(&b, "//", has_authority ? r.authority : base.authority, "");
	if (has_authority || (r.path.size > 0 && *r.path.at == '/'))
		add_path(&b, r.path);
	else if (r.path.size > 0)
		add_merged(&b, &base, r.path);
	else
		buf_add(&b, base.path.at, base.path.size);
	add_part(&b, "?", has_authority || r.path.size > 0 || r.query.at != NULL ? r.query : base.query, "");
	add_part(&b, "#", r.fragment, "");
	out = xstrdup(buf_text(&b));
	buf_fini(&b);
	return out;
}

static int hex(char c)
{
	if (!isxdigit((unsigned char)c))
		return -1;
	return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

void uri_decode(char *text)
{
	char *out = text;

	for (const char *p = text; *p != '\0'; p++) {
		if (*p == '%' && hex(p[1]) >= 0 && hex(p[2]) >= 0 && (hex(p[1]) | hex(p[2])) > 0) {
			*out++ = (char)(hex(p[1]) * 16 + hex(p[2]));
			p += 2;
		} else {
			*out++ = *p;
		}
	}
	*out = '\0';
}
