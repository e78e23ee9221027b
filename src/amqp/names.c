/* SPDX-License-Identifier: MIT */
/* names.c: the names of queues and routing keys that have an id in them.
 * Owns how such a name is put together. Never checks the ids: callers did. */
#include "amqp/names.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

void names_command_queue(char *out, size_t size, const char *callee)
{
	snprintf(out, size, COMMAND_QUEUE_PREFIX "%s", callee);
}

void names_event_queue(char *out, size_t size, const char *caller, const char *instance)
{
	if (instance)
		snprintf(out, size, EVENT_QUEUE_PREFIX "%s.%s", caller, instance);
	else
		snprintf(out, size, EVENT_QUEUE_PREFIX "%s", caller);
}

void names_event_key(char *out, size_t size, const char *caller, const char *session, const char *type)
{
	size_t used = text_copy(out, size, caller);

	if (memchr(out, '/', used) != NULL)
		used = strcspn(out, "/");
	used = text_append(out, size, used, ".");
	used = text_append(out, size, used, session ? session : "-");
	used = text_append(out, size, used, ".");
	text_append(out, size, used, type);
}

void names_event_binding(char *out, size_t size, const char *caller, const char *session)
{
	if (session)
		snprintf(out, size, "%s.%s.#", caller, session);
	else
		snprintf(out, size, "%s.#", caller);
}
