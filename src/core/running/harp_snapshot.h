/* snapshot.h: a worker's snapshot line: verified, stored and published once, or refused in HARP-SESSION's
 * words. */
#ifndef HCPD_SNAPSHOT_H
#define HCPD_SNAPSHOT_H

struct core;
struct session;
struct wline;

void snapshot_reported(struct session *s, const struct wline *l);
/* A line that is one, but cannot be read in one way only: a key twice, too deep. */
void snapshot_unreadable(struct session *s, const char *why);
/* The turn is committed: the store knows its snapshots now. */
void snapshot_end_turn(struct core *c);

#endif
