/* SPDX-License-Identifier: MIT */
/* test_capability.c: declaration files. */
#include "policy/capability.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static char dir[256], file[300];
static struct buf said;
static int errors, warnings;
static struct config_capability cc;
static struct capability *c;
static char name[] = "x";

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/hcpd-capability-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/x.json", dir);
	said = (struct buf){0};
	errors = warnings = 0;
	cc = (struct config_capability){.name = name, .declaration = file, .line = 7, .path = "hcpd.ini"};
	c = NULL;
}

static void teardown(void)
{
	char command[300];

	capability_free(c);
	buf_fini(&said);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	ck_assert_int_eq(system(command), 0);
}

static void note(void *ctx, bool is_error, const char *text)
{
	ck_assert_ptr_eq(ctx, &said);
	errors += is_error;
	warnings += !is_error;
	if (strncmp(text, dir, strlen(dir)) == 0)
		text += strlen(dir) + 1;
	buf_addf(&said, "%s\n", text);
}

static struct capability *load(const void *text, size_t size)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, size), (ssize_t)size);
	close(fd);
	c = capability_load(&cc, note, &said);
	ck_assert_msg((c == NULL) == (errors > 0), "%s", buf_text(&said));
	return c;
}

#define NAMES "\"name\":\"x\",\"version\":\"1.2.3\",\"description\":\"does x\""
#define SCHEMAS "\"input_schema\":{},\"output_schema\":{}"
#define FLAGS "\"requires_human_approval\":false,\"involves_physical_resources\":false"
#define SAFETY "\"safety\":{\"risk_ceiling\":\"R2\"," FLAGS "}"
#define WITH(more) "{\"capability\":{" NAMES "," SCHEMAS "," SAFETY more "}}"

START_TEST(a_declaration_is_read) /* proves L3-01 */
{
	static const char full[] =
		"{\"x-other\":1,\"$schema\":\"s\",\"capability\":{" NAMES "," SCHEMAS
		",\"x-more\":null,\"title\":\"t\",\"tags\":[],\"examples\":[{}],\"metadata\":{\"a\":1},"
		"\"safety\":{\"risk_ceiling\":\"R4\","
		"\"requires_human_approval\":true,\"involves_physical_resources\":true,"
		"\"risk_floor\":\"R2\",\"envelope\":{},\"rules\":[],\"context\":[],\"description\":\"why\","
		"\"resource_types\":[\"a\"],\"hazard_categories\":[]},\"constraints\":{"
		"\"max_duration\":\"PT1H30M\",\"concurrent_limit\":3}}}";

	load(full, sizeof(full) - 1);
	ck_assert_str_eq(buf_text(&said), "");
	ck_assert_str_eq(c->name, "x");
	ck_assert_str_eq(c->version, "1.2.3");
	ck_assert_str_eq(c->description, "does x");
	ck_assert_int_eq(c->risk_ceiling, R4);
	ck_assert(c->requires_human_approval && c->involves_physical_resources);
	ck_assert_int_eq(c->max_duration_us, INT64_C(5400000000));
	ck_assert_int_eq(c->concurrent_limit, 3);
	ck_assert_ptr_eq(c->config, &cc);
}
END_TEST

START_TEST(optional_members_may_be_absent)
{
	static const char least[] = WITH("");

	load(least, sizeof(least) - 1);
	ck_assert_str_eq(buf_text(&said), "");
	ck_assert(!c->requires_human_approval && !c->involves_physical_resources);
	ck_assert_int_eq(c->max_duration_us, 0);
	ck_assert_int_eq(c->concurrent_limit, 0);
}
END_TEST

#define PATH(p) "x.json: /capability" p ": "
#define BODY(text) "{\"capability\":{" text "}}"
#define MORE_SAFETY(more) BODY(NAMES "," SCHEMAS ",\"safety\":{\"risk_ceiling\":\"R2\"," FLAGS "," more "}")

static const struct {
	const char *text, *expected;
	int errors;
} broken[] = {
	{"", "x.json:1:0: ", 1},
	{"{", "x.json:1:1: ", 1},
	{"{\n  \"capability\": {\n    oops\n", "x.json:3:8: ", 1},
	{"{}x", "x.json:1:3: ", 1},
	{"{\"a\":1,\"a\":2}", "x.json:1:", 1},
	{"{\"a\":\"\xff\"}", "x.json:1:", 1},
	{"[]", PATH("") "is missing", 1},
	{"{}", PATH("") "is missing; write {\"capability\"", 1},
	{"3", "x.json:1:", 1},
	{"{\"capability\":[]}", PATH("") "is an array", 1},
	{BODY(""), PATH("/name") "is missing", 6},
	{BODY(NAMES "," SCHEMAS), PATH("/safety") "is missing", 1},
	{BODY(NAMES "," SCHEMAS ",\"safety\":[]"), PATH("/safety") "is an array", 1},
	{BODY(NAMES "," SCHEMAS ",\"safety\":{}"),
		PATH("/safety/risk_ceiling") "is missing; write \"R1\" to \"R5\"", 3},
	{BODY(NAMES "," SCHEMAS ",\"safety\":{\"risk_ceiling\":\"R6\"," FLAGS "}"),
		PATH("/safety/risk_ceiling") "is \"R6\"; write \"R1\"", 1},
	{BODY(NAMES "," SCHEMAS ",\"safety\":{\"risk_ceiling\":\"R22\"," FLAGS "}"),
		PATH("/safety/risk_ceiling") "is \"R22\"", 1},
	{BODY(NAMES "," SCHEMAS ",\"safety\":{\"risk_ceiling\":\"r2\"," FLAGS "}"),
		PATH("/safety/risk_ceiling"), 1},
	{BODY(NAMES "," SCHEMAS ",\"safety\":{\"risk_ceiling\":2," FLAGS "}"),
		PATH("/safety/risk_ceiling") "is a whole number", 1},
	{BODY(NAMES "," SCHEMAS ",\"safety\":{\"risk_ceiling\":\"R2\",\"risk_floor\":\"R3\"," FLAGS "}"),
		PATH("/safety/risk_floor") "is above", 1},
	{BODY(NAMES "," SCHEMAS ",\"safety\":{\"risk_ceiling\":\"R2\",\"requires_human_approval\":\"no\","
		    "\"involves_physical_resources\":0}"),
		PATH("/safety/requires_human_approval") "is a string; write true or false", 2},
	{BODY(NAMES "," SCHEMAS ",\"safety\":{\"risk_ceiling\":\"R2\",\"resource_types\":[\"a\",1],\"hazard_"
		    "categories\":\"x\",\"envelope\":1," FLAGS "}"),
		PATH("/safety/resource_types/1") "is a whole number; write a string", 3},
	{BODY("\"name\":\"y\",\"version\":\"1.2.3\",\"description\":\"d\"," SCHEMAS "," SAFETY),
		PATH("/name") "is \"y\", but the section is [capability x]", 1},
	{BODY("\"name\":1,\"version\":\"1.2.3\",\"description\":\"d\"," SCHEMAS "," SAFETY),
		PATH("/name") "is a whole number", 1},
	{BODY("\"name\":\"x\",\"version\":\"1.2\",\"description\":\"d\"," SCHEMAS "," SAFETY),
		PATH("/version") "is \"1.2\"; write a semantic version", 1},
	{BODY("\"name\":\"x\",\"version\":1.2,\"description\":\"d\"," SCHEMAS "," SAFETY),
		PATH("/version") "is a real number", 1},
	{BODY("\"name\":\"x\",\"version\":\"1.2.3\",\"description\":\"\"," SCHEMAS "," SAFETY),
		PATH("/description") "is empty", 1},
	{BODY("\"name\":\"x\\u0000\",\"version\":\"1.2.3\",\"description\":\"d\"," SCHEMAS "," SAFETY),
		"x.json:1:", 1},
	{BODY(NAMES "," SCHEMAS ",\"state_schema\":7," SAFETY),
		PATH("/state_schema") "is a whole number; write a JSON Schema", 1},
	{BODY(NAMES ",\"input_schema\":[],\"output_schema\":\"x\"," SAFETY),
		PATH("/output_schema") "is a string; write a JSON Schema", 2},
	{WITH(",\"constraints\":1"), PATH("/constraints") "is a whole number; write an object", 1},
	{WITH(",\"constraints\":{\"max_duration\":\"1h\"}"),
		PATH("/constraints/max_duration") "is \"1h\"; write an ISO 8601", 1},
	{WITH(",\"constraints\":{\"max_duration\":\"PT0S\"}"),
		PATH("/constraints/max_duration") "is \"PT0S\"", 1},
	{WITH(",\"constraints\":{\"max_duration\":60}"),
		PATH("/constraints/max_duration") "is a whole number", 1},
	{WITH(",\"constraints\":{\"concurrent_limit\":0}"),
		PATH("/constraints/concurrent_limit") "is 0; write a whole number from 1 on", 1},
	{WITH(",\"constraints\":{\"concurrent_limit\":-1}"), PATH("/constraints/concurrent_limit"), 1},
	{WITH(",\"constraints\":{\"concurrent_limit\":9999999999}"), PATH("/constraints/concurrent_limit"),
		1},
	{WITH(",\"constraints\":{\"concurrent_limit\":1.5}"),
		PATH("/constraints/concurrent_limit") "is a real number", 1},
	{WITH(",\"constraints\":{\"concurrent_limit\":null}"),
		PATH("/constraints/concurrent_limit") "is null", 1},
};

/* In `safety` and in `constraints` nothing may be added, and elsewhere only what says that it is
 * another's. */
static const struct {
	const char *text, *expected;
	int errors;
} misspelt[] = {
	{MORE_SAFETY("\"envelop\":{}"), PATH("/safety/envelop") "is not known here; did you mean envelope?",
		1},
	{MORE_SAFETY("\"rule\":[]"), PATH("/safety/rule") "is not known here; did you mean rules?", 1},
	{MORE_SAFETY("\"risk_flor\":\"R1\""),
		PATH("/safety/risk_flor") "is not known here; did you mean risk_floor?", 1},
	{MORE_SAFETY("\"contexts\":[]"), PATH("/safety/contexts") "is not known here; did you mean context?",
		1},
	{MORE_SAFETY("\"x-rules\":[]"), PATH("/safety/x-rules") "is not known here; ", 1},
	{MORE_SAFETY("\"qqqqqqqq\":1"), PATH("/safety/qqqqqqqq") "is not known here; leave it out\n", 1},
	{WITH(",\"constraints\":{\"concurent_limit\":1}"),
		PATH("/constraints/concurent_limit") "is not known here; did you mean concurrent_limit?", 1},
	{WITH(",\"constraints\":{\"x-limit\":1}"), PATH("/constraints/x-limit") "is not known here", 1},
	{WITH(",\"constrains\":{}"), PATH("/constrains") "is not known here; did you mean constraints?", 1},
	{WITH(",\"risk_floor\":\"R1\""),
		PATH("/risk_floor") "is not known here; leave it out, or let its name begin with x-", 1},
	{"{\"constraints\":{},\"capability\":{" NAMES "," SCHEMAS "," SAFETY "}}",
		"x.json: /constraints: stands outside of capability; move it into that", 1},
	{"{\"constrains\":{},\"capability\":{" NAMES "," SCHEMAS "," SAFETY "}}",
		"x.json: /constrains: is not known here; did you mean constraints?", 1},
};

START_TEST(envelope_names_the_protection_that_was_meant) /* proves L3-01 */
{
	load(misspelt[_i].text, strlen(misspelt[_i].text));
	ck_assert_msg(errors == misspelt[_i].errors, "%s\n%s", misspelt[_i].text, buf_text(&said));
	ck_assert_msg(
		strstr(buf_text(&said), misspelt[_i].expected), "%s\n%s", misspelt[_i].text, buf_text(&said));
}
END_TEST

START_TEST(a_broken_one_is_refused_with_file_position_and_reason) /* proves L3-01 */
{
	load(broken[_i].text, strlen(broken[_i].text));
	ck_assert_msg(errors == broken[_i].errors, "%s\n%s", broken[_i].text, buf_text(&said));
	ck_assert_msg(
		strstr(buf_text(&said), broken[_i].expected), "%s\n%s", broken[_i].text, buf_text(&said));
}
END_TEST

START_TEST(a_file_that_is_absent_or_too_large_is_refused)
{
	static char big[(1 << 20) + 10];

	ck_assert_ptr_null(capability_load(&cc, note, &said));
	ck_assert_ptr_nonnull(strstr(buf_text(&said), "x.json: cannot be read: No such file"));
	memset(big, ' ', sizeof(big));
	memcpy(big, WITH(""), sizeof(WITH("")) - 1);
	load(big, sizeof(big));
	ck_assert_ptr_nonnull(strstr(buf_text(&said), "it is over 1 MiB"));
	errors = 0;
	load(big, 1 << 20); /* the bound itself is fine */
}
END_TEST

START_TEST(deep_nesting_is_an_error_and_no_crash)
{
	static char deep[100000];

	memset(deep, '[', sizeof(deep));
	load(deep, sizeof(deep));
	ck_assert_int_eq(errors, 1);
}
END_TEST

START_TEST(a_command_that_cannot_be_run_is_a_warning)
{
	static char env_path[300];
	char *argv[] = {NULL, NULL}, *env[] = {env_path, NULL}, program[] = "hcpd-test-program",
	     absolute[340], sh[] = "/bin/sh", plain[] = "sh";
	int fd;

	snprintf(absolute, sizeof(absolute), "%s/%s", dir, program);
	snprintf(env_path, sizeof(env_path), "PATH=/nowhere:%s", dir);
	cc.command = argv;
	argv[0] = sh;
	capability_check_command(&cc, note, &said);
	argv[0] = plain;
	capability_check_command(&cc, note, &said);
	ck_assert_str_eq(buf_text(&said), "");

	argv[0] = absolute;
	capability_check_command(&cc, note, &said);
	ck_assert_ptr_nonnull(strstr(buf_text(&said), "hcpd.ini:7: [capability x] command "));
	ck_assert_ptr_nonnull(strstr(buf_text(&said), "No such file"));
	argv[0] = dir; /* a directory */
	capability_check_command(&cc, note, &said);
	argv[0] = program; /* not in PATH */
	capability_check_command(&cc, note, &said);
	ck_assert_ptr_nonnull(strstr(buf_text(&said), "it is not in PATH"));
	ck_assert_int_eq(warnings, 3);

	fd = open(absolute, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	ck_assert_int_ge(fd, 0);
	close(fd);
	cc.env = env; /* the worker's own PATH counts */
	capability_check_command(&cc, note, &said);
	ck_assert_int_eq(chmod(absolute, 0600), 0);
	ck_assert_int_eq(warnings, 3);
	argv[0] = absolute; /* there, but not executable */
	capability_check_command(&cc, note, &said);
	ck_assert_int_eq(warnings, 4);
	ck_assert_int_eq(errors, 0);
}
END_TEST

START_TEST(a_migration_that_cannot_be_run_is_a_warning_of_its_own)
{
	char *command[] = {NULL, NULL}, *migrate[] = {NULL, NULL}, nowhere[] = "/nowhere/migrate",
	     sh[] = "/bin/sh";

	command[0] = migrate[0] = sh;
	cc.command = command;
	cc.migrate = migrate;
	capability_check_command(&cc, note, &said);
	ck_assert_str_eq(buf_text(&said), "");
	migrate[0] = nowhere;
	capability_check_command(&cc, note, &said);
	ck_assert_str_eq(buf_text(&said),
		"hcpd.ini:7: [capability x] migrate /nowhere/migrate cannot be run now: No such file or "
		"directory; sessions whose state is of another version will fail until it can\n");
	ck_assert_int_eq(warnings, 1);
	command[0] = nowhere;
	capability_check_command(&cc, note, &said);
	ck_assert_int_eq(warnings, 3);
	ck_assert_int_eq(errors, 0);
	cc.migrate = NULL;
}
END_TEST

START_TEST(a_policy_program_that_cannot_be_run_is_a_warning)
{
	char *argv[] = {NULL, NULL}, nowhere[] = "/nowhere/policy", sh[] = "/bin/sh", ini[] = "hcpd.ini";
	struct config config = {.path = ini, .policy_line = 9};

	capability_check_policy(&config, note, &said);
	config.policy_command = argv;
	argv[0] = sh;
	capability_check_policy(&config, note, &said);
	ck_assert_str_eq(buf_text(&said), "");
	argv[0] = nowhere;
	capability_check_policy(&config, note, &said);
	ck_assert_str_eq(buf_text(&said),
		"hcpd.ini:9: [policy] command /nowhere/policy cannot be run now: No such file or directory; "
		"every task will be denied until it can\n");
	ck_assert_int_eq(errors, 0);
}
END_TEST

START_TEST(the_examples_load)
{
	static char names[][8] = {"echo", "count", "shout"}, path[64];

	for (int i = 0; i < COUNT(names); i++) {
		snprintf(path, sizeof(path), "etc/capabilities.d/%s.json", names[i]);
		cc.name = names[i];
		cc.declaration = path;
		capability_free(c);
		c = capability_load(&cc, note, &said);
		ck_assert_msg(c != NULL, "%s", buf_text(&said));
		ck_assert_int_eq(c->risk_ceiling, R1);
	}
}
END_TEST

START_TEST(the_example_of_everything_loads_without_a_word)
{
	static char furnace[] = "furnace", path[] = "etc/capabilities.d/furnace.json";

	cc.name = furnace;
	cc.declaration = path;
	c = capability_load(&cc, note, &said);
	ck_assert_str_eq(buf_text(&said), "");
	ck_assert_ptr_nonnull(c);
	ck_assert(capability_uses(c, "furnace-room") && !capability_uses(c, "furnace"));
	ck_assert(c->input_schema && c->output_schema && c->risk && c->envelope);
}
END_TEST

START_TEST(a_schema_that_cannot_be_used_is_refused_with_its_pointer) /* proves L3-01 */
{
	static const char text[] = BODY(NAMES
		",\"input_schema\":{\"properties\":{\"a\":{\"minimum\":\"5\"}}},"
		"\"output_schema\":{\"$ref\":\"#/$defs/none\"}," SAFETY);

	load(text, sizeof(text) - 1);
	ck_assert_int_eq(errors, 2);
	ck_assert_msg(
		strstr(buf_text(&said), "x.json: /capability/input_schema/properties/a/minimum: ") != NULL,
		"%s", buf_text(&said));
	ck_assert_msg(strstr(buf_text(&said), "x.json: /capability/output_schema/$ref: ") != NULL, "%s",
		buf_text(&said));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("capability");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_declaration_is_read);
	tcase_add_test(t, optional_members_may_be_absent);
	tcase_add_loop_test(t, a_broken_one_is_refused_with_file_position_and_reason, 0, COUNT(broken));
	tcase_add_loop_test(t, envelope_names_the_protection_that_was_meant, 0, COUNT(misspelt));
	tcase_add_test(t, a_file_that_is_absent_or_too_large_is_refused);
	tcase_add_test(t, deep_nesting_is_an_error_and_no_crash);
	tcase_add_test(t, a_command_that_cannot_be_run_is_a_warning);
	tcase_add_test(t, a_migration_that_cannot_be_run_is_a_warning_of_its_own);
	tcase_add_test(t, a_policy_program_that_cannot_be_run_is_a_warning);
	tcase_add_test(t, the_examples_load);
	tcase_add_test(t, the_example_of_everything_loads_without_a_word);
	tcase_add_test(t, a_schema_that_cannot_be_used_is_refused_with_its_pointer);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
