/* SPDX-License-Identifier: MIT */
/* settings.h: where the broker is, the names of caller and callee, and where the daemon of this machine is.
 *
 * Options win over HCP_URL, HCP_CALLER, HCP_CALLEE, HCP_SOCKET and HCP_DAEMON_CONFIG, and those over [hcpctl]
 * in the file. */
#ifndef HCPD_HCPCTL_COMMON_SETTINGS_H
#define HCPD_HCPCTL_COMMON_SETTINGS_H

#include <stdbool.h>

#include "config/config.h"

struct ctl_options { /* of the command line; NULL: not given */
	const char *url, *caller, *callee, *config, *socket, *daemon_config;
};

struct ctl_settings {
	struct config *config;        /* only its amqp part is filled */
	char *caller, *callee;        /* NULL: named nowhere */
	char *socket, *daemon_config; /* paths; NULL: named nowhere (client.h has the defaults) */
	/* $XDG_CONFIG_HOME/hcp or ~/.config/hcp; NULL where there is no home */
	char *home;
	char *path; /* path of the file, whether the file exists or not */
};

/* -1: something is wrong, and all of it was printed. A missing file is fine unless an option named it. */
int ctl_settings_load(struct ctl_settings *s, const struct ctl_options *o, config_say_fn *say, void *ctx)
	__attribute__((warn_unused_result));
void ctl_settings_fini(struct ctl_settings *s);
/* NULL: the name of the login is unknown; with a client certificate only the broker knows it. */
const char *ctl_settings_user(const struct ctl_settings *s);

#endif
