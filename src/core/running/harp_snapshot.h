/* SPDX-License-Identifier: MIT */
/* harp_snapshot.h: a worker's snapshot line: verified, stored and published once, or refused in
 * HARP-SESSION's words. */
#ifndef HCPD_CORE_RUNNING_HARP_SNAPSHOT_H
#define HCPD_CORE_RUNNING_HARP_SNAPSHOT_H

struct core;
struct session;
struct worker_line;

void harp_snapshot_reported(struct session *s, const struct worker_line *l);
/* A snapshot line that is ambiguous: a key twice, or too deep. */
void harp_snapshot_unreadable(struct session *s, const char *why);
/* The turn is committed: the store knows its snapshots from here on. */
void harp_snapshot_end_turn(struct core *c);

#endif
