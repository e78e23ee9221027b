/* SPDX-License-Identifier: MIT */
/* heavy.c: the benchmark's agent with a large state, new from the first to the last byte each time.
 * Never reads JSON: it looks for the words that only a start line and a request for a checkpoint have.
 *
 *   heavy SIZE loop    checkpoints of SIZE bytes, one after the other, until its input ends
 *   heavy SIZE mix     the same, and after each of them nine of 5 kB, which have its beginning
 *   heavy SIZE hold    one checkpoint of SIZE bytes for each request */
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_LINE (8u << 20) /* a start line may hold the state */
#define NOTE 90             /* bytes of one entry of the state, about */
#define SMALL 5000          /* bytes of a small state ... */
#define SMALL_EACH 9        /* ... and how many of them follow a large one */

static uint64_t dice;

static uint64_t roll(void)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return dice;
}

/* Half of it is random: a state that packs to about half of its size. */
static void emit_checkpoint(long size)
{
	printf("{\"type\":\"checkpoint\",\"description\":\"bench\",\"state\":{\"notes\":[0");
	for (long i = 0; i < (size - 100) / NOTE; i++)
		printf(",{\"id\":%8ld,\"text\":\"%016llx%016llx%016llx%016llx\"}", i + 10000000,
			(unsigned long long)roll(), (unsigned long long)roll(), (unsigned long long)roll(),
			(unsigned long long)roll());
	printf("]}}\n");
	fflush(stdout);
}

static void emit_mix(long size)
{
	uint64_t before = dice, after;

	emit_checkpoint(size);
	after = dice;
	for (int i = 0; i < SMALL_EACH; i++) {
		dice = before;
		emit_checkpoint(SMALL);
	}
	dice = after;
}

static bool has_input(void)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

static void take_line(const char *line, size_t size, long state, bool loops, bool mixes)
{
	if (memmem(line, size < 200 ? size : 200, "\"start\"", 7)) {
		printf("{\"type\":\"progress\",\"stage\":\"bench\"}\n");
		fflush(stdout);
		while (loops && !has_input())
			(mixes ? emit_mix : emit_checkpoint)(state);
	} else if (loops || memmem(line, size, "checkpoint_request", 18)) {
		do
			(mixes ? emit_mix : emit_checkpoint)(state);
		while (loops && !has_input());
	}
}

int main(int argc, char **argv)
{
	char *in = malloc(MAX_LINE);
	long state = argc > 1 ? atol(argv[1]) : 0;
	bool mixes = argc > 2 && !strcmp(argv[2], "mix"),
	     loops = mixes || (argc > 2 && !strcmp(argv[2], "loop"));
	size_t have = 0;
	ssize_t n;

	if (!in || state < 1000)
		return 64;
	dice = (uint64_t)getpid() * 0x9e3779b97f4a7c15u + 1;
	while (have < MAX_LINE && (n = read(STDIN_FILENO, in + have, MAX_LINE - have)) > 0) {
		char *from = in, *end;

		have += (size_t)n;
		while ((end = memchr(from, '\n', have - (size_t)(from - in)))) {
			take_line(from, (size_t)(end - from), state, loops, mixes);
			from = end + 1;
		}
		have -= (size_t)(from - in);
		memmove(in, from, have);
	}
	return 0;
}
