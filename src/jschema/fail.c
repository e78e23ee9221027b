/* SPDX-License-Identifier: MIT */
/* fail.c: the first failure of a check, as pointers and as a sentence.
 * Owns all text that people read, except for the ends of sentences, which stand where the failure is found.
 * Never repeats text of the instance, only names of properties; values from the schema may be repeated. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jschema/jschema_private.h"

/* A fixed text that is cut at a character. */
struct cut {
	char *text;
	size_t room, size;
	bool is_full;
};

static void cut_add(struct cut *t, const char *text, size_t size)
{
	size_t fits = t->is_full ? 0 : buf_utf8_cut(text, size, t->room - 1 - t->size);

	memcpy(t->text + t->size, text, fits);
	t->size += fits;
	t->text[t->size] = '\0';
	t->is_full = t->is_full || fits < size;
}

static void cut_add_text(struct cut *t, const char *text)
{
	cut_add(t, text, strlen(text));
}

static void cut_add_token(struct cut *t, const char *token)
{
	cut_add(t, "/", 1);
	for (size_t plain; *token != '\0'; token += plain) {
		plain = strcspn(token, "~/");
		cut_add(t, token, plain);
		if (token[plain] == '\0')
			return;
		cut_add_text(t, token[plain] == '~' ? "~0" : "~1");
		plain++;
	}
}

/* Recursion goes from the leaf up, so that the path is written from the root down. */
static void add_place(struct cut *t, const struct place *p)
{
	const struct place *way[JSCHEMA_MAX_DEPTH + 1];
	size_t count = 0;
	char number[24];

	for (; p->up != NULL && count < sizeof way / sizeof *way; p = p->up)
		way[count++] = p;
	while (count-- > 0) {
		snprintf(number, sizeof number, "%zu", way[count]->index);
		cut_add_token(t, way[count]->key != NULL ? way[count]->key : number);
	}
}

static void add_schema(struct cut *t, const struct jschema *js, uint32_t node, const char *keyword)
{
	const struct node *n = &js->nodes[node];

	if (n->document > 0) {
		cut_add_text(t, js->documents[n->document].uri);
		cut_add_text(t, "#");
	}
	cut_add_text(t, js->texts + n->pointer);
	if (*keyword != '\0')
		cut_add_token(t, keyword);
}

/* Replaces control characters, also U+0080 to U+009F, and halves of characters that a cut has left. */
void text_clean(char *text)
{
	unsigned char *p = (unsigned char *)text;

	for (size_t left = strlen(text), size; left > 0; p += size, left -= size) {
		size = buf_utf8_size(p, left);
		if (size == 0 || *p < ' ' || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0)) {
			size = size > 0 ? size : 1;
			memset(p, '?', size);
		}
	}
}

static void describe(
	struct check *c, const struct frame *f, const char *keyword, const char *property, const char *text)
{
	struct jschema_failure *fail = c->failure;
	struct cut place = {fail->instance, sizeof fail->instance, 0, false};
	struct cut schema = {fail->schema, sizeof fail->schema, 0, false};
	struct cut name = {fail->property, sizeof fail->property, 0, false};
	struct cut message = {fail->message, sizeof fail->message, 0, false};

	*fail = (struct jschema_failure){.keyword = keyword, .is_limit = c->is_limit};
	add_place(&place, f->place);
	add_schema(&schema, c->js, f->node, keyword);
	cut_add_text(&name, property);
	cut_add_text(&message, *fail->instance != '\0' ? fail->instance : "the value");
	cut_add_text(&message, " ");
	cut_add_text(&message, text);
	if (*property != '\0') {
		cut_add_text(&message, " \"");
		cut_add_text(&message, fail->property);
		cut_add_text(&message, "\"");
	}
	text_clean(fail->message);
}

static bool is_wanted(const struct check *c)
{
	return c->failure != NULL && c->quiet == 0 && !c->is_limit;
}

static const char *name_of(const struct op *op, const char *keyword)
{
	return keyword != NULL ? keyword : jschema_keywords[op->keyword].name;
}

bool match_fail(struct check *c, const struct frame *f, const struct op *op, const char *keyword,
	const char *fmt, ...)
{
	char text[JSCHEMA_MESSAGE_SIZE];
	va_list args;

	if (!is_wanted(c))
		return false;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	describe(c, f, name_of(op, keyword), "", text);
	return false;
}

bool match_fail_property(struct check *c, const struct frame *f, const struct op *op, const char *keyword,
	const char *property, const char *text)
{
	if (is_wanted(c))
		describe(c, f, name_of(op, keyword), property, text);
	return false;
}

bool match_fail_false(struct check *c, const struct frame *f)
{
	if (is_wanted(c))
		describe(c, f, "", "", "is not allowed here");
	return false;
}

/* Reported also inside `not` and the like; the check then stops. */
bool match_fail_limit(struct check *c, const struct frame *f, const char *text)
{
	c->steps = 0;
	if (c->is_limit)
		return false;
	c->is_limit = true;
	if (c->failure != NULL)
		describe(c, f, "", "", text);
	return false;
}
