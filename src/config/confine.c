/* SPDX-License-Identifier: MIT */
/* confine.c: what a capability's workers are kept from.
 * Owns what `user` names, what does not go together, and the list of files that hold secrets.
 * Never changes a process: process/confine.c does, when one starts. */
#include "base/buf.h"
#include "config/table_private.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

void config_add_secret(struct config_reader *r, char *path)
{
	struct config *c = r->config;

	if (!path || !c) { /* hcpctl reads the same keys, and has no workers */
		free(path);
		return;
	}
	c->secrets = xrealloc(c->secrets, (c->secret_count + 2) * sizeof(*c->secrets));
	c->secrets[c->secret_count++] = path;
	c->secrets[c->secret_count] = NULL;
}

/* As login would have it: the user's own group, and every group that has it for a member. */
static void take_groups(struct config_confine *f, const char *name)
{
	int count = 16;

	do {
		f->group_count = (size_t)count;
		f->groups = xrealloc(f->groups, f->group_count * sizeof(*f->groups));
	} while (getgrouplist(name, f->gid, f->groups, &count) < 0 && (size_t)count > f->group_count);
	f->group_count = (size_t)count < f->group_count ? (size_t)count : f->group_count;
}
_Static_assert(
	sizeof(gid_t) == sizeof(uint32_t) && sizeof(uid_t) == sizeof(uint32_t), "as config.h has them");

static void find_user(struct config_reader *r, int line, struct config_confine *f)
{
	size_t size = strcspn(f->user, ":");
	const char *group = f->user[size] ? f->user + size + 1 : NULL;
	char *name = xstrndup(f->user, size);
	const struct passwd *pw;
	const struct group *gr = NULL;

	errno = 0;
	pw = getpwnam(name);
	if (!pw) {
		config_complain(r, line,
			"user = %s: there is no user %s%s%s; write NAME or NAME:GROUP of this machine",
			f->user, name, errno ? ": " : "", errno ? strerror(errno) : "");
	} else if (pw->pw_uid == 0) {
		config_complain(r, line,
			"user = %s is root, whom nothing confines; name another, or leave it out", f->user);
	} else {
		f->uid = pw->pw_uid;
		f->gid = pw->pw_gid;
		f->home = xstrdup(pw->pw_dir);
		if (group && !(gr = getgrnam(group)))
			config_complain(r, line,
				"user = %s: there is no group %s; write NAME or NAME:GROUP of this machine",
				f->user, group);
		else if (gr) {
			f->gid = gr->gr_gid; /* and no other */
			f->groups = xrealloc(NULL, sizeof(*f->groups));
			f->groups[0] = f->gid;
			f->group_count = 1;
		} else
			take_groups(f, name);
	}
	free(name);
}

static void check_paths(
	struct config_reader *r, const struct config_section *s, const char *key, char *const *paths)
{
	struct stat st;

	for (; paths && *paths; paths++)
		if (stat(*paths, &st) < 0)
			config_warn(r, config_get(s, key)->line,
				"%s: %s is not there now: %s; sessions go without it", key, *paths,
				strerror(errno));
}

void config_finish_confine(
	struct config_reader *r, const struct config_section *s, struct config_capability *cc)
{
	struct config_confine *f = &cc->confine;
	const struct config_value *read = config_get(s, "landlock_read"),
				  *write = config_get(s, "landlock_write");

	if (f->user)
		find_user(r, config_get(s, "user")->line, f);
	/* A process that serves many sessions would have to be let into the directories of all of them. */
	if (cc->reuse > 1 && f->landlock == LANDLOCK_STATE) {
		if (!f->user)
			config_warn(r, config_get(s, "reuse")->line,
				"reuse = %d: its workers can open the state directory, with the directories "
				"of "
				"other sessions: landlock = state cannot be kept for a process that serves "
				"several; "
				"write landlock = no if that is meant",
				cc->reuse);
		f->landlock = LANDLOCK_NO;
	}
	if (cc->reuse > 1 && (f->user || f->landlock))
		config_complain(r, config_get(s, "reuse")->line,
			"reuse = %d with %s: a process that serves several sessions cannot be kept to the "
			"directory of one; write reuse = 1, or leave %s out",
			cc->reuse, f->landlock ? "landlock" : "user", f->landlock ? "landlock" : "user");
	if (f->landlock != LANDLOCK_YES && (read->text || write->text))
		config_complain(r, read->text ? read->line : write->line,
			"landlock_read and landlock_write only widen landlock = yes; add it, or leave them "
			"out");
	check_paths(r, s, "landlock_read", f->landlock_read);
	check_paths(r, s, "landlock_write", f->landlock_write);
}
