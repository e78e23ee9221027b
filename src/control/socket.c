/* SPDX-License-Identifier: MIT */
/* socket.c: the file of the control socket: its path, its owner, its mode.
 * Owns that file. Never accepts a client (control.c). */
#include "control/control_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crashpoint.h"

#define BACKLOG 64

/* ---- where it is ---- */

bool control_path(const struct config *config, char *path, size_t size)
{
	const char *dir = getenv("RUNTIME_DIRECTORY");
	int n;

	if (config->control_socket != NULL && strcmp(config->control_socket, "off") == 0)
		return false;
	if (config->control_socket != NULL)
		n = snprintf(path, size, "%s", config->control_socket);
	else if (dir != NULL && dir[0] == '/') /* several are separated by colons */
		n = snprintf(path, size, "%.*s/control.sock", (int)strcspn(dir, ":"), dir);
	else
		n = snprintf(path, size, "%s/control.sock", config->state_dir);
	if (n > 0 && (size_t)n < size && (size_t)n < sizeof((struct sockaddr_un *)0)->sun_path)
		return true;
	log_warn(
		"operators are not heard: the path of the control socket is too long; name a shorter one in "
		"[control]: path=%s",
		path);
	return false;
}

/* ---- the file ---- */

static void set_address(struct sockaddr_un *to, const char *path)
{
	memset(to, 0, sizeof *to);
	to->sun_family = AF_UNIX;
	memcpy(to->sun_path, path, strlen(path));
}

/* Which program made the file at the path? No hcpd of ours runs, because the state directory is locked; but
 * the path may be another program's. */
static bool is_in_use(const struct sockaddr_un *at)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool used = fd >= 0 && (connect(fd, (const struct sockaddr *)at, sizeof *at) == 0 || errno == EAGAIN);

	if (fd >= 0)
		close(fd);
	return used;
}

static int clear_place(const struct sockaddr_un *at)
{
	struct stat st;

	if (lstat(at->sun_path, &st) < 0)
		return 0; /* no file; or bind reports what is wrong */
	if (!S_ISSOCK(st.st_mode)) {
		log_error(
			"the control socket cannot be made: %s is there and is no socket; move it, or change "
			"[control] socket",
			at->sun_path);
		return -1;
	}
	if (is_in_use(at)) {
		log_error(
			"the control socket cannot be made: somebody listens at %s; give each hcpd its own "
			"[control] socket",
			at->sun_path);
		return -1;
	}
	return unlink(at->sun_path) == 0 || errno == ENOENT ? 0 : -1;
}

/* A user who is accepted by group alone must be able to reach the socket: a state directory, for example, is
 * closed to other users. */
static void check_way(const struct control *ctl)
{
	char dir[sizeof ctl->path];
	struct stat st;

	for (size_t i = 1; ctl->path[i] != '\0'; i++) {
		if (ctl->path[i] != '/')
			continue;
		snprintf(dir, sizeof dir, "%.*s", (int)i, ctl->path);
		if (stat(dir, &st) == 0 &&
			(st.st_mode & (st.st_gid == (gid_t)ctl->group ? S_IXGRP : S_IXOTH)) == 0) {
			log_warn(
				"the group of [control] cannot reach the control socket: its members may not "
				"enter %s; name a socket elsewhere in [control], or open the directory to "
				"them: path=%s",
				dir, ctl->path);
			return;
		}
	}
}

/* No client can connect before listen, so the mode is right from the beginning. */
int control_make_socket(struct control *ctl)
{
	struct sockaddr_un at;
	struct stat st;

	set_address(&at, ctl->path);
	if (clear_place(&at) < 0)
		return -1;
	ctl->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (ctl->listen_fd < 0 || bind(ctl->listen_fd, (const struct sockaddr *)&at, sizeof at) < 0) {
		log_error("the control socket cannot be made at %s: %s; see [control] socket", ctl->path,
			strerror(errno));
		return -1;
	}
	CRASH_POINT(control_bound);
	/* Our own group needs no change, and the shipped unit would not allow one. */
	if (lstat(ctl->path, &st) == 0 && ctl->group >= 0 && st.st_gid != (gid_t)ctl->group &&
		lchown(ctl->path, (uid_t)-1, (gid_t)ctl->group) < 0) {
		log_error(
			"the control socket cannot be given to the group of [control]: %s; run hcpd as a "
			"member of it",
			strerror(errno));
		unlink(ctl->path);
		return -1;
	}
	if (chmod(ctl->path, ctl->group >= 0 ? 0660 : 0600) < 0 || lstat(ctl->path, &st) < 0 ||
		listen(ctl->listen_fd, BACKLOG) < 0) {
		log_error("the control socket cannot be made at %s: %s", ctl->path, strerror(errno));
		unlink(ctl->path);
		return -1;
	}
	if (ctl->group >= 0)
		check_way(ctl);
	ctl->dev = st.st_dev;
	ctl->ino = st.st_ino;
	return 0;
}

void control_remove_socket(const struct control *ctl)
{
	struct stat st;

	if (lstat(ctl->path, &st) == 0 && st.st_dev == ctl->dev && st.st_ino == ctl->ino)
		unlink(ctl->path);
}
