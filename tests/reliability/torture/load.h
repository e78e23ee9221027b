/* SPDX-License-Identifier: MIT */
/* load.h: what callers ask for: a table of kinds of work, chosen by seed. */
#ifndef HCPD_TESTS_RELIABILITY_TORTURE_LOAD_H
#define HCPD_TESTS_RELIABILITY_TORTURE_LOAD_H

#include <jansson.h>
#include <stdbool.h>

#include "support/rig.h"

struct order {
	const char *kind, *capability;
	json_t *inputs;     /* the caller's */
	char wanted[40];    /* see struct stream; empty: anything */
	double abort_after; /* seconds after its acceptance; negative: never */
	bool wrong_token;   /* an abort with one, that must have no effect */
	bool twice;         /* submitted twice under one message_id */
	bool may_fail;      /* its own nature, whatever the nemesis does */
	/* what the decider does with it: allow, deny, never; NULL: it is not asked */
	const char *human;
	bool is_barred; /* the policy program denies it */
	int attempts;   /* so many deaths of its worker are its end */
};

/* The capabilities that the table needs; agent: path of the C agent. */
void mix_prepare(struct rig *r, const char *agent);
/* And those whose workers die and are started again, give up their process, or save a lot. */
void mix_prepare_return(struct rig *r, const char *agent);
/* And what is not done unasked, or only within limits. Another declaration of lab is in lab-high.json,
 * for a reload. */
void mix_prepare_gate(struct rig *r, const char *agent, const char *policy);
void mix_draw(unsigned *seed, bool gentle, struct order *o);
/* Uniform in 0 .. most. */
double mix_some(unsigned *seed, double most);

#endif
