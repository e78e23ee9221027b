/* SPDX-License-Identifier: MIT */
/* crashpoint.h: named places where a test build can end itself.
 *
 *	CRASH_POINT(store_before_commit);
 *
 * is nothing at all in an ordinary build. Built with -DHCP_CRASH_POINTS (make sweep does), each such line
 * enters itself into a table, and the environment says what happens:
 *	HCP_CRASH=NAME:N         SIGKILL to itself at the N-th passing of NAME, whichever thread comes by
 *	HCP_CRASH=list           prints the names of all points, and ends
 *	HCP_CRASH_COUNTS=FILE    keeps a struct crash_record for each point in FILE, true at every moment
 * A name that does not exist, or a file that cannot be had, ends the process at once with EX_USAGE: no
 * test is vacuous for a typing error. A name is used once. Not between clone and exec (launch.c): that is
 * another process. */
#ifndef HCPD_BASE_CRASHPOINT_H
#define HCPD_BASE_CRASHPOINT_H

#ifdef HCP_CRASH_POINTS

#include <stdint.h>

#define CRASH_NAME_SIZE 48

struct crash_record {
	char name[CRASH_NAME_SIZE];
	_Atomic uint64_t passed;
	_Atomic uint64_t died; /* at which passing; 0: it did not */
};

struct crash_point {
	const char *name;
	struct crash_record *record;
};

void crash_pass(const struct crash_point *p);

#define CRASH_POINT(point) \
	do { \
		static struct crash_point crash_here_ = {#point, 0}; \
		static struct crash_point *const crash_entry_ \
			__attribute__((used, section("crash_points"))) = &crash_here_; \
		crash_pass(&crash_here_); \
	} while (0)

#else

#define CRASH_POINT(point) ((void)0)

#endif
#endif
