/* SPDX-License-Identifier: MIT */
/* scan.h: what scan.c and ref.c share while a schema is compiled. No other file includes it. */
#ifndef HCPD_JSCHEMA_SCAN_H
#define HCPD_JSCHEMA_SCAN_H

#include <uthash.h>

#include "jschema/jschema_private.h"

struct resource {
	char *uri, *alias; /* found by $id, or by the URI of its document */
	const json_t *root;
	uint32_t document;
	uint32_t vocabulary;
};

struct anchor {
	const char *name;
	const json_t *schema;
	uint32_t resource;
	bool is_dynamic;
};

struct known { /* a schema's value and its node */
	const json_t *json;
	uint32_t node;
	UT_hash_handle hh;
};

struct compiler {
	struct jschema *js;
	const struct jschema_options *options;
	char *why;
	size_t why_size;
	struct resource *resources;
	struct anchor *anchors;
	const char **names;     /* names of dynamic anchors that references use */
	const json_t **sources; /* of nodes */
	struct known *known;
	uint32_t anchor_count, name_count;
	struct buf pointer; /* pointer to the schema that is being scanned */
};

/* Room for one more at the end. */
void *scan_array_grow(void *array, uint32_t count, size_t size);
void scan_pointer_add(struct buf *b, const char *token);
uint32_t scan_node_add(struct compiler *c, const json_t *json, uint32_t resource, const char *pointer);
uint32_t scan_node_find(const struct compiler *c, const json_t *json);
uint32_t scan_resource_find(const struct compiler *c, const char *uri);
/* Scans a schema and everything in it; c->pointer says where it stands. */
bool scan_schema(struct compiler *c, const json_t *schema, uint32_t resource, unsigned depth);
/* Takes ownership of json and uri. Returns the resource of the root, or NONE. */
uint32_t scan_document(struct compiler *c, json_t *json, char *uri);
/* ref.c */
uint32_t scan_root_node(struct compiler *c, uint32_t resource);

#endif
