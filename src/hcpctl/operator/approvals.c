/* SPDX-License-Identifier: MIT */
/* approvals.c: `hcpctl approvals`, `approve` and `deny`: tasks that wait for a human, and the decision.
 * Owns what a human is shown: the artifact as it is hashed, parsed strictly, and nothing that the daemon says
 * beside it. Signs with the operator's own key, which never leaves this process. */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/name.h"
#include "protocol/message.h"
#include "hcpctl/operator/approvals.h"
#include "json/text.h"
#include "hcpctl/common/op_common.h"
#include "hcpctl/common/passphrase.h"
#include "hcpctl/common/render.h"
#include "hcpctl/common/table.h"
#include "hcpctl/common/terminal.h"
#include "harp/harp.h"

enum { OPT_JSON = 256, OPT_PASSPHRASE_FILE };

/* ---- the operator's own key ---- */

char *ctl_approve_key(const struct ctl_settings *s, const char *given)
{
	struct buf b = {0};

	if (!given && !s->home) {
		ctl_say("there is no home directory; name the key's file");
		return NULL;
	}
	if (given)
		buf_add_text(&b, given);
	else
		buf_addf(&b, "%s/" CTL_KEY_NAME, s->home);
	buf_text(&b);
	return b.data;
}

const char *ctl_approve_login(void)
{
	const struct passwd *pw = getpwuid(geteuid());

	return pw && name_is_valid(pw->pw_name, "-_.@") ? pw->pw_name : "me";
}

void ctl_approve_say_lines(const char *line)
{
	printf("[approver %s]\nkey = %s\nmax_risk = R3\n", ctl_approve_login(), line);
}

/* ---- votes ---- */

/* The approvers' keys as configured now; requested once there is a vote. */
struct approver_keys {
	struct ctl_options *o;
	bool is_asked;
	json_t *list; /* NULL: only the daemon knows them, and it does not answer */
};

static bool on_keys(void *ctx, const char *json, size_t size)
{
	struct approver_keys *k = ctx;
	json_t *item = jtext_load(json, size, 0, NULL);

	json_decref(k->list);
	k->list = json_incref(json_object_get(item, "approvers"));
	json_decref(item);
	return true;
}

/* Why a vote no longer counts: revoking a key also voids its votes on tasks that are not yet decided. NULL:
 * the vote counts, as far as is known. */
static const char *void_reason(struct approver_keys *k, const char *name, enum risk risk)
{
	const json_t *one;
	size_t i;

	if (!k->is_asked &&
		ctl_op_ask(k->o, CTL_DAEMON_QUIETLY, ctl_client_request("approvers", NULL), on_keys, k,
			NULL) != CTL_OK) {
		json_decref(k->list);
		k->list = NULL;
	}
	k->is_asked = true;
	if (!k->list)
		return NULL;
	json_array_foreach(k->list, i, one) {
		enum risk most = 0;

		if (strcmp(ctl_op_text(one, "name"), name) != 0)
			continue;
		while (most < R5 && strcmp(risk_names[most], ctl_op_text(one, "max_risk")) != 0)
			most++;
		return json_is_true(json_object_get(one, "revoked")) ? "its key is revoked" :
			most < risk ? "it may not decide about this risk any more" :
				      NULL;
	}
	return "its key is no longer in the configuration";
}

/* ---- one task that waits ---- */

static void put_bytes(const char *text, size_t size)
{
	struct buf b = {0};

	ctl_escape(&b, text, size, false);
	ctl_op_print(&b);
	buf_fini(&b);
}

static void put_text(const char *text)
{
	put_bytes(text, strlen(text));
}

static void put_line(const char *label, const char *text)
{
	printf("%-12s", label);
	put_text(text);
	printf("\n");
}

static void put_member(const struct harp_artifact *a, const char *name)
{
	struct jslice raw = jtext_member(a->task, strlen(a->task), name);
	struct buf b = {0};

	if (!raw.at || (raw.size == 2 && strchr("{[\"", raw.at[0]))) /* {}, [] and "" carry no information */
		return;
	ctl_render_pretty(&b, raw.at, raw.size);
	printf("%s\n", name);
	for (size_t at = 0, size; at < b.size; at += size + 1) {
		const char *line = b.data + at, *end = memchr(line, '\n', b.size - at);

		size = end ? (size_t)(end - line) : b.size - at;
		printf("    %.*s\n", (int)size, line);
	}
	buf_fini(&b);
}

static void put_risk(const struct harp_artifact *a)
{
	printf("%-12s%s", "risk", risk_names[a->risk]);
	for (size_t i = 0; i < a->reason_count; i++) {
		printf("%s", i ? "; " : ": ");
		put_text(a->reasons[i]);
	}
	printf("\n");
}

static void put_votes(const struct harp_artifact *a, const json_t *item, struct approver_keys *keys)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(item, "allowed_by"), i, one) {
		const char *name = json_string_value(one) ? json_string_value(one) : "",
			   *why = void_reason(keys, name, a->risk);

		printf("%-12s", i ? "" : "allowed by");
		put_text(name);
		printf("%s%s%s\n", why ? " (void: " : "", why ? why : "", why ? ")" : "");
	}
}

/* Prints the whole task: a human must not sign what was not shown. */
static void show(const struct harp_artifact *a, const json_t *item, struct approver_keys *keys)
{
	static const char *const members[] = {
		"capability_version", "inputs", "constraints", "expected_output", "context"};
	char left[CTL_SPAN_SIZE], until[CLOCK_TEXT_SIZE];
	json_t *task = json_loads(a->task, JSON_ALLOW_NUL, NULL), *intent = json_object_get(task, "intent");
	size_t i;

	put_line("session", a->session_id ? a->session_id : "-");
	put_line("caller", a->caller);
	put_line("capability", a->capability);
	put_risk(a);
	clock_format(a->expires_us, until);
	ctl_span(a->expires_us - clock_wall_us(), left);
	printf("%-12s%s, %s left\n", "until", until, left);
	put_votes(a, item, keys);
	printf("%-12s", "intent");
	/* also text behind a NUL */
	put_bytes(ctl_op_text(task, "intent"), json_string_length(intent));
	printf("\n");
	for (i = 0; i < sizeof members / sizeof *members; i++)
		put_member(a, members[i]);
	json_decref(task);
}

/* The artifact from the daemon's item, checked. NULL: the reason was printed. */
static struct harp_artifact *read_item(const json_t *item)
{
	const char *text = ctl_op_text(item, "artifact");
	struct harp_artifact *a = NULL;
	char why[256];
	enum harp_code code = harp_read_artifact(text, strlen(text), &a, why, sizeof why);

	if (code != HARP_OK)
		ctl_say("%s: what the daemon shows is no good artifact: %s", harp_code_name(code), why);
	return a;
}

/* ---- approvals ---- */

static const struct ctl_column columns[] = {
	{.title = "SESSION"},
	{.title = "RISK"},
	{.title = "CAPABILITY", .may_shrink = true},
	{.title = "CALLER", .may_shrink = true},
	{.title = "AGE", .is_right = true},
	{.title = "LEFT", .is_right = true},
	{.title = "ALLOWED"},
	{.title = "INTENT", .may_shrink = true},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

struct approval_table {
	struct ctl_table table;
	struct approver_keys keys;
	bool is_whole; /* one session was named: print all of its task */
	size_t count;
	bool is_bad;
};

static void add_row(struct approval_table *l, const struct harp_artifact *a, const json_t *item)
{
	char id[16], age[CTL_SPAN_SIZE], left[CTL_SPAN_SIZE], allowed[64] = "-";
	json_t *task = json_loads(a->task, JSON_ALLOW_NUL, NULL);
	size_t i, votes = 0, voids = 0;
	const json_t *one;
	const char *const cells[COLUMNS] = {id, risk_names[a->risk], a->capability, a->caller, age, left,
		allowed, ctl_op_text(task, "intent")};

	snprintf(id, sizeof id, "%.8s", a->session_id ? a->session_id : "-");
	ctl_age(clock_wall_us() - a->created_us, age);
	ctl_age(a->expires_us - clock_wall_us(), left);
	json_array_foreach(json_object_get(item, "allowed_by"), i, one)
		if (void_reason(&l->keys, json_string_value(one) ? json_string_value(one) : "", a->risk))
			voids++;
		else
			votes++;
	if (votes > 0)
		snprintf(allowed, sizeof allowed, "by %zu", votes);
	if (voids > 0)
		snprintf(allowed + (votes > 0 ? strlen(allowed) : 0), 32, "%s%zu void", votes > 0 ? ", " : "",
			voids);
	ctl_table_add(&l->table, cells, '\0');
	json_decref(task);
}

static bool on_listed(void *ctx, const char *json, size_t size)
{
	struct approval_table *l = ctx;
	json_t *item = jtext_load(json, size, 0, NULL);
	struct harp_artifact *a = read_item(item);

	l->is_bad |= !a;
	if (a && l->is_whole)
		show(a, item, &l->keys);
	else if (a)
		add_row(l, a, item);
	l->count++;
	ctl_op_print(&l->table.out);
	buf_clear(&l->table.out);
	harp_artifact_free(a);
	json_decref(item);
	return !ferror(stdout);
}

static int run_list(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = {{"json", no_argument, NULL, OPT_JSON}, CTL_OPERATOR_OPTIONS};
	struct approval_table l = {.keys = {.o = o}};
	bool is_json = false;
	int c, status;

	while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (c == OPT_JSON)
			is_json = true;
		else if ((status = ctl_command_option(c, argv, &ctl_approvals, o)) >= 0)
			return status;
	}
	if (optind + 1 < argc)
		return ctl_command_usage(
			"approvals ", "one session at a time: %s is too much", argv[optind + 1]);
	l.is_whole = optind < argc;
	ctl_table_init(&l.table, columns, COLUMNS, ctl_op_width(), -1);
	status = ctl_op_ask(o, CTL_STORE_WILL_DO,
		ctl_client_request("approvals", optind < argc ? argv[optind] : NULL),
		is_json ? ctl_op_print_json : on_listed, is_json ? NULL : &l, NULL);
	ctl_table_end(&l.table);
	ctl_op_print(&l.table.out);
	ctl_table_fini(&l.table);
	json_decref(l.keys.list);
	if (status == CTL_OK && l.is_bad)
		status = CTL_ERROR;
	else if (status == CTL_OK && !is_json && l.count == 0)
		ctl_say(l.is_whole ? "this session waits for no human" : "nothing waits for a human");
	return ctl_op_flush(status);
}

/* ---- approve and deny ---- */

struct decision {
	const struct ctl_command *command;
	bool allow, is_sure;
	const char *reason, *key_file;
	const char *passphrase_file; /* NULL: the terminal is asked, where the key is encrypted */
	struct ctl_client *client;
	struct approver_keys keys;
	json_t *item;   /* the item of `approvals`; NULL: none came */
	char name[129]; /* name of the key in the daemon's configuration; "": the key is not there */
	char line[HARP_PUBLIC_SIZE];
	bool is_revoked;
};

static bool on_approval(void *ctx, const char *json, size_t size)
{
	struct decision *w = ctx;

	json_decref(w->item);
	w->item = jtext_load(json, size, 0, NULL);
	return true;
}

/* Finds the configured key that is the operator's own. */
static bool on_approvers(void *ctx, const char *json, size_t size)
{
	struct decision *w = ctx;
	json_t *item = jtext_load(json, size, 0, NULL);
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(item, "approvers"), i, one)
		if (strcmp(ctl_op_text(one, "key"), w->line) == 0) {
			snprintf(w->name, sizeof w->name, "%s", ctl_op_text(one, "name"));
			w->is_revoked = json_is_true(json_object_get(one, "revoked"));
		}
	json_decref(item);
	return true;
}

/* 0, or an exit status after a message. */
static int find_name(struct decision *w)
{
	int status = ctl_client_ask(w->client, ctl_client_request("approvers", NULL), on_approvers, w, NULL);

	if (status != CTL_OK)
		return status;
	if (w->is_revoked) {
		ctl_say("your key, [approver %s], is revoked in the daemon's configuration", w->name);
		return CTL_ERROR;
	}
	if (!*w->name) {
		ctl_say("the daemon does not know your key; write these lines into its configuration, with "
			"the risk up to which you may decide, and reload it (systemctl reload hcpd):");
		ctl_approve_say_lines(w->line);
		return CTL_ERROR;
	}
	return 0;
}

static int confirm(const struct decision *w)
{
	struct ctl_term term;
	char answer;

	if (w->is_sure)
		return 0;
	if (!ctl_term_may_ask()) {
		ctl_say("there is no terminal to ask on; --yes means that the task was looked at");
		return CTL_USAGE;
	}
	ctl_term_init(&term);
	answer = ctl_term_ask(&term, w->allow ? "approve this task (y/N)? " : "deny this task (y/N)? ");
	ctl_term_fini(&term);
	if (answer == 'y')
		return 0;
	ctl_say("nothing was decided");
	return CTL_ERROR;
}

static int send_answer(struct decision *w, const struct harp_artifact *a, const struct harp_private *key)
{
	char nonce[HARP_NONCE_SIZE], why[256];
	unsigned char random[16];
	struct buf text = {0};
	json_t *request, *done = NULL;
	int status = CTL_ERROR;

	if (getrandom(random, sizeof random, 0) != sizeof random) {
		ctl_say("the system gives no random bytes");
		return CTL_ERROR;
	}
	harp_nonce(random, nonce);
	if (harp_sign(a,
		    &(struct harp_answer){.allow = w->allow,
			    .scope = HARP_ONCE,
			    .expires_us = a->expires_us,
			    .nonce = nonce,
			    .signer_key_id = w->name},
		    key, &text, why, sizeof why) != HARP_OK) {
		ctl_say("it cannot be signed: %s", why);
		buf_fini(&text);
		return CTL_ERROR;
	}
	request = ctl_client_request("decide", a->session_id);
	json_object_set_new(request, "decision", jtext_load(text.data, text.size, 0, NULL));
	buf_fini(&text);
	if (w->reason && !ctl_client_set(request, "reason", w->reason)) {
		json_decref(request);
		return CTL_USAGE;
	}
	status = ctl_client_ask(w->client, request, NULL, NULL, &done);
	if (status == CTL_OK && strcmp(ctl_op_text(done, "review"), "AWAITING_DECISION") == 0)
		printf("session %s: your approval is noted; another person must allow it, too\n",
			ctl_op_text(done, "session"));
	else if (status == CTL_OK)
		printf("session %s %s: %s\n", ctl_op_text(done, "session"),
			w->allow ? "is approved" : "is denied", ctl_op_text(done, "state"));
	json_decref(done);
	return status;
}

static int decide_with_key(struct decision *w, const char *session, const struct harp_private *key)
{
	struct harp_artifact *a = NULL;
	int status =
		ctl_client_ask(w->client, ctl_client_request("approvals", session), on_approval, w, NULL);

	if (status != CTL_OK)
		return status;
	if (!w->item) {
		ctl_say("session %s waits for no human; hcpctl approvals lists those that do", session);
		return CTL_ERROR;
	}
	if (!(a = read_item(w->item)))
		return CTL_ERROR;
	show(a, w->item, &w->keys);
	if ((status = find_name(w)) == 0 && (status = confirm(w)) == 0)
		status = send_answer(w, a, key);
	harp_artifact_free(a);
	return status;
}

static int decide(struct decision *w, struct ctl_options *o, const char *session)
{
	struct harp_private *key = NULL;
	struct ctl_settings s;
	char *path, why[256];
	int status = ctl_command_settings(&s, o);

	if (status)
		return status;
	status = CTL_ERROR;
	if ((path = ctl_approve_key(&s, w->key_file)) &&
		!(key = harp_key_unseal(path, ctl_passphrase_give, w->passphrase_file, why, sizeof why)))
		ctl_say("%s; hcpctl keygen makes a key", why);
	if (key && (w->client = ctl_client_open(&s, CTL_NEED_DAEMON, &status))) {
		harp_key_public(key, w->line);
		status = decide_with_key(w, session, key);
		if (status == CTL_CLIENT_LOST)
			status = ctl_client_say_lost();
	}
	ctl_client_close(w->client);
	json_decref(w->item);
	json_decref(w->keys.list);
	harp_key_free(key);
	free(path);
	ctl_settings_fini(&s);
	return ctl_op_flush(status);
}

static int run_decide(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = {{"reason", required_argument, NULL, 'r'},
		{"key", required_argument, NULL, 'k'}, {"yes", no_argument, NULL, 'y'},
		{"passphrase-file", required_argument, NULL, OPT_PASSPHRASE_FILE}, CTL_OPERATOR_OPTIONS};
	struct decision w = {.allow = strcmp(argv[0], "approve") == 0, .keys = {.o = o}};
	const char *session;
	int c, status;

	w.command = w.allow ? &ctl_approve : &ctl_deny;
	while ((c = getopt_long(argc, argv, ":hr:k:y", options, NULL)) != -1) {
		if (c == 'r')
			w.reason = optarg;
		else if (c == 'k')
			w.key_file = optarg;
		else if (c == 'y')
			w.is_sure = true;
		else if (c == OPT_PASSPHRASE_FILE)
			w.passphrase_file = optarg;
		else if ((status = ctl_command_option(c, argv, w.command, o)) >= 0)
			return status;
	}
	session = ctl_op_session(argc, argv, w.command);
	return session ? decide(&w, o, session) : CTL_USAGE;
}

/* ---- the commands ---- */

const struct ctl_command ctl_approvals = {
	.name = "approvals",
	.summary = "what waits for a human: [SESSION] [--json]",
	.help = "usage: hcpctl approvals [options] [SESSION]\n\n"
		"The tasks that wait for a human's decision, the oldest first; of one session all that would "
		"be signed.\n"
		"Where the daemon does not run, its store is read.\n\n"
		"      --json          an object a line, with the HARP artifact as text\n" CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl approvals 5f0c\n",
	.run = run_list,
};

#define ANSWER_HELP \
	"  -r, --reason TEXT   why; it is kept, and a denial tells it to the caller\n" \
	"  -k, --key FILE      your key (~/.config/hcp/" CTL_KEY_NAME \
	")\n" \
	"      --passphrase-file FILE   the first line of FILE opens your key; else you are asked\n" \
	"  -y, --yes           do not ask: for scripts\n" CTL_OPERATOR_HELP

const struct ctl_command ctl_approve = {
	.name = "approve",
	.summary = "let a task run that waits for a human: SESSION [--reason TEXT] [--key FILE]",
	.help = "usage: hcpctl approve [options] SESSION\n\n"
		"Shows the task, asks, and signs the approval with your own key (hcpctl keygen). The daemon "
		"looks at the\n"
		"task once more under the policy of now, and runs it. From the risk that [approval] "
		"two_person names on,\n"
		"another person must approve it, too.\n\n" ANSWER_HELP "\nExample:\n  hcpctl approve 5f0c\n",
	.run = run_decide,
};

const struct ctl_command ctl_deny = {
	.name = "deny",
	.summary = "reject a task that waits for a human: SESSION [--reason TEXT] [--key FILE]",
	.help = "usage: hcpctl deny [options] SESSION\n\n"
		"Shows the task, asks, and signs the denial with your own key. Its caller gets "
		"task_rejected. One denial\n"
		"is enough.\n\n" ANSWER_HELP
		"\nExample:\n  hcpctl deny 5f0c --reason 'not while the lab is open'\n",
	.run = run_decide,
};
