/* SPDX-License-Identifier: MIT */
/* state_check.c: checks states of checkpoints against the capability's state_schema.
 * Owns the sentence. Never decides what happens to the checkpoint or the session. */
#include "policy/state_check.h"

#include <stdio.h>

#include "json/text.h"
#include "jschema/jschema.h"
#include "policy/capability.h"

bool state_check_value(const struct capability *c, const json_t *state, char *why, size_t why_size)
{
	struct jschema_failure f;

	if (c->state_schema == NULL || jschema_check(c->state_schema, state, &f))
		return true;
	snprintf(why, why_size, "%.300s (at \"%.80s\")", f.message, f.instance);
	return false;
}

bool state_check_fits(const struct capability *c, const char *state, size_t size, char *why, size_t why_size)
{
	json_t *value;
	bool fits;

	if (c->state_schema == NULL)
		return true;
	if ((value = jtext_parse(state, size, why, why_size)) == NULL)
		return false;
	fits = state_check_value(c, value, why, why_size);
	json_decref(value);
	return fits;
}
