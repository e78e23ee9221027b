/* SPDX-License-Identifier: MIT */
/* risk.h: how dangerous a task is, R1 to R5, and why. risk.c assesses a task, risk_read.c reads a
 * declaration, risk_suggest.c says how the risk could be lower. Pure: a declaration's floor, rules and
 * context factors, the inputs and the state of the moment go in; the level and what raised it come out.
 *
 * The level begins at the floor. Every rule whose condition the inputs meet, and every factor that the moment
 * meets, raises it to at least its own level. Nothing lowers it. */
#ifndef HCPD_POLICY_RISK_H
#define HCPD_POLICY_RISK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

#define RISK_RULES_MAX 64 /* each has a bit in a result */
#define RISK_FACTORS_MAX 16
#define RISK_DEPTH_MAX 8 /* levels of all, any and not inside each other */

struct declaration;
struct declared;
struct risk_model;

/* Time of day and weekday, in UTC and in the daemon's time zone. */
enum risk_zone { RISK_UTC, RISK_LOCAL, RISK_ZONES };
struct risk_clock {
	int minute[RISK_ZONES];  /* of the day, 0 to 1439 */
	int weekday[RISK_ZONES]; /* 0 is Sunday */
};
/* Reads the system's time zone: the only function here that is not pure. */
void risk_clock_read(int64_t wall_us, struct risk_clock *out);

struct risk_context {
	struct risk_clock clock;
	/* Counts running sessions: of this capability (`resource` NULL, own false), of all capabilities that
	 * use a resource, or of all that share any resource with this one (own). NULL: none run. */
	unsigned (*running)(void *arg, bool own, const char *resource);
	void *arg;
};

struct risk_result {
	enum risk level;
	/* rules and factors above the floor, by index: bit 0 is the first */
	uint64_t rules;
	uint32_t factors;
};

/* Reads risk_floor, rules and context of a declaration's `safety`. Complains of faults; the result must then
 * only be freed. Without a floor the risk is the ceiling. */
struct risk_model *risk_model_read(struct declaration *d, const struct declared *safety, enum risk ceiling)
	__attribute__((warn_unused_result));
void risk_model_free(struct risk_model *m); /* NULL is fine */

void risk_assess(const struct risk_model *m, const json_t *inputs, const struct risk_context *context,
	struct risk_result *out);
/* Writes the reasons that raised the risk, most dangerous first, separated by semicolons; "": none. Cut where
 * it is too long. */
void risk_explain(const struct risk_model *m, const struct risk_result *result, char *out, size_t size);
/* Suggests a change of the inputs that brings the risk to at most `limit`: "with /temperature_c at most 80
 * the risk would be R2". Each suggestion is tried on a copy of the inputs first. False: none was found. */
bool risk_suggest(const struct risk_model *m, const json_t *inputs, const struct risk_context *context,
	const struct risk_result *result, enum risk limit, char *out, size_t size);

#endif
