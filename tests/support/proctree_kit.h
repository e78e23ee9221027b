/* SPDX-License-Identifier: MIT */
/* proctree_kit.h: what the tests of process trees share: helpers that fork, hide and shed what marks them,
 * and the ends that must be the same with and without a cgroup. Loops and records: worker_rig.h. */
#ifndef HCPD_TESTS_SUPPORT_PROCTREE_KIT_H
#define HCPD_TESTS_SUPPORT_PROCTREE_KIT_H

#include "worker_rig.h"

#include <pthread.h>
#include <sys/mman.h>

/* --- helpers: this program, started as a worker --- */

#define HELPER_LIFE_S 60 /* whatever a test forgets ends by itself */

int tree_stay(void);

/* --- what they say, and those that are no workers --- */

int tree_line_pid(struct rec *r);
int tree_daemon_pid(struct rec *r);

/* This program again as a sleeper, with nothing but one variable: no worker of ours, but our child. */
int tree_start_bare(const char *var);

/* --- the same end with and without a cgroup --- */

/* Once with a main process that ends at SIGTERM: the grandchild is an orphan then. */
void tree_end_setsid(const char *cgroup);
void tree_end_bomb(const char *cgroup);
int proctree_main(int argc, char **argv, Suite *(*make)(void));

#endif
