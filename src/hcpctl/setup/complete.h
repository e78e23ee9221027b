/* SPDX-License-Identifier: MIT */
/* complete.h: between the two files of `hcpctl complete`: candidates, one a line, with a tab and a remark. */
#ifndef HCPD_HCPCTL_SETUP_COMPLETE_H
#define HCPD_HCPCTL_SETUP_COMPLETE_H

#include <stdbool.h>

#include "hcpctl/common/settings.h"

struct complete {
	const struct ctl_settings *settings;
	const struct ctl_options *options;
	const char *before; /* put in front of every candidate: "--state=", "RUNNING," */
	const char *prefix; /* what a candidate must begin with, in either case */
};

void complete_offer(const struct complete *c, const char *word, const char *remark, const char *more);
/* Sessions from the daemon, else from the store, else from the token cache. */
void complete_sessions(const struct complete *c, bool only_live);
void complete_artifacts(const struct complete *c, const char *session);
/* From the daemon's configuration; kind is "capabilities" or "callers". */
void complete_configured(const struct complete *c, const char *kind);

/* complete_line.c: words of a command line without `hcpctl`. The last word is the one at the cursor, and may
 * be empty. The output line `:files` asks the shell for file names. */
/* Options among those words that matter for the look-up: --daemon-config, --socket and --config. */
void complete_take_options(char *const *words, int count, struct ctl_options *o);
void complete_line(struct complete *c, char *const *words, int count);

#endif
