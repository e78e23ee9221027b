/* SPDX-License-Identifier: MIT */
/* watch_running.c: fills a new table with the sessions that run already.
 * Owns the question to the daemon and how its answer becomes a view.
 * Never reads a message of the broker (watch_model.c), never ends a view. */
#include "hcpctl/caller/watch_running.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "hcpctl/common/client.h"
#include "hcpctl/common/op_common.h"
#include "json/text.h"

#define RUNNING_MAX 4096 /* sessions; a table has no room for more */

static char *text_or_null(const json_t *item, const char *name)
{
	const char *text = ctl_op_text(item, name);

	return *text ? xstrdup(text) : NULL;
}

static void add_view(struct ctl_watch_model *f, const json_t *item)
{
	const char *id = ctl_op_text(item, "session_id");
	struct ctl_view *v;

	if (!id_is_uuid4(id))
		return;
	HASH_FIND_STR(f->views, id, v);
	if (!v)
		v = ctl_watch_model_add(f, id, 0);
	snprintf(v->state, sizeof v->state, "%s", ctl_op_text(item, "state"));
	if (!v->capability)
		v->capability = text_or_null(item, "capability");
	if (!v->stage)
		v->stage = text_or_null(item, "step");
	clock_parse(ctl_op_text(item, "created_at"), &v->since_us);
	f->has_news = true;
}

static bool on_item(void *ctx, const char *json, size_t size)
{
	json_t *item = jtext_load(json, size, 0, NULL);

	add_view(ctx, item);
	json_decref(item);
	return true;
}

/* A caller need not be allowed to ask the daemon: a refusal is no news. */
static void drop_message(void *ctx, const char *line, size_t size)
{
	(void)ctx;
	(void)line;
	(void)size;
}

static bool ask(struct ctl_watch_model *f)
{
	json_t *request = ctl_client_request("list", NULL);
	struct ctl_client *c;
	int status;

	json_object_set_new(request, "state", json_pack("[s]", "live"));
	json_object_set_new(request, "limit", json_integer(RUNNING_MAX));
	if (!ctl_client_set(request, "caller", f->settings->caller) ||
		!(c = ctl_client_open(f->settings, CTL_DAEMON_QUIETLY, &status))) {
		json_decref(request);
		return false;
	}
	status = ctl_client_ask(c, request, on_item, f, NULL);
	ctl_client_close(c);
	return status == CTL_OK;
}

void ctl_watch_running_add(struct ctl_watch_model *f)
{
	bool has_answer;

	ctl_say_via(drop_message, NULL);
	has_answer = ask(f);
	ctl_say_via(NULL, NULL);
	ctl_watch_screen_begin(f);
	if (!has_answer && !f->views)
		ctl_say("no daemon to ask here: running sessions appear with their next event");
}
