/* confine.h: what a new process is kept from, made ready before it is cloned, so that the child only has to
 * make system calls: another user, rules of files, limits. */
#ifndef HCPD_CONFINE_H
#define HCPD_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "config/config.h"

struct sock_fprog;

#define CONFINE_LIMITS 8

struct confine {
	const struct config_confine *user; /* NULL: it stays who we are */
	int ruleset;                       /* of Landlock; -1: none */
	const struct sock_fprog *filter;   /* NULL: none */
	bool no_new_privs;
	bool no_capabilities; /* it is root, and shall have no more than root's files */
	struct confine_limit {
		int resource;
		bool may_fail;
		struct rlimit value;
	} limits[CONFINE_LIMITS];
	size_t limit_count;
};

/* For a process with that working directory and program; f NULL: only what every worker gets. tag becomes the
 * soft RLIMIT_LOCKS, unless 0. The directory is given to the user, if there is one. -1 with errno and a
 * sentence. */
int confine_init(struct confine *c, const struct config_confine *f, const char *workdir, const char *program,
	uint64_t tag, char *why, size_t why_size) __attribute__((warn_unused_result));
void confine_fini(struct confine *c); /* errno stays */

/* Does f ask for limits of a cgroup? */
bool confine_has_cgroup(const struct config_confine *f);
/* What this process cannot do of what a capability asks for, and what it would do in vain: each a warning.
 * True: nothing that must be there is missing. */
bool confine_check(const struct config_capability *cc, config_say_fn *say, void *ctx);

#endif
