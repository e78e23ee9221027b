/* SPDX-License-Identifier: MIT */
/* policy.c: the policy program of the torture: does to a task what its inputs say in `policy` (allow, also
 * without it; deny; ask), and takes its time over every eighth, so that tasks wait for it whenever something
 * happens. Never talks to anything but its stdin and stdout. */
#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LATER 64
#define LATER_MS 700

static char in[1 << 20];
static size_t have;
static struct {
	long long id, due_ms;
	char decision[8];
} later[LATER];
static int count;

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void say(long long id, const char *decision)
{
	printf("{\"id\":%lld,\"decision\":\"%s\",\"reason\":\"as told\"}\n", id, decision);
	fflush(stdout);
}

static void take(json_t *question)
{
	const char *wish = json_string_value(
		json_object_get(json_object_get(json_object_get(question, "task"), "inputs"), "policy"));
	long long id = json_integer_value(json_object_get(question, "id"));

	if (id % 8 != 0 || count == LATER) {
		say(id, wish ? wish : "allow");
		return;
	}
	later[count].id = id;
	later[count].due_ms = now_ms() + LATER_MS;
	snprintf(later[count++].decision, sizeof later[0].decision, "%s", wish ? wish : "allow");
}

static bool hear(int wait_ms)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	char *end;
	ssize_t n;

	if (poll(&p, 1, wait_ms) <= 0)
		return true;
	if ((n = read(STDIN_FILENO, in + have, sizeof in - have)) <= 0)
		return false;
	have += (size_t)n;
	while ((end = memchr(in, '\n', have))) {
		json_t *question = json_loadb(in, (size_t)(end - in), 0, NULL);

		take(question);
		json_decref(question);
		have -= (size_t)(end + 1 - in);
		memmove(in, end + 1, have);
	}
	return true;
}

int main(void)
{
	while (hear(count > 0 ? 20 : 60000))
		for (int i = 0; i < count;)
			if (later[i].due_ms <= now_ms()) {
				say(later[i].id, later[i].decision);
				later[i] = later[--count];
			} else {
				i++;
			}
	return 0;
}
