/* expect.h: what a caller expects of the outputs (`expected_output`), and whether they fit. Pure. */
#ifndef HCPD_EXPECT_H
#define HCPD_EXPECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct expectation;
struct jschema;

#define EXPECT_MESSAGE_SIZE 900

struct expect_failure {
	const char *against; /* expected_output.required_fields, expected_output.schema or output_schema */
	char message[EXPECT_MESSAGE_SIZE]; /* with a JSON pointer into the outputs */
	struct buf missing; /* pointers of what is not there, as JSON strings with commas between; may be
			       empty */
};
void expect_failure_fini(struct expect_failure *f);

/* Compiles it; NULL, or JSON's null, expects nothing. Its form was checked by codec.c. NULL where the schema
 * is broken, with a pointer into it and the reason in `why`. */
struct expectation *expect_new(const json_t *expected, char *why, size_t why_size)
	__attribute__((warn_unused_result));
void expect_free(struct expectation *e); /* NULL is fine */

/* First what the caller names, then its schema, then the capability's. e may be NULL. Whatever the answer,
 * expect_failure_fini the failure. */
bool expect_check(const struct expectation *e, const struct jschema *output_schema, const json_t *outputs,
	struct expect_failure *f) __attribute__((warn_unused_result));

#endif
