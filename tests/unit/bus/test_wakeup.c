/* SPDX-License-Identifier: MIT */
/* test_wakeup.c: a thread that sleeps, and threads that hand over and call it: no call is lost, and only a
 * sleeper costs a write. */
#include "bus/wakeup.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { CALLERS = 3, CALLS = 60000 };

static bool is_readable(const struct wakeup *w)
{
	struct pollfd p = {.fd = w->fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

static struct wakeup open_wakeup(void)
{
	struct wakeup w;

	wakeup_init(&w);
	ck_assert_int_eq(wakeup_open(&w), 0);
	return w;
}

START_TEST(a_call_wakes_a_sleeper_once)
{
	struct wakeup w = open_wakeup();

	wakeup_begin(&w);
	ck_assert(wakeup_may_sleep(&w));
	ck_assert(!is_readable(&w));
	wakeup_call(&w);
	wakeup_call(&w);
	ck_assert(is_readable(&w));
	wakeup_begin(&w);
	ck_assert(!is_readable(&w));
	ck_assert(wakeup_may_sleep(&w));
	wakeup_close(&w);
}
END_TEST

START_TEST(a_call_during_a_round_costs_no_write_and_forbids_sleep)
{
	struct wakeup w = open_wakeup();

	wakeup_begin(&w);
	wakeup_call(&w);
	ck_assert(!is_readable(&w));
	ck_assert(!wakeup_may_sleep(&w));
	wakeup_begin(&w);
	ck_assert(wakeup_may_sleep(&w));
	wakeup_close(&w);
}
END_TEST

START_TEST(a_call_before_the_opening_is_remembered)
{
	struct wakeup w;

	wakeup_init(&w);
	wakeup_call(&w);
	ck_assert_int_eq(wakeup_open(&w), 0);
	ck_assert(!wakeup_may_sleep(&w));
	wakeup_close(&w);
}
END_TEST

/* The sleeper was woken by something else, and its caller's write comes late: see wakeup_begin. */
START_TEST(a_write_that_comes_late_ends_one_sleep_and_no_more)
{
	struct wakeup w = open_wakeup();
	uint64_t one = 1;

	wakeup_begin(&w);
	ck_assert(wakeup_may_sleep(&w));
	wakeup_call(&w);
	ck_assert_int_eq(read(w.fd, &one, sizeof one), sizeof one); /* as if it were not written yet */
	wakeup_begin(&w);
	ck_assert(wakeup_may_sleep(&w));
	ck_assert(!is_readable(&w));
	ck_assert_int_eq(write(w.fd, &one, sizeof one), sizeof one);
	ck_assert(is_readable(&w));
	wakeup_begin(&w);
	ck_assert(!is_readable(&w));
	wakeup_close(&w);
}
END_TEST

struct desk {
	struct wakeup wakeup;
	pthread_mutex_t lock;
	int handed_over, callers_left; /* under the lock */
	int other[2];                  /* what else wakes the sleeper */
};

static void *call_often(void *arg)
{
	struct desk *d = arg;

	for (int i = 0; i < CALLS; i++) {
		pthread_mutex_lock(&d->lock);
		d->handed_over++;
		pthread_mutex_unlock(&d->lock);
		wakeup_call(&d->wakeup);
		if (i % 64 == 0)
			poll(NULL, 0, i % 256 == 0); /* so that the sleeper sleeps */
		if (i % 100 == 0)
			ck_assert_int_eq(write(d->other[1], "x", 1), 1);
	}
	pthread_mutex_lock(&d->lock);
	d->callers_left--;
	pthread_mutex_unlock(&d->lock);
	wakeup_call(&d->wakeup);
	return NULL;
}

/* False: nobody will hand anything over any more. */
static bool take(struct desk *d, int *taken)
{
	bool goes_on;

	pthread_mutex_lock(&d->lock);
	*taken += d->handed_over;
	d->handed_over = 0;
	goes_on = d->callers_left > 0;
	pthread_mutex_unlock(&d->lock);
	return goes_on;
}

START_TEST(no_call_of_many_threads_is_lost)
{
	struct desk d = {.wakeup = open_wakeup(), .lock = PTHREAD_MUTEX_INITIALIZER, .callers_left = CALLERS};
	struct pollfd p[2] = {{.events = POLLIN}, {.events = POLLIN}};
	pthread_t threads[CALLERS];
	int taken = 0;
	char some[64];

	ck_assert_int_eq(pipe(d.other), 0);
	p[0].fd = d.wakeup.fd;
	p[1].fd = d.other[0];
	for (int i = 0; i < CALLERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, call_often, &d), 0);
	for (wakeup_begin(&d.wakeup); take(&d, &taken); wakeup_begin(&d.wakeup)) {
		if (!wakeup_may_sleep(&d.wakeup))
			continue;
		/* a lost call: everybody else is done or waits, and this sleeps until its deadline */
		ck_assert_int_gt(poll(p, 2, 10000), 0);
		if (p[1].revents)
			ck_assert_int_gt(read(d.other[0], some, sizeof some), 0);
	}
	ck_assert_int_eq(taken, CALLERS * CALLS);
	for (int i = 0; i < CALLERS; i++)
		pthread_join(threads[i], NULL);
	/* All writes are read: the sleeper would sleep. */
	wakeup_begin(&d.wakeup);
	ck_assert(!is_readable(&d.wakeup));
	ck_assert_uint_eq(d.wakeup.owed, 0);
	wakeup_close(&d.wakeup);
	close(d.other[0]);
	close(d.other[1]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("wakeup");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_call_wakes_a_sleeper_once);
	tcase_add_test(t, a_call_during_a_round_costs_no_write_and_forbids_sleep);
	tcase_add_test(t, a_call_before_the_opening_is_remembered);
	tcase_add_test(t, a_write_that_comes_late_ends_one_sleep_and_no_more);
	tcase_add_test(t, no_call_of_many_threads_is_lost);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
