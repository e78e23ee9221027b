/* SPDX-License-Identifier: MIT */
/* restore.h: archived sessions back among the rows of a store, so that a check sees all that
 * ever was. */
#ifndef HCPD_TESTS_SUPPORT_RESTORE_H
#define HCPD_TESTS_SUPPORT_RESTORE_H

#include <sqlite3.h>

#include "rig.h"

/* Does it know of an archive? */
bool restore_is_due(sqlite3 *db);
/* Puts every archived row into db, a copy of the rig's store. Fails as tests do where a file is not whole, or
 * a session is in both places. By libzstd alone, not by hcpd's code. */
void restore_all(sqlite3 *db, struct rig *r);
/* While hcpd is dead: an archive of that day, of one session that never was, with an artifact. False: there
 * is no store yet that could know of it. */
bool restore_make_day(struct rig *r, const char *day);
/* A copy in memory with all of it; db is closed. */
sqlite3 *restore_copy(sqlite3 *db, struct rig *r);

#endif
