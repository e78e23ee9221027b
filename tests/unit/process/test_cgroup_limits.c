/* SPDX-License-Identifier: MIT */
/* test_cgroup_limits.c: limits of a session's cgroup. Few machines that build this delegate controllers, so a
 * plain directory plays the cgroup file system here: fstatfs, mkdirat and write are the kernel's part of
 * it. */
#include "support/worker_rig.h"

#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "process/cgroup.h"
#include "process/proctree.h"

static bool is_fake, has_daemon; /* a process is in the parent, so it can hand down no controller */
static const char *offered;      /* what the parent has to hand down */
static char base[64];

/* --- the kernel's part --- */

static void fake_file(const char *name)
{
	char path[1024];
	int fd;

	snprintf(path, sizeof path, "%s/%s", base, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
}

static void fake_controller(const char *name)
{
	DIR *d = opendir(base);
	char file[512];
	struct dirent *e;

	while (d && (e = readdir(d)) != NULL)
		if (e->d_type == DT_DIR && e->d_name[0] != '.') {
			snprintf(file, sizeof file, "%s/%s.max", e->d_name, name);
			fake_file(file);
		}
	if (d)
		closedir(d);
}

int fstatfs(int fd, struct statfs *fs)
{
	int r = (int)syscall(SYS_fstatfs, fd, fs);

	if (is_fake)
		fs->f_type = CGROUP2_SUPER_MAGIC;
	return r;
}

int mkdirat(int dir, const char *name, mode_t mode)
{
	int r = (int)syscall(SYS_mkdirat, dir, name, mode);
	char file[300];

	if (is_fake && r == 0) {
		snprintf(file, sizeof file, "%s/cgroup.procs", name);
		fake_file(file);
	}
	return r;
}

ssize_t write(int fd, const void *data, size_t size)
{
	char link[64], path[512] = "";
	const char *file, *text = data;
	char controller[32] = "";

	if (is_fake) {
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		(void)!readlink(link, path, sizeof path - 1);
	}
	file = strrchr(path, '/');
	if (file && strcmp(file, "/cgroup.subtree_control") == 0) {
		snprintf(controller, sizeof controller, "%.*s", (int)size - 1, text + 1);
		if (!strstr(offered, controller)) {
			errno = ENOENT;
			return -1;
		}
		if (has_daemon) {
			errno = EBUSY;
			return -1;
		}
		fake_controller(controller);
	}
	if (strstr(path, "/hcpd-daemon/cgroup.procs"))
		has_daemon = false;
	return syscall(SYS_write, fd, data, size);
}

/* --- the tests --- */

static struct cgroups *cs;
static struct proctree tree;
static char why[512];

static void begin(const char *controllers, bool busy)
{
	strcpy(base, "/tmp/hcpd-cgroup-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(base));
	ck_assert_int_eq(proctree_init(&tree), 0);
	is_fake = true;
	has_daemon = busy;
	offered = controllers;
	fake_file("cgroup.subtree_control");
	cs = cgroups_new(base, "5eed5eed-0000", &tree);
	ck_assert_ptr_nonnull(cs);
}

static void end(void)
{
	char command[100];

	cgroups_free(cs);
	is_fake = false;
	proctree_fini(&tree);
	snprintf(command, sizeof command, "rm -rf %s", base);
	ck_assert_int_eq(system(command), 0);
}

static const char *content(const char *name)
{
	static char text[4][128];
	static int turn;
	char path[512], *to = text[turn++ % 4];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", base, name);
	f = fopen(path, "r");
	if (!f)
		return "(none)";
	to[fread(to, 1, sizeof text[0] - 1, f)] = '\0';
	fclose(f);
	return to;
}

static int limit(const struct config_confine *f)
{
	int fd, r, group = (int)cgroup_make(cs, &fd);

	ck_assert_int_eq(group, 1);
	r = cgroup_limit(cs, (unsigned)group, f, why, sizeof why);
	close(fd);
	return r;
}

START_TEST(each_limit_is_written_as_the_kernel_reads_it) /* proves SA-03 */
{
	struct config_confine f = {
		.cgroup_memory_max = 64 << 20, .cgroup_pids_max = 7, .cgroup_cpu_max = 150};

	begin("memory pids cpu", false);
	ck_assert_msg(limit(&f) == 0, "%s", why);
	ck_assert_str_eq(content("hcpd-5eed5eed-1/memory.max"), "67108864");
	ck_assert_str_eq(content("hcpd-5eed5eed-1/pids.max"), "7");
	ck_assert_str_eq(content("hcpd-5eed5eed-1/cpu.max"), "150000 100000");
	ck_assert_str_eq(content("hcpd-daemon/cgroup.procs"), "(none)"); /* nobody was in the way */
	end();
}
END_TEST

START_TEST(only_what_is_asked_for_is_touched)
{
	struct config_confine f = {.cgroup_pids_max = 7};

	begin("memory pids cpu", false);
	ck_assert_int_eq(limit(&f), 0);
	ck_assert_str_eq(content("hcpd-5eed5eed-1/pids.max"), "7");
	ck_assert_str_eq(content("hcpd-5eed5eed-1/memory.max"), "(none)");
	ck_assert_str_eq(content("cgroup.subtree_control"), "+pids");
	end();
}
END_TEST

START_TEST(the_daemon_makes_way_where_it_is_in_the_way)
{
	struct config_confine f = {.cgroup_memory_max = 1 << 20};

	begin("memory", true);
	ck_assert_msg(limit(&f) == 0, "%s", why);
	ck_assert_str_eq(content("hcpd-daemon/cgroup.procs"), "0");
	ck_assert_str_eq(content("hcpd-5eed5eed-1/memory.max"), "1048576");
	end();
}
END_TEST

START_TEST(a_controller_that_was_not_delegated_is_named)
{
	struct config_confine f = {.cgroup_memory_max = 1 << 20, .cgroup_cpu_max = 10};

	begin("memory", false);
	ck_assert_int_eq(limit(&f), -1);
	ck_assert_msg(strstr(why, "cannot set cpu.max") && strstr(why, "delegated"), "%s", why);
	end();
}
END_TEST

static int try_start(struct rec *r, const struct config_confine *f)
{
	char sh[] = "/bin/true", *argv[] = {sh, NULL};
	struct worker_spec spec = {
		.argv = argv, .env = wrig_env, .workdir = "/", .mark = wrig_mark, .owner = r, .confine = f};

	memset(r, 0, sizeof *r);
	return worker_start(wrig.ws, &spec, &r->w, why, sizeof why);
}

START_TEST(worker_with_limits_is_not_started_without_a_cgroup)
{
	struct config_confine f = {.cgroup_pids_max = 7}, none = {0};
	struct rec r;

	wrig_begin("off");
	ck_assert_int_eq(try_start(&r, &f), -1);
	ck_assert_msg(strstr(why, "need a cgroup of version 2") != NULL, "%s", why);
	ck_assert_msg(try_start(&r, &none) == 0, "%s", why);
	wrig_until(r.gone);
	rec_free(&r);
	wrig_end();
}
END_TEST

/* Against the kernel, where it has the controller to give. */
START_TEST(more_processes_than_its_cgroup_allows_cannot_be_started)
{
	struct config_confine f = {.cgroup_pids_max = 2};
	char *dir = wrig_make_cgroup(), command[1200];
	struct rec r;

	if (!dir)
		return;
	wrig_begin(dir);
	if (try_start(&r, &f) < 0) {
		fprintf(stderr, "SKIPPED: %s\n", why);
	} else {
		char sh[] = "/bin/sh", c[] = "-c",
		     script[] = "sleep 60 & sleep 60 & sleep 60 & echo got-here",
		     *argv[] = {sh, c, script, NULL};
		struct worker_spec spec = {.argv = argv,
			.env = wrig_env,
			.workdir = "/",
			.mark = wrig_mark,
			.owner = &r,
			.confine = &f};

		wrig_until(r.gone);
		rec_free(&r);
		memset(&r, 0, sizeof r);
		ck_assert_int_eq(worker_start(wrig.ws, &spec, &r.w, why, sizeof why), 0);
		wrig_until(r.exits);
		ck_assert(strstr(rec_text(&r, WORKER_STDERR), "fork") != NULL);
		rec_kill(&r);
		rec_free(&r);
	}
	wrig_end();
	snprintf(command, sizeof command, "rmdir %s/hcpd-* %s 2>/dev/null", dir, dir);
	(void)!system(command);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("cgroup_limits");
	TCase *t = tcase_create("all");

	tcase_add_test(t, each_limit_is_written_as_the_kernel_reads_it);
	tcase_add_test(t, only_what_is_asked_for_is_touched);
	tcase_add_test(t, the_daemon_makes_way_where_it_is_in_the_way);
	tcase_add_test(t, a_controller_that_was_not_delegated_is_named);
	tcase_add_test(t, worker_with_limits_is_not_started_without_a_cgroup);
	tcase_add_test(t, more_processes_than_its_cgroup_allows_cannot_be_started);
	suite_add_tcase(s, t);
	return s;
}

int main(int argc, char **argv)
{
	static const struct wrig_helper none[] = {{NULL, NULL}};

	return wrig_main(argc, argv, none, suite);
}
