/* SPDX-License-Identifier: MIT */
/* stats.c: `hcpctl stats`: the daemon's state.
 * Owns the texts of the page. Never computes: the daemon counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hcpctl/common/op_common.h"
#include "json/text.h"
#include "protocol/names.h"

enum { OPT_JSON = 256, LABEL = 12 };

static const struct ctl_column columns[] = {
	{.title = "CAPABILITY", .may_shrink = true},
	{.title = "VERSION"},
	{.title = "RUNNING", .is_right = true},
	{.title = "WAITING", .is_right = true},
	{.title = "LIMIT", .is_right = true},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static long long count_of(const json_t *o, const char *name)
{
	return (long long)json_integer_value(json_object_get(o, name));
}

static bool is_true_member(const json_t *o, const char *name)
{
	return json_is_true(json_object_get(o, name));
}

static void put_daemon(struct buf *b, const json_t *s)
{
	char span[CTL_SPAN_SIZE], size[CTL_SPAN_SIZE];
	const char *dir = ctl_op_text(s, "state_dir");

	ctl_span(count_of(s, "uptime_s") * 1000000, span);
	ctl_size(count_of(s, "rss_bytes"), size);
	buf_addf(b, "%-*s%s %s, pid %lld, up %s, %s of memory\n", LABEL, "daemon",
		ctl_op_text(s, "callee_id"), ctl_op_text(s, "version"), count_of(s, "pid"), span, size);
	buf_addf(b, "%-*s%s%s\n", LABEL, "state",
		is_true_member(s, "stopping")         ? "stopping" :
			is_true_member(s, "draining") ? "draining: new tasks wait (hcpctl undrain)" :
							"takes tasks",
		is_true_member(s, "held") ? "; HELD: the store refuses, see the log" : "");
	buf_addf(b, "%-*s", LABEL, "store");
	ctl_escape(b, dir, strlen(dir), false);
	buf_add_text(b, "\n");
}

static void put_sessions(struct buf *b, const json_t *s)
{
	const json_t *live = json_object_get(s, "by_state");

	buf_addf(b,
		"%-*s%lld running, %lld waiting for a slot, %lld undecided (PENDING %lld, RUNNING %lld, "
		"PAUSED %lld, ABORTING %lld)\n",
		LABEL, "sessions", count_of(s, "running"), count_of(s, "waiting"), count_of(s, "undecided"),
		count_of(live, sstate_names[S_PENDING]), count_of(live, sstate_names[S_RUNNING]),
		count_of(live, sstate_names[S_PAUSED]), count_of(live, sstate_names[S_ABORTING]));
}

static void put_broker(struct buf *b, const json_t *s)
{
	const json_t *outbox = json_object_get(s, "outbox"), *oldest = json_object_get(outbox, "oldest_s");
	char size[CTL_SPAN_SIZE], span[CTL_SPAN_SIZE];

	ctl_size(count_of(outbox, "waiting_bytes"), size);
	ctl_span((int64_t)(json_number_value(oldest) * 1e6), span);
	buf_addf(b, "%-*s%s, %s, %lld reconnects\n", LABEL, "broker",
		is_true_member(s, "consuming") ? "consuming" : "NOT consuming",
		!is_true_member(s, "publishing")     ? "NOT publishing" :
			is_true_member(s, "blocked") ? "publishing is BLOCKED by it" :
						       "publishing",
		count_of(s, "reconnects"));
	buf_addf(b, "%-*s%s wait, %lld on their way%s%s\n", LABEL, "outbox", size,
		count_of(outbox, "unconfirmed"), json_is_number(oldest) ? ", the oldest for " : "",
		json_is_number(oldest) ? span : "");
}

static void put_totals(struct buf *b, const json_t *s)
{
	const json_t *totals = json_object_get(s, "totals");

	buf_addf(b,
		"%-*s%lld submits (%lld seen before, %lld rejected), %lld aborts, %lld bad messages, %lld "
		"unroutable, %lld late lines of workers\n",
		LABEL, "since start", count_of(totals, "submits"), count_of(totals, "duplicates"),
		count_of(totals, "rejected"), count_of(totals, "aborts"), count_of(totals, "dropped"),
		count_of(totals, "unroutable"), count_of(totals, "late_lines"));
}

static void put_audit(struct buf *b, const json_t *s)
{
	const json_t *audit = json_object_get(s, "audit");

	buf_addf(b, "%-*s%lld rows, head %lld:%s\n", LABEL, "audit", count_of(audit, "count"),
		count_of(audit, "count"), ctl_op_text(audit, "head"));
}

/* Prints nothing where there is no policy program, or an older hcpd does not report it. */
static void put_program(struct buf *b, const json_t *s)
{
	const json_t *program = json_object_get(s, "policy_program");
	const char *command = ctl_op_text(program, "command"), *why = ctl_op_text(program, "why");
	char span[CTL_SPAN_SIZE];

	if (!json_is_object(program))
		return;
	ctl_span((int64_t)(json_number_value(json_object_get(program, "for_s")) * 1e6), span);
	buf_addf(b, "%-*s", LABEL, "policy");
	ctl_escape(b, command, strlen(command), false);
	if (is_true_member(program, "runs")) {
		buf_addf(b, " runs for %s, pid %lld\n", span, count_of(program, "pid"));
		return;
	}
	buf_addf(b, " is DOWN for %s, every task is denied: ", span);
	ctl_escape(b, why, strlen(why), false);
	buf_add_text(b, "\n");
}

/* Prints nothing where retention works. */
static void put_retention(struct buf *b, const json_t *s)
{
	const json_t *stuck = json_object_get(s, "retention");
	const char *why = ctl_op_text(stuck, "why");
	char span[CTL_SPAN_SIZE];

	if (!json_is_object(stuck))
		return;
	ctl_span((int64_t)(json_number_value(json_object_get(stuck, "stuck_s")) * 1e6), span);
	buf_addf(b, "%-*sSTUCK for %s: ", LABEL, "retention", span);
	ctl_escape(b, why, strlen(why), false);
	buf_add_text(b, "\n");
}

static void put_capabilities(struct buf *b, const json_t *s)
{
	const json_t *one;
	struct ctl_table t;
	size_t i;

	ctl_table_init(&t, columns, COLUMNS, ctl_op_width(), -1);
	json_array_foreach(json_object_get(s, "capabilities"), i, one) {
		char running[24], waiting[24], limit[24];
		const char *const cells[COLUMNS] = {
			ctl_op_text(one, "name"), ctl_op_text(one, "version"), running, waiting, limit};

		snprintf(running, sizeof running, "%lld", count_of(one, "running"));
		snprintf(waiting, sizeof waiting, "%lld", count_of(one, "waiting"));
		snprintf(limit, sizeof limit, "%lld", count_of(one, "limit"));
		if (!json_is_integer(json_object_get(one, "limit")))
			snprintf(limit, sizeof limit, "-");
		ctl_table_add(&t, cells, '\0');
	}
	ctl_table_end(&t);
	buf_add_text(b, "\n");
	buf_add(b, t.out.data ? t.out.data : "", t.out.size);
	ctl_table_fini(&t);
}

static bool on_item(void *ctx, const char *json, size_t size)
{
	json_t *s = jtext_load(json, size, 0, NULL);
	struct buf b = {0};

	(void)ctx;
	put_daemon(&b, s);
	put_sessions(&b, s);
	put_broker(&b, s);
	put_totals(&b, s);
	put_audit(&b, s);
	put_program(&b, s);
	put_retention(&b, s);
	put_capabilities(&b, s);
	ctl_op_print(&b);
	buf_fini(&b);
	json_decref(s);
	return true;
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = {{"json", no_argument, NULL, OPT_JSON}, CTL_OPERATOR_OPTIONS};
	bool is_json = false;
	int c, status;

	while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (c == OPT_JSON)
			is_json = true;
		else if ((status = ctl_command_option(c, argv, &ctl_stats, o)) >= 0)
			return status;
	}
	if (optind < argc)
		return ctl_command_usage("stats ", "%s is too much", argv[optind]);
	status = ctl_op_ask(o, CTL_NEED_DAEMON, ctl_client_request("stats", NULL),
		is_json ? ctl_op_print_json : on_item, NULL, NULL);
	return ctl_op_flush(status);
}

const struct ctl_command ctl_stats = {
	.name = "stats",
	.summary = "how the daemon is: sessions, broker, outbox, capabilities",
	.help = "usage: hcpctl stats [options]\n\n"
		"How the daemon is: what runs and waits, whether it has its broker, what waits to be "
		"published, and\n"
		"what happened since it was started.\n\n"
		"      --json          one JSON object\n" CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl stats\n  hcpctl stats --json | jq .outbox\n",
	.run = run,
};
