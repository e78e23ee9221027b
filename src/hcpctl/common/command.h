/* SPDX-License-Identifier: MIT */
/* command.h: hcpctl's commands, and what their command lines share. */
#ifndef HCPD_HCPCTL_COMMON_COMMAND_H
#define HCPD_HCPCTL_COMMON_COMMAND_H

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>

#include "hcpctl/common/ctl.h"
#include "hcpctl/common/settings.h"
#include "amqp/connection.h"

struct ctl_command {
	const char *name;
	const char *summary; /* a line of `hcpctl --help` */
	const char *help;    /* its own --help */
	/* the exit status; argv[0] is the name */
	int (*run)(int argc, char **argv, struct ctl_options *o);
};

extern const struct ctl_command ctl_submit, ctl_watch, ctl_abort;
extern const struct ctl_command ctl_list, ctl_show, ctl_events, ctl_log, ctl_checkpoints, ctl_stats,
	ctl_audit;
extern const struct ctl_command ctl_pause, ctl_resume, ctl_checkpoint, ctl_recover, ctl_extend, ctl_replay,
	ctl_drain, ctl_undrain, ctl_token;
extern const struct ctl_command ctl_approvals, ctl_approve, ctl_deny, ctl_keygen;
extern const struct ctl_command ctl_archive, ctl_artifact, ctl_doctor, ctl_topology, ctl_complete;

/* Global options may stand before the command and behind it. A command's own long options have values from
 * 256 up to CTL_OPT_GLOBAL. */
#define CTL_OPT_GLOBAL 1000
/* Options of commands that only use the daemon of this machine; --caller may mean something else there. */
#define CTL_OPERATOR_OPTIONS \
	{"config", required_argument, NULL, CTL_OPT_GLOBAL + 3}, \
		{"socket", required_argument, NULL, CTL_OPT_GLOBAL + 4}, \
		{"daemon-config", required_argument, NULL, CTL_OPT_GLOBAL + 5}, \
		{"help", no_argument, NULL, 'h'}, \
	{ \
		NULL, 0, NULL, 0 \
	}
#define CTL_OPERATOR_HELP \
	"      --socket PATH   the daemon's control socket (HCP_SOCKET)\n" \
	"      --daemon-config FILE  where it stands else, and the store (HCP_DAEMON_CONFIG, " \
	"/etc/hcpd/hcpd.ini)\n"
#define CTL_GLOBAL_OPTIONS \
	{"url", required_argument, NULL, CTL_OPT_GLOBAL}, \
		{"caller", required_argument, NULL, CTL_OPT_GLOBAL + 1}, \
		{"callee", required_argument, NULL, CTL_OPT_GLOBAL + 2}, CTL_OPERATOR_OPTIONS
#define CTL_GLOBAL_HELP \
	"      --url URL       the broker: amqp://user:password@host:port/vhost (HCP_URL)\n" \
	"      --caller ID     who we are (HCP_CALLER)\n" \
	"      --callee ID     whom we talk to (HCP_CALLEE)\n" \
	"      --config FILE   settings instead of ~/.config/hcp/hcpctl.ini\n"

/* Handles an option from getopt_long that is global, asks for help, or is an error. -1: it was a global
 * option, go on; otherwise an exit status. */
int ctl_command_option(int c, char **argv, const struct ctl_command *command, struct ctl_options *o);
/* Prints one line on stderr, and where to find help; CTL_USAGE. */
int ctl_command_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Puts --label NAME=VALUE into the object. 0, or an exit status after a message. */
int ctl_command_label(const char *command, json_t *labels, const char *text);
/* Loads the settings and prints what is wrong. 0, or CTL_BAD_SETTINGS. */
int ctl_command_settings(struct ctl_settings *s, const struct ctl_options *o);
/* Prints that a setting is missing and where to put it; CTL_BAD_SETTINGS. */
int ctl_command_missing(const struct ctl_settings *s, const char *what);
/* Prints why there is no connection; the exit status for it. */
int ctl_command_unreachable(const struct ctl_settings *s, const struct connection_error *e);

#endif
