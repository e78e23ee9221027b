/* SPDX-License-Identifier: MIT */
/* passphrase.h: the passphrase of the operator's key, from the terminal or from a file. */
#ifndef HCPD_HCPCTL_COMMON_PASSPHRASE_H
#define HCPD_HCPCTL_COMMON_PASSPHRASE_H

#include <stdbool.h>

#include "harp/harp.h"

#define CTL_PASSPHRASE_MIN 8 /* bytes of a new one */

/* For harp_key_unseal. ctx is a const char *: the file whose first line is the passphrase, NULL: asks on the
 * terminal, without showing what is typed. False after a message. */
bool ctl_passphrase_give(const void *ctx, char passphrase[HARP_PASSPHRASE_SIZE]);
/* A passphrase for a new key: the file's first line, or typed twice. False after a message. */
bool ctl_passphrase_choose(const char *file, char passphrase[HARP_PASSPHRASE_SIZE]);

#endif
