/* SPDX-License-Identifier: MIT */
/* log_sink.c: lines on their way to stderr.
 * Owns the backlog, the count of lost lines, and how stderr is written to without waiting.
 * Never looks into a line, never sets a flag on stderr: other programs may share it. */
#include "base/log_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES 4096 /* PIPE_BUF: pieces do not mix with what others write into the same pipe */

enum way {
	WAY_UNKNOWN,
	WAY_FILE,   /* the disk takes it */
	WAY_SOCKET, /* each call says that it does not wait */
	WAY_OWN,    /* a pipe or terminal, opened once more: `own_fd` does not wait, stderr stays as it is */
	WAY_POLL    /* none of these: written when poll(2) says that there is room */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	enum way way;
	int own_fd;
	dev_t device; /* of what stderr was when this was found out */
	ino_t inode;
} sink = {.own_fd = -1};
static char backlog[LOG_BACKLOG_BYTES];
static size_t first, behind; /* what waits is backlog[first] up to backlog[behind] */
static unsigned lost_lines;
static atomic_bool is_behind;

static void find_way(void)
{
	struct stat st;

	if (fstat(STDERR_FILENO, &st) < 0)
		return; /* write says what is wrong */
	if (sink.way != WAY_UNKNOWN && st.st_dev == sink.device && st.st_ino == sink.inode)
		return;
	if (sink.own_fd >= 0)
		close(sink.own_fd);
	sink.own_fd = -1;
	sink.device = st.st_dev;
	sink.inode = st.st_ino;
	sink.way = S_ISREG(st.st_mode) ? WAY_FILE : S_ISSOCK(st.st_mode) ? WAY_SOCKET : WAY_POLL;
	if (sink.way == WAY_POLL)
		sink.own_fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (sink.own_fd >= 0)
		sink.way = WAY_OWN;
}

static ssize_t write_now(const char *data, size_t size)
{
	struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};

	switch (sink.way) {
	case WAY_SOCKET: return send(STDERR_FILENO, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
	case WAY_OWN: return write(sink.own_fd, data, size);
	case WAY_POLL:
		if (poll(&room, 1, 0) == 0) {
			errno = EAGAIN;
			return -1;
		}
		break;
	case WAY_UNKNOWN:
	case WAY_FILE: break;
	}
	return write(STDERR_FILENO, data, size);
}

/* How much was taken; 0: there is no room now; -1: stderr takes nothing any more. */
static ssize_t write_some(const char *data, size_t size)
{
	ssize_t n;

	do
		n = write_now(data, size);
	while (n < 0 && errno == EINTR);
	return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : n;
}

static void lose_backlog(void)
{
	for (size_t i = first; i < behind; i++)
		lost_lines += backlog[i] == '\n';
	first = behind = 0;
}

/* As many whole lines as fit into a piece; a longer line, or the rest of one, as it is. */
static size_t next_piece(void)
{
	size_t size = behind - first;
	const char *end;

	if (size <= PIECE_BYTES)
		return size;
	end = memrchr(backlog + first, '\n', PIECE_BYTES);
	return end != NULL ? (size_t)(end - (backlog + first)) + 1 : PIECE_BYTES;
}

static void flush_backlog(void)
{
	ssize_t n = 1;

	while (first < behind && n > 0) {
		n = write_some(backlog + first, next_piece());
		if (n > 0)
			first += (size_t)n;
		else if (n < 0)
			lose_backlog();
	}
	if (first == behind)
		first = behind = 0;
}

static bool has_room(size_t size)
{
	return behind - first + size <= sizeof backlog;
}

static void keep(const char *line, size_t size)
{
	if (behind + size > sizeof backlog) {
		memmove(backlog, backlog + first, behind - first);
		behind -= first;
		first = 0;
	}
	memcpy(backlog + behind, line, size);
	behind += size;
}

/* Writes what waits, as far as stderr takes it. */
static void write_waiting(void)
{
	find_way();
	flush_backlog();
}

unsigned log_sink_begin(bool hold)
{
	pthread_mutex_lock(&lock);
	if (!hold)
		write_waiting();
	return has_room(LOG_LINE_MAX) ? lost_lines : 0;
}

static void put_line(const char *line, size_t size, unsigned lost)
{
	ssize_t n = 0;

	if (first == behind)
		n = write_some(line, size);
	if (n < 0 || !has_room(size - (size_t)n)) {
		lost_lines++;
	} else {
		keep(line + n, size - (size_t)n);
		lost_lines -= lost;
	}
}

void log_sink_end(const char *line, size_t size, unsigned lost, bool hold)
{
	if (hold && behind - first + size <= LOG_HELD_BYTES) {
		keep(line, size);
		lost_lines -= lost;
	} else {
		if (hold)
			write_waiting();
		if (size > 0)
			put_line(line, size, lost);
		atomic_store(&is_behind, first < behind);
	}
	pthread_mutex_unlock(&lock);
}

bool log_sink_is_behind(void)
{
	return atomic_load_explicit(&is_behind, memory_order_relaxed);
}

bool log_sink_wait(int timeout_ms)
{
	struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};

	return poll(&room, 1, timeout_ms) > 0;
}
