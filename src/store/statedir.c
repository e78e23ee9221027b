/* SPDX-License-Identifier: MIT */
/* statedir.c: which users may enter the state directory, and which hcpd it belongs to.
 * Owns its mode, the modes of the files that hcpd keeps in it, and the lock. Never reads a file. */
#include "store/statedir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/log.h"

#define LOCK_TRIES 40
#define LOCK_PAUSE_US 50000
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* token.keys is not among them: a key that others could read is no secret any more, and token_keys.c refuses
 * it. */
static const char *const files[] = {"hcpd.db", "hcpd.db-wal", "hcpd.db-shm", "hcpd.lock", NULL};

static bool has_our_files(int fd)
{
	for (const char *const *name = files; *name; name++)
		if (faccessat(fd, *name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	return false;
}

static bool is_empty(int fd)
{
	int list = openat(fd, ".", OPEN_DIR);
	DIR *d = list >= 0 ? fdopendir(list) : NULL;
	int n = 0;

	while (d && n <= 2 && readdir(d))
		n++;
	if (d)
		closedir(d);
	return d && n == 2;
}

/* A mistyped state_dir must not change the mode of /tmp or of a home directory. */
static bool is_ours(int fd, const struct stat *st)
{
	return !(st->st_mode & S_ISVTX) && (has_our_files(fd) || is_empty(fd));
}

/* By way of /proc: fchmod refuses a descriptor of O_PATH. */
static void set_mode(int fd, const char *what, const struct stat *st, mode_t mode)
{
	mode_t was = st->st_mode & 07777;
	char path[40];

	if (was == mode)
		return;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (chmod(path, mode) < 0)
		log_warn("%s is mode %04o and cannot be made %04o: %s; others may get at what is in it", what,
			was, mode, strerror(errno));
	else if (was & 077 & ~mode)
		log_warn(
			"%s stood open to others with mode %04o and is %04o now; tasks and session tokens "
			"may have been read",
			what, was, mode);
	else
		log_info("%s is mode %04o now, so that workers of other users find their directory", what,
			mode);
}

/* The core may have the database open: closing an ordinary descriptor of one of its files would take away the
 * locks that SQLite holds in this process. A descriptor of O_PATH has no part in locks. */
static void tighten_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077))
		set_mode(fd, name, &st, 0600);
	close(fd);
}

static void fit_work(int dir, mode_t mode)
{
	struct stat st;
	int fd;

	if (mode == 0711)
		(void)mkdirat(dir, "work", 0700); /* it is there, or its first user reports the error */
	fd = openat(dir, "work", OPEN_DIR | O_NOFOLLOW);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0)
		set_mode(fd, "work/ in the state directory", &st, mode);
	close(fd);
}

/* Without this directory every task would fail: it is better to refuse the start. */
static int check_work(const char *dir, int fd)
{
	if (faccessat(fd, "work", R_OK | W_OK | X_OK, AT_EACCESS) == 0 || errno == ENOENT)
		return EX_OK;
	log_error("%s/work cannot be used: %s; it must belong to the user that runs hcpd", dir,
		strerror(errno));
	return EX_CANTCREAT;
}

static int fit_mode(const char *dir, int fd, mode_t mode)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		log_error("state_dir %s: %s", dir, strerror(errno));
		return EX_CANTCREAT;
	}
	if ((st.st_mode & 077 & ~mode) && !is_ours(fd, &st)) {
		log_error(
			"state_dir %s has mode %04o, and holds what is not hcpd's; name a directory of its "
			"own",
			dir, st.st_mode & 07777);
		return EX_CONFIG;
	}
	/* Root could write there, and would leave files that the owner cannot use. */
	if (st.st_uid != geteuid() && has_our_files(fd)) {
		log_error(
			"state_dir %s belongs to user %u, and hcpd runs as user %u; run it as that user, or "
			"name another state_dir",
			dir, (unsigned)st.st_uid, (unsigned)geteuid());
		return EX_NOPERM;
	}
	/* A narrower mode is the administrator's wish, unless other users have to pass. */
	if ((st.st_mode & 077 & ~mode) || (mode & ~st.st_mode & 077))
		set_mode(fd, dir, &st, mode);
	for (const char *const *name = files; *name; name++)
		tighten_file(fd, *name);
	fit_work(fd, mode);
	return check_work(dir, fd);
}

int statedir_prepare(const char *dir, bool has_users)
{
	int fd, code;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST) {
		log_error("state_dir %s cannot be made: %s; make it, owned by the user that runs hcpd", dir,
			strerror(errno));
		return EX_CANTCREAT;
	}
	fd = open(dir, OPEN_DIR);
	if (fd < 0) {
		log_error("state_dir %s cannot be opened: %s; it must belong to the user that runs hcpd", dir,
			strerror(errno));
		return EX_CANTCREAT;
	}
	code = fit_mode(dir, fd, has_users ? 0711 : 0700);
	close(fd);
	return code;
}

/* The directory is locked too, so that removing a lock file by mistake does no harm. The descriptor stays
 * open until the process ends. */
static bool lock_directory(const char *dir)
{
	int fd = open(dir, OPEN_DIR);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
		close(fd);
		return false;
	}
	return true; /* or a file system that has no such locks */
}

int statedir_lock(const char *dir)
{
	char path[4096], pid[32] = "";
	int fd, locked;

	if ((size_t)snprintf(path, sizeof path, "%s/hcpd.lock", dir) >= sizeof path) {
		log_error("state_dir %s is too long a path", dir);
		return -EX_CONFIG;
	}
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		log_error("state_dir %s is not writable: %s: %s; it must belong to the user that runs hcpd",
			dir, path, strerror(errno));
		return -EX_CANTCREAT;
	}
	/* A daemon that was just killed may still exist for a moment. */
	for (int i = 0; (locked = flock(fd, LOCK_EX | LOCK_NB)) < 0 && i < LOCK_TRIES; i++)
		usleep(LOCK_PAUSE_US);
	if (locked == 0 && !lock_directory(dir))
		locked = -1;
	if (locked < 0) {
		if (read(fd, pid, sizeof pid - 1) <= 0)
			snprintf(pid, sizeof pid, "unknown");
		pid[strcspn(pid, "\n")] = '\0';
		log_error(
			"state_dir %s belongs to another running hcpd (pid %s); stop it, or name another "
			"state_dir",
			dir, pid);
		close(fd);
		return -EX_TEMPFAIL;
	}
	if (ftruncate(fd, 0) < 0 || dprintf(fd, "%d\n", (int)getpid()) < 0)
		log_warn("the lock file does not take our pid: file=%s error=%s", path, strerror(errno));
	return fd;
}
