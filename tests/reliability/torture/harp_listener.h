/* SPDX-License-Identifier: MIT */
/* harp_listener.h: the HARP events of sessions, as a listener gets them from
 * all of it. */
#ifndef HCPD_TESTS_RELIABILITY_TORTURE_HARP_LISTENER_H
#define HCPD_TESTS_RELIABILITY_TORTURE_HARP_LISTENER_H

#include <stddef.h>

#include "support/rig.h"

/* Before the daemon is there: its queue, and a thread that empties it. */
void harp_listener_begin(struct rig *r);
void harp_listener_end(void);
/* One event as it came. Reports what is wrong with it by itself, and two contents under one id. */
void harp_listener_take(const char *key, const char *id, const char *body, size_t size);
/* Against the rows of the store: everything came, in order, and nothing else did. How many events that
 * were. */
long harp_listener_check(const char *store);
void harp_listener_forget(void); /* for tests */

#endif
