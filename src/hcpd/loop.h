/* SPDX-License-Identifier: MIT */
/* loop.h: runs the core on libev: descriptors, signals, the clock, and systemd's watchdog. */
#ifndef HCPD_LOOP_H
#define HCPD_LOOP_H

struct core;
struct loop;

struct loop *loop_new(struct core *c);
struct ev_loop *loop_ev(struct loop *l);
void loop_wake(void *l);       /* from any thread: the bus or the control socket has something */
void loop_run(struct loop *l); /* until the core is done */
void loop_free(struct loop *l);

#endif
