/* SPDX-License-Identifier: MIT */
/* risk_private.h: a risk model in memory, for risk.c, risk_read.c and risk_suggest.c. No other file includes
 * it. */
#ifndef HCPD_POLICY_RISK_PRIVATE_H
#define HCPD_POLICY_RISK_PRIVATE_H

#include "json/pointer.h"
#include "policy/risk.h"

enum risk_op {
	OP_ABOVE,
	OP_FROM,
	OP_BELOW,
	OP_UPTO,
	OP_IS,
	OP_IS_NOT,
	OP_IN,
	OP_NOT_IN,
	OP_BETWEEN,
	OP_PRESENT,
	OP_ABSENT,
	OP_COUNT_ABOVE,
	OP_COUNT_FROM,
	OP_COUNT_BELOW,
	OP_COUNT_UPTO,
	OP_COUNT_IS,
	OP_COUNT_IS_NOT,
	OP_COUNT,
	OP_NOT_BETWEEN = OP_COUNT /* only as the contrary of between: no declaration can name it */
};

enum risk_argument { ARG_NONE, ARG_NUMBER, ARG_SCALAR, ARG_LIST, ARG_PAIR, ARG_SIZE };

#define SIGN(sign) (1u << ((sign) + 1)) /* below, same, above */

/* An operator: its name, the type of its argument, the orders that it accepts, and its contrary. */
struct risk_operator {
	const char *name;
	enum risk_argument argument;
	unsigned accepts; /* bits of SIGN, for a number or a size */
	enum risk_op contrary;
};
extern const struct risk_operator risk_operators[OP_COUNT];

enum risk_junction { JUNCTION_NONE, JUNCTION_ALL, JUNCTION_ANY, JUNCTION_NOT };

struct risk_test {
	enum risk_junction junction;
	struct risk_test *parts; /* of a junction */
	size_t part_count;
	struct jpoint *pointer; /* of a comparison */
	enum risk_op op;
	json_t *value;
};

struct risk_rule {
	struct risk_test when;
	enum risk level;
	char *reason;
};

struct risk_factor {
	bool is_hours; /* false: the factor is about running sessions */
	int from, to;  /* minutes of the day; -1: none */
	unsigned days; /* whole days; bit 0 is Sunday */
	enum risk_zone zone;
	unsigned at_least;
	bool of_resource;
	char *resource; /* NULL with of_resource: any resource of the capability */
	enum risk level;
	char *reason;
};

struct risk_model {
	enum risk floor;
	struct risk_rule rules[RISK_RULES_MAX];
	size_t rule_count;
	struct risk_factor factors[RISK_FACTORS_MAX];
	size_t factor_count;
};

bool risk_test_holds(const struct risk_test *t, const json_t *inputs);
/* The same as risk_assess, without the factors of the mask. */
void risk_assess_without(const struct risk_model *m, const json_t *inputs, const struct risk_context *context,
	uint32_t without, struct risk_result *out);

#endif
