/* SPDX-License-Identifier: MIT */
/* doctor.h: between the files of `hcpctl doctor`: what is checked, and how a finding is reported.
 *
 * A check reports through doctor_say and returns nothing: the next check runs in any case. A check changes
 * nothing, neither on the disk nor at the broker. */
#ifndef HCPD_HCPCTL_SETUP_DOCTOR_H
#define HCPD_HCPCTL_SETUP_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "config/config.h"
#include "hcpctl/common/settings.h"
#include "amqp/connection.h"

/* SKIP: not checked */
enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL, DOCTOR_SKIP, DOCTOR_LEVELS };

enum doctor_voice {
	DOCTOR_TEXT,    /* lines for people */
	DOCTOR_JSON,    /* an object a line */
	DOCTOR_WARNINGS /* only problems, on stderr: for `topology` */
};

struct doctor {
	const char *path;        /* hcpd.ini */
	const char *rabbitmqctl; /* a command that runs rabbitmqctl; NULL: only AMQP is used */
	const char *asked_user;  /* --user; NULL: found by doctor_find_daemon */
	struct config *config;   /* NULL: the configuration is broken, and checks that need it are left out */
	enum doctor_voice voice;
	bool is_child; /* a child of doctor_as: findings go to the parent, through fd */
	int fd;
	int count[DOCTOR_LEVELS];
	/* The user that runs hcpd: the lock's holder, the directory's owner or the current user. */
	uid_t uid;
	gid_t gid;
	char user[64];
	pid_t pid; /* 0: hcpd does not run, or that cannot be seen */
	bool lock_unseen;
};

/* todo NULL: nothing needs to be done. Text and todo become one line each. */
void doctor_say(struct doctor *d, enum doctor_level level, const char *subject, const char *todo,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* A text of the form `what is wrong; what to do`, as config and amqp/connection write it. A text without an
 * advice is a finding as it is, without a todo. */
void doctor_say_text(struct doctor *d, enum doctor_level level, const char *subject, const char *text);

/* Runs check as that user: in this process, or in a child where the current user is root. Where neither is
 * possible, reports a SKIP that names `what`. */
typedef void doctor_check_fn(struct doctor *d, const void *ctx);
void doctor_as(struct doctor *d, uid_t uid, gid_t gid, const char *user, const char *subject,
	const char *what, doctor_check_fn *check, const void *ctx);
/* Runs check in a child, for at most so many seconds: a daemon that hangs never answers. */
void doctor_apart(
	struct doctor *d, const char *subject, unsigned seconds, doctor_check_fn *check, const void *ctx);

/* The path of the daemon's configuration: from settings (NULL: they are broken), the option, or the
 * default. */
const char *doctor_config_path(const struct ctl_options *o, const struct ctl_settings *s);
/* systemd passes hcpd its credentials in a variable. A shell does not have it, so it is set to the usual
 * directory. */
void doctor_find_credentials(void);
/* Where a text of config.c names hcpd's option -c: the text with hcpctl's option instead, to be freed. NULL:
 * the text does not name it. */
char *doctor_reword_config(const char *text);
/* Flushes stdout. Where that fails: prints so, and returns CTL_ERROR instead of status. */
int doctor_end_output(int status);

void doctor_check_config(struct doctor *d); /* loads it */
void doctor_check_shared(struct doctor *d); /* does a caller have hcpd's own log-in? */
/* The todo that names `topology`. Where a caller has hcpd's own log-in, `topology` refuses, so the todo names
 * that first. */
const char *doctor_todo_topology(const struct doctor *d);
void doctor_find_daemon(struct doctor *d); /* finds the user that runs hcpd; reports whether it runs */
void doctor_check_answers(struct doctor *d, const void *settings); /* over its control socket */
void doctor_check_socket(struct doctor *d); /* can members of [control] group reach the socket? */
void doctor_check_state(struct doctor *d);
void doctor_check_store(struct doctor *d, const void *ctx); /* as the daemon's user */
void doctor_check_commands(struct doctor *d);
void doctor_check_tls(struct doctor *d);
/* True: the broker is reachable. Only then the two checks below make sense. */
bool doctor_check_broker(struct doctor *d);
void doctor_check_topology(struct doctor *d);
void doctor_check_rights(struct doctor *d); /* with AMQP alone */
void doctor_check_listed(struct doctor *d); /* what rabbitmqctl lists */
void doctor_check_host(struct doctor *d);   /* clock, kernel, limits */

#endif
