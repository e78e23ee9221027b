/* retain_trouble.c: what is in retention's way, said once.
 * Owns when it is said again: where it is another trouble, and every few minutes while it stays. A pass looks
 * at everything, as often as every second, and meets the same each time: so it is the first trouble of a pass
 * that counts, as its end. */
#include "retain/retain_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/turn.h"

#define SECOND INT64_C(1000000)
#define AGAIN_US (300 * SECOND)
#define LINES_MAX 5 /* a minute: of a trouble that comes and goes */

void retain_note_trouble(struct retain *r, const char *fmt, ...)
{
	va_list ap;

	if (atomic_load(&r->is_stopping) || r->met_count++ > 0)
		return;
	va_start(ap, fmt);
	vsnprintf(r->met, sizeof r->met, fmt, ap);
	va_end(ap);
}

/* For those who ask. */
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
	is_same = strcmp(r->met, r->said) == 0;
	publish(r);
	if (r->met[0] == '\0' && r->said[0] != '\0')
		log_info("retention goes on: nothing is in its way any more");
	if (r->met[0] == '\0') {
		r->said[0] = '\0';
	} else if ((!is_same || now - r->said_us >= AGAIN_US) && log_may(&r->limit, LINES_MAX)) {
		log_error("%s", r->met);
		memcpy(r->said, r->met, sizeof r->said);
		r->said_us = now;
	}
	r->met[0] = '\0';
	r->met_count = 0;
}

bool retain_get_trouble(struct core *c, char out[RETAIN_TROUBLE_SIZE], int64_t *since_us)
{
	struct retain *r = c->retain;

	out[0] = '\0';
	if (r == NULL)
		return false;
	pthread_mutex_lock(&r->lock);
	memcpy(out, r->trouble, sizeof r->trouble);
	*since_us = r->trouble_since_us;
	pthread_mutex_unlock(&r->lock);
	return out[0] != '\0';
}
