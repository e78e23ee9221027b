/* SPDX-License-Identifier: MIT */
/* table.c: every key there is, and how its text becomes a value.
 * Owns names, types, defaults and ranges: nothing else in the program knows a default.
 * Never looks at two keys at once (config.c), never reads a file. */
#include "base/name.h"
#include "base/buf.h"
#include "config/table_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/duration.h"
#include "base/shellwords.h"

#define MS INT64_C(1000)
#define S (1000 * MS)
#define MIN (60 * S)
#define H (60 * MIN)
#define D (24 * H)
#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const queue_types[] = {"classic", "quorum", NULL};
static const char *const sasls[] = {"plain", "external", NULL};
static const char *const on_errors[] = {"retry", "exit", NULL};
static const char *const protocols[] = {"hcp", "text", NULL};
static const char *const landlocks[] = {"no", "state", "yes", NULL};
static const char *const on_starts[] = {"auto", "ask", NULL};
static const char *const on_idles[] = {"fail", "pause", NULL};
static const char *const workdirs[] = {"local", "no", NULL};
static const char *const keeps[] = {"never", "failed", "always", NULL};
static const char *const two_persons[] = {"off", RISKS, NULL};

#define IN(field) .offset = offsetof(struct config, field)
#define IN_CAPABILITY(field) .offset = offsetof(struct config_capability, field)
#define IN_CALLER(field) .offset = offsetof(struct config_caller, field)
#define IN_APPROVER(field) .offset = offsetof(struct config_approver, field)

const struct config_key config_keys[] = {
	{KIND_DAEMON, "callee_id", TYPE_CALLEE_ID, NULL, IN(callee_id), .is_required = true,
		.help = "1 to 128 letters, digits, - and _; callers address the daemon by it"},
	{KIND_DAEMON, "state_dir", TYPE_PATH, "/var/lib/hcpd", IN(state_dir), .help = "a directory"},
	{KIND_DAEMON, "max_sessions", TYPE_INT, "256", 1, 100000, IN(max_sessions),
		.help = "sessions that run at once"},
	{KIND_DAEMON, "max_pending", TYPE_INT, "10000", 1, 10000000, IN(max_pending),
		.help = "tasks that wait for a slot or a human"},
	{KIND_DAEMON, "stop_timeout", TYPE_DURATION, "30s", 100 * MS, D, IN(stop_timeout_us),
		.help = "within which a stop is done"},
	{KIND_DAEMON, "dedup_window", TYPE_DURATION, "24h", S, 3650 * D, IN(dedup_window_us),
		.help = "how long a submit is remembered"},
	{KIND_DAEMON, "log_level", TYPE_CHOICE, "info", .choices = log_levels, IN(log_level)},
	{KIND_DAEMON, "cgroup", TYPE_CGROUP, "auto", IN(cgroup),
		.help = "auto, off, or the absolute path of a directory"},
	{KIND_DAEMON, "on_start", TYPE_CHOICE, "auto", .choices = on_starts, IN(on_start)},
	{KIND_DAEMON, "dumpable", TYPE_BOOL, "no", IN(dumpable)},

	{KIND_AMQP, "url", TYPE_LATER, "amqp://guest:guest@127.0.0.1:5672/%2F",
		.help = "amqp://user:password@host:port/vhost"},
	{KIND_AMQP, "password_file", TYPE_LATER, NULL, .help = "a path, or credential:NAME"},
	{KIND_AMQP, "sasl", TYPE_CHOICE, "plain", .choices = sasls, IN(amqp.sasl)},
	{KIND_AMQP, "ca_file", TYPE_PATH, NULL, IN(amqp.ca_file), .help = "a PEM file"},
	{KIND_AMQP, "cert_file", TYPE_PATH, NULL, IN(amqp.cert_file), .help = "a PEM file"},
	{KIND_AMQP, "key_file", TYPE_PATH, NULL, IN(amqp.key_file), .help = "a PEM file"},
	{KIND_AMQP, "verify", TYPE_BOOL, "yes", IN(amqp.verify)},
	{KIND_AMQP, "heartbeat", TYPE_INT, "30", 1, 3600, IN(amqp.heartbeat_s),
		.help = "seconds; 0 would leave a dead connection unnoticed"},
	{KIND_AMQP, "queue_type", TYPE_CHOICE, "classic", .choices = queue_types, IN(amqp.queue_type)},
	{KIND_AMQP, "reconnect_max", TYPE_DURATION, "60s", 100 * MS, D, IN(amqp.reconnect_max_us),
		.help = "the longest wait between two attempts"},
	{KIND_AMQP, "prefetch", TYPE_INT, "200", 1, 65535, IN(amqp.prefetch),
		.help = "commands in hand at once"},
	{KIND_AMQP, "window_messages", TYPE_INT, "1000", 1, 1000000, IN(amqp.window_messages),
		.help = "messages published and not confirmed"},
	{KIND_AMQP, "window_bytes", TYPE_SIZE, "1MiB", KIB, GIB, IN(amqp.window_bytes),
		.help = "bytes published and not confirmed"},

	{KIND_STORE, "on_error", TYPE_CHOICE, "retry", .choices = on_errors, IN(store_on_error)},
	{KIND_STORE, "encrypted", TYPE_BOOL, "no", IN(store_is_encrypted)},

	{KIND_CONTROL, "socket", TYPE_SOCKET, NULL, IN(control_socket),
		.help = "off, or a path of at most 107 bytes"},
	{KIND_CONTROL, "group", TYPE_TEXT, NULL, IN(control_group), .help = "a group of /etc/group"},

	{KIND_SESSION, "max_duration", TYPE_DURATION, "1h", 100 * MS, 3650 * D, IN(max_duration_us),
		.help = "how long a session may take; there is no unlimited"},
	{KIND_SESSION, "idle_timeout", TYPE_DURATION, "0", 0, 3650 * D, IN(idle_timeout_us),
		.help = "0 is off"},
	{KIND_SESSION, "on_idle", TYPE_CHOICE, "fail", .choices = on_idles, IN(on_idle)},
	{KIND_SESSION, "abort_timeout", TYPE_DURATION, "30s", 100 * MS, D, IN(abort_timeout_us),
		.help = "within which an aborted session's processes are gone"},
	{KIND_SESSION, "exit_grace", TYPE_DURATION, "5s", 0, D, IN(exit_grace_us),
		.help = "that a worker has to exit after its result"},
	{KIND_SESSION, "artifact_timeout", TYPE_DURATION, "10m", S, D, IN(artifact_timeout_us),
		.help = "how long a session's end waits for its artifacts to be stored"},
	{KIND_SESSION, "pause_grace", TYPE_DURATION, "0", 0, 3650 * D, IN(pause_grace_us),
		.help = "how long a session may stay PAUSED; 0 is off"},
	{KIND_SESSION, "max_extended", TYPE_DURATION, "24h", 0, 3650 * D, IN(max_extended_us),
		.help = "how far from its first start a session's deadline may be moved; 0: not at all"},
	{KIND_SESSION, "max_outbox", TYPE_SIZE, "64MiB", KIB, 1024 * GIB, IN(max_outbox),
		.help = "unconfirmed bytes of one session"},
	{KIND_SESSION, "max_outbox_total", TYPE_SIZE, "1GiB", KIB, 16384 * GIB, IN(max_outbox_total),
		.help = "unconfirmed bytes of all sessions"},

	{KIND_LIMITS, "message", TYPE_SIZE, "1MiB", 32 * KIB, 512 * MIB, IN(max_message),
		.help = "the largest message taken or sent"},
	{KIND_LIMITS, "line", TYPE_SIZE, "4MiB", 4 * KIB, GIB, IN(max_line),
		.help = "the longest line of a worker"},
	{KIND_LIMITS, "lines_total", TYPE_SIZE, "64MiB", 4 * KIB, 64 * GIB, IN(max_lines_total),
		.help = "memory for lines of all workers that are coming in"},
	{KIND_LIMITS, "json_depth", TYPE_INT, "64", 8, 1024, IN(max_depth), .help = "levels of nesting"},
	{KIND_LIMITS, "checkpoint_state", TYPE_SIZE, "3MiB", KIB, GIB, IN(max_checkpoint),
		.help = "the largest state of a checkpoint"},
	{KIND_LIMITS, "text_output", TYPE_SIZE, "64KiB", KIB, 512 * MIB, IN(max_text_output),
		.help = "how much of a text worker's output its result keeps"},
	{KIND_LIMITS, "artifact", TYPE_SIZE, "1GiB", 0, 16384 * GIB, IN(max_artifact),
		.help = "the largest file kept as an artifact; 0 keeps only empty ones"},
	{KIND_LIMITS, "artifacts_total", TYPE_SIZE, "4GiB", 0, 16384 * GIB, IN(max_artifacts_total),
		.help = "all artifacts of a session together"},

	{KIND_POLICY, "command", TYPE_COMMAND, NULL, IN(policy_command),
		.help = "a program that has the last word on tasks, and its arguments"},
	{KIND_POLICY, "timeout", TYPE_DURATION, "2s", 10 * MS, 10 * MIN, IN(policy_timeout_us),
		.help = "within which it answers; no answer is a denial"},

	{KIND_APPROVAL, "expires", TYPE_DURATION, "24h", S, 3650 * D, IN(approval_expires_us),
		.help = "how long a task waits for a human's decision"},
	{KIND_APPROVAL, "two_person", TYPE_CHOICE, "off", .choices = two_persons, IN(two_person)},

	{KIND_RETENTION, "grace", TYPE_DURATION, "0", 0, 36500 * D, IN(retain_grace_us),
		.help = "how long an ended session stays in the store; 0 is for ever"},
	{KIND_RETENTION, "archive", TYPE_BOOL, "yes", IN(retain_archives)},
	{KIND_RETENTION, "expire", TYPE_DURATION, "0", 0, 36500 * D, IN(retain_expire_us),
		.help = "how long after its end anything of a session is kept; 0 is for ever"},

	{KIND_CAPABILITY, "declaration", TYPE_PATH, NULL, IN_CAPABILITY(declaration), .is_required = true,
		.help = "the path of its JSON file"},
	{KIND_CAPABILITY, "command", TYPE_COMMAND, NULL, IN_CAPABILITY(command), .is_required = true,
		.help = "the program that does the work, and its arguments"},
	{KIND_CAPABILITY, "protocol", TYPE_CHOICE, "hcp", .choices = protocols, IN_CAPABILITY(protocol)},
	{KIND_CAPABILITY, "recovery", TYPE_CHOICE, "resume", .choices = recovery_names,
		IN_CAPABILITY(recovery)},
	{KIND_CAPABILITY, "max_attempts", TYPE_INT, "1", 1, 1000, IN_CAPABILITY(max_attempts),
		.help = "how often a worker may die in a session; the last death is its end"},
	{KIND_CAPABILITY, "retry_delay", TYPE_DURATION, "1s", 10 * MS, MIN, IN_CAPABILITY(retry_delay_us),
		.help = "before a dead worker is started again; doubles each time, up to 60s"},
	{KIND_CAPABILITY, "pause_frees_worker", TYPE_BOOL, "no", IN_CAPABILITY(pause_frees_worker)},
	{KIND_CAPABILITY, "state_version", TYPE_TEXT, NULL, IN_CAPABILITY(state_version),
		.help = "MAJOR or MAJOR.MINOR of the states that its workers can go on from"},
	{KIND_CAPABILITY, "migrate", TYPE_COMMAND, NULL, IN_CAPABILITY(migrate),
		.help = "a program that brings a state of another major to this one, and its arguments"},
	{KIND_CAPABILITY, "checkpoint_full_every", TYPE_INT, "10", 1, 1000,
		IN_CAPABILITY(checkpoint_full_every),
		.help = "every so many checkpoints one is stored whole; 1: all are"},
	{KIND_CAPABILITY, "checkpoint_steps", TYPE_INT, "5", 0, 1000000, IN_CAPABILITY(checkpoint_steps),
		.help = "steps after which a checkpoint is asked for; 0 is off"},
	{KIND_CAPABILITY, "checkpoint_interval", TYPE_DURATION, "10m", S, 3650 * D, .zero_is_off = true,
		IN_CAPABILITY(checkpoint_interval_us),
		.help = "after which a checkpoint is asked for; 0 is off"},
	{KIND_CAPABILITY, "checkpoint_adaptive", TYPE_BOOL, "no", IN_CAPABILITY(checkpoint_adaptive)},
	{KIND_CAPABILITY, "checkpoint_before_action", TYPE_BOOL, "no",
		IN_CAPABILITY(checkpoint_before_action)},
	{KIND_CAPABILITY, "continuity_recent", TYPE_INT, "0", 0, 100, IN_CAPABILITY(continuity_recent),
		.help = "records of earlier sessions that the start line has; 0 is off"},
	{KIND_CAPABILITY, "reuse", TYPE_INT, "1", 1, 1000000, IN_CAPABILITY(reuse),
		.help = "sessions that one process may serve"},
	{KIND_CAPABILITY, "env", TYPE_LATER, NULL,
		.help = "NAME=value, separated by spaces, quoted as in a shell"},
	{KIND_CAPABILITY, "pass_env", TYPE_LATER, NULL, .help = "names, separated by spaces or commas"},
	{KIND_CAPABILITY, "env_file", TYPE_LATER, NULL, .help = "the path of a file of NAME=value lines"},
	{KIND_CAPABILITY, "workdir", TYPE_CHOICE, "local", .choices = workdirs, IN_CAPABILITY(workdir)},
	{KIND_CAPABILITY, "keep_workdir", TYPE_CHOICE, "failed", .choices = keeps,
		IN_CAPABILITY(keep_workdir)},
	{KIND_CAPABILITY, "harp", TYPE_BOOL, "no", IN_CAPABILITY(harp)},
	{KIND_CAPABILITY, "user", TYPE_TEXT, NULL, IN_CAPABILITY(confine.user),
		.help = "NAME or NAME:GROUP, as they stand in /etc/passwd and /etc/group"},
	{KIND_CAPABILITY, "landlock", TYPE_CHOICE, "state", .choices = landlocks,
		IN_CAPABILITY(confine.landlock)},
	{KIND_CAPABILITY, "landlock_read", TYPE_PATHS, NULL, IN_CAPABILITY(confine.landlock_read),
		.help = "paths, separated by spaces or commas"},
	{KIND_CAPABILITY, "landlock_write", TYPE_PATHS, NULL, IN_CAPABILITY(confine.landlock_write),
		.help = "paths, separated by spaces or commas"},
	{KIND_CAPABILITY, "limit_memory", TYPE_SIZE, "0", 0, 16384 * GIB, IN_CAPABILITY(confine.limit_memory),
		.help = "address space of each process; 0 is no limit"},
	{KIND_CAPABILITY, "limit_cpu", TYPE_DURATION, "0", 0, 3650 * D, IN_CAPABILITY(confine.limit_cpu_us),
		.help = "processor time of each process; 0 is no limit"},
	{KIND_CAPABILITY, "limit_processes", TYPE_INT, "0", 0, 4194304,
		IN_CAPABILITY(confine.limit_processes),
		.help = "processes and threads of the worker's user; 0 is no limit"},
	{KIND_CAPABILITY, "limit_files", TYPE_INT, "0", 0, 1048576, IN_CAPABILITY(confine.limit_files),
		.help = "open files of each process; 0 is 1024, which it may raise itself"},
	{KIND_CAPABILITY, "limit_file_size", TYPE_SIZE, "0", 0, 16384 * GIB,
		IN_CAPABILITY(confine.limit_file_size),
		.help = "the largest file it may write; 0 is no limit"},
	{KIND_CAPABILITY, "limit_core", TYPE_SIZE, "0", 0, 16384 * GIB, IN_CAPABILITY(confine.limit_core),
		.help = "the largest core dump; 0 is none at all"},
	{KIND_CAPABILITY, "cgroup_memory_max", TYPE_SIZE, "0", 0, 16384 * GIB,
		IN_CAPABILITY(confine.cgroup_memory_max), .help = "memory of a session; 0 is no limit"},
	{KIND_CAPABILITY, "cgroup_pids_max", TYPE_INT, "0", 0, 4194304,
		IN_CAPABILITY(confine.cgroup_pids_max),
		.help = "processes and threads of a session; 0 is no limit"},
	{KIND_CAPABILITY, "cgroup_cpu_max", TYPE_INT, "0", 0, 1000000, IN_CAPABILITY(confine.cgroup_cpu_max),
		.help = "percent of one processor for a session; 0 is no limit"},

	{KIND_CALLER, "capabilities", TYPE_LIST, "", IN_CALLER(capabilities),
		.help = "names, separated by commas, or * for all"},
	{KIND_CALLER, "max_risk", TYPE_CHOICE, "R3", .choices = risk_names, IN_CALLER(max_risk)},
	{KIND_CALLER, "max_data_class", TYPE_CHOICE, "T4", .choices = data_class_names,
		IN_CALLER(max_data_class)},
	{KIND_CALLER, "rate_limit", TYPE_RATE, "off", IN_CALLER(rate),
		.help = "off, or tasks for a time, up to 1000000: 2/s, 60/min, 1000/h or 5000/d"},
	{KIND_CALLER, "rate_burst", TYPE_INT, "10", 1, 10000, IN_CALLER(rate.burst),
		.help = "tasks that may come at once after a rest"},
	{KIND_CALLER, "max_pending", TYPE_INT, "0", 0, 10000000, IN_CALLER(max_pending),
		.help = "tasks of the caller that wait; 0 is no limit of its own"},
	{KIND_CALLER, "max_running", TYPE_INT, "0", 0, 100000, IN_CALLER(max_running),
		.help = "sessions of the caller that run at once; 0 is no limit of its own"},
	{KIND_CALLER, "max_priority", TYPE_CHOICE, "urgent", .choices = priority_names,
		IN_CALLER(max_priority)},
	{KIND_CALLER, "weight", TYPE_INT, "1", 1, 1000, IN_CALLER(weight),
		.help = "turns that the caller has for each turn of a caller with weight 1"},
	{KIND_CALLER, "amqp_user", TYPE_TEXT, NULL, IN_CALLER(amqp_user), .help = "a user of the broker"},

	{KIND_APPROVER, "key", TYPE_TEXT, NULL, IN_APPROVER(key), .is_required = true,
		.help = "the line ed25519:... that `hcpctl keygen` prints"},
	{KIND_APPROVER, "max_risk", TYPE_CHOICE, "R3", .choices = risk_names, IN_APPROVER(max_risk)},
	{KIND_APPROVER, "person", TYPE_TEXT, NULL, IN_APPROVER(person), .help = "whose key it is"},
	{KIND_APPROVER, "revoked", TYPE_BOOL, "no", IN_APPROVER(revoked)},
};
const size_t config_key_count = sizeof(config_keys) / sizeof(config_keys[0]);

static const char *const kind_names[KIND_COUNT] = {"daemon", "amqp", "store", "control", "session", "limits",
	"policy", "approval", "retention", "capability", "caller", "approver"};

const char *config_kind_name(enum config_kind kind)
{
	return kind_names[kind];
}

int config_find_kind(const char *name)
{
	for (int i = 0; i < KIND_COUNT; i++)
		if (strcmp(kind_names[i], name) == 0)
			return i;
	return -1;
}

const struct config_key *config_find_key(enum config_kind kind, const char *name)
{
	for (size_t i = 0; i < config_key_count; i++)
		if (config_keys[i].kind == kind && strcmp(config_keys[i].name, name) == 0)
			return &config_keys[i];
	return NULL;
}

void config_list_keys(void)
{
	for (size_t i = 0; i < config_key_count; i++)
		printf("%s %s\n", kind_names[config_keys[i].kind], config_keys[i].name);
}

void config_list_defaults(void)
{
	for (size_t i = 0; i < config_key_count; i++)
		if (config_keys[i].fallback != NULL && config_keys[i].fallback[0] != '\0')
			printf("%s %s %s\n", kind_names[config_keys[i].kind], config_keys[i].name,
				config_keys[i].fallback);
}

void config_suggest_key(enum config_kind kind, const char *name, char *out, size_t size)
{
	const char *names[sizeof(config_keys) / sizeof(config_keys[0])], *near;
	size_t count = 0;

	out[0] = '\0';
	for (size_t i = 0; i < config_key_count; i++) {
		if (config_keys[i].kind == kind)
			names[count++] = config_keys[i].name;
		else if (strcmp(config_keys[i].name, name) == 0)
			snprintf(out, size, "it belongs in [%s]", kind_names[config_keys[i].kind]);
	}
	near = name_find_nearest(name, names, count);
	if (out[0] == '\0' && near)
		snprintf(out, size, "did you mean %s?", near);
	else if (out[0] == '\0')
		snprintf(out, size, "hcpd.ini(5) lists the keys");
}

/* --- text to values --- */

static bool parse_int(const char *text, int64_t *value)
{
	char *end;

	if (*text < '0' || *text > '9') /* strtoll would skip white space and take signs */
		return false;
	errno = 0;
	*value = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0';
}

static bool parse_size(const char *text, int64_t *value)
{
	static const struct {
		const char *name;
		int64_t bytes;
	} units[] = {{"", 1}, {"KiB", KIB}, {"MiB", MIB}, {"GiB", GIB}, {"k", KIB}, {"K", KIB}, {"M", MIB},
		{"G", GIB}};
	char *end;
	long long number;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	number = strtoll(text, &end, 10);
	while (*end == ' ')
		end++;
	for (size_t i = 0; errno == 0 && i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(end, units[i].name) == 0)
			return !__builtin_mul_overflow(number, units[i].bytes, value);
	return false;
}

static int parse_bool(const char *text)
{
	static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};

	for (int i = 0; i < 8; i++)
		if (strcmp(text, words[i]) == 0)
			return i % 2;
	return -1;
}

/* A bound in the form in which one writes values of that type. */
static const char *show(const struct config_key *key, int64_t value, char out[DURATION_TEXT_SIZE])
{
	static const char *const units[] = {"", "KiB", "MiB", "GiB"};
	int unit = 0;

	if (key->type == TYPE_DURATION && value % S == 0 && value < MIN) {
		snprintf(out, DURATION_TEXT_SIZE, "%" PRId64 "s", value / S);
	} else if (key->type == TYPE_DURATION && value < S) {
		snprintf(out, DURATION_TEXT_SIZE, "%" PRId64 "ms", value / MS);
	} else if (key->type == TYPE_DURATION) {
		duration_format(value, out);
	} else {
		for (; key->type == TYPE_SIZE && unit < 3 && value > 0 && value % 1024 == 0; unit++)
			value /= 1024;
		snprintf(out, DURATION_TEXT_SIZE, "%" PRId64 "%s", value, units[unit]);
	}
	return out;
}

static bool convert_number(
	struct config_reader *r, const struct config_key *key, const char *text, int line, void *field)
{
	static const char *const forms[] = {[TYPE_INT] = "a whole number",
		[TYPE_SIZE] = "a size like 65536, 64KiB or 1MiB",
		[TYPE_DURATION] = "a duration like 30s, 10m, 2h or PT1H30M"};
	char low[DURATION_TEXT_SIZE], high[DURATION_TEXT_SIZE];
	int64_t value;
	bool ok = key->type == TYPE_INT ? parse_int(text, &value) :
		key->type == TYPE_SIZE  ? parse_size(text, &value) :
					  duration_parse(text, &value);

	if (!ok || (value < key->min && !(value == 0 && key->zero_is_off)) || value > key->max) {
		config_complain(r, line, "%s = %s is %s; write %s from %s to %s (%s)", key->name, text,
			!ok                      ? "not understood" :
				value < key->min ? "too little" :
						   "too much",
			forms[key->type], show(key, key->min, low), show(key, key->max, high), key->help);
		return false;
	}
	if (key->type == TYPE_INT)
		*(int *)field = (int)value;
	else
		*(int64_t *)field = value;
	return true;
}

static bool convert_choice(
	struct config_reader *r, const struct config_key *key, const char *text, int line, void *field)
{
	struct buf known = {0};
	int count = 0, yes = key->choices == landlocks ? parse_bool(text) : -1;

	if (yes >= 0) /* the other words for yes and no */
		text = yes > 0 ? "yes" : "no";
	for (; key->choices[count]; count++) {
		if (key->choices[count][0] == '\0')
			continue;
		if (strcmp(text, key->choices[count]) == 0) {
			*(int *)field = count; /* enums without negative values are as wide as int */
			buf_fini(&known);
			return true;
		}
		buf_addf(&known, "%s%s", known.size ? ", " : "", key->choices[count]);
	}
	config_complain(r, line, "%s = %s is not known; write one of %s", key->name, text, buf_text(&known));
	buf_fini(&known);
	return false;
}
_Static_assert(sizeof(enum log_level) == sizeof(int) && sizeof(enum risk) == sizeof(int) &&
		sizeof(enum data_class) == sizeof(int),
	"choices are stored as int");

static bool convert_text(
	struct config_reader *r, const struct config_key *key, const char *text, int line, char **field)
{
	char *plain = shellwords_unquote(text), *path;
	bool ok = *plain != '\0';

	if (key->type == TYPE_CALLEE_ID)
		ok = name_is_valid(plain, "-_");
	else if (key->type == TYPE_CGROUP)
		ok = strcmp(plain, "auto") == 0 || strcmp(plain, "off") == 0 || *plain == '/';
	else if (key->type == TYPE_TEXT)
		ok = ok && strlen(plain) <= 255; /* what an AMQP short string holds */
	if (!ok) {
		config_complain(r, line, "%s = %s does not do; write %s", key->name, text, key->help);
		free(plain);
		return false;
	}
	path = key->type == TYPE_PATH || (key->type == TYPE_SOCKET && strcmp(plain, "off") != 0) ?
		config_absolute(r, plain) :
		xstrdup(plain);
	free(plain);
	if (key->type == TYPE_SOCKET && strlen(path) >= sizeof((struct sockaddr_un *)0)->sun_path) {
		config_complain(r, line,
			"%s = %s is a path of %zu bytes, and no socket can have it; write %s", key->name,
			path, strlen(path), key->help);
		free(path);
		return false;
	}
	free(*field);
	*field = path;
	return true;
}

/* What looks like shell but will not be: the words reach the program as they are. */
static void warn_of_shell(struct config_reader *r, const struct config_key *key, char *const *words, int line)
{
	static const char *const signs[] = {"|", "||", "&", "&&", ";", "<", ">", ">>", "2>&1", "2>", NULL};

	for (; *words; words++)
		for (int i = 0; signs[i]; i++)
			if (strcmp(*words, signs[i]) == 0)
				config_warn(r, line,
					"%s has the word %s, and there is no shell to obey it; for a "
					"shell write /bin/sh -c '...'",
					key->name, *words);
}

static bool convert_command(
	struct config_reader *r, const struct config_key *key, const char *text, int line, char ***field)
{
	const char *why = NULL;
	char **words = shellwords_split(text, &why), *first;

	if (!words || !words[0] || words[0][0] == '\0') {
		config_complain(r, line, "%s cannot be split into words: %s; write %s", key->name,
			words ? "it is empty" : why, key->help);
		shellwords_free(words);
		return false;
	}
	if (strchr(words[0], '/')) {
		first = config_absolute(r, words[0]);
		free(words[0]);
		words[0] = first;
	}
	warn_of_shell(r, key, words, line);
	shellwords_free(*field);
	*field = words;
	return true;
}

static void convert_paths(struct config_reader *r, const char *text, char ***field)
{
	shellwords_free(*field);
	*field = shellwords_split_list(text);
	for (char **path = *field; *path; path++) {
		char *full = config_absolute(r, *path);

		free(*path);
		*path = full;
	}
}

bool config_convert(
	struct config_reader *r, const struct config_key *key, const char *text, int line, void *base)
{
	void *field = (char *)base + key->offset;
	int yes;

	switch (key->type) {
	case TYPE_TEXT:
	case TYPE_PATH:
	case TYPE_CALLEE_ID:
	case TYPE_SOCKET:
	case TYPE_CGROUP: return convert_text(r, key, text, line, field);
	case TYPE_INT:
	case TYPE_DURATION:
	case TYPE_SIZE: return convert_number(r, key, text, line, field);
	case TYPE_CHOICE: return convert_choice(r, key, text, line, field);
	case TYPE_COMMAND: return convert_command(r, key, text, line, field);
	case TYPE_LIST:
		shellwords_free(*(char ***)field);
		*(char ***)field = shellwords_split_list(text);
		return true;
	case TYPE_PATHS: convert_paths(r, text, field); return true;
	case TYPE_RATE:
		if (rate_parse(text, field))
			return true;
		config_complain(r, line, "%s = %s is not understood; write %s", key->name, text, key->help);
		return false;
	case TYPE_BOOL:
		yes = parse_bool(text);
		if (yes < 0)
			config_complain(
				r, line, "%s = %s is not understood; write yes or no", key->name, text);
		*(bool *)field = yes > 0;
		return yes >= 0;
	case TYPE_LATER: return true;
	}
	return false;
}

void config_free_fields(enum config_kind kind, void *base)
{
	for (size_t i = 0; i < config_key_count; i++) {
		void *field = (char *)base + config_keys[i].offset;

		if (config_keys[i].kind != kind)
			continue;
		if (config_keys[i].type <= TYPE_CGROUP)
			free(*(char **)field);
		else if (config_keys[i].type == TYPE_COMMAND || config_keys[i].type == TYPE_LIST ||
			config_keys[i].type == TYPE_PATHS)
			shellwords_free(*(char ***)field);
	}
}
