/* SPDX-License-Identifier: MIT */
/* reload.c: SIGHUP: another configuration, read on a thread of its own and put in force on the core's.
 * Users and groups may come from a name service that takes its time, and sessions go on meanwhile.
 * Owns that one is read at a time, and what happens when a policy is put in force. Never looks at a task. */
#include "core/turn.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/crashpoint.h"
#include "base/jobs.h"
#include "base/log.h"
#include "core/admission/policy_program.h"
#include "core/running/run.h"
#include "store/statedir.h"

struct reload {
	struct job job;
	struct core *core; /* for `done` only: the core may be gone while the thread still reads */
	char *path;
	struct policy *policy; /* NULL: the configuration is broken */
};

static void begin(struct core *c);

/* ---- on another thread ---- */

/* policy_load keeps nothing between two calls. getpwnam and getgrnam do, in the C library; only policy_load
 * calls them, and no two run at once. */
static void work(struct job *j)
{
	struct reload *r = container_of(j, struct reload, job);

	r->policy = policy_load(r->path, core_say_log, NULL);
}

/* Also here, where the daemon stopped meanwhile. */
static void drop(struct job *j)
{
	struct reload *r = container_of(j, struct reload, job);

	policy_unref(r->policy);
	free(r->path);
	free(r);
}

/* ---- on the core's thread ---- */

static bool differs(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a != b : strcmp(a, b) != 0;
}

/* Settings that the connections and the workers copied at start. */
static bool needs_restart(const struct config *a, const struct config *b)
{
	const struct config_amqp *x = &a->amqp, *y = &b->amqp;

	return differs(a->callee_id, b->callee_id) || differs(a->state_dir, b->state_dir) ||
		differs(a->cgroup, b->cgroup) || a->dumpable != b->dumpable ||
		differs(a->control_socket, b->control_socket) ||
		differs(a->control_group, b->control_group) || a->max_message != b->max_message ||
		a->max_line != b->max_line || a->max_lines_total != b->max_lines_total ||
		differs(x->host, y->host) || x->port != y->port || differs(x->vhost, y->vhost) ||
		differs(x->user, y->user) || differs(x->password, y->password) || x->tls != y->tls ||
		x->sasl != y->sasl || x->verify != y->verify || differs(x->ca_file, y->ca_file) ||
		differs(x->cert_file, y->cert_file) || differs(x->key_file, y->key_file) ||
		x->heartbeat_s != y->heartbeat_s || x->queue_type != y->queue_type ||
		x->prefetch != y->prefetch || x->reconnect_max_us != y->reconnect_max_us ||
		x->window_messages != y->window_messages || x->window_bytes != y->window_bytes;
}

static void refuse(struct core *c)
{
	log_error("the new configuration is broken and refused whole, the old one stays: file=%s",
		c->config_path);
	audit_put(c,
		&(struct audit_entry){.what = "reload",
			.outcome = "refused",
			.who = "daemon",
			.code = "broken_configuration",
			.policy_before = c->policy->hash});
}

/* Takes the reference. */
static void put_in_force(struct core *c, struct policy *p)
{
	CRASH_POINT(reload_loaded);
	if (needs_restart(p->config, c->first_policy->config))
		log_warn(
			"callee_id, state_dir, cgroup, dumpable, [amqp], [control] and message, line and "
			"lines_total of [limits] are read at start only: restart hcpd for their new values");
	audit_put(c,
		&(struct audit_entry){.what = "reload",
			.outcome = "done",
			.who = "daemon",
			.policy = p->hash,
			.policy_before = c->policy->hash});
	policy_unref(c->policy);
	c->policy = p;
	log_set_level(p->config->log_level);
	CRASH_POINT(reload_taken);
	if (config_has_users(p->config))
		/* the users of workers need their directories; statedir_prepare logs what is wrong */
		(void)statedir_prepare(c->state_dir, true);
	slots_reload(c);
	run_retire_idle(c); /* their command may have changed */
	run_reload(c);
	policy_program_reload(c->program);
	log_info("configuration reloaded: file=%s capabilities=%zu callers=%zu", c->config_path,
		p->config->capability_count, p->config->caller_count);
}

static void done(struct job *j)
{
	struct reload *r = container_of(j, struct reload, job);
	struct core *c = r->core;
	struct policy *p = r->policy;

	r->policy = NULL;
	drop(j);
	c->reload.is_under_way = false;
	if (p != NULL)
		put_in_force(c, p);
	else
		refuse(c);
	if (c->reload.is_due)
		begin(c);
}

static void begin(struct core *c)
{
	struct reload *r = xcalloc(1, sizeof *r);

	*r = (struct reload){.job = {.work = work, .done = done, .drop = drop},
		.core = c,
		.path = xstrdup(c->config_path)};
	c->reload.is_under_way = true;
	c->reload.is_due = false;
	c->reload.since_us = clock_boot_us();
	CRASH_POINT(reload_begun);
	if (c->reload.thread != NULL) {
		jobs_put(c->reload.thread, &r->job);
		return;
	}
	work(&r->job);
	done(&r->job);
}

/* What is being read may be older than the file that the signal is about. */
void core_reload(struct core *c)
{
	if (!c->reload.is_under_way) {
		begin(c);
		return;
	}
	if (!c->reload.is_due)
		log_warn(
			"the configuration is still being read, perhaps a name service is slow; it is read "
			"once more after that: file=%s for=%llds",
			c->config_path, (long long)((clock_boot_us() - c->reload.since_us) / 1000000));
	c->reload.is_due = true;
}

/* Also while turns are suspended: the new configuration may be what an operator wants against that. */
void core_on_reload(struct core *c)
{
	struct job *j = c->reload.thread != NULL ? jobs_take(c->reload.thread) : NULL;

	if (j != NULL)
		j->done(j);
}
