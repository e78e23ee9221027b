/* SPDX-License-Identifier: MIT */
/* op_queue.c: two lists of requests under one lock, and the wake-ups of both threads.
 * Owns what is in the lists. Never knows the socket or the meaning of a request. */
#include "core/op_queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "core/op_request.h"

struct op_list {
	struct op_request *first, **end;
};

struct op_queue {
	void (*wake)(void *ctx);
	void *wake_ctx;
	int event_fd;
	pthread_mutex_t lock;
	struct op_list requests, answers;
	struct denied_peer denied[OP_QUEUE_DENIED];
	/* outside of the lock, since the core reads them at every commit */
	atomic_int followers;
	atomic_bool has_committed;
};

/* ---- lists ---- */

static void list_init(struct op_list *l)
{
	l->first = NULL;
	l->end = &l->first;
}

static void list_add(struct op_queue *q, struct op_list *l, struct op_request *a)
{
	a->next = NULL;
	pthread_mutex_lock(&q->lock);
	*l->end = a;
	l->end = &a->next;
	pthread_mutex_unlock(&q->lock);
}

static struct op_request *list_take(struct op_queue *q, struct op_list *l)
{
	struct op_request *first;

	pthread_mutex_lock(&q->lock);
	first = l->first;
	list_init(l);
	pthread_mutex_unlock(&q->lock);
	return first;
}

static void list_free(struct op_request *a)
{
	for (struct op_request *next; a != NULL; a = next) {
		next = a->next;
		op_request_free(a);
	}
}

/* ---- lifecycle ---- */

struct op_queue *op_queue_new(void (*wake)(void *ctx), void *ctx)
{
	struct op_queue *q = xcalloc(1, sizeof *q);

	q->wake = wake;
	q->wake_ctx = ctx;
	list_init(&q->requests);
	list_init(&q->answers);
	pthread_mutex_init(&q->lock, NULL);
	q->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->event_fd < 0) {
		op_queue_free(q);
		return NULL;
	}
	return q;
}

void op_queue_free(struct op_queue *q)
{
	list_free(q->requests.first);
	list_free(q->answers.first);
	if (q->event_fd >= 0)
		close(q->event_fd);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

/* ---- for the thread that serves operators ---- */

void op_queue_put(struct op_queue *q, struct op_request *a)
{
	list_add(q, &q->requests, a);
	q->wake(q->wake_ctx);
}

int op_queue_fd(const struct op_queue *q)
{
	return q->event_fd;
}

struct op_request *op_queue_take_answers(struct op_queue *q, bool *has_committed)
{
	struct op_request *answers;
	uint64_t times;

	(void)!read(q->event_fd, &times, sizeof times);
	answers = list_take(q, &q->answers);
	*has_committed = atomic_exchange(&q->has_committed, false);
	return answers;
}

void op_queue_follow(struct op_queue *q, int by)
{
	atomic_fetch_add(&q->followers, by);
}

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool is_same_kind(const struct denied_peer *a, const struct denied_peer *b)
{
	return a->uid == b->uid && is_same_text(a->who, b->who) && is_same_text(a->what, b->what) &&
		is_same_text(a->code, b->code);
}

void op_queue_put_denied(struct op_queue *q, const struct denied_peer *peer)
{
	struct denied_peer *d = q->denied;
	bool is_first;

	pthread_mutex_lock(&q->lock);
	while (d < q->denied + OP_QUEUE_DENIED - 1 && d->count > 0 && !is_same_kind(d, peer))
		d++;
	is_first = d->count == 0;
	if (is_first)
		*d = *peer;
	d->count++;
	pthread_mutex_unlock(&q->lock);
	if (is_first)
		q->wake(q->wake_ctx);
}

void op_queue_wake(struct op_queue *q)
{
	uint64_t one = 1;

	(void)!write(q->event_fd, &one, sizeof one);
}

/* ---- for the core's thread ---- */

struct op_request *op_queue_take(struct op_queue *q)
{
	return list_take(q, &q->requests);
}

void op_queue_answer(struct op_queue *q, struct op_request *a)
{
	list_add(q, &q->answers, a);
	op_queue_wake(q);
}

int op_queue_take_denied(struct op_queue *q, struct denied_peer out[OP_QUEUE_DENIED])
{
	int n = 0;

	pthread_mutex_lock(&q->lock);
	while (n < OP_QUEUE_DENIED && q->denied[n].count > 0)
		n++;
	memcpy(out, q->denied, (size_t)n * sizeof *out);
	memset(q->denied, 0, sizeof q->denied);
	pthread_mutex_unlock(&q->lock);
	return n;
}

void op_queue_on_commit(struct op_queue *q)
{
	if (atomic_load(&q->followers) > 0 && !atomic_exchange(&q->has_committed, true))
		op_queue_wake(q);
}
