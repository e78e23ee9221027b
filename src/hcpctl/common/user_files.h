/* SPDX-License-Identifier: MIT */
/* user_files.h: files in hcpctl's own directory: mode 0600 in a directory of mode 0700, replaced as a
 * whole. */
#ifndef HCPD_HCPCTL_COMMON_USER_FILES_H
#define HCPD_HCPCTL_COMMON_USER_FILES_H

#include <stddef.h>

#include "base/buf.h"
#include "base/id.h"

#define CTL_WHY_SIZE 512

/* Each -1 comes with a sentence in why[CTL_WHY_SIZE]. */

/* Makes the directory and its parents; closes it to others where it was open. */
int ctl_user_files_make(const char *dir, char *why) __attribute__((warn_unused_result));
/* Writes a new file beside the old one, syncs and renames it: readers see the old file or the new one. */
int ctl_user_files_write(const char *dir, const char *name, const void *data, size_t size, char *why)
	__attribute__((warn_unused_result));
/* 1: read; 0: there is no such file. */
int ctl_user_files_read(const char *dir, const char *name, struct buf *out, char *why)
	__attribute__((warn_unused_result));
/* Waits for the lock; close(2) releases it. */
int ctl_user_files_lock(const char *dir, const char *name, char *why) __attribute__((warn_unused_result));
/* Claims a text among the processes that share the directory: 1: claimed, until *fd is closed; 0: another
 * process has it. *fd is -1 before the first claim, and serves many. */
int ctl_user_files_claim(const char *dir, const char *name, const char *text, int *fd, char *why)
	__attribute__((warn_unused_result));
/* The UUID that names the queue of `watch`; made the first time. */
int ctl_user_files_instance(const char *dir, char out[ID_SIZE], char *why)
	__attribute__((warn_unused_result));

#endif
