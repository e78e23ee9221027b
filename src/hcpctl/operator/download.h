/* ctl_save.h: bytes into a file that is there whole or not at all, with their hash; or to stdout. */
#ifndef HCPD_CTL_SAVE_H
#define HCPD_CTL_SAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ctl_save;

/* path "-": stdout. The file is made aside, in the same directory; a signal that ends us takes it along. One
 * that is there is not replaced unless told so. NULL: it was said why. */
struct ctl_save *ctl_save_begin(const char *path, bool replaces);
bool ctl_save_add(struct ctl_save *s, const void *data, size_t size);
/* Has it this size and this checksum ("sha256:...")? Then it gets its name. False: it was said why, and
 * nothing is left. */
bool ctl_save_end(struct ctl_save *s, int64_t size, const char *checksum);
void ctl_save_drop(struct ctl_save *s); /* NULL is fine */

#endif
