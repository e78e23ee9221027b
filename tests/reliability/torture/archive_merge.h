/* SPDX-License-Identifier: MIT */
/* archive_merge.h: a store and its archive as one again, for checks that want to see every session. */
#ifndef HCPD_TESTS_RELIABILITY_TORTURE_ARCHIVE_MERGE_H
#define HCPD_TESTS_RELIABILITY_TORTURE_ARCHIVE_MERGE_H

/* The daemon has ended. Copies the store to a new file and puts what left it back, from the archive below
 * state: each session must be in one of the two, once and whole, and nothing of those who left may be left
 * behind. How many had left; what is wrong is reported. */
long whole_make(const char *store, const char *state, const char *out);

#endif
