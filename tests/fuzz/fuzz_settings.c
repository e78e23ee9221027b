/* SPDX-License-Identifier: MIT */
/* fuzz_settings.c: hcpctl's own file. Input: hcpctl.ini; behind lines `=== NAME MODE` other files (files.h);
 * the three lines at its very front that begin with `--` are the options url, caller and callee, where they
 * are there. */
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/message.h"
#include "base/io.h"
#include "base/name.h"
#include "config/reader.h"
#include "files.h"
#include "fuzz.h"

/* The one module that only this target needs to read the directory in memory; config's are in files.c. */
#include <libgen.h>
#define realpath files_realpath
#include "hcpctl/common/settings.c"
#undef realpath

#define PATH FILES_DIR "/hcpctl.ini"

struct said {
	int errors, count;
	bool may_say_null; /* the input does */
};

static void say(void *ctx, bool is_error, const char *text)
{
	struct said *s = ctx;

	MUST(*text != '\0' && *text != ':' && *text != ' ');
	MUST(s->may_say_null || strstr(text, "(null)") == NULL);
	s->errors += is_error;
	s->count++;
}

static char *take_option(struct feed *f)
{
	char *line;

	if (f->left < 2 || memcmp(f->at, "--", 2) != 0)
		return NULL;
	line = feed_line(f);
	memmove(line, line + 2, strlen(line + 2) + 1);
	return line;
}

static void check(const struct ctl_settings *s, const char *url, const char *caller, const char *callee)
{
	const struct config_amqp *a = &s->config->amqp;

	MUST(s->caller == NULL || message_is_caller_id(s->caller, strlen(s->caller)));
	MUST(s->callee == NULL || name_is_valid(s->callee, "-_"));
	MUST(caller == NULL || strcmp(s->caller, caller) == 0);
	MUST(callee == NULL || strcmp(s->callee, callee) == 0);
	MUST(url == NULL || strncmp(url, "amqp", 4) == 0 || *url == '"' || *url == '\'');
	MUST(a->host != NULL && *a->host != '\0' && a->port >= 1 && a->port <= 65535 && a->password != NULL);
	MUST(a->vhost != NULL && a->url != NULL && strcmp(s->path, PATH) == 0);
	MUST(ctl_settings_user(s) == NULL || *ctl_settings_user(s) != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size};
	char *url = take_option(&f), *caller = take_option(&f), *callee = take_option(&f);
	struct ctl_options o = {.url = url, .caller = caller, .callee = callee, .config = PATH};
	struct ctl_settings s;
	struct said said = {.may_say_null = memmem(data, size, "(null)", 6) != NULL};

	setenv("HOME", "/home/user", 1);
	unsetenv("XDG_CONFIG_HOME");
	unsetenv("CREDENTIALS_DIRECTORY");
	unsetenv("HCP_URL");
	unsetenv("HCP_CALLER");
	unsetenv("HCP_CALLEE");
	files_clear();
	files_split("hcpctl.ini", f.at, f.left);
	if (ctl_settings_load(&s, &o, say, &said) == 0) {
		MUST(said.errors == 0);
		check(&s, url, caller, callee);
		ctl_settings_fini(&s);
	} else {
		MUST(said.errors > 0 && s.config == NULL);
	}
	free(url);
	free(caller);
	free(callee);
	return 0;
}
