/* ctl_client.h: hcpctl and the daemon's control socket; where nobody listens there, the store itself.
 *
 * Whatever goes wrong is said on stderr by the function that saw it, with what to do next; callers pass the
 * exit status on. */
#ifndef HCPD_CTL_CLIENT_H
#define HCPD_CTL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "hcpctl/common/settings.h"
#include "query/query.h"

/* Where the daemon of these settings would be. */
struct ctl_place {
	char *state_dir;      /* from the daemon's configuration, or /var/lib/hcpd */
	char *sockets[3];     /* to try, in this order; NULL-terminated; none where the socket is off */
	const char *named_by; /* what named the socket, for messages; NULL: it is a usual one */
	char *config;         /* the file that was looked at, for messages */
	char *trouble;        /* why that file could not be read; NULL: it could */
};

void ctl_place_find(struct ctl_place *p, const struct ctl_settings *s);
void ctl_place_fini(struct ctl_place *p);

struct ctl_client;

enum ctl_need {
	CTL_NEED_DAEMON,   /* only it can do that */
	CTL_STORE_WILL_DO, /* the store is read where it does not run or answer, which is said */
	CTL_STORE_QUIETLY, /* the same, and nothing is said, not even what is wrong (completion) */
	CTL_DAEMON_QUIETLY /* NULL with *status = CTL_NO_BROKER where nobody listens, and nothing said */
};

/* NULL: it was said why, and *status is what to exit with. */
struct ctl_client *ctl_client_open(const struct ctl_settings *s, enum ctl_need need, int *status);
void ctl_client_close(struct ctl_client *c);
/* Is it the daemon that answers, or the store? A question that the daemon leaves unanswered may change it. */
bool ctl_client_is_live(const struct ctl_client *c);

/* What ctl_client_ask says beside an exit status: the daemon went away in the middle of an answer; said by
 * nobody yet. */
enum { CTL_CLIENT_LOST = -1 };
/* Asks, and hands each item to fn (NULL: there are none). The request is taken: an object with `do`; its id
 * is made here. NULL, from ctl_client_request, is CTL_USAGE. A daemon that says nothing for ten seconds is
 * given up: the store answers instead where it will do, else it is CTL_NO_BROKER, said, and so is every
 * further question. A follow waits for ever. Where fn says false, the rest is left unread and the client can
 * only be closed: CTL_COMPLETED. `done`, where not NULL, gets the closing line, the caller's to free; NULL in
 * it where there was none. */
int ctl_client_ask(struct ctl_client *c, json_t *request, query_item_fn *fn, void *ctx, json_t **done)
	__attribute__((warn_unused_result));
/* Where a session is not in the store but in the archive, that is said, as far as we may look. Who has a use
 * for that asks for CTL_CLIENT_LEFT instead: nothing is said then, and ctl_client_left names it. */
enum { CTL_CLIENT_LEFT = -4 };
void ctl_client_expect_left(struct ctl_client *c);
const char *ctl_client_left(const struct ctl_client *c);
/* A request, with a session where it is not NULL. NULL where that is no UTF-8: said. */
json_t *ctl_client_request(const char *verb, const char *session);
/* A text member more; false where it is no UTF-8: said. */
bool ctl_client_set(json_t *request, const char *name, const char *text) __attribute__((warn_unused_result));
/* Says that the daemon went away; CTL_NO_BROKER. */
int ctl_client_say_lost(void);

/* Ends a session by the daemon's socket, as its operator: for sessions whose token is not known here, or
 * void. A line on stdout and CTL_COMPLETED; another exit status where the daemon would not, which was said;
 * under CTL_DAEMON_QUIETLY, CTL_CLIENT_ABSENT where nobody listens: nothing was said, try another way.
 * session: an id or the beginning of one, resolved by the daemon. */
enum { CTL_CLIENT_ABSENT = -2 };
int ctl_client_abort(const struct ctl_settings *s, enum ctl_need need, const char *session,
	const char *reason) __attribute__((warn_unused_result));

#endif
