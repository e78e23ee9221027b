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
/* Before version 3 Landlock does not cover truncate(2): a filter that refuses the call. NULL: not needed. */
const struct sock_fprog *landlock_filter(void);

#endif
