/* SPDX-License-Identifier: MIT */
/* memdisk.h: a disk for SQLite that is memory: fast, the same for the same seed, and as bad as one likes.
 * Becomes SQLite's default VFS, so that store/store.c uses it without knowing. */
#ifndef HCPD_TESTS_RELIABILITY_SIM_MEMDISK_H
#define HCPD_TESTS_RELIABILITY_SIM_MEMDISK_H

#include <stdbool.h>
#include <stdint.h>

struct memdisk_faults {
	int write_error, sync_error; /* SQLite result codes; 0: all is well */
	int writes_left;             /* with write_error: so many still work */
	int dies_in;                 /* the machine stops at so many-th change; 0: it does not */
	bool dies_after;             /* ... once that change was made, not before */
	bool forgets_syncs;          /* a lie for testing the tests: a sync makes nothing durable */
};
extern struct memdisk_faults memdisk_faults;

/* Chooses among n outcomes; asked at a power loss only. */
void memdisk_init(unsigned (*choose)(unsigned n), void (*on_death)(void));
void memdisk_fini(void);
/* Dead: nothing is written any more, all that is there can be read. */
void memdisk_set_dead(bool dead);
/* What was not synced is gone, or not, sector by sector. Only while no connection is open. */
void memdisk_lose_power(void);
/* An empty disk; and back to what it was when memdisk_keep was called. Only while no connection is open. */
void memdisk_wipe(void);
void memdisk_keep(void);
void memdisk_restore(void);
/* How many changes there were: writes, syncs, truncations, deletions. */
uint64_t memdisk_changes(void);

#endif
