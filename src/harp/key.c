/* SPDX-License-Identifier: MIT */
/* key.c: an operator's private key as a file: PKCS#8 in PEM, mode 0600, encrypted where there is a
 * passphrase. Owns all I/O of harp/. Never overwrites a key, never asks on the terminal. */
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
#include <openssl/pkcs12.h>

#define PATH_SIZE 4096
#define FILE_MAX 4096 /* bytes; a key has 119, an encrypted one some 420 */
/* scrypt as `openssl pkcs8 -topk8 -scrypt` has it: 16 MiB and some 50 ms for each guess. Above 32 MiB
 * libcrypto refuses to read the file back. */
#define SCRYPT_N 16384
#define SCRYPT_R 8
#define SCRYPT_P 1

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

static bool write_encrypted(BIO *bio, const EVP_PKEY *pkey, const char *passphrase)
{
	X509_ALGOR *pbe =
		PKCS5_pbe2_set_scrypt(EVP_aes_256_cbc(), NULL, 0, NULL, SCRYPT_N, SCRYPT_R, SCRYPT_P);
	PKCS8_PRIV_KEY_INFO *plain = EVP_PKEY2PKCS8(pkey);
	X509_SIG *sealed = pbe != NULL && plain != NULL ?
		PKCS8_set0_pbe(passphrase, (int)strlen(passphrase), plain, pbe) :
		NULL;
	bool is_written = sealed != NULL && PEM_write_bio_PKCS8(bio, sealed);

	if (sealed == NULL)
		X509_ALGOR_free(pbe); /* else it belongs to sealed */
	X509_SIG_free(sealed);
	PKCS8_PRIV_KEY_INFO_free(plain);
	return is_written;
}

static bool write_key(BIO *bio, const EVP_PKEY *pkey, const char *passphrase)
{
	return passphrase != NULL ? write_encrypted(bio, pkey, passphrase) :
				    PEM_write_bio_PKCS8PrivateKey(bio, pkey, NULL, NULL, 0, NULL, NULL) == 1;
}

int harp_key_make(const char *path, char line[HARP_PUBLIC_SIZE], char *why, size_t why_size)
{
	return harp_key_make_sealed(path, NULL, line, why, why_size);
}

int harp_key_make_sealed(
	const char *path, const char *passphrase, char line[HARP_PUBLIC_SIZE], char *why, size_t why_size)
{
	struct harp_private key = {EVP_PKEY_Q_keygen(NULL, NULL, "ED25519")};
	BIO *bio = BIO_new(BIO_s_secmem());
	char *pem = NULL;
	int rc = -1;
	long size;

	if (strlen(path) >= PATH_SIZE) {
		snprintf(why, why_size, "the path is too long");
	} else if (key.pkey == NULL || bio == NULL || !write_key(bio, key.pkey, passphrase) ||
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

struct asking {
	harp_passphrase_fn *ask; /* NULL: nobody to ask */
	const void *ctx;
	bool is_asked, is_given;
	char text[HARP_PASSPHRASE_SIZE];
};

/* Replaces libcrypto's own prompt, which would ask on the terminal. libcrypto may call it more than once for
 * one file; a human is asked once. */
static int on_passphrase(char *buf, int size, int writing, void *ctx)
{
	struct asking *a = ctx;
	int length;

	(void)writing;
	if (!a->is_asked)
		a->is_given = a->ask != NULL && a->ask(a->ctx, a->text);
	a->is_asked = true;
	length = (int)strlen(a->text);
	if (!a->is_given || length > size)
		return -1;
	memcpy(buf, a->text, (size_t)length);
	return length;
}

static EVP_PKEY *parse_pem(const char *data, size_t size, struct asking *a)
{
	BIO *bio = BIO_new_mem_buf(data, (int)size);
	EVP_PKEY *pkey = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, on_passphrase, a) : NULL;

	BIO_free(bio);
	ERR_clear_error();
	if (pkey != NULL && EVP_PKEY_get_base_id(pkey) != EVP_PKEY_ED25519) {
		EVP_PKEY_free(pkey);
		return NULL;
	}
	return pkey;
}

static void explain(const struct asking *a, const char *path, char *why, size_t why_size)
{
	if (!a->is_asked || a->ask == NULL)
		snprintf(why, why_size,
			"%s is no Ed25519 key in PEM without a password, as `hcpctl keygen` makes it", path);
	else if (!a->is_given)
		snprintf(why, why_size, "%s is encrypted, and there is no passphrase for it", path);
	else
		snprintf(why, why_size, "%s does not open with this passphrase, or is no Ed25519 key", path);
}

struct harp_private *harp_key_load(const char *path, char *why, size_t why_size)
{
	return harp_key_unseal(path, NULL, NULL, why, why_size);
}

struct harp_private *harp_key_unseal(
	const char *path, harp_passphrase_fn *ask, const void *ctx, char *why, size_t why_size)
{
	struct asking a = {.ask = ask, .ctx = ctx};
	struct harp_private *key = NULL;
	char data[FILE_MAX];
	ssize_t n = read_file(path, data, why, why_size);
	EVP_PKEY *pkey;

	if (n < 0)
		return NULL;
	pkey = parse_pem(data, (size_t)n, &a);
	OPENSSL_cleanse(data, sizeof data);
	OPENSSL_cleanse(a.text, sizeof a.text);
	if (pkey == NULL) {
		explain(&a, path, why, why_size);
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
