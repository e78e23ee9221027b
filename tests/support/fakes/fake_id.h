/* SPDX-License-Identifier: MIT */
/* fake_id.h: ids from a seeded generator, so that a run can be repeated. It replaces id.c's makers (fakes.a).
 */
#ifndef HCPD_TESTS_SUPPORT_FAKES_FAKE_ID_H
#define HCPD_TESTS_SUPPORT_FAKES_FAKE_ID_H

#include <stdint.h>
#include <stdio.h>

#include "base/id.h"

extern uint64_t fake_seed;

uint64_t fake_random(void);

#endif
