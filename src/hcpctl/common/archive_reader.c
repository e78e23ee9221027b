/* SPDX-License-Identifier: MIT */
/* archive_reader.c: sessions that have left the store, found in the archive's files.
 * Owns the iteration over files and entries, for all commands that search the archive. Never writes. */
#include "hcpctl/common/archive_reader.h"
#include "json/text.h"

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
#include "store/reader.h"

/* ---- which days there are ---- */

static int load_days(struct ctl_archive_reader *s, struct store_reader *q)
{
	sqlite3_stmt *st =
		reader_prepare(q, "SELECT day, size, sessions FROM archives WHERE size > 0 ORDER BY day");
	int rc;

	if (st == NULL)
		return -1;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *day = (const char *)sqlite3_column_text(st, 0);
		struct ctl_archive_reader_day *d;

		s->days = xrealloc(s->days, (s->count + 1) * sizeof *s->days);
		d = &s->days[s->count];
		snprintf(d->day, sizeof d->day, "%s", day != NULL ? day : "");
		d->size = sqlite3_column_int64(st, 1);
		d->sessions = sqlite3_column_int64(st, 2);
		s->count += archive_is_day(d->day);
	}
	return reader_finish(q, st, rc);
}

int ctl_archive_reader_open(struct ctl_archive_reader *s, const char *state_dir, char *why, size_t why_size)
{
	struct store_reader *q = NULL;
	int code;

	*s = (struct ctl_archive_reader){.state_dir = xstrdup(state_dir)};
	if ((code = reader_open(state_dir, &q, why, why_size)) != EX_OK)
		return code;
	if (load_days(s, q) < 0) {
		snprintf(why, why_size,
			"the store in %.200s cannot be read: %s; "
			"try again; if it stays so, look at the disk and at the daemon's log",
			q->dir, q->error);
		code = EX_IOERR;
	}
	reader_close(q);
	return code;
}

void ctl_archive_reader_fini(struct ctl_archive_reader *s)
{
	free(s->state_dir);
	free(s->days);
	*s = (struct ctl_archive_reader){.count = 0};
}

/* ---- entries ---- */

void ctl_archive_reader_path(
	const struct ctl_archive_reader *s, const struct ctl_archive_reader_day *d, char *path, size_t size)
{
	snprintf(path, size, "%s/" ARCHIVE_DIR "/%s" ARCHIVE_SUFFIX, s->state_dir, d->day);
}

static void __attribute__((format(printf, 2, 3))) fault(struct ctl_archive_reader *s, const char *fmt, ...)
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

static struct archive_reader *open_day(struct ctl_archive_reader *s, const struct ctl_archive_reader_day *d)
{
	char path[4200];
	int fd;

	ctl_archive_reader_path(s, d, path, sizeof path);
	if ((fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) >= 0)
		return archive_open(fd, d->size);
	if (errno == ENOENT)
		fault(s, "%s is missing, and the store knows of %lld sessions in it", path,
			(long long)d->sessions);
	else
		fault(s, "%s: %s", path, strerror(errno));
	return NULL;
}

bool ctl_archive_reader_each(struct ctl_archive_reader *s, const struct ctl_archive_reader_day *d,
	ctl_archive_reader_fn *fn, void *ctx)
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
			rc = 1; /* go on: an entry behind a damaged one may be whole */
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

struct session_search {
	const char *word;
	char *id;
	int count;
};

static int find_entry(void *ctx, struct archive_reader *r, const struct archive_entry *e, char *why)
{
	struct session_search *f = ctx;

	(void)r, (void)why;
	if (strncasecmp(e->session_id, f->word, strlen(f->word)) != 0 || strcmp(e->session_id, f->id) == 0)
		return 1;
	memcpy(f->id, e->session_id, ID_SIZE);
	return ++f->count < 2;
}

int ctl_archive_reader_find(struct ctl_archive_reader *s, const char *word, char session_id[ID_SIZE])
{
	struct session_search f = {.word = word, .id = session_id};

	session_id[0] = '\0';
	for (size_t i = 0; i < s->count && f.count < 2; i++) {
		int before = f.count;

		ctl_archive_reader_each(s, &s->days[i], find_entry, &f);
		if (f.count > before)
			s->found = i;
	}
	return f.count;
}

struct line_splitter {
	struct buf line; /* the beginning of a line whose end has not come yet */
	ctl_archive_reader_line_fn *fn;
	void *ctx;
};

static bool take_piece(void *ctx, const char *data, size_t size)
{
	struct line_splitter *l = ctx;
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

int ctl_archive_reader_lines(struct archive_reader *r, const struct archive_entry *e,
	ctl_archive_reader_line_fn *fn, void *ctx, char *why)
{
	struct line_splitter l = {.fn = fn, .ctx = ctx};
	int rc = archive_read(r, e, take_piece, &l, why);

	buf_fini(&l.line);
	return rc < 0 ? -1 : 1;
}

struct entry_reading {
	const char *id;
	ctl_archive_reader_line_fn *fn;
	void *ctx;
	bool is_read;
};

static int read_entry(void *ctx, struct archive_reader *r, const struct archive_entry *e, char *why)
{
	struct entry_reading *w = ctx;

	if (strcmp(e->session_id, w->id) != 0)
		return 1;
	if (ctl_archive_reader_lines(r, e, w->fn, w->ctx, why) < 0)
		return -1;
	w->is_read = true;
	return 0;
}

bool ctl_archive_reader_read(
	struct ctl_archive_reader *s, const char *session_id, ctl_archive_reader_line_fn *fn, void *ctx)
{
	struct entry_reading w = {.id = session_id, .fn = fn, .ctx = ctx};

	if (s->found < s->count)
		ctl_archive_reader_each(s, &s->days[s->found], read_entry, &w);
	return w.is_read;
}

/* ---- its artifacts ---- */

struct artifact_items {
	const char *id;
	struct buf items; /* one a line; given out only after the whole entry was read without a fault */
};

/* An artifact that was announced but never stored has no size, and is left out. */
static bool take_artifact(void *ctx, struct buf *line)
{
	static const char is_one[] = "{\"table\":\"artifacts\",";
	struct artifact_items *a = ctx;
	json_t *root = NULL, *row;
	const char *name, *type, *sha256;
	json_int_t size = 0;

	if (line->size > sizeof is_one && memcmp(line->data, is_one, sizeof is_one - 1) == 0)
		root = jtext_load(line->data, line->size, 0, NULL);
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

bool ctl_archive_reader_artifacts(
	struct ctl_archive_reader *s, const char *session_id, query_item_fn *fn, void *ctx)
{
	struct artifact_items a = {.id = session_id};
	bool is_whole = ctl_archive_reader_read(s, session_id, take_artifact, &a), more = is_whole;

	for (size_t at = 0; more && at < a.items.size;) {
		const char *item = a.items.data + at, *end = memchr(item, '\n', a.items.size - at);

		more = fn(ctx, item, (size_t)(end - item));
		at += (size_t)(end - item) + 1;
	}
	buf_fini(&a.items);
	return is_whole;
}
