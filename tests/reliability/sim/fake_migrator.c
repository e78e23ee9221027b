/* SPDX-License-Identifier: MIT */
/* fake_migrator.c: programs that bring a state to another version: they answer well, nonsense, twice, too
 * late or never, and die. Owns what they were asked and said, and the rules for it: the question is the
 * newest checkpoint, the answer becomes the next, and no worker goes on from a state of another version. What
 * it finds ends the run (violation). */
#include "store_watch.h"

#include <jansson.h>
#include <signal.h>

#define LIMIT_US (60 * SECONDS)

bool mover_is(const struct worker *w)
{
	return strcmp(w->argv[1], "migrate") == 0;
}

static bool is_moved(const struct jsession *s)
{
	return strcmp(s->capability, "moved") == 0;
}

/* Is a state of that version one for the program that migrates? The capability reads 2.0: 2.1 is too new. */
static bool is_other(const char *version)
{
	return strcmp(version, "2.0") != 0;
}

static int integer(const json_t *object, const char *name)
{
	return (int)json_integer_value(json_object_get(object, name));
}

/* ---- what workers save ---- */

const char *mover_some_checkpoint(void)
{
	static char line[128];
	unsigned v = 1 + sim_choose(2), n = 1 + sim_choose(9);

	snprintf(line, sizeof line,
		"{\"type\":\"checkpoint\",\"state\":{\"v\":%u,\"n\":%u},\"state_version\":\"%u.%u\"}", v, n,
		v, sim_choose(3));
	return line;
}

/* ---- what was committed ---- */

/* Before others see it: a new checkpoint. proves CK-11 */
void mover_point(struct jsession *s, const char *trigger, const char *version, const char *state)
{
	json_t *saved = json_loads(state, 0, NULL);
	int v = integer(saved, "v"), n = integer(saved, "n");

	if (is_moved(s) && strcmp(trigger, "migrate") == 0) {
		if (!s->mover_said || v != 2 || n != s->saved_n || !is_other(s->saved_version) ||
			is_other(version))
			violation(
				"session %.8s: state %d of version %s became %s of version %s, and its "
				"program %s",
				s->id, s->saved_n, s->saved_version, state, version,
				s->mover_said ? "said otherwise" : "said nothing");
		s->mover_said = false;
		cover(MOVE_DONE);
	} else if (strcmp(trigger, "migrate") == 0) {
		violation("session %.8s of %s was migrated", s->id, s->capability);
	}
	snprintf(s->saved_version, sizeof s->saved_version, "%s", version);
	s->saved_n = n;
	json_decref(saved);
}

/* A worker starts from that. */
void mover_start(const struct jsession *s, const json_t *state)
{
	int v = integer(state, "v");

	if (!is_moved(s) || v == 0)
		return;
	if (v != 2)
		violation("session %.8s goes on from a state of version %d", s->id, v);
	if (integer(state, "n") != s->saved_n || is_other(s->saved_version))
		violation("session %.8s goes on from state %d, and saved %d of version %s", s->id,
			integer(state, "n"), s->saved_n, s->saved_version);
}

/* ---- the program ---- */

/* It runs while its session is PAUSED, and nobody else does. */
void mover_begin(const struct worker *w, const struct jsession *s)
{
	struct jsession *mine = &watch.sessions[s - watch.sessions];

	if (strcmp(s->state, "PAUSED") != 0 || s->has_outcome)
		violation("a state of session %.8s is migrated, which is %s", s->id, s->state);
	mine->mover_said = false;
	mine->mover_us = clock_boot_us();
	cover(MOVE_BEGUN);
	sim_trace("worker %d migrates", w->number);
}

void mover_on_line(const struct worker *w, const char *line, size_t size)
{
	struct jsession *s = watch_find(w->session_id);
	json_t *root = json_loadb(line, size, 0, NULL);
	const json_t *state = json_object_get(root, "state");
	const char *from = json_string_value(json_object_get(root, "from")),
		   *to = json_string_value(json_object_get(root, "to"));

	watch_look();
	if (s == NULL || from == NULL || to == NULL || !is_other(from) || is_other(to) ||
		integer(state, "v") != from[0] - '0' ||
		(watch_may_ask(Q_POINTS) &&
			(strcmp(s->saved_version, from) != 0 || integer(state, "n") != s->saved_n)))
		violation("session %.8s: a program is asked to migrate %.*s", w->session_id, (int)size, line);
	sim_mood(w)->asked_n = integer(state, "n");
	json_decref(root);
}

/* An end of it that nobody decided is its own, or comes when its time is over. */
void mover_end(const struct worker *w, const struct jsession *s, bool is_ending)
{
	bool is_late = s != NULL && clock_boot_us() >= s->mover_us + LIMIT_US;

	if (w->kill_at_us == FAKE_NEVER)
		return; /* its stdin is closed once it has been asked */
	if (is_late && !w->has_exited && !is_ending)
		cover(MOVE_LATE);
	if (s == NULL || (!is_ending && !is_late))
		violation("worker %d is ended before it has migrated anything", w->number);
}

static void answer(struct worker *w, bool is_whole)
{
	char line[128];

	snprintf(line, sizeof line, "{\"v\":2,\"n\":%d%s}", sim_mood(w)->asked_n,
		is_whole ? ",\"moved\":true" : "");
	fake_worker_say(w, line);
}

static void finish(struct worker *w)
{
	struct jsession *s = watch_find(w->session_id);

	if (s != NULL)
		s->mover_said = true;
	answer(w, true);
	fake_worker_exit(w, 0);
}

static void act(struct worker *w)
{
	switch (sim_choose(9)) {
	case 0:
		cover(MOVE_NONSENSE);
		fake_worker_say(w, sim_chance(2) ? "no state at all" : "[1,2]");
		fake_worker_exit(w, 0);
		break;
	case 1:
		cover(MOVE_DIES);
		if (sim_chance(2))
			answer(w, false); /* that counts for nothing then */
		fake_worker_exit(w, sim_chance(2) ? SIGSEGV : 256);
		break;
	case 2:
		cover(MOVE_DIES);
		fake_worker_exit(w, 0); /* without a word */
		break;
	case 3: fake_worker_put(w, FAKE_ERR, "a word on stderr", 16, 0); break;
	case 4: break; /* it takes its time */
	default: finish(w);
	}
}

bool mover_act(void)
{
	for (size_t i = 0; i < sim.workers.count; i++) {
		struct worker *w = sim.workers.list[i];

		if (!mover_is(w) || w->is_gone || w->is_dying || sim_mood(w)->asked_n == 0)
			continue;
		sim_trace("worker %d, which migrates, acts", w->number);
		act(w);
		return true;
	}
	return false;
}

void mover_heal(struct worker *w)
{
	if (sim_mood(w)->asked_n != 0)
		finish(w);
}
