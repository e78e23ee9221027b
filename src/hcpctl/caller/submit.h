/* SPDX-License-Identifier: MIT */
/* submit.h: between the two files of `hcpctl submit`: the options (submit_options.c), and the work
 * (submit.c). */
#ifndef HCPD_HCPCTL_CALLER_SUBMIT_H
#define HCPD_HCPCTL_CALLER_SUBMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "hcpctl/common/settings.h"
#include "hcpctl/common/task.h"

struct ctl_submit_options {
	struct ctl_task task;
	bool detach, json;
	int64_t timeout_us; /* how long to wait for the answer */
	int64_t retry_us;   /* until the task is sent again; doubles each time */
};

/* The exit status. */
int ctl_submit_run(const struct ctl_settings *s, const struct ctl_submit_options *w);

#endif
