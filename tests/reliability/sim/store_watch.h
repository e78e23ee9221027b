/* SPDX-License-Identifier: MIT */
/* store_watch.h: questions to the database, for store_watch.c and effect_oracle.c. */
#ifndef HCPD_TESTS_RELIABILITY_SIM_STORE_WATCH_H
#define HCPD_TESTS_RELIABILITY_SIM_STORE_WATCH_H

#include <sqlite3.h>

#include "sim.h"

enum {
	Q_VERSION,
	Q_BEGIN,
	Q_END,
	Q_SESSIONS,
	Q_TRANSITIONS,
	Q_EVENTS,
	Q_ROW,
	Q_OUTCOMES,
	Q_SUBMITS,
	Q_CALLERS,
	Q_COUNTS,
	Q_SUBSTITUTE,
	Q_CHECKPOINT,
	Q_POINT,
	Q_WAITS,
	Q_REVIEWS,
	Q_REVIEW,
	Q_DECISIONS,
	Q_SUBMIT,
	Q_ARTIFACT,
	Q_NONCE,
	Q_POINTS,
	Q_COUNT
};

bool watch_may_ask(int q);      /* its table can be read now */
sqlite3_stmt *watch_ask(int q); /* ready for its arguments */
sqlite3_stmt *watch_ask_about(int q, int64_t arg);
bool watch_row(int q); /* false: there is none, and the question is done with */
const char *watch_text(int q, int column);
void watch_done(int q);
uint64_t watch_hash(const char *bytes, size_t size);
struct jsession *watch_session(int64_t key); /* must be there */

/* ---- approval_oracle.c, for store_watch.c and effect_oracle.c ---- */

void waiting_reset(void);
void waiting_new(struct jsession *s, const char *waits_for);
void waiting_look(void);
void waiting_transition(struct jsession *s, const char *from, const char *to, const char *reason);
void waiting_message(struct jsession *s, const struct jmessage *m, const char *body);
void waiting_look_at_reviews(void);
void waiting_look_at_submits(bool at_all); /* at_all: also those that were answered before */
void waiting_recover(void);
void waiting_quiet(void);

/* ---- retention_oracle.c ---- */

void leaving_look(void);
void leaving_begin(void);
void leaving_check(void);

/* ---- harp_oracle.c ---- */

void harp_oracle_reset(void);
void harp_oracle_id(const struct jsession *s, int64_t event, char out[ID_SIZE]);
void harp_oracle_event(struct jsession *s, struct jmessage *m, const char *body);
void harp_oracle_look(void);
void harp_oracle_check(struct sqlite3 *db);

/* ---- fake_migrator.c ---- */

struct json_t;

void mover_point(struct jsession *s, const char *trigger, const char *version, const char *state);
void mover_start(const struct jsession *s, const struct json_t *state);
void mover_begin(const struct worker *w, const struct jsession *s);
void mover_end(const struct worker *w, const struct jsession *s, bool is_ending);

#endif
