/* SPDX-License-Identifier: MIT */
/* pointer.c: JSON pointers and the comparison of scalars.
 * Owns how a pointer is split and followed. Never prints an error: a missing value is NULL. */
#include "json/pointer.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define NO_INDEX SIZE_MAX

struct step {
	size_t at, size; /* in names */
	size_t index;    /* NO_INDEX: it cannot be the index of an item */
};

struct jpoint {
	char text[JPOINT_TEXT_MAX + 1];
	char names[JPOINT_TEXT_MAX + 1]; /* unescaped names, one behind the other */
	size_t count;
	struct step steps[JPOINT_STEPS_MAX];
};

/* "0", or digits that do not begin with 0. Nine digits are more items than a message can have. */
static size_t read_index(const char *name, size_t size)
{
	size_t index = 0;

	if (size == 0 || size > 9 || (size > 1 && name[0] == '0'))
		return NO_INDEX;
	for (size_t i = 0; i < size; i++) {
		if (name[i] < '0' || name[i] > '9')
			return NO_INDEX;
		index = index * 10 + (size_t)(name[i] - '0');
	}
	return index;
}

static bool split(struct jpoint *p, const char *text, size_t size)
{
	size_t used = 0, i = 0;

	while (i < size) {
		struct step *s = &p->steps[p->count];

		if (text[i] != '/' || p->count == JPOINT_STEPS_MAX)
			return false;
		s->at = used;
		for (i++; i < size && text[i] != '/'; i++) {
			char c = text[i];

			if (c == '\0')
				return false;
			if (c == '~') {
				if (++i == size || (text[i] != '0' && text[i] != '1'))
					return false;
				c = text[i] == '0' ? '~' : '/';
			}
			p->names[used++] = c;
		}
		s->size = used - s->at;
		s->index = read_index(p->names + s->at, s->size);
		p->count++;
	}
	return true;
}

struct jpoint *jpoint_new(const char *text, size_t size)
{
	struct jpoint *p;

	if (size > JPOINT_TEXT_MAX)
		return NULL;
	p = xcalloc(1, sizeof *p);
	memcpy(p->text, text, size);
	if (split(p, text, size))
		return p;
	free(p);
	return NULL;
}

struct jpoint *jpoint_new_member(const char *name)
{
	struct buf b = {0};
	struct jpoint *p;

	buf_add_text(&b, "/");
	for (; *name != '\0'; name++)
		buf_add(&b,
			*name == '~'         ? "~0" :
				*name == '/' ? "~1" :
					       name,
			*name == '~' || *name == '/' ? 2 : 1);
	p = jpoint_new(b.data, b.size);
	buf_fini(&b);
	return p;
}

void jpoint_free(struct jpoint *p)
{
	free(p);
}

const char *jpoint_text(const struct jpoint *p)
{
	return p->text;
}

static const json_t *follow(const struct jpoint *p, const json_t *at, size_t steps)
{
	for (size_t i = 0; i < steps && at != NULL; i++) {
		const struct step *s = &p->steps[i];

		if (json_is_object(at))
			at = json_object_getn(at, p->names + s->at, s->size);
		else if (json_is_array(at) && s->index != NO_INDEX)
			at = json_array_get(at, s->index);
		else
			at = NULL;
	}
	return at;
}

const json_t *jpoint_get(const struct jpoint *p, const json_t *root)
{
	return follow(p, root, p->count);
}

bool jpoint_put(const struct jpoint *p, json_t *root, json_t *value)
{
	const struct step *last;
	json_t *parent;

	if (p->count == 0)
		return false;
	last = &p->steps[p->count - 1];
	/* The caller lets this function change the root and everything in it. */
	parent = (json_t *)(uintptr_t)follow(p, root, p->count - 1);
	if (json_is_object(parent) && value == NULL)
		return json_object_deln(parent, p->names + last->at, last->size) == 0;
	if (json_is_object(parent))
		return json_object_setn(parent, p->names + last->at, last->size, value) == 0;
	return json_is_array(parent) && value != NULL && last->index != NO_INDEX &&
		json_array_set(parent, last->index, value) == 0;
}

/* 2^63 and -2^63 are doubles; between them, a double cut to a whole number is exact. */
static int compare_mixed(json_int_t whole, double real)
{
	double cut = trunc(real);

	if (real >= 0x1p63)
		return -1;
	if (real < -0x1p63)
		return 1;
	if (whole != (json_int_t)cut)
		return whole < (json_int_t)cut ? -1 : 1;
	return real > cut ? -1 : real < cut ? 1 : 0;
}

int jpoint_compare(const json_t *a, const json_t *b)
{
	if (json_is_integer(a) && json_is_integer(b))
		return (json_integer_value(a) > json_integer_value(b)) -
			(json_integer_value(a) < json_integer_value(b));
	if (json_is_integer(a))
		return compare_mixed(json_integer_value(a), json_real_value(b));
	if (json_is_integer(b))
		return -compare_mixed(json_integer_value(b), json_real_value(a));
	return (json_real_value(a) > json_real_value(b)) - (json_real_value(a) < json_real_value(b));
}

bool jpoint_same(const json_t *a, const json_t *b)
{
	if (json_is_number(a) && json_is_number(b))
		return jpoint_compare(a, b) == 0;
	if (a == NULL || b == NULL || json_typeof(a) != json_typeof(b) || json_is_array(a) ||
		json_is_object(a))
		return false;
	return json_equal(a, b) != 0;
}
