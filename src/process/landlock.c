/* SPDX-License-Identifier: MIT */
/* landlock.c: file rules for one worker.
 * Owns which parts of the system every confined worker may use, and the versions of the kernel's interface.
 * Never runs in a child: launch.c applies the rules there. */
#include "process/landlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "config/config.h"
#include "process/landlock_private.h"

#if defined __x86_64__
#define OUR_ARCH AUDIT_ARCH_X86_64
#define NUMBER_MASK 0xbfffffffu /* the same calls with 32-bit pointers have bit 30 */
#elif defined __aarch64__
#define OUR_ARCH AUDIT_ARCH_AARCH64
#define NUMBER_MASK 0xffffffffu
#elif defined __riscv && __riscv_xlen == 64
#define OUR_ARCH AUDIT_ARCH_RISCV64
#define NUMBER_MASK 0xffffffffu
#endif

/* Programs, libraries, their settings, and the kernel's information. Not /tmp and /dev/shm, which sessions
 * would share (TMPDIR is the working directory). Not /var, /home, /root, /srv and /run, which hold secrets,
 * except for the name servers. Not /dev/pts, where another user's terminal can be opened. The kernel itself
 * protects the parts of /proc that belong to one process from processes under other rules. */
static const char *const system_read[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/etc", "/opt", "/proc", "/sys", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager",
	NULL};
static const char *const devices[] = {
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", NULL};

struct rules {
	int fd;
	uint64_t handled;
	char **secrets; /* real paths, NULL-terminated */
};

int landlock_abi_max = 6;

int landlock_find_abi(void)
{
	long abi;

	if (landlock_abi_max == 0) {
		errno = ENOSYS;
		return 0;
	}
	abi = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
	return abi < 0 ? 0 : abi < landlock_abi_max ? (int)abi : landlock_abi_max;
}

const char *landlock_find_fault(void)
{
	int abi = landlock_find_abi();

#ifndef OUR_ARCH
	if (abi > 0 && abi < 3)
		return "this kernel's Landlock does not cover truncate(2), which came with Linux 6.2";
#endif
	if (abi > 0)
		return NULL;
	return errno == EOPNOTSUPP ? "this kernel has Landlock turned off (its lsm= parameter)" :
		errno == ENOSYS    ? "this kernel has no Landlock (it came with Linux 5.13)" :
				     "Landlock is refused here, by a filter of system calls perhaps";
}

/* --- rules --- */

int landlock_add_rule(int ruleset, int fd, uint64_t access)
{
	struct path_beneath_attr rule = {.allowed = access, .fd = fd};

	return syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) < 0 ? -1 : 0;
}

int landlock_make_ruleset(uint64_t handled, uint64_t scoped)
{
	struct ruleset_attr attr = {.handled_fs = handled, .scoped = scoped};

	return (int)syscall(SYS_landlock_create_ruleset, &attr,
		landlock_find_abi() >= 6 ? sizeof attr : sizeof attr.handled_fs, 0);
}

int landlock_pass_over(const char *path, bool *is_fault)
{
	static struct log_limit limit;

	if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
		return -1;
	*is_fault = errno != ENOENT && errno != ENOTDIR && errno != EACCES && errno != EPERM &&
		errno != ELOOP && errno != ENXIO;
	if (*is_fault && log_may(&limit, 1))
		log_warn(
			"a path cannot be opened, so it is closed to workers that start now: path=%s "
			"error=%s",
			path, strerror(errno));
	return 0;
}

static int rule_add(const struct rules *r, const char *path, int flags, uint64_t access)
{
	int fd = open(path, O_PATH | O_CLOEXEC | flags), error, done;
	struct stat st;
	bool is_fault;

	if (fd < 0)
		return landlock_pass_over(path, &is_fault);
	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
		access &= FS_FILE;
	done = landlock_add_rule(r->fd, fd, access);
	error = errno;
	close(fd);
	errno = error;
	return done;
}

static bool is_at_or_below(const char *path, const char *top)
{
	size_t size = strcmp(top, "/") == 0 ? 0 : strlen(top);

	return strncmp(path, top, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

bool landlock_is_secret(char *const *secrets, const char *path)
{
	for (; *secrets; secrets++)
		if (is_at_or_below(path, *secrets))
			return true;
	return false;
}

bool landlock_holds_secret(char *const *secrets, const char *path)
{
	for (; *secrets; secrets++)
		if (is_at_or_below(*secrets, path))
			return true;
	return false;
}

/* path is a real path. Symbolic links in a directory that is added entry by entry need no rule; their
 * targets do. The depth is that of the secrets. */
static int allow_tree(struct rules *r, const char *path, uint64_t access)
{
	struct dirent *e;
	DIR *d;
	bool is_fault;
	int rc = 0;

	if (landlock_is_secret(r->secrets, path))
		return 0;
	if (!landlock_holds_secret(r->secrets, path))
		return rule_add(r, path, O_NOFOLLOW, access);
	d = opendir(path);
	if (!d)
		return landlock_pass_over(path, &is_fault);
	while (rc == 0 && (e = readdir(d)) != NULL) {
		struct buf entry = {0};

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || e->d_type == DT_LNK)
			continue;
		buf_addf(&entry, "%s/%s", strcmp(path, "/") == 0 ? "" : path, e->d_name);
		rc = allow_tree(r, buf_text(&entry), access);
		buf_fini(&entry);
	}
	closedir(d);
	return rc;
}

static int allow_path(struct rules *r, const char *path, uint64_t access)
{
	char *real = realpath(path, NULL);
	bool is_fault;
	int rc = real ? allow_tree(r, real, access) : landlock_pass_over(path, &is_fault);

	free(real);
	return rc;
}

static int allow_paths(struct rules *r, const char *const *paths, uint64_t access)
{
	int rc = 0;

	for (; paths && *paths && rc == 0; paths++)
		rc = allow_path(r, *paths, access);
	return rc;
}

/* --- secrets --- */

/* Directories of the unit: its credentials; and the control socket's, where a worker could put a socket of
 * its own. */
static const char *const unit_dirs[] = {"CREDENTIALS_DIRECTORY", "RUNTIME_DIRECTORY"};
#define UNIT_DIRS (sizeof unit_dirs / sizeof *unit_dirs)

char **landlock_find_secrets(char *const *named)
{
	size_t count = 0, n = 0;
	char **secrets;

	while (named && named[count])
		count++;
	secrets = xcalloc(count + UNIT_DIRS + 1, sizeof *secrets);
	for (size_t i = 0; i < count + UNIT_DIRS; i++) {
		const char *path = i < count ? named[i] : getenv(unit_dirs[i - count]);
		char *real = path ? realpath(path, NULL) : NULL;

		if (path)
			secrets[n++] = real ? real : xstrdup(path);
	}
	return secrets;
}

void landlock_free_secrets(char **secrets)
{
	for (char **s = secrets; s && *s; s++)
		free(*s);
	free(secrets);
}

/* --- the whole --- */

static int allow_all(
	struct rules *r, const struct config_confine *f, const char *workdir, const char *program)
{
	const uint64_t read = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR;
	/* A process that may make device nodes could bypass all rules with one. */
	const uint64_t write = r->handled & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK);

	/* The working directory lies among the secrets, and is the only path there that is allowed. */
	if (rule_add(r, workdir, O_DIRECTORY | O_NOFOLLOW, write) < 0)
		return -1;
	if (program && strchr(program, '/') && allow_path(r, program, read) < 0)
		return -1;
	return allow_paths(r, system_read, read) < 0 ||
			allow_paths(r, devices, FS_READ_FILE | FS_WRITE_FILE) < 0 ||
			allow_paths(r, (const char *const *)f->landlock_read, read) < 0 ||
			allow_paths(r, (const char *const *)f->landlock_write, write) < 0 ?
		-1 :
		0;
}

int landlock_make(const struct config_confine *f, const char *workdir, const char *program)
{
	int abi = landlock_find_abi(), error;
	struct rules r = {.handled = FS_FIRST | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0)};

	if (abi == 0)
		return -1;
	r.fd = landlock_make_ruleset(r.handled, abi >= 6 ? SCOPE_SIGNAL : 0);
	if (r.fd < 0)
		return -1;
	r.secrets = landlock_find_secrets(f->secrets);
	if (allow_all(&r, f, workdir, program) < 0) {
		error = errno;
		close(r.fd);
		errno = error;
		r.fd = -1;
	}
	landlock_free_secrets(r.secrets);
	return r.fd;
}

/* --- versions 1 and 2 --- */

/* Programs of another architecture (mostly 32 bits) use other call numbers: all their calls are refused, and
 * they do not run. */
const struct sock_fprog *landlock_filter(void)
{
#ifdef OUR_ARCH
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, NUMBER_MASK),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_truncate, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
	};
	static const struct sock_fprog program = {sizeof code / sizeof code[0], code};

	return landlock_find_abi() < 3 ? &program : NULL;
#else
	return NULL;
#endif
}
