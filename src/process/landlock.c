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
#include "config/config.h"

/* The interface, as it is documented; the headers of a distribution are often older than its kernels. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#endif
#define ASK_VERSION 1u
#define RULE_PATH_BENEATH 1
#define FS_EXECUTE (UINT64_C(1) << 0)
#define FS_WRITE_FILE (UINT64_C(1) << 1)
#define FS_READ_FILE (UINT64_C(1) << 2)
#define FS_READ_DIR (UINT64_C(1) << 3)
#define FS_MAKE_CHAR (UINT64_C(1) << 6)
#define FS_MAKE_BLOCK (UINT64_C(1) << 11)
#define FS_FIRST ((UINT64_C(1) << 13) - 1) /* all that version 1 has */
#define FS_REFER (UINT64_C(1) << 13)       /* from 2: rename and link between directories */
#define FS_TRUNCATE (UINT64_C(1) << 14)    /* from 3 */
#define SCOPE_SIGNAL (UINT64_C(1) << 1)    /* from 6: no signals to processes outside */

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

struct ruleset_attr {
	uint64_t handled_fs, handled_net, scoped;
};
struct path_beneath_attr {
	uint64_t allowed;
	int32_t fd;
} __attribute__((packed));

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

/* A path that cannot be opened is left out. */
static int rule_add(struct rules *r, const char *path, int flags, uint64_t access)
{
	struct path_beneath_attr rule = {.allowed = access};
	struct stat st;
	long done;
	int error;

	rule.fd = open(path, O_PATH | O_CLOEXEC | flags);
	if (rule.fd < 0)
		return 0;
	if (fstat(rule.fd, &st) == 0 && !S_ISDIR(st.st_mode))
		rule.allowed &= FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE;
	done = syscall(SYS_landlock_add_rule, r->fd, RULE_PATH_BENEATH, &rule, 0);
	error = errno;
	close(rule.fd);
	errno = error;
	return done < 0 ? -1 : 0;
}

static bool is_at_or_below(const char *path, const char *top)
{
	size_t size = strcmp(top, "/") == 0 ? 0 : strlen(top);

	return strncmp(path, top, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

static bool is_secret(const struct rules *r, const char *path)
{
	for (char **s = r->secrets; *s; s++)
		if (is_at_or_below(path, *s))
			return true;
	return false;
}

static bool holds_secret(const struct rules *r, const char *path)
{
	for (char **s = r->secrets; *s; s++)
		if (is_at_or_below(*s, path))
			return true;
	return false;
}

/* path is a real path. Symbolic links in a directory that is added entry by entry need no rule; their
 * targets do. The depth is that of the secrets. */
static int allow_tree(struct rules *r, const char *path, uint64_t access)
{
	struct dirent *e;
	DIR *d;
	int rc = 0;

	if (is_secret(r, path))
		return 0;
	if (!holds_secret(r, path))
		return rule_add(r, path, O_NOFOLLOW, access);
	d = opendir(path);
	while (d && rc == 0 && (e = readdir(d)) != NULL) {
		struct buf entry = {0};

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || e->d_type == DT_LNK)
			continue;
		buf_addf(&entry, "%s/%s", strcmp(path, "/") == 0 ? "" : path, e->d_name);
		rc = allow_tree(r, buf_text(&entry), access);
		buf_fini(&entry);
	}
	if (d)
		closedir(d);
	return rc;
}

static int allow_path(struct rules *r, const char *path, uint64_t access)
{
	char *real = realpath(path, NULL);
	int rc = real ? allow_tree(r, real, access) : 0;

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

static void secrets_fill(struct rules *r, char *const *named)
{
	const char *credentials = getenv("CREDENTIALS_DIRECTORY");
	size_t count = 0, n = 0;

	while (named && named[count])
		count++;
	r->secrets = xcalloc(count + 2, sizeof *r->secrets);
	for (size_t i = 0; i <= count; i++) {
		const char *path = i < count ? named[i] : credentials;
		char *real = path ? realpath(path, NULL) : NULL;

		if (path)
			r->secrets[n++] = real ? real : xstrdup(path);
	}
}

static void secrets_free(struct rules *r)
{
	for (char **s = r->secrets; *s; s++)
		free(*s);
	free(r->secrets);
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
	struct ruleset_attr attr = {.handled_fs = r.handled, .scoped = abi >= 6 ? SCOPE_SIGNAL : 0};

	if (abi == 0)
		return -1;
	r.fd = (int)syscall(
		SYS_landlock_create_ruleset, &attr, abi >= 6 ? sizeof attr : sizeof attr.handled_fs, 0);
	if (r.fd < 0)
		return -1;
	secrets_fill(&r, f->secrets);
	if (allow_all(&r, f, workdir, program) < 0) {
		error = errno;
		close(r.fd);
		errno = error;
		r.fd = -1;
	}
	secrets_free(&r);
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
