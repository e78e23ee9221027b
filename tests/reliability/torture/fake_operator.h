/* SPDX-License-Identifier: MIT */
/* fake_operator.h: an operator who lets sessions rest and go on again. */
#ifndef HCPD_TESTS_RELIABILITY_TORTURE_FAKE_OPERATOR_H
#define HCPD_TESTS_RELIABILITY_TORTURE_FAKE_OPERATOR_H

#include "support/rig.h"

void rester_begin(struct rig *r, unsigned seed);
void rester_be_kind(void); /* from now on everything goes on */
void rester_end(void);     /* reports where nothing rested and went on */

#endif
