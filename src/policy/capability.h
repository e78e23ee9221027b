/* SPDX-License-Identifier: MIT */
/* capability.h: a declaration file ({"capability": {...}}) as a struct. */
#ifndef HCPD_POLICY_CAPABILITY_H
#define HCPD_POLICY_CAPABILITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

struct envelope;
struct jschema;
struct risk_model;

struct capability {
	char *name, *version, *description;
	enum risk risk_ceiling;
	bool requires_human_approval, involves_physical_resources;
	char **resource_types; /* NULL-terminated list */
	struct jschema *input_schema, *output_schema;
	struct jschema *state_schema; /* of its workers' checkpoints; NULL: none */
	struct risk_model *risk;      /* floor, rules and context factors */
	struct envelope *envelope;    /* never NULL */
	int64_t max_duration_us;      /* 0: none of its own */
	int concurrent_limit;         /* 0: none of its own */
	const struct config_capability *config;
	char sha256[65]; /* SHA-256 of the file's text, in hex */
};

/* Reads the declaration of cc and compiles its schemas. NULL, with everything that is wrong (file, JSON
 * pointer or position, reason) through say(). The name in the file must be the section's. Unknown members are
 * errors, since a protection with a typing error would protect nothing; members of other programs begin with
 * x-, outside of safety and constraints. */
struct capability *capability_load(const struct config_capability *cc, config_say_fn *say, void *ctx);
void capability_free(struct capability *c);
bool capability_uses(const struct capability *c, const char *resource);
/* Can the command be executed now? False with why. */
bool capability_has_command(const struct config_capability *cc, char *why, size_t why_size)
	__attribute__((warn_unused_result));
/* Warns where the command, or that of a migration, cannot be executed now. Never an error: it may be
 * installed later. */
void capability_check_command(const struct config_capability *cc, config_say_fn *say, void *ctx);
/* The same for the policy program's command, where one is configured. */
void capability_check_policy(const struct config *c, config_say_fn *say, void *ctx);

#endif
