/* SPDX-License-Identifier: MIT */
/* token_keys.c: the keys of session tokens, in a file: one line a key, KID HEX MADE UNTIL, the signing key
 * first.
 * Owns STATE_DIR/token.keys, and takes over token.key of older versions. Never signs (token.c). */
#include "protocol/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "json/canonical.h"
#include "base/clock.h"
#include "base/crashpoint.h"
#include "base/id.h"
#include "base/log.h"

#define PATH_SIZE 4096
#define NEVER "-" /* stands for a missing time */
#define LINE_MAX_SIZE 160

void token_name_key(struct token_key *key)
{
	char hash[CANONICAL_HASH_SIZE];

	canonical_hash_bytes(key->bytes, TOKEN_KEY_SIZE, hash);
	memcpy(key->kid, hash, TOKEN_KID_SIZE - 1);
	key->kid[TOKEN_KID_SIZE - 1] = '\0';
}

/* Cuts times to the file's precision, so that memory and file agree. */
static struct token_key new_key(int64_t now_us)
{
	struct token_key key = {.made_us = now_us / 1000 * 1000};

	id_random(key.bytes, TOKEN_KEY_SIZE);
	token_name_key(&key);
	return key;
}

/* ---- writing ---- */

static void add_time(struct buf *b, int64_t us)
{
	char text[CLOCK_TEXT_SIZE];

	clock_format(us, text);
	buf_addf(b, " %s", us != 0 ? text : NEVER);
}

static int write_whole(const char *path, const struct buf *b)
{
	int rc, fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	ssize_t n;

	if (fd < 0)
		return -1;
	while ((n = write(fd, b->data, b->size)) < 0 && errno == EINTR)
		;
	rc = n == (ssize_t)b->size ? fsync(fd) : -1;
	close(fd);
	return rc;
}

static int sync_dir(const char *dir)
{
	int rc, fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	rc = fsync(fd); /* tokens depend on this key: the name must be as durable as they are */
	close(fd);
	return rc;
}

/* The file is complete on disk before it gets its name, so that after a crash the old or the new keys are
 * there, whole. */
static int save(const char *dir, const struct token_keys *keys, char *why, size_t why_size)
{
	char path[PATH_SIZE], part[PATH_SIZE];
	struct buf b = {0};
	int rc = -1;

	snprintf(path, sizeof path, "%s/token.keys", dir);
	snprintf(part, sizeof part, "%s/token.keys.part", dir);
	for (size_t i = 0; i < keys->count; i++) {
		buf_addf(&b, "%s ", keys->list[i].kid);
		for (size_t k = 0; k < TOKEN_KEY_SIZE; k++)
			buf_addf(&b, "%02x", keys->list[i].bytes[k]);
		add_time(&b, keys->list[i].made_us);
		add_time(&b, keys->list[i].until_us);
		buf_add_text(&b, "\n");
	}
	if (write_whole(part, &b) == 0) {
		CRASH_POINT(key_written);
		if (rename(part, path) == 0) {
			CRASH_POINT(key_named);
			rc = sync_dir(dir);
		}
	}
	if (rc < 0)
		snprintf(why, why_size, "%s cannot be written: %s", path, strerror(errno));
	OPENSSL_cleanse(b.data, b.size);
	buf_fini(&b);
	return rc;
}

/* ---- reading ---- */

/* The file's text, at most `size`; -1 with errno, 0 for ENOENT. */
static ssize_t read_whole(const char *path, char *out, size_t size, char *why, size_t why_size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0) {
		snprintf(why, why_size, "%s cannot be read: %s", path, strerror(errno));
		return -1;
	}
	while ((n = read(fd, out, size)) < 0 && errno == EINTR)
		;
	if (n < 0 || fstat(fd, &st) < 0) { /* an I/O error: the advice to remove the keys would be wrong */
		snprintf(why, why_size, "%s cannot be read: %s", path, strerror(errno));
		close(fd);
		return -1;
	}
	close(fd);
	if (st.st_mode & 077) {
		snprintf(why, why_size, "%s may be read by others; chmod 600 it", path);
		return -1;
	}
	if (n == 0 || (size_t)n == size) {
		snprintf(why, why_size,
			"%s has a size that it never had when it was written; put a copy of it back, or "
			"remove it to have a new one made (tokens given out before are then void)",
			path);
		return -1;
	}
	return n;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_time(const char *text, int64_t *us)
{
	*us = 0;
	return strcmp(text, NEVER) == 0 || clock_parse(text, us);
}

static bool read_line(char *line, struct token_key *key)
{
	char *rest, *kid = strtok_r(line, " ", &rest), *hex = strtok_r(NULL, " ", &rest);
	const char *made = strtok_r(NULL, " ", &rest), *until = strtok_r(NULL, " ", &rest);

	if (until == NULL || strtok_r(NULL, " ", &rest) != NULL || strlen(hex) != 2 * TOKEN_KEY_SIZE)
		return false;
	for (size_t i = 0; i < TOKEN_KEY_SIZE; i++) {
		int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		key->bytes[i] = (unsigned char)(high << 4 | low);
	}
	token_name_key(key);
	return strcmp(kid, key->kid) == 0 && read_time(made, &key->made_us) &&
		read_time(until, &key->until_us);
}

static bool read_lines(char *text, struct token_keys *keys)
{
	char *rest, *line;

	keys->count = 0;
	for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
		if (keys->count == TOKEN_KEYS_MAX || !read_line(line, &keys->list[keys->count++]))
			return false;
	return keys->count > 0 && keys->list[0].until_us == 0;
}

/* The key of an older version, or a new key where there was none. -1: the old key cannot be used. */
static int first_key(const char *old, struct token_keys *keys, char *why, size_t why_size)
{
	char bytes[TOKEN_KEY_SIZE + 1];
	ssize_t n = read_whole(old, bytes, sizeof bytes, why, why_size);

	if (n < 0)
		return -1;
	keys->count = 1;
	keys->list[0] = new_key(clock_wall_us());
	if (n == 0)
		return 0;
	if (n != TOKEN_KEY_SIZE) {
		snprintf(why, why_size,
			"%s is not a key of %d bytes; remove it to have a new one made (tokens given out "
			"before are then void)",
			old, TOKEN_KEY_SIZE);
		return -1;
	}
	keys->list[0] = (struct token_key){.made_us = 0};
	memcpy(keys->list[0].bytes, bytes, TOKEN_KEY_SIZE);
	token_name_key(&keys->list[0]);
	OPENSSL_cleanse(bytes, sizeof bytes);
	return 0;
}

int token_load_keys(const char *dir, struct token_keys *keys, char *why, size_t why_size)
{
	char path[PATH_SIZE], old[PATH_SIZE], text[(TOKEN_KEYS_MAX + 1) * LINE_MAX_SIZE];
	ssize_t n;

	memset(keys, 0, sizeof *keys);
	snprintf(path, sizeof path, "%s/token.keys", dir);
	snprintf(old, sizeof old, "%s/token.key", dir);
	if ((n = read_whole(path, text, sizeof text - 1, why, why_size)) < 0)
		return -1;
	if (n == 0) {
		if (first_key(old, keys, why, why_size) < 0 || save(dir, keys, why, why_size) < 0)
			return -1;
	} else {
		text[n] = '\0';
		if (strlen(text) != (size_t)n || !read_lines(text, keys)) {
			snprintf(why, why_size,
				"%s is damaged; put a copy of it back, or remove it to have a new one made "
				"(tokens given out before are then void)",
				path);
			return -1;
		}
		OPENSSL_cleanse(text, sizeof text);
	}
	CRASH_POINT(key_taken_over);
	if (unlink(old) < 0 && errno != ENOENT) /* remove the old file: a secret is kept in one place only */
		log_warn(
			"the key file of an older version is no longer needed and cannot be removed: path=%s "
			"error=%s",
			old, strerror(errno));
	return 0;
}

int token_rotate(const char *dir, struct token_keys *keys, int64_t now_us, int64_t until_us,
	token_needs_fn *needs, void *ctx, char *why, size_t why_size)
{
	struct token_keys next = {.count = 1};
	int64_t first_us = INT64_MAX; /* when the first of the keys should be free again */

	next.list[0] = new_key(now_us);
	for (size_t i = 0; i < keys->count; i++) {
		struct token_key key = keys->list[i];

		if (i == 0)
			key.until_us = (until_us + 999) / 1000 * 1000;
		if (!needs(ctx, &key))
			continue;
		first_us = key.until_us < first_us ? key.until_us : first_us;
		if (next.count == TOKEN_KEYS_MAX) {
			char until[CLOCK_TEXT_SIZE];

			clock_format(first_us > now_us ? first_us : now_us, until);
			snprintf(why, why_size,
				"all %d keys have signed tokens of sessions that go on; one is free when its "
				"sessions have ended, the first by about %s",
				TOKEN_KEYS_MAX, until);
			return -1;
		}
		next.list[next.count++] = key;
	}
	if (save(dir, &next, why, why_size) < 0)
		return -1;
	*keys = next;
	return 0;
}
