/* ctl_queue.h: queues that go away by themselves, or when they have served.
 *
 * Each call is a short connection of its own: link.h neither expires queues nor deletes them. */
#ifndef HCPD_CTL_QUEUE_H
#define HCPD_CTL_QUEUE_H

#include <stdint.h>

#include "config.h"
#include "link.h"

/* Durable; deleted by the broker when nobody has consumed it for so long. */
int ctl_queue_declare(const struct config_amqp *a, const char *name, int64_t expires_ms, struct link_error *e)
	__attribute__((warn_unused_result));
/* With what is in it. Where it cannot be, it expires. */
void ctl_queue_delete(const struct config_amqp *a, const char *name);

#endif
