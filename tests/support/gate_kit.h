/* SPDX-License-Identifier: MIT */
/* gate_kit.h: what the tests of the gate share: a policy out of texts, and one question to it. JSON is
 * written with single quotes. */
#ifndef HCPD_TESTS_SUPPORT_GATE_KIT_H
#define HCPD_TESTS_SUPPORT_GATE_KIT_H

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/gate.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

extern struct buf gate_kit_said;

json_t *gate_kit_json(const char *text);

/* A declaration of that name: its input_schema, the inside of `safety` beyond what must be there. */
void gate_kit_declare(const char *name, const char *schema, bool human, const char *safety);
struct policy *gate_kit_load(const char *config);
void gate_kit_setup(void);
void gate_kit_teardown(void);

#endif
