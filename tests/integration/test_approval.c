/* SPDX-License-Identifier: MIT */
/* test_approval.c: a task that waits for a human: with a real broker and a real daemon, hcpctl as people use
 * it, and attackers at the control socket, who sign by themselves (approver.h). */
#include "support/hcpctl_kit.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <openssl/evp.h>

#include "support/approver.h"
#include "support/peer.h"
#include "support/talk.h"

#define LAB source_path("tests/integration/agents/agent.py")
#define HOT "{\"temperature_c\":90}"

static const char *path; /* of the control socket */

/* ---- the scene ---- */

static const char *key_file(const char *name)
{
	return approver_key(r, name);
}

/* Enters the approver as keygen prints it. */
static void enter(const char *name, const struct ctl_run *keygen, const char *max_risk)
{
	char section[64], line[80];

	ctl_must_have(keygen->out, "key = ed25519:");
	snprintf(line, sizeof line, "%.51s", strstr(ctl_text_of(keygen->out), "ed25519:"));
	snprintf(section, sizeof section, "approver %s", name);
	rig_set(r, section, "key", "%s", line);
	rig_set(r, section, "max_risk", "%s", max_risk);
}

/* Makes a key with hcpctl. */
static void add_approver(const char *name, const char *max_risk)
{
	struct ctl_run run = ctl_start("keygen", key_file(name), NULL);

	ctl_finish(&run, 0);
	enter(name, &run, max_risk);
}

static void begin_lab(const char *expires)
{
	ctl_begin_on(broker_shared(), false);
	path = talk_path(r);
	setenv("HCP_DAEMON_CONFIG", r->ini, 1);
	unsetenv("HCP_SOCKET");
	rig_capability(r, "lab", LAB,
		J("{'safety':{'risk_floor':'R1','risk_ceiling':'R5','requires_human_approval':true,'rules':["
		  "{'when':{'pointer':'/temperature_c','op':'>','value':80},'level':'R3','reason':'hot'},"
		  "{'when':{'pointer':'/temperature_c','op':'>','value':500},'level':'R5','reason':'it "
		  "melts'}]}}"));
	rig_set(r, "approval", "expires", "%s", expires);
	add_approver("ann", "R5");
	add_approver("bob", "R4");
	rig_start(r);
}

static struct ctl_run submit(const char *inputs)
{
	char input[200];

	file_write(rig_path(r, "inputs.json"), inputs);
	snprintf(input, sizeof input, "%s", rig_path(r, "inputs.json"));
	return ctl_start("submit", "lab", "--intent", "heat the sample", "--inputs", input, NULL);
}

/* The session that waits; there is one. */
static const char *waiting(void)
{
	static char id[4][37];
	static int turn;
	json_t *end;

	wait_until(
		rig_sql(r, "SELECT count(*) FROM sessions WHERE waits_for = 'human' AND state = 'PENDING'") ==
			1,
		WAIT_S, "one that waits");
	end = talk_once(path, "'do':'approvals'");
	snprintf(id[++turn % 4], 37, "%s",
		json_text_at(json_array_get(json_object_get(end, "items"), 0), "session_id"));
	return id[turn % 4];
}

static void kill_and_start(void)
{
	rig_kill(r);
	rig_start(r);
}

static void reload(void)
{
	int before = rig_log_count(r, "configuration reloaded");

	rig_write_ini(r);
	rig_signal(r, SIGHUP);
	wait_until(rig_log_count(r, "configuration reloaded") > before, WAIT_S, "the reload");
}

/* ---- hcpctl ---- */

START_TEST(approval_with_hcpctl_comes_to_a_task_that_waited_in_crashes) /* proves L3-09, HC-02 */
{
	begin_lab("1h");
	struct ctl_run task = submit("{\"temperature_c\":90,\"note\":\"for batch 7\"}");
	char id[37];

	snprintf(id, sizeof id, "%s", waiting());
	must(rig_sql(r, "SELECT count(*) FROM events") == 0, "nothing is said");
	kill_and_start();
	struct ctl_run run = ctl_start("approvals", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, ctl_short_id(id));
	ctl_must_have(run.out, "heat the sample");
	run = ctl_start("list", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "waiting for a human");
	run = ctl_start("show", ctl_short_id(id), NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "PENDING, waiting for a human until 20");
	run = ctl_start("stats", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, ", 1 undecided");
	ctl_wait_for(task.err, "may be waiting for a human");
	kill_and_start();
	/* No: it stays. */
	static const struct ctl_key no[] = {{"(y/N)?", "n\n"}, {NULL, NULL}},
				    yes[] = {{"(y/N)?", "y\n"}, {NULL, NULL}};
	run = ctl_start_on_terminal(no, "approve", ctl_short_id(id), "--key", key_file("ann"), NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.out, "nothing was decided");
	run = ctl_start("approve", id, "--key", key_file("ann"), NULL); /* nobody to ask, and no --yes */
	ctl_finish(&run, 64);
	must_str(waiting(), id);
	/* Yes: all of the task is shown before. */
	run = ctl_start_on_terminal(yes, "approve", ctl_short_id(id), "--key", key_file("ann"), NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "heat the sample");
	ctl_must_have(run.out, "\"note\": \"for batch 7\"");
	ctl_must_have(run.out, "R3: hot (R3)");
	ctl_must_have(run.out, "is approved");
	ctl_finish(&task, 0);
	ctl_must_have(task.out, "completed");
	must(rig_sql(r, "SELECT count(*) FROM reviews WHERE state = 'EXECUTED'") == 1, "used up");
	must(rig_sql(r, "SELECT count(*) FROM decisions WHERE signer = 'ann' AND is_final") == 1, "and kept");
	run = ctl_start("approve", id, "--key", key_file("ann"), "--yes", NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "waits for no human");
	run = ctl_start("approvals", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.err, "nothing waits for a human");
	ctl_end();
}
END_TEST

START_TEST(a_task_below_r3_asks_nobody) /* proves L3-09 */
{
	begin_lab("1h");
	struct ctl_run task = submit("{\"temperature_c\":20}");
	ctl_finish(&task, 0);
	must(rig_sql(r, "SELECT count(*) FROM reviews") == 0, "nobody was asked");
	ctl_end();
}
END_TEST

START_TEST(a_denial_is_told_to_the_caller_with_its_reason) /* proves L3-09 */
{
	begin_lab("1h");
	struct ctl_run task = submit(HOT);
	struct ctl_run run = ctl_start(
		"deny", waiting(), "--key", key_file("bob"), "--yes", "--reason", "the lab is closed", NULL);

	ctl_finish(&run, 0);
	ctl_must_have(run.out, "is denied: REJECTED");
	ctl_finish(&task, 3);
	ctl_must_have(task.out, "approval_denied");
	ctl_must_have(task.out, "the lab is closed");
	run = ctl_start("list", "--state", "REJECTED", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "approval_denied");
	ctl_end();
}
END_TEST

START_TEST(approval_without_a_decision_expires_also_without_a_daemon) /* proves L3-09 */
{
	begin_lab("4s");
	struct ctl_run task = submit(HOT);
	char id[37];

	snprintf(id, sizeof id, "%s", waiting());
	ctl_finish(&task, 3);
	ctl_must_have(task.out, "approval_expired");
	task = submit(HOT);
	snprintf(id, sizeof id, "%s", waiting());
	rig_kill(r);
	/* Its store can be looked into. */
	struct ctl_run run = ctl_start("approvals", "--json", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, id);
	wait_until(rig_sql(r,
			   "SELECT count(*) FROM reviews WHERE state = 'AWAITING_DECISION'"
			   " AND julianday('now') > julianday(expires_at)") == 1,
		WAIT_S, "its time");
	rig_start(r);
	ctl_finish(&task, 3);
	ctl_must_have(task.out, "approval_expired");
	must(rig_sql(r, "SELECT count(*) FROM reviews WHERE state = 'EXPIRED'") == 2, "both");
	ctl_end();
}
END_TEST

START_TEST(from_r5_on_it_takes_two_persons) /* proves L3-09, HC-03 */
{
	begin_lab("1h");
	rig_set(r, "approval", "two_person", "R5");
	rig_set(r, "approver bob", "max_risk", "R5");
	add_approver("ann2", "R5");
	rig_set(r, "approver ann2", "person", "ann");
	reload();
	struct ctl_run task = submit("{\"temperature_c\":600}");
	char id[37];

	snprintf(id, sizeof id, "%s", waiting());
	struct ctl_run run = ctl_start("approve", id, "--key", key_file("ann"), "--yes", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "another person must allow it, too");
	kill_and_start();
	run = ctl_start("approve", id, "--key", key_file("ann2"), "--yes", NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "HARP_ERR_POLICY_DENY");
	must(!strstr(ctl_text_of(run.err), "another person"), "said twice: %s", ctl_text_of(run.err));
	must_str(waiting(), id);
	run = ctl_start("approvals", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "by 1 ");
	/* A revocation reaches back. */
	rig_set(r, "approver ann", "revoked", "true");
	reload();
	run = ctl_start("approvals", NULL);
	ctl_finish(&run, 0);
	must(!strstr(ctl_text_of(run.out), "by 1"), "%s", ctl_text_of(run.out));
	ctl_must_have(run.out, "1 void");
	run = ctl_start("approvals", id, NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "allowed by  ann (void: its key is revoked)");
	rig_set(r, "approver ann", "revoked", "false");
	reload();
	run = ctl_start("approve", id, "--key", key_file("bob"), "--yes", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "allowed by  ann");
	ctl_finish(&task, 0);
	ctl_end();
}
END_TEST

START_TEST(a_key_that_nobody_knows_is_told_what_to_do)
{
	begin_lab("1h");
	struct ctl_run task = submit(HOT);
	struct ctl_run run = ctl_start("keygen", NULL);
	const char *own = rig_path(r, "home/hcp/approver.pem");
	struct stat st;

	ctl_finish(&run, 0);
	must(stat(own, &st) == 0 && (st.st_mode & 0777) == 0600, "%s", own);
	must(!strstr(ctl_text_of(run.out), "PRIVATE"), "%s", ctl_text_of(run.out));
	run = ctl_start("keygen", NULL);
	ctl_finish(&run, 1); /* never over a key */
	run = ctl_start("keygen", "--show", NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "key = ed25519:");
	run = ctl_start("approve", waiting(), "--yes", NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "does not know your key");
	ctl_must_have(run.out, "[approver ");
	run = ctl_start("abort", waiting(), "--reason", "not needed", NULL);
	ctl_finish(&run, 0);
	ctl_finish(&task, 3);
	ctl_must_have(task.out, "policy_denied");
	ctl_end();
}
END_TEST

START_TEST(an_encrypted_key_decides_only_with_its_passphrase) /* proves HC-03 */
{
	static const struct ctl_key two[] = {{"a passphrase for your key: ", "drei Haken\n"},
		{"again: ", "drei Hakem\n"}, {NULL, NULL}},
				    same[] = {{"a passphrase for your key: ", "drei Hakem\177n\n"},
					    {"again: ", "drei Haken\n"}, {NULL, NULL}},
				    wrong[] = {{"passphrase of your key: ", "drei Hakem\n"}, {NULL, NULL}},
				    none[] = {{"passphrase of your key: ", "\003"}, {NULL, NULL}},
				    right[] = {{"passphrase of your key: ", "drei Haken\n"}, {NULL, NULL}};
	char file[300];

	begin_lab("1h");
	snprintf(file, sizeof file, "%s", rig_path(r, "passphrase"));
	file_write(file, "from a file\n");
	/* in a file: only one that others cannot read, and no short one */
	chmod(file, 0644);
	struct ctl_run run = ctl_start("keygen", "--passphrase-file", file, key_file("cat"), NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "may be read by others");
	chmod(file, 0600);
	run = ctl_start("keygen", "--passphrase-file", file, key_file("cat"), NULL);
	ctl_finish(&run, 0);
	enter("cat", &run, "R5");
	ctl_must_have(key_file("cat"), "BEGIN ENCRYPTED PRIVATE KEY");
	run = ctl_start("keygen", "--show", "--passphrase-file", file, key_file("cat"), NULL);
	ctl_finish(&run, 0);
	/* on the terminal: twice, and not shown */
	run = ctl_start_on_terminal(two, "keygen", "--passphrase", key_file("dan"), NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.out, "two different passphrases");
	run = ctl_start_on_terminal(same, "keygen", "-p", key_file("dan"), NULL);
	ctl_finish(&run, 0);
	must(!strstr(ctl_text_of(run.out), "Hake"), "it is shown: %s", ctl_text_of(run.out));
	enter("dan", &run, "R5");
	reload();
	struct ctl_run task = submit(HOT);
	char id[37];

	snprintf(id, sizeof id, "%s", waiting());
	run = ctl_start_on_terminal(wrong, "approve", id, "--key", key_file("dan"), "--yes", NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.out, "does not open with this passphrase");
	run = ctl_start_on_terminal(none, "approve", id, "--key", key_file("dan"), "--yes", NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.out, "no passphrase was given");
	must_str(waiting(), id);
	run = ctl_start_on_terminal(right, "approve", id, "--key", key_file("dan"), "--yes", NULL);
	ctl_finish(&run, 0);
	ctl_finish(&task, 0);
	task = submit(HOT);
	run = ctl_start(
		"deny", waiting(), "--key", key_file("cat"), "--passphrase-file", file, "--yes", NULL);
	ctl_finish(&run, 0);
	ctl_finish(&task, 3);
	file_write(file, "short\n");
	run = ctl_start("keygen", "--passphrase-file", file, key_file("eve"), NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "at least 8");
	ctl_end();
}
END_TEST

/* ---- attackers at the socket ---- */

/* The artifact of the newest that waits. */
static json_t *asked(void)
{
	json_t *end = talk_once(path, "'do':'approvals'"), *items = json_object_get(end, "items"), *a;

	must(json_array_size(items) > 0, "nothing waits");
	a = json_loads(json_text_at(json_array_get(items, json_array_size(items) - 1), "artifact"), 0, NULL);
	must(a, "no artifact");
	return a;
}

static json_t *decision_on(json_t *artifact, const char *decision, const char *signer)
{
	return approver_decide(r, artifact, decision, signer);
}

static void sign(json_t *decision, const char *file)
{
	approver_sign(decision, file);
}

/* What the daemon says: "" for done. session NULL: none is named. */
static const char *send_it(json_t *decision, const char *session)
{
	static char code[64];
	char *text = json_dumps(decision, JSON_COMPACT), named[80] = "";

	if (session)
		snprintf(named, sizeof named, ",'session':'%s'", session);
	for (char *c = text; *c; c++)
		*c = *c == '"' ? '\'' : *c;
	snprintf(code, sizeof code, "%s",
		talk_code(talk_once(path, "'do':'decide','decision':%s%s", text, named)));
	free(text);
	return code;
}

static void set(json_t *decision, const char *name, const char *value)
{
	json_object_set_new(decision, name, json_string(value));
}

/* proves HC-03 */
START_TEST(approval_refuses_bad_decisions_each_with_its_code)
{
	begin_lab("1h");
	struct peer *p = peer_new(r);
	const char *first = peer_submit(p, "lab", J("{'temperature_c':90,'do':[['complete',{}]]}"));
	json_t *artifact, *d;
	char id[37];

	snprintf(id, sizeof id, "%s", waiting());
	artifact = asked();
	must_str(json_text_at(artifact, "artifactType"), "task.review");
	must_str(json_text_at(artifact, "payload.risk"), "R3");

	d = decision_on(artifact, "deny", "ann"); /* turned about after it was signed */
	set(d, "decision", "allow");
	must_str(send_it(d, id), "HARP_ERR_SIGNATURE_INVALID");
	d = decision_on(artifact, "allow", "bob"); /* another's name */
	set(d, "signerKeyId", "ann");
	sign(d, key_file("bob"));
	must_str(send_it(d, id), "HARP_ERR_SIGNATURE_INVALID");
	set(d, "signerKeyId", "nobody");
	sign(d, key_file("bob"));
	must_str(send_it(d, id), "HARP_ERR_SIGNATURE_INVALID");
	d = decision_on(artifact, "allow", "ann"); /* past */
	set(d, "expiresAt", "2026-01-01T00:00:00Z");
	sign(d, key_file("ann"));
	must_str(send_it(d, id), "HARP_ERR_EXPIRED");
	d = decision_on(artifact, "allow", "ann"); /* about another text */
	set(d, "artifactHash", "0000000000000000000000000000000000000000000000000000000000000000");
	sign(d, key_file("ann"));
	must_str(send_it(d, id), "HARP_ERR_HASH_MISMATCH");
	d = decision_on(artifact, "allow", "ann");
	set(d, "repoRef", "hcp:elsewhere/lab");
	sign(d, key_file("ann"));
	must_str(send_it(d, id), "HARP_ERR_HASH_MISMATCH");
	d = decision_on(artifact, "allow", "ann"); /* for another session */
	set(d, "scope", "session");
	json_object_set_new(d, "policyHints", J("{'sessionId':'11111111-2222-4333-8444-555555555555'}"));
	sign(d, key_file("ann"));
	must_str(send_it(d, id), "HARP_ERR_SCOPE");
	d = decision_on(artifact, "allow", "ann"); /* for any session, for ever */
	set(d, "scope", "session");
	sign(d, key_file("ann"));
	must_str(send_it(d, id), "HARP_ERR_SCOPE");
	set(d, "scope", "always");
	sign(d, key_file("ann"));
	must_str(send_it(d, id), "HARP_ERR_SCOPE");
	d = decision_on(artifact, "allow", "ann"); /* another algorithm, a field of its own */
	set(d, "sigAlg", "none");
	sign(d, key_file("ann"));
	must_str(send_it(d, id), "HARP_ERR_UNSUPPORTED");
	d = decision_on(artifact, "allow", "ann");
	set(d, "artifactHashAlg", "SHA-1");
	sign(d, key_file("ann"));
	must_str(send_it(d, id), "HARP_ERR_UNSUPPORTED");
	d = decision_on(artifact, "allow", "ann");
	set(d, "maxRisk", "R5");
	sign(d, key_file("ann"));
	must_str(send_it(d, id), "HARP_ERR_UNSUPPORTED");
	d = decision_on(artifact, "allow", "ann");
	json_object_set_new(d, "policyHints", json_pack("{s:f}", "weight", 0.5));
	must_str(send_it(d, id), "HARP_ERR_CANONICALIZATION");
	must(rig_sql(r, "SELECT count(*) FROM decisions") == 0 && !peer_find_reply(p, first),
		"none of it counted");
	static const char *const codes[] = {
		"SIGNATURE_INVALID", "EXPIRED", "HASH_MISMATCH", "SCOPE", "UNSUPPORTED", "CANONICALIZATION"};
	/* ann's, and those that name nobody whom we know or cannot be read */
	static const int rows[] = {2, 1, 1, 2, 1, 1};
	/* and each is in the audit, under its own code */
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		must(rig_sql(r,
			     "SELECT count(*) FROM audit WHERE entry->>'$.what' = 'decide' AND "
			     "entry->>'$.outcome' = 'refused'"
			     " AND entry->>'$.code' = 'HARP_ERR_%s'",
			     codes[i]) == rows[i],
			"%s", codes[i]);

	/* A good one, signed by other means than hcpd's; and then the same again, also after a crash. */
	d = decision_on(artifact, "allow", "ann");
	must_str(send_it(d, id), "");
	peer_completed(p, peer_accepted(p, first));
	must_str(send_it(d, NULL), "HARP_ERR_REPLAY");
	must_str(send_it(decision_on(artifact, "deny", "bob"), NULL), "HARP_ERR_REPLAY");
	kill_and_start();
	must_str(send_it(d, NULL), "HARP_ERR_REPLAY");

	/* Aimed at another task; and one whose risk is above the signer's. */
	const char *second = peer_submit(p, "lab", J("{'temperature_c':600,'do':[['complete',{}]]}"));
	snprintf(id, sizeof id, "%s", waiting());
	must_str(send_it(d, id), "HARP_ERR_HASH_MISMATCH");
	artifact = asked();
	/* the old signature below the new task's names */
	json_t *moved = json_deep_copy(d);
	set(moved, "requestId", json_text_at(artifact, "requestId"));
	set(moved, "artifactHash", json_text_at(artifact, "artifactHash"));
	must_str(send_it(moved, id), "HARP_ERR_SIGNATURE_INVALID");
	/* signed anew, with the nonce that she has used */
	sign(moved, key_file("ann"));
	must_str(send_it(moved, id), "HARP_ERR_REPLAY");
	must_str(send_it(decision_on(artifact, "allow", "bob"), id), "HARP_ERR_POLICY_DENY");
	must(!peer_find_reply(p, second), "it waits");
	must_str(send_it(decision_on(artifact, "deny", "ann"), id), "");
	peer_rejected(p, second, "approval_denied");
	peer_finish(p);
	ctl_end();
}
END_TEST

START_TEST(a_human_is_shown_all_that_is_signed)
{
	begin_lab("1h");
	struct peer *p = peer_new(r);
	json_t *more =
		J("{'capability_version':'1.x','context':7,'constraints':{'priority':'high'},"
		  "'expected_output':{'format':'verse'}}");
	const char *task;

	/* What stops a C string, colours a terminal, turns its lines about, or is small enough to be
	 * overlooked. */
	json_object_set_new(more, "intent", json_stringn("cool\0, then melt \033[8mit\xe2\x80\xae", 26));
	task = peer_submit_more(p, "lab", J("{'temperature_c':90,'do':[['complete',{}]]}"), more);
	const char *id = waiting();
	struct ctl_run run = ctl_start("approvals", id, NULL);
	ctl_finish(&run, 0);
	ctl_must_have(run.out, "cool\\x00, then melt \\x1b[8mit\\u202e");
	ctl_must_have(run.out, "\"temperature_c\": 90");
	ctl_must_have(run.out, "\"1.x\"");
	ctl_must_have(run.out, "\"priority\": \"high\"");
	ctl_must_have(run.out, "\"format\": \"verse\"");
	ctl_must_have(run.out, "context\n    7\n");
	must_str(send_it(decision_on(asked(), "allow", "ann"), id), "");
	peer_completed(p, peer_accepted(p, task));
	peer_finish(p);
	ctl_end();
}
END_TEST

START_TEST(a_decision_that_comes_after_the_request_expired_is_expired) /* proves HC-03 */
{
	begin_lab("3s");
	struct peer *p = peer_new(r);
	const char *task = peer_submit(p, "lab", J("{'temperature_c':90}"));
	char id[37];
	json_t *d;

	snprintf(id, sizeof id, "%s", waiting());
	d = decision_on(asked(), "allow", "ann"); /* in time, and brought too late */
	set(d, "expiresAt", "2999-01-01T00:00:00Z");
	sign(d, key_file("ann"));
	peer_rejected(p, task, "approval_expired");
	must_str(send_it(d, id), "HARP_ERR_EXPIRED");
	must_str(send_it(d, NULL), "HARP_ERR_EXPIRED");
	kill_and_start();
	must_str(send_it(d, NULL), "HARP_ERR_EXPIRED");
	must(rig_sql(r, "SELECT count(*) FROM decisions") == 0, "nothing was decided");
	peer_finish(p);
	ctl_end();
}
END_TEST

START_TEST(vote_of_one_person_said_again_is_never_two) /* proves HC-03 */
{
	begin_lab("1h");
	rig_set(r, "approval", "two_person", "R5");
	rig_set(r, "approver bob", "max_risk", "R5");
	reload();
	struct peer *p = peer_new(r);
	const char *task = peer_submit(p, "lab", J("{'temperature_c':600,'do':[['complete',{}]]}"));
	json_t *vote, *artifact;
	char id[37];

	snprintf(id, sizeof id, "%s", waiting());
	artifact = asked();
	vote = decision_on(artifact, "allow", "ann");
	must_str(send_it(vote, id), "");
	must_str(send_it(vote, id), "HARP_ERR_REPLAY");
	must_str(send_it(decision_on(artifact, "allow", "ann"), id), "HARP_ERR_POLICY_DENY");
	kill_and_start();
	must_str(send_it(vote, id), "HARP_ERR_REPLAY");
	must_str(send_it(decision_on(artifact, "allow", "ann"), id), "HARP_ERR_POLICY_DENY");
	must(!peer_find_reply(p, task), "it waits for another person");
	must_str(send_it(decision_on(artifact, "allow", "bob"), id), "");
	peer_completed(p, peer_accepted(p, task));
	peer_finish(p);
	ctl_end();
}
END_TEST

/* ---- somebody who can write the store ---- */

/* The artifact with another risk, and the hash that goes with it. */
static void write_down(json_t *artifact, const char *risk)
{
	unsigned char hash[32];
	char *text, hex[65];
	sqlite3_stmt *st;
	sqlite3 *db;

	json_object_del(artifact, "artifactHash");
	json_object_set_new(json_object_get(artifact, "payload"), "risk", json_string(risk));
	text = json_dumps(artifact, JSON_COMPACT | JSON_SORT_KEYS);
	must(EVP_Digest(text, strlen(text), hash, NULL, EVP_sha256(), NULL) == 1, "SHA-256");
	free(text);
	for (int i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", hash[i]);
	set(artifact, "artifactHash", hex);
	text = json_dumps(artifact, JSON_COMPACT | JSON_SORT_KEYS);
	must(sqlite3_open(r->db, &db) == SQLITE_OK && sqlite3_busy_timeout(db, 5000) == SQLITE_OK &&
			sqlite3_prepare_v2(db, "UPDATE reviews SET artifact = ?, artifact_hash = ?", -1, &st,
				NULL) == SQLITE_OK,
		"%s", sqlite3_errmsg(db));
	sqlite3_bind_text(st, 1, text, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 2, hex, -1, SQLITE_STATIC);
	must(sqlite3_step(st) == SQLITE_DONE && sqlite3_changes(db) == 1, "%s", sqlite3_errmsg(db));
	sqlite3_finalize(st);
	sqlite3_close(db);
	free(text);
}

START_TEST(a_risk_written_down_in_the_store_lets_no_smaller_key_decide) /* proves HC-02, HC-03 */
{
	begin_lab("1h");
	struct peer *p = peer_new(r);
	const char *task = peer_submit(p, "lab", J("{'temperature_c':600,'do':[['complete',{}]]}"));
	json_t *artifact, *earlier;
	char id[37];

	snprintf(id, sizeof id, "%s", waiting());
	artifact = asked();
	earlier = decision_on(artifact, "allow", "ann"); /* about what was asked */
	write_down(artifact, "R3");
	must_str(send_it(earlier, id), "HARP_ERR_HASH_MISMATCH");
	/* Bob, up to R4, is shown R3 and believes it. The gate does not: it is R5, and he is asked anew
	 * about that. */
	must_str(send_it(decision_on(artifact, "allow", "bob"), id), "refused");
	must(!peer_find_reply(p, task), "nothing is said");
	must(rig_sql(r, "SELECT count(*) FROM transitions WHERE to_state = 'RUNNING'") == 0, "nothing runs");
	must_str(waiting(), id);
	artifact = asked();
	must_str(json_text_at(artifact, "payload.risk"), "R5");
	must_str(send_it(decision_on(artifact, "allow", "bob"), id), "HARP_ERR_POLICY_DENY");
	must_str(send_it(decision_on(artifact, "allow", "ann"), id), "");
	peer_completed(p, peer_accepted(p, task));
	peer_finish(p);
	ctl_end();
}
END_TEST

START_TEST(access_to_data_that_a_human_let_pass_is_logged) /* proves L3-06 */
{
	begin_lab("1h");
	struct peer *p = peer_new(r);
	const char *task = peer_submit_more(p, "lab", J("{'temperature_c':90,'do':[['complete',{}]]}"),
		J("{'constraints':{'data_classification':'T2'}}"));
	const char *id = waiting();

	must(!rig_log_has(r, "by=worker"), "no worker has any yet");
	must_str(send_it(decision_on(asked(), "allow", "ann"), id), "");
	peer_completed(p, peer_accepted(p, task));
	must(rig_log_count(r, "access to data: class=T2") - rig_log_count(r, "by=operator") == 2 &&
			rig_log_has(r, "by=worker attempt=1"),
		"the task is logged, and that a worker got it");
	peer_finish(p);
	ctl_end();
}
END_TEST

/* The artifact holds the whole task. */
START_TEST(approvals_logs_each_task_of_T2_that_it_gives_out) /* proves L3-06 */
{
	static const char *const classes[] = {"T1", "T2", "T2"};
	char line[200], id[3][37];

	begin_lab("1h");
	struct peer *p = peer_new(r);
	for (int i = 0; i < 3; i++) {
		peer_submit_more(p, "lab", J("{'temperature_c':90}"),
			J("{'constraints':{'data_classification':'%s'}}", classes[i]));
		wait_until(rig_sql(r, "SELECT count(*) FROM reviews") == i + 1, WAIT_S, "task %d waits", i);
	}
	json_t *end = talk_once(path, "'do':'approvals'"), *items = json_object_get(end, "items");
	must(json_array_size(items) == 3, "%s", json_dumps(end, 0));
	for (int i = 0; i < 3; i++)
		snprintf(id[i], sizeof id[i], "%s",
			json_text_at(json_array_get(items, (size_t)i), "session_id"));
	must(rig_log_count(r, "access to data:") == 2, "the tasks of T2, and no others");
	for (int round = 1; round <= 2; round++) {
		for (int i = 1; i < 3; i++) {
			snprintf(line, sizeof line, "access to data: class=T2 session=%.8s", id[i]);
			must(rig_log_count(r, line) == (i == 1 ? round : 1), "%s", line);
		}
		if (round == 1)
			talk_once(path, "'do':'approvals','session':'%s'", id[1]);
	}
	must(rig_log_count(r, "verb=approvals") == 3, "who looked, and how");
	peer_finish(p);
	ctl_end();
}
END_TEST

START_TEST(a_key_that_is_revoked_decides_nothing_from_the_reload_on) /* proves HC-03 */
{
	begin_lab("1h");
	struct peer *p = peer_new(r);
	const char *task = peer_submit(p, "lab", J("{'temperature_c':90,'do':[['complete',{}]]}"));
	char id[37];
	json_t *d;

	snprintf(id, sizeof id, "%s", waiting());
	d = decision_on(asked(), "allow", "ann"); /* signed while it was good */
	rig_set(r, "approver ann", "revoked", "yes");
	reload();
	must_str(send_it(d, id), "HARP_ERR_POLICY_DENY");
	struct ctl_run run = ctl_start("approve", id, "--key", key_file("ann"), "--yes", NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "is revoked");
	must(!peer_find_reply(p, task), "it waits");
	run = ctl_start("approve", id, "--key", key_file("bob"), "--yes", NULL);
	ctl_finish(&run, 0);
	peer_completed(p, peer_accepted(p, task));
	peer_finish(p);
	ctl_end();
}
END_TEST

START_TEST(approved_task_that_the_policy_forbids_meanwhile_does_not_run)
{
	begin_lab("1h");
	struct peer *p = peer_new(r);
	const char *task = peer_submit(p, "lab", J("{'temperature_c':90}"));
	const char *id = waiting();

	rig_set(r, "caller *", "max_risk", "R2");
	reload();
	struct ctl_run run = ctl_start("approve", id, "--key", key_file("ann"), "--yes", NULL);
	ctl_finish(&run, 1);
	ctl_must_have(run.err, "the policy of now rejects it, risk_too_high");
	peer_rejected(p, task, "risk_too_high");
	must(rig_sql(r, "SELECT count(*) FROM transitions WHERE to_state = 'RUNNING'") == 0, "nothing ran");
	peer_finish(p);
	ctl_end();
}
END_TEST

START_TEST(task_that_a_policy_program_allows_still_needs_the_human) /* proves L3-09, L3-11 */
{
	begin_lab("1h");
	file_write(rig_path(r, "rules.json"), "[{\"decision\":\"allow\",\"reason\":\"everything is fine\"}]");
	rig_set(r, "policy", "command", "%s %s", source_path("examples/policies/opa-like.py"),
		rig_path(r, "rules.json"));
	rig_set(r, "policy", "timeout", "30s");
	reload();
	struct peer *p = peer_new(r);
	const char *task = peer_submit(p, "lab", J("{'temperature_c':90,'do':[['complete',{}]]}"));
	const char *id = waiting();

	must(!peer_find_reply(p, task), "nobody has decided");
	must(rig_sql(r,
		     "SELECT count(*) FROM audit WHERE entry->>'$.who' = 'program' AND entry->>'$.outcome' = "
		     "'waits'") == 1,
		"the program said what it had to say");
	must_str(send_it(decision_on(asked(), "allow", "bob"), id), "");
	peer_completed(p, peer_accepted(p, task));
	/* below R3 its word is enough */
	peer_completed(p, peer_run(p, "lab", J("{'temperature_c':20,'do':[['complete',{}]]}")));
	peer_finish(p);
	ctl_end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("approval");

	suite_test(s, approval_with_hcpctl_comes_to_a_task_that_waited_in_crashes, 60);
	suite_test(s, a_task_below_r3_asks_nobody, 40);
	suite_test(s, a_denial_is_told_to_the_caller_with_its_reason, 40);
	suite_test(s, approval_without_a_decision_expires_also_without_a_daemon, 60);
	suite_test(s, from_r5_on_it_takes_two_persons, 40);
	suite_test(s, a_key_that_nobody_knows_is_told_what_to_do, 40);
	suite_test(s, an_encrypted_key_decides_only_with_its_passphrase, 40);
	suite_test(s, approval_refuses_bad_decisions_each_with_its_code, 60);
	suite_test(s, a_human_is_shown_all_that_is_signed, 40);
	suite_test(s, a_decision_that_comes_after_the_request_expired_is_expired, 60);
	suite_test(s, vote_of_one_person_said_again_is_never_two, 60);
	suite_test(s, a_risk_written_down_in_the_store_lets_no_smaller_key_decide, 60);
	suite_test(s, access_to_data_that_a_human_let_pass_is_logged, 40);
	suite_test(s, approvals_logs_each_task_of_T2_that_it_gives_out, 60);
	suite_test(s, a_key_that_is_revoked_decides_nothing_from_the_reload_on, 40);
	suite_test(s, approved_task_that_the_policy_forbids_meanwhile_does_not_run, 40);
	suite_test(s, task_that_a_policy_program_allows_still_needs_the_human, 60);
	return harness_run(s, false);
}
