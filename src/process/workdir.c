/* SPDX-License-Identifier: MIT */
/* workdir.c: the working directories of sessions: state_dir/work/SESSION.
 * Owns everything below work/. A worker may put anything there, also symbolic links in place of our names:
 * no path is followed below work/, each step is relative to an open directory. Never starts or signals a
 * process.
 *
 * Making and deleting a directory or a file is the most expensive part of a small session (an inode and a
 * block each time), so a few directories that are as new are kept under names of their own, and given to new
 * sessions: empty ones, and ones with an empty file for the task. */
#include "process/workdir.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crashpoint.h"
#include "base/id.h"
#include "base/log.h"

#define TRASH ".trash" /* no UUID, like ... */
#define SPARE ".spare" /* ... these, with a number behind */
#define SPARE_WITH_TASK SPARE "-task"
#define SPARES_MAX 64 /* of each kind */
#define TASK "task.json"
#define TASK_NEW ".task.json.new"
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* A sweep goes through the trash again and again, a slice at a time, until a whole pass changed nothing:
 * what is left then cannot be deleted. */
static struct {
	long at;         /* where the next slice begins; 0: at the beginning */
	bool changed;    /* something was deleted or added during this pass */
	int left, error; /* how many were not deleted in this pass, and why the last was not */
} sweeping;

/* Kept directories of one kind. A missing one only costs a mkdir. Offered ones still have the names of their
 * ended sessions, so that one rename is enough where another session begins at once. */
struct spares {
	const char *name;
	unsigned count; /* their numbers are below this */
	unsigned offered_count;
	char offered[WORKDIR_OFFERS][ID_SIZE];
};

static struct spares empty_spares = {.name = SPARE}, task_spares = {.name = SPARE_WITH_TASK};

/* work/ stays open: opening it for each step costs more than most steps. */
static struct {
	char *state_dir; /* NULL: not open */
	int fd;
	dev_t dev;
	ino_t ino;
	uid_t uid; /* what we make belongs to these */
	gid_t gid;
} work_dir = {.fd = -1};

static bool is_dots(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static int close_keep(int fd)
{
	int error = errno;

	close(fd);
	errno = error;
	return -1;
}

/* A directory that forbids its owner to change it: chmod, but never through a link. */
static void dir_permit(int at, const char *name)
{
	int fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char path[40];

	if (fd < 0)
		return;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	(void)!chmod(path, 0700);
	close(fd);
}

/* Makes the directory unless it is there, mode 0700 whatever the umask; opens it. */
static int dir_make(int at, const char *name)
{
	bool made = mkdirat(at, name, 0700) == 0;
	struct stat st;
	int fd;

	if (!made && errno != EEXIST)
		return -1;
	fd = openat(at, name, OPEN_DIR);
	if (fd < 0 && errno == EACCES) {
		dir_permit(at, name);
		fd = openat(at, name, OPEN_DIR);
	}
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0 || ((st.st_mode & 07777) != 0700 && fchmod(fd, 0700) < 0))
		return close_keep(fd);
	return fd;
}

static int work_open(const char *state_dir, bool make)
{
	char path[4096];
	int state, fd;

	if ((size_t)snprintf(path, sizeof path, "%s/work", state_dir) >= sizeof path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(path, OPEN_DIR);
	if (fd >= 0 || !make)
		return fd;
	if ((state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return -1;
	fd = dir_make(state, "work");
	close_keep(state);
	return fd;
}

static void work_forget(void)
{
	free(work_dir.state_dir);
	work_dir.state_dir = NULL;
	if (work_dir.fd >= 0)
		close_keep(work_dir.fd);
	work_dir.fd = -1;
}

/* Has nobody put another directory in its place, by mv or a mount? */
static bool is_in_place(const char *state_dir)
{
	struct stat st;
	char path[4096];

	return (size_t)snprintf(path, sizeof path, "%s/work", state_dir) < sizeof path &&
		fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == work_dir.dev &&
		st.st_ino == work_dir.ino;
}

/* A loan of the descriptor that stays open. Looked at only by those who make: the path that they give out has
 * to lead there. -1 with errno. */
static int work_borrow(const char *state_dir, bool make)
{
	struct stat st;

	if (work_dir.state_dir != NULL && strcmp(work_dir.state_dir, state_dir) == 0 &&
		(!make || is_in_place(state_dir)))
		return work_dir.fd;
	work_forget();
	work_dir.fd = work_open(state_dir, make);
	if (work_dir.fd < 0)
		return -1;
	if (fstat(work_dir.fd, &st) < 0) {
		work_dir.fd = close_keep(work_dir.fd);
		return -1;
	}
	work_dir.dev = st.st_dev;
	work_dir.ino = st.st_ino;
	work_dir.state_dir = xstrdup(state_dir);
	work_dir.uid = geteuid();
	work_dir.gid = getegid();
	return work_dir.fd;
}

static int write_all(int fd, const char *data, size_t size)
{
	while (size) {
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

/* The file is made under another name and renamed: whatever has either name, perhaps a link to our store, is
 * replaced and never written through. */
static int task_write(int dir, const void *task, size_t size)
{
	int fd;

	if (unlinkat(dir, TASK_NEW, 0) < 0 && errno != ENOENT)
		return -1;
	fd = openat(dir, TASK_NEW, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	if (write_all(fd, task, size) < 0) {
		close_keep(fd);
		goto fail;
	}
	CRASH_POINT(workdir_task_anew);
	if (close(fd) < 0 || renameat(dir, TASK_NEW, dir, TASK) < 0)
		goto fail;
	return 0;
fail:
	fd = errno;
	unlinkat(dir, TASK_NEW, 0);
	errno = fd;
	return -1;
}

/* For a directory that is new, and no other process has seen; with or without an empty file for the task. */
static int task_write_first(
	int work, const char *session_id, const void *task, size_t task_size, bool has_file)
{
	int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (has_file ? 0 : O_EXCL), fd, r;
	char name[ID_SIZE + sizeof TASK];

	snprintf(name, sizeof name, "%s/" TASK, session_id);
	fd = openat(work, name, flags, 0600);
	if (fd < 0)
		return -1;
	CRASH_POINT(workdir_task_open);
	r = write_all(fd, task, task_size);
	CRASH_POINT(workdir_task_written);
	return close(fd) < 0 ? -1 : r;
}

static int task_write_again(int work, const char *session_id, const void *task, size_t size)
{
	int dir = dir_make(work, session_id), r;

	if (dir < 0)
		return -1;
	r = task ? task_write(dir, task, size) : 0;
	close_keep(dir);
	return r;
}

static void spare_name(char name[32], const struct spares *of, unsigned number)
{
	snprintf(name, 32, "%s%u", of->name, number);
}

/* False: there is none, or the session has its directory already. */
static bool spare_take(struct spares *from, int work, const char *session_id)
{
	unsigned *left = from->offered_count > 0 ? &from->offered_count : &from->count;
	char number[32];
	const char *name = number;

	if (*left == 0)
		return false;
	--*left;
	if (left == &from->offered_count)
		name = from->offered[*left];
	else
		spare_name(number, from, *left);
	if (renameat2(work, name, work, session_id, RENAME_NOREPLACE) == 0)
		return true;
	*left += errno == EEXIST;
	return false;
}

static bool spare_keep(struct spares *in, int work, const char *session_id)
{
	char name[32];

	if (in->count == SPARES_MAX)
		return false;
	spare_name(name, in, in->count);
	if (renameat2(work, session_id, work, name, RENAME_NOREPLACE) < 0)
		return false;
	in->count++;
	return true;
}

/* What a directory holds, in as far as that matters for keeping it. */
enum content { CONTENT_OTHER, CONTENT_NONE, CONTENT_TASK };

static enum content content_read(int dir)
{
	struct dirent64 entries[2]; /* room for many: "." and ".." and the task take 80 bytes */
	enum content content = CONTENT_NONE;
	ssize_t size;

	while ((size = getdents64(dir, entries, sizeof entries)) > 0) {
		const char *at = (const char *)entries, *end = at + size;

		for (; at < end; at += ((const struct dirent64 *)at)->d_reclen) {
			const struct dirent64 *e = (const struct dirent64 *)at;

			if (is_dots(e->d_name))
				continue;
			if (content == CONTENT_TASK || e->d_type != DT_REG || strcmp(e->d_name, TASK) != 0)
				return CONTENT_OTHER;
			content = CONTENT_TASK;
		}
	}
	return size == 0 ? content : CONTENT_OTHER;
}

/* As we make them: ours, closed to others, not grown by earlier entries, and with nothing else in it. */
static enum content dir_look(int dir)
{
	struct stat st;

	if (fstat(dir, &st) < 0 || st.st_uid != work_dir.uid || st.st_gid != work_dir.gid ||
		(st.st_mode & 07777) != 0700 || st.st_size > 4096)
		return CONTENT_OTHER;
	return content_read(dir);
}

/* Does nobody else have the file open? A worker may have handed a descriptor to a process that lives on, and
 * this one would see the next session's task. The kernel grants a lease on a file that is open once. The
 * lease goes with the descriptor; were somebody to open the file before that, we would get a signal that does
 * nothing. */
static bool is_open_once(int fd)
{
	return fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
}

/* Empties the file of the task, so that it serves the next one. False: it is not as we make it. */
static bool task_blank(int dir)
{
	int fd = openat(dir, TASK, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	bool good;

	if (fd < 0)
		return false;
	good = fstat(fd, &st) == 0 && st.st_mode == (S_IFREG | 0600) && st.st_nlink == 1 &&
		st.st_uid == work_dir.uid && st.st_gid == work_dir.gid && is_open_once(fd) &&
		ftruncate(fd, 0) == 0;
	close(fd);
	return good;
}

/* A directory for a session that has none yet. *has_file: with an empty file for the task. */
static bool dir_begin(int work, const char *session_id, bool has_task, bool *has_file)
{
	*has_file = has_task && spare_take(&task_spares, work, session_id);
	return *has_file || spare_take(&empty_spares, work, session_id) ||
		(mkdirat(work, session_id, 0700) == 0 && fchmodat(work, session_id, 0700, 0) == 0);
}

static int make_once(const char *state_dir, const char *session_id, const void *task, size_t task_size)
{
	int work = work_borrow(state_dir, true);
	bool has_file;

	if (work < 0)
		return -1;
	if (!dir_begin(work, session_id, task != NULL, &has_file))
		return task_write_again(work, session_id, task, task_size);
	return task ? task_write_first(work, session_id, task, task_size, has_file) : 0;
}

int workdir_make(const char *state_dir, const char *session_id, const void *task, size_t task_size,
	char *path, size_t path_size)
{
	bool again = true;
	int r;

	assert(id_is_uuid4(session_id));
	r = snprintf(path, path_size, "%s/work/%s", state_dir, session_id);
	if (r < 0 || (size_t)r >= path_size) {
		errno = ENAMETOOLONG;
		return -1;
	}
	/* A network or user-space file system may be interrupted in any call: that must not end a session. */
	while ((r = make_once(state_dir, session_id, task, task_size)) < 0) {
		if (errno == ENOENT && again) { /* somebody deleted work/, of which the descriptor is left */
			work_forget();
			again = false;
		} else if (errno != EINTR) {
			break;
		}
	}
	return r;
}

/* Moves it into the trash, under a new name. */
static int trash_put(int at, const char *name, int trash)
{
	char id[ID_SIZE];

	id_make(id);
	if (renameat(at, name, trash, id) < 0) {
		if (errno != EACCES)
			return -1;
		dir_permit(at, name); /* a directory's new parent is written into the directory */
		if (renameat(at, name, trash, id) < 0)
			return -1;
	}
	sweeping.changed = true;
	return 0;
}

/* Where the directory is as new, and there is room for it: the spares that it may join. Of its task nothing
 * is left then. */
static struct spares *dir_find_place(int dir)
{
	switch (dir_look(dir)) {
	case CONTENT_NONE: return &empty_spares;
	case CONTENT_TASK:
		if (task_spares.count < SPARES_MAX && task_blank(dir))
			return &task_spares;
		return unlinkat(dir, TASK, 0) == 0 ? &empty_spares : NULL;
	default: return NULL;
	}
}

bool workdir_offer(const char *state_dir, const char *session_id)
{
	int work = work_borrow(state_dir, false), dir;
	struct spares *place;

	assert(id_is_uuid4(session_id));
	if (work < 0 || (dir = openat(work, session_id, OPEN_DIR)) < 0)
		return false;
	place = dir_find_place(dir);
	close(dir);
	if (place == NULL || place->offered_count == WORKDIR_OFFERS)
		return false;
	snprintf(place->offered[place->offered_count++], ID_SIZE, "%s", session_id);
	return true;
}

static bool offers_end(struct spares *of, const char *state_dir)
{
	bool has_trash = false;

	while (of->offered_count > 0) {
		const char *id = of->offered[--of->offered_count];
		int work = work_borrow(state_dir, false);

		if (work >= 0 && !spare_keep(of, work, id))
			has_trash |= workdir_remove(state_dir, id);
	}
	return has_trash;
}

bool workdir_end_offers(const char *state_dir)
{
	bool has_trash = offers_end(&empty_spares, state_dir);

	return offers_end(&task_spares, state_dir) || has_trash;
}

/* Most directories are empty except for the task. */
static bool remove_empty(int work, const char *session_id)
{
	int dir = openat(work, session_id, OPEN_DIR);
	struct spares *place;
	bool kept;

	if (dir < 0)
		return errno == ENOENT;
	place = dir_find_place(dir);
	CRASH_POINT(workdir_half_removed);
	kept = place != NULL && spare_keep(place, work, session_id);
	if (!kept)
		unlinkat(dir, TASK, 0);
	close(dir);
	return kept || unlinkat(work, session_id, AT_REMOVEDIR) == 0;
}

bool workdir_remove(const char *state_dir, const char *session_id)
{
	int work, trash;

	assert(id_is_uuid4(session_id));
	work = work_borrow(state_dir, false);
	if (work < 0 || remove_empty(work, session_id))
		return false;
	CRASH_POINT(workdir_to_trash);
	trash = dir_make(work, TRASH);
	if (trash < 0 || (trash_put(work, session_id, trash) < 0 && errno != ENOENT))
		log_warn("cannot remove a working directory, leaving it session=%.8s error=%s", session_id,
			strerror(errno));
	if (trash >= 0)
		close(trash);
	return true;
}

int workdir_collect(const char *state_dir, bool (*is_known)(void *ctx, const char *name), void *ctx)
{
	int work = work_open(state_dir, false), trash = work >= 0 ? dir_make(work, TRASH) : -1, count = 0;
	DIR *d = trash >= 0 ? fdopendir(work) : NULL;
	struct dirent *e;

	while (d && (e = readdir(d)) != NULL) {
		bool is_spare = strncmp(e->d_name, SPARE, sizeof SPARE - 1) == 0;

		if (!is_spare && (!id_is_uuid4(e->d_name) || is_known(ctx, e->d_name)))
			continue;
		if (trash_put(work, e->d_name, trash) == 0)
			count++;
		else
			log_warn("cannot remove a working directory, leaving it session=%.8s error=%s",
				e->d_name, strerror(errno));
	}
	empty_spares.count = empty_spares.offered_count = 0;
	task_spares.count = task_spares.offered_count = 0;
	if (d)
		closedir(d);
	else if (work >= 0)
		close(work);
	if (trash >= 0)
		close(trash);
	return count;
}

/* Deletes an entry, unless it is a directory that is not empty. */
static bool delete_at(int at, const char *name)
{
	if (unlinkat(at, name, 0) < 0 && unlinkat(at, name, AT_REMOVEDIR) < 0)
		return false;
	sweeping.changed = true;
	return true;
}

/* Empties a directory of the trash. Directories in it are moved up into the trash, so that depth costs
 * neither stack nor descriptors. */
static void trash_empty(int trash, const char *name, int *entries)
{
	struct dirent *e;
	DIR *d;
	int fd;

	dir_permit(trash, name);
	fd = openat(trash, name, OPEN_DIR);
	d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d) {
		if (fd >= 0)
			close_keep(fd);
		return;
	}
	while (*entries > 0 && (e = readdir(d)) != NULL) {
		if (is_dots(e->d_name))
			continue;
		if (!delete_at(fd, e->d_name))
			(void)trash_put(fd, e->d_name, trash);
		--*entries;
	}
	closedir(d);
}

static bool trash_delete(int trash, const char *name, int *entries)
{
	if (delete_at(trash, name))
		return true;
	trash_empty(trash, name, entries);
	CRASH_POINT(workdir_emptied);
	return delete_at(trash, name);
}

/* One slice. True: the end was reached. */
static bool trash_sweep(DIR *d, int entries)
{
	struct dirent *e;

	if (sweeping.at)
		seekdir(d, sweeping.at);
	for (; (e = readdir(d)) != NULL; entries--) {
		if (entries <= 0)
			return false;
		if (!is_dots(e->d_name) && !trash_delete(dirfd(d), e->d_name, &entries)) {
			sweeping.left++; /* the next pass comes to it again, if there is one */
			sweeping.error = errno;
		}
		sweeping.at = telldir(d);
	}
	return true;
}

bool workdir_sweep(const char *state_dir, int entries)
{
	int work = work_open(state_dir, false), trash;
	bool more = true;
	DIR *d;

	if (work < 0)
		return false;
	trash = openat(work, TRASH, OPEN_DIR);
	close(work);
	d = trash >= 0 ? fdopendir(trash) : NULL;
	if (!d) {
		if (trash >= 0)
			close(trash);
		return false;
	}
	if (trash_sweep(d, entries)) {
		more = sweeping.changed;
		if (!more && sweeping.left)
			log_warn("cannot delete old working directories, leaving them in work/" TRASH
				 " count=%d error=%s",
				sweeping.left, strerror(sweeping.error));
		memset(&sweeping, 0, sizeof sweeping);
	}
	closedir(d);
	return more;
}
