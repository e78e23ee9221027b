/* ctl_submit.h: between the two files of `hcpctl submit`: its words, and what is done with them. */
#ifndef HCPD_CTL_SUBMIT_H
#define HCPD_CTL_SUBMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "hcpctl/common/settings.h"
#include "hcpctl/caller/task.h"

struct ctl_submit_words {
	struct ctl_task task;
	bool detach, json;
	int64_t timeout_us; /* for the answer */
	int64_t retry_us;   /* until the first repeat; then twice as long each time */
};

/* The exit status. */
int ctl_submit_run(const struct ctl_settings *s, const struct ctl_submit_words *w);

#endif
