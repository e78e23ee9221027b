/* SPDX-License-Identifier: MIT */
/* test_harp_json.c: what is signed has one form, the same everywhere, or is refused; and Ed25519 is RFC
 * 8032's. */
#include "support/harp_kit.h"

static char why[256];

/* ---- canonical form ---- */

static const struct {
	const char *text, *form;
} forms[] = {
	{" { } \n", "{}"}, {"{\"b\":[1 , 2],\"a\":{}}", "{\"a\":{},\"b\":[1,2]}"},
	{"{\"aa\":1,\"a\":2,\"\":3,\"B\":4}", "{\"\":3,\"B\":4,\"a\":2,\"aa\":1}"},
	/* U+FF5E before U+1F600: by code point, though not by UTF-16's units */
	{"{\"\\ud83d\\ude00\":1,\"\\uff5e\":2,\"z\":3}",
		"{\"z\":3,\"\xef\xbd\x9e\":2,\"\xf0\x9f\x98\x80\":1}"},
	{"{\"a\":\"\\u00e9\\u2028\\u007F\\/\"}", "{\"a\":\"\xc3\xa9\xe2\x80\xa8\x7f/\"}"},
	{"{\"a\":\"\\u001F\\u0000\\u000B\"}", "{\"a\":\"\\u001f\\u0000\\u000b\"}"},
	{"{\"a\":\"\\u0008\\u0009\\u000A\\u000C\\u000d\\u0022\\u005c\"}",
		"{\"a\":\"\\b\\t\\n\\f\\r\\\"\\\\\"}"},
	{"{\"a\":[9007199254740991,-9007199254740991,-0,0]}",
		"{\"a\":[9007199254740991,-9007199254740991,0,0]}"},
	{"{\"a\":[true,false,null]}", "{\"a\":[true,false,null]}"},
	{"{\"e\\u0301\":1,\"\\u00e9\":2}", "{\"e\xcc\x81\":1,\"\xc3\xa9\":2}"}, /* nothing is normalized */
};

START_TEST(json_that_may_be_signed_has_the_form_that_python_writes) /* proves HC-01 */
{
	struct buf b = {0};
	json_t *o = NULL;

	why[0] = '\0';
	harp_kit_expect(harp_parse(forms[_i].text, strlen(forms[_i].text), 1000, &o, why, sizeof why),
		HARP_OK, forms[_i].text, why);
	harp_add_signable(&b, o, NULL);
	ck_assert_str_eq(buf_text(&b), forms[_i].form);
	json_decref(o);
	buf_fini(&b);
}
END_TEST

static const struct {
	const char *what, *text;
	size_t size; /* 0: strlen */
} refused[] = {
	{"nothing", "", 0},
	{"white space", " \n", 0},
	{"no object", "[1]", 0},
	{"a bare string", "\"a\"", 0},
	{"something behind it", "{} {}", 0},
	{"a byte order mark", "\xef\xbb\xbf{}", 0},
	{"cut", "{\"a\":1", 0},
	{"a comma too many", "{\"a\":1,}", 0},
	{"a comment", "{/**/}", 0},
	{"single quotes", "{'a':1}", 0},
	{"a key twice", "{\"a\":1,\"a\":1}", 0},
	{"a key twice, once escaped", "{\"a\":1,\"\\u0061\":1}", 0},
	{"a key twice, inside", "{\"b\":[{\"a\":1,\"a\":2}]}", 0},
	{"a real", "{\"a\":1.5}", 0},
	{"a real that is whole", "{\"a\":1.0}", 0},
	{"an exponent", "{\"a\":1e2}", 0},
	{"a real, deep inside", "{\"a\":[[{\"b\":[0.1]}]]}", 0},
	{"minus zero as a real", "{\"a\":-0.0}", 0},
	{"2^53", "{\"a\":9007199254740992}", 0},
	{"-2^53", "{\"a\":-9007199254740992}", 0},
	{"2^53, deep inside", "{\"a\":[[{\"b\":[9007199254740992]}]]}", 0},
	{"the largest of 64 bits", "{\"a\":9223372036854775807}", 0},
	{"more than 64 bits", "{\"a\":9223372036854775808}", 0},
	{"infinity", "{\"a\":1e999}", 0},
	{"not a number", "{\"a\":NaN}", 0},
	{"a number with a plus", "{\"a\":+1}", 0},
	{"a number with a zero before it", "{\"a\":01}", 0},
	{"a high surrogate alone", "{\"a\":\"\\ud83d\"}", 0},
	{"a high surrogate and a letter", "{\"a\":\"\\ud83dx\"}", 0},
	{"two high surrogates", "{\"a\":\"\\ud83d\\ud83d\"}", 0},
	{"a low surrogate alone", "{\"a\":\"\\ude00\"}", 0},
	{"a lone surrogate in a key", "{\"\\ude00\":1}", 0},
	{"a surrogate in UTF-8", "{\"a\":\"\xed\xa0\xbd\"}", 0},
	{"an overlong character", "{\"a\":\"\xc0\xaf\"}", 0},
	{"a cut character", "{\"a\":\"\xe2\x82\"}", 0},
	{"a byte of Latin-1", "{\"a\":\"\xe9\"}", 0},
	{"above U+10FFFF", "{\"a\":\"\xf4\x90\x80\x80\"}", 0},
	{"a raw control character", "{\"a\":\"\x01\"}", 0},
	{"a raw newline", "{\"a\":\"\n\"}", 0},
	{"a raw NUL", "{\"a\":\"\0\"}", 9},
	{"a raw NUL behind a number", "{\"a\":1\0}", 8},
	{"a raw NUL behind a literal", "{\"a\":true\0}", 11},
	{"a raw NUL behind it all", "{\"a\":1}\0", 8},
	{"U+0000 in a key", "{\"a\\u0000b\":1}", 0},
	{"an unknown escape", "{\"a\":\"\\x41\"}", 0},
};

START_TEST(json_without_one_form_is_refused) /* proves HC-01 */
{
	size_t size = refused[_i].size != 0 ? refused[_i].size : strlen(refused[_i].text);
	json_t *o = NULL;

	why[0] = '\0';
	harp_kit_expect(harp_parse(refused[_i].text, size, 1000, &o, why, sizeof why), HARP_CANONICALIZATION,
		refused[_i].what, why);
	ck_assert(o == NULL);
}
END_TEST

static enum harp_code parse_deep(int depth)
{
	struct buf b = {0};
	enum harp_code code;
	json_t *o = NULL;

	buf_add_text(&b, "{\"a\":");
	for (int i = 1; i < depth; i++)
		buf_add_text(&b, "[");
	buf_add_text(&b, "1");
	for (int i = 1; i < depth; i++)
		buf_add_text(&b, "]");
	buf_add_text(&b, "}");
	code = harp_parse(b.data, b.size, 1u << 20, &o, why, sizeof why);
	json_decref(o);
	buf_fini(&b);
	return code;
}

START_TEST(depth_and_length_have_a_bound)
{
	json_t *o = NULL;

	ck_assert(parse_deep(HARP_DEPTH_MAX) == HARP_OK);
	ck_assert(parse_deep(HARP_DEPTH_MAX + 1) == HARP_CANONICALIZATION);
	ck_assert(parse_deep(100000) == HARP_CANONICALIZATION);
	ck_assert(harp_parse("{\"a\":1}", 7, 6, &o, why, sizeof why) == HARP_CANONICALIZATION);
	ck_assert(harp_parse("{\"a\":1}", 7, 7, &o, why, sizeof why) == HARP_OK);
	json_decref(o);
}
END_TEST

/* The first of the two vectors that HARP-CORE 0.2 itself gives, its fields in another order than the
 * canonical one. */
START_TEST(the_specification_s_artifact_has_the_specification_s_hash) /* proves HC-01 */
{
	char *text = harp_kit_quoted(
		"{'requestId':'01J2V8V3K6B2Z9X6G1V7Y2QK8H','sessionId':'01J2V8V3M2YF0KX9Q0Z7E6H9R1',"
		"'artifactType':'plan.review','repoRef':'repo:acme/widgets','baseRevision':"
		"'9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08','createdAt':'2026-02-"
		"21T12:00:00Z',"
		"'expiresAt':'2026-02-21T12:10:00Z','payload':{'kind':'plan','title':'Refactor "
		"Parser','steps':['Extract tokenizer',"
		"'Add unit tests','Replace recursive descent with Pratt "
		"parser'],'risk':'medium'},'artifactHashAlg':'SHA-256',"
		"'artifactHash':'ignored'}");
	char hex[HARP_HASH_SIZE];
	struct buf b = {0};
	json_t *o = NULL;

	ck_assert(harp_parse(text, strlen(text), 10000, &o, why, sizeof why) == HARP_OK);
	harp_add_signable(&b, o, "artifactHash");
	harp_hash(b.data, b.size, hex);
	ck_assert_str_eq(hex, "8e326e1f69e5859a3b5b12965f06b5829f09b12d1748aa2fddb609fb44f831c1");
	ck_assert_msg(json_object_get(o, "artifactHash") != NULL, "the object itself stays as it is");
	json_decref(o);
	buf_fini(&b);
	free(text);
}
END_TEST

/* ---- base64url ---- */

static const struct {
	const char *bytes, *text;
} encoded[] = {
	{"", ""},
	{"f", "Zg"},
	{"fo", "Zm8"},
	{"foo", "Zm9v"},
	{"foob", "Zm9vYg"},
	{"fooba", "Zm9vYmE"},
	{"foobar", "Zm9vYmFy"},
	{"\xff\xff\xfe", "___-"},
	{"\xfb\xef\xbe", "----"},
};

START_TEST(base64url_is_rfc_4648_s_without_padding)
{
	size_t size = strlen(encoded[_i].bytes);
	char text[32];
	unsigned char bytes[32];

	harp_base64_encode((const unsigned char *)encoded[_i].bytes, size, text);
	ck_assert_str_eq(text, encoded[_i].text);
	ck_assert(harp_base64_decode(text, strlen(text), bytes, size));
	ck_assert_mem_eq(bytes, encoded[_i].bytes, size);
}
END_TEST

static const struct {
	const char *what, *text;
	size_t text_size, size;
} not_encoded[] = {
	{"padded", "Zg==", 4, 1},
	{"bits left over", "Zh", 2, 1},
	{"bits left over", "Zm9", 3, 2},
	{"all bits left over", "Z_", 2, 1},
	{"the alphabet of base64", "//++", 4, 3},
	{"white space", "Zm9 ", 4, 3},
	{"a newline behind it", "Zm9v\n", 5, 3},
	{"a NUL", "Zm\0v", 4, 3},
	{"not ASCII", "Zm\xc3\xa9", 4, 3},
	{"too short", "Zm8", 3, 3},
	{"too long", "Zm9vYg", 6, 3},
	{"one character", "Z", 1, 0},
	{"nothing", "", 0, 1},
};

START_TEST(base64url_has_one_text_for_the_same_bytes)
{
	unsigned char bytes[32];

	ck_assert_msg(!harp_base64_decode(
			      not_encoded[_i].text, not_encoded[_i].text_size, bytes, not_encoded[_i].size),
		"%s", not_encoded[_i].what);
}
END_TEST

/* ---- Ed25519 ---- */

START_TEST(signatures_are_those_of_rfc_8032)
{
	unsigned char public_key[32], message[128], expected[64], signature[64];
	struct harp_private *key = harp_kit_key(_i);
	size_t size = harp_kit_unhex(rfc8032[_i].message, message);
	char line[HARP_PUBLIC_SIZE], again[HARP_PUBLIC_SIZE];

	harp_kit_unhex(rfc8032[_i].public_key, public_key);
	harp_kit_unhex(rfc8032[_i].signature, expected);
	ck_assert(harp_ed25519_sign(key, message, size, signature));
	ck_assert_mem_eq(signature, expected, sizeof expected);
	ck_assert(harp_ed25519_verify(public_key, message, size, signature));
	harp_key_public(key, line);
	harp_public_format(public_key, again);
	ck_assert_str_eq(line, again);
	harp_key_free(key);
}
END_TEST

START_TEST(signature_is_void_after_one_changed_bit_anywhere)
{
	unsigned char public_key[32], message[128], signature[64];
	size_t size = harp_kit_unhex(rfc8032[3].message, message);

	harp_kit_unhex(rfc8032[3].public_key, public_key);
	harp_kit_unhex(rfc8032[3].signature, signature);
	for (size_t i = 0; i < 8 * sizeof signature; i++) {
		signature[i / 8] ^= (unsigned char)(1 << i % 8);
		ck_assert_msg(
			!harp_ed25519_verify(public_key, message, size, signature), "signature, bit %zu", i);
		signature[i / 8] ^= (unsigned char)(1 << i % 8);
	}
	for (size_t i = 0; i < 8 * size; i++) {
		message[i / 8] ^= (unsigned char)(1 << i % 8);
		ck_assert_msg(
			!harp_ed25519_verify(public_key, message, size, signature), "message, bit %zu", i);
		message[i / 8] ^= (unsigned char)(1 << i % 8);
	}
	ck_assert(!harp_ed25519_verify(public_key, message, size - 1, signature));
	ck_assert(harp_ed25519_verify(public_key, message, size, signature));
}
END_TEST

/* With the neutral point as public key, R = B and S = 1 "sign" everything: libcrypto alone would take it. */
START_TEST(a_key_that_anybody_can_sign_for_is_known_as_such)
{
	static const char *const weak[] = {
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0000000000000000000000000000000000000000000000000000000000000080",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000080",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	};
	unsigned char key[32], forged[64] = {0};

	for (int i = 0; i < COUNT(weak); i++) {
		harp_kit_unhex(weak[i], key);
		ck_assert_msg(harp_ed25519_is_weak(key), "%s", weak[i]);
	}
	for (int i = 0; i < COUNT(rfc8032); i++) {
		harp_kit_unhex(rfc8032[i].public_key, key);
		ck_assert(!harp_ed25519_is_weak(key));
	}
	harp_kit_unhex(weak[2], key);
	harp_kit_unhex("5866666666666666666666666666666666666666666666666666666666666666", forged);
	forged[32] = 1;
	ck_assert_msg(harp_ed25519_verify(key, "anything", 8, forged), "then the table is no longer needed");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("harp_json");
	TCase *t = tcase_create("harp_json");

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, json_that_may_be_signed_has_the_form_that_python_writes, 0, COUNT(forms));
	tcase_add_loop_test(t, json_without_one_form_is_refused, 0, COUNT(refused));
	tcase_add_test(t, depth_and_length_have_a_bound);
	tcase_add_test(t, the_specification_s_artifact_has_the_specification_s_hash);
	tcase_add_loop_test(t, base64url_is_rfc_4648_s_without_padding, 0, COUNT(encoded));
	tcase_add_loop_test(t, base64url_has_one_text_for_the_same_bytes, 0, COUNT(not_encoded));
	tcase_add_loop_test(t, signatures_are_those_of_rfc_8032, 0, COUNT(rfc8032));
	tcase_add_test(t, signature_is_void_after_one_changed_bit_anywhere);
	tcase_add_test(t, a_key_that_anybody_can_sign_for_is_known_as_such);
	return harp_kit_run(s);
}
