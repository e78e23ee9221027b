/* launch_kit.h: one process started as the daemon starts them, what it printed, and how it ended; and a
 * directory that looks like a state directory. Everything is static: a test includes it once. */
#ifndef LAUNCH_KIT_H
#define LAUNCH_KIT_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "config/config.h"
#include "process/launch.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define WAIT_MS 20000

static char base[64]; /* below /tmp, which other users can enter, as they cannot every TMPDIR */
static char why[512];
static char output[65536];
static int status;

static inline const char *in_base(const char *name)
{
	static char paths[8][512];
	static int turn;
	char *path = paths[turn++ % 8];

	snprintf(path, sizeof paths[0], "%s/%s", base, name);
	return path;
}

static inline void kit_begin(void)
{
	strcpy(base, "/tmp/hcpd-launch-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(base));
	ck_assert_int_eq(chmod(base, 0755), 0);
}

static inline void kit_end(void)
{
	char command[200];

	snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", base, base);
	ck_assert_int_eq(system(command), 0);
}

static inline const char *put(const char *name, const char *text, mode_t mode)
{
	const char *path = in_base(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

static inline const char *make_dir(const char *name, mode_t mode)
{
	const char *path = in_base(name);

	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_eq(chmod(path, mode), 0);
	return path;
}

/* Both streams until their end, bounded in time. */
static inline void read_all(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	size_t size = 0;
	ssize_t n = 1;

	while (n > 0 && size < sizeof output - 1) {
		ck_assert_msg(
			poll(&pfd, 1, WAIT_MS) == 1, "it does not end, and said: %.*s", (int)size, output);
		n = read(fd, output + size, sizeof output - 1 - size);
		size += n > 0 ? (size_t)n : 0;
	}
	output[size] = '\0';
}

/* Its pid, with *out its stdout and stderr in one; -1 with `why`. */
static inline int kit_start(const struct config_confine *f, const char *workdir, char *const *argv, int *out)
{
	static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", *env[] = {path, NULL};
	struct launch_pipes pipes;
	struct launch s = {.argv = argv, .env = env, .workdir = workdir, .cgroup_fd = -1, .confine = f};
	int pid;

	ck_assert_int_eq(launch_pipes_open(&pipes, false), 0);
	memcpy(s.fds, pipes.theirs, sizeof s.fds);
	s.fds[2] = s.fds[1];
	why[0] = '\0';
	pid = launch_process(&s, why, sizeof why);
	launch_pipes_close(pipes.theirs);
	fcntl(pipes.ours[1], F_SETFL, 0);
	*out = pipes.ours[1];
	close(pipes.ours[2]);
	return pid;
}

static inline bool kit_run(const struct config_confine *f, const char *workdir, char *const *argv)
{
	int out, pid = kit_start(f, workdir, argv, &out);

	output[0] = '\0';
	if (pid > 0) {
		read_all(out);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	}
	close(out);
	return pid > 0;
}

/* sh -c SCRIPT; fails the test where it cannot be started. */
static inline const char *run_sh(const struct config_confine *f, const char *workdir, const char *script)
{
	char sh[] = "/bin/sh", c[] = "-c", *copy = xstrdup(script), *argv[] = {sh, c, copy, NULL};

	ck_assert_msg(kit_run(f, workdir, argv), "%s", why);
	free(copy);
	return output;
}

/* What config_confine.c would have found. False, and a line that says so, where we may not become others. */
static inline bool user_fill(struct config_confine *f, const char *name)
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

#endif
