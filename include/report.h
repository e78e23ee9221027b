/* report.h: what a worker's lines do to its session. */
#ifndef HCPD_REPORT_H
#define HCPD_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "worker.h"

struct session;

void report_line(struct session *s, enum worker_stream stream, const char *line, size_t size, enum line_kind kind);
/* It ended without having said how: exit status or signal, and the end of its stderr. A `text` worker's
 * exit 0 completes. */
void report_death(struct session *s);

#endif
