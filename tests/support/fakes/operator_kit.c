/* SPDX-License-Identifier: MIT */
/* operator_kit.c: what operator_kit.h declares. */
#include "support/fakes/operator_kit.h"

struct world w;
struct op_queue operators;

void opkit_begin(const char *more)
{
	world_init(&w, more);
	world_begin(&w);
	fake_operators_init(&operators);
	w.core.operator.queue = & operators;
}

void opkit_end(void)
{
	world_fini(&w);
	fake_operators_fini(&operators);
}

void opkit_crash(void)
{
	world_crash(&w);
	w.core.operator.queue = & operators;
	world_run(&w);
}

void opkit_restart(void)
{
	core_stop(&w.core);
	world_pass(&w, 60 * SECONDS);
	ck_assert(w.core.phase.is_done);
	world_end(&w, false);
	world_begin(&w);
	w.core.operator.queue = & operators;
	world_run(&w);
}

void opkit_reload(const char *more)
{
	world_configure(&w, more);
	core_reload(&w.core);
	world_run(&w);
}

struct op_request *opkit_ask(enum op_verb verb, int key, const char *how)
{
	struct op_request *a = fake_operators_ask(&operators, verb, world_id(&w, key));
	unsigned before = operators.answers;

	snprintf(a->how, sizeof a->how, "%s", how);
	core_on_requests(&w.core);
	world_run(&w);
	ck_assert_uint_eq(operators.answers, before + 1);
	return a;
}

void opkit_done(struct op_request *a)
{
	ck_assert_msg(a->code == NULL, "%s: %s", a->code, a->message);
}

void opkit_refused(struct op_request *a, const char *code, const char *needle)
{
	ck_assert_msg(a->code != NULL, "done: %s", buf_text(&a->done));
	ck_assert_str_eq(a->code, code);
	ck_assert_msg(strstr(a->message, needle) != NULL, "%s", a->message);
}

void opkit_say(struct worker *p, const char *line)
{
	fake_worker_say(p, line);
	world_run(&w);
}

void opkit_die(struct worker *p, int status)
{
	fake_worker_exit(p, status);
	world_run(&w);
}
