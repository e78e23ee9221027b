/* SPDX-License-Identifier: MIT */
/* audit_chain.c: computes a row's hash from the hash before it, and finds the faults of rows that do not
 * fit.
 * Owns nothing. Never reads a store: rows come from query, or from a daemon. */
#include "store/audit_chain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "json/text.h"
#include "store/migrations.h"

void audit_genesis(const char *instance, char hex[CANONICAL_HASH_SIZE])
{
	struct buf b = {0};

	buf_addf(&b, "hcpd audit %s", instance);
	canonical_hash_bytes(b.data, b.size, hex);
	buf_fini(&b);
}

void audit_link(
	const char before[CANONICAL_HASH_SIZE], const char *text, size_t size, char hex[CANONICAL_HASH_SIZE])
{
	struct buf b = {0};

	buf_reserve(&b, CANONICAL_HASH_SIZE + size);
	buf_add(&b, before, CANONICAL_HASH_SIZE - 1);
	buf_add(&b, text, size);
	canonical_hash_bytes(b.data, b.size, hex);
	buf_fini(&b);
}

static void __attribute__((format(printf, 3, 4)))
complain(struct audit_check *k, int64_t n, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	k->faults++;
	k->on_fault(k->ctx, n, text);
}

void audit_check_begin(struct audit_check *k, const char *instance, audit_fault_fn *on_fault, void *ctx)
{
	k->count = k->rows = k->faults = 0;
	k->on_fault = on_fault;
	k->ctx = ctx;
	audit_genesis(instance, k->head);
}

void audit_check_table(struct audit_check *k, bool has_table, int64_t triggers)
{
	if (!has_table)
		complain(k, 0, "the table is gone: somebody dropped or renamed it");
	else if (triggers != SCHEMA_AUDIT_TRIGGERS)
		complain(k, 0,
			"the triggers that keep rows from being changed are missing, or are others: somebody "
			"took them away");
}

/* The number that the row's text has; 0: none. */
static int64_t number_of(const char *text, size_t size)
{
	char why[128];
	json_t *row = jtext_parse(text, size, why, sizeof why);
	int64_t n = json_integer_value(json_object_get(row, "n"));

	json_decref(row);
	return n;
}

void audit_check_row(struct audit_check *k, int64_t n, const char *text, size_t size, const char *hash)
{
	long long expected = k->count + 1, says = number_of(text, size), at = n;
	char hex[CANONICAL_HASH_SIZE];

	k->rows++;
	/* not part of the chain: the next row is compared with the row before this one */
	if (at < 1) {
		complain(k, n, "row %lld was put there: rows are numbered from 1 on", at);
		return;
	}
	audit_link(k->head, text, size, hex);
	if (at > expected)
		complain(k, n, at == expected + 1 ? "row %lld is missing" : "rows %lld to %lld are missing",
			expected, at - 1);
	else if (at < expected)
		complain(k, n, "row %lld comes a second time, or late", at);
	if (says != at)
		complain(k, n,
			says > 0 ? "row %lld was put there: it says that it is row %lld" :
				   "row %lld was changed: it is no row of ours",
			at, says);
	else if (at == expected && strcmp(hex, hash) != 0)
		complain(k, n,
			at == 1 ? "row %lld was changed" :
				  "row %lld does not follow from row %lld: one of both was changed",
			at, at - 1);
	if (at == k->noted && strncmp(hash, k->noted_hash, strlen(k->noted_hash)) != 0)
		complain(k, n, "row %lld has not the hash that was noted: the rows up to it were made anew",
			at);
	k->count = n;
	snprintf(k->head, sizeof k->head, "%s", hash);
}

void audit_check_end(struct audit_check *k, int64_t count, const char *head)
{
	long long have = k->count, kept = count, noted = k->noted;

	if (kept < 0)
		complain(k, have, "the store has no record of how many rows there were; %lld are left", have);
	else if (kept > have)
		complain(k, kept, "the end is missing: there were %lld rows, and the last one is row %lld",
			kept, have);
	else if (kept < have)
		complain(k, have, "there are rows up to %lld, and only %lld were ever counted", have, kept);
	else if (strcmp(head, k->head) != 0)
		complain(k, have, "the last row, %lld, has not the hash that the store kept of it", have);
	if (noted > have)
		complain(k, noted,
			"the end is missing: row %lld was noted once, and the last one is row %lld", noted,
			have);
}
