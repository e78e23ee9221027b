/* risk.h: how dangerous is this task, R1 to R5, and why. Pure: a declaration's floor, rules and context
 * factors, the inputs, and what is known of the moment go in; the level and what raised it come out.
 *
 * The level begins at the floor. Every rule whose condition the inputs meet, and every factor that the moment
 * meets, raises it to at least its own level. Nothing lowers it. */
#ifndef HCPD_RISK_H
#define HCPD_RISK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

#define RISK_RULES_MAX 64 /* a bit each in a result */
#define RISK_FACTORS_MAX 16
#define RISK_DEPTH_MAX 8 /* of all, any and not inside each other */

struct declaration;
struct declared;
struct risk_model;

/* Hours and days, as UTC and as the place of the daemon has them. */
enum risk_zone { RISK_UTC, RISK_LOCAL, RISK_ZONES };
struct risk_clock {
	int minute[RISK_ZONES];  /* of the day, 0 to 1439 */
	int weekday[RISK_ZONES]; /* 0 is Sunday */
};
/* The one function here that asks the system something: the time zone. */
void risk_clock_read(int64_t wall_us, struct risk_clock *out);

struct risk_context {
	struct risk_clock clock;
	/* Running sessions of this capability (`resource` NULL and own false), of all that use a resource, or
	 * of all that use any resource of this one's (own). NULL: none. */
	unsigned (*running)(void *arg, bool own, const char *resource);
	void *arg;
};

struct risk_result {
	enum risk level;
	uint64_t rules; /* those that raise it above the floor, by index: bit 0 is the first */
	uint32_t factors;
};

/* Reads risk_floor, rules and context of a declaration's `safety`. Complains where something is wrong; what
 * it returns is then not to be used, but freed. Without a floor the risk is the ceiling. */
struct risk_model *risk_model_read(struct declaration *d, const struct declared *safety, enum risk ceiling)
	__attribute__((warn_unused_result));
void risk_model_free(struct risk_model *m); /* NULL is fine */

void risk_assess(const struct risk_model *m, const json_t *inputs, const struct risk_context *context,
	struct risk_result *out);
/* The reasons of what raised it, most dangerous first, separated by semicolons; "" where nothing did. Cut
 * where it is too long. */
void risk_explain(const struct risk_model *m, const struct risk_result *result, char *out, size_t size);
/* A change under which the risk would be at most `limit`, and what it would be: "with /temperature_c at most
 * 80 the risk would be R2". The sentence is tried out on a copy of the inputs before it is said. False where
 * none was found. */
bool risk_suggest(const struct risk_model *m, const json_t *inputs, const struct risk_context *context,
	const struct risk_result *result, enum risk limit, char *out, size_t size);

#endif
