/* SPDX-License-Identifier: MIT */
/* archive.c: `hcpctl archive`: sessions that have left the store: list the days, show a session, print or
 * verify a day.
 * Owns the texts of the command. Reads the files itself (archive_reader.c), and from the store only how many
 * bytes of each file count. Never writes. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "hcpctl/common/op_common.h"
#include "hcpctl/common/archive_reader.h"

enum { OPT_JSON = 256, PREFIX_MIN = QUERY_PREFIX_MIN };

static const struct ctl_column columns[] = {
	{.title = "DAY"},
	{.title = "SESSIONS", .is_right = true},
	{.title = "SIZE", .is_right = true},
	{.title = "FILE"},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

struct archive_view {
	struct ctl_archive_reader reader;
	bool is_json;
	const char *word;
	int64_t entries;
};

static int open_archive(struct archive_view *l, struct ctl_options *o)
{
	struct ctl_settings s;
	struct ctl_daemon_paths paths;
	char why[1024];
	int status = ctl_command_settings(&s, o), code;

	if (status != 0)
		return status;
	ctl_daemon_paths_find(&paths, &s);
	ctl_settings_fini(&s);
	code = ctl_archive_reader_open(&l->reader, paths.state_dir, why, sizeof why);
	ctl_daemon_paths_fini(&paths);
	if (code == EX_OK)
		return CTL_OK;
	ctl_say("%s", why);
	return code == EX_CONFIG ? CTL_BAD_SETTINGS : CTL_ERROR;
}

/* ---- lines, without tokens ---- */

/* Hides session tokens. In a row the token stands as it is; in a message, which is text inside a row, its
 * quotes are escaped. The sessions are over, but a token is never shown. */
static void mask(struct buf *b, const char *name, const char *end)
{
	const char *at = buf_text(b), *from, *to;
	struct buf out = {0};

	if (strstr(at, name) == NULL)
		return;
	while ((from = strstr(at, name)) != NULL && (to = strstr(from + strlen(name), end)) != NULL) {
		from += strlen(name);
		buf_add(&out, at, (size_t)(from - at));
		buf_add_text(&out, "***");
		at = to;
	}
	buf_add_text(&out, at);
	buf_fini(b);
	*b = out;
}

static bool print_line(void *ctx, struct buf *line)
{
	(void)ctx;
	mask(line, "\"session_token\":\"", "\"");
	mask(line, "\\\"session_token\\\":\\\"", "\\\"");
	ctl_op_print(line);
	return !ferror(stdout);
}

static int verify_entry(void *ctx, struct archive_reader *r, const struct archive_entry *e, char *why)
{
	struct archive_view *l = ctx;

	l->entries++;
	return archive_verify(r, e, why) < 0 ? -1 : 1;
}

static int print_entry(void *ctx, struct archive_reader *r, const struct archive_entry *e, char *why)
{
	struct archive_view *l = ctx;

	l->entries++;
	if (ctl_archive_reader_lines(r, e, print_line, NULL, why) < 0)
		return -1;
	return !ferror(stdout);
}

/* ---- the actions ---- */

static int list_days(struct archive_view *l)
{
	struct ctl_table t;

	ctl_table_init(&t, columns, COLUMNS, ctl_op_width(), -1);
	for (size_t i = 0; i < l->reader.count; i++) {
		const struct ctl_archive_reader_day *d = &l->reader.days[i];
		char path[4200], sessions[24], size[CTL_SPAN_SIZE];
		const char *cells[COLUMNS] = {d->day, sessions, size, path};
		struct stat st;
		bool is_there, is_whole;

		ctl_archive_reader_path(&l->reader, d, path, sizeof path);
		is_there = stat(path, &st) == 0;
		is_whole = is_there && st.st_size >= d->size;
		snprintf(sessions, sizeof sessions, "%lld", (long long)d->sessions);
		ctl_size(d->size, size);
		if (!is_whole)
			cells[3] = is_there ? "is shorter than it was" : "is missing";
		if (l->is_json)
			printf("{\"day\":\"%s\",\"sessions\":%lld,\"size\":%lld,\"whole\":%s}\n", d->day,
				(long long)d->sessions, (long long)d->size, is_whole ? "true" : "false");
		else
			ctl_table_add(&t, cells, '\0');
	}
	ctl_table_end(&t);
	ctl_op_print(&t.out);
	ctl_table_fini(&t);
	if (l->reader.count == 0 && !l->is_json)
		ctl_say("nothing was archived yet; [retention] grace in hcpd.ini says when sessions leave "
			"the store");
	return CTL_OK;
}

static int show(struct archive_view *l)
{
	char id[ID_SIZE];
	int count = ctl_archive_reader_find(&l->reader, l->word, id);

	if (count > 1) {
		ctl_say("%s fits several sessions; write more of the id", l->word);
		return CTL_ERROR;
	}
	if (count == 0) {
		ctl_say("there is no session %s in the archive; `hcpctl list` shows those that have not left "
			"the store",
			l->word);
		return CTL_ERROR;
	}
	return ctl_archive_reader_read(&l->reader, id, print_line, NULL) ? CTL_OK : CTL_FAILED;
}

static const struct ctl_archive_reader_day *find_day(const struct ctl_archive_reader *s, const char *word)
{
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->days[i].day, word) == 0)
			return &s->days[i];
	return NULL;
}

static int run_over_days(struct archive_view *l, ctl_archive_reader_fn *fn, bool is_verify)
{
	struct ctl_archive_reader *s = &l->reader;
	const struct ctl_archive_reader_day *only = l->word != NULL ? find_day(s, l->word) : NULL;

	if (l->word != NULL && only == NULL) {
		ctl_say("the archive has no %s; `hcpctl archive list` shows its days", l->word);
		return CTL_ERROR;
	}
	for (size_t i = 0; i < s->count; i++)
		if (only == NULL || only == &s->days[i])
			ctl_archive_reader_each(s, &s->days[i], fn, l);
	if (s->faults > 0) {
		ctl_say("the archive is NOT as it was written: %d fault%s", s->faults,
			s->faults == 1 ? "" : "s");
		return CTL_FAILED;
	}
	if (is_verify)
		printf("good: %lld sessions of %zu day%s\n", (long long)l->entries,
			only != NULL ? 1 : s->count, only != NULL || s->count == 1 ? "" : "s");
	return CTL_OK;
}

enum action { LIST, SHOW, CAT, VERIFY };

static int run_action(struct archive_view *l, enum action action, struct ctl_options *o)
{
	int status = open_archive(l, o);

	if (status == CTL_OK)
		status = action == LIST ?
			list_days(l) :
			action == SHOW ?
			show(l) :
			run_over_days(l, action == CAT ? print_entry : verify_entry, action == VERIFY);
	status = ctl_op_flush(status);
	ctl_archive_reader_fini(&l->reader);
	return status;
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = {{"json", no_argument, NULL, OPT_JSON}, CTL_OPERATOR_OPTIONS};
	static const char *const words[] = {
		[LIST] = "list", [SHOW] = "show", [CAT] = "cat", [VERIFY] = "verify"};
	struct archive_view l = {.entries = 0};
	const char *word;
	int c, action = LIST, status = -1;

	while (status < 0 && (c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (c == OPT_JSON)
			l.is_json = true;
		else
			status = ctl_command_option(c, argv, &ctl_archive, o);
	}
	if (status >= 0)
		return status;
	word = optind < argc ? argv[optind++] : "list";
	while (action <= VERIFY && strcmp(words[action], word) != 0)
		action++;
	l.word = optind < argc ? argv[optind++] : NULL;
	if (action > VERIFY)
		return ctl_command_usage("archive ",
			"there is no `archive %s`; there are list, show SESSION, cat DAY and verify [DAY]",
			word);
	if (optind < argc || (action == LIST && l.word != NULL))
		return ctl_command_usage("archive ", "%s is too much", optind < argc ? argv[optind] : l.word);
	if ((action == SHOW || action == CAT) && l.word == NULL)
		return ctl_command_usage(
			"archive ", action == SHOW ? "show which session?" : "cat which day?");
	if (action == SHOW && strlen(l.word) < PREFIX_MIN)
		return ctl_command_usage("archive ", "%s is too short for a session: %d characters at least",
			l.word, (int)PREFIX_MIN);
	if ((action == CAT || action == VERIFY) && l.word != NULL && !archive_is_day(l.word))
		return ctl_command_usage("archive ", "%s is no day; write it as 2026-01-31", l.word);
	if (l.is_json && action != LIST)
		return ctl_command_usage("archive ",
			"--json is for `archive list`; the others print JSON lines, or a verdict");
	return run_action(&l, (enum action)action, o);
}

const struct ctl_command ctl_archive = {
	.name = "archive",
	.summary = "sessions that left the store: [list], show SESSION, cat DAY, verify [DAY]",
	.help = "usage: hcpctl archive [list] [--json] [options]\n       hcpctl archive show SESSION "
		"[options]\n"
		"       hcpctl archive cat DAY [options]\n       hcpctl archive verify [DAY] [options]\n\n"
		"Sessions leave the daemon's store after [retention] grace of hcpd.ini, into a file for the "
		"day of their end.\n"
		"list shows the days; show prints one session, cat a whole day, as JSON lines: one that "
		"names the session,\n"
		"then a line for each of its rows, with the table that it was in. verify unpacks everything "
		"and compares it\n"
		"with its hashes and with what the store knows; it ends with 2 where something is not as it "
		"was written.\n"
		"The files are read directly, so this is for root and for the daemon's user.\n\n"
		"      --json          list: one JSON object a line\n" CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl archive show 0d2b6a0e | jq -r 'select(.table == \"events\") | "
		".row.body'\n"
		"  hcpctl archive verify\n",
	.run = run,
};
