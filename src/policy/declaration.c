/* SPDX-License-Identifier: MIT */
/* declaration.c: the sentences about a declaration file.
 * Owns how a place in the file is named and how a wrong type is reported. Never knows which members there
 * are (capability.c, risk_read.c, envelope.c). */
#include "policy/declaration.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/name.h"

static void __attribute__((format(printf, 4, 0)))
report(struct declaration *d, bool is_error, const struct declared *where, const char *fmt, va_list args)
{
	char text[1024];
	struct buf b = {0};

	vsnprintf(text, sizeof text, fmt, args);
	buf_addf(&b, "%s: %s: %s", d->path, where->at, text);
	d->errors += is_error;
	d->say(d->ctx, is_error, buf_text(&b));
	buf_fini(&b);
}

void declaration_complain(struct declaration *d, const struct declared *where, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	report(d, true, where, fmt, args);
	va_end(args);
}

void declaration_complain_inside(struct declaration *d, const struct declared *where, const char *why)
{
	struct buf b = {0};

	buf_addf(&b, "%s: %s%s%s", d->path, where->at, *why == '/' ? "" : ": ", why);
	d->errors++;
	d->say(d->ctx, true, buf_text(&b));
	buf_fini(&b);
}

void declaration_warn(struct declaration *d, const struct declared *where, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	report(d, false, where, fmt, args);
	va_end(args);
}

/* --- places --- */

struct declared declared_member(const struct declared *object, const char *name)
{
	struct declared v = {.value = json_object_get(object->value, name)};
	size_t used = (size_t)snprintf(v.at, sizeof v.at, "%s/", object->at);

	for (; *name != '\0' && used + 3 < sizeof v.at; name++) {
		if (*name == '~' || *name == '/') {
			v.at[used++] = '~';
			v.at[used++] = *name == '~' ? '0' : '1';
		} else {
			v.at[used++] = *name;
		}
	}
	if (used < sizeof v.at)
		v.at[used] = '\0';
	return v;
}

struct declared declared_item(const struct declared *array, size_t index)
{
	struct declared v = {.value = json_array_get(array->value, index)};

	if (snprintf(v.at, sizeof v.at, "%s/%zu", array->at, index) >= (int)sizeof v.at)
		v.at[sizeof v.at - 1] = '\0';
	return v;
}

/* --- types --- */

static const char *kind_of(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT: return "an object";
	case JSON_ARRAY: return "an array";
	case JSON_STRING: return json_string_length(value) == 0 ? "empty" : "a string";
	case JSON_INTEGER: return "a whole number";
	case JSON_REAL: return "a real number";
	case JSON_TRUE:
	case JSON_FALSE: return "a boolean";
	case JSON_NULL: return "null";
	}
	return "something else";
}

void declared_complain_kind(struct declaration *d, const struct declared *v, const char *form)
{
	declaration_complain(d, v, "is %s; write %s", v->value ? kind_of(v->value) : "missing", form);
}

#define DECLARED_IS(name, holds) \
	bool declared_is_##name(struct declaration *d, const struct declared *v, const char *form) \
	{ \
		if (holds) \
			return true; \
		declared_complain_kind(d, v, form); \
		return false; \
	}

DECLARED_IS(object, json_is_object(v->value))
DECLARED_IS(array, json_is_array(v->value))
DECLARED_IS(text, json_is_string(v->value) && json_string_length(v->value) > 0)
DECLARED_IS(number, json_is_number(v->value))

enum risk declared_risk(struct declaration *d, const struct declared *v)
{
	static const char form[] = "\"R1\" to \"R5\"";
	const char *text = json_string_value(v->value);

	if (text && text[0] == 'R' && text[1] >= '1' && text[1] <= '5' && text[2] == '\0')
		return (enum risk)(text[1] - '0');
	if (text)
		declaration_complain(d, v, "is \"%.20s\"; write %s", text, form);
	else
		declared_complain_kind(d, v, form);
	return R_NONE;
}

/* has_own: members that begin with x- are allowed. */
static void check_names(
	struct declaration *d, const struct declared *object, const char *const *names, bool has_own)
{
	const char *name, *near,
		*other = has_own ?
		"leave it out, or let its name begin with x- where it is another program's" :
		"leave it out";
	json_t *value;
	size_t count = 0, i;

	while (names[count])
		count++;
	/* jansson's iterators take no const, although they change nothing; json_object_foreach hides that no
	 * better */
	void *iter = json_object_iter((json_t *)(uintptr_t)object->value);

	for (; iter; iter = json_object_iter_next((json_t *)(uintptr_t)object->value, iter)) {
		struct declared member;

		name = json_object_iter_key(iter);
		value = json_object_iter_value(iter);
		for (i = 0; i < count && strcmp(names[i], name) != 0; i++)
			;
		if (i < count || (has_own && strncmp(name, "x-", 2) == 0) ||
			(strcmp(name, "description") == 0 && json_is_string(value)))
			continue;
		member = declared_member(object, name);
		near = name_find_nearest(name, names, count);
		declaration_complain(d, &member, "is not known here; %s%s%s", near ? "did you mean " : other,
			near ? near : "", near ? "?" : "");
	}
}

void declared_only(struct declaration *d, const struct declared *object, const char *const *names)
{
	check_names(d, object, names, false);
}

void declared_only_or_own(struct declaration *d, const struct declared *object, const char *const *names)
{
	check_names(d, object, names, true);
}
