/* SPDX-License-Identifier: MIT */
/* fake_world.h: the whole core with a fake broker, fake workers, fake clocks and a fake disk, and a
 * watch on the store. The watch is a second connection: at every publish, ack, start, line and end it looks
 * whether the store already has what justifies it, and whether what is stored is whole. So every test of the
 * core is a test of commit before effect. Never waits: time passes when the test says so. */
#ifndef HCPD_TESTS_SUPPORT_FAKES_FAKE_WORLD_H
#define HCPD_TESTS_SUPPORT_FAKES_FAKE_WORLD_H

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <jansson.h>
#include <sqlite3.h>

#include "core/turn.h"
#include "support/fakes/fake_bus.h"
#include "support/fakes/fake_clock.h"
#include "support/fakes/fake_disk.h"
#include "support/fakes/fake_id.h"
#include "support/fakes/fake_workers.h"
#include "core/running/run.h"
#include "support/oracle_stream.h"

#define SECONDS FAKE_SECOND

struct world {
	char dir[200], ini[256], state[256];
	struct core core;
	struct bus bus;
	struct workers workers;
	sqlite3 *watch;
	bool is_alive;       /* between world_begin and world_end */
	bool broker_is_slow; /* the test settles by itself */
	bool has_jobs;       /* large states are worked beside the turns ... */
	bool jobs_are_slow;  /* ... and are finished when the test says so */
	void (*mid_turn)(
		void); /* happens when the bus was taken from and the turn is not committed; NULL: nothing */
	size_t earlier_sent; /* what earlier runs of the daemon published */
	struct fake_sent *earlier;
};

/* ---- the watch on the store ---- */

int64_t world_count(struct world *w, const char *sql, const char *arg);

/* The first column of the first row; "" where there is none. Good until the next call but three. */
const char *world_text(struct world *w, const char *sql, const char *arg);
void world_exec(struct world *w, const char *sql);

/* A session's row, its transitions and its events were committed together. */
void world_check_rows(struct world *w);

#define WORLD_IS_ENDING \
	"SELECT count(*) FROM sessions s WHERE session_id = ? AND (state NOT IN " \
	"('PENDING','RUNNING','PAUSED')" \
	" OR EXISTS (SELECT 1 FROM outcomes o WHERE o.session = s.id))"

/* ---- a run of the daemon ---- */

void world_write_file(const char *dir, const char *name, const char *text);
void world_say(void *ctx, bool is_error, const char *text);
void world_declare(
	struct world *w, const char *name, const char *version, const char *safety, const char *constraints);

#define WORLD_SAFE \
	"\"risk_ceiling\":\"R2\",\"requires_human_approval\":false,\"involves_physical_resources\":false"

/* The configuration, in which `more` comes last and so wins. */
void world_configure(struct world *w, const char *more);

/* Makes the directories and the configuration; world_begin then begins a run. */
void world_init(struct world *w, const char *more);

/* Up to, but without, recovery. */
void world_open(struct world *w);
void world_begin(struct world *w);

/* Ends a run. Crashed: without the last commit that an orderly end makes. */
void world_end(struct world *w, bool crashed);
void world_crash(struct world *w);
int world_remove(const char *path, const struct stat *st, int kind, struct FTW *ftw);
void world_fini(struct world *w);

/* ---- turns ---- */

/* One round of the loop. True: something happened. */
bool world_turn(struct world *w);

/* Until nothing happens any more at this instant. */
void world_run(struct world *w);

/* Lets time pass, stopping at everything that is due on the way. */
void world_pass(struct world *w, int64_t us);

/* ---- commands ---- */

uint64_t world_submit_as(struct world *w, const char *caller, const char *user, const char *message_id,
	const char *capability, const char *more);
uint64_t world_submit(struct world *w, const char *message_id, const char *capability);

/* token NULL: none. */
uint64_t world_abort_as(struct world *w, const char *session_id, const char *token, const char *user);
uint64_t world_abort(struct world *w, const char *session_id);

/* ---- looking ---- */

const char *world_id(struct world *w, int key);
const char *world_state(struct world *w, int key);

/* "PENDING>RUNNING:approved RUNNING>..." */
const char *world_path(struct world *w, int key);

/* The newest worker that was started for the session, NULL where none was. */
struct worker *world_worker(struct world *w, int key);

/* Submits, runs, and gives back the worker. */
struct worker *world_start(struct world *w, const char *message_id, const char *capability);
struct fake_sent *world_sent(struct world *w, size_t i);
size_t world_sent_count(const struct world *w);

/* How many different messages whose body has the needle were confirmed. */
int world_said(struct world *w, const char *needle);

/* ---- the stream ---- */

/* The stream of one session as its caller has it, first copies only, must be as L2-05 says. */
struct oracle_stream world_check_stream(struct world *w, int key);

/* main() of a test program. */
int world_main(Suite *s);

#endif
