/* SPDX-License-Identifier: MIT */
/* fake_policy_program.c: the policy program of the simulated daemon: allows, denies, wants a human, talks
 * nonsense, answers twice, too late or never, and dies. Owns the questions that it was put, and what it said
 * to them. Never looks at what the daemon makes of it (approval_oracle.c). */
#include "sim.h"

#include <jansson.h>
#include <signal.h>

#define QUESTIONS_MAX 256

static struct question {
	int worker;
	long long id;
	char session_id[ID_SIZE];
	bool is_answered;
} questions[QUESTIONS_MAX];
static size_t question_count;

bool program_is(const struct worker *w)
{
	return strcmp(w->argv[1], "policy") == 0;
}

void program_begin(void)
{
	question_count = 0;
}

static struct worker *newest(void)
{
	for (size_t i = sim.workers.count; i-- > 0;)
		if (program_is(sim.workers.list[i]))
			return sim.workers.list[i];
	return NULL;
}

/* ---- what it says ---- */

static void say(struct question *q)
{
	static const struct {
		const char *word;
		unsigned said;
		enum covered what;
	} verdicts[] = {{"allow", SAID_ALLOW, PROGRAM_ALLOW}, {"allow", SAID_ALLOW, PROGRAM_ALLOW},
		{"allow", SAID_ALLOW, PROGRAM_ALLOW}, {"allow", SAID_ALLOW, PROGRAM_ALLOW},
		{"ask", SAID_ASK, PROGRAM_ASK}, {"deny", 0, PROGRAM_DENY}, {"perhaps", 0, PROGRAM_NONSENSE}};
	unsigned i = sim_choose(sizeof verdicts / sizeof *verdicts);
	struct jsession *s = watch_find(q->session_id);
	char line[128];

	cover(sim.workers.list[q->worker] != newest() ? PROGRAM_REPLACED_SAYS :
			q->is_answered                ? PROGRAM_TWICE :
							verdicts[i].what);
	q->is_answered = true;
	/* one that was replaced has no say */
	if (s != NULL && sim.lie != LIE_PUPPET && sim.workers.list[q->worker] == newest())
		s->program_said |= verdicts[i].said;
	snprintf(line, sizeof line, "{\"id\":%lld,\"decision\":\"%s\",\"reason\":\"r\"}", q->id,
		verdicts[i].word);
	sim_trace("the program says %s to %lld, session %.8s", verdicts[i].word, q->id, q->session_id);
	fake_worker_say(sim.workers.list[q->worker], line);
}

void program_on_line(struct worker *w, const char *line, size_t size)
{
	json_t *root = json_loadb(line, size, 0, NULL);
	const char *id = json_string_value(json_object_get(root, "session"));
	struct question *q;

	if (id == NULL || strcmp(json_string_value(json_object_get(root, "type")), "decide") != 0)
		violation("the program is asked what is no question: %.*s", (int)size, line);
	policy_question(w, id);
	if (question_count == QUESTIONS_MAX)
		violation("the program was asked %d times in a life", QUESTIONS_MAX);
	q = &questions[question_count++];
	*q = (struct question){.worker = w->number, .id = json_integer_value(json_object_get(root, "id"))};
	snprintf(q->session_id, sizeof q->session_id, "%s", id);
	json_decref(root);
	if (!w->is_dying && !w->closed_out && (sim.is_healed || (sim_mood(w)->obeys && sim_chance(2))))
		say(q);
}

static struct question *open_question(const struct worker *w)
{
	for (size_t i = 0; i < question_count; i++) {
		const struct jsession *s = watch_find(questions[i].session_id);

		if (questions[i].worker == w->number && !questions[i].is_answered && s != NULL &&
			strcmp(s->waits, "program") == 0)
			return &questions[i];
	}
	return NULL;
}

static void die(struct worker *w)
{
	cover(PROGRAM_DIES);
	if (open_question(w) != NULL)
		cover(PROGRAM_DIES_ASKED);
	fake_worker_exit(w, sim_chance(2) ? 256 : SIGKILL);
}

bool program_act(void)
{
	struct worker *w = newest();
	struct question *q;

	if (w == NULL || w->is_gone || w->is_dying)
		return false;
	sim_trace("the program acts");
	switch (sim_choose(13)) {
	case 0: die(w); break;
	case 1:
		if (sim_chance(3) && !w->closed_out) {
			cover(PROGRAM_MUTE);
			fake_worker_close_out(w);
		}
		break;
	case 2:
		if (!w->closed_out)
			fake_worker_say(w,
				sim_chance(2) ? "no JSON at all" : "{\"id\":999999,\"decision\":\"allow\"}");
		break;
	case 3:
	case 4:
		if (question_count > 0) {
			q = &questions[sim_choose((unsigned)question_count)];
			w = sim.workers.list[q->worker];
			if ((q->is_answered || w != newest()) && !w->is_dying && !w->is_gone &&
				!w->closed_out)
				say(q);
		}
		break;
	default:
		if ((q = open_question(w)) != NULL && !w->closed_out)
			say(q);
		else
			return false;
	}
	return true;
}

void program_note_reload(void)
{
	const struct worker *w = newest();
	struct question *q = w != NULL && !w->is_gone && !w->is_dying ? open_question(w) : NULL;

	if (q != NULL)
		cover(PROGRAM_REPLACED);
	/* its answer is in the pipe, and nobody reads it any more */
	if (q != NULL && !w->closed_out && sim_chance(2)) {
		cover(PROGRAM_REPLACED_SAYS);
		say(q);
	}
	/* What it said and nobody has heard counts no more; while the core is held, something may have
	 * been. */
	for (int64_t key = 1; key <= watch.session_count && !sim.core.phase.is_suspended; key++)
		if (strcmp(watch.sessions[key].waits, "program") == 0)
			watch.sessions[key].program_said = 0;
}
