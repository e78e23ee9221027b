/* ctl_archive.c: `hcpctl archive`: sessions that have left the store: which days there are, what is in them, is it whole?
 * Owns the words of it. Reads the files itself, and of the store only how much of each counts; never writes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "archive.h"
#include "ctl_ops.h"
#include "query_private.h"

enum { OPT_JSON = 256, PREFIX_MIN = QUERY_PREFIX_MIN };

static const struct ctl_column columns[] = {
	{ .title = "DAY" }, { .title = "SESSIONS", .is_right = true }, { .title = "SIZE", .is_right = true }, { .title = "FILE" },
};
enum { COLUMNS = sizeof columns / sizeof *columns };

struct day {
	char day[ARCHIVE_DAY_SIZE];
	int64_t size, sessions;         /* as the store says */
};

struct looking {
	struct ctl_place place;
	struct day *days;
	size_t count;
	bool is_json;
	/* show */
	const char *word;
	char found[ID_SIZE];
	int64_t entries;
	int faults;
	struct buf line;                /* of an entry, as far as it has come */
};

/* ---- which there are ---- */

static int load_days(struct looking *l, struct query *q)
{
	sqlite3_stmt *st = query_prepare(q, "SELECT day, size, sessions FROM archives WHERE size > 0 ORDER BY day");
	int rc;

	if (st == NULL)
		return 0;               /* a store that is older than archives has none */
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct day *d;

		l->days = xrealloc(l->days, (l->count + 1) * sizeof *l->days);
		d = &l->days[l->count];
		snprintf(d->day, sizeof d->day, "%s", (const char *)sqlite3_column_text(st, 0));
		d->size = sqlite3_column_int64(st, 1);
		d->sessions = sqlite3_column_int64(st, 2);
		l->count += archive_is_day(d->day);
	}
	return query_finish(q, st, rc);
}

static int open_store(struct looking *l, struct ctl_options *o)
{
	struct ctl_settings s;
	struct query *q = NULL;
	char why[512];
	int status = ctl_cmd_settings(&s, o), code;

	if (status != 0)
		return status;
	ctl_place_find(&l->place, &s);
	ctl_settings_fini(&s);
	if ((code = query_open(l->place.state_dir, &q, why, sizeof why)) != EX_OK) {
		ctl_say("%s", why);
		return code == EX_CONFIG ? CTL_BAD_SETTINGS : CTL_ERROR;
	}
	if (load_days(l, q) < 0) {
		struct query_error e;

		query_fault(q, &e);
		ctl_say("%s; %s", e.message, e.next);
		status = CTL_ERROR;
	}
	query_close(q);
	return status;
}

static struct archive_reader *open_day(struct looking *l, const struct day *d)
{
	char path[4200];
	int fd;

	snprintf(path, sizeof path, "%s/" ARCHIVE_DIR "/%s" ARCHIVE_SUFFIX, l->place.state_dir, d->day);
	if ((fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) < 0) {
		ctl_say("%s: %s", path, strerror(errno));
		l->faults++;
		return NULL;
	}
	return archive_open(fd, d->size);
}

/* ---- lines, without tokens ---- */

/* In a row it stands as it is, in a message that is a row's text with escapes. What it opened is over. */
static void mask(struct buf *b, const char *name, const char *end)
{
	const char *at = buf_text(b), *from, *to;
	struct buf out = { 0 };

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

static bool print_piece(void *ctx, const char *data, size_t size)
{
	struct looking *l = ctx;

	while (size > 0) {
		const char *end = memchr(data, '\n', size);
		size_t part = end != NULL ? (size_t)(end - data) + 1 : size;

		buf_add(&l->line, data, part);
		data += part;
		size -= part;
		if (end == NULL)
			break;
		mask(&l->line, "\"session_token\":\"", "\"");
		mask(&l->line, "\\\"session_token\\\":\\\"", "\\\"");
		ctl_ops_print(&l->line);
		buf_clear(&l->line);
	}
	return !ferror(stdout);
}

/* ---- going through ---- */

/* What is done with an entry: 1 go on, 0 enough, -1 it is damaged, with why. */
typedef int entry_fn(struct looking *l, struct archive_reader *r, const struct archive_entry *e, char *why);

static bool each_entry(struct looking *l, const struct day *d, entry_fn *fn)
{
	struct archive_reader *r = open_day(l, d);
	char why[ARCHIVE_WHY_SIZE];
	struct archive_entry e;
	int64_t n = 0;
	int rc = 1, more = 0;

	while (r != NULL && rc > 0 && (more = archive_next(r, &e, why)) > 0) {
		n++;
		if ((rc = fn(l, r, &e, why)) < 0) {
			ctl_say("%s: %.8s: %s", d->day, e.session_id, why);
			l->faults++;
			rc = 1;         /* those behind it are whole, or not, by themselves */
		}
	}
	if (r != NULL && more < 0) {
		ctl_say("%s: it %s", d->day, why);
		l->faults++;
	} else if (r != NULL && rc > 0 && n != d->sessions) {
		ctl_say("%s: it has %lld sessions, and the store knows of %lld", d->day, (long long)n, (long long)d->sessions);
		l->faults++;
	}
	archive_free(r);
	return rc > 0;
}

static int verify_entry(struct looking *l, struct archive_reader *r, const struct archive_entry *e, char *why)
{
	l->entries++;
	return archive_verify(r, e, why) < 0 ? -1 : 1;
}

static int print_entry(struct looking *l, struct archive_reader *r, const struct archive_entry *e, char *why)
{
	l->entries++;
	buf_clear(&l->line);
	if (archive_read(r, e, print_piece, l, why) < 0)
		return -1;
	return !ferror(stdout);
}

/* By its beginning, as everywhere; it must fit one only. */
static int find_entry(struct looking *l, struct archive_reader *r, const struct archive_entry *e, char *why)
{
	(void)r, (void)why;
	if (strncasecmp(e->session_id, l->word, strlen(l->word)) != 0 || strcmp(e->session_id, l->found) == 0)
		return 1;
	l->entries++;
	memcpy(l->found, e->session_id, sizeof l->found);
	return l->entries < 2;
}

static int show_entry(struct looking *l, struct archive_reader *r, const struct archive_entry *e, char *why)
{
	if (strcmp(e->session_id, l->found) != 0)
		return 1;
	return print_entry(l, r, e, why) < 0 ? -1 : 0;
}

/* ---- the words of it ---- */

static int list_days(struct looking *l)
{
	struct ctl_table t;

	ctl_table_init(&t, columns, COLUMNS, ctl_ops_width(), -1);
	for (size_t i = 0; i < l->count; i++) {
		const struct day *d = &l->days[i];
		char path[4200], sessions[24], size[CTL_SPAN_SIZE];
		const char *cells[COLUMNS] = { d->day, sessions, size, path };
		struct stat st;
		bool is_there;

		snprintf(path, sizeof path, "%s/" ARCHIVE_DIR "/%s" ARCHIVE_SUFFIX, l->place.state_dir, d->day);
		is_there = stat(path, &st) == 0 && st.st_size >= d->size;
		snprintf(sessions, sizeof sessions, "%lld", (long long)d->sessions);
		ctl_size(d->size, size);
		if (!is_there)
			cells[3] = "is gone, or shorter than it was";
		if (l->is_json)
			printf("{\"day\":\"%s\",\"sessions\":%lld,\"size\":%lld,\"whole\":%s}\n", d->day, (long long)d->sessions,
				(long long)d->size, is_there ? "true" : "false");
		else
			ctl_table_add(&t, cells, '\0');
	}
	ctl_table_end(&t);
	ctl_ops_print(&t.out);
	ctl_table_fini(&t);
	if (l->count == 0 && !l->is_json)
		ctl_say("nothing was archived yet; [retention] grace in hcpd.ini says when sessions leave the store");
	return CTL_COMPLETED;
}

static int show(struct looking *l)
{
	bool go_on = true;

	for (size_t i = 0; i < l->count && go_on; i++)
		go_on = each_entry(l, &l->days[i], find_entry);
	if (l->entries > 1) {
		ctl_say("%s fits several sessions; write more of the id", l->word);
		return CTL_ERROR;
	}
	if (l->entries == 0) {
		ctl_say("there is no session %s in the archive; `hcpctl list` shows those that have not left the store", l->word);
		return CTL_ERROR;
	}
	l->faults = 0;                  /* of others, said already */
	for (size_t i = 0, done = 0; i < l->count && !done; i++)
		done = !each_entry(l, &l->days[i], show_entry);
	return l->faults > 0 ? CTL_FAILED : CTL_COMPLETED;
}

static const struct day *find_day(const struct looking *l, const char *word)
{
	for (size_t i = 0; i < l->count; i++)
		if (strcmp(l->days[i].day, word) == 0)
			return &l->days[i];
	return NULL;
}

static int go_through(struct looking *l, entry_fn *fn, bool is_verify)
{
	const struct day *only = l->word != NULL ? find_day(l, l->word) : NULL;

	if (l->word != NULL && only == NULL) {
		ctl_say("the archive has no %s; `hcpctl archive list` shows its days", l->word);
		return CTL_ERROR;
	}
	for (size_t i = 0; i < l->count; i++)
		if (only == NULL || only == &l->days[i])
			each_entry(l, &l->days[i], fn);
	if (l->faults > 0) {
		ctl_say("the archive is NOT as it was written: %d fault%s", l->faults, l->faults == 1 ? "" : "s");
		return CTL_FAILED;
	}
	if (is_verify)
		printf("good: %lld sessions of %zu day%s\n", (long long)l->entries, only != NULL ? 1 : l->count,
			only != NULL || l->count == 1 ? "" : "s");
	return CTL_COMPLETED;
}

enum what { LIST, SHOW, CAT, VERIFY };

static int look(struct looking *l, enum what what, struct ctl_options *o)
{
	int status = open_store(l, o);

	if (status == CTL_COMPLETED)
		status = what == LIST ? list_days(l) : what == SHOW ? show(l) :
			go_through(l, what == CAT ? print_entry : verify_entry, what == VERIFY);
	status = ctl_ops_flush(status);
	ctl_place_fini(&l->place);
	buf_fini(&l->line);
	free(l->days);
	return status;
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = { { "json", no_argument, NULL, OPT_JSON }, CTL_OPERATOR_OPTIONS };
	static const char *const words[] = { [LIST] = "list", [SHOW] = "show", [CAT] = "cat", [VERIFY] = "verify" };
	struct looking l = { .count = 0 };
	const char *word;
	int c, what = LIST, status = -1;

	while (status < 0 && (c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (c == OPT_JSON)
			l.is_json = true;
		else
			status = ctl_cmd_option(c, argv, &ctl_archive, o);
	}
	if (status >= 0)
		return status;
	word = optind < argc ? argv[optind++] : "list";
	while (what <= VERIFY && strcmp(words[what], word) != 0)
		what++;
	l.word = optind < argc ? argv[optind++] : NULL;
	if (what > VERIFY)
		return ctl_cmd_usage("archive ", "there is no `archive %s`; there are list, show SESSION, cat DAY and verify [DAY]", word);
	if (optind < argc || (what == LIST && l.word != NULL))
		return ctl_cmd_usage("archive ", "%s is too much", optind < argc ? argv[optind] : l.word);
	if ((what == SHOW || what == CAT) && l.word == NULL)
		return ctl_cmd_usage("archive ", what == SHOW ? "show which session?" : "cat which day?");
	if (what == SHOW && strlen(l.word) < PREFIX_MIN)
		return ctl_cmd_usage("archive ", "%s is too short for a session: %d characters at least", l.word, (int)PREFIX_MIN);
	if ((what == CAT || what == VERIFY) && l.word != NULL && !archive_is_day(l.word))
		return ctl_cmd_usage("archive ", "%s is no day; write it as 2026-01-31", l.word);
	if (l.is_json && what != LIST)
		return ctl_cmd_usage("archive ", "--json is for `archive list`; the others print JSON lines, or a verdict");
	return look(&l, (enum what)what, o);
}

const struct ctl_command ctl_archive = {
	.name = "archive",
	.summary = "sessions that left the store: [list], show SESSION, cat DAY, verify [DAY]",
	.help = "usage: hcpctl archive [list] [--json] [options]\n       hcpctl archive show SESSION [options]\n"
		"       hcpctl archive cat DAY [options]\n       hcpctl archive verify [DAY] [options]\n\n"
		"Sessions leave the daemon's store after [retention] grace of hcpd.ini, into a file for the day of their end.\n"
		"list shows the days; show prints one session, cat a whole day, as JSON lines: one that names the session,\n"
		"then a line for each of its rows, with the table that it was in. verify unpacks everything and compares it\n"
		"with its hashes and with what the store knows; it ends with 2 where something is not as it was written.\n"
		"The files are read directly, so this is for root and for the daemon's user.\n\n"
		"      --json          list: one JSON object a line\n" CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl archive show 0d2b6a0e | jq -r 'select(.table == \"events\") | .row.body'\n"
		"  hcpctl archive verify\n",
	.run = run,
};
