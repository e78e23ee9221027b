/* SPDX-License-Identifier: MIT */
/* continuity.c: records of ended sessions, and checkpoints that outlive theirs.
 * Owns what a task may use of another session: only of the same caller's, only of an ended one, and only of
 * one whose data is of no higher class than its own. Never decides about anything else of a task (gate.c). */
#include "core/recovery/restore.h"
#include "core/running/continuity.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "store/checkpoint.h"
#include "base/clock.h"
#include "core/turn.h"
#include "base/crashpoint.h"
#include "core/pins.h"
#include "config/state_version.h"
#include "policy/state_check.h"
#include "core/running/worker_messages.h"
#include "protocol/worker_line.h"

#define SUMMARY_MAX 4096
#define RECORD_MAX 65536         /* bytes of the lists together */
#define RECENT_MAX (1024 * 1024) /* bytes of the records of earlier sessions in a start line */

static const char *const lists[] = {"decisions", "open_questions", "next_steps"};
enum { LISTS = sizeof lists / sizeof *lists };

/* ---- what a session leaves ---- */

static void fill(const struct session *s, struct store_continuity *k)
{
	*k = (struct store_continuity){.session = s->key,
		.session_id = s->id,
		.caller_id = s->caller_id,
		.capability = s->capability,
		.decisions = "[]",
		.open_questions = "[]",
		.next_steps = "[]",
		.checkpoint_count = s->summary.checkpoints};
}

void continuity_record(struct session *s, const struct worker_line *l)
{
	const char *said = worker_line_string(l, "summary", "");
	size_t said_size = strlen(said), cut = buf_utf8_cut(said, said_size, SUMMARY_MAX), size = 0;
	struct buf texts[LISTS] = {0};
	char summary[SUMMARY_MAX + 1];
	struct store_continuity k;

	fill(s, &k);
	memcpy(summary, said, cut);
	summary[cut] = '\0';
	if (cut < said_size && worker_message_may_complain(s))
		session_warn(s, "summary_cut",
			"the summary of a continuity record was cut: it has %zu bytes, %d is the limit",
			said_size, SUMMARY_MAX);
	k.summary = summary;
	for (int i = 0; i < LISTS; i++) {
		worker_line_add_raw(l, &texts[i], lists[i], "[]");
		size += texts[i].size;
	}
	k.decisions = buf_text(&texts[0]);
	k.open_questions = buf_text(&texts[1]);
	k.next_steps = buf_text(&texts[2]);
	if (size > RECORD_MAX)
		session_warn(s, "continuity_too_large",
			"a continuity record of %zu bytes was not kept; %d is the limit", size, RECORD_MAX);
	else
		store_put_continuity(s->core->store, &k);
	CRASH_POINT(continuity_noted);
	for (int i = 0; i < LISTS; i++)
		buf_fini(&texts[i]);
}

/* A summary for a session whose worker wrote none. */
static void write_summary(const struct session *s, struct buf *b)
{
	buf_addf(b, "%s (%s) after %lld steps and %lld checkpoints", sstate_names[s->state],
		s->outcome.reason, (long long)s->summary.steps, (long long)s->summary.checkpoints);
	if (s->summary.step != NULL && s->summary.step[0] != '\0')
		buf_addf(b, "; the last step was %s", s->summary.step);
}

void continuity_close(struct session *s)
{
	static const char *const completions[S_COUNT] = {
		[S_COMPLETED] = "full", [S_FAILED] = "partial", [S_ABORTED] = "aborted"};
	char at[CLOCK_TEXT_SIZE];
	struct store_continuity k;
	struct buf b = {0};

	fill(s, &k);
	write_summary(s, &b);
	k.summary = buf_text(&b);
	k.completion = completions[s->state];
	clock_format(s->times.updated_us, at);
	k.closed_at = at;
	store_close_continuity(s->core->store, &k);
	CRASH_POINT(continuity_closed);
	buf_fini(&b);
}

/* ---- what a task names ---- */

static void __attribute__((format(printf, 2, 3))) reject(struct gate_result *v, const char *fmt, ...)
{
	va_list ap;

	v->kind = GATE_REJECTED;
	v->code = "invalid_input";
	va_start(ap, fmt);
	vsnprintf(v->message, sizeof v->message, fmt, ap);
	va_end(ap);
	v->suggestion[0] = '\0';
}

static const char unfit[] = "has a state that does not fit the state_schema of this capability";

static bool is_over(const char *state)
{
	int s = name_find(sstate_names, state);

	return s >= 0 && session_is_over((enum sstate)s);
}

/* Would data come into a session of a lower class? No log of access, no encryption, TLS or approval was asked
 * for it there. */
static bool is_above(const char *theirs, enum data_class own)
{
	int class = name_find(data_class_names, theirs);

	return class < 0 || class > (int)own;
}

/* NULL: the task may start from this checkpoint; else what is wrong. A foreign checkpoint gets the same
 * sentence as an unknown one. A session that leaves the store in this turn counts as gone. *rc -1: the store
 * cannot be read. */
static const char *find_fault(struct core *c, const char *caller_id, const struct capability *cap,
	enum data_class class, const char *id, struct checkpoint *cp, struct store_owner *owner, int *rc)
{
	static const char unknown[] = "is no checkpoint of an ended session of this caller and capability";
	/* a large one is verified at the start, on another thread */
	int found = checkpoint_look(c->store, id, c->jobs != NULL ? (int64_t)c->large_bytes : INT64_MAX, cp);
	char why[512];

	*rc = found < 0 ? -1 : 0;
	if (found < 0)
		return NULL;
	if (found == 0 && cp->damage == NULL)
		return unknown;
	if ((*rc = store_find_owner(c->store, cp->session, owner)) < 0)
		return NULL;
	if (*rc == 0 || strcmp(owner->caller_id, caller_id) != 0 ||
		strcmp(owner->capability, cap->name) != 0 || !is_over(owner->state) ||
		pins_is_leaving(c, owner->session_id))
		return unknown;
	if (is_above(owner->data_class, class))
		return "is of a session whose data is of a higher class than this task's";
	if (found == 0)
		return "is damaged";
	if (!cp->resumable)
		return "cannot be resumed from";
	if (!state_version_is_read(cp->state_version, cap->config->state_version))
		return "has a state of another version than this capability takes";
	return cp->is_unverified || state_check_fits(cap, cp->state.data, cp->state.size, why, sizeof why) ?
		NULL :
		unfit;
}

static int check_checkpoint(struct core *c, const struct command *cmd, struct gate_result *v)
{
	const char *id = cmd->task.checkpoint, *fault;
	struct store_owner owner;
	struct checkpoint cp;
	int rc;

	fault = find_fault(c, cmd->caller_id, v->capability, cmd->task.data_class, id, &cp, &owner, &rc);
	if (rc >= 0 && fault != NULL)
		reject(v, "payload.constraints.checkpoint: %s %s", id, fault);
	else if (rc >= 0)
		memcpy(v->checkpoint_of, owner.session_id, sizeof v->checkpoint_of);
	checkpoint_fini(&cp);
	return rc < 0 ? -1 : 0;
}

static int check_record(struct core *c, const struct command *cmd, struct gate_result *v)
{
	struct buf record = {0};
	enum data_class own = cmd->task.data_class;
	char class[STORE_CLASS_SIZE] = "";
	int found = store_load_continuity(c->store, cmd->task.continues, cmd->caller_id, &record, class);

	if (found == 0 || (found > 0 && pins_is_leaving(c, cmd->task.continues)))
		reject(v, "payload.context.continues: %s is no ended session of this caller",
			cmd->task.continues);
	else if (found > 0 && is_above(class, own))
		reject(v,
			"payload.context.continues: the data of session %s is of class %s, above this "
			"task's, %s",
			cmd->task.continues, class, data_class_names[own]);
	buf_fini(&record);
	return found < 0 ? -1 : 0;
}

int continuity_check(struct core *c, const struct command *cmd, struct gate_result *v)
{
	if (v->kind != GATE_REJECTED && cmd->task.checkpoint[0] != '\0' && check_checkpoint(c, cmd, v) < 0)
		return -1;
	if (v->kind != GATE_REJECTED && cmd->task.continues[0] != '\0' && check_record(c, cmd, v) < 0)
		return -1;
	return 0;
}

/* ---- what the worker gets ---- */

/* Reads a member of a member of the stored task, where it is an id. */
static bool find_id(const struct buf *task, const char *outer, const char *inner, char id[ID_SIZE])
{
	struct jslice at = jtext_member(task->data, task->size, outer);
	char why[64];
	json_t *value;

	if (at.at != NULL && at.size > 0 && *at.at == '{')
		at = jtext_member(at.at, at.size, inner);
	else
		at.at = NULL;
	value = at.at != NULL ? jtext_parse(at.at, at.size, why, sizeof why) : NULL;
	id[0] = '\0';
	if (json_is_string(value) && id_is_uuid4(json_string_value(value)))
		message_copy_id(id, json_string_value(value));
	json_decref(value);
	return id[0] != '\0';
}

int continuity_add(struct session *s, const struct buf *task, struct buf *b)
{
	struct buf record = {0};
	char id[ID_SIZE], class[STORE_CLASS_SIZE];
	int found;

	if (!find_id(task, "context", "continues", id))
		return 0;
	if ((found = store_load_continuity(s->core->store, id, s->caller_id, &record, class)) > 0) {
		buf_add_text(b, ",\"continues\":");
		buf_add(b, record.data, record.size);
	} else if (found == 0) {
		session_warn(s, "continuity_gone",
			"the record of session %s, which this one continues, is no longer kept", id);
		buf_add_text(b, ",\"continues\":null");
	}
	buf_fini(&record);
	return found < 0 ? -1 : 0;
}

int continuity_add_recent(struct session *s, struct buf *b)
{
	int count = s->run.cap->config->continuity_recent, rc;
	struct buf records = {0};

	if (count == 0)
		return 0;
	rc = store_load_recent(
		s->core->store, s->key, s->caller_id, s->capability, count, RECENT_MAX, &records);
	buf_add_text(b, ",\"recent\":[");
	buf_add(b, records.data, records.size);
	buf_add_text(b, "]");
	buf_fini(&records);
	return rc;
}

/* The same of a large one, once it is restored. */
static const char *find_restored_fault(const struct session *s)
{
	if (s->checkpoint.restored->id[0] == '\0')
		return "is damaged";
	return s->checkpoint.is_unfit ? unfit : NULL;
}

int continuity_find_checkpoint(struct session *s, const struct buf *task, struct checkpoint *out)
{
	struct store_owner owner;
	const char *fault;
	char id[ID_SIZE];
	int rc;

	*out = (struct checkpoint){.damaged = 0};
	if (!find_id(task, "constraints", "checkpoint", id))
		return 0;
	fault = find_fault(s->core, s->caller_id, s->run.cap, s->data_class, id, out, &owner, &rc);
	if (rc < 0)
		return -1;
	if (fault == NULL && out->is_unverified && s->checkpoint.restored == NULL) {
		restore_begin_named(s, id);
		return RESTORE_LATER;
	}
	if (fault == NULL && out->is_unverified)
		fault = find_restored_fault(s);
	if (fault == NULL)
		return 1;
	session_fail(s, "worker_failed", "input_error", "daemon", NULL,
		"constraints.checkpoint: %s %s; it was there when the task was accepted", id, fault);
	return 0;
}
