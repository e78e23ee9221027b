/* SPDX-License-Identifier: MIT */
/* landlock.h: which files a process may open, enforced by the kernel (Linux 5.13 and later), without a
 * library.
 *
 * The rules are made here, before the process starts; the process only applies them. Secrets are never
 * opened: a directory that holds one is allowed entry by entry, as it was at that moment, without the
 * secret. */
#ifndef HCPD_PROCESS_LANDLOCK_H
#define HCPD_PROCESS_LANDLOCK_H

#include <stddef.h>

struct config_confine;
struct sock_fprog;

/* The newest version that this code supports. Tests lower it; 0 is a kernel without Landlock. */
extern int landlock_abi_max;
/* The kernel's version, at most landlock_abi_max; 0: no Landlock, with errno (ENOSYS: not built in,
 * EOPNOTSUPP: off). */
int landlock_find_abi(void);
/* Why Landlock cannot be used, as a sentence; NULL: it can. */
const char *landlock_find_fault(void);

/* Rules for one process: the system may be read and run, workdir may be changed, and what f adds. program
 * (may be NULL, or a name without a slash) can be executed wherever it lies. A descriptor that closes on
 * exec, or -1 with errno. */
int landlock_make(const struct config_confine *f, const char *workdir, const char *program)
	__attribute__((warn_unused_result));

/* The same for rules that close the secrets, and nothing else. */
const char *landlock_find_state_fault(void);
/* Rules for one process: everything may be opened but the secrets; workdir may, though it lies in one. What
 * appears later in a directory on the way to a secret is closed to this process, and nobody can list or
 * change such a directory. Always called by the same thread. A descriptor that closes on exec, or -1 with
 * errno. */
int landlock_make_state(char *const *secrets, const char *workdir) __attribute__((warn_unused_result));
/* Closes what landlock_make_state keeps from one process to the next. */
void landlock_forget_state(void);

/* Before version 3 Landlock does not cover truncate(2): a filter that refuses the call. NULL: not needed. */
const struct sock_fprog *landlock_filter(void);

#endif
