/* SPDX-License-Identifier: MIT */
/* vector.c: HARP's parts as a filter, so that a script can hold them against other implementations.
 *
 *	canon                                   a line of JSON in, its canonical form or the refusal's code
 *	out
 *	keygen FILE                             the public half
 *	review                                  the task's text in, the artifact out
 *	decide FILE KEY-ID allow|deny SCOPE     an artifact in, the signed decision out; lasts ten minutes
 *	verify LINE KEY-ID ARTIFACT-FILE        a decision in, OK or the refusal's code out
 *
 * Owns nothing: what it prints is the module's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "harp/harp_private.h"
#include "base/id.h"

static char why[512];

static int fail(enum harp_code code)
{
	printf("%s\n", harp_code_name(code));
	fprintf(stderr, "%s\n", why);
	return 1;
}

static void read_all(FILE *f, struct buf *b)
{
	char part[4096];
	size_t n;

	while ((n = fread(part, 1, sizeof part, f)) > 0)
		buf_add(b, part, n);
}

static void print(struct buf *b)
{
	fwrite(b->data, 1, b->size, stdout);
	putchar('\n');
	buf_clear(b);
}

static int canon(void)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;

	while ((n = getline(&line, &room, stdin)) > 0) {
		struct buf b = {0};
		json_t *o = NULL;
		enum harp_code code = harp_parse(line, (size_t)n, HARP_ARTIFACT_MAX, &o, why, sizeof why);

		if (code == HARP_OK)
			harp_add_signable(&b, o, NULL);
		else
			buf_add_text(&b, harp_code_name(code));
		print(&b);
		buf_fini(&b);
		json_decref(o);
	}
	free(line);
	return 0;
}

static int review(struct buf *in)
{
	static const char *const reasons[] = {"a \"reason\"\n", "\xf0\x9f\x94\xa5 \x7f"};
	char request[ID_SIZE], session[ID_SIZE], hash[HARP_HASH_SIZE];
	struct harp_review r = {.request_id = request,
		.session_id = session,
		.callee_id = "lab",
		.capability = "anneal",
		.caller_id = "alpha",
		.risk = R4,
		.reasons = reasons,
		.reason_count = 2,
		.task = in->data,
		.task_size = in->size,
		.created_us = clock_wall_us(),
		.expires_us = clock_wall_us() + INT64_C(600000000)};
	struct buf b = {0};
	enum harp_code code;

	id_make(request);
	id_make(session);
	if ((code = harp_build_review(&r, &b, hash, why, sizeof why)) != HARP_OK)
		return fail(code);
	print(&b);
	buf_fini(&b);
	return 0;
}

static int decide(struct buf *in, char **arg)
{
	struct harp_private *key = harp_key_load(arg[0], why, sizeof why);
	struct harp_artifact *a = NULL;
	unsigned char random[16];
	char nonce[HARP_NONCE_SIZE];
	struct buf b = {0};
	enum harp_code code;

	if (key == NULL)
		return fail(HARP_SIGNATURE_INVALID);
	id_random(random, sizeof random);
	harp_nonce(random, nonce);
	if ((code = harp_read_artifact(in->data, in->size, &a, why, sizeof why)) == HARP_OK) {
		struct harp_answer answer = {.allow = strcmp(arg[2], "allow") == 0,
			.scope = (enum harp_scope)harp_scope_parse(arg[3]),
			.expires_us = clock_wall_us() + INT64_C(600000000),
			.nonce = nonce,
			.signer_key_id = arg[1]};

		code = harp_sign(a, &answer, key, &b, why, sizeof why);
	}
	if (code == HARP_OK)
		print(&b);
	buf_fini(&b);
	harp_artifact_free(a);
	harp_key_free(key);
	return code == HARP_OK ? 0 : fail(code);
}

static bool is_unused(void *ctx, const char *a, const char *b)
{
	(void)ctx, (void)a, (void)b;
	return false;
}

static int verify(struct buf *in, char **arg)
{
	struct harp_keys *keys = harp_keys_new();
	struct harp_case c = {
		.keys = keys, .lookups = {is_unused, is_unused, NULL}, .now_us = clock_wall_us()};
	struct harp_key key = {arg[1], NULL, arg[0], R5, false};
	struct harp_artifact *a = NULL;
	struct harp_decision *d = NULL;
	struct harp_accepted accepted;
	struct buf b = {0};
	FILE *f = fopen(arg[2], "r");
	enum harp_code code = HARP_UNSUPPORTED;

	if (f == NULL || harp_keys_add(keys, &key, why, sizeof why) < 0)
		return fail(code);
	read_all(f, &b);
	fclose(f);
	if ((code = harp_read_artifact(b.data, b.size, &a, why, sizeof why)) == HARP_OK &&
		(code = harp_read_decision(in->data, in->size, &d, why, sizeof why)) == HARP_OK) {
		c.artifact = a;
		code = harp_verify(d, &c, &accepted, why, sizeof why);
	}
	harp_decision_free(d);
	harp_artifact_free(a);
	harp_keys_free(keys);
	buf_fini(&b);
	return code == HARP_OK ? puts("OK") < 0 : fail(code);
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	char line[HARP_PUBLIC_SIZE];
	struct buf in = {0};
	int rc = 2;

	if (strcmp(verb, "canon") == 0 && argc == 2)
		return canon();
	if (strcmp(verb, "keygen") == 0 && argc == 3) {
		if (harp_key_make(argv[2], line, why, sizeof why) == 0)
			return puts(line) < 0;
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	read_all(stdin, &in);
	if (strcmp(verb, "review") == 0 && argc == 2)
		rc = review(&in);
	else if (strcmp(verb, "decide") == 0 && argc == 6)
		rc = decide(&in, argv + 2);
	else if (strcmp(verb, "verify") == 0 && argc == 5)
		rc = verify(&in, argv + 2);
	buf_fini(&in);
	return rc;
}
