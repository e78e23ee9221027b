/* SPDX-License-Identifier: MIT */
/* gate_kit.c: what gate_kit.h declares. */
#include "support/gate_kit.h"

static char gate_kit_dir[200], gate_kit_ini[256];
struct buf gate_kit_said;
static int gate_kit_errors;

static char *gate_kit_json_text(const char *text)
{
	char *copy = xstrdup(text);

	for (char *c = copy; *c != '\0'; c++)
		if (*c == '\'')
			*c = '"';
	return copy;
}

json_t *gate_kit_json(const char *text)
{
	char *copy = gate_kit_json_text(text), why[200];
	json_t *v = jtext_parse(copy, strlen(copy), why, sizeof why);

	ck_assert_msg(v != NULL, "%s: %s", text, why);
	free(copy);
	return v;
}

static void gate_kit_write(const char *name, const char *text)
{
	char path[400];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", gate_kit_dir, name);
	f = fopen(path, "w");
	ck_assert(f != NULL);
	fputs(text, f);
	fclose(f);
}

void gate_kit_declare(const char *name, const char *schema, bool human, const char *safety)
{
	struct buf b = {0};
	char file[80], *text;

	buf_addf(&b,
		"{'capability':{'name':'%s','version':'1.2.0','description':'d','input_schema':%s,'output_"
		"schema':{},"
		"'safety':{%s,'requires_human_approval':%s,'involves_physical_resources':false},"
		"'constraints':{'max_duration':'PT10M'}}}",
		name, schema, safety, human ? "true" : "false");
	text = gate_kit_json_text(buf_text(&b));
	snprintf(file, sizeof file, "%s.json", name);
	gate_kit_write(file, text);
	free(text);
	buf_fini(&b);
}

static void gate_kit_say(void *ctx, bool is_error, const char *text)
{
	(void)ctx;
	gate_kit_errors += is_error;
	buf_addf(&gate_kit_said, "%s\n", text);
}

struct policy *gate_kit_load(const char *config)
{
	buf_clear(&gate_kit_said);
	gate_kit_errors = 0;
	gate_kit_write("hcpd.ini", config);
	return policy_load(gate_kit_ini, gate_kit_say, NULL);
}

void gate_kit_setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(gate_kit_dir, sizeof gate_kit_dir, "%s/hcp-gate-XXXXXX",
		tmp != NULL && strlen(tmp) < 150 ? tmp : "/tmp");
	ck_assert(mkdtemp(gate_kit_dir) != NULL);
	snprintf(gate_kit_ini, sizeof gate_kit_ini, "%s/hcpd.ini", gate_kit_dir);
}

static int gate_kit_remove(const char *name, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(name);
}

void gate_kit_teardown(void)
{
	buf_fini(&gate_kit_said);
	nftw(gate_kit_dir, gate_kit_remove, 16, FTW_DEPTH | FTW_PHYS);
}
