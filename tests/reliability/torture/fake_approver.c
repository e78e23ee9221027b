/* SPDX-License-Identifier: MIT */
/* fake_approver.c: the human's process at the control socket. Owns its key and the file of the answers that
 * it got. hcpd may die under each request: what was not answered is decided anew. Never checks
 * (final_check.c). */
#include "fake_approver.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/approver.h"
#include "violations.h"
#include "support/talk.h"

#define NAME "ann"
#define PAUSE_US 120000

static struct rig *rig;
static pid_t pid;
static unsigned dice;
static FILE *answers;
static char *used; /* a decision that was obeyed once */
static char used_request[48];

/* One request on its own connection; the whole answer, NULL where there was none. */
static char *ask(const char *line)
{
	static char heard[1 << 20];
	struct timeval limit = {.tv_sec = 8};
	int fd = talk_dial(rig_path(rig, "ctl"));
	size_t size = 0;
	ssize_t n;

	heard[0] = '\0';
	if (fd < 0)
		return NULL;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	if (send(fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line))
		while (!strstr(heard, "\"done\":true") && !strstr(heard, "\"error\":{") &&
			size < sizeof heard - 1 &&
			(n = recv(fd, heard + size, sizeof heard - 1 - size, 0)) > 0)
			heard[size += (size_t)n] = '\0';
	close(fd);
	return size > 0 ? heard : NULL;
}

/* Says it, and keeps what was answered: done, the code of the refusal, or lost. */
static bool put(const char *decision, const char *request, const char *what)
{
	size_t size = strlen(decision) + 100;
	char *line = malloc(size), *heard, code[64] = "lost", *at;

	snprintf(line, size, "{\"id\":1,\"do\":\"decide\",\"decision\":%s}\n", decision);
	heard = ask(line);
	if (heard && strstr(heard, "\"done\":true"))
		snprintf(code, sizeof code, "done");
	else if (heard && (at = strstr(heard, "\"code\":\"")))
		snprintf(code, sizeof code, "%.*s", (int)strcspn(at + 8, "\""), at + 8);
	fprintf(answers, "%s %s %s\n", request, what, code);
	fflush(answers);
	free(line);
	return strcmp(code, "done") == 0;
}

static void keep_used(const char *decision, const char *request)
{
	free(used);
	used = strdup(decision);
	snprintf(used_request, sizeof used_request, "%s", request);
}

/* As its task wishes: allow, deny; else it is left to expire. */
static void decide(json_t *item)
{
	json_t *artifact = json_loads(json_text_at(item, "artifact"), 0, NULL), *decision;
	const char *task = json_text_at(artifact, "payload.task"),
		   *request = json_text_at(item, "request_id");
	const char *what = strstr(task, "\"human\":\"allow\"") ? "allow" :
		strstr(task, "\"human\":\"deny\"")             ? "deny" :
								 NULL;
	bool forges = rand_r(&dice) % 6 == 0;
	char *text;

	if (what || forges) {
		decision = approver_decide(rig, artifact, forges ? "allow" : what, NAME);
		if (forges) /* signed well, for another time */
			json_object_set_new(decision, "expiresAt", json_string("2099-01-01T00:00:00Z"));
		text = json_dumps(decision, JSON_COMPACT);
		if (put(text, request, forges ? "forged" : what) && !forges)
			keep_used(text, request);
		free(text);
		json_decref(decision);
	}
	json_decref(artifact);
}

static void __attribute__((noreturn)) live(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		char *heard = ask("{\"id\":1,\"do\":\"approvals\"}\n"), *lines = heard ? strdup(heard) : NULL,
		     *save = NULL;

		for (char *line = lines ? strtok_r(lines, "\n", &save) : NULL; line;
			line = strtok_r(NULL, "\n", &save)) {
			json_t *answer = json_loads(line, 0, NULL), *item = json_object_get(answer, "item");

			if (item && rand_r(&dice) % 3 > 0) /* the others wait for the next look */
				decide(item);
			json_decref(answer);
		}
		free(lines);
		if (used && rand_r(&dice) % 3 == 0)
			put(used, used_request, "again");
		usleep(PAUSE_US);
	}
}

void decider_begin(struct rig *r, unsigned seed)
{
	rig = r;
	dice = seed;
	approver_make(r, NAME, "R4");
	rig_set(r, "approval", "expires", "12s");
	rig_set(r, "control", "socket", "%s", rig_path(r, "ctl"));
	answers = fopen(rig_path(r, "decisions"), "w");
	must(answers, "no file for the decisions");
	fflush(NULL);
	pid = fork();
	must(pid >= 0, "fork");
	if (pid == 0)
		live();
}

void decider_check(void)
{
	int status;

	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	long obeyed = final_check_files(rig_path(rig, "decisions"), rig->db);
	if (obeyed == 0)
		violation("torture", "nothing was decided by a human");
}
