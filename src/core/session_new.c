/* SPDX-License-Identifier: MIT */
/* session_new.c: the beginning of a session (accepted at once, accepted after waiting for a decision, or read
 * from its row), its place in the index, and its memory.
 * Owns the token and the answer to an accepted task. Never changes a state except through session.c. */
#include "core/session_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/running/action.h"
#include "core/running/artifacts.h"
#include "core/admission/policy_wait.h"
#include "base/crashpoint.h"
#include "base/duration.h"
#include "policy/envelope.h"
#include "policy/output_check.h"
#include "base/log.h"
#include "base/text.h"
#include "core/pins.h"
#include "core/admission/approval.h"
#include "core/running/run.h"
#include "protocol/intent_seal.h"
#include "core/running/harp_events.h"
#include "core/recovery/restore.h"

static struct session *session_alloc(struct core *c)
{
	struct session *s = xcalloc(1, sizeof *s);

	s->core = c;
	s->outcome.state = S_NONE;
	s->run.exit_status = -1;
	s->pause.recover_as = RECOVERY_NONE;
	run_init(s);
	return s;
}

/* Pins the ended sessions that this one needs. session_free drops the pins, after the end is committed. */
static void add_pins(struct session *s, const char *checkpoint_of, const char *continues)
{
	text_copy(s->pins.checkpoint_of, sizeof s->pins.checkpoint_of,
		checkpoint_of != NULL ? checkpoint_of : "");
	text_copy(s->pins.continues, sizeof s->pins.continues, continues != NULL ? continues : "");
	pins_add(s->core, s->pins.checkpoint_of);
	pins_add(s->core, s->pins.continues);
}

static void index_session(struct session *s)
{
	HASH_ADD(by_id, s->core->by_id, id, ID_SIZE - 1, s);
	HASH_ADD(by_key, s->core->by_key, key, sizeof s->key, s);
}

/* The safety envelope of the session, under the policy in force. */
static const char *envelope_of(const struct session *s)
{
	const struct capability *cap = policy_find(s->core->policy, s->capability);

	return cap != NULL ? envelope_text(cap->envelope) : "{}";
}

/* Everything that the token claims must be known before: risk, duration, seal. */
static void make_token(struct session *s)
{
	const struct capability *cap = policy_find(s->core->policy, s->capability);
	char token[TOKEN_SIZE], max[DURATION_TEXT_SIZE], none[CANONICAL_HASH_SIZE];

	duration_format(s->times.max_duration_us, max);
	if (cap == NULL)
		canonical_hash_bytes("{}", 2, none);
	token_make(&s->core->keys,
		&(struct token_claims){.session_id = s->id,
			.caller_id = s->caller_id,
			.risk = risk_names[s->risk],
			.data_class = data_class_names[s->data_class],
			.max_duration = max,
			.envelope = cap != NULL ? envelope_hash(cap->envelope) : none,
			.intent = s->intent.seal,
			.task = s->intent.task_hash,
			.issued_us = s->times.updated_us,
			.expires_us = s->times.updated_us + s->times.max_duration_us},
		token);
	free(s->token);
	s->token = xstrdup(token);
}

enum token_fault session_check_token(const struct session *s, const char *token, int64_t now_us)
{
	const struct token_session own = {
		.session_id = s->id, .token = s->token, .is_revoked = s->token_revoked};

	return token_check(&s->core->keys, token, &own, now_us);
}

const char *session_verify_task(struct session *s, struct buf *task)
{
	char now[CANONICAL_HASH_SIZE];
	const char *fault;

	canonical_hash_bytes(task->data, task->size, now);
	if (s->intent.task_hash[0] != '\0')
		return strcmp(now, s->intent.task_hash) == 0 ?
			NULL :
			"the stored task is not the one that was accepted";
	fault = intent_seal_find_fault(buf_text(task), task->size, s->intent.seal, &s->core->keys, s->token);
	if (fault == NULL)
		memcpy(s->intent.task_hash, now, sizeof now);
	return fault;
}

static void put_accepted(struct session *s, const char *message_id)
{
	struct buf *b = &s->core->turn.scratch;
	char max[DURATION_TEXT_SIZE], abort_timeout[DURATION_TEXT_SIZE];

	duration_format(s->times.max_duration_us, max);
	duration_format(s->core->policy->config->abort_timeout_us, abort_timeout);
	session_begin_message(s, TYPE_ACCEPTED);
	buf_addf(b,
		"{\"session_token\":\"%s\",\"risk_level\":\"%s\",\"data_classification\":\"%s\",\"safety_"
		"envelope\":",
		s->token, risk_names[s->risk], data_class_names[s->data_class]);
	buf_add_text(b, envelope_of(s));
	buf_addf(b,
		",\"constraints\":{\"max_duration\":\"%s\",\"abort_timeout\":\"%s\"},\"intent_checksum\":"
		"\"sha256:%s\","
		"\"in_reply_to\":",
		max, abort_timeout, s->intent.seal);
	buf_add_json(b, message_id, strlen(message_id));
	buf_add_text(b, "}");
	message_end(b);
	s->admission.answer = session_put_message(s, TYPE_ACCEPTED, NULL, 0);
	log_info("task accepted: session=%.8s caller=%s capability=%s risk=%s", s->id, s->caller_id,
		s->capability, risk_names[s->risk]);
	if (s->data_class >= T2) /* no matter who accepted it: the gate, the program or a human */
		log_info("access to data: class=%s session=%.8s caller=%s capability=%s",
			data_class_names[s->data_class], s->id, s->caller_id, s->capability);
}

static void put_created(struct session *s)
{
	buf_addf(session_begin_event(s, "session_created"),
		"{\"state\":\"%s\",\"risk_level\":\"%s\",\"session_token\":\"%s\"}", sstate_names[s->state],
		risk_names[s->risk], s->token);
	session_end_event(s, "session_created");
}

/* The task asked for more than its caller may. */
static void warn_lowered(struct session *s, const struct gate_result *v)
{
	if (v->priority < v->priority_asked)
		session_warn(s, "priority_lowered",
			"priority %s is above this caller's limit, the task waits with priority %s; ask for "
			"%s, or ask the operator to raise max_priority",
			priority_names[v->priority_asked], priority_names[v->priority],
			priority_names[v->priority]);
}

void session_set_caller(struct session *s, struct outbox_caller *to)
{
	s->outbox.caller = to;
	outbox_caller_pin(to);
}

/* The common part of a session that is accepted at once and one that waits for a decision. */
static struct session *make_session(struct core *c, const struct command *cmd, const struct gate_result *v,
	struct outbox_caller *to, const char *id)
{
	struct session *s = session_alloc(c);

	s->key = ++c->last_session;
	memcpy(s->id, id, ID_SIZE);
	text_copy(s->caller_id, sizeof s->caller_id, cmd->caller_id);
	session_set_caller(s, to);
	s->capability = xstrdup(v->capability->name);
	s->capability_version = xstrdup(v->capability->version);
	s->risk = v->risk;
	s->data_class = cmd->task.data_class;
	s->priority = v->priority;
	s->times.max_duration_us = v->max_duration_us;
	add_pins(s, v->checkpoint_of, cmd->task.continues);
	s->times.created_us = s->times.updated_us = clock_wall_us();
	canonical_hash_bytes(cmd->task.json, cmd->task.json_size, s->intent.task_hash);
	if (!intent_seal_task(cmd->task.json, cmd->task.json_size, s->intent.seal)) {
		log_error("a task cannot be sealed, this is a defect; it runs unsealed: session=%.8s", s->id);
		s->intent.seal[0] = '\0';
	}
	harp_events_begin(s, cmd->task.harp);
	index_session(s);
	return s;
}

static void put_session(struct session *s, const struct command *cmd)
{
	struct store_session row;
	struct row_texts t;
	const char *name;
	json_t *value;

	session_fill_row(s, &row, &t);
	row.metadata = cmd->task.metadata;
	store_put_session(s->core->store, &row, cmd->task.json, cmd->task.json_size);
	json_object_foreach(cmd->task.labels, name, value)
		store_put_label(s->core->store, s->key, name, json_string_value(value));
	CRASH_POINT(session_stored);
}

void session_make_id(const struct core *c, char id[ID_SIZE])
{
	char count[9];

	id_make(id);
	snprintf(count, sizeof count, "%08x", (unsigned)(c->first_id + (uint32_t)(c->last_session + 1)));
	memcpy(id, count, sizeof count - 1);
}

struct session *session_new(
	struct core *c, const struct command *cmd, const struct gate_result *v, struct outbox_caller *to)
{
	char id[ID_SIZE], at[CLOCK_TEXT_SIZE];
	struct session *s;

	session_make_id(c, id);
	s = make_session(c, cmd, v, to, id);
	make_token(s);
	put_session(s, cmd);
	put_accepted(s, cmd->message_id);
	clock_format(s->times.created_us, at);
	store_put_submit(c->store, outbox_caller_key(to), cmd->message_id, at, s->key, s->admission.answer);
	put_created(s);
	warn_lowered(s, v);
	if (cmd->task.label_fault != NULL)
		session_warn(s, "label_not_indexed", "not all labels of the task are indexed: %s",
			cmd->task.label_fault);
	return s;
}

struct session *session_new_undecided(struct core *c, const struct command *cmd, const struct gate_result *v,
	struct outbox_caller *to, enum waits_for whom, const char *id)
{
	struct session *s = make_session(c, cmd, v, to, id);
	char at[CLOCK_TEXT_SIZE];

	s->admission.waits_for = whom;
	s->admission.message_id = xstrdup(cmd->message_id);
	s->token = xstrdup(""); /* the token is made when the task is accepted */
	slots_add_undecided(c, s);
	put_session(s, cmd);
	if (whom == WAITS_FOR_HUMAN)
		harp_events_undecided(s);
	clock_format(s->times.created_us, at);
	store_put_submit(c->store, outbox_caller_key(to), cmd->message_id, at, s->key, 0);
	return s;
}

void session_wait_for_human(struct session *s, const struct gate_result *v)
{
	struct store_session row;
	struct row_texts t;

	assert(s->state == S_PENDING && s->admission.waits_for != WAITS_NOT && !s->turn.is_closed);
	s->admission.waits_for = WAITS_FOR_HUMAN;
	s->risk = v->risk;
	s->times.updated_us = clock_wall_us();
	session_fill_row(s, &row, &t);
	store_accept_session(s->core->store, &row);
	session_mark_dirty(s);
	harp_events_undecided(s);
}

void session_accept(struct session *s, const struct gate_result *v)
{
	struct core *c = s->core;
	struct store_session row;
	struct row_texts t;

	assert(s->state == S_PENDING && s->admission.waits_for != WAITS_NOT && !s->turn.is_closed);
	s->admission.waits_for = WAITS_NOT;
	slots_drop_undecided(c, s);
	free(s->capability_version);
	s->capability_version = xstrdup(v->capability->version);
	s->risk = v->risk;
	s->priority = v->priority;
	s->times.max_duration_us = v->max_duration_us;
	s->times.updated_us = clock_wall_us();
	make_token(s);
	session_fill_row(s, &row, &t);
	store_accept_session(c->store, &row);
	CRASH_POINT(session_accepted);
	put_accepted(s, s->admission.message_id);
	store_save_answer(
		c->store, outbox_caller_key(s->outbox.caller), s->admission.message_id, s->admission.answer);
	put_created(s);
	warn_lowered(s, v);
}

void session_reject(struct session *s, const char *reason, const char *actor, int64_t answer)
{
	assert(s->state == S_PENDING && s->admission.waits_for != WAITS_NOT && !s->turn.is_closed);
	session_transition(s, S_REJECTED, reason, actor);
	if (s->admission.waits_for == WAITS_FOR_HUMAN)
		harp_events_end(s, reason, NULL); /* a task that waits for the program was never published */
	store_save_answer(
		s->core->store, outbox_caller_key(s->outbox.caller), s->admission.message_id, answer);
	slots_drop_undecided(s->core, s);
	session_close(s);
}

/* A damaged name counts as the first one of the list. */
static int name_or_0(const char *const *names, const char *name)
{
	int i = name != NULL ? name_find(names, name) : -1;

	return i >= 0 ? i : 0;
}

static int64_t wall_or_0(const char *text)
{
	int64_t us = 0;

	return text != NULL && clock_parse(text, &us) ? us : 0;
}

/* Texts of a damaged row are left out: they would go into the last message as they are. */
static void load_texts(struct buf *to, unsigned *count, const char *json)
{
	char why[256];
	json_t *list = json != NULL ? jtext_parse(json, strlen(json), why, sizeof why) : NULL, *text;
	size_t i;

	json_array_foreach(list, i, text)
		if (json_is_string(text))
			session_add_text(to, count, json_string_value(text), json_string_length(text));
	json_decref(list);
}

struct session *session_load(struct core *c, const struct store_session *row)
{
	struct session *s = session_alloc(c);
	int state = name_find(sstate_names, row->state);

	s->key = row->key;
	snprintf(s->id, sizeof s->id, "%s", row->session_id);
	snprintf(s->caller_id, sizeof s->caller_id, "%s", row->caller_id);
	s->capability = xstrdup(row->capability);
	s->capability_version = xstrdup(row->capability_version);
	s->state = state >= 0 ? (enum sstate)state : S_PENDING;
	s->state_version = row->state_version;
	s->sequence = row->sequence;
	s->risk = (enum risk)name_or_0(risk_names, row->risk_level);
	s->data_class = (enum data_class)name_or_0(data_class_names, row->data_classification);
	s->priority = (enum priority)name_or_0(priority_names, row->priority);
	s->token = xstrdup(row->session_token);
	s->token_revoked = row->token_revoked;
	s->harp_session.is_on = row->harp;
	snprintf(s->intent.seal, sizeof s->intent.seal, "%s", row->seal != NULL ? row->seal : "");
	s->admission.waits_for = (enum waits_for)name_or_0(session_waits_names, row->waits_for);
	s->admission.message_id = row->message_id != NULL ? xstrdup(row->message_id) : NULL;
	if (s->admission.waits_for != WAITS_NOT)
		slots_add_undecided(c, s);
	s->times.created_us = wall_or_0(row->created_at);
	s->times.updated_us = s->times.rest_began_us = wall_or_0(row->updated_at);
	s->times.started_us = wall_or_0(row->started_at);
	s->times.deadline_us = wall_or_0(row->deadline);
	s->times.max_duration_us = row->max_duration_us;
	add_pins(s, row->checkpoint_of, row->continues);
	s->attempts.number = row->attempt;
	s->pause.by = (enum paused_by)name_or_0(session_paused_names, row->paused_by);
	s->attempts.deaths = row->deaths;
	s->pause.recover_as = row->recover_as != NULL ?
		(enum recovery)name_or_0(recovery_names, row->recover_as) :
		RECOVERY_NONE;
	/* Until it is restored and verified. A damaged id counts as none. */
	if (row->last_checkpoint != NULL && id_is_uuid4(row->last_checkpoint))
		message_copy_id(s->checkpoint.last_id, row->last_checkpoint);
	s->summary.steps = row->steps;
	s->summary.step = row->step != NULL ? xstrdup(row->step) : NULL;
	s->summary.checkpoints = row->checkpoints;
	s->summary.tokens_in = row->tokens_in;
	s->summary.tokens_out = row->tokens_out;
	s->summary.cost = row->cost;
	load_texts(&s->summary.warnings, &s->summary.warning_count, row->warnings);
	load_texts(&s->summary.risk_events, &s->summary.risk_event_count, row->risk_events);
	index_session(s);
	return s;
}

void session_free(struct session *s)
{
	struct core *c = s->core;

	run_fini(s);
	restore_drop(s);
	policy_wait_forget(s);
	approval_forget(s);
	artifacts_free(s);
	harp_events_forget(s);
	if (s->outbox.caller != NULL)
		outbox_caller_unpin(s->outbox.caller);
	HASH_DELETE(by_id, c->by_id, s);
	HASH_DELETE(by_key, c->by_key, s);
	pins_drop(c, s->pins.checkpoint_of);
	pins_drop(c, s->pins.continues);
	free(s->capability);
	free(s->capability_version);
	free(s->token);
	free(s->admission.message_id);
	free(s->summary.step);
	free(s->outcome.payload);
	output_check_free(s->run.output_check);
	action_forget(s);
	buf_fini(&s->summary.risk_events);
	buf_fini(&s->summary.warnings);
	buf_fini(&s->run.text_output);
	buf_fini(&s->run.stderr_tail);
	free(s);
}

struct session *session_find(struct core *c, const char *id)
{
	struct session *s;

	HASH_FIND(by_id, c->by_id, id, ID_SIZE - 1, s);
	return s;
}

struct session *session_find_key(struct core *c, int64_t key)
{
	struct session *s;

	HASH_FIND(by_key, c->by_key, &key, sizeof key, s);
	return s;
}
