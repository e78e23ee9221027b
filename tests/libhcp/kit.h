/* SPDX-License-Identifier: MIT */
/* kit.h: an application of libhcp under test, and a stub that speaks as a daemon would. The stub uses
 * librabbitmq and nothing of the library, so it can lie, repeat itself and say things in any order. */
#ifndef HCPD_TESTS_LIBHCP_KIT_H
#define HCPD_TESTS_LIBHCP_KIT_H

#include <stdbool.h>
#include <stdint.h>

#include "support/harness.h"
#include "hcp/hcp.h"
#include "support/wire.h"

/* --- a test's frame --- */

void kit_begin(void); /* a directory, a connection for the stub */
void kit_end(void);
const char *kit_path(const char *name); /* in the directory; static, a few at a time */
const struct broker *kit_broker(void);
const char *kit_callee(void); /* the stub's name */

/* --- the application --- */

/* What on_event stores, through the handle it is given: one row in `got` for each call that returned 0. */
struct app {
	struct hcp *h;
	struct hcp_options o;
	char caller[64], file[300], url[512], queue[80];
	int calls;                  /* of on_event, all */
	int refuse;                 /* so many calls more return 1, after they have stored */
	const char *refuse_session; /* only those of this session; NULL: any */
	bool keep_trying;           /* HCP_UNDELIVERED returns 1 */
	/* NULL, or called first: what it returns, unless 0, is on_event's result. */
	int (*hook)(struct app *a, const struct hcp_event *e, struct sqlite3 *db);
	int warnings;
	char log[16384]; /* what on_log was told, a line each */
};

struct app *app_new(const char *caller); /* not open yet; NULL: a name of its own */
void app_open(struct app *a);            /* must succeed */
int app_try_open(struct app *a);         /* the status */
void app_close(struct app *a);
void app_free(struct app *a); /* deletes its queue too */
/* One number from its file, through another connection. -1: no row. */
long long app_sql(struct app *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool app_said(struct app *a, const char *text); /* in its log */
void app_turn(struct app *a);                   /* waits a little, and processes */
#define app_until(a, cond, ...) \
	do { \
		double end_ = harness_now() + WAIT_S * harness_scale(); \
		while (!(cond)) { \
			if (harness_now() > end_) { \
				fprintf(stderr, "%s", (a)->log); \
				harness_fail( \
					__FILE__, __LINE__, "waited in vain for " #cond ": ", __VA_ARGS__); \
			} \
			app_turn(a); \
		} \
	} while (0)
/* Lets time pass with the application at work: only to show that something does NOT happen. */
void app_pass(struct app *a, double seconds);
/* Rows in got; session NULL: of all. */
long long app_count(struct app *a, const char *session);
/* Sequences 1 to count of the session are in got, each once, in that order. */
void app_must_have(struct app *a, const char *session, long long count);
/* Nothing is unacked or left in its queue. */
void app_must_be_idle(struct app *a);

/* --- the stub --- */

char *kit_id(void); /* a new UUID; lives as long as the test */
/* One message to the caller; payload is taken. session and message_id may be NULL (null, a new one). */
void stub_say(
	const char *caller, const char *session, const char *type, const char *message_id, json_t *payload);
void stub_event(const char *caller, const char *session, long long sequence, const char *event_type);
void stub_events(const char *caller, const char *session, long long from, long long to); /* progress */
void stub_raw(const char *caller, const void *body, size_t size);
void stub_listen(void); /* makes the command queue: from now on somebody listens */
/* The oldest command that waits there, NULL where none does; the caller frees. */
json_t *stub_hear(void);
int stub_waiting(void); /* commands in the queue */

#endif
