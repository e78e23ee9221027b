/* ctl_doctor.h: between the files of `hcpctl doctor`: who is looked at, and how a finding is told.
 *
 * A check says what it found through doctor_say and returns nothing: the next one goes on whatever it was. It
 * changes nothing, neither on the disk nor at the broker. */
#ifndef HCPD_CTL_DOCTOR_H
#define HCPD_CTL_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "config/config.h"
#include "hcpctl/common/settings.h"
#include "amqp/connection.h"

enum doctor_level {
	DOCTOR_OK,
	DOCTOR_WARN,
	DOCTOR_FAIL,
	DOCTOR_SKIP,
	DOCTOR_LEVELS
}; /* SKIP: not looked at */

enum doctor_voice {
	DOCTOR_TEXT,    /* lines for people */
	DOCTOR_JSON,    /* an object a line */
	DOCTOR_WARNINGS /* only what is wrong, on stderr: for `topology` */
};

struct doctor {
	const char *path;        /* hcpd.ini */
	const char *rabbitmqctl; /* a command to ask the broker with; NULL: AMQP alone */
	const char *asked_user;  /* --user; NULL: found out */
	struct config *config;   /* NULL: it is broken, and what depends on it is not looked at */
	enum doctor_voice voice;
	bool is_child; /* of doctor_as: findings go to the parent, through fd */
	int fd;
	int count[DOCTOR_LEVELS];
	/* Who runs hcpd: the lock's holder, the directory's owner or we ourselves. */
	uid_t uid;
	gid_t gid;
	char user[64];
	pid_t pid; /* 0: it does not run, or that cannot be seen */
	bool lock_unseen;
};

/* todo NULL: nothing has to be done. Both become one line each. */
void doctor_say(struct doctor *d, enum doctor_level level, const char *subject, const char *todo,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* A text of the form `what is wrong; what to do`, as config and link have them. */
void doctor_say_text(struct doctor *d, enum doctor_level level, const char *subject, const char *text);

/* Runs check as that user: here, in a child where we are root; a SKIP that says so of what, where neither can
 * be. */
typedef void doctor_check_fn(struct doctor *d, const void *ctx);
void doctor_as(struct doctor *d, uid_t uid, gid_t gid, const char *user, const char *subject,
	const char *what, doctor_check_fn *check, const void *ctx);
/* Runs check in a child, at most so long: for questions to the daemon, which hangs where it does not answer.
 */
void doctor_apart(
	struct doctor *d, const char *subject, unsigned seconds, doctor_check_fn *check, const void *ctx);

/* Where the daemon's configuration is: settings (NULL: they are broken), the option, or the usual place. */
const char *doctor_config_path(const struct ctl_options *o, const struct ctl_settings *s);
/* systemd gives hcpd its credentials by a variable; a shell has none, so it is set to where they are. */
void doctor_find_credentials(void);
/* What config.c says of a file that cannot be read names hcpd's option; for us it is another. NULL: it says
 * no such thing, else to be freed. */
char *doctor_reword_config(const char *text);
/* All of stdout is written, or that it cannot be is said and status becomes CTL_ERROR. */
int doctor_end_output(int status);

void doctor_check_config(struct doctor *d); /* loads it */
void doctor_check_shared(struct doctor *d); /* does a caller have hcpd's own log-in? */
/* Sends people to `topology`; which refuses where a caller has hcpd's own log-in, so that they hear that
 * first. */
const char *doctor_todo_topology(const struct doctor *d);
void doctor_find_daemon(struct doctor *d); /* fills in who runs it; says whether it runs */
void doctor_check_answers(struct doctor *d, const void *settings); /* by its control socket */
void doctor_check_socket(struct doctor *d);                        /* can [control] group get there? */
void doctor_check_state(struct doctor *d);
void doctor_check_store(struct doctor *d, const void *ctx); /* as the daemon's user */
void doctor_check_commands(struct doctor *d);
void doctor_check_tls(struct doctor *d);
/* Reachable? Only then the two below make sense. */
bool doctor_check_broker(struct doctor *d);
void doctor_check_topology(struct doctor *d);
void doctor_check_rights(struct doctor *d); /* with AMQP alone */
void doctor_check_listed(struct doctor *d); /* what rabbitmqctl lists */
void doctor_check_host(struct doctor *d);   /* clock, kernel, limits */

#endif
