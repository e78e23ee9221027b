/* SPDX-License-Identifier: MIT */
/* duration.h: ISO 8601 durations (PT72H, P1DT30M, PT0.5S, P2W) and the short form of INI files. */
#ifndef HCPD_BASE_DURATION_H
#define HCPD_BASE_DURATION_H

#include <stdbool.h>
#include <stdint.h>

#define DURATION_TEXT_SIZE 48

/* Wire form. Years and months have no fixed length: they are refused. Weeks stand alone. A fraction (. or ,)
 * is allowed in the last component only. Negative, empty (P, PT) and overflowing ones are refused. */
bool duration_parse_iso(const char *text, int64_t *us);
/* INI form: ISO 8601, or a number with ms, s, m, h or d (30s, 1.5h), or a bare 0. */
bool duration_parse(const char *text, int64_t *us);
/* The canonical ISO form with no empty component, cut down to milliseconds: PT0S, PT1.5S, PT2H15M,
 * P1DT30M. */
void duration_format(int64_t us, char out[DURATION_TEXT_SIZE]);

#endif
