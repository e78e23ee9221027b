/* SPDX-License-Identifier: MIT */
/* audit.c: `hcpctl audit`: who decided what; `hcpctl audit verify`: is the audit complete and unchanged?
 * Owns the texts of both. Verifies by itself, from the stored texts, and never trusts the daemon's
 * opinion. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/audit_chain.h"
#include "hcpctl/common/op_common.h"
#include "hcpctl/common/table.h"
#include "json/text.h"

enum { OPT_JSON = 256, OPT_NOTED, NOTED_MIN = 16 };

static const struct ctl_column columns[] = {
	{.title = "N", .is_right = true},
	{.title = "TIME"},
	{.title = "WHAT"},
	{.title = "OUTCOME"},
	{.title = "WHO"},
	{.title = "USER"},
	{.title = "SESSION"},
	{.title = "WHY", .may_shrink = true},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

struct audit_view {
	struct ctl_table table;
	bool is_json, is_verify, has_end, has_no_table;
	size_t count;
	struct audit_check check;
};

/* ---- a list ---- */

static void add_word(struct buf *b, const char *before, const char *text)
{
	if (text[0] != '\0')
		buf_addf(b, "%s%s%s", b->size > 0 ? ", " : "", before, text);
}

static void add_row(struct audit_view *l, const json_t *e, const char *hash)
{
	char n[24], at[CTL_SPAN_SIZE], uid[24] = "";
	const char *session = ctl_op_text(e, "session"), *user = ctl_op_text(e, "user");
	struct buf why = {0};
	const char *cells[COLUMNS] = {n, at, ctl_op_text(e, "what"), ctl_op_text(e, "outcome"),
		ctl_op_text(e, "who"), user[0] != '\0' ? user : uid, "", NULL};
	char short_id[9];

	(void)hash;
	snprintf(n, sizeof n, "%lld", (long long)json_integer_value(json_object_get(e, "n")));
	if (json_is_integer(json_object_get(e, "uid")))
		snprintf(uid, sizeof uid, "%lld", (long long)json_integer_value(json_object_get(e, "uid")));
	ctl_op_local(e, "at", "%Y-%m-%d %H:%M:%S", at);
	snprintf(short_id, sizeof short_id, "%.8s", session);
	cells[6] = short_id;
	if (json_is_integer(json_object_get(e, "count")))
		buf_addf(&why, "%lld times", (long long)json_integer_value(json_object_get(e, "count")));
	add_word(&why, "", ctl_op_text(e, "capability"));
	add_word(&why, "", ctl_op_text(e, "risk"));
	add_word(&why, "raised: ", ctl_op_text(e, "rules"));
	add_word(&why, "", ctl_op_text(e, "code"));
	add_word(&why, "", ctl_op_text(e, "why"));
	add_word(&why, "", ctl_op_text(e, "about"));
	cells[7] = buf_text(&why);
	ctl_table_add(&l->table, cells, '\0');
	buf_fini(&why);
}

static void list_row(struct audit_view *l, const char *text, size_t size, const char *hash)
{
	json_t *e = jtext_load(text, size, 0, NULL);

	l->count++;
	if (l->is_json)
		printf("{\"entry\":%.*s,\"hash\":\"%s\"}\n", e != NULL ? (int)size : 4,
			e != NULL ? text : "null", hash);
	else
		add_row(l, e, hash);
	json_decref(e);
}

/* ---- items: the instance, rows, the end ---- */

static void on_fault(void *ctx, int64_t n, const char *text)
{
	(void)ctx, (void)n;
	ctl_say("%s", text);
}

/* An older daemon does not send `table` and `triggers`. */
static void begin(struct audit_view *l, const json_t *item)
{
	const json_t *table = json_object_get(item, "table"), *triggers = json_object_get(item, "triggers");

	audit_check_begin(&l->check, ctl_op_text(item, "instance"), on_fault, l);
	l->has_no_table = json_is_false(table);
	if (l->is_verify && json_is_integer(triggers))
		audit_check_table(&l->check, !l->has_no_table, json_integer_value(triggers));
}

/* The member's text; "" where it has a NUL: text behind a NUL must not escape the check. */
static const char *whole_text(const json_t *item, const char *name)
{
	const json_t *t = json_object_get(item, name);

	return json_is_string(t) && strlen(json_string_value(t)) == json_string_length(t) ?
		json_string_value(t) :
		"";
}

/* A row without a number counts as the next row. */
static void check_row(struct audit_view *l, const json_t *item)
{
	const json_t *n = json_object_get(item, "n"), *entry = json_object_get(item, "entry");

	audit_check_row(&l->check, json_is_integer(n) ? json_integer_value(n) : l->check.count + 1,
		json_is_string(entry) ? json_string_value(entry) : "", json_string_length(entry),
		whole_text(item, "hash"));
}

static bool on_item(void *ctx, const char *json, size_t size)
{
	struct audit_view *l = ctx;
	json_t *item = jtext_load(json, size, JSON_ALLOW_NUL, NULL), *entry = json_object_get(item, "entry");

	if (json_object_get(item, "instance")) {
		begin(l, item);
	} else if (json_object_get(item, "head")) {
		const json_t *count = json_object_get(item, "count");

		l->has_end = true;
		if (l->is_verify)
			audit_check_end(&l->check,
				json_is_integer(count)    ? json_integer_value(count) :
					l->check.rows > 0 ? -1 :
							    0,
				whole_text(item, "head"));
	} else if (l->is_verify) {
		check_row(l, item);
	} else if (json_is_string(entry)) {
		list_row(l, json_string_value(entry), json_string_length(entry), ctl_op_text(item, "hash"));
	}
	json_decref(item);
	return !ferror(stdout);
}

static int say_result(const struct audit_view *l)
{
	const struct audit_check *k = &l->check;

	if (k->faults > 0) {
		ctl_say("the audit is NOT as it was written: %lld fault%s in %lld rows", (long long)k->faults,
			k->faults == 1 ? "" : "s", (long long)k->rows);
		return CTL_FAILED;
	}
	printf("good: %lld rows, head %lld:%s\n", (long long)k->rows, (long long)k->count, k->head);
	return CTL_OK;
}

/* N:HASH, with the whole hash or its first 16 digits. */
static bool take_noted(struct audit_check *k, const char *word)
{
	char *end;
	long long n = strtoll(word, &end, 10);
	size_t size = *end == ':' ? strlen(end + 1) : 0;

	if (n < 1 || size < NOTED_MIN || size >= CANONICAL_HASH_SIZE ||
		strspn(end + 1, "0123456789abcdef") != size)
		return false;
	k->noted = n;
	memcpy(k->noted_hash, end + 1, size + 1);
	return true;
}

static int print_audit(struct audit_view *l, json_t *request, struct ctl_options *o)
{
	int status;

	ctl_table_init(&l->table, columns, COLUMNS, ctl_op_width(), -1);
	status = ctl_op_ask(o, CTL_STORE_WILL_DO, request, on_item, l, NULL);
	ctl_table_end(&l->table);
	ctl_op_print(&l->table.out);
	ctl_table_fini(&l->table);
	if (status == CTL_OK && l->is_verify) {
		/* there is no end: no row was ever written, so none can be missing */
		if (!l->has_end)
			audit_check_end(&l->check, l->check.rows > 0 ? -1 : 0, l->check.head);
		status = say_result(l);
	} else if (status == CTL_OK && l->has_no_table) {
		ctl_say("the audit's table is gone: somebody dropped or renamed it; hcpctl audit verify says "
			"what there was");
		status = CTL_FAILED;
	} else if (status == CTL_OK && !l->is_json && l->count == 0) {
		ctl_say("nothing was decided since then");
	}
	return ctl_op_flush(status);
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = {{"since", required_argument, NULL, 'S'},
		{"json", no_argument, NULL, OPT_JSON}, {"noted", required_argument, NULL, OPT_NOTED},
		CTL_OPERATOR_OPTIONS};
	json_t *request = ctl_client_request("audit", NULL);
	struct audit_view l = {.count = 0};
	int c, status = -1;

	while (status < 0 && (c = getopt_long(argc, argv, ":hS:", options, NULL)) != -1) {
		if (c == OPT_JSON)
			l.is_json = true;
		else if (c == 'S' && !ctl_op_take_since(request, optarg))
			status = ctl_command_usage("audit ",
				"--since %s is no time; write 2h, 7d or 2026-01-31T12:00:00Z", optarg);
		else if (c == OPT_NOTED && !take_noted(&l.check, optarg))
			status = ctl_command_usage("audit ",
				"--noted %s is no N:HASH, as `hcpctl audit verify` prints it", optarg);
		else if (c != 'S' && c != OPT_NOTED)
			status = ctl_command_option(c, argv, &ctl_audit, o);
	}
	if (status < 0 && optind < argc && strcmp(argv[optind], "verify") == 0) {
		l.is_verify = true;
		optind++;
	}
	if (status < 0 && optind < argc)
		status = ctl_command_usage(
			"audit ", "%s is too much; there is `audit` and `audit verify`", argv[optind]);
	else if (status < 0 && l.is_verify && (l.is_json || json_object_get(request, "since")))
		status = ctl_command_usage(
			"audit ", "verify looks at all rows: it takes neither --since nor --json");
	else if (status < 0 && !l.is_verify && l.check.noted > 0)
		status = ctl_command_usage("audit ", "--noted is for `audit verify`");
	if (status < 0)
		return print_audit(&l, request, o);
	json_decref(request);
	return status;
}

const struct ctl_command ctl_audit = {
	.name = "audit",
	.summary = "who decided what, and why: [--since T] [--json]; audit verify",
	.help = "usage: hcpctl audit [options]\n       hcpctl audit verify [--noted N:HASH] [options]\n\n"
		"Every decision on a task, what operators did, and every refused access, the oldest first. "
		"Where the daemon\n"
		"does not run, its store is read.\n\n"
		"verify computes the chain of hashes anew and names every row that was changed, removed, "
		"added or moved, and\n"
		"says whether table and triggers are there; it ends with 2 where there is a fault, else it "
		"prints the head.\n"
		"Whoever may write the store can also write a new chain, or cut the end off and change the "
		"count with it:\n"
		"only a head that was noted elsewhere shows that. Note what verify or stats prints, or keep "
		"the daemon's log, and give it with --noted.\n\n"
		"  -S, --since T       from then on: 2h, 7d, or 2026-01-31T12:00:00Z\n"
		"      --json          one JSON object a line: entry, hash\n"
		"      --noted N:HASH  row N must have had this hash (16 figures of it at "
		"least)\n" CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl audit --since 1d\n"
		"  hcpctl audit --json | jq -r 'select(.entry.outcome == \"rejected\") | .entry.why'\n"
		"  hcpctl audit verify\n",
	.run = run,
};
