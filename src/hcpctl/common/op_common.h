/* ctl_ops.h: what hcpctl's operator commands share: the way from a command line to an answer. */
#ifndef HCPD_CTL_OPS_H
#define HCPD_CTL_OPS_H

#include <jansson.h>

#include "hcpctl/common/client.h"
#include "hcpctl/common/command.h"
#include "hcpctl/common/table.h"

/* One question: opens, asks, closes. The request is taken. */
int ctl_ops_ask(struct ctl_options *o, enum ctl_need need, json_t *request, query_item_fn *fn, void *ctx,
	json_t **done);
/* Exactly one SESSION behind the options: NULL with the usage said. */
const char *ctl_ops_session(int argc, char **argv, const struct ctl_command *command);
/* stdout, all of it; CTL_ERROR where it cannot be written, and said unless it is a pipe that nobody reads. */
int ctl_ops_flush(int status);
/* A query_item_fn: the item as a line on stdout. */
bool ctl_ops_print_json(void *ctx, const char *json, size_t size);
/* Of the terminal; 0 where stdout is none: lines may be as long as they are. */
int ctl_ops_width(void);
/* What is in it, to stdout. */
void ctl_ops_print(const struct buf *b);
/* A member's text, "" where it is none. */
const char *ctl_ops_text(const json_t *o, const char *name);
/* The member `since` out of an option: an instant, or how long ago: 2h, PT30M, 7d. False: it is neither. */
bool ctl_ops_take_since(json_t *request, const char *word);
/* Now, less the instant that a member holds, in microseconds; 0 where it holds none. */
int64_t ctl_ops_since(const json_t *o, const char *name);
/* The instant that a member holds, as local time in the form of strftime(3); "-" where it holds none. */
void ctl_ops_local(const json_t *o, const char *name, const char *form, char out[CTL_SPAN_SIZE]);

#endif
