/* SPDX-License-Identifier: MIT */
/* state_check.h: does the state of a checkpoint fit the capability's state_schema? Pure. */
#ifndef HCPD_POLICY_STATE_CHECK_H
#define HCPD_POLICY_STATE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

struct capability;

/* True also where the capability declares none. False with a sentence that has a JSON pointer into the state.
 */
bool state_check_fits(const struct capability *c, const char *state, size_t size, char *why, size_t why_size)
	__attribute__((warn_unused_result));

/* The same of a state that is parsed already. */
bool state_check_value(const struct capability *c, const json_t *state, char *why, size_t why_size)
	__attribute__((warn_unused_result));

#endif
