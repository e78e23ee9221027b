/* SPDX-License-Identifier: MIT */
/* fake_approver.h: a human with a key beside the nemesis, as a process of its own: decides what waits as its
 * task wishes, sometimes twice, sometimes with a signature that is none; and what became of all that,
 * checked.
 */
#ifndef HCPD_TESTS_RELIABILITY_TORTURE_FAKE_APPROVER_H
#define HCPD_TESTS_RELIABILITY_TORTURE_FAKE_APPROVER_H

#include "support/rig.h"

/* Its key and its place in the configuration, and the process: before there are threads. */
void decider_begin(struct rig *r, unsigned seed);
/* After the daemon's end: ends it, and reports. */
void decider_check(void);

/* The same for any two files: what was answered, a line a decision ("REQUEST allow|deny|again|forged
 * ANSWER"), and the daemon's store. How many decisions were obeyed. */
long final_check_files(const char *answers, const char *store);

#endif
