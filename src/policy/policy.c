/* SPDX-License-Identifier: MIT */
/* policy.c: a policy: the configuration, its declarations and the approvers' keys, read together.
 * Owns the reading of these files and the policy's hash. Never looks at a task (gate.c), never changes a
 * policy once it is loaded. */
#include "policy/policy.h"

#include <stdlib.h>
#include <string.h>

#include "harp/harp.h"
#include "json/canonical.h"
#include "policy/capability.h"
#include "process/confine.h"

/* Weak keys, and keys that two approvers share, are found only here, where all keys are together. */
static bool load_approvers(struct harp_keys *keys, const struct config *c, config_say_fn *say, void *ctx)
{
	bool good = true;
	char why[256];

	for (size_t i = 0; i < c->approver_count; i++) {
		const struct config_approver *a = &c->approvers[i];
		const struct harp_key key = {.id = a->name,
			.person = a->person,
			.public_line = a->key,
			.max_risk = a->max_risk,
			.revoked = a->revoked};
		struct buf text = {0};

		if (a->key == NULL)
			continue; /* config.c has complained of it */
		if (harp_keys_add(keys, &key, why, sizeof why) == 0)
			continue;
		buf_addf(&text, "%s:%d: [approver %s]: %s", c->path, a->line, a->name, why);
		say(ctx, true, buf_text(&text));
		buf_fini(&text);
		good = false;
	}
	return good;
}

bool policy_check_approvers(const struct config *c, config_say_fn *say, void *ctx)
{
	struct harp_keys *keys = harp_keys_new();
	bool good = load_approvers(keys, c, say, ctx);

	harp_keys_free(keys);
	return good;
}

static const char *person_of(const struct config_approver *a)
{
	return a->person != NULL ? a->person : a->name;
}

bool policy_has_approver(const struct policy *p, enum risk risk)
{
	const struct config *c = p->config;
	bool takes_two = c->two_person != R_NONE && risk >= c->two_person;
	const char *first = NULL;

	for (size_t i = 0; i < c->approver_count; i++) {
		if (!harp_keys_may(p->approvers, c->approvers[i].name, risk))
			continue;
		if (!takes_two || (first != NULL && strcmp(first, person_of(&c->approvers[i])) != 0))
			return true;
		first = person_of(&c->approvers[i]);
	}
	return false;
}

/* Hashes the configuration file's hash, then name and hash of each declaration. */
static void hash_texts(struct policy *p)
{
	struct buf b = {0};

	buf_add_text(&b, p->config->sha256);
	for (size_t i = 0; i < p->config->capability_count; i++)
		buf_addf(&b, "\n%s %s", p->capabilities[i]->name, p->capabilities[i]->sha256);
	canonical_hash_bytes(b.data, b.size, p->hash);
	buf_fini(&b);
}

/* False: there is no good declaration. Of a broken configuration, the readable parts are checked, too. */
static bool load_capability(struct policy *p, size_t i, bool is_whole, config_say_fn *say, void *ctx)
{
	const struct config_capability *cc = &p->config->capabilities[i];

	if (cc->command != NULL)
		capability_check_command(cc, say, ctx);
	if (is_whole)
		(void)confine_check(cc, say, ctx);
	return cc->declaration != NULL && (p->capabilities[i] = capability_load(cc, say, ctx)) != NULL;
}

struct policy *policy_load(const char *path, config_say_fn *say, void *ctx)
{
	struct policy *p = xcalloc(1, sizeof *p);
	bool is_whole, good;

	p->refs = 1;
	if ((p->config = config_load_partly(path, say, ctx, &is_whole)) == NULL) {
		free(p);
		return NULL;
	}
	capability_check_policy(p->config, say, ctx);
	p->approvers = harp_keys_new();
	good = load_approvers(p->approvers, p->config, say, ctx) && is_whole;
	p->capabilities = xcalloc(p->config->capability_count + 1, sizeof *p->capabilities);
	for (size_t i = 0; i < p->config->capability_count; i++)
		good = load_capability(p, i, is_whole, say, ctx) && good;
	if (is_whole)
		confine_check_state(p->config, say, ctx);
	if (!good) {
		policy_unref(p);
		return NULL;
	}
	hash_texts(p);
	return p;
}

struct policy *policy_ref(struct policy *p)
{
	p->refs++;
	return p;
}

void policy_unref(struct policy *p)
{
	if (p == NULL || --p->refs > 0)
		return;
	for (size_t i = 0; i < p->config->capability_count; i++)
		capability_free(p->capabilities[i]);
	free(p->capabilities);
	harp_keys_free(p->approvers);
	config_free(p->config);
	free(p);
}

const struct capability *policy_find(const struct policy *p, const char *name)
{
	for (size_t i = 0; i < p->config->capability_count; i++)
		if (strcmp(p->capabilities[i]->name, name) == 0)
			return p->capabilities[i];
	return NULL;
}
