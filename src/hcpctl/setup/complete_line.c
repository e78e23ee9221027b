/* SPDX-License-Identifier: MIT */
/* complete_line.c: which words may stand at the cursor.
 * Owns which command takes what, and which option has which values. Reads the commands and options from
 * `hcpctl --help` and `hcpctl COMMAND --help`, so that there is no second list to keep up to date. Never
 * looks sessions or names up itself: complete.c does. */
#include "hcpctl/setup/complete.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "protocol/names.h"

#define OPTIONS_MAX 64

enum takes {
	TAKES_NOTHING,
	TAKES_CAPABILITY,
	TAKES_SESSION,
	TAKES_SESSIONS,
	TAKES_LIVE,
	TAKES_LIVES,
	TAKES_ARTIFACT,
	TAKES_TOKEN,
	TAKES_AUDIT,
	TAKES_ARCHIVE
};

static const struct {
	const char *command;
	enum takes takes;
} commands[] = {
	{"submit", TAKES_CAPABILITY},
	{"watch", TAKES_LIVES},
	{"abort", TAKES_LIVES},
	{"pause", TAKES_LIVES},
	{"resume", TAKES_LIVES},
	{"checkpoint", TAKES_LIVES},
	{"recover", TAKES_LIVES},
	{"extend", TAKES_LIVES},
	{"show", TAKES_SESSION},
	{"events", TAKES_SESSION},
	{"log", TAKES_SESSION},
	{"checkpoints", TAKES_SESSION},
	{"replay", TAKES_SESSION},
	{"artifact", TAKES_ARTIFACT},
	{"approve", TAKES_LIVE},
	{"deny", TAKES_LIVE},
	{"approvals", TAKES_LIVE},
	{"token", TAKES_TOKEN},
	{"audit", TAKES_AUDIT},
	{"archive", TAKES_ARCHIVE},
};

/* Options whose values are known; for all others nothing is offered. */
static const struct {
	const char *option;
	/* separated by spaces; ":files", ":capabilities", ":callers" are looked up */
	const char *values;
	bool is_list;             /* several, with commas */
	const char *const *names; /* instead of `values`; NULL at the end */
} values[] = {
	{"--state", .values = "PENDING RUNNING PAUSED ABORTING COMPLETED FAILED ABORTED REJECTED live over",
		.is_list = true},
	{"--how", .names = recovery_names},
	{"--priority", .names = priority_names},
	{"--data-class", .names = data_class_names},
	{"--inputs", .values = ":files"},
	{"--config", .values = ":files"},
	{"--daemon-config", .values = ":files"},
	{"--socket", .values = ":files"},
	{"--key", .values = ":files"},
	{"--output", .values = ":files"},
	{"--capability", .values = ":capabilities"},
	{"--caller", .values = ":callers"},
	{"--callers", .values = ":callers", .is_list = true},
};

struct option_line {
	char name[40];  /* --state */
	char letter[4]; /* -s, or empty */
	bool has_value;
	char remark[100];
};

struct help {
	struct option_line options[OPTIONS_MAX];
	size_t count;
};

/* --- what --help says --- */

/* Starts `hcpctl [COMMAND] --help` in a child. NULL where that fails. */
static FILE *open_help(const char *command)
{
	int ends[2];
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return NULL;
	if ((child = vfork()) == 0) {
		dup2(ends[1], STDOUT_FILENO);
		if (*command)
			execl("/proc/self/exe", "hcpctl", command, "--help", (char *)NULL);
		else
			execl("/proc/self/exe", "hcpctl", "--help", (char *)NULL);
		_exit(1);
	}
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return NULL;
	}
	return fdopen(ends[0], "r");
}

/* "  -s, --state S,...   remark": one space before a value, several before the remark. */
static bool parse_option(const char *line, struct option_line *o)
{
	size_t size;

	*o = (struct option_line){0};
	if (strncmp(line, "  -", 3) == 0 && strncmp(line + 4, ", --", 4) == 0) {
		snprintf(o->letter, sizeof o->letter, "-%c", line[3]);
		line += 6;
	} else if (strncmp(line, "      --", 8) == 0) {
		line += 6;
	} else {
		return false;
	}
	size = strcspn(line, " \n");
	if (size >= sizeof o->name)
		return false;
	memcpy(o->name, line, size);
	line += size;
	if (line[0] == ' ' && line[1] != ' ' && line[1] != '\0') {
		o->has_value = true;
		line += 1 + strcspn(line + 1, " \n");
	}
	line += strspn(line, " ");
	snprintf(o->remark, sizeof o->remark, "%.*s", (int)strcspn(line, "\n"), line);
	return true;
}

static void add_option(struct help *h, const struct option_line *o)
{
	for (size_t i = 0; i < h->count; i++)
		if (strcmp(h->options[i].name, o->name) == 0)
			return;
	if (h->count < OPTIONS_MAX)
		h->options[h->count++] = *o;
}

static void read_options(struct help *h, const char *command)
{
	static const struct option_line help_itself = {"--help", "-h", false, "how it is used"};
	FILE *f = open_help(command);
	struct option_line o;
	char line[512];

	while (f && fgets(line, sizeof line, f) && strncmp(line, "Example", 7) != 0)
		if (parse_option(line, &o))
			add_option(h, &o);
	if (f)
		fclose(f);
	if (h->count)
		add_option(h, &help_itself);
}

/* The lines "  name   summary" above the options. */
static void offer_commands(const struct complete *c)
{
	FILE *f = open_help("");
	char line[512];
	size_t size, gap;

	while (f && fgets(line, sizeof line, f) && strncmp(line, "Example", 7) != 0) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "  ", 2) != 0 || !islower((unsigned char)line[2]))
			continue;
		size = strcspn(line + 2, " ");
		gap = strspn(line + 2 + size, " ");
		line[2 + size] = '\0';
		complete_offer(c, line + 2, gap ? line + 2 + size + gap : "", NULL);
	}
	if (f)
		fclose(f);
}

static const struct option_line *find_option(const struct help *h, const char *word)
{
	size_t size = strcspn(word, "=");

	for (size_t i = 0; i < h->count; i++)
		if (strcmp(h->options[i].letter, word) == 0 ||
			(strlen(h->options[i].name) == size && strncmp(h->options[i].name, word, size) == 0))
			return &h->options[i];
	return NULL;
}

/* --- values --- */

static void offer_words(const struct complete *c, const char *words)
{
	char word[32];

	for (; *words; words += strspn(words, " ")) {
		size_t size = strcspn(words, " ");

		snprintf(word, sizeof word, "%.*s", (int)size, words);
		complete_offer(c, word, NULL, NULL);
		words += size;
	}
}

static void offer_values(struct complete *c, const char *option)
{
	struct buf before = {0};
	const char *comma;

	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		if (strcmp(values[i].option, option) != 0)
			continue;
		/* A comma begins the next value; the values before it stay. */
		if (values[i].is_list && (comma = strrchr(c->prefix, ','))) {
			buf_add_text(&before, c->before);
			buf_add(&before, c->prefix, (size_t)(comma + 1 - c->prefix));
			c->before = buf_text(&before);
			c->prefix = comma + 1;
		}
		for (const char *const *name = values[i].names; name && *name; name++)
			complete_offer(c, *name, NULL, NULL);
		if (!values[i].values)
			break;
		if (strcmp(values[i].values, ":files") == 0)
			puts(":files");
		else if (values[i].values[0] == ':')
			complete_configured(c, values[i].values + 1);
		else
			offer_words(c, values[i].values);
		break;
	}
	c->before = "";
	buf_fini(&before);
}

/* --- the line --- */

struct line {
	const char *command;             /* NULL: not yet */
	const struct option_line *waits; /* the option whose value is the word at the cursor */
	/* number of words before the cursor, behind the command, that are no options */
	int positional;
	const char *first, *last; /* the first and the last of those words */
};

/* bash splits --state=RUN into three words. */
static bool is_equals(const char *word)
{
	return strcmp(word, "=") == 0;
}

static void walk(struct line *l, struct help *h, char *const *words, int count)
{
	for (int i = 0; i < count; i++) {
		const char *word = words[i];

		if (!l->command && *word == '-' && h->count == 0)
			read_options(h, "");

		if (is_equals(word) && i > 0) {
			l->waits = find_option(h, words[i - 1]);
		} else if (l->waits) {
			l->waits = NULL;
		} else if (*word == '-' && word[1]) {
			const struct option_line *o = find_option(h, word);

			l->waits = o && o->has_value && !strchr(word, '=') ? o : NULL;
		} else if (!l->command) {
			l->command = word;
			h->count = 0;
			read_options(h, word);
		} else {
			l->first = l->positional++ ? l->first : word;
			l->last = word;
		}
	}
}

static void offer_positional(const struct complete *c, const struct line *l)
{
	enum takes takes = TAKES_NOTHING;

	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (strcmp(commands[i].command, l->command) == 0)
			takes = commands[i].takes;
	if (takes == TAKES_CAPABILITY && l->positional == 0)
		complete_configured(c, "capabilities");
	else if (takes == TAKES_SESSIONS || takes == TAKES_LIVES ||
		(takes == TAKES_SESSION && l->positional == 0))
		complete_sessions(c, takes == TAKES_LIVES);
	else if (takes == TAKES_ARTIFACT && l->positional == 0)
		offer_words(c, "get list");
	else if (takes == TAKES_ARTIFACT && l->positional == 1)
		complete_sessions(c, false);
	else if (takes == TAKES_ARTIFACT && l->positional == 2 && strcmp(l->first, "get") == 0)
		complete_artifacts(c, l->last);
	else if (takes == TAKES_AUDIT && l->positional == 0)
		offer_words(c, "verify");
	else if (takes == TAKES_ARCHIVE && l->positional == 0)
		offer_words(c, "list show cat verify");
	else if (takes == TAKES_TOKEN && l->positional == 0)
		offer_words(c, "revoke rotate");
	else if (takes == TAKES_TOKEN && l->positional == 1 && strcmp(l->first, "revoke") == 0)
		complete_sessions(c, true);
}

static void offer_options(const struct complete *c, const struct help *h)
{
	for (size_t i = 0; i < h->count; i++) {
		complete_offer(c, h->options[i].name, h->options[i].remark, NULL);
		if (strcmp(c->prefix, "-") == 0 && h->options[i].letter[0])
			complete_offer(c, h->options[i].letter, h->options[i].remark, NULL);
	}
}

void complete_take_options(char *const *words, int count, struct ctl_options *o)
{
	const struct {
		const char *name;
		const char **field;
	} known[] = {
		{"--daemon-config", &o->daemon_config}, {"--socket", &o->socket}, {"--config", &o->config}};

	for (int i = 0; i < count; i++)
		for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
			size_t size = strlen(known[k].name);

			if (strncmp(words[i], known[k].name, size) != 0)
				continue;
			if (words[i][size] == '=')
				*known[k].field = words[i] + size + 1;
			else if (!words[i][size] && i + 2 < count && is_equals(words[i + 1]))
				*known[k].field = words[i + 2];
			else if (!words[i][size] && i + 1 < count)
				*known[k].field = words[i + 1];
		}
}

void complete_line(struct complete *c, char *const *words, int count)
{
	static struct help h; /* static because it is large */
	struct line l = {0};
	const char *current = count > 0 ? words[count - 1] : "", *equals;
	struct buf before = {0};

	walk(&l, &h, words, count - 1);
	if (!l.command && *current == '-' && h.count == 0)
		read_options(&h, "");
	if (is_equals(current) && count > 1 && find_option(&h, words[count - 2])) {
		l.waits = find_option(&h, words[count - 2]);
		current = "";
	}
	c->prefix = current;
	if (l.waits) {
		offer_values(c, l.waits->name);
	} else if (strncmp(current, "--", 2) == 0 && (equals = strchr(current, '=')) &&
		find_option(&h, current)) {
		buf_add(&before, current, (size_t)(equals + 1 - current));
		c->before = buf_text(&before);
		c->prefix = equals + 1;
		offer_values(c, find_option(&h, current)->name);
	} else if (*current == '-') {
		offer_options(c, &h);
	} else if (!l.command) {
		offer_commands(c);
	} else {
		offer_positional(c, &l);
	}
	buf_fini(&before);
}
