/* ctl_follow.h: sessions that are being watched: their messages in order, on the screen, to the end. */
#ifndef HCPD_CTL_FOLLOW_H
#define HCPD_CTL_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#include "hcpctl/common/ctl.h"
#include "hcpctl/common/message.h"
#include "hcpctl/caller/broker.h"
#include "hcpctl/common/settings.h"
#include "hcpctl/common/terminal.h"

struct ctl_view { /* one session */
	char id[ID_SIZE];
	struct ctl_order order;
	char state[16];             /* "": not known yet */
	char *capability;           /* NULL: not known here */
	int64_t since_us, until_us; /* wall clock: of the first message; of the last one, when it is closed */
	char *stage, *message;      /* what was heard last; NULL: nothing */
	double percent;             /* below 0: not known */
	struct ctl_note *result;    /* task_completed or task_failed */
	char *outcome;              /* the result as text, for when the table is gone */
	bool is_closed;             /* session_closed was shown ... */
	int64_t result_due_us;      /* ... and the result is waited for so long */
	bool is_done;               /* nothing more comes */
	enum ctl_exit exit;
	UT_hash_handle hh;
};

struct ctl_follow {
	const struct ctl_settings *settings;
	struct ctl_pump *pump;
	struct ctl_term term;
	bool json; /* bodies only */
	bool all;  /* sessions that are not known yet too */
	bool with_session;
	bool is_table;     /* several sessions on a terminal */
	struct buf notice; /* what hcpctl itself said last, below the table */
	struct ctl_view *views;
	size_t open_count; /* views that are not done */
	size_t done_count;
	int64_t due_us;      /* the earliest gap or missing result; may be too early */
	int64_t draw_at_us;  /* bar or table, not before ... */
	bool is_old;         /* ... though there is news for it */
	int64_t asked_at_us; /* for capabilities */
	bool has_news;       /* since ctl_kept.c wrote it down ... */
	int64_t kept_at_us;  /* ... then */
};

/* with_session: several are followed, or any; on a terminal they are a table then. */
void ctl_follow_init(struct ctl_follow *f, const struct ctl_settings *s, struct ctl_pump *pump, bool json,
	bool with_session);
/* first: the sequence that is due, 0 for whatever comes. */
struct ctl_view *ctl_follow_add(struct ctl_follow *f, const char *session, int64_t first);
/* Takes the note: shows it, or holds it until it is due, or drops it; acks it when that is done. */
void ctl_follow_take(struct ctl_follow *f, struct ctl_note *n);
/* Shows one message as it is, outside any session's order; the caller keeps it. */
void ctl_follow_show(struct ctl_follow *f, const struct ctl_note *n);
/* Gives up gaps, ends what waited long enough, redraws. */
void ctl_follow_tick(struct ctl_follow *f);
/* From hcpctl's own file, where it is in there. */
void ctl_follow_find_capability(const struct ctl_follow *f, struct ctl_view *v);
/* When to tick at the latest. */
int64_t ctl_follow_due_us(const struct ctl_follow *f);
void ctl_follow_fini(struct ctl_follow *f);

/* --- ctl_live.c: what is redrawn --- */

void ctl_live_begin(struct ctl_follow *f);
/* Draws, at most so often; says when it wants to draw again. */
void ctl_live_draw(struct ctl_follow *f);
int64_t ctl_live_due_us(const struct ctl_follow *f);
/* Takes it off the terminal; of a table its last state stays, as plain lines, with the results of those
 * named. */
void ctl_live_end(struct ctl_follow *f);

#endif
