/* SPDX-License-Identifier: MIT */
/* confine.c: the parent's half of keeping a worker in its place.
 * Owns the translation of settings into limits, rules and owners. The child's half, a few system calls, is in
 * launch.c. Never knows a session. */
#include "process/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "process/landlock.h"

#define USUAL_NOFILE 1024 /* the limit that programs with select(2) can handle */
#define TASK "task.json"
#define SECOND 1000000

/* --- limits --- */

/* Not above our own limit, which cannot be raised. */
static void limit_add(struct confine *c, int resource, rlim_t soft, rlim_t hard, bool may_fail)
{
	struct confine_limit *l = &c->limits[c->limit_count];
	struct rlimit now;

	if (getrlimit((__rlimit_resource_t)resource, &now) < 0)
		return;
	l->resource = resource;
	l->may_fail = may_fail;
	l->value.rlim_max = hard < now.rlim_max ? hard : now.rlim_max;
	l->value.rlim_cur = soft < l->value.rlim_max ? soft : l->value.rlim_max;
	if (l->value.rlim_cur != now.rlim_cur || l->value.rlim_max != now.rlim_max)
		c->limit_count++;
}

static void limits_fill(struct confine *c, const struct config_confine *f, uint64_t tag)
{
	const struct {
		int resource;
		int64_t value; /* 0: none */
	} rows[] = {
		{RLIMIT_AS, f ? f->limit_memory : 0},
		{RLIMIT_CPU, f ? (f->limit_cpu_us + SECOND - 1) / SECOND : 0},
		{RLIMIT_NPROC, f ? f->limit_processes : 0},
		{RLIMIT_NOFILE, f ? f->limit_files : 0},
		{RLIMIT_FSIZE, f ? f->limit_file_size : 0},
	};
	bool has_files = f && f->limit_files;
	struct rlimit now;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (rows[i].value > 0)
			limit_add(c, rows[i].resource, (rlim_t)rows[i].value, (rlim_t)rows[i].value, false);
	/* The daemon raised its own limit to the maximum; a worker starts with the usual one, and may raise
	 * it too. */
	if (!has_files && getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur > USUAL_NOFILE)
		limit_add(c, RLIMIT_NOFILE, USUAL_NOFILE, RLIM_INFINITY, false);
	if (f)
		limit_add(c, RLIMIT_CORE, (rlim_t)f->limit_core, (rlim_t)f->limit_core, false);
	if (tag) /* refused: the worker's processes are then found by the other means */
		limit_add(c, RLIMIT_LOCKS, tag, RLIM_INFINITY, true);
}
_Static_assert(CONFINE_LIMITS >= 5 + 3, "every limit has a place");

bool confine_has_cgroup(const struct config_confine *f)
{
	return f && (f->cgroup_memory_max || f->cgroup_pids_max || f->cgroup_cpu_max);
}

/* --- the directory's owner --- */

/* By descriptor, and only a directory or file that we made for one session: closed to others, owned by us or
 * already by the user, and, for a file, without a second name. An earlier attempt, or another worker of that
 * user, may have put something else in its place. */
static int give_file(int fd, const struct config_confine *f)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -1;
	if ((st.st_mode & 077) || (st.st_uid != geteuid() && st.st_uid != f->uid) ||
		(!S_ISDIR(st.st_mode) && (!S_ISREG(st.st_mode) || st.st_nlink != 1))) {
		errno = EPERM;
		return -1;
	}
	return st.st_uid == f->uid && st.st_gid == f->gid ? 0 : fchown(fd, f->uid, f->gid);
}

static int close_keep(int fd, int result)
{
	int error = errno;

	close(fd);
	errno = error;
	return result;
}

/* The file first: when the directory belongs to the user, the file can be replaced. */
static int give_directory(const char *workdir, const struct config_confine *f)
{
	int dir = open(workdir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), file, r;

	if (dir < 0)
		return -1;
	file = openat(dir, TASK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0)
		r = errno == ENOENT ? 0 : -1;
	else
		r = close_keep(file, give_file(file, f));
	if (r == 0)
		r = give_file(dir, f);
	return close_keep(dir, r);
}

/* --- the whole --- */

/* Without Landlock it runs as it always did: confine_check_state has warned of that. */
static int close_state(
	struct confine *c, const struct config_confine *f, const char *workdir, char *why, size_t why_size)
{
	if (!workdir || landlock_find_state_fault() != NULL)
		return 0;
	c->no_new_privs = true; /* the kernel demands it of all but root */
	c->ruleset = landlock_make_state(f->secrets, workdir);
	if (c->ruleset < 0)
		snprintf(why, why_size, "cannot make the rules of landlock: %s", strerror(errno));
	return c->ruleset < 0 ? -1 : 0;
}

int confine_init(struct confine *c, const struct config_confine *f, const char *workdir, const char *program,
	uint64_t tag, char *why, size_t why_size)
{
	const char *fault;

	memset(c, 0, sizeof *c);
	c->ruleset = -1;
	limits_fill(c, f, tag);
	if (!f)
		return 0;
	c->no_new_privs = f->user || f->landlock == LANDLOCK_YES;
	/* With root's capabilities a process reads any memory, loads modules and mounts: no file rules hold
	 * against that. */
	c->no_capabilities = f->landlock == LANDLOCK_YES && !f->user && geteuid() == 0;
	if (f->user) {
		c->user = f;
		if (workdir && give_directory(workdir, f) < 0) {
			snprintf(why, why_size, "cannot give the working directory to user %s: %s", f->user,
				strerror(errno));
			return -1;
		}
	}
	if (f->landlock == LANDLOCK_STATE)
		return close_state(c, f, workdir, why, why_size);
	if (f->landlock == LANDLOCK_NO)
		return 0;
	if ((fault = landlock_find_fault()) != NULL) {
		snprintf(why, why_size, "landlock = yes cannot be kept, so it is not started: %s", fault);
		errno = EOPNOTSUPP;
		return -1;
	}
	c->ruleset = landlock_make(f, workdir, program);
	if (c->ruleset < 0) {
		snprintf(why, why_size, "cannot make the rules of landlock: %s", strerror(errno));
		return -1;
	}
	c->filter = landlock_filter();
	return 0;
}

void confine_fini(struct confine *c)
{
	if (c->ruleset >= 0)
		(void)close_keep(c->ruleset, 0);
	c->ruleset = -1;
}

/* --- what can be had --- */

static const struct {
	unsigned number;
	const char *name;
} needed[] = {
	{CAP_CHOWN, "CAP_CHOWN"},
	{CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"},
	{CAP_FOWNER, "CAP_FOWNER"},
	{CAP_KILL, "CAP_KILL"},
	{CAP_SETGID, "CAP_SETGID"},
	{CAP_SETUID, "CAP_SETUID"},
};

/* Names of the capabilities that we lack; "" where we have all. */
static void find_missing(struct buf *out)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	(void)syscall(SYS_capget, &head, data);
	for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
		if (!(data[needed[i].number / 32].effective & (1u << needed[i].number % 32)))
			buf_addf(out, "%s%s", out->size ? ", " : "", needed[i].name);
}

bool confine_check(const struct config_capability *cc, config_say_fn *say, void *ctx)
{
	const struct config_confine *f = &cc->confine;
	const char *fault = f->landlock == LANDLOCK_YES ? landlock_find_fault() : NULL;
	struct buf missing = {0}, text = {0};
	bool good = true;

	if (f->user)
		find_missing(&missing);
	if (missing.size) {
		buf_addf(&text,
			"%s:%d: [capability %s] user = %s cannot be done by this process, which lacks %s; "
			"start hcpd as root, or give it these capabilities",
			cc->path, cc->line, cc->name, f->user, buf_text(&missing));
		say(ctx, false, buf_text(&text));
		buf_clear(&text);
		good = false;
	}
	if (fault) {
		buf_addf(&text, "%s:%d: [capability %s] landlock = yes: %s; its tasks will fail", cc->path,
			cc->line, cc->name, fault);
		say(ctx, false, buf_text(&text));
	} else if (f->landlock == LANDLOCK_YES && !f->user && geteuid() == 0) {
		buf_addf(&text,
			"%s:%d: [capability %s] landlock = yes with workers that are root: services of the "
			"system obey them; write user = NAME too, or run hcpd as another user",
			cc->path, cc->line, cc->name);
		say(ctx, false, buf_text(&text));
	}
	buf_fini(&missing);
	buf_fini(&text);
	return good;
}

void confine_check_state(const struct config *config, config_say_fn *say, void *ctx)
{
	const char *fault = landlock_find_state_fault();
	struct buf text = {0};
	size_t i = 0;

	while (i < config->capability_count && config->capabilities[i].confine.landlock != LANDLOCK_STATE)
		i++;
	if (i == config->capability_count || fault == NULL)
		return;
	buf_addf(&text,
		"landlock = state, the default, cannot be kept: %s; workers can open the state directory, "
		"with the "
		"directories of other sessions; write landlock = no if that is meant",
		fault);
	say(ctx, false, buf_text(&text));
	buf_fini(&text);
}
