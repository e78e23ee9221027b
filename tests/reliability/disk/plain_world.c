/* SPDX-License-Identifier: MIT */
/* plain_world.c: the fake world for a program that is no test of Check. The fakes assert with Check's macros,
 * which work in its own tests only; here a failed assertion ends the process. This object comes before the
 * fakes' archive in the link line and so replaces its fake_world.o. */
#include <check.h>
#include <stdlib.h>

#undef ck_assert
#undef ck_assert_msg
#define ck_assert(cond) ((cond) ? (void)0 : abort())
#define ck_assert_msg(cond, ...) ((cond) ? (void)0 : (void)(fprintf(stderr, __VA_ARGS__), abort()))

#include "support/fakes/fake_world.c"
