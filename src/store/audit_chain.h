/* SPDX-License-Identifier: MIT */
/* audit_chain.h: the arithmetic of the audit's chain, and its verification. Pure: no store, no core. */
#ifndef HCPD_STORE_AUDIT_CHAIN_H
#define HCPD_STORE_AUDIT_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/canonical.h"

/* The hash that stands before the first row. */
void audit_genesis(const char *instance, char hex[CANONICAL_HASH_SIZE]);
/* A row's hash: SHA-256 over the hash before it, as hex, and the row's text. hex may be before. */
void audit_link(
	const char before[CANONICAL_HASH_SIZE], const char *text, size_t size, char hex[CANONICAL_HASH_SIZE]);

/* Rows are handed in by their number; each fault is a sentence. After a fault the check continues from the
 * hash that the row itself has, so that one change gives one or two faults, and not one for each later
 * row. */
typedef void audit_fault_fn(void *ctx, int64_t n, const char *text);

struct audit_check {
	int64_t count;                  /* the greatest number so far ... */
	char head[CANONICAL_HASH_SIZE]; /* ... and that row's hash, as it is stored */
	int64_t rows, faults;
	int64_t noted; /* number and hash of a row that the operator wrote down earlier; 0: none */
	char noted_hash[CANONICAL_HASH_SIZE];
	audit_fault_fn *on_fault;
	void *ctx;
};

void audit_check_begin(struct audit_check *k, const char *instance, audit_fault_fn *on_fault, void *ctx);
/* Is the table there, and how many of its triggers are? */
void audit_check_table(struct audit_check *k, bool has_table, int64_t triggers);
void audit_check_row(struct audit_check *k, int64_t n, const char *text, size_t size, const char *hash);
/* After the last row: the end of the chain as the store keeps it; count -1 where it has none. */
void audit_check_end(struct audit_check *k, int64_t count, const char *head);

#endif
