/* SPDX-License-Identifier: MIT */
/* recover.c: what becomes of the sessions of the previous run.
 * Owns the choice between resume, restart, fail, summarize and discard, also for sessions that died or were
 * paused in this run. Never commits: serve in hcpd/main.c ends the turn, and so commits the recovery,
 * before the bus starts. */
#include "core/recovery/recover.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "core/running/artifacts.h"
#include "store/checkpoint.h"
#include "config/state_version.h"
#include "policy/state_check.h"
#include "base/clock.h"
#include "core/admission/policy_wait.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "core/running/migrate.h"
#include "core/recovery/restore.h"
#include "core/recovery/resume_check.h"
#include "core/admission/approval.h"
#include "core/running/run.h"
#include "core/recovery/partial_result.h"
#include "core/running/harp_events.h"
#include "process/workdir.h"

static void on_row(void *ctx, const struct store_session *row)
{
	session_load(ctx, row);
}

static void finish_as(struct session *s, const char *reason, const char *code, const char *message)
{
	session_fail(s, reason, code, "daemon", NULL, "%s", message);
	session_finish(s);
}

/* Reports damaged checkpoints. False: no good one is left, and the session cannot go on: a new beginning
 * would repeat work that the checkpoints say was done. */
static bool accept_damage(struct session *s, const struct checkpoint *cp, bool found)
{
	if (cp->damaged == 0)
		return true;
	log_error("ALARM: a checkpoint is damaged: session=%.8s checkpoint=%s count=%d why=%s", s->id,
		cp->damaged_id[0] != '\0' ? cp->damaged_id : "unreadable", cp->damaged, cp->damage);
	session_warn(s, "checkpoint_damaged", "%d checkpoint%s cannot be used: %s; %s%s", cp->damaged,
		cp->damaged == 1 ? "" : "s", cp->damage,
		found ? "going on from the newest good one, " : "none is good", found ? cp->id : "");
	return found;
}

void recover_resume(struct session *s, const char *reason, bool from_checkpoint)
{
	s->attempts.number++;
	s->checkpoint.is_used = from_checkpoint;
	session_run(s, reason, "daemon");
	CRASH_POINT(recover_running);
	slots_take(s->core, s);
	run_set_clocks(s);
	effect_start(s);
}

/* The conditions of its acceptance no longer hold: nothing starts, and the failure names the check. */
static void refuse(struct session *s, const struct resume_fault *f)
{
	struct buf details = {0};

	buf_addf(&details, "\"check\":\"%s\"", f->check);
	log_warn("a session does not %s: session=%.8s check=%s why=%s",
		s->state == S_PENDING ? "begin" : "go on", s->id, f->check, f->message);
	session_fail(s, "recheck_failed", f->code, "daemon", buf_text(&details), "%s", f->message);
	CRASH_POINT(recover_refused);
	session_finish(s);
	buf_fini(&details);
}

/* The gate decided about a fresh session in this turn, so nothing is checked twice. The start itself tells
 * whether its command is there. */
int recover_may_begin(struct session *s)
{
	struct resume_fault f;

	if (s->slot.is_fresh || resume_check_pass(s, false, &f))
		return 1;
	if (f.check == NULL)
		return -1;
	refuse(s, &f);
	return 0;
}

/* The checkpoint's state has another version than the capability's workers read. */
static void resume_other_version(struct session *s, const struct checkpoint *cp, const struct capability *cap)
{
	struct resume_fault f = {.check = "state_version", .code = "internal_error"};

	if (migrate_begin(s, cp))
		return;
	snprintf(f.message, sizeof f.message,
		"checkpoint %s has a state of version %s, capability %.64s takes %.32s and names no migrate "
		"command for it",
		cp->id, cp->state_version, cap->name, cap->config->state_version);
	refuse(s, &f);
}

static void refuse_state(struct session *s, const struct checkpoint *cp, const char *why)
{
	struct resume_fault f = {.check = "state_schema", .code = "internal_error"};

	snprintf(f.message, sizeof f.message,
		"the state of checkpoint %s does not fit the capability's state_schema: %.240s", cp->id, why);
	refuse(s, &f);
}

static void resume_from(struct session *s, const struct checkpoint *cp, bool found,
	const struct capability *cap, const char *unfit)
{
	/* a checkpoint of this turn is committed with it */
	bool has_one = found || s->checkpoint.last_id[0] != '\0';

	if (!accept_damage(s, cp, found))
		finish_as(s, "no_checkpoint", "internal_error",
			"the session was interrupted, and all checkpoints are damaged");
	else if (found && !state_version_is_read(cp->state_version, cap->config->state_version))
		resume_other_version(s, cp, cap);
	else if (unfit != NULL)
		refuse_state(s, cp, unfit);
	else
		recover_resume(s, has_one ? "recovered_from_checkpoint" : "restarted", has_one);
}

/* Starts from the beginning. After an operator's restart no later crash may go back to the old checkpoints,
 * so they are retired. */
static void begin_anew(struct session *s)
{
	if (s->pause.recover_as == RECOVERY_RESTART) {
		store_retire_checkpoints(s->core->store, s->key);
		s->checkpoint.last_id[0] = s->checkpoint.base.id[0] = '\0';
	}
	recover_resume(s, "restarted", false);
}

int recover_end(struct session *s, enum recovery how, const char *actor)
{
	if (how == RECOVERY_SUMMARIZE && partial_result_decide(s, actor) < 0)
		return -1;
	if (how == RECOVERY_DISCARD)
		session_set_outcome(s, S_ABORTED, "discarded", actor, NULL, 0);
	if (how == RECOVERY_FAIL && strcmp(actor, "operator") == 0)
		session_fail(s, "failed_by_operator", "internal_error", actor, NULL,
			"the session was interrupted, and an operator let it fail");
	else if (how == RECOVERY_FAIL)
		session_fail(s, "no_checkpoint", "internal_error", actor, NULL,
			"the session was interrupted, and this capability does not recover");
	CRASH_POINT(recover_ended);
	session_finish(s);
	return 0;
}

static enum recovery choose(const struct session *s, const struct capability *cap)
{
	enum recovery how =
		s->pause.recover_as != RECOVERY_NONE ? s->pause.recover_as : cap->config->recovery;

	return how == RECOVERY_RESUME && cap->config->protocol == PROTOCOL_TEXT ? RECOVERY_RESTART : how;
}

/* unfit: why the state does not fit the state_schema; NULL: it does. */
static int go_on_from(struct session *s, const struct checkpoint *cp, bool found, const char *unfit)
{
	const struct capability *cap = policy_find(s->core->policy, s->capability);
	enum recovery how = cap != NULL ? choose(s, cap) : RECOVERY_RESUME;
	struct resume_fault f;

	/* A running timer is on the boot clock, which counts; the wall clock decides only right after a
	 * restart. */
	if (!timer_is_set(&s->run.deadline) && s->times.deadline_us != 0 &&
		s->times.deadline_us <= clock_wall_us())
		finish_as(s, "timeout", "timeout", "max_duration was over while the callee was down");
	else if (cap != NULL && how != RECOVERY_RESUME && how != RECOVERY_RESTART)
		return recover_end(s, how, "daemon");
	else if (!resume_check_pass(s, true, &f)) {
		if (f.check == NULL)
			return -1;
		refuse(s, &f);
	} else if (how == RECOVERY_RESTART)
		begin_anew(s);
	else
		resume_from(s, cp, found, cap, unfit);
	return 0;
}

/* Is the task still the one that was accepted? Checked before the session is reported as going on.
 * run_start.c handles a task that is lost or damaged. -1: the store cannot be read now. */
static int check_seal(struct session *s)
{
	struct buf task = {0}, message = {0};
	int found = store_load_task(s->core->store, s->key, &task);
	const char *fault = found > 0 ? session_verify_task(s, &task) : NULL;

	if (fault != NULL) {
		log_error(
			"ALARM: a sealed intent was changed, the session does not go on: session=%.8s why=%s",
			s->id, fault);
		buf_addf(&message, "the sealed intent is broken: %s", fault);
		finish_as(s, "intent_changed", "internal_error", buf_text(&message));
	}
	buf_fini(&task);
	buf_fini(&message);
	return found < 0 && !store_is_damaged(s->core->store) ? -1 : 0;
}

/* For sessions that were PAUSED by a crash, a stop, their worker or its death, or that an operator resumed.
 */
int recover_go_on(struct session *s)
{
	const struct capability *cap = policy_find(s->core->policy, s->capability);
	struct checkpoint cp;
	char why[512];
	bool fits;
	int found;

	if (check_seal(s) < 0)
		return -1;
	if (session_has_outcome(s))
		return 0;
	found = restore_find(s, RESTORE_GO_ON, &cp);
	if (found == RESTORE_LATER) { /* it holds its slot meanwhile */
		slots_take(s->core, s);
		run_set_clocks(s);
		CRASH_POINT(recover_waits);
	} else if (found >= 0) {
		fits = found == 0 || cap == NULL ||
			state_check_fits(cap, cp.state.data, cp.state.size, why, sizeof why);
		if (go_on_from(s, &cp, found > 0, fits ? NULL : why) < 0)
			found = -1;
	}
	checkpoint_fini(&cp);
	return found < 0 ? -1 : 0;
}

void recover_restored(struct session *s, const struct checkpoint *cp, bool found, const char *unfit)
{
	if (go_on_from(s, cp, found, unfit) == 0)
		return;
	/* The store cannot be read: the next commit tries it again, and reports the fault. */
	slots_leave(s->core, s);
	slots_wait(s->core, s);
}

/* Does the session stay PAUSED? An operator paused it, or on_start = ask. A session that was resumed before
 * the daemon ended goes on. */
static bool stays(const struct session *s)
{
	if (s->pause.by == PAUSED_BY_OPERATOR)
		return true;
	return s->core->policy->config->on_start == ON_START_ASK && s->pause.by != PAUSED_FOR_SLOT;
}

/* Finds the last good checkpoint: the session may end before it goes on, and its last message names it. */
static int recall_checkpoint(struct session *s)
{
	struct checkpoint cp;
	int found = restore_find(s, RESTORE_RECALL, &cp);

	checkpoint_fini(&cp);
	return found < 0 ? -1 : 0;
}

/* The session ran when the daemon ended: PAUSED. Its rest began with the last message that is stored of it.
 * -1: the store cannot be read. */
static int pause_after_crash(struct session *s)
{
	char at[STORE_WORD_SIZE];
	int64_t last_us = s->times.updated_us, at_us;

	if (store_find_last_event_time(s->core->store, s->key, at) < 0 && !store_is_damaged(s->core->store))
		return -1;
	if (clock_parse(at, &at_us) && at_us > last_us)
		last_us = at_us;
	session_transition(s, S_PAUSED, "callee_restarted", "daemon");
	s->times.rest_began_us = last_us;
	s->pause.by = PAUSED_BY_CRASH;
	CRASH_POINT(recover_paused);
	return 0;
}

static int recover(struct session *s)
{
	struct outbox_caller *to = outbox_find_caller(s->core->outbox, s->caller_id);

	if (to == NULL)
		return -1;
	session_set_caller(s, to);
	if (harp_events_again(s) < 0 || session_load_outcome(s) < 0 || artifacts_load(s) < 0)
		return -1;
	if (s->admission.waits_for == WAITS_FOR_PROGRAM)
		return policy_wait_recover(s);
	if (s->admission.waits_for == WAITS_FOR_HUMAN)
		return approval_recover(s);
	if (s->state == S_PENDING && !session_has_outcome(s)) {
		slots_wait(s->core, s);
		return 0;
	}
	if (s->state == S_ABORTING && !session_has_outcome(s))
		session_set_outcome(s, S_ABORTED, "aborted_by_caller", "daemon", NULL, 0);
	if (session_has_outcome(s)) {
		session_finish(s); /* workers_kill_stale has killed its processes */
		CRASH_POINT(recover_finished);
		return 0;
	}
	if (s->state == S_RUNNING && pause_after_crash(s) < 0)
		return -1;
	if (stays(s)) {
		run_set_clocks(s);
		return recall_checkpoint(s);
	}
	/* A session that had no slot, or may have had none, joins the queue; the next commit fills the slots.
	 */
	if (s->pause.by == PAUSED_FOR_SLOT || s->pause.by == PAUSED_BY_RETRY ||
		s->pause.by == PAUSED_BY_WORKER || s->pause.by == PAUSED_BY_IDLE) {
		run_set_clocks(s);
		slots_wait(s->core, s);
		return recall_checkpoint(s);
	}
	return recover_go_on(s);
}

/* Is this working directory still wanted? A crash may leave one of a reused process, or of a session that has
 * ended. */
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

/* Counts sessions whose token was signed with a key that is gone: such a token aborts nothing. */
static void say_void_tokens(struct core *c)
{
	struct session *s, *tmp;
	unsigned count = 0;

	HASH_ITER(by_key, c->by_key, s, tmp) {
		size_t i = 0;

		while (i < c->keys.count && !token_is_of(&c->keys.list[i], s->token))
			i++;
		count += s->token[0] != '\0' && i == c->keys.count;
	}
	if (count > 0)
		log_warn(
			"session tokens that were given out before are void, their key is not in token.keys: "
			"sessions=%u",
			count);
}

int recover_all(struct core *c)
{
	struct session *s, *tmp;
	unsigned count;

	workers_kill_stale(c->workers);
	CRASH_POINT(recover_stale_killed);
	if (store_load_live(c->store, on_row, c) < 0 || outbox_load(c->outbox) < 0)
		goto unreadable;
	CRASH_POINT(recover_loaded);
	count = HASH_CNT(by_key, c->by_key);
	say_void_tokens(c);
	HASH_ITER(by_key, c->by_key, s, tmp)
		if (recover(s) < 0)
			goto unreadable;
	c->has_trash |= workdir_collect(c->state_dir, is_wanted, c) > 0;
	CRASH_POINT(recover_collected);
	if (count > 0)
		log_info("sessions of an earlier life were brought back: count=%u", count);
	return EX_OK;
unreadable:
	log_error("the store cannot be read: error=%s", store_error(c->store));
	return EX_IOERR;
}
