/* SPDX-License-Identifier: MIT */
/* message.h: bytes to commands, and messages to bytes. */
#ifndef HCPD_PROTOCOL_MESSAGE_H
#define HCPD_PROTOCOL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "protocol/names.h"
#include "base/id.h"
#include "json/text.h"

#define CALLER_ID_SIZE 129  /* 1 to 128 of letters, digits, - _ : */
#define MESSAGE_ID_SIZE 129 /* 1 to 128 printable characters */
#define HCP_VERSION "1.0"

enum { LABELS_MAX = 16, LABEL_SIZE_MAX = 256 }; /* of a task; bytes of a name, and of a value */

/* A task as it was submitted: the members for the gate, and the text for the worker. */
struct task {
	char *capability;
	char *version_range; /* NULL: any */
	char *json;          /* the worker's `task` object, minified, values byte for byte */
	size_t json_size;
	json_t *inputs;          /* parsed, for the gate */
	json_t *expected_output; /* the same; NULL: none */
	char *metadata;          /* JSON text, NULL: none */
	json_t *labels;          /* metadata.labels: those that are indexed; NULL: none */
	const char *label_fault; /* why others of them are not; NULL: all are */
	bool harp;               /* metadata.harp is true: the session is to be published on harp.sessions */
	int64_t max_duration_us; /* 0: not constrained */
	enum priority priority;
	enum data_class data_class;
	char checkpoint[ID_SIZE]; /* constraints.checkpoint, lower case; "": none */
	char continues[ID_SIZE];  /* context.continues, the same */
};

enum command_kind { COMMAND_SUBMIT, COMMAND_ABORT };

enum message_result {
	MESSAGE_OK,
	MESSAGE_REJECT, /* the caller is known: answer with code and message */
	MESSAGE_DROP    /* there is no caller to answer: message says what is wrong */
};

struct command {
	enum command_kind kind;
	char message_id[MESSAGE_ID_SIZE]; /* empty where there is no usable one */
	char caller_id[CALLER_ID_SIZE];   /* empty where there is no well-formed one */
	char session_id[ID_SIZE];         /* abort, lower case */
	struct task task;                 /* submit */
	char *token, *reason;             /* abort; NULL: absent */
	const char *code;                 /* of a rejection */
	char message[512];                /* of a rejection or a drop */
};

/* Reads one command. Whatever the result, command_fini frees what the command holds. */
enum message_result message_read(const char *body, size_t size, int max_depth, struct command *out);
/* Who sends this task_submit? One pass over the bytes, without a tree: for a sender that is refused by its
 * name. Sets only the ids and the capability, to what message_read would set. False: message_read has to say.
 * It passes what jscan_object passes, so a few texts that message_read drops as no JSON are answered. body
 * has a NUL behind its size bytes. */
bool message_scan_submit(const char *body, size_t size, struct command *out);
/* Reads a stored task again: the text that message_read left in task.json. It stood one level deeper in its
 * message, and is held against the same limits. False: out->message says why. command_fini frees what out
 * holds in both cases. */
bool message_read_task(const char *json, size_t size, int max_depth, struct command *out);
void command_fini(struct command *c);
/* A UUID in lower case. */
void message_copy_id(char to[ID_SIZE], const char *uuid);
bool message_is_caller_id(const char *text, size_t size);

/* The members for the AMQP properties stand at a fixed place of every body that is composed here. */
struct message_head {
	char message_id[ID_SIZE];
	int64_t timestamp_s;
};
/* Begins a message, up to and including `"payload":`. session_id may be NULL. Makes the message_id and the
 * timestamp. */
void message_begin(struct buf *b, const char *session_id, const char *type);
void message_begin_as(
	struct buf *b, const char *message_id, const char *time, const char *session_id, const char *type);
void message_end(struct buf *b);
/* False: the bytes were not composed by message_begin. */
bool message_peek(const char *body, size_t size, struct message_head *head);

#endif
