/* SPDX-License-Identifier: MIT */
/* stream.c: a session's items one by one, from the daemon or from the store.
 * Owns how far the output came, so that a new connection goes on behind it.
 * Never reads more of an item than its row and its sequence. */
#include "hcpctl/common/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json/text.h"

#define AGAIN_US 500000 /* between two attempts to reach a daemon that is away */

static int64_t number(struct jslice s)
{
	char text[24];

	if (s.at == NULL || s.size >= sizeof text)
		return 0;
	memcpy(text, s.at, s.size);
	text[s.size] = '\0';
	return strtoll(text, NULL, 10);
}

static bool on_item(void *ctx, const char *json, size_t size)
{
	struct ctl_stream *s = ctx;
	struct jslice event = jtext_member(json, size, "event"), payload;
	int64_t row = number(jtext_member(json, size, "row")), sequence;

	if (row > 0 && row <= s->row)
		return true; /* shown before the daemon went away */
	s->row = row;
	payload = jtext_member(event.at, event.size, "payload");
	sequence = number(jtext_member(payload.at, payload.size, "sequence"));
	if (sequence > 0)
		s->sequence = sequence;
	if (s->is_json)
		ctl_op_print_json(NULL, json, size);
	else
		s->show(s, json, size);
	return !ferror(stdout);
}

static json_t *make_request(const struct ctl_stream *s)
{
	json_t *request = ctl_client_request(s->verb, s->session);
	int64_t from = s->sequence > 0 ? s->sequence : s->from;

	json_object_set_new(request, "follow", json_boolean(s->is_follow));
	if (from > 0 && strcmp(s->verb, "events") == 0)
		json_object_set_new(request, "from", json_integer(from));
	return request;
}

/* A follow may be silent for long. Whether the daemon answers at all is therefore tested first. */
static int probe_daemon(struct ctl_client *c)
{
	json_t *request = ctl_client_request("list", NULL);

	json_object_set_new(request, "limit", json_integer(1));
	return ctl_client_ask(c, request, NULL, NULL, NULL);
}

/* One connection, or one read of the store. *is_open: the session is not over, so go on. */
static int run_once(struct ctl_stream *s, const struct ctl_settings *settings, bool *was_away, bool *is_open)
{
	struct ctl_client *c;
	json_t *done = NULL;
	int status;
	bool is_live;

	c = ctl_client_open(settings, *was_away ? CTL_STORE_QUIETLY : CTL_STORE_WILL_DO, &status);
	if (c == NULL) {
		*is_open = *was_away; /* the daemon ran a moment ago */
		return status;
	}
	if (s->is_follow && ctl_client_is_live(c))
		status = probe_daemon(c);
	is_live = ctl_client_is_live(c);
	if (is_live && *was_away && status == CTL_OK)
		ctl_say("the daemon is back");
	if (status == CTL_OK)
		status = ctl_client_ask(c, make_request(s), on_item, s, &done);
	is_live = is_live && ctl_client_is_live(c);
	*is_open = s->is_follow && !ferror(stdout) &&
		(status == CTL_CLIENT_LOST ||
			json_object_get(done, "waiting")
			/* the daemon ends, and sent a message that it does */
			|| (is_live && s->row > 0 && status == CTL_UNAVAILABLE));
	if (status == CTL_CLIENT_LOST && !*is_open)
		status = ctl_client_say_lost();
	if (*is_open && (is_live || !*was_away))
		ctl_say("%sthe session is not over: waiting for the daemon (Ctrl-C ends this)",
			is_live ? "the daemon went away, and " : "");
	*was_away = *is_open;
	json_decref(done);
	ctl_client_close(c);
	return status;
}

int ctl_stream_run(struct ctl_stream *s, struct ctl_options *o)
{
	struct ctl_settings settings;
	bool was_away = false, is_open = false;
	int status;

	if ((status = ctl_command_settings(&settings, o)) != 0)
		return status;
	ctl_term_init(&s->term);
	if (s->is_follow)
		setvbuf(stdout, NULL, _IOLBF, 0);
	while (status = run_once(s, &settings, &was_away, &is_open), is_open)
		usleep(AGAIN_US);
	ctl_settings_fini(&settings);
	return ctl_op_flush(status);
}

enum { OPT_JSON = 256 };

int ctl_stream_command(struct ctl_stream *s, const struct ctl_command *command, bool has_from, int argc,
	char **argv, struct ctl_options *o)
{
	static const struct option options[] = {{"from", required_argument, NULL, 'n'},
		{"follow", no_argument, NULL, 'f'}, {"json", no_argument, NULL, OPT_JSON},
		CTL_OPERATOR_OPTIONS};
	char *end, name[32];
	int c, status;

	while ((c = getopt_long(argc, argv, has_from ? ":hfn:" : ":hf", has_from ? options : options + 1,
			NULL)) != -1) {
		if (c == 'f') {
			s->is_follow = true;
		} else if (c == OPT_JSON) {
			s->is_json = true;
		} else if (c == 'n') {
			s->from = strtoll(optarg, &end, 10);
			snprintf(name, sizeof name, "%s ", command->name);
			if (end == optarg || *end != '\0' || s->from < 1)
				return ctl_command_usage(
					name, "--from %s is no sequence; they count from 1 on", optarg);
		} else if ((status = ctl_command_option(c, argv, command, o)) >= 0) {
			return status;
		}
	}
	if ((s->session = ctl_op_session(argc, argv, command)) == NULL)
		return CTL_USAGE;
	return ctl_stream_run(s, o);
}
