/* SPDX-License-Identifier: MIT */
/* doctor_host.c: clock, kernel and limits of the machine.
 * Owns what hcpd needs of them, and what is only recommended.
 * Never changes a limit or a clock. Checks the limits of the running daemon, else those of this process. */
#include "hcpctl/setup/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "process/confine.h"
#include "process/landlock.h"

#define YEAR_2025_US INT64_C(1735689600000000)
#define YEAR_2100_US INT64_C(4102444800000000)
#define FILES_EACH 3 /* descriptors of a worker: its pipes and its pidfd */
#define FILES_OWN 64

/* --- clock --- */

static void check_clock(struct doctor *d)
{
	int64_t wall_us = clock_wall_us(), boot_us = clock_boot_us();
	struct timex t = {0};
	char now[CLOCK_TEXT_SIZE];
	int state;

	clock_format(wall_us, now);
	if (wall_us < YEAR_2025_US || wall_us > YEAR_2100_US) {
		doctor_say(d, DOCTOR_FAIL, "clock", "set it: timedatectl set-ntp true, or date -s",
			"it says %s, which cannot be", now);
		return;
	}
	if (boot_us <= 0)
		doctor_say(
			d, DOCTOR_FAIL, "clock", "use a kernel that has it", "CLOCK_BOOTTIME does not run");
	state = adjtimex(&t);
	if (state < 0)
		doctor_say(d, DOCTOR_SKIP, "clock", NULL,
			"it says %s; the kernel does not tell whether it is kept right", now);
	else if (state == TIME_ERROR || (t.status & STA_UNSYNC))
		doctor_say(d, DOCTOR_WARN, "clock",
			"timedatectl set-ntp true, or install chrony; in a container the host's counts",
			"it says %s, and nothing keeps it right (NTP): tokens and deadlines across restarts "
			"go by it",
			now);
	else
		doctor_say(d, DOCTOR_OK, "clock", NULL, "it says %s, kept right by NTP", now);
}

/* --- kernel --- */

static bool has_openat2(void)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC};
	long fd = syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof how);

	if (fd >= 0)
		close((int)fd);
	return fd >= 0 || errno != ENOSYS;
}

static bool has_pidfd(void)
{
	long fd = syscall(SYS_pidfd_open, getpid(), 0);

	if (fd >= 0)
		close((int)fd);
	return fd >= 0;
}

/* The path in the line `0::/path` of a process. */
static bool find_cgroup(pid_t pid, char *path, size_t size)
{
	char name[64], line[4096];
	bool found = false;
	FILE *f;

	snprintf(name, sizeof name, pid > 0 ? "/proc/%d/cgroup" : "/proc/self/cgroup", (int)pid);
	f = fopen(name, "re");
	while (f && !found && fgets(line, sizeof line, f))
		if (strncmp(line, "0::/", 4) == 0) {
			line[strcspn(line, "\n")] = '\0';
			found = (size_t)snprintf(path, size, "/sys/fs/cgroup%s", line + 3) < size &&
				access(path, F_OK) == 0;
		}
	if (f)
		fclose(f);
	return found;
}

static bool is_delegated(const char *path)
{
	char value[4];

	return (getxattr(path, "user.delegate", value, sizeof value) == 1 && value[0] == '1') ||
		(getxattr(path, "trusted.delegate", value, sizeof value) == 1 && value[0] == '1');
}

static void check_cgroup(struct doctor *d)
{
	const struct config *c = d->config;
	char path[4200], *own;
	bool usable, wanted = false;

	for (size_t i = 0; i < c->capability_count; i++)
		wanted = wanted || confine_has_cgroup(&c->capabilities[i].confine);
	if (strcmp(c->cgroup, "off") == 0) {
		usable = false;
	} else if (strcmp(c->cgroup, "auto") != 0) {
		snprintf(path, sizeof path, "%s", c->cgroup);
		usable = access(path, X_OK) == 0;
	} else if (d->pid <= 0) {
		if (wanted)
			doctor_say(d, DOCTOR_SKIP, "kernel",
				"start hcpd by its unit, which has Delegate=yes, and look again",
				"whether hcpd is delegated a cgroup shows only while it runs");
		return;
	} else {
		usable = find_cgroup(d->pid, path, sizeof path);
		/* With limits configured, hcpd moves into a group of its own below the delegated one. */
		if (usable && !is_delegated(path) && (own = strrchr(path, '/')) &&
			strcmp(own, "/hcpd-daemon") == 0)
			*own = '\0';
		usable = usable && is_delegated(path);
	}
	if (usable)
		doctor_say(d, DOCTOR_OK, "kernel", NULL, "sessions get cgroups below %s", path);
	else if (wanted)
		doctor_say(d, DOCTOR_FAIL, "kernel",
			"start hcpd by its unit, which has Delegate=yes, or take the cgroup_ keys out",
			"a capability has cgroup_ limits, and hcpd has no cgroup to make some in: its tasks "
			"fail");
	else
		doctor_say(d, DOCTOR_OK, "kernel", NULL,
			"no cgroup is delegated to hcpd; processes are found by descent and mark");
}

static void check_kernel(struct doctor *d)
{
	struct utsname u;
	int abi = landlock_find_abi();

	if (uname(&u) < 0)
		snprintf(u.release, sizeof u.release, "unknown");
	if (!has_pidfd())
		doctor_say(d, DOCTOR_FAIL, "kernel",
			"use Linux 5.3 or later, or let the sandbox around hcpd allow pidfd_open",
			"Linux %s has no pidfd_open, by which workers are signalled", u.release);
	else if (!has_openat2())
		doctor_say(d, DOCTOR_WARN, "kernel",
			"use Linux 5.6 or later, or let the sandbox around hcpd allow openat2",
			"Linux %s has no openat2, by which artifacts are opened safely", u.release);
	else if (abi > 0)
		doctor_say(d, DOCTOR_OK, "kernel", NULL, "Linux %s with pidfds, openat2 and Landlock %d",
			u.release, abi);
	else
		doctor_say(d, DOCTOR_OK, "kernel", NULL,
			"Linux %s with pidfds and openat2, without Landlock (%s)", u.release,
			landlock_find_fault());
}

/* --- limits --- */

/* A line of /proc/PID/limits: soft and hard; -1 is unlimited, -2 unknown. */
static long long find_limit(pid_t pid, const char *name, __rlimit_resource_t resource)
{
	char path[64], line[256], hard[32];
	struct rlimit own;
	long long value = -2;
	FILE *f;

	if (pid <= 0) {
		if (getrlimit(resource, &own) < 0)
			return -2;
		return own.rlim_max == RLIM_INFINITY ? -1 : (long long)own.rlim_max;
	}
	snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, name, strlen(name)) == 0 &&
			sscanf(line + strlen(name), "%*s %31s", hard) == 1)
			value = strcmp(hard, "unlimited") == 0 ? -1 : atoll(hard);
	if (f)
		fclose(f);
	return value;
}

static long long find_pids_max(pid_t pid)
{
	char path[4200], text[32] = "";
	size_t n;
	FILE *f;

	if (pid <= 0 || !find_cgroup(pid, path, sizeof path - 16))
		return -1;
	n = strlen(path);
	snprintf(path + n, sizeof path - n, "/pids.max");
	f = fopen(path, "re");
	if (f && !fgets(text, sizeof text, f))
		text[0] = '\0';
	if (f)
		fclose(f);
	return text[0] >= '0' && text[0] <= '9' ? atoll(text) : -1;
}

static void check_limits(struct doctor *d)
{
	int sessions = d->config->max_sessions;
	long long files = find_limit(d->pid, "Max open files", RLIMIT_NOFILE),
		  wanted = FILES_EACH * sessions + FILES_OWN;
	long long pids = find_pids_max(d->pid),
		  processes = d->uid ? find_limit(d->pid, "Max processes", RLIMIT_NPROC) : -1;
	const char *whose = d->pid > 0 ? "hcpd" : "this shell";

	if (files >= 0 && files < wanted)
		doctor_say(d, DOCTOR_WARN, "limits", "raise LimitNOFILE= in the unit, or lower max_sessions",
			"%s may open %lld files; max_sessions = %d needs some %lld", whose, files, sessions,
			wanted);
	if ((pids >= 0 && pids < sessions) || (processes >= 0 && processes < sessions))
		doctor_say(d, DOCTOR_WARN, "limits",
			"raise TasksMax= or LimitNPROC= in the unit, or lower max_sessions",
			"%s may have %lld processes, and max_sessions = %d takes at least one each", whose,
			pids >= 0 && (processes < 0 || pids < processes) ? pids : processes, sessions);
	else if (files == -1 || files >= wanted)
		doctor_say(d, DOCTOR_OK, "limits", NULL,
			"files and processes of %s suffice for max_sessions = %d", whose, sessions);
	if (files == -2)
		doctor_say(d, DOCTOR_SKIP, "limits", "run it as root, or as the user that runs hcpd",
			"hcpd's limits cannot be read");
}

void doctor_check_host(struct doctor *d)
{
	check_clock(d);
	check_kernel(d);
	if (d->config) {
		check_cgroup(d);
		check_limits(d);
	}
}
