/* ctl_home.h: files in hcpctl's own directory: mode 0600 in a directory of mode 0700, replaced as a whole. */
#ifndef HCPD_CTL_HOME_H
#define HCPD_CTL_HOME_H

#include <stddef.h>

#include "base/buf.h"
#include "base/id.h"

#define CTL_WHY_SIZE 512

/* Each -1 comes with a sentence in why[CTL_WHY_SIZE]. */

/* Makes it and what is above it; one that others may look into is closed to them. */
int ctl_home_make(const char *dir, char *why) __attribute__((warn_unused_result));
/* Written aside, synced, renamed: readers see the old file or the new one. */
int ctl_home_write(const char *dir, const char *name, const void *data, size_t size, char *why)
	__attribute__((warn_unused_result));
/* 1: read; 0: there is none. */
int ctl_home_read(const char *dir, const char *name, struct buf *out, char *why)
	__attribute__((warn_unused_result));
/* Waits for it; close(2) gives it back. */
int ctl_home_lock(const char *dir, const char *name, char *why) __attribute__((warn_unused_result));
/* The UUID under which `watch` keeps its queue; made the first time. */
int ctl_home_instance(const char *dir, char out[ID_SIZE], char *why) __attribute__((warn_unused_result));

#endif
