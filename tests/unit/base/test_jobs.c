/* SPDX-License-Identifier: MIT */
/* test_jobs.c: jobs are worked beside the loop, come back to it, and none is lost or done twice. */
#include "base/jobs.h"

#include <check.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

#include "base/buf.h"
#include "base/timer.h"

enum { MANY = 500 };

struct sum {
	struct job job;
	int from, result; /* of the numbers up to `from` */
	pthread_t worked_by;
	bool waits; /* works only when `gate` opens */
};

static struct jobs *p;
static sem_t news, gate, begun, gone;
static int done_count, dropped;

static void wake(void *ctx)
{
	sem_post(ctx);
}

static void work(struct job *j)
{
	struct sum *s = container_of(j, struct sum, job);

	if (s->waits)
		sem_post(&begun);
	if (s->waits)
		while (sem_wait(&gate) < 0)
			;
	for (int i = 1; i <= s->from; i++)
		s->result += i;
	s->worked_by = pthread_self();
}

static void done(struct job *j)
{
	struct sum *s = container_of(j, struct sum, job);

	ck_assert_int_eq(s->result, s->from * (s->from + 1) / 2);
	done_count++;
	free(s);
}

static void drop(struct job *j)
{
	dropped++;
	free(container_of(j, struct sum, job));
	sem_post(&gone);
}

static struct sum *put(int from, bool waits)
{
	struct sum *s = xcalloc(1, sizeof *s);

	*s = (struct sum){.job = {.work = work, .done = done, .drop = drop}, .from = from, .waits = waits};
	jobs_put(p, &s->job);
	return s;
}

static void setup(void)
{
	sem_init(&news, 0, 0);
	sem_init(&gate, 0, 0);
	sem_init(&begun, 0, 0);
	sem_init(&gone, 0, 0);
	done_count = dropped = 0;
	p = jobs_new(wake, &news);
}

static void teardown(void)
{
	jobs_free(p);
	sem_destroy(&news);
	sem_destroy(&gate);
	sem_destroy(&begun);
	sem_destroy(&gone);
}

/* Takes what comes, until so many are done. */
static void take(int count)
{
	struct job *j;

	while (done_count < count) {
		while (sem_wait(&news) < 0)
			;
		while ((j = jobs_take(p)) != NULL)
			j->done(j);
	}
}

START_TEST(every_job_is_worked_and_comes_back_once)
{
	for (int i = 0; i < MANY; i++)
		put(i, false);
	take(MANY);
	ck_assert(jobs_take(p) == NULL && !jobs_have_finished(p));
	ck_assert_int_eq(dropped, 0);
}
END_TEST

START_TEST(the_loop_goes_on_while_a_job_is_worked)
{
	put(10, true);
	ck_assert(jobs_take(p) == NULL); /* it waits, and we do not */
	sem_post(&gate);
	take(1);
}
END_TEST

START_TEST(a_job_is_worked_on_another_thread)
{
	struct sum *s = put(10, false);

	while (sem_wait(&news) < 0)
		;
	ck_assert(jobs_have_finished(p));
	ck_assert(!pthread_equal(s->worked_by, pthread_self()));
	ck_assert(jobs_take(p) == &s->job);
	s->job.done(&s->job);
}
END_TEST

START_TEST(jobs_that_are_not_taken_are_dropped_with_the_pool)
{
	for (int i = 0; i < MANY; i++)
		put(i, i % 50 == 49);
	for (int i = 0; i < MANY / 50; i++)
		sem_post(&gate);
	jobs_free(p);
	ck_assert_int_eq(dropped, MANY);
	p = NULL;
}
END_TEST

START_TEST(a_pool_without_threads_works_a_job_at_once)
{
	struct job *j;
	struct sum *s;

	jobs_free(p);
	p = jobs_new(NULL, NULL);
	ck_assert(!jobs_have_finished(p));
	s = put(10, false);
	ck_assert_int_eq(s->result, 55);
	ck_assert(pthread_equal(s->worked_by, pthread_self()));
	ck_assert(jobs_have_finished(p) && (j = jobs_take(p)) == &s->job);
	j->done(j);
	put(3, false);
	jobs_free(p);
	ck_assert_int_eq(dropped, 1);
	p = NULL;
}
END_TEST

START_TEST(a_pool_that_is_left_drops_its_jobs_behind_its_owner)
{
	struct timespec end;

	jobs_free(p);
	p = jobs_new_one(wake, &news);
	put(1, true); /* its thread waits until `gate` opens */
	while (sem_wait(&begun) < 0)
		;
	put(2, false);
	ck_assert(jobs_leave(p));
	p = NULL;
	ck_assert_int_eq(dropped, 1); /* the one that had not begun */
	ck_assert_int_eq(sem_trywait(&gone), 0);
	sem_post(&gate);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 30;
	ck_assert_int_eq(sem_timedwait(&gone, &end), 0);
	ck_assert_int_eq(dropped, 2);
	ck_assert_int_eq(sem_trywait(&news), -1); /* nobody is woken any more */
}
END_TEST

START_TEST(a_pool_at_rest_is_freed_where_it_is_left)
{
	struct sum *s = put(10, false);

	while (sem_wait(&news) < 0)
		;
	ck_assert(jobs_take(p) == &s->job);
	s->job.done(&s->job);
	ck_assert(!jobs_leave(p));
	p = NULL;
	ck_assert(!jobs_leave(NULL));
}
END_TEST

START_TEST(a_pool_of_one_works_one_job_at_a_time)
{
	jobs_free(p);
	p = jobs_new_one(wake, &news);
	put(1, true);
	while (sem_wait(&begun) < 0)
		;
	put(2, true);
	ck_assert_int_eq(sem_trywait(&begun), -1);
	sem_post(&gate);
	sem_post(&gate);
	take(2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("jobs");
	TCase *t = tcase_create("jobs");
	SRunner *r = srunner_create(s);
	int failed;

	suite_add_tcase(s, t);
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, every_job_is_worked_and_comes_back_once);
	tcase_add_test(t, the_loop_goes_on_while_a_job_is_worked);
	tcase_add_test(t, a_job_is_worked_on_another_thread);
	tcase_add_test(t, jobs_that_are_not_taken_are_dropped_with_the_pool);
	tcase_add_test(t, a_pool_without_threads_works_a_job_at_once);
	tcase_add_test(t, a_pool_that_is_left_drops_its_jobs_behind_its_owner);
	tcase_add_test(t, a_pool_at_rest_is_freed_where_it_is_left);
	tcase_add_test(t, a_pool_of_one_works_one_job_at_a_time);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
