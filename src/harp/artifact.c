/* SPDX-License-Identifier: MIT */
/* artifact.c: `task.review`: a task as the object that a human decides on, and back.
 * Owns the fields of artifacts and of hcpd's payload. Never decides anything. */
#include "harp/harp_private.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/message.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const struct harp_field artifact_fields[] = {
	{"requestId", FORM_ID, false, NULL},
	{"sessionId", FORM_ID, true, NULL},
	{"artifactType", FORM_CONST, false, "task.review"},
	{"repoRef", FORM_WORD, false, NULL},
	{"baseRevision", FORM_WORD, true, NULL},
	{"createdAt", FORM_TIME, false, NULL},
	{"expiresAt", FORM_TIME, false, NULL},
	{"payload", FORM_OBJECT, false, NULL},
	{"artifactHashAlg", FORM_CONST, false, "SHA-256"},
	{"artifactHash", FORM_WORD, false, NULL},
	{"metadata", FORM_OBJECT, true, NULL},
	{"extensions", FORM_OBJECT, true, NULL},
};

static const struct harp_field payload_fields[] = {
	{"caller", FORM_WORD, false, NULL},
	{"capability", FORM_WORD, false, NULL},
	{"reasons", FORM_STRINGS, false, NULL},
	{"risk", FORM_WORD, false, NULL},
	{"task", FORM_TEXT, false, NULL},
	{"taskHash", FORM_WORD, false, NULL},
};

static enum risk risk_of(const char *name)
{
	int i = name_find(risk_names, name);

	return i > 0 ? (enum risk)i : R_NONE;
}

/* Checks both tables, in the order in which a reader meets the fields. */
static enum harp_code check_form(json_t *o, char *why, size_t why_size)
{
	json_t *payload = json_object_get(o, "payload");
	enum harp_code code =
		harp_check_fields(o, artifact_fields, COUNT(artifact_fields), "artifact", why, why_size);

	if (code == HARP_OK)
		code = harp_check_fields(
			payload, payload_fields, COUNT(payload_fields), "payload", why, why_size);
	if (code == HARP_OK && risk_of(harp_text_of(payload, "risk")) == R_NONE)
		return harp_refuse(why, why_size, HARP_UNSUPPORTED, "payload: risk is none of R1 to R5");
	return code;
}

static void hash_artifact(json_t *o, char hash[HARP_HASH_SIZE])
{
	struct buf b = {0};

	harp_add_signable(&b, o, "artifactHash");
	harp_hash(b.data, b.size, hash);
	buf_fini(&b);
}

/* --- building --- */

static json_t *strings_of(const char *const *texts, size_t count)
{
	json_t *a = json_array();

	for (size_t i = 0; a != NULL && i < count; i++) {
		if (json_array_append_new(a, json_string(texts[i])) < 0) {
			json_decref(a);
			return NULL;
		}
	}
	return a;
}

/* NULL where a text is not UTF-8: jansson makes no such string. */
static json_t *payload_of(const struct harp_review *r)
{
	char hash[HARP_HASH_SIZE];
	json_t *reasons = strings_of(r->reasons, r->reason_count);

	if (reasons == NULL)
		return NULL;
	harp_hash(r->task, r->task_size, hash);
	return json_pack("{s:s, s:s, s:o, s:s, s:o, s:s}", "caller", r->caller_id, "capability",
		r->capability, "reasons", reasons, "risk", risk_names[r->risk], "task",
		json_stringn(r->task, r->task_size), "taskHash", hash);
}

static json_t *artifact_of(const struct harp_review *r)
{
	char created[HARP_TIME_SIZE], expires[HARP_TIME_SIZE];
	json_t *payload = payload_of(r), *o;
	struct buf repo = {0};

	if (payload == NULL)
		return NULL;
	harp_format_time(r->created_us, created);
	harp_format_time(r->expires_us, expires);
	buf_addf(&repo, "hcp:%s/%s", r->callee_id, r->capability);
	o = json_pack("{s:s, s:s*, s:s, s:s, s:s, s:s, s:o, s:s}", "requestId", r->request_id, "sessionId",
		r->session_id, "artifactType", "task.review", "repoRef", buf_text(&repo), "createdAt",
		created, "expiresAt", expires, "payload", payload, "artifactHashAlg", "SHA-256");
	buf_fini(&repo);
	return o;
}

enum harp_code harp_build_review(
	const struct harp_review *r, struct buf *text, char hash[HARP_HASH_SIZE], char *why, size_t why_size)
{
	json_t *o = artifact_of(r);
	char made[HARP_HASH_SIZE];
	struct buf b = {0};
	enum harp_code code;

	if (o == NULL)
		return harp_refuse(why, why_size, HARP_CANONICALIZATION, "a text of the task is not UTF-8");
	hash_artifact(o, made);
	if (json_object_set_new(o, "artifactHash", json_string(made)) < 0)
		abort();
	/* Reads the artifact back: an artifact that harp_read_artifact would refuse is not given out. */
	if ((code = check_form(o, why, why_size)) == HARP_OK) {
		harp_add_signable(&b, o, NULL);
		if (b.size > HARP_ARTIFACT_MAX) {
			code = harp_refuse(why, why_size, HARP_CANONICALIZATION, "longer than %u bytes",
				HARP_ARTIFACT_MAX);
		} else {
			buf_add(text, b.data, b.size);
			memcpy(hash, made, HARP_HASH_SIZE);
		}
	}
	buf_fini(&b);
	json_decref(o);
	return code;
}

/* --- reading --- */

static char *copy_of(const json_t *o, const char *name)
{
	const char *text = harp_text_of(o, name);

	return text != NULL ? xstrdup(text) : NULL;
}

static struct harp_artifact *take_fields(json_t *o)
{
	struct harp_artifact *a = xcalloc(1, sizeof *a);
	json_t *payload = json_object_get(o, "payload"), *reasons = json_object_get(payload, "reasons");

	a->request_id = copy_of(o, "requestId");
	a->session_id = copy_of(o, "sessionId");
	a->repo_ref = copy_of(o, "repoRef");
	harp_parse_time(harp_text_of(o, "createdAt"), &a->created_us);
	harp_parse_time(harp_text_of(o, "expiresAt"), &a->expires_us);
	a->caller = copy_of(payload, "caller");
	a->capability = copy_of(payload, "capability");
	a->task = copy_of(payload, "task");
	a->risk = risk_of(harp_text_of(payload, "risk"));
	a->reasons = xcalloc(json_array_size(reasons) + 1, sizeof *a->reasons);
	for (size_t i = 0; i < json_array_size(reasons); i++)
		a->reasons[a->reason_count++] = xstrdup(json_string_value(json_array_get(reasons, i)));
	return a;
}

static enum harp_code check_hashes(json_t *o, char hash[HARP_HASH_SIZE], char *why, size_t why_size)
{
	json_t *payload = json_object_get(o, "payload"), *task = json_object_get(payload, "task");
	char task_hash[HARP_HASH_SIZE];

	hash_artifact(o, hash);
	if (strcmp(hash, harp_text_of(o, "artifactHash")) != 0)
		return harp_refuse(why, why_size, HARP_HASH_MISMATCH, "the artifact's hash is %s", hash);
	harp_hash(json_string_value(task), json_string_length(task), task_hash);
	if (strcmp(task_hash, harp_text_of(payload, "taskHash")) != 0)
		return harp_refuse(why, why_size, HARP_HASH_MISMATCH, "the task's hash is %s", task_hash);
	return HARP_OK;
}

enum harp_code harp_read_artifact(
	const char *text, size_t size, struct harp_artifact **artifact, char *why, size_t why_size)
{
	char hash[HARP_HASH_SIZE];
	enum harp_code code;
	json_t *o;

	if ((code = harp_parse(text, size, HARP_ARTIFACT_MAX, &o, why, why_size)) != HARP_OK)
		return code;
	if ((code = check_form(o, why, why_size)) == HARP_OK)
		code = check_hashes(o, hash, why, why_size);
	if (code == HARP_OK) {
		*artifact = take_fields(o);
		memcpy((*artifact)->hash, hash, sizeof hash);
	}
	json_decref(o);
	return code;
}

void harp_artifact_free(struct harp_artifact *a)
{
	if (a == NULL)
		return;
	for (size_t i = 0; i < a->reason_count; i++)
		free(a->reasons[i]);
	free(a->reasons);
	free(a->request_id);
	free(a->session_id);
	free(a->repo_ref);
	free(a->caller);
	free(a->capability);
	free(a->task);
	free(a);
}
