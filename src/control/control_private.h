/* control_private.h: what the files of the control socket share. Nobody else includes it. */
#ifndef HCPD_CONTROL_PRIVATE_H
#define HCPD_CONTROL_PRIVATE_H

#include "control/control.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/un.h>

#include "base/log.h"
#include "process/proctree.h"
#include "query/query.h"

#define CLIENTS_MAX 32
#define REQUESTS_MAX 9 /* of a client at a time: the one that is answered, and those that follow */
#define REQUEST_LINE_MAX 65536
#define REASON_SIZE 1024 /* of an operator's reason, with its NUL */

/* ---- control_request.c: a line ---- */

enum control_kind { CONTROL_QUERY, CONTROL_ASK, CONTROL_STOP, CONTROL_ARTIFACT };

struct control_request {
	bool has_id; /* it could be read, even if nothing else could */
	int64_t id;
	enum control_kind kind;
	enum ask_verb verb;                  /* CONTROL_ASK */
	json_t *root;                        /* the whole of it */
	const char *session, *reason, *name; /* loans of root; NULL: not given */
	const char *how, *token;             /* the same */
	int64_t from, of, by_us;
	struct jslice decision; /* a loan of the line; as it was written */
};

/* 0, or -1 with the error filled in. To be finished in both cases. */
int control_read_request(const char *line, size_t size, struct control_request *r, struct query_error *e)
	__attribute__((warn_unused_result));
void control_request_fini(struct control_request *r);
void control_set_error(struct query_error *e, const char *code, const char *next, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- control_socket.c: its file ---- */

/* Listens at ctl->path; 0, or -1 with what is wrong logged. */
int control_make_socket(struct control *ctl) __attribute__((warn_unused_result));
/* Only our own: somebody may have put another there. */
void control_remove_socket(const struct control *ctl);

/* ---- control_client.c: a client ---- */

enum request_state { REQUEST_FREE, REQUEST_READING, REQUEST_FOLLOWING, REQUEST_ASKED };

struct request {
	enum request_state state;
	int64_t id;
	bool is_show; /* its last item comes from the core */
	int artifact; /* a file that is read instead of the store: its descriptor, plus one; 0: none */
	struct query_cursor cursor;
};

struct client {
	int fd;          /* -1: none */
	uint32_t serial; /* no other client ever had it */
	int64_t uid;
	char user[33]; /* its login name, for the audit */
	struct buf in, out;
	size_t out_at;          /* sent of it */
	int64_t stuck_since_us; /* output waits, and nothing was taken since; 0: nothing waits */
	bool at_eof, is_ending; /* says no more; is closed once all is sent */
	struct request requests[REQUESTS_MAX]; /* the first is answered now, the others follow */
};

void client_open(struct control *ctl, struct client *c, int fd, int64_t uid);
void client_close(struct control *ctl, struct client *c);
bool client_wants_input(const struct client *c);
bool client_has_output(const struct client *c);
void client_read(struct control *ctl, struct client *c);
void client_write(struct control *ctl, struct client *c);
/* So much waits to be taken that no more is made until some was. */
bool client_is_full(const struct client *c);
/* A slice of what it asked for. True: there is more to do, once it is not full. */
bool client_work(struct control *ctl, struct client *c);
/* Something was committed. */
void client_look_again(struct client *c);
/* The core's answer, to whoever asked, if he is still there; takes it. */
void client_take_answer(struct control *ctl, struct ask *a);
/* The daemon ends: whatever is under way is answered so. */
void client_part(struct control *ctl, struct client *c);
/* One error line; id NULL: null. */
void client_add_error(struct buf *out, const int64_t *id, const struct query_error *e);

/* ---- control_live.c: /proc ---- */

void control_add_live(const struct ask_live *l, struct buf *out);

/* ---- control.c: who may speak, and the thread ---- */

struct control {
	char path[sizeof((struct sockaddr_un *)0)->sun_path];
	char *state_dir;
	int64_t group; /* -1: none */
	dev_t dev;     /* of our own file */
	ino_t ino;
	int listen_fd, event_fd;
	pthread_t thread;
	void (*wake)(void *ctx);
	void *wake_ctx;
	/* shared with the core */
	pthread_mutex_t lock;
	struct ask *asked, **asked_end, *answered, **answered_end;
	atomic_int followers;
	atomic_bool has_committed, is_stopping;
	/* the thread's own */
	struct query *query; /* NULL: not open */
	struct client clients[CLIENTS_MAX];
	uint32_t last_serial;
	unsigned unanswered;  /* asks in the core's hands; those of clients that went too */
	int64_t accept_at_us; /* descriptors have run out until then; 0: they have not */
	struct log_limit stranger_limit, full_limit, stuck_limit;
	struct control_stranger strangers[CONTROL_STRANGERS]; /* shared with the core; under the lock */
};

/* The connection to the store; NULL with the error filled in. */
struct query *control_query(struct control *ctl, struct query_error *e);
void control_ask(struct control *ctl, struct ask *a);
/* The login name; "" where there is none. May take its time: here, not in the core. */
void control_find_user(int64_t uid, char user[33]);

#endif
