/* SPDX-License-Identifier: MIT */
/* op_request.c: makes, refuses and frees requests of operators.
 * Owns the memory of a request. Never decides about one (operator/operator.c). */
#include "core/op_request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct op_request *op_request_new(enum op_verb verb)
{
	struct op_request *a = xcalloc(1, sizeof *a);

	a->verb = verb;
	a->from = 1;
	return a;
}

void op_request_free(struct op_request *a)
{
	if (a == NULL)
		return;
	free(a->reason);
	free(a->decision);
	free(a->token);
	buf_fini(&a->item);
	buf_fini(&a->done);
	free(a);
}

void op_request_refuse(struct op_request *a, const char *code, const char *remedy, const char *fmt, ...)
{
	va_list ap;

	a->code = code;
	va_start(ap, fmt);
	vsnprintf(a->message, sizeof a->message, fmt, ap);
	va_end(ap);
	snprintf(a->remedy, sizeof a->remedy, "%s", remedy);
}
