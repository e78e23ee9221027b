/* recover.c: what becomes of the sessions of an earlier life.
 * Owns the decision between resume, restart and fail. Everything that it decides is committed before the
 * daemon consumes a command. */
#include <string.h>
#include <sysexits.h>

#include "clock.h"
#include "core.h"
#include "log.h"
#include "run.h"

static void on_row(void *ctx, const struct store_session *row)
{
	session_load(ctx, row);
}

static void finish_as(struct session *s, const char *reason, const char *code, const char *message)
{
	session_fail(s, reason, code, "daemon", NULL, "%s", message);
	session_finish(s);
}

static int find_checkpoint(struct session *s)
{
	struct buf step = {0}, state = {0};
	int found = store_load_checkpoint(s->core->store, s->key, s->last_checkpoint, &step, &state);

	buf_fini(&step);
	buf_fini(&state);
	return found;
}

/* PAUSED by a crash, a stop or its worker: on it goes, one way or another. -1: the store cannot be read. */
static int go_on(struct session *s)
{
	struct core *c = s->core;
	const struct capability *cap = policy_find(c->policy, s->capability);
	int found = find_checkpoint(s);
	bool resumes;

	if (found < 0)
		return -1;
	if (s->deadline_us != 0 && s->deadline_us <= clock_wall_us()) {
		finish_as(s, "timeout", "timeout", "max_duration was over while the callee was down");
		return 0;
	}
	if (cap == NULL) {
		finish_as(s, "worker_failed", "internal_error", "its capability is no longer in the configuration");
		return 0;
	}
	if (cap->config->recovery == RECOVERY_FAIL) {
		finish_as(s, "no_checkpoint", "internal_error", "the callee was restarted, and this capability does not recover");
		return 0;
	}
	resumes = found > 0 && cap->config->recovery == RECOVERY_RESUME && cap->config->protocol == PROTOCOL_HCP;
	s->attempt++;
	session_run(s, resumes ? "recovered_from_checkpoint" : "restarted", "daemon");
	slots_take(c, s);
	run_set_clocks(s);
	effect_start(s);
	return 0;
}

static int recover(struct session *s)
{
	struct addressee *to = outbox_addressee(s->core->outbox, s->caller_id);

	if (to == NULL)
		return -1;
	session_address(s, to);
	if (session_load_outcome(s) < 0)
		return -1;
	if (s->state == S_PENDING && !session_has_outcome(s)) {
		slots_wait(s->core, s);
		return 0;
	}
	if (s->state == S_ABORTING && !session_has_outcome(s))
		session_decide(s, S_ABORTED, "aborted_by_caller", "daemon", NULL, 0);
	if (session_has_outcome(s)) {
		session_finish(s);      /* its processes were ended before */
		return 0;
	}
	if (s->state == S_PAUSED && s->paused_by == PAUSED_BY_OPERATOR) {
		run_set_clocks(s);
		return 0;
	}
	if (s->state == S_RUNNING) {
		session_go(s, S_PAUSED, "callee_restarted", "daemon");
		s->paused_by = PAUSED_BY_CRASH;
	}
	return go_on(s);
}

/* Is this directory somebody's? A crash may have left one of a reused process, or of a session that had ended. */
static bool is_wanted(void *ctx, const char *name)
{
	struct core *c = ctx;
	char state[16];
	int found;

	if (session_find(c, name) != NULL || (found = store_find_session(c->store, name, state)) < 0)
		return true;
	if (found == 0)
		return false;
	for (size_t i = 0; i < c->policy->config->capability_count; i++)
		if (c->policy->config->capabilities[i].keep_workdir == KEEP_ALWAYS)
			return true;
	return strcmp(state, sstate_names[S_FAILED]) == 0;
}

int core_recover(struct core *c)
{
	struct session *s, *tmp;
	unsigned count;

	workers_kill_leftovers(c->workers);
	if (store_load_live(c->store, on_row, c) < 0 || outbox_load(c->outbox) < 0)
		goto unreadable;
	count = HASH_CNT(by_key, c->by_key);
	HASH_ITER (by_key, c->by_key, s, tmp)
		if (recover(s) < 0)
			goto unreadable;
	c->has_trash |= workdir_collect(c->state_dir, is_wanted, c) > 0;
	if (count > 0)
		log_info("sessions of an earlier life were brought back: count=%u", count);
	return EX_OK;
unreadable:
	log_error("the store cannot be read: error=%s", store_error(c->store));
	return EX_IOERR;
}
