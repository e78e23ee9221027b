/* ctl_topology.h: who needs what at the broker: users, and the names that each may configure, write and read.
 */
#ifndef HCPD_CTL_TOPOLOGY_H
#define HCPD_CTL_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "config/config.h"

#define TOPOLOGY_DEAD "hcp.dead" /* exchange and queue of dead letters */
#define TOPOLOGY_HARP \
	"harp.sessions" /* exchange of HARP-SESSION events, where a capability has harp = yes \
			 */

/* A user of the broker, and for whom it speaks. Several callers may share one. */
struct topology_user {
	char *name;
	bool is_daemon;
	char **callers;
	size_t caller_count;
};

struct topology {
	const struct config *config;
	struct topology_user *users; /* the daemon's first */
	size_t user_count;
	bool is_renamed; /* the configuration logs in as guest, or by certificate: another name is proposed */
};

/* The callers are those of the list (NULL-terminated; NULL: all that have a section of their own). user: the
 * daemon's name at the broker, NULL: as the configuration has it. */
void topology_plan(struct topology *t, const struct config *c, char *const *callers, const char *user);
void topology_fini(struct topology *t);

enum topology_right { TOPOLOGY_CONFIGURE, TOPOLOGY_WRITE, TOPOLOGY_READ };
/* The regular expression that the broker is given. */
void topology_add_pattern(
	struct buf *out, const struct topology *t, const struct topology_user *u, enum topology_right right);
/* The same for the routing keys of hcp.events, or of harp.sessions; right is write or read. */
void topology_add_keys(
	struct buf *out, const struct topology_user *u, bool is_harp, enum topology_right right);

#endif
