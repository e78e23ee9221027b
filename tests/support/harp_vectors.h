/* SPDX-License-Identifier: MIT */
/* harp_vectors.h: texts, hashes and signatures computed elsewhere: by Python's json.dumps (sort_keys, no
 * white space, ensure_ascii=False), hashlib and OpenSSL through python-cryptography, with the private key of
 * RFC 8032's first test. test_harp_vectors.sh does the like anew each time. */
#ifndef HCPD_TESTS_SUPPORT_HARP_VECTORS_H
#define HCPD_TESTS_SUPPORT_HARP_VECTORS_H

#define VECTOR_TASK \
	"{\"capability\":\"anneal\",\"caller_id\":\"alpha\",\"intent\":\"\303\211tuve \342\206\222 80 " \
	"\302\260C \\ud83d" \
	"\\ude00\",\"inputs\":{\"temperature_c\":80.50,\"a\":\"\\\"\\\\\\n\"}}"
#define VECTOR_REASON_1 "/temperature_c > 80: R4"
#define VECTOR_REASON_2 "nobody there: 18:00\342\200\22307:00"
#define VECTOR_REASON_3 "\360\237\224\245 \007\037\177\342\200\250 \"quoted\" \\ / tab\011"
#define VECTOR_ARTIFACT \
	"{\"artifactHash\":\"9612a990dc16526fb37455be7d0a414cbdaedd15b37de1103362497e384f8d36\"," \
	"\"artifactHashAlg\":\"S" \
	"HA-256\",\"artifactType\":\"task.review\",\"createdAt\":\"2026-03-01T10:00:00Z\",\"expiresAt\":" \
	"\"2026-03-01T11" \
	":00:00Z\",\"payload\":{\"caller\":\"alpha\",\"capability\":\"anneal\",\"reasons\":[\"/" \
	"temperature_c > 80: R4\"" \
	",\"nobody there: 18:00\342\200\22307:00\",\"\360\237\224\245 \\u0007\\u001f\177\342\200\250 " \
	"\\\"quoted\\\" \\" \
	"\\ / " \
	"tab\\t\"],\"risk\":\"R4\",\"task\":\"{\\\"capability\\\":\\\"anneal\\\",\\\"caller_id\\\":" \
	"\\\"alpha\\\"," \
	"\\\"intent\\\":\\\"\303\211tuve \342\206\222 80 \302\260C " \
	"\\\\ud83d\\\\ude00\\\",\\\"inputs\\\":{\\\"temperatu" \
	"re_c\\\":80.50,\\\"a\\\":\\\"\\\\\\\"\\\\\\\\\\\\n\\\"}}\",\"taskHash\":" \
	"\"e00fa86680d95e672024955e5c607e279341" \
	"8c1e7b578ce33f746ecdabd6d3bc\"},\"repoRef\":\"hcp:lab/" \
	"anneal\",\"requestId\":\"7c9e6679-7425-40de-944b-e07fc1f" \
	"90ae7\",\"sessionId\":\"11111111-2222-4333-8444-555555555555\"}"
#define VECTOR_HASH "9612a990dc16526fb37455be7d0a414cbdaedd15b37de1103362497e384f8d36"
/* scope session, by key ann-2026 */
#define VECTOR_NONCE "8PHy8_T19vf4-fr7_P3-_w"
#define VECTOR_DECISION \
	"{\"artifactHash\":\"9612a990dc16526fb37455be7d0a414cbdaedd15b37de1103362497e384f8d36\"," \
	"\"artifactHashAlg\":\"S" \
	"HA-256\",\"decision\":\"allow\",\"expiresAt\":\"2026-03-01T10:30:00Z\",\"nonce\":\"8PHy8_T19vf4-" \
	"fr7_P3-_w\",\"" \
	"policyHints\":{\"sessionId\":\"11111111-2222-4333-8444-555555555555\"},\"repoRef\":\"hcp:lab/" \
	"anneal\",\"reques" \
	"tId\":\"7c9e6679-7425-40de-944b-e07fc1f90ae7\",\"scope\":\"session\",\"sigAlg\":\"Ed25519\"," \
	"\"signature\":\"f2" \
	"lnHH-3cL91L6Wc9LkF0k_LDpu5N62-khKwMAC-_1Unu_vf8uVzUTGH1dK2onWavzItHxZXZLfbFEOJHF9NAA\"," \
	"\"signerKeyId\":\"ann-2" \
	"026\"}"
/* the same signature with the group's order added to S: a lax verifier takes it */
#define VECTOR_MALLEABLE \
	"f2lnHH-3cL91L6Wc9LkF0k_LDpu5N62-khKwMAC-_1UUj_E8DUmGqQckzXWVnFSvvzItHxZXZLfbFEOJHF9NEA"
/* hints with everything that is hard to write alike: order, escapes, raw characters, the largest integer */
#define VECTOR_HINTS_SIGNABLE \
	"{\"artifactHash\":\"9612a990dc16526fb37455be7d0a414cbdaedd15b37de1103362497e384f8d36\"," \
	"\"artifactHashAlg\":\"S" \
	"HA-256\",\"decision\":\"allow\",\"expiresAt\":\"2026-03-01T10:30:00Z\",\"nonce\":\"8PHy8_T19vf4-" \
	"fr7_P3-_w\",\"" \
	"policyHints\":{\"\":\"\357\277\276\",\"sessionId\":\"11111111-2222-4333-8444-555555555555\",\"z\":" \
	"{},\"\357" \
	"\275\236\":[null,true,-9007199254740991,{\"\177\":\"\\u0000\\u001f\\b\\f\\n\\r\\t\\\"\\\\/" \
	"\303\251\342\200\250" \
	"\"}],\"\360\237\230\200\":1},\"repoRef\":\"hcp:lab/" \
	"anneal\",\"requestId\":\"7c9e6679-7425-40de-944b-e07fc1f90a" \
	"e7\",\"scope\":\"session\",\"sigAlg\":\"Ed25519\",\"signerKeyId\":\"ann-2026\"}"
#define VECTOR_HINTS \
	"{\012 \"requestId\": \"7c9e6679-7425-40de-944b-e07fc1f90ae7\",\012 \"artifactHash\": " \
	"\"9612a990dc16526fb37455b" \
	"e7d0a414cbdaedd15b37de1103362497e384f8d36\",\012 \"artifactHashAlg\": \"SHA-256\",\012 " \
	"\"repoRef\": \"hcp:lab/" \
	"anneal\",\012 \"decision\": \"allow\",\012 \"scope\": \"session\",\012 \"expiresAt\": " \
	"\"2026-03-01T10:30:00Z\"" \
	",\012 \"nonce\": \"8PHy8_T19vf4-fr7_P3-_w\",\012 \"signerKeyId\": \"ann-2026\",\012 \"sigAlg\": " \
	"\"Ed25519\"," \
	"\012 \"policyHints\": {\012  \"sessionId\": \"11111111-2222-4333-8444-555555555555\",\012  " \
	"\"\\ud83d\\ude00\":" \
	" 1,\012  \"\\uff5e\": [\012   null,\012   true,\012   -9007199254740991,\012   {\012    " \
	"\"\\u007f\": \"\\u0000" \
	"\\u001f\\b\\f\\n\\r\\t\\\"\\\\/\\u00e9\\u2028\"\012   }\012  ],\012  \"z\": {},\012  \"\": " \
	"\"\\ufffe\"\012 }," \
	"\012 \"signature\": " \
	"\"j0F80MfZ2SQrbo0spKCFIhzlyINcTNQTCLSvu1WjWKe1RzjJfmJHolYRkRUGCdqpSiQPG5fTVLjqtU-Mr-srAA\"" \
	"\012}"

#endif
