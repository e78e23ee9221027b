/* SPDX-License-Identifier: MIT */
/* group.c: how long the messages of a stream wait for each other, so that one commit and one ack settle many.
 * Owns when a group is complete, and when it goes without being so. Never touches a message (inbox.c). */
#include "libhcp/libhcp_private.h"

#define GATHER_US 2000

/* Half of the prefetch: while one half is stored, the broker delivers the other half, and neither waits for
 * the other. */
static size_t group_size(const struct hcp *h)
{
	int half = (h->settings->prefetch + 1) / 2;

	return (size_t)(half < h->batch_max ? half : h->batch_max);
}

/* Many messages are followed by more, as a rule. Each commit and each ack costs as much as many messages, so
 * the next ones wait until their group is complete. A message that comes alone does not wait. */
void lib_group_end(struct hcp *h, size_t settled, int64_t now_us)
{
	int64_t wait_us = h->batch_us < GATHER_US ? h->batch_us : GATHER_US;

	if (settled > 0)
		h->gather_until_us = 2 * settled >= group_size(h) ? now_us + wait_us : 0;
}

bool lib_group_is_gathering(const struct hcp *h, int64_t now_us)
{
	return now_us < h->gather_until_us && h->connection && h->inbox_count - h->parked < group_size(h);
}
