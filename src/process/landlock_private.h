/* SPDX-License-Identifier: MIT */
/* landlock_private.h: the kernel's interface, and what landlock.c and landlock_state.c share. */
#ifndef HCPD_PROCESS_LANDLOCK_PRIVATE_H
#define HCPD_PROCESS_LANDLOCK_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

/* The interface, as it is documented; the headers of a distribution are often older than its kernels. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#endif
#define ASK_VERSION 1u
#define RULE_PATH_BENEATH 1
#define FS_EXECUTE (UINT64_C(1) << 0)
#define FS_WRITE_FILE (UINT64_C(1) << 1)
#define FS_READ_FILE (UINT64_C(1) << 2)
#define FS_READ_DIR (UINT64_C(1) << 3)
#define FS_MAKE_CHAR (UINT64_C(1) << 6)
#define FS_MAKE_BLOCK (UINT64_C(1) << 11)
#define FS_FIRST ((UINT64_C(1) << 13) - 1) /* all that version 1 has */
#define FS_REFER (UINT64_C(1) << 13)       /* from 2: rename and link between directories */
#define FS_TRUNCATE (UINT64_C(1) << 14)    /* from 3 */
#define SCOPE_SIGNAL (UINT64_C(1) << 1)    /* from 6: no signals to processes outside */
#define FS_FILE (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE) /* what a file can have */

struct ruleset_attr {
	uint64_t handled_fs, handled_net, scoped;
};
struct path_beneath_attr {
	uint64_t allowed;
	int32_t fd;
} __attribute__((packed));

/* A descriptor that closes on exec, or -1 with errno. */
int landlock_make_ruleset(uint64_t handled, uint64_t scoped);
/* For what fd is open on, and what lies below it; a file has no access but FS_FILE. -1 with errno. */
int landlock_add_rule(int ruleset, int fd, uint64_t access);

/* path could not be opened, for errno. 0: it is left out; is_fault: though it is neither gone nor forbidden,
 * which a line says, since a worker may need it. -1: this process is short of something, so no rules can be
 * made now. */
int landlock_pass_over(const char *path, bool *is_fault);

/* The real paths of these and of systemd's credentials, NULL-terminated; the caller frees. */
char **landlock_find_secrets(char *const *named);
void landlock_free_secrets(char **secrets);
/* Is path a secret, or in one? Is a secret below path, or path itself one? */
bool landlock_is_secret(char *const *secrets, const char *path);
bool landlock_holds_secret(char *const *secrets, const char *path);

#endif
