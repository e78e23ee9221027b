/* SPDX-License-Identifier: MIT */
/* test_config_confine.c: the keys that keep workers in their place: what they mean, what does not go
 * together, and what this process could not do. */
#include "support/config_kit.h"

#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>

#include "process/confine.h"
#include "process/landlock.h"

#define HEAD "[daemon]\ncallee_id = x\nstate_dir = state\n[caller *]\ncapabilities = *\namqp_user = u\n"
#define ONE HEAD "[capability a]\ndeclaration = a.json\ncommand = /bin/true\n"

static struct config_confine *load_confine(const char *keys)
{
	struct buf b = {0};

	buf_addf(&b, ONE "%s", keys);
	cfg_load(buf_text(&b));
	buf_fini(&b);
	ck_assert_msg(cfg != NULL, "%s", buf_text(&cfg_said));
	return &cfg->capabilities[0].confine;
}

START_TEST(without_these_keys_only_secrets_and_core_dumps_are_withheld)
{
	const struct config_confine *f = load_confine("");

	ck_assert_ptr_null(f->user);
	ck_assert(f->landlock == LANDLOCK_STATE && !f->landlock_read && !f->landlock_write);
	ck_assert(!f->limit_memory && !f->limit_cpu_us && !f->limit_processes && !f->limit_files &&
		!f->limit_file_size);
	ck_assert_int_eq(f->limit_core, 0);
	ck_assert(!confine_has_cgroup(f) && !config_has_users(cfg));
	ck_assert(confine_check(&cfg->capabilities[0], cfg_say, &cfg_said));
	ck_assert_int_eq(cfg_warnings, 0);
	ck_assert(!cfg->dumpable);
}
END_TEST

START_TEST(each_key_has_its_meaning)
{
	const struct config_confine *f;

	ck_assert_int_eq(mkdir(cfg_in_dir("lib"), 0700), 0);
	f = load_confine(
		"landlock = yes\nlandlock_read = lib, /usr\nlandlock_write = /tmp lib\nlimit_memory = 1GiB\n"
		"limit_cpu = 90s\nlimit_processes = 5\nlimit_files = 6\nlimit_file_size = 7KiB\nlimit_core = "
		"8KiB\n"
		"cgroup_memory_max = 9MiB\ncgroup_pids_max = 10\ncgroup_cpu_max = 150\n");
	ck_assert_int_eq(f->landlock, LANDLOCK_YES);
	ck_assert_str_eq(f->landlock_read[0], cfg_in_dir("lib")); /* relative to the file */
	ck_assert_str_eq(f->landlock_read[1], "/usr");
	ck_assert_ptr_null(f->landlock_read[2]);
	ck_assert_str_eq(f->landlock_write[0], "/tmp");
	ck_assert_int_eq(f->limit_memory, 1 << 30);
	ck_assert_int_eq(f->limit_cpu_us, 90000000);
	ck_assert_int_eq(f->limit_processes, 5);
	ck_assert_int_eq(f->limit_files, 6);
	ck_assert_int_eq(f->limit_file_size, 7 << 10);
	ck_assert_int_eq(f->limit_core, 8 << 10);
	ck_assert_int_eq(f->cgroup_memory_max, 9 << 20);
	ck_assert_int_eq(f->cgroup_pids_max, 10);
	ck_assert_int_eq(f->cgroup_cpu_max, 150);
	ck_assert(confine_has_cgroup(f));
}
END_TEST

START_TEST(a_user_is_looked_up_with_its_groups_and_home)
{
	const struct passwd *pw = getpwnam("games");
	const struct config_confine *f = load_confine("user = games\n");

	ck_assert_ptr_nonnull(pw);
	ck_assert_uint_eq(f->uid, pw->pw_uid);
	ck_assert_uint_eq(f->gid, pw->pw_gid);
	ck_assert_str_eq(f->home, pw->pw_dir);
	ck_assert_uint_ge(f->group_count, 1);
	ck_assert_uint_eq(f->groups[0], pw->pw_gid);
	ck_assert(config_has_users(cfg));
}
END_TEST

START_TEST(a_named_group_is_the_only_one)
{
	const struct group *gr = getgrnam("mail");
	const struct config_confine *f = load_confine("user = games:mail\n");

	ck_assert_uint_eq(f->gid, gr->gr_gid);
	ck_assert_uint_eq(f->group_count, 1);
	ck_assert_uint_eq(f->groups[0], gr->gr_gid);
}
END_TEST

static const struct {
	const char *keys, *says;
} mistakes[] = {
	{"user = nobody-of-that-name\n", "there is no user nobody-of-that-name"},
	{"user = games:no-such-group\n", "there is no group no-such-group"},
	{"user = root\n", "is root, whom nothing confines"},
	{"user =\n", "user"},
	{"user = :mail\n", "there is no user"},
	{"user = ../etc\n", "there is no user"},
	{"landlock = perhaps\n", "write one of no, state, yes"},
	{"landlock = state\nlandlock_read = /usr\n", "only widen landlock = yes"},
	{"landlock = yes\nreuse = 2\n", "cannot be kept to the directory of one"},
	{"user = games\nreuse = 2\n", "cannot be kept to the directory of one"},
	{"landlock_read = /usr\n", "only widen landlock = yes"},
	{"landlock_write = /tmp\n", "only widen landlock = yes"},
	{"limit_memory = -1\n", "not understood"},
	{"limit_cpu = 10\n", "not understood"},
	{"cgroup_cpu_max = 50%\n", "not understood"},
	{"cgroup_pids_max = 99999999\n", "too much"},
};

START_TEST(a_mistake_is_told)
{
	struct buf b = {0};

	buf_addf(&b, ONE "%s", mistakes[_i].keys);
	cfg_load(buf_text(&b));
	buf_fini(&b);
	ck_assert_msg(!cfg && strstr(buf_text(&cfg_said), mistakes[_i].says), "%s: %s", mistakes[_i].keys,
		buf_text(&cfg_said));
}
END_TEST

START_TEST(a_path_that_is_not_there_is_a_warning)
{
	load_confine("landlock = yes\nlandlock_read = /not/there\n");
	ck_assert_msg(strstr(buf_text(&cfg_said), "/not/there is not there now"), "%s", buf_text(&cfg_said));
}
END_TEST

static bool has_secret(const char *name)
{
	for (char **s = cfg->secrets; *s; s++)
		if (strcmp(*s, cfg_in_dir(name)) == 0)
			return true;
	return false;
}

START_TEST(every_file_with_a_secret_is_remembered)
{
	cfg_put_file("a.env", "A=1\n", 4, 0600);
	cfg_put_file("b.env", "B=1\n", 4, 0600);
	cfg_put_file("pw", "secret\n", 7, 0600);
	cfg_put_file("k.pem", "x", 1, 0600);
	cfg_put_file("c.pem", "x", 1, 0600);
	cfg_load(ONE
		"env_file = a.env\n[capability b]\ndeclaration = b.json\ncommand = /bin/true\nenv_file = "
		"b.env\n"
		"[amqp]\nurl = amqps://u@127.0.0.1\npassword_file = pw\ncert_file = c.pem\nkey_file = "
		"k.pem\n");
	ck_assert_msg(cfg != NULL, "%s", buf_text(&cfg_said));
	ck_assert(
		has_secret("hcpd.ini") && has_secret("state") && has_secret("a.env") && has_secret("b.env"));
	ck_assert(has_secret("pw") && has_secret("k.pem"));
	ck_assert(!has_secret("c.pem"));
	for (size_t i = 0; i < cfg->capability_count; i++)
		ck_assert_ptr_eq(cfg->capabilities[i].confine.secrets, cfg->secrets);
}
END_TEST

START_TEST(means_that_this_process_lacks_are_named)
{
	load_confine("user = games\nlandlock = yes\n");
	if (geteuid() == 0) {
		ck_assert(confine_check(&cfg->capabilities[0], cfg_say, &cfg_said));
		ck_assert_int_eq(seteuid(65534), 0);
	}
	ck_assert(!confine_check(&cfg->capabilities[0], cfg_say, &cfg_said));
	ck_assert_msg(strstr(buf_text(&cfg_said),
			      "user = games cannot be done by this process, which lacks CAP_CHOWN"),
		"%s", buf_text(&cfg_said));
	ck_assert_int_eq(cfg_errors, 0);
	landlock_abi_max = 0;
	(void)confine_check(&cfg->capabilities[0], cfg_say, &cfg_said);
	ck_assert_msg(strstr(buf_text(&cfg_said), "landlock = yes: this kernel has no Landlock"), "%s",
		buf_text(&cfg_said));
	(void)!seteuid(getuid());
}
END_TEST

START_TEST(landlock_for_root_is_warned_about)
{
	load_confine("landlock = yes\n");
	if (geteuid() != 0 || landlock_find_abi() == 0)
		return;
	ck_assert(confine_check(&cfg->capabilities[0], cfg_say, &cfg_said));
	ck_assert_msg(strstr(buf_text(&cfg_said), "workers that are root"), "%s", buf_text(&cfg_said));
}
END_TEST

/* Once, however many capabilities have it. */
START_TEST(a_default_that_cannot_be_kept_is_warned_about)
{
	load_confine("");
	confine_check_state(cfg, cfg_say, &cfg_said);
	landlock_abi_max = 0;
	buf_clear(&cfg_said);
	confine_check_state(cfg, cfg_say, &cfg_said);
	ck_assert_msg(strstr(buf_text(&cfg_said),
			      "landlock = state, the default, cannot be kept: this kernel has no") != NULL,
		"%s", buf_text(&cfg_said));
	buf_clear(&cfg_said);
	load_confine("reuse = 2\n");
	ck_assert_msg(
		strstr(buf_text(&cfg_said), "reuse = 2: its workers can open the state directory") != NULL,
		"%s", buf_text(&cfg_said));
	ck_assert_int_eq(cfg->capabilities[0].confine.landlock, LANDLOCK_NO);
	buf_clear(&cfg_said);
	load_confine("reuse = 2\nlandlock = off\n");
	ck_assert_msg(strstr(buf_text(&cfg_said), "state directory") == NULL, "%s", buf_text(&cfg_said));
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, without_these_keys_only_secrets_and_core_dumps_are_withheld);
	tcase_add_test(t, each_key_has_its_meaning);
	tcase_add_test(t, a_user_is_looked_up_with_its_groups_and_home);
	tcase_add_test(t, a_named_group_is_the_only_one);
	tcase_add_loop_test(t, a_mistake_is_told, 0, COUNT(mistakes));
	tcase_add_test(t, a_path_that_is_not_there_is_a_warning);
	tcase_add_test(t, every_file_with_a_secret_is_remembered);
	tcase_add_test(t, means_that_this_process_lacks_are_named);
	tcase_add_test(t, landlock_for_root_is_warned_about);
	tcase_add_test(t, a_default_that_cannot_be_kept_is_warned_about);
}

int main(void)
{
	return cfg_run("config_confine", add_tests);
}
