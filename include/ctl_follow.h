/* ctl_follow.h: sessions that are being watched: their messages in order, on the screen, to the end. */
#ifndef HCPD_CTL_FOLLOW_H
#define HCPD_CTL_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#include "ctl.h"
#include "ctl_note.h"
#include "ctl_pump.h"
#include "ctl_settings.h"
#include "ctl_term.h"

struct ctl_view {                       /* one session */
	char id[ID_SIZE];
	struct ctl_order order;
	int64_t started_us;             /* boot clock, for the bar */
	char *stage, *message;          /* of the last progress */
	double percent;                 /* below 0: not known */
	struct ctl_note *result;        /* task_completed or task_failed */
	bool is_closed;                 /* session_closed was shown ... */
	int64_t result_due_us;          /* ... and the result is waited for so long */
	bool is_done;                   /* nothing more comes */
	enum ctl_exit exit;
	UT_hash_handle hh;
};

struct ctl_follow {
	const struct ctl_settings *settings;
	struct ctl_pump *pump;
	struct ctl_term term;
	bool json;                      /* bodies only */
	bool all;                       /* sessions that are not known yet too */
	bool with_session;
	struct ctl_view *views;
	size_t open_count;              /* views that are not done */
	size_t done_count;
	int64_t due_us;                 /* the earliest gap or missing result; may be too early */
	int64_t draw_at_us;             /* the bar, not before ... */
	bool bar_is_old;                /* ... though there is news for it */
};

void ctl_follow_init(struct ctl_follow *f, const struct ctl_settings *s, struct ctl_pump *pump, bool json);
/* first: the sequence that is due, 0 for whatever comes. */
struct ctl_view *ctl_follow_add(struct ctl_follow *f, const char *session, int64_t first);
/* Takes the note: shows it, or holds it until it is due, or drops it; acks it when that is done. */
void ctl_follow_take(struct ctl_follow *f, struct ctl_note *n);
/* Shows one message as it is, outside any session's order; the caller keeps it. */
void ctl_follow_show(struct ctl_follow *f, const struct ctl_note *n);
/* Gives up gaps, ends what waited long enough, redraws the bar. */
void ctl_follow_tick(struct ctl_follow *f);
/* When to tick at the latest. */
int64_t ctl_follow_due_us(const struct ctl_follow *f);
void ctl_follow_fini(struct ctl_follow *f);

#endif
