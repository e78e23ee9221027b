/* SPDX-License-Identifier: MIT */
/* fake_artifacts.c: artifact_store.h for the simulation: stored files are names, copies take a few turns, and
 * some are refused. Watches that a copy has a working directory to come from, and that only one of a session
 * is under way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/artifact_store.h"
#include "sim.h"

#define FILES_MAX 1024

static struct stored {
	char session_id[ID_SIZE], name[8];
	bool is_half;
} files[FILES_MAX];
static size_t file_count;

struct artifact_copying {
	char session_id[ID_SIZE], name[8];
	unsigned left; /* turns that it still takes */
	bool is_in;
};

void shelf_reset(void)
{
	file_count = 0;
}

static struct stored *find(const char *session_id, const char *name, bool is_half)
{
	for (size_t i = 0; i < file_count; i++)
		if (strcmp(files[i].session_id, session_id) == 0 && strcmp(files[i].name, name) == 0 &&
			files[i].is_half == is_half)
			return &files[i];
	return NULL;
}

bool shelf_has(const char *session_id, const char *name)
{
	return find(session_id, name, false) != NULL;
}

bool shelf_has_half(void)
{
	for (size_t i = 0; i < file_count; i++)
		if (files[i].is_half)
			return true;
	return false;
}

static void take(struct stored *f)
{
	if (f != NULL && !sim.is_dead)
		*f = files[--file_count];
}

static void put(const char *session_id, const char *name, bool is_half)
{
	if (sim.is_dead || find(session_id, name, is_half) != NULL)
		return;
	if (file_count == FILES_MAX)
		violation("%d artifacts are stored", FILES_MAX);
	snprintf(files[file_count].session_id, ID_SIZE, "%s", session_id);
	snprintf(files[file_count].name, sizeof files[0].name, "%s", name);
	files[file_count++].is_half = is_half;
}

struct artifact_copy *artifact_copy_begin(const struct artifact_source *src, char *why, size_t why_size)
{
	struct artifact_copy *c;

	if (!sim.is_dead && !sim_world_has_workdir(src->session_id))
		violation("session %.8s has no working directory any more, and an artifact to come from it",
			src->session_id);
	if (sim_chance(5)) {
		cover(ARTIFACT_REFUSED);
		snprintf(why, why_size, "is refused");
		return NULL;
	}
	c = xcalloc(1, sizeof *c);
	c->own = xcalloc(1, sizeof *c->own);
	snprintf(c->own->session_id, ID_SIZE, "%s", src->session_id);
	snprintf(c->own->name, sizeof c->own->name, "%s", src->name);
	c->own->left = sim_choose(sim_chance(3) ? 16 : 4);
	for (size_t i = 0; i < file_count && !sim.is_dead; i++)
		if (files[i].is_half && strcmp(files[i].session_id, src->session_id) == 0)
			violation("two copies of session %.8s at once", src->session_id);
	put(src->session_id, src->name, true);
	return c;
}

int artifact_copy_step(struct artifact_copy *c, size_t bytes, char *why, size_t why_size)
{
	struct artifact_copying *o = c->own;

	c->size += (int64_t)bytes;
	if (sim_chance(12)) {
		cover(ARTIFACT_BROKEN);
		snprintf(why, why_size, "cannot be stored: no room");
		return -1;
	}
	if (o->left-- > 0)
		return 1;
	take(find(o->session_id, o->name, true));
	put(o->session_id, o->name, false);
	snprintf(c->sha256, sizeof c->sha256, "%064d", 1);
	c->has_changed = sim_chance(8);
	o->is_in = true;
	cover(ARTIFACT_IN);
	return 0;
}

void artifact_copy_free(struct artifact_copy *c)
{
	if (c == NULL)
		return;
	if (!c->own->is_in)
		take(find(c->own->session_id, c->own->name, true));
	free(c->own);
	free(c);
}

void artifact_remove(const char *state_dir, const char *session_id, const char *name)
{
	(void)state_dir;
	take(find(session_id, name, false));
}

int artifact_collect(const char *state_dir, const char *session_id,
	bool (*is_known)(void *ctx, const char *name), void *ctx)
{
	int count = 0;

	(void)state_dir;
	for (size_t i = file_count; i-- > 0 && !sim.is_dead;)
		if (strcmp(files[i].session_id, session_id) == 0 &&
			(files[i].is_half || !is_known(ctx, files[i].name))) {
			cover(ARTIFACT_LEFT);
			take(&files[i]);
			count++;
		}
	return count;
}
