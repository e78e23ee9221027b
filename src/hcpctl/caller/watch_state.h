/* SPDX-License-Identifier: MIT */
/* watch_state.h: what a watch of all sessions has printed of sessions that have not ended, for the next
 * watch.
 *
 * The broker keeps the messages that were not printed. This file keeps the views, so that the next table is
 * not empty, and the last sequence of each session, so that a repeated message is recognised. */
#ifndef HCPD_HCPCTL_CALLER_WATCH_STATE_H
#define HCPD_HCPCTL_CALLER_WATCH_STATE_H

#include "hcpctl/caller/watch_model.h"

#define CTL_KEPT_EVERY_US (INT64_C(2) * 1000000)

/* Adds a view for each session in the file. A missing or damaged file gives none. */
void ctl_watch_state_load(struct ctl_watch_model *f);
/* Writes the file where something changed; not too often, except at the end. */
void ctl_watch_state_save(struct ctl_watch_model *f, bool is_end);

#endif
