/* SPDX-License-Identifier: MIT */
/* watch.c: `hcpctl watch`.
 * Owns which queue is read: the user's own queue for all sessions, one queue a session for named ones.
 * Never publishes. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "hcpctl/common/command.h"
#include "hcpctl/caller/watch_model.h"
#include "hcpctl/caller/watch_running.h"
#include "hcpctl/caller/watch_state.h"
#include "hcpctl/caller/broker.h"
#include "hcpctl/common/token_cache.h"

#define KEY_SIZE 256

struct watch {
	struct ctl_settings settings;
	const struct ctl_options *options;
	bool json;
	bool is_second;               /* another watch has the user's own queue */
	struct ctl_session *sessions; /* those that were named */
	size_t count;
};

/* --- which sessions --- */

static int add_session(struct watch *w, const char *word)
{
	struct ctl_session *s = &w->sessions[w->count];
	char why[CTL_WHY_SIZE];
	enum ctl_found found = ctl_token_cache_find(w->settings.home, word, s, why);

	if (found != CTL_FOUND) {
		if (!id_is_uuid4(word)) {
			ctl_say("%s", why);
			return CTL_ERROR;
		}
		*s = (struct ctl_session){0};
		for (int i = 0; i < ID_SIZE - 1; i++)
			s->id[i] = (char)tolower((unsigned char)word[i]);
	}
	w->count++;
	if (!w->settings.caller && s->caller)
		w->settings.caller = xstrdup(s->caller);
	if (s->caller && strcmp(s->caller, w->settings.caller) != 0) {
		ctl_say("session %s is caller %s's, and we are %s; use --caller %s", s->id, s->caller,
			w->settings.caller, s->caller);
		return CTL_ERROR;
	}
	return 0;
}

/* Stores the last sequence that was printed, so that the next watch goes on behind it. */
static void keep_sequences(struct watch *w, const struct ctl_watch_model *f)
{
	char why[CTL_WHY_SIZE];

	for (size_t i = 0; i < w->count; i++) {
		struct ctl_view *v;

		HASH_FIND_STR(f->views, w->sessions[i].id, v);
		if (!v || v->is_done || v->order.next <= 1 || !w->sessions[i].callee)
			continue;
		w->sessions[i].sequence = v->order.next - 1;
		if (ctl_token_cache_put(w->settings.home, &w->sessions[i], why) < 0)
			ctl_say("%s", why);
	}
}

/* --- which queues --- */

static void add_queues(struct watch *w, struct ctl_broker *p, const char *instance)
{
	char key[KEY_SIZE];

	if (w->count == 0) {
		names_event_binding(key, sizeof key, w->settings.caller, NULL);
		ctl_broker_add_queue(p, instance, key);
	}
	for (size_t i = 0; i < w->count; i++) {
		names_event_binding(key, sizeof key, w->settings.caller, w->sessions[i].id);
		ctl_broker_add_queue(p, *instance ? instance : w->sessions[i].id, key);
	}
}

static bool is_taken(const struct connection_error *e)
{
	return e->code == CTL_TAKEN;
}

/* The user's own queue keeps messages while no watch runs. Where another watch consumes it, a new queue is
 * made. */
static struct ctl_broker *open_broker(struct watch *w, bool *is_temporary, int *status)
{
	char instance[ID_SIZE] = "", why[CTL_WHY_SIZE];
	struct ctl_broker *p;
	struct connection_error e;

	*is_temporary = false;
	if (w->count == 0 &&
		(!w->settings.home || ctl_user_files_instance(w->settings.home, instance, why) < 0)) {
		ctl_say("%s; what comes after this watch is not kept for the next",
			w->settings.home ? why : "there is no home directory");
		id_make(instance);
		*is_temporary = true;
	}
	for (;;) {
		p = ctl_broker_new(&w->settings);
		if (w->json)
			ctl_broker_skim(p);
		add_queues(w, p, instance);
		if (ctl_broker_open(p, &e) == 0)
			return p;
		ctl_broker_end(p, false);
		if (!is_taken(&e) || *is_temporary)
			break;
		w->is_second = true;
		id_make(instance);
		*is_temporary = true;
	}
	*status = ctl_command_unreachable(&w->settings, &e);
	return NULL;
}

/* --- watching --- */

static int final_status(const struct ctl_watch_model *f)
{
	for (const struct ctl_view *v = f->views; v; v = v->hh.next)
		if (v->exit != CTL_OK)
			return (int)v->exit;
	return CTL_OK;
}

static int follow(struct ctl_watch_model *f, struct ctl_broker *p, bool keeps)
{
	struct ctl_message *message;

	while (f->all || f->open_count > 0) {
		switch (ctl_broker_step(p, ctl_watch_model_due_us(f), &message)) {
		case CTL_NOTE: ctl_watch_model_take(f, message); break;
		case CTL_SIGNAL: return f->all ? CTL_OK : 128 + ctl_broker_signal(p);
		case CTL_OUT_GONE: ctl_say("the standard output cannot be written"); return CTL_ERROR;
		default: break;
		}
		ctl_watch_model_tick(f);
		if (keeps)
			ctl_watch_state_save(f, false);
	}
	return final_status(f);
}

static int watch(struct watch *w)
{
	bool is_temporary, keeps;
	int status = CTL_ERROR;
	struct ctl_broker *p = open_broker(w, &is_temporary, &status);
	struct ctl_watch_model f;

	if (!p)
		return status;
	ctl_watch_model_init(&f, &w->settings, p, w->json, w->count != 1);
	f.all = w->count == 0;
	keeps = f.all && !is_temporary;
	if (keeps)
		ctl_watch_state_load(&f);
	if (f.all && f.is_table)
		ctl_watch_running_add(&f);
	/* Not earlier: the table would hide a message that was printed before it. */
	if (w->is_second)
		ctl_say("another hcpctl is watching the same; showing what comes from now on");
	for (size_t i = 0; i < w->count; i++) {
		bool goes_on = !is_temporary && w->sessions[i].sequence > 0;
		struct ctl_view *v =
			ctl_watch_model_add(&f, w->sessions[i].id, goes_on ? w->sessions[i].sequence + 1 : 0);

		v->capability = w->sessions[i].capability ? xstrdup(w->sessions[i].capability) : NULL;
	}
	status = follow(&f, p, keeps);
	keep_sequences(w, &f);
	if (keeps)
		ctl_watch_state_save(&f, true);
	/* Queues whose sessions have all closed are deleted; other queues keep messages for the next
	 * watch. */
	ctl_broker_end(p, is_temporary || (w->count > 0 && f.open_count == 0));
	ctl_watch_model_fini(&f);
	return status;
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	enum { OPT_ALL = 256, OPT_JSON };
	static const struct option options[] = {{"all", no_argument, NULL, OPT_ALL},
		{"json", no_argument, NULL, OPT_JSON}, CTL_GLOBAL_OPTIONS};
	struct watch w = {.options = o};
	bool all = false;
	int c, status = 0;

	while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (c == OPT_ALL)
			all = true;
		else if (c == OPT_JSON)
			w.json = true;
		else if ((status = ctl_command_option(c, argv, &ctl_watch, o)) >= 0)
			return status;
	}
	if (all && optind < argc)
		return ctl_command_usage(
			"watch ", "--all means every session; leave out %s, or --all", argv[optind]);
	if ((status = ctl_command_settings(&w.settings, o)))
		return status;
	w.sessions = xcalloc((size_t)argc, sizeof *w.sessions);
	for (int i = optind; i < argc && !status; i++)
		status = add_session(&w, argv[i]);
	if (!status && !w.settings.caller)
		status = ctl_command_missing(&w.settings, "caller");
	if (!status) {
		ctl_broker_catch_signals();
		status = watch(&w);
	}
	for (size_t i = 0; i < w.count; i++)
		ctl_session_fini(&w.sessions[i]);
	free(w.sessions);
	ctl_settings_fini(&w.settings);
	return status;
}

const struct ctl_command ctl_watch = {
	.name = "watch",
	.summary = "follow sessions: [SESSION...] [--all] [--json]",
	.help = "usage: hcpctl watch [options] [SESSION...]\n\n"
		"Shows events as they come: of the sessions named, until all of them have closed; without "
		"names of\n"
		"every session of this caller, until Ctrl-C. On a terminal one session is lines and a bar, "
		"several\n"
		"are a table; else each event is a line. What comes while nobody watches is kept for a day "
		"and shown\n"
		"first: nothing is left out, and after a kill -9 at most the last group of messages comes "
		"twice.\n\n"
		"      --all           every session; the default where none is named\n"
		"      --json          each message as one line of JSON, as it was received\n" CTL_GLOBAL_HELP
		"\nExample:\n  hcpctl watch 5f0c\n",
	.run = run,
};
