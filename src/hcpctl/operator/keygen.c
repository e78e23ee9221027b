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
#include "hcpctl/common/passphrase.h"
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

struct sealing {
	bool is_wanted;
	const char *file; /* NULL: the terminal */
};

static bool load(const char *path, const struct sealing *seal, char line[HARP_PUBLIC_SIZE])
{
	char why[256];
	struct harp_private *key = harp_key_unseal(path, ctl_passphrase_give, seal->file, why, sizeof why);

	if (!key) {
		ctl_say("%s; hcpctl keygen makes a key", why);
		return false;
	}
	harp_key_public(key, line);
	harp_key_free(key);
	return true;
}

static bool make(const struct ctl_settings *s, const char *given, const char *path,
	const struct sealing *seal, char line[HARP_PUBLIC_SIZE])
{
	char why[256], passphrase[HARP_PASSPHRASE_SIZE] = "";
	int rc;

	if (!make_home(s, given) || (seal->is_wanted && !ctl_passphrase_choose(seal->file, passphrase)))
		return false;
	rc = harp_key_make_sealed(path, seal->is_wanted ? passphrase : NULL, line, why, sizeof why);
	explicit_bzero(passphrase, sizeof passphrase);
	if (rc < 0) {
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
	enum { OPT_PASSPHRASE_FILE = 256 };
	static const struct option options[] = {{"show", no_argument, NULL, 's'},
		{"passphrase", no_argument, NULL, 'p'},
		{"passphrase-file", required_argument, NULL, OPT_PASSPHRASE_FILE}, CTL_OPERATOR_OPTIONS};
	char line[HARP_PUBLIC_SIZE], *path;
	const char *given;
	struct ctl_settings s;
	struct sealing seal = {.is_wanted = false};
	bool is_show = false;
	int c, status;

	while ((c = getopt_long(argc, argv, ":hsp", options, NULL)) != -1) {
		if (c == 's')
			is_show = true;
		else if (c == 'p')
			seal.is_wanted = true;
		else if (c == OPT_PASSPHRASE_FILE)
			seal = (struct sealing){.is_wanted = true, .file = optarg};
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
	if (path && (is_show ? load(path, &seal, line) : make(&s, given, path, &seal, line))) {
		ctl_approve_say_lines(line);
		status = CTL_OK;
	}
	free(path);
	ctl_settings_fini(&s);
	return ctl_op_flush(status);
}

const struct ctl_command ctl_keygen = {
	.name = "keygen",
	.summary = "make your own key for approvals: [FILE] [--passphrase] [--show]",
	.help = "usage: hcpctl keygen [options] [FILE]\n\n"
		"Makes an Ed25519 key in FILE (~/.config/hcp/" CTL_KEY_NAME
		"), readable by you alone, and prints the lines\n"
		"that the daemon's configuration needs to know it. A key that is there is never "
		"overwritten.\n\n"
		"  -p, --passphrase    asks for a passphrase that the key is encrypted with\n"
		"      --passphrase-file FILE   takes it from the first line of FILE, for scripts\n"
		"  -s, --show          only prints the lines of the key that is there\n"
		"\nExample:\n  hcpctl keygen | sudo tee -a /etc/hcpd/hcpd.ini && sudo systemctl reload "
		"hcpd\n",
	.run = run,
};
