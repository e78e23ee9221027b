/* SPDX-License-Identifier: MIT */
/* op_common.c: what operator commands share: sending a request, printing, instants.
 * Owns no state. Never knows which command calls. */
#include "hcpctl/common/op_common.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hcpctl/common/terminal.h"
#include "base/duration.h"

int ctl_op_ask(struct ctl_options *o, enum ctl_source source, json_t *request, query_item_fn *fn, void *ctx,
	json_t **done)
{
	struct ctl_settings s;
	struct ctl_client *c;
	int status;

	if (done)
		*done = NULL;
	if ((status = ctl_command_settings(&s, o)) != 0) {
		json_decref(request);
		return status;
	}
	c = ctl_client_open(&s, source, &status);
	if (c)
		status = ctl_client_ask(c, request, fn, ctx, done);
	else
		json_decref(request);
	if (status == CTL_CLIENT_LOST)
		status = ctl_client_say_lost();
	ctl_client_close(c);
	ctl_settings_fini(&s);
	return status;
}

const char *ctl_op_session(int argc, char **argv, const struct ctl_command *command)
{
	char name[32];

	if (optind + 1 == argc)
		return argv[optind];
	snprintf(name, sizeof name, "%s ", command->name);
	if (optind >= argc)
		ctl_command_usage(name,
			"which session? an id, or the beginning of one, is missing (hcpctl list shows them)");
	else
		ctl_command_usage(name, "one session at a time: %s is too much", argv[optind + 1]);
	return NULL;
}

int ctl_op_flush(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	if (errno != EPIPE)
		ctl_say("cannot write to stdout: %s", strerror(errno));
	return CTL_ERROR;
}

bool ctl_op_print_json(void *ctx, const char *json, size_t size)
{
	(void)ctx;
	fwrite(json, 1, size, stdout);
	fputc('\n', stdout);
	return !ferror(stdout);
}

int ctl_op_width(void)
{
	int rows, columns;

	if (!isatty(STDOUT_FILENO))
		return 0;
	ctl_term_size(&rows, &columns);
	return columns;
}

void ctl_op_print(const struct buf *b)
{
	if (b->size > 0)
		fwrite(b->data, 1, b->size, stdout);
}

const char *ctl_op_text(const json_t *o, const char *name)
{
	const char *text = json_string_value(json_object_get(o, name));

	return text ? text : "";
}

/* Midnight of a local day. */
static bool parse_date(const char *word, int64_t *us)
{
	struct tm tm = {.tm_isdst = -1};
	const char *end = strptime(word, "%Y-%m-%d", &tm);
	int day = tm.tm_mday;
	time_t at;

	if (end == NULL || *end != '\0' || (at = mktime(&tm)) == (time_t)-1 || tm.tm_mday != day)
		/* checked last: mktime takes the 31st of February for a day in March */
		return false;
	*us = (int64_t)at * 1000000;
	return true;
}

bool ctl_op_take_since(json_t *request, const char *word)
{
	char text[CLOCK_TEXT_SIZE];
	int64_t us;

	if (clock_parse(word, &us) || parse_date(word, &us))
		;
	else if (duration_parse(word, &us))
		us = clock_wall_us() - us;
	else
		return false;
	clock_format(us, text);
	json_object_set_new(request, "since", json_string(text));
	return true;
}

int64_t ctl_op_since(const json_t *o, const char *name)
{
	int64_t us;

	return clock_parse(ctl_op_text(o, name), &us) ? clock_wall_us() - us : 0;
}

/* The format is always a literal of a caller. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
void ctl_op_local(const json_t *o, const char *name, const char *form, char out[CTL_SPAN_SIZE])
{
	struct tm tm;
	int64_t us;
	time_t s;

	snprintf(out, CTL_SPAN_SIZE, "-");
	if (!clock_parse(ctl_op_text(o, name), &us))
		return;
	s = (time_t)(us / 1000000);
	if (localtime_r(&s, &tm))
		strftime(out, CTL_SPAN_SIZE, form, &tm);
}
#pragma GCC diagnostic pop
