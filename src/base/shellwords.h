/* SPDX-License-Identifier: MIT */
/* shellwords.h: a command line to words, unquoted as a POSIX shell would, without a shell: no variables, no
 * globs, no redirections, no comments; such characters are taken as they are. */
#ifndef HCPD_BASE_SHELLWORDS_H
#define HCPD_BASE_SHELLWORDS_H

#include <stddef.h>

/* Words are separated by white space. '...' is literal; in "..." a backslash quotes only " \ $ ` ; elsewhere
 * it quotes the next character. NULL-terminated, the caller's; NULL with *why (static text) where a quote is
 * not closed or a backslash ends the text. The empty text has no words. */
char **shellwords_split(const char *text, const char **why);
/* A list of names, separated by commas, white space or both; no quoting. */
char **shellwords_split_list(const char *text);
size_t shellwords_count(char *const *words);
void shellwords_free(char **words); /* NULL is fine; the bytes are wiped: they may be secrets */

/* A copy of text without its one pair of quotes, where quotes enclose all of it (in "..." \" and \\ are
 * undone); else as it is. */
char *shellwords_unquote(const char *text);

#endif
