/* SPDX-License-Identifier: MIT */
/* client.h: hcpctl and the daemon's control socket; where no daemon listens, the store itself.
 *
 * The function that sees an error prints it on stderr, with what to do next; callers pass the exit status
 * on. */
#ifndef HCPD_HCPCTL_COMMON_CLIENT_H
#define HCPD_HCPCTL_COMMON_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "hcpctl/common/settings.h"
#include "query/query.h"

/* Where the daemon of these settings is expected. */
struct ctl_daemon_paths {
	char *state_dir; /* from the daemon's configuration, or /var/lib/hcpd */
	/* sockets to try, in this order; NULL-terminated; none where [control] socket is off */
	char *sockets[3];
	const char *named_by; /* what named the socket, for messages; NULL: a default path */
	char *config;         /* the configuration file, for messages */
	char *trouble;        /* why the configuration could not be read; NULL: it was read */
};

void ctl_daemon_paths_find(struct ctl_daemon_paths *p, const struct ctl_settings *s);
void ctl_daemon_paths_fini(struct ctl_daemon_paths *p);

struct ctl_client;

enum ctl_source {
	CTL_NEED_DAEMON,   /* only the daemon can do the request */
	CTL_STORE_WILL_DO, /* the store is read where the daemon does not run or answer; a message says so */
	/* the same without any message, not even about errors (completion) */
	CTL_STORE_QUIETLY,
	/* without a daemon: NULL, *status = CTL_UNAVAILABLE, and no message */
	CTL_DAEMON_QUIETLY
};

/* NULL: the reason was printed, and *status is the exit status. */
struct ctl_client *ctl_client_open(const struct ctl_settings *s, enum ctl_source source, int *status);
void ctl_client_close(struct ctl_client *c);
/* True: the daemon answers; false: the store. A request that the daemon does not answer may change this. */
bool ctl_client_is_live(const struct ctl_client *c);

/* A result of ctl_client_ask beside an exit status: the daemon went away in the middle of an answer. No
 * message was printed yet. */
enum { CTL_CLIENT_LOST = -1 };
/* Sends the request and gives each item to fn (NULL: there are no items). Takes the request, an object with
 * `do`, and sets its id. A NULL request, from ctl_client_request, is CTL_USAGE.
 * Where the daemon sends nothing for ten seconds, the store answers instead if that is enough. Otherwise the
 * result is CTL_UNAVAILABLE with a message, now and for every further request. A follow waits for ever.
 * Where fn returns false, the rest stays unread, the result is CTL_OK, and the client can only be closed.
 * `done`, where not NULL, gets the closing line, or NULL where there was none; the caller frees it. */
int ctl_client_ask(struct ctl_client *c, json_t *request, query_item_fn *fn, void *ctx, json_t **done)
	__attribute__((warn_unused_result));
/* Where a session is in the archive instead of the store, ctl_client_ask says so, as far as this user may
 * read the archive. After ctl_client_expect_archived it says nothing and returns CTL_CLIENT_ARCHIVED instead;
 * ctl_client_archived then gives the session's id. */
enum { CTL_CLIENT_ARCHIVED = -4 };
void ctl_client_expect_archived(struct ctl_client *c);
const char *ctl_client_archived(const struct ctl_client *c);
/* A request, with a session where it is not NULL. NULL, after a message: the session is not UTF-8. */
json_t *ctl_client_request(const char *verb, const char *session);
/* Adds a text member. False, after a message: the text is not UTF-8. */
bool ctl_client_set(json_t *request, const char *name, const char *text) __attribute__((warn_unused_result));
/* Prints that the daemon went away; returns CTL_UNAVAILABLE. */
int ctl_client_say_lost(void);

/* Ends a session over the daemon's socket, as its operator: for sessions whose token is unknown here, or
 * void. CTL_OK after a line on stdout; another exit status where the daemon refused, after a message. Under
 * CTL_DAEMON_QUIETLY, CTL_CLIENT_ABSENT without a message where no daemon listens: the caller tries another
 * way.
 * session: an id or the beginning of one; the daemon resolves it. */
enum { CTL_CLIENT_ABSENT = -2 };
int ctl_client_abort(const struct ctl_settings *s, enum ctl_source source, const char *session,
	const char *reason) __attribute__((warn_unused_result));

#endif
