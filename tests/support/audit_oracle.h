/* SPDX-License-Identifier: MIT */
/* audit_oracle.h: the audit's chain, computed anew by somebody who shares no code with hcpd. */
#ifndef HCPD_TESTS_SUPPORT_AUDIT_ORACLE_H
#define HCPD_TESTS_SUPPORT_AUDIT_ORACLE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

/* SHA-256 over before and then text, in hex. */
void chain_link(const char *before, const char *text, char hex[65]);
/* Every row follows from the one before it, none is missing, and the end is the one that was kept apart.
 * Otherwise why says what is wrong with the first that does not. A store from before there was an audit has
 * none to be wrong. */
bool chain_holds(sqlite3 *db, char *why, size_t why_size);

#endif
