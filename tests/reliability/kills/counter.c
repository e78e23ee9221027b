/* SPDX-License-Identifier: MIT */
/* counter.c: the agent that is killed: counts, checkpoints, and writes down what it did in a ledger that no
 * crash can take back. Inputs of a task: ledger  the file, a line for each thing that happened    every units
 * of work between checkpoints pad     bytes of padding in the state                    finish it completes
 * once this file is there Lines:  start PID FROM CHECKPOINT|-     did N     saved N CHECKPOINT The state's
 * padding follows from its number, a small part of it changing from one to the next: a state that was put
 * together wrongly is found out at the start. Never talks to anything but its stdin, its stdout and the
 * ledger. */
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK 64

static int ledger = -1;

static void __attribute__((format(printf, 1, 2))) enter(const char *fmt, ...)
{
	char line[160];
	va_list ap;
	int size;

	va_start(ap, fmt);
	size = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	if (write(ledger, line, (size_t)size) != size)
		exit(3);
}

/* One text of the padding: it stays the same for as many checkpoints as there are texts. */
static void write_chunk(char out[CHUNK + 1], long long n, long long i, long long count)
{
	unsigned long long x = (unsigned long long)(i + (n - i + count) / count * 1000003) * 2654435761u + 1;

	for (int k = 0; k < CHUNK; k++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		out[k] = (char)('a' + (x >> 40) % 26);
	}
	out[CHUNK] = '\0';
}

static void send_checkpoint(long long n, long long chunks)
{
	char text[CHUNK + 1];

	printf("{\"type\":\"checkpoint\",\"description\":\"at "
	       "%lld\",\"step\":%lld,\"ref\":%lld,\"state\":{\"n\":%lld,\"pad\":[",
		n, n, n, n);
	for (long long i = 0; i < chunks; i++) {
		write_chunk(text, n, i, chunks);
		printf("%s\"%s\"", i > 0 ? "," : "", text);
	}
	printf("]}}\n");
	fflush(stdout);
}

static bool is_right(json_t *state, long long n, long long chunks)
{
	json_t *pad = json_object_get(state, "pad"), *v;
	char text[CHUNK + 1];
	size_t i;

	if ((long long)json_array_size(pad) != chunks)
		return false;
	json_array_foreach(pad, i, v) {
		write_chunk(text, n, (long long)i, chunks);
		if (!json_is_string(v) || strcmp(json_string_value(v), text) != 0)
			return false;
	}
	return true;
}

/* What came within a moment; the end of the input is the end. */
static void listen_to_daemon(int wait_ms)
{
	static char in[65536];
	static size_t have;
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	char *end;

	if (poll(&p, 1, wait_ms) <= 0)
		return;
	ssize_t got = have < sizeof in ? read(STDIN_FILENO, in + have, sizeof in - have) : 0;
	if (got <= 0)
		exit(0);
	have += (size_t)got;
	while ((end = memchr(in, '\n', have)) != NULL) {
		json_t *line = json_loadb(in, (size_t)(end - in), 0, NULL);
		const char *type = json_string_value(json_object_get(line, "type"));

		if (type != NULL && strcmp(type, "checkpoint_saved") == 0)
			enter("saved %lld %s\n", (long long)json_integer_value(json_object_get(line, "ref")),
				json_string_value(json_object_get(line, "checkpoint_id")));
		json_decref(line);
		have -= (size_t)(end + 1 - in);
		memmove(in, end + 1, have);
	}
}

static json_t *read_start(void)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t size = 0;
	json_t *start;

	/* A byte at a time: what follows the line is for listen_to_daemon. */
	for (char c = 0; c != '\n'; line[size++] = c) {
		if ((size_t)size + 1 > room && (line = realloc(line, room = room * 2 + 4096)) == NULL)
			exit(4);
		if (read(STDIN_FILENO, &c, 1) != 1)
			exit(0);
	}
	start = json_loadb(line, (size_t)size, 0, NULL);
	free(line);
	return start;
}

int main(void)
{
	json_t *start = read_start(), *inputs = json_object_get(json_object_get(start, "task"), "inputs");
	json_t *checkpoint = json_object_get(start, "checkpoint"),
	       *state = json_object_get(checkpoint, "state");
	long long n = json_integer_value(json_object_get(state, "n")),
		  every = json_integer_value(json_object_get(inputs, "every"));
	long long chunks = json_integer_value(json_object_get(inputs, "pad")) / CHUNK;
	const char *finish = json_string_value(json_object_get(inputs, "finish"));
	const char *path = json_string_value(json_object_get(inputs, "ledger"));
	const char *from = json_string_value(json_object_get(checkpoint, "checkpoint_id"));

	if (path == NULL || finish == NULL || every < 1 ||
		(ledger = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)) < 0)
		return 2;
	if (state != NULL && !is_right(state, n, chunks)) {
		printf("{\"type\":\"failed\",\"error_code\":\"execution_error\",\"error_message\":\"the "
		       "state of %lld is wrong\"}\n",
			n);
		return 0;
	}
	enter("start %d %lld %s\n", (int)getpid(), n, from != NULL ? from : "-");
	while (access(finish, F_OK) != 0) {
		enter("did %lld\n", ++n);
		if (n % every == 0)
			send_checkpoint(n, chunks);
		listen_to_daemon(1);
	}
	printf("{\"type\":\"completed\",\"outputs\":{\"n\":%lld}}\n", n);
	fflush(stdout);
	json_decref(start);
	return 0;
}
