/* fuzz_control.c: a line of the control socket, and what is answered where it is no request. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "../../src/control_private.h"

static void check_error(const struct control_request *r, const struct query_error *e)
{
	struct buf b = {0};
	json_t *line, *error;

	MUST(strcmp(e->code, "bad_request") == 0 || strcmp(e->code, "unknown_verb") == 0);
	MUST(e->message[0] != '\0' && e->next[0] != '\0');
	MUST(fuzz_is_utf8(e->message, strlen(e->message)));
	client_add_error(&b, r->has_id ? &r->id : NULL, e);
	MUST(b.size > 0 && b.data[b.size - 1] == '\n' && memchr(b.data, '\n', b.size - 1) == NULL);
	line = fuzz_json(b.data, b.size);
	error = json_object_get(line, "error");
	MUST(json_object_size(line) == 2 && json_object_size(error) == 3);
	MUST(r->has_id ? json_integer_value(json_object_get(line, "id")) == r->id : json_is_null(json_object_get(line, "id")));
	MUST(strcmp(json_string_value(json_object_get(error, "message")), e->message) == 0);
	json_decref(line);
	buf_fini(&b);
}

/* What the thread relies on. */
static void check_request(const struct control_request *r, size_t size)
{
	static const char *const known[] = {"id", "do", "session", "reason", "from", "of", "name"};
	const char *verb = json_string_value(json_object_get(r->root, "do")), *name;
	json_t *value;
	bool has_session;

	MUST(r->has_id && verb != NULL && size <= REQUEST_LINE_MAX);
	MUST(r->kind == CONTROL_QUERY ? query_knows(verb) : !query_knows(verb));
	if (r->kind == CONTROL_QUERY)
		return;
	json_object_foreach(r->root, name, value) {
		size_t i = 0;

		while (i < sizeof known / sizeof *known && strcmp(known[i], name) != 0)
			i++;
		MUST(i < sizeof known / sizeof *known);
	}
	MUST(r->from >= 1 && r->of >= 0);
	MUST(r->reason == NULL || strlen(r->reason) < REASON_SIZE);
	if (r->kind == CONTROL_STOP) {
		MUST(strcmp(verb, "stop") == 0 && r->session == NULL && json_object_get(r->root, "of") != NULL);
		return;
	}
	if (r->kind == CONTROL_ARTIFACT) {
		MUST(strcmp(verb, "artifact") == 0 && r->session != NULL && r->name != NULL);
		return;
	}
	MUST(r->verb < ASK_VERBS && strcmp(ask_name(r->verb), verb) == 0);
	has_session = r->verb != ASK_DRAIN && r->verb != ASK_UNDRAIN && r->verb != ASK_STATS;
	MUST(has_session == (r->session != NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *line = fuzz_copy(data, size);
	struct control_request r;
	struct query_error e;

	if (control_read_request(line, size, &r, &e) == 0)
		check_request(&r, size);
	else
		check_error(&r, &e);
	control_request_fini(&r);
	free(line);
	return 0;
}
