/* SPDX-License-Identifier: MIT */
/* submit.c: submits one task to a daemon, prints its events, and exits when the session ends.
 *
 *   cc submit.c $(pkg-config --cflags --libs hcp)
 *   ./a.out amqp://guest:guest@127.0.0.1/%2F me demo echo '{"text":"hello"}'
 *
 * Kill it and start it again with only the first three arguments: it goes on where it was. */
#include <hcp/hcp.h>
#include <stdio.h>
#include <string.h>

static int on_event(struct hcp *h, const struct hcp_event *e, struct sqlite3 *db, void *ctx)
{
	int *status = ctx;
	size_t size;
	const char *json = hcp_get_json(e, e->kind == HCP_EVENT ? "data" : "", &size);

	(void)db;
	if (e->kind == HCP_UNDELIVERED)
		printf("%s\n", e->text);
	else
		printf("%s %s %.*s\n", e->type, e->event_type, (int)size, json ? json : "");
	if (e->kind == HCP_COMPLETED)
		*status = 0;
	if (e->kind == HCP_REJECTED || e->kind == HCP_UNDELIVERED ||
		strcmp(e->event_type, "session_closed") == 0)
		hcp_stop(h);
	return 0;
}

int main(int argc, char **argv)
{
	int status = 1;
	struct hcp_options options = {.on_event = on_event, .ctx = &status, .file = "submit.db"};
	struct hcp_task task = {0};
	struct hcp *h;

	if (argc < 4)
		return fprintf(stderr, "usage: submit URL CALLER CALLEE [CAPABILITY [INPUTS]]\n"), 64;
	options.url = argv[1], options.caller_id = argv[2], options.callee = argv[3];
	task.capability = argc > 4 ? argv[4] : NULL, task.inputs = argc > 5 ? argv[5] : NULL;
	if (hcp_open(&h, &options) < 0 || (task.capability && hcp_submit(h, &task, NULL) < 0) ||
		hcp_run(h, -1) < 0)
		fprintf(stderr, "%s\n", hcp_error(h));
	hcp_close(h);
	return status;
}
