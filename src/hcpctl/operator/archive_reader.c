/* ctl_shelf.c: sessions that have left the store, found in the archive's files.
 * Owns the way through the files, for all commands that look for one there. */
#include "hcpctl/operator/archive_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>
#include <unistd.h>

#include "store/artifact_name.h"
#include "hcpctl/common/ctl.h"
#include "query/query_private.h"

/* ---- which days there are ---- */

static int load_days(struct ctl_shelf *s, struct query *q)
{
	sqlite3_stmt *st =
		query_prepare(q, "SELECT day, size, sessions FROM archives WHERE size > 0 ORDER BY day");
	int rc;

	if (st == NULL)
		return -1;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *day = (const char *)sqlite3_column_text(st, 0);
		struct ctl_shelf_day *d;

		s->days = xrealloc(s->days, (s->count + 1) * sizeof *s->days);
		d = &s->days[s->count];
		snprintf(d->day, sizeof d->day, "%s", day != NULL ? day : "");
		d->size = sqlite3_column_int64(st, 1);
		d->sessions = sqlite3_column_int64(st, 2);
		s->count += archive_is_day(d->day);
	}
	return query_finish(q, st, rc);
}

int ctl_shelf_open(struct ctl_shelf *s, const char *state_dir, char *why, size_t why_size)
{
	struct query *q = NULL;
	int code;

	*s = (struct ctl_shelf){.state_dir = xstrdup(state_dir)};
	if ((code = query_open(state_dir, &q, why, why_size)) != EX_OK)
		return code;
	if (load_days(s, q) < 0) {
		struct query_error e;

		query_fault(q, &e);
		snprintf(why, why_size, "%s; %s", e.message, e.next);
		code = EX_IOERR;
	}
	query_close(q);
	return code;
}

void ctl_shelf_fini(struct ctl_shelf *s)
{
	free(s->state_dir);
	free(s->days);
	*s = (struct ctl_shelf){.count = 0};
}

/* ---- from entry to entry ---- */

void ctl_shelf_path(const struct ctl_shelf *s, const struct ctl_shelf_day *d, char *path, size_t size)
{
	snprintf(path, size, "%s/" ARCHIVE_DIR "/%s" ARCHIVE_SUFFIX, s->state_dir, d->day);
}

static void __attribute__((format(printf, 2, 3))) fault(struct ctl_shelf *s, const char *fmt, ...)
{
	char text[5000];
	va_list ap;

	s->faults++;
	if (s->is_quiet)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	ctl_say("%s", text);
}

static struct archive_reader *open_day(struct ctl_shelf *s, const struct ctl_shelf_day *d)
{
	char path[4200];
	int fd;

	ctl_shelf_path(s, d, path, sizeof path);
	if ((fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) >= 0)
		return archive_open(fd, d->size);
	if (errno == ENOENT)
		fault(s, "%s is missing, and the store knows of %lld sessions in it", path,
			(long long)d->sessions);
	else
		fault(s, "%s: %s", path, strerror(errno));
	return NULL;
}

bool ctl_shelf_each(struct ctl_shelf *s, const struct ctl_shelf_day *d, ctl_shelf_fn *fn, void *ctx)
{
	struct archive_reader *r = open_day(s, d);
	char why[ARCHIVE_WHY_SIZE];
	struct archive_entry e;
	int64_t n = 0;
	int rc = 1, more = 0;

	while (r != NULL && rc > 0 && (more = archive_next(r, &e, why)) > 0) {
		n++;
		if ((rc = fn(ctx, r, &e, why)) < 0) {
			fault(s, "%s: %.8s: %s", d->day, e.session_id, why);
			rc = 1; /* those behind it are whole, or not, by themselves */
		}
	}
	if (r != NULL && more < 0)
		fault(s, "%s: it %s", d->day, why);
	else if (r != NULL && rc > 0 && n != d->sessions)
		fault(s, "%s: it has %lld sessions, and the store knows of %lld", d->day, (long long)n,
			(long long)d->sessions);
	archive_free(r);
	return rc > 0;
}

/* ---- one session ---- */

struct finding {
	const char *word;
	char *id;
	int count;
};

static int find_entry(void *ctx, struct archive_reader *r, const struct archive_entry *e, char *why)
{
	struct finding *f = ctx;

	(void)r, (void)why;
	if (strncasecmp(e->session_id, f->word, strlen(f->word)) != 0 || strcmp(e->session_id, f->id) == 0)
		return 1;
	memcpy(f->id, e->session_id, ID_SIZE);
	return ++f->count < 2;
}

int ctl_shelf_find(struct ctl_shelf *s, const char *word, char session_id[ID_SIZE])
{
	struct finding f = {.word = word, .id = session_id};

	session_id[0] = '\0';
	for (size_t i = 0; i < s->count && f.count < 2; i++) {
		int before = f.count;

		ctl_shelf_each(s, &s->days[i], find_entry, &f);
		if (f.count > before)
			s->found = i;
	}
	return f.count;
}

struct lines {
	struct buf line; /* as far as it has come */
	ctl_shelf_line_fn *fn;
	void *ctx;
};

static bool take_piece(void *ctx, const char *data, size_t size)
{
	struct lines *l = ctx;
	bool more = true;

	while (size > 0 && more) {
		const char *end = memchr(data, '\n', size);
		size_t part = end != NULL ? (size_t)(end - data) + 1 : size;

		buf_add(&l->line, data, part);
		data += part;
		size -= part;
		if (end == NULL)
			break;
		more = l->fn(l->ctx, &l->line);
		buf_clear(&l->line);
	}
	return more;
}

int ctl_shelf_lines(
	struct archive_reader *r, const struct archive_entry *e, ctl_shelf_line_fn *fn, void *ctx, char *why)
{
	struct lines l = {.fn = fn, .ctx = ctx};
	int rc = archive_read(r, e, take_piece, &l, why);

	buf_fini(&l.line);
	return rc < 0 ? -1 : 1;
}

struct reading {
	const char *id;
	ctl_shelf_line_fn *fn;
	void *ctx;
	bool is_read;
};

static int read_entry(void *ctx, struct archive_reader *r, const struct archive_entry *e, char *why)
{
	struct reading *w = ctx;

	if (strcmp(e->session_id, w->id) != 0)
		return 1;
	if (ctl_shelf_lines(r, e, w->fn, w->ctx, why) < 0)
		return -1;
	w->is_read = true;
	return 0;
}

bool ctl_shelf_read(struct ctl_shelf *s, const char *session_id, ctl_shelf_line_fn *fn, void *ctx)
{
	struct reading w = {.id = session_id, .fn = fn, .ctx = ctx};

	if (s->found < s->count)
		ctl_shelf_each(s, &s->days[s->found], read_entry, &w);
	return w.is_read;
}

/* ---- its artifacts ---- */

struct artifacts_of {
	const char *id;
	struct buf items; /* one a line: nothing is given before all was found whole */
};

/* What was announced and never kept has no size, and is none. */
static bool take_artifact(void *ctx, struct buf *line)
{
	static const char is_one[] = "{\"table\":\"artifacts\",";
	struct artifacts_of *a = ctx;
	json_t *root = NULL, *row;
	const char *name, *type, *sha256;
	json_int_t size = 0;

	if (line->size > sizeof is_one && memcmp(line->data, is_one, sizeof is_one - 1) == 0)
		root = json_loadb(line->data, line->size, 0, NULL);
	row = json_object_get(root, "row");
	if (row &&
		json_unpack(row, "{s:s, s:s, s:s, s:I}", "name", &name, "type", &type, "sha256", &sha256,
			"size_bytes", &size) == 0 &&
		strspn(sha256, "0123456789abcdef") == 64) {
		buf_add_text(&a->items, "{\"artifact\":{\"name\":");
		buf_add_json(&a->items, name, strlen(name));
		buf_add_text(&a->items, ",\"type\":");
		buf_add_json(&a->items, type, strlen(type));
		buf_addf(&a->items, ",\"size_bytes\":%lld,\"checksum\":\"sha256:", (long long)size);
		buf_add_text(&a->items, sha256);
		buf_add_text(&a->items, "\",\"uri\":\"");
		artifact_add_uri(&a->items, a->id, name);
		buf_add_text(&a->items, "\"}}\n");
	}
	json_decref(root);
	return true;
}

bool ctl_shelf_artifacts(struct ctl_shelf *s, const char *session_id, query_item_fn *fn, void *ctx)
{
	struct artifacts_of a = {.id = session_id};
	bool is_whole = ctl_shelf_read(s, session_id, take_artifact, &a), more = is_whole;

	for (size_t at = 0; more && at < a.items.size;) {
		const char *item = a.items.data + at, *end = memchr(item, '\n', a.items.size - at);

		more = fn(ctx, item, (size_t)(end - item));
		at += (size_t)(end - item) + 1;
	}
	buf_fini(&a.items);
	return is_whole;
}
