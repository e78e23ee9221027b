/* SPDX-License-Identifier: MIT */
/* launch_kit.h: one process started as the daemon starts them, what it printed, and how it ended; and a
 * directory that looks like a state directory. */
#ifndef HCPD_TESTS_SUPPORT_LAUNCH_KIT_H
#define HCPD_TESTS_SUPPORT_LAUNCH_KIT_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "config/config.h"
#include "process/launch.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define WAIT_MS 20000

/* below /tmp, which other users can enter, as they cannot every TMPDIR */
extern char launch_kit_base[64];
extern char launch_kit_why[512];
extern char launch_kit_output[65536];
extern int launch_kit_status;
/* A TCase with this checked fixture starts all by another thread. */
void launch_kit_use_forker(void);

const char *launch_kit_in_base(const char *name);
void launch_kit_begin(void);
void launch_kit_end(void);
const char *launch_kit_put(const char *name, const char *text, mode_t mode);
const char *launch_kit_make_dir(const char *name, mode_t mode);

/* Its pid, with *out its stdout and stderr in one; -1 with `why`. */
int launch_kit_start(const struct config_confine *f, const char *workdir, char *const *argv, int *out);
bool launch_kit_run(const struct config_confine *f, const char *workdir, char *const *argv);

/* sh -c SCRIPT; fails the test where it cannot be started. */
const char *launch_kit_run_sh(const struct config_confine *f, const char *workdir, const char *script);

/* What config/confine.c would have found. False, and a line that says so, where we may not become others. */
bool launch_kit_user_fill(struct config_confine *f, const char *name);

#endif
