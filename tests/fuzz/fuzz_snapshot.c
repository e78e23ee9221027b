/* SPDX-License-Identifier: MIT */
/* fuzz_snapshot.c: HARP-SESSION from outside. Input: a worker's snapshot lines, one a line. As they are,
 * through the session (verified, stored, published once or refused); and each once more by itself, with its
 * hash put right, so that a mutation gets further than to that. */
#include <stdlib.h>
#include <string.h>

#include "one_session.h"

#include "core/running/harp_snapshot.h"
#include "harp/harp_private.h"
#include "harp/session.h"

#define MOST (1u << 20)
#define AT "2026-01-31T12:00:00.000Z"

/* What is read is canonical, of this session, its own hash, and read again the same. */
static void check_heard(const struct harp_heard *h)
{
	struct harp_heard again;
	char why[256] = "", hash[HARP_HASH_SIZE];
	json_t *o = fuzz_json(h->text, h->size);
	struct buf b = {0};
	bool is_new;

	MUST(harp_read_event(h->text, h->size, MOST, &again, why, sizeof why) == HARP_OK &&
		again.kind == h->kind);
	MUST(again.size == h->size && memcmp(again.text, h->text, h->size) == 0 && again.at_us == h->at_us);
	harp_add_signable(&b, o, h->kind == HARP_EVENT_SNAPSHOT ? "snapshotHash" : NULL);
	harp_hash(b.data, b.size, hash);
	if (h->kind == HARP_EVENT_SNAPSHOT) {
		MUST(strcmp(hash, h->hash) == 0 && strcmp(hash, again.hash) == 0);
		MUST(harp_check_event(h, false, hash, &is_new, why, sizeof why) == HARP_OK && !is_new);
		hash[0] = hash[0] == '0' ? '1' : '0';
		MUST(harp_check_event(h, false, hash, &is_new, why, sizeof why) == HARP_DUPLICATE_SNAPSHOT);
	}
	MUST(harp_check_event(h, true, NULL, &is_new, why, sizeof why) == HARP_SESSION_CLOSED);
	harp_heard_fini(&again);
	json_decref(o);
	buf_fini(&b);
}

static void read_event(const char *text, size_t size)
{
	struct harp_heard h;
	char why[256] = "";
	enum harp_code code = harp_read_event(text, size, MOST, &h, why, sizeof why);

	MUST((code == HARP_OK) == (why[0] == '\0') && code < HARP_DUPLICATE_SNAPSHOT);
	if (code != HARP_OK)
		return;
	check_heard(&h);
	harp_heard_fini(&h);
}

static void read_line(const char *line, size_t size)
{
	struct harp_heard h;
	char why[256] = "", *text;
	enum harp_code code = harp_read_snapshot(line, size, MOST, STAGE_ID, AT, &h, why, sizeof why);
	json_t *o;

	MUST((code == HARP_OK) == (why[0] == '\0'));
	if (code == HARP_OK) {
		MUST(h.kind == HARP_EVENT_SNAPSHOT && strcmp(h.session_id, STAGE_ID) == 0);
		check_heard(&h);
		harp_heard_fini(&h);
	}
	if (code != HARP_HASH_MISMATCH || (o = json_loadb(line, size, JSON_ALLOW_NUL, NULL)) == NULL)
		return;
	json_object_del(o, "snapshotHash"); /* then it is computed, and nothing else is wrong with it */
	text = json_dumps(o, 0);
	MUST(text != NULL);
	code = harp_read_snapshot(text, strlen(text), MOST, STAGE_ID, AT, &h, why, sizeof why);
	MUST(code == HARP_OK || code == HARP_SCOPE);
	if (code == HARP_OK)
		harp_heard_fini(&h);
	free(text);
	json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size};
	struct session *s;

	stage_is_told = true;
	s = stage_begin("[]", NULL);
	while (f.left > 0) {
		const char *newline = memchr(f.at, '\n', f.left);
		size_t n = newline != NULL ? (size_t)(newline - f.at) : f.left;
		char *line = fuzz_copy(f.at, n);

		read_event(line, n);
		read_line(line, n);
		worker_message_read(s, WORKER_STDOUT, line, n, LINE_WHOLE);
		/* the same again never is another one */
		worker_message_read(s, WORKER_STDOUT, line, n, LINE_WHOLE);
		free(line);
		f.at += n + (newline != NULL);
		f.left -= n + (newline != NULL);
	}
	if (!session_has_outcome(s))
		worker_message_death(s);
	sessions_save_dirty(&stage.core);
	session_save_outcome(s);
	stage_end(s);
	harp_snapshot_end_turn(&stage.core);
	return 0;
}
