/* audit_chain.h: the arithmetic of the audit's chain, and its verification. Pure: no store, no core. */
#ifndef HCPD_AUDIT_CHAIN_H
#define HCPD_AUDIT_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/canonical.h"

/* The hash that stands before the first row. */
void audit_genesis(const char *instance, char hex[CANON_HASH_SIZE]);
/* A row's hash: SHA-256 over the hash before it, as hex, and the row's text. hex may be before. */
void audit_link(const char before[CANON_HASH_SIZE], const char *text, size_t size, char hex[CANON_HASH_SIZE]);

/* Rows are handed in by their number; each fault is a sentence. After a fault the check goes on from what the
 * row itself says its hash is, so that one change is one or two faults, not as many as there are rows behind
 * it. */
typedef void audit_fault_fn(void *ctx, int64_t n, const char *text);

struct audit_check {
	int64_t count;              /* the greatest number so far ... */
	char head[CANON_HASH_SIZE]; /* ... and that row's hash, as it is stored */
	int64_t rows, faults;
	int64_t noted; /* a row's number and hash that somebody noted once; 0: none */
	char noted_hash[CANON_HASH_SIZE];
	audit_fault_fn *on_fault;
	void *ctx;
};

void audit_check_begin(struct audit_check *k, const char *instance, audit_fault_fn *on_fault, void *ctx);
/* Is the table there, and how many of its triggers? */
void audit_check_table(struct audit_check *k, bool has_table, int64_t triggers);
void audit_check_row(struct audit_check *k, int64_t n, const char *text, size_t size, const char *hash);
/* After the last row: what the store has kept of the chain's end, count -1 where it has nothing. */
void audit_check_end(struct audit_check *k, int64_t count, const char *head);

#endif
