/* SPDX-License-Identifier: MIT */
/* session.h: HARP-SESSION 0.2: the public events of a session: its start, its status, snapshots, its end.
 * Pure: no I/O, no globals, times passed in. Everything written is canonical JSON, with the fields of
 * HARP-SESSION and no others; everything read is checked against the same tables.
 *
 * Codes are those of harp.h, and three more:
 *         INVALID_STATE       a session.status with an unknown state
 *         DUPLICATE_SNAPSHOT  a known snapshotId with another hash
 *         SESSION_CLOSED      anything after session.end
 * A snapshot with a wrong hash is HASH_MISMATCH, one of another session is SCOPE. */
#ifndef HCPD_HARP_SESSION_H
#define HCPD_HARP_SESSION_H

#include "harp/harp.h"

enum harp_event { HARP_EVENT_START, HARP_EVENT_STATUS, HARP_EVENT_SNAPSHOT, HARP_EVENT_END, HARP_EVENTS };
enum harp_status {
	HARP_IDLE,
	HARP_PLANNING,
	HARP_EDITING,
	HARP_EXECUTING,
	HARP_WAITING_APPROVAL,
	HARP_ERROR,
	HARP_STATUSES
};
/* snapshotType */
enum harp_view { HARP_SUMMARY, HARP_PLAN, HARP_DIFF_SUMMARY, HARP_CONTEXT, HARP_VIEWS };
enum harp_end { HARP_USER_END, HARP_TIMEOUT, HARP_POLICY_KILL, HARP_ENDS };

const char *harp_event_name(enum harp_event e); /* "session.start" */
const char *harp_status_name(enum harp_status s);
const char *harp_view_name(enum harp_view v);
const char *harp_end_name(enum harp_end e);
int harp_event_parse(const char *name); /* -1: none; these too */
int harp_status_parse(const char *name);
int harp_view_parse(const char *name);
int harp_end_parse(const char *name);

/* ---- writing ---- */

/* A member of metadata or payload. Names in the order of their code points. */
struct harp_member {
	const char *name;
	const char *text; /* a string, or NULL: ... */
	const char *json; /* ... canonical JSON, copied as it is */
};

/* Each function appends one event. Bytes that are not UTF-8 become U+FFFD. Times have milliseconds, because
 * receivers order by them. */
void harp_add_start(struct buf *b, const char *session_id, int64_t at_us, const char *agent_host,
	const char *repo_ref, const struct harp_member *metadata, size_t count);
void harp_add_status(struct buf *b, const char *session_id, int64_t at_us, enum harp_status state);
void harp_add_snapshot(struct buf *b, const char *session_id, int64_t at_us, const char *snapshot_id,
	enum harp_view view, const struct harp_member *payload, size_t count, char hash[HARP_HASH_SIZE]);
void harp_add_end(struct buf *b, const char *session_id, int64_t at_us, enum harp_end reason,
	const struct harp_member *metadata, size_t count);

/* ---- reading ---- */

struct harp_heard {
	enum harp_event kind;
	char *session_id;
	int64_t at_us;
	enum harp_status status; /* of session.status */
	enum harp_end reason;    /* of session.end */
	enum harp_view view;     /* of session.snapshot, and so are these: */
	char *snapshot_id, *created_at;
	char hash[HARP_HASH_SIZE]; /* the computed hash, and the one that the event claims */
	char *text;                /* canonical, hash included */
	size_t size;
};

/* Reads any of the four events, strictly. After HARP_OK call harp_heard_fini. */
enum harp_code harp_read_event(const char *text, size_t size, size_t most, struct harp_heard *out, char *why,
	size_t why_size) __attribute__((warn_unused_result));
/* Reads a worker's line: a session.snapshot. Fields that are known here may be absent or null: sessionId,
 * eventType, snapshotHashAlg, and createdAt (created_at is used) where no hash depends on it. "type" is
 * ignored. Another event is refused, with the code of its fault, or UNSUPPORTED. */
enum harp_code harp_read_snapshot(const char *line, size_t size, size_t most, const char *session_id,
	const char *created_at, struct harp_heard *out, char *why, size_t why_size)
	__attribute__((warn_unused_result));
void harp_heard_fini(struct harp_heard *h);

/* Does the event count, after what is known? Events may come in any order: before session.start, or late.
 * known_hash: of the snapshot with that id, NULL where there is none. HARP_OK and not new: the snapshot is
 * known, and nothing is to be done. */
enum harp_code harp_check_event(const struct harp_heard *h, bool is_ended, const char *known_hash,
	bool *is_new, char *why, size_t why_size) __attribute__((warn_unused_result));

#endif
