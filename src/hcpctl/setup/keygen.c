/* SPDX-License-Identifier: MIT */
/* keygen.c: `hcpctl keygen`: makes an operator's own key and prints the lines for the daemon's configuration.
 * Owns the command only: harp/key.c writes the file. Never prints the private half, never overwrites a
 * key. */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "hcpctl/operator/approvals.h"
#include "hcpctl/common/command.h"
#include "hcpctl/common/user_files.h"
#include "hcpctl/common/op_common.h"
#include "harp/harp.h"

/* hcpctl's own directory is made where it is missing; a directory that was named is not. */
static bool make_home(const struct ctl_settings *s, const char *given)
{
	char why[CTL_WHY_SIZE];

	if (given || ctl_user_files_make(s->home, why) == 0)
		return true;
	ctl_say("%s", why);
	return false;
}

static bool load(const char *path, char line[HARP_PUBLIC_SIZE])
{
	char why[256];
	struct harp_private *key = harp_key_load(path, why, sizeof why);

	if (!key) {
		ctl_say("%s; hcpctl keygen makes a key", why);
		return false;
	}
	harp_key_public(key, line);
	harp_key_free(key);
	return true;
}

static bool make(
	const struct ctl_settings *s, const char *given, const char *path, char line[HARP_PUBLIC_SIZE])
{
	char why[256];

	if (!make_home(s, given))
		return false;
	if (harp_key_make(path, line, why, sizeof why) < 0) {
		ctl_say("%s; a key that is there is never overwritten, and --show prints its public half",
			why);
		return false;
	}
	ctl_say("your key is in %s, for you alone; the daemon needs these lines, with the risk up to which "
		"you may decide, in its configuration, and then a reload:",
		path);
	return true;
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = {{"show", no_argument, NULL, 's'}, CTL_OPERATOR_OPTIONS};
	char line[HARP_PUBLIC_SIZE], *path;
	const char *given;
	struct ctl_settings s;
	bool is_show = false;
	int c, status;

	while ((c = getopt_long(argc, argv, ":hs", options, NULL)) != -1) {
		if (c == 's')
			is_show = true;
		else if ((status = ctl_command_option(c, argv, &ctl_keygen, o)) >= 0)
			return status;
	}
	if (optind + 1 < argc)
		return ctl_command_usage("keygen ", "one file at a time: %s is too much", argv[optind + 1]);
	given = optind < argc ? argv[optind] : NULL;
	if ((status = ctl_command_settings(&s, o)) != 0)
		return status;
	path = ctl_approve_key(&s, given);
	status = CTL_ERROR;
	if (path && (is_show ? load(path, line) : make(&s, given, path, line))) {
		ctl_approve_say_lines(line);
		status = CTL_OK;
	}
	free(path);
	ctl_settings_fini(&s);
	return ctl_op_flush(status);
}

const struct ctl_command ctl_keygen = {
	.name = "keygen",
	.summary = "make your own key for approvals: [FILE] [--show]",
	.help = "usage: hcpctl keygen [options] [FILE]\n\n"
		"Makes an Ed25519 key in FILE (~/.config/hcp/" CTL_KEY_NAME
		"), readable by you alone, and prints the lines\n"
		"that the daemon's configuration needs to know it. A key that is there is never "
		"overwritten.\n\n"
		"  -s, --show          only prints the lines of the key that is there\n"
		"\nExample:\n  hcpctl keygen | sudo tee -a /etc/hcpd/hcpd.ini && sudo systemctl reload "
		"hcpd\n",
	.run = run,
};
