/* SPDX-License-Identifier: MIT */
/* process.h: what /proc says about a process. */
#ifndef HCPD_TESTS_SUPPORT_PROCESS_H
#define HCPD_TESTS_SUPPORT_PROCESS_H

#include <stdbool.h>

/* It exists, and is no zombie. One that was killed may live on for a moment: its threads end one by one. */
bool process_is_alive(int pid);

#endif
