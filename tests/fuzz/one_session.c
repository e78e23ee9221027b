/* SPDX-License-Identifier: MIT */
/* one_session.c: stands in for the store, the outbox, the processes and the clocks. Owns the checks of what
 * the session hands out. Linked only by the targets that need it: it replaces functions of the daemon's
 * rooms. */
#include "one_session.h"

#include <stdlib.h>
#include <string.h>
#include "core/recovery/restore.h"
#include "core/running/artifacts.h"
#include "store/artifact_store.h"
#include "store/artifact_name.h"
#include "json/canonical.h"
#include "store/checkpoint.h"
#include "core/admission/policy_wait.h"
#include "hcpctl/common/message.h"
#include "hcpctl/common/render.h"
#include "policy/declaration.h"
#include "policy/envelope.h"
#include "policy/output_check.h"
#include "jschema/jschema.h"
#include "core/operator/operator.h"
#include "store/state_compress.h"
#include "core/admission/approval.h"
#include "core/running/run.h"
#include "core/running/harp_snapshot.h"
#include "core/running/harp_events.h"

struct stage stage;
bool stage_is_told;

/* ---- clocks and ids: the same every time ---- */

int64_t clock_boot_us(void)
{
	return INT64_C(5000000000);
}

int64_t clock_wall_us(void)
{
	return INT64_C(1769860800000000);
}

void id_make(char out[ID_SIZE])
{
	memcpy(out, STAGE_MADE_ID, ID_SIZE);
}

/* ---- what is published: whole, JSON, in order, within the limit, and fit to be shown ---- */

static void stage_check_shown(const struct store_event *e)
{
	char *copy = xmalloc(e->body->size + 1u);
	struct ctl_message *n;
	struct buf out = {0};

	memcpy(copy, e->body->data, e->body->size);
	copy[e->body->size] = '\0';
	MUST((n = ctl_message_read(copy, e->body->size)) != NULL);
	MUST(n->sequence == e->sequence && strcmp(n->session, e->session_id) == 0 &&
		strcmp(n->type, e->type) == 0);
	MUST(strcmp(n->event, e->event_type != NULL ? e->event_type : "") == 0);
	ctl_render_line(&out, n, (struct ctl_render_options){false, true});
	MUST(out.size > 0 && out.data[out.size - 1] == '\n' && fuzz_is_plain(out.data, out.size - 1, ""));
	MUST(fuzz_is_utf8(out.data, out.size));
	ctl_message_free(n);
	buf_fini(&out);
}

static void stage_check_event(const struct store_event *e, const json_t *payload)
{
	const json_t *sequence = json_object_get(payload, "sequence");

	MUST(e->sequence == ++stage.sequence && json_number_value(sequence) == (double)e->sequence);
	MUST(strcmp(json_string_value(json_object_get(payload, "event_type")), e->event_type) == 0);
	MUST(json_is_object(json_object_get(payload, "data")));
	stage.closed += strcmp(e->event_type, "session_closed") == 0;
}

/* HARP-SESSION's: canonical, by its rules, and of this session. */
static void stage_check_harp(const struct store_event *e)
{
	struct harp_heard h;
	char why[256] = "";

	MUST(stage.closed == 0 && e->sequence == 0 && (int64_t)e->body->size <= stage.config.max_message);
	MUST(harp_read_event(e->body->data, e->body->size, e->body->size, &h, why, sizeof why) == HARP_OK);
	MUST(h.size == e->body->size && memcmp(h.text, e->body->data, h.size) == 0 &&
		strcmp(h.session_id, STAGE_ID) == 0);
	MUST(strcmp(e->event_type, harp_event_name(h.kind)) == 0);
	harp_heard_fini(&h);
}

struct outbox_caller *outbox_find_harp_caller(struct outbox *ob, const char *caller_id)
{
	(void)ob, (void)caller_id;
	return (struct outbox_caller *)(void *)&stage; /* only passed on */
}

bool outbox_refuses_harp(const struct outbox *ob, const char *caller_id)
{
	(void)ob, (void)caller_id;
	return false;
}

int64_t outbox_put(struct outbox *ob, struct outbox_caller *a, struct store_event *e)
{
	if (strcmp(e->type, OUTBOX_HARP) == 0) {
		stage_check_harp(e);
		return 1;
	}
	json_t *root = fuzz_json(e->body->data, e->body->size), *payload = json_object_get(root, "payload");
	struct message_head head;

	(void)ob, (void)a;
	MUST(stage.closed == 0); /* session_closed was the last */
	MUST((int64_t)e->body->size <= stage.config.max_message);
	MUST(fuzz_is_utf8(e->body->data, e->body->size));
	MUST(message_peek(e->body->data, e->body->size, &head) && id_is_uuid4(head.message_id));
	MUST(strcmp(json_string_value(json_object_get(root, "type")), e->type) == 0 &&
		json_is_object(payload));
	MUST(strcmp(json_string_value(json_object_get(root, "session_id")), e->session_id) == 0);
	if (strcmp(e->type, TYPE_EVENT) == 0)
		stage_check_event(e, payload);
	else
		stage.results++;
	json_decref(root);
	stage_check_shown(e);
	return 1;
}

void outbox_caller_pin(struct outbox_caller *a)
{
	(void)a;
}

void outbox_caller_unpin(struct outbox_caller *a)
{
	(void)a;
}

int64_t outbox_caller_key(const struct outbox_caller *a)
{
	(void)a;
	return 1;
}

/* ---- what is stored: text is UTF-8, and JSON where it is said to be ---- */

static bool stage_is_text(const char *text)
{
	return text == NULL || fuzz_is_utf8(text, strlen(text));
}

static void stage_check_row(const struct store_session *row)
{
	MUST(row->tokens_in >= 0 && row->tokens_out >= 0 && row->cost >= 0 && row->cost < 1e300);
	MUST(stage_is_text(row->step) && row->steps >= 0);
}

void store_save_session(struct store *s, const struct store_session *row)
{
	json_t *warnings = fuzz_json(row->warnings, strlen(row->warnings));
	json_t *risks = fuzz_json(row->risk_events, strlen(row->risk_events));

	(void)s;
	MUST(json_is_array(warnings) && json_is_array(risks) && json_array_size(risks) <= 50);
	stage_check_row(row);
	json_decref(warnings);
	json_decref(risks);
}

void store_put_transition(struct store *s, const struct store_session *row, const char *from,
	const char *reason, const char *actor)
{
	(void)s;
	stage_check_row(row);
	MUST(session_may((enum sstate)name_find(sstate_names, from),
		     (enum sstate)name_find(sstate_names, row->state)) &&
		*actor != '\0');
	MUST(stage_is_text(reason));
}

void store_put_checkpoint(struct store *s, const struct store_checkpoint *c)
{
	char hash[CANONICAL_HASH_SIZE];
	int kind = state_encoding_parse(c->encoding);
	struct buf text = {0};
	json_t *state, *step = c->step != NULL ? fuzz_json(c->step, strlen(c->step)) : NULL;

	(void)s;
	/* There is no base here. Small ones are their own text. */
	MUST((kind == STATE_JSON || kind == STATE_ZSTD) && c->base == 0 &&
		(kind == STATE_JSON || c->whole_size > STATE_PLAIN_MAX));
	MUST(state_restore((enum state_encoding)kind, c->state, c->state_size, (size_t)c->whole_size, NULL, 0,
		     &text) == 0);
	state = fuzz_json(text.data, text.size);
	MUST(json_is_object(state) && c->whole_size <= stage.config.max_checkpoint);
	MUST(strcmp(c->trigger, "worker") == 0 || strcmp(c->trigger, "steps") == 0);
	MUST(stage_is_text(c->state_version) &&
		(c->state_version == NULL || strlen(c->state_version) < STORE_WORD_SIZE));
	buf_fini(&text);
	MUST(step == NULL || json_is_string(step) || json_is_number(step));
	canonical_hash(state, hash);
	MUST(c->sha256 != NULL && strcmp(c->sha256, hash) == 0);
	MUST(stage_is_text(c->description) && strlen(c->description) <= 1024 &&
		id_is_uuid4(c->checkpoint_id));
	json_decref(state);
	json_decref(step);
}

/* An id is stored once: within a turn the session remembers it, later the store does, which is empty here. */
void store_put_snapshot(struct store *s, const struct store_snapshot *n)
{
	(void)s;
	MUST(stage_is_text(n->snapshot_id) && n->snapshot_id[0] != '\0' && strlen(n->sha256) == 64 &&
		n->event == 1);
	if (strcmp(n->snapshot_id, STAGE_MADE_ID) == 0)
		return; /* a checkpoint's: here all have this one */
	for (unsigned i = 0; i < stage.snapshot_count; i++)
		MUST(strcmp(stage.snapshots[i], n->snapshot_id) != 0);
	if (stage.snapshot_count < sizeof stage.snapshots / sizeof *stage.snapshots)
		snprintf(stage.snapshots[stage.snapshot_count++], sizeof stage.snapshots[0], "%s",
			n->snapshot_id);
}

int store_find_snapshot(
	struct store *s, int64_t session, const char *snapshot_id, char sha256[65], struct buf *created_at)
{
	(void)s, (void)session, (void)snapshot_id, (void)sha256, (void)created_at;
	return 0;
}

int store_find_last_harp(struct store *s, int64_t session, struct buf *out)
{
	(void)s, (void)session, (void)out;
	return 0;
}

void store_put_artifact(struct store *s, const struct store_artifact *a, const char *at)
{
	(void)s, (void)at;
	MUST(artifact_name_fault(a->name, strlen(a->name)) == NULL && strchr(a->name, '/') == NULL &&
		a->name[0] != '.');
	MUST(stage_is_text(a->name) && stage_is_text(a->type) && stage_is_text(a->path) &&
		a->path[0] != '\0');
	MUST(strlen(a->name) <= 255 && strlen(a->path) <= 4096 &&
		artifact_type_is_good(a->type, strlen(a->type)));
}

void store_save_artifact(
	struct store *s, int64_t session, const char *name, int64_t size_bytes, const char *sha256)
{
	(void)s, (void)session, (void)name;
	MUST(size_bytes == 3 && strlen(sha256) == 64);
}

void store_drop_artifact(struct store *s, int64_t session, const char *name)
{
	(void)s, (void)session;
	MUST(*name != '\0');
}

int store_load_artifacts(struct store *s, int64_t session, store_artifact_fn *fn, void *ctx)
{
	(void)s, (void)session, (void)fn, (void)ctx;
	return 0;
}

void store_put_outcome(struct store *s, int64_t session, const char *json, size_t size)
{
	(void)s, (void)session;
	json_decref(fuzz_json(json, size));
	buf_clear(&stage.outcome);
	buf_add(&stage.outcome, json, size);
}

int store_load_outcome(struct store *s, int64_t session, struct buf *out)
{
	(void)s, (void)session;
	buf_add(out, stage.outcome.data, stage.outcome.size);
	return 1;
}

int store_load_task(struct store *s, int64_t session, struct buf *out)
{
	(void)s, (void)session;
	buf_add_text(out, "{\"constraints\":{\"confidence_threshold\":0.5}}");
	return 1;
}

void store_put_session(struct store *s, const struct store_session *row, const char *task, size_t task_size)
{
	(void)s, (void)row, (void)task, (void)task_size;
}

void store_put_submit(struct store *s, int64_t caller, const char *message_id, const char *at,
	int64_t session, int64_t answer)
{
	(void)s, (void)caller, (void)message_id, (void)at, (void)session, (void)answer;
}

void store_accept_session(struct store *s, const struct store_session *row)
{
	(void)s, (void)row;
}

void store_save_answer(struct store *s, int64_t caller, const char *message_id, int64_t answer)
{
	(void)s, (void)caller, (void)message_id, (void)answer;
}

void store_drop_outcome(struct store *s, int64_t session)
{
	(void)s, (void)session;
}

const char *store_error(const struct store *s)
{
	(void)s;
	return "";
}

/* No session before this one, and no checkpoint but those that were just made: each is whole. */

int checkpoint_load(struct store *s, const char *checkpoint_id, struct checkpoint *out)
{
	(void)s, (void)checkpoint_id;
	*out = (struct checkpoint){.damaged = 0};
	return 0;
}

void restore_drop(struct session *s)
{
	(void)s;
}

void restore_begin_named(struct session *s, const char *checkpoint_id)
{
	(void)s, (void)checkpoint_id;
}

/* No threads here: no line is kept. */
void worker_keep_line(struct worker *w, enum worker_stream s, const char *line)
{
	(void)w, (void)s, (void)line;
}

void worker_let_line_go(struct worker *w, enum worker_stream s)
{
	(void)w, (void)s;
}

void store_kept_fini(struct store_kept *k)
{
	(void)k;
}

int checkpoint_look(struct store *s, const char *checkpoint_id, int64_t most, struct checkpoint *out)
{
	(void)most;
	return checkpoint_load(s, checkpoint_id, out);
}

int checkpoint_load_rows(struct store *s, const char *checkpoint_id, struct checkpoint_rows *out)
{
	(void)s, (void)checkpoint_id, (void)out;
	return 0;
}

void checkpoint_rows_fini(struct checkpoint_rows *r)
{
	(void)r;
}

int64_t checkpoint_load_base(
	struct store *s, const char *checkpoint_id, int64_t session, struct store_kept *out)
{
	(void)s, (void)checkpoint_id, (void)session, (void)out;
	return 0;
}

void checkpoint_fini(struct checkpoint *c)
{
	(void)c;
}

static void stage_check_continuity(const struct store_continuity *k)
{
	const char *const lists[] = {k->decisions, k->open_questions, k->next_steps};

	MUST(stage_is_text(k->summary));
	for (size_t i = 0; i < 3; i++) {
		json_t *list = fuzz_json(lists[i], strlen(lists[i]));

		MUST(json_is_array(list));
		json_decref(list);
	}
}

void store_put_continuity(struct store *s, const struct store_continuity *k)
{
	(void)s;
	stage_check_continuity(k);
}

void store_close_continuity(struct store *s, const struct store_continuity *k)
{
	(void)s;
	MUST(k->completion != NULL && k->closed_at != NULL);
	stage_check_continuity(k);
}

int store_load_continuity(struct store *s, const char *session_id, const char *caller_id, struct buf *out,
	char data_class[STORE_CLASS_SIZE])
{
	(void)s, (void)session_id, (void)caller_id, (void)out, (void)data_class;
	return 0;
}

int store_load_recent(struct store *s, int64_t session, const char *caller_id, const char *capability,
	int count, size_t most, struct buf *out)
{
	(void)s, (void)session, (void)caller_id, (void)capability, (void)count, (void)most, (void)out;
	return 0;
}

void store_put_label(struct store *s, int64_t session, const char *name, const char *value)
{
	(void)s, (void)session, (void)name, (void)value;
}

int store_find_owner(struct store *s, int64_t session, struct store_owner *out)
{
	(void)s, (void)session, (void)out;
	return 0;
}

/* ---- artifacts: a path of an even length is a file of three bytes, any other is none ---- */

struct artifact_copy *artifact_copy_begin(const struct artifact_source *src, char *why, size_t why_size)
{
	struct artifact_copy *c;

	if (strlen(src->path) % 2 == 1) {
		snprintf(why, why_size, "is none");
		return NULL;
	}
	c = xcalloc(1, sizeof *c);
	c->size = 3;
	memset(c->sha256, 'a', sizeof c->sha256 - 1);
	return c;
}

int artifact_copy_step(struct artifact_copy *c, size_t bytes, char *why, size_t why_size)
{
	(void)c, (void)bytes, (void)why, (void)why_size;
	return 0;
}

void artifact_copy_free(struct artifact_copy *c)
{
	free(c);
}

void artifact_remove(const char *state_dir, const char *session_id, const char *name)
{
	(void)state_dir, (void)session_id, (void)name;
}

int artifact_collect(const char *state_dir, const char *session_id,
	bool (*is_known)(void *ctx, const char *name), void *ctx)
{
	(void)state_dir, (void)session_id, (void)is_known, (void)ctx;
	return 0;
}

const struct capability *policy_find(const struct policy *p, const char *name)
{
	(void)p, (void)name;
	return &stage.capability;
}

/* ---- processes: there are none ---- */

void effect_line(struct session *s, const char *line, size_t size)
{
	(void)s;
	json_decref(fuzz_json(line, size));
	MUST(memchr(line, '\n', size) == NULL);
}

void run_stop_or_finish(struct session *s)
{
	MUST(session_has_outcome(s));
	stage.has_concluded = true;
}

void run_stop_now(struct session *s, int64_t kill_at_us)
{
	(void)s, (void)kill_at_us;
}

void run_stop_at_half(struct session *s)
{
	(void)s;
}

struct worker *run_worker(const struct session *s)
{
	(void)s;
	return NULL;
}

bool worker_has_stdin(const struct worker *w)
{
	(void)w;
	return true;
}

void run_watch_pause(struct session *s)
{
	(void)s;
}

void run_consider_free(struct session *s)
{
	(void)s;
}

size_t worker_unwritten(const struct worker *w)
{
	(void)w;
	return 0;
}

bool operator_on_paused(struct session *s)
{
	(void)s;
	return false; /* no operator asked for it */
}

bool operator_on_resumed(struct session *s)
{
	(void)s;
	return false;
}

void run_init(struct session *s)
{
	(void)s;
}

void run_fini(struct session *s)
{
	(void)s;
}

void run_check_backlog(struct session *s)
{
	(void)s;
}

bool run_has_workdir(const struct session *s)
{
	(void)s;
	return true;
}

void run_clean_up(struct session *s)
{
	(void)s;
}

/* What goes into the audit is about this session, and says what was decided. */
void audit_put(struct core *c, const struct audit_entry *e)
{
	MUST(c != NULL && e->what != NULL && e->outcome != NULL && strcmp(e->session, STAGE_ID) == 0);
}

void audit_put_refusal(struct core *c, const struct audit_entry *e, const char *counted_with)
{
	MUST(counted_with != NULL);
	audit_put(c, e);
}

void approval_forget(struct session *s)
{
	(void)s;
}

void policy_wait_forget(struct session *s)
{
	(void)s;
}

void slots_leave(struct core *c, struct session *s)
{
	(void)c, (void)s;
}

void slots_add_undecided(struct core *c, const struct session *s)
{
	(void)c, (void)s;
}

void slots_drop_undecided(struct core *c, const struct session *s)
{
	(void)c, (void)s;
}

/* ---- a life ---- */

/* Made once: limits to announce actions against, and promises for outputs to break. */
static void stage_set_rules(struct session *s)
{
	static const char rules[] =
		"{\"envelope\":{\"parameters\":{\"t\":{\"max\":80,\"min\":-5,\"hard_limit\":95,\"unit\":"
		"\"C\"}},"
		"\"prohibited_actions\":[\"vent\"]},\"outputs\":{\"properties\":{\"x\":{\"maximum\":6}}},"
		"\"expected\":{\"schema\":{\"properties\":{\"y\":{\"type\":\"array\"}}}}}";
	static struct envelope *envelope;
	static struct jschema *outputs;
	char why[JSCHEMA_WHY_SIZE];
	json_t *root = fuzz_json(rules, strlen(rules));

	if (envelope == NULL) {
		struct declaration d = {.path = "stage"};
		struct declared at = {.value = json_object_get(root, "envelope")};

		envelope = envelope_read(&d, &at);
		outputs = jschema_compile(json_object_get(root, "outputs"), NULL, why, sizeof why);
		MUST(d.errors == 0 && outputs != NULL);
	}
	stage.capability.envelope = envelope;
	stage.capability.output_schema = outputs;
	MUST((s->run.output_check = output_check_new(json_object_get(root, "expected"), why, sizeof why)) !=
		NULL);
	json_decref(root);
}

struct session *stage_begin(const char *warnings, const char *step)
{
	struct store_session row = {.key = 7,
		.session_id = STAGE_ID,
		.caller_id = "alpha",
		.capability = "echo",
		.capability_version = "1.0.0",
		.state = "RUNNING",
		.state_version = 1,
		.risk_level = "R1",
		.data_classification = "T1",
		.priority = "normal",
		.session_token = "token",
		.created_at = "2026-01-31T11:59:58.000Z",
		.updated_at = "2026-01-31T11:59:59.000Z",
		.started_at = "2026-01-31T11:59:59.000Z",
		.deadline = "2026-01-31T12:59:59.000Z",
		.max_duration_us = 3600000000,
		.attempt = 1,
		.warnings = warnings,
		.risk_events = "[\"before\"]",
		.step = step,
		.sequence = 2,
		.harp = stage_is_told};
	struct session *s;

	fuzz_logged = 0;
	buf_fini(&stage.outcome);
	memset(&stage, 0, sizeof stage);
	stage.config = (struct config){.max_message = 1 << 20,
		.max_line = 4 << 20,
		.max_checkpoint = 4096,
		.max_text_output = 1024,
		.max_depth = STAGE_DEPTH,
		.abort_timeout_us = 30000000,
		.max_artifact = 1 << 20,
		.max_artifacts_total = 1 << 20,
		.artifact_timeout_us = 30000000};
	stage.capability.config = &stage.config_capability;
	stage.policy.config = &stage.config;
	stage.core.policy = stage.core.first_policy = &stage.policy;
	stage.sequence = row.sequence;
	s = session_load(&stage.core, &row);
	MUST(harp_events_again(s) == 0);
	s->run.cap = &stage.capability;
	stage_set_rules(s);
	return s;
}

void stage_end(struct session *s)
{
	bool is_aborted = s->outcome.state == S_ABORTED;

	session_finish(s);
	while (artifacts_step(&stage.core))
		;
	sessions_save_dirty(&stage.core);
	MUST(s->turn.is_closed && session_is_over(s->state) && stage.closed == 1 &&
		stage.results == !is_aborted);
	sessions_sweep(stage.core.turn.closed);
	timers_fini(&stage.core.timers);
	buf_fini(&stage.core.turn.scratch);
	buf_fini(&stage.outcome);
}
