/* SPDX-License-Identifier: MIT */
/* approver.h: a human with a key: makes one, reads what waits, and signs decisions, good and bad. libcrypto
 * and jansson, and nothing of hcpd's: so what is accepted is what others compute. */
#ifndef HCPD_TESTS_SUPPORT_APPROVER_H
#define HCPD_TESTS_SUPPORT_APPROVER_H

#include <jansson.h>

#include "rig.h"

/* A key in the rig's directory, and its section in the configuration; before rig_write_ini. */
void approver_make(struct rig *r, const char *name, const char *max_risk);
/* the file; static buffers, a few at a time */
const char *approver_key(struct rig *r, const char *name);
/* Well signed, with a nonce of its own. The caller's. */
json_t *approver_decide(struct rig *r, json_t *artifact, const char *decision, const char *signer);
/* Signs it anew, whatever it says. */
void approver_sign(json_t *decision, const char *key_file);

#endif
