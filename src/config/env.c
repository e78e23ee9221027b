/* SPDX-License-Identifier: MIT */
/* env.c: the variables that a capability's workers get on top of the usual ones.
 * Owns env, pass_env and env_file, and which of them wins.
 * Never prints a value: these are where secrets are handed over. */
#include "base/io.h"
#include "base/buf.h"
#include "config/table_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/shellwords.h"

#define ENV_FILE_MAX (1 << 20)

struct env_list {
	char **vars; /* NAME=value */
	size_t count;
};

/* How long the name at text is; 0 where none is followed by =, or by the end where `alone`. */
static size_t name_size(const char *text, bool alone)
{
	size_t size = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

	if (size == 0 || (*text >= '0' && *text <= '9') || text[size] != (alone ? '\0' : '='))
		return 0;
	return size;
}

static bool is_ours(const char *name)
{
	return strncmp(name, "HCP_", 4) == 0;
}

/* The one that comes later wins, and takes the place of the earlier. Takes var. */
static void put(struct env_list *l, char *var, size_t size)
{
	for (size_t i = 0; i < l->count; i++) {
		if (strncmp(l->vars[i], var, size + 1) == 0) {
			xfree_secret(l->vars[i]);
			l->vars[i] = var;
			return;
		}
	}
	l->vars = xrealloc(l->vars, (l->count + 2) * sizeof(*l->vars));
	l->vars[l->count++] = var;
	l->vars[l->count] = NULL;
}

static void put_pair(struct env_list *l, const char *name, size_t size, const char *value)
{
	struct buf b = {0};

	buf_add(&b, name, size);
	buf_add_text(&b, "=");
	buf_add_text(&b, value);
	buf_text(&b);
	put(l, b.data, size); /* the buffer's memory moves over */
}

/* --- env_file --- */

static void read_file_line(
	struct config_reader *r, const char *path, int line, char *text, int ini_line, struct env_list *l)
{
	size_t size;
	char *value;

	text += strspn(text, " \t");
	if (*text == '\0' || *text == '#')
		return;
	size = name_size(text, false);
	if (size == 0 || is_ours(text)) {
		config_complain(r, ini_line, "env_file %s:%d: %s", path, line,
			size ? "names with HCP_ are hcpd's own; choose another" :
			       "this is no NAME=value line; a name has letters, digits and _, and = follows "
			       "it at once");
		return;
	}
	value = shellwords_unquote(text + size + 1);
	put_pair(l, text, size, value);
	xfree_secret(value);
}

static void read_file_text(
	struct config_reader *r, const char *path, struct buf *text, int ini_line, struct env_list *l)
{
	char *p, *end;
	int line = 0;

	buf_add(text, "\n", 1);
	p = text->data;
	end = text->data + text->size;
	if (text->size > 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
		p += 3;
	while (p < end) {
		char *newline = memchr(p, '\n', (size_t)(end - p)), *last = newline;

		line++;
		while (last > p && strchr(" \t\r", last[-1]))
			last--;
		*last = '\0';
		read_file_line(r, path, line, p, ini_line, l);
		p = newline + 1;
	}
}

static void add_file(struct config_reader *r, const struct config_value *v, struct env_list *l)
{
	char *plain = shellwords_unquote(v->text), *path = config_absolute(r, plain);
	struct buf text = {0};
	struct stat st;

	free(plain);
	if (io_read_file(path, ENV_FILE_MAX, &text, &st) < 0)
		config_complain(r, v->line, "env_file %s cannot be read: %s; hcpd's user needs to", path,
			errno == EFBIG ? "it is over 1 MiB" : strerror(errno));
	else if (st.st_mode & (S_IRWXG | S_IRWXO))
		config_complain(r, v->line,
			"env_file %s has mode %04o, so others can get at its secrets; chmod 600 it", path,
			st.st_mode & 07777);
	else if (text.size > 0 && memchr(text.data, '\0', text.size))
		config_complain(r, v->line, "env_file %s has a NUL byte in it; write NAME=value lines", path);
	else
		read_file_text(r, path, &text, v->line, l);
	if (text.data)
		explicit_bzero(text.data, text.room);
	buf_fini(&text);
	config_add_secret(r, path);
}

/* --- pass_env, env --- */

static void add_passed(struct config_reader *r, const struct config_value *v, struct env_list *l)
{
	char **names = shellwords_split_list(v->text);

	for (char **n = names; *n; n++) {
		const char *value = getenv(*n);

		if (!name_size(*n, true))
			config_complain(r, v->line,
				"pass_env: %.*s%s is no name of a variable; write names only, with letters, "
				"digits and _",
				(int)strcspn(*n, "="), *n, strchr(*n, '=') ? "=..." : "");
		else if (is_ours(*n))
			config_complain(
				r, v->line, "pass_env: names with HCP_ are hcpd's own; leave %s out", *n);
		else if (!value)
			config_warn(r, v->line,
				"pass_env: %s is not set in hcpd's environment; workers go without it", *n);
		else
			put_pair(l, *n, strlen(*n), value);
	}
	shellwords_free(names);
}

static void add_given(struct config_reader *r, const struct config_value *v, struct env_list *l)
{
	const char *why = NULL;
	char **words = shellwords_split(v->text, &why);

	if (!words)
		config_complain(r, v->line,
			"env cannot be split into words: %s; write NAME=value NAME='two words'", why);
	for (char **w = words; w && *w; w++) {
		size_t size = name_size(*w, false);

		if (size == 0) /* the word may be half a secret: it is not shown */
			config_complain(r, v->line,
				"env: word %zu is no NAME=value; write NAME=value NAME='two words'",
				(size_t)(w - words) + 1);
		else if (is_ours(*w))
			config_complain(r, v->line, "env: names with HCP_ are hcpd's own; leave %.*s out",
				(int)size, *w);
		else
			put(l, xstrdup(*w), size);
	}
	shellwords_free(words);
}

void config_finish_env(struct config_reader *r, const struct config_section *s, struct config_capability *cc)
{
	struct env_list l = {.vars = xcalloc(1, sizeof(char *))};
	const struct config_value *file = config_get(s, "env_file"), *passed = config_get(s, "pass_env");
	const struct config_value *given = config_get(s, "env");

	if (file->text) /* weakest first */
		add_file(r, file, &l);
	if (passed->text)
		add_passed(r, passed, &l);
	if (given->text)
		add_given(r, given, &l);
	cc->env = l.vars;
}
