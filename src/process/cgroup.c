/* SPDX-License-Identifier: MIT */
/* cgroup.c: groups hcpd-INSTANCE8-NUMBER below one directory of a cgroup2 file system.
 * Owns those directories, the controllers that their limits need, and the daemon's own place. Never touches a
 * group of another name. */
#include "process/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "config/config.h"
#include "base/log.h"
#include "process/proctree.h"

#define DEPTH_MAX 32 /* depth of groups that a worker made inside its own */
#define DAEMONS_PLACE "hcpd-daemon"
#define CPU_PERIOD_US INT64_C(100000)
#define CPU_PERIOD_TEXT " 100000"

struct cgroups {
	struct proctree *tree;
	int dir;
	unsigned last;
	char prefix[16]; /* "hcpd-INSTANCE8-" */
};

/* The line "0::/path" of /proc/self/cgroup. */
static bool find_own_path(char *path, size_t size)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	while (f && !found && getline(&line, &room, f) > 0)
		if (strncmp(line, "0::/", 4) == 0) {
			line[strcspn(line, "\n")] = '\0';
			found = (size_t)snprintf(path, size, "%s", line + 3) < size;
		}
	free(line);
	if (f)
		fclose(f);
	return found;
}

/* ID PARENT DEV ROOT POINT OPTIONS ... - cgroup2 SOURCE OPTIONS: the mount point of `own`, a path in the
 * file system. */
static bool find_mount(const char *own, char *path, size_t size)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, root[2048], point[2048];
	size_t room = 0, n;
	bool found = false;

	while (f && !found && getline(&line, &room, f) > 0) {
		if (!strstr(line, " - cgroup2 ") ||
			sscanf(line, "%*s %*s %*s %2047s %2047s", root, point) != 2)
			continue;
		n = strcmp(root, "/") == 0 ? 0 : strlen(root);
		if (strncmp(own, root, n) != 0 || (n && own[n] && own[n] != '/'))
			continue;
		found = (size_t)snprintf(path, size, "%s%s", point, own + n) < size;
	}
	free(line);
	if (f)
		fclose(f);
	return found;
}

/* systemd marks the groups that it delegates. */
static bool is_delegated(int dir)
{
	char value[4];

	return (fgetxattr(dir, "user.delegate", value, sizeof value) == 1 && value[0] == '1') ||
		(fgetxattr(dir, "trusted.delegate", value, sizeof value) == 1 && value[0] == '1');
}

static int open_dir(const char *path, const char **why)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	*why = NULL;
	if (fd < 0)
		*why = strerror(errno);
	else if (fstatfs(fd, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
		*why = "not a cgroup2 directory";
	else if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
		*why = strerror(errno);
	if (*why && fd >= 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int open_auto(void)
{
	char own[2048], path[4096];
	const char *why;
	int fd;

	if (!find_own_path(own, sizeof own) || !find_mount(own, path, sizeof path))
		return -1;
	fd = open_dir(path, &why);
	if (fd < 0)
		return -1;
	if (!is_delegated(fd)) {
		close(fd);
		return -1;
	}
	log_info("workers get a cgroup each dir=%s", path);
	return fd;
}

struct cgroups *cgroups_new(const char *setting, const char *instance, struct proctree *tree)
{
	struct cgroups *cs;
	const char *why;
	int fd;

	if (!setting || strcmp(setting, "off") == 0)
		return NULL;
	if (strcmp(setting, "auto") == 0) {
		fd = open_auto();
		if (fd < 0)
			return NULL;
	} else {
		fd = open_dir(setting, &why);
		if (fd < 0) {
			log_error("cannot make cgroups here, going on without dir=%s error=%s", setting, why);
			return NULL;
		}
	}
	cs = xcalloc(1, sizeof *cs);
	cs->tree = tree;
	cs->dir = fd;
	snprintf(cs->prefix, sizeof cs->prefix, "hcpd-%.8s-", instance);
	return cs;
}

void cgroups_free(struct cgroups *cs)
{
	if (!cs)
		return;
	close(cs->dir);
	free(cs);
}

/* Opens a file of a group, with the spare descriptor where no other is left. */
static int group_open(struct cgroups *cs, unsigned group, const char *file, int flags)
{
	char path[64];

	snprintf(path, sizeof path, "%s%u/%s", cs->prefix, group, file);
	return proctree_open_spare(cs->tree, cs->dir, path, flags);
}

unsigned cgroup_make(struct cgroups *cs, int *procs_fd)
{
	char name[40], path[64];
	int error;

	*procs_fd = -1;
	if (!cs)
		return 0;
	do { /* the number belongs to a group of a previous run whose processes do not die: take the next */
		snprintf(name, sizeof name, "%s%u", cs->prefix, ++cs->last);
	} while (mkdirat(cs->dir, name, 0755) < 0 && errno == EEXIST);
	snprintf(path, sizeof path, "%s/cgroup.procs", name);
	*procs_fd = openat(cs->dir, path, O_WRONLY | O_CLOEXEC);
	if (*procs_fd >= 0)
		return cs->last;
	error = errno;
	unlinkat(cs->dir, name, AT_REMOVEDIR);
	errno = error;
	return 0;
}

/* --- limits --- */

static int write_file(int dir, const char *path, const char *text)
{
	int fd = openat(dir, path, O_WRONLY | O_CLOEXEC), error;
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	error = errno;
	close(fd);
	errno = error;
	return n < 0 ? -1 : 0;
}

/* Controllers are enabled for the groups below. A group that does so may have no process itself. */
static int leave_parent(struct cgroups *cs)
{
	if (mkdirat(cs->dir, DAEMONS_PLACE, 0755) < 0 && errno != EEXIST)
		return -1;
	if (write_file(cs->dir, DAEMONS_PLACE "/cgroup.procs", "0") < 0)
		return -1;
	log_info(
		"moved into a cgroup of our own, so that those of workers can have limits "
		"group=" DAEMONS_PLACE);
	return 0;
}

static int enable_controller(struct cgroups *cs, const char *controller)
{
	char text[24];

	snprintf(text, sizeof text, "+%s", controller);
	if (write_file(cs->dir, "cgroup.subtree_control", text) == 0)
		return 0;
	if (errno != EBUSY || leave_parent(cs) < 0)
		return -1;
	return write_file(cs->dir, "cgroup.subtree_control", text);
}

static int limit_one(struct cgroups *cs, unsigned group, const char *controller, const char *text)
{
	char path[64];

	snprintf(path, sizeof path, "%s%u/%s.max", cs->prefix, group, controller);
	if (write_file(cs->dir, path, text) == 0)
		return 0;
	/* the file comes with the controller */
	if (errno != ENOENT || enable_controller(cs, controller) < 0)
		return -1;
	return write_file(cs->dir, path, text);
}

int cgroup_limit(
	struct cgroups *cs, unsigned group, const struct config_confine *f, char *why, size_t why_size)
{
	const struct {
		const char *controller;
		int64_t value; /* 0: none */
		const char *rest;
	} rows[] = {{"memory", f->cgroup_memory_max, ""}, {"pids", f->cgroup_pids_max, ""},
		{"cpu", f->cgroup_cpu_max * (CPU_PERIOD_US / 100), CPU_PERIOD_TEXT}};
	char text[48];

	if (!cs || !group) {
		snprintf(why, why_size,
			"cgroup_memory_max, cgroup_pids_max and cgroup_cpu_max need a cgroup of version 2 "
			"that is delegated to hcpd, and there is none");
		errno = EOPNOTSUPP;
		return -1;
	}
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (!rows[i].value)
			continue;
		snprintf(text, sizeof text, "%lld%s", (long long)rows[i].value, rows[i].rest);
		if (limit_one(cs, group, rows[i].controller, text) < 0) {
			snprintf(why, why_size,
				"cannot set %s.max of its cgroup: %s (is that controller delegated to hcpd?)",
				rows[i].controller, strerror(errno));
			return -1;
		}
	}
	return 0;
}

bool cgroup_kill(struct cgroups *cs, unsigned group)
{
	int fd = cs && group ? group_open(cs, group, "cgroup.kill", O_WRONLY) : -1;
	bool ok;

	if (fd < 0)
		return false;
	ok = write(fd, "1", 1) == 1;
	proctree_close_spare(cs->tree, fd);
	return ok;
}

bool cgroup_is_populated(struct cgroups *cs, unsigned group)
{
	char text[256];
	ssize_t n;
	int fd, error;

	if (!cs || !group)
		return false;
	fd = group_open(cs, group, "cgroup.events", O_RDONLY);
	if (fd < 0)
		return errno != ENOENT;
	n = read(fd, text, sizeof text - 1);
	error = errno;
	proctree_close_spare(cs->tree, fd);
	if (n <= 0)
		return n < 0 && error != ENODEV;
	text[n] = '\0';
	return strstr(text, "populated 0") == NULL;
}

/* Calls on_group for dir and every group below it, the lower ones first, then closes dir. */
static void each_group(int dir, int depth, void (*on_group)(void *ctx, int dir), void *ctx)
{
	int list = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), sub;
	DIR *d = list >= 0 ? fdopendir(list) : NULL;
	struct dirent *e;

	while (d && depth < DEPTH_MAX && (e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.' || e->d_type != DT_DIR)
			continue;
		sub = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub < 0)
			continue;
		each_group(sub, depth + 1, on_group, ctx);
		if (!on_group) /* only to remove it; the kernel refuses while a process is in it */
			unlinkat(dir, e->d_name, AT_REMOVEDIR);
	}
	if (d)
		closedir(d);
	else if (list >= 0)
		close(list);
	if (on_group)
		on_group(ctx, dir);
	close(dir);
}

struct pid_reader {
	void (*on_pid)(void *ctx, int pid);
	void *ctx;
};

static void read_pids(void *ctx, int dir)
{
	struct pid_reader *r = ctx;
	int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC), pid;
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;

	while (f && fscanf(f, "%d", &pid) == 1)
		if (pid > 0) /* 0: of another pid namespace */
			r->on_pid(r->ctx, pid);
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);
}

void cgroup_each_pid(struct cgroups *cs, unsigned group, void (*on_pid)(void *ctx, int pid), void *ctx)
{
	struct pid_reader r = {on_pid, ctx};
	char name[40];
	int dir;

	if (!cs || !group)
		return;
	snprintf(name, sizeof name, "%s%u", cs->prefix, group);
	dir = openat(cs->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir >= 0)
		each_group(dir, 0, read_pids, &r);
}

/* True: the group does not exist any more. */
static bool remove_group(struct cgroups *cs, const char *name)
{
	int dir;

	if (unlinkat(cs->dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return true;
	dir = openat(cs->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return errno == ENOENT;
	each_group(dir, 0, NULL, NULL);
	return unlinkat(cs->dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

void cgroup_remove(struct cgroups *cs, unsigned group)
{
	char name[40];

	if (!cs || !group)
		return;
	snprintf(name, sizeof name, "%s%u", cs->prefix, group);
	if (!remove_group(cs, name))
		log_warn("cannot remove a cgroup, the next start will group=%s error=%s", name,
			strerror(errno));
}

int cgroups_kill_stale(struct cgroups *cs, void (*on_pid)(void *ctx, int pid), void *ctx)
{
	struct pid_reader r = {on_pid, ctx};
	int list = cs ? openat(cs->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, left = 0, dir, kill;
	DIR *d = list >= 0 ? fdopendir(list) : NULL;
	struct dirent *e;

	while (d && (e = readdir(d)) != NULL) {
		if (strncmp(e->d_name, cs->prefix, strlen(cs->prefix)) != 0 || remove_group(cs, e->d_name))
			continue;
		left++;
		dir = openat(cs->dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir < 0)
			continue;
		kill = openat(dir, "cgroup.kill", O_WRONLY | O_CLOEXEC);
		each_group(dir, 0, read_pids, &r); /* before the kill: afterwards no pid is left to report */
		if (kill >= 0) {
			(void)!write(kill, "1", 1);
			close(kill);
		}
	}
	if (d)
		closedir(d);
	else if (list >= 0)
		close(list);
	return left;
}
