/* SPDX-License-Identifier: MIT */
/* pending.c: submits until they are answered, aborts until the broker has them.
 * Owns when these messages are sent again, and when the library gives them up. Every repeat has the same
 * bytes and the same message_id, so that it makes no second task. Never publishes (publisher.c). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "json/text.h"
#include "libhcp/libhcp_private.h"

#define PUBLISHING_MAX 64 /* messages with the publisher at a time: only their bodies are in memory */
#define REPEAT_MAX_US (600 * LIB_SECOND)
#define DEPTH_MAX 64 /* hcpd's own limit */

/* --- outgoing messages --- */

static void outgoing_free(struct lib_outgoing *l)
{
	free(l->callee);
	free(l->session);
	free(l->trouble);
	free(l);
}

static void outgoing_drop(struct hcp *h, struct lib_outgoing *l)
{
	HASH_DEL(h->outgoing, l);
	outgoing_free(l);
}

void lib_pending_forget(struct hcp *h)
{
	struct lib_outgoing *l, *next;

	HASH_ITER(hh, h->outgoing, l, next)
		outgoing_drop(h, l);
	h->outgoing_row = 0;
}

int lib_pending_load(struct hcp *h)
{
	struct lib_outgoing *l;
	int rc;

	h->has_new_outgoing = false;
	while ((rc = lib_store_next_outgoing(h, h->outgoing_row, &l)) > 0) {
		h->outgoing_row = l->row;
		h->outgoing_due_us = 0;
		HASH_ADD_STR(h->outgoing, message_id, l);
	}
	return rc < 0 ? HCP_E_STORE : HCP_OK;
}

int lib_pending_answered(struct hcp *h, const char *message_id)
{
	struct lib_outgoing *l;

	HASH_FIND_STR(h->outgoing, message_id, l);
	if (!l)
		return 0;
	l->is_answered = true;
	h->outgoing_due_us = 0;
	return lib_store_drop_outgoing(h, message_id);
}

void lib_pending_committed(struct hcp *h)
{
	struct lib_outgoing *l, *next;

	if (h->outgoing_due_us > 0)
		return;
	HASH_ITER(hh, h->outgoing, l, next)
		if (l->is_answered)
			outgoing_drop(h, l);
}

bool lib_pending_is_flushed(const struct hcp *h)
{
	for (const struct lib_outgoing *l = h->outgoing; l; l = l->hh.next)
		if (!l->is_confirmed)
			return false;
	return !h->has_new_outgoing;
}

/* --- results of the publisher --- */

static void set_trouble(struct lib_outgoing *l, const char *text)
{
	free(l->trouble);
	l->trouble = xstrdup(text);
}

static int take_item(struct hcp *h, const struct lib_publication *i, int64_t now_us)
{
	struct lib_outgoing *l;
	char text[LIB_ERROR_SIZE];

	if (i->status == LIB_NEWS) {
		lib_fail(h, HCP_E_BROKER, "%s", i->text);
		lib_log(h, i->level, "submits: %s", i->text);
		return 0;
	}
	h->publishing--;
	h->outgoing_due_us = 0;
	HASH_FIND_STR(h->outgoing, i->message_id, l);
	if (!l)
		return 0; /* answered meanwhile */
	l->is_with_publisher = false;
	switch (i->status) {
	case LIB_CONFIRMED:
		l->is_confirmed = true;
		if (l->session)
			return lib_store_begin(h) < 0 ? -1 : lib_pending_answered(h, l->message_id);
		l->delay_us = l->delay_us ? 2 * l->delay_us : h->repeat_us;
		if (l->delay_us > REPEAT_MAX_US && l->delay_us > h->repeat_us)
			l->delay_us = REPEAT_MAX_US;
		l->next_at_us = now_us + l->delay_us;
		return 0;
	case LIB_UNROUTABLE:
		snprintf(text, sizeof text,
			"no daemon listens as %s: queue hcp.cmd.%s does not exist; is hcpd running with that "
			"callee_id, on this virtual host?",
			l->callee, l->callee);
		set_trouble(l, text);
		return 0;
	case LIB_REFUSED: set_trouble(l, i->text); return 0;
	case LIB_NEWS: break;
	}
	return 0;
}

/* Reports trouble to on_event, inside a transaction. The message is dropped if on_event takes the report. */
static int report_trouble(struct hcp *h, struct lib_outgoing *l, int64_t now_us)
{
	struct hcp_event e = {.kind = HCP_UNDELIVERED,
		.type = l->session ? "abort" : "task_submit",
		.event_type = "",
		.session_id = l->session ? l->session : "",
		.message_id = l->message_id,
		.in_reply_to = l->session ? "" : l->message_id,
		.body = "",
		.text = l->trouble};
	int rc;

	lib_log(h, HCP_LOG_WARN, "%s", l->trouble);
	lib_fail(h, HCP_E_REFUSED, "%s", l->trouble);
	rc = lib_inbox_call(h, &e);
	if (rc < 0 || (rc > 0 && lib_pending_answered(h, l->message_id) < 0))
		return -1;
	free(l->trouble);
	l->trouble = NULL;
	l->delay_us = l->delay_us ? 2 * l->delay_us : LIB_SECOND;
	if (l->delay_us > LIB_BACKOFF_MAX)
		l->delay_us = LIB_BACKOFF_MAX;
	l->next_at_us = now_us + l->delay_us;
	return 0;
}

static bool is_hopeless(const struct hcp *h, const struct lib_outgoing *l)
{
	return clock_wall_us() - l->created_us > h->give_up_us;
}

int lib_pending_turn(struct hcp *h, int64_t now_us)
{
	struct lib_publication *i = h->publisher ? lib_publisher_take(h->publisher) : NULL, *after;
	struct lib_outgoing *l, *next;
	int status = HCP_OK;
	char text[LIB_ERROR_SIZE];

	for (; i; i = after) {
		after = i->next;
		if (take_item(h, i, now_us) < 0)
			status = HCP_E_STORE;
		lib_publication_free(i);
	}
	if (status < 0 || now_us < h->outgoing_due_us)
		return status;
	HASH_ITER(hh, h->outgoing, l, next) {
		if (!l->trouble && !l->is_with_publisher && !l->is_answered && now_us >= l->next_at_us &&
			is_hopeless(h, l)) {
			snprintf(text, sizeof text,
				"%s %s was not answered by %s for %" PRId64 " s; giving it up",
				l->session ? "abort" : "submit", l->message_id, l->callee,
				h->give_up_us / LIB_SECOND);
			set_trouble(l, text);
		}
		if (l->trouble && !l->is_answered && report_trouble(h, l, now_us) < 0)
			return HCP_E_STORE;
	}
	return HCP_OK;
}

/* --- to the publisher --- */

static int hand_over(struct hcp *h, struct lib_outgoing *l)
{
	struct lib_publication *i = xcalloc(1, sizeof *i);

	if (lib_store_outgoing_body(h, l->row, &i->body, &i->size) <= 0) {
		lib_publication_free(i);
		return -1;
	}
	memcpy(i->message_id, l->message_id, ID_SIZE);
	i->type = l->session ? "abort" : "task_submit";
	i->callee = xstrdup(l->callee);
	i->session = l->session ? xstrdup(l->session) : NULL;
	i->expires_us = l->created_us + h->give_up_us;
	l->is_with_publisher = true;
	h->publishing++;
	lib_publisher_put(h->publisher, i);
	return 0;
}

void lib_pending_send(struct hcp *h, int64_t now_us)
{
	int64_t due_us = INT64_MAX;

	if (h->has_new_outgoing && lib_pending_load(h) < 0)
		return;
	if (now_us < h->outgoing_due_us || !h->outgoing)
		return;
	if (!h->publisher && !(h->publisher = lib_publisher_new(h->settings, h->wake_fd))) {
		lib_log(h, HCP_LOG_ERROR, "no thread to send with; trying again in a second");
		h->outgoing_due_us = now_us + LIB_SECOND;
		return;
	}
	for (struct lib_outgoing *l = h->outgoing; l; l = l->hh.next) {
		if (l->is_with_publisher || l->is_answered)
			continue;
		if (l->next_at_us <= now_us && !is_hopeless(h, l)) {
			if (h->publishing >= PUBLISHING_MAX || hand_over(h, l) == 0)
				continue; /* the publisher wakes the handle when it settles a message */
			l->next_at_us = now_us + LIB_SECOND;
		}
		due_us = l->next_at_us < due_us ? l->next_at_us : due_us;
	}
	h->outgoing_due_us = due_us;
}

/* --- composing --- */

/* NULL adds nothing. */
static void add_text(struct buf *b, const char *name, const char *text)
{
	if (!text)
		return;
	buf_addf(b, "%s\"%s\":", b->data[b->size - 1] == '{' ? "" : ",", name);
	buf_add_json(b, text, strlen(text));
}

static int add_object(struct hcp *h, struct buf *b, const char *name, const char *text)
{
	size_t size = text ? strlen(text) : 0;
	char why[160] = "it nests too deep";
	json_t *v;
	bool is_object;

	if (!text)
		return HCP_OK;
	v = jtext_depth(text, size) <= DEPTH_MAX ? jtext_parse(text, size, why, sizeof why) : NULL;
	is_object = json_is_object(v);
	if (!is_object)
		lib_fail(h, HCP_E_ARGUMENT, "task.%s is no JSON object: %s", name,
			v ? "it is another value" : why);
	json_decref(v);
	if (!is_object)
		return HCP_E_ARGUMENT;
	buf_addf(b, ",\"%s\":", name);
	jtext_add_minified(b, text, size);
	return HCP_OK;
}

static int add_constraints(struct hcp *h, struct buf *b, const struct hcp_task *t)
{
	if (t->constraints && (t->max_duration || t->priority))
		return lib_fail(h, HCP_E_ARGUMENT,
			"task.constraints is given, so max_duration and priority go into it");
	if (t->max_duration || t->priority) {
		buf_add_text(b, ",\"constraints\":{");
		add_text(b, "max_duration", t->max_duration);
		add_text(b, "priority", t->priority);
		buf_add_text(b, "}");
	}
	return add_object(h, b, "constraints", t->constraints);
}

static int compose_submit(struct hcp *h, struct buf *b, const struct hcp_task *t)
{
	struct buf intent = {0};
	int status;

	buf_addf(&intent, "run %s", t->capability);
	message_begin(b, NULL, "task_submit");
	buf_add_text(b, "{");
	add_text(b, "capability", t->capability);
	add_text(b, "capability_version", t->capability_version);
	add_text(b, "caller_id", h->settings->caller);
	add_text(b, "intent", t->intent ? t->intent : buf_text(&intent));
	buf_fini(&intent);
	if ((status = add_object(h, b, "inputs", t->inputs ? t->inputs : "{}")) < 0 ||
		(status = add_constraints(h, b, t)) < 0 ||
		(status = add_object(h, b, "expected_output", t->expected_output)) < 0 ||
		(status = add_object(h, b, "context", t->context)) < 0 ||
		(status = add_object(h, b, "metadata", t->metadata)) < 0)
		return status;
	buf_add_text(b, "}");
	message_end(b);
	return HCP_OK;
}

/* Stores the message in the transaction of on_event, or in one of its own. */
static int keep(struct hcp *h, const struct buf *b, const char *callee, const char *session,
	char message_id[HCP_ID_SIZE])
{
	struct message_head head;
	bool is_own = !h->in_batch;

	if (!message_peek(b->data, b->size, &head))
		return lib_fail(h, HCP_E_ARGUMENT, "the message cannot be composed");
	if (lib_store_begin(h) < 0)
		return HCP_E_STORE;
	if (lib_store_put_outgoing(h, head.message_id, callee, session, b->data, b->size) < 0 ||
		(is_own && lib_store_commit(h) < 0)) {
		if (is_own)
			lib_store_rollback(h);
		return HCP_E_STORE;
	}
	h->has_new_outgoing = true;
	lib_wake(h->wake_fd);
	if (message_id)
		memcpy(message_id, head.message_id, HCP_ID_SIZE);
	return HCP_OK;
}

static int check_callee(struct hcp *h, const char *callee)
{
	if (callee && name_is_valid(callee, "-_"))
		return HCP_OK;
	return lib_fail(h, HCP_E_ARGUMENT,
		"callee %.140s does not do; name the daemon's callee_id in options.callee or with the task",
		callee ? callee : "(none)");
}

static int check_usable(struct hcp *h)
{
	return h->db && h->settings ? HCP_OK : lib_fail(h, HCP_E_ARGUMENT, "the handle was not opened");
}

HCP_API int hcp_submit(struct hcp *h, const struct hcp_task *t, char message_id[HCP_ID_SIZE])
{
	const char *callee = t->callee ? t->callee : h->callee;
	struct buf b = {0};
	int status;

	if ((status = check_usable(h)) < 0 || (status = check_callee(h, callee)) < 0)
		return status;
	if (!t->capability || !t->capability[0])
		return lib_fail(
			h, HCP_E_ARGUMENT, "task.capability is missing; name what the daemon is to run");
	status = compose_submit(h, &b, t);
	if (status == HCP_OK)
		status = keep(h, &b, callee, NULL, message_id);
	buf_fini(&b);
	return status;
}

HCP_API int hcp_abort(struct hcp *h, const char *session_id, const char *reason)
{
	struct lib_session *s;
	const char *callee;
	struct buf b = {0};
	int status;

	if ((status = check_usable(h)) < 0)
		return status;
	if (!session_id || !id_is_uuid4(session_id))
		return lib_fail(
			h, HCP_E_ARGUMENT, "%.60s is no session_id", session_id ? session_id : "(none)");
	if (!(s = lib_inbox_session(h, session_id)))
		return HCP_E_STORE;
	callee = s->callee ? s->callee : h->callee;
	if ((status = check_callee(h, callee)) < 0)
		return status;
	message_begin(&b, session_id, "abort");
	buf_add_text(&b, "{");
	add_text(&b, "session_token", s->token);
	add_text(&b, "reason", reason);
	buf_add_text(&b, "}");
	message_end(&b);
	status = keep(h, &b, callee, session_id, NULL);
	buf_fini(&b);
	return status;
}
