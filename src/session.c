/* session.c: the state machine, the stream and the end of a session.
 * Owns every change of a state and every sequence number. Never touches a process (run.c) and never
 * decides whether a task may run (gate.c). */
#include "session.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "action.h"
#include "artifact.h"
#include "clock.h"
#include "consult.h"
#include "core.h"
#include "crash.h"
#include "duration.h"
#include "envelope.h"
#include "expect.h"
#include "log.h"
#include "review.h"
#include "run.h"
#include "seal.h"

#define WARNINGS_MAX 50                 /* kept for the summary, each of ... */
#define WARNING_SIZE 200                /* ... so many bytes at most */
#define OUTCOME_DEPTH 2048              /* more than any that was stored: a line's depth is bounded */

const char *const sstate_names[S_COUNT] = {
	[S_PENDING] = "PENDING", [S_REJECTED] = "REJECTED", [S_RUNNING] = "RUNNING", [S_PAUSED] = "PAUSED",
	[S_ABORTING] = "ABORTING", [S_ABORTED] = "ABORTED", [S_COMPLETED] = "COMPLETED", [S_FAILED] = "FAILED",
};

static const char *const paused_names[] = {
	[PAUSED_NOT] = NULL, [PAUSED_BY_CRASH] = "crash", [PAUSED_BY_STOP] = "stop", [PAUSED_BY_WORKER] = "worker",
	[PAUSED_BY_OPERATOR] = "operator",
};

static const char *const waits_names[WAITS_COUNT] = {
	[WAITS_NOT] = NULL, [WAITS_FOR_HUMAN] = "human", [WAITS_FOR_PROGRAM] = "program",
};

#define TO(s) (1u << (s))
static const uint8_t may_go[S_COUNT] = {        /* no row: terminal */
	[S_PENDING]  = TO(S_RUNNING) | TO(S_REJECTED),
	[S_RUNNING]  = TO(S_PAUSED) | TO(S_ABORTING) | TO(S_COMPLETED) | TO(S_FAILED),
	[S_PAUSED]   = TO(S_RUNNING) | TO(S_ABORTING),
	[S_ABORTING] = TO(S_ABORTED),
};
_Static_assert(S_COUNT <= 8, "may_go is a byte wide");

/* Where an end is due from another state, the next legal step on the way there. */
static const enum sstate next_step[S_COUNT][S_COUNT] = {
	[S_PENDING]  = {[S_COMPLETED] = S_RUNNING, [S_FAILED] = S_RUNNING, [S_ABORTED] = S_RUNNING},
	[S_RUNNING]  = {[S_COMPLETED] = S_COMPLETED, [S_FAILED] = S_FAILED, [S_ABORTED] = S_ABORTING},
	[S_PAUSED]   = {[S_COMPLETED] = S_RUNNING, [S_FAILED] = S_RUNNING, [S_ABORTED] = S_ABORTING},
	[S_ABORTING] = {[S_ABORTED] = S_ABORTED, [S_COMPLETED] = S_ABORTED, [S_FAILED] = S_ABORTED},
};

bool session_may(enum sstate from, enum sstate to)
{
	return from < S_COUNT && to < S_COUNT && (may_go[from] & TO(to)) != 0;
}

bool session_is_over(enum sstate s)
{
	return may_go[s] == 0;
}

int sstate_parse(const char *name)
{
	for (int i = 0; i < S_COUNT; i++)
		if (strcmp(sstate_names[i], name) == 0)
			return i;
	return -1;
}

/* ---- the row ---- */

struct row_texts {
	char created[CLOCK_TEXT_SIZE], updated[CLOCK_TEXT_SIZE], started[CLOCK_TEXT_SIZE], deadline[CLOCK_TEXT_SIZE];
	struct buf warnings, risk_events;
};

static void fill_row(const struct session *s, struct store_session *row, struct row_texts *t)
{
	clock_format(s->created_us, t->created);
	clock_format(s->updated_us, t->updated);
	clock_format(s->started_us, t->started);
	clock_format(s->deadline_us, t->deadline);
	*row = (struct store_session){
		.key = s->key, .session_id = s->id, .caller_id = s->caller_id, .capability = s->capability,
		.capability_version = s->capability_version, .state = sstate_names[s->state],
		.state_version = s->state_version, .risk_level = risk_names[s->risk],
		.data_classification = data_class_names[s->data_class], .priority = priority_names[s->priority],
		.session_token = s->token, .created_at = t->created, .updated_at = t->updated,
		.started_at = s->started_us != 0 ? t->started : NULL, .deadline = s->deadline_us != 0 ? t->deadline : NULL,
		.max_duration_us = s->max_duration_us, .attempt = s->attempt, .paused_by = paused_names[s->paused_by],
		.steps = s->steps, .step = s->step, .checkpoints = s->checkpoints, .tokens_in = s->tokens_in,
		.tokens_out = s->tokens_out, .cost = s->cost, .waits_for = waits_names[s->waits_for], .message_id = s->message_id,
		.seal = s->seal[0] != '\0' ? s->seal : NULL, .token_revoked = s->token_revoked,
	};
}

void session_mark_dirty(struct session *s)
{
	if (s->is_dirty)
		return;
	s->is_dirty = true;
	s->dirty_next = s->core->dirty;
	s->core->dirty = s;
}

static const char *list_text(struct buf *to, const struct buf *texts)
{
	buf_clear(to);
	buf_add_text(to, "[");
	buf_add(to, texts->data, texts->size);
	buf_add_text(to, "]");
	return buf_text(to);
}

void sessions_save_dirty(struct core *c)
{
	struct session *s, *next;
	struct store_session row;
	struct row_texts t = {.warnings = {0}, .risk_events = {0}};

	for (s = c->dirty; s != NULL; s = next) {
		next = s->dirty_next;
		fill_row(s, &row, &t);
		row.warnings = list_text(&t.warnings, &s->warnings);
		row.risk_events = list_text(&t.risk_events, &s->risk_events);
		store_save_session(c->store, &row);
		if (!s->is_closed)
			session_save_outcome(s);
		s->is_dirty = false;
	}
	c->dirty = NULL;
	buf_fini(&t.warnings);
	buf_fini(&t.risk_events);
}

/* ---- the stream ---- */

/* Stores the message in c->scratch, finished, and forgets it. */
static int64_t put_message(struct session *s, const char *type, const char *event_type, int64_t sequence)
{
	struct core *c = s->core;
	struct store_event e = {
		.session = s->key, .session_id = s->id, .type = type, .sequence = sequence, .event_type = event_type,
		.body = blob_new(c->scratch.data, c->scratch.size),
	};
	int64_t id = outbox_put(c->outbox, s->to, &e);

	s->waiting_bytes += e.body->size;
	blob_unref(e.body);
	buf_clear(&c->scratch);
	run_check_backlog(s);
	return id;
}

static void begin(struct session *s, const char *type)
{
	buf_clear(&s->core->scratch);
	codec_begin(&s->core->scratch, s->id, type);
}

bool session_event(struct session *s, const char *event_type, const char *data, size_t size)
{
	struct buf *b = &s->core->scratch;

	assert(!s->is_closed);
	begin(s, TYPE_EVENT);
	buf_add_text(b, "{\"event_type\":\"");
	buf_add_text(b, event_type);
	buf_add_text(b, "\",\"sequence\":");
	buf_add_int(b, s->sequence + 1);
	buf_add_text(b, ",\"data\":");
	buf_add(b, data, size);
	buf_add_text(b, "}");
	codec_end(b);
	if ((int64_t)b->size > s->core->first_policy->config->max_message) {
		session_warn(s, "event_too_large", "a %s event of %zu bytes was dropped; %lld is the limit", event_type, b->size,
			(long long)s->core->first_policy->config->max_message);
		return false;
	}
	s->sequence++;
	put_message(s, TYPE_EVENT, event_type, s->sequence);
	return true;
}

static void add_text(struct buf *list, unsigned *count, const char *text, size_t size)
{
	if ((*count)++ >= WARNINGS_MAX)
		return;
	if (list->size > 0)
		buf_add_text(list, ",");
	buf_add_json(list, text, buf_utf8_cut(text, size, WARNING_SIZE));
}

void session_note_warning(struct session *s, const char *text)
{
	/* Once the end is decided its message has the size that was checked. */
	if (session_has_outcome(s))
		return;
	add_text(&s->warnings, &s->warning_count, text, strlen(text));
	session_mark_dirty(s);
}

static void warning_event(struct session *s, const char *code, const char *text)
{
	struct buf b = {0};

	buf_addf(&b, "{\"code\":\"%s\",\"message\":", code);
	buf_add_json(&b, text, strlen(text));
	buf_add_text(&b, "}");
	session_event(s, "warning", b.data, b.size);
	buf_fini(&b);
}

void session_warn(struct session *s, const char *code, const char *fmt, ...)
{
	char text[640];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	warning_event(s, code, text);
	session_note_warning(s, text);
}

void session_risk_event(struct session *s, const char *code, const char *fmt, ...)
{
	char text[640];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	warning_event(s, code, text);
	if (session_has_outcome(s))
		return;                 /* its last message has the size that was checked */
	add_text(&s->risk_events, &s->risk_event_count, text, strlen(text));
	session_mark_dirty(s);
}

/* ---- states ---- */

bool session_go(struct session *s, enum sstate to, const char *reason, const char *actor)
{
	enum sstate from = s->state;
	struct store_session row;
	struct row_texts t;
	struct buf data = {0};

	if (!session_may(from, to)) {
		log_error("refused an illegal transition, nothing changed: session=%.8s from=%s to=%s reason=%s", s->id,
			sstate_names[from], to < S_COUNT ? sstate_names[to] : "?", reason);
		return false;
	}
	s->state = to;
	s->state_version++;
	s->updated_us = clock_wall_us();
	if (to != S_PAUSED)
		s->paused_by = PAUSED_NOT;
	fill_row(s, &row, &t);
	store_put_transition(s->core->store, &row, sstate_names[from], reason, actor);
	CRASH_POINT(session_transition);
	session_mark_dirty(s);
	if (s->waits_for != WAITS_NOT)
		return true;            /* to its caller there is no session yet */
	buf_addf(&data, "{\"from_state\":\"%s\",\"to_state\":\"%s\",\"reason\":", sstate_names[from], sstate_names[to]);
	buf_add_json(&data, reason, strlen(reason));
	buf_add_text(&data, "}");
	session_event(s, "state_changed", data.data, data.size);
	buf_fini(&data);
	log_at(to == S_RUNNING || session_is_over(to) ? LOG_LVL_DEBUG : LOG_LVL_INFO,
		"session %s: session=%.8s from=%s reason=%s version=%lld", sstate_names[to], s->id, sstate_names[from], reason,
		(long long)s->state_version);
	return true;
}

bool session_run(struct session *s, const char *reason, const char *actor)
{
	if (!session_go(s, S_RUNNING, reason, actor))
		return false;
	if (s->started_us == 0) {
		s->started_us = s->updated_us;
		s->deadline_us = s->started_us + s->max_duration_us;
	}
	return true;
}

/* ---- beginning ---- */

static struct session *session_alloc(struct core *c)
{
	struct session *s = xcalloc(1, sizeof *s);

	s->core = c;
	s->outcome.state = S_COUNT;
	s->exit_status = -1;
	run_init(s);
	return s;
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
	token_make(&s->core->keys, &(struct token_claims){.session_id = s->id, .caller_id = s->caller_id, .risk = risk_names[s->risk],
		.data_class = data_class_names[s->data_class], .max_duration = max, .envelope = hash, .intent = s->seal,
		.issued_us = s->updated_us, .expires_us = s->updated_us + s->max_duration_us}, token);
	free(s->token);
	s->token = xstrdup(token);
}

enum token_fault session_check_token(const struct session *s, const char *token, int64_t now_us)
{
	const struct token_session own = {.session_id = s->id, .token = s->token, .is_revoked = s->token_revoked};

	return token_check(&s->core->keys, token, &own, now_us);
}

static void put_accepted(struct session *s, const char *message_id)
{
	struct buf *b = &s->core->scratch;
	char max[DURATION_TEXT_SIZE], abort_timeout[DURATION_TEXT_SIZE];

	duration_format(s->max_duration_us, max);
	duration_format(s->core->policy->config->abort_timeout_us, abort_timeout);
	begin(s, TYPE_ACCEPTED);
	buf_addf(b, "{\"session_token\":\"%s\",\"risk_level\":\"%s\",\"data_classification\":\"%s\",\"safety_envelope\":",
		s->token, risk_names[s->risk], data_class_names[s->data_class]);
	buf_add_text(b, envelope_of(s));
	buf_addf(b, ",\"constraints\":{\"max_duration\":\"%s\",\"abort_timeout\":\"%s\"},\"intent_checksum\":\"sha256:%s\","
		"\"in_reply_to\":", max, abort_timeout, s->seal);
	buf_add_json(b, message_id, strlen(message_id));
	buf_add_text(b, "}");
	codec_end(b);
	s->answer = put_message(s, TYPE_ACCEPTED, NULL, 0);
	log_info("task accepted: session=%.8s caller=%s capability=%s risk=%s", s->id, s->caller_id, s->capability,
		risk_names[s->risk]);
}

static void put_created(struct session *s)
{
	struct buf b = {0};

	buf_addf(&b, "{\"state\":\"%s\",\"risk_level\":\"%s\",\"session_token\":\"%s\"}", sstate_names[s->state],
		risk_names[s->risk], s->token);
	session_event(s, "session_created", b.data, b.size);
	buf_fini(&b);
}

void session_address(struct session *s, struct addressee *to)
{
	s->to = to;
	addressee_pin(to);
}

/* What one that is accepted at once and one that waits have in common. */
static struct session *make_session(struct core *c, const struct command *cmd, const struct verdict *v, struct addressee *to,
	const char *id)
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
	s->created_us = s->updated_us = clock_wall_us();
	if (!seal_task(cmd->task.json, cmd->task.json_size, s->seal)) {
		log_error("a task cannot be sealed, this is a defect; it runs unsealed: session=%.8s", s->id);
		s->seal[0] = '\0';
	}
	index_session(s);
	return s;
}

static void put_session(struct session *s, const struct command *cmd)
{
	struct store_session row;
	struct row_texts t;

	fill_row(s, &row, &t);
	row.metadata = cmd->task.metadata;
	store_put_session(s->core->store, &row, cmd->task.json, cmd->task.json_size);
	CRASH_POINT(session_stored);
}

struct session *session_new(struct core *c, const struct command *cmd, const struct verdict *v, struct addressee *to)
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

struct session *session_ask(struct core *c, const struct command *cmd, const struct verdict *v, struct addressee *to,
	enum waits_for whom, const char *id)
{
	struct session *s = make_session(c, cmd, v, to, id);
	char at[CLOCK_TEXT_SIZE];

	s->waits_for = whom;
	s->message_id = xstrdup(cmd->message_id);
	s->token = xstrdup("");         /* made when it is accepted */
	c->slots.asking++;
	put_session(s, cmd);
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
	fill_row(s, &row, &t);
	store_accept_session(s->core->store, &row);
	session_mark_dirty(s);
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
	fill_row(s, &row, &t);
	store_accept_session(c->store, &row);
	CRASH_POINT(session_accepted);
	put_accepted(s, s->message_id);
	store_save_answer(c->store, addressee_key(s->to), s->message_id, s->answer);
	put_created(s);
}

static void close_session(struct session *s)
{
	slots_leave(s->core, s);
	s->is_closed = true;
	s->closed_next = s->core->closed;
	s->core->closed = s;
}

void session_reject(struct session *s, const char *reason, const char *actor, int64_t answer)
{
	assert(s->state == S_PENDING && s->waits_for != WAITS_NOT && !s->is_closed);
	session_go(s, S_REJECTED, reason, actor);
	store_save_answer(s->core->store, addressee_key(s->to), s->message_id, answer);
	s->core->slots.asking--;
	close_session(s);
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
			add_text(to, count, json_string_value(text), json_string_length(text));
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
	snprintf(s->seal, sizeof s->seal, "%s", row->seal != NULL ? row->seal : "");
	s->waits_for = (enum waits_for)find_name(waits_names, WAITS_COUNT, row->waits_for);
	s->message_id = row->message_id != NULL ? xstrdup(row->message_id) : NULL;
	s->core->slots.asking += s->waits_for != WAITS_NOT;
	s->created_us = wall_or_0(row->created_at);
	s->updated_us = wall_or_0(row->updated_at);
	s->started_us = wall_or_0(row->started_at);
	s->deadline_us = wall_or_0(row->deadline);
	s->max_duration_us = row->max_duration_us;
	s->attempt = row->attempt;
	s->paused_by = (enum paused_by)find_name(paused_names, PAUSED_BY_OPERATOR + 1, row->paused_by);
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
	if (s->to != NULL)
		addressee_unpin(s->to);
	HASH_DELETE(by_id, c->by_id, s);
	HASH_DELETE(by_key, c->by_key, s);
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

/* ---- the end ---- */

bool session_has_outcome(const struct session *s)
{
	return s->outcome.state != S_COUNT;
}

bool session_decide(struct session *s, enum sstate state, const char *reason, const char *actor, const char *payload,
	size_t size)
{
	struct outcome *o = &s->outcome;

	if (session_has_outcome(s))
		return false;
	o->state = state;
	o->actor = actor;
	snprintf(o->reason, sizeof o->reason, "%s", reason);
	if (payload != NULL) {
		assert(size >= 2 && payload[size - 1] == '}');
		o->payload_size = size - 1;
		o->payload = xstrndup(payload, o->payload_size);
	}
	return true;
}

void session_add_details(const struct session *s, struct buf *b, const char *phase)
{
	buf_addf(b, "\"phase\":\"%s\",\"step\":", phase);
	if (s->step != NULL)
		buf_add_json(b, s->step, strlen(s->step));
	else
		buf_add_text(b, "null");
	if (s->last_checkpoint[0] != '\0')
		buf_addf(b, ",\"last_checkpoint\":\"%s\",\"recoverable\":true", s->last_checkpoint);
	else
		buf_add_text(b, ",\"last_checkpoint\":null,\"recoverable\":false");
}

bool session_fail(struct session *s, const char *reason, const char *error_code, const char *actor,
	const char *details, const char *fmt, ...)
{
	char message[1024];
	struct buf b = {0};
	va_list ap;
	bool first;

	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	buf_addf(&b, "{\"error_code\":\"%s\",\"error_message\":", error_code);
	buf_add_json(&b, message, strlen(message));
	buf_add_text(&b, ",\"error_details\":{");
	session_add_details(s, &b, s->host != NULL ? "execution" : "start");
	if (details != NULL) {
		buf_add_text(&b, ",");
		buf_add_text(&b, details);
	}
	buf_add_text(&b, "},\"partial_outputs\":{}}");
	first = session_decide(s, S_FAILED, reason, actor, b.data, b.size);
	buf_fini(&b);
	if (first)
		log_warn("session will fail: session=%.8s code=%s why=%s", s->id, error_code, message);
	return first;
}

/* How much goes into a result; what is not measured beforehand gives way. */
enum fullness { WITH_ALL, WITHOUT_WARNINGS, WITHOUT_ARTIFACTS };

static void add_summary(struct session *s, struct buf *b, enum fullness how)
{
	char took[DURATION_TEXT_SIZE];
	int64_t us = s->started_us != 0 ? s->updated_us - s->started_us : 0;

	duration_format(us > 0 ? us : 0, took);
	buf_add_text(b, ",\"artifacts\":");
	if (how < WITHOUT_ARTIFACTS)
		artifacts_add_list(s, b);
	else
		buf_add_text(b, "[]");
	buf_addf(b, ",\"execution_summary\":{\"duration\":\"%s\",\"steps_executed\":%lld,"
		"\"checkpoints_created\":%lld,\"risk_events\":[", took, (long long)s->steps, (long long)s->checkpoints);
	if (how < WITHOUT_ARTIFACTS)
		buf_add(b, s->risk_events.data, s->risk_events.size);
	buf_add_text(b, "],\"warnings\":[");
	if (how < WITHOUT_WARNINGS)
		buf_add(b, s->warnings.data, s->warnings.size);
	buf_add_text(b, "]}}");
}

static void compose_result(struct session *s, const char *type, enum fullness how)
{
	struct buf *b = &s->core->scratch;

	begin(s, type);
	buf_add(b, s->outcome.payload, s->outcome.payload_size);
	add_summary(s, b, how);
	codec_end(b);
}

/* A failure of our own making (a death, with its last words) was not measured: its warnings give way, and then its
 * artifacts, which can be listed still. */
static void put_result(struct session *s)
{
	const char *type = s->outcome.state == S_COMPLETED ? TYPE_COMPLETED : TYPE_FAILED;
	int64_t most = s->core->first_policy->config->max_message;

	compose_result(s, type, WITH_ALL);
	if ((int64_t)s->core->scratch.size > most)
		compose_result(s, type, WITHOUT_WARNINGS);
	if ((int64_t)s->core->scratch.size > most)
		compose_result(s, type, WITHOUT_ARTIFACTS);
	put_message(s, type, NULL, 0);
}

static void put_closed(struct session *s)
{
	struct buf b = {0};

	buf_addf(&b, "{\"final_state\":\"%s\",\"reason\":", sstate_names[s->state]);
	buf_add_json(&b, s->outcome.reason, strlen(s->outcome.reason));
	buf_add_text(&b, "}");
	session_event(s, "session_closed", b.data, b.size);
	buf_fini(&b);
}

void session_finish(struct session *s)
{
	struct core *c = s->core;

	assert(session_has_outcome(s) && s->host == NULL && !s->is_closed);
	if (artifacts_delay_end(s))
		return;                 /* comes again once they are in */
	while (!session_is_over(s->state)) {
		enum sstate to = next_step[s->state][s->outcome.state];

		/* On the way the step has the reason of the end, so that one can see why it was taken. */
		if (to == S_RUNNING)
			session_run(s, s->outcome.reason, "daemon");
		else
			session_go(s, to, s->outcome.reason, s->outcome.actor);
	}
	CRASH_POINT(session_terminal);
	if (s->outcome.payload != NULL && s->state != S_ABORTED)
		put_result(s);
	CRASH_POINT(session_before_closed);
	put_closed(s);
	log_info("session closed: session=%.8s state=%s reason=%s events=%lld attempt=%lld", s->id, sstate_names[s->state],
		s->outcome.reason, (long long)s->sequence, (long long)s->attempt);
	if (s->outcome.stored)
		store_drop_outcome(c->store, s->key);
	close_session(s);
}

void sessions_sweep(struct session *closed)
{
	for (struct session *s = closed, *next; s != NULL; s = next) {
		next = s->closed_next;
		CRASH_POINT(session_before_clean_up);
		run_clean_up(s);
		CRASH_POINT(session_cleaned_up);
		session_free(s);
	}
}

/* ---- the outcome in the store ---- */

/* {"state": ..., "reason": ..., "actor": ..., "payload": {...}} */
void session_save_outcome(struct session *s)
{
	struct outcome *o = &s->outcome;
	struct buf b = {0};

	if (o->stored || !session_has_outcome(s))
		return;
	buf_addf(&b, "{\"state\":\"%s\",\"reason\":\"%s\",\"actor\":\"%s\",\"payload\":", sstate_names[o->state], o->reason,
		o->actor);
	if (o->payload != NULL)
		buf_add(&b, o->payload, o->payload_size);
	else
		buf_add_text(&b, "{");
	buf_add_text(&b, "}}");
	store_put_outcome(s->core->store, s->key, b.data, b.size);
	CRASH_POINT(session_outcome);
	o->stored = true;
	buf_fini(&b);
}

/* Is this what session_save_outcome wrote, so that add_summary can go on behind it? */
static bool is_outcome(int state, const char *reason, const json_t *payload, struct jslice raw)
{
	if (reason == NULL || strlen(reason) >= sizeof ((struct outcome *)0)->reason || !json_is_object(payload))
		return false;
	if (state == S_ABORTED)
		return true;
	return (state == S_COMPLETED || state == S_FAILED) && raw.at != NULL && json_object_size(payload) > 0
		&& json_object_get(payload, "artifacts") == NULL && json_object_get(payload, "execution_summary") == NULL;
}

int session_load_outcome(struct session *s)
{
	struct buf b = {0};
	json_t *root;
	char why[256];

	int found = store_load_outcome(s->core->store, s->key, &b);

	if (found <= 0) {
		buf_fini(&b);
		return found;
	}
	if (jtext_depth(b.data, b.size) <= OUTCOME_DEPTH && (root = jtext_parse(b.data, b.size, why, sizeof why)) != NULL) {
		const char *name = json_string_value(json_object_get(root, "state"));
		const char *reason = json_string_value(json_object_get(root, "reason"));
		struct jslice raw = jtext_member(b.data, b.size, "payload");
		int state = name != NULL ? sstate_parse(name) : -1;

		if (is_outcome(state, reason, json_object_get(root, "payload"), raw))
			session_decide(s, (enum sstate)state, reason, "daemon", state == S_ABORTED ? NULL : raw.at, raw.size);
		json_decref(root);
	}
	if (!session_has_outcome(s))
		session_fail(s, "worker_failed", "internal_error", "daemon", NULL, "the stored outcome cannot be read");
	s->outcome.stored = true;
	buf_fini(&b);
	return 1;
}
