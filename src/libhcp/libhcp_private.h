/* SPDX-License-Identifier: MIT */
/* libhcp_private.h: what the files of libhcp share. The public contract is hcp/hcp.h.
 *
 *	handle.c      open, close, the loop, the order of a turn
 *	settings.c    hcp_options to struct lib_settings
 *	consumer.c    the consuming connection
 *	publisher.c   the publishing connection, with a thread of its own
 *	inbox.c       messages in order, each once, in batches
 *	group.c       how long a batch waits for more messages
 *	pending.c     submits and aborts until they are answered
 *	store.c       the SQLite file, every statement
 *	message.c     one received message
 *	event.c       values out of a message, for the application
 *
 * A turn (hcp_process) reads frames into the inbox, and handles the messages there in one transaction.
 * The acks and new messages go out after the commit. */
#ifndef HCPD_LIBHCP_LIBHCP_PRIVATE_H
#define HCPD_LIBHCP_LIBHCP_PRIVATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <sqlite3.h>
#include <uthash.h>

#include "base/buf.h"
#include "base/clock.h"
#include "protocol/message.h"
#include "config/config.h"
#include "hcp/hcp.h"
#include "base/id.h"
#include "amqp/connection.h"
#include "amqp/names.h"
#include "amqp/reconnect.h"

#define LIB_SECOND INT64_C(1000000)
#define LIB_BACKOFF_MAX (60 * LIB_SECOND) /* between two tries of the application, the file, a message */
/* The waits before the next connection, `most` being reconnect_max: 1, 2, 4 s ... The consumer's have jitter:
 * many callers come back to one broker. */
#define LIB_BACKOFF_CONSUMER(most) \
	((struct backoff){.first_us = LIB_SECOND, \
		.max_us = (most), \
		.jitter = BACKOFF_AROUND, \
		.random = backoff_random})
#define LIB_BACKOFF_PUBLISHER(most) ((struct backoff){.first_us = LIB_SECOND, .max_us = (most)})
#define LIB_BODY_MAX ((size_t)64 << 20) /* more than any callee of ours sends */
#define LIB_SESSION_MAX 128             /* bytes of a session_id */
#define LIB_SESSIONS_MAX 4096           /* remembered in memory; the file has the others */
#define LIB_ERROR_SIZE 700

/* One received message. Texts are never NULL. */
struct lib_message {
	struct lib_message *next;
	char *body; /* NUL behind it */
	size_t size;
	uint32_t generation; /* of the connection ... */
	uint64_t tag;        /* ... and the delivery tag there */
	const char *type, *session, *message_id, *event, *in_reply_to;
	int64_t sequence; /* 0: none */
	char *texts;      /* the memory of these texts */
	json_t *tree;     /* made when it is needed */
	bool is_treeless;
};

/* Settings never change; the threads share them. */
struct lib_settings {
	atomic_int refs;
	struct config *config; /* only amqp is filled */
	char caller[CALLER_ID_SIZE];
	char queue[CALLER_ID_SIZE + 16], key[CALLER_ID_SIZE + 4];
	bool quorum;
	int64_t ttl_ms, max_length;
	int prefetch;
};

enum lib_statement {
	LIB_BEGIN,
	LIB_COMMIT,
	LIB_ROLLBACK,
	LIB_SAVEPOINT,
	LIB_RELEASE,
	LIB_UNDO,
	LIB_GET_SESSION,
	LIB_PUT_SESSION,
	LIB_GET_SEEN,
	LIB_PUT_SEEN,
	LIB_GET_HELD,
	LIB_PUT_HELD,
	LIB_DROP_HELD,
	LIB_HEAD,
	LIB_HELD_STATS,
	LIB_HELD_SESSIONS,
	LIB_PUT_OUTGOING,
	LIB_DROP_OUTGOING,
	LIB_NEXT_OUTGOING,
	LIB_OUTGOING_BODY,
	LIB_STATEMENTS
};

/* One session. has_gap: messages of it wait, so each turn looks at it. */
struct lib_session {
	UT_hash_handle hh;
	struct lib_session *gap_next, *dirty_next;
	bool has_gap, is_dirty, is_closed;
	int64_t last;       /* the last sequence that on_event took */
	int64_t highest;    /* the highest sequence ever seen: a message without a sequence comes after it */
	int64_t held, head; /* number of rows in the file, and the place of the first */
	char *token, *callee;  /* NULL: not known */
	int64_t gap_since_us;  /* 0: none */
	uint64_t gap_received; /* messages of all sessions when the gap began */
	char *failing;         /* message_id of the message that on_event refused; NULL: none */
	bool failing_is_held;  /* that message is in the file, not at the broker */
	bool failing_is_here;  /* that message came again, and waits in the inbox */
	int64_t retry_at_us, retry_us;
	char id[];
};

/* A submit or an abort, in the file until it is answered. */
struct lib_outgoing {
	UT_hash_handle hh;
	char message_id[ID_SIZE];
	char *callee, *session;       /* session: NULL for a submit */
	int64_t row, created_us;      /* wall clock */
	int64_t next_at_us, delay_us; /* boot clock: when the publisher sends it again */
	bool is_with_publisher;       /* the publisher has it */
	bool is_confirmed;            /* the broker has it */
	bool is_answered;             /* in this batch */
	char *trouble;                /* to be reported to the application; NULL: none */
};

struct lib_attempt;
struct lib_publisher;

struct hcp {
	struct lib_settings *settings;
	hcp_event_fn *on_event;
	void *ctx;
	hcp_log_fn *on_log;
	void *log_ctx;
	char *callee;
	int batch_max, reorder_max;
	int64_t batch_us, repeat_us, give_up_us, gap_wait_us, forget_us;
	char error[LIB_ERROR_SIZE];
	int epoll_fd, wake_fd;
	atomic_bool is_stopping;
	bool in_callback;

	/* consumer.c */
	struct connection *connection; /* NULL: not connected */
	struct lib_attempt *attempt;   /* NULL: none under way */
	uint32_t generation;
	struct backoff backoff;
	int64_t retry_at_us, bound_at_us;
	bool was_up;
	bool said_missing; /* on this connection: events are missing that no limit of the queue explains */
	char last_trouble[LIB_ERROR_SIZE]; /* the last trouble that was logged */
	/* in this turn: librabbitmq may have read frames meanwhile */
	bool has_sent;
	uint64_t *acks; /* tags that this batch settled */
	size_t ack_count, ack_room;

	/* inbox.c */
	struct lib_message *inbox, **inbox_end;
	size_t inbox_count, parked; /* parked: messages that must wait */
	uint64_t received;
	int64_t delivered_at_us;
	struct lib_session *sessions, *with_gap, *dirty;
	bool has_more;   /* the batch is full, and more messages are due */
	bool in_batch;   /* a transaction is open */
	bool has_reload; /* a batch failed: memory must be loaded from the file again */
	int64_t batch_at_us;
	int batch_count;
	int64_t store_retry_at_us, store_retry_us;

	/* group.c */
	int64_t gather_until_us; /* until then messages wait for their group; 0: they do not wait */

	/* store.c */
	sqlite3 *db;
	int lock_fd; /* -1: another program may use the file */
	sqlite3_stmt *st[LIB_STATEMENTS];
	int64_t pruned_at_us;

	/* pending.c */
	struct lib_outgoing *outgoing;
	int64_t outgoing_row; /* the newest row that was loaded */
	int64_t outgoing_due_us;
	size_t publishing;
	bool has_new_outgoing;
	struct lib_publisher *publisher; /* NULL until the first message has to go out */
};

/* --- message.c --- */

/* Takes the body, which has a NUL after its size bytes. NULL where it is no HCP message; the body is freed
 * then. */
struct lib_message *lib_message_read(char *body, size_t size);
void lib_message_free(struct lib_message *n);          /* NULL is fine */
const json_t *lib_message_tree(struct lib_message *n); /* NULL where jansson refuses it */

/* --- handle.c --- */

/* Keeps the text for hcp_error, and returns status. */
int lib_fail(struct hcp *h, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void lib_log(struct hcp *h, enum hcp_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void lib_wake(int wake_fd);

/* --- settings.c --- */

/* NULL: hcp_error has the reason. */
struct lib_settings *lib_settings_new(struct hcp *h, const struct hcp_options *o);
struct lib_settings *lib_settings_ref(struct lib_settings *s);
void lib_settings_unref(struct lib_settings *s);             /* NULL is fine */
const char *lib_settings_user(const struct lib_settings *s); /* for the user-id property; NULL: none */

/* --- consumer.c --- */

/* Connects, and waits for the result: for hcp_open. */
int lib_consumer_open(struct hcp *h);
/* Takes over a connection that the thread made, starts the next attempt where it is due, and reads frames
 * into the inbox. */
void lib_consumer_turn(struct hcp *h, int64_t now_us);
/* A message is done in the open batch. It is acked after the commit, if its connection is still the same. */
void lib_consumer_settle(struct hcp *h, const struct lib_message *n);
void lib_consumer_ack(struct hcp *h);
/* Reads frames that came while acks were sent: the socket shows nothing of these. */
void lib_consumer_end_turn(struct hcp *h);
/* Requeues all messages that were settled since the last lib_consumer_ack. */
void lib_consumer_requeue_settled(struct hcp *h);
void lib_consumer_requeue(struct hcp *h, const struct lib_message *n);
int64_t lib_consumer_due_us(const struct hcp *h);
void lib_consumer_close(struct hcp *h);
/* A detached thread with all signals blocked: signal handlers run in the threads of the application. */
int lib_consumer_thread(void *(*run)(void *), void *arg);
/* For both connections: opens one, and declares the exchanges. */
struct connection *lib_consumer_connect(const struct lib_settings *s, const char *what,
	int (*on_socket)(void *, int), void *ctx, struct connection_error *e);

/* --- inbox.c --- */

void lib_inbox_put(struct hcp *h, struct lib_message *n);
/* Handles messages of the file and of the inbox that are due, until the batch is full. HCP_E_STORE: do not
 * commit the transaction. */
int lib_inbox_turn(struct hcp *h, int64_t now_us);
bool lib_inbox_is_full(const struct hcp *h); /* is the batch full? */
int64_t lib_inbox_due_us(const struct hcp *h);
void lib_inbox_forget_inbox(struct hcp *h);                           /* messages of former connections */
void lib_inbox_forget_sessions(struct hcp *h);                        /* the file still has them */
void lib_inbox_trim(struct hcp *h);                                   /* bounds the memory; after a commit */
struct lib_session *lib_inbox_session(struct hcp *h, const char *id); /* NULL: the file failed */
/* Calls on_event inside a savepoint. 1: on_event returned 0; 0: it did not, and its changes are undone; -1:
 * the transaction is lost. */
int lib_inbox_call(struct hcp *h, const struct hcp_event *e);

/* --- group.c --- */

/* After a commit that settled so many messages. */
void lib_group_end(struct hcp *h, size_t settled, int64_t now_us);
/* Do the messages of the inbox wait for more? */
bool lib_group_is_gathering(const struct hcp *h, int64_t now_us);

/* --- store.c --- */

int lib_store_open(struct hcp *h, const char *path);
/* One program at a time consumes with the file; the lock holds until lib_store_close. HCP_E_TAKEN: another
 * has it now. */
int lib_store_lock(struct hcp *h);
void lib_store_close(struct hcp *h);
int lib_store_begin(struct hcp *h);  /* does nothing where a transaction is open */
int lib_store_commit(struct hcp *h); /* saves dirty sessions first */
void lib_store_rollback(struct hcp *h);
int lib_store_do(struct hcp *h, enum lib_statement which); /* a statement without values */
int lib_store_load_session(struct hcp *h, struct lib_session *s);
int lib_store_is_seen(struct hcp *h, const char *session, const char *message_id); /* 1, 0, -1 */
int lib_store_put_seen(struct hcp *h, const char *session, const char *message_id);
int lib_store_is_held(struct hcp *h, const char *session, int64_t place, const char *message_id);
int lib_store_hold(struct hcp *h, struct lib_session *s, int64_t place, const struct lib_message *n);
/* The first held message; 0: none. The caller owns the message. */
int lib_store_head(struct hcp *h, const struct lib_session *s, int64_t *row, struct lib_message **n);
int lib_store_drop_held(struct hcp *h, struct lib_session *s, int64_t row);
int lib_store_load_gaps(struct hcp *h); /* loads sessions with held messages */
int lib_store_put_outgoing(struct hcp *h, const char *message_id, const char *callee, const char *session,
	const char *body, size_t size);
int lib_store_drop_outgoing(struct hcp *h, const char *message_id);
int lib_store_next_outgoing(struct hcp *h, int64_t after_row, struct lib_outgoing **l); /* 1, 0, -1 */
int lib_store_outgoing_body(struct hcp *h, int64_t row, char **body, size_t *size);
void lib_store_prune(struct hcp *h, int64_t now_us);

/* --- pending.c --- */

int lib_pending_load(struct hcp *h); /* loads new rows */
/* Before the batch: takes the results of the publisher, and reports trouble to the application. */
int lib_pending_turn(struct hcp *h, int64_t now_us);
/* After the commit: hands messages that are due to the publisher. */
void lib_pending_send(struct hcp *h, int64_t now_us);
int lib_pending_answered(struct hcp *h, const char *message_id);
void lib_pending_committed(struct hcp *h); /* forgets answered messages */
void lib_pending_forget(struct hcp *h);    /* forgets all, the file still has them */
bool lib_pending_is_flushed(const struct hcp *h);

/* --- publisher.c --- */

enum lib_publication_status { LIB_CONFIRMED, LIB_UNROUTABLE, LIB_REFUSED, LIB_NEWS };
struct lib_publication {
	struct lib_publication *next;
	enum lib_publication_status status;
	enum hcp_level level;      /* of news */
	char text[LIB_ERROR_SIZE]; /* refused, news */
	uint64_t tag;
	bool is_returned;
	char message_id[ID_SIZE];
	const char *type;
	char *callee, *session, *body;
	size_t size;
	int64_t expires_us; /* wall clock: the publisher does not send it later */
};
void lib_publication_free(struct lib_publication *i);

struct lib_publisher *lib_publisher_new(struct lib_settings *s, int wake_fd); /* NULL: no thread */
void lib_publisher_put(struct lib_publisher *p, struct lib_publication *i);   /* takes it */
struct lib_publication *lib_publisher_take(
	struct lib_publisher *p);                /* settled messages, and news; the caller owns the list */
void lib_publisher_end(struct lib_publisher *p); /* NULL is fine; does not wait */

#endif
