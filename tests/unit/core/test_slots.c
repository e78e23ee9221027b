/* SPDX-License-Identifier: MIT */
/* test_slots.c: who runs and who waits. */
#include "support/fakes/fake_world.h"

static struct world w;
static struct core c; /* only its policy and its slots are used */
static struct session made[200];

static void use(const char *more)
{
	world_configure(&w, more);
	policy_unref(c.policy);
	ck_assert((c.policy = policy_load(w.ini, world_say, NULL)) != NULL);
}

static void setup(void)
{
	world_init(&w, "");
	memset(&c, 0, sizeof c);
	memset(made, 0, sizeof made);
	use("");
}

static void teardown(void)
{
	slots_fini(&c.slots);
	policy_unref(c.policy);
	world_fini(&w);
}

static struct session *make(int key, char *capability, enum priority priority)
{
	made[key] = (struct session){.core = &c, .key = key, .capability = capability, .priority = priority};
	return &made[key];
}

static struct session *make_for(const char *caller, int key, char *capability, enum priority priority)
{
	struct session *s = make(key, capability, priority);

	snprintf(s->caller_id, sizeof s->caller_id, "%s", caller);
	return s;
}

static char work[] = "work", plain[] = "plain", narrow[] = "narrow", gone[] = "gone";

/* The next one takes its slot; its key, 0: none may. */
static int64_t next(void)
{
	struct session *s = slots_next(&c);

	if (s == NULL)
		return 0;
	slots_take(&c, s);
	return s->key;
}

START_TEST(the_highest_priority_goes_first_and_then_the_longest_wait) /* proves L3-10 */
{
	static const int wanted[] = {4, 9, 3, 8, 2, 7, 1, 6};

	for (int i = 1; i <= 4; i++) { /* low, normal, high, urgent of one capability ... */
		slots_wait(&c, make(i, work, (enum priority)(i - 1)));
	}
	for (int i = 6; i <= 9; i++) /* ... and of another */
		slots_wait(&c, make(i, plain, (enum priority)(i - 6)));
	ck_assert_uint_eq(c.slots.waiting, 8);
	for (size_t i = 0; i < 8; i++)
		ck_assert_int_eq(next(), wanted[i]);
	ck_assert_int_eq(next(), 0);
	ck_assert_uint_eq(c.slots.waiting, 0);
	ck_assert_uint_eq(c.slots.running, 8);
}
END_TEST

START_TEST(max_sessions_is_kept) /* proves L3-10 */
{
	use("[daemon]\nmax_sessions = 3\n");
	for (int i = 1; i <= 5; i++)
		slots_wait(&c, make(i, i % 2 ? work : plain, PRIORITY_NORMAL));
	ck_assert(next() == 1 && next() == 2 && next() == 3);
	ck_assert_int_eq(next(), 0);
	ck_assert(!slots_has_room(&c, "work"));
	slots_leave(&c, &made[2]);
	ck_assert(slots_has_room(&c, "work"));
	ck_assert_int_eq(next(), 4);
	ck_assert_int_eq(next(), 0);
}
END_TEST

START_TEST(concurrent_limit_is_kept_and_blocks_nobody_else) /* proves L3-10 */
{
	slots_wait(&c, make(1, narrow, PRIORITY_URGENT));
	slots_wait(&c, make(2, narrow, PRIORITY_URGENT));
	slots_wait(&c, make(3, work, PRIORITY_LOW));
	ck_assert_int_eq(next(), 1);
	ck_assert(!slots_has_room(&c, "narrow"));
	ck_assert(slots_has_room(&c, "work"));
	ck_assert_int_eq(next(), 3);
	ck_assert_int_eq(next(), 0);
	slots_leave(&c, &made[1]);
	ck_assert_int_eq(next(), 2);
}
END_TEST

START_TEST(recovery_goes_beyond_the_limits_and_is_counted) /* proves L3-10 */
{
	use("[daemon]\nmax_sessions = 2\n");
	for (int i = 1; i <= 4; i++)
		slots_take(&c, make(i, narrow, PRIORITY_NORMAL));
	ck_assert_uint_eq(c.slots.running, 4);
	slots_wait(&c, make(5, narrow, PRIORITY_URGENT));
	slots_wait(&c, make(6, work, PRIORITY_URGENT));
	for (int i = 1; i <= 2; i++) {
		ck_assert_int_eq(next(), 0);
		slots_leave(&c, &made[i]);
	}
	ck_assert_int_eq(next(), 0); /* two run: that is the limit */
	slots_leave(&c, &made[3]);
	ck_assert_int_eq(next(), 6); /* one of narrow still runs */
	slots_leave(&c, &made[4]);
	ck_assert_int_eq(next(), 5);
}
END_TEST

START_TEST(leaving_is_idempotent_and_leaving_the_queue_is_no_slot)
{
	slots_wait(&c, make(1, work, PRIORITY_NORMAL));
	slots_wait(&c, make(2, work, PRIORITY_NORMAL));
	slots_leave(&c, &made[1]);
	slots_leave(&c, &made[1]);
	ck_assert_uint_eq(c.slots.waiting, 1);
	ck_assert_uint_eq(c.slots.running, 0);
	ck_assert_int_eq(next(), 2);
	slots_leave(&c, &made[2]);
	slots_leave(&c, &made[2]);
	ck_assert_uint_eq(c.slots.running, 0);
}
END_TEST

START_TEST(while_draining_nobody_is_next)
{
	slots_wait(&c, make(1, work, PRIORITY_URGENT));
	c.phase.is_draining = true;
	ck_assert_int_eq(next(), 0);
	ck_assert(!slots_has_room(&c, "work"));
	c.phase.is_draining = false;
	ck_assert_int_eq(next(), 1);
}
END_TEST

START_TEST(a_reload_changes_the_limits_of_those_who_wait) /* proves L3-10 */
{
	for (int i = 1; i <= 3; i++)
		slots_wait(&c, make(i, narrow, PRIORITY_NORMAL));
	ck_assert(next() == 1 && next() == 0);
	world_configure(&w, "");
	world_declare(&w, "narrow", "1.2.3", WORLD_SAFE, "\"concurrent_limit\":2");
	policy_unref(c.policy);
	ck_assert((c.policy = policy_load(w.ini, world_say, NULL)) != NULL);
	ck_assert(next() == 2 && next() == 0);
}
END_TEST

START_TEST(a_capability_that_is_gone_blocks_nobody)
{
	slots_wait(&c, make(1, gone, PRIORITY_NORMAL));
	slots_wait(&c, make(2, work, PRIORITY_NORMAL));
	ck_assert(next() == 1 && next() == 2);
}
END_TEST

/* ---- callers ---- */

START_TEST(callers_take_turns_within_a_priority) /* proves L3-10 */
{
	static const int wanted[] = {7, 1, 5, 2, 6, 3, 4};

	use("[daemon]\nmax_sessions = 1\n");
	for (int i = 1; i <= 4; i++)
		slots_wait(&c, make_for("alpha", i, i % 2 ? work : plain, PRIORITY_NORMAL));
	slots_wait(&c, make_for("beta", 5, work, PRIORITY_NORMAL));
	slots_wait(&c, make_for("beta", 6, work, PRIORITY_NORMAL));
	slots_wait(&c, make_for("alpha", 7, work, PRIORITY_HIGH)); /* priority comes before turns */
	for (size_t i = 0; i < 7; i++) {
		ck_assert_int_eq(next(), wanted[i]);
		ck_assert_int_eq(next(), 0);
		slots_leave(&c, &made[wanted[i]]);
	}
	ck_assert_ptr_null(c.slots.callers); /* callers without sessions take no memory */
}
END_TEST

START_TEST(a_single_task_is_next_however_many_of_another_caller_wait) /* proves L3-10 */
{
	enum { FLOOD = 20000 };
	struct session *flood = xcalloc(FLOOD, sizeof *flood), *one;

	use("[daemon]\nmax_sessions = 2\n");
	for (int i = 0; i < FLOOD; i++) {
		flood[i] = (struct session){
			.core = &c, .key = i + 1, .capability = work, .priority = PRIORITY_NORMAL};
		snprintf(flood[i].caller_id, sizeof flood[i].caller_id, "alpha");
		slots_wait(&c, &flood[i]);
	}
	for (int i = 0; i < 100; i++) {
		ck_assert_ptr_eq(slots_next(&c), &flood[i]);
		slots_take(&c, &flood[i]);
		if (i > 0)
			slots_leave(&c, &flood[i - 1]);
	}
	one = make_for("beta", 150, work, PRIORITY_NORMAL);
	one->key = FLOOD + 1;
	slots_wait(&c, one);
	ck_assert_ptr_eq(slots_next(&c), one);
	slots_take(&c, one);
	ck_assert_ptr_null(slots_next(&c));
	slots_leave(&c, one);
	ck_assert_ptr_eq(slots_next(&c), &flood[100]);
	for (int i = 0; i < FLOOD; i++)
		slots_leave(&c, &flood[i]);
	ck_assert_ptr_null(c.slots.callers);
	free(flood);
}
END_TEST

/* Both callers always wait: the turns are as the weights. */
START_TEST(a_weight_gives_more_turns) /* proves L3-10 */
{
	int turns[2] = {0, 0};

	use("[daemon]\nmax_sessions = 1\n[caller alpha]\nweight = 3\n");
	for (int i = 1; i <= 80; i++)
		slots_wait(&c, make_for(i <= 40 ? "alpha" : "beta", i, work, PRIORITY_NORMAL));
	for (int i = 0; i < 40; i++) {
		int64_t key = next();

		turns[key > 40]++;
		slots_leave(&c, &made[key]);
	}
	ck_assert_int_eq(turns[0], 30);
	ck_assert_int_eq(turns[1], 10);
}
END_TEST

/* What a caller did not take while it had nothing to wait for is not owed to it. */
START_TEST(a_rest_earns_no_turns)
{
	int64_t key;
	int alpha = 0;

	use("[daemon]\nmax_sessions = 1\n");
	slots_take(&c, make_for("beta", 1, narrow, PRIORITY_NORMAL)); /* beta was there */
	slots_leave(&c, &made[1]);
	for (int i = 2; i <= 60; i++)
		slots_wait(&c, make_for("alpha", i, work, PRIORITY_NORMAL));
	for (int i = 0; i < 30; i++)
		slots_leave(&c, &made[next()]);
	for (int i = 100; i <= 120; i++)
		slots_wait(&c, make_for("beta", i, work, PRIORITY_NORMAL));
	for (int i = 0; i < 20; i++) {
		key = next();
		alpha += key < 100;
		slots_leave(&c, &made[key]);
	}
	ck_assert_int_ge(alpha, 9);
	ck_assert_int_le(alpha, 10);
}
END_TEST

START_TEST(max_running_holds_up_its_caller_alone) /* proves L3-10 */
{
	use("[caller alpha]\nmax_running = 2\n");
	for (int i = 1; i <= 4; i++)
		slots_wait(&c, make_for("alpha", i, work, PRIORITY_URGENT));
	slots_wait(&c, make_for("beta", 5, work, PRIORITY_LOW));
	ck_assert(next() == 1 && next() == 2);
	ck_assert(!slots_caller_has_room(&c, "alpha") && slots_caller_has_room(&c, "beta"));
	ck_assert_str_eq(slots_why(&c, &made[3]), "max_running");
	ck_assert(next() == 5 && next() == 0);
	slots_leave(&c, &made[4]); /* one that waits may leave all the same */
	slots_leave(&c, &made[1]);
	ck_assert(slots_caller_has_room(&c, "alpha"));
	ck_assert(next() == 3 && next() == 0);
	for (int i = 6; i <= 9; i++)
		slots_wait(&c, make_for("alpha", i, plain, PRIORITY_LOW));
	ck_assert_int_eq(next(), 0);
	use("[caller alpha]\nmax_running = 4\n");
	slots_reload(&c);
	ck_assert(next() == 6 && next() == 7 && next() == 0);
	use("[caller alpha]\nmax_running = 1\n"); /* those that run do not end */
	slots_reload(&c);
	ck_assert_uint_eq(slots_find_caller(&c, "alpha")->running, 4);
	ck_assert_int_eq(next(), 0);
	use("");
	slots_reload(&c);
	ck_assert(next() == 8 && next() == 9 && next() == 0);
}
END_TEST

static uint64_t at_of(const struct session *s)
{
	return slots_find_caller(&c, s->caller_id)->at[s->priority];
}

static bool is_before(const struct session *a, const struct session *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	return at_of(a) != at_of(b) ? at_of(a) < at_of(b) : a->key < b->key;
}

/* A model: all that wait, tried one by one. */
START_TEST(random_use_agrees_with_a_simple_model)
{
	static const char *const callers[] = {"alpha", "beta", "gamma", "delta"};
	char *names[] = {work, plain, narrow};
	int running = 0, narrow_running = 0, alpha_running = 0, made_count = 0;

	use("[daemon]\nmax_sessions = 5\n[caller alpha]\nmax_running = 2\n[caller beta]\nweight = 3\n");
	for (int step = 0; step < 3000 && made_count < 199; step++) {
		uint64_t dice = fake_random() % 10;

		if (dice < 3) {
			made_count++;
			slots_wait(&c,
				make_for(callers[fake_random() % (_i == 0 ? 1 : 4)], made_count,
					names[fake_random() % 3],
					(enum priority)(fake_random() % PRIORITY_COUNT)));
		} else if (dice < 6 && made_count > 0) {
			struct session *s = &made[1 + fake_random() % (uint64_t)made_count];

			running -= s->slot.is_taken;
			narrow_running -= s->slot.is_taken && s->capability == narrow;
			alpha_running -= s->slot.is_taken && strcmp(s->caller_id, "alpha") == 0;
			slots_leave(&c, s);
		} else {
			struct session *best = NULL, *got = slots_next(&c);

			for (int i = 1; i <= made_count && running < 5; i++) {
				struct session *s = &made[i];

				if (!s->slot.is_waiting || (s->capability == narrow && narrow_running >= 1) ||
					(strcmp(s->caller_id, "alpha") == 0 && alpha_running >= 2))
					continue;
				if (best == NULL || is_before(s, best))
					best = s;
			}
			ck_assert_ptr_eq(got, best);
			if (got != NULL) {
				slots_take(&c, got);
				running++;
				narrow_running += got->capability == narrow;
				alpha_running += strcmp(got->caller_id, "alpha") == 0;
			}
		}
		ck_assert_uint_eq(c.slots.running, (unsigned)running);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("slots");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_highest_priority_goes_first_and_then_the_longest_wait);
	tcase_add_test(t, max_sessions_is_kept);
	tcase_add_test(t, concurrent_limit_is_kept_and_blocks_nobody_else);
	tcase_add_test(t, recovery_goes_beyond_the_limits_and_is_counted);
	tcase_add_test(t, leaving_is_idempotent_and_leaving_the_queue_is_no_slot);
	tcase_add_test(t, while_draining_nobody_is_next);
	tcase_add_test(t, a_reload_changes_the_limits_of_those_who_wait);
	tcase_add_test(t, a_capability_that_is_gone_blocks_nobody);
	tcase_add_test(t, callers_take_turns_within_a_priority);
	tcase_add_test(t, a_single_task_is_next_however_many_of_another_caller_wait);
	tcase_add_test(t, a_weight_gives_more_turns);
	tcase_add_test(t, a_rest_earns_no_turns);
	tcase_add_test(t, max_running_holds_up_its_caller_alone);
	tcase_add_loop_test(t, random_use_agrees_with_a_simple_model, 0, 2);
	suite_add_tcase(s, t);
	return world_main(s);
}
