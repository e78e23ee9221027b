/* fake_control.h: control.h without a socket: the test is the operator.
 * Include it in one file of a program: it replaces control.c. Looks at the store at each answer, so that none
 * comes before what it says is stored. */
#ifndef HCPD_FAKE_CONTROL_H
#define HCPD_FAKE_CONTROL_H

#include <stdlib.h>

#include "control/control.h"

struct control {
	struct ask *asked, **asked_end;
	struct ask *answered; /* the newest first; they stay until the end */
	unsigned answers, commits;
	struct control_stranger stranger; /* turned away: the test's wish */
	/* called at each answer, NULL: nobody */
	void (*on_answer)(void *ctx, const struct ask *a);
	void *ctx;
};

static inline void fake_control_init(struct control *ctl)
{
	*ctl = (struct control){.asked_end = NULL};
	ctl->asked_end = &ctl->asked;
}

static inline void fake_control_free_list(struct ask *a)
{
	for (struct ask *next; a != NULL; a = next) {
		next = a->next;
		ask_free(a);
	}
}

static inline void fake_control_fini(struct control *ctl)
{
	fake_control_free_list(ctl->asked);
	fake_control_free_list(ctl->answered);
}

static inline struct ask *fake_control_ask(struct control *ctl, enum ask_verb verb, const char *session_id)
{
	struct ask *a = ask_new(verb);

	if (session_id != NULL)
		snprintf(a->session_id, sizeof a->session_id, "%s", session_id);
	*ctl->asked_end = a;
	ctl->asked_end = &a->next;
	return a;
}

#ifndef FAKE_TYPES_ONLY

int control_take_strangers(struct control *ctl, struct control_stranger out[CONTROL_STRANGERS])
{
	int n = ctl->stranger.count > 0;

	out[0] = ctl->stranger;
	ctl->stranger.count = 0;
	return n;
}

struct ask *control_take(struct control *ctl)
{
	struct ask *list = ctl->asked;

	ctl->asked = NULL;
	ctl->asked_end = &ctl->asked;
	return list;
}

void control_answer(struct control *ctl, struct ask *a)
{
	ctl->answers++;
	a->next = ctl->answered;
	ctl->answered = a;
	if (ctl->on_answer != NULL)
		ctl->on_answer(ctl->ctx, a);
}

void control_on_commit(struct control *ctl)
{
	ctl->commits++;
}

#endif
#endif
