/* SPDX-License-Identifier: MIT */
/* fuzz_duration.c: lengths of time. Input: a duration as text; its first bytes are also taken for numbers. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "fuzz.h"

/* Whatever is a duration can be written, and read again as the same to the millisecond. */
static void check_round_trip(int64_t us)
{
	char text[DURATION_TEXT_SIZE], again[DURATION_TEXT_SIZE];
	int64_t back;

	memset(text, '#', sizeof text);
	duration_format(us, text);
	MUST(memchr(text, '\0', sizeof text) != NULL && text[0] == 'P');
	MUST(duration_parse_iso(text, &back));
	MUST(back == (us > 0 ? us - us % 1000 : 0));
	duration_format(back, again);
	MUST(strcmp(text, again) == 0);
}

static void check_text(const char *text)
{
	int64_t iso = -1, ini = -1;
	bool is_iso = duration_parse_iso(text, &iso), is_ini = duration_parse(text, &ini);

	MUST(is_iso == (is_ini && *text == 'P') && (is_iso || iso == -1) && (is_ini || ini == -1));
	if (is_iso)
		MUST(iso == ini && iso >= 0);
	if (is_ini) {
		MUST(ini >= 0);
		check_round_trip(ini);
	}
}

/* A sum that was reckoned in 128 bits is what the text says, or the text is refused for being too long. */
static void expect(const char *text, __int128 us)
{
	int64_t got = -1;
	bool ok = duration_parse(text, &got);

	MUST(ok == (us <= INT64_MAX));
	MUST(!ok || got == (int64_t)us);
}

static void check_numbers(struct feed f)
{
	static const struct {
		const char *name;
		int64_t us;
	} units[] = {{"ms", 1000}, {"s", 1000000}, {"m", 60000000}, {"h", INT64_C(3600000000)},
		{"d", INT64_C(86400000000)}};
	uint8_t shape = feed_byte(&f);
	uint64_t n[4];
	unsigned micros;
	char text[200];

	for (int i = 0; i < 4; i++) /* small ones and large ones, as the shape has it */
		n[i] = (uint64_t)feed_int64(&f) >> (1 + (shape & 3) * 16 % 63);
	micros = (unsigned)(n[3] % 1000000);
	snprintf(text, sizeof text, "P%" PRIu64 "DT%" PRIu64 "H%" PRIu64 "M%" PRIu64 ".%06uS", n[0], n[1],
		n[2], n[3], micros);
	expect(text,
		(__int128)n[0] * units[4].us + (__int128)n[1] * units[3].us + (__int128)n[2] * units[2].us +
			(__int128)n[3] * units[1].us + micros);
	snprintf(text, sizeof text, "P%" PRIu64 "W", n[0]);
	expect(text, (__int128)n[0] * 7 * units[4].us);
	for (int i = 0; i < 5; i++) {
		snprintf(text, sizeof text, "%" PRIu64 "%s", n[1], units[i].name);
		expect(text, (__int128)n[1] * units[i].us);
		/* Tenths of any unit are exact; what is finer than a microsecond is cut off. */
		snprintf(text, sizeof text, "%" PRIu64 ",%u%s", n[2], (unsigned)(n[3] % 10), units[i].name);
		expect(text, (__int128)n[2] * units[i].us + (int64_t)(n[3] % 10) * units[i].us / 10);
	}
	check_round_trip((int64_t)n[0]);
	check_round_trip(-(int64_t)n[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size};
	char *text;

	check_numbers(f);
	text = feed_rest(&f);
	check_text(text);
	free(text);
	return 0;
}
