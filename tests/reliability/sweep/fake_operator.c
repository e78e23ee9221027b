/* SPDX-License-Identifier: MIT */
/* fake_operator.c: an operator at the control socket of a life: asks, pauses, resumes, aborts, replays,
 * drains. hcpd may die under each of it: what is not answered is tried again, and what was answered must be
 * in the store when it is dead. Never waits longer than an answer takes. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "support/approver.h"
#include "life.h"
#include "support/talk.h"

#define PAUSE_S 0.03 /* between two looks */

static char heard[65536]; /* the last answer */

/* One request on its own connection. True: it is done. */
static bool ask(struct life *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool ask(struct life *l, const char *fmt, ...)
{
	struct timeval limit = {.tv_sec = 5};
	int fd = talk_dial(rig_path(l->rig, "ctl"));
	char text[2000];
	size_t size = 0;
	va_list ap;
	ssize_t n;

	if (fd < 0)
		return false;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text - 1, fmt, ap);
	va_end(ap);
	strcat(text, "\n");
	for (char *c = text; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	heard[0] = '\0';
	if (send(fd, text, strlen(text), MSG_NOSIGNAL) > 0)
		while (!strstr(heard, "\"done\":true") && !strstr(heard, "\"error\":{") &&
			size < sizeof heard - 1 &&
			(n = recv(fd, heard + size, sizeof heard - 1 - size, 0)) > 0)
			heard[size += (size_t)n] = '\0';
	close(fd);
	return strstr(heard, "\"done\":true") != NULL;
}

static long long is_state(struct life *l, const char *session, const char *states)
{
	return rig_sql(
		l->rig, "SELECT count(*) FROM sessions WHERE session_id = '%s' AND (%s)", session, states);
}

/* Follows until the connection ends, without ever reading: it is there to be told. */
static void follow(struct life *l, const char *session)
{
	char text[200];

	if (l->follow_fd >= 0 || (l->follow_fd = talk_dial(rig_path(l->rig, "ctl"))) < 0)
		return;
	snprintf(text, sizeof text, "{\"id\":1,\"do\":\"events\",\"session\":\"%s\",\"follow\":true}\n",
		session);
	(void)!send(l->follow_fd, text, strlen(text), MSG_NOSIGNAL);
}

/* What is to be done for this task now. */
static void operate(struct life *l, struct errand *e, const char *session)
{
	const char *what = e->task->operate;

	if (strcmp(what, "abort") == 0 && is_state(l, session, "state = 'RUNNING'")) {
		if (ask(l, "{'id':1,'do':'abort','session':'%s'}", session))
			e->must_be = "state IN ('ABORTING','ABORTED')";
	} else if (strcmp(what, "revoke") == 0 && e->operated_in != l->number &&
		is_state(l, session, "state = 'RUNNING'")) {
		if (ask(l, "{'id':1,'do':'revoke_token','session':'%s'}", session))
			e->must_be = "token_revoked";
		if (ask(l, "{'id':1,'do':'rotate_token_key'}"))
			e->operated_in = l->number;
	} else if (strcmp(what, "recover") == 0 && is_state(l, session, "state = 'PAUSED'")) {
		if (ask(l, "{'id':1,'do':'recover','session':'%s','how':'summarize'}", session))
			e->must_be = "state = 'FAILED'";
	} else if (strcmp(what, "extend") == 0 && e->operated_in != l->number &&
		is_state(l, session, "state = 'RUNNING'")) {
		if (ask(l, "{'id':1,'do':'extend','session':'%s','by':'90m'}", session)) {
			e->must_be = "julianday(deadline) - julianday(started_at) > 0.1";
			e->operated_in = l->number;
		}
	} else if (strcmp(what, "replay") == 0 && errand_has_ended(e) && e->operated_in != l->number) {
		if (ask(l, "{'id':1,'do':'replay','session':'%s'}", session))
			e->operated_in = l->number;
	} else if (strcmp(what, "wake") == 0) {
		if (e->operated_in != l->number &&
			is_state(l, session, "state = 'PAUSED' AND paused_by = 'idle'") &&
			ask(l, "{'id':1,'do':'resume','session':'%s'}", session))
			e->operated_in = l->number;
	} else if (is_state(l, session, "state = 'PAUSED' AND paused_by = 'operator'")) {
		if ((l->number > 1 || strcmp(what, "rest") == 0) &&
			ask(l, "{'id':1,'do':'resume','session':'%s'}", session))
			e->rested = true;
	} else if (l->number == 1 && !e->rested && strncmp(what, "rest", 4) == 0 &&
		is_state(l, session, "state = 'RUNNING'")) {
		follow(l, session);
		ask(l, "{'id':1,'do':'checkpoint','session':'%s'}", session);
		ask(l, "{'id':1,'do':'pause','session':'%s'}", session);
	}
}

/* The one for this request; signed the first time. What is not answered is said again as it was: its
 * nonce, too. */
static struct signed_one *find_signed(struct life *l, const char *request, json_t *artifact, bool allow)
{
	struct signed_one *s = l->decisions;
	json_t *decision;

	while (s < l->decisions + l->decision_count && strcmp(s->request, request) != 0)
		s++;
	if (s < l->decisions + l->decision_count)
		return s;
	must(l->decision_count++ < ERRANDS_MAX, "too many decisions");
	snprintf(s->request, sizeof s->request, "%s", request);
	decision = approver_decide(l->rig, artifact, allow ? "allow" : "deny", "ann");
	s->text = json_dumps(decision, JSON_COMPACT);
	json_decref(decision);
	return s;
}

/* What its task says: allow, deny, cancel, later (in the second life), after (the change of the policy)
 * or none. */
static void decide(struct life *l, json_t *item)
{
	json_t *artifact = json_loads(json_text_at(item, "artifact"), 0, NULL);
	const char *task = json_text_at(artifact, "payload.task");
	bool deny = strstr(task, "\"deny\""),
	     allow = strstr(task, "\"allow\"") || (l->number > 1 && strstr(task, "\"later\"")) ||
		(strstr(task, "\"after\"") && life_has_changed(l));

	if (strstr(task, "\"cancel\"")) {
		ask(l, "{'id':1,'do':'abort','session':'%s'}", json_text_at(item, "session_id"));
	} else if (allow || deny) {
		struct signed_one *s = find_signed(l, json_text_at(item, "request_id"), artifact, allow);

		s->is_answered = ask(l, "{'id':1,'do':'decide','decision':%s}", s->text);
		s->is_refused = !s->is_answered && strstr(heard, "\"code\":\"refused\"");
		s->is_answered |= s->is_refused;
	}
	json_decref(artifact);
}

/* Used once is used up, in this life and in the next. */
static void decide_again(struct life *l)
{
	for (struct signed_one *s = l->decisions; s < l->decisions + l->decision_count && !l->rig->exited;
		s++) {
		if (!s->is_answered || s->replayed_in == l->number)
			continue;
		must(!ask(l, "{'id':1,'do':'decide','decision':%s}", s->text),
			"a decision was used twice: %s", s->text);
		if (strstr(heard, "\"error\":{"))
			s->replayed_in = l->number;
		must(s->replayed_in != l->number || strstr(heard, "HARP_ERR_REPLAY"),
			"a replayed decision was refused otherwise: %s", heard);
	}
}

static void decide_all(struct life *l)
{
	char copy[sizeof heard], *save = NULL;

	if (!ask(l, "{'id':1,'do':'approvals'}"))
		return;
	memcpy(copy, heard, sizeof copy);
	for (char *line = strtok_r(copy, "\n", &save); line && !l->rig->exited;
		line = strtok_r(NULL, "\n", &save)) {
		json_t *answer = json_loads(line, 0, NULL), *item = json_object_get(answer, "item");

		if (item)
			decide(l, item);
		json_decref(answer);
	}
}

static bool all_are_accepted(struct life *l)
{
	for (int i = 0; i < l->count; i++)
		if (!errand_session(&l->errands[i]))
			return false;
	return true;
}

void operator_act(struct life *l)
{
	if (!l->scenario->is_operated || harness_now() - l->operated_at < PAUSE_S)
		return;
	l->operated_at = harness_now();
	if (l->drained_in != l->number && all_are_accepted(l) && ask(l, "{'id':1,'do':'drain'}"))
		l->drained_in = ask(l, "{'id':1,'do':'undrain'}") ? l->number : 0;
	ask(l, "{'id':1,'do':'stats'}");
	decide_all(l);
	decide_again(l);
	for (int i = 0; i < l->count && !l->rig->exited; i++) {
		const char *session = errand_session(&l->errands[i]);

		if (!session || !l->errands[i].task->operate)
			continue;
		ask(l, "{'id':1,'do':'show','session':'%s'}", session);
		operate(l, &l->errands[i], session);
	}
}

void operator_at_rest(struct life *l)
{
	if (l->scenario->is_operated && l->follow_fd >= 0)
		close(l->follow_fd);
	l->follow_fd = -1;
	for (const struct signed_one *s = l->decisions; s < l->decisions + l->decision_count; s++)
		must(!s->is_answered ||
				rig_sql(l->rig,
					"SELECT count(*) FROM reviews JOIN decisions USING (request_id) "
					"WHERE request_id ="
					" '%s' AND state IN (%s) AND is_final",
					s->request,
					s->is_refused ? "'APPROVED','EXPIRED'" : "'EXECUTED','DENIED'") == 1,
			"answered, but not stored: request %s", s->request);
	for (int i = 0; i < l->count; i++) {
		const struct errand *e = &l->errands[i];

		must(!e->must_be || is_state(l, errand_session(e), e->must_be) == 1,
			"answered, but not stored: session %s, %s", errand_session(e), e->must_be);
	}
}
