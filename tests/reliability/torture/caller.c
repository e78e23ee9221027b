/* SPDX-License-Identifier: MIT */
/* caller.c: callers of the torture and the soak: what they say, and the check of what they got. Each submit
 * is said until the broker has taken it, and then never again, unless the nemesis destroyed the queue that
 * had it (or the plan wants a repetition): so an answer that is missing at the end is a command that was
 * acknowledged and lost. Never looks at the store or at processes (watch.c). */
#include "caller_private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "violations.h"

#define TRY_AGAIN_S 0.3 /* the broker did not take it */
#define REPEAT_S 2.0    /* no answer, and its queue was deleted */
#define FORGET_S 30.0   /* gentle: what ended so long ago is checked and let go */

static atomic_uint epoch; /* how often commands may have been lost by the nemesis' doing */

/* --- saying --- */

static void make_uuid(char text[40])
{
	unsigned char b[16];

	if (getrandom(b, sizeof b, 0) != sizeof b)
		abort();
	snprintf(text, 40, "%02x%02x%02x%02x-%02x%02x-4%x%02x-a%x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
		b[2], b[3], b[4], b[5], b[6] & 15u, b[7], b[8] & 15u, b[9], b[10], b[11], b[12], b[13], b[14],
		b[15]);
}

/* An envelope around payload (taken); the text is the caller's. */
static char *make_envelope(const char *id, const char *type, const char *session, json_t *payload)
{
	char stamp[40], whole[80];
	struct timespec ts;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(whole, sizeof whole, "%s.%03ldZ", stamp, ts.tv_nsec / 1000000);
	json_t *m = json_pack("{s:s,s:s,s:s,s:s?,s:s,s:o}", "hcp_version", "1.0", "message_id", id,
		"timestamp", whole, "session_id", session, "type", type, "payload", payload);
	char *body = json_dumps(m, JSON_COMPACT);
	json_decref(m);
	return body;
}

/* A task that is to be said; taken by the table. With the lock held. */
static struct task *add_task(struct caller *c, const struct order *o)
{
	struct task *t = calloc(1, sizeof *t);

	t->order = *o;
	make_uuid(t->id);
	t->body = make_envelope(t->id, "task_submit", NULL,
		json_pack("{s:s,s:s,s:s,s:o}", "capability", o->capability, "caller_id", c->id, "intent",
			o->kind, "inputs", o->inputs));
	t->order.inputs = NULL;
	t->size = strlen(t->body);
	t->first_at = harness_now();
	HASH_ADD_STR(c->tasks, id, t);
	c->sum.submits++;
	return t;
}

static bool is_over(const struct task *t)
{
	return t->answered && (t->rejected || t->closed_at > 0);
}

static bool submit_is_due(const struct task *t, double now)
{
	if (!t->said)
		return now - t->said_at > TRY_AGAIN_S;
	if (t->order.twice && t->said == 1)
		return now - t->said_at > (t->id[0] < '8' ? 0.0 : 1.5);
	return !t->answered && t->epoch != epoch && now - t->said_at > REPEAT_S;
}

static bool abort_is_due(const struct task *t, double now)
{
	if (!t->answered || t->rejected || t->closed_at > 0 || t->order.abort_after < 0 || !t->token)
		return false;
	if (!t->aborted)
		return now - t->answered_at > t->order.abort_after && now - t->abort_at > TRY_AGAIN_S;
	return !t->order.wrong_token && t->abort_epoch != epoch && now - t->abort_at > REPEAT_S;
}

static bool publish(
	struct caller *c, amqp_connection_state_t *pub, const char *body, size_t size, const char *id)
{
	amqp_basic_properties_t props = {._flags = AMQP_BASIC_CONTENT_TYPE_FLAG |
			AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG,
		.delivery_mode = 2};

	props.content_type = amqp_cstring_bytes("application/json");
	props.message_id = amqp_cstring_bytes(id);
	if (!*pub && (*pub = wire_connect(&c->broker)) &&
		!(wire_declare_exchanges(*pub) && wire_confirms(*pub)))
		wire_disconnect(pub);
	if (!*pub) {
		usleep(100000);
		return false;
	}
	int rc = wire_publish(*pub, "hcp.commands", c->rig->callee, &props, body, size);
	if (rc == -1)
		wire_disconnect(pub);
	return rc == 1;
}

static void say_submit(struct caller *c, amqp_connection_state_t *pub, struct task *t)
{
	unsigned before = epoch; /* a deletion while it is under way counts as one after it */

	pthread_mutex_unlock(&c->lock);
	bool taken = publish(c, pub, t->body, t->size, t->id);
	pthread_mutex_lock(&c->lock);
	t->said_at = harness_now();
	if (!taken)
		return;
	c->sum.repeats += t->said > 0;
	t->said++;
	t->epoch = before;
}

static void say_abort(struct caller *c, amqp_connection_state_t *pub, struct task *t)
{
	char id[40];
	unsigned before = epoch;

	make_uuid(id);
	char *body = make_envelope(id, "abort", t->session,
		json_pack("{s:s}", "session_token", t->order.wrong_token ? "not-a-token" : t->token));
	pthread_mutex_unlock(&c->lock);
	bool taken = publish(c, pub, body, strlen(body), id);
	pthread_mutex_lock(&c->lock);
	free(body);
	t->abort_at = harness_now();
	if (!taken)
		return;
	c->sum.aborts += !t->aborted;
	t->aborted = true;
	t->abort_epoch = before;
}

/* One thing that is due, or a new submit; false where there is nothing to say. With the lock held. */
static bool say_something(struct caller *c, amqp_connection_state_t *pub)
{
	double now = harness_now();
	long open = 0;

	for (struct task *t = c->tasks; t; t = t->hh.next) {
		open += !is_over(t);
		if (submit_is_due(t, now)) {
			say_submit(c, pub, t);
			return true;
		}
		if (abort_is_due(t, now)) {
			say_abort(c, pub, t);
			return true;
		}
	}
	if (!c->submits || open >= c->plan.most_open || now < c->next_at)
		return false;
	struct order o;
	mix_draw(&c->seed, c->plan.gentle, &o);
	c->next_at = (now > c->next_at + 1 ? now : c->next_at) + mix_some(&c->seed, 2.0 / c->plan.rate);
	say_submit(c, pub, add_task(c, &o));
	return true;
}

static void task_free(struct caller *c, struct task *t)
{
	HASH_DEL(c->tasks, t);
	free(t->token);
	free(t->body);
	free(t);
}

static void heard_free(struct caller *c, struct heard *h)
{
	HASH_DEL(c->sessions, h);
	free(h->stream.moments);
	free(h);
}

static void check_task(struct caller *c, struct task *t, bool at_the_end)
{
	const char *state = t->heard ? stream_state(&t->heard->stream) : "";

	if (!t->answered && t->said)
		violation("each submit answered",
			"%s of %s (%s), taken by the broker %d times, was never answered", t->id, c->id,
			t->order.kind, t->said);
	if (t->heard)
		stream_check(&t->heard->stream, at_the_end || t->closed_at > 0);
	if (strcmp(state, "ABORTED") == 0 && !t->wished && (!t->aborted || t->order.wrong_token))
		violation("abort is the caller's", "%s (%s) was aborted without a valid wish", t->session,
			t->order.kind);
	c->sum.completed += strcmp(state, "COMPLETED") == 0;
	c->sum.failed += strcmp(state, "FAILED") == 0;
	c->sum.aborted += strcmp(state, "ABORTED") == 0;
}

/* What is over for long can get no message any more, where nothing goes wrong. */
static void forget_old(struct caller *c)
{
	struct task *t, *next;
	double before = harness_now() - FORGET_S;

	HASH_ITER(hh, c->tasks, t, next) {
		if (!is_over(t) || t->answered_at > before || (!t->rejected && t->closed_at > before))
			continue;
		check_task(c, t, true);
		if (t->heard)
			heard_free(c, t->heard);
		task_free(c, t);
	}
}

static void *run_sayer(void *arg)
{
	struct caller *c = arg;
	amqp_connection_state_t pub = NULL;
	double swept = 0;

	while (!c->stop) {
		pthread_mutex_lock(&c->lock);
		bool any = say_something(c, &pub);
		if (c->plan.gentle && harness_now() - swept > 1) {
			swept = harness_now();
			forget_old(c);
		}
		pthread_mutex_unlock(&c->lock);
		if (!any)
			usleep(5000);
	}
	wire_disconnect(&pub);
	return NULL;
}

/* --- the outside --- */

struct caller *caller_new(struct rig *r, const struct caller_plan *plan)
{
	struct caller *c = calloc(1, sizeof *c);
	amqp_connection_state_t conn = wire_connect(r->broker);

	c->plan = *plan;
	c->rig = r;
	c->broker = *r->broker;
	c->seed = plan->seed;
	c->any_order = plan->queue_args[0] != 0;
	snprintf(c->id, sizeof c->id, "%s", plan->name);
	snprintf(c->queue, sizeof c->queue, "hcp.evt.%s", plan->name);
	pthread_mutex_init(&c->lock, NULL);
	must(conn && hearer_declare(c, conn), "no queue for %s", c->id);
	wire_disconnect(&conn);
	if (plan->keep_tape) {
		c->tape = fopen(rig_path(r, "messages-%s", plan->name), "w");
		must(c->tape, "no tape for %s", c->id);
	}
	must(pthread_create(&c->sayer, NULL, run_sayer, c) == 0 &&
			pthread_create(&c->hearer, NULL, hearer_run, c) == 0,
		"no thread");
	return c;
}

void caller_go(struct caller *c, bool submits)
{
	c->submits = submits;
}

void caller_hear(struct caller *c, bool on)
{
	c->deaf = !on;
}

void caller_expect_disorder(struct caller *c)
{
	c->any_order = true;
}

void caller_bind_again(struct caller *c)
{
	c->rebind = true;
}

void callers_may_repeat(void)
{
	epoch++;
}

void caller_submit_one(struct caller *c, const struct order *o, char id[40])
{
	pthread_mutex_lock(&c->lock);
	snprintf(id, 40, "%s", add_task(c, o)->id);
	pthread_mutex_unlock(&c->lock);
}

bool caller_find(struct caller *c, const char *id, char session[40], char token[2048])
{
	struct task *t;

	pthread_mutex_lock(&c->lock);
	HASH_FIND_STR(c->tasks, id, t);
	bool found = t && t->answered && !t->rejected && t->token;
	if (found) {
		snprintf(session, 40, "%s", t->session);
		snprintf(token, 2048, "%s", t->token);
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}

void caller_expect_abort(struct caller *c, const char *id)
{
	struct task *t;

	pthread_mutex_lock(&c->lock);
	HASH_FIND_STR(c->tasks, id, t);
	if (t)
		t->wished = true;
	pthread_mutex_unlock(&c->lock);
}

bool caller_is_over(struct caller *c)
{
	bool over = true;

	pthread_mutex_lock(&c->lock);
	for (struct task *t = c->tasks; t && over; t = t->hh.next)
		over = is_over(t);
	pthread_mutex_unlock(&c->lock);
	return over;
}

struct caller_sum caller_sum(struct caller *c)
{
	pthread_mutex_lock(&c->lock);
	struct caller_sum sum = c->sum;
	pthread_mutex_unlock(&c->lock);
	return sum;
}

const char *caller_name(const struct caller *c)
{
	return c->id;
}

void caller_check(struct caller *c, caller_failed_fn *fn, void *ctx)
{
	c->stop = true;
	pthread_join(c->sayer, NULL);
	pthread_join(c->hearer, NULL);
	if (c->tape)
		fclose(c->tape);
	for (struct task *t = c->tasks; t; t = t->hh.next) {
		check_task(c, t, true);
		if (fn && t->heard && !t->order.may_fail &&
			strcmp(stream_state(&t->heard->stream), "FAILED") == 0)
			fn(ctx, t->session, t->order.kind, "FAILED", t->first_at, t->closed_at);
		if (fn && t->excuse[0])
			fn(ctx, t->id, t->order.kind, t->excuse, t->first_at, t->answered_at);
	}
	for (struct heard *h = c->sessions; h; h = h->hh.next)
		if (!h->task)
			violation("one session a submit", "%s belongs to no submit of %s", h->stream.session,
				c->id);
}

void caller_each(struct caller *c, caller_submit_fn *fn, void *ctx)
{
	for (struct task *t = c->tasks; t; t = t->hh.next)
		if (t->said)
			fn(ctx, c->id, t->id, t->session);
}

void caller_free(struct caller *c)
{
	struct task *t, *next;
	struct heard *h, *after;

	HASH_ITER(hh, c->tasks, t, next)
		task_free(c, t);
	HASH_ITER(hh, c->sessions, h, after)
		heard_free(c, h);
	free(c);
}
