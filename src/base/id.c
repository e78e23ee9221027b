/* SPDX-License-Identifier: MIT */
/* id.c: UUIDs and random bytes, from the kernel's generator.
 * Owns a small pool of random bytes per thread, since an id a message would else be a system call a message.
 * Both makers are weak, so that a test can bring its own.
 * Never gives out a byte of the pool twice: they are wiped as they are used, and a fork empties it. */
#include "base/id.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uuid/uuid.h>

#include "base/log.h"

#define POOL_SIZE 1024 /* 64 ids a call */

static _Thread_local unsigned char pool[POOL_SIZE];
static _Thread_local size_t pool_left;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* The child has only the thread that forked, and this runs in it. */
static void forget_pool(void)
{
	explicit_bzero(pool, sizeof(pool));
	pool_left = 0;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forget_pool);
}

__attribute__((weak)) void id_random(void *out, size_t size)
{
	unsigned char *to = out;

	while (size > 0) {
		ssize_t got = getrandom(to, size, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) { /* no randomness, no keys: going on would be worse than ending */
			log_error("getrandom fails, giving up error=%s", strerror(errno));
			abort();
		}
		to += got;
		size -= (size_t)got;
	}
}

__attribute__((weak)) void id_make(char out[ID_SIZE])
{
	unsigned char *mine;

	if (pool_left < sizeof(uuid_t)) {
		pthread_once(&fork_once, watch_forks);
		id_random(pool, sizeof(pool));
		pool_left = sizeof(pool);
	}
	pool_left -= sizeof(uuid_t);
	mine = pool + pool_left;
	mine[6] = (unsigned char)((mine[6] & 0x0f) | 0x40); /* version 4 */
	mine[8] = (unsigned char)((mine[8] & 0x3f) | 0x80); /* the variant of RFC 4122 */
	uuid_unparse_lower(mine, out);
	explicit_bzero(mine, sizeof(uuid_t));
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool id_is_uuid4(const char *text)
{
	/* Stops at the first character that does not belong: text may be as long as a message. */
	for (size_t i = 0; i < ID_SIZE - 1; i++)
		if (i == 8 || i == 13 || i == 18 || i == 23 ? text[i] != '-' : !is_hex(text[i]))
			return false;
	return text[ID_SIZE - 1] == '\0' && text[14] == '4' && strchr("89abAB", text[19]) != NULL;
}
