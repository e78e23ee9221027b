/* SPDX-License-Identifier: MIT */
/* topology.h: the broker's users, and the names that each user may configure, write and read. */
#ifndef HCPD_HCPCTL_SETUP_TOPOLOGY_H
#define HCPD_HCPCTL_SETUP_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

#include "amqp/names.h"
#include "base/buf.h"
#include "config/config.h"

#define TOPOLOGY_DEAD EXCHANGE_DEAD
#define TOPOLOGY_HARP EXCHANGE_HARP

/* A user of the broker, and the callers that use it. Several callers may share one. */
struct topology_user {
	char *name;
	bool is_daemon;
	char **callers;
	size_t caller_count;
};

struct topology {
	const struct config *config;
	struct topology_user *users; /* the daemon's user is the first */
	size_t user_count;
	/* the configuration logs in as guest or with a certificate: another name is proposed */
	bool is_renamed;
};

/* callers: a list (NULL-terminated; NULL: all that have a section of their own). user: the daemon's name at
 * the broker; NULL: as configured. */
void topology_plan(struct topology *t, const struct config *c, char *const *callers, const char *user);
void topology_fini(struct topology *t);

enum topology_right { TOPOLOGY_CONFIGURE, TOPOLOGY_WRITE, TOPOLOGY_READ };
/* The regular expression for the broker. */
void topology_add_pattern(
	struct buf *out, const struct topology *t, const struct topology_user *u, enum topology_right right);
/* The same for the routing keys of hcp.events or harp.sessions; right: write or read. */
void topology_add_keys(
	struct buf *out, const struct topology_user *u, bool is_harp, enum topology_right right);

#endif
