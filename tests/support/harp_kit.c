/* SPDX-License-Identifier: MIT */
/* harp_kit.c: what harp_kit.h declares. */
#include "support/harp_kit.h"

const struct rfc8032 rfc8032[4] = {
	{"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
		"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
		"e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9"
		"b46bd25bf5f0595bbe24"
		"655141438e7a100b"},
	{"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
		"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
		"92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f1"
		"1d8c387b2eaeb4302aee"
		"b00d291612bb0c00"},
	{"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
		"fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
		"6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984d"
		"c6594a7c15e9716ed28d"
		"c027beceea1ec40a"},
	{"833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
		"ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
		"ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3fe"
		"ebbd454d4423643ce80e"
		"2a9ac94fa54ca49f",
		"dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431"
		"e0303dca179c138ac17a"
		"d9bef1177331a704"},
};

size_t harp_kit_unhex(const char *hex, unsigned char *out)
{
	size_t n = strlen(hex) / 2;

	for (size_t i = 0; i < n; i++) {
		char two[3] = {hex[2 * i], hex[2 * i + 1], '\0'};

		out[i] = (unsigned char)strtoul(two, NULL, 16);
	}
	return n;
}

struct harp_private *harp_kit_key(int i)
{
	struct harp_private *k = calloc(1, sizeof *k);
	unsigned char bytes[32];

	harp_kit_unhex(rfc8032[i].private_key, bytes);
	k->pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, bytes, sizeof bytes);
	ck_assert(k->pkey != NULL);
	return k;
}

char *harp_kit_quoted(const char *text)
{
	char *copy = xstrdup(text);

	for (char *p = copy; *p != '\0'; p++)
		if (*p == '\'')
			*p = '"';
	return copy;
}

json_t *harp_kit_parse(const char *text)
{
	json_error_t e;
	json_t *v = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);

	ck_assert_msg(v != NULL, "%s: %s", text, e.text);
	return v;
}

void harp_kit_change(json_t *o, const char *field, const char *value)
{
	const char *dot = strchr(field, '.');
	char *quoted = value != NULL ? harp_kit_quoted(value) : NULL, outer[64];

	if (dot != NULL) {
		snprintf(outer, sizeof outer, "%.*s", (int)(dot - field), field);
		if (json_object_get(o, outer) == NULL)
			json_object_set_new(o, outer, json_object());
		o = json_object_get(o, outer);
		field = dot + 1;
	}
	if (value == NULL)
		ck_assert(json_object_del(o, field) == 0);
	else
		ck_assert(json_object_set_new(o, field, harp_kit_parse(quoted)) == 0);
	free(quoted);
}

void harp_kit_rehash(json_t *artifact)
{
	json_t *payload = json_object_get(artifact, "payload"), *task = json_object_get(payload, "task");
	char hex[HARP_HASH_SIZE];
	struct buf b = {0};

	if (json_is_string(task) && json_object_get(payload, "taskHash") != NULL) {
		harp_hash(json_string_value(task), json_string_length(task), hex);
		json_object_set_new(payload, "taskHash", json_string(hex));
	}
	harp_add_signable(&b, artifact, "artifactHash");
	harp_hash(b.data, b.size, hex);
	json_object_set_new(artifact, "artifactHash", json_string(hex));
	buf_fini(&b);
}

void harp_kit_resign(json_t *decision, const struct harp_private *key)
{
	unsigned char signature[HARP_SIGNATURE_BYTES];
	char text[HARP_BASE64_SIZE(HARP_SIGNATURE_BYTES)];
	struct buf b = {0};

	harp_add_signable(&b, decision, "signature");
	ck_assert(harp_ed25519_sign(key, b.data, b.size, signature));
	harp_base64_encode(signature, sizeof signature, text);
	json_object_set_new(decision, "signature", json_string(text));
	buf_fini(&b);
}

struct harp_artifact *harp_kit_artifact(json_t *o)
{
	char *text = json_dumps(o, JSON_ENCODE_ANY), why[256] = "";
	struct harp_artifact *a = NULL;
	enum harp_code code = harp_read_artifact(text, strlen(text), &a, why, sizeof why);

	ck_assert_msg(code == HARP_OK, "%s: %s", harp_code_name(code), why);
	free(text);
	return a;
}

void harp_kit_expect(enum harp_code is, enum harp_code expected, const char *what, const char *why)
{
	ck_assert_msg(is == expected, "%s: %s instead of %s (%s)", what, harp_code_name(is),
		harp_code_name(expected), why);
	ck_assert_msg((is == HARP_OK) == (why[0] == '\0'), "%s: a refusal, and only a refusal, says why: %s",
		what, why);
}

int harp_kit_run(Suite *s)
{
	SRunner *r = srunner_create(s);
	int failed;

	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
