/* SPDX-License-Identifier: MIT */
/* fake_operators.c: what fake_operators.h declares. */
#include "support/fakes/fake_operators.h"

void fake_operators_init(struct op_queue *ctl)
{
	*ctl = (struct op_queue){.asked_end = NULL};
	ctl->asked_end = &ctl->asked;
}

static void fake_operators_free_list(struct op_request *a)
{
	for (struct op_request *next; a != NULL; a = next) {
		next = a->next;
		op_request_free(a);
	}
}

void fake_operators_fini(struct op_queue *ctl)
{
	fake_operators_free_list(ctl->asked);
	fake_operators_free_list(ctl->answered);
}

struct op_request *fake_operators_ask(struct op_queue *ctl, enum op_verb verb, const char *session_id)
{
	struct op_request *a = op_request_new(verb);

	if (session_id != NULL)
		snprintf(a->session_id, sizeof a->session_id, "%s", session_id);
	*ctl->asked_end = a;
	ctl->asked_end = &a->next;
	return a;
}

int op_queue_take_denied(struct op_queue *ctl, struct denied_peer out[OP_QUEUE_DENIED])
{
	int n = ctl->stranger.count > 0;

	out[0] = ctl->stranger;
	ctl->stranger.count = 0;
	return n;
}

struct op_request *op_queue_take(struct op_queue *ctl)
{
	struct op_request *list = ctl->asked;

	ctl->asked = NULL;
	ctl->asked_end = &ctl->asked;
	return list;
}

void op_queue_answer(struct op_queue *ctl, struct op_request *a)
{
	ctl->answers++;
	a->next = ctl->answered;
	ctl->answered = a;
	if (ctl->on_answer != NULL)
		ctl->on_answer(ctl->ctx, a);
}

void op_queue_on_commit(struct op_queue *ctl)
{
	ctl->commits++;
}
