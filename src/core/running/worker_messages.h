/* report.h: what a worker's lines do to its session. */
#ifndef HCPD_REPORT_H
#define HCPD_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "process/worker.h"

struct session;
struct wline;

void report_line(
	struct session *s, enum worker_stream stream, const char *line, size_t size, enum line_kind kind);
/* It ended without having said how: exit status or signal, and the end of its stderr. A `text` worker's
 * exit 0 completes. */
void report_death(struct session *s);

/* May one more warning be given about what its worker says? They are limited, all kinds together. */
bool report_may_complain(struct session *s);
/* The log says how many were not given; the session ends. */
void report_end_complaints(struct session *s);

/* report_checkpoint.c: a line of that type, like the handlers of report.c. */
void report_checkpoint(struct session *s, const struct wline *l);

#endif
