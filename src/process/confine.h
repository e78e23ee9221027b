/* SPDX-License-Identifier: MIT */
/* confine.h: the restrictions of a new process: another user, file rules, limits. All are prepared before
 * the clone, so that the child only makes system calls. */
#ifndef HCPD_PROCESS_CONFINE_H
#define HCPD_PROCESS_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "config/config.h"

struct sock_fprog;

#define CONFINE_LIMITS 8

struct confine {
	const struct config_confine *user; /* NULL: it runs as our own user */
	int ruleset;                       /* of Landlock; -1: none */
	const struct sock_fprog *filter;   /* NULL: none */
	bool no_new_privs;
	bool no_capabilities; /* it runs as root, with root's files but no other right */
	struct confine_limit {
		int resource;
		bool may_fail;
		struct rlimit value;
	} limits[CONFINE_LIMITS];
	size_t limit_count;
};

/* Prepares a process with that working directory and program; f NULL: only what every worker gets. tag
 * becomes the soft RLIMIT_LOCKS, unless 0. The directory is given to the user, if there is one. -1 with
 * errno and a sentence. */
int confine_init(struct confine *c, const struct config_confine *f, const char *workdir, const char *program,
	uint64_t tag, char *why, size_t why_size) __attribute__((warn_unused_result));
void confine_fini(struct confine *c); /* errno stays */

/* Has f limits that need a cgroup? */
bool confine_has_cgroup(const struct config_confine *f);
/* Reports, each as a warning, what of a capability's settings this process cannot do, and what would have no
 * effect. True: nothing that is required is missing. */
bool confine_check(const struct config_capability *cc, config_say_fn *say, void *ctx);
/* Warns once where landlock = state has no effect on this kernel. */
void confine_check_state(const struct config *config, config_say_fn *say, void *ctx);

#endif
