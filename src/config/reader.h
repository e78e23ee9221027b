/* SPDX-License-Identifier: MIT */
/* reader.h: a configuration while it is read: the values as they are written, and the messages about them.
 *
 * config.c reads the daemon's file with it. hcpctl and libhcp read the keys of [amqp] with it, which their
 * own file and options have, too. Never knows a key: table.c does. */
#ifndef HCPD_CONFIG_READER_H
#define HCPD_CONFIG_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

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

struct config_value { /* as written; text NULL: not given */
	char *text;
	int line;
};

struct config_section {
	enum config_kind kind;
	char *name;                  /* "" for those that have none */
	int line;                    /* where it first was */
	struct config_value *values; /* one for each key of the table */
	struct config_step {         /* keys migrate.FROM-TO, which no table can list */
		char *name;          /* FROM-TO */
		struct config_value value;
	} * steps;
	size_t step_count;
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

/* The reader collects messages. They are printed in the order of lines. */
void config_complain(struct config_reader *r, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void config_warn(struct config_reader *r, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A section without a name and without values. */
void config_section_init(struct config_section *s, enum config_kind kind);
void config_section_fini(struct config_section *s);
/* What was written for a key in a section; text NULL where nothing was. s may be NULL: no such section. */
const struct config_value *config_get(const struct config_section *s, const char *key);
/* Replaces it. */
void config_set(struct config_section *s, const char *key, const char *text, int line);
/* The section [amqp] to c->amqp, with the defaults of keys that are not given. */
void config_fill_amqp(struct config_reader *r, const struct config_section *s, struct config *c);
/* Frees all but the configuration, which is not the reader's. */
void config_reader_fini(struct config_reader *r);

#endif
