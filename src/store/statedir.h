/* statedir.h: the state directory as a place: made, closed to others, locked. */
#ifndef HCPD_STATEDIR_H
#define HCPD_STATEDIR_H

#include <stdbool.h>

/* Makes it unless it is there, and closes it to others: 0700, or 0711, with work/, where workers of other
 * users have to find their own directory in it. One that is ours and stands open is tightened with a warning;
 * one that is open and holds only what is not ours is refused. EX_OK, or a sysexits code; what is to be said
 * is logged. */
int statedir_prepare(const char *dir, bool has_users);
/* One hcpd a state directory. A descriptor, or minus a sysexits code. The lock goes with the process, however
 * it ends. */
int statedir_lock(const char *dir);

#endif
