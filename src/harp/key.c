/* SPDX-License-Identifier: MIT */
/* key.c: an operator's private key as a file: PKCS#8 in PEM, mode 0600.
 * Owns all I/O of harp/. Never overwrites a key, never asks on the terminal. */
#include "harp/harp_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#define PATH_SIZE 4096
#define FILE_MAX 4096 /* bytes; a key has 119 */

/* --- making --- */

static int write_all(int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

static int close_keeping_errno(int fd, int rc)
{
	int e = errno;

	close(fd);
	errno = e;
	return rc;
}

/* Syncs the directory, so that the name is as durable as the file. */
static int sync_directory(const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_SIZE];
	int fd;

	snprintf(dir, sizeof dir, "%.*s", slash == NULL || slash == path ? 1 : (int)(slash - path),
		slash == NULL ? "." : path);
	if ((fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return -1;
	return close_keeping_errno(fd, fsync(fd));
}

/* link(2), unlike rename(2), fails where the name is taken: a key in use is never replaced. */
static int write_file(const char *path, const char *data, size_t size)
{
	char part[PATH_SIZE + 32];
	int fd, rc, e;

	snprintf(part, sizeof part, "%s.%ld.part", path, (long)getpid());
	if ((fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
		return -1;
	rc = fchmod(fd, 0600) < 0 || write_all(fd, data, size) < 0 || fsync(fd) < 0 ? -1 : 0;
	close_keeping_errno(fd, 0);
	if (rc == 0)
		rc = link(part, path);
	e = errno;
	unlink(part);
	errno = e;
	return rc == 0 ? sync_directory(path) : -1;
}

int harp_key_make(const char *path, char line[HARP_PUBLIC_SIZE], char *why, size_t why_size)
{
	struct harp_private key = {EVP_PKEY_Q_keygen(NULL, NULL, "ED25519")};
	BIO *bio = BIO_new(BIO_s_secmem());
	char *pem = NULL;
	int rc = -1;
	long size;

	if (strlen(path) >= PATH_SIZE) {
		snprintf(why, why_size, "the path is too long");
	} else if (key.pkey == NULL || bio == NULL ||
		!PEM_write_bio_PKCS8PrivateKey(bio, key.pkey, NULL, NULL, 0, NULL, NULL) ||
		(size = BIO_get_mem_data(bio, &pem)) <= 0) {
		snprintf(why, why_size, "libcrypto cannot make a key");
	} else if (write_file(path, pem, (size_t)size) < 0) {
		snprintf(why, why_size, "%s cannot be made: %s", path, strerror(errno));
	} else {
		harp_key_public(&key, line);
		rc = 0;
	}
	ERR_clear_error();
	BIO_free(bio);
	EVP_PKEY_free(key.pkey);
	return rc;
}

/* --- loading --- */

/* The bytes of the file, or -1 with the sentence. */
static ssize_t read_file(const char *path, char data[FILE_MAX], char *why, size_t why_size)
{
	/* do not block on a FIFO */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0) {
		snprintf(why, why_size, "%s cannot be read: %s", path, strerror(errno));
		return fd < 0 ? -1 : close_keeping_errno(fd, -1);
	}
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX) {
		snprintf(why, why_size, "%s is no key file", path);
		return close_keeping_errno(fd, -1);
	}
	if (st.st_mode & 077) {
		snprintf(why, why_size, "%s may be read by others; chmod 600 it", path);
		return close_keeping_errno(fd, -1);
	}
	while ((n = read(fd, data, FILE_MAX)) < 0 && errno == EINTR)
		;
	if (n < 0)
		snprintf(why, why_size, "%s cannot be read: %s", path, strerror(errno));
	close(fd);
	return n;
}

/* Replaces libcrypto's own prompt, which would ask on the terminal. */
static int no_password(char *buf, int size, int writing, void *ctx)
{
	(void)buf, (void)size, (void)writing, (void)ctx;
	return -1;
}

static EVP_PKEY *parse_pem(const char *data, size_t size)
{
	BIO *bio = BIO_new_mem_buf(data, (int)size);
	EVP_PKEY *pkey = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;

	BIO_free(bio);
	ERR_clear_error();
	if (pkey != NULL && EVP_PKEY_get_base_id(pkey) != EVP_PKEY_ED25519) {
		EVP_PKEY_free(pkey);
		return NULL;
	}
	return pkey;
}

struct harp_private *harp_key_load(const char *path, char *why, size_t why_size)
{
	struct harp_private *key = NULL;
	char data[FILE_MAX];
	ssize_t n = read_file(path, data, why, why_size);
	EVP_PKEY *pkey;

	if (n < 0)
		return NULL;
	pkey = parse_pem(data, (size_t)n);
	OPENSSL_cleanse(data, sizeof data);
	if (pkey == NULL) {
		snprintf(why, why_size,
			"%s is no Ed25519 key in PEM without a password, as `hcpctl keygen` makes it", path);
		return NULL;
	}
	key = xcalloc(1, sizeof *key);
	key->pkey = pkey;
	return key;
}

void harp_key_public(const struct harp_private *key, char line[HARP_PUBLIC_SIZE])
{
	unsigned char public_key[HARP_PUBLIC_BYTES];
	size_t size = sizeof public_key;

	if (!EVP_PKEY_get_raw_public_key(key->pkey, public_key, &size) || size != sizeof public_key)
		abort(); /* every Ed25519 key has one */
	harp_public_format(public_key, line);
}

void harp_key_free(struct harp_private *key)
{
	if (key == NULL)
		return;
	EVP_PKEY_free(key->pkey);
	free(key);
}
