/* SPDX-License-Identifier: MIT */
/* log_format.h: printf for log lines: a value cannot look like further fields. For log.c. */
#ifndef HCPD_BASE_LOG_FORMAT_H
#define HCPD_BASE_LOG_FORMAT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* Formats as vsnprintf does, with one difference. A text right behind a `=` of the format is a value: where
 * it has a `=` in it, or begins with a quote, it is written in quotes, with \" and \\ inside. Inside of
 * quotes that the format has itself, quotes are escaped. False: it was cut at size - 1. */
bool log_format(char *out, size_t size, const char *fmt, va_list args) __attribute__((format(printf, 3, 0)));

#endif
