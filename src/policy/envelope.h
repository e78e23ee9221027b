/* SPDX-License-Identifier: MIT */
/* envelope.h: the limits that a capability must stay inside, whatever its caller wants: bounds of numbers,
 * and prohibited actions. Pure. */
#ifndef HCPD_POLICY_ENVELOPE_H
#define HCPD_POLICY_ENVELOPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct declaration;
struct declared;
struct envelope;

enum envelope_result {
	ENVELOPE_INSIDE,
	ENVELOPE_OUTSIDE, /* beyond max or min: refused */
	ENVELOPE_VIOLATED /* beyond the hard limit, or prohibited: the session is ended */
};

struct envelope_breach {
	char where[300];      /* the parameter or the action */
	char message[400];    /* "temperature_c is 95 C, and at most 80 C is allowed" */
	char suggestion[200]; /* may be empty */
};

/* Reads `safety.envelope`; an absent one has no limits. Complains of faults; the result must then only be
 * freed. */
struct envelope *envelope_read(struct declaration *d, const struct declared *v)
	__attribute__((warn_unused_result));
void envelope_free(struct envelope *e); /* NULL is fine */
/* The declared text without white space; "{}": none. For task_accepted and the worker. */
const char *envelope_text(const struct envelope *e);
/* The hash of that text, which tokens claim. */
const char *envelope_hash(const struct envelope *e);

/* Checks the inputs of a task. Every parameter of the envelope that is among them must be a number within its
 * bounds, and an action that they name (`action`: a string; `actions`: strings, or objects with `name`) must
 * not be prohibited. breach is filled where the result is not INSIDE. */
enum envelope_result envelope_check_inputs(
	const struct envelope *e, const json_t *inputs, struct envelope_breach *breach);
/* Checks an action that a worker announces. parameters may be NULL. breach has the gravest breach. */
enum envelope_result envelope_check_action(
	const struct envelope *e, const char *name, const json_t *parameters, struct envelope_breach *breach);

#endif
