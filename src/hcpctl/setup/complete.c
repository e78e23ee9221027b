/* SPDX-License-Identifier: MIT */
/* complete.c: `hcpctl complete`: candidates for the shells' completion, one a line, with a tab and a remark.
 * Owns the limit on its time: a Tab key that hangs is worse than one that finds nothing. Never prints an
 * error, and always exits with 0: a completion has nowhere to show it. Not in `hcpctl --help`. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/time.h>
#include <unistd.h>

#include "hcpctl/common/client.h"
#include "hcpctl/common/command.h"
#include "hcpctl/setup/complete.h"
#include "hcpctl/setup/doctor.h"
#include "json/text.h"
#include "hcpctl/common/token_cache.h"
#include "protocol/names.h"

#define BOUND_MS 300     /* limit for daemon and store */
#define LINE_MS 2000     /* limit for all of it, on a busy machine */
#define SESSIONS_MAX 500 /* the newest */

static const char help[] =
	"usage: hcpctl complete sessions|capabilities|callers [PREFIX]\n"
	"       hcpctl complete artifacts SESSION [PREFIX]\n"
	"       hcpctl complete line [WORD...] WORD\n\n"
	"Prints what the shells' completion offers, and nothing else; ends within 300 ms.\n"
	"\nExample:\n"
	"  hcpctl complete sessions 5f\n";

/* Lines that were printed before stay. */
static void on_alarm(int number)
{
	(void)number;
	_exit(CTL_OK);
}

/* Starts a time limit from now on. A caller may start it anew: reading hcpctl's own --help cannot hang. */
static void bound_time(int ms)
{
	struct itimerval at = {.it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}};

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &at, NULL);
}

void complete_offer(const struct complete *c, const char *word, const char *remark, const char *more)
{
	struct buf b = {0};

	if (!*word || strncasecmp(word, c->prefix, strlen(c->prefix)) != 0)
		return;
	buf_add_text(&b, c->before);
	ctl_escape(&b, word, strlen(word), false);
	if (remark) {
		buf_add_text(&b, "\t");
		ctl_escape(&b, remark, strlen(remark), false);
		if (more) {
			buf_add_text(&b, " ");
			ctl_escape(&b, more, strlen(more), false);
		}
	}
	puts(buf_text(&b));
	buf_fini(&b);
}

static const char *member(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : "";
}

/* --- from the daemon, else from the store --- */

struct session_offer {
	const struct complete *complete;
	bool any;
};

static bool on_session(void *ctx, const char *text, size_t size)
{
	struct session_offer *a = ctx;
	json_t *item = jtext_load(text, size, 0, NULL);

	a->any = true;
	complete_offer(
		a->complete, member(item, "session_id"), member(item, "state"), member(item, "capability"));
	json_decref(item);
	return true;
}

static bool on_part(void *ctx, const char *text, size_t size)
{
	const struct session_offer *a = ctx;
	json_t *item = jtext_load(text, size, 0, NULL), *artifact = json_object_get(item, "artifact");

	if (artifact)
		complete_offer(a->complete, member(artifact, "name"), member(artifact, "type"), NULL);
	json_decref(item);
	return true;
}

/* False: neither daemon nor store answers. */
static bool ask(struct session_offer *a, json_t *request, query_item_fn *fn)
{
	struct ctl_client *client;
	bool good;
	int status;

	bound_time(BOUND_MS);
	client = ctl_client_open(a->complete->settings, CTL_STORE_QUIETLY, &status);
	if (!client) {
		json_decref(request);
		return false;
	}
	good = ctl_client_ask(client, request, fn, a, NULL) == CTL_OK;
	ctl_client_close(client);
	return good;
}

/* Sessions that this user submitted and whose end was not seen. */
static void offer_own(const struct complete *c)
{
	struct buf text = {0};
	char why[CTL_WHY_SIZE];
	const char *id;
	json_t *root, *entry;

	if (!c->settings->home || ctl_user_files_read(c->settings->home, CTL_SESSIONS_FILE, &text, why) <= 0)
		return;
	root = jtext_load(text.data ? text.data : "", text.size, 0, NULL);
	json_object_foreach(root, id, entry)
		complete_offer(c, id, member(entry, "capability"), NULL);
	json_decref(root);
	if (text.data)
		explicit_bzero(text.data, text.room); /* the file holds tokens */
	buf_fini(&text);
}

void complete_sessions(const struct complete *c, bool only_live)
{
	struct session_offer a = {.complete = c};
	json_t *request = json_pack("{s:s, s:i}", "do", "list", "limit", SESSIONS_MAX);

	if (only_live)
		json_object_set_new(request, "state",
			json_pack("[s, s, s, s]", sstate_names[S_PENDING], sstate_names[S_RUNNING],
				sstate_names[S_PAUSED], sstate_names[S_ABORTING]));
	if (!ask(&a, request, on_session) && !a.any)
		offer_own(c);
}

void complete_artifacts(const struct complete *c, const char *session)
{
	struct session_offer a = {.complete = c};

	(void)ask(&a, json_pack("{s:s, s:s}", "do", "show", "session", session), on_part);
}

/* --- from the daemon's configuration --- */

static void say_nothing(void *ctx, bool is_error, const char *text)
{
	(void)ctx;
	(void)is_error;
	(void)text;
}

void complete_configured(const struct complete *c, const char *kind)
{
	struct config *config = config_load(doctor_config_path(c->options, c->settings), say_nothing, NULL);

	if (!config)
		return;
	for (size_t i = 0; strcmp(kind, "capabilities") == 0 && i < config->capability_count; i++)
		complete_offer(c, config->capabilities[i].name, NULL, NULL);
	for (size_t i = 0; strcmp(kind, "callers") == 0 && i < config->caller_count; i++)
		if (strcmp(config->callers[i].name, "*") != 0)
			complete_offer(c, config->callers[i].name, NULL, NULL);
	config_free(config);
}

/* --- the command --- */

/* Everything behind the kind is data, also options of the line that is completed. */
static void take_options(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = {CTL_GLOBAL_OPTIONS};
	int c;

	while ((c = getopt_long(argc, argv, "+:", options, NULL)) != -1)
		if (c != '?' && c != ':' && c != 'h')
			(void)ctl_command_option(c, argv, &ctl_complete, o);
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	struct ctl_settings s;
	struct complete c = {.settings = &s, .options = o, .before = "", .prefix = ""};
	int silence = open("/dev/null", O_WRONLY | O_CLOEXEC);
	const char *kind;

	bound_time(strcmp(argc > 1 ? argv[1] : "", "line") == 0 ? LINE_MS : BOUND_MS);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		return ctl_command_option('h', argv, &ctl_complete, o);
	if (silence >= 0)
		dup2(silence, STDERR_FILENO);
	take_options(argc, argv, o);
	kind = optind < argc ? argv[optind++] : "";
	if (strcmp(kind, "line") == 0)
		complete_take_options(argv + optind, argc - optind - 1, o);
	if (ctl_settings_load(&s, o, say_nothing, NULL) < 0)
		return CTL_OK;
	if (strcmp(kind, "line") == 0) {
		complete_line(&c, argv + optind, argc - optind);
	} else if (strcmp(kind, "artifacts") == 0 && optind < argc) {
		c.prefix = optind + 1 < argc ? argv[optind + 1] : "";
		complete_artifacts(&c, argv[optind]);
	} else {
		c.prefix = optind < argc ? argv[optind] : "";
		if (strcmp(kind, "sessions") == 0)
			complete_sessions(&c, false);
		else
			complete_configured(&c, kind);
	}
	ctl_settings_fini(&s);
	return CTL_OK;
}

const struct ctl_command ctl_complete = {.name = "complete", .summary = NULL, .help = help, .run = run};
