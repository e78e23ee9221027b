/* SPDX-License-Identifier: MIT */
/* name.h: names that people write: what may be one, and which one a typing error was meant to be. */
#ifndef HCPD_BASE_NAME_H
#define HCPD_BASE_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* 1 to 128 letters, digits, and characters of extra. */
bool name_is_valid(const char *text, const char *extra);
/* The nearest of names that a typing error may have turned into `name`. NULL where none is near. */
const char *name_find_nearest(const char *name, const char *const *names, size_t count);

#endif
