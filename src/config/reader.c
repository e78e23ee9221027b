/* SPDX-License-Identifier: MIT */
/* reader.c: the values of a configuration as they are written, and the messages about them.
 * Owns the memory of both; values may be secrets, and are overwritten before they are freed.
 * Never prints a message: who reads the configuration does. */
#include "config/reader.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "config/table_private.h"

/* --- messages --- */

static void __attribute__((format(printf, 4, 0)))
add_message(struct config_reader *r, int line, bool is_error, const char *fmt, va_list args)
{
	struct buf b = {0};
	struct config_message *m;
	char *text;

	if (vasprintf(&text, fmt, args) < 0)
		abort();
	if (line > 0)
		buf_addf(&b, "%s:%d: %s", r->path, line, text);
	else
		buf_addf(&b, "%s: %s", r->path, text);
	free(text);
	r->messages = xrealloc(r->messages, (r->message_count + 1) * sizeof(*r->messages));
	m = &r->messages[r->message_count++];
	*m = (struct config_message){.line = line, .is_error = is_error};
	m->text = xstrdup(buf_text(&b));
	buf_fini(&b);
}

void config_complain(struct config_reader *r, int line, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add_message(r, line, true, fmt, args);
	va_end(args);
}

void config_warn(struct config_reader *r, int line, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add_message(r, line, false, fmt, args);
	va_end(args);
}

/* --- values --- */

void config_section_init(struct config_section *s, enum config_kind kind)
{
	*s = (struct config_section){
		.kind = kind, .values = xcalloc(config_key_count, sizeof(struct config_value))};
}

void config_section_fini(struct config_section *s)
{
	for (size_t i = 0; i < config_key_count; i++)
		xfree_secret(s->values[i].text);
	for (size_t i = 0; i < s->step_count; i++) {
		free(s->steps[i].name);
		free(s->steps[i].value.text);
	}
	free(s->steps);
	free(s->values);
	free(s->name);
}

const struct config_value *config_get(const struct config_section *s, const char *key)
{
	static const struct config_value nothing;
	const struct config_key *k = s ? config_find_key(s->kind, key) : NULL;

	assert(!s || k);
	return s ? &s->values[k - config_keys] : &nothing;
}

void config_set(struct config_section *s, const char *key, const char *text, int line)
{
	struct config_value *v = &s->values[config_find_key(s->kind, key) - config_keys];

	xfree_secret(v->text);
	*v = (struct config_value){.text = xstrdup(text), .line = line};
}

void config_fill_amqp(struct config_reader *r, const struct config_section *s, struct config *c)
{
	for (size_t i = 0; i < config_key_count; i++) {
		const struct config_key *k = &config_keys[i];
		const char *text = s->values[i].text ? s->values[i].text : k->fallback;

		if (k->kind == KIND_AMQP && text)
			config_convert(r, k, text, s->values[i].line, c);
	}
	config_finish_amqp(r, s, &c->amqp);
}

void config_reader_fini(struct config_reader *r)
{
	for (size_t i = 0; i < r->section_count; i++)
		config_section_fini(&r->sections[i]);
	for (size_t i = 0; i < r->message_count; i++)
		free(r->messages[i].text);
	free(r->sections);
	free(r->messages);
	free(r->dir);
}
