/* SPDX-License-Identifier: MIT */
/* fuzz_config.c: a whole configuration, its declarations and the files that it names. Input: hcpd.ini; behind
 * lines
 * `=== NAME MODE` other files of its directory (files.h). A text S3CRET stands for a password. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/table_private.h"
#include "files.h"
#include "fuzz.h"
#include "policy/policy.h"
#include "base/ini.h"
#include "base/name.h"
#include "base/semver.h"

#define PATH FILES_DIR "/hcpd.ini"
#define SECRET "S3CRET"

struct said {
	struct buf text;
	int errors;
	int lines;         /* that the file has */
	int last;          /* line of the last message about the INI file */
	bool keeps_secret; /* no message may show it */
};

/* A message about a declaration begins with that declaration's path and may quote that declaration's own
 * text. The letters of the secret are no leak where they stand in that very file, or may: JSON can write a
 * letter as \u0053. The INI file is no such file, and a declaration that has not the letters must not show
 * them either. */
static bool may_quote(const char *text)
{
	char name[64];
	const char *own;
	size_t size;

	if (sscanf(text, FILES_DIR "/%63[^:]:", name) != 1 || strcmp(name, "hcpd.ini") == 0)
		return false;
	own = files_text(name, &size);
	return own != NULL &&
		(memmem(own, size, SECRET, strlen(SECRET)) != NULL || memchr(own, '\\', size) != NULL);
}

/* Every message names a file, and the line in it where there is one; they come in the order of the lines. */
static void say(void *ctx, bool is_error, const char *text)
{
	struct said *s = ctx;
	int line = 0;

	MUST(text[0] == '/' && strstr(text, ": ") != NULL);
	MUST(strpbrk(text, "\n\r") == NULL || strncmp(text, PATH ":", sizeof PATH) != 0);
	if (sscanf(text, PATH ":%d: ", &line) == 1) {
		MUST(line >= 1 && line <= s->lines);
		MUST(line >= s->last || strstr(text, "cannot be run now") != NULL);
		s->last = line;
	}
	MUST(!s->keeps_secret || strstr(text, SECRET) == NULL || may_quote(text));
	s->errors += is_error;
	buf_addf(&s->text, "%d%s\n", is_error, text);
}

/* --- where the secret stands --- */

/* Between a colon and a later @ of a URL it may be a password, however broken the URL is. */
static bool is_in_password(const char *url)
{
	const char *rest = strstr(url, "://"), *colon = rest ? strchr(rest + 3, ':') : NULL,
		   *at = strrchr(url, '@');

	for (const char *p = url; (p = strstr(p, SECRET)) != NULL; p++)
		if (colon == NULL || at == NULL || p < colon || p > at)
			return false;
	return true;
}

static void look_for_secret(void *ctx, int line, const char *section, const char *key, const char *value)
{
	bool *is_shown = ctx;

	(void)line;
	if (section == NULL)
		return;
	if (strstr(section, SECRET) != NULL || (key != NULL && strstr(key, SECRET) != NULL))
		*is_shown = true;
	else if (key != NULL && strstr(value, SECRET) != NULL && strcmp(key, "env") != 0 &&
		!(strcmp(key, "url") == 0 && is_in_password(value)))
		*is_shown = true;
}

/* --- what a configuration that was accepted promises --- */

static void check_numbers(enum config_kind kind, const void *base)
{
	for (size_t i = 0; i < config_key_count; i++) {
		const struct config_key *k = &config_keys[i];
		const char *field = (const char *)base + k->offset;
		int64_t value;

		if (k->kind != kind ||
			(k->type != TYPE_INT && k->type != TYPE_DURATION && k->type != TYPE_SIZE))
			continue;
		value = k->type == TYPE_INT ? *(const int *)(const void *)field :
					      *(const int64_t *)(const void *)field;
		MUST(value >= k->min && value <= k->max);
	}
}

static void check_amqp(const struct config_amqp *a)
{
	MUST(a->host != NULL && *a->host != '\0' && strlen(a->host) <= 255);
	MUST(a->vhost != NULL && strlen(a->vhost) <= 255 && a->user != NULL && *a->user != '\0' &&
		a->password != NULL);
	MUST(a->port >= 1 && a->port <= 65535 && a->url != NULL);
	MUST(a->sasl == SASL_PLAIN || (a->tls && a->cert_file != NULL && a->key_file != NULL));
}

static void check_policy(const struct policy *p)
{
	const struct config *c = p->config;

	for (int kind = 0; kind < KIND_CAPABILITY; kind++)
		check_numbers((enum config_kind)kind, c);
	check_amqp(&c->amqp);
	MUST(name_is_valid(c->callee_id, "-_") && c->state_dir[0] == '/');
	MUST(c->max_line <= c->max_lines_total && c->max_checkpoint <= c->max_line &&
		c->max_text_output <= c->max_message);
	for (size_t i = 0; i < c->capability_count; i++) {
		const struct config_capability *cc = &c->capabilities[i];

		check_numbers(KIND_CAPABILITY, cc);
		MUST(cc->command[0][0] != '\0' && cc->declaration[0] == '/' &&
			config_find_capability(c, cc->name) == cc);
		MUST(strcmp(p->capabilities[i]->name, cc->name) == 0 &&
			semver_is_version(p->capabilities[i]->version));
		MUST(policy_find(p, cc->name) == p->capabilities[i]);
		for (char **var = cc->env; *var != NULL; var++)
			MUST(strchr(*var, '=') != NULL && strncmp(*var, "HCP_", 4) != 0);
	}
	for (size_t i = 0; i < c->caller_count; i++) {
		const struct config_caller *caller = &c->callers[i];

		MUST(config_find_caller(c, caller->name) == caller && caller->max_risk >= R1 &&
			caller->max_risk <= R5);
		for (char **name = caller->capabilities; *name != NULL; name++)
			MUST(config_caller_may(caller, *name));
	}
}

static bool load(struct said *s)
{
	struct policy *p = policy_load(PATH, say, s);

	MUST((p == NULL) == (s->errors > 0));
	if (p != NULL)
		check_policy(p);
	policy_unref(p);
	return p != NULL;
}

static int count_newlines(const uint8_t *data, size_t size)
{
	int count = 1;

	for (size_t i = 0; i < size; i++)
		count += data[i] == '\n';
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct said s = {.lines = count_newlines(data, size)}, again = {.lines = s.lines};
	bool is_shown = false, ok;

	setenv("PASSED", "value", 1);
	unsetenv("CREDENTIALS_DIRECTORY");
	files_clear();
	files_split("hcpd.ini", (const char *)data, size);
	ini_parse((const char *)data, files_size("hcpd.ini"), look_for_secret, &is_shown);
	s.keeps_secret = again.keeps_secret = !is_shown;
	ok = load(&s);
	MUST(load(&again) == ok); /* nothing is kept between two */
	MUST(s.text.size == again.text.size &&
		(s.text.size == 0 || memcmp(s.text.data, again.text.data, s.text.size) == 0));
	buf_fini(&s.text);
	buf_fini(&again.text);
	return 0;
}
