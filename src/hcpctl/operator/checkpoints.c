/* SPDX-License-Identifier: MIT */
/* checkpoints.c: `hcpctl checkpoints`: the list, the state of one, and the difference between two.
 * Owns its columns. Never restores a state itself: the daemon or query restores and verifies it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hcpctl/common/op_common.h"
#include "hcpctl/common/render.h"
#include "hcpctl/common/table.h"
#include "json/diff.h"
#include "json/text.h"

#define VALUE_SHOWN 200 /* bytes of a value in a diff for people */

enum { OPT_JSON = 256, OPT_STATE, OPT_SHOW, OPT_DIFF };

static const struct ctl_column columns[] = {
	{.title = "CHECKPOINT"},
	{.title = "AGE", .is_right = true},
	{.title = "SIZE", .is_right = true},
	{.title = "STORED", .is_right = true},
	{.title = "RESUMABLE"},
	{.title = "TRIGGER"},
	{.title = "STEP", .may_shrink = true},
	{.title = "DESCRIPTION", .may_shrink = true},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

struct checkpoints_options {
	const char *session;
	const char *show;     /* one checkpoint; NULL: all */
	const char *was, *is; /* two checkpoints to compare; NULL: none */
	bool is_json, has_state;
};

/* ---- the list ---- */

struct checkpoint_table {
	struct ctl_table table;
	/* states, where requested, below the table; few checkpoints are kept */
	struct buf states;
	size_t count;
};

static json_t *parse(const char *json, size_t size)
{
	char why[64];

	return jtext_parse(json, size, why, sizeof why);
}

static void add_state(struct buf *out, const json_t *item, struct jslice state)
{
	const char *id = ctl_op_text(item, "checkpoint_id"), *damage = ctl_op_text(item, "damage");

	buf_add_text(out, "\n");
	ctl_escape(out, id, strlen(id), false);
	buf_add_text(out, "\n");
	if (*damage != '\0') {
		buf_add_text(out, "is damaged: ");
		ctl_escape(out, damage, strlen(damage), false);
	} else {
		ctl_render_pretty(out, state.at, state.size);
	}
	buf_add_text(out, "\n");
}

/* Marks a delta, because a delta is smaller than its state. */
static void put_stored(const json_t *item, char out[CTL_SPAN_SIZE + 8])
{
	char bytes[CTL_SPAN_SIZE];

	ctl_size(json_integer_value(json_object_get(item, "stored")), bytes);
	snprintf(out, CTL_SPAN_SIZE + 8, "%s%s",
		strcmp(ctl_op_text(item, "encoding"), "delta") == 0 ? "delta " : "", bytes);
}

static bool on_item(void *ctx, const char *json, size_t size)
{
	struct checkpoint_table *w = ctx;
	json_t *item = parse(json, size), *step = json_object_get(item, "step");
	struct jslice state = jtext_member(json, size, "state");
	char *step_text = json_is_null(step) ? NULL :
		json_is_string(step)         ? strdup(json_string_value(step)) :
					       json_dumps(step, JSON_COMPACT | JSON_ENCODE_ANY);
	char age[CTL_SPAN_SIZE], bytes[CTL_SPAN_SIZE], stored[CTL_SPAN_SIZE + 8];
	const char *const cells[COLUMNS] = {ctl_op_text(item, "checkpoint_id"), age, bytes, stored,
		json_is_string(json_object_get(item, "damage"))          ? "damaged" :
			json_is_true(json_object_get(item, "resumable")) ? "yes" :
									   "no",
		ctl_op_text(item, "trigger"), step_text, ctl_op_text(item, "description")};

	ctl_age(ctl_op_since(item, "created_at"), age);
	ctl_size(json_integer_value(json_object_get(item, "size")), bytes);
	put_stored(item, stored);
	ctl_table_add(&w->table, cells, '\0');
	w->count++;
	if (state.at)
		add_state(&w->states, item, state);
	free(step_text);
	json_decref(item);
	return true;
}

static json_t *request_of(const char *session, bool has_state)
{
	json_t *request = ctl_client_request("checkpoints", session);

	if (request != NULL)
		json_object_set_new(request, "state", json_boolean(has_state));
	return request;
}

static int list(struct ctl_options *o, const struct checkpoints_options *a)
{
	struct checkpoint_table w = {.count = 0};
	int status;

	ctl_table_init(&w.table, columns, COLUMNS, ctl_op_width(), -1);
	status = ctl_op_ask(o, CTL_STORE_WILL_DO, request_of(a->session, a->has_state),
		a->is_json ? ctl_op_print_json : on_item, &w, NULL);
	ctl_table_end(&w.table);
	ctl_op_print(&w.table.out);
	ctl_op_print(&w.states);
	ctl_table_fini(&w.table);
	buf_fini(&w.states);
	if (status == CTL_OK && !a->is_json && w.count == 0)
		ctl_say("this session has no checkpoint; `hcpctl checkpoint` asks a running one for it");
	return ctl_op_flush(status);
}

/* ---- one checkpoint ---- */

struct checkpoint_state {
	size_t count;
	struct buf item, state;
	char *damage; /* NULL: none */
};

static bool on_checkpoint(void *ctx, const char *json, size_t size)
{
	struct checkpoint_state *one = ctx;
	struct jslice state = jtext_member(json, size, "state");
	json_t *item;

	if (one->count++ > 0)
		return true;
	item = parse(json, size);
	buf_add(&one->item, json, size);
	if (state.at)
		buf_add(&one->state, state.at, state.size);
	if (json_is_string(json_object_get(item, "damage")))
		one->damage = strdup(ctl_op_text(item, "damage"));
	json_decref(item);
	return true;
}

static void checkpoint_state_fini(struct checkpoint_state *one)
{
	buf_fini(&one->item);
	buf_fini(&one->state);
	free(one->damage);
}

/* Prints what is wrong. */
static int load(struct ctl_options *o, const char *session, const char *id, struct checkpoint_state *one)
{
	json_t *request = request_of(session, true);
	int status;

	if (request != NULL && !ctl_client_set(request, "checkpoint", id)) {
		json_decref(request);
		return CTL_USAGE;
	}
	if ((status = ctl_op_ask(o, CTL_STORE_WILL_DO, request, on_checkpoint, one, NULL)) != CTL_OK)
		return status;
	if (one->count == 1 && one->damage == NULL)
		return CTL_OK;
	if (one->count == 0)
		ctl_say("there is no checkpoint %s of this session; `hcpctl checkpoints` lists those that "
			"are kept",
			id);
	else if (one->count > 1)
		ctl_say("%s fits %zu checkpoints; write more of the id", id, one->count);
	else
		ctl_say("checkpoint %s is damaged: %s; a session goes on from the newest good one", id,
			one->damage);
	return one->count > 1 ? CTL_USAGE : CTL_ERROR;
}

static int show(struct ctl_options *o, const struct checkpoints_options *a)
{
	struct checkpoint_state one = {.count = 0};
	struct buf out = {0};
	int status = load(o, a->session, a->show, &one);

	if (status == CTL_OK && a->is_json) {
		ctl_op_print_json(NULL, one.item.data, one.item.size);
	} else if (status == CTL_OK) {
		ctl_render_pretty(&out, one.state.data, one.state.size);
		buf_add_text(&out, "\n");
		ctl_op_print(&out);
	}
	buf_fini(&out);
	checkpoint_state_fini(&one);
	return ctl_op_flush(status);
}

/* ---- two checkpoints ---- */

static void add_value(struct buf *out, const json_t *v)
{
	char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
	size_t size = text ? strlen(text) : 0, cut = buf_utf8_cut(text ? text : "", size, VALUE_SHOWN);

	ctl_escape(out, text ? text : "", cut, false);
	if (cut < size)
		buf_addf(out, "... (%zu bytes)", size);
	free(text);
}

static void on_change(void *ctx, const char *path, const json_t *was, const json_t *is)
{
	struct buf *out = ctx;

	buf_add_text(out, was == NULL ? "+ " : is == NULL ? "- " : "~ ");
	ctl_escape(out, path, strlen(path), false);
	buf_add_text(out, "  ");
	if (was != NULL)
		add_value(out, was);
	if (was != NULL && is != NULL)
		buf_add_text(out, " -> ");
	if (is != NULL)
		add_value(out, is);
	buf_add_text(out, "\n");
}

static void on_change_json(void *ctx, const char *path, const json_t *was, const json_t *is)
{
	struct buf *out = ctx;
	json_t *line = json_pack("{s:s}", "path", path);
	char *text;

	if (was != NULL)
		json_object_set(line, "was", (json_t *)(uintptr_t)was);
	if (is != NULL)
		json_object_set(line, "is", (json_t *)(uintptr_t)is);
	if ((text = json_dumps(line, JSON_COMPACT)) != NULL)
		buf_addf(out, "%s\n", text);
	free(text);
	json_decref(line);
}

static int compare(struct ctl_options *o, const struct checkpoints_options *a)
{
	struct checkpoint_state was = {.count = 0}, is = {.count = 0};
	struct buf out = {0};
	json_t *before, *after;
	int status = load(o, a->session, a->was, &was);

	if (status == CTL_OK)
		status = load(o, a->session, a->is, &is);
	if (status == CTL_OK) {
		before = parse(was.state.data, was.state.size);
		after = parse(is.state.data, is.state.size);
		if (jdiff(before, after, a->is_json ? on_change_json : on_change, &out) == 0 && !a->is_json)
			ctl_say("the two states are the same");
		ctl_op_print(&out);
		json_decref(before);
		json_decref(after);
	}
	buf_fini(&out);
	checkpoint_state_fini(&was);
	checkpoint_state_fini(&is);
	return ctl_op_flush(status);
}

/* ---- the command line ---- */

static int run(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = {{"state", no_argument, NULL, OPT_STATE},
		{"show", required_argument, NULL, OPT_SHOW}, {"diff", required_argument, NULL, OPT_DIFF},
		{"json", no_argument, NULL, OPT_JSON}, CTL_OPERATOR_OPTIONS};
	struct checkpoints_options a = {.session = NULL};
	int c, status;

	while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (c == OPT_JSON) {
			a.is_json = true;
		} else if (c == OPT_STATE) {
			a.has_state = true;
		} else if (c == OPT_SHOW) {
			a.show = optarg;
		} else if (c == OPT_DIFF) {
			if (optind >= argc || argv[optind][0] == '-')
				return ctl_command_usage("checkpoints ", "--diff takes two checkpoints");
			a.was = optarg;
			a.is = argv[optind++];
		} else if ((status = ctl_command_option(c, argv, &ctl_checkpoints, o)) >= 0) {
			return status;
		}
	}
	if ((a.session = ctl_op_session(argc, argv, &ctl_checkpoints)) == NULL)
		return CTL_USAGE;
	if ((a.has_state ? 1 : 0) + (a.show ? 1 : 0) + (a.was ? 1 : 0) > 1)
		return ctl_command_usage("checkpoints ", "--state, --show and --diff do not go together");
	if ((a.show && !*a.show) || (a.was && (!*a.was || !*a.is)))
		return ctl_command_usage(
			"checkpoints ", "which checkpoint? an id, or the beginning of one, is missing");
	return a.show ? show(o, &a) : a.was ? compare(o, &a) : list(o, &a);
}

const struct ctl_command ctl_checkpoints = {
	.name = "checkpoints",
	.summary = "the checkpoints that are kept of a session: SESSION [--show ID] [--diff A B]",
	.help = "usage: hcpctl checkpoints [options] SESSION\n\n"
		"The last three checkpoints of a session, the last three that it can be resumed from, and "
		"the full ones\n"
		"that they build on. Where the daemon does not run, its store is read. A checkpoint is named "
		"by its id\n"
		"or the beginning of it; states are restored and verified.\n\n"
		"      --show ID       the state in one\n"
		"      --diff A B      what differs between two, as JSON pointers with the values before and "
		"after\n"
		"      --state         the list, and the states in all of them\n"
		"      --json          one JSON object a line\n" CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl checkpoints 5f0c --diff 1a2b 3c4d\n",
	.run = run,
};
