/* eye.h: questions to the database, for eye.c and judge.c. */
#ifndef HCPD_SIM_EYE_H
#define HCPD_SIM_EYE_H

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

bool eye_may_ask(int q);      /* its table can be read now */
sqlite3_stmt *eye_ask(int q); /* ready for its arguments */
sqlite3_stmt *eye_ask_about(int q, int64_t arg);
bool eye_row(int q); /* false: there is none, and the question is done with */
const char *eye_text(int q, int column);
void eye_done(int q);
uint64_t eye_hash(const char *bytes, size_t size);
struct jsession *eye_session(int64_t key); /* must be there */

/* ---- waiting.c, for eye.c and judge.c ---- */

void waiting_reset(void);
void waiting_new(struct jsession *s, const char *waits_for);
void waiting_look(void);
void waiting_transition(struct jsession *s, const char *from, const char *to, const char *reason);
void waiting_message(struct jsession *s, const struct jmessage *m, const char *body);
void waiting_look_at_reviews(void);
void waiting_look_at_submits(bool at_all); /* at_all: also those that were answered before */
void waiting_recover(void);
void waiting_quiet(void);

/* ---- leaving.c ---- */

void leaving_look(void);
void leaving_begin(void);
void leaving_check(void);

/* ---- told.c ---- */

void told_reset(void);
void told_id(const struct jsession *s, int64_t event, char out[ID_SIZE]);
void told_event(struct jsession *s, struct jmessage *m, const char *body);
void told_look(void);
void told_check(struct sqlite3 *db);

/* ---- mover.c ---- */

struct json_t;

void mover_point(struct jsession *s, const char *trigger, const char *version, const char *state);
void mover_start(const struct jsession *s, const struct json_t *state);
void mover_begin(const struct worker *w, const struct jsession *s);
void mover_end(const struct worker *w, const struct jsession *s, bool is_ending);

#endif
