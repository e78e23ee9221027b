/* SPDX-License-Identifier: MIT */
/* main.c: the program hcpd: options, the order of the start, and the exit code.
 * Owns the order in which the parts are made and freed. Never runs a turn (loop.c). */
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <sqlite3.h>
#include <systemd/sd-daemon.h>

#include "process/confine.h"
#include "control/control.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/jobs.h"
#include "base/log.h"
#include "hcpd/loop.h"
#include "hcpd/notify.h"
#include "retain/retain.h"
#include "core/running/run.h"
#include "store/statedir.h"

#define TELL_TRIES 3
#define LAST_LINES_MS 1000 /* how long the exit waits for a slow reader of the log */

static const char help[] =
	"usage: hcpd -c FILE [-t]\n"
	"Hosts agent sessions behind RabbitMQ. Runs in the foreground and logs to stderr.\n"
	"\n"
	"  -c, --config FILE   configuration (see hcpd.ini(5)); default /etc/hcpd/hcpd.ini\n"
	"  -t, --test          check the configuration and the declarations, then exit\n"
	"  -V, --version       print the version\n"
	"  -h, --help          print this\n"
	"      --list-keys     print every key of the configuration\n"
	"      --list-defaults print every key that has a default, with it\n"
	"\n"
	"SIGTERM and SIGINT stop gracefully, a second one at once; SIGHUP reloads the policy.\n";

/* A worker needs three descriptors: raise the limit to the maximum. Workers get a usual limit again
 * (launch.c). */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* A service manager that gets no notification waits, and then kills the daemon: this one must arrive, and the
 * loop does not run yet. */
static void notify_ready(void)
{
	int rc = -1;

	for (int i = 0; rc < 0 && i < TELL_TRIES; i++)
		rc = sd_notify(0, "READY=1");
	if (rc < 0)
		log_error("the service manager cannot be told READY=1: error=%s", strerror(-rc));
}

/* The order matters from here on: recovery is committed before anything is consumed. */
static int serve(struct core *c, struct loop *l, struct control **control)
{
	struct config *config = c->policy->config;
	int code;

	c->workers = workers_new(loop_ev(l), &c->timers, config, store_mark(c->store), &run_ops);
	c->bus = bus_new(config, loop_wake, l);
	if (c->workers == NULL || c->bus == NULL)
		return EX_OSERR;
	c->jobs = jobs_new(loop_wake, l);
	c->reload.thread = jobs_new_one(loop_wake, l);
	core_make_outbox(c);
	if ((code = core_recover(c)) != EX_OK)
		return code;
	CRASH_POINT(recover_decided);
	core_end_turn(c);
	if (c->phase.is_suspended || c->phase.is_done)
		return EX_IOERR;
	CRASH_POINT(recover_committed);
	if (bus_start(c->bus) < 0) {
		log_error("the threads for the broker cannot be started: %s", strerror(errno));
		return EX_OSERR;
	}
	if ((code = control_start(config, loop_wake, l, control)) != EX_OK)
		return code;
	c->operator.queue = * control != NULL ? control_requests(*control) : NULL;
	c->retention.ops = &retain_ops;
	if ((code = retain_start(c, loop_wake, l, &c->retention.retain)) != EX_OK)
		return code;
	CRASH_POINT(start_before_ready);
	notify_ready();
	log_info("ready: callee=%s version=%s state_dir=%s", config->callee_id, HCPD_VERSION, c->state_dir);
	CRASH_POINT(start_ready);
	loop_run(l);
	return c->phase.exit_code;
}

static void ignore_warning(void *ctx, bool is_error, const char *text)
{
	(void)ctx;
	(void)is_error;
	(void)text;
}

/* Logs the user of the daemon, and whether its rights are enough. The reader of the configuration reported
 * what is missing. */
static bool check_rights(const struct config *config)
{
	if (geteuid() == 0)
		log_warn("running as root: %s; a user of its own is enough for hcpd",
			config_has_users(config) ? "so do workers of capabilities without user =" :
						   "so do its workers");
	for (size_t i = 0; i < config->capability_count; i++)
		if (!confine_check(&config->capabilities[i], ignore_warning, NULL)) {
			log_error("workers cannot be given other users, so hcpd does not start");
			return false;
		}
	return true;
}

static int run(const char *path)
{
	struct policy *policy = policy_load(path, core_say_log, NULL);
	struct core core;
	struct control *control = NULL;
	struct loop *l;
	char why[4200];
	int lock, code;
	bool is_loading;

	if (policy == NULL)
		return EX_CONFIG;
	if (policy->config->dumpable)
		prctl(PR_SET_DUMPABLE, 1);
	raise_descriptor_limit();
	log_set_level(policy->config->log_level);
	if (!check_rights(policy->config))
		lock = -EX_CONFIG;
	else if ((code = statedir_prepare(policy->config->state_dir, config_has_users(policy->config))) !=
		EX_OK)
		lock = -code;
	else
		lock = statedir_lock(policy->config->state_dir);
	if (lock < 0) {
		policy_unref(policy);
		return -lock;
	}
	CRASH_POINT(start_locked);
	if ((code = core_init(&core, policy, path, why, sizeof why)) != EX_OK) {
		log_error("%s", why);
		core_fini(&core);
		close(lock);
		return code;
	}
	if ((l = loop_new(&core)) == NULL) {
		log_error("no event loop: %s", strerror(errno));
		core_fini(&core);
		close(lock);
		return EX_OSERR;
	}
	code = serve(&core, l, &control);
	CRASH_POINT(stop_loop_left);
	(void)notify_send("STOPPING=1");
	core.operator.queue = NULL;
	if (control != NULL)
		control_stop(control);
	if (core.retention.retain != NULL)
		retain_stop(core.retention.retain);
	core.retention.retain = NULL;
	if (core.bus != NULL)
		bus_stop(core.bus);
	jobs_free(core.jobs); /* jobs read what workers keep */
	core.jobs = NULL;
	is_loading = jobs_leave(core.reload.thread); /* a name service may keep it for long */
	core.reload.thread = NULL;
	if (core.workers != NULL)
		workers_free(core.workers);
	CRASH_POINT(stop_workers_freed);
	core_fini(&core);
	loop_free(l);
	close(lock);
	CRASH_POINT(stop_before_exit);
	log_info("stopped: code=%d", code);
	if (is_loading) { /* exit would take away what that thread uses */
		log_drain(LAST_LINES_MS);
		_exit(code);
	}
	return code;
}

static int check_only(const char *path)
{
	struct policy *policy = policy_load(path, core_say_log, NULL);

	if (policy == NULL)
		return EX_CONFIG;
	printf("%s: good: %zu capabilities, %zu callers\n", path, policy->config->capability_count,
		policy->config->caller_count);
	policy_unref(policy);
	return EX_OK;
}

int main(int argc, char **argv)
{
	enum { LIST_KEYS = 256, LIST_DEFAULTS };
	static const struct option options[] = {
		{"config", required_argument, NULL, 'c'},
		{"test", no_argument, NULL, 't'},
		{"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},
		{"list-keys", no_argument, NULL, LIST_KEYS},
		{"list-defaults", no_argument, NULL, LIST_DEFAULTS},
		{NULL, 0, NULL, 0},
	};
	const char *path = "/etc/hcpd/hcpd.ini";
	bool only_test = false;
	int option, code;

	while ((option = getopt_long(argc, argv, "c:tVh", options, NULL)) != -1) {
		switch (option) {
		case 'c': path = optarg; break;
		case 't': only_test = true; break;
		case 'V': puts("hcpd " HCPD_VERSION); return EX_OK;
		case 'h': fputs(help, stdout); return EX_OK;
		case LIST_KEYS: config_list_keys(); return EX_OK;
		case LIST_DEFAULTS: config_list_defaults(); return EX_OK;
		default: fputs(help, stderr); return EX_USAGE;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "hcpd: %s: no such argument\n%s", argv[optind], help);
		return EX_USAGE;
	}
	umask(077); /* files of the daemon are for its user only */
	/* memory too: no core dumps, no debugger but root's, not even from a worker */
	prctl(PR_SET_DUMPABLE, 0);
	/* A memory arena for each thread would keep its peak size. */
	mallopt(M_ARENA_MAX, 1);
	/* SQLite counts its memory under a lock for each allocation; the daemon does not use the count. */
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	code = only_test ? check_only(path) : run(path);
	log_drain(LAST_LINES_MS);
	return code;
}
