/* operator_kit.h: the fake world with an operator in it, for tests about what becomes of sessions that rest.
 * Include it in one file of a program, after saying nothing else: it has the world and its fixture's halves.
 */
#ifndef HCPD_OPERATOR_KIT_H
#define HCPD_OPERATOR_KIT_H

#include "fake_world.h"

#include "fake_control.h"

static struct world w;
static struct control control;

static inline void kit_begin(const char *more)
{
	world_init(&w, more);
	world_begin(&w);
	fake_control_init(&control);
	w.core.control = &control;
}

static inline void kit_end(void)
{
	world_fini(&w);
	fake_control_fini(&control);
}

static inline void kit_crash(void)
{
	world_crash(&w);
	w.core.control = &control;
	world_run(&w);
}

/* An orderly stop, and a new life. */
static inline void kit_restart(void)
{
	core_stop(&w.core);
	world_pass(&w, 60 * SECONDS);
	ck_assert(w.core.is_done);
	world_end(&w, false);
	world_begin(&w);
	w.core.control = &control;
	world_run(&w);
}

static inline void kit_reload(const char *more)
{
	world_configure(&w, more);
	core_reload(&w.core);
	world_run(&w);
}

/* Asks, and waits for the answer. */
static inline struct ask *kit_ask(enum ask_verb verb, int key, const char *how)
{
	struct ask *a = fake_control_ask(&control, verb, world_id(&w, key));
	unsigned before = control.answers;

	snprintf(a->how, sizeof a->how, "%s", how);
	core_on_asks(&w.core);
	world_run(&w);
	ck_assert_uint_eq(control.answers, before + 1);
	return a;
}

static inline void kit_done(struct ask *a)
{
	ck_assert_msg(a->code == NULL, "%s: %s", a->code, a->message);
}

static inline void kit_refused(struct ask *a, const char *code, const char *needle)
{
	ck_assert_msg(a->code != NULL, "done: %s", buf_text(&a->done));
	ck_assert_str_eq(a->code, code);
	ck_assert_msg(strstr(a->message, needle) != NULL, "%s", a->message);
}

static inline void kit_say(struct worker *p, const char *line)
{
	fake_worker_say(p, line);
	world_run(&w);
}

static inline void kit_die(struct worker *p, int status)
{
	fake_worker_exit(p, status);
	world_run(&w);
}

#define CHECKPOINT(n) \
	"{\"type\":\"checkpoint\",\"description\":\"up to " n "\",\"state\":{\"n\":" n "},\"step\":\"s" n \
	"\"}"
#define COMPLETED "{\"type\":\"completed\",\"outputs\":{}}"
#define PAUSED "{\"type\":\"paused\",\"reason\":\"rest\"}"

#endif
