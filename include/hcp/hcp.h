/* SPDX-License-Identifier: MIT */
/* hcp/hcp.h: libhcp, the caller's half of the Harness Communication Protocol.
 *
 *	static int on_event(struct hcp *h, const struct hcp_event *e, struct sqlite3 *db, void *ctx)
 *	{
 *		...store what you need of *e through db...
 *		return 0;
 *	}
 *
 *	struct hcp *h;
 *	if (hcp_open(&h, &(struct hcp_options){ .url = "amqp://me:secret@broker/hcp", .caller_id = "me",
 *			.callee = "demo", .file = "me.db", .on_event = on_event }) < 0)
 *		errx(1, "%s", hcp_error(h));
 *	hcp_submit(h, &(struct hcp_task){ .capability = "echo", .inputs = "{\"text\":\"hello\"}" }, NULL);
 *	hcp_run(h, -1);
 *	hcp_close(h);
 *
 * What is promised. on_event is called inside a transaction of the SQLite file, and is handed it. Whatever it
 * stores there is stored exactly once for each event, in the order of the session's sequence, however often
 * caller, daemon or broker are killed. Anything else that it does may happen again after a crash; the pair of
 * session_id and sequence says what was done before. An event is acknowledged only after the transaction that
 * on_event returned 0 in is on the disk. A submit is kept in the file and sent again, under the same
 * message_id, until it is answered, also by the next run of the program.
 *
 * A handle belongs to one thread at a time, and not to a forked child; different handles know nothing of each
 * other. The library prints nothing and ends the process only where memory is out. libhcp(3) has the rest. */
#ifndef HCP_HCP_H
#define HCP_HCP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HCP_API __attribute__((visibility("default")))
#else
#define HCP_API
#endif

struct hcp;     /* a handle */
struct sqlite3; /* sqlite3.h's */

#define HCP_ID_SIZE 37 /* a message_id of ours, or a session_id, and its NUL */

enum hcp_status {
	HCP_OK = 0,
	HCP_TIMEOUT = 1,     /* hcp_run, hcp_flush: the time is up */
	HCP_E_ARGUMENT = -1, /* what was passed cannot be, or not here */
	HCP_E_BROKER = -2,   /* cannot be reached, or was lost */
	/* is there and says no: log-in, rights, a queue with other arguments */
	HCP_E_REFUSED = -3,
	HCP_E_TAKEN = -4, /* another program uses this file, or consumes this caller's queue */
	HCP_E_STORE = -5  /* the SQLite file */
};

/* --- what comes in --- */

enum hcp_kind {
	HCP_ACCEPTED = 1, /* task_accepted: in_reply_to is the submit, session_id its session */
	HCP_REJECTED,     /* task_rejected: in_reply_to; hcp_get_text(e, "reason_message") */
	HCP_EVENT,        /* event: sequence, event_type; hcp_get_text(e, "data.message") */
	HCP_COMPLETED,    /* task_completed: hcp_get_json(e, "outputs", &size) */
	HCP_FAILED,       /* task_failed: hcp_get_text(e, "error_message") */
	HCP_OTHER,        /* a type that this version does not know; nothing is wrong */
	/* Made here, without a message of the broker's; text says why. in_reply_to is the submit, or empty
	 * and session_id set for an abort. Return 0 to let it go, anything else to go on trying. */
	HCP_UNDELIVERED
};

/* On loan until on_event returns. Texts are never NULL: empty where there is none. */
struct hcp_event {
	enum hcp_kind kind;
	const char *type; /* as on the wire */
	/* HCP_EVENT: progress, state_changed, log ... also ones not known here */
	const char *event_type;
	const char *session_id;
	const char *message_id;
	const char *in_reply_to;
	int64_t sequence; /* 0: none */
	/* HCP_EVENT after a hole: the sequences that never came; warned about, and passed over. Else 0. */
	int64_t gap_from, gap_to;
	const char *body; /* the whole message as it came, NUL behind it */
	size_t size;
	const char *text; /* HCP_UNDELIVERED: a sentence */
	void *note;       /* the library's */
};

/* A value of the payload by a dotted path: NULL, or -1, where there is none of that type. hcp_get_json gives
 * the value as JSON text, not NUL-terminated, as it was written. */
HCP_API const char *hcp_get_text(const struct hcp_event *e, const char *path);
HCP_API int hcp_get_number(const struct hcp_event *e, const char *path, double *value);
HCP_API const char *hcp_get_json(const struct hcp_event *e, const char *path, size_t *size);

/* Called by hcp_process, hcp_run and hcp_flush, with a transaction of db open. Return 0 when the event is
 * dealt with. Otherwise what was stored through db in this call is undone, the message goes back to the
 * broker, and comes again after 1, 2, 4 ... 60 s; later messages of the same session wait for it, other
 * sessions go on. It may call hcp_submit and hcp_abort: what they send is part of the transaction, sent when
 * it is committed and only then. It may call hcp_stop, hcp_db and hcp_error, and no other function of the
 * handle. It must not end the transaction (savepoints are fine). */
typedef int hcp_event_fn(struct hcp *h, const struct hcp_event *e, struct sqlite3 *db, void *ctx);

enum hcp_level { HCP_LOG_ERROR, HCP_LOG_WARN, HCP_LOG_INFO, HCP_LOG_DEBUG };
/* One sentence, without a newline. In the thread that uses the handle. */
typedef void hcp_log_fn(void *ctx, enum hcp_level level, const char *text);

/* --- a handle --- */

/* Zero means the default everywhere: use designated initialisers. Copied by hcp_open. */
struct hcp_options {
	const char *caller_id; /* who we are: 1 to 128 letters, digits, - _ : */
	/* SQLite, made where there is none, mode 0600; yours to add tables to */
	const char *file;
	hcp_event_fn *on_event;
	void *ctx;          /* its last argument */
	const char *callee; /* whom to send to, where a task or an abort does not say */
	hcp_log_fn *on_log; /* NULL: silence; hcp_error still knows the last trouble */
	void *log_ctx;

	const char *url;           /* amqp://guest:guest@127.0.0.1:5672/%2F; amqps:// is TLS */
	const char *password_file; /* instead of a password in the url */
	const char *sasl;          /* "plain", or "external": the client certificate says who we are */
	const char *ca_file;       /* PEM; the system's authorities */
	const char *cert_file, *key_file;
	int no_verify;       /* 1: whoever answers is taken for the broker */
	int heartbeat_s;     /* 30 */
	int reconnect_max_s; /* 60: waits 1, 2, 4 ... so long between attempts */
	/* 1: hcp_open succeeds without one, and it is tried for from then on */
	int wait_for_broker;

	/* The queue hcp.evt.CALLER. The broker keeps what it was made with: others are HCP_E_REFUSED then. */
	/* 1: a quorum queue with a single active consumer; a second program waits */
	int quorum;
	int64_t queue_ttl_s;      /* messages older than this are dropped; 86400 is usual. 0: none */
	int64_t queue_max_length; /* the oldest are dropped. 0: any number */

	int prefetch; /* 10; 1 to 100 messages in hand */
	/* a transaction ends after so many events (prefetch), or so long (100) */
	int batch_max, batch_ms;
	/* 10: an unanswered submit is sent again, then after twice as long ... */
	int repeat_s;
	/* 82800: no answer for so long is HCP_UNDELIVERED; below hcpd's dedup_window */
	int give_up_s;
	/* 1000: messages kept for one session while an earlier one is missing */
	int reorder_max;
	int gap_wait_ms; /* 5000: a missing one is waited for so long at least */
	int forget_days; /* 30: then a closed session's sequence is forgotten */
};

/* Opens the file, connects, declares exchanges, queue and binding, and takes the queue. *h is set also on
 * failure, for hcp_error; hcp_close frees it. May take as long as a connect does; a queue that is taken is
 * tried for two seconds, since a broker needs a moment to notice that a predecessor was killed. */
HCP_API int hcp_open(struct hcp **h, const struct hcp_options *o);
/* Whatever was not acknowledged comes again, whatever was not sent is sent the next time. NULL is fine. */
HCP_API void hcp_close(struct hcp *h);
/* The last trouble as one sentence, "" where there was none. Until the next call. */
HCP_API const char *hcp_error(const struct hcp *h);
/* The connection that on_event is handed, for making tables and reading. Outside of on_event leave no
 * transaction open on it. Its busy timeout and commit hook are the library's. */
HCP_API struct sqlite3 *hcp_db(struct hcp *h);
HCP_API int hcp_is_up(const struct hcp *h); /* 1: connected and consuming */

/* --- sending --- */

/* Texts marked JSON are objects. NULL where there is none. */
struct hcp_task {
	const char *capability;         /* must be there */
	const char *inputs;             /* JSON; {} */
	const char *intent;             /* "run CAPABILITY" */
	const char *callee;             /* that of the options */
	const char *capability_version; /* "1.x", ">=2.0.0" */
	const char *max_duration;       /* "PT10M" */
	const char *priority;           /* low, normal, high, urgent */
	const char *constraints;        /* JSON; instead of the two above */
	const char *expected_output;    /* JSON */
	const char *context;            /* JSON */
	const char *metadata;           /* JSON */
};

/* Committed to the file when it returns (inside on_event: with the event), sent by hcp_process. message_id
 * may be NULL; the answer, HCP_ACCEPTED, HCP_REJECTED or HCP_UNDELIVERED, has it as in_reply_to. */
HCP_API int hcp_submit(struct hcp *h, const struct hcp_task *t, char message_id[HCP_ID_SIZE]);
/* Of a session that this file knows, with its token, to the daemon that runs it; of another to
 * options.callee. The answer is its stream: ABORTING, ABORTED, session_closed. reason may be NULL. */
HCP_API int hcp_abort(struct hcp *h, const char *session_id, const char *reason);

/* --- running --- */

/* Events until hcp_stop (HCP_OK), or for timeout_ms (HCP_TIMEOUT; -1: no limit). Troubles are logged and
 * tried again. */
HCP_API int hcp_run(struct hcp *h, int timeout_ms);
/* Like hcp_run, until the broker has everything that was submitted (HCP_OK). */
HCP_API int hcp_flush(struct hcp *h, int timeout_ms);
/* Makes hcp_run return. From on_event, another thread or a signal handler. */
HCP_API void hcp_stop(struct hcp *h);

/* Your own loop: wait until hcp_fd is ready for hcp_events, or hcp_timeout milliseconds (-1: for ever),
 * whichever is first, then hcp_process. The descriptor stays the same for the life of the handle, across
 * reconnects. It may be silent while there is work inside: ask hcp_timeout before every sleep. */
HCP_API int hcp_fd(const struct hcp *h);
HCP_API short hcp_events(const struct hcp *h); /* poll(2)'s; POLLIN */
HCP_API int hcp_timeout(const struct hcp *h);
/* One batch: takes what has come, calls on_event, commits, acknowledges. Never waits but for the disk. The
 * number of messages that were settled, or HCP_E_STORE: nothing was acknowledged, and it is tried again. */
HCP_API int hcp_process(struct hcp *h);

#ifdef __cplusplus
}
#endif

#endif
