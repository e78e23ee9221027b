/* SPDX-License-Identifier: MIT */
/* token.c: `hcpctl token`: the key that signs session tokens, and tokens that are revoked.
 * Owns the texts about the result. Never sees a token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hcpctl/common/op_common.h"

enum { OPT_JSON = 256 };

static void show(const json_t *done, bool is_json, bool is_rotation)
{
	char *text;

	if (is_json) {
		if ((text = json_dumps(done, JSON_COMPACT)))
			printf("%s\n", text);
		free(text);
	} else if (is_rotation) {
		printf("session tokens are signed with key %s from now on; %lld keys verify\n",
			ctl_op_text(done, "kid"),
			(long long)json_integer_value(json_object_get(done, "keys")));
	} else {
		printf("the token of session %s counts no more; the session is %s\n",
			ctl_op_text(done, "session"), ctl_op_text(done, "state"));
	}
}

static int ask(struct ctl_options *o, const char *session, const char *reason, bool is_json)
{
	json_t *request = ctl_client_request(session ? "revoke_token" : "rotate_token_key", session),
	       *done = NULL;
	int status;

	if (!request || (reason && !ctl_client_set(request, "reason", reason))) {
		json_decref(request);
		return CTL_USAGE;
	}
	status = ctl_op_ask(o, CTL_NEED_DAEMON, request, NULL, NULL, &done);
	if (status == CTL_OK) {
		json_object_del(done, "id");
		show(done, is_json, session == NULL);
	}
	json_decref(done);
	return ctl_op_flush(status);
}

static int run(int argc, char **argv, struct ctl_options *o)
{
	static const struct option options[] = {{"reason", required_argument, NULL, 'r'},
		{"json", no_argument, NULL, OPT_JSON}, CTL_OPERATOR_OPTIONS};
	const char *reason = NULL;
	bool is_json = false;
	char **words;
	int c, count, status;

	while ((c = getopt_long(argc, argv, ":hr:", options, NULL)) != -1) {
		if (c == OPT_JSON)
			is_json = true;
		else if (c == 'r')
			reason = optarg;
		else if ((status = ctl_command_option(c, argv, &ctl_token, o)) >= 0)
			return status;
	}
	words = argv + optind;
	count = argc - optind;
	if (count < 1 || (strcmp(words[0], "rotate") != 0 && strcmp(words[0], "revoke") != 0))
		return ctl_command_usage("token ", "rotate, or revoke SESSION");
	if (strcmp(words[0], "rotate") == 0)
		return count == 1 && !reason ? ask(o, NULL, NULL, is_json) :
					       ctl_command_usage("token ", "rotate takes nothing more");
	return count == 2 ? ask(o, words[1], reason, is_json) :
			    ctl_command_usage("token ", "revoke takes one SESSION");
}

const struct ctl_command ctl_token = {
	.name = "token",
	.summary = "session tokens: rotate (a new key), revoke SESSION",
	.help = "usage: hcpctl token rotate [options]\n"
		"       hcpctl token revoke [options] SESSION\n\n"
		"rotate makes a new key, which signs the tokens of tasks that are accepted from now on. "
		"Those given out before\n"
		"stay good until they expire or their session has ended.\n"
		"revoke makes the token of a session void, where somebody got hold of it who should not "
		"have. The session\n"
		"goes on; its caller can still abort it by its broker user (amqp_user), and an operator can\n"
		"(hcpctl abort --operator).\n\n"
		"  -r, --reason TEXT   (revoke) why; for the log\n"
		"      --json          the daemon's answer as JSON\n" CTL_OPERATOR_HELP
		"\nExample:\n  hcpctl token revoke 5f0c --reason 'it was in a mail'\n",
	.run = run,
};
