/* workdir.c: the working directories of sessions: state_dir/work/SESSION.
 * Owns everything below work/. A worker may put there what it likes, symbolic links in place of our names
 * too: no path is followed below work/, every step is relative to an open directory. */
#include "worker.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

#define TRASH ".trash"                  /* no UUID */
#define TASK "task.json"
#define TASK_NEW ".task.json.new"
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

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

/* Makes it, mode 0700 whatever the umask, unless there; opens it. */
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

/* Made aside and renamed: what stands under either name, a link to our store perhaps, is replaced, never
 * written through. */
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
	if (close(fd) < 0 || renameat(dir, TASK_NEW, dir, TASK) < 0)
		goto fail;
	return 0;
fail:
	fd = errno;
	unlinkat(dir, TASK_NEW, 0);
	errno = fd;
	return -1;
}

/* In a directory that we have just made and nobody else has seen. */
static int task_write_first(int work, const char *session_id, const void *task, size_t size)
{
	char name[ID_SIZE + sizeof TASK];
	int fd, r;

	snprintf(name, sizeof name, "%s/" TASK, session_id);
	fd = openat(work, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	r = write_all(fd, task, size);
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

int workdir_make(const char *state_dir, const char *session_id, const void *task, size_t task_size, char *path,
	size_t path_size)
{
	int work, r;

	assert(id_is_uuid4(session_id));
	r = snprintf(path, path_size, "%s/work/%s", state_dir, session_id);
	if (r < 0 || (size_t)r >= path_size) {
		errno = ENAMETOOLONG;
		return -1;
	}
	work = work_open(state_dir, true);
	if (work < 0)
		return -1;
	if (mkdirat(work, session_id, 0700) == 0)
		r = fchmodat(work, session_id, 0700, 0) < 0 ? -1 : task ? task_write_first(work, session_id, task, task_size) : 0;
	else
		r = task_write_again(work, session_id, task, task_size);
	close_keep(work);
	return r;
}

/* Under a name of its own into the trash. */
static int trash_put(int at, const char *name, int trash)
{
	char id[ID_SIZE];

	id_make(id);
	if (renameat(at, name, trash, id) == 0)
		return 0;
	if (errno != EACCES)
		return -1;
	dir_permit(at, name);           /* a directory's new parent is written into the directory */
	return renameat(at, name, trash, id);
}

/* The usual one is empty but for the task. */
static bool remove_empty(int work, const char *session_id)
{
	int dir;

	if (unlinkat(work, session_id, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return true;
	if ((dir = openat(work, session_id, OPEN_DIR)) < 0)
		return false;
	unlinkat(dir, TASK, 0);
	close(dir);
	return unlinkat(work, session_id, AT_REMOVEDIR) == 0;
}

bool workdir_remove(const char *state_dir, const char *session_id)
{
	int work, trash;

	assert(id_is_uuid4(session_id));
	work = work_open(state_dir, false);
	if (work < 0)
		return false;
	if (remove_empty(work, session_id)) {
		close(work);
		return false;
	}
	trash = dir_make(work, TRASH);
	if (trash < 0 || (trash_put(work, session_id, trash) < 0 && errno != ENOENT))
		log_warn("cannot remove a working directory, leaving it session=%.8s error=%s", session_id, strerror(errno));
	if (trash >= 0)
		close(trash);
	close(work);
	return true;
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

struct sweep {
	int trash;
	int entries;                    /* counts down */
	bool moved;                     /* something came into the trash that this pass may not have seen */
};

/* Empties a directory of the trash. Directories in it are moved up into the trash, so that depth costs neither
 * stack nor descriptors. */
static void trash_empty(struct sweep *s, const char *name)
{
	struct dirent *e;
	DIR *d;
	int fd;

	dir_permit(s->trash, name);
	fd = openat(s->trash, name, OPEN_DIR);
	d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d) {
		if (fd >= 0)
			close_keep(fd);
		return;
	}
	while (s->entries > 0 && (e = readdir(d)) != NULL) {
		if (is_dots(e->d_name))
			continue;
		if (unlinkat(fd, e->d_name, 0) < 0 && unlinkat(fd, e->d_name, AT_REMOVEDIR) < 0 &&
			trash_put(fd, e->d_name, s->trash) == 0)
			s->moved = true;
		s->entries--;
	}
	closedir(d);
}

static bool trash_delete(struct sweep *s, const char *name)
{
	if (unlinkat(s->trash, name, 0) == 0 || unlinkat(s->trash, name, AT_REMOVEDIR) == 0)
		return true;
	trash_empty(s, name);
	return unlinkat(s->trash, name, AT_REMOVEDIR) == 0;
}

bool workdir_sweep(const char *state_dir, int entries)
{
	static struct log_limit limit;
	struct sweep s = {.entries = entries};
	int work = work_open(state_dir, false);
	struct dirent *e;
	DIR *d;

	if (work < 0)
		return false;
	s.trash = openat(work, TRASH, OPEN_DIR);
	close(work);
	d = s.trash >= 0 ? fdopendir(s.trash) : NULL;
	if (!d) {
		if (s.trash >= 0)
			close(s.trash);
		return false;
	}
	while (s.entries > 0 && (e = readdir(d)) != NULL) {
		if (is_dots(e->d_name))
			continue;
		if (!trash_delete(&s, e->d_name) && s.entries > 0 && !s.moved && log_may(&limit, 3))
			log_warn("cannot delete all of an old working directory, leaving it name=%s error=%s", e->d_name,
				strerror(errno));
		s.entries--;
	}
	closedir(d);
	return s.entries <= 0 || s.moved;       /* else what is still there cannot be deleted */
}
