/* SPDX-License-Identifier: MIT */
/* diff.c: two JSON values side by side.
 * Owns the walk through both. Pure. Never looks for values that moved from one place to another. */
#include "json/diff.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

struct walk {
	struct buf path;
	size_t count;
	jdiff_fn *fn;
	void *ctx;
};

static void compare(struct walk *w, const json_t *was, const json_t *is);

static void say(struct walk *w, const json_t *was, const json_t *is)
{
	w->count++;
	if (w->fn != NULL)
		w->fn(w->ctx, buf_text(&w->path), was, is);
}

/* Appends one step to the path, and removes it afterwards. */
static void at_name(struct walk *w, const char *name, const json_t *was, const json_t *is)
{
	size_t before = w->path.size;

	buf_add_text(&w->path, "/");
	for (; *name != '\0'; name++)
		if (*name == '~' || *name == '/')
			buf_add_text(&w->path, *name == '~' ? "~0" : "~1");
		else
			buf_add(&w->path, name, 1);
	if (was == NULL || is == NULL)
		say(w, was, is);
	else
		compare(w, was, is);
	w->path.size = before;
}

static void at_index(struct walk *w, size_t n, const json_t *was, const json_t *is)
{
	char name[24];

	snprintf(name, sizeof name, "%zu", n);
	at_name(w, name, was, is);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of both objects, sorted; a common name stands there twice. */
static const char **names_of(const json_t *was, const json_t *is, size_t *count)
{
	const json_t *const both[] = {was, is};
	const char **names = xcalloc(json_object_size(was) + json_object_size(is) + 1, sizeof *names);

	*count = 0;
	for (size_t i = 0; i < 2; i++) {
		/* jansson's iterator takes no const, but changes nothing. */
		json_t *o = (json_t *)(uintptr_t)both[i];

		for (void *at = json_object_iter(o); at != NULL; at = json_object_iter_next(o, at))
			names[(*count)++] = json_object_iter_key(at);
	}
	qsort(names, *count, sizeof *names, by_name);
	return names;
}

static void compare_objects(struct walk *w, const json_t *was, const json_t *is)
{
	size_t count;
	const char **names = names_of(was, is, &count);

	for (size_t i = 0; i < count; i++)
		if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
			at_name(w, names[i], json_object_get(was, names[i]), json_object_get(is, names[i]));
	free(names);
}

static void compare_arrays(struct walk *w, const json_t *was, const json_t *is)
{
	size_t a = json_array_size(was), b = json_array_size(is), first = 0, i;

	while (first < a && first < b && json_equal(json_array_get(was, first), json_array_get(is, first)))
		first++;
	while (a > first && b > first && json_equal(json_array_get(was, a - 1), json_array_get(is, b - 1)))
		a--, b--;
	for (i = first; i < a && i < b; i++)
		at_index(w, i, json_array_get(was, i), json_array_get(is, i));
	for (size_t n = i; n < a; n++)
		at_index(w, n, json_array_get(was, n), NULL);
	for (size_t n = i; n < b; n++)
		at_index(w, n, NULL, json_array_get(is, n));
}

static void compare(struct walk *w, const json_t *was, const json_t *is)
{
	if (json_is_object(was) && json_is_object(is))
		compare_objects(w, was, is);
	else if (json_is_array(was) && json_is_array(is))
		compare_arrays(w, was, is);
	else if (!json_equal(was, is))
		say(w, was, is);
}

size_t jdiff(const json_t *was, const json_t *is, jdiff_fn *fn, void *ctx)
{
	struct walk w = {.fn = fn, .ctx = ctx};

	compare(&w, was, is);
	buf_fini(&w.path);
	return w.count;
}
