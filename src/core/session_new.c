/* session_new.c: how a session begins: accepted at once, after waiting for a decision, or read back from its
 * row. Owns the token and the answer of an accepted task. Never changes a state but by session.c. */
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
#include "core/pins.h"
#include "core/admission/approval.h"
#include "core/running/run.h"
#include "protocol/intent_seal.h"
#include "core/running/harp_events.h"

static struct session *session_alloc(struct core *c)
{
	struct session *s = xcalloc(1, sizeof *s);

	s->core = c;
	s->outcome.state = S_COUNT;
	s->exit_status = -1;
	s->recover_as = RECOVERY_COUNT;
	run_init(s);
	return s;
}

/* Until its end, which is committed before it is freed. */
static void note_needs(struct session *s, const char *checkpoint_of, const char *continues)
{
	snprintf(s->checkpoint_of, sizeof s->checkpoint_of, "%s", checkpoint_of != NULL ? checkpoint_of : "");
	snprintf(s->continues, sizeof s->continues, "%s", continues != NULL ? continues : "");
	need_add(s->core, s->checkpoint_of);
	need_add(s->core, s->continues);
}

static void index_session(struct session *s)
{
	HASH_ADD(by_id, s->core->by_id, id, ID_SIZE - 1, s);
	HASH_ADD(by_key, s->core->by_key, key, sizeof s->key, s);
}

/* What it must stay inside, under the policy of this moment. */
static const char *envelope_of(const struct session *s)
{
	const struct capability *cap = policy_find(s->core->policy, s->capability);

	return cap != NULL ? envelope_text(cap->envelope) : "{}";
}

/* For what was approved: everything that it claims must be known by now. */
static void make_token(struct session *s)
{
	char token[TOKEN_SIZE], max[DURATION_TEXT_SIZE], hash[CANON_HASH_SIZE];
	const char *envelope = envelope_of(s);

	duration_format(s->max_duration_us, max);
	canon_hash_bytes(envelope, strlen(envelope), hash);
	token_make(&s->core->keys,
		&(struct token_claims){.session_id = s->id,
			.caller_id = s->caller_id,
			.risk = risk_names[s->risk],
			.data_class = data_class_names[s->data_class],
			.max_duration = max,
			.envelope = hash,
			.intent = s->seal,
			.task = s->task_hash,
			.issued_us = s->updated_us,
			.expires_us = s->updated_us + s->max_duration_us},
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

const char *session_find_change(struct session *s, struct buf *task)
{
	char now[CANON_HASH_SIZE];
	const char *fault;

	canon_hash_bytes(task->data, task->size, now);
	if (s->task_hash[0] != '\0')
		return strcmp(now, s->task_hash) == 0 ? NULL :
							"the stored task is not the one that was accepted";
	fault = seal_find_fault(buf_text(task), task->size, s->seal, &s->core->keys, s->token);
	if (fault == NULL)
		memcpy(s->task_hash, now, sizeof now);
	return fault;
}

static void put_accepted(struct session *s, const char *message_id)
{
	struct buf *b = &s->core->scratch;
	char max[DURATION_TEXT_SIZE], abort_timeout[DURATION_TEXT_SIZE];

	duration_format(s->max_duration_us, max);
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
		max, abort_timeout, s->seal);
	buf_add_json(b, message_id, strlen(message_id));
	buf_add_text(b, "}");
	codec_end(b);
	s->answer = session_put_message(s, TYPE_ACCEPTED, NULL, 0);
	log_info("task accepted: session=%.8s caller=%s capability=%s risk=%s", s->id, s->caller_id,
		s->capability, risk_names[s->risk]);
	if (s->data_class >= T2) /* whoever let it pass: the gate, a program or a human */
		log_info("access to data: class=%s session=%.8s caller=%s capability=%s",
			data_class_names[s->data_class], s->id, s->caller_id, s->capability);
}

static void put_created(struct session *s)
{
	struct buf b = {0};

	buf_addf(&b, "{\"state\":\"%s\",\"risk_level\":\"%s\",\"session_token\":\"%s\"}",
		sstate_names[s->state], risk_names[s->risk], s->token);
	session_event(s, "session_created", b.data, b.size);
	buf_fini(&b);
}

void session_address(struct session *s, struct addressee *to)
{
	s->to = to;
	addressee_pin(to);
}

/* What one that is accepted at once and one that waits have in common. */
static struct session *make_session(struct core *c, const struct command *cmd, const struct verdict *v,
	struct addressee *to, const char *id)
{
	struct session *s = session_alloc(c);

	s->key = ++c->last_session;
	memcpy(s->id, id, ID_SIZE);
	snprintf(s->caller_id, sizeof s->caller_id, "%s", cmd->caller_id);
	session_address(s, to);
	s->capability = xstrdup(v->capability->name);
	s->capability_version = xstrdup(v->capability->version);
	s->risk = v->risk;
	s->data_class = cmd->task.data_class;
	s->priority = cmd->task.priority;
	s->max_duration_us = v->max_duration_us;
	note_needs(s, v->checkpoint_of, cmd->task.continues);
	s->created_us = s->updated_us = clock_wall_us();
	canon_hash_bytes(cmd->task.json, cmd->task.json_size, s->task_hash);
	if (!seal_task(cmd->task.json, cmd->task.json_size, s->seal)) {
		log_error("a task cannot be sealed, this is a defect; it runs unsealed: session=%.8s", s->id);
		s->seal[0] = '\0';
	}
	tell_begin(s);
	index_session(s);
	return s;
}

static void put_session(struct session *s, const struct command *cmd)
{
	struct store_session row;
	struct row_texts t;

	session_fill_row(s, &row, &t);
	row.metadata = cmd->task.metadata;
	store_put_session(s->core->store, &row, cmd->task.json, cmd->task.json_size);
	CRASH_POINT(session_stored);
}

struct session *session_new(
	struct core *c, const struct command *cmd, const struct verdict *v, struct addressee *to)
{
	char id[ID_SIZE], at[CLOCK_TEXT_SIZE];
	struct session *s;

	id_make(id);
	s = make_session(c, cmd, v, to, id);
	s->is_fresh = true;
	make_token(s);
	put_session(s, cmd);
	put_accepted(s, cmd->message_id);
	clock_format(s->created_us, at);
	store_put_submit(c->store, addressee_key(to), cmd->message_id, at, s->key, s->answer);
	put_created(s);
	return s;
}

struct session *session_ask(struct core *c, const struct command *cmd, const struct verdict *v,
	struct addressee *to, enum waits_for whom, const char *id)
{
	struct session *s = make_session(c, cmd, v, to, id);
	char at[CLOCK_TEXT_SIZE];

	s->waits_for = whom;
	s->message_id = xstrdup(cmd->message_id);
	s->token = xstrdup(""); /* made when it is accepted */
	c->slots.asking++;
	put_session(s, cmd);
	if (whom == WAITS_FOR_HUMAN)
		tell_asked(s);
	clock_format(s->created_us, at);
	store_put_submit(c->store, addressee_key(to), cmd->message_id, at, s->key, 0);
	return s;
}

void session_hand_over(struct session *s, const struct verdict *v)
{
	struct store_session row;
	struct row_texts t;

	assert(s->state == S_PENDING && s->waits_for != WAITS_NOT && !s->is_closed);
	s->waits_for = WAITS_FOR_HUMAN;
	s->risk = v->risk;
	s->updated_us = clock_wall_us();
	session_fill_row(s, &row, &t);
	store_accept_session(s->core->store, &row);
	session_mark_dirty(s);
	tell_asked(s);
}

void session_accept(struct session *s, const struct verdict *v)
{
	struct core *c = s->core;
	struct store_session row;
	struct row_texts t;

	assert(s->state == S_PENDING && s->waits_for != WAITS_NOT && !s->is_closed);
	s->waits_for = WAITS_NOT;
	c->slots.asking--;
	free(s->capability_version);
	s->capability_version = xstrdup(v->capability->version);
	s->risk = v->risk;
	s->max_duration_us = v->max_duration_us;
	s->updated_us = clock_wall_us();
	make_token(s);
	session_fill_row(s, &row, &t);
	store_accept_session(c->store, &row);
	CRASH_POINT(session_accepted);
	put_accepted(s, s->message_id);
	store_save_answer(c->store, addressee_key(s->to), s->message_id, s->answer);
	put_created(s);
}

void session_reject(struct session *s, const char *reason, const char *actor, int64_t answer)
{
	assert(s->state == S_PENDING && s->waits_for != WAITS_NOT && !s->is_closed);
	session_go(s, S_REJECTED, reason, actor);
	if (s->waits_for == WAITS_FOR_HUMAN)
		tell_end(s, reason, NULL); /* else nothing was said of it */
	store_save_answer(s->core->store, addressee_key(s->to), s->message_id, answer);
	s->core->slots.asking--;
	session_close(s);
}

static int find_name(const char *const *names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (names[i] != NULL && name != NULL && strcmp(names[i], name) == 0)
			return i;
	return 0;
}

static int64_t wall_or_0(const char *text)
{
	int64_t us = 0;

	return text != NULL && clock_parse(text, &us) ? us : 0;
}

/* They go into the last message as they are: what a damaged row has instead of them stays out of it. */
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
	int state = sstate_parse(row->state);

	s->key = row->key;
	snprintf(s->id, sizeof s->id, "%s", row->session_id);
	snprintf(s->caller_id, sizeof s->caller_id, "%s", row->caller_id);
	s->capability = xstrdup(row->capability);
	s->capability_version = xstrdup(row->capability_version);
	s->state = state >= 0 ? (enum sstate)state : S_PENDING;
	s->state_version = row->state_version;
	s->sequence = row->sequence;
	s->risk = (enum risk)find_name(risk_names, 6, row->risk_level);
	s->data_class = (enum data_class)find_name(data_class_names, 4, row->data_classification);
	s->priority = (enum priority)find_name(priority_names, PRIORITY_COUNT, row->priority);
	s->token = xstrdup(row->session_token);
	s->token_revoked = row->token_revoked;
	s->harp = row->harp;
	snprintf(s->seal, sizeof s->seal, "%s", row->seal != NULL ? row->seal : "");
	s->waits_for = (enum waits_for)find_name(session_waits_names, WAITS_COUNT, row->waits_for);
	s->message_id = row->message_id != NULL ? xstrdup(row->message_id) : NULL;
	s->core->slots.asking += s->waits_for != WAITS_NOT;
	s->created_us = wall_or_0(row->created_at);
	s->updated_us = wall_or_0(row->updated_at);
	s->started_us = wall_or_0(row->started_at);
	s->deadline_us = wall_or_0(row->deadline);
	s->max_duration_us = row->max_duration_us;
	note_needs(s, row->checkpoint_of, row->continues);
	s->attempt = row->attempt;
	s->paused_by = (enum paused_by)find_name(session_paused_names, PAUSED_COUNT, row->paused_by);
	s->deaths = row->deaths;
	s->recover_as = row->recover_as != NULL ?
		(enum recovery)find_name(recovery_names, RECOVERY_COUNT, row->recover_as) :
		RECOVERY_COUNT;
	s->steps = row->steps;
	s->step = row->step != NULL ? xstrdup(row->step) : NULL;
	s->checkpoints = row->checkpoints;
	s->tokens_in = row->tokens_in;
	s->tokens_out = row->tokens_out;
	s->cost = row->cost;
	load_texts(&s->warnings, &s->warning_count, row->warnings);
	load_texts(&s->risk_events, &s->risk_event_count, row->risk_events);
	index_session(s);
	return s;
}

void session_free(struct session *s)
{
	struct core *c = s->core;

	run_fini(s);
	consult_forget(s);
	review_forget(s);
	artifacts_free(s);
	tell_forget(s);
	if (s->to != NULL)
		addressee_unpin(s->to);
	HASH_DELETE(by_id, c->by_id, s);
	HASH_DELETE(by_key, c->by_key, s);
	need_drop(c, s->checkpoint_of);
	need_drop(c, s->continues);
	free(s->capability);
	free(s->capability_version);
	free(s->token);
	free(s->message_id);
	free(s->step);
	free(s->outcome.payload);
	expect_free(s->expect);
	action_forget(s);
	buf_fini(&s->risk_events);
	buf_fini(&s->warnings);
	buf_fini(&s->text_output);
	buf_fini(&s->stderr_tail);
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
