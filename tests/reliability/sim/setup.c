/* SPDX-License-Identifier: MIT */
/* setup.c: the configurations of the simulation: capabilities of every kind, and a few sets of limits, each
 * with a second one to reload. Written to real files, since the daemon reads them; loaded once. */
#include "sim.h"

#include <errno.h>

static char dir[256], inis[VARIANTS][2][400], broken_ini[400];
static struct policy *policies[VARIANTS][2];

static void write_file(const char *name, const char *text)
{
	char path[600];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	if ((f = fopen(path, "w")) == NULL || fputs(text, f) < 0 || fclose(f) != 0)
		violation("%s: %s", path, strerror(errno));
}

static void say(void *ctx, bool is_error, const char *text)
{
	(void)ctx;
	if (is_error)
		violation("configuration: %s", text);
}

static const struct {
	const char *name, *keys, *safety, *constraints;
} capabilities[] = {
	{"work", "keep_workdir = never\n", "R2", ""},
	{"again", "recovery = restart\nmax_attempts = 3\nretry_delay = 2s\nharp = yes\n", "R2", ""},
	{"never", "recovery = fail\n", "R2", ""},
	{"plain", "protocol = text\n", "R2", ""},
	{"reused", "reuse = 2\nkeep_workdir = never\n", "R2", ""},
	{"narrow", "pause_frees_worker = yes\nmax_attempts = 2\nharp = yes\n", "R2",
		"\"concurrent_limit\":1"},
	{"moved", "state_version = 2.0\nmigrate = /bin/true migrate\nmax_attempts = 3\nharp = yes\n", "R2",
		""},
	{"brief", "", "R2", "\"max_duration\":\"PT10S\""},
	{"risky", "", "R4", ""},
	{"bounded", "",
		"R2\",\"envelope\":{\"parameters\":{\"t\":{\"max\":80,\"hard_limit\":100}},"
		"\"prohibited_actions\":[\"explode\"]},\"risk_floor\":\"R2",
		""},
	/* after a reload "raised" is its declaration */
	{"asked", "harp = yes\n", "R5\",\"risk_floor\":\"R3", ""},
	{"grave", "", "R5\",\"risk_floor\":\"R5", ""},
};

static const char raised[] = "R5\",\"risk_floor\":\"R4";

#define PROGRAM "[policy]\ncommand = /bin/true policy\ntimeout = 2s\n"

static const char *const variants[VARIANTS][2] = {
	{"[daemon]\nmax_sessions = 3\nmax_pending = 3\n[session]\nmax_outbox = 8KiB\n[amqp]\nwindow_messages "
	 "= 7\n",
		"[daemon]\nmax_sessions = 2\nmax_pending = 2\n[session]\nmax_outbox = "
		"4KiB\n[amqp]\nwindow_messages = 7\n"},
	{"[daemon]\nmax_sessions = 8\n[session]\nmax_outbox_total = 8KiB\nmax_outbox = 8KiB\n",
		"[daemon]\nmax_sessions = 4\n"},
	{"[store]\non_error = exit\n[daemon]\nmax_sessions = 4\nmax_pending = 8\n[amqp]\nwindow_messages = "
	 "100\n",
		"[store]\non_error = retry\n[daemon]\nmax_sessions = 6\n[amqp]\nwindow_messages = 100\n"},
	{"[daemon]\nmax_sessions = 1\nmax_pending = 8\n" PROGRAM, "[daemon]\nmax_sessions = 3\n" PROGRAM},
	{"[daemon]\nmax_sessions = 3\n" PROGRAM, "[daemon]\nmax_sessions = 1\n"},
};

/* The third one is revoked after a reload. */
static const struct {
	const char *name, *max_risk, *person;
} approvers[APPROVERS] = {
	{"ann", "R5", "Ann"}, {"ann-new", "R5", "Ann"}, {"bob", "R5", "Bob"}, {"carl", "R3", "Carl"}};

static void write_ini(const char *name, int variant, int second)
{
	struct buf b = {0};

	buf_addf(&b,
		"[daemon]\ncallee_id = simulated\nstate_dir = state\ncgroup = off\nstop_timeout = %ds\n"
		"dedup_window = 5000h\n[session]\nmax_duration = 10m\nidle_timeout = %ds\nabort_timeout = "
		"%ds\n"
		"exit_grace = %ds\nmax_extended = %ds\n[retention]\ngrace = 480s\n[limits]\nmessage = "
		"64KiB\n",
		(int)(SIM_STOP_US / SECONDS), (int)(SIM_IDLE_US / SECONDS), (int)(SIM_ABORT_US / SECONDS),
		(int)(SIM_GRACE_US / SECONDS), (int)(SIM_EXTENDED_US / SECONDS));
	for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++)
		if (!second || strcmp(capabilities[i].name, "narrow") != 0)
			buf_addf(&b, "[capability %s]\ndeclaration = %s%s.json\ncommand = /bin/true %s\n%s",
				capabilities[i].name, capabilities[i].name,
				second && strcmp(capabilities[i].name, "asked") == 0 ? "-raised" : "",
				capabilities[i].name, capabilities[i].keys);
	buf_addf(&b, "[approval]\nexpires = %ds\ntwo_person = R5\n", (int)(SIM_EXPIRES_US / SECONDS));
	for (int i = 0; i < APPROVERS; i++)
		buf_addf(&b, "[approver %s]\nkey = %s\nmax_risk = %s\nperson = %s\nrevoked = %s\n",
			approvers[i].name, approver_key(i), approvers[i].max_risk, approvers[i].person,
			second && i == 2 ? "yes" : "no");
	buf_addf(&b,
		"[caller alpha]\ncapabilities = *\nmax_risk = R3\n"
		"[caller beta]\ncapabilities = work, plain, reused\nmax_risk = R5\namqp_user = beta-user\n"
		"[caller gamma]\ncapabilities = *\nmax_risk = R5\n%s",
		variants[variant][second]);
	write_file(name, buf_text(&b));
	buf_fini(&b);
}

static void write_declaration(
	const char *capability, const char *more, const char *safety, const char *constraints)
{
	struct buf b = {0};
	char name[64];
	bool asks = strcmp(capability, "asked") == 0 || strcmp(capability, "grave") == 0;

	buf_addf(&b,
		"{\"capability\":{\"name\":\"%s\",\"version\":\"1.2.3\",\"description\":\"d\",\"input_"
		"schema\":{},"
		"\"output_schema\":{},\"safety\":{\"risk_ceiling\":\"%s\",\"requires_human_approval\":%s,"
		"\"involves_physical_resources\":false},\"constraints\":{%s}}}",
		capability, safety, asks ? "true" : "false", constraints);
	snprintf(name, sizeof name, "%s%s.json", capability, more);
	write_file(name, buf_text(&b));
	buf_fini(&b);
}

static void write_declarations(void)
{
	for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++)
		write_declaration(
			capabilities[i].name, "", capabilities[i].safety, capabilities[i].constraints);
	write_declaration("asked", "-raised", raised, "");
}

void setup_init(const char *in)
{
	char name[64];

	snprintf(dir, sizeof dir, "%s", in);
	approver_init(dir);
	write_declarations();
	for (int v = 0; v < VARIANTS; v++)
		for (int second = 0; second < 2; second++) {
			snprintf(name, sizeof name, "v%d-%d.ini", v, second);
			write_ini(name, v, second);
			snprintf(inis[v][second], sizeof inis[v][second], "%s/%s", dir, name);
			policies[v][second] = policy_load(inis[v][second], say, NULL);
		}
	write_file("broken.ini", "[daemon]\nnonsense = 1\n");
	snprintf(broken_ini, sizeof broken_ini, "%s/broken.ini", dir);
}

void setup_fini(void)
{
	for (int v = 0; v < VARIANTS; v++)
		for (int second = 0; second < 2; second++)
			policy_unref(policies[v][second]);
	approver_fini();
}

bool setup_has_program(bool second)
{
	return strstr(variants[sim.variant][second], "[policy]") != NULL;
}

struct policy *setup_policy(void)
{
	return policy_ref(policies[sim.variant][sim.reloaded]);
}

const char *setup_ini(bool broken)
{
	return broken ? broken_ini : inis[sim.variant][sim.reloaded];
}
