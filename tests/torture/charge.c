/* charge.c: the list of charges, and the lines that a run prints. Decides nothing. */
#include "charge.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "harness.h"

#define SHOWN 40 /* more of the same help nobody */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int charges;
static double began;

double say_clock(void)
{
	if (began <= 0)
		began = harness_now();
	return harness_now() - began;
}

void charge_answers(sqlite3 *db, const struct question *questions, size_t count)
{
	for (const struct question *q = questions; q < questions + count; q++) {
		sqlite3_stmt *st = NULL;

		if (sqlite3_prepare_v2(db, q->sql, -1, &st, NULL) != SQLITE_OK)
			charge("sound store", "%s: %s", q->sql, sqlite3_errmsg(db));
		while (st && sqlite3_step(st) == SQLITE_ROW)
			charge(q->invariant, "%s: %s %s", q->what, (const char *)sqlite3_column_text(st, 0),
				(const char *)sqlite3_column_text(st, 1));
		sqlite3_finalize(st);
	}
}

int charge_count(void)
{
	pthread_mutex_lock(&lock);
	int n = charges;
	pthread_mutex_unlock(&lock);
	return n;
}

void charge(const char *invariant, const char *fmt, ...)
{
	va_list ap;

	pthread_mutex_lock(&lock);
	if (charges++ < SHOWN) {
		printf("%7.2f VIOLATION %s: ", say_clock(), invariant);
		va_start(ap, fmt);
		vprintf(fmt, ap);
		va_end(ap);
		putchar('\n');
		fflush(stdout);
	}
	pthread_mutex_unlock(&lock);
}

void say(const char *fmt, ...)
{
	va_list ap;

	pthread_mutex_lock(&lock);
	printf("%7.2f ", say_clock());
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	pthread_mutex_unlock(&lock);
}
