/* SPDX-License-Identifier: MIT */
/* checkpoint_restore.h: the text of a stored checkpoint: unpacked and verified. Pure: rows in, text out; no
 * store. */
#ifndef HCPD_STORE_CHECKPOINT_RESTORE_H
#define HCPD_STORE_CHECKPOINT_RESTORE_H

#include "store/store.h"

/* Bytes of a step's JSON text. Events carry the step, and an event must fit into a message. */
enum { CHECKPOINT_STEP_MAX = 1024 };

/* Appends the text of a row to *text, verified: it is JSON, its canonical form has the stored hash, and its
 * step is a step. base: what a delta builds on; NULL: there is none, or it was not found. NULL, or what is
 * wrong; the appended text is then worth nothing. */
const char *checkpoint_restore(const struct store_kept *row, const struct store_kept *base, struct buf *text);
/* The same without a verification. */
const char *checkpoint_unpack(const struct store_kept *row, const struct store_kept *base, struct buf *text);
/* Is it the JSON text, in one line, of a short string, a number or null? An empty text counts as null. */
bool checkpoint_is_step(const char *text, size_t size);

#endif
