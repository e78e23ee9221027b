/* SPDX-License-Identifier: MIT */
/* process.c: what /proc says about a process. */
#include <stdio.h>
#include <string.h>

#include "process.h"

bool process_is_alive(int pid)
{
	char path[64], text[512], *at;
	size_t n;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f)
		return false;
	n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = '\0';
	at = strrchr(text, ')');
	return at && at[2] != 'Z' && at[2] != 'X';
}
