/* config_table.h: between the files of config only: the table of keys, the sections as they were read, and
 * the messages. Others include config.h. */
#ifndef HCPD_CONFIG_TABLE_H
#define HCPD_CONFIG_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "config/config.h"

enum config_kind { /* of section; those from KIND_CAPABILITY on have a name */
	KIND_DAEMON,
	KIND_AMQP,
	KIND_STORE,
	KIND_CONTROL,
	KIND_SESSION,
	KIND_LIMITS,
	KIND_POLICY,
	KIND_APPROVAL,
	KIND_RETENTION,
	KIND_CAPABILITY,
	KIND_CALLER,
	KIND_APPROVER,
	KIND_COUNT
};

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
	TYPE_LATER      /* no field: config_amqp.c and config_env.c look at the text */
};

struct config_key {
	enum config_kind kind;
	const char *name;
	enum config_type type;
	const char *fallback; /* as one would write it; NULL: none, the field stays NULL */
	int64_t min, max;
	bool zero_is_off; /* 0 does, too, though it is below min */
	const char *const *choices;
	size_t offset; /* in struct config, config_capability, config_caller or config_approver */
	bool is_required;
	const char *help; /* what would be right, for messages */
};

extern const struct config_key config_keys[];
extern const size_t config_key_count;

struct config_value { /* as written; text NULL: not given */
	char *text;
	int line;
};

struct config_section {
	enum config_kind kind;
	char *name;                  /* "" for those that have none */
	int line;                    /* where it first was */
	struct config_value *values; /* one a key of the table */
};

struct config_reader {
	const char *path;
	char *dir;   /* absolute: relative paths start here */
	mode_t mode; /* of the file */
	struct config_section *sections;
	size_t section_count;
	struct config_section *current; /* NULL: unknown or broken, its keys are passed over */
	struct config_message {
		int line; /* 0: none */
		bool is_error;
		char *text;
	} * messages;
	size_t message_count;
	struct config *config; /* while it is built */
};

/* Messages are collected and said in the order of lines. */
void config_complain(struct config_reader *r, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void config_warn(struct config_reader *r, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

const struct config_key *config_find_key(enum config_kind kind, const char *name);
const char *config_kind_name(enum config_kind kind);
int config_find_kind(const char *name); /* -1: none */
/* ` did you mean max_sessions?`, or where it belongs, or "". */
void config_suggest_key(enum config_kind kind, const char *name, char *out, size_t size);
/* The nearest of names to name that a typo may have turned into it, NULL where none is near. */
const char *config_find_nearest(const char *name, const char *const *names, size_t count);

/* Text to the field of base; complains where it does not fit. */
bool config_convert(
	struct config_reader *r, const struct config_key *key, const char *text, int line, void *base);
/* Frees the fields of base that belong to keys of that kind. */
void config_free_fields(enum config_kind kind, void *base);

void config_wipe_free(char *secret); /* NULL is fine */
/* What was written for a key in a section; text NULL where nothing was. */
const struct config_value *config_get(const struct config_section *s, const char *key);
char *config_absolute(const struct config_reader *r, const char *path);
/* The whole file, bounded, with what fstat said of that very file; -1 with errno (EFBIG: over max). */
int config_read_file(const char *path, size_t max, struct buf *out, struct stat *st)
	__attribute__((warn_unused_result));
bool config_is_name(const char *text, const char *extra); /* 1 to 128 of letters, digits, and extra */

/* config_amqp.c: url, password_file and what must go together. s may be NULL: no [amqp] section. */
void config_finish_amqp(struct config_reader *r, const struct config_section *s, struct config_amqp *a);
/* config_env.c: env, pass_env and env_file to cc->env. */
void config_finish_env(struct config_reader *r, const struct config_section *s, struct config_capability *cc);
/* config_confine.c: looks `user` up, and says what does not go together. */
void config_finish_confine(
	struct config_reader *r, const struct config_section *s, struct config_capability *cc);
/* Remembers a path that no worker under Landlock may open; takes it. NULL is fine. */
void config_add_secret(struct config_reader *r, char *path);

#endif
