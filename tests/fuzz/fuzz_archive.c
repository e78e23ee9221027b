/* SPDX-License-Identifier: MIT */
/* fuzz_archive.c: a day's file of the archive, as whoever may write to it makes it. Input: 'r' and the file;
 * or 'w', how many bytes are changed, where and how (three bytes each), and the text of an entry that is
 * packed here, not by store/archive.c. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <zstd.h>

#include "store/archive.h"
#include "fuzz.h"

#define ID "0d2b6a0e-7c1f-4b4e-9a51-3f2f6d1c9b10"
#define HEADER 100
#define CHANGES_MAX 8
#define TEXT_MAX 4096

static struct archive_reader *open_bytes(const void *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	MUST(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	return archive_open(fd, -1);
}

static bool count(void *ctx, const char *data, size_t size)
{
	int64_t *given = ctx;

	MUST(data != NULL && size > 0 && size <= 1 << 20);
	*given += (int64_t)size;
	return true;
}

/* How many entries are good. */
static int go_through(struct archive_reader *r, size_t size)
{
	char why[ARCHIVE_WHY_SIZE] = "";
	struct archive_entry e;
	int64_t end = 0, given;
	int rc, good = 0;

	while ((rc = archive_next(r, &e, why)) > 0) {
		MUST(e.at == end && e.frame_at == e.at + HEADER && e.frame_size > 0 && e.text_size >= 0);
		end = e.frame_at + e.frame_size;
		MUST(end <= (int64_t)size && strlen(e.session_id) < ID_SIZE);
		given = 0;
		rc = archive_read(r, &e, count, &given, why);
		MUST(given <= e.text_size && (rc < 0 || given == e.text_size));
		if (archive_verify(r, &e, why) == 0) {
			MUST(rc == 0);
			good++;
		}
	}
	MUST(rc < 0 ? why[0] != '\0' : end == (int64_t)size);
	return good;
}

static void put(unsigned char *to, uint64_t n, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (unsigned char)(n >> 8 * i);
}

static size_t pack(unsigned char *out, size_t room, const char *text, size_t size)
{
	static const char first[] = "{\"archive\":1,\"session_id\":\"" ID "\"}\n";
	char whole[sizeof first + TEXT_MAX + 1];
	size_t length = sizeof first - 1, frame;

	memcpy(whole, first, length);
	memcpy(whole + length, text, size);
	length += size;
	whole[length++] = '\n';
	frame = ZSTD_compress(out + HEADER, room - HEADER, whole, length, 1);
	MUST(!ZSTD_isError(frame));
	put(out, 0x184D2A5C, 4);
	put(out + 4, HEADER - 8, 4);
	memcpy(out + 8, "HCPA\1\0\0\0", 8);
	put(out + 16, frame, 8);
	put(out + 24, length, 8);
	memcpy(out + 32, ID, 36);
	EVP_Digest(out + HEADER, frame, out + 68, NULL, EVP_sha256(), NULL);
	return HEADER + frame;
}

/* Whatever is changed in an entry that was good: it is good no more. */
static void change(struct feed *f)
{
	unsigned char out[HEADER + TEXT_MAX * 2 + 1024], was[sizeof out];
	uint8_t changes[CHANGES_MAX][3];
	int n = feed_byte(f) % (CHANGES_MAX + 1);
	struct archive_reader *r;
	size_t size;

	for (int i = 0; i < n; i++)
		for (int k = 0; k < 3; k++)
			changes[i][k] = feed_byte(f);
	size = pack(out, sizeof out, f->at, f->left < TEXT_MAX ? f->left : TEXT_MAX);
	memcpy(was, out, size);
	for (int i = 0; i < n; i++)
		out[(size_t)(changes[i][0] << 8 | changes[i][1]) % size] ^= changes[i][2];
	r = open_bytes(out, size);
	MUST((go_through(r, size) == 1) == (memcmp(out, was, size) == 0));
	archive_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {(const char *)data, size};
	struct archive_reader *r;
	uint8_t kind = feed_byte(&f);

	if (kind == 'w') {
		change(&f);
	} else {
		r = open_bytes(f.left > 0 ? f.at : "", f.left);
		go_through(r, f.left);
		archive_free(r);
	}
	return 0;
}
