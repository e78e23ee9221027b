/* codec.h: the names of the wire. Bytes to commands, and messages to bytes. */
#ifndef HCPD_CODEC_H
#define HCPD_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "config/config.h"
#include "base/id.h"
#include "json/text.h"

#define CALLER_ID_SIZE 129  /* 1 to 128 of letters, digits, - _ : */
#define MESSAGE_ID_SIZE 129 /* 1 to 128 printable characters */
#define HCP_VERSION "1.0"

enum priority { PRIORITY_LOW, PRIORITY_NORMAL, PRIORITY_HIGH, PRIORITY_URGENT, PRIORITY_COUNT };

extern const char *const priority_names[PRIORITY_COUNT];
extern const char *const data_class_names[4];
extern const char *const risk_names[6]; /* by enum risk; [R_NONE] is "" */

/* A task as it was submitted: what the gate looks at, and the text that the worker gets. */
struct task {
	char *capability;
	char *version_range; /* NULL: any */
	char *json;          /* the worker's `task` object, minified, values byte for byte */
	size_t json_size;
	json_t *inputs;          /* parsed, for the gate */
	json_t *expected_output; /* the same; NULL: none */
	char *metadata;          /* JSON text, NULL: none */
	int64_t max_duration_us; /* 0: not constrained */
	enum priority priority;
	enum data_class data_class;
	char checkpoint[ID_SIZE]; /* constraints.checkpoint, lower case; "": none */
	char continues[ID_SIZE];  /* context.continues, the same */
};

enum command_kind { COMMAND_SUBMIT, COMMAND_ABORT };

enum codec_verdict {
	CODEC_OK,
	CODEC_REJECT, /* the caller is known: answer with code and message */
	CODEC_DROP    /* nobody to answer: message says what is wrong */
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

/* Reads one command. Whatever the verdict, command_fini frees what it holds. */
enum codec_verdict codec_read(const char *body, size_t size, int max_depth, struct command *out);
void command_fini(struct command *c);
/* A UUID in lower case. */
void codec_copy_id(char to[ID_SIZE], const char *uuid);
bool codec_is_caller_id(const char *text, size_t size);

/* What goes into the AMQP properties stands at a fixed place of every body that we compose. */
struct codec_head {
	char message_id[ID_SIZE];
	int64_t timestamp_s;
};
/* Begins a message, up to and including `"payload":`. session_id may be NULL. The head's message_id and
 * time are made here. */
void codec_begin(struct buf *b, const char *session_id, const char *type);
void codec_begin_as(
	struct buf *b, const char *message_id, const char *time, const char *session_id, const char *type);
void codec_end(struct buf *b);
/* False where the bytes are not a message of ours. */
bool codec_peek(const char *body, size_t size, struct codec_head *head);

#endif
