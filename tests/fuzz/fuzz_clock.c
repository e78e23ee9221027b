/* SPDX-License-Identifier: MIT */
/* fuzz_clock.c: instants as text. Input: an instant as text; its first bytes are also taken for a number. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fuzz.h"

#define FIRST_US (INT64_C(-62167219200) * 1000000) /* the year 0, and the end of 9999 */
#define LAST_US (INT64_C(253402300799) * 1000000 + 999999)

/* Every number is written as 24 characters, and read again as the same to the millisecond, within
 * four-digit years. */
static void check_number(int64_t us)
{
	char text[CLOCK_TEXT_SIZE], again[CLOCK_TEXT_SIZE];
	int64_t back, floor_us, within = us < FIRST_US ? FIRST_US : us > LAST_US ? LAST_US : us;

	clock_format(us, text);
	MUST(strlen(text) == CLOCK_TEXT_SIZE - 1 && text[10] == 'T' && text[23] == 'Z');
	MUST(clock_parse(text, &back));
	floor_us = within - ((within % 1000) + 1000) % 1000;
	MUST(back == floor_us);
	clock_format(back, again);
	MUST(strcmp(text, again) == 0);
}

static void check_text(const char *text)
{
	int64_t us = 0, moved;
	size_t size = strlen(text);
	char *other;

	if (!clock_parse(text, &us))
		return;
	check_number(us);
	/* Z and a zero offset are the same; no other letter may follow. */
	other = xmalloc(size + 8);
	memcpy(other, text, size + 1);
	if (text[size - 1] == 'Z') {
		strcpy(other + size - 1, "+00:00");
		MUST(clock_parse(other, &moved) && moved == us);
		strcpy(other + size - 1, "+01:30");
		MUST(clock_parse(other, &moved) && moved == us - INT64_C(5400000000));
		strcpy(other + size - 1, "-0130");
		MUST(clock_parse(other, &moved) && moved == us + INT64_C(5400000000));
	}
	memcpy(other, text, size);
	strcpy(other + size, "Z");
	MUST(!clock_parse(other, &moved));
	free(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size}, numbers = f;
	char *text = feed_rest(&f);
	int64_t us = feed_int64(&numbers);

	check_text(text);
	check_number(us);
	check_number(us >> 8);
	check_number(us % LAST_US);
	free(text);
	return 0;
}
