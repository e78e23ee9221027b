/* SPDX-License-Identifier: MIT */
/* watch_state.c: keeps the views of a watch from one watch to the next.
 * Owns watch-CALLER.json: its members, and when it is written.
 * Never decides what is printed: it only restores views. */
#include "hcpctl/caller/watch_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "hcpctl/common/user_files.h"
#include "json/text.h"

#define NAME_SIZE 200
#define KEPT_MAX 4096 /* sessions; a table has no room for more */

static void make_name(const struct ctl_watch_model *f, char name[NAME_SIZE])
{
	snprintf(name, NAME_SIZE, "watch-%s.json", f->settings->caller);
}

static char *copy_text(const json_t *entry, const char *key)
{
	const char *text = json_string_value(json_object_get(entry, key));

	return text ? xstrdup(text) : NULL;
}

static void load_view(struct ctl_watch_model *f, const char *id, const json_t *entry)
{
	const char *state = json_string_value(json_object_get(entry, "state"));
	const char *since = json_string_value(json_object_get(entry, "since"));
	const json_t *percent = json_object_get(entry, "percent");
	struct ctl_view *v;

	if (!id_is_uuid4(id))
		return;
	v = ctl_watch_model_add(f, id, 0);
	v->order.floor = json_integer_value(json_object_get(entry, "sequence"));
	v->percent = json_is_number(percent) ? json_number_value(percent) : -1;
	v->capability = copy_text(entry, "capability");
	v->stage = copy_text(entry, "stage");
	v->message = copy_text(entry, "message");
	snprintf(v->state, sizeof v->state, "%s", state ? state : "");
	if (!since || !clock_parse(since, &v->since_us))
		v->since_us = clock_wall_us();
}

void ctl_watch_state_load(struct ctl_watch_model *f)
{
	char name[NAME_SIZE], why[CTL_WHY_SIZE];
	struct buf text = {0};
	const char *id;
	json_t *root = NULL, *entry;

	make_name(f, name);
	if (ctl_user_files_read(f->settings->home, name, &text, why) > 0)
		root = jtext_load(text.data ? text.data : "", text.size, 0, NULL);
	json_object_foreach(root, id, entry)
		if (HASH_COUNT(f->views) < KEPT_MAX)
			load_view(f, id, entry);
	json_decref(root);
	buf_fini(&text);
}

static void put_text(json_t *entry, const char *key, const char *text)
{
	if (text && *text)
		json_object_set_new(entry, key, json_string(text));
}

static json_t *make_entry(const struct ctl_view *v)
{
	int64_t last = v->order.next > 0 ? v->order.next - 1 : v->order.floor;
	char since[CLOCK_TEXT_SIZE];
	json_t *entry = json_object();

	clock_format(v->since_us, since);
	json_object_set_new(entry, "sequence", json_integer(last));
	put_text(entry, "since", since);
	put_text(entry, "state", v->state);
	put_text(entry, "capability", v->capability);
	put_text(entry, "stage", v->stage);
	put_text(entry, "message", v->message);
	if (v->percent >= 0)
		json_object_set_new(entry, "percent", json_real(v->percent));
	return entry;
}

void ctl_watch_state_save(struct ctl_watch_model *f, bool is_end)
{
	int64_t now_us = clock_boot_us();
	char name[NAME_SIZE], why[CTL_WHY_SIZE], *text;
	size_t count = 0;
	json_t *root;

	if (!f->has_news || (!is_end && now_us < f->kept_at_us + CTL_KEPT_EVERY_US))
		return;
	/* The next watch leaves out what this file says was shown: a kill must find it printed. */
	if (fflush(stdout) != 0 || ferror(stdout))
		return;
	f->kept_at_us = now_us;
	f->has_news = false;
	root = json_object();
	for (const struct ctl_view *v = f->views; v && count < KEPT_MAX; v = v->hh.next)
		if (!v->is_done) {
			json_object_set_new(root, v->id, make_entry(v));
			count++;
		}
	make_name(f, name);
	text = json_dumps(root, JSON_INDENT(1));
	if (text && ctl_user_files_write(f->settings->home, name, text, strlen(text), why) < 0 && is_end)
		ctl_say("%s; the next watch begins without what this one knew", why);
	free(text);
	json_decref(root);
}
