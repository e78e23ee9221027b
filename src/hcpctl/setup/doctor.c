/* SPDX-License-Identifier: MIT */
/* doctor.c: `hcpctl doctor`: what is wrong with an hcpd and its surroundings, and what to do about it.
 * Owns the order of the checks, how findings are printed, and running a check as another user.
 * Never repairs anything: doctor_*.c find, a person acts. */
#include "hcpctl/setup/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "hcpctl/common/command.h"

#define ANSWER_S 5 /* of the control socket */

static const char help[] =
	"usage: hcpctl doctor [--daemon-config FILE] [--user NAME] [--rabbitmqctl COMMAND] [--json]\n\n"
	"Looks at everything that hcpd needs: its configuration, state directory and store, the broker with "
	"its exchanges,\n"
	"queues and permissions, the commands of its capabilities, clock, kernel and limits. Each finding is "
	"OK, WARN or\n"
	"FAIL, with a line that says what to do; SKIP is what could not be looked at. Changes nothing. Best "
	"run as root on\n"
	"the daemon's machine; works as anybody, with the daemon up or down.\n\n"
	"      --daemon-config FILE   the daemon's configuration; default /etc/hcpd/hcpd.ini "
	"(HCP_DAEMON_CONFIG)\n"
	"      --user NAME            the user that runs hcpd, where it is not running\n"
	"      --rabbitmqctl COMMAND  ask the broker also with this, e.g. 'sudo rabbitmqctl': permissions, "
	"policies, bindings\n"
	"      --json                 one JSON object a finding\n"
	"\nExample:\n"
	"  sudo hcpctl doctor --rabbitmqctl rabbitmqctl\n"
	"\nExit status: 0 where nothing is FAIL, else 1.\n";

/* --- findings --- */

static const char *const level_words[] = {"OK", "WARN", "FAIL", "SKIP"};
static const char *const level_names[] = {"ok", "warn", "fail", "skip"};

static void add_line(struct buf *out, const char *text)
{
	ctl_escape(out, text, strlen(text), false);
}

static void write_json(
	int fd, FILE *f, const char *level, const char *subject, const char *what, const char *todo)
{
	struct buf b = {0};

	buf_add_text(&b, "{\"subject\":");
	buf_add_json(&b, subject, strlen(subject));
	buf_addf(&b, ",\"level\":\"%s\",\"what\":", level);
	buf_add_json(&b, what, strlen(what));
	buf_add_text(&b, ",\"todo\":");
	if (todo)
		buf_add_json(&b, todo, strlen(todo));
	else
		buf_add_text(&b, "null");
	buf_add_text(&b, "}\n");
	if (f)
		fwrite(b.data, 1, b.size, f);
	else if (write(fd, b.data, b.size) < 0)
		_exit(1); /* the parent is gone: there is no reader for the finding */
	buf_fini(&b);
}

static void write_text(enum doctor_level level, const char *subject, const char *what, const char *todo)
{
	struct buf b = {0};

	buf_addf(&b, "%-5s %-11s ", level_words[level], subject);
	add_line(&b, what);
	if (todo) {
		buf_add_text(&b, "\n                  -> ");
		add_line(&b, todo);
	}
	buf_add_text(&b, "\n");
	fwrite(b.data, 1, b.size, stdout);
	buf_fini(&b);
}

static void report(
	struct doctor *d, enum doctor_level level, const char *subject, const char *what, const char *todo)
{
	if (d->is_child) {
		write_json(d->fd, NULL, level_names[level], subject, what, todo);
		return;
	}
	d->count[level]++;
	if (d->voice == DOCTOR_JSON)
		write_json(-1, stdout, level_names[level], subject, what, todo);
	else if (d->voice == DOCTOR_TEXT)
		write_text(level, subject, what, todo);
	else if (level == DOCTOR_WARN || level == DOCTOR_FAIL)
		ctl_say("warning: %s%s%s", what, todo ? "; " : "", todo ? todo : "");
	if (d->voice == DOCTOR_TEXT)
		fflush(stdout); /* print now: some checks take long */
}

void doctor_say(struct doctor *d, enum doctor_level level, const char *subject, const char *todo,
	const char *fmt, ...)
{
	char *what;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&what, fmt, ap) < 0)
		abort();
	va_end(ap);
	report(d, level, subject, what, todo);
	free(what);
}

/* How the advice in a text of config, policy and amqp/connection begins. */
static const char *const advice[] = {"a name is", "add", "allow", "are", "check", "chmod", "choose",
	"correct", "declare", "did you mean", "does it", "for a", "give", "hcpctl", "hcpd's user needs",
	"install", "is", "leave", "lower", "make", "move", "name", "put", "raise", "set", "start", "use",
	"write"};

static bool is_advice(const char *text)
{
	for (size_t i = 0; i < sizeof advice / sizeof *advice; i++) {
		size_t size = strlen(advice[i]);

		if (strncmp(text, advice[i], size) == 0 && (text[size] == ' ' || text[size] == '\0'))
			return true;
	}
	return false;
}

/* Cut only where an advice begins: a text may have "; " in the value that it names, in its reason, and in the
 * advice itself. */
void doctor_say_text(struct doctor *d, enum doctor_level level, const char *subject, const char *text)
{
	char *what = xstrdup(text), *todo = strstr(what, "; ");

	while (todo && !is_advice(todo + 2))
		todo = strstr(todo + 2, "; ");
	if (todo) {
		*todo = '\0';
		todo += 2;
	}
	report(d, level, subject, what, todo);
	free(what);
}

/* --- as another user --- */

static void become(uid_t uid, gid_t gid, const char *user)
{
	if (initgroups(user, gid) < 0 && setgroups(1, &gid) < 0)
		_exit(1);
	if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		_exit(1);
}

static enum doctor_level find_level(const char *name)
{
	for (int i = 0; i < DOCTOR_LEVELS; i++)
		if (strcmp(name, level_names[i]) == 0)
			return (enum doctor_level)i;
	return DOCTOR_SKIP;
}

static void take_findings(struct doctor *d, int fd)
{
	FILE *f = fdopen(fd, "r");
	char *line = NULL;
	size_t room = 0;

	if (!f)
		abort();
	while (getline(&line, &room, f) > 0) {
		json_t *finding = json_loads(line, 0, NULL);
		const char *level, *subject, *what, *todo = NULL;

		if (finding &&
			json_unpack(finding, "{s:s, s:s, s:s, s?:s}", "subject", &subject, "level", &level,
				"what", &what, "todo", &todo) < 0) {
			todo = NULL;
			if (json_unpack(finding, "{s:s, s:s, s:s}", "subject", &subject, "level", &level,
				    "what", &what) < 0)
				subject = NULL;
		}
		if (finding && subject)
			report(d, find_level(level), subject, what, todo);
		json_decref(finding);
	}
	free(line);
	fclose(f);
}

/* user NULL: the current user. seconds 0: no limit. */
static void run_apart(struct doctor *d, const char *subject, uid_t uid, gid_t gid, const char *user,
	unsigned seconds, doctor_check_fn *check, const void *ctx)
{
	int ends[2], status = 0;
	pid_t child;

	fflush(NULL);
	if (pipe2(ends, O_CLOEXEC) < 0 || (child = fork()) < 0) {
		doctor_say(d, DOCTOR_SKIP, subject, NULL, "cannot be looked at: %s", strerror(errno));
		return;
	}
	if (child == 0) {
		if (user)
			become(uid, gid, user);
		alarm(seconds);
		d->is_child = true;
		d->fd = ends[1];
		check(d, ctx);
		_exit(0);
	}
	close(ends[1]);
	take_findings(d, ends[0]);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		doctor_say(d, DOCTOR_FAIL, subject,
			"see its log (journalctl -u hcpd) for where it stands, then systemctl restart hcpd",
			"hcpd runs and hangs: no answer on its control socket within %u s", seconds);
	else if (status != 0)
		doctor_say(d, DOCTOR_SKIP, subject, NULL, "the look at it broke off");
}

void doctor_as(struct doctor *d, uid_t uid, gid_t gid, const char *user, const char *subject,
	const char *what, doctor_check_fn *check, const void *ctx)
{
	if (geteuid() == uid) {
		check(d, ctx);
		return;
	}
	if (geteuid() != 0) {
		doctor_say(d, DOCTOR_SKIP, subject, "run it as root, or as that user",
			"%s: only user %s could say more", what, user);
		return;
	}
	run_apart(d, subject, uid, gid, user, 0, check, ctx);
}

void doctor_apart(
	struct doctor *d, const char *subject, unsigned seconds, doctor_check_fn *check, const void *ctx)
{
	run_apart(d, subject, 0, 0, NULL, seconds, check, ctx);
}

/* --- the order --- */

const char *doctor_config_path(const struct ctl_options *o, const struct ctl_settings *s)
{
	if (s && s->daemon_config)
		return s->daemon_config;
	return o->daemon_config ? o->daemon_config : "/etc/hcpd/hcpd.ini";
}

/* hcpctl's own file: if it is broken, no other command works. */
static void on_setting(void *ctx, bool is_error, const char *text)
{
	doctor_say_text(ctx, is_error ? DOCTOR_FAIL : DOCTOR_WARN, "hcpctl", text);
}

/* Each check needs results of the checks before it. */
static void check_all(struct doctor *d, const struct ctl_settings *s)
{
	doctor_check_config(d);
	if (d->config) {
		doctor_check_shared(d);
		doctor_find_daemon(d);
		if (d->pid && s &&
			strcmp(d->config->control_socket ? d->config->control_socket : "", "off") != 0)
			doctor_apart(d, "daemon", ANSWER_S, doctor_check_answers, s);
		doctor_check_socket(d);
		doctor_check_state(d);
		doctor_check_commands(d);
		if (d->config->amqp.tls)
			doctor_check_tls(d);
		if (doctor_check_broker(d)) {
			doctor_check_topology(d);
			doctor_check_rights(d);
		} else {
			doctor_say(d, DOCTOR_SKIP, "topology", NULL,
				"exchanges, queues and permissions cannot be seen without the broker");
		}
		if (d->rabbitmqctl)
			doctor_check_listed(d);
		else
			doctor_say(d, DOCTOR_SKIP, "permissions",
				"run it where the broker runs, with --rabbitmqctl rabbitmqctl",
				"callers' permissions, policies and bindings do not show over AMQP");
	} else {
		doctor_say(d, DOCTOR_SKIP, "config", NULL,
			"state directory, broker and commands are not looked at: only a good configuration "
			"says which ones");
	}
	doctor_check_host(d);
}

int doctor_end_output(int status)
{
	/* An earlier write may have failed while this flush succeeds. */
	bool failed = ferror(stdout);

	errno = 0;
	if (fflush(stdout) == 0 && !failed)
		return status;
	ctl_say("the standard output cannot be written%s%s", errno ? ": " : "", errno ? strerror(errno) : "");
	return CTL_ERROR;
}

static int finish(struct doctor *d)
{
	if (d->voice == DOCTOR_TEXT)
		printf("\n%d to mend, %d to think about, %d good, %d not looked at\n", d->count[DOCTOR_FAIL],
			d->count[DOCTOR_WARN], d->count[DOCTOR_OK], d->count[DOCTOR_SKIP]);
	config_free(d->config);
	return doctor_end_output(d->count[DOCTOR_FAIL] ? CTL_ERROR : CTL_OK);
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	enum { OPT_USER = 256, OPT_CTL, OPT_JSON };
	static const struct option options[] = {{"user", required_argument, NULL, OPT_USER},
		{"rabbitmqctl", required_argument, NULL, OPT_CTL}, {"json", no_argument, NULL, OPT_JSON},
		CTL_OPERATOR_OPTIONS};
	struct doctor d = {.fd = -1};
	struct ctl_settings settings;
	bool has_settings;
	int c, status;

	while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (c) {
		case OPT_USER: d.asked_user = optarg; break;
		case OPT_CTL: d.rabbitmqctl = optarg; break;
		case OPT_JSON: d.voice = DOCTOR_JSON; break;
		default:
			if ((status = ctl_command_option(c, argv, &ctl_doctor, o)) >= 0)
				return c == 'h' ? doctor_end_output(status) : status;
		}
	}
	if (optind < argc)
		return ctl_command_usage("doctor ", "doctor takes no %s", argv[optind]);
	has_settings = ctl_settings_load(&settings, o, on_setting, &d) == 0;
	d.path = doctor_config_path(o, has_settings ? &settings : NULL);
	check_all(&d, has_settings ? &settings : NULL);
	if (has_settings)
		ctl_settings_fini(&settings);
	return finish(&d);
}

const struct ctl_command ctl_doctor = {
	.name = "doctor", .summary = "look for what is wrong, and say what to do", .help = help, .run = run};
