/* SPDX-License-Identifier: MIT */
/* status.c: the trouble of retention: what stops it, logged once.
 * Owns when a trouble is logged again: when it is another one, and every few minutes while it lasts. A pass
 * runs as often as every second and meets the same trouble each time, so only the first trouble of a pass
 * counts, at the pass's end. Never stops a pass. */
#include "retain/retain_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/turn.h"

#define SECOND INT64_C(1000000)
#define AGAIN_US (300 * SECOND)
#define LINES_MAX 5 /* a minute: of a trouble that comes and goes */

void retain_add_trouble(struct retain *r, const char *fmt, ...)
{
	va_list ap;

	if (atomic_load(&r->is_stopping) || r->met_count++ > 0)
		return;
	va_start(ap, fmt);
	vsnprintf(r->met, sizeof r->met, fmt, ap);
	va_end(ap);
}

/* For retain_get_trouble, which other threads call. */
static void publish(struct retain *r)
{
	pthread_mutex_lock(&r->lock);
	if (r->met[0] != '\0' && r->trouble[0] == '\0')
		r->trouble_since_us = clock_boot_us();
	memcpy(r->trouble, r->met, sizeof r->trouble);
	pthread_mutex_unlock(&r->lock);
}

void retain_end_trouble(struct retain *r)
{
	int64_t now = clock_boot_us();
	size_t size = strlen(r->met);
	bool is_same;

	if (r->met_count > 1)
		snprintf(r->met + size, sizeof r->met - size, " (and %d more)", r->met_count - 1);
	is_same = strcmp(r->met, r->logged) == 0;
	publish(r);
	if (r->met[0] == '\0' && r->logged[0] != '\0')
		log_info("retention goes on: nothing is in its way any more");
	if (r->met[0] == '\0') {
		r->logged[0] = '\0';
	} else if ((!is_same || now - r->logged_us >= AGAIN_US) && log_may(&r->limit, LINES_MAX)) {
		log_error("%s", r->met);
		memcpy(r->logged, r->met, sizeof r->logged);
		r->logged_us = now;
	}
	r->met[0] = '\0';
	r->met_count = 0;
}

bool retain_get_trouble(struct retain *r, char out[RETENTION_TROUBLE_SIZE], int64_t *since_us)
{
	pthread_mutex_lock(&r->lock);
	memcpy(out, r->trouble, sizeof r->trouble);
	*since_us = r->trouble_since_us;
	pthread_mutex_unlock(&r->lock);
	return out[0] != '\0';
}
