/* gate_kit.h: what the tests of the gate share: a policy out of texts, and one question to it. JSON is
 * written with single quotes. Everything is static: a test includes it once. */
#ifndef GATE_KIT_H
#define GATE_KIT_H

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/gate.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static char dir[200], ini[256];
static struct buf kit_said;
static int kit_errors;

static inline char *kit_json_text(const char *text)
{
	char *copy = xstrdup(text);

	for (char *c = copy; *c != '\0'; c++)
		if (*c == '\'')
			*c = '"';
	return copy;
}

static inline json_t *kit_json(const char *text)
{
	char *copy = kit_json_text(text), why[200];
	json_t *v = jtext_parse(copy, strlen(copy), why, sizeof why);

	ck_assert_msg(v != NULL, "%s: %s", text, why);
	free(copy);
	return v;
}

static inline void kit_write(const char *name, const char *text)
{
	char path[400];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	f = fopen(path, "w");
	ck_assert(f != NULL);
	fputs(text, f);
	fclose(f);
}

/* A declaration of that name: its input_schema, the inside of `safety` beyond what must be there. */
static inline void kit_declare(const char *name, const char *schema, bool human, const char *safety)
{
	struct buf b = {0};
	char file[80], *text;

	buf_addf(&b,
		"{'capability':{'name':'%s','version':'1.2.0','description':'d','input_schema':%s,'output_"
		"schema':{},"
		"'safety':{%s,'requires_human_approval':%s,'involves_physical_resources':false},"
		"'constraints':{'max_duration':'PT10M'}}}",
		name, schema, safety, human ? "true" : "false");
	text = kit_json_text(buf_text(&b));
	snprintf(file, sizeof file, "%s.json", name);
	kit_write(file, text);
	free(text);
	buf_fini(&b);
}

static inline void kit_say(void *ctx, bool is_error, const char *text)
{
	(void)ctx;
	kit_errors += is_error;
	buf_addf(&kit_said, "%s\n", text);
}

static inline struct policy *kit_load(const char *config)
{
	buf_clear(&kit_said);
	kit_errors = 0;
	kit_write("hcpd.ini", config);
	return policy_load(ini, kit_say, NULL);
}

static inline void kit_setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof dir, "%s/hcp-gate-XXXXXX", tmp != NULL && strlen(tmp) < 150 ? tmp : "/tmp");
	ck_assert(mkdtemp(dir) != NULL);
	snprintf(ini, sizeof ini, "%s/hcpd.ini", dir);
}

static inline int kit_remove(const char *name, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(name);
}

static inline void kit_teardown(void)
{
	buf_fini(&kit_said);
	nftw(dir, kit_remove, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
