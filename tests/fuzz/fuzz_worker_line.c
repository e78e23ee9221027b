/* SPDX-License-Identifier: MIT */
/* fuzz_worker_line.c: what a pipe brings, cut into reads anywhere, to lines, and each line to an event's
 * data. Input: the bytes of the pipe. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fuzz.h"
#include "base/line_reader.h"
#include "protocol/worker_line.h"

/* --- the pipe --- */

static struct {
	const char *data;
	size_t left;
	struct chance *chance;
} incoming;

static ssize_t pipe_read(int fd, void *to, size_t most)
{
	size_t n = incoming.left < most ? incoming.left : most;

	MUST(fd == 77 && most > 0);
	if (n > 0 && chance_below(incoming.chance, 8) == 0) {
		errno = chance_below(incoming.chance, 2) ? EAGAIN : EINTR;
		return -1;
	}
	if (n > 1 && chance_below(incoming.chance, 4) != 0)
		n = 1 +
			chance_below(incoming.chance,
				(uint32_t)(n < 40                                ? n :
						chance_below(incoming.chance, 2) ? 40 :
										   n));
	if (n > 0)
		memcpy(to, incoming.data, n);
	incoming.data += n;
	incoming.left -= n;
	return (ssize_t)n;
}

#define read pipe_read
#include "base/line_reader.c"
#undef read

int64_t clock_boot_us(void)
{
	return 1;
}

/* --- lines, against the plainest way to split them --- */

struct expected {
	const char *rest; /* of the input, not yet seen in lines */
	size_t left;
	size_t max_line;
};

/* The line that must come next: WHOLE, TOO_LONG or UNENDED. */
static enum line_kind next_line(struct expected *x, const char **line, size_t *size)
{
	const char *newline = x->left > 0 ? memchr(x->rest, '\n', x->left) : NULL;

	*line = x->rest;
	*size = newline != NULL ? (size_t)(newline - x->rest) : x->left;
	x->rest += *size + (newline != NULL);
	x->left -= *size + (newline != NULL);
	return *size > x->max_line ? LINE_TOO_LONG : newline != NULL ? LINE_WHOLE : LINE_UNENDED;
}

static void on_line(void *ctx, const char *line, size_t size, enum line_kind kind)
{
	struct expected *x = ctx;
	const char *wanted;
	size_t wanted_size;

	MUST(x->left > 0); /* there is another */
	MUST(next_line(x, &wanted, &wanted_size) == kind);
	if (kind == LINE_TOO_LONG) {
		MUST(size <= LINES_HEAD && size <= wanted_size);
		/* Where a whole head fits into a line, it is shown, however it was read. */
		MUST(x->max_line < LINES_HEAD || size == LINES_HEAD);
	} else {
		MUST(size == wanted_size);
	}
	MUST(size == 0 || memcmp(line, wanted, size) == 0);
}

static void check_lines(const char *data, size_t size, struct chance *chance)
{
	static const int64_t max_lines[] = {1, 16, 100, LINES_HEAD, 4096, 1 << 20},
			     totals[] = {0, 64, 8192, 1 << 26};
	struct line_pool p;
	struct line_reader l = {0};
	struct expected x = {data, size, 0};
	enum line_result result = LINES_OK;
	size_t got, used, share, all = 0;
	unsigned calls = 0;

	line_pool_init(&p, max_lines[chance_below(chance, 6)], totals[chance_below(chance, 4)]);
	x.max_line = p.max_line;
	incoming.data = data;
	incoming.left = size;
	incoming.chance = chance;
	while (result != LINES_END) {
		share = chance_below(chance, 3) == 0 ? 1 + chance_below(chance, 600) : LINES_READ_MAX;
		result = line_reader_read(&p, &l, 77, share, &got, &used, on_line, &x);
		/* alone, it never has to wait */
		MUST(got <= share && got <= LINES_READ_MAX && result != LINES_WAIT);
		MUST(used < share + (got > LINES_READ_MAX ? got : LINES_READ_MAX) + LINES_CHARGE);
		/* the account is right */
		MUST(p.used == l.room + (l.more != NULL ? l.more_size : 0));
		MUST(l.size <= p.max_line && l.room <= 2 * p.max_line + LINES_READ_MAX);
		MUST((result == LINES_MORE) == (l.more != NULL));
		all += got;
		MUST(++calls < 40 * (size + 10));
	}
	MUST(all == size && x.left == 0 && p.used == 0 && l.rest == NULL && l.more == NULL && p.over == NULL);
}

/* --- one line --- */

/* Member for member, data says what the line says. */
static void check_data(const struct worker_line *l)
{
	struct buf b = {0};
	const char *key;
	json_t *data, *value;

	worker_line_add_data(l, &b);
	data = fuzz_json(b.data, b.size);
	MUST(json_is_object(data) && memchr(b.data, '\n', b.size) == NULL);
	json_object_foreach(data, key, value) {
		const json_t *said = json_object_get(l->root, key);

		if (said != NULL && (!json_is_null(said) || json_is_null(value)))
			MUST(fuzz_same(said, value));
	}
	json_decref(data);
	buf_fini(&b);
}

/* Every member can be had raw, and is the same then. */
static void check_raw(const struct worker_line *l)
{
	const char *key;
	json_t *value, *raw;

	json_object_foreach(l->root, key, value) {
		struct buf b = {0};

		worker_line_add_raw(l, &b, key, "\"otherwise\"");
		raw = fuzz_json(b.data, b.size);
		if (json_is_null(value))
			MUST(strcmp(json_string_value(raw), "otherwise") == 0 &&
				worker_line_get(l, key) == NULL);
		else
			MUST(fuzz_same(raw, value) && worker_line_get(l, key) == value);
		MUST(jtext_depth(b.data, b.size) < jtext_depth(l->text, l->size));
		json_decref(raw);
		buf_fini(&b);
	}
}

static void check_text(const char *line, size_t size)
{
	char why[200] = "";
	json_t *v = jtext_depth(line, size) < 500 ? jtext_parse(line, size, why, sizeof why) : NULL, *again;
	struct buf once = {0}, twice = {0};

	/* Safe on any text; on JSON the value stays. */
	jtext_add_minified(&once, line, size);
	jtext_add_minified(&twice, once.data, once.size);
	MUST(once.size == twice.size && (once.size == 0 || memcmp(once.data, twice.data, once.size) == 0) &&
		once.size <= size);
	jtext_member(line, size, "type");
	if (v != NULL) {
		again = fuzz_json(once.data, once.size);
		MUST(fuzz_same(v, again));
		json_decref(again);
	}
	json_decref(v);
	buf_fini(&once);
	buf_fini(&twice);
}

/* What is read without jansson's parser is what that parser reads. */
static void check_load(const char *line, size_t size)
{
	json_t *ours = jload_tree(line, size), *theirs;

	if (ours == NULL)
		return;
	theirs = jtext_load(line, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
	MUST(theirs != NULL && fuzz_same(ours, theirs));
	json_decref(ours);
	json_decref(theirs);
}

/* A line that is read without a tree has the same type and the same data with one. */
static void check_scan(const char *line, size_t size)
{
	struct buf scanned = {0}, read = {0};
	struct worker_line l, tree;
	char why[320];

	if (!worker_line_scan(&l, line, size))
		return;
	MUST(worker_line_read(&tree, line, size, 8, why, sizeof why) == 0 && l.type == tree.type);
	worker_line_add_data(&l, &scanned);
	worker_line_add_data(&tree, &read);
	MUST(scanned.size == read.size && memcmp(scanned.data, read.data, read.size) == 0);
	worker_line_fini(&l);
	worker_line_fini(&tree);
	buf_fini(&scanned);
	buf_fini(&read);
}

static void check_line(const char *line, size_t size, int max_depth)
{
	char why[320] = "";
	struct worker_line l;

	check_text(line, size);
	check_load(line, size);
	check_scan(line, size);
	if (worker_line_read(&l, line, size, max_depth, why, sizeof why) < 0) {
		MUST(why[0] != '\0' && memchr(why, '\0', sizeof why) != NULL);
		return;
	}
	MUST(l.type < WL_COUNT &&
		strcmp(worker_line_type_name(l.type), worker_line_string(&l, "type", "")) == 0);
	MUST(jtext_depth(line, size) <= (size_t)max_depth);
	check_data(&l);
	check_raw(&l);
	worker_line_fini(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct chance chance = chance_of(data, size);
	struct feed f = {(const char *)data, size};
	const char *newline;

	check_lines(f.at, f.left, &chance);
	while (f.left > 0) {
		size_t n = (newline = memchr(f.at, '\n', f.left)) != NULL ? (size_t)(newline - f.at) : f.left;
		char *line = fuzz_copy(f.at, n);

		check_line(line, n, chance_below(&chance, 3) == 0 ? 8 : 64);
		free(line);
		f.at += n + (newline != NULL);
		f.left -= n + (newline != NULL);
	}
	return 0;
}
