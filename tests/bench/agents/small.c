/* SPDX-License-Identifier: MIT */
/* small.c: the benchmark's agent: as little between a start line and its events as a program can put there.
 * Owns no meaning: it looks for the end of a line and for "session_id", which only a start line has.
 * Never reads JSON, never allocates.
 *
 *   small EVENTS SIZE [hold|MS]  EVENTS progress lines of SIZE bytes for each start line, then `completed`,
 * MS milliseconds after the start line; with hold, no `completed`: it waits for the end of its input */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_START 262144 /* the longest start line that it can take */
#define MAX_EVENT 65536

static void emit_burst(long events, long size, bool hold, long wait_ms)
{
	static char text[MAX_EVENT];
	int used;

	for (long i = 1; i <= events; i++) {
		/* The numbers differ from line to line, so that nothing downstream profits from sameness. */
		used = printf("{\"type\":\"progress\",\"stage\":\"bench\",\"percent\":%ld,\"message\":\"%ld ",
			i * 100 / events, i);
		if (size > used + 3) {
			memset(text, 'x', (size_t)(size - used - 3));
			fwrite_unlocked(text, 1, (size_t)(size - used - 3), stdout);
		}
		fputs_unlocked("\"}\n", stdout);
	}
	fflush(stdout); /* the events are seen while it waits */
	if (wait_ms > 0)
		usleep((useconds_t)wait_ms * 1000);
	if (!hold)
		fputs_unlocked("{\"type\":\"completed\",\"outputs\":{\"ok\":true}}\n", stdout);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static char in[MAX_START];
	long events = argc > 1 ? atol(argv[1]) : 3, size = argc > 2 ? atol(argv[2]) : 100;
	bool hold = argc > 3 && !strcmp(argv[3], "hold");
	long wait_ms = argc > 3 ? atol(argv[3]) : 0;
	size_t have = 0;
	ssize_t n;

	if (events < 0 || size < 0 || size > MAX_EVENT)
		return 64;
	while (have < sizeof in && (n = read(STDIN_FILENO, in + have, sizeof in - have)) > 0) {
		char *from = in, *end;

		have += (size_t)n;
		while ((end = memchr(from, '\n', have - (size_t)(from - in)))) {
			if (memmem(from, (size_t)(end - from), "\"session_id\"", 12))
				emit_burst(events, size, hold, wait_ms);
			from = end + 1;
		}
		have -= (size_t)(from - in);
		memmove(in, from, have);
	}
	return 0;
}
