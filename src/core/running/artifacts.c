/* SPDX-License-Identifier: MIT */
/* artifacts.c: files of workers that become artifacts, and when their sessions may end.
 * Owns the list of a session's artifacts, the order of copies, their limits and rows. Never touches a file
 * (artifact_store.c), never composes a result (session_end.c).
 *
 * A row is put when the file is announced, and completed when the copy is done. The copy is on the disk
 * before that commit, so a completed row always has its file. A later announcement of the same name drops
 * the earlier row first, so the file under that name belongs to no row while it is replaced. */
#include "core/running/artifacts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "store/artifact_store.h"
#include "store/artifact_name.h"
#include "base/clock.h"
#include "core/turn.h"
#include "core/running/run.h"
#include "base/crashpoint.h"
#include "base/log.h"

#define SLICE (1 << 20)    /* bytes copied in a turn */
#define COPIES_MAX 8       /* sessions whose files are open at once, by turns */
#define ARTIFACTS_MAX 1000 /* of a session */
#define LIST_SHARE 4       /* the list has at most this part of a message: the rest is for the outputs */
#define PATH_SIZE_MAX 4096
#define SHOWN 128        /* bytes of a name in a warning */
#define AGAIN_US 1000000 /* retry after a shortage of descriptors */
#define DEFAULT_TYPE "application/octet-stream"

struct artifact {
	struct artifact *prev, *next;
	char *name, *type, *path;
	int64_t size; /* -1: not copied yet */
	char sha256[ARTIFACT_HASH_SIZE];
	size_t room; /* upper bound of its JSON's size */
};

struct artifacts {
	struct artifacts *prev, *next; /* sessions with something to copy */
	struct session *session;
	struct artifact *list;
	unsigned count, pending;
	int64_t bytes; /* of the files that are copied */
	size_t room;
	struct artifact *current;   /* the file that is being copied ... */
	struct artifact_copy *copy; /* ... and the copy */
	bool delays_end;
	struct timer give_up;
};

/* ---- the list ---- */

static void add_json(struct buf *b, const char *session_id, const char *name, const char *type, int64_t size,
	const char *sha256)
{
	buf_add_text(b, "{\"name\":");
	buf_add_json(b, name, strlen(name));
	buf_add_text(b, ",\"type\":");
	buf_add_json(b, type, strlen(type));
	buf_add_text(b, ",\"uri\":\"");
	artifact_add_uri(b, session_id, name);
	buf_addf(b, "\",\"size_bytes\":%lld,\"checksum\":\"sha256:%64s\"}", (long long)size, sha256);
}

/* Upper bound of the JSON's size, with its comma: the file's size is not known yet. */
static size_t json_room(const struct session *s, const char *name, const char *type)
{
	struct buf b = {0};
	size_t room;

	add_json(&b, s->id, name, type, INT64_MAX, "");
	room = b.size + 1;
	buf_fini(&b);
	return room;
}

void artifacts_add_list(const struct session *s, struct buf *b)
{
	const struct artifact *a;
	const char *before = "";

	buf_add_text(b, "[");
	if (s->run.artifacts != NULL)
		DL_FOREACH(s->run.artifacts->list, a)
			if (a->size >= 0) {
				buf_add_text(b, before);
				add_json(b, s->id, a->name, a->type, a->size, a->sha256);
				before = ",";
			}
	buf_add_text(b, "]");
}

size_t artifacts_room(const struct session *s)
{
	return s->run.artifacts != NULL ? s->run.artifacts->room : 0;
}

static void on_give_up(struct timer *t);

static struct artifacts *get(struct session *s)
{
	if (s->run.artifacts == NULL) {
		s->run.artifacts = xcalloc(1, sizeof *s->run.artifacts);
		s->run.artifacts->session = s;
		s->run.artifacts->give_up.on_due = on_give_up;
	}
	return s->run.artifacts;
}

static struct artifact *find(const struct artifacts *as, const char *name)
{
	struct artifact *a;

	DL_FOREACH(as->list, a)
		if (strcmp(a->name, name) == 0)
			return a;
	return NULL;
}

static struct artifact *add(struct artifacts *as, const char *name, const char *type, const char *path)
{
	struct artifact *a = xcalloc(1, sizeof *a);

	a->name = xstrdup(name);
	a->type = xstrdup(type);
	a->path = xstrdup(path);
	a->size = -1;
	a->room = json_room(as->session, name, type);
	DL_APPEND(as->list, a);
	as->count++;
	as->room += a->room;
	return a;
}

static void join_queue(struct artifacts *as)
{
	if (as->pending++ == 0)
		DL_APPEND(as->session->core->run.collecting, as);
}

static void leave_queue(struct artifacts *as)
{
	if (--as->pending == 0)
		DL_DELETE(as->session->core->run.collecting, as);
}

static void stop_copy(struct artifacts *as)
{
	artifact_copy_free(as->copy);
	as->copy = NULL;
	as->current = NULL;
}

static void forget(struct artifacts *as, struct artifact *a)
{
	if (a == as->current)
		stop_copy(as);
	if (a->size < 0)
		leave_queue(as);
	else
		as->bytes -= a->size;
	DL_DELETE(as->list, a);
	as->count--;
	as->room -= a->room;
	free(a->name);
	free(a->type);
	free(a->path);
	free(a);
}

/* ---- announcements ---- */

static const char *find_fault(const char *name, size_t name_size, const char *path, size_t path_size)
{
	const char *fault = artifact_name_fault(name, name_size);

	if (fault != NULL)
		return fault;
	return path_size == 0 || path_size > PATH_SIZE_MAX || memchr(path, '\0', path_size) != NULL ?
		"has a path that is none" :
		NULL;
}

/* Does the list have room for this artifact, beside the others? */
static bool has_room(const struct session *s, const struct artifact *same, const char *name, const char *type)
{
	size_t room = artifacts_room(s) - (same != NULL ? same->room : 0) + json_room(s, name, type);

	return (same != NULL || s->run.artifacts->count < ARTIFACTS_MAX) &&
		(int64_t)room <= s->core->first_policy->config->max_message / LIST_SHARE;
}

static void warn_refused(struct session *s, const char *name, const char *why)
{
	session_warn(s, "artifact_not_kept", "artifact %.*s %s", (int)buf_utf8_cut(name, strlen(name), SHOWN),
		name, why);
}

static void put(struct artifacts *as, const char *name, const char *type, const char *path)
{
	const struct artifact *a = add(as, name, type, path);
	struct session *s = as->session;
	char at[CLOCK_TEXT_SIZE];

	clock_format(clock_wall_us(), at);
	store_put_artifact(s->core->store,
		&(struct store_artifact){.session = s->key,
			.session_id = s->id,
			.name = a->name,
			.type = a->type,
			.path = a->path},
		at);
	CRASH_POINT(artifact_announced);
	join_queue(as);
}

void artifact_announce(struct session *s, const char *name, size_t name_size, const char *path,
	size_t path_size, const char *type)
{
	const char *fault = find_fault(name, name_size, path, path_size);
	struct artifact *same;

	if (fault == NULL && !run_has_workdir(s))
		fault = "has a path, and the session has no working directory: its capability says workdir = "
			"no";
	if (fault != NULL) {
		warn_refused(s, name, fault);
		return;
	}
	if (type != NULL && !artifact_type_is_good(type, strlen(type))) {
		session_warn(s, "artifact_type",
			"artifact %.*s has a type that is none, and gets " DEFAULT_TYPE,
			(int)buf_utf8_cut(name, name_size, SHOWN), name);
		type = NULL;
	}
	type = type != NULL ? type : DEFAULT_TYPE;
	same = find(get(s), name);
	if (!has_room(s, same, name, type)) {
		warn_refused(s, name, "is one too many: the result would not have room for it");
		return;
	}
	if (same != NULL)
		forget(s->run.artifacts, same);
	put(s->run.artifacts, name, type, path);
}

/* ---- copies ---- */

static void on_in(struct artifacts *as)
{
	struct session *s = as->session;
	struct artifact *a = as->current;

	a->size = as->copy->size;
	memcpy(a->sha256, as->copy->sha256, sizeof a->sha256);
	as->bytes += a->size;
	if (as->copy->has_changed)
		session_warn(s, "artifact_changed",
			"artifact %.*s was written to while it was stored; size and checksum are of what was "
			"stored",
			(int)buf_utf8_cut(a->name, strlen(a->name), SHOWN), a->name);
	stop_copy(as);
	store_save_artifact(s->core->store, s->key, a->name, a->size, a->sha256);
	CRASH_POINT(artifact_in);
	leave_queue(as);
}

/* Removes the artifact, and the file that an earlier announcement of its name left. */
static void drop(struct artifacts *as, struct artifact *a)
{
	struct session *s = as->session;

	if (a == as->current)
		stop_copy(as);
	artifact_remove(s->core->state_dir, s->id, a->name);
	CRASH_POINT(artifact_removed);
	store_drop_artifact(s->core->store, s->key, a->name);
	forget(as, a);
}

static void on_refused(struct artifacts *as, struct artifact *a, const char *why)
{
	warn_refused(as->session, a->name, why);
	if (log_may(&as->session->core->limits.artifact, 20)) /* workers can announce without end */
		log_warn("an artifact is not kept: session=%.8s name=%.64s why=%s", as->session->id, a->name,
			why);
	drop(as, a);
}

static void drop_pending(struct artifacts *as, const char *why)
{
	struct artifact *a, *tmp;

	DL_FOREACH_SAFE(as->list, a, tmp) {
		if (a->size >= 0)
			continue;
		if (why != NULL)
			on_refused(as, a, why);
		else
			drop(as, a);
	}
}

static int64_t room_for(const struct artifacts *as)
{
	const struct config *config = as->session->core->policy->config;
	int64_t left = config->max_artifacts_total - as->bytes;

	return left < config->max_artifact ? left : config->max_artifact;
}

/* The user that must own the file: a worker that runs as another user must not get foreign files through the
 * daemon. -1: any. */
static int64_t owner_of(const struct session *s)
{
	const struct capability *cap =
		s->run.cap != NULL ? s->run.cap : policy_find(s->core->policy, s->capability);

	return cap != NULL && cap->config->confine.user != NULL ? (int64_t)cap->config->confine.uid : -1;
}

static bool begin(struct artifacts *as, struct artifact *a, char *why, size_t why_size)
{
	const struct session *s = as->session;
	struct artifact_source src = {.state_dir = s->core->state_dir,
		.session_id = s->id,
		.path = a->path,
		.name = a->name,
		.owner = owner_of(s),
		.max_bytes = room_for(as)};

	as->copy = artifact_copy_begin(&src, why, why_size);
	as->current = as->copy != NULL ? a : NULL;
	return as->copy != NULL;
}

static void on_again(struct timer *t)
{
	(void)t; /* the turn's end goes on with the copies */
}

/* A file that lacks only a descriptor is copied later: the shortage passes. artifact_timeout bounds the wait.
 * True: it waits. */
static bool waits_for_descriptors(struct artifacts *as)
{
	struct core *c = as->session->core;

	if (errno != EMFILE && errno != ENFILE)
		return false;
	if (as->current != NULL)
		stop_copy(as);
	if (log_may(&c->limits.artifact, 20))
		log_warn("no artifact is stored until there are descriptors again: session=%.8s",
			as->session->id);
	c->run.collect_again.on_due = on_again;
	timer_set(&c->timers, &c->run.collect_again, clock_boot_us() + AGAIN_US);
	return true;
}

/* Copies one slice of the session's first file that is not copied yet. */
static void copy_slice(struct artifacts *as)
{
	struct artifact *a = as->current;
	char why[256];
	int r;

	if (a == NULL) {
		DL_FOREACH(as->list, a)
			if (a->size < 0)
				break;
		errno = 0;
		if (!begin(as, a, why, sizeof why)) {
			if (!waits_for_descriptors(as))
				on_refused(as, a, why);
			return;
		}
	}
	errno = 0;
	r = artifact_copy_step(as->copy, SLICE, why, sizeof why);
	if (r == 0)
		on_in(as);
	else if (r < 0 && !waits_for_descriptors(as))
		on_refused(as, a, why);
}

/* The first COPIES_MAX sessions take turns; later ones wait until one of these is done. */
static void take_turns(struct core *c, struct artifacts *as)
{
	struct artifacts *at = as;

	for (int i = 1; i < COPIES_MAX && at->next != NULL; i++)
		at = at->next;
	if (at == as)
		return;
	DL_DELETE(c->run.collecting, as);
	DL_APPEND_ELEM(c->run.collecting, at, as);
}

static void finish(struct artifacts *as)
{
	struct session *s = as->session;

	as->delays_end = false;
	timer_cancel(&s->core->timers, &as->give_up);
	session_finish(s);
}

bool artifacts_step(struct core *c)
{
	struct artifacts *as = c->run.collecting;

	if (as == NULL || timer_is_set(&c->run.collect_again))
		return false;
	copy_slice(as);
	if (as->pending > 0)
		take_turns(c, as);
	else if (as->delays_end)
		finish(as);
	return c->run.collecting != NULL && !timer_is_set(&c->run.collect_again);
}

/* ---- the end ---- */

static void on_give_up(struct timer *t)
{
	struct artifacts *as = container_of(t, struct artifacts, give_up);

	drop_pending(as, "is not stored: artifact_timeout is over");
	finish(as);
}

bool artifacts_delay_end(struct session *s)
{
	struct artifacts *as = s->run.artifacts;

	if (as == NULL || as->pending == 0)
		return false;
	if (s->outcome.state == S_ABORTED || s->state == S_ABORTING) {
		drop_pending(as, NULL); /* no result will name them, and an abort must not be late */
		return false;
	}
	if (!as->delays_end) {
		as->delays_end = true;
		timer_set(&s->core->timers, &as->give_up,
			clock_boot_us() + s->core->policy->config->artifact_timeout_us);
		session_mark_dirty(s); /* stores the outcome: from here on the end is decided */
		CRASH_POINT(artifact_end_waits);
	}
	return true;
}

bool artifacts_delay_stop(const struct core *c)
{
	const struct artifacts *as;

	DL_FOREACH(c->run.collecting, as)
		if (as->delays_end)
			return true;
	return false;
}

void artifacts_free(struct session *s)
{
	struct artifacts *as = s->run.artifacts;

	if (as == NULL)
		return;
	while (as->list != NULL)
		forget(as, as->list);
	timer_cancel(&s->core->timers, &as->give_up);
	free(as);
	s->run.artifacts = NULL;
}

/* ---- the previous run ---- */

static void on_row(void *ctx, const struct store_artifact *row)
{
	struct artifacts *as = get(ctx);
	struct artifact *a = add(as, row->name, row->type, row->path);

	if (row->size_bytes < 0 || row->sha256 == NULL) {
		join_queue(as);
		return;
	}
	a->size = row->size_bytes;
	snprintf(a->sha256, sizeof a->sha256, "%s", row->sha256);
	as->bytes += a->size;
}

static bool is_in(void *ctx, const char *name)
{
	const struct artifact *a = find(ctx, name);

	return a != NULL && a->size >= 0;
}

int artifacts_load(struct session *s)
{
	if (s->attempts.number == 0)
		return 0; /* a session that never ran has announced nothing */
	if (store_load_artifacts(s->core->store, s->key, on_row, s) < 0)
		return -1;
	if (s->run.artifacts != NULL &&
		artifact_collect(s->core->state_dir, s->id, is_in, s->run.artifacts) > 0)
		log_info("half an artifact of an earlier life was removed, it is stored anew: session=%.8s",
			s->id);
	CRASH_POINT(artifacts_loaded);
	return 0;
}
