/* SPDX-License-Identifier: MIT */
/* artifact_name.h: which names an artifact may have, and its address. Pure; the daemon and hcpctl use it. */
#ifndef HCPD_STORE_ARTIFACT_NAME_H
#define HCPD_STORE_ARTIFACT_NAME_H

#include <stddef.h>

#include "base/buf.h"

enum { ARTIFACT_NAME_MAX = 255, ARTIFACT_TYPE_MAX = 127 };

/* What is wrong with the name, as the end of a sentence; NULL: nothing. A good name is a visible file name:
 * UTF-8 without control characters, no slash, no dot in front. */
const char *artifact_name_fault(const char *name, size_t size);
/* Has the text the form of a MIME type? */
bool artifact_type_is_good(const char *type, size_t size);
/* hcp://SESSION/artifacts/NAME; what a URI may not hold is percent-encoded. */
void artifact_add_uri(struct buf *b, const char *session_id, const char *name);

#endif
