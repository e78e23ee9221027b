/* artifact_name.h: what an artifact may be called, and its address. Pure; the daemon and hcpctl use it. */
#ifndef HCPD_ARTIFACT_NAME_H
#define HCPD_ARTIFACT_NAME_H

#include <stddef.h>

#include "base/buf.h"

enum { ARTIFACT_NAME_MAX = 255, ARTIFACT_TYPE_MAX = 127 };

/* What is wrong with it, as the end of a sentence; NULL: nothing. A good one is a file name that hides
 * nothing: UTF-8 without controls, no slash, no dot in front. */
const char *artifact_name_fault(const char *name, size_t size);
/* Does it look like a MIME type? */
bool artifact_type_is_good(const char *type, size_t size);
/* hcp://SESSION/artifacts/NAME; what a URI may not hold is percent-encoded. */
void artifact_add_uri(struct buf *b, const char *session_id, const char *name);

#endif
