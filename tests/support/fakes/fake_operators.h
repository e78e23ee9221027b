/* SPDX-License-Identifier: MIT */
/* fake_operators.h: op_queue.h without threads: the test is the operator.
 * It replaces op_queue.c in a program that uses it (fakes.a). Looks at the store at each answer, so that
 * none comes before what it says is stored. */
#ifndef HCPD_TESTS_SUPPORT_FAKES_FAKE_OPERATORS_H
#define HCPD_TESTS_SUPPORT_FAKES_FAKE_OPERATORS_H

#include <stdio.h>
#include <stdlib.h>

#include "core/op_queue.h"
#include "core/op_request.h"

struct op_queue {
	struct op_request *asked, **asked_end;
	struct op_request *answered; /* the newest first; they stay until the end */
	unsigned answers, commits;
	struct denied_peer stranger; /* turned away: the test's wish */
	/* called at each answer, NULL: none */
	void (*on_answer)(void *ctx, const struct op_request *a);
	void *ctx;
};

void fake_operators_init(struct op_queue *ctl);
void fake_operators_fini(struct op_queue *ctl);
struct op_request *fake_operators_ask(struct op_queue *ctl, enum op_verb verb, const char *session_id);

#endif
