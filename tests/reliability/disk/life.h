/* SPDX-License-Identifier: MIT */
/* life.h: a scripted life of the whole core with three sessions and three tasks that wait for a human, on the
 * disk of vfs_fault.h.
 *
 * The callers, the broker and the workers are this program's; what they know lies in struct life, which
 * outlives the daemon (a caller to which the test gives memory shared between processes outlives its own,
 * too). Every tick lasts a second of the fake clock. */
#ifndef HCPD_TESTS_RELIABILITY_DISK_LIFE_H
#define HCPD_TESTS_RELIABILITY_DISK_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "final_check.h"

enum { LIFE_COMMANDS = 16, LIFE_SUBMITS = 7, LIFE_TICKS = 240 };

struct life {
	char dir[200]; /* has state/, hcpd.ini and the declarations */
	int tick;
	int64_t boot_us, wall_us; /* the clocks */
	uint64_t ids;             /* the generator's state */
	struct {
		bool is_sent, is_answered; /* answered: acked or rejected by the daemon */
		uint64_t tag;              /* of its delivery in this life */
	} commands[LIFE_COMMANDS];         /* as in the script */
	char sessions[LIFE_SUBMITS][40];   /* as the caller heard of them, by submit */
	struct {
		char request[40], text[1500]; /* a human's decision, as signed */
		bool is_replayed;             /* said once more, after it was answered */
		bool is_done;
	} decisions[LIFE_SUBMITS];
	int struck_tick;     /* when the disk was hit; 0: not yet */
	int starts;          /* of the daemon */
	uint64_t ios, syncs; /* in the whole life, where nothing crashed */
};

/* Makes the directory and the configuration. */
void life_prepare(struct life *l);
void life_remove(const struct life *l);
/* Goes on with it until everything has come to rest and the daemon was stopped in order. The disk heals by
 * itself heal_after ticks after it was hit. NULL, or a sentence that says why it did not come to rest. */
const char *life_go(struct life *l, struct final_check *v, int heal_after);
/* In the middle of it, as for a crash: keeps the clocks. */
void life_note_time(struct life *l);

#endif
