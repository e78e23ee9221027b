/* operate.c: what an operator may do to sessions and to the daemon, a handler a verb.
 * Owns the answers. Never waits for a worker: what it is asked for is answered at once, and the session's state says
 * later what came of it. Knows no socket (control.c). */
#include "operate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"
#include "core.h"
#include "crash.h"
#include "log.h"
#include "review.h"
#include "run.h"

#define SECOND 1000000
#define UNWRITTEN_MAX (1 << 20)         /* bytes that wait for the worker to read its stdin */

/* ---- asks ---- */

struct ask *ask_new(enum ask_verb verb)
{
	struct ask *a = xcalloc(1, sizeof *a);

	a->verb = verb;
	a->from = 1;
	return a;
}

void ask_free(struct ask *a)
{
	if (a == NULL)
		return;
	free(a->reason);
	free(a->decision);
	buf_fini(&a->item);
	buf_fini(&a->done);
	free(a);
}

static void __attribute__((format(printf, 4, 5)))
refuse(struct ask *a, const char *code, const char *remedy, const char *fmt, ...)
{
	va_list ap;

	a->code = code;
	va_start(ap, fmt);
	vsnprintf(a->message, sizeof a->message, fmt, ap);
	va_end(ap);
	snprintf(a->remedy, sizeof a->remedy, "%s", remedy);
}

static void say_state(struct ask *a, const struct session *s)
{
	buf_addf(&a->done, ",\"session\":\"%s\",\"state\":\"%s\"", s->id, sstate_names[s->state]);
}

/* ---- a worker that can be told something ---- */

/* False: it cannot, and the ask says why. */
static bool can_tell(struct ask *a, const struct session *s)
{
	if (s->core->is_stopping)
		refuse(a, "not_now", "start hcpd again, then ask again", "hcpd is stopping");
	else if (session_has_outcome(s))
		refuse(a, "not_now", "wait for its end", "the end of session %.8s is decided: %s", s->id,
			sstate_names[s->outcome.state]);
	else if (s->host != NULL && s->cap->config->protocol == PROTOCOL_TEXT)
		refuse(a, "refused", "abort it, or let it run", "capability %s is of protocol text: its worker hears nothing", s->capability);
	else if (s->host != NULL && !worker_has_stdin(run_worker(s)))
		refuse(a, "not_now", "look at it with show", "the worker of session %.8s is on its way out", s->id);
	else if (s->host != NULL && worker_unwritten(run_worker(s)) >= UNWRITTEN_MAX)
		refuse(a, "not_now", "abort it if it hangs", "the worker of session %.8s does not read what it is told", s->id);
	else
		return true;
	return false;
}

static void tell(struct session *s, const char *type, const char *reason)
{
	struct buf b = {0};

	buf_addf(&b, "{\"type\":\"%s\"", type);
	if (reason != NULL) {
		buf_add_text(&b, ",\"reason\":");
		buf_add_json(&b, reason, strlen(reason));
	}
	buf_add_text(&b, "}");
	effect_line(s, b.data, b.size);
	buf_fini(&b);
}

/* ---- verbs on a session that is not over ---- */

static void do_abort(struct session *s, struct ask *a)
{
	bool again = s->state == S_ABORTING;

	CRASH_POINT(operate_abort);
	s->core->stats.aborts++;
	if (s->waits_for != WAITS_NOT) {
		review_cancel(s, a->reason);
		say_state(a, s);
		return;
	}
	if (!run_abort(s, "aborted_by_operator", "operator", a->reason) && !again)
		refuse(a, "not_now", "wait for its end", "the end of session %.8s was decided before: %s", s->id,
			sstate_names[s->outcome.state]);
	else
		say_state(a, s);
}

/* ---- pause, resume, checkpoint: told once, answered later ---- */

/* It was told that and has not answered: a second operator asks for nothing new. */
static bool is_under_way(const struct session *s, enum asked what)
{
	return s->asked == what && s->words_due > 0;
}

static void say_asked(struct ask *a, const struct session *s)
{
	buf_add_text(&a->done, ",\"asked\":true");
	say_state(a, s);
}

static void tell_once(struct session *s, struct ask *a, enum asked what, const char *type, const char *reason)
{
	if (!is_under_way(s, what)) {
		s->asked = what;
		s->words_due++;
		s->asked_us = clock_boot_us();
		tell(s, type, reason);
	}
	say_asked(a, s);
}

/* Its worker says that it paused or resumed: is that an answer? Those that are due were told in turn, the last of them
 * is s->asked; a worker that was told to pause and to go on again in one breath may answer the later one alone. */
static bool is_answer(struct session *s, enum asked word)
{
	unsigned taken = (s->asked == word) == (s->words_due % 2 == 1) ? 1 : 2;

	if (s->words_due < taken)
		return false;
	s->words_due -= taken;
	return true;
}

static void become_paused(struct session *s)
{
	session_go(s, S_PAUSED, "paused_by_operator", "operator");
	s->paused_by = PAUSED_BY_OPERATOR;
	CRASH_POINT(operate_paused);
}

bool operate_on_paused(struct session *s)
{
	bool ours = is_answer(s, ASKED_PAUSE);

	if (s->state == S_PAUSED)       /* it paused by itself meanwhile, say: that it is told again is no fault */
		return ours || s->asked == ASKED_PAUSE;
	/* He who wants it to go on again has not paused it: should we crash now, recovery brings it back. */
	if (!ours || s->asked != ASKED_PAUSE || s->state != S_RUNNING)
		return false;
	become_paused(s);
	return true;
}

static void do_pause(struct session *s, struct ask *a)
{
	/* One that waits to go on is PAUSED yet, and may be told to stay so; one that was told to go on, and did not yet. */
	bool is_going = s->state == S_RUNNING || s->words_due > 0 || s->is_waiting;

	if (s->state != S_RUNNING && (s->state != S_PAUSED || !is_going)) {
		refuse(a, "not_now", "only a RUNNING session can be paused", "session %.8s is %s", s->id, sstate_names[s->state]);
		return;
	}
	if (!can_tell(a, s))
		return;
	if (s->host != NULL) {
		if (s->state == S_PAUSED)
			s->paused_by = PAUSED_BY_OPERATOR;
		session_mark_dirty(s);
		tell_once(s, a, ASKED_PAUSE, "pause", a->reason != NULL ? a->reason : "operator");
		return;
	}
	if (s->state == S_RUNNING) {
		timer_cancel(&s->core->timers, &s->again);
		become_paused(s);
		slots_leave(s->core, s);
	} else {
		s->paused_by = PAUSED_BY_OPERATOR;
		session_mark_dirty(s);
		slots_leave(s->core, s);
	}
	say_state(a, s);
}

bool operate_on_resumed(struct session *s)
{
	bool ours = is_answer(s, ASKED_RESUME);

	if (s->state == S_RUNNING)
		return ours || s->asked == ASKED_RESUME;
	if (!ours || s->state != S_PAUSED)
		return false;
	session_run(s, "resumed", "operator");
	CRASH_POINT(operate_resumed);
	return true;
}

/* It has no process: it starts again as after a crash, once there is a slot. */
static void resume_from_store(struct session *s, struct ask *a)
{
	struct core *c = s->core;
	const struct capability *cap = policy_find(c->policy, s->capability);

	if (cap == NULL)
		refuse(a, "refused", "add it to the configuration again and reload, or abort the session",
			"capability %s is no longer in the configuration", s->capability);
	else if (cap->config->recovery == RECOVERY_FAIL)
		refuse(a, "refused", "abort it", "the process of session %.8s is gone, and capability %s does not recover", s->id,
			s->capability);
	if (a->code != NULL)
		return;
	CRASH_POINT(operate_resume);
	s->paused_by = PAUSED_NOT;      /* nobody holds it: should we crash now, recovery brings it back */
	session_mark_dirty(s);
	if (!s->is_waiting)
		slots_wait(c, s);
	(void)core_fill_slots(c);       /* the commit tries it again, and says what is wrong */
	say_state(a, s);
}

static void do_resume(struct session *s, struct ask *a)
{
	if (s->state != S_PAUSED && s->words_due == 0) {
		refuse(a, "not_now", "only a PAUSED session can be resumed", "session %.8s is %s", s->id, sstate_names[s->state]);
		return;
	}
	if (!can_tell(a, s))
		return;
	if (s->host == NULL)
		resume_from_store(s, a);
	else
		tell_once(s, a, ASKED_RESUME, "resume", NULL);
}

static void do_checkpoint(struct session *s, struct ask *a)
{
	if (s->host == NULL) {
		refuse(a, "not_now", "ask again when it runs", "session %.8s is %s and has no worker to ask", s->id,
			sstate_names[s->state]);
		return;
	}
	if (!can_tell(a, s))
		return;
	CRASH_POINT(operate_checkpoint);
	if (s->checkpoint_asked_us == 0) {
		s->checkpoint_asked_us = clock_boot_us();
		tell(s, "checkpoint_request", "operator");
	}
	say_asked(a, s);
}

/* What its worker was told and has not done; where it is so already, no answer is missed. */
static void look_asked(const struct session *s, struct ask_live *l)
{
	int64_t since = s->checkpoint_asked_us;

	if (is_under_way(s, ASKED_PAUSE) && s->state == S_RUNNING)
		l->asked = "pause";
	else if (is_under_way(s, ASKED_RESUME) && s->state == S_PAUSED)
		l->asked = "resume";
	if (l->asked != NULL)
		since = s->asked_us;
	else if (since != 0)
		l->asked = "checkpoint";
	l->asked_us = l->asked != NULL ? clock_boot_us() - since : 0;
}

/* From now on it proves nothing; who it was given to is not told, since whoever has it by now would hear it too. */
static void do_revoke_token(struct session *s, struct ask *a)
{
	if (s->token[0] == '\0') {
		refuse(a, "not_now", "deny it instead", "session %.8s is not accepted yet, and has no token", s->id);
		return;
	}
	s->token_revoked = true;
	session_mark_dirty(s);
	CRASH_POINT(operate_token_revoked);
	say_state(a, s);
}

static void do_live(struct session *s, struct ask *a)
{
	const struct worker *w = run_worker(s);

	a->has_live = true;
	a->live = (struct ask_live){
		.pid = w != NULL && !worker_has_exited(w) ? worker_pid(w) : 0, .reads = !s->is_unread, .waits = s->is_waiting,
		.idle_us = w != NULL ? clock_boot_us() - s->active_us : 0, .outbox_bytes = s->waiting_bytes,
	};
	look_asked(s, &a->live);
}

/* ---- verbs on the store, and on the daemon ---- */

static bool do_replay(struct core *c, struct ask *a)
{
	struct store_replay r = {.session = 0};
	int found = store_find_replay(c->store, a->session_id, a->from, &r);
	struct addressee *to;

	if (found < 0)
		return false;
	if (found == 0) {
		refuse(a, "not_found", "see list", "there is no session %.36s", a->session_id);
		return true;
	}
	if ((to = outbox_addressee(c->outbox, r.caller_id)) == NULL)
		return false;
	CRASH_POINT(operate_replay);
	if (r.count > 0 && !outbox_replay(c->outbox, to, r.session, r.first - 1, r.last))
		refuse(a, "unavailable", "ask again when those are done", "16 replays to caller %s are waiting already", r.caller_id);
	else
		buf_addf(&a->done, ",\"session\":\"%s\",\"state\":\"%s\",\"messages\":%lld", a->session_id, r.state,
			(long long)r.count);
	return true;
}

static void do_drain(struct core *c, struct ask *a, bool drain)
{
	CRASH_POINT(operate_drain);
	if (c->is_stopping) {
		refuse(a, "not_now", "wait until it runs again", "the daemon is stopping");
		return;
	}
	if (drain != c->is_draining)
		log_warn("%s", drain ? "draining: what runs goes on, new tasks are accepted and wait" :
			"no longer draining: what waits starts");
	c->is_draining = drain;
	core_say_status(c);
	buf_addf(&a->done, ",\"draining\":%s", drain ? "true" : "false");
}

static bool is_key_needed(void *ctx, const struct token_key *key)
{
	struct core *c = ctx;
	struct session *s, *tmp;

	HASH_ITER (by_key, c->by_key, s, tmp)
		if (!s->is_closed && token_is_of(key, s->token))
			return true;
	return false;
}

/* The new key is on disk before anything is signed with it. No token can outlive the longest that a session may run. */
static void do_rotate_key(struct core *c, struct ask *a)
{
	int64_t now = clock_wall_us(), until = now + c->policy->config->max_duration_us;
	struct session *s, *tmp;
	char why[256];

	HASH_ITER (by_key, c->by_key, s, tmp)
		if (s->updated_us + s->max_duration_us > until)
			until = s->updated_us + s->max_duration_us;     /* accepted under a longer one */
	if (token_rotate(c->state_dir, &c->keys, now, until, is_key_needed, c, why, sizeof why) < 0) {
		refuse(a, "unavailable", "the old key signs on; ask again when that is mended", "%.200s", why);
		return;
	}
	CRASH_POINT(operate_key_rotated);
	log_warn("session tokens are signed with a new key: kid=%s keys=%zu", c->keys.list[0].kid, c->keys.count);
	buf_addf(&a->done, ",\"kid\":\"%s\",\"keys\":%zu", c->keys.list[0].kid, c->keys.count);
}

static long long own_memory(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f == NULL || fscanf(f, "%*s %ld", &pages) != 1)
		pages = 0;
	if (f != NULL)
		fclose(f);
	return (long long)pages * sysconf(_SC_PAGESIZE);
}

static const char *yes(bool is_so)
{
	return is_so ? "true" : "false";
}

static void add_states(struct core *c, struct buf *b)
{
	unsigned counts[S_COUNT] = {0};
	struct session *s, *tmp;

	HASH_ITER (by_key, c->by_key, s, tmp)
		if (!s->is_closed)
			counts[s->state]++;
	buf_addf(b, ",\"by_state\":{\"PENDING\":%u,\"RUNNING\":%u,\"PAUSED\":%u,\"ABORTING\":%u}", counts[S_PENDING],
		counts[S_RUNNING], counts[S_PAUSED], counts[S_ABORTING]);
}

static void add_links(struct core *c, struct buf *b)
{
	int64_t oldest = outbox_oldest_us(c->outbox, clock_boot_us());
	struct outbox_stats st;
	struct bus_health h;

	outbox_get_stats(c->outbox, &st);
	bus_get_health(c->bus, &h);
	buf_addf(b, ",\"outbox\":{\"waiting_bytes\":%lld,\"unconfirmed\":%u,\"oldest_s\":", (long long)st.waiting_bytes, st.in_flight);
	if (oldest >= 0)
		buf_addf(b, "%.3f}", (double)oldest / SECOND);
	else
		buf_add_text(b, "null}");
	buf_addf(b, ",\"publishing\":%s,\"blocked\":%s,\"consuming\":%s,\"reconnects\":%llu", yes(h.pub_up), yes(h.blocked),
		yes(h.sub_up), (unsigned long long)h.reconnects);
}

static void add_capabilities(struct core *c, struct buf *b)
{
	buf_add_text(b, ",\"capabilities\":[");
	for (size_t i = 0; i < c->policy->config->capability_count; i++) {
		const struct capability *cap = c->policy->capabilities[i];
		unsigned waiting = 0;
		struct session *s;
		struct lane *l;

		HASH_FIND_STR(c->slots.lanes, cap->name, l);
		for (int p = 0; l != NULL && p < PRIORITY_COUNT; p++)
			for (s = l->waiting[p]; s != NULL; s = s->lane_next)
				waiting++;
		buf_addf(b, "%s{\"name\":\"%s\",\"version\":", i > 0 ? "," : "", cap->name);
		buf_add_json(b, cap->version, strlen(cap->version));
		buf_addf(b, ",\"running\":%u,\"waiting\":%u,\"limit\":", l != NULL ? l->running : 0, waiting);
		if (cap->concurrent_limit > 0)
			buf_addf(b, "%d}", cap->concurrent_limit);
		else
			buf_add_text(b, "null}");
	}
	buf_add_text(b, "]");
}

static void do_stats(struct core *c, struct ask *a)
{
	const struct core_stats *t = &c->stats;
	struct buf *b = &a->item;

	buf_addf(b, "{\"version\":\"%s\",\"instance\":\"%s\",\"pid\":%d,\"uptime_s\":%lld,\"callee_id\":\"%s\",\"state_dir\":",
		HCPD_VERSION, store_instance(c->store), getpid(), (long long)((clock_boot_us() - c->began_us) / SECOND),
		c->first_policy->config->callee_id);
	buf_add_json(b, c->state_dir, strlen(c->state_dir));
	buf_addf(b, ",\"draining\":%s,\"held\":%s,\"stopping\":%s,\"running\":%u,\"waiting\":%u,\"undecided\":%u",
		yes(c->is_draining), yes(c->is_held), yes(c->is_stopping), c->slots.running, c->slots.waiting, c->slots.asking);
	add_states(c, b);
	add_links(c, b);
	buf_addf(b, ",\"totals\":{\"submits\":%llu,\"duplicates\":%llu,\"rejected\":%llu,\"dropped\":%llu,\"aborts\":%llu,"
		"\"late_lines\":%llu,\"unroutable\":%llu},\"rss_bytes\":%lld", (unsigned long long)t->submits,
		(unsigned long long)t->duplicates, (unsigned long long)t->rejected, (unsigned long long)t->dropped,
		(unsigned long long)t->aborts, (unsigned long long)t->late_lines, (unsigned long long)t->unroutable, own_memory());
	buf_addf(b, ",\"audit\":{\"count\":%lld,\"head\":\"%s\"},\"policy\":\"%s\"", (long long)c->audit.count, c->audit.head,
		c->policy->hash);
	add_capabilities(c, b);
	buf_add_text(b, "}");
}

/* ---- the table ---- */

static const struct {
	const char *name;
	void (*on_session)(struct session *s, struct ask *a);   /* NULL: it is no verb of a session in memory */
	bool only_looks;
} verbs[ASK_VERBS] = {
	[ASK_ABORT] = {"abort", do_abort, false}, [ASK_PAUSE] = {"pause", do_pause, false},
	[ASK_RESUME] = {"resume", do_resume, false}, [ASK_CHECKPOINT] = {"checkpoint", do_checkpoint, false},
	[ASK_REPLAY] = {"replay", NULL, false}, [ASK_DRAIN] = {"drain", NULL, false},
	[ASK_REVOKE_TOKEN] = {"revoke_token", do_revoke_token, false}, [ASK_ROTATE_KEY] = {"rotate_token_key", NULL, false},
	[ASK_UNDRAIN] = {"undrain", NULL, false}, [ASK_STATS] = {"stats", NULL, true}, [ASK_LIVE] = {"live", do_live, true},
	[ASK_DECIDE] = {"decide", NULL, false}, [ASK_APPROVERS] = {"approvers", NULL, true},
};

const char *ask_name(enum ask_verb verb)
{
	return verbs[verb].name;
}

bool operate_only_looks(enum ask_verb verb)
{
	return verbs[verb].only_looks;
}

static bool on_session(struct core *c, struct ask *a)
{
	struct session *s = session_find(c, a->session_id);
	char state[16] = "";
	int found = 1;

	if (s != NULL && !s->is_closed) {
		verbs[a->verb].on_session(s, a);
		return true;
	}
	if (s != NULL)
		snprintf(state, sizeof state, "%s", sstate_names[s->state]);
	else if ((found = store_find_session(c->store, a->session_id, state)) < 0)
		return false;
	if (found == 0)
		refuse(a, "not_found", "see list", "there is no session %.36s", a->session_id);
	else
		refuse(a, "not_now", "see what came of it with show", "session %.8s has ended: %s", a->session_id, state);
	return true;
}

static bool act(struct core *c, struct ask *a)
{
	switch (a->verb) {
	case ASK_REPLAY:
		return do_replay(c, a);
	case ASK_DRAIN: case ASK_UNDRAIN:
		do_drain(c, a, a->verb == ASK_DRAIN);
		return true;
	case ASK_ROTATE_KEY:
		do_rotate_key(c, a);
		return true;
	case ASK_STATS:
		do_stats(c, a);
		return true;
	case ASK_DECIDE:
		return review_decide(c, a);
	case ASK_APPROVERS:
		review_list_approvers(c, a);
		return true;
	default:
		return on_session(c, a);
	}
}

/* What was done, and what was refused: the latter can be asked for at any rate. */
static void note(struct core *c, const struct ask *a)
{
	const struct audit_entry row = {.what = ask_name(a->verb), .outcome = a->code != NULL ? "refused" : "done",
		.who = "operator", .has_uid = true, .uid = a->uid, .user = a->user, .session = a->session_id, .code = a->code,
		.why = a->code != NULL ? a->message : a->reason};

	CRASH_POINT(operate_audited);
	if (a->code != NULL)
		audit_put_refusal(c, &row, NULL);
	else
		audit_put(c, &row);
}

bool operate_take(struct core *c, struct ask *a)
{
	if (!act(c, a))
		return false;
	if (operate_only_looks(a->verb)) {
		control_answer(c->control, a);
		return true;
	}
	log_info("operator: verb=%s session=%.8s uid=%lld answer=%s%s%s", ask_name(a->verb),
		a->session_id[0] != '\0' ? a->session_id : "-", (long long)a->uid, a->code != NULL ? a->code : "done",
		a->reason != NULL ? " why=" : "", a->reason != NULL ? a->reason : "");
	note(c, a);
	effect_answer(c, a);
	return true;
}

void operate_note_strangers(struct core *c)
{
	struct control_stranger list[CONTROL_STRANGERS];
	int count = control_take_strangers(c->control, list);

	for (int i = 0; i < count; i++) {
		const struct audit_entry row = {.what = "control", .outcome = "refused", .who = "stranger", .has_uid = true,
			.uid = list[i].uid, .user = list[i].user, .code = "refused", .why = "may not use the control socket",
			.times = list[i].count};

		audit_put_refusal(c, &row, NULL);
	}
}
