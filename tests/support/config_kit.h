/* SPDX-License-Identifier: MIT */
/* config_kit.h: what the tests of the configuration share: a directory, a file in it that is loaded, and
 * what was said about it. */
#ifndef HCPD_TESTS_SUPPORT_CONFIG_KIT_H
#define HCPD_TESTS_SUPPORT_CONFIG_KIT_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "config/config.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

extern char cfg_dir[256], cfg_path[300];
extern struct buf cfg_said; /* E or W, then the text, a line each; the directory is shown as DIR */
extern int cfg_errors, cfg_warnings;
extern struct config *cfg;

const char *cfg_in_dir(const char *name);
void cfg_put_file(const char *name, const void *text, size_t size, mode_t mode);
void cfg_say(void *ctx, bool is_error, const char *text);
struct config *cfg_load(const char *text);

/* A whole configuration around some lines, which begin at line 2 of their section. */
#define DAEMON "[daemon]\ncallee_id = demo\n"
#define CAPABILITY "[capability x]\ndeclaration = x.json\ncommand = x\n"
#define CALLER "[caller a]\ncapabilities = x\namqp_user = a\n"
#define GOOD DAEMON CAPABILITY CALLER

int cfg_run(const char *name, void (*add_tests)(TCase *t));

#endif
