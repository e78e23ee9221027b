/* SPDX-License-Identifier: MIT */
/* event.c: values out of an event, so that a small application needs no JSON library.
 * Owns the dotted paths. Never changes a message. */
#include <stdio.h>
#include <string.h>

#include "json/text.h"
#include "libhcp/libhcp_private.h"

#define NAME_MAX_BYTES 256

/* One step of a dotted path into name; false where it is empty or too long. */
static bool take_name(const char **path, char name[NAME_MAX_BYTES])
{
	size_t size = strcspn(*path, ".");

	if (size == 0 || size >= NAME_MAX_BYTES)
		return false;
	memcpy(name, *path, size);
	name[size] = '\0';
	*path += size + ((*path)[size] == '.');
	return true;
}

static const json_t *find(const struct hcp_event *e, const char *path)
{
	struct lib_message *n = e->note;
	const json_t *v = n ? json_object_get(lib_message_tree(n), "payload") : NULL;
	char name[NAME_MAX_BYTES];

	while (v && *path)
		v = take_name(&path, name) ? json_object_get(v, name) : NULL;
	return v;
}

HCP_API const char *hcp_get_text(const struct hcp_event *e, const char *path)
{
	return json_string_value(find(e, path));
}

HCP_API int hcp_get_number(const struct hcp_event *e, const char *path, double *value)
{
	const json_t *v = find(e, path);

	if (!json_is_number(v))
		return -1;
	*value = json_number_value(v);
	return 0;
}

HCP_API const char *hcp_get_json(const struct hcp_event *e, const char *path, size_t *size)
{
	struct jslice at = {e->body, e->size};
	char name[NAME_MAX_BYTES] = "payload";

	*size = 0;
	if (!find(e, path))
		return NULL;
	for (at = jtext_member(at.at, at.size, name); at.at && *path;) {
		if (!take_name(&path, name))
			return NULL;
		at = jtext_member(at.at, at.size, name);
	}
	*size = at.size;
	return at.at;
}
