/* SPDX-License-Identifier: MIT */
/* output_check.h: do the outputs fit what the caller expects (`expected_output`)? Pure. */
#ifndef HCPD_POLICY_OUTPUT_CHECK_H
#define HCPD_POLICY_OUTPUT_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct output_check;
struct jschema;

#define EXPECT_MESSAGE_SIZE 900

struct output_failure {
	/* expected_output.required_fields, expected_output.schema or output_schema */
	const char *against;
	char message[EXPECT_MESSAGE_SIZE]; /* with a JSON pointer into the outputs */
	/* pointers to missing members, as JSON strings with commas between; may be empty */
	struct buf missing;
};
void output_failure_fini(struct output_failure *f);

/* Compiles an `expected_output`; NULL and JSON's null expect nothing. protocol/message.c has checked its
 * form. NULL where the schema is broken, with a pointer into it and the reason in `why`. */
struct output_check *output_check_new(const json_t *expected, char *why, size_t why_size)
	__attribute__((warn_unused_result));
void output_check_free(struct output_check *e); /* NULL is fine */

/* Checks the caller's fields, then the caller's schema, then the capability's. e may be NULL. The caller
 * calls output_failure_fini in all cases. */
bool output_check_run(const struct output_check *e, const struct jschema *output_schema,
	const json_t *outputs, struct output_failure *f) __attribute__((warn_unused_result));

#endif
