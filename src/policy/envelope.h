/* envelope.h: the limits that a capability must stay inside, whatever its caller asks: numbers with bounds,
 * and things that are never done. Pure. */
#ifndef HCPD_ENVELOPE_H
#define HCPD_ENVELOPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct declaration;
struct declared;
struct envelope;

enum envelope_verdict {
	ENVELOPE_INSIDE,
	ENVELOPE_OUTSIDE, /* beyond max or min: not to be done */
	ENVELOPE_VIOLATED /* beyond the hard limit, or prohibited: who tries it is ended */
};

struct envelope_breach {
	char where[300];      /* the parameter or the action */
	char message[400];    /* "temperature_c is 95 C, and at most 80 C is allowed" */
	char suggestion[200]; /* may be empty */
};

/* Reads `safety.envelope`; an absent one has no limits. Complains where something is wrong; what it returns
 * is then not to be used, but freed. */
struct envelope *envelope_read(struct declaration *d, const struct declared *v)
	__attribute__((warn_unused_result));
void envelope_free(struct envelope *e); /* NULL is fine */
/* As it was declared, without white space; "{}" where it was not. For task_accepted and the worker. */
const char *envelope_text(const struct envelope *e);

/* The inputs of a task: every parameter of the envelope that is among them must be a number within its
 * bounds, and an action that they name (`action`: a string; `actions`: strings, or objects with `name`) must
 * not be prohibited. breach is filled where the answer is not INSIDE. */
enum envelope_verdict envelope_check_inputs(
	const struct envelope *e, const json_t *inputs, struct envelope_breach *breach);
/* An action that a worker announces. Parameters may be NULL. The gravest breach is told. */
enum envelope_verdict envelope_check_action(
	const struct envelope *e, const char *name, const json_t *parameters, struct envelope_breach *breach);

#endif
