/* SPDX-License-Identifier: MIT */
/* fake_operator.c: a thread at the control socket: pauses sessions of `rester`, and resumes those that rest,
 * by seed. Finds them in the store. hcpd may die under each request: what was not answered is asked anew.
 * Never checks a session. */
#include "fake_operator.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "violations.h"
#include "support/talk.h"

#define PAUSE_US 60000
#define LISTED 64

static char socket_path[300], store[320];
static unsigned dice;
static pthread_t thread;
static atomic_bool kind, stopping;
static long paused, resumed, refused;

/* One request on its own connection: is it done? */
static bool ask(const char *verb, const char *session)
{
	struct timeval limit = {.tv_sec = 3};
	char line[160], heard[4096] = "";
	int fd = talk_dial(socket_path);
	size_t size = 0;
	ssize_t n;

	if (fd < 0)
		return false;
	snprintf(line, sizeof line, "{\"id\":1,\"do\":\"%s\",\"session\":\"%s\"}\n", verb, session);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	if (send(fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line))
		while (!strchr(heard, '\n') && size < sizeof heard - 1 &&
			(n = recv(fd, heard + size, sizeof heard - 1 - size, 0)) > 0)
			heard[size += (size_t)n] = '\0';
	close(fd);
	refused += strstr(heard, "\"error\":{") != NULL;
	return strstr(heard, "\"done\":true");
}

static int list(const char *state, char found[LISTED][40])
{
	static const char sql[] =
		"SELECT session_id FROM sessions WHERE capability = 'rester' AND state = ?1 AND"
		" (state <> 'PAUSED' OR paused_by = 'operator') LIMIT ?2";
	sqlite3_stmt *st = NULL;
	sqlite3 *db;
	int n = 0;

	if (sqlite3_open_v2(store, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
		sqlite3_busy_timeout(db, 500) == SQLITE_OK &&
		sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK) {
		sqlite3_bind_text(st, 1, state, -1, SQLITE_STATIC);
		sqlite3_bind_int(st, 2, LISTED);
		while (sqlite3_step(st) == SQLITE_ROW)
			snprintf(found[n++], 40, "%s", (const char *)sqlite3_column_text(st, 0));
	}
	sqlite3_finalize(st);
	sqlite3_close(db);
	return n;
}

static void *live(void *arg)
{
	char found[LISTED][40];
	int n;

	(void)arg;
	while (!stopping) {
		n = kind ? 0 : list("RUNNING", found);
		for (int i = 0; i < n; i++)
			if (rand_r(&dice) % 12 == 0)
				paused += ask("pause", found[i]);
		n = list("PAUSED", found);
		for (int i = 0; i < n && !stopping; i++)
			if (kind || rand_r(&dice) % 20 == 0)
				resumed += ask("resume", found[i]);
		usleep(PAUSE_US);
	}
	return NULL;
}

void rester_begin(struct rig *r, unsigned seed)
{
	snprintf(socket_path, sizeof socket_path, "%s", rig_path(r, "ctl"));
	snprintf(store, sizeof store, "%s", r->db);
	dice = seed;
	must(pthread_create(&thread, NULL, live, NULL) == 0, "no thread");
}

void rester_be_kind(void)
{
	kind = true;
}

void rester_end(void)
{
	stopping = true;
	pthread_join(thread, NULL);
	say("an operator let sessions rest %ld times and go on %ld times, and was refused %ld times", paused,
		resumed, refused);
	if (paused == 0 || resumed == 0)
		violation("torture", "no session rested and went on");
}
