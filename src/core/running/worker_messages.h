/* SPDX-License-Identifier: MIT */
/* worker_messages.h: what a worker's lines do to its session. */
#ifndef HCPD_CORE_RUNNING_WORKER_MESSAGES_H
#define HCPD_CORE_RUNNING_WORKER_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "process/worker.h"

struct session;
struct worker_line;
struct checkpoint_pack;
struct harp_reading;

void worker_message_read(
	struct session *s, enum worker_stream stream, const char *line, size_t size, enum line_kind kind);
/* A line of stdout that was read. p: of a `checkpoint` line, made; else it is not looked at. r: the same of a
 * `snapshot` line; NULL: it is read here. */
void worker_message_take(struct session *s, const struct worker_line *l, const struct checkpoint_pack *p,
	const struct harp_reading *r);
/* A line that worker_line_read refused. salvaged: what worker_line_salvage made of it; NULL: nothing. */
void worker_message_refuse(struct session *s, const char *why, const char *line, size_t size,
	const struct worker_line *salvaged);
/* The worker ended without a last line: decides the failure, with exit status or signal and the end of
 * stderr. A `text` worker's exit 0 completes. */
void worker_message_death(struct session *s);

/* May one more warning about this worker be given? All kinds count together. */
bool worker_message_may_complain(struct session *s);
/* Logs how many warnings were not given, and resets the count. */
void worker_message_end_complaints(struct session *s);

#endif
