/* ctl_checkpoints.c: `hcpctl checkpoints`.
 * Owns its columns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_ops.h"
#include "ctl_show.h"
#include "ctl_table.h"
#include "jtext.h"

enum { OPT_JSON = 256, OPT_STATE };

static const struct ctl_column columns[] = {
	{ .title = "CHECKPOINT" }, { .title = "AGE", .is_right = true }, { .title = "SIZE", .is_right = true },
	{ .title = "RESUMABLE" }, { .title = "STEP", .may_shrink = true }, { .title = "DESCRIPTION", .may_shrink = true },
};
enum { COLUMNS = sizeof columns / sizeof *columns };

struct showing {
	struct ctl_table table;
	struct buf states;              /* below the table, where they were asked for: at most six checkpoints are kept */
	size_t count;
};

static bool on_item(void *ctx, const char *json, size_t size)
{
	struct showing *w = ctx;
	json_t *item = json_loadb(json, size, 0, NULL), *step = json_object_get(item, "step");
	struct jslice state = jtext_member(json, size, "state");
	const char *id = ctl_ops_text(item, "checkpoint_id");
	char *step_text = json_is_null(step) ? NULL : json_is_string(step) ? strdup(json_string_value(step)) :
		json_dumps(step, JSON_COMPACT | JSON_ENCODE_ANY);
	char age[CTL_SPAN_SIZE], bytes[CTL_SPAN_SIZE];
	const char *const cells[COLUMNS] = { id, age, bytes,
		json_is_true(json_object_get(item, "resumable")) ? "yes" : "no", step_text, ctl_ops_text(item, "description") };

	ctl_age(ctl_ops_since(item, "created_at"), age);
	ctl_size(json_integer_value(json_object_get(item, "size")), bytes);
	ctl_table_add(&w->table, cells, '\0');
	w->count++;
	if (state.at) {
		buf_add_text(&w->states, "\n");
		ctl_escape(&w->states, id, strlen(id), false);
		buf_add_text(&w->states, "\n");
		ctl_show_pretty(&w->states, state.at, state.size);
		buf_add_text(&w->states, "\n");
	}
	free(step_text);
	json_decref(item);
	return true;
}

static int show(struct ctl_options *o, json_t *request, bool is_json)
{
	struct showing w = { .count = 0 };
	int status;

	ctl_table_init(&w.table, columns, COLUMNS, ctl_ops_width(), -1);
	status = ctl_ops_ask(o, CTL_STORE_WILL_DO, request, is_json ? ctl_ops_print_json : on_item, &w, NULL);
	ctl_table_end(&w.table);
	ctl_ops_print(&w.table.out);
	ctl_ops_print(&w.states);
	ctl_table_fini(&w.table);
	buf_fini(&w.states);
	if (status == CTL_COMPLETED && !is_json && w.count == 0)
		ctl_say("this session has no checkpoint; `hcpctl checkpoint` asks a running one for it");
	return ctl_ops_flush(status);
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = { { "state", no_argument, NULL, OPT_STATE },
		{ "json", no_argument, NULL, OPT_JSON }, CTL_OPERATOR_OPTIONS };
	bool is_json = false, has_state = false;
	const char *session;
	json_t *request;
	int c, status;

	while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (c == OPT_JSON)
			is_json = true;
		else if (c == OPT_STATE)
			has_state = true;
		else if ((status = ctl_cmd_option(c, argv, &ctl_checkpoints, o)) >= 0)
			return status;
	}
	if ((session = ctl_ops_session(argc, argv, &ctl_checkpoints)) == NULL)
		return CTL_USAGE;
	request = ctl_client_request("checkpoints", session);
	json_object_set_new(request, "state", json_boolean(has_state));
	return show(o, request, is_json);
}

const struct ctl_command ctl_checkpoints = {
	.name = "checkpoints",
	.summary = "the checkpoints that are kept of a session: SESSION [--state]",
	.help = "usage: hcpctl checkpoints [options] SESSION\n\n"
		"The last three checkpoints of a session, and the last three that it can be resumed from. Where the\n"
		"daemon does not run, its store is read.\n\n"
		"      --state         what is in them, too\n"
		"      --json          one JSON object a line\n" CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl checkpoints 5f0c --state\n",
	.run = run,
};
