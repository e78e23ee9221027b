/* SPDX-License-Identifier: MIT */
/* launch_kit.c: what launch_kit.h declares. */
#include "support/launch_kit.h"
#include "process/forker.h"

char launch_kit_base[64];
char launch_kit_why[512];
char launch_kit_output[65536];
int launch_kit_status;

const char *launch_kit_in_base(const char *name)
{
	static char paths[8][512];
	static int turn;
	char *path = paths[turn++ % 8];

	snprintf(path, sizeof paths[0], "%s/%s", launch_kit_base, name);
	return path;
}

void launch_kit_begin(void)
{
	strcpy(launch_kit_base, "/tmp/hcpd-launch-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(launch_kit_base));
	ck_assert_int_eq(chmod(launch_kit_base, 0755), 0);
}

void launch_kit_end(void)
{
	char command[200];

	snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", launch_kit_base, launch_kit_base);
	ck_assert_int_eq(system(command), 0);
}

const char *launch_kit_put(const char *name, const char *text, mode_t mode)
{
	const char *path = launch_kit_in_base(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

const char *launch_kit_make_dir(const char *name, mode_t mode)
{
	const char *path = launch_kit_in_base(name);

	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_eq(chmod(path, mode), 0);
	return path;
}

/* Both streams until their end, bounded in time. */
static void launch_kit_read_all(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	size_t size = 0;
	ssize_t n = 1;

	while (n > 0 && size < sizeof launch_kit_output - 1) {
		ck_assert_msg(poll(&pfd, 1, WAIT_MS) == 1, "it does not end, and said: %.*s", (int)size,
			launch_kit_output);
		n = read(fd, launch_kit_output + size, sizeof launch_kit_output - 1 - size);
		size += n > 0 ? (size_t)n : 0;
	}
	launch_kit_output[size] = '\0';
}

static bool uses_forker;

void launch_kit_use_forker(void)
{
	uses_forker = true;
}

/* One for each process: a thread is not there after a fork. */
static struct forker *find_forker(void)
{
	static struct forker *forker;
	static int pid;

	if (uses_forker && pid != getpid()) {
		forker = forker_new();
		ck_assert_ptr_nonnull(forker);
		pid = getpid();
	}
	return forker;
}

int launch_kit_start(const struct config_confine *f, const char *workdir, char *const *argv, int *out)
{
	static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", *env[] = {path, NULL};
	struct launch_pipes pipes;
	struct launch s = {.argv = argv,
		.env = env,
		.workdir = workdir,
		.cgroup_fd = -1,
		.confine = f,
		.forker = find_forker()};
	int pid;

	ck_assert_int_eq(launch_pipes_open(&pipes, false), 0);
	memcpy(s.fds, pipes.theirs, sizeof s.fds);
	s.fds[2] = s.fds[1];
	launch_kit_why[0] = '\0';
	pid = launch_process(&s, launch_kit_why, sizeof launch_kit_why);
	launch_pipes_close(pipes.theirs);
	fcntl(pipes.ours[1], F_SETFL, 0);
	*out = pipes.ours[1];
	close(pipes.ours[2]);
	return pid;
}

bool launch_kit_run(const struct config_confine *f, const char *workdir, char *const *argv)
{
	int out, pid = launch_kit_start(f, workdir, argv, &out);

	launch_kit_output[0] = '\0';
	if (pid > 0) {
		launch_kit_read_all(out);
		ck_assert_int_eq(waitpid(pid, &launch_kit_status, 0), pid);
	}
	close(out);
	return pid > 0;
}

const char *launch_kit_run_sh(const struct config_confine *f, const char *workdir, const char *script)
{
	char sh[] = "/bin/sh", c[] = "-c", *copy = xstrdup(script), *argv[] = {sh, c, copy, NULL};

	ck_assert_msg(launch_kit_run(f, workdir, argv), "%s", launch_kit_why);
	free(copy);
	return launch_kit_output;
}

bool launch_kit_user_fill(struct config_confine *f, const char *name)
{
	static char text[4][32];
	static uint32_t groups[4];
	static int turn;
	const struct passwd *pw = getpwnam(name);

	if (geteuid() != 0 || !pw) {
		fprintf(stderr, "SKIPPED: only root can be another user, or there is no %s\n", name);
		return false;
	}
	turn = (turn + 1) % 4;
	snprintf(text[turn], sizeof text[turn], "%s", name);
	f->user = text[turn];
	f->uid = pw->pw_uid;
	f->gid = groups[turn] = pw->pw_gid;
	f->groups = &groups[turn];
	f->group_count = 1;
	return true;
}
