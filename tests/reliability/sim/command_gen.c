/* SPDX-License-Identifier: MIT */
/* command_gen.c: commands of callers: submits good, bad, doubled and garbage; aborts by those who may and
 * those who may not. Owns what each may be answered with. Never delivers one (fake_broker.c). */
#include "sim.h"

#define CODE(c) (1u << ((int)(c) - (int)CODE_ACCEPTED))
#define MAYBE (CODE(CODE_ACCEPTED) | CODE(CODE_NO_ROOM))
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- submits ---- */

static const char *const capabilities[] = {"work", "again", "never", "plain", "reused", "reused", "narrow",
	"brief", "moved", "moved", "moved", "bounded", "bounded", "asked"};
static const char *const gammas[] = {"asked", "asked", "grave", "grave", "bounded"};
static const char *const betas[] = {"work", "plain", "reused"};
static const char *const constraints[] = {
	"",
	"",
	"",
	",\"constraints\":{\"priority\":\"high\"}",
	",\"constraints\":{\"max_duration\":\"PT5S\"}",
	",\"constraints\":{\"priority\":\"low\",\"max_duration\":\"PT0.5S\"}",
	(",\"constraints\":{\"max_duration\":\"PT1M30S\",\"priority\":\"urgent\",\"confidence_threshold\":0."
	 "5}"),
};

static const struct bad_submit {
	const char *caller, *user, *capability, *inputs, *more, *version;
	enum expect expect;
	enum covered code;
} bad_submits[] = {
	{"alpha", NULL, "nothing", "{}", "", "1.0", EXPECT_VERDICT, CODE_UNKNOWN},
	{"beta", "beta-user", "again", "{}", "", "1.0", EXPECT_VERDICT, CODE_FORBIDDEN},
	{"alpha", NULL, "risky", "{}", "", "1.0", EXPECT_VERDICT, CODE_RISK},
	{"nobody", NULL, "work", "{}", "", "1.0", EXPECT_REFUSAL, CODE_UNAUTHORIZED},
	{"beta", "mallory", "work", "{}", "", "1.0", EXPECT_REFUSAL, CODE_UNAUTHORIZED},
	{"beta", NULL, "work", "{}", "", "1.0", EXPECT_REFUSAL, CODE_UNAUTHORIZED},
	{"alpha", NULL, "work", "5", "", "1.0", EXPECT_VERDICT, CODE_INVALID},
	{"alpha", NULL, "work", "{}", ",\"constraints\":{\"max_duration\":\"1 hour\"}", "1.0", EXPECT_VERDICT,
		CODE_INVALID},
	{"alpha", NULL, "work", "{}", "", "2.0", EXPECT_VERDICT, CODE_VERSION},
	{"alpha", NULL, "work", "{}", ",\"capability_version\":\"9.x\"", "1.0", EXPECT_VERDICT, CODE_UNKNOWN},
	{"alpha", NULL, "work", "{}", ",\"constraints\":{\"data_classification\":\"T3\"}", "1.0",
		EXPECT_VERDICT, CODE_POLICY},
};

static void write_submit(
	struct order *o, const char *capability, const char *inputs, const char *more, const char *version)
{
	struct buf b = {0};

	buf_addf(&b,
		"{\"hcp_version\":\"%s\",%s%s%s\"timestamp\":\"2026-01-31T12:00:00.000Z\",\"session_id\":"
		"null,"
		"\"type\":\"task_submit\",\"payload\":{\"capability\":\"%s\",\"caller_id\":\"%s\",\"intent\":"
		"\"do it\","
		"\"inputs\":%s%s}}",
		version, o->message_id[0] != '\0' ? "\"message_id\":\"" : "", o->message_id,
		o->message_id[0] != '\0' ? "\"," : "", capability, o->caller, inputs, more);
	o->body = b.data;
	o->size = b.size;
	o->is_submit = true;
	sim_trace("submit %s of %s: %s%s", o->message_id, o->caller, capability, more);
}

/* What a task of it may be answered with, now or after a reload. */
static unsigned codes_of(const char *capability)
{
	unsigned codes = MAYBE;

	if (strcmp(capability, "narrow") == 0)
		codes |= CODE(CODE_UNKNOWN);
	if (strcmp(capability, "asked") == 0)
		codes |= CODE(CODE_RISK);
	if (strcmp(capability, "asked") == 0 || strcmp(capability, "grave") == 0 ||
		setup_has_program(false) || setup_has_program(true))
		codes |= CODE(CODE_POLICY) | CODE(CODE_DENIED) | CODE(CODE_EXPIRED);
	return codes;
}

static void submit_good(void)
{
	bool gamma = sim_chance(4), beta = !gamma && sim_chance(4);
	struct order *o = broker_queue(EXPECT_VERDICT,
		gamma        ? "gamma" :
			beta ? "beta" :
			       "alpha",
		beta ? "beta-user" : NULL);
	const char *capability = gamma ? gammas[sim_choose(COUNT(gammas))] :
		beta                   ? betas[sim_choose(COUNT(betas))] :
					 capabilities[sim_choose(COUNT(capabilities))];

	if (o == NULL)
		return;
	snprintf(o->message_id, sizeof o->message_id, "m%zu", sim.order_count);
	o->codes = codes_of(capability);
	write_submit(o, capability, "{}", constraints[sim_choose(COUNT(constraints))], "1.0");
}

void orders_submit_simple(void)
{
	static const char *const simple[] = {"work", "plain", "reused"};
	struct order *o = setup_has_program(false) || setup_has_program(true) ?
		NULL :
		broker_queue(EXPECT_VERDICT, "alpha", NULL);

	if (o == NULL)
		return;
	snprintf(o->message_id, sizeof o->message_id, "m%zu", sim.order_count);
	o->codes = MAYBE;
	write_submit(o, simple[sim_choose(COUNT(simple))], "{}", "", "1.0");
}

void orders_submit_moved(void)
{
	struct order *o = broker_queue(EXPECT_VERDICT, "alpha", NULL);

	if (o == NULL)
		return;
	snprintf(o->message_id, sizeof o->message_id, "m%zu", sim.order_count);
	o->codes = codes_of("moved");
	write_submit(o, "moved", "{}", "", "1.0");
}

static void submit_bad(void)
{
	const struct bad_submit *bad = &bad_submits[sim_choose(COUNT(bad_submits))];
	struct order *o = broker_queue(bad->expect, bad->caller, bad->user);

	if (o == NULL)
		return;
	/* What strangers say has ids of its own: they do not use up another's. */
	snprintf(o->message_id, sizeof o->message_id, "%c%zu", bad->expect == EXPECT_VERDICT ? 'm' : 'x',
		sim.order_count);
	o->codes = CODE(bad->code);
	write_submit(o, bad->capability, bad->inputs, bad->more, bad->version);
}

static void submit_without_id(void)
{
	struct order *o = broker_queue(EXPECT_REFUSAL, "alpha", NULL);

	if (o == NULL)
		return;
	o->codes = CODE(CODE_INVALID);
	write_submit(o, "work", "{}", "", "1.0");
}

static void submit_garbage(void)
{
	static const char *const texts[] = {"this is no JSON", "[1,2,3]", "{\"hcp_version\":\"1.0\"}", "",
		("{\"hcp_version\":\"1.0\",\"message_id\":\"g\",\"timestamp\":\"2026-01-31T12:00:00.000Z\","
		 "\"session_id\":null,"
		 "\"type\":\"task_submit\",\"payload\":{\"capability\":\"work\",\"caller_id\":\"a.#\","
		 "\"intent\":\"\",\"inputs\":{}}}")};
	const char *text = texts[sim_choose(COUNT(texts))];
	struct order *o = broker_queue(EXPECT_DROP, "?", NULL);

	if (o == NULL)
		return;
	cover(SUBMIT_DROPPED);
	o->body = text[0] != '\0' ? xstrdup(text) : NULL; /* NULL: larger than any message may be */
	o->size = text[0] != '\0' ? strlen(text) : 10 << 20;
	o->is_submit = true;
	sim_trace("submit garbage: %.20s", text);
}

const struct order *orders_repeat(size_t i)
{
	struct order *o = broker_queue(EXPECT_VERDICT, sim.orders[i].caller, sim.orders[i].user);
	const struct order *first = &sim.orders[i];

	if (o == NULL)
		return NULL;
	memcpy(o->message_id, first->message_id, sizeof o->message_id);
	o->codes = first->codes;
	o->body = xstrndup(first->body, first->size);
	o->size = first->size;
	o->is_submit = true;
	sim_trace("submit %s of %s again", o->message_id, o->caller);
	return o;
}

static bool is_undecided(const struct order *o)
{
	struct jsubmit *n;
	char key[64];

	snprintf(key, sizeof key, "%.32s %.30s", o->caller, o->message_id);
	HASH_FIND_STR(watch.submits, key, n);
	return n != NULL && n->answer == 0;
}

/* The same message_id again: as the same bytes, or for another task. */
static void submit_again(void)
{
	size_t i = sim.order_count > 0 ? sim_choose((unsigned)sim.order_count) : 0;
	const struct order *first = &sim.orders[i];
	struct order *o;

	if (i >= sim.order_count || !first->is_submit || first->expect != EXPECT_VERDICT)
		return;
	if (is_undecided(first))
		cover(SUBMIT_DUP_WAITING);
	cover(first->state != DONE                 ? SUBMIT_DUP_QUEUED :
			first->born_in < sim.lives ? SUBMIT_DUP_LATER_LIFE :
						     SUBMIT_DUP_ANSWERED);
	if (!sim_chance(5)) {
		orders_repeat(i);
	} else if ((o = broker_queue(EXPECT_VERDICT, first->caller, first->user)) != NULL) {
		cover(SUBMIT_DUP_OTHER);
		memcpy(o->message_id, first->message_id, sizeof o->message_id);
		o->codes = first->codes | codes_of("work");
		write_submit(o, "work", "{}", "", "1.0");
	}
}

void orders_submit(void)
{
	switch (sim_choose(12)) {
	case 0:
	case 1: submit_bad(); break;
	case 2:
	case 3: submit_again(); break;
	case 4:
		if (sim_chance(2))
			submit_garbage();
		else
			submit_without_id();
		break;
	default: submit_good();
	}
}

/* ---- aborts ---- */

static void write_abort(struct order *o, const char *session_id, const char *token)
{
	struct buf b = {0};

	snprintf(o->message_id, sizeof o->message_id, "a%zu", sim.order_count);
	snprintf(o->session_id, sizeof o->session_id, "%s", session_id);
	buf_addf(&b,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"%s\",\"timestamp\":\"2026-01-31T12:00:00.000Z\","
		"\"session_id\":\"%s\",\"type\":\"abort\",\"payload\":{",
		o->message_id, session_id);
	if (token != NULL)
		buf_addf(&b, "\"session_token\":\"%s\"", token);
	buf_add_text(&b, "}}");
	o->body = b.data;
	o->size = b.size;
}

static void note_abort(struct jsession *s)
{
	cover(ABORT_RIGHT);
	if (s->abort_came)
		cover(ABORT_DOUBLE);
	if (oracle_is_final(s->state))
		cover(ABORT_ENDED);
	else if (s->has_outcome)
		cover(ABORT_RACING);
	if (strcmp(s->state, "PENDING") == 0)
		cover(ABORT_PENDING);
	if (sim.core.phase.is_stopping)
		cover(ABORT_STOPPING);
	s->abort_came = true;
}

/* Any, but rather one that is not over; NULL where there is none at all. */
static struct jsession *some_session(void)
{
	struct jsession *s = NULL;

	for (unsigned tries = 1 + sim_choose(3); tries > 0 && watch.session_count > 0; tries--) {
		s = &watch.sessions[1 + sim_choose((unsigned)watch.session_count)];
		if (!oracle_is_final(s->state))
			return s;
	}
	return s;
}

void orders_abort(void)
{
	unsigned how = sim_choose(8);
	struct jsession *s = some_session();
	bool beta = s != NULL && strcmp(s->caller, "beta") == 0;
	struct order *o;

	if (s == NULL && how != 0)
		return;
	if (how == 0) {
		cover(ABORT_UNKNOWN);
		if ((o = broker_queue(EXPECT_NOTHING, "alpha", NULL)) != NULL)
			write_abort(o, "11111111-2222-4333-8444-555555555555", NULL);
	} else if (how == 1) {
		cover(ABORT_WRONG_TOKEN);
		if ((o = broker_queue(EXPECT_NOTHING, s->caller, beta ? "beta-user" : NULL)) != NULL)
			write_abort(o, s->id, sim_chance(2) ? "forged" : watch.sessions[1].id);
	} else if (how == 2 && beta) {
		cover(ABORT_FOREIGN);
		if ((o = broker_queue(EXPECT_NOTHING, s->caller, sim_chance(2) ? "mallory" : NULL)) != NULL)
			write_abort(o, s->id, NULL);
	} else if (s->waits[0] != '\0') { /* it has no effect, unless it is accepted before that comes */
		cover(ABORT_UNDECIDED);
		s->abort_came = true;
		if ((o = broker_queue(EXPECT_NOTHING, s->caller, beta ? "beta-user" : NULL)) != NULL)
			write_abort(o, s->id, NULL);
	} else if ((o = broker_queue(EXPECT_ABORT, s->caller, beta && how < 6 ? "beta-user" : NULL)) !=
		NULL) {
		note_abort(s);
		write_abort(o, s->id, how >= 6 ? s->token : NULL);
	}
	if (s != NULL)
		sim_trace("abort session %.8s of %s (%u)", s->id, s->caller, how);
}
