/* ctl_kept.h: what a watch of all sessions had shown of those that have not ended, for the next watch.
 *
 * The broker keeps the messages that were not shown; this file keeps what the shown ones said, so that the
 * next table is not empty, and the last sequence of each session, so that what comes again is known. */
#ifndef HCPD_CTL_KEPT_H
#define HCPD_CTL_KEPT_H

#include "hcpctl/caller/watch_model.h"

#define CTL_KEPT_EVERY_US (INT64_C(2) * 1000000)

/* Adds a view for each. Without a file, or with a damaged one, there are none. */
void ctl_kept_load(struct ctl_follow *f);
/* Where there is news, at most so often unless it is the end. */
void ctl_kept_save(struct ctl_follow *f, bool is_end);

#endif
