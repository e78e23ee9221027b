/* SPDX-License-Identifier: MIT */
/* retain_kit.h: a core that only turns, the real thread and the real store, and a history to be retained. */
#ifndef HCPD_TESTS_SUPPORT_RETAIN_KIT_H
#define HCPD_TESTS_SUPPORT_RETAIN_KIT_H

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>
#include <sqlite3.h>

#include "store/archive.h"
#include "base/clock.h"
#include "core/turn.h"
#include "core/pins.h"
#include "retain/retain.h"
#include "store/retain.h"
#include "store/archive_private.h" /* where a header has what */
#include "store/store_private.h"   /* how much a turn wrote is nobody else's business */

#define SECOND INT64_C(1000000)
#define DAY_US (86400 * SECOND)
#define WAIT_S 100 /* far above what is needed: a deadline, not a measurement */

extern char retain_kit_dir[200];
extern struct core retain_kit_core;
extern struct config retain_kit_config;
extern int retain_kit_wake_fd, retain_kit_turns;
extern int64_t retain_kit_last_event;

/* What the most laborious turn did. Of its time only the processor's, and that only to be printed: it is
 * the machine's. */
extern struct retain_worst {
	int64_t rows, pages, cpu_us;
} retain_kit_worst;

void retain_kit_turn(void);
void retain_kit_open_store(void);
void retain_kit_start(void);
void retain_kit_stop(void);

/* ---- looking, beside it ---- */

int64_t retain_kit_ask(const char *sql);

#define wait_until(condition) wait_within(WAIT_S, condition)
#define wait_within(seconds, condition) \
	do { \
		int64_t until_ = clock_boot_us() + (seconds)*SECOND; \
		while (!(condition)) { \
			ck_assert_msg(clock_boot_us() < until_, "waited in vain for " #condition); \
			/* a look may cost more than a turn */ \
			for (int64_t look_ = clock_boot_us() + 10000; clock_boot_us() < look_;) \
				retain_kit_turn(); \
		} \
	} while (0)

/* Two whole looks at everything have gone by: what may leave has left. */
void retain_kit_look_twice(void);

/* ---- making history ---- */

const char *retain_kit_id_of(int64_t key);
void retain_kit_put_event(int64_t session, const char *type, const char *at, size_t filling);
void retain_kit_put_needing(int64_t key, const char *state, int64_t age_us, int events, size_t filling,
	const char *checkpoint_of, const char *continues);
void retain_kit_put_session(int64_t key, const char *state, int64_t age_us, int events, size_t filling);
void retain_kit_put_checkpoint(int64_t key, const char *state);
void retain_kit_settle(void);
const char *retain_kit_path_of(const char *folder, const char *name, const char *file);
void retain_kit_put_file(const char *folder, const char *name, const char *file);
bool retain_kit_has_file(const char *folder, const char *name, const char *file);

/* How often a session is in the archive, in what counts of it; its lines, where text is not NULL. Every
 * entry is good. */
int retain_kit_find_archived(const char *session_id, struct buf *lines);
const char *retain_kit_day_file(int64_t age_us);

/* Runs them, each in a world of its own. */
int retain_kit_run(Suite *s, TCase *t);

#endif
