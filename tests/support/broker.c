/* SPDX-License-Identifier: MIT */
/* broker.c: the RabbitMQ that a test talks to, through scripts/broker. Never speaks AMQP (peer.c). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "process.h"

static struct broker shared;

static int run_script(const char *verb, const char *dir, const char *rest)
{
	char command[16384];

	snprintf(command, sizeof command, "%s %s %s %s >&2", source_path("scripts/broker"), verb, dir, rest);
	int status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void read_env(struct broker *b)
{
	char path[600], line[500];

	snprintf(path, sizeof path, "%s/env", b->dir);
	FILE *f = fopen(path, "r");
	if (!f) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(EXIT_FAILURE);
	}
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, "HCP_TEST_BROKER_URL=", 20) == 0)
			snprintf(b->url, sizeof b->url, "%s", line + 20);
		if (strncmp(line, "HCP_TEST_BROKER_PID=", 20) == 0)
			b->pid = atoi(line + 20);
	}
	fclose(f);
}

void broker_start(struct broker *b, const char *dir)
{
	if (dir != b->dir)
		snprintf(b->dir, sizeof b->dir, "%s", dir);
	b->own = true;
	if (run_script("start", b->dir, "") != 0) {
		fprintf(stderr, "no broker could be started in %s\n", b->dir);
		exit(EXIT_FAILURE);
	}
	read_env(b);
}

void broker_stop(struct broker *b)
{
	if (!b->own)
		return;
	run_script("stop", b->dir, "");
	tree_remove(b->dir);
	b->own = false;
}

void broker_kill(const struct broker *b)
{
	kill(b->pid, SIGKILL);
	wait_until(!process_is_alive(b->pid), 30, "the broker is dead");
}

int broker_ctl(const struct broker *b, const char *command)
{
	return run_script("ctl", b->dir, command);
}

int broker_eval(const struct broker *b, const char *expression)
{
	char quoted[15000];

	snprintf(quoted, sizeof quoted, "'%s'", expression);
	return run_script("eval", b->dir, quoted);
}

const struct broker *broker_shared(void)
{
	const char *url = getenv("HCP_TEST_BROKER_URL");
	char dir[300];

	if (shared.url[0])
		return &shared;
	if (url) {
		const char *pid = getenv("HCP_TEST_BROKER_PID"), *at = getenv("HCP_TEST_BROKER_DIR");
		snprintf(shared.url, sizeof shared.url, "%s", url);
		snprintf(shared.dir, sizeof shared.dir, "%s", at ? at : "");
		shared.pid = pid ? atoi(pid) : 0;
	} else {
		snprintf(dir, sizeof dir, "%sbroker", harness_tmp());
		broker_start(&shared, dir);
	}
	return &shared;
}

struct broker *broker_private(void)
{
	read_env(&shared); /* another test may have killed and restarted it */
	kill(shared.pid, SIGCONT);
	if (kill(shared.pid, 0) < 0)
		broker_start(&shared, shared.dir);
	return &shared;
}
