/* SPDX-License-Identifier: MIT */
/* statedir.h: the state directory: made, closed to other users, locked. */
#ifndef HCPD_STORE_STATEDIR_H
#define HCPD_STORE_STATEDIR_H

#include <stdbool.h>

/* Makes the directory unless it is there, and closes it to other users: mode 0700; or 0711, with work/,
 * where workers run as other users and must reach their own directory. An open directory of ours is
 * tightened with a warning; an open one that holds only files of others is refused. EX_OK, or a sysexits
 * code; the reason is logged. */
int statedir_prepare(const char *dir, bool has_users);
/* One hcpd for each state directory. A descriptor, or minus a sysexits code. The lock ends with the process,
 * however the process ends. */
int statedir_lock(const char *dir);

#endif
