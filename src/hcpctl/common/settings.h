/* ctl_settings.h: where the broker is, who we are and whom we talk to; where the daemon of this machine is.
 *
 * Options win over HCP_URL, HCP_CALLER, HCP_CALLEE, HCP_SOCKET and HCP_DAEMON_CONFIG, and those over [hcpctl]
 * in the file. */
#ifndef HCPD_CTL_SETTINGS_H
#define HCPD_CTL_SETTINGS_H

#include <stdbool.h>

#include "config/config.h"

struct ctl_options { /* of the command line; NULL: not given */
	const char *url, *caller, *callee, *config, *socket, *daemon_config;
};

struct ctl_settings {
	struct config *config;        /* only its amqp part is filled */
	char *caller, *callee;        /* NULL: named nowhere */
	char *socket, *daemon_config; /* paths; NULL: named nowhere (ctl_client.h has the defaults) */
	char *home;                   /* $XDG_CONFIG_HOME/hcp or ~/.config/hcp; NULL where there is no home */
	char *path;                   /* of the file, whether it is there or not */
};

/* -1 where something is wrong: all of it was said. A file that is not there is fine unless an option named
 * it. */
int ctl_settings_load(struct ctl_settings *s, const struct ctl_options *o, config_say_fn *say, void *ctx)
	__attribute__((warn_unused_result));
void ctl_settings_fini(struct ctl_settings *s);
/* NULL where the login's name is not known: a client certificate's is the broker's to say. */
const char *ctl_settings_user(const struct ctl_settings *s);

#endif
