/* SPDX-License-Identifier: MIT */
/* doctor_commands.c: can the commands of capabilities and of [policy] be executed by their user?
 * Owns what execve(2) would say of a file, found without executing it. Never starts a command: what a command
 * does is unknown. */
#include "hcpctl/setup/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "process/confine.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
#define HEAD_SIZE 256 /* as much of a #! line as the kernel reads */

/* Programs whose first argument is the real program. */
static const char *const interpreters[] = {
	"sh", "bash", "dash", "python3", "python", "node", "perl", "ruby", "env"};

/* A capability without a name stands for [policy], whose program is checked like a capability's. */
static const char *section_of(const struct config_capability *cc)
{
	static char text[160];

	if (!cc->name)
		return "policy";
	snprintf(text, sizeof text, "capability %s", cc->name);
	return text;
}

static const char *find_path(const struct config_capability *cc)
{
	const char *path = getenv("PATH");

	for (char **var = cc->env; var && *var; var++)
		if (strncmp(*var, "PATH=", 5) == 0)
			return *var + 5;
	return path && *path ? path : DEFAULT_PATH;
}

static bool is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Resolves a name without a slash in PATH: to an executable file, else to any file of that name. False: there
 * is none. */
static bool search(const char *name, const char *path, char *out, size_t size)
{
	bool found = false;

	while (*path) {
		size_t n = strcspn(path, ":");
		char try[4200];

		if (n > 0 && (size_t)snprintf(try, sizeof try, "%.*s/%s", (int)n, path, name) < sizeof try &&
			is_file(try)) {
			bool runs = access(try, X_OK) == 0;

			if (runs || !found)
				snprintf(out, size, "%s", try);
			found = true;
			if (runs)
				return true;
		}
		path += n + (path[n] == ':');
	}
	return found;
}

static void fail(struct doctor *d, const struct config_capability *cc, const char *todo, const char *what,
	const char *path)
{
	doctor_say(d, DOCTOR_FAIL, "command", todo, "[%s] %s %s", section_of(cc), path, what);
}

/* --- #! --- */

/* `#!/usr/bin/env NAME`: env searches PATH for NAME; without it the worker exits with 127. */
static bool check_env_target(
	struct doctor *d, const struct config_capability *cc, const char *path, char *words)
{
	char found[4200], *save = NULL, *word = strtok_r(words, " \t", &save);

	while (word && (*word == '-' || strchr(word, '=')))
		word = strtok_r(NULL, " \t", &save);
	if (!word || strchr(word, '/') || search(word, find_path(cc), found, sizeof found))
		return true;
	doctor_say(d, DOCTOR_FAIL, "command",
		cc->name ? "install it, or put its directory into PATH with env = PATH=... in that section" :
			   "install it, or write its whole path",
		"[%s] %s wants %s, which is not in PATH (%s)", section_of(cc), path, word, find_path(cc));
	return false;
}

static bool check_interpreter(
	struct doctor *d, const struct config_capability *cc, const char *path, char *line)
{
	size_t size;
	char *rest;

	line += strspn(line, " \t");
	if (strchr(line, '\r')) {
		fail(d, cc, "convert it to Unix line ends: sed -i 's/\\r$//' FILE",
			"has a carriage return in its #! line, which becomes part of the interpreter's name",
			path);
		return false;
	}
	size = strcspn(line, " \t");
	rest = line + size + strspn(line + size, " \t");
	line[size] = '\0';
	if (!*line || access(line, X_OK) < 0 || !is_file(line)) {
		doctor_say(d, DOCTOR_FAIL, "command",
			"install the interpreter, or correct the script's first line",
			"[%s] %s wants the interpreter %s, which cannot be executed: %s", section_of(cc),
			path, *line ? line : "(none)",
			strerror(*line && access(line, X_OK) < 0 ? errno : ENOENT));
		return false;
	}
	return strcmp(line, "/usr/bin/env") != 0 || check_env_target(d, cc, path, rest);
}

static bool check_head(struct doctor *d, const struct config_capability *cc, const char *path)
{
	char head[HEAD_SIZE + 1] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t got = fd >= 0 ? read(fd, head, HEAD_SIZE) : -1;

	if (fd >= 0)
		close(fd);
	if (got < 0)
		return true; /* executable but not readable: fine for a binary program */
	if (got >= 2 && memcmp(head, "#!", 2) == 0) {
		head[strcspn(head, "\n")] = '\0';
		return check_interpreter(d, cc, path, head + 2);
	}
	if (got >= 4 && memcmp(head, "\177ELF", 4) == 0)
		return true;
	fail(d, cc, "give it a first line such as #!/bin/sh, or write its interpreter into command",
		"is neither a program nor a script with #!, so the kernel does not execute it", path);
	return false;
}

/* --- one command --- */

static bool is_interpreter(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof interpreters / sizeof *interpreters; i++)
		if (strcmp(name, interpreters[i]) == 0)
			return true;
	return false;
}

static bool check_script(struct doctor *d, const struct config_capability *cc)
{
	const char *script = cc->command[1];

	if (!is_interpreter(cc->command[0]) || !script || *script != '/' || access(script, R_OK) == 0)
		return true;
	doctor_say(d, DOCTOR_FAIL, "command",
		"correct command in that section, or let the user read the file",
		"[%s] the script %s cannot be read: %s", section_of(cc), script, strerror(errno));
	return false;
}

static bool check_program(struct doctor *d, const struct config_capability *cc, const char *user)
{
	const char *name = cc->command[0];
	char path[4200], what[200];
	struct stat st;

	if (strchr(name, '/'))
		snprintf(path, sizeof path, "%s", name);
	else if (!search(name, find_path(cc), path, sizeof path)) {
		doctor_say(d, DOCTOR_FAIL, "command", "install it, or write its whole path",
			"[%s] %s is not in PATH (%s)", section_of(cc), name, find_path(cc));
		return false;
	}
	if (stat(path, &st) < 0) {
		bool is_missing = errno == ENOENT;

		snprintf(what, sizeof what, "cannot be reached by user %s: %s", user, strerror(errno));
		if (is_missing)
			fail(d, cc, "install it, or correct command in that section", "does not exist", path);
		else
			fail(d, cc, "let that user pass the directories above it", what, path);
		return false;
	}
	if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0) {
		snprintf(what, sizeof what,
			S_ISREG(st.st_mode) ? "is not executable by user %s" : "is no program (user %s)",
			user);
		fail(d, cc, "chmod +x it, and let that user pass the directories above it", what, path);
		return false;
	}
	return check_head(d, cc, path);
}

struct command_target {
	const struct config_capability *cc;
	const char *user;
};

static void check_command(struct doctor *d, const struct config_capability *cc, const char *user)
{
	if (check_program(d, cc, user) && check_script(d, cc))
		doctor_say(d, DOCTOR_OK, "command", NULL, "[%s] %s can be executed by user %s",
			section_of(cc), cc->command[0], user);
}

/* The program of a migration runs like the command, so it is checked like the command. */
static void check_one(struct doctor *d, const void *ctx)
{
	const struct command_target *t = ctx;
	struct config_capability migration = *t->cc;

	check_command(d, t->cc, t->user);
	migration.command = t->cc->migrate;
	if (migration.command)
		check_command(d, &migration, t->user);
	for (size_t i = 0; i < t->cc->migration_count; i++) {
		migration.command = t->cc->migrations[i].command;
		check_command(d, &migration, t->user);
	}
}

/* --- confinement of workers --- */

static void on_confine(void *ctx, bool is_error, const char *text)
{
	(void)is_error;
	doctor_say_text(ctx, DOCTOR_WARN, "command", text);
}

/* Runs as the daemon's user: root may do things that the daemon may not. A running daemon has made this check
 * at its start. */
static void check_confine(struct doctor *d, const void *ctx)
{
	for (size_t i = 0; i < d->config->capability_count; i++)
		(void)confine_check(&d->config->capabilities[i], on_confine, d);
	(void)ctx;
}

static bool has_confine(const struct config *c)
{
	for (size_t i = 0; i < c->capability_count; i++)
		if (c->capabilities[i].confine.user || c->capabilities[i].confine.landlock == LANDLOCK_YES)
			return true;
	return false;
}

void doctor_check_commands(struct doctor *d)
{
	for (size_t i = 0; i < d->config->capability_count; i++) {
		const struct config_capability *cc = &d->config->capabilities[i];
		char what[300];
		struct command_target t = {.cc = cc, .user = cc->confine.user ? cc->confine.user : d->user};

		snprintf(what, sizeof what, "[capability %.256s] its command", cc->name);
		if (cc->confine.user)
			doctor_as(d, cc->confine.uid, cc->confine.gid, cc->confine.user, "command", what,
				check_one, &t);
		else
			doctor_as(d, d->uid, d->gid, d->user, "command", what, check_one, &t);
	}
	if (d->config->policy_command) {
		const struct config_capability program = {.command = d->config->policy_command};
		struct command_target t = {.cc = &program, .user = d->user};

		doctor_as(d, d->uid, d->gid, d->user, "command", "[policy] its command", check_one, &t);
	}
	if (!d->pid && has_confine(d->config))
		doctor_as(d, d->uid, d->gid, d->user, "command", "what workers are kept from", check_confine,
			NULL);
}
