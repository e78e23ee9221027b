/* SPDX-License-Identifier: MIT */
/* ref.c: the target of a reference: a document, in it a resource, in that an anchor or the end of a pointer.
 * Owns the search for the target. Never fetches: documents come from the caller's `find` and from the
 * metaschemas. */
#include <stdlib.h>
#include <string.h>

#include "jschema/scan.h"

#define MAX_DOCUMENTS 256

static uint32_t document_load(struct compiler *c, const char *uri)
{
	const struct jschema_options *o = c->options;
	json_t *json = jschema_meta_new(uri);
	const json_t *found = NULL;

	if (json == NULL && o->find != NULL && c->js->document_count < MAX_DOCUMENTS)
		found = o->find(o->arg, uri);
	if (found != NULL)
		json = json_deep_copy(found);
	return json != NULL ? scan_document(c, json, xstrdup(uri)) : NONE;
}

uint32_t scan_root_node(struct compiler *c, uint32_t resource)
{
	uint32_t node = scan_node_find(c, c->resources[resource].root);

	return node != NONE ? node : scan_node_add(c, c->resources[resource].root, resource, "");
}

static size_t index_of(const char *token)
{
	return *token != '\0' && token[strspn(token, "0123456789")] == '\0' ? strtoul(token, NULL, 10) :
									      SIZE_MAX;
}

/* A $ref may point into an unknown keyword; the target is then compiled as a schema. */
static uint32_t node_at_pointer(struct compiler *c, uint32_t resource, char *fragment)
{
	const json_t *at = c->resources[resource].root;
	uint32_t node = scan_root_node(c, resource);

	buf_clear(&c->pointer);
	buf_add_text(&c->pointer, c->js->texts + c->js->nodes[node].pointer);
	for (char *token = fragment + 1, *next; token != NULL; token = next) {
		struct buf plain = {0};

		if ((next = strchr(token, '/')) != NULL)
			*next++ = '\0';
		for (const char *p = token; *p != '\0'; p++) {
			bool is_escape = *p == '~' && (p[1] == '0' || p[1] == '1');

			buf_add(&plain, is_escape ? (p[1] == '0' ? "~" : "/") : p, 1);
			p += is_escape;
		}
		at = json_is_array(at) ? json_array_get(at, index_of(token)) :
					 json_object_get(at, buf_text(&plain));
		scan_pointer_add(&c->pointer, buf_text(&plain));
		buf_fini(&plain);
		if (at == NULL)
			return NONE;
		if (json_is_object(at) && scan_node_find(c, at) != NONE)
			resource = c->js->nodes[scan_node_find(c, at)].resource;
	}
	if (!scan_schema(c, at, resource, 0))
		return NONE;
	node = json_is_object(at) ? scan_node_find(c, at) : NONE;
	return node != NONE ? node : scan_node_add(c, at, resource, buf_text(&c->pointer));
}

static uint32_t name_of_dynamic(struct compiler *c, const char *name)
{
	for (uint32_t i = 0; i < c->name_count; i++)
		if (strcmp(c->names[i], name) == 0)
			return i;
	c->names = scan_array_grow(c->names, c->name_count, sizeof *c->names);
	c->names[c->name_count] = name;
	return c->name_count++;
}

static uint32_t node_at_anchor(struct compiler *c, uint32_t resource, const char *name, uint32_t *dynamic)
{
	uint32_t node = NONE;

	for (uint32_t i = 0; i < c->anchor_count; i++) {
		const struct anchor *a = &c->anchors[i];

		if (a->resource != resource || strcmp(a->name, name) != 0)
			continue;
		node = scan_node_find(c, a->schema);
		if (a->is_dynamic)
			*dynamic = name_of_dynamic(c, a->name);
	}
	return node;
}

uint32_t scan_reference(
	struct compiler *c, uint32_t from, const char *keyword, const char *reference, uint32_t *dynamic)
{
	char *uri = uri_resolve(c->resources[c->js->nodes[from].resource].uri, reference),
	     *fragment = strchr(uri, '#');
	uint32_t resource, node = NONE;

	*dynamic = NONE;
	*c->why = '\0';
	if (fragment != NULL) {
		*fragment++ = '\0';
		uri_decode(fragment);
	}
	if ((resource = scan_resource_find(c, uri)) == NONE)
		resource = document_load(c, uri);
	if (resource == NONE)
		;
	else if (fragment == NULL || *fragment == '\0')
		node = scan_root_node(c, resource);
	else if (*fragment == '/')
		node = node_at_pointer(c, resource, fragment);
	else
		node = node_at_anchor(c, resource, fragment, dynamic);
	if (node == NONE && *c->why == '\0')
		scan_refuse(c, from, keyword, "\"%.200s\" leads nowhere%s", reference,
			resource == NONE ? ": no such document" : "");
	free(uri);
	return node;
}
