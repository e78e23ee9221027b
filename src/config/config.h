/* SPDX-License-Identifier: MIT */
/* config.h: the INI file as a struct. One table of keys in table.c has type, default and range. */
#ifndef HCPD_CONFIG_CONFIG_H
#define HCPD_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/names.h"

#include "base/log.h"
#include "base/rate.h"

enum queue_type { QUEUE_CLASSIC, QUEUE_QUORUM };
enum store_on_error { STORE_RETRY, STORE_EXIT };
enum sasl { SASL_PLAIN, SASL_EXTERNAL };
enum protocol { PROTOCOL_HCP, PROTOCOL_TEXT };
enum on_start { ON_START_AUTO, ON_START_ASK };
enum on_idle { ON_IDLE_FAIL, ON_IDLE_PAUSE };
/* What the kernel keeps a worker from: nothing; secrets and the state directory; all but the system. */
enum landlock { LANDLOCK_NO, LANDLOCK_STATE, LANDLOCK_YES };
enum workdir { WORKDIR_LOCAL, WORKDIR_NO };
enum keep_workdir { KEEP_NEVER, KEEP_FAILED, KEEP_ALWAYS };

struct config_amqp {
	char *url; /* for messages: the password is *** here */
	char *host, *vhost, *user, *password;
	int port;
	bool tls; /* amqps:// */
	enum sasl sasl;
	char *ca_file, *cert_file, *key_file; /* NULL where not given */
	bool verify;                          /* certificate and host name; on by default */
	int heartbeat_s;                      /* 1 to 3600 */
	enum queue_type queue_type;
	int64_t reconnect_max_us;
	int prefetch;         /* commands taken and not yet committed */
	int window_messages;  /* published and not yet confirmed ... */
	int64_t window_bytes; /* ... and their bodies */
};

/* What its workers are kept from. By default from secrets and the state directory, and from core dumps. */
struct config_confine {
	char *user; /* NAME or NAME:GROUP; NULL: the daemon's own */
	enum landlock landlock;
	char **landlock_read, **landlock_write;              /* absolute; NULL where not given */
	int64_t limit_memory, limit_cpu_us, limit_file_size; /* 0: hcpd sets none */
	int limit_processes, limit_files;
	int64_t limit_core;                  /* as it is: 0 is no core dumps */
	int64_t cgroup_memory_max;           /* 0: none */
	int cgroup_pids_max, cgroup_cpu_max; /* the latter in percent of one processor */
	/* What `user` means, once it was looked up: */
	uint32_t uid, gid;
	uint32_t *groups;
	size_t group_count;
	char *home;
	/* paths that Landlock never opens; struct config's, NULL-terminated */
	char *const *secrets;
};

enum { CONFIG_MIGRATIONS_MAX = 64 };

struct config_migration { /* migrate.FROM-TO = COMMAND; see state_version.h */
	char *from, *to;
	char **command;
};

struct config_capability {
	char *name;
	char *declaration; /* path, absolute */
	char **command;    /* NULL-terminated words */
	enum protocol protocol;
	enum recovery recovery;
	int max_attempts; /* deaths of its worker that end a session */
	int64_t retry_delay_us;
	bool pause_frees_worker;
	char *state_version;                 /* NULL: its workers take any */
	char **migrate;                      /* brings any other version to state_version; NULL: none */
	struct config_migration *migrations; /* single steps, which are chained */
	size_t migration_count;
	int checkpoint_full_every;      /* 1: no deltas */
	int checkpoint_steps;           /* hcpd requests a checkpoint after so many steps; 0: never */
	int64_t checkpoint_interval_us; /* 0: none */
	bool checkpoint_adaptive;
	bool checkpoint_before_action; /* an action is allowed after a checkpoint with all work before it */
	int continuity_recent;         /* records of earlier sessions in the start line; 0: none */
	int reuse;                     /* 1: a process a session */
	char **env;                    /* NULL-terminated NAME=value; env, pass_env and env_file resolved */
	enum workdir workdir;          /* NO only with reuse above 1: its sessions have none */
	enum keep_workdir keep_workdir;
	bool harp; /* hcpd publishes its sessions on harp.sessions */
	struct config_confine confine;
	int line;         /* of its section, for messages, ... */
	const char *path; /* ... in this file; struct config's */
};

struct config_caller {
	char *name;          /* "*" for any */
	char **capabilities; /* NULL-terminated; {"*", NULL} for all */
	enum risk max_risk;
	enum data_class max_data_class;
	struct rate_limit rate; /* count 0: none */
	/* of each caller that the section matches */
	int max_pending, max_running; /* 0: no limit of its own */
	enum priority max_priority;
	int weight;      /* of its turns */
	char *amqp_user; /* NULL: identity not checked */
	int line;
};

/* A human's key: who may decide about tasks that wait, and up to which risk. */
struct config_approver {
	char *name;   /* signerKeyId in decisions */
	char *key;    /* ed25519:BASE64URL */
	char *person; /* whose key it is; NULL: the name */
	enum risk max_risk;
	bool revoked;
	int line;
};

struct config {
	char *path;
	char sha256[65]; /* of the file's text, in hex */
	char *callee_id;
	char *state_dir;
	int max_sessions, max_pending;
	int64_t stop_timeout_us, dedup_window_us;
	enum log_level log_level;
	char *cgroup; /* "auto", "off" or a directory */
	/* what becomes of interrupted sessions: go on, or wait for an operator */
	enum on_start on_start;
	bool dumpable; /* may be debugged by its own user, and dumps core */
	struct config_amqp amqp;
	enum store_on_error store_on_error;
	bool store_is_encrypted; /* the operator declares the volume as encrypted */
	char *control_socket;    /* a path, "off", or NULL: the default (control.h) */
	char *control_group;     /* whose members may use it; NULL: none ... */
	int64_t control_gid;     /* ... and -1 */
	/* the program that has the last word on tasks (policy_program.h); NULL: none */
	char **policy_command;
	int policy_line; /* where that stands, for messages */
	int64_t policy_timeout_us;
	int64_t approval_expires_us; /* how long a task waits for a human */
	/* of ended sessions: in the store, at all; 0: for ever (retain/retain.h) */
	int64_t retain_grace_us, retain_expire_us;
	bool retain_archives;
	enum risk two_person; /* from this risk on two persons must allow; R_NONE: one is enough */
	int64_t max_duration_us, idle_timeout_us, abort_timeout_us, exit_grace_us, artifact_timeout_us;
	enum on_idle on_idle;                 /* what idle_timeout does */
	int64_t pause_grace_us;               /* 0: PAUSED for as long as max_duration lets it */
	int64_t max_extended_us;              /* of a deadline, from the first RUNNING on */
	int64_t max_outbox, max_outbox_total; /* bytes unconfirmed: a session, all */
	int64_t max_message, max_line, max_lines_total, max_checkpoint, max_text_output;
	int64_t max_artifact, max_artifacts_total; /* bytes: one, all of a session */
	int max_depth;
	struct config_capability *capabilities;
	size_t capability_count;
	struct config_caller *callers;
	size_t caller_count;
	struct config_approver *approvers;
	size_t approver_count;
	/* this file, the state directory, files with passwords and keys: absolute */
	char **secrets;
	size_t secret_count;
};

/* Where the daemon's messages about a file go: one call an error or a warning, file and line first. */
typedef void config_say_fn(void *ctx, bool is_error, const char *text);

/* Reads and checks; reports every error through say(). NULL where there was an error. The declarations
 * are read by capability_load, not here. */
struct config *config_load(const char *path, config_say_fn *say, void *ctx);
/* The same, but where there are errors, *good is false and what could be read is returned all the same, so
 * that it can be looked at for more of them; required texts may be NULL in it. NULL where there is no file
 * that can be read. */
struct config *config_load_partly(const char *path, config_say_fn *say, void *ctx, bool *good);
void config_free(struct config *c);
/* The sections that fit, NULL where none does: the exact caller wins over "*". */
const struct config_caller *config_find_caller(const struct config *c, const char *caller_id);
const struct config_capability *config_find_capability(const struct config *c, const char *name);
/* May this caller use it? */
bool config_caller_may(const struct config_caller *caller, const char *capability);
/* Does any capability have workers of another user? */
bool config_has_users(const struct config *c);
/* Does any capability have harp = yes? */
bool config_wants_harp(const struct config *c);
/* Prints "section key" lines, every key there is; scripts compare them with the sample and the manual. */
void config_list_keys(void);
/* Prints a line `section key default` for each key that has a default. */
void config_list_defaults(void);

#endif
