/* SPDX-License-Identifier: MIT */
/* operator_kit.h: the fake world with an operator in it, for tests about what becomes of sessions that rest.
 * The kit owns the world and the two halves of its fixture. */
#ifndef HCPD_TESTS_SUPPORT_FAKES_OPERATOR_KIT_H
#define HCPD_TESTS_SUPPORT_FAKES_OPERATOR_KIT_H

#include "support/fakes/fake_world.h"

#include "support/fakes/fake_operators.h"

extern struct world w;
extern struct op_queue operators;

void opkit_begin(const char *more);
void opkit_end(void);
void opkit_crash(void);

/* An orderly stop, and a new run of the daemon. */
void opkit_restart(void);
void opkit_reload(const char *more);

/* Asks, and waits for the answer. */
struct op_request *opkit_ask(enum op_verb verb, int key, const char *how);
void opkit_done(struct op_request *a);
void opkit_refused(struct op_request *a, const char *code, const char *needle);
void opkit_say(struct worker *p, const char *line);
void opkit_die(struct worker *p, int status);

#define CHECKPOINT(n) \
	"{\"type\":\"checkpoint\",\"description\":\"up to " n "\",\"state\":{\"n\":" n "},\"step\":\"s" n \
	"\"}"
#define COMPLETED "{\"type\":\"completed\",\"outputs\":{}}"
#define PAUSED "{\"type\":\"paused\",\"reason\":\"rest\"}"

#endif
