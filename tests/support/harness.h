/* SPDX-License-Identifier: MIT */
/* harness.h: what every integration test stands on: failing tidily, waiting for conditions, running a
 * suite, the broker. Independent of the daemon: it uses librabbitmq, jansson and SQLite, and nothing of hcpd.
 */
#ifndef HCPD_TESTS_SUPPORT_HARNESS_H
#define HCPD_TESTS_SUPPORT_HARNESS_H

#include <check.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* --- failing --- */

/* Shows the daemons' last log lines and the last messages, ends every process of the test, and fails. */
void harness_fail(const char *file, int line, const char *what, const char *fmt, ...)
	__attribute__((format(printf, 4, 5), noreturn));
#define give_up(...) harness_fail(__FILE__, __LINE__, "", __VA_ARGS__)
#define must(cond, ...) \
	do { \
		if (!(cond)) \
			harness_fail(__FILE__, __LINE__, "not so: " #cond ": ", __VA_ARGS__); \
	} while (0)
#define must_str(got, want) harness_must_str(__FILE__, __LINE__, #got, (got), (want))
void harness_must_str(const char *file, int line, const char *what, const char *got, const char *want);

/* --- waiting --- */

double harness_now(void); /* seconds, monotonic */
/* For bounds of time: 1; more under sanitizers, with HCP_TEST_SLOW=factor, and on a busy machine. */
double harness_scale(void);
bool harness_is_sanitized(void); /* its memory is the sanitizer's, too */
/* Serves everything that is registered: notify sockets, dead children, callers' queues. Sleeps a little. */
void harness_tick(void);
#define WAIT_S 25.0 /* far above what is needed: a deadline, not a measurement */
#define wait_until(cond, seconds, ...) \
	do { \
		double end_ = harness_now() + (seconds)*harness_scale(); \
		while (!(cond)) { \
			if (harness_now() > end_) \
				harness_fail( \
					__FILE__, __LINE__, "waited in vain for " #cond ": ", __VA_ARGS__); \
			harness_tick(); \
		} \
	} while (0)
/* Lets time pass with everything served: only to show that something does NOT happen. */
void harness_pass(double seconds);

/* --- JSON --- */

/* JSON from a printf format in which ' stands for ". The caller owns it. */
json_t *J(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A member by a dotted path, NULL where there is none; loans. */
json_t *json_at(json_t *root, const char *path);
const char *json_text_at(json_t *root, const char *path);

/* --- files --- */

void file_write(const char *path, const char *text);
char *file_read(const char *path, size_t *size); /* NULL where it cannot be read; the caller frees */
bool file_exists(const char *path);
int file_lines(const char *path);              /* 0 where there is none */
const char *source_path(const char *relative); /* absolute; static buffers, a few at a time */
void tree_remove(const char *path);

/* --- the broker --- */

struct broker {
	char url[512];
	char dir[512];
	pid_t pid;
	bool own;
};
/* The one of HCP_TEST_BROKER_URL, or one made for this run. */
const struct broker *broker_shared(void);
/* In a suite that runs with one of its own (harness_run): for tests that stop or kill it. It runs when this
 * returns, whatever the test before did to it. */
struct broker *broker_private(void);
/* On a directory that had one: the same ports and data. */
void broker_start(struct broker *b, const char *dir);
void broker_stop(struct broker *b);
/* Dead when it returns: broker_start takes a node that is still dying for one that runs. */
void broker_kill(const struct broker *b);
int broker_ctl(const struct broker *b, const char *command);     /* rabbitmqctl, through scripts/broker */
int broker_eval(const struct broker *b, const char *expression); /* Erlang in the node: much quicker */

/* --- a suite --- */

#define suite_test(suite, name, seconds) harness_add((suite), #name, (name), (seconds))
void harness_add(Suite *s, const char *name, const TTest *test, int seconds);
/* One that ends with exit(0) where all is well: Check counts microseconds in an int, and half an hour is
 * too long. */
void harness_add_long(Suite *s, const char *name, const TTest *test, int seconds);
/* Runs it; own_broker: with one that nobody else uses. Afterwards no process of any test may be left. */
int harness_run(Suite *s, bool own_broker);
void harness_begin(void);      /* once a test, by its first rig */
const char *harness_tmp(void); /* prefix for directories of this run: swept at its end */

#endif
