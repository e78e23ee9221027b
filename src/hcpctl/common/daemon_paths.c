/* SPDX-License-Identifier: MIT */
/* daemon_paths.c: where the daemon of this machine is: its socket and its state directory.
 * Owns which paths are tried, and in what order.
 * Never checks the daemon's configuration: it reads two keys and ignores the rest. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "hcpctl/common/client.h"
#include "base/ini.h"
#include "base/shellwords.h"

#define FILE_MAX (1 << 20)
#define DEFAULT_CONFIG "/etc/hcpd/hcpd.ini"
#define DEFAULT_STATE "/var/lib/hcpd"
#define RUNTIME_SOCKET "/run/hcpd/control.sock" /* where the unit's RuntimeDirectory puts it */

struct found_paths {
	char *dir; /* absolute: relative paths start here */
	char *state_dir, *socket;
};

static void on_line(void *ctx, int line, const char *section, const char *key, const char *value)
{
	struct found_paths *f = ctx;
	char **field, *text;

	(void)line;
	if (section == NULL || key == NULL)
		return;
	if (strcmp(section, "daemon") == 0 && strcmp(key, "state_dir") == 0)
		field = &f->state_dir;
	else if (strcmp(section, "control") == 0 && strcmp(key, "socket") == 0)
		field = &f->socket;
	else
		return;
	text = shellwords_unquote(value);
	free(*field);
	*field = strcmp(text, "off") == 0 || *text == '\0' ? xstrdup(text) : io_absolute(f->dir, text);
	free(text);
}

static void read_config(struct found_paths *f, struct ctl_daemon_paths *p)
{
	char real[PATH_MAX], *copy;
	struct buf text = {0};
	struct stat st;

	if (io_read_file(p->config, FILE_MAX, &text, &st) < 0) {
		p->trouble = xstrdup(errno == EFBIG ? "it is over 1 MiB" : strerror(errno));
	} else {
		copy = xstrdup(p->config);
		f->dir = xstrdup(realpath(dirname(copy), real) ? real : "/");
		free(copy);
		ini_parse(text.data ? text.data : "", text.size, on_line, f);
		free(f->dir);
	}
	if (text.data)
		explicit_bzero(text.data, text.room); /* the file may hold the broker's password */
	buf_fini(&text);
}

void ctl_daemon_paths_find(struct ctl_daemon_paths *p, const struct ctl_settings *s)
{
	struct found_paths f = {0};
	struct buf b = {0};
	size_t count = 0;
	bool is_usual;

	*p = (struct ctl_daemon_paths){
		.config = xstrdup(s->daemon_config ? s->daemon_config : DEFAULT_CONFIG)};
	is_usual = strcmp(p->config, DEFAULT_CONFIG) == 0;
	read_config(&f, p);
	p->state_dir = f.state_dir && *f.state_dir ? f.state_dir : xstrdup(DEFAULT_STATE);
	if (s->socket) {
		p->sockets[0] = xstrdup(s->socket);
		p->named_by = "--socket, HCP_SOCKET or [hcpctl] socket";
	} else if (f.socket && *f.socket) {
		if (strcmp(f.socket, "off") != 0)
			p->sockets[0] = xstrdup(f.socket);
		p->named_by = "[control] socket in the daemon's configuration";
	} else {
		/* A configuration that was named belongs to a daemon of its own: the daemon of the unit must
		 * not answer for it. */
		if (is_usual)
			p->sockets[count++] = xstrdup(RUNTIME_SOCKET);
		buf_addf(&b, "%s/control.sock", p->state_dir);
		buf_text(&b);
		p->sockets[count] = b.data;
	}
	free(f.socket);
	if (f.state_dir != p->state_dir)
		free(f.state_dir);
}

void ctl_daemon_paths_fini(struct ctl_daemon_paths *p)
{
	free(p->state_dir);
	for (size_t i = 0; i < sizeof p->sockets / sizeof *p->sockets; i++)
		free(p->sockets[i]);
	free(p->config);
	free(p->trouble);
	*p = (struct ctl_daemon_paths){0};
}
