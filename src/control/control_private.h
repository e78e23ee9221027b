/* SPDX-License-Identifier: MIT */
/* control_private.h: shared by the files of the control socket; no other file includes it. */
#ifndef HCPD_CONTROL_CONTROL_PRIVATE_H
#define HCPD_CONTROL_CONTROL_PRIVATE_H

#include "control/control.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/un.h>

#include "base/log.h"
#include "process/proctree.h"
#include "query/query.h"
#include "core/op_queue.h"
#include "core/op_request.h"

#define CLIENTS_MAX 64
#define REQUESTS_MAX 9 /* of a client at a time: the current one, and those that follow */
#define REQUEST_LINE_MAX 65536
#define REASON_SIZE 1024 /* size of an operator's reason, with its NUL */

/* ---- request.c: a line ---- */

enum control_kind { CONTROL_QUERY, CONTROL_OP, CONTROL_STOP, CONTROL_ARTIFACT };

struct control_request {
	bool has_id; /* the id could be read, even if nothing else could */
	int64_t id;
	enum control_kind kind;
	enum op_verb verb;   /* CONTROL_OP */
	const char *audited; /* the verb, where a refusal of it belongs in the audit; NULL: it only reads */
	json_t *root;        /* the whole request */
	const char *session, *reason, *name; /* borrowed from root; NULL: not given */
	const char *how, *token;             /* the same */
	int64_t from, of, by_us;
	struct jslice decision; /* borrowed from the line, unchanged */
};

/* 0, or -1 with the error filled in. Call control_request_fini in both cases. */
int control_read_request(const char *line, size_t size, struct control_request *r, struct query_error *e)
	__attribute__((warn_unused_result));
void control_request_fini(struct control_request *r);
void control_set_error(struct query_error *e, const char *code, const char *next, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- socket.c: its file ---- */

/* Listens at ctl->path; 0, or -1 with what is wrong logged. */
int control_make_socket(struct control *ctl) __attribute__((warn_unused_result));
/* Removes only our own file: another program may have put its own there. */
void control_remove_socket(const struct control *ctl);

/* ---- client.c: a client ---- */

enum request_state { REQUEST_FREE, REQUEST_READING, REQUEST_FOLLOWING, REQUEST_IN_CORE };

struct request {
	enum request_state state;
	int64_t id;
	bool is_show; /* the last item comes from the core */
	/* a file that is read instead of the store: its descriptor, plus one; 0: none */
	int artifact;
	struct query_cursor cursor;
};

struct client {
	int fd;          /* -1: none */
	uint32_t serial; /* unique among all clients */
	int64_t uid;
	char user[33]; /* its login name, for the audit */
	struct buf in, out;
	size_t out_at;          /* how much of `out` is sent */
	int64_t stuck_since_us; /* since when the client took none of its output; 0: none waits */
	int64_t heard_us;       /* when it connected, sent its last request, or took its last output */
	bool has_asked;         /* it has sent a whole line that is not empty */
	bool at_eof, is_ending; /* sends no more; is closed when all output is sent */
	struct request requests[REQUESTS_MAX]; /* the first is answered now, the others follow */
};

void client_open(struct control *ctl, struct client *c, int fd, int64_t uid);
void client_close(struct control *ctl, struct client *c);
bool client_wants_input(const struct client *c);
bool client_has_output(const struct client *c);
void client_read(struct control *ctl, struct client *c);
void client_write(struct control *ctl, struct client *c);
/* So much output waits that no more is made until the client has taken some. */
bool client_is_full(const struct client *c);
/* Does a slice of its requests. True: there is more to do, once it is not full. */
bool client_work(struct control *ctl, struct client *c);
/* After a commit: requests that follow are read again. */
void client_on_commit(struct client *c);
/* Takes the core's answer, and passes it on if the client is still there. */
void client_take_answer(struct control *ctl, struct op_request *a);
/* The daemon ends: answers each open request with that. */
void client_end_requests(struct control *ctl, struct client *c);
/* One error line; id NULL: null. */
void client_add_error(struct buf *out, const int64_t *id, const struct query_error *e);

/* ---- places.c: who gets a place ---- */

/* A place for a new client of this user: free, or held by a silent client, which has to be closed first
 * (fd >= 0). NULL: none; `why` says which bound is reached. */
struct client *place_find(struct control *ctl, int64_t uid, int64_t now_us, const char **why);
/* When the client has been silent for too long and is closed. INT64_MAX: it is not there, or has a request or
 * an answer under way. */
int64_t place_silent_at(const struct client *c);

/* ---- live.c: /proc ---- */

void control_add_live(const struct op_live *l, struct buf *out);

/* ---- control.c: the accepted peers, and the thread ---- */

struct control {
	char path[sizeof((struct sockaddr_un *)0)->sun_path];
	char *state_dir;
	int64_t group; /* -1: none */
	dev_t dev;     /* of our own file */
	ino_t ino;
	int listen_fd;
	pthread_t thread;
	struct op_queue *requests; /* shared with the core */
	atomic_bool is_stopping;
	/* used by the thread only */
	struct query *query; /* NULL: not open */
	struct client clients[CLIENTS_MAX];
	uint32_t last_serial;
	unsigned unanswered;  /* requests that the core has, also those of clients that left */
	int64_t accept_at_us; /* no descriptors left: accept again then; 0: accept now */
	struct log_limit denied_limit, refused_limit, full_limit, stuck_limit, silent_limit;
};

/* The connection to the store; NULL with the error filled in. */
struct query *control_query(struct control *ctl, struct query_error *e);
void control_send_to_core(struct control *ctl, struct op_request *a);
/* For the audit; the core writes it. */
void control_put_denied(struct control *ctl, const struct denied_peer *peer);
/* The login name; "" where there is none. May be slow: call it here, not in the core. */
void control_find_user(int64_t uid, char user[33]);

#endif
