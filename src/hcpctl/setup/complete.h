/* ctl_complete.h: between the two files of `hcpctl complete`: candidates, one a line, a tab and a remark
 * behind each. */
#ifndef HCPD_CTL_COMPLETE_H
#define HCPD_CTL_COMPLETE_H

#include <stdbool.h>

#include "hcpctl/common/settings.h"

struct complete {
	const struct ctl_settings *settings;
	const struct ctl_options *options;
	const char *before; /* put in front of every candidate: "--state=", "RUNNING," */
	const char *prefix; /* what a candidate has to begin with, either case */
};

void complete_offer(const struct complete *c, const char *word, const char *remark, const char *more);
/* From the daemon, else the store, else hcpctl's own list. */
void complete_sessions(const struct complete *c, bool only_live);
void complete_artifacts(const struct complete *c, const char *session);
/* From the daemon's configuration; kind is "capabilities" or "callers". */
void complete_configured(const struct complete *c, const char *kind);

/* ctl_complete_line.c: the words of a command line without hcpctl itself; the last is being written, and may
 * be empty. A line `:files` asks the shell for names of files. */
/* Of those words, --daemon-config, --socket and --config count for the look-up, too. */
void complete_take_options(char *const *words, int count, struct ctl_options *o);
void complete_line(struct complete *c, char *const *words, int count);

#endif
