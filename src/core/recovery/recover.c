/* recover.c: what becomes of the sessions of an earlier life.
 * Owns the decision between resume, restart, fail, summarize and discard, also for those that died, or were
 * paused, in this life. Everything that it decides about an earlier one is committed before the daemon
 * consumes a command. */
#include "core/recovery/recover.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "core/running/artifacts.h"
#include "store/checkpoint.h"
#include "base/clock.h"
#include "core/admission/policy_wait.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "base/log.h"
#include "core/running/migrate.h"
#include "core/recovery/resume_check.h"
#include "core/admission/approval.h"
#include "core/running/run.h"
#include "core/recovery/partial_result.h"
#include "core/running/harp_events.h"

static void on_row(void *ctx, const struct store_session *row)
{
	session_load(ctx, row);
}

static void finish_as(struct session *s, const char *reason, const char *code, const char *message)
{
	session_fail(s, reason, code, "daemon", NULL, "%s", message);
	session_finish(s);
}

/* Says what was lost. False: it cannot go on: to begin again would do twice what the checkpoints say was
 * done. */
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
	s->attempt++;
	s->from_checkpoint = from_checkpoint;
	session_run(s, reason, "daemon");
	CRASH_POINT(recover_running);
	slots_take(s->core, s);
	run_set_clocks(s);
	effect_start(s);
}

/* What it was accepted under is no longer so: nothing starts, and the failure names what it was. */
static void refuse(struct session *s, const struct recheck_fault *f)
{
	struct buf details = {0};

	buf_addf(&details, "\"check\":\"%s\"", f->check);
	log_warn("a session does not go on: session=%.8s check=%s why=%s", s->id, f->check, f->message);
	session_fail(s, "recheck_failed", f->code, "daemon", buf_text(&details), "%s", f->message);
	CRASH_POINT(recover_refused);
	session_finish(s);
	buf_fini(&details);
}

/* Its state is of another version than its capability's workers go on from. */
static void resume_other_version(struct session *s, const struct checkpoint *cp, const struct capability *cap)
{
	struct recheck_fault f = {.check = "state_version", .code = "internal_error"};

	if (cap->config->migrate != NULL) {
		migrate_begin(s, cp);
		return;
	}
	snprintf(f.message, sizeof f.message,
		"checkpoint %s has a state of version %s, capability %.64s takes %.32s and names no "
		"migrate command",
		cp->id, cp->state_version, cap->name, cap->config->state_version);
	refuse(s, &f);
}

static void resume_from(
	struct session *s, const struct checkpoint *cp, bool found, const struct capability *cap)
{
	bool has_one =
		found || s->last_checkpoint[0] != '\0'; /* the latter: of this turn, and committed with it */

	if (!accept_damage(s, cp, found))
		finish_as(s, "no_checkpoint", "internal_error",
			"the session was interrupted, and all checkpoints are damaged");
	else if (found && !recheck_is_same_major(cp->state_version, cap->config->state_version))
		resume_other_version(s, cp, cap);
	else
		recover_resume(s, has_one ? "recovered_from_checkpoint" : "restarted", has_one);
}

/* From the beginning. Where an operator wants that, no later crash may bring it back to what he passed over.
 */
static void begin_anew(struct session *s)
{
	if (s->recover_as == RECOVERY_RESTART) {
		store_retire_checkpoints(s->core->store, s->key);
		s->last_checkpoint[0] = s->base.id[0] = '\0';
	}
	recover_resume(s, "restarted", false);
}

int recover_end(struct session *s, enum recovery how, const char *actor)
{
	if (how == RECOVERY_SUMMARIZE && summary_decide(s, actor) < 0)
		return -1;
	if (how == RECOVERY_DISCARD)
		session_decide(s, S_ABORTED, "discarded", actor, NULL, 0);
	if (how == RECOVERY_FAIL && strcmp(actor, "operator") == 0)
		session_fail(s, "failed_by_operator", "internal_error", actor, NULL,
			"the session was interrupted, and an operator let it "
			"fail");
	else if (how == RECOVERY_FAIL)
		session_fail(s, "no_checkpoint", "internal_error", actor, NULL,
			"the session was interrupted, and this capability does "
			"not recover");
	CRASH_POINT(recover_ended);
	session_finish(s);
	return 0;
}

static enum recovery choose(const struct session *s, const struct capability *cap)
{
	enum recovery how = s->recover_as < RECOVERY_COUNT ? s->recover_as : cap->config->recovery;

	return how == RECOVERY_RESUME && cap->config->protocol == PROTOCOL_TEXT ? RECOVERY_RESTART : how;
}

static int go_on_from(struct session *s, const struct checkpoint *cp, bool found)
{
	const struct capability *cap = policy_find(s->core->policy, s->capability);
	enum recovery how = cap != NULL ? choose(s, cap) : RECOVERY_RESUME;
	struct recheck_fault f;

	if (found)
		memcpy(s->last_checkpoint, cp->id, ID_SIZE);
	/* Where its timer runs, that is on the clock that counts: one that an operator paused was brought
	 * back before. */
	if (!timer_is_set(&s->deadline) && s->deadline_us != 0 && s->deadline_us <= clock_wall_us())
		finish_as(s, "timeout", "timeout", "max_duration was over while the callee was down");
	else if (cap != NULL && how != RECOVERY_RESUME && how != RECOVERY_RESTART)
		return recover_end(s, how, "daemon");
	else if (!recheck_pass(s, true, &f))
		refuse(s, &f);
	else if (how == RECOVERY_RESTART)
		begin_anew(s);
	else
		resume_from(s, cp, found, cap);
	return 0;
}

/* Before anything is said of its going on: is its task still the one that was accepted? What cannot be read,
 * or is not there, run_start.c says. -1: the store cannot be read now. */
static int check_seal(struct session *s)
{
	struct buf task = {0}, message = {0};
	int found = store_load_task(s->core->store, s->key, &task);
	const char *fault = found > 0 ? session_find_change(s, &task) : NULL;

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

/* PAUSED by a crash, a stop, its worker or a death of it, or no longer by an operator. */
int recover_go_on(struct session *s)
{
	struct checkpoint cp;
	int found;

	if (check_seal(s) < 0)
		return -1;
	if (session_has_outcome(s))
		return 0;
	if ((found = checkpoint_find(s->core->store, s->key, s->seal, &cp)) >= 0 &&
		go_on_from(s, &cp, found > 0) < 0)
		found = -1;
	checkpoint_fini(&cp);
	return found < 0 ? -1 : 0;
}

/* Somebody wants it to rest, or to be asked. Who resumed it before we went down has been. */
static bool stays(const struct session *s)
{
	if (s->paused_by == PAUSED_BY_OPERATOR)
		return true;
	return s->core->policy->config->on_start == ON_START_ASK && s->paused_by != PAUSED_NOT;
}

/* One that does not go on at once may end before it does, and its end tells what it could be resumed from. */
static int recall_checkpoint(struct session *s)
{
	struct checkpoint cp;
	int found = checkpoint_find(s->core->store, s->key, s->seal, &cp);

	if (found > 0)
		memcpy(s->last_checkpoint, cp.id, ID_SIZE);
	checkpoint_fini(&cp);
	return found < 0 ? -1 : 0;
}

static int recover(struct session *s)
{
	struct addressee *to = outbox_addressee(s->core->outbox, s->caller_id);

	if (to == NULL)
		return -1;
	session_address(s, to);
	if (tell_again(s) < 0 || session_load_outcome(s) < 0 || artifacts_load(s) < 0)
		return -1;
	if (s->waits_for == WAITS_FOR_PROGRAM)
		return consult_recover(s);
	if (s->waits_for == WAITS_FOR_HUMAN)
		return review_recover(s);
	if (s->state == S_PENDING && !session_has_outcome(s)) {
		slots_wait(s->core, s);
		return 0;
	}
	if (s->state == S_ABORTING && !session_has_outcome(s))
		session_decide(s, S_ABORTED, "aborted_by_caller", "daemon", NULL, 0);
	if (session_has_outcome(s)) {
		session_finish(s); /* its processes were ended before */
		CRASH_POINT(recover_finished);
		return 0;
	}
	if (s->state == S_RUNNING) {
		session_go(s, S_PAUSED, "callee_restarted", "daemon");
		s->paused_by = PAUSED_BY_CRASH;
		CRASH_POINT(recover_paused);
	}
	if (stays(s)) {
		run_set_clocks(s);
		return recall_checkpoint(s);
	}
	/* One that had given its slot back, or may have, queues again; the commit that follows looks who may
	 * start. */
	if (s->paused_by == PAUSED_NOT || s->paused_by == PAUSED_BY_RETRY ||
		s->paused_by == PAUSED_BY_WORKER) {
		run_set_clocks(s);
		slots_wait(s->core, s);
		return recall_checkpoint(s);
	}
	return recover_go_on(s);
}

/* Is this directory somebody's? A crash may have left one of a reused process, or of a session that had
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

/* Keys that are not there any more: whoever has such a token finds out by an abort that does nothing. */
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

int core_recover(struct core *c)
{
	struct session *s, *tmp;
	unsigned count;

	workers_kill_leftovers(c->workers);
	CRASH_POINT(recover_leftovers_killed);
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
