/* SPDX-License-Identifier: MIT */
/* large_line.h: a long line of a worker is parsed, and its checkpoint packed, on a thread of its own: the
 * loop does not wait for it. The lines of a worker stay in order, since its pipe is not read meanwhile. */
#ifndef HCPD_CORE_RUNNING_LARGE_LINE_H
#define HCPD_CORE_RUNNING_LARGE_LINE_H

#include <stdbool.h>
#include <stddef.h>

struct core;
struct session;

/* Is it worth a thread? Never where the core has none. */
bool large_line_is(const struct session *s, size_t size);
/* Takes the line of the session's worker, which keeps it. worker_message_take gets it once it is read. */
void large_line_begin(struct session *s, const char *line, size_t size);
/* After the commit: hands the next ones to the threads. None while the store refuses. */
void large_line_step(struct core *c);
/* Forgets those that no thread has. */
void large_line_fini_all(struct core *c);

#endif
