/* SPDX-License-Identifier: MIT */
/* archive.c: appends entries to a day's file of the archive.
 * Owns the file while it is open, and the layout of an entry. Never decides how much of a file counts: the
 * caller passes the committed length (retain/archive.c). archive_read.c reads. */
#include "store/archive_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <zstd.h>

#include "base/buf.h"
#include "base/crashpoint.h"

#define LEVEL 3 /* fast; a window of 2 MiB */
#define OUT_SIZE (128 * 1024)

struct archive_writer {
	int fd, dir_fd;
	bool is_new; /* the file's name is not on the disk yet */
	int64_t at;  /* where the next byte goes */
	int64_t entry_at, text_size;
	char session_id[ID_SIZE];
	ZSTD_CCtx *packer;
	EVP_MD_CTX *hash; /* of the frame so far */
	char out[OUT_SIZE];
};

bool archive_is_day(const char *text)
{
	static const char form[] = "0000-00-00";

	if (strlen(text) != sizeof form - 1)
		return false;
	for (size_t i = 0; form[i] != '\0'; i++)
		if (form[i] == '-' ? text[i] != '-' : text[i] < '0' || text[i] > '9')
			return false;
	return true;
}

/* ---- the header: a frame that unpackers skip ---- */

static void put_number(unsigned char *to, uint64_t n, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (unsigned char)(n >> 8 * i);
}

static void make_header(
	unsigned char h[HEADER_SIZE], const char *session_id, int64_t frame_size, int64_t text_size)
{
	memset(h, 0, HEADER_SIZE);
	put_number(h, SKIPPABLE, 4);
	put_number(h + 4, HEADER_SIZE - 8, 4);
	memcpy(h + AT_MARK, ENTRY_MARK, 4);
	put_number(h + AT_VERSION, ENTRY_VERSION, 4);
	put_number(h + AT_FRAME_SIZE, (uint64_t)frame_size, 8);
	put_number(h + AT_TEXT_SIZE, (uint64_t)text_size, 8);
	memcpy(h + AT_SESSION, session_id, ID_SIZE - 1);
}

/* ---- the file ---- */

static int write_at(int fd, const void *data, size_t size, int64_t at)
{
	const char *from = data;

	while (size > 0) {
		ssize_t n = pwrite(fd, from, size, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n == 0 ? EIO : errno;
			return -1;
		}
		from += n;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Cuts the file to the length that counts. */
static int cut(struct archive_writer *w, const char *name, int64_t committed, char *why)
{
	struct stat st;

	if (fstat(w->fd, &st) < 0) {
		snprintf(why, ARCHIVE_WHY_SIZE, "%s: %s", name, strerror(errno));
		return -1;
	}
	if (st.st_size < committed) {
		snprintf(why, ARCHIVE_WHY_SIZE,
			"%s has %lld bytes, and the store knows of %lld: somebody took from it, put it back",
			name, (long long)st.st_size, (long long)committed);
		return -1;
	}
	CRASH_POINT(archive_before_cut);
	if (st.st_size > committed && ftruncate(w->fd, committed) < 0) {
		snprintf(why, ARCHIVE_WHY_SIZE, "%s cannot be cut: %s", name, strerror(errno));
		return -1;
	}
	return 0;
}

struct archive_writer *archive_append(int dir_fd, const char *day, int64_t committed, char *why)
{
	struct archive_writer *w = xcalloc(1, sizeof *w);
	char name[ARCHIVE_DAY_SIZE + sizeof ARCHIVE_SUFFIX];

	snprintf(name, sizeof name, "%.10s%s", day, ARCHIVE_SUFFIX);
	w->dir_fd = dir_fd;
	w->at = committed;
	w->is_new = committed == 0;
	w->fd = openat(
		dir_fd, name, O_RDWR | (w->is_new ? O_CREAT : 0) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (w->fd < 0 && errno == ENOENT)
		snprintf(why, ARCHIVE_WHY_SIZE,
			"%s is missing, and the store knows of %lld bytes in it: put it back", name,
			(long long)committed);
	else if (w->fd < 0)
		snprintf(why, ARCHIVE_WHY_SIZE, "%s: %s", name, strerror(errno));
	else if (cut(w, name, committed, why) == 0 && (w->packer = ZSTD_createCCtx()) != NULL &&
		(w->hash = EVP_MD_CTX_new()) != NULL) {
		ZSTD_CCtx_setParameter(w->packer, ZSTD_c_compressionLevel, LEVEL);
		ZSTD_CCtx_setParameter(w->packer, ZSTD_c_checksumFlag, 1);
		return w;
	}
	archive_close(w);
	return NULL;
}

void archive_close(struct archive_writer *w)
{
	if (w == NULL)
		return;
	if (w->fd >= 0)
		close(w->fd);
	ZSTD_freeCCtx(w->packer);
	EVP_MD_CTX_free(w->hash);
	free(w);
}

/* ---- an entry ---- */

int archive_begin_entry(struct archive_writer *w, const char *session_id)
{
	unsigned char header[HEADER_SIZE];

	snprintf(w->session_id, sizeof w->session_id, "%s", session_id);
	w->entry_at = w->at;
	w->text_size = 0;
	ZSTD_CCtx_reset(w->packer, ZSTD_reset_session_only);
	EVP_DigestInit_ex(w->hash, EVP_sha256(), NULL);
	make_header(header, w->session_id, 0, 0); /* room for the header, which is known only at the end */
	if (write_at(w->fd, header, sizeof header, w->at) < 0)
		return -1;
	w->at += HEADER_SIZE;
	return 0;
}

static int pack(struct archive_writer *w, const void *data, size_t size, ZSTD_EndDirective how)
{
	ZSTD_inBuffer in = {data, size, 0};
	size_t left;

	do {
		ZSTD_outBuffer out = {w->out, OUT_SIZE, 0};

		left = ZSTD_compressStream2(w->packer, &out, &in, how);
		if (ZSTD_isError(left)) {
			errno = EIO;
			return -1;
		}
		if (write_at(w->fd, w->out, out.pos, w->at) < 0)
			return -1;
		EVP_DigestUpdate(w->hash, w->out, out.pos);
		w->at += (int64_t)out.pos;
		CRASH_POINT(archive_mid_entry);
	} while (how == ZSTD_e_end ? left > 0 : in.pos < in.size);
	return 0;
}

int archive_add(struct archive_writer *w, const void *data, size_t size)
{
	w->text_size += (int64_t)size;
	return pack(w, data, size, ZSTD_e_continue);
}

int archive_end_entry(struct archive_writer *w)
{
	unsigned char header[HEADER_SIZE];

	if (pack(w, NULL, 0, ZSTD_e_end) < 0)
		return -1;
	make_header(header, w->session_id, w->at - w->entry_at - HEADER_SIZE, w->text_size);
	EVP_DigestFinal_ex(w->hash, header + AT_HASH, NULL);
	return write_at(w->fd, header, sizeof header, w->entry_at);
}

int64_t archive_sync(struct archive_writer *w)
{
	CRASH_POINT(archive_before_sync);
	if (fdatasync(w->fd) < 0 || (w->is_new && fsync(w->dir_fd) < 0))
		return -1;
	CRASH_POINT(archive_synced);
	return w->at;
}
