/* SPDX-License-Identifier: MIT */
/* op_common.h: what hcpctl's operator commands share: the way from a command line to an answer. */
#ifndef HCPD_HCPCTL_COMMON_OP_COMMON_H
#define HCPD_HCPCTL_COMMON_OP_COMMON_H

#include <jansson.h>

#include "hcpctl/common/client.h"
#include "hcpctl/common/command.h"
#include "hcpctl/common/table.h"

/* One request: opens, sends, closes. Takes the request. */
int ctl_op_ask(struct ctl_options *o, enum ctl_source source, json_t *request, query_item_fn *fn, void *ctx,
	json_t **done);
/* The one SESSION behind the options. NULL: there is none or there are several; the usage was printed. */
const char *ctl_op_session(int argc, char **argv, const struct ctl_command *command);
/* Flushes stdout. CTL_ERROR where that fails, with a message unless stdout is a pipe without a reader. */
int ctl_op_flush(int status);
/* A query_item_fn: prints the item as a line on stdout. */
bool ctl_op_print_json(void *ctx, const char *json, size_t size);
/* Columns of the terminal; 0 where stdout is no terminal: lines may have any length. */
int ctl_op_width(void);
/* Prints the buffer on stdout. */
void ctl_op_print(const struct buf *b);
/* The text of a member; "" where the member is no text. */
const char *ctl_op_text(const json_t *o, const char *name);
/* Sets the member `since` from an option: an instant, or how long ago: 2h, PT30M, 7d. False: it is
 * neither. */
bool ctl_op_take_since(json_t *request, const char *word);
/* The time since the instant in a member, in microseconds; 0 where the member holds no instant. */
int64_t ctl_op_since(const json_t *o, const char *name);
/* The instant in a member as local time, formatted by strftime(3); "-" where the member holds no instant. */
void ctl_op_local(const json_t *o, const char *name, const char *form, char out[CTL_SPAN_SIZE]);

#endif
