/* SPDX-License-Identifier: MIT */
/* checkpoint.c: what a checkpoint of a state of 1 MiB costs of which 1 kB is new: in the store, in time, and
 * to restore.
 *
 *   checkpoint [FULL_EVERY]
 *
 * Prints key=value lines. delta_bytes is the largest row of those between two full ones; *_written is what
 * the commit wrote, pages and all; times are of the processor. The changes are 1000 letters that nobody can
 * guess, at a place that nobody can guess, and they stay: the last of the deltas has them all. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "json/canonical.h"
#include "store/checkpoint.h"
#include "store/checkpoint_restore.h"
#include "json/text.h"
#include "store/state_compress.h"

#define STATE_BYTES (1 << 20)
#define CHANGE_BYTES 1000
#define RESTORES 20

static char dir[] = "/tmp/hcpd-checkpoint-XXXXXX";
static struct store *store;
static sqlite3 *eye;
static struct buf state;
static uint32_t seed = 20260131;

static _Noreturn void die(const char *why)
{
	fprintf(stderr, "checkpoint: %s\n", why);
	exit(1);
}

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/* Bytes that this process handed to the system so far. */
static long long written(void)
{
	FILE *f = fopen("/proc/self/io", "r");
	char line[128];
	long long bytes = 0;

	while (f != NULL && fgets(line, sizeof line, f) != NULL)
		if (sscanf(line, "wchar: %lld", &bytes) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return bytes;
}

static char letter(void)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return letters[seed % 64];
}

/* Entries as an agent's history has them. */
static void make_state(void)
{
	buf_add_text(&state, "{\"history\":[");
	for (int n = 0; state.size < STATE_BYTES - 1200; n++) {
		buf_addf(&state,
			"%s{\"step\":%d,\"tool\":\"measure\",\"ok\":true,\"temperature_c\":%d.5,\"output\":"
			"\"",
			n > 0 ? "," : "", n, 20 + n % 60);
		for (int i = 0; i < CHANGE_BYTES; i++) {
			char c = letter();

			buf_add(&state, &c, 1);
		}
		buf_add_text(&state, "\"}");
	}
	buf_add_text(&state, "]}");
}

/* The output of one of the entries is another. */
static void change(void)
{
	char *at;

	letter();
	buf_text(&state);
	at = strstr(state.data + seed % (STATE_BYTES - 8000), "\"output\":\"");
	if (at == NULL)
		die("no entry to change");
	for (int i = 0; i < CHANGE_BYTES; i++)
		at[10 + i] = letter();
}

static int64_t ask(const char *sql)
{
	sqlite3_stmt *st;
	int64_t n;

	if (sqlite3_prepare_v2(eye, sql, -1, &st, NULL) != SQLITE_OK || sqlite3_step(st) != SQLITE_ROW)
		die(sqlite3_errmsg(eye));
	n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return n;
}

static void open_store(void)
{
	char why[256] = "", path[64];

	if (mkdtemp(dir) == NULL || store_open(dir, &store, why, sizeof why) != 0)
		die(why);
	snprintf(path, sizeof path, "%s/hcpd.db", dir);
	if (sqlite3_open_v2(path, &eye, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
		die("no second connection");
}

static void close_store(void)
{
	static const char *const names[] = {"hcpd.db", "hcpd.db-wal", "hcpd.db-shm"};
	char path[64];

	sqlite3_close(eye);
	store_close(store);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

struct cost {
	int64_t row; /* bytes of it, all columns */
	long long written;
	double pack_ms;
	enum state_encoding kind;
};

/* As checkpoint_store.c does it. base_id: "" for a full one. */
static struct cost put(int n, const char *base_id)
{
	struct store_checkpoint cp = {.session = 1,
		.session_id = "00000001-1111-4111-8111-111111111111",
		.resumable = true,
		.description = "after a step of the work",
		.step = "\"measure\"",
		.created_at = "2026-01-31T12:00:00.000Z",
		.trigger = "steps"};
	struct buf base = {0}, bytes = {0};
	struct store_kept row = {0};
	char hash[CANONICAL_HASH_SIZE], why[64];
	json_t *value = jtext_parse(state.data, state.size, why, sizeof why);
	struct cost c;
	double began;
	long long before;

	if (value == NULL)
		die(why);
	canonical_hash(value, hash);
	json_decref(value);
	cp.sha256 = cp.seal = hash;
	snprintf(cp.checkpoint_id, ID_SIZE, "%08d-1111-4111-8111-111111111111", n % 100000000);
	began = now_ms();
	if (base_id[0] != '\0' &&
		((cp.base = checkpoint_load_base(store, base_id, 1, &row)) == 0 ||
			checkpoint_unpack(&row, NULL, &base) != NULL))
		die("no base");
	c.kind = state_compress(state.data, state.size, cp.base != 0 ? base.data : NULL, base.size, &bytes);
	c.pack_ms = now_ms() - began;
	cp.encoding = state_encoding_names[c.kind];
	if (c.kind != STATE_DELTA)
		cp.base = 0;
	cp.state = bytes.data;
	cp.state_size = bytes.size;
	cp.whole_size = (int64_t)state.size;
	store_put_checkpoint(store, &cp);
	before = written();
	if (store_run(store) < 0)
		die(store_error(store));
	c.written = written() - before;
	c.row =
		ask("SELECT length(checkpoint_id) + length(session_id) + length(description) + length(step) "
		    "+ length(created_at)"
		    " + length(CAST(state AS BLOB)) + length(sha256) + length(seal) + length(encoding) + "
		    "length(trigger) + 32"
		    " FROM checkpoints ORDER BY id DESC LIMIT 1");
	buf_fini(&base);
	store_kept_fini(&row);
	buf_fini(&bytes);
	return c;
}

static double load_ms(const char *id)
{
	double began = now_ms();

	for (int i = 0; i < RESTORES; i++) {
		struct checkpoint cp;

		if (checkpoint_load(store, id, &cp) != 1)
			die("it cannot be restored");
		checkpoint_fini(&cp);
	}
	return (now_ms() - began) / RESTORES;
}

int main(int argc, char **argv)
{
	int full_every = argc > 1 ? atoi(argv[1]) : 10;
	char full_id[ID_SIZE], id[ID_SIZE];
	struct cost full, one, most = {.row = 0};

	open_store();
	make_state();
	full = put(1, "");
	snprintf(full_id, sizeof full_id, "%08d-1111-4111-8111-111111111111", 1);
	for (int n = 2; n <= full_every; n++) {
		change();
		one = put(n, full_id);
		if (one.kind != STATE_DELTA)
			die("a small change was stored whole");
		if (one.row > most.row)
			most.row = one.row;
		if (one.written > most.written)
			most.written = one.written;
		if (one.pack_ms > most.pack_ms)
			most.pack_ms = one.pack_ms;
	}
	snprintf(id, sizeof id, "%08d-1111-4111-8111-111111111111", full_every);
	printf("state_bytes=%zu\ndeltas=%d\nfull_bytes=%" PRId64 "\ndelta_bytes=%" PRId64
	       "\nfull_written=%lld\ndelta_written=%lld\n",
		state.size, full_every - 1, full.row, most.row, full.written, most.written);
	printf("full_pack_ms=%.2f\ndelta_pack_ms=%.2f\n", full.pack_ms, most.pack_ms);
	printf("full_restore_ms=%.2f\ndelta_restore_ms=%.2f\n", load_ms(full_id), load_ms(id));
	close_store();
	buf_fini(&state);
	return 0;
}
