/* charge.h: what was found to be wrong, counted and shown as it is found. */
#ifndef CHARGE_H
#define CHARGE_H

#include <sqlite3.h>
#include <stddef.h>

/* One violation of an invariant, with its evidence. From any thread. */
void charge(const char *invariant, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int charge_count(void);
/* A question to a store: each row is a charge, its first two columns are the evidence. */
struct question {
	const char *invariant, *what, *sql;
};
void charge_answers(sqlite3 *db, const struct question *questions, size_t count);
/* One line on stdout, with the seconds since the run began; from any thread. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Seconds since the first call, as the lines show them. */
double say_clock(void);

#endif
