/* SPDX-License-Identifier: MIT */
/* test_proctree_cgroup.c: each worker in a cgroup of its own: the same ends, and no group is left. Says so
 * and passes where there is no cgroup2 that we may write to. */
#include "support/proctree_kit.h"

static int count_groups(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int n = 0;

	while ((e = readdir(d)) != NULL)
		n += strncmp(e->d_name, "hcpd-", 5) == 0;
	closedir(d);
	return n;
}

START_TEST(in_a_cgroup_the_ladder_is_the_same)
{
	char *dir = wrig_make_cgroup();

	if (!dir)
		return;
	tree_end_setsid(dir);
	ck_assert_int_eq(count_groups(dir), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(in_a_cgroup_a_daemon_that_nobody_ever_saw_is_killed)
{
	char *dir = wrig_make_cgroup();
	struct rec r, other;
	int pid;

	if (!dir)
		return;
	wrig_begin(dir);
	wrig_start(&other, "exec cat");
	ck_assert_int_eq(count_groups(dir), 1);
	wrig_start_helper(&r, "daemon", "now");
	wrig_until(r.lines[0] == 2);
	pid = tree_daemon_pid(&r);
	ck_assert(process_is_alive(pid));
	ck_assert(!worker_is_alone(r.w));
	ck_assert(worker_is_alone(other.w));
	rec_kill(&r);
	ck_assert(!process_is_alive(pid));
	ck_assert_int_eq(count_groups(dir), 1);
	rec_kill(&other);
	ck_assert_int_eq(count_groups(dir), 0);
	rec_free(&r);
	rec_free(&other);
	wrig_end();
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(in_a_cgroup_a_bomb_and_a_hopper_end)
{
	char *dir = wrig_make_cgroup();
	struct rec r;

	if (!dir)
		return;
	tree_end_bomb(dir);
	wrig_begin(dir);
	wrig_start_helper(&r, "hop", "");
	wrig_until(r.exits);
	wrig_for_ms(100);
	ck_assert_int_eq(r.gone, 0);
	rec_kill(&r);
	rec_free(&r);
	wrig_end();
	ck_assert_int_eq(count_groups(dir), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(groups_of_an_earlier_run_are_emptied_and_removed)
{
	char *dir = wrig_make_cgroup(), path[700], text[32];
	int pid, fd;

	if (!dir)
		return;
	snprintf(path, sizeof path, "%s/hcpd-%.8s-77", dir, RIG_INSTANCE);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	strcat(path, "/inner"); /* a worker may make groups of its own */
	ck_assert_int_eq(mkdir(path, 0755), 0);
	pid = tree_start_bare("NOTHING=1");
	strcat(path, "/cgroup.procs");
	fd = open(path, O_WRONLY);
	snprintf(text, sizeof text, "%d", pid);
	ck_assert_int_gt(write(fd, text, strlen(text)), 0);
	close(fd);
	snprintf(path, sizeof path, "%s/hcpd-deadbeef-1", dir); /* another instance's */
	ck_assert_int_eq(mkdir(path, 0755), 0);
	wrig_begin(dir);
	ck_assert_int_eq(workers_kill_stale(wrig.ws), 1);
	ck_assert(!process_is_alive(pid));
	ck_assert_int_eq(count_groups(dir), 1);
	ck_assert_int_eq(rmdir(path), 0);
	wrig_end();
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* Moving into a group needs a right on the group that both are in. */
START_TEST(a_refused_cgroup_costs_one_worker_its_own_and_nobody_else)
{
	char *dir = getuid() == 0 ? wrig_make_cgroup() : NULL;
	struct rec r, refused, later;
	int pid;

	if (!dir)
		return;
	wrig_begin(dir);
	wrig_start_helper(&r, "daemon", "now");
	wrig_until(r.lines[0] == 2);
	pid = tree_daemon_pid(&r);
	ck_assert_int_eq(chown(dir, 65534, -1u) | seteuid(65534), 0);
	wrig_start(&refused, "exec cat");
	ck_assert_int_eq(seteuid(0), 0);
	ck_assert_int_eq(count_groups(dir), 1);
	wrig_start(&later, "exec cat");
	ck_assert_int_eq(count_groups(dir), 2);
	rec_kill(&r);
	ck_assert(!process_is_alive(pid));
	ck_assert_int_eq(count_groups(dir), 1);
	worker_close_stdin(refused.w);
	wrig_until(refused.gone);
	rec_kill(&later);
	rec_free(&r);
	rec_free(&refused);
	rec_free(&later);
	wrig_end();
	ck_assert_int_eq(count_groups(dir), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(a_group_that_a_worker_made_stays_while_it_lives)
{
	char *dir = wrig_make_cgroup(), path[700];
	struct rec r;

	if (!dir)
		return;
	wrig_begin(dir);
	wrig_start(&r, "exec cat");
	snprintf(path, sizeof path, "%s/hcpd-%.8s-1/inner", dir, RIG_INSTANCE);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	ck_assert(worker_is_alone(r.w));
	ck_assert_int_eq(access(path, F_OK), 0);
	rec_kill(&r);
	rec_free(&r);
	ck_assert_int_eq(count_groups(dir), 0);
	wrig_end();
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

static int fill[64], filled;

/* Whatever was closed meanwhile is taken, too. */
static bool fill_fds(void)
{
	while (filled < 64 && (fill[filled] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		filled++;
	return true;
}

START_TEST(without_descriptors_a_worker_in_a_cgroup_ends_all_the_same)
{
	char *dir = wrig_make_cgroup();
	struct rlimit lim = {64, 64};
	struct rec r, other;

	if (!dir)
		return;
	wrig_begin(dir);
	wrig_start_helper(&r, "daemon", "now");
	wrig_start(&other, "exec 1>&- 2>&-; exec cat");
	wrig_until(r.lines[0] == 2 && other.eof[0] && other.eof[1]);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lim), 0);
	worker_close_stdin(other.w);
	wrig_until(fill_fds() && other.gone);
	worker_end(r.w, 0, 0);
	wrig_until(fill_fds() && r.gone);
	while (filled > 0)
		close(fill[--filled]);
	rec_free(&r);
	rec_free(&other);
	wrig_end();
	ck_assert_int_eq(count_groups(dir), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(a_cgroup_setting_that_cannot_be_used_is_no_obstacle)
{
	struct rec r;

	wrig_begin("/tmp");
	wrig_start(&r, "echo x");
	wrig_until(r.gone);
	rec_free(&r);
	wrig_end();
	wrig_begin("auto");
	wrig_start(&r, "echo x");
	wrig_until(r.gone);
	rec_free(&r);
	wrig_end();
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("proctree_cgroup");
	TCase *t = tcase_create("cgroup");

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 150);
	tcase_add_test(t, in_a_cgroup_the_ladder_is_the_same);
	tcase_add_test(t, in_a_cgroup_a_daemon_that_nobody_ever_saw_is_killed);
	tcase_add_test(t, in_a_cgroup_a_bomb_and_a_hopper_end);
	tcase_add_test(t, groups_of_an_earlier_run_are_emptied_and_removed);
	tcase_add_test(t, a_refused_cgroup_costs_one_worker_its_own_and_nobody_else);
	tcase_add_test(t, a_group_that_a_worker_made_stays_while_it_lives);
	tcase_add_test(t, without_descriptors_a_worker_in_a_cgroup_ends_all_the_same);
	tcase_add_test(t, a_cgroup_setting_that_cannot_be_used_is_no_obstacle);
	return s;
}

int main(int argc, char **argv)
{
	return proctree_main(argc, argv, make_suite);
}
