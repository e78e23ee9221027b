/* SPDX-License-Identifier: MIT */
/* request.c: turns a line of the control socket into a checked request.
 * Owns the verbs that go to the core, and their members; query has those that the store answers. Never acts
 * on a request. */
#include "control/control_private.h"
#include "core/operator/operator.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "json/text.h"

enum {
	M_SESSION = 1,
	M_REASON = 2,
	M_FROM = 4,
	M_OF = 8,
	M_NAME = 16,
	M_DECISION = 32,
	M_HOW = 64,
	M_BY = 128,
	M_TOKEN = 256
};

enum value { A_TEXT, A_NUMBER, AN_OBJECT };
static const char *const write_it[] = {"write a string", "write a whole number", "write an object"};

static const struct {
	const char *name;
	unsigned bit;
	enum value kind;
} members[] = {{"session", M_SESSION, A_TEXT}, {"reason", M_REASON, A_TEXT}, {"from", M_FROM, A_NUMBER},
	{"of", M_OF, A_NUMBER}, {"name", M_NAME, A_TEXT}, {"decision", M_DECISION, AN_OBJECT},
	{"how", M_HOW, A_TEXT}, {"by", M_BY, A_TEXT}, {"token", M_TOKEN, A_TEXT}};

/* by op_verb; the last is `stop` */
static const struct {
	unsigned may, must;
} verbs[OP_VERBS + 1] = {
	[OP_ABORT] = {M_SESSION | M_REASON, M_SESSION},
	[OP_PAUSE] = {M_SESSION | M_REASON, M_SESSION},
	[OP_RESUME] = {M_SESSION, M_SESSION},
	[OP_CHECKPOINT] = {M_SESSION, M_SESSION},
	[OP_REPLAY] = {M_SESSION | M_FROM, M_SESSION},
	[OP_LIVE] = {M_SESSION, M_SESSION},
	[OP_DECIDE] = {M_SESSION | M_REASON | M_DECISION, M_DECISION},
	[OP_RECOVER] = {M_SESSION | M_HOW | M_REASON, M_SESSION | M_HOW},
	[OP_EXTEND] = {M_SESSION | M_BY | M_TOKEN | M_REASON, M_SESSION | M_BY},
	[OP_REVOKE_TOKEN] = {M_SESSION | M_REASON, M_SESSION},
	[OP_VERBS] = {M_OF, M_OF},
};

/* A cut may split a character, and a parser may quote invalid UTF-8. */
static void keep_utf8(char *text)
{
	size_t left = strlen(text), size;

	for (; left > 0; text += size, left -= size)
		if ((size = buf_utf8_size((unsigned char *)text, left)) == 0) {
			*text = '?';
			size = 1;
		}
}

void control_set_error(struct query_error *e, const char *code, const char *next, const char *fmt, ...)
{
	va_list ap;

	e->code = code;
	va_start(ap, fmt);
	vsnprintf(e->message, sizeof e->message, fmt, ap);
	va_end(ap);
	snprintf(e->next, sizeof e->next, "%s", next);
	keep_utf8(e->message);
}

static int bad(struct query_error *e, const char *next, const char *what, const char *name)
{
	control_set_error(e, "bad_request", next, "%s%.100s", what, name);
	return -1;
}

static int find_member(const char *name)
{
	for (size_t i = 0; i < sizeof members / sizeof *members; i++)
		if (strcmp(members[i].name, name) == 0)
			return (int)i;
	return -1;
}

static bool fits(const json_t *value, enum value kind)
{
	if (kind == AN_OBJECT)
		return json_is_object(value);
	if (kind == A_TEXT) /* a NUL would hide the text behind it */
		return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
	return json_is_integer(value) && json_integer_value(value) >= 0;
}

static int check_members(struct control_request *r, unsigned may, unsigned must, struct query_error *e)
{
	const char *name;
	json_t *value;
	unsigned seen = 0;

	json_object_foreach(r->root, name, value) {
		int i = find_member(name);

		if (strcmp(name, "id") == 0 || strcmp(name, "do") == 0)
			continue;
		if (i < 0 || (members[i].bit & may) == 0)
			return bad(e, "leave it out", "this verb has no member ", name);
		if (!fits(value, members[i].kind))
			return bad(e, write_it[members[i].kind], "this cannot be the value of ", name);
		seen |= members[i].bit;
	}
	for (size_t i = 0; i < sizeof members / sizeof *members; i++)
		if (members[i].bit & must & ~seen)
			return bad(e, "add it", "this verb needs the member ", members[i].name);
	return 0;
}

static int take_members(struct control_request *r, struct query_error *e)
{
	const json_t *from = json_object_get(r->root, "from");
	const char *by = json_string_value(json_object_get(r->root, "by"));

	r->session = json_string_value(json_object_get(r->root, "session"));
	r->reason = json_string_value(json_object_get(r->root, "reason"));
	r->name = json_string_value(json_object_get(r->root, "name"));
	r->of = json_integer_value(json_object_get(r->root, "of"));
	r->how = json_string_value(json_object_get(r->root, "how"));
	r->token = json_string_value(json_object_get(r->root, "token"));
	if (by != NULL && (!duration_parse(by, &r->by_us) || r->by_us <= 0))
		return bad(e, "write a duration like 30m or PT30M", "this cannot be the value of ", "by");
	r->from = from != NULL ? json_integer_value(from) : 1;
	if (r->reason != NULL && strlen(r->reason) >= REASON_SIZE)
		return bad(e, "write at most 1023 bytes", "this is too long for ", "reason");
	if (r->from < 1)
		return bad(e, "sequences begin with 1", "this cannot be the value of ", "from");
	return 0;
}

static int take_verb(struct control_request *r, const char *verb, struct query_error *e)
{
	int i = 0;

	if (query_knows(verb)) {
		r->kind = CONTROL_QUERY;
		return 0; /* query_begin checks the other members */
	}
	if (strcmp(verb, "artifact") == 0) {
		r->kind = CONTROL_ARTIFACT;
		r->audited = "artifact";
		return check_members(r, M_SESSION | M_NAME, M_SESSION | M_NAME, e) < 0 ? -1 :
											 take_members(r, e);
	}
	while (i < OP_VERBS && strcmp(op_verb_name((enum op_verb)i), verb) != 0)
		i++;
	if (i == OP_VERBS && strcmp(verb, "stop") != 0) {
		control_set_error(e, "unknown_verb",
			"there are list, show, events, checkpoints, log, audit, abort, pause, resume, "
			"checkpoint, recover, extend, replay, drain, undrain, revoke_token, "
			"rotate_token_key, stats, live, approvals, decide, approvers, artifact and stop",
			"there is no verb %.100s", verb);
		return -1;
	}
	r->kind = i == OP_VERBS ? CONTROL_STOP : CONTROL_OP;
	r->verb = (enum op_verb)i;
	if (r->kind == CONTROL_OP && !operator_only_reads(r->verb))
		r->audited = op_verb_name(r->verb);
	if (check_members(r, verbs[i].may, verbs[i].must, e) < 0)
		return -1;
	if ((verbs[i].must & M_DECISION) && r->decision.at == NULL)
		return bad(e, "write it without escapes", "this member's name is not plain: ", "decision");
	return take_members(r, e);
}

int control_read_request(const char *line, size_t size, struct control_request *r, struct query_error *e)
{
	static const char shape[] = "write one JSON object a line: {\"id\":1,\"do\":\"list\"}";
	const json_t *id, *verb;
	char why[256];

	memset(r, 0, sizeof *r);
	if (size > REQUEST_LINE_MAX)
		return bad(e, "write less", "a line has at most 65536 bytes", "");
	if ((r->root = jtext_parse(line, size, why, sizeof why)) == NULL)
		return bad(e, shape, "this is no JSON: ", why);
	id = json_object_get(r->root, "id");
	if (json_is_integer(id)) {
		r->has_id = true;
		r->id = json_integer_value(id);
	}
	if (!json_is_object(r->root))
		return bad(e, shape, "this is no object", "");
	if (!r->has_id)
		return bad(e, shape, "there is no whole number as ", "id");
	verb = json_object_get(r->root, "do");
	if (!fits(verb, A_TEXT))
		return bad(e, shape, "there is no text as ", "do");
	r->decision = jtext_member(line, size, "decision"); /* the signature is over bytes */
	return take_verb(r, json_string_value(verb), e);
}

void control_request_fini(struct control_request *r)
{
	json_decref(r->root);
	r->root = NULL;
}
