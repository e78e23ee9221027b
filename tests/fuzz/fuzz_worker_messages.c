/* SPDX-License-Identifier: MIT */
/* fuzz_worker_messages.c: a worker's whole life, line by line, to the messages that its caller gets and the
 * rows that are kept. Input: a first line with the options `text` (its protocol), `x` (killed by a signal)
 * and `small` (the limit of messages); then its lines. One that begins with ! is of its stderr, one that
 * begins with ~ was too long. */
#include <stdlib.h>
#include <string.h>

#include "one_session.h"

static void say(struct session *s, const char *line, size_t size, bool is_ended)
{
	enum line_kind kind = is_ended ? LINE_WHOLE : LINE_UNENDED;
	enum worker_stream stream = WORKER_STDOUT;
	char *copy;

	if (size > 0 && *line == '!')
		stream = WORKER_STDERR;
	else if (size > 0 && *line == '~')
		kind = LINE_TOO_LONG;
	if (stream == WORKER_STDERR || kind == LINE_TOO_LONG) {
		line++;
		size--;
	}
	copy = fuzz_copy(line, size);
	worker_message_read(s, stream, copy, size, kind);
	free(copy);
}

/* What was stored of the outcome is the same outcome after a crash. */
static void check_stored(const struct session *s)
{
	struct session other = {.core = &stage.core, .outcome = {.state = S_NONE}};

	MUST(session_load_outcome(&other) == 1);
	MUST(other.outcome.state == s->outcome.state && strcmp(other.outcome.reason, s->outcome.reason) == 0);
	MUST((other.outcome.payload == NULL) == (s->outcome.payload == NULL));
	if (s->outcome.payload != NULL)
		MUST(other.outcome.payload_size == s->outcome.payload_size &&
			memcmp(other.outcome.payload, s->outcome.payload, s->outcome.payload_size) == 0);
	free(other.outcome.payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size};
	char *options = feed_line(&f);
	struct session *s = stage_begin("[]", NULL);
	const char *newline;

	if (strstr(options, "small") != NULL)
		stage.config.max_message = 32 << 10;
	stage.config_capability.protocol = strstr(options, "text") != NULL ? PROTOCOL_TEXT : PROTOCOL_HCP;
	while (f.left > 0) {
		size_t n = (newline = memchr(f.at, '\n', f.left)) != NULL ? (size_t)(newline - f.at) : f.left;

		say(s, f.at, n, newline != NULL);
		f.at += n + (newline != NULL);
		f.left -= n + (newline != NULL);
	}
	s->run.exit_status = strchr(options, 'x') != NULL && strcmp(options, "text") != 0 ? 9 : 0;
	MUST(session_has_outcome(s) == stage.has_concluded);
	if (!session_has_outcome(s))
		worker_message_death(s);
	sessions_save_dirty(&stage.core);
	session_save_outcome(s);
	check_stored(s);
	stage_end(s);
	free(options);
	return 0;
}
