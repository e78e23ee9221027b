/* SPDX-License-Identifier: MIT */
/* doctor_store.c: can this hcpd continue with the store?
 * Owns a read-only connection, so that nothing is migrated, made or repaired on the way (store/store.c
 * would). Never reads the contents of a task. */
#include "hcpctl/setup/doctor.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "store/migrations.h"

#define APPLICATION_ID 0x68637064 /* "hcpd", as open.c writes it */
#define BUSY_MS 2000
#define LOOK_US INT64_C(3000000) /* time limit of the check of a large store */
#define AHEAD_US INT64_C(60000000)

static int64_t ask(sqlite3 *db, const char *question)
{
	sqlite3_stmt *st;
	int64_t answer = -1;

	if (sqlite3_prepare_v2(db, question, -1, &st, NULL) != SQLITE_OK)
		return -1;
	if (sqlite3_step(st) == SQLITE_ROW)
		answer = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return answer;
}

static int is_late(void *ctx)
{
	return clock_boot_us() > *(int64_t *)ctx;
}

/* quick_check reads every page. Its time is limited; a finding says how far it came. */
static void check_pages(struct doctor *d, sqlite3 *db, const char *path)
{
	int64_t until_us = clock_boot_us() + LOOK_US;
	const char *word = NULL;
	sqlite3_stmt *st;
	int rc;

	sqlite3_progress_handler(db, 10000, is_late, &until_us);
	rc = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &st, NULL);
	if (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW)
		word = (const char *)sqlite3_column_text(st, 0);
	if (word && strcmp(word, "ok") == 0)
		doctor_say(d, DOCTOR_OK, "store", NULL, "%s is sound, schema %d, %lld sessions not over",
			path, (int)ask(db, "PRAGMA user_version"),
			(long long)ask(db, "SELECT count(*) FROM sessions WHERE " SQL_IS_LIVE));
	else if (rc == SQLITE_INTERRUPT)
		doctor_say(d, DOCTOR_OK, "store", NULL, "%s is large; what was read of it in %d s is sound",
			path, (int)(LOOK_US / 1000000));
	else
		doctor_say(d, DOCTOR_FAIL, "store",
			"stop hcpd, copy the directory, then bring back a backup, or try: sqlite3 hcpd.db "
			".recover",
			"%s is damaged: %s", path, word ? word : sqlite3_errmsg(db));
	sqlite3_finalize(st);
	sqlite3_progress_handler(db, 0, NULL, NULL);
}

/* Deadlines use the wall clock across a restart: a clock that went back lets sessions run longer. */
static void check_times(struct doctor *d, sqlite3 *db)
{
	int64_t at_us, now_us = clock_wall_us();
	const char *text;
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(db, "SELECT updated_at FROM sessions ORDER BY id DESC LIMIT 1", -1, &st,
		    NULL) != SQLITE_OK)
		return;
	if (sqlite3_step(st) == SQLITE_ROW && (text = (const char *)sqlite3_column_text(st, 0)) &&
		clock_parse(text, &at_us) && at_us > now_us + AHEAD_US)
		doctor_say(d, DOCTOR_WARN, "clock",
			"set the clock right before hcpd starts: deadlines go by it across a restart",
			"the newest session was changed at %s, %lld s from now: the clock went back", text,
			(long long)((at_us - now_us) / 1000000));
	sqlite3_finalize(st);
}

static void check_open(struct doctor *d, sqlite3 *db, const char *path)
{
	int64_t version = ask(db, "PRAGMA user_version");

	if (version < 0)
		doctor_say(d, DOCTOR_FAIL, "store",
			"if it is no store of hcpd's, move it away; else bring back a backup",
			"%s cannot be read: %s", path, sqlite3_errmsg(db));
	else if (ask(db, "PRAGMA application_id") != APPLICATION_ID &&
		version + ask(db, "SELECT count(*) FROM sqlite_schema"))
		doctor_say(d, DOCTOR_FAIL, "store", "name another state_dir",
			"%s is a database, but not one of hcpd", path);
	else if (version > migrations_version)
		doctor_say(d, DOCTOR_FAIL, "store",
			"run the newer hcpd that made it, or name another state_dir",
			"%s has schema %d, and this hcpd knows %d at most", path, (int)version,
			migrations_version);
	else {
		if (version < migrations_version)
			doctor_say(d, DOCTOR_OK, "store", NULL,
				"%s has schema %d; hcpd brings it to %d at its next start", path,
				(int)version, migrations_version);
		check_pages(d, db, path);
		check_times(d, db);
	}
}

void doctor_check_store(struct doctor *d, const void *ctx)
{
	char path[4200];
	struct stat st;
	sqlite3 *db = NULL;

	(void)ctx;
	snprintf(path, sizeof path, "%s/hcpd.db", d->config->state_dir);
	if (stat(path, &st) < 0) {
		if (errno == ENOENT)
			doctor_say(d, DOCTOR_OK, "store", NULL,
				"%s is not there yet; hcpd makes it at its first start", path);
		else
			doctor_say(d, DOCTOR_FAIL, "store", "give it back to the user that runs hcpd",
				"%s: %s", path, strerror(errno));
		return;
	}
	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK) {
		sqlite3_busy_timeout(db, BUSY_MS);
		check_open(d, db, path);
	} else {
		doctor_say(d, DOCTOR_FAIL, "store",
			"give it back to the user that runs hcpd: chown it, chmod 600",
			"%s cannot be opened by user %s: %s", path, d->user,
			db ? sqlite3_errmsg(db) : "out of memory");
	}
	sqlite3_close(db);
}
