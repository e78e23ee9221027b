/* SPDX-License-Identifier: MIT */
/* list.c: `hcpctl list`.
 * Owns its options and its columns.
 * Never holds more than the table does: rows are printed as they come. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "hcpctl/common/op_common.h"
#include "hcpctl/common/table.h"
#include "hcpctl/common/terminal.h"
#include "json/text.h"
#include "base/shellwords.h"
#include "protocol/names.h"

enum { OPT_JSON = 256, OPT_CAPABILITY, OPT_FULL };

static const struct ctl_column columns[] = {
	{.title = "SESSION"},
	{.title = "STATE"},
	{.title = "CAPABILITY", .may_shrink = true},
	{.title = "CALLER", .may_shrink = true},
	{.title = "AGE", .is_right = true},
	{.title = "TOOK", .is_right = true},
	{.title = "TRY", .is_right = true},
	{.title = "DETAIL", .may_shrink = true},
};
enum { COLUMNS = sizeof columns / sizeof *columns, STATE_COLUMN = 1, SHORT_ID = 8 };

struct session_table {
	struct ctl_table table;
	bool is_full, is_filtered;
	size_t count;
};

/* ---- a row ---- */

/* How long the session ran, or has been running; "-" where it never ran. */
static void add_took(const json_t *item, bool is_over, char out[CTL_SPAN_SIZE])
{
	int64_t started, ended;

	if (!clock_parse(ctl_op_text(item, "started_at"), &started)) {
		snprintf(out, CTL_SPAN_SIZE, "-");
		return;
	}
	if (!is_over || !clock_parse(ctl_op_text(item, "updated_at"), &ended))
		ended = clock_wall_us();
	ctl_span(ended - started, out);
}

/* The detail that explains this state best. */
static void add_detail(const json_t *item, const char *state, char *out, size_t size)
{
	const char *end = ctl_op_text(item, "end_reason"), *paused = ctl_op_text(item, "paused_by");
	const char *step = ctl_op_text(item, "step"), *priority = ctl_op_text(item, "priority");
	const char *waits = ctl_op_text(item, "waits_for");

	if (*end)
		snprintf(out, size, "%s", end);
	else if (strcmp(paused, "idle") == 0)
		snprintf(out, size, "idle");
	else if (*paused)
		snprintf(out, size, "paused by %s", paused);
	else if (*waits)
		snprintf(out, size, "waiting for a %s", waits);
	else if (strcmp(state, sstate_names[S_PAUSED]) == 0)
		snprintf(out, size, "waiting to go on"); /* no operator paused it: it waits for a slot */
	else if (strcmp(state, sstate_names[S_PENDING]) == 0)
		snprintf(out, size, "waiting, priority %s", priority);
	else
		snprintf(out, size, "%s%s", *step ? "step " : "", step);
}

static void add_row(struct session_table *l, const json_t *item)
{
	const char *state = ctl_op_text(item, "state"), *id = ctl_op_text(item, "session_id");
	char shown[ID_SIZE], age[CTL_SPAN_SIZE], took[CTL_SPAN_SIZE], attempt[24], detail[256];
	const char *const cells[COLUMNS] = {shown, state, ctl_op_text(item, "capability"),
		ctl_op_text(item, "caller_id"), age, took, attempt, detail};

	snprintf(shown, sizeof shown, "%.*s", l->is_full ? ID_SIZE - 1 : SHORT_ID, id);
	ctl_age(ctl_op_since(item, "created_at"), age);
	add_took(item, json_is_string(json_object_get(item, "end_reason")), took);
	snprintf(attempt, sizeof attempt, "%lld",
		(long long)json_integer_value(json_object_get(item, "attempt")));
	add_detail(item, state, detail, sizeof detail);
	ctl_table_add(&l->table, cells, ctl_table_shade(state));
}

static bool on_item(void *ctx, const char *json, size_t size)
{
	struct session_table *l = ctx;
	json_t *item = jtext_load(json, size, 0, NULL);

	add_row(l, item);
	json_decref(item);
	l->count++;
	ctl_op_print(&l->table.out);
	buf_clear(&l->table.out);
	return !ferror(stdout);
}

/* ---- the command ---- */

static bool is_state(const char *name)
{
	for (size_t i = 0; i < S_COUNT; i++)
		if (strcasecmp(name, sstate_names[i]) == 0)
			return true;
	return strcasecmp(name, "live") == 0 || strcasecmp(name, "over") == 0;
}

/* -1, or an exit status. */
static int take_states(json_t *request, const char *list)
{
	json_t *states = json_object_get(request, "state");
	char **names = shellwords_split_list(list), **name;
	int status = -1;

	if (!states)
		json_object_set_new(request, "state", states = json_array());
	for (name = names; *name && is_state(*name); name++)
		json_array_append_new(states, json_string(*name));
	if (*name || name == names)
		status = ctl_command_usage("list ",
			"--state: '%s' is no state; write PENDING, RUNNING, PAUSED, ABORTING, COMPLETED, "
			"FAILED, ABORTED, live or over",
			*name ? *name : list);
	shellwords_free(names);
	return status;
}

static int take_label(json_t *request, const char *text)
{
	json_t *labels = json_object_get(request, "labels");
	int status;

	if (!labels)
		json_object_set_new(request, "labels", labels = json_object());
	if ((status = ctl_command_label("list ", labels, text)) == 0 &&
		json_object_size(labels) > QUERY_LABELS_MAX)
		status = ctl_command_usage(
			"list ", "--label %s is too much; at most %d are looked for", text, QUERY_LABELS_MAX);
	return status == 0 ? -1 : status;
}

/* -1: go on; else an exit status. */
static int take_option(json_t *request, int c, bool *is_json, bool *is_full)
{
	char *end;

	switch (c) {
	case 's': return take_states(request, optarg);
	case 'c': return ctl_client_set(request, "caller", optarg) ? -1 : CTL_USAGE;
	case OPT_CAPABILITY: return ctl_client_set(request, "capability", optarg) ? -1 : CTL_USAGE;
	case 'l': return take_label(request, optarg);
	case OPT_JSON: *is_json = true; return -1;
	case OPT_FULL: *is_full = true; return -1;
	case 'S':
		if (ctl_op_take_since(request, optarg))
			return -1;
		return ctl_command_usage("list ",
			"--since %s is no time; write 2h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z", optarg);
	default:
		json_object_set_new(request, "limit", json_integer(strtoll(optarg, &end, 10)));
		if (*end == '\0' && end != optarg && strtoll(optarg, NULL, 10) >= 0)
			return -1;
		return ctl_command_usage("list ", "--limit %s is no number; 0 means all", optarg);
	}
}

static bool is_filtered(const json_t *request)
{
	static const char *const names[] = {"state", "caller", "capability", "labels", "since"};
	bool found = false;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		found = found || json_object_get(request, names[i]);
	return found;
}

static void say_rest(const struct session_table *l, json_t *done)
{
	if (l->count == 0)
		ctl_say(l->is_filtered ? "no session in the store fits" : "there is no session in the store");
	else if (json_object_get(done, "before"))
		ctl_say("these are the newest %zu; --limit 0 shows all, --state live those that are not over",
			l->count);
}

static int list(json_t *request, struct ctl_options *o, bool is_json, bool is_full)
{
	struct session_table l = {.is_full = is_full, .is_filtered = is_filtered(request)};
	struct ctl_term term;
	json_t *done;
	int status;

	ctl_term_init(&term);
	ctl_table_init(&l.table, columns, COLUMNS, ctl_op_width(), STATE_COLUMN);
	l.table.colour = term.colour;
	status = ctl_op_ask(o, CTL_STORE_WILL_DO, request, is_json ? ctl_op_print_json : on_item, &l, &done);
	ctl_table_end(&l.table);
	ctl_op_print(&l.table.out);
	ctl_table_fini(&l.table);
	status = ctl_op_flush(status);
	if (status == CTL_OK && !is_json)
		say_rest(&l, done);
	json_decref(done);
	return status;
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = {{"state", required_argument, NULL, 's'},
		{"caller", required_argument, NULL, 'c'},
		{"capability", required_argument, NULL, OPT_CAPABILITY},
		{"label", required_argument, NULL, 'l'}, {"since", required_argument, NULL, 'S'},
		{"limit", required_argument, NULL, 'n'}, {"full", no_argument, NULL, OPT_FULL},
		{"json", no_argument, NULL, OPT_JSON}, CTL_OPERATOR_OPTIONS};
	json_t *request = ctl_client_request("list", NULL);
	bool is_json = false, is_full = false;
	int c, status = -1;

	while (status < 0 && (c = getopt_long(argc, argv, ":hs:c:l:S:n:", options, NULL)) != -1) {
		bool is_ours = c < 256 ? strchr("sclSn", c) != NULL : c < CTL_OPT_GLOBAL;

		status = is_ours ? take_option(request, c, &is_json, &is_full) :
				   ctl_command_option(c, argv, &ctl_list, o);
	}
	if (status < 0 && optind < argc)
		status =
			ctl_command_usage("list ", "%s is too much; `hcpctl show %s` tells about one session",
				argv[optind], argv[optind]);
	if (status < 0)
		return list(request, o, is_json, is_full);
	json_decref(request);
	return status;
}

const struct ctl_command ctl_list = {
	.name = "list",
	.summary = "sessions, newest first: [--state S,...] [--caller ID] [--since T]",
	.help = "usage: hcpctl list [options]\n\n"
		"The daemon's sessions, the newest first. Where the daemon does not run or answer, its store "
		"is read.\n\n"
		"  -s, --state S,...   live, over, or PENDING, RUNNING, PAUSED, ABORTING, COMPLETED, FAILED, "
		"ABORTED,\n"
		"                      REJECTED\n"
		"  -c, --caller ID     of this caller\n"
		"      --capability C  of this capability\n"
		"  -l, --label K=V     with this label; several: with all of them, at most 4\n"
		"  -S, --since T       created since: 2h, 7d, 2026-01-31 (local time), or "
		"2026-01-31T12:00:00Z\n"
		"  -n, --limit N       at most so many (1000); 0 for all\n"
		"      --full          whole ids\n"
		"      --json          one JSON object a line\n" CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl list --state live\n  hcpctl list --state FAILED --since 1d\n",
	.run = run,
};
