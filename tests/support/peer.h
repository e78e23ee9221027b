/* SPDX-License-Identifier: MIT */
/* peer.h: a caller: publishes commands, collects what comes to its queue, finds things in it. */
#ifndef HCPD_TESTS_SUPPORT_PEER_H
#define HCPD_TESTS_SUPPORT_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness.h"
#include "rig.h"

/* One message as it came. */
struct note {
	char *key, *body;
	size_t size;
	json_t *json; /* NULL where the body is none */
	char message_id[160], correlation_id[160], type[64], content_type[64], content_encoding[64];
	bool has_message_id, has_correlation_id, has_timestamp, redelivered;
	/* its message_id was there before: not found by the functions below */
	bool repeated;
	int delivery_mode;
	uint64_t timestamp;
	double at;
	/* read from the body; loans, empty where absent */
	const char *session, *kind, *event;
	long long sequence; /* 0: none */
};

struct peer {
	char id[160];
	char queue[200];
	char args[100]; /* of the queue, as peer_open or peer_declare were given them */
	const struct broker *broker;
	struct rig *rig;      /* whom it talks to */
	void *sub, *pub;      /* amqp_connection_state_t */
	uint64_t confirm_tag; /* of the publishing channel */
	struct note **notes;
	size_t note_count, note_room;
	json_t *seen; /* message ids */
	char **ids;   /* message ids handed out, freed with the peer */
	size_t id_count;
	bool durable_gone; /* its queue is not to be consumed now */
	bool any_order;    /* after a nack messages may overtake: the oracle leaves the order out */
	bool may_be_open;  /* sessions need not have ended at the end */
	bool lossy;        /* its queue was away or dropped: gaps are the test's own doing */
	bool substituted;  /* a row of its was unpublishable: the store keeps the original */
	bool unchecked;    /* the test itself checks */
	char user_id[64];  /* sent as user-id where not empty */
	struct peer *next;
};

/* A caller of its own name with a durable queue hcp.evt.{id} bound with {id}.#, consumed. */
struct peer *peer_new(struct rig *r);
struct peer *peer_named(struct rig *r, const char *id);
/* The same without a queue: nobody home. peer_open makes and consumes the queue (args: "" or
 * "reject-publish:N"); peer_close stops consuming and leaves the queue, peer_drop deletes it. */
struct peer *peer_absent(struct rig *r, const char *id);
void peer_open(struct peer *p, const char *args);
void peer_declare(struct peer *p, const char *args); /* makes the queue, does not consume it */
void peer_close(struct peer *p);
void peer_drop(struct peer *p);

/* --- saying --- */

/* Bytes as they are to hcp.commands with the rig's key; confirmed by the broker when it returns. */
void peer_publish(struct peer *p, const void *body, size_t size, const char *message_id);
void peer_publish_to(struct peer *p, const char *exchange, const char *key, const void *body, size_t size);
/* An envelope around payload (taken). Returns the message_id, which lives as long as the peer. */
const char *peer_send(struct peer *p, const char *type, const char *session, json_t *payload);
const char *peer_send_as(
	struct peer *p, const char *message_id, const char *type, const char *session, json_t *payload);
/* task_submit with caller, capability, intent and inputs (taken); more is merged into the payload. */
const char *peer_submit(struct peer *p, const char *capability, json_t *inputs);
const char *peer_submit_more(struct peer *p, const char *capability, json_t *inputs, json_t *more);
json_t *peer_payload(struct peer *p, const char *capability, json_t *inputs, json_t *more);
/* Submits and waits for task_accepted: the session_id. */
const char *peer_run(struct peer *p, const char *capability, json_t *inputs);
const char *peer_run_more(struct peer *p, const char *capability, json_t *inputs, json_t *more);
void peer_abort(struct peer *p, const char *session); /* with the token of task_accepted */
void peer_abort_with(struct peer *p, const char *session, json_t *payload);
char *uuid_text(struct peer *p);

/* --- finding; session, kind, event may be NULL for any --- */

struct note *peer_find(struct peer *p, const char *session, const char *kind, const char *event);
struct note *peer_find_nth(struct peer *p, const char *session, const char *kind, const char *event, int nth);
int peer_count(struct peer *p, const char *session, const char *kind, const char *event);
struct note *peer_find_reply(struct peer *p, const char *message_id);
int peer_count_replies(struct peer *p, const char *message_id);
struct note *peer_find_state(struct peer *p, const char *session, const char *to_state, int nth);
struct note *peer_find_text(
	struct peer *p, const char *session, const char *event, const char *path, const char *text);

/* --- waiting for it --- */

struct note *peer_reply(struct peer *p, const char *message_id);
const char *peer_accepted(struct peer *p, const char *message_id); /* the session_id */
struct note *peer_rejected(struct peer *p, const char *message_id, const char *code);
struct note *peer_wait(struct peer *p, const char *session, const char *kind, const char *event);
struct note *peer_event(struct peer *p, const char *session, const char *event);
struct note *peer_state(struct peer *p, const char *session, const char *to_state);
/* Waits for session_closed; it must say final_state and (unless NULL) reason. Returns it. */
struct note *peer_closed(struct peer *p, const char *session, const char *final_state, const char *reason);
struct note *peer_completed(struct peer *p, const char *session); /* closed COMPLETED; gives task_completed */
struct note *peer_failed(struct peer *p, const char *session, const char *reason, const char *code);
const char *peer_token(struct peer *p, const char *session);

#define note_at(n, path) json_at((n)->json, (path))
#define note_text(n, path) json_text_at((n)->json, (path))

/* End of the test: checks every stream it saw (oracle.h), deletes the queue, frees. */
void peer_finish(struct peer *p);

/* For harness.c */
bool peers_tick(void);
void peers_show(void);
void peers_end(void);
int peers_sockets(int *fds, int max);

#endif
