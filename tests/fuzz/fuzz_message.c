/* SPDX-License-Identifier: MIT */
/* fuzz_message.c: whatever comes from the broker, on hcpctl's screen, and in its order. Input: bodies of
 * messages, a line each; or one of any form. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "hcpctl/common/message.h"
#include "hcpctl/common/render.h"
#include "fuzz.h"
#include "json/text.h"

static struct ctl_message *read_note(const char *body, size_t size)
{
	char *copy = xmalloc(size + 1);

	if (size > 0)
		memcpy(copy, body, size);
	copy[size] = '\0';
	return ctl_message_read(copy, size);
}

/* One line a message, and nothing that a terminal obeys, whatever the callee says. */
static void check_shown(const struct ctl_message *n, struct chance *chance)
{
	struct buf out = {0};
	const char *stage = ctl_message_text(n->data, "stage"),
		   *message = ctl_message_text(n->data, "message");

	MUST(n->session != NULL && n->type != NULL && n->event != NULL && n->message_id != NULL &&
		n->sequence >= 0);
	MUST(json_is_object(n->payload) && json_is_object(n->data));
	ctl_render_line(&out, n, (struct ctl_render_options){.with_session = chance_below(chance, 2) == 0});
	MUST(out.size > 1 && out.data[out.size - 1] == '\n');
	MUST(fuzz_is_plain(out.data, out.size - 1, "") && fuzz_is_utf8(out.data, out.size));
	buf_clear(&out);
	ctl_render_result(&out, n);
	MUST(fuzz_is_plain(out.data, out.size, "\n") && fuzz_is_utf8(out.data, out.size));
	buf_clear(&out);
	ctl_render_bar(&out, n->type, stage ? stage : "",
		json_number_value(json_object_get(n->data, "percent")), message ? message : "",
		(long)chance_below(chance, 100000), (int)chance_below(chance, 200), false);
	MUST(fuzz_is_plain(out.data, out.size, ""));
	buf_fini(&out);
}

/* --json prints the message itself, as one line. */
static void check_json(const struct ctl_message *n)
{
	struct buf out = {0};
	char why[200];
	json_t *was = jtext_parse(n->body, n->size, why, sizeof why), *is;

	ctl_render_json(&out, n);
	MUST(out.size > 0 && memchr(out.data, '\n', out.size) == out.data + out.size - 1);
	is = fuzz_json(out.data, out.size);
	MUST(fuzz_same(is, was));
	json_decref(is);
	json_decref(was);
	buf_fini(&out);
}

/* Pretty-printing changes white space only. */
static void check_pretty(const char *body, size_t size)
{
	char why[200];
	json_t *was = jtext_depth(body, size) < 500 ? jtext_parse(body, size, why, sizeof why) : NULL;
	struct buf out = {0};

	ctl_render_pretty(&out, body, size);
	MUST(fuzz_is_plain(out.data, out.size, "\n") && fuzz_is_utf8(out.data, out.size));
	if (was != NULL && fuzz_is_plain(body, size, "\n\r\t") && memchr(body, 0xe2, size) == NULL &&
		memchr(body, 0xef, size) == NULL) {
		json_t *is = fuzz_json(out.data, out.size);

		MUST(fuzz_same(is, was));
		json_decref(is);
	}
	json_decref(was);
	buf_fini(&out);
}

/* --- order --- */

/* What is taken out grows, and a gap that was passed over is told, with both its ends. */
static int64_t take_all(struct ctl_reorder *o, int64_t now_us, int64_t last)
{
	struct ctl_message *n;
	int64_t from, to;

	while ((n = ctl_reorder_take(o, now_us, &from, &to)) != NULL) {
		if (n->sequence > 0) {
			MUST(n->sequence > last);
			MUST(last == 0 || (from != 0) == (n->sequence != last + 1));
			MUST(from == 0 || (from == last + 1 && to == n->sequence - 1));
			last = n->sequence;
		}
		ctl_message_free(n);
	}
	MUST(o->held_count <= CTL_ORDER_MAX);
	return last;
}

static int64_t put(struct ctl_reorder *o, struct ctl_message *n, int64_t now_us, int64_t last)
{
	size_t held = o->held_count;
	int64_t sequence = n->sequence;
	enum ctl_put how = ctl_reorder_put(o, n, now_us);

	MUST(o->held_count == held + (how == CTL_PUT));
	MUST(sequence == 0 || last == 0 || (sequence <= last) == (how == CTL_SEEN));
	if (how != CTL_PUT)
		ctl_message_free(n);
	return take_all(o, now_us, last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct chance chance = chance_of(data, size);
	struct feed f = {(const char *)data, size};
	struct ctl_reorder order = {0};
	struct ctl_message *n;
	int64_t now_us = 0, last = 0;

	setenv("TZ", "UTC", 1);
	check_pretty(f.at, f.left);
	if ((n = read_note(f.at, f.left)) != NULL) {
		check_shown(n, &chance);
		check_json(n);
		ctl_message_free(n);
	}
	while (f.left > 0) {
		const char *newline = memchr(f.at, '\n', f.left);
		size_t part = newline != NULL ? (size_t)(newline - f.at) : f.left;

		now_us += chance_below(&chance, 4) == 0 ? CTL_ORDER_WAIT_US : 1000;
		if ((n = read_note(f.at, part)) != NULL) {
			check_shown(n, &chance);
			last = put(&order, n, now_us, last);
		}
		f.at += part + (newline != NULL);
		f.left -= part + (newline != NULL);
	}
	take_all(&order, now_us + CTL_ORDER_WAIT_US, last);
	ctl_reorder_fini(&order);
	return 0;
}
