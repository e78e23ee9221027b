/* SPDX-License-Identifier: MIT */
/* mark.c: the mark of the processes that this state directory's daemon starts (HCP_INSTANCE).
 * Owns the row 'mark' of meta: the mark, and the directory that it was made for. The store's own id is the
 * same in every copy of the file. The mark must differ: a daemon on a copy would otherwise kill the processes
 * of the daemon on the original. Never looks for a process (process/stale.c). */
#include "store/store_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crashpoint.h"
#include "base/io.h"

#define MACHINE_FILE "/etc/machine-id"
#define MACHINE_SIZE 33
#define PLACE_SIZE 128

/* The machine, and the directory's device and number there. A device may get another number at a reboot: the
 * mark is then a new one, and no process with the old mark can be left. */
static int find_place(const char *dir, char place[PLACE_SIZE])
{
	struct buf text = {0};
	char machine[MACHINE_SIZE] = "-"; /* a container may have none */
	struct stat st;

	if (io_read_file(MACHINE_FILE, 4096, &text, &st) == 0 &&
		strspn(buf_text(&text), "0123456789abcdef") == MACHINE_SIZE - 1)
		snprintf(machine, sizeof machine, "%s", buf_text(&text));
	buf_fini(&text);
	if (stat(dir, &st) < 0)
		return -1;
	snprintf(place, PLACE_SIZE, "%s %llu %llu", machine, (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino);
	return 0;
}

static int read_row(struct store *s, char place[PLACE_SIZE])
{
	sqlite3_stmt *st;
	int rc;

	if (sqlite3_prepare_v2(s->db, "SELECT value FROM meta WHERE key = 'mark'", -1, &st, NULL) !=
		SQLITE_OK)
		return -1;
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(st, 0);
		const char *blank = strchr(text, ' ');

		snprintf(s->mark, sizeof s->mark, "%.*s", (int)strcspn(text, " "), text);
		snprintf(place, PLACE_SIZE, "%s", blank != NULL ? blank + 1 : "");
	}
	sqlite3_finalize(st);
	return rc == SQLITE_ROW ? 1 : rc == SQLITE_DONE ? 0 : -1;
}

/* The mark and its directory are one row, so that a crash cannot leave one without the other. */
int store_load_mark(struct store *s, const char *dir)
{
	char now[PLACE_SIZE], before[PLACE_SIZE] = "";
	char *sql;
	int found = read_row(s, before), rc;

	if (found < 0 || find_place(dir, now) < 0)
		return -1;
	if (found > 0 && strcmp(before, now) == 0 && id_is_uuid4(s->mark))
		return 0;
	/* Without a row it is a new store, or one of hcpd 0.1.0, whose processes carry the store's id. That
	 * one may be a copy, too: what it left is not looked for. */
	s->is_copy = found > 0;
	id_make(s->mark);
	CRASH_POINT(store_before_mark);
	sql = sqlite3_mprintf("INSERT OR REPLACE INTO meta VALUES ('mark', '%q %q')", s->mark, now);
	rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
	sqlite3_free(sql);
	CRASH_POINT(store_mark_made);
	return rc == SQLITE_OK ? 0 : -1;
}

const char *store_mark(const struct store *s)
{
	return s->mark;
}

bool store_is_copy(const struct store *s)
{
	return s->is_copy;
}
