/* SPDX-License-Identifier: MIT */
/* names.c: the lists of names. Owns the texts of every enum in names.h. Never knows what a state or a risk
 * means. */
#include "protocol/names.h"

#include <stddef.h>
#include <string.h>

#define LISTED(reason) reason,
const char *const reason_names[] = {REASONS(LISTED) NULL};

const char *const sstate_names[] = {
	[S_PENDING] = "PENDING",
	[S_REJECTED] = "REJECTED",
	[S_RUNNING] = "RUNNING",
	[S_PAUSED] = "PAUSED",
	[S_ABORTING] = "ABORTING",
	[S_ABORTED] = "ABORTED",
	[S_COMPLETED] = "COMPLETED",
	[S_FAILED] = "FAILED",
	[S_COUNT] = NULL,
};

const char *const risk_names[] = {"", RISKS, NULL};
const char *const data_class_names[] = {"T1", "T2", "T3", "T4", NULL};
const char *const priority_names[] = {"low", "normal", "high", "urgent", NULL};

const char *const recovery_names[] = {
	[RECOVERY_RESUME] = "resume",
	[RECOVERY_RESTART] = "restart",
	[RECOVERY_FAIL] = "fail",
	[RECOVERY_SUMMARIZE] = "summarize",
	[RECOVERY_DISCARD] = "discard",
	[RECOVERY_COUNT] = NULL,
};

int name_find(const char *const names[], const char *name)
{
	for (int i = 0; names[i] != NULL; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}
