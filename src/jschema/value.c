/* SPDX-License-Identifier: MIT */
/* value.c: compares JSON values: numbers without rounding, anything by equality and hash.
 * Owns the arithmetic of numbers. Never knows of schemas. Work on long values counts steps, so that the
 * caller's bound holds here too. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jschema/jschema_private.h"

#define FEW_ITEMS 12 /* up to here, comparing pairs is cheaper than a table */
#define NESTED 2048  /* the depth that jansson parses at most */

void steps_take(uint64_t *steps, uint64_t count)
{
	*steps = *steps > count ? *steps - count : 0;
}

/* ---- numbers ---- */

struct number value_number(const json_t *v)
{
	if (json_is_integer(v))
		return (struct number){.is_integer = true, .integer = json_integer_value(v)};
	return (struct number){.real = json_real_value(v)};
}

bool number_is_integral(struct number n)
{
	return n.is_integer || (isfinite(n.real) && trunc(n.real) >= n.real && trunc(n.real) <= n.real);
}

static int order(double a, double b)
{
	return (a > b) - (a < b);
}

/* Compares an integer with a real: beyond 64 bits the real decides; otherwise its whole part is exact, then
 * its fraction counts. */
static int mixed_order(json_int_t a, double b)
{
	json_int_t whole;

	if (b >= 0x1p63)
		return -1;
	if (b < -0x1p63)
		return 1;
	whole = (json_int_t)b;
	if (a != whole)
		return a < whole ? -1 : 1;
	return order(0, b - (double)whole);
}

int number_order(struct number a, struct number b)
{
	if (a.is_integer && b.is_integer)
		return (a.integer > b.integer) - (a.integer < b.integer);
	if (a.is_integer)
		return mixed_order(a.integer, b.real);
	if (b.is_integer)
		return -mixed_order(b.integer, a.real);
	return order(a.real, b.real);
}

/* The shortest decimal that reads back as the same double; zeros at its end do not matter. Up to 15 digits
 * survive a double, but near 0 there are fewer. */
static void real_text(double real, bool as_exponent, char out[40])
{
	for (int digits = fabs(real) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
		if (as_exponent)
			snprintf(out, 40, "%.*e", digits - 1, real);
		else
			snprintf(out, 40, "%.*g", digits, real);
		if (order(strtod(out, NULL), real) == 0)
			return;
	}
}

void number_text(struct number n, char out[40])
{
	if (n.is_integer)
		snprintf(out, 40, "%" JSON_INTEGER_FORMAT, n.integer);
	else
		real_text(n.real, false, out);
}

struct decimal number_decimal(struct number n)
{
	struct decimal d = {0, 0};
	char text[40];
	const char *p = text;

	if (n.is_integer) {
		d.digits = n.integer < 0 ? -(uint64_t)n.integer : (uint64_t)n.integer;
	} else {
		int behind = 0; /* digits behind the point, whose character depends on the locale */

		real_text(fabs(n.real), true, text);
		for (bool has_point = false; *p != 'e' && *p != '\0'; p++) {
			if (*p < '0' || *p > '9') {
				has_point = true;
				continue;
			}
			d.digits = d.digits * 10 + (uint64_t)(*p - '0');
			behind += has_point;
		}
		d.exponent = (*p == 'e' ? atoi(p + 1) : 0) - behind;
	}
	if (d.digits == 0)
		return (struct decimal){0, 0};
	for (; d.digits % 10 == 0; d.digits /= 10)
		d.exponent++;
	return d;
}

/* Is a x 10^k divisible by b? */
static bool divides(uint64_t a, int k, uint64_t b)
{
	unsigned __int128 rest = a % b, ten = 10 % b;

	for (; k > 0; k >>= 1) {
		if (k & 1)
			rest = rest * ten % b;
		ten = ten * ten % b;
	}
	return rest == 0;
}

/* The usual case without decimals: a real with few digits is an integer x 10^-k. The division that makes it
 * is exact in the sense of IEEE 754, as both are integers below 2^53. True: *is_multiple is known. */
static bool is_multiple_quickly(double real, struct decimal of, bool *is_multiple)
{
	static const double tens[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12};
	double whole;

	if (of.exponent > 0 || of.exponent < -12 || of.digits > INT64_MAX)
		return false;
	whole = nearbyint(real * tens[-of.exponent]);
	if (!(fabs(whole) < 1e15))
		return false;
	*is_multiple =
		order(whole / tens[-of.exponent], real) == 0 && (int64_t)whole % (int64_t)of.digits == 0;
	return true;
}

/* Is n / of whole, in decimals? Both are digits x 10^exponent, and only the difference of the exponents
 * counts. */
bool number_is_multiple(struct number n, struct number of, struct decimal of_decimal)
{
	struct decimal d;
	uint64_t divisor = of_decimal.digits;
	bool is_multiple;
	int shift;

	if (n.is_integer && of.is_integer)
		return n.integer % of.integer == 0;
	if (!n.is_integer && is_multiple_quickly(n.real, of_decimal, &is_multiple))
		return is_multiple;
	d = number_decimal(n);
	shift = d.exponent - of_decimal.exponent;
	if (d.digits == 0 || shift >= 0)
		return d.digits == 0 || divides(d.digits, shift, divisor);
	for (; shift < 0; shift++)
		if (__builtin_mul_overflow(divisor, 10u, &divisor))
			return false; /* more than any number of digits */
	return d.digits % divisor == 0;
}

/* ---- text ---- */

size_t text_code_points(const char *text, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < size; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

uint64_t text_hash(const char *text, size_t size)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ size;

	for (size_t i = 0; i < size; i++)
		h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 29;
}

/* ---- any value ---- */

static bool equal(uint64_t *steps, const json_t *a, const json_t *b, unsigned depth);

static bool objects_equal(uint64_t *steps, const json_t *a, const json_t *b, unsigned depth)
{
	json_t *from = (json_t *)(uintptr_t)a;

	if (json_object_size(a) != json_object_size(b))
		return false;
	for (void *i = json_object_iter(from); i != NULL; i = json_object_iter_next(from, i)) {
		const json_t *other =
			json_object_getn(b, json_object_iter_key(i), json_object_iter_key_len(i));

		if (other == NULL || !equal(steps, json_object_iter_value(i), other, depth + 1))
			return false;
	}
	return true;
}

static bool equal(uint64_t *steps, const json_t *a, const json_t *b, unsigned depth)
{
	steps_take(steps, depth > NESTED ? UINT64_MAX : 1);
	if (*steps == 0)
		return false;
	if (json_is_number(a) && json_is_number(b))
		return number_order(value_number(a), value_number(b)) == 0;
	if (json_typeof(a) != json_typeof(b))
		return false;
	switch (json_typeof(a)) {
	case JSON_STRING:
		steps_take(steps, json_string_length(a) / 64);
		return json_string_length(a) == json_string_length(b) &&
			memcmp(json_string_value(a), json_string_value(b), json_string_length(a)) == 0;
	case JSON_ARRAY:
		if (json_array_size(a) != json_array_size(b))
			return false;
		for (size_t i = 0; i < json_array_size(a); i++)
			if (!equal(steps, json_array_get(a, i), json_array_get(b, i), depth + 1))
				return false;
		return true;
	case JSON_OBJECT: return objects_equal(steps, a, b, depth);
	default: return true;
	}
}

bool value_equal(uint64_t *steps, const json_t *a, const json_t *b)
{
	return equal(steps, a, b, 0);
}

static uint64_t mix(uint64_t h)
{
	h = (h ^ h >> 31) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

static uint64_t number_hash(struct number n)
{
	uint64_t bits;

	if (!n.is_integer && number_is_integral(n) && n.real >= -0x1p63 && n.real < 0x1p63)
		n = (struct number){.is_integer = true, .integer = (json_int_t)n.real};
	if (n.is_integer)
		return mix((uint64_t)n.integer);
	memcpy(&bits, &n.real, sizeof bits);
	return mix(bits + 1);
}

/* Equal values have equal hashes; the order of members does not matter. */
static uint64_t hash(uint64_t *steps, const json_t *v, unsigned depth)
{
	json_t *object = (json_t *)(uintptr_t)v;
	uint64_t h = (uint64_t)json_typeof(v);

	steps_take(steps, depth > NESTED ? UINT64_MAX : 1);
	if (*steps == 0)
		return 0;
	switch (json_typeof(v)) {
	case JSON_INTEGER:
	case JSON_REAL: return number_hash(value_number(v));
	case JSON_STRING:
		steps_take(steps, json_string_length(v) / 16);
		return text_hash(json_string_value(v), json_string_length(v));
	case JSON_ARRAY:
		for (size_t i = 0; i < json_array_size(v); i++)
			h = mix(h + hash(steps, json_array_get(v, i), depth + 1));
		return h;
	case JSON_OBJECT:
		for (void *i = json_object_iter(object); i != NULL; i = json_object_iter_next(object, i))
			h += mix(text_hash(json_object_iter_key(i), json_object_iter_key_len(i)) ^
				mix(hash(steps, json_object_iter_value(i), depth + 1)));
		return mix(h);
	default: return mix(h);
	}
}

uint64_t value_hash(uint64_t *steps, const json_t *v)
{
	return hash(steps, v, 0);
}

static bool find_twins_in_pairs(uint64_t *steps, const json_t *array, size_t *first, size_t *second)
{
	for (*second = 1; *second < json_array_size(array); ++*second)
		for (*first = 0; *first < *second; ++*first)
			if (value_equal(steps, json_array_get(array, *first), json_array_get(array, *second)))
				return true;
	return false;
}

/* A table of hashes: only items with equal hashes are compared. An attacker who makes hashes collide runs out
 * of steps. */
bool value_find_twins(uint64_t *steps, const json_t *array, size_t *first, size_t *second)
{
	struct slot {
		uint64_t hash;
		size_t item; /* index + 1; 0: empty */
	} * table;
	size_t count = json_array_size(array), room = 32;
	bool found = false;

	if (count <= FEW_ITEMS)
		return find_twins_in_pairs(steps, array, first, second);
	while (room < count * 2)
		room *= 2;
	table = xcalloc(room, sizeof *table);
	for (size_t i = 0; i < count && !found && *steps > 0; i++) {
		uint64_t h = value_hash(steps, json_array_get(array, i));
		size_t at = h & (room - 1);

		for (; table[at].item != 0 && !found && *steps > 0; at = (at + 1) & (room - 1)) {
			steps_take(steps, 1);
			found = table[at].hash == h &&
				value_equal(steps, json_array_get(array, table[at].item - 1),
					json_array_get(array, i));
			if (found) {
				*first = table[at].item - 1;
				*second = i;
			}
		}
		if (!found)
			table[at] = (struct slot){h, i + 1};
	}
	free(table);
	return found;
}
