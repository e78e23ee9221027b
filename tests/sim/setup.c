/* setup.c: the configurations of the simulation: capabilities of every kind, and a few sets of limits, each with a
 * second one to reload. Written to real files, since the daemon reads them; loaded once. */
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
	{"again", "recovery = restart\nmax_attempts = 3\nretry_delay = 2s\n", "R2", ""},
	{"never", "recovery = fail\n", "R2", ""},
	{"plain", "protocol = text\n", "R2", ""},
	{"reused", "reuse = 2\nkeep_workdir = never\n", "R2", ""},
	{"narrow", "pause_frees_worker = yes\nmax_attempts = 2\n", "R2", "\"concurrent_limit\":1"},
	{"brief", "", "R2", "\"max_duration\":\"PT10S\""},
	{"risky", "", "R4", ""},
};

static const char *const variants[VARIANTS][2] = {
	{"[daemon]\nmax_sessions = 3\nmax_pending = 3\n[session]\nmax_outbox = 8KiB\n[amqp]\nwindow_messages = 7\n",
		"[daemon]\nmax_sessions = 2\nmax_pending = 2\n[session]\nmax_outbox = 4KiB\n[amqp]\nwindow_messages = 7\n"},
	{"[daemon]\nmax_sessions = 8\n[session]\nmax_outbox_total = 8KiB\nmax_outbox = 8KiB\n",
		"[daemon]\nmax_sessions = 4\n"},
	{"[store]\non_error = exit\n[daemon]\nmax_sessions = 4\nmax_pending = 8\n[amqp]\nwindow_messages = 100\n",
		"[store]\non_error = retry\n[daemon]\nmax_sessions = 6\n[amqp]\nwindow_messages = 100\n"},
};

static void write_ini(const char *name, int variant, int second)
{
	struct buf b = {0};

	buf_addf(&b, "[daemon]\ncallee_id = simulated\nstate_dir = state\ncgroup = off\nstop_timeout = %ds\n"
		"dedup_window = 5000h\n[session]\nmax_duration = 10m\nidle_timeout = %ds\nabort_timeout = %ds\n"
		"exit_grace = %ds\n[limits]\nmessage = 64KiB\n", (int)(SIM_STOP_US / SECONDS),
		(int)(SIM_IDLE_US / SECONDS), (int)(SIM_ABORT_US / SECONDS), (int)(SIM_GRACE_US / SECONDS));
	for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++)
		if (!second || strcmp(capabilities[i].name, "narrow") != 0)
			buf_addf(&b, "[capability %s]\ndeclaration = %s.json\ncommand = /bin/true %s\n%s",
				capabilities[i].name, capabilities[i].name, capabilities[i].name, capabilities[i].keys);
	buf_addf(&b, "[caller alpha]\ncapabilities = *\nmax_risk = R3\n"
		"[caller beta]\ncapabilities = work, plain, reused\nmax_risk = R5\namqp_user = beta-user\n%s",
		variants[variant][second]);
	write_file(name, buf_text(&b));
	buf_fini(&b);
}

static void write_declarations(void)
{
	for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++) {
		struct buf b = {0};
		char name[64];

		buf_addf(&b, "{\"capability\":{\"name\":\"%s\",\"version\":\"1.2.3\",\"description\":\"d\",\"input_schema\":{},"
			"\"output_schema\":{},\"safety\":{\"risk_ceiling\":\"%s\",\"requires_human_approval\":false,"
			"\"involves_physical_resources\":false},\"constraints\":{%s}}}",
			capabilities[i].name, capabilities[i].safety, capabilities[i].constraints);
		snprintf(name, sizeof name, "%s.json", capabilities[i].name);
		write_file(name, buf_text(&b));
		buf_fini(&b);
	}
}

void setup_init(const char *in)
{
	char name[64];

	snprintf(dir, sizeof dir, "%s", in);
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
}

struct policy *setup_policy(void)
{
	return policy_ref(policies[sim.variant][sim.reloaded]);
}

const char *setup_ini(bool broken)
{
	return broken ? broken_ini : inis[sim.variant][sim.reloaded];
}
