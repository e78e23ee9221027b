/* ctl_approve.h: what `hcpctl approve` and `hcpctl keygen` share: the operator's own key. */
#ifndef HCPD_CTL_APPROVE_H
#define HCPD_CTL_APPROVE_H

#include "config/table_private.h"
#include "hcpctl/common/settings.h"

#define CTL_KEY_NAME "approver.pem"

/* The file of the own key: the one that was given, else the one in hcpctl's directory. The caller frees it;
 * NULL where there is no home, which was said. */
char *ctl_approve_key(const struct ctl_settings *s, const char *given);
/* The login name, where it can be an approver's. */
const char *ctl_approve_login(void);
/* The lines for the daemon's configuration, on stdout. */
void ctl_approve_say_lines(const char *line);

#endif
