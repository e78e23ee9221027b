/* SPDX-License-Identifier: MIT */
/* doctor_state.c: the state directory: its owner, the daemon in it, and the free space.
 * Owns the question which user runs hcpd.
 * Never keeps the lock: it tries it for an instant, and a starting hcpd tries again. doctor_store.c checks
 * the database. */
#include "hcpctl/setup/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"

#define SPACE_LEAST (UINT64_C(64) << 20)
#define INODES_LEAST 1000
#define UNIT_CONFIG "/etc/hcpd/hcpd.ini"
#define UNIT_USER "hcpd"

/* --- which user runs hcpd --- */

/* 1: held, *pid is the number in the file (0: none); 0: free, or the file was never made; -1: not visible. */
static int read_lock_holder(const char *dir, pid_t *pid)
{
	char path[4200], text[32] = "";
	int fd, held;

	*pid = 0;
	snprintf(path, sizeof path, "%s/hcpd.lock", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
	held = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
	if (held && read(fd, text, sizeof text - 1) > 0)
		*pid = atoi(text);
	close(fd);
	return held;
}

static void take_user(struct doctor *d, uid_t uid)
{
	const struct passwd *pw = getpwuid(uid);

	d->uid = uid;
	d->gid = pw ? pw->pw_gid : (gid_t)uid;
	if (pw)
		snprintf(d->user, sizeof d->user, "%s", pw->pw_name);
	else
		snprintf(d->user, sizeof d->user, "%u", (unsigned)uid);
}

/* hcpd does not run or is not visible: takes the unit's user or the directory's owner, if that is not the
 * current user. */
static uid_t guess_user(const struct doctor *d)
{
	const struct passwd *pw = strcmp(d->path, UNIT_CONFIG) == 0 ? getpwnam(UNIT_USER) : NULL;
	struct stat st;

	if (geteuid() != 0 && !d->lock_unseen)
		return geteuid(); /* the current user may enter the directory, so it is meant for this user */
	if (pw)
		return pw->pw_uid;
	return stat(d->config->state_dir, &st) == 0 ? st.st_uid : 0;
}

static bool take_asked_user(struct doctor *d)
{
	const struct passwd *pw;

	if (!d->asked_user)
		return false;
	if ((pw = getpwnam(d->asked_user))) {
		take_user(d, pw->pw_uid);
		return true;
	}
	doctor_say(d, DOCTOR_FAIL, "daemon", "name a user of this machine, or leave --user out",
		"there is no user %s", d->asked_user);
	return false;
}

void doctor_find_daemon(struct doctor *d)
{
	int held = read_lock_holder(d->config->state_dir, &d->pid);
	char proc[32];
	struct stat st;

	d->lock_unseen = held < 0;
	snprintf(proc, sizeof proc, "/proc/%d", (int)d->pid);
	if (held > 0 && d->pid > 0 && stat(proc, &st) == 0)
		take_user(d, st.st_uid);
	else if (!take_asked_user(d))
		take_user(d, guess_user(d));
	if (held > 0 && d->pid == 0)
		d->pid = -1; /* the lock is held, but its holder has not written its pid yet */
	if (held > 0)
		doctor_say(d, DOCTOR_OK, "daemon", NULL, "hcpd runs, pid %d, user %s", (int)d->pid, d->user);
	else if (held < 0)
		doctor_say(d, DOCTOR_SKIP, "daemon", "run it as root, or as the user that runs hcpd",
			"the lock in %s cannot be read, so it is not known whether hcpd runs",
			d->config->state_dir);
	else
		doctor_say(d, DOCTOR_WARN, "daemon",
			"systemctl start hcpd, and see journalctl -u hcpd where it does not stay up",
			"hcpd does not run: nobody holds the lock in %s", d->config->state_dir);
}

/* --- the directory --- */

/* A file system without ordinary files, such as /proc: access(2) lets root write there, but no file stays. */
static bool is_kernels(const char *dir)
{
	static const unsigned kinds[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC,
		CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC, SECURITYFS_MAGIC, DEVPTS_SUPER_MAGIC,
		BPF_FS_MAGIC, PSTOREFS_MAGIC};
	struct statfs fs;

	if (statfs(dir, &fs) < 0)
		return false;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if ((unsigned)fs.f_type == kinds[i])
			return true;
	return false;
}

static void check_missing(struct doctor *d, const char *dir)
{
	char *copy = xstrdup(dir), *parent = dirname(copy);
	struct stat st;

	if (stat(parent, &st) < 0 && errno == ENOENT)
		doctor_say(d, DOCTOR_FAIL, "state", "make it, owned by that user, mode 0700",
			"%s is not there, and nor is %s: hcpd makes only the last directory of the path", dir,
			parent);
	else if (is_kernels(parent))
		doctor_say(d, DOCTOR_FAIL, "state", "name a state_dir on a disk",
			"%s is not there and cannot be made: %s is a file system of the kernel's own", dir,
			parent);
	else if (access(parent, W_OK | X_OK) == 0)
		doctor_say(d, DOCTOR_OK, "state", NULL,
			"%s is not there yet; hcpd makes it at its first start", dir);
	else
		doctor_say(d, DOCTOR_FAIL, "state", "make it, owned by that user, mode 0700",
			"%s is not there, and user %s cannot make it: %s", dir, d->user, strerror(errno));
	free(copy);
}

static bool check_owner(struct doctor *d, const char *dir, const struct stat *st)
{
	struct buf todo = {0};
	const struct passwd *pw;

	if (st->st_uid == d->uid)
		return true;
	pw = getpwuid(st->st_uid);
	buf_addf(&todo, "chown -R %s %s, or run hcpd as its owner", d->user, dir);
	doctor_say(d, DOCTOR_FAIL, "state", buf_text(&todo), "%s belongs to user %s, and hcpd runs as %s",
		dir, pw ? pw->pw_name : "(unknown)", d->user);
	buf_fini(&todo);
	return false;
}

static bool check_access(struct doctor *d, const char *path)
{
	struct buf todo = {0};

	if (access(path, R_OK | W_OK | X_OK) == 0 ||
		(errno == ENOENT && strcmp(path, d->config->state_dir) != 0))
		return true;
	buf_addf(&todo,
		errno == EROFS ? "mount its file system writable%s" :
				 "chmod u+rwx %s, and let its parents be passed",
		errno == EROFS ? "" : path);
	doctor_say(d, DOCTOR_FAIL, "state", buf_text(&todo), "%s cannot be used by user %s: %s", path,
		d->user, strerror(errno));
	buf_fini(&todo);
	return false;
}

static void check_open(struct doctor *d, const char *path, mode_t mode, mode_t allowed)
{
	struct buf todo = {0};

	if ((mode & 077 & ~allowed) == 0)
		return;
	buf_addf(&todo, "chmod %04o %s", allowed, path);
	doctor_say(d, DOCTOR_WARN, "state", buf_text(&todo),
		"%s has mode %04o, so others get at tasks and tokens", path, mode & 07777);
	buf_fini(&todo);
}

/* token_keys.c refuses keys that others can read, because they are no secret any more. Older versions used
 * token.key. */
static void check_key(struct doctor *d, const char *dir)
{
	static const char *const names[] = {"token.keys", "token.key"};
	char path[4200];
	struct stat st;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		if (stat(path, &st) == 0 && (st.st_mode & 077))
			doctor_say(d, DOCTOR_FAIL, "state",
				"remove it while hcpd is stopped: a new one is made, and older tokens are "
				"void",
				"%s has mode %04o; hcpd does not start with a key that others can read", path,
				st.st_mode & 07777);
	}
}

static void check_space(struct doctor *d, const char *dir)
{
	uint64_t free_bytes, wanted = (uint64_t)d->config->max_outbox_total;
	struct statvfs v;

	if (statvfs(dir, &v) < 0) {
		doctor_say(d, DOCTOR_SKIP, "space", NULL, "free space of %s cannot be asked for: %s", dir,
			strerror(errno));
		return;
	}
	free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
	if (free_bytes < SPACE_LEAST)
		doctor_say(d, DOCTOR_FAIL, "space",
			"make room: hcpd stands still when the store cannot be written",
			"%s has %llu MiB left", dir, (unsigned long long)(free_bytes >> 20));
	else if (v.f_files > 0 && v.f_favail < INODES_LEAST)
		doctor_say(d, DOCTOR_FAIL, "space", "remove files: every session needs some",
			"%s has %llu inodes left", dir, (unsigned long long)v.f_favail);
	else if (free_bytes < wanted)
		doctor_say(d, DOCTOR_WARN, "space", "make room, or lower max_outbox_total in [session]",
			"%s has %llu MiB left, and unconfirmed events alone may take %llu", dir,
			(unsigned long long)(free_bytes >> 20), (unsigned long long)(wanted >> 20));
	else
		doctor_say(d, DOCTOR_OK, "space", NULL, "%s has %llu MiB left", dir,
			(unsigned long long)(free_bytes >> 20));
}

static void check_directory(struct doctor *d, const void *ctx)
{
	const char *dir = d->config->state_dir;
	char work[4200];
	struct stat st;

	if (stat(dir, &st) < 0 && errno == ENOENT) {
		check_missing(d, dir);
		return;
	}
	snprintf(work, sizeof work, "%s/work", dir);
	if (stat(dir, &st) < 0)
		(void)check_access(d, dir);
	else if (!S_ISDIR(st.st_mode))
		doctor_say(d, DOCTOR_FAIL, "state", "name another state_dir, or move that away",
			"%s is no directory", dir);
	else if (check_owner(d, dir, &st) && check_access(d, dir) && check_access(d, work)) {
		check_open(d, dir, st.st_mode, config_has_users(d->config) ? 0711 : 0700);
		check_key(d, dir);
		doctor_say(d, DOCTOR_OK, "state", NULL, "%s can be used by user %s", dir, d->user);
		check_space(d, dir);
		doctor_check_store(d, ctx);
	}
}

void doctor_check_state(struct doctor *d)
{
	doctor_as(d, d->uid, d->gid, d->user, "state", d->config->state_dir, check_directory, NULL);
}
