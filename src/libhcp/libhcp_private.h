/* lib.h: between the files of libhcp only. The public contract is hcp/hcp.h.
 *
 *	handle.c  open, close, the loop     settings.c  options to what the rest reads
 *	wire.c    the consuming connection  post.c      the publishing one, with a thread of its own
 *	intake.c  order, once, the batch    store.c     the SQLite file, every statement
 *	outbox.c  submits and aborts until they are answered    note.c, event.c  messages, and values out of
 *them
 *
 * A turn (hcp_process) is: news of the connections, frames into the inbox, messages out of it into one
 *transaction, its commit, and only then the acks and what is to be sent. */
#ifndef HCP_LIB_H
#define HCP_LIB_H

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

#define LIB_COMMANDS "hcp.commands"
#define LIB_EVENTS "hcp.events"
#define LIB_SECOND INT64_C(1000000)
#define LIB_BACKOFF_MAX (60 * LIB_SECOND)
#define LIB_BODY_MAX ((size_t)64 << 20) /* more than any callee of ours sends */
#define LIB_SESSION_MAX 128             /* bytes of a session_id */
#define LIB_SESSIONS_MAX 4096           /* remembered in memory; the file has the others */
#define LIB_ERROR_SIZE 700

/* One message as it came. Texts are never NULL. */
struct lib_note {
	struct lib_note *next;
	char *body; /* NUL behind it */
	size_t size;
	uint32_t life; /* of the connection, and ... */
	uint64_t tag;  /* ... how to ack it there */
	const char *type, *session, *message_id, *event, *in_reply_to;
	int64_t sequence; /* 0: none */
	char *texts;      /* where they stand */
	size_t texts_size;
	json_t *tree; /* made when asked for */
	bool is_treeless;
};

/* What never changes; shared with the threads. */
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
	LIB_PUT_LETTER,
	LIB_DROP_LETTER,
	LIB_NEXT_LETTER,
	LIB_LETTER_BODY,
	LIB_STATEMENTS
};

/* One session of ours. Odd: has messages that wait, so it is looked at each turn. */
struct lib_session {
	UT_hash_handle hh;
	struct lib_session *odd_next, *dirty_next;
	bool is_odd, is_dirty, is_closed;
	int64_t last;          /* sequence that was dealt with */
	int64_t highest;       /* ever seen: what has no sequence stands behind it */
	int64_t held, head;    /* rows in the file, and the first one's place */
	char *token, *callee;  /* NULL: not known */
	int64_t gap_since_us;  /* 0: none */
	uint64_t gap_received; /* messages of all sessions, then */
	char *failing;         /* the message that on_event refused; NULL: none */
	bool failing_is_held;  /* it is in the file, not with the broker */
	bool failing_is_here;  /* it came again, and waits in the inbox */
	int64_t retry_at_us, retry_us;
	char id[];
};

/* A submit or an abort, in the file until it is answered. */
struct lib_letter {
	UT_hash_handle hh;
	char message_id[ID_SIZE];
	char *callee, *session;       /* session: NULL for a submit */
	int64_t row, created_us;      /* wall clock */
	int64_t next_at_us, delay_us; /* boot clock: when it is sent again */
	bool is_posted;               /* the publisher has it */
	bool is_confirmed;            /* the broker has it */
	bool is_answered;             /* in this batch */
	char *trouble;                /* to be told to the application; NULL: none */
};

struct lib_attempt;
struct lib_post;

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

	/* wire.c */
	struct link *link;           /* NULL: not connected */
	struct lib_attempt *attempt; /* NULL: none under way */
	uint32_t life;
	int64_t retry_at_us, backoff_us, bound_at_us;
	bool was_up;
	char last_trouble[LIB_ERROR_SIZE]; /* said already */
	bool has_sent;  /* in this turn: frames may have been read into the library meanwhile */
	uint64_t *acks; /* settled in this batch */
	size_t ack_count, ack_room;

	/* intake.c */
	struct lib_note *inbox, **inbox_end;
	size_t inbox_count, parked; /* parked: looked at, and must wait */
	uint64_t received;
	int64_t delivered_at_us;
	struct lib_session *sessions, *odd, *dirty;
	bool has_more;   /* the batch ended before the work did */
	bool in_batch;   /* a transaction is open */
	bool has_reload; /* a batch broke: memory is to be read anew */
	int64_t batch_at_us;
	int batch_count;
	int64_t store_retry_at_us, store_retry_us;

	/* store.c */
	sqlite3 *db;
	sqlite3_stmt *st[LIB_STATEMENTS];
	int64_t pruned_at_us;

	/* outbox.c */
	struct lib_letter *letters;
	int64_t letter_row; /* the newest that was loaded */
	int64_t letters_due_us;
	size_t posted;
	bool has_new_letters;
	struct lib_post *post; /* NULL until there is something to send */
};

/* --- note.c --- */

/* Takes the body, which has a NUL behind its size bytes. NULL where it is no message of HCP: freed then. */
struct lib_note *lib_note_read(char *body, size_t size);
void lib_note_free(struct lib_note *n);          /* NULL is fine */
const json_t *lib_note_tree(struct lib_note *n); /* NULL where jansson does not take it */

/* --- handle.c --- */

/* Keeps the sentence for hcp_error, and returns status. */
int lib_fail(struct hcp *h, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void lib_log(struct hcp *h, enum hcp_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void lib_wake(int wake_fd);

/* --- settings.c --- */

/* NULL with the sentence. */
struct lib_settings *lib_settings_new(struct hcp *h, const struct hcp_options *o);
struct lib_settings *lib_settings_ref(struct lib_settings *s);
void lib_settings_unref(struct lib_settings *s);             /* NULL is fine */
const char *lib_settings_user(const struct lib_settings *s); /* for the user-id property; NULL: none */

/* --- wire.c --- */

/* Connects here and now: hcp_open's. */
int lib_wire_open(struct hcp *h);
/* Takes up a connection that was made, begins the next attempt where it is due, reads what came into the
 * inbox. */
void lib_wire_turn(struct hcp *h, int64_t now_us);
/* A message is dealt with in the batch that is open: acked after its commit, if still of this connection. */
void lib_wire_settle(struct hcp *h, const struct lib_note *n);
void lib_wire_ack(struct hcp *h);
void lib_wire_end_turn(struct hcp *h); /* the descriptor may be silent about what came while sending */
/* Everything settled since the last lib_wire_ack goes back. */
void lib_wire_requeue_settled(struct hcp *h);
void lib_wire_requeue(struct hcp *h, const struct lib_note *n);
int64_t lib_wire_due_us(const struct hcp *h);
void lib_wire_close(struct hcp *h);
/* Blocked signals and a detached thread: the application's handlers run in its own threads. */
int lib_wire_thread(void *(*run)(void *), void *arg);
/* For both connections: link_open and the exchanges. The guard is called with a copy of the descriptor. */
struct link *lib_wire_connect(const struct lib_settings *s, const char *what, int (*on_socket)(void *, int),
	void *ctx, struct link_error *e);

/* --- intake.c --- */

void lib_intake_put(struct hcp *h, struct lib_note *n);
/* What waits in the file and in the inbox, as far as it is due and the batch goes. HCP_E_STORE: the
 * transaction is not to be committed. */
int lib_intake_turn(struct hcp *h, int64_t now_us);
bool lib_intake_is_full(const struct hcp *h); /* the batch */
int64_t lib_intake_due_us(const struct hcp *h);
void lib_intake_forget_inbox(struct hcp *h);    /* what is of connections that are gone */
void lib_intake_forget_sessions(struct hcp *h); /* the file knows them */
void lib_intake_trim(struct hcp *h);            /* keeps memory bounded; after a commit */
struct lib_session *lib_intake_session(struct hcp *h, const char *id); /* NULL: the file failed */
/* Calls on_event inside a savepoint: 1: it returned 0; 0: it did not, all is undone; -1: the transaction is
 * lost. */
int lib_intake_call(struct hcp *h, const struct hcp_event *e);

/* --- store.c --- */

int lib_store_open(struct hcp *h, const char *path);
void lib_store_close(struct hcp *h);
int lib_store_begin(struct hcp *h);  /* nothing where one is open */
int lib_store_commit(struct hcp *h); /* with all sessions that are dirty */
void lib_store_rollback(struct hcp *h);
int lib_store_do(struct hcp *h, enum lib_statement which); /* one without values */
int lib_store_load_session(struct hcp *h, struct lib_session *s);
int lib_store_is_seen(struct hcp *h, const char *session, const char *message_id); /* 1, 0, -1 */
int lib_store_put_seen(struct hcp *h, const char *session, const char *message_id);
int lib_store_is_held(struct hcp *h, const char *session, int64_t place, const char *message_id);
int lib_store_hold(struct hcp *h, struct lib_session *s, int64_t place, const struct lib_note *n);
/* The first that is held; 0: none. The caller owns the note. */
int lib_store_head(struct hcp *h, const struct lib_session *s, int64_t *row, struct lib_note **n);
int lib_store_drop_held(struct hcp *h, struct lib_session *s, int64_t row);
int lib_store_load_odd(struct hcp *h); /* sessions with held messages, into memory */
int lib_store_put_letter(struct hcp *h, const char *message_id, const char *callee, const char *session,
	const char *body, size_t size);
int lib_store_drop_letter(struct hcp *h, const char *message_id);
int lib_store_next_letter(struct hcp *h, int64_t after_row, struct lib_letter **l); /* 1, 0, -1 */
int lib_store_letter_body(struct hcp *h, int64_t row, char **body, size_t *size);
void lib_store_prune(struct hcp *h, int64_t now_us);

/* --- outbox.c --- */

int lib_outbox_load(struct hcp *h); /* new rows */
/* Before the batch: what the publisher says, what is due, what the application must be told. */
int lib_outbox_turn(struct hcp *h, int64_t now_us);
/* After the commit: what is due goes to the publisher. */
void lib_outbox_send(struct hcp *h, int64_t now_us);
int lib_outbox_answered(struct hcp *h, const char *message_id);
void lib_outbox_committed(struct hcp *h); /* forgets what was answered */
void lib_outbox_forget(struct hcp *h);    /* all of it */
bool lib_outbox_is_flushed(const struct hcp *h);

/* --- post.c: the publisher --- */

enum lib_post_status { LIB_POSTED, LIB_POST_UNROUTABLE, LIB_POST_REFUSED, LIB_POST_NEWS };
struct lib_post_item {
	struct lib_post_item *next;
	enum lib_post_status status;
	enum hcp_level level;      /* of news */
	char text[LIB_ERROR_SIZE]; /* refused, news */
	uint64_t tag;
	bool is_returned;
	char message_id[ID_SIZE];
	const char *type;
	char *callee, *session, *body;
	size_t size;
	int64_t expires_us; /* wall clock: not sent later than that, whoever held it up */
};
void lib_post_item_free(struct lib_post_item *i);

struct lib_post *lib_post_new(struct lib_settings *s, int wake_fd); /* NULL: no thread */
void lib_post_put(struct lib_post *p, struct lib_post_item *i);     /* takes it */
struct lib_post_item *lib_post_take(struct lib_post *p); /* what was settled, and news; the caller's */
void lib_post_end(struct lib_post *p);                   /* NULL is fine; does not wait */

#endif
