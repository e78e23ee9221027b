/* SPDX-License-Identifier: MIT */
/* settings.c: options, environment and file to one struct.
 * Owns which of them wins, and the section [hcpctl].
 * Never connects. What a URL or a certificate must look like is config's. */
#include "hcpctl/common/settings.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <pwd.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/message.h"
#include "base/io.h"
#include "base/name.h"
#include "config/reader.h"
#include "base/ini.h"
#include "base/shellwords.h"

#define FILE_MAX (1 << 20)

/* Keys of [amqp] in hcpd.ini that a caller needs; they mean the same here. */
static const char *const amqp_keys[] = {
	"url", "password_file", "sasl", "ca_file", "cert_file", "key_file", "verify"};
#define AMQP_KEYS (sizeof amqp_keys / sizeof *amqp_keys)

/* hcpctl's own texts. A path in the file is relative to the file. */
enum own { OWN_CALLER, OWN_CALLEE, OWN_SOCKET, OWN_DAEMON_CONFIG, OWN_COUNT };
static const struct {
	const char *key, *option, *variable;
	/* where it stands in struct ctl_settings, and in struct ctl_options */
	size_t setting, given;
	bool is_path;
} own[OWN_COUNT] = {
#define OWN(field) offsetof(struct ctl_settings, field), offsetof(struct ctl_options, field)
	[OWN_CALLER] = {"caller", "--caller", "HCP_CALLER", OWN(caller), false},
	[OWN_CALLEE] = {"callee", "--callee", "HCP_CALLEE", OWN(callee), false},
	[OWN_SOCKET] = {"socket", "--socket", "HCP_SOCKET", OWN(socket), true},
	[OWN_DAEMON_CONFIG] = {"daemon_config", "--daemon-config", "HCP_DAEMON_CONFIG", OWN(daemon_config),
		true},
};

struct settings_loader {
	struct ctl_settings *s;
	struct config_reader reader; /* its path is empty: say_all adds one to each message */
	struct config_section amqp;
	const char *url_source; /* where the url came from when not from a line of the file */
	const char *source[OWN_COUNT];
	int line[OWN_COUNT];
};

/* --- where things are --- */

static char *find_home(void)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	const struct passwd *pw;
	struct buf b = {0};

	if (xdg && *xdg == '/') {
		buf_addf(&b, "%s/hcp", xdg);
	} else {
		if ((!home || *home != '/') && (pw = getpwuid(geteuid())))
			home = pw->pw_dir;
		if (!home || *home != '/')
			return NULL;
		buf_addf(&b, "%s/.config/hcp", home);
	}
	buf_text(&b);
	return b.data;
}

static char *find_file(const struct ctl_settings *s, const char *option)
{
	struct buf b = {0};

	if (option)
		return xstrdup(option);
	if (!s->home)
		return NULL;
	buf_addf(&b, "%s/hcpctl.ini", s->home);
	buf_text(&b);
	return b.data;
}

/* --- the file --- */

static bool is_amqp_key(const char *name)
{
	for (size_t i = 0; i < AMQP_KEYS; i++)
		if (strcmp(name, amqp_keys[i]) == 0)
			return true;
	return false;
}

static void complain_of_key(struct settings_loader *l, int line, const char *key)
{
	const char *names[AMQP_KEYS + OWN_COUNT], *near;

	memcpy(names, amqp_keys, sizeof amqp_keys);
	for (size_t i = 0; i < OWN_COUNT; i++)
		names[AMQP_KEYS + i] = own[i].key;
	near = name_find_nearest(key, names, AMQP_KEYS + OWN_COUNT);
	if (near)
		config_complain(&l->reader, line, "[hcpctl] has no key %s; did you mean %s?", key, near);
	else
		config_complain(&l->reader, line, "[hcpctl] has no key %s; hcpctl(1) lists the keys", key);
}

static enum own find_own(const char *key)
{
	enum own i = 0;

	while (i < OWN_COUNT && strcmp(own[i].key, key) != 0)
		i++;
	return i;
}

/* Takes the text. */
static void set_own(struct settings_loader *l, enum own which, char *text, const char *source, int line)
{
	char **field = (char **)(void *)((char *)l->s + own[which].setting);

	free(*field);
	*field = text;
	l->source[which] = source;
	l->line[which] = line;
}

static void read_own(struct settings_loader *l, enum own which, const char *value, int line)
{
	char *text = shellwords_unquote(value), *path;

	if (own[which].is_path && *text != '\0') {
		path = io_absolute(l->reader.dir, text);
		free(text);
		text = path;
	}
	set_own(l, which, text, NULL, line);
}

static void on_line(void *ctx, int line, const char *section, const char *key, const char *value)
{
	struct settings_loader *l = ctx;

	if (!section) {
		config_complain(&l->reader, line, "%s", value);
	} else if (strcmp(section, "hcpctl") != 0) {
		if (!key)
			config_complain(&l->reader, line,
				"there is no section [%s]; [hcpctl] is the only one", section);
		else if (*section == '\0')
			config_complain(&l->reader, line,
				"%s stands before the first section; put [hcpctl] above it", key);
	} else if (key && find_own(key) < OWN_COUNT) {
		read_own(l, find_own(key), value, line);
	} else if (key && is_amqp_key(key)) {
		config_set(&l->amqp, key, value, line);
	} else if (key) {
		complain_of_key(l, line, key);
	}
}

static void read_file(struct settings_loader *l, bool must_be_there)
{
	char real[PATH_MAX], *copy;
	struct buf text = {0};
	struct stat st;

	if (!l->s->path)
		return;
	if (io_read_file(l->s->path, FILE_MAX, &text, &st) < 0) {
		if (errno != ENOENT || must_be_there)
			config_complain(&l->reader, 0, "%s cannot be read: %s", l->s->path,
				errno == EFBIG ? "it is over 1 MiB" : strerror(errno));
	} else {
		copy = xstrdup(l->s->path);
		l->reader.dir = xstrdup(realpath(dirname(copy), real) ? real : "/");
		l->reader.mode = st.st_mode;
		free(copy);
		ini_parse(text.data ? text.data : "", text.size, on_line, l);
	}
	if (text.data)
		explicit_bzero(text.data, text.room);
	buf_fini(&text);
}

/* --- what wins --- */

/* An option, else the environment; an empty variable is as good as none. */
static const char *pick(
	const char *option, const char *option_name, const char *variable, const char **source)
{
	const char *value = getenv(variable);

	*source = option ? option_name : variable;
	return option ? option : value && *value ? value : NULL;
}

static void override(struct settings_loader *l, const struct ctl_options *o)
{
	const char *source, *value;

	if ((value = pick(o->url, "--url", "HCP_URL", &source))) {
		config_set(&l->amqp, "url", value, 0);
		l->url_source = source;
		l->reader.mode = 0; /* the file has no password then, so its mode does not matter */
	}
	for (enum own i = 0; i < OWN_COUNT; i++) {
		const char *given = *(const char *const *)(const void *)((const char *)o + own[i].given);

		if ((value = pick(given, own[i].option, own[i].variable, &source)))
			set_own(l, i, xstrdup(value), source, 0);
	}
}

static void complain_of_own(struct settings_loader *l, enum own which, const char *text, const char *wanted)
{
	const char *source = l->source[which];

	config_complain(&l->reader, l->line[which], "%s%s%s %s does not do; write %s", source ? source : "",
		source ? ": " : "", own[which].key, text, wanted);
}

static void check_names(struct settings_loader *l)
{
	const struct ctl_settings *s = l->s;

	if (s->caller && !message_is_caller_id(s->caller, strlen(s->caller)))
		complain_of_own(l, OWN_CALLER, s->caller, "1 to 128 letters, digits, -, _ and :");
	if (s->callee && !name_is_valid(s->callee, "-_"))
		complain_of_own(l, OWN_CALLEE, s->callee, "1 to 128 letters, digits, - and _");
}

/* A message about a line is the file's; one without a line is about an option, a variable or the file as a
 * whole, and names it itself, the url's excepted. The reader's path is empty, so each begins with a colon. */
static size_t say_all(struct settings_loader *l, config_say_fn *say, void *ctx)
{
	size_t errors = 0;

	for (size_t i = 0; i < l->reader.message_count; i++) {
		const struct config_message *m = &l->reader.messages[i];
		struct buf b = {0};

		if (m->line > 0)
			buf_addf(&b, "%s%s", l->s->path, m->text);
		else if (l->url_source && strncmp(m->text, ": url", 5) == 0)
			buf_addf(&b, "%s%s", l->url_source, m->text);
		else
			buf_add_text(&b, m->text + 2);
		say(ctx, m->is_error, buf_text(&b));
		errors += m->is_error;
		buf_fini(&b);
	}
	return errors;
}

int ctl_settings_load(struct ctl_settings *s, const struct ctl_options *o, config_say_fn *say, void *ctx)
{
	struct settings_loader l = {.s = s, .reader = {.path = ""}};
	size_t errors;

	*s = (struct ctl_settings){.config = xcalloc(1, sizeof(struct config)), .home = find_home()};
	s->path = find_file(s, o->config);
	config_section_init(&l.amqp, KIND_AMQP);
	read_file(&l, o->config != NULL);
	if (!l.reader.dir)
		l.reader.dir = xstrdup("/");
	override(&l, o);
	check_names(&l);
	config_fill_amqp(&l.reader, &l.amqp, s->config);
	errors = say_all(&l, say, ctx);
	config_section_fini(&l.amqp);
	config_reader_fini(&l.reader);
	if (errors == 0)
		return 0;
	ctl_settings_fini(s);
	return -1;
}

void ctl_settings_fini(struct ctl_settings *s)
{
	config_free(s->config);
	free(s->caller);
	free(s->callee);
	free(s->socket);
	free(s->daemon_config);
	free(s->home);
	free(s->path);
	*s = (struct ctl_settings){0};
}

const char *ctl_settings_user(const struct ctl_settings *s)
{
	const struct config_amqp *a = &s->config->amqp;

	/* With a certificate, `guest` only comes from a URL without a user; the broker would refuse that
	 * name. */
	if (!a->user || (a->sasl == SASL_EXTERNAL && strcmp(a->user, "guest") == 0))
		return NULL;
	return a->user;
}
