/* seal.c: the sealed intent.
 * Owns what is sealed. Never decides what becomes of a session whose seal is broken (run_start.c does). */
#include "protocol/intent_seal.h"

#include <string.h>

#include "json/scan.h"
#include "json/text.h"

/* As canonical JSON has them: sorted. Only these are read: the inputs, which are most of a task, are passed
 * over. */
enum { CONSTRAINTS, EXPECTED, INTENT, MEMBERS };

static bool find_members(const char *task, size_t size, struct jscan_member members[MEMBERS])
{
	bool is_escaped = false, is_one;
	char why[64];
	json_t *root;

	if (jscan_object(task, size, members, MEMBERS, &is_escaped))
		return !is_escaped;
	/* It may only be deeper than is ever needed: slower, and the same. */
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

bool seal_task(const char *task, size_t size, char seal[CANON_HASH_SIZE])
{
	struct jscan_member members[MEMBERS] = {[CONSTRAINTS] = {.name = "constraints"},
		[EXPECTED] = {.name = "expected_output"},
		[INTENT] = {.name = "intent"}};
	bool is_good = find_members(task, size, members);
	struct buf b = {0};
	char why[64];

	for (int i = 0; is_good && i < MEMBERS; i++) {
		const struct jslice at = members[i].at;
		json_t *value = at.at != NULL ? jtext_parse(at.at, at.size, why, sizeof why) : json_object();

		buf_addf(&b, "%s\"%s\":", i == 0 ? "{" : ",", members[i].name);
		if (value != NULL)
			canon_add(&b, value);
		is_good = value != NULL;
		json_decref(value);
	}
	buf_add_text(&b, "}");
	canon_hash_bytes(b.data, b.size, seal);
	buf_fini(&b);
	return is_good;
}

const char *seal_find_fault(
	const char *task, size_t size, const char *seal, const struct token_keys *keys, const char *token)
{
	char now[CANON_HASH_SIZE], given[65], whole[65];
	int said = token_find_seals(keys, token, given, whole);

	/* Where the key was removed, nobody can say what a token was given for: the row's seal remains. */
	if (said > 0 && strcmp(given, seal) != 0)
		return "the seal in its row is not the one that it was accepted with";
	if (seal[0] == '\0')
		return NULL; /* accepted by a version that sealed nothing */
	if (!seal_task(task, size, now))
		return "the stored task cannot be read in one way only";
	if (strcmp(now, seal) != 0)
		return "intent, constraints or expected output of the stored task were changed";
	if (said <= 0 || whole[0] == '\0')
		return NULL; /* its token is of a version that did not say */
	canon_hash_bytes(task, size, now);
	return strcmp(now, whole) == 0 ?
		NULL :
		"the stored task is not the one that was accepted: its inputs or its context were changed";
}
