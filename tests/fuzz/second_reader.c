/* SPDX-License-Identifier: MIT */
/* second_reader.c: stands before every reader of JSON that the programs have, in all targets alike (rules.mk,
 * --wrap). What one of them accepts, a strict second reader must accept too: whoever gets it from hcpd has
 * another reader. */
#include "fuzz.h"
#include "json/load.h"
#include "json/scan.h"
#include "json/text.h"
#include "support/strict_json.h"

json_t *__real_jtext_load(const char *text, size_t size, size_t flags, json_error_t *e);
json_t *__wrap_jtext_load(const char *text, size_t size, size_t flags, json_error_t *e);
json_t *__real_jtext_parse(const char *text, size_t size, char *why, size_t why_size);
json_t *__wrap_jtext_parse(const char *text, size_t size, char *why, size_t why_size);
json_t *__real_jtext_parse_numbers(
	const char *text, size_t size, bool *are_reals, char *why, size_t why_size);
json_t *__wrap_jtext_parse_numbers(
	const char *text, size_t size, bool *are_reals, char *why, size_t why_size);
bool __real_jscan_object(
	const char *text, size_t size, struct jscan_member *members, size_t count, bool *is_escaped);
bool __wrap_jscan_object(
	const char *text, size_t size, struct jscan_member *members, size_t count, bool *is_escaped);

json_t *__real_jload_tree(const char *text, size_t size);
json_t *__wrap_jload_tree(const char *text, size_t size);
bool __real_jload_flat(const char *text, size_t size, struct jload_member *members, size_t *count);
bool __wrap_jload_flat(const char *text, size_t size, struct jload_member *members, size_t *count);

json_t *__wrap_jtext_load(const char *text, size_t size, size_t flags, json_error_t *e)
{
	json_t *v = __real_jtext_load(text, size, flags, e);

	MUST(v == NULL || (flags & JSON_DISABLE_EOF_CHECK) != 0 || strict_json(text, size));
	return v;
}

json_t *__wrap_jtext_parse(const char *text, size_t size, char *why, size_t why_size)
{
	json_t *v = __real_jtext_parse(text, size, why, why_size);

	MUST(v == NULL || strict_json(text, size));
	return v;
}

json_t *__wrap_jtext_parse_numbers(const char *text, size_t size, bool *are_reals, char *why, size_t why_size)
{
	json_t *v = __real_jtext_parse_numbers(text, size, are_reals, why, why_size);

	MUST(v == NULL || strict_json(text, size));
	return v;
}

bool __wrap_jscan_object(
	const char *text, size_t size, struct jscan_member *members, size_t count, bool *is_escaped)
{
	bool is_good = __real_jscan_object(text, size, members, count, is_escaped);

	MUST(!is_good || strict_json(text, size));
	return is_good;
}

json_t *__wrap_jload_tree(const char *text, size_t size)
{
	json_t *v = __real_jload_tree(text, size);

	MUST(v == NULL || strict_json(text, size));
	return v;
}

bool __wrap_jload_flat(const char *text, size_t size, struct jload_member *members, size_t *count)
{
	bool is_good = __real_jload_flat(text, size, members, count);

	MUST(!is_good || strict_json(text, size));
	return is_good;
}
