/* SPDX-License-Identifier: MIT */
/* intent_seal.c: the sealed intent.
 * Owns what is sealed. Never decides what happens to a session whose seal is broken (run_start.c does). */
#include "protocol/intent_seal.h"

#include <string.h>

#include "json/scan.h"
#include "json/text.h"

/* Sorted, as canonical JSON has them. Only these members are parsed: the inputs, the largest part of a task,
 * are skipped. */
enum { CONSTRAINTS, EXPECTED, INTENT, MEMBERS };

static bool find_members(const char *task, size_t size, struct jscan_member members[MEMBERS])
{
	bool is_escaped = false, is_one;
	char why[64];
	json_t *root;

	if (jscan_object(task, size, members, MEMBERS, &is_escaped))
		return !is_escaped;
	/* The scan refuses a text that nests too deep for it. jansson parses such a text: slower, with the
	 * same result. */
	root = jtext_parse(task, size, why, sizeof why);
	is_one = json_is_object(root);
	for (int i = 0; i < MEMBERS; i++) {
		members[i].at = jtext_member(task, size, members[i].name);
		is_one = is_one &&
			(members[i].at.at != NULL) == (json_object_get(root, members[i].name) != NULL);
	}
	json_decref(root);
	return is_one;
}

bool intent_seal_task(const char *task, size_t size, char seal[CANONICAL_HASH_SIZE])
{
	struct jscan_member members[MEMBERS] = {[CONSTRAINTS] = {.name = "constraints"},
		[EXPECTED] = {.name = "expected_output"},
		[INTENT] = {.name = "intent"}};
	bool is_good = find_members(task, size, members);
	struct buf b = {0};
	char why[64];

	for (int i = 0; is_good && i < MEMBERS; i++) {
		const struct jslice at = members[i].at;
		json_t *value = at.at != NULL ? jtext_parse(at.at, at.size, why, sizeof why) : NULL;

		buf_add_text(&b, i == 0 ? "{\"" : ",\"");
		buf_add_text(&b, members[i].name);
		buf_add_text(&b, "\":");
		if (value != NULL)
			canonical_add(&b, value);
		else
			buf_add_text(&b, "{}"); /* an absent one is sealed as an empty object */
		is_good = value != NULL || at.at == NULL;
		json_decref(value);
	}
	buf_add_text(&b, "}");
	canonical_hash_bytes(b.data, b.size, seal);
	buf_fini(&b);
	return is_good;
}

const char *intent_seal_find_fault(
	const char *task, size_t size, const char *seal, const struct token_keys *keys, const char *token)
{
	char now[CANONICAL_HASH_SIZE], given[65], whole[65];
	int said = token_find_seals(keys, token, given, whole);

	/* Where the token's key was removed, the token proves nothing, and only the seal in the row is
	 * left. */
	if (said > 0 && strcmp(given, seal) != 0)
		return "the seal in its row is not the one that it was accepted with";
	if (seal[0] == '\0')
		return NULL; /* accepted by a version without seals */
	if (!intent_seal_task(task, size, now))
		return "the stored task cannot be read in one way only";
	if (strcmp(now, seal) != 0)
		return "intent, constraints or expected output of the stored task were changed";
	if (said <= 0 || whole[0] == '\0')
		return NULL; /* the token is of a version without these hashes */
	canonical_hash_bytes(task, size, now);
	return strcmp(now, whole) == 0 ?
		NULL :
		"the stored task is not the one that was accepted: its inputs or its context were changed";
}
