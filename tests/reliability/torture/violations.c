/* SPDX-License-Identifier: MIT */
/* violations.c: the list of violations, and the lines that a run prints. Decides nothing. */
#include "violations.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "support/harness.h"

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

int violation_count(void)
{
	pthread_mutex_lock(&lock);
	int n = charges;
	pthread_mutex_unlock(&lock);
	return n;
}

void violation(const char *invariant, const char *fmt, ...)
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

void violation_of_rule(void *ctx, const char *rule, const char *what)
{
	(void)ctx;
	violation(rule, "%s", what);
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
