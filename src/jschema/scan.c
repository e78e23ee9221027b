/* SPDX-License-Identifier: MIT */
/* scan.c: takes the text of a schema apart: documents, resources ($id), anchors; ref.c follows references.
 * Owns everything that is needed only while compiling, makes the nodes, still without ops, and checks the
 * form of every value. Never sees an instance. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "jschema/scan.h"

#define MAX_NODES 1000000
#define MAX_RESOURCES 10000   /* searched one by one */
#define MAX_TEXTS (64u << 20) /* bytes of all pointers together */

/* Room for one more at the end. Sizes are powers of two, so `count` alone says when to grow. */
void *scan_array_grow(void *array, uint32_t count, size_t size)
{
	if ((count & (count - 1)) != 0)
		return array;
	return xrealloc(array, (count > 0 ? (size_t)count * 2 : 1) * size);
}

/* ---- reasons ---- */

static bool refuse_at(
	struct compiler *c, uint32_t document, const char *pointer, const char *keyword, const char *reason)
{
	const char *uri = document > 0 ? c->js->documents[document].uri : "";
	struct buf at = {0};
	size_t fits;

	buf_addf(&at, "%s%s%s%s%s", uri, *uri != '\0' ? "#" : "", pointer, keyword != NULL ? "/" : "",
		keyword != NULL ? keyword : "");
	/* cuts a long pointer, so that the reason is not cut off */
	fits = buf_utf8_cut(buf_text(&at), at.size, JSCHEMA_POINTER_SIZE);
	snprintf(c->why, c->why_size, "%.*s%s: %s", (int)fits, buf_text(&at), fits < at.size ? "..." : "",
		reason);
	if (at.size == 0)
		snprintf(c->why, c->why_size, "the schema: %s", reason);
	text_clean(c->why);
	buf_fini(&at);
	return false;
}

bool scan_refuse(struct compiler *c, uint32_t node, const char *keyword, const char *fmt, ...)
{
	const struct node *n = &c->js->nodes[node];
	char reason[JSCHEMA_WHY_SIZE];
	va_list args;

	va_start(args, fmt);
	vsnprintf(reason, sizeof reason, fmt, args);
	va_end(args);
	return refuse_at(c, n->document, c->js->texts + n->pointer, keyword, reason);
}

/* ---- nodes ---- */

void scan_pointer_add(struct buf *b, const char *token)
{
	buf_add_text(b, "/");
	for (; *token != '\0'; token++)
		if (*token == '~' || *token == '/')
			buf_add_text(b, *token == '~' ? "~0" : "~1");
		else
			buf_add(b, token, 1);
}

uint32_t scan_node_add(struct compiler *c, const json_t *json, uint32_t resource, const char *pointer)
{
	struct jschema *js = c->js;
	size_t size = strlen(pointer) + 1;
	uint32_t node = js->node_count;

	js->nodes = scan_array_grow(js->nodes, node, sizeof *js->nodes);
	c->sources = scan_array_grow(c->sources, node, sizeof *c->sources);
	js->node_count++;
	js->texts = xrealloc(js->texts, js->text_size + size);
	memcpy(js->texts + js->text_size, pointer, size);
	js->nodes[node] = (struct node){.resource = resource,
		.document = c->resources[resource].document,
		.pointer = js->text_size,
		.flags = json_is_true(json) ? N_TRUE :
			json_is_false(json) ? N_FALSE :
					      0};
	c->sources[node] = json;
	js->text_size += (uint32_t)size;
	if (json_is_object(json)) { /* jansson has one value for all true and one for all false */
		struct known *k = xmalloc(sizeof *k);

		*k = (struct known){.json = json, .node = node};
		HASH_ADD_PTR(c->known, json, k);
	}
	return node;
}

uint32_t scan_node_find(const struct compiler *c, const json_t *json)
{
	struct known *k;

	HASH_FIND_PTR(c->known, &json, k);
	return k != NULL ? k->node : NONE;
}

/* ---- the walk over a document ---- */

static bool scan_refuse_here(struct compiler *c, uint32_t resource, const char *keyword, const char *reason)
{
	return refuse_at(c, c->resources[resource].document, buf_text(&c->pointer), keyword, reason);
}

static bool scan_at(
	struct compiler *c, const json_t *schema, uint32_t resource, unsigned depth, const char *token)
{
	size_t size = c->pointer.size;
	bool ok;

	scan_pointer_add(&c->pointer, token);
	ok = scan_schema(c, schema, resource, depth + 1);
	c->pointer.size = size;
	return ok;
}

static bool scan_list(struct compiler *c, const json_t *list, uint32_t resource, unsigned depth)
{
	char token[24];

	for (size_t i = 0; i < json_array_size(list); i++) {
		snprintf(token, sizeof token, "%zu", i);
		if (!scan_at(c, json_array_get(list, i), resource, depth, token))
			return false;
	}
	return true;
}

static bool scan_map(struct compiler *c, const json_t *map, uint32_t resource, unsigned depth)
{
	json_t *m = (json_t *)(uintptr_t)map;

	for (void *i = json_object_iter(m); i != NULL; i = json_object_iter_next(m, i))
		if (!scan_at(c, json_object_iter_value(i), resource, depth, json_object_iter_key(i)))
			return false;
	return true;
}

static bool scan_children(
	struct compiler *c, const struct keyword *k, const json_t *value, uint32_t resource, unsigned depth)
{
	size_t size = c->pointer.size;
	bool ok = true;

	if (k->form < F_SCHEMA)
		return true;
	if (k->form == F_SCHEMA)
		return scan_at(c, value, resource, depth, k->name);
	scan_pointer_add(&c->pointer, k->name);
	ok = k->form == F_SCHEMAS ? scan_list(c, value, resource, depth) :
				    scan_map(c, value, resource, depth);
	c->pointer.size = size;
	return ok;
}

uint32_t scan_resource_find(const struct compiler *c, const char *uri)
{
	for (uint32_t i = 0; i < c->js->resource_count; i++)
		if (strcmp(c->resources[i].uri, uri) == 0 ||
			(c->resources[i].alias != NULL && strcmp(c->resources[i].alias, uri) == 0))
			return i;
	return NONE;
}

static void resource_add(
	struct compiler *c, char *uri, const json_t *root, uint32_t document, uint32_t vocabulary)
{
	c->resources = scan_array_grow(c->resources, c->js->resource_count, sizeof *c->resources);
	c->resources[c->js->resource_count++] =
		(struct resource){.uri = uri, .root = root, .document = document, .vocabulary = vocabulary};
}

/* $id: at a document's root it names the resource that exists already; elsewhere it begins a new resource. */
static bool scan_id(struct compiler *c, const json_t *schema, const char *id, uint32_t *resource)
{
	struct resource *r = &c->resources[*resource];
	char *uri = uri_resolve(r->uri, id);
	uint32_t known;

	uri[strcspn(uri, "#")] = '\0';
	known = scan_resource_find(c, uri);
	if ((known != NONE && !(known == *resource && r->root == schema)) ||
		c->js->resource_count >= MAX_RESOURCES) {
		free(uri);
		return scan_refuse_here(c, *resource, "$id",
			known != NONE ? "names a resource a second time" : "too many resources");
	}
	if (r->root == schema) {
		free(r->alias);
		r->alias = r->uri;
		r->uri = uri;
		return true;
	}
	resource_add(c, uri, schema, r->document, r->vocabulary);
	*resource = c->js->resource_count - 1;
	return true;
}

static bool scan_anchor(struct compiler *c, const json_t *schema, uint32_t resource, const char *keyword)
{
	const char *name = json_string_value(json_object_get(schema, keyword));

	if (name == NULL)
		return true;
	for (uint32_t i = 0; i < c->anchor_count; i++)
		if (c->anchors[i].resource == resource && strcmp(c->anchors[i].name, name) == 0 &&
			c->anchors[i].schema != schema)
			return scan_refuse_here(
				c, resource, keyword, "names a second place in the same resource");
	c->anchors = scan_array_grow(c->anchors, c->anchor_count, sizeof *c->anchors);
	c->anchors[c->anchor_count++] = (struct anchor){name, schema, resource, keyword[1] == 'd'};
	return true;
}

/* $schema of a resource's root: the vocabularies of its keywords. */
static bool scan_dialect(struct compiler *c, const char *text, uint32_t resource)
{
	const struct jschema_options *o = c->options;
	char *uri = uri_resolve("", text);
	const json_t *meta, *value;
	const char *name;
	uint32_t all = V_OLD;

	uri[strcspn(uri, "#")] = '\0';
	if (strcmp(uri, JSCHEMA_META_URI) == 0) {
		free(uri);
		return true;
	}
	meta = o->find != NULL ? o->find(o->arg, uri) : NULL;
	free(uri);
	if (meta == NULL)
		return scan_refuse_here(c, resource, "$schema", "is not the dialect " JSCHEMA_META_URI);
	if (!json_is_object(json_object_get(meta, "$vocabulary")))
		return true;
	json_object_foreach(json_object_get(meta, "$vocabulary"), name, value) {
		if (jschema_vocabulary_find(name) == 0 && json_is_true(value))
			return scan_refuse_here(
				c, resource, "$schema", "needs a vocabulary that is not known here");
		all |= jschema_vocabulary_find(name);
	}
	c->resources[resource].vocabulary = all;
	return true;
}

static bool scan_keywords(struct compiler *c, const json_t *schema, uint32_t resource, unsigned depth)
{
	json_t *s = (json_t *)(uintptr_t)schema;

	for (void *i = json_object_iter(s); i != NULL; i = json_object_iter_next(s, i)) {
		const struct keyword *k = jschema_keyword_find(json_object_iter_key(i));
		const json_t *value = json_object_iter_value(i);
		const char *fault;

		if (k == NULL || !(k->vocabulary & c->resources[resource].vocabulary))
			continue;
		if ((fault = jschema_form_fault(k, value)) != NULL)
			return scan_refuse_here(c, resource, k->name, fault);
		if (!scan_children(c, k, value, resource, depth))
			return false;
	}
	return true;
}

bool scan_schema(struct compiler *c, const json_t *schema, uint32_t resource, unsigned depth)
{
	const json_t *id = json_object_get(schema, "$id"), *dialect = json_object_get(schema, "$schema");

	if (depth > JSCHEMA_MAX_NESTING || c->js->node_count >= MAX_NODES || c->js->text_size >= MAX_TEXTS)
		return scan_refuse_here(c, resource, NULL, "nested too deeply, or too much");
	if (json_is_boolean(schema) || (json_is_object(schema) && scan_node_find(c, schema) != NONE))
		return true;
	if (!json_is_object(schema))
		return scan_refuse_here(c, resource, NULL, "must be a schema: an object, true or false");
	if (id != NULL && jschema_form_fault(jschema_keyword_find("$id"), id) != NULL)
		return scan_refuse_here(
			c, resource, "$id", jschema_form_fault(jschema_keyword_find("$id"), id));
	if (id != NULL && !scan_id(c, schema, json_string_value(id), &resource))
		return false;
	if (json_is_string(dialect) && c->resources[resource].root == schema &&
		!scan_dialect(c, json_string_value(dialect), resource))
		return false;
	scan_node_add(c, schema, resource, buf_text(&c->pointer));
	return scan_keywords(c, schema, resource, depth) && scan_anchor(c, schema, resource, "$anchor") &&
		scan_anchor(c, schema, resource, "$dynamicAnchor");
}

/* Takes ownership of json and uri. Returns the resource of the root, or NONE. */
uint32_t scan_document(struct compiler *c, json_t *json, char *uri)
{
	struct jschema *js = c->js;
	uint32_t resource = js->resource_count;

	js->documents = scan_array_grow(js->documents, js->document_count, sizeof *js->documents);
	js->documents[js->document_count++] = (struct document){json, uri};
	resource_add(c, xstrdup(uri), json, js->document_count - 1, V_USUAL);
	buf_clear(&c->pointer);
	return scan_schema(c, json, resource, 0) ? resource : NONE;
}

/* ---- for compile.c ---- */

struct source scan_source(const struct compiler *c, uint32_t node)
{
	return (struct source){c->sources[node], c->resources[c->js->nodes[node].resource].vocabulary};
}

uint32_t scan_child(struct compiler *c, uint32_t parent, const json_t *child, const char *keyword,
	const char *key, size_t index)
{
	uint32_t node = json_is_object(child) ? scan_node_find(c, child) : NONE;
	char number[24];

	if (node != NONE)
		return node;
	buf_clear(&c->pointer);
	buf_add_text(&c->pointer, c->js->texts + c->js->nodes[parent].pointer);
	scan_pointer_add(&c->pointer, keyword);
	snprintf(number, sizeof number, "%zu", index);
	if (key != NULL || index != SIZE_MAX)
		scan_pointer_add(&c->pointer, key != NULL ? key : number);
	return scan_node_add(c, child, c->js->nodes[parent].resource, buf_text(&c->pointer));
}

/* All nodes are known now: makes the table of dynamic anchors. */
void scan_finish(struct compiler *c)
{
	struct jschema *js = c->js;
	size_t size = (size_t)c->name_count * js->resource_count;

	js->dynamic = xmalloc((size + 1) * sizeof *js->dynamic);
	memset(js->dynamic, 0xff, (size + 1) * sizeof *js->dynamic);
	for (uint32_t i = 0; i < c->anchor_count; i++)
		for (uint32_t n = 0; n < c->name_count; n++)
			if (c->anchors[i].is_dynamic && strcmp(c->anchors[i].name, c->names[n]) == 0)
				js->dynamic[(size_t)n * js->resource_count + c->anchors[i].resource] =
					scan_node_find(c, c->anchors[i].schema);
}

struct compiler *scan_new(struct jschema *js, const struct jschema_options *o, char *why, size_t why_size)
{
	struct compiler *c = xcalloc(1, sizeof *c);

	c->js = js;
	c->options = o;
	c->why = why;
	c->why_size = why_size;
	return c;
}

bool scan_root(struct compiler *c, const json_t *schema)
{
	const char *base = c->options->base_uri != NULL ? c->options->base_uri : "";
	uint32_t resource = scan_document(c, json_deep_copy(schema), xstrndup(base, strcspn(base, "#")));

	if (resource == NONE)
		return false;
	c->js->root = scan_root_node(c, resource);
	return true;
}

void scan_free(struct compiler *c)
{
	struct known *k, *next;

	HASH_ITER(hh, c->known, k, next) {
		HASH_DEL(c->known, k);
		free(k);
	}
	for (uint32_t i = 0; i < c->js->resource_count; i++) {
		free(c->resources[i].uri);
		free(c->resources[i].alias);
	}
	free(c->resources);
	free(c->anchors);
	free(c->names);
	free(c->sources);
	buf_fini(&c->pointer);
	free(c);
}
