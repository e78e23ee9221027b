/* SPDX-License-Identifier: MIT */
/* artifact.c: `hcpctl artifact list` and `hcpctl artifact get`.
 * Owns the copy from the artifact store to a file of the user: straight from the disk where the user may read
 * it, else through the daemon. In both cases the checksum is verified before the file gets its name. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "store/artifact_read.h"
#include "hcpctl/common/op_common.h"
#include "hcpctl/operator/download.h"
#include "json/text.h"
#include "hcpctl/common/archive_reader.h"
#include "hcpctl/common/table.h"

enum { OPT_JSON = 256, OPT_FORCE };

/* ---- where artifacts are ---- */

/* For a session in the archive: its rows are in the archive, its files are still in the artifact store. */
static int ask_archive(const struct ctl_settings *settings, const char *id, query_item_fn *fn, void *ctx)
{
	struct ctl_daemon_paths paths;
	struct ctl_archive_reader s;
	char why[1024], found[ID_SIZE];
	int status = CTL_ERROR;

	ctl_daemon_paths_find(&paths, settings);
	if (ctl_archive_reader_open(&s, paths.state_dir, why, sizeof why) != EX_OK) {
		ctl_say("%s", why);
	} else {
		s.is_quiet = true; /* faults of other sessions do not matter */
		(void)ctl_archive_reader_find(&s, id, found);
		s.is_quiet = false;
		if (ctl_archive_reader_artifacts(&s, id, fn, ctx))
			status = CTL_OK;
		else if (s.faults == 0)
			ctl_say("session %.8s is not in the archive any more", id);
	}
	ctl_archive_reader_fini(&s);
	ctl_daemon_paths_fini(&paths);
	return status;
}

/* Gives items in the form of `show`. */
static int request_artifacts(struct ctl_client *c, const struct ctl_settings *settings, const char *session,
	query_item_fn *fn, void *ctx)
{
	int status;

	ctl_client_expect_archived(c);
	status = ctl_client_ask(c, ctl_client_request("show", session), fn, ctx, NULL);
	return status == CTL_CLIENT_ARCHIVED ? ask_archive(settings, ctl_client_archived(c), fn, ctx) :
					       status;
}

/* ---- list ---- */

static const struct ctl_column columns[] = {
	{.title = "NAME", .may_shrink = true},
	{.title = "SIZE", .is_right = true},
	{.title = "TYPE"},
	{.title = "CHECKSUM", .may_shrink = true},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

struct artifact_table {
	struct ctl_table table;
	bool is_json;
	size_t count;
};

static bool on_listed(void *ctx, const char *json, size_t size)
{
	struct artifact_table *w = ctx;
	json_t *item = jtext_load(json, size, 0, NULL), *a = json_object_get(item, "artifact");
	char bytes[CTL_SPAN_SIZE];
	const char *const cells[COLUMNS] = {
		ctl_op_text(a, "name"), bytes, ctl_op_text(a, "type"), ctl_op_text(a, "checksum")};

	if (a && w->is_json) {
		char *text = json_dumps(a, JSON_COMPACT);

		puts(text);
		free(text);
	} else if (a) {
		ctl_size(json_integer_value(json_object_get(a, "size_bytes")), bytes);
		ctl_table_add(&w->table, cells, '\0');
	}
	w->count += a != NULL;
	json_decref(item);
	return true;
}

static int list(struct ctl_options *o, const char *session, bool is_json)
{
	struct artifact_table w = {.is_json = is_json};
	struct ctl_settings settings;
	struct ctl_client *c;
	int status;

	if ((status = ctl_command_settings(&settings, o)) != 0)
		return status;
	ctl_table_init(&w.table, columns, COLUMNS, ctl_op_width(), -1);
	if ((c = ctl_client_open(&settings, CTL_STORE_WILL_DO, &status)) != NULL)
		status = request_artifacts(c, &settings, session, on_listed, &w);
	if (status == CTL_CLIENT_LOST)
		status = ctl_client_say_lost();
	ctl_client_close(c);
	ctl_settings_fini(&settings);
	ctl_table_end(&w.table);
	ctl_op_print(&w.table.out);
	ctl_table_fini(&w.table);
	if (status == CTL_OK && w.count == 0 && !is_json)
		ctl_say("this session has no artifact");
	return ctl_op_flush(status);
}

/* ---- get ---- */

struct artifact_request {
	const char *name;
	char session_id[ID_SIZE];
	bool has_left;  /* the session is in the archive: the daemon knows nothing of it */
	char *checksum; /* NULL: not found */
	int64_t size;
	struct buf others; /* names of the session's other artifacts */
};

static bool on_shown(void *ctx, const char *json, size_t size)
{
	struct artifact_request *w = ctx;
	json_t *item = jtext_load(json, size, 0, NULL), *a = json_object_get(item, "artifact");
	const json_t *session = json_object_get(item, "session");

	if (session)
		snprintf(w->session_id, sizeof w->session_id, "%s", ctl_op_text(session, "session_id"));
	if (a && strcmp(ctl_op_text(a, "name"), w->name) == 0) {
		free(w->checksum);
		w->checksum = xstrdup(ctl_op_text(a, "checksum"));
		w->size = json_integer_value(json_object_get(a, "size_bytes"));
	} else if (a) {
		buf_add_text(&w->others, w->others.size ? ", " : "");
		buf_add_text(&w->others, ctl_op_text(a, "name"));
	}
	json_decref(item);
	return true;
}

static int find(struct ctl_client *c, const struct ctl_settings *settings, const char *session,
	struct artifact_request *w)
{
	int status = request_artifacts(c, settings, session, on_shown, w);

	w->has_left = w->session_id[0] == '\0';
	if (w->has_left)
		snprintf(w->session_id, sizeof w->session_id, "%s", ctl_client_archived(c));
	if (status != CTL_OK || w->checksum)
		return status;
	if (w->others.size)
		ctl_say("session %.8s has no artifact %s; it has %.400s", w->session_id, w->name,
			buf_text(&w->others));
	else
		ctl_say("session %.8s has no artifact yet; they are listed once they are stored",
			w->session_id);
	return CTL_ERROR;
}

static bool read_whole(int fd, struct ctl_download *to)
{
	char piece[65536];
	ssize_t n;

	while ((n = read(fd, piece, sizeof piece)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			ctl_say("the artifact store cannot be read: %s", strerror(errno));
			return false;
		}
		if (!ctl_download_add(to, piece, (size_t)n))
			return false;
	}
	return true;
}

struct artifact_stream {
	struct ctl_download *to;
	bool is_broken;
};

static bool on_data(void *ctx, const char *json, size_t size)
{
	struct artifact_stream *in = ctx;
	json_t *item = jtext_load(json, size, 0, NULL), *data = json_object_get(item, "data");
	const char *text = json_string_value(data);
	size_t length = json_string_length(data);
	unsigned char *bytes = xmalloc(length + 1);
	int n = text && length % 4 == 0 ? EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)length) :
					  -1;

	/* The padding decodes to zero bytes: drop them. */
	for (; n > 0 && length > 0 && text[length - 1] == '='; length--)
		n--;
	in->is_broken = n < 0 || !ctl_download_add(in->to, bytes, (size_t)n);
	free(bytes);
	json_decref(item);
	return !in->is_broken;
}

/* Reads from the disk, else from the daemon. */
static int fetch(struct ctl_client *c, const struct ctl_settings *settings, const struct artifact_request *w,
	struct ctl_download *to)
{
	struct artifact_stream in = {.to = to};
	struct ctl_daemon_paths paths;
	json_t *request;
	int fd, error, status;

	ctl_daemon_paths_find(&paths, settings);
	fd = artifact_open(paths.state_dir, w->session_id, w->name);
	error = errno;
	if (fd < 0 && w->has_left)
		ctl_say("%s/artifacts/%s/%s cannot be read: %s; the session is in the archive, and of its "
			"files only the disk knows",
			paths.state_dir, w->session_id, w->name, strerror(error));
	else if (fd < 0 && !ctl_client_is_live(c))
		ctl_say("%s/artifacts/%s/%s cannot be read: %s; run this as root or as the daemon's user, or "
			"start the daemon",
			paths.state_dir, w->session_id, w->name, strerror(error));
	ctl_daemon_paths_fini(&paths);
	if (fd >= 0) {
		status = read_whole(fd, to) ? CTL_OK : CTL_ERROR;
		close(fd);
		return status;
	}
	if (w->has_left || !ctl_client_is_live(c))
		return CTL_ERROR;
	request = ctl_client_request("artifact", w->session_id);
	json_object_set_new(request, "name", json_string(w->name));
	status = ctl_client_ask(c, request, on_data, &in, NULL);
	return in.is_broken ? CTL_ERROR : status;
}

static int save(struct ctl_client *c, const struct ctl_settings *settings, struct artifact_request *w,
	const char *path, bool force)
{
	struct ctl_download *to = ctl_download_begin(path, force);
	int status;

	if (!to)
		return CTL_ERROR;
	status = fetch(c, settings, w, to);
	if (status == CTL_OK)
		return ctl_download_end(to, w->size, w->checksum) ? CTL_OK : CTL_ERROR;
	ctl_download_drop(to);
	return status;
}

static int get(struct ctl_options *o, const char *session, const char *name, const char *path, bool force)
{
	struct artifact_request w = {.name = name};
	struct ctl_settings settings;
	struct ctl_client *c;
	int status;

	if (strcmp(path, "-") == 0 && isatty(STDOUT_FILENO) && !force) {
		ctl_say("an artifact may hold anything, and stdout is a terminal; name a file with -o, or "
			"say --force");
		return CTL_ERROR;
	}
	if ((status = ctl_command_settings(&settings, o)) != 0)
		return status;
	if ((c = ctl_client_open(&settings, CTL_STORE_WILL_DO, &status)) != NULL)
		status = find(c, &settings, session, &w);
	if (c && status == CTL_OK)
		status = save(c, &settings, &w, path, force);
	if (status == CTL_CLIENT_LOST)
		status = ctl_client_say_lost();
	if (status == CTL_OK && strcmp(path, "-") != 0)
		ctl_say("%s: %lld bytes, %s", path, (long long)w.size, w.checksum);
	ctl_client_close(c);
	ctl_settings_fini(&settings);
	buf_fini(&w.others);
	free(w.checksum);
	return status;
}

/* ---- the command line ---- */

static int usage(const char *what)
{
	return ctl_command_usage("artifact ", "%s", what);
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = {{"output", required_argument, NULL, 'o'},
		{"force", no_argument, NULL, OPT_FORCE}, {"json", no_argument, NULL, OPT_JSON},
		CTL_OPERATOR_OPTIONS};
	bool is_json = false, force = false;
	const char *path = NULL;
	char **words;
	int c, count, status;

	while ((c = getopt_long(argc, argv, ":ho:", options, NULL)) != -1) {
		if (c == OPT_JSON)
			is_json = true;
		else if (c == OPT_FORCE)
			force = true;
		else if (c == 'o')
			path = optarg;
		else if ((status = ctl_command_option(c, argv, &ctl_artifact, o)) >= 0)
			return status;
	}
	words = argv + optind;
	count = argc - optind;
	if (count < 1 || (strcmp(words[0], "list") != 0 && strcmp(words[0], "get") != 0))
		return usage("list SESSION or get SESSION NAME");
	if (strcmp(words[0], "list") == 0)
		return count == 2 && !path && !force ? list(o, words[1], is_json) :
						       usage("list takes one SESSION");
	if (count != 3 || is_json)
		return usage("get takes a SESSION and a NAME; hcpctl artifact list SESSION shows names");
	/* The name of a stored artifact is always a plain file name; a word of the command line may be
	 * anything. */
	if (!path && (words[2][0] == '.' || strchr(words[2], '/')))
		return usage("an artifact's name has no slash and no dot in front");
	return get(o, words[1], words[2], path ? path : words[2], force);
}

const struct ctl_command ctl_artifact = {
	.name = "artifact",
	.summary = "files that a session kept: list SESSION, get SESSION NAME [-o FILE]",
	.help = "usage: hcpctl artifact list [options] SESSION\n"
		"       hcpctl artifact get [options] SESSION NAME\n\n"
		"list shows the artifacts of a session, get fetches one: into a file of its name in this "
		"directory, unless -o\n"
		"says otherwise. Its checksum is verified before the file gets its name. Where the daemon "
		"does not run, its\n"
		"directory is read; and so it is for a session that has left the store for the archive.\n\n"
		"  -o, --output FILE   into this file; - is stdout\n"
		"      --force         replaces a file that is there; writes to a terminal\n"
		"      --json          (list) one JSON object a line\n" CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl artifact get 5f0c report.pdf -o - | lpr\n",
	.run = run,
};
