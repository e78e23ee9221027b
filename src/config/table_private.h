/* SPDX-License-Identifier: MIT */
/* table_private.h: the table of keys, and what the files of config share about it. Only files of config
 * include it: others include config.h, or reader.h. */
#ifndef HCPD_CONFIG_TABLE_PRIVATE_H
#define HCPD_CONFIG_TABLE_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "config/reader.h"

enum config_type {
	TYPE_TEXT,      /* char *; one pair of quotes is taken off */
	TYPE_PATH,      /* char *; made absolute */
	TYPE_CALLEE_ID, /* char * */
	TYPE_SOCKET,    /* char *: off, or a path, made absolute */
	TYPE_CGROUP,    /* char *: auto, off or an absolute directory */
	TYPE_INT,       /* int */
	TYPE_BOOL,      /* bool */
	TYPE_DURATION,  /* int64_t microseconds */
	TYPE_SIZE,      /* int64_t bytes */
	TYPE_CHOICE,    /* an enum; `choices` are its names in order */
	TYPE_COMMAND,   /* char ** */
	TYPE_LIST,      /* char ** of names */
	TYPE_PATHS,     /* char ** of paths, made absolute */
	TYPE_RATE,      /* struct rate_limit, but for its burst */
	TYPE_LATER      /* no field: amqp.c and env.c look at the text */
};

struct config_key {
	enum config_kind kind;
	const char *name;
	enum config_type type;
	const char *fallback; /* as one would write it; NULL: none, the field stays NULL */
	int64_t min, max;
	bool zero_is_off; /* 0 does, too, though it is below min */
	const char *const *choices;
	/* in struct config, config_capability, config_caller or config_approver */
	size_t offset;
	bool is_required;
	const char *help; /* what would be right, for messages */
};

extern const struct config_key config_keys[];
extern const size_t config_key_count;

const struct config_key *config_find_key(enum config_kind kind, const char *name);
const char *config_kind_name(enum config_kind kind);
int config_find_kind(const char *name); /* -1: none */
/* ` did you mean max_sessions?`, or where it belongs, or "". */
void config_suggest_key(enum config_kind kind, const char *name, char *out, size_t size);

/* Text to the field of base; complains where it does not fit. */
bool config_convert(
	struct config_reader *r, const struct config_key *key, const char *text, int line, void *base);
/* Frees the fields of base that belong to keys of that kind. */
void config_free_fields(enum config_kind kind, void *base);

char *config_absolute(const struct config_reader *r, const char *path);

/* amqp.c: url, password_file and what must go together. s may be NULL: no [amqp] section. */
void config_finish_amqp(struct config_reader *r, const struct config_section *s, struct config_amqp *a);
/* env.c: env, pass_env and env_file to cc->env. */
void config_finish_env(struct config_reader *r, const struct config_section *s, struct config_capability *cc);
/* confine.c: looks `user` up, and complains of keys that exclude each other. */
void config_finish_confine(
	struct config_reader *r, const struct config_section *s, struct config_capability *cc);
/* Remembers a path that no worker under Landlock may open; takes it. NULL is fine. */
void config_add_secret(struct config_reader *r, char *path);

#endif
