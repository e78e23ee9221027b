/* SPDX-License-Identifier: MIT */
/* approvals.h: what `hcpctl approve` and `hcpctl keygen` share: the operator's own key. */
#ifndef HCPD_HCPCTL_OPERATOR_APPROVALS_H
#define HCPD_HCPCTL_OPERATOR_APPROVALS_H

#include "hcpctl/common/settings.h"

#define CTL_KEY_NAME "approver.pem"

/* The file of the operator's key: the given one, else the one in hcpctl's directory. The caller frees it.
 * NULL, after a message: there is no home directory. */
char *ctl_approve_key(const struct ctl_settings *s, const char *given);
/* The login name, where it is valid as the name of an approver. */
const char *ctl_approve_login(void);
/* Prints the lines for the daemon's configuration on stdout. */
void ctl_approve_say_lines(const char *line);

#endif
