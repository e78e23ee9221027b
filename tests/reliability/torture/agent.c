/* SPDX-License-Identifier: MIT */
/* agent.c: the worker of the torture and the soak: counts with checkpoints, resumes, and can behave badly.
 * One process serves one start line after another, so it also fits `reuse`. Inputs of a task:
 *
 *   goal    progress lines to write, one number each (3)
 *   every   a checkpoint at each such number (0: none)
 *   delay   milliseconds a number (0)
 *   size    bytes added to each line (0)
 *   crowd   grandchildren, each in a session of its own, that ignore every polite signal (0)
 *   deaf    ignores SIGTERM and `abort`
 *   end     complete (default), fail, hang
 *   heat    before each number it announces to heat so high, and waits for the verdict
 *   state   bytes that a checkpoint holds beside its number; few of them change between two (0)
 *   dies    in so many attempts it dies at its fifth number, by SIGKILL or with a status, and is silent (0)
 *
 * Told to pause, it rests until it is told to go on. A state that it did not save it reports
 * (`wrong_state`). Never talks to anything but its stdin and stdout. */
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 65536
#define FILL_MAX 20000
#define DIES_AT 5 /* its fifth number */

static char in[LINE_MAX_BYTES];
static size_t have;
static bool ended, deaf;
static long long reached; /* the number that a checkpoint would hold now */
static long long decided; /* the ref of the last verdict on an action */
static int fill_size;
static bool resting; /* told to pause */

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static long long number(json_t *inputs, const char *key, long long otherwise)
{
	json_t *j = json_object_get(inputs, key);

	return json_is_integer(j) ? json_integer_value(j) : otherwise;
}

/* The next whole line as JSON, NULL where none came within wait_ms; ended is set at the end of the input. */
static json_t *next_line(int wait_ms)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	char *end;

	while (!(end = memchr(in, '\n', have))) {
		if (ended || poll(&p, 1, wait_ms) <= 0)
			return NULL;
		ssize_t n = have < sizeof in ? read(STDIN_FILENO, in + have, sizeof in - have) : 0;
		if (n <= 0) {
			ended = true;
			return NULL;
		}
		have += (size_t)n;
	}
	json_t *line = json_loadb(in, (size_t)(end - in), 0, NULL);
	have -= (size_t)(end + 1 - in);
	memmove(in, end + 1, have);
	return line;
}

/* What a state of that number holds: noise that zstd cannot shorten much, and a few places that say the
 * number. */
static const char *fill_of(long long n)
{
	static char fill[FILL_MAX + 1];
	unsigned noise = 7;

	for (int i = 0; i < fill_size; i++) {
		noise = noise * 1103515245u + 12345u;
		fill[i] = (char)('0' + (noise >> 16) % 64);
		if (fill[i] == '\\')
			fill[i] = '~';
	}
	for (int at = (int)(n * 37 % 400); at + 12 < fill_size; at += fill_size / 3)
		fill[at + snprintf(fill + at, 12, "<%lld>", n)] = '.';
	fill[fill_size] = '\0';
	return fill;
}

static void write_checkpoint(void)
{
	printf("{\"type\":\"checkpoint\",\"description\":\"at %lld\",\"state\":{\"n\":%lld,\"fill\":\"%s\"},"
	       "\"step\":\"counting\",\"resumable\":true}\n",
		reached, reached, fill_of(reached));
	fflush(stdout);
}

static void say(const char *type)
{
	printf("{\"type\":\"%s\"}\n", type);
	fflush(stdout);
}

static void check_state(json_t *saved)
{
	const char *fill = json_string_value(json_object_get(saved, "fill"));

	if (saved && (!fill || strcmp(fill, fill_of(number(saved, "n", 0))) != 0)) {
		printf("{\"type\":\"warning\",\"code\":\"wrong_state\",\"message\":\"nobody saved this\"}\n");
		fflush(stdout);
	}
}

/* Reads for so long, and as long as it is to rest. */
static void attend(int wait_ms)
{
	long long until = now_ms() + wait_ms;

	do {
		long long left = until - now_ms();
		json_t *line = next_line(resting ? 100 : left > 0 ? (int)left : 0);
		const char *type = json_string_value(json_object_get(line, "type"));
		bool is_abort = type && strcmp(type, "abort") == 0;

		if (type && strcmp(type, "checkpoint_request") == 0 && reached > 0)
			write_checkpoint();
		if (type && strcmp(type, "action_verdict") == 0)
			decided = json_integer_value(json_object_get(line, "ref"));
		if (type && strcmp(type, "pause") == 0)
			resting = true, say("paused");
		if (type && strcmp(type, "resume") == 0)
			resting = false, say("resumed");
		json_decref(line);
		if ((is_abort || ended) && !deaf)
			exit(0);
		if (ended && left > 0)
			usleep(20000); /* deaf, and nothing to poll any more */
	} while (resting || now_ms() < until);
}

/* Twice forked, so that nobody is its parent, in a session of its own, deaf to everything that can be
 * ignored. */
static void add_to_crowd(void)
{
	pid_t child = fork();

	if (child != 0)
		return;
	setsid();
	if (fork() != 0)
		_exit(0);
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_IGN);
	alarm(0);
	for (int i = 0; i < 600; i++)
		sleep(1);
	_exit(0);
}

static void announce(long long heat, long long ref)
{
	printf("{\"type\":\"action\",\"name\":\"heat\",\"parameters\":{\"t\":%lld},\"ref\":%lld}\n", heat,
		ref);
	fflush(stdout);
	for (decided = 0; decided != ref;)
		attend(5);
}

static void die(long long attempt)
{
	if (attempt % 2)
		raise(SIGKILL);
	_exit(3);
}

static void count(json_t *start, json_t *inputs)
{
	json_t *saved = json_object_get(json_object_get(start, "checkpoint"), "state");
	long long goal = number(inputs, "goal", 3), every = number(inputs, "every", 0);
	long long first = number(saved, "n", 0) + 1;
	int size = (int)number(inputs, "size", 0), delay = (int)number(inputs, "delay", 0);
	const char *end = json_string_value(json_object_get(inputs, "end"));
	long long attempt = number(start, "attempt", 1);

	fill_size = (int)number(inputs, "state", 0);
	fill_size = fill_size < FILL_MAX ? fill_size : FILL_MAX;
	check_state(saved);
	for (long long n = first; n <= goal; n++) {
		if (number(inputs, "heat", 0))
			announce(number(inputs, "heat", 0), n);
		printf("{\"type\":\"progress\",\"stage\":\"count\",\"percent\":%lld,\"message\":\"%lld "
		       "%*s\"}\n",
			n * 100 / goal, n, size, "");
		fflush(stdout);
		reached = n;
		if (every && n % every == 0)
			write_checkpoint();
		if (attempt <= number(inputs, "dies", 0) && n == first + DIES_AT - 1)
			die(attempt);
		attend(delay);
	}
	while (end && strcmp(end, "hang") == 0)
		attend(1000);
	if (end && strcmp(end, "fail") == 0)
		printf("{\"type\":\"failed\",\"error_code\":\"execution_error\",\"error_message\":\"as "
		       "told\"}\n");
	else
		printf("{\"type\":\"completed\",\"outputs\":{\"n\":%lld,\"first\":%lld}}\n", goal, first);
	fflush(stdout);
}

int main(void)
{
	json_t *start;

	while (!ended) {
		if (!(start = next_line(60000)))
			continue;
		const char *type = json_string_value(json_object_get(start, "type"));
		json_t *inputs = json_object_get(json_object_get(start, "task"), "inputs");
		if (type && strcmp(type, "start") == 0) {
			reached = 0;
			resting = false;
			deaf = json_is_true(json_object_get(inputs, "deaf"));
			signal(SIGTERM, deaf ? SIG_IGN : SIG_DFL);
			for (long long i = number(inputs, "crowd", 0); i > 0; i--)
				add_to_crowd();
			count(start, inputs);
		}
		json_decref(start);
	}
	while (deaf) /* it refuses to go, too */
		sleep(1);
	return 0;
}
