/* SPDX-License-Identifier: MIT */
/* suite.c: the JSON Schema test suite, as Debian packages it, against jschema.
 * Owns the list of what is left out. Remote documents are those of the suite, from its own directory: nothing
 * is fetched.
 *
 *   suite DIRECTORY [-v]     DIRECTORY holds tests/ and remotes/; -v names every test
 *
 * Last lines: schema: N tests of M files, K excluded (listed); N passed, N failed. */
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jschema/jschema.h"
#include "json/text.h"

#define DRAFT "draft2020-12"
#define REMOTE "http://localhost:1234/"

/* Tests that are not run, by file, group and test ("*": all of it), and why. None of them is a required one:
 * those with remote documents find them beside the tests. */
static const struct {
	const char *file, *group, *test, *why;
} excluded[] = {
	{"optional/ecmascript-regex.json", "\\a is not an ECMA 262 control escape", "*",
		"wants the format \"regex\" asserted; as a `pattern` it is refused, which a unit test shows"},
	{NULL, NULL, NULL, NULL},
};

/* Of the optional ones those that concern what jschema promises: the formats it can assert, and patterns. */
static const char *const optional_files[] = {
	"optional/format/date-time.json",
	"optional/format/uuid.json",
	"optional/format/uri.json",
	"optional/format/email.json",
	"optional/format/ipv4.json",
	"optional/format/ipv6.json",
	"optional/ecmascript-regex.json",
	"optional/non-bmp-regex.json",
	"optional/unicode.json",
	"optional/float-overflow.json",
	"optional/bignum.json",
	"optional/refOfUnknownKeyword.json",
	"optional/no-schema.json",
	"optional/format-assertion.json",
};

static struct {
	const char *directory;
	bool is_verbose;
	json_t *remotes; /* by URI */
	unsigned files, tests, passed, failed, left_out;
} suite;

static json_t *read_json(const char *path)
{
	FILE *file = fopen(path, "r");
	struct buf text = {0};
	char part[65536], why[256] = "cannot be opened";
	json_t *v = NULL;

	for (size_t n; file != NULL && (n = fread(part, 1, sizeof part, file)) > 0;)
		buf_add(&text, part, n);
	if (file != NULL) {
		v = jtext_parse(buf_text(&text), text.size, why, sizeof why);
		fclose(file);
	}
	buf_fini(&text);
	if (v == NULL) {
		fprintf(stderr, "suite: %s: %s\n", path, why);
		exit(2);
	}
	return v;
}

static const json_t *find_remote(void *arg, const char *uri)
{
	char path[1024];
	json_t *v = json_object_get(suite.remotes, uri);
	FILE *there;

	(void)arg;
	if (v != NULL || strncmp(uri, REMOTE, sizeof REMOTE - 1) != 0 || strstr(uri, "..") != NULL)
		return v;
	snprintf(path, sizeof path, "%s/remotes/%s", suite.directory, uri + sizeof REMOTE - 1);
	if ((there = fopen(path, "r")) == NULL)
		return NULL;
	fclose(there);
	v = read_json(path);
	json_object_set_new(suite.remotes, uri, v);
	return v;
}

static bool is_excluded(const char *file, const char *group, const char *test)
{
	for (size_t i = 0; excluded[i].file != NULL; i++) {
		if (strcmp(excluded[i].file, file) != 0 || strcmp(excluded[i].group, group) != 0 ||
			(strcmp(excluded[i].test, "*") != 0 && strcmp(excluded[i].test, test) != 0))
			continue;
		printf("excluded: %s, %s, %s: %s\n", file, group, test, excluded[i].why);
		return true;
	}
	return false;
}

/* What a failure says must be there: both pointers lead somewhere, and there is a sentence. */
static const char *failure_fault(const json_t *data, const struct jschema_failure *f)
{
	json_t *at = json_incref((json_t *)(uintptr_t)data);
	char copy[JSCHEMA_POINTER_SIZE], *token = copy;

	json_decref(at);
	snprintf(copy, sizeof copy, "%s", f->instance);
	while (token != NULL && *token == '/' && at != NULL) {
		char *next = strchr(token + 1, '/');

		if (strchr(token, '~') != NULL)
			break;
		if (next != NULL)
			*next = '\0';
		at = json_is_array(at) ? json_array_get(at, strtoul(token + 1, NULL, 10)) :
					 json_object_get(at, token + 1);
		if (next != NULL)
			*next = '/';
		token = next;
	}
	if (at == NULL)
		return "its pointer leads nowhere in the instance";
	if (*f->message == '\0' || f->keyword == NULL || (*f->keyword != '\0' && *f->schema == '\0') ||
		f->is_limit)
		return "it does not say what is wrong";
	return NULL;
}

static void run_test(
	const char *file, const char *group, const struct jschema *js, const char *why, const json_t *test)
{
	const char *name = json_string_value(json_object_get(test, "description"));
	const json_t *data = json_object_get(test, "data");
	bool is_valid = json_is_true(json_object_get(test, "valid")), is_right;
	struct jschema_failure f = {.keyword = ""};

	if (is_excluded(file, group, name)) {
		suite.left_out++;
		return;
	}
	suite.tests++;
	is_right = js != NULL && jschema_check(js, data, &f) == is_valid;
	if (is_right && !is_valid && (why = failure_fault(data, &f)) != NULL)
		is_right = false;
	suite.passed += is_right;
	suite.failed += !is_right;
	if (!is_right)
		printf("FAILED: %s, %s, %s: should be %s; %s%s\n", file, group, name,
			is_valid ? "valid" : "invalid", f.message, why);
	else if (suite.is_verbose)
		printf("%s, %s, %s: %s%s%s\n", file, group, name, is_valid ? "valid" : f.schema,
			is_valid ? "" : ": ", f.message);
}

static void run_file(const char *name, bool assert_formats)
{
	const struct jschema_options options = {.assert_formats = assert_formats, .find = find_remote};
	char path[1024], why[JSCHEMA_WHY_SIZE];
	json_t *groups, *group, *test;
	size_t i, k;

	snprintf(path, sizeof path, "%s/tests/" DRAFT "/%s", suite.directory, name);
	groups = read_json(path);
	suite.files++;
	json_array_foreach(groups, i, group) {
		struct jschema *js =
			jschema_compile(json_object_get(group, "schema"), &options, why, sizeof why);

		json_array_foreach(json_object_get(group, "tests"), k, test)
			run_test(name, json_string_value(json_object_get(group, "description")), js, why,
				test);
		jschema_free(js);
	}
	json_decref(groups);
}

static int is_json(const struct dirent *d)
{
	size_t size = strlen(d->d_name);

	return size > 5 && strcmp(d->d_name + size - 5, ".json") == 0;
}

static void run_required(void)
{
	struct dirent **names;
	char path[1024];
	int count;

	snprintf(path, sizeof path, "%s/tests/" DRAFT, suite.directory);
	if ((count = scandir(path, &names, is_json, alphasort)) <= 0) {
		fprintf(stderr, "suite: no tests in %s\n", path);
		exit(2);
	}
	for (int i = 0; i < count; i++) {
		run_file(names[i]->d_name, false);
		free(names[i]);
	}
	free(names);
}

int main(int argc, char **argv)
{
	unsigned required, passed, failed, left_out;

	if (argc < 2) {
		fprintf(stderr, "usage: suite DIRECTORY [-v]\n");
		return 2;
	}
	suite.directory = argv[1];
	suite.is_verbose = argc > 2;
	suite.remotes = json_object();
	run_required();
	required = suite.tests, passed = suite.passed, failed = suite.failed, left_out = suite.left_out;
	for (size_t i = 0; i < sizeof optional_files / sizeof *optional_files; i++)
		run_file(optional_files[i], strncmp(optional_files[i], "optional/format/", 16) == 0);
	json_decref(suite.remotes);
	printf("schema: of the optional tests %u more, %u excluded (listed): %u passed, %u failed\n",
		suite.tests - required, suite.left_out - left_out, suite.passed - passed,
		suite.failed - failed);
	printf("schema: %u tests of %zu files, %u excluded (listed)\n", required,
		suite.files - sizeof optional_files / sizeof *optional_files, left_out);
	printf("%u passed, %u failed\n", suite.passed, suite.failed);
	return suite.failed > 0;
}
