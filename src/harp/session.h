/* harp_session.h: HARP-SESSION 0.2: what the world is told of a session: that it began, what it is at,
 *snapshots of it, that it ended. Pure: no I/O, no globals, times passed in. Everything written is canonical
 *JSON, with the fields of HARP-SESSION and no others; everything read is held against the same tables.
 *
 * Codes are harp.h's, and three more:
 *	INVALID_STATE       a session.status whose state there is not
 *	DUPLICATE_SNAPSHOT  a snapshotId that is known with another hash
 *	SESSION_CLOSED      anything after session.end
 * A snapshot that is not its hash is HASH_MISMATCH, one of another session is SCOPE. */
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
enum harp_view { HARP_SUMMARY, HARP_PLAN, HARP_DIFF_SUMMARY, HARP_CONTEXT, HARP_VIEWS }; /* snapshotType */
enum harp_end { HARP_USER_END, HARP_TIMEOUT, HARP_POLICY_KILL, HARP_ENDS };

const char *harp_event_name(enum harp_event e); /* "session.start" */
const char *harp_status_name(enum harp_status s);
const char *harp_view_name(enum harp_view v);
const char *harp_end_name(enum harp_end e);
int harp_event_parse(const char *name); /* -1: none; these too */
int harp_status_parse(const char *name);
int harp_view_parse(const char *name);
int harp_end_parse(const char *name);

/* ---- saying ---- */

/* A member of metadata or payload. Names in the order of their code points. */
struct harp_member {
	const char *name;
	const char *text; /* a string, or NULL: ... */
	const char *json; /* ... canonical JSON, which stays as it is */
};

/* Each appends one event. What is not UTF-8 becomes U+FFFD. Times have milliseconds: receivers order by them.
 */
void harp_add_start(struct buf *b, const char *session_id, int64_t at_us, const char *agent_host,
	const char *repo_ref, const struct harp_member *metadata, size_t count);
void harp_add_status(struct buf *b, const char *session_id, int64_t at_us, enum harp_status state);
void harp_add_snapshot(struct buf *b, const char *session_id, int64_t at_us, const char *snapshot_id,
	enum harp_view view, const struct harp_member *payload, size_t count, char hash[HARP_HASH_SIZE]);
void harp_add_end(struct buf *b, const char *session_id, int64_t at_us, enum harp_end reason,
	const struct harp_member *metadata, size_t count);

/* ---- hearing ---- */

struct harp_heard {
	enum harp_event kind;
	char *session_id;
	int64_t at_us;
	enum harp_status status; /* of session.status */
	enum harp_end reason;    /* of session.end */
	enum harp_view view;     /* of session.snapshot, and so are these: */
	char *snapshot_id, *created_at;
	char hash[HARP_HASH_SIZE]; /* computed here, and what it says itself */
	char *text;                /* canonical, hash included */
	size_t size;
};

/* Any of the four, strictly. After HARP_OK: harp_heard_fini. */
enum harp_code harp_read_event(const char *text, size_t size, size_t most, struct harp_heard *out, char *why,
	size_t why_size) __attribute__((warn_unused_result));
/* A worker's line: a session.snapshot in which may be absent or null what is known here: sessionId,
 * eventType, snapshotHashAlg, and, where no hash depends on it, createdAt; for that stands created_at. Its
 * "type" is not looked at. Another event is refused, with the code of what is wrong with it, or UNSUPPORTED.
 */
enum harp_code harp_read_snapshot(const char *line, size_t size, size_t most, const char *session_id,
	const char *created_at, struct harp_heard *out, char *why, size_t why_size)
	__attribute__((warn_unused_result));
void harp_heard_fini(struct harp_heard *h);

/* Does it count, after what is known? In any order: an event may come before session.start, and an older one
 * late. known_hash: of the snapshot of that id, NULL where there is none. HARP_OK and not new: it is known,
 * and done with. */
enum harp_code harp_judge_event(const struct harp_heard *h, bool is_ended, const char *known_hash,
	bool *is_new, char *why, size_t why_size) __attribute__((warn_unused_result));

#endif
