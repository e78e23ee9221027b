/* SPDX-License-Identifier: MIT */
/* config.c: reads the INI file into a checked struct.
 * Owns the order of reading, the checks across keys, and that every error is reported with its line.
 * Never keeps anything between two calls: a reload is another load. table.c has the keys. */
#include "config/config.h"

#include <errno.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json/canonical.h"
#include "base/io.h"
#include "base/name.h"
#include "base/buf.h"
#include "config/state_version.h"
#include "config/table_private.h"
#include "base/ini.h"
#include "base/shellwords.h"

#define FILE_MAX (1 << 20)
#define BROKER_MESSAGE_MAX \
	(INT64_C(16) << 20) /* RabbitMQ's default since 4.0; a larger one closes the channel */

#define STEP "migrate." /* keys of [capability]: migrate.FROM-TO */

/* --- messages --- */

/* Insertion sort: stable, and there are few. Returns how many were errors. */
static size_t say_all(struct config_reader *r, config_say_fn *say, void *ctx)
{
	size_t errors = 0;

	for (size_t i = 1; i < r->message_count; i++) {
		struct config_message m = r->messages[i];
		size_t j = i;

		for (; j > 0 && r->messages[j - 1].line > m.line; j--)
			r->messages[j] = r->messages[j - 1];
		r->messages[j] = m;
	}
	for (size_t i = 0; i < r->message_count; i++) {
		errors += r->messages[i].is_error;
		say(ctx, r->messages[i].is_error, r->messages[i].text);
	}
	return errors;
}

/* --- lines to sections --- */

static struct config_section *find_section(
	const struct config_reader *r, enum config_kind kind, const char *name)
{
	for (size_t i = 0; i < r->section_count; i++)
		if (r->sections[i].kind == kind && strcmp(r->sections[i].name, name) == 0)
			return &r->sections[i];
	return NULL;
}

static void complain_of_head(struct config_reader *r, int line, const char *head)
{
	const char *names[KIND_COUNT], *near;

	for (int i = 0; i < KIND_COUNT; i++)
		names[i] = config_kind_name((enum config_kind)i);
	near = name_find_nearest(head, names, KIND_COUNT);
	if (near)
		config_complain(r, line, "there is no section [%s]; did you mean [%s]?", head, near);
	else
		config_complain(r, line,
			"there is no section [%s]; there are daemon, amqp, store, control, session, limits, "
			"policy, approval, retention, capability NAME, caller NAME and approver NAME",
			head);
}

static bool check_head(struct config_reader *r, int line, int kind, const char *head, const char *name)
{
	if (kind < 0)
		complain_of_head(r, line, head);
	else if (kind < KIND_CAPABILITY && *name != '\0')
		config_complain(r, line, "[%s %s] has a name too many; write [%s]", head, name, head);
	else if (kind >= KIND_CAPABILITY && *name == '\0')
		config_complain(r, line, "[%s] has no name; write [%s NAME]", head, head);
	else if (kind == KIND_CAPABILITY && !name_is_valid(name, "-_."))
		config_complain(r, line,
			"[capability %s] does not do; a name is 1 to 128 letters, digits, -, _ and .", name);
	else if (kind == KIND_CALLER && strcmp(name, "*") != 0 && !name_is_valid(name, "-_:"))
		config_complain(r, line,
			"[caller %s] does not do; a name is 1 to 128 letters, digits, -, _ and :, or * for "
			"any",
			name);
	else if (kind == KIND_APPROVER && !name_is_valid(name, "-_.@"))
		config_complain(r, line,
			"[approver %s] does not do; a name is 1 to 128 letters, digits, -, _, . and @", name);
	else
		return true;
	return false;
}

static void read_head(struct config_reader *r, int line, const char *text)
{
	size_t size = strcspn(text, " \t");
	char *head = xstrndup(text, size);
	const char *name = text + size + strspn(text + size, " \t");
	int kind = config_find_kind(head);

	r->current = NULL;
	if (check_head(r, line, kind, head, name)) {
		r->current = find_section(r, (enum config_kind)kind, name);
		if (!r->current) {
			r->sections = xrealloc(r->sections, (r->section_count + 1) * sizeof(*r->sections));
			r->current = &r->sections[r->section_count++];
			*r->current = (struct config_section){.kind = (enum config_kind)kind,
				.name = xstrdup(name),
				.line = line,
				.values = xcalloc(config_key_count, sizeof(struct config_value))};
		}
	}
	free(head);
}

/* A later step of the same name wins. */
static void read_step(struct config_section *s, int line, const char *name, const char *value)
{
	struct config_step *step = NULL;

	for (size_t i = 0; i < s->step_count && step == NULL; i++)
		if (strcmp(s->steps[i].name, name) == 0)
			step = &s->steps[i];
	if (step == NULL) {
		s->steps = xrealloc(s->steps, (s->step_count + 1) * sizeof *s->steps);
		step = &s->steps[s->step_count++];
		*step = (struct config_step){.name = xstrdup(name)};
	}
	free(step->value.text);
	step->value = (struct config_value){.text = xstrdup(value), .line = line};
}

static void on_line(void *ctx, int line, const char *section, const char *key, const char *value)
{
	struct config_reader *r = ctx;
	const struct config_key *k;
	struct config_value *v;
	char hint[128];

	if (!section) {
		config_complain(r, line, "%s", value);
	} else if (!key) {
		read_head(r, line, section);
	} else if (*section == '\0') {
		config_complain(r, line, "%s stands before the first section; put a [section] above it", key);
	} else if (r->current && (k = config_find_key(r->current->kind, key))) {
		v = &r->current->values[k - config_keys];
		/* In other sections a later key wins. A second [approver] of the same name would silently
		 * replace the first person's key. */
		if (v->text && k->kind == KIND_APPROVER) {
			config_complain(r, line,
				"[approver %s] has %s already, in line %d; give the other approver another "
				"name, or leave one of the lines out",
				r->current->name, key, v->line);
			return;
		}
		xfree_secret(v->text);
		*v = (struct config_value){.text = xstrdup(value), .line = line};
	} else if (r->current && r->current->kind == KIND_CAPABILITY &&
		strncmp(key, STEP, strlen(STEP)) == 0) {
		read_step(r->current, line, key + strlen(STEP), value);
	} else if (r->current) {
		config_suggest_key(r->current->kind, key, hint, sizeof(hint));
		config_complain(
			r, line, "[%s] has no key %s; %s", config_kind_name(r->current->kind), key, hint);
	}
}

/* --- sections to structs --- */

/* Every key of that kind, given or not. s NULL: the section is not there at all. */
static void fill(struct config_reader *r, enum config_kind kind, const struct config_section *s, void *base)
{
	for (size_t i = 0; i < config_key_count; i++) {
		const struct config_key *k = &config_keys[i];
		const struct config_value *v = s ? &s->values[i] : NULL;

		if (k->kind != kind)
			continue;
		if (v && v->text)
			config_convert(r, k, v->text, v->line, base);
		else if (k->is_required)
			config_complain(r, s ? s->line : 0, "[%s%s%s] needs %s; write %s",
				config_kind_name(kind), s && *s->name ? " " : "", s ? s->name : "", k->name,
				k->help);
		else if (k->fallback)
			config_convert(r, k, k->fallback, 0, base);
	}
}

static bool is_given(const struct config_reader *r, enum config_kind kind, const char *key)
{
	return config_get(find_section(r, kind, ""), key)->text != NULL;
}

/* `inner` must not be above `outer`. Where only the other one was written, its default gives way. */
static void fit(struct config_reader *r, enum config_kind kind, const char *inner, int64_t *inner_value,
	enum config_kind outer_kind, const char *outer, int64_t *outer_value)
{
	bool inner_given = is_given(r, kind, inner), outer_given = is_given(r, outer_kind, outer);

	if (*inner_value <= *outer_value)
		return;
	if (inner_given && outer_given)
		config_complain(r, config_get(find_section(r, kind, ""), inner)->line,
			"[%s] %s is above [%s] %s, so it could never be reached; lower the one or raise the "
			"other",
			config_kind_name(kind), inner, config_kind_name(outer_kind), outer);
	else if (inner_given)
		*outer_value = *inner_value;
	else
		*inner_value = *outer_value;
}

/* The kernel shows this group for every group that is not mapped into hcpd's user namespace, so a socket of
 * this group would be open to members of all of them. */
#define OVERFLOW_GID 65534

static void check_control(struct config_reader *r, struct config *c)
{
	const struct config_value *v = config_get(find_section(r, KIND_CONTROL, ""), "group");
	struct group *g = c->control_group ? getgrnam(c->control_group) : NULL;

	c->control_gid = g ? (int64_t)g->gr_gid : -1;
	if (c->control_group && !g)
		config_complain(r, v->line,
			"there is no group %s; make it with groupadd --system %s, or name another",
			c->control_group, c->control_group);
	else if (g && g->gr_gid == OVERFLOW_GID)
		config_complain(r, v->line,
			"group = %s stands for groups that are not known here, so its members cannot be told "
			"from strangers; make a group of its own",
			c->control_group);
}

static void check_limits(struct config_reader *r, struct config *c)
{
	const struct config_section *limits = find_section(r, KIND_LIMITS, "");

	fit(r, KIND_LIMITS, "line", &c->max_line, KIND_LIMITS, "lines_total", &c->max_lines_total);
	/* A checkpoint comes in a line: its default may shrink with it, but no line grows on its account. */
	if (c->max_checkpoint > c->max_line && is_given(r, KIND_LIMITS, "checkpoint_state"))
		config_complain(r, config_get(limits, "checkpoint_state")->line,
			"checkpoint_state is above line, in which a checkpoint comes; raise line or lower "
			"checkpoint_state");
	else if (c->max_checkpoint > c->max_line)
		c->max_checkpoint = c->max_line;
	fit(r, KIND_LIMITS, "text_output", &c->max_text_output, KIND_LIMITS, "message", &c->max_message);
	fit(r, KIND_LIMITS, "artifact", &c->max_artifact, KIND_LIMITS, "artifacts_total",
		&c->max_artifacts_total);
	fit(r, KIND_SESSION, "max_outbox", &c->max_outbox, KIND_SESSION, "max_outbox_total",
		&c->max_outbox_total);
	if (c->max_message > BROKER_MESSAGE_MAX)
		config_warn(r, config_get(limits, "message")->line,
			"message is above 16MiB, which is all that RabbitMQ 4 takes unless its "
			"max_message_size is raised; a larger one closes the channel");
}

static void check_retention(struct config_reader *r, const struct config *c)
{
	const struct config_section *s = find_section(r, KIND_RETENTION, "");

	if (c->retain_expire_us > 0 && c->retain_expire_us < c->retain_grace_us)
		config_complain(r, config_get(s, "expire")->line,
			"expire is shorter than grace: sessions would be gone before they may leave; both "
			"count from their end");
	if (c->retain_expire_us > 0 && c->retain_grace_us == 0)
		config_warn(r, config_get(s, "expire")->line,
			"expire without grace: sessions stay in the store for ever, only archives that are "
			"there already are deleted");
}

static void add_step(struct config_reader *r, struct config_capability *cc, const struct config_step *step)
{
	const struct config_key *k = config_find_key(KIND_CAPABILITY, "migrate");
	struct config_capability read = {.name = NULL};
	const char *dash = strchr(step->name, '-');
	struct config_migration m = {.from = xstrndup(step->name, strcspn(step->name, "-")),
		.to = xstrdup(dash != NULL ? dash + 1 : "")};

	config_convert(r, k, step->value.text, step->value.line, &read);
	m.command = read.migrate;
	if (!state_version_is_valid(m.from) || !state_version_is_valid(m.to) || strcmp(m.from, m.to) == 0)
		config_complain(r, step->value.line,
			STEP "%s is not understood; write " STEP "FROM-TO with two versions, as in " STEP
			     "1-2",
			step->name);
	cc->migrations[cc->migration_count++] = m;
}

/* The single steps between versions of states. */
static void add_steps(struct config_reader *r, const struct config_section *s, struct config_capability *cc)
{
	if (s->step_count == 0)
		return;
	if (s->step_count > CONFIG_MIGRATIONS_MAX) {
		config_complain(r, s->steps[0].value.line, "more than %d keys " STEP "FROM-TO",
			CONFIG_MIGRATIONS_MAX);
		return;
	}
	if (cc->state_version == NULL)
		config_complain(r, s->steps[0].value.line,
			STEP "%s without state_version: there is nothing to migrate to", s->steps[0].name);
	cc->migrations = xcalloc(s->step_count, sizeof *cc->migrations);
	for (size_t i = 0; i < s->step_count; i++)
		add_step(r, cc, &s->steps[i]);
	for (size_t i = 0; i < s->step_count && cc->state_version != NULL; i++)
		if (state_version_find_step(cc, cc->migrations[i].from) == NULL && cc->migrate == NULL)
			config_warn(r, s->steps[i].value.line,
				STEP "%s is of no use: no further step leads to state_version %s",
				s->steps[i].name, cc->state_version);
}

static void free_steps(struct config_capability *cc)
{
	for (size_t i = 0; i < cc->migration_count; i++) {
		free(cc->migrations[i].from);
		free(cc->migrations[i].to);
		shellwords_free(cc->migrations[i].command);
	}
	free(cc->migrations);
}

/* What brings a session back must fit together. */
static void check_recovery(
	struct config_reader *r, const struct config_section *s, const struct config_capability *cc)
{
	bool goes_on = cc->recovery == RECOVERY_RESUME || cc->recovery == RECOVERY_RESTART;

	if (cc->state_version != NULL && !state_version_is_valid(cc->state_version))
		config_complain(r, config_get(s, "state_version")->line,
			"state_version = %s is not understood; write MAJOR or MAJOR.MINOR, as in 2.1",
			cc->state_version);
	if (cc->migrate != NULL && cc->state_version == NULL)
		config_complain(r, config_get(s, "migrate")->line,
			"migrate without state_version: there is nothing to migrate to");
	if (cc->max_attempts > 1 && !goes_on)
		config_warn(r, config_get(s, "max_attempts")->line,
			"max_attempts = %d has no effect: a session of this capability is not started again; "
			"write recovery = resume or restart",
			cc->max_attempts);
	if (cc->pause_frees_worker && (cc->recovery != RECOVERY_RESUME || cc->protocol == PROTOCOL_TEXT))
		config_complain(r, config_get(s, "pause_frees_worker")->line,
			"pause_frees_worker = yes needs checkpoints to go on from; write protocol = hcp and "
			"recovery = resume");
}

static void check_workdir(
	struct config_reader *r, const struct config_section *s, const struct config_capability *cc)
{
	if (cc->workdir == WORKDIR_LOCAL)
		return;
	if (cc->reuse == 1)
		config_complain(r, config_get(s, "workdir")->line,
			"workdir = no with reuse = 1: a process that serves one session runs in its working "
			"directory; write reuse = 2 or more, or workdir = local");
	if (cc->keep_workdir != KEEP_NEVER && config_get(s, "keep_workdir")->text)
		config_complain(r, config_get(s, "keep_workdir")->line,
			"keep_workdir with workdir = no: there is no directory to keep; leave one of them "
			"out");
}

static void add_capability(struct config_reader *r, const struct config_section *s, struct config *c)
{
	struct config_capability *cc = &c->capabilities[c->capability_count++];

	*cc = (struct config_capability){.name = xstrdup(s->name), .line = s->line, .path = c->path};
	fill(r, KIND_CAPABILITY, s, cc);
	config_finish_env(r, s, cc);
	if (cc->reuse > 1 && cc->protocol == PROTOCOL_TEXT)
		config_complain(r, config_get(s, "reuse")->line,
			"reuse = %d with protocol = text: a text worker cannot be told of another task; "
			"write reuse = 1, or protocol = hcp",
			cc->reuse);
	check_workdir(r, s, cc);
	check_recovery(r, s, cc);
	add_steps(r, s, cc);
	config_finish_confine(r, s, cc);
}

static void check_caller_capability(
	struct config_reader *r, int line, const struct config *c, const char *name)
{
	const char **names, *near;

	if (strcmp(name, "*") == 0 || config_find_capability(c, name))
		return;
	names = xcalloc(c->capability_count, sizeof(*names));
	for (size_t i = 0; i < c->capability_count; i++)
		names[i] = c->capabilities[i].name;
	near = name_find_nearest(name, names, c->capability_count);
	config_complain(r, line, "there is no section [capability %s]; %s%s%s", name,
		near ? "did you mean " : "add one, or leave it out", near ? near : "", near ? "?" : "");
	free(names);
}

static void add_caller(struct config_reader *r, const struct config_section *s, struct config *c)
{
	struct config_caller *caller = &c->callers[c->caller_count++];

	*caller = (struct config_caller){.name = xstrdup(s->name), .line = s->line};
	fill(r, KIND_CALLER, s, caller);
	for (char **name = caller->capabilities; *name; name++)
		check_caller_capability(r, config_get(s, "capabilities")->line, c, *name);
	if (!caller->capabilities[0])
		config_warn(r, s->line,
			"[caller %s] may use no capability; write capabilities = NAME, NAME, or * for all",
			s->name);
	if (!caller->amqp_user && !config_get(s, "amqp_user")->text)
		config_warn(r, s->line,
			"[caller %s] has no amqp_user: its identity is not checked, anyone at the broker may "
			"speak for it; write amqp_user = USER",
			s->name);
}

/* gate.c checks that the key is valid, and that no other approver has it. */
static void add_approver(struct config_reader *r, const struct config_section *s, struct config *c)
{
	struct config_approver *a = &c->approvers[c->approver_count++];

	*a = (struct config_approver){.name = xstrdup(s->name), .line = s->line};
	fill(r, KIND_APPROVER, s, a);
}

static struct config *build(struct config_reader *r)
{
	struct config *c = xcalloc(1, sizeof(*c));

	r->config = c;
	c->path = xstrdup(r->path);
	c->secrets = xcalloc(1, sizeof(char *));
	config_add_secret(r, realpath(r->path, NULL));
	for (int kind = 0; kind < KIND_CAPABILITY; kind++)
		fill(r, (enum config_kind)kind, find_section(r, (enum config_kind)kind, ""), c);
	config_add_secret(r, c->state_dir ? xstrdup(c->state_dir) : NULL);
	config_finish_amqp(r, find_section(r, KIND_AMQP, ""), &c->amqp);
	config_add_secret(r, c->amqp.key_file ? xstrdup(c->amqp.key_file) : NULL);
	c->policy_line = config_get(find_section(r, KIND_POLICY, ""), "command")->line;
	check_control(r, c);
	check_limits(r, c);
	check_retention(r, c);

	/* Capabilities first: callers name them. */
	c->capabilities = xcalloc(r->section_count, sizeof(*c->capabilities));
	c->callers = xcalloc(r->section_count, sizeof(*c->callers));
	c->approvers = xcalloc(r->section_count, sizeof(*c->approvers));
	for (size_t i = 0; i < r->section_count; i++)
		if (r->sections[i].kind == KIND_CAPABILITY)
			add_capability(r, &r->sections[i], c);
	for (size_t i = 0; i < r->section_count; i++)
		if (r->sections[i].kind == KIND_CALLER)
			add_caller(r, &r->sections[i], c);
		else if (r->sections[i].kind == KIND_APPROVER)
			add_approver(r, &r->sections[i], c);
	for (size_t i = 0; i < c->capability_count; i++)
		c->capabilities[i].confine.secrets = c->secrets;
	if (c->capability_count == 0)
		config_warn(r, 0, "there is no [capability NAME] section: every task will be refused");
	else if (c->caller_count == 0)
		config_warn(r, 0, "there is no [caller NAME] section: every task will be refused");
	return c;
}

/* --- the outside --- */

char *config_absolute(const struct config_reader *r, const char *path)
{
	return io_absolute(r->dir, path);
}

static bool read_all(struct config_reader *r, struct buf *text)
{
	char *copy = xstrdup(r->path), real[PATH_MAX];
	struct stat st;
	bool ok = false;

	if (io_read_file(r->path, FILE_MAX, text, &st) < 0)
		config_complain(r, 0, "cannot be read: %s; name the configuration with -c FILE",
			errno == EFBIG ? "it is over 1 MiB" : strerror(errno));
	else if (!realpath(dirname(copy), real)) /* absolute: the daemon may change directory */
		config_complain(
			r, 0, "its directory cannot be found: %s; name an existing file", strerror(errno));
	else
		ok = true;
	free(copy);
	if (!ok)
		return false;
	r->dir = xstrdup(real);
	r->mode = st.st_mode;
	return true;
}

struct config *config_load_partly(const char *path, config_say_fn *say, void *ctx, bool *good)
{
	struct config_reader r = {.path = path};
	struct config *c = NULL;
	struct buf text = {0};

	if (read_all(&r, &text)) {
		ini_parse(text.data, text.size, on_line, &r);
		c = build(&r);
		canonical_hash_bytes(text.data, text.size, c->sha256);
	}
	*good = say_all(&r, say, ctx) == 0;
	if (text.data)
		explicit_bzero(text.data, text.room);
	buf_fini(&text);
	config_reader_fini(&r);
	return c;
}

struct config *config_load(const char *path, config_say_fn *say, void *ctx)
{
	bool good;
	struct config *c = config_load_partly(path, say, ctx, &good);

	if (good)
		return c;
	config_free(c);
	return NULL;
}

void config_free(struct config *c)
{
	if (!c)
		return;
	for (int kind = 0; kind < KIND_CAPABILITY; kind++)
		config_free_fields((enum config_kind)kind, c);
	for (size_t i = 0; i < c->capability_count; i++) {
		config_free_fields(KIND_CAPABILITY, &c->capabilities[i]);
		shellwords_free(c->capabilities[i].env);
		free_steps(&c->capabilities[i]);
		free(c->capabilities[i].confine.groups);
		free(c->capabilities[i].confine.home);
		free(c->capabilities[i].name);
	}
	for (size_t i = 0; i < c->caller_count; i++) {
		config_free_fields(KIND_CALLER, &c->callers[i]);
		free(c->callers[i].name);
	}
	for (size_t i = 0; i < c->approver_count; i++) {
		config_free_fields(KIND_APPROVER, &c->approvers[i]);
		free(c->approvers[i].name);
	}
	free(c->capabilities);
	free(c->callers);
	free(c->approvers);
	free(c->amqp.url);
	free(c->amqp.host);
	free(c->amqp.vhost);
	free(c->amqp.user);
	xfree_secret(c->amqp.password);
	shellwords_free(c->secrets);
	free(c->path);
	free(c);
}

const struct config_caller *config_find_caller(const struct config *c, const char *caller_id)
{
	const struct config_caller *any = NULL;

	for (size_t i = 0; i < c->caller_count; i++) {
		if (strcmp(c->callers[i].name, caller_id) == 0)
			return &c->callers[i];
		if (strcmp(c->callers[i].name, "*") == 0)
			any = &c->callers[i];
	}
	return any;
}

const struct config_capability *config_find_capability(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->capability_count; i++)
		if (strcmp(c->capabilities[i].name, name) == 0)
			return &c->capabilities[i];
	return NULL;
}

bool config_wants_harp(const struct config *c)
{
	for (size_t i = 0; i < c->capability_count; i++)
		if (c->capabilities[i].harp)
			return true;
	return false;
}

bool config_has_users(const struct config *c)
{
	for (size_t i = 0; i < c->capability_count; i++)
		if (c->capabilities[i].confine.user)
			return true;
	return false;
}

bool config_caller_may(const struct config_caller *caller, const char *capability)
{
	for (char **name = caller->capabilities; *name; name++)
		if (strcmp(*name, "*") == 0 || strcmp(*name, capability) == 0)
			return true;
	return false;
}
