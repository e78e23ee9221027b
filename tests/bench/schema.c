/* SPDX-License-Identifier: MIT */
/* schema.c: how long a check of 10 kB against a schema of 5 kB takes, beside parsing the same bytes.
 * Owns both texts: a plan of robot tasks with references, alternatives, patterns, enumerations and closed
 * objects, as a capability's input_schema would have them.
 *
 *   schema [ROUNDS]     check_us, parse_us, compile_us, schema_bytes, input_bytes: the median of 31 rounds */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jschema/jschema.h"

#define SAMPLES 31

static const char head[] =
	"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"$id\":\"https://bench.example/"
	"plan\",\"type\":\"object\","
	"\"required\":[\"plan_id\",\"site\",\"created\",\"steps\"],\"additionalProperties\":false,"
	"\"properties\":{"
	"\"plan_id\":{\"$ref\":\"#/$defs/uuid\"},"
	"\"site\":{\"type\":\"string\",\"pattern\":\"^[a-z][a-z0-9-]{1,30}$\",\"description\":\"the building "
	"the plan is for\"},"
	"\"created\":{\"type\":\"string\",\"format\":\"date-time\"},\"priority\":{\"enum\":[\"low\","
	"\"normal\",\"high\"]},"
	"\"labels\":{\"type\":\"object\",\"maxProperties\":40,\"propertyNames\":{\"maxLength\":32},"
	"\"patternProperties\":{\"^x-\":{\"type\":\"string\"}},\"additionalProperties\":{\"type\":["
	"\"string\",\"number\",\"boolean\"]}},"
	"\"steps\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":500,\"items\":{\"$ref\":\"#/$defs/"
	"step\"}}},\"$defs\":{"
	"\"uuid\":{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-"
	"f]{12}$\"},"
	"\"point\":{\"type\":\"object\",\"required\":[\"x\",\"y\"],\"additionalProperties\":false,"
	"\"properties\":{"
	"\"x\":{\"type\":\"number\",\"minimum\":-50,\"maximum\":50},\"y\":{\"type\":\"number\",\"minimum\":-"
	"50,\"maximum\":50},"
	"\"z\":{\"type\":\"number\",\"minimum\":0,\"maximum\":4.5}}},"
	"\"step\":{\"type\":\"object\",\"required\":[\"id\",\"action\"],\"properties\":{\"id\":{\"type\":"
	"\"integer\",\"minimum\":1},"
	"\"action\":{\"enum\":[\"move\",\"grip\",\"wait\",\"scan\"]},\"note\":{\"type\":\"string\","
	"\"maxLength\":200},"
	"\"depends_on\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"uniqueItems\":true}},"
	"\"oneOf\":[{\"$ref\":\"#/$defs/move\"},{\"$ref\":\"#/$defs/grip\"},{\"$ref\":\"#/$defs/"
	"wait\"},{\"$ref\":\"#/$defs/scan\"}],"
	"\"unevaluatedProperties\":false},"
	"\"move\":{\"properties\":{\"action\":{\"const\":\"move\"},\"path\":{\"type\":\"array\",\"minItems\":"
	"1,\"items\":"
	"{\"$ref\":\"#/$defs/"
	"point\"}},\"speed\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":1.5,\"multipleOf\":0.01}"
	"},"
	"\"required\":[\"path\"]},"
	"\"grip\":{\"properties\":{\"action\":{\"const\":\"grip\"},\"object\":{\"$ref\":\"#/$defs/"
	"uuid\"},\"force\":{\"type\":\"number\","
	"\"minimum\":0,\"maximum\":20},\"soft\":{\"type\":\"boolean\"}},\"required\":[\"object\"],"
	"\"if\":{\"properties\":{\"soft\":{\"const\":true}},\"required\":[\"soft\"]},\"then\":{"
	"\"properties\":{\"force\":{\"maximum\":5}}}},"
	"\"wait\":{\"properties\":{\"action\":{\"const\":\"wait\"},\"seconds\":{\"type\":\"integer\","
	"\"minimum\":0,\"maximum\":600}},"
	"\"required\":[\"seconds\"]},"
	"\"scan\":{\"properties\":{\"action\":{\"const\":\"scan\"},\"area\":{\"type\":\"array\","
	"\"prefixItems\":[{\"$ref\":\"#/$defs/point\"},"
	"{\"$ref\":\"#/$defs/"
	"point\"}],\"items\":false,\"minItems\":2},\"sensor\":{\"type\":\"string\",\"minLength\":1,"
	"\"maxLength\":40}},"
	"\"required\":[\"area\"],\"dependentRequired\":{\"sensor\":[\"area\"]}}";

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "schema: %s: %s\n", what, why);
	exit(1);
}

/* Other definitions, as real schemas have them, up to 5 kB. */
static void make_schema(char *text, size_t room)
{
	size_t size = (size_t)snprintf(text, room, "%s", head);

	for (unsigned i = 0; size < 4900; i++)
		size += (size_t)snprintf(text + size, room - size,
			",\"spare%u\":{\"type\":\"object\",\"description\":\"for later\","
			"\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":%u},\"at\":{\"$ref\":\"#"
			"/$defs/point\"}}}",
			i, 20 + i);
	snprintf(text + size, room - size, "}}");
}

static size_t make_step(char *text, size_t room, unsigned i)
{
	size_t size = (size_t)snprintf(text, room,
		"%s{\"id\":%u,\"note\":\"step %u of the plan\",\"depends_on\":[%u,%u,%u],", i > 1 ? "," : "",
		i, i, i, i + 1, i + 2);

	switch (i % 4) {
	case 0:
		return size +
			(size_t)snprintf(text + size, room - size,
				"\"action\":\"move\",\"speed\":0.%02u,\"path\":[{\"x\":1.5,\"y\":%u},"
				"{\"x\":2.25,\"y\":-3,\"z\":0.5},{\"x\":-7,\"y\":12.125}]}",
				i % 90 + 1, i % 50);
	case 1:
		return size +
			(size_t)snprintf(text + size, room - size,
				"\"action\":\"grip\",\"object\":"
				"\"6f1c8a52-0b1d-4c3e-9a7b-2d4e6f80%04u\",\"force\":4.5,\"soft\":true}",
				i);
	case 2:
		return size +
			(size_t)snprintf(
				text + size, room - size, "\"action\":\"wait\",\"seconds\":%u}", i % 600);
	default:
		return size +
			(size_t)snprintf(text + size, room - size,
				"\"action\":\"scan\",\"sensor\":\"lidar\",\"area\":[{\"x\":0,\"y\":0},"
				"{\"x\":%u,\"y\":9.5}]}",
				i % 50);
	}
}

static size_t make_input(char *text, size_t room)
{
	size_t size = (size_t)snprintf(text, room,
		"{\"plan_id\":\"0a1b2c3d-4e5f-4a6b-8c7d-0123456789ab\",\"site\":\"hall-7\","
		"\"created\":\"2026-01-31T12:00:00Z\",\"priority\":\"high\",\"labels\":{\"x-owner\":\"night "
		"shift\",\"lot\":42,"
		"\"dry\":false},\"steps\":[");

	for (unsigned i = 1; size < 10100; i++)
		size += make_step(text + size, room - size, i);
	return size + (size_t)snprintf(text + size, room - size, "]}");
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* the machine is shared */
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double median(double *samples)
{
	qsort(samples, SAMPLES, sizeof *samples, by_value);
	return samples[SAMPLES / 2];
}

int main(int argc, char **argv)
{
	static char schema_text[8192], input_text[16384];
	unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 200;
	double check[SAMPLES], parse[SAMPLES], compile[SAMPLES];
	char why[JSCHEMA_WHY_SIZE];
	struct jschema_failure f;
	json_t *schema, *input;
	struct jschema *js;
	size_t size;

	make_schema(schema_text, sizeof schema_text);
	size = make_input(input_text, sizeof input_text);
	schema = json_loads(schema_text, 0, NULL);
	input = json_loadb(input_text, size, 0, NULL);
	if (schema == NULL || input == NULL)
		fail("its texts", "no JSON");
	for (unsigned s = 0; s < SAMPLES; s++) {
		double t[4] = {now_us()};

		if ((js = jschema_compile(schema, NULL, why, sizeof why)) == NULL)
			fail("compile", why);
		t[1] = now_us();
		for (unsigned i = 0; i < rounds; i++)
			if (!jschema_check(js, input, &f))
				fail("check", f.message);
		t[2] = now_us();
		for (unsigned i = 0; i < rounds; i++)
			json_decref(json_loadb(input_text, size, 0, NULL));
		t[3] = now_us();
		compile[s] = t[1] - t[0];
		check[s] = (t[2] - t[1]) / rounds;
		parse[s] = (t[3] - t[2]) / rounds;
		jschema_free(js);
	}
	printf("check_us=%.1f\nparse_us=%.1f\ncompile_us=%.1f\nschema_bytes=%zu\ninput_bytes=%zu\n",
		median(check), median(parse), median(compile), strlen(schema_text), size);
	json_decref(schema);
	json_decref(input);
	return 0;
}
