/* main.c: hcpd: options, the order of the start, and the exit code. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "core.h"
#include "log.h"
#include "loop.h"
#include "run.h"

static const char help[] =
	"usage: hcpd -c FILE [-t]\n"
	"Hosts agent sessions behind RabbitMQ. Runs in the foreground and logs to stderr.\n"
	"\n"
	"  -c, --config FILE   configuration (see hcpd.ini(5)); default /etc/hcpd/hcpd.ini\n"
	"  -t, --test          check the configuration and the declarations, then exit\n"
	"  -V, --version       print the version\n"
	"  -h, --help          print this\n"
	"      --list-keys     print every key of the configuration\n"
	"\n"
	"SIGTERM and SIGINT stop gracefully, a second one at once; SIGHUP reloads the policy.\n";

#define LOCK_TRIES 40
#define LOCK_PAUSE_US 50000

/* One hcpd a state directory. The lock goes with the process, however it ends. */
static int lock_state(const char *dir)
{
	char path[4096], pid[32] = "";
	int fd, locked;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST) {
		log_error("state_dir %s cannot be made: %s; make it, owned by the user that runs hcpd", dir, strerror(errno));
		return -EX_CANTCREAT;
	}
	if ((size_t)snprintf(path, sizeof path, "%s/hcpd.lock", dir) >= sizeof path) {
		log_error("state_dir %s is too long a path", dir);
		return -EX_CONFIG;
	}
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		log_error("state_dir %s is not writable: %s: %s; it must belong to the user that runs hcpd", dir, path,
			strerror(errno));
		return -EX_CANTCREAT;
	}
	/* One that was just killed may still be about for a moment. */
	for (int i = 0; (locked = flock(fd, LOCK_EX | LOCK_NB)) < 0 && i < LOCK_TRIES; i++)
		usleep(LOCK_PAUSE_US);
	if (locked < 0) {
		if (read(fd, pid, sizeof pid - 1) <= 0)
			snprintf(pid, sizeof pid, "unknown");
		pid[strcspn(pid, "\n")] = '\0';
		log_error("state_dir %s belongs to another running hcpd (pid %s); stop it, or name another state_dir", dir, pid);
		close(fd);
		return -EX_TEMPFAIL;
	}
	if (ftruncate(fd, 0) < 0 || dprintf(fd, "%d\n", (int)getpid()) < 0)
		log_warn("the lock file does not take our pid: file=%s error=%s", path, strerror(errno));
	return fd;
}

/* Three descriptors a worker: take all that may be had. Workers get a usual limit back (launch.c). */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* From here on the order matters: what is recovered is committed before anything is consumed. */
static int serve(struct core *c, struct loop *l)
{
	struct config *config = c->policy->config;
	int code;

	c->workers = workers_new(loop_ev(l), &c->timers, config, store_instance(c->store), &run_ops);
	c->bus = bus_new(config, loop_wake, l);
	if (c->workers == NULL || c->bus == NULL)
		return EX_OSERR;
	core_make_outbox(c);
	if ((code = core_recover(c)) != EX_OK)
		return code;
	core_end_turn(c);
	if (c->is_held || c->is_done)
		return EX_IOERR;
	if (bus_start(c->bus) < 0) {
		log_error("the threads for the broker cannot be started: %s", strerror(errno));
		return EX_OSERR;
	}
	sd_notify(0, "READY=1");
	log_info("ready: callee=%s version=%s state_dir=%s", config->callee_id, HCPD_VERSION, c->state_dir);
	loop_run(l);
	return c->exit_code;
}

static int run(const char *path)
{
	struct policy *policy = policy_load(path, core_say_log, NULL);
	struct core core;
	struct loop *l;
	char why[4200];
	int lock, code;

	if (policy == NULL)
		return EX_CONFIG;
	raise_descriptor_limit();
	log_set_level(policy->config->log_level);
	if ((lock = lock_state(policy->config->state_dir)) < 0) {
		policy_unref(policy);
		return -lock;
	}
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
	code = serve(&core, l);
	sd_notify(0, "STOPPING=1");
	if (core.bus != NULL)
		bus_stop(core.bus);
	if (core.workers != NULL)
		workers_free(core.workers);
	core_fini(&core);
	loop_free(l);
	close(lock);
	log_info("stopped: code=%d", code);
	return code;
}

static int test(const char *path)
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
	enum { LIST_KEYS = 256 };
	static const struct option options[] = {
		{"config", required_argument, NULL, 'c'}, {"test", no_argument, NULL, 't'},
		{"version", no_argument, NULL, 'V'}, {"help", no_argument, NULL, 'h'},
		{"list-keys", no_argument, NULL, LIST_KEYS}, {NULL, 0, NULL, 0},
	};
	const char *path = "/etc/hcpd/hcpd.ini";
	bool only_test = false;
	int option;

	while ((option = getopt_long(argc, argv, "c:tVh", options, NULL)) != -1) {
		switch (option) {
		case 'c': path = optarg; break;
		case 't': only_test = true; break;
		case 'V': puts("hcpd " HCPD_VERSION); return EX_OK;
		case 'h': fputs(help, stdout); return EX_OK;
		case LIST_KEYS: config_list_keys(); return EX_OK;
		default: fputs(help, stderr); return EX_USAGE;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "hcpd: %s: no such argument\n%s", argv[optind], help);
		return EX_USAGE;
	}
	umask(077);             /* whatever we write is nobody else's business */
	/* A thread's arena of its own would keep what it once needed. */
	mallopt(M_ARENA_MAX, 1);
	return only_test ? test(path) : run(path);
}
