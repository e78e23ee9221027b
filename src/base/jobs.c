/* SPDX-License-Identifier: MIT */
/* jobs.c: a pool of threads that compute.
 * Owns the threads and the two queues. Never looks into a job, never calls `done`: the loop's thread does. */
#include "base/jobs.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"

#define THREADS_MAX 4
#define AHEAD 2 /* jobs beside those that are worked: one that is next, one that is finished */

struct queue {
	struct job *first, **end;
};

struct jobs {
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t news;
	struct queue waiting, finished;
	bool is_stopping, is_left;
	unsigned working; /* jobs */
	void (*wake)(void *ctx);
	void *ctx;
	pthread_t threads[THREADS_MAX];
	int wanted; /* threads that should run; never changes */
	int count;  /* threads that run */
};

static void queue_add(struct queue *q, struct job *j)
{
	j->next = NULL;
	*q->end = j;
	q->end = &j->next;
}

static struct job *queue_take(struct queue *q)
{
	struct job *j = q->first;

	if (j != NULL && (q->first = j->next) == NULL)
		q->end = &q->first;
	return j;
}

static void drop_all(struct jobs *p)
{
	struct job *j;

	while ((j = queue_take(&p->waiting)) != NULL || (j = queue_take(&p->finished)) != NULL)
		j->drop(j);
}

static void destroy(struct jobs *p)
{
	pthread_cond_destroy(&p->news);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* Under the lock. Nobody takes a job from a pool that was left, and nobody is there to be woken. */
static void finish(struct jobs *p, struct job *j)
{
	if (p->is_left) {
		j->drop(j);
		return;
	}
	queue_add(&p->finished, j);
	if (p->wake != NULL)
		p->wake(p->ctx);
}

static void *thread_main(void *arg)
{
	struct jobs *p = arg;
	struct job *j;
	bool is_last;

	pthread_mutex_lock(&p->lock);
	while (!p->is_stopping) {
		if ((j = queue_take(&p->waiting)) == NULL) {
			pthread_cond_wait(&p->news, &p->lock);
			continue;
		}
		p->working++;
		pthread_mutex_unlock(&p->lock);
		j->work(j);
		pthread_mutex_lock(&p->lock);
		p->working--;
		finish(p, j);
	}
	is_last = p->is_left && --p->count == 0;
	pthread_mutex_unlock(&p->lock);
	if (is_last)
		destroy(p);
	return NULL;
}

/* On two cores one: the other is for the loop. */
static int count_threads(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	return cores <= 2 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (int)cores - 1;
}

/* Signals are for the loop's thread. */
static void start_threads(struct jobs *p)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (; p->count < p->wanted; p->count++)
		if (pthread_create(&p->threads[p->count], NULL, thread_main, p) != 0)
			break;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static struct jobs *make(int wanted, void (*wake)(void *ctx), void *ctx)
{
	struct jobs *p = xcalloc(1, sizeof *p);

	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->news, NULL);
	p->waiting.end = &p->waiting.first;
	p->finished.end = &p->finished.first;
	p->wanted = wake != NULL ? wanted : 1;
	p->wake = wake;
	p->ctx = ctx;
	return p;
}

struct jobs *jobs_new(void (*wake)(void *ctx), void *ctx)
{
	return make(count_threads(), wake, ctx);
}

struct jobs *jobs_new_one(void (*wake)(void *ctx), void *ctx)
{
	return make(1, wake, ctx);
}

/* Where no thread can be started the job is worked here: slow, but right. */
static void work_here(struct jobs *p, struct job *j)
{
	static struct log_limit limit;

	if (p->wake != NULL && log_may(&limit, 3))
		log_warn("no thread can be started for large states or a reload, the loop waits for them");
	j->work(j);
	finish(p, j);
}

void jobs_put(struct jobs *p, struct job *j)
{
	assert(j->work != NULL && j->done != NULL && j->drop != NULL);
	pthread_mutex_lock(&p->lock);
	if (p->count == 0 && p->wake != NULL)
		start_threads(p);
	if (p->count == 0) {
		work_here(p, j);
	} else {
		queue_add(&p->waiting, j);
		pthread_cond_signal(&p->news);
	}
	pthread_mutex_unlock(&p->lock);
}

unsigned jobs_at_once(const struct jobs *p)
{
	return (unsigned)p->wanted + AHEAD;
}

struct job *jobs_take(struct jobs *p)
{
	struct job *j;

	pthread_mutex_lock(&p->lock);
	j = queue_take(&p->finished);
	pthread_mutex_unlock(&p->lock);
	return j;
}

bool jobs_have_finished(struct jobs *p)
{
	bool have;

	pthread_mutex_lock(&p->lock);
	have = p->finished.first != NULL;
	pthread_mutex_unlock(&p->lock);
	return have;
}

void jobs_free(struct jobs *p)
{
	if (p == NULL)
		return;
	pthread_mutex_lock(&p->lock);
	p->is_stopping = true;
	pthread_cond_broadcast(&p->news);
	pthread_mutex_unlock(&p->lock);
	for (int i = 0; i < p->count; i++)
		pthread_join(p->threads[i], NULL);
	drop_all(p);
	destroy(p);
}

bool jobs_leave(struct jobs *p)
{
	bool is_left;

	if (p == NULL)
		return false;
	pthread_mutex_lock(&p->lock);
	p->is_stopping = true; /* no thread begins another job */
	is_left = p->is_left = p->working > 0;
	if (is_left) {
		drop_all(p);
		for (int i = 0; i < p->count; i++)
			pthread_detach(p->threads[i]);
		pthread_cond_broadcast(&p->news);
	}
	pthread_mutex_unlock(&p->lock); /* where it is left, its last thread frees it */
	if (!is_left)
		jobs_free(p); /* does not wait: no job is being worked */
	return is_left;
}
