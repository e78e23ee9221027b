/* SPDX-License-Identifier: MIT */
/* token_cache.c: the tokens of the user's own sessions.
 * Owns sessions.json: its members, and when an entry is dropped.
 * Never asks a broker whether a session is still running. */
#include "hcpctl/common/token_cache.h"
#include "json/text.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "query/query.h"

#define LOCK_FILE "sessions.lock"
#define NAMED_MAX 5 /* how many sessions are named for an ambiguous prefix */

/* --- the file --- */

/* The object of sessions by id; a new one where there is no file. NULL: why says what is wrong. */
static json_t *load(const char *dir, char *why)
{
	struct buf text = {0};
	int got = ctl_user_files_read(dir, CTL_SESSIONS_FILE, &text, why);
	json_t *root = NULL;
	json_error_t e;

	if (got == 0) {
		root = json_object();
	} else if (got > 0) {
		root = jtext_load(text.data ? text.data : "", text.size, 0, &e);
		if (!json_is_object(root)) {
			snprintf(why, CTL_WHY_SIZE,
				"%.300s/%s is damaged (line %d); move it away, its tokens are lost", dir,
				CTL_SESSIONS_FILE, root ? 1 : e.line);
			json_decref(root);
			root = NULL;
		}
	}
	if (text.data)
		explicit_bzero(text.data, text.room);
	buf_fini(&text);
	return root;
}

static int save(const char *dir, const json_t *root, char *why)
{
	char *text = json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS);
	int result;

	if (!text) {
		snprintf(why, CTL_WHY_SIZE, "out of memory");
		return -1;
	}
	result = ctl_user_files_write(dir, CTL_SESSIONS_FILE, text, strlen(text), why);
	explicit_bzero(text, strlen(text));
	free(text);
	return result;
}

static int64_t entry_since(const json_t *entry)
{
	const char *text = json_string_value(json_object_get(entry, "since"));
	int64_t us;

	return text && clock_parse(text, &us) ? us : 0;
}

static void drop_old(json_t *root)
{
	int64_t before_us = clock_wall_us() - CTL_SESSIONS_KEEP_US;
	const char *id;
	json_t *entry;
	void *next;

	json_object_foreach_safe(root, next, id, entry) if (entry_since(entry) < before_us)
		json_object_del(root, id);
}

static void set_text(json_t *entry, const char *key, const char *value)
{
	if (value)
		json_object_set_new(entry, key, json_string(value));
}

/* --- verbs --- */

int ctl_token_cache_put(const char *dir, const struct ctl_session *s, char *why)
{
	int lock = ctl_user_files_lock(dir, LOCK_FILE, why), result = -1;
	char since[CLOCK_TEXT_SIZE];
	json_t *root, *entry;

	if (lock < 0)
		return -1;
	if ((root = load(dir, why))) {
		clock_format(s->since_us, since);
		drop_old(root);
		entry = json_object();
		set_text(entry, "token", s->token);
		set_text(entry, "caller", s->caller);
		set_text(entry, "callee", s->callee);
		set_text(entry, "capability", s->capability);
		set_text(entry, "since", since);
		json_object_set_new(entry, "sequence", json_integer(s->sequence));
		json_object_set_new(root, s->id, entry);
		result = save(dir, root, why);
		json_decref(root);
	}
	close(lock);
	return result;
}

int ctl_token_cache_drop(const char *dir, const char *id, char *why)
{
	json_t *root = load(dir, why);
	bool is_there = root && json_object_get(root, id);
	int lock, result = root ? 0 : -1;

	json_decref(root);
	/* most sessions of `watch` belong to other callers: take no lock and make no directory for them */
	if (!is_there)
		return result;
	result = -1;
	if ((lock = ctl_user_files_lock(dir, LOCK_FILE, why)) < 0)
		return -1;
	if ((root = load(dir, why))) {
		result = json_object_del(root, id) == 0 ? save(dir, root, why) : 0;
		json_decref(root);
	}
	close(lock);
	return result;
}

static char *get_text(const json_t *entry, const char *key)
{
	const char *text = json_string_value(json_object_get(entry, key));

	return text ? xstrdup(text) : NULL;
}

static void read_entry(struct ctl_session *out, const char *id, const json_t *entry)
{
	*out = (struct ctl_session){.since_us = entry_since(entry)};
	snprintf(out->id, sizeof out->id, "%s", id);
	out->token = get_text(entry, "token");
	out->caller = get_text(entry, "caller");
	out->callee = get_text(entry, "callee");
	out->capability = get_text(entry, "capability");
	out->sequence = json_integer_value(json_object_get(entry, "sequence"));
}

static enum ctl_found find_in(json_t *root, const char *prefix, struct ctl_session *out, char *why)
{
	size_t size = strlen(prefix), count = 0;
	struct buf named = {0};
	const char *id;
	json_t *entry, *hit = NULL;
	const char *hit_id = NULL;

	json_object_foreach(root, id, entry) {
		if (strncasecmp(id, prefix, size) != 0 || !id_is_uuid4(id))
			continue;
		hit = entry;
		hit_id = id;
		if (count++ < NAMED_MAX)
			buf_addf(&named, "%s%s", count > 1 ? ", " : "", id);
	}
	if (count == 1)
		read_entry(out, hit_id, hit);
	else if (count > 1)
		snprintf(why, CTL_WHY_SIZE, "%.36s fits %zu sessions: %s%s; write more of it", prefix, count,
			buf_text(&named), count > NAMED_MAX ? ", ..." : "");
	else
		snprintf(why, CTL_WHY_SIZE, "no session of ours begins with %.36s; write the whole id",
			prefix);
	buf_fini(&named);
	return count == 1 ? CTL_FOUND : count ? CTL_AMBIGUOUS : CTL_NONE;
}

enum ctl_found ctl_token_cache_find(const char *dir, const char *prefix, struct ctl_session *out, char *why)
{
	json_t *root = dir ? load(dir, why) : json_object();
	enum ctl_found found;

	if (!root)
		return CTL_UNREADABLE;
	if (*prefix == '\0') {
		snprintf(why, CTL_WHY_SIZE, "a session's id, or the beginning of one, is missing");
		found = CTL_NONE;
	} else if (strlen(prefix) < QUERY_PREFIX_MIN) {
		snprintf(why, CTL_WHY_SIZE,
			"%s is too little of a session's id; write %d characters at least", prefix,
			QUERY_PREFIX_MIN);
		found = CTL_NONE;
	} else {
		found = find_in(root, prefix, out, why);
	}
	json_decref(root);
	return found;
}

void ctl_session_fini(struct ctl_session *s)
{
	if (s->token)
		explicit_bzero(s->token, strlen(s->token));
	free(s->token);
	free(s->caller);
	free(s->callee);
	free(s->capability);
	*s = (struct ctl_session){0};
}
