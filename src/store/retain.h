/* SPDX-License-Identifier: MIT */
/* retain.h: which tables of a store belong to its sessions, for every connection to it. */
#ifndef HCPD_STORE_RETAIN_H
#define HCPD_STORE_RETAIN_H

#include <sqlite3.h>

#include "store/store.h"

/* -1: the store cannot be read, or there are more than STORE_OWNED_MAX. */
int store_list_owned(sqlite3 *db, struct store_owned *out) __attribute__((warn_unused_result));

#endif
