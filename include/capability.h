/* capability.h: a declaration file ({"capability": {...}}) as a struct. */
#ifndef HCPD_CAPABILITY_H
#define HCPD_CAPABILITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

struct capability {
	char *name, *version, *description;
	enum risk risk_ceiling;
	bool requires_human_approval, involves_physical_resources;
	int64_t max_duration_us;        /* 0: none of its own */
	int concurrent_limit;           /* 0: none of its own */
	const struct config_capability *config;
};

/* Reads the declaration of cc. NULL with a message (file, position, reason) through say(). The name in
 * the file must be the section's. Unknown members are allowed: declarations travel between programs. */
struct capability *capability_load(const struct config_capability *cc, config_say_fn *say, void *ctx);
void capability_free(struct capability *c);
/* A warning where the command cannot be executed now; never an error: it may be installed later. */
void capability_check_command(const struct config_capability *cc, config_say_fn *say, void *ctx);

#endif
