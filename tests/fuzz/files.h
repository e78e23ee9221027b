/* SPDX-License-Identifier: MIT */
/* files.h: a directory in memory, /etc/hcpd, that configuration and declarations are read from instead of the
 * disk. A fuzzer that may name any path would else open devices. */
#ifndef HCPD_TESTS_FUZZ_FILES_H
#define HCPD_TESTS_FUZZ_FILES_H

#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#define FILES_DIR "/etc/hcpd"
#define FILES_MAX 8

/* Forgets all files. The bytes of those that are added are loans. */
void files_clear(void);
void files_add(const char *name, const void *data, size_t size, mode_t mode);
/* Splits an input: what stands before the first line `=== NAME MODE` is `first`, mode 0640; behind each such
 * line is the file of that name. NAME is letters, digits, dots; MODE is octal, 0600 where it is left out. */
void files_split(const char *first, const char *data, size_t size);
size_t files_size(const char *name); /* 0: none */
/* The bytes of a file, NULL where there is none; a loan. */
const char *files_text(const char *name, size_t *size);

/* What the disk would do. */
int files_open(const char *path, int flags, ...);
ssize_t files_read(int fd, void *to, size_t size);
int files_close(int fd);
int files_fstat(int fd, struct stat *st);
int files_stat(const char *path, struct stat *st);
int files_access(const char *path, int mode);
char *files_realpath(const char *path, char *real);

#endif
