/* SPDX-License-Identifier: MIT */
/* watch_model.h: the sessions that are watched: their messages in order, on the screen, until they end. */
#ifndef HCPD_HCPCTL_CALLER_WATCH_MODEL_H
#define HCPD_HCPCTL_CALLER_WATCH_MODEL_H

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
	struct ctl_reorder order;
	char state[16];   /* "": not known yet */
	char *capability; /* NULL: not known here */
	/* wall clock: the first message; the last one, once the session is closed */
	int64_t since_us, until_us;
	char *stage, *message;      /* the last message; NULL: none yet */
	double percent;             /* below 0: not known */
	struct ctl_message *result; /* task_completed or task_failed */
	char *outcome;              /* the result as text, printed when the table is gone */
	bool is_closed;             /* session_closed was printed ... */
	int64_t result_due_us;      /* ... and the result is waited for until then */
	bool is_done;               /* no more messages are expected */
	enum ctl_exit exit;
	UT_hash_handle hh;
};

struct ctl_watch_model {
	const struct ctl_settings *settings;
	struct ctl_broker *broker;
	struct ctl_term term;
	bool json; /* bodies only */
	bool all;  /* also sessions that are not known yet */
	bool with_session;
	bool is_table;     /* several sessions on a terminal */
	struct buf notice; /* the last message of hcpctl itself, below the table */
	struct ctl_view *views;
	size_t open_count; /* views that are not done */
	size_t done_count;
	int64_t due_us;      /* the earliest gap or missing result; may lie before the real one */
	int64_t draw_at_us;  /* bar or table: not drawn before ... */
	bool is_old;         /* ... though there is something new to draw */
	int64_t asked_at_us; /* to look up capabilities */
	bool has_news;       /* changes since watch_state.c wrote its file ... */
	int64_t kept_at_us;  /* ... at this time */
};

/* with_session: several sessions are followed, or all; on a terminal they are a table then. */
void ctl_watch_model_init(struct ctl_watch_model *f, const struct ctl_settings *s, struct ctl_broker *broker,
	bool json, bool with_session);
/* first: the sequence that is due; 0: the first one that comes. */
struct ctl_view *ctl_watch_model_add(struct ctl_watch_model *f, const char *session, int64_t first);
/* Takes the message: prints it, holds it until it is due, or drops it; acks it afterwards. */
void ctl_watch_model_take(struct ctl_watch_model *f, struct ctl_message *n);
/* Prints one message at once, outside the order of any session; the caller keeps the message. */
void ctl_watch_model_show(struct ctl_watch_model *f, const struct ctl_message *n);
/* Passes over old gaps, ends views that waited long enough, redraws. */
void ctl_watch_model_tick(struct ctl_watch_model *f);
/* Looks the capability up in the token cache. */
void ctl_watch_model_find_capability(const struct ctl_watch_model *f, struct ctl_view *v);
/* When to call ctl_watch_model_tick at the latest. */
int64_t ctl_watch_model_due_us(const struct ctl_watch_model *f);
void ctl_watch_model_fini(struct ctl_watch_model *f);

/* --- watch_screen.c: what is redrawn --- */

void ctl_watch_screen_begin(struct ctl_watch_model *f);
/* Draws, but not too often; sets when to draw next. */
void ctl_watch_screen_draw(struct ctl_watch_model *f);
int64_t ctl_watch_screen_due_us(const struct ctl_watch_model *f);
/* Removes the bar or the table from the terminal. The last state of a table stays as plain lines, with the
 * results of the named sessions. */
void ctl_watch_screen_end(struct ctl_watch_model *f);

#endif
