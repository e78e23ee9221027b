/* SPDX-License-Identifier: MIT */
/* hcpctl_kit.h: what the tests of hcpctl share: a daemon, and hcpctl run as a user runs it, in a pipe or
 * on a terminal. */
#ifndef HCPD_TESTS_SUPPORT_HCPCTL_KIT_H
#define HCPD_TESTS_SUPPORT_HCPCTL_KIT_H

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "rig.h"

#define WORDS_MAX 24

extern struct rig *r; /* of scene.c */

extern char ctl_caller[64];

/* --- one run of hcpctl ---
 * A process of ours stands between: it waits for hcpctl and writes its status into a file, because the
 * harness reaps whatever child it finds. */

struct ctl_run {
	char out[300], err[300], rc[300], pid[300];
};

struct ctl_key { /* on a terminal: when this was shown, type that */
	const char *shown, *typed;
};

const char *ctl_program(void);
void ctl_set_environment(void);
struct ctl_run ctl_start(const char *first, ...);
struct ctl_run ctl_start_on_terminal(const struct ctl_key *keys, const char *first, ...);

/* The text of a file so far; the last few live at the same time. */
const char *ctl_text_of(const char *path);
void ctl_finish(struct ctl_run *run, int status);
void ctl_must_have(const char *path, const char *text);
void ctl_wait_for(const char *path, const char *text);
void ctl_signal_run(struct ctl_run *run, int number);

/* --- what else the tests look at --- */

/* The session_id in the `accepted` line, or in the first body. */
const char *ctl_session_of(const char *path);
const char *ctl_short_id(const char *id);

/* One line of what the broker says about queues that begin with a name. */
const char *ctl_ask_broker(const char *expression);
int ctl_count_queues(void);
const char *ctl_sessions_file(void);
bool ctl_is_consumed(const char *instance);

/* --- the frame --- */

void ctl_begin_on(const struct broker *b, bool with_daemon);
void ctl_begin(void);
void ctl_end(void);

#endif
