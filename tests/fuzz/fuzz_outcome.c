/* SPDX-License-Identifier: MIT */
/* fuzz_outcome.c: rows of a damaged store. Input: the column `warnings` of a session, its `step`, a line
 * each; the rest is its stored outcome. Whatever they hold, the session ends, and what it says is JSON. */
#include <stdlib.h>
#include <string.h>

#include "one_session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size};
	char *warnings = feed_line(&f), *step = feed_line(&f);
	struct session *s = stage_begin(warnings, fuzz_is_utf8(step, strlen(step)) ? step : NULL);

	buf_add(&stage.outcome, f.at, f.left);
	MUST(session_load_outcome(s) == 1 && session_has_outcome(s));
	stage_end(s);
	free(warnings);
	free(step);
	return 0;
}
