/* outbox.c: from the commit to the broker's confirm, in order for each caller.
 * Owns the in-flight window, the retry clocks and the watermarks. Never composes an event but the one
 * that stands in for an unpublishable one; never touches a socket (bus.c).
 *
 * A caller has a line: entries in order of their ids, each waiting, sent or settled. What is settled at
 * the line's head is dropped, and its id is the caller's watermark: everything up to it is done with. A
 * line is the beginning of what the store holds; where it is not all of it the caller lags, and the line
 * is filled from the store as it gets short. Beside it stands a short second line for what goes out
 * again: unroutable messages that are tried once more, and answers that were asked for twice. */
#include "outbox.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>
#include <utlist.h>

#include "clock.h"
#include "codec.h"
#include "log.h"

#define SECOND 1000000
#define BACKOFF_MIN (1 * SECOND)
#define BACKOFF_MAX (60 * SECOND)
#define LOAD_ROWS 256                   /* read from the store at a time */
#define LINE_MAX 4096                   /* entries of one caller in memory ... */
#define MEMORY_MAX (8 << 20)            /* ... and bodies of all, but one entry each is always allowed */
#define ADDRESSEES_MAX 4096             /* idle ones above that are forgotten; the store knows them */
#define REPEATS_MAX 64                  /* answers asked for again and not yet gone, for one caller */
#define TURN_SHARE 64                   /* entries in a row for one caller before the next has its turn */

enum state { WAITING, SENT, SETTLED, HELD };    /* HELD: its substitute is not committed yet */
enum kind { LIVE, AGAIN, REPEAT };

struct entry {
	struct bus_out out;             /* first: the bus gives back a pointer to it */
	struct entry *prev, *next;      /* in its line */
	struct entry *also;             /* in ob->fresh, ob->lost or ob->held */
	struct addressee *to;
	int64_t id, session, sent_at_us;
	struct blob *body;
	enum state state;
	enum kind kind;
	bool suspect;                   /* was in flight when the broker closed the channel */
	unsigned char refusals;         /* 406 with this one alone in flight */
};

struct addressee {
	UT_hash_handle hh;
	int64_t key;
	struct outbox *ob;
	struct entry *line, *second;    /* lists; the head's prev is the tail */
	struct entry *cursor;           /* nothing before it waits; NULL: nothing in the line waits */
	size_t line_count, second_count;
	int64_t loaded;                 /* the line's last id, or the watermark */
	int64_t last;                   /* the store's last id; loaded < last: lagging */
	int64_t confirmed;
	bool unsaved;                   /* the store has an older watermark; in ob->unsaved */
	struct addressee *unsaved_next;
	unsigned sent, limit;           /* in flight, and how many may be; 1 after a nack, then doubling */
	int64_t backoff_us;
	struct timer retry;             /* set: nothing is sent until it fires */
	bool unroutable;                /* the store has some of this caller */
	int64_t probed;                 /* unroutable rows up to this one are in the second line or done */
	int64_t probe_backoff_us;
	struct timer probe;
	struct addressee *ring_prev, *ring_next;
	bool in_ring;                   /* has something to send, perhaps */
	char caller_id[CALLER_ID_SIZE];
};

struct outbox {
	struct store *store;
	struct bus *bus;
	struct timers *timers;
	const struct outbox_ops *ops;
	void *ctx;
	struct addressee *all, *ring;
	struct entry *fresh, **fresh_end, *lost, *held;
	unsigned window;
	int64_t window_bytes;
	bool up;
	unsigned in_flight, suspects;
	int64_t in_flight_bytes, memory_bytes, waiting_bytes;
	int64_t last_event, last_caller;
	struct addressee *unsaved;
	struct outbox_stats stats;
};

/* ---- addressees ---- */

static void on_retry(struct timer *t);
static void on_probe(struct timer *t);

static void ring_add(struct addressee *a)
{
	if (!a->in_ring) {
		DL_APPEND2(a->ob->ring, a, ring_prev, ring_next);
		a->in_ring = true;
	}
}

static void ring_remove(struct addressee *a)
{
	if (a->in_ring) {
		DL_DELETE2(a->ob->ring, a, ring_prev, ring_next);
		a->in_ring = false;
	}
}

static bool is_idle(const struct addressee *a)
{
	return a->line == NULL && a->second == NULL && a->loaded == a->last && !a->unsaved
		&& a->confirmed == a->last && !a->unroutable && !timer_is_set(&a->retry);
}

static void addressee_free(struct addressee *a)
{
	timer_cancel(a->ob->timers, &a->retry);
	timer_cancel(a->ob->timers, &a->probe);
	ring_remove(a);
	HASH_DEL(a->ob->all, a);
	free(a);
}

/* Callers come and go, and anybody can claim a name: memory must not grow with their number. */
static void forget_idle(struct outbox *ob)
{
	struct addressee *a, *tmp;

	HASH_ITER (hh, ob->all, a, tmp)
		if (is_idle(a))
			addressee_free(a);
}

static struct addressee *addressee_new(struct outbox *ob, const char *caller_id, int64_t key)
{
	struct addressee *a;

	if (HASH_COUNT(ob->all) >= ADDRESSEES_MAX)
		forget_idle(ob);
	a = xcalloc(1, sizeof *a);
	a->key = key;
	a->ob = ob;
	a->limit = ob->window;
	a->retry.on_due = on_retry;
	a->probe.on_due = on_probe;
	snprintf(a->caller_id, sizeof a->caller_id, "%s", caller_id);
	HASH_ADD_STR(ob->all, caller_id, a);
	return a;
}

struct addressee *outbox_addressee(struct outbox *ob, const char *caller_id)
{
	struct addressee *a;
	int64_t key, confirmed = 0, last = 0;

	HASH_FIND_STR(ob->all, caller_id, a);
	if (a != NULL)
		return a;
	key = store_find_caller(ob->store, caller_id, &confirmed, &last);
	if (key == 0) {
		key = ++ob->last_caller;
		store_put_caller(ob->store, key, caller_id);
	}
	a = addressee_new(ob, caller_id, key);
	a->confirmed = a->loaded = a->last = last > confirmed ? last : confirmed;   /* it was idle when forgotten */
	return a;
}

int64_t addressee_key(const struct addressee *a)
{
	return a->key;
}

/* ---- entries ---- */

static const char *static_type(const char *type)
{
	static const char *const types[] = {"event", "task_accepted", "task_rejected", "task_completed", "task_failed"};

	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strcmp(types[i], type) == 0)
			return types[i];
	assert(!"type of a message of ours");
	return NULL;
}

/* Takes the body's reference. */
static struct entry *entry_new(struct addressee *a, enum kind kind, const struct store_event *e, struct blob *body)
{
	struct entry *n = xcalloc(1, sizeof *n);
	struct codec_head head = {.timestamp_s = 0};

	n->to = a;
	n->kind = kind;
	n->id = e->id;
	n->session = e->session;
	n->body = body;
	if (!codec_peek(body->data, body->size, &head))
		log_error("an event in the store is no message of ours, publishing it as it is: event=%lld", (long long)e->id);
	n->out.type = static_type(e->type);
	snprintf(n->out.key, sizeof n->out.key, "%s.%s.%s", a->caller_id, e->session_id != NULL ? e->session_id : "-",
		n->out.type);
	memcpy(n->out.message_id, head.message_id, sizeof n->out.message_id);
	snprintf(n->out.correlation_id, sizeof n->out.correlation_id, "%s", e->session_id != NULL ? e->session_id : "");
	n->out.timestamp_s = head.timestamp_s;
	n->out.body = body->data;
	n->out.size = body->size;
	a->ob->memory_bytes += body->size;
	return n;
}

static void entry_free(struct entry *n)
{
	n->to->ob->memory_bytes -= n->body->size;
	blob_unref(n->body);
	free(n);
}

static void line_append(struct addressee *a, struct entry *n)
{
	DL_APPEND(a->line, n);
	a->line_count++;
	a->loaded = n->id;
	if (a->cursor == NULL)
		a->cursor = n;
	ring_add(a);
}

static void second_append(struct addressee *a, struct entry *n)
{
	DL_APPEND(a->second, n);
	a->second_count++;
	ring_add(a);
}

static void second_remove(struct entry *n)
{
	struct addressee *a = n->to;

	DL_DELETE(a->second, n);
	a->second_count--;
	entry_free(n);
}

static bool memory_is_full(const struct addressee *a)
{
	return a->line_count >= LINE_MAX || (a->ob->memory_bytes >= MEMORY_MAX && a->line != NULL);
}

/* ---- in: from the core ---- */

int64_t outbox_put(struct outbox *ob, struct addressee *a, struct store_event *e)
{
	struct entry *n;

	e->id = ++ob->last_event;
	e->caller = a->key;
	store_put_event(ob->store, e);
	n = entry_new(a, LIVE, e, blob_ref(e->body));
	*ob->fresh_end = n;
	ob->fresh_end = &n->also;
	ob->waiting_bytes += e->body->size;
	return e->id;
}

void outbox_release(struct outbox *ob)
{
	struct entry *n, *next;

	for (n = ob->fresh; n != NULL; n = next) {
		struct addressee *a = n->to;
		bool live = a->loaded == a->last && !memory_is_full(a);

		next = n->also;
		n->also = NULL;
		a->last = n->id;
		if (live)
			line_append(a, n);
		else
			entry_free(n);  /* the store has it */
		ring_add(a);
	}
	ob->fresh = NULL;
	ob->fresh_end = &ob->fresh;
	for (n = ob->held; n != NULL; n = next) {
		next = n->also;
		n->also = NULL;
		n->state = WAITING;
		n->to->cursor = n->to->line;
		ring_add(n->to);
	}
	ob->held = NULL;
}

struct loading {
	struct addressee *a;
	enum kind kind;
	int rows;
};

static void on_row(void *ctx, const struct store_event *e)
{
	struct loading *l = ctx;
	struct entry *n = entry_new(l->a, l->kind, e, blob_new(e->bytes, e->size));

	l->rows++;
	if (l->kind == LIVE)
		line_append(l->a, n);
	else
		second_append(l->a, n);
	if (l->kind == AGAIN)
		l->a->probed = e->id;
}

void outbox_repeat(struct outbox *ob, struct addressee *a, int64_t event)
{
	struct loading l = {a, REPEAT, 0};

	/* Not yet confirmed: it comes anyway. Too many repeats wait already: the caller asks again. */
	if (event > a->confirmed || a->second_count >= REPEATS_MAX)
		return;
	if (store_load_event(ob->store, event, on_row, &l) < 0)
		log_warn("an answer cannot be read and is not repeated: event=%lld error=%s", (long long)event,
			store_error(ob->store));
}

/* ---- out: to the bus ---- */

static void refill(struct addressee *a)
{
	struct loading l = {a, LIVE, 0};

	if (a->loaded >= a->last || a->line_count > LOAD_ROWS / 2 || memory_is_full(a))
		return;
	if (store_load_events(a->ob->store, a->key, a->loaded, LOAD_ROWS, on_row, &l) < 0) {
		log_warn("the outbox cannot be read, trying again: error=%s", store_error(a->ob->store));
		timer_set(a->ob->timers, &a->retry, clock_boot_us() + BACKOFF_MIN);
	} else if (l.rows < LOAD_ROWS) {
		a->loaded = a->last;
	}
}

static struct entry *next_waiting(struct addressee *a)
{
	struct entry *n;

	DL_FOREACH(a->second, n)
		if (n->state == WAITING)
			return n;
	while (a->cursor != NULL && a->cursor->state != WAITING)
		a->cursor = a->cursor->next;
	if (a->cursor == NULL) {
		struct entry *tail = a->line != NULL ? a->line->prev : NULL;

		refill(a);
		if (a->cursor == NULL && tail != NULL)
			a->cursor = tail->next;
	}
	return a->cursor;
}

static bool may_send(const struct outbox *ob, const struct addressee *a)
{
	unsigned window = ob->suspects > 0 ? 1 : ob->window;

	return ob->in_flight < window && a->sent < a->limit && !timer_is_set(&a->retry)
		&& (ob->in_flight_bytes < ob->window_bytes);
}

static void send(struct outbox *ob, struct entry *n, struct bus_out ***tail)
{
	n->state = SENT;
	n->sent_at_us = clock_boot_us();
	n->out.next = NULL;
	n->to->sent++;
	ob->in_flight++;
	ob->in_flight_bytes += (int64_t)n->out.size;
	**tail = &n->out;
	*tail = &n->out.next;
}

void outbox_pump(struct outbox *ob)
{
	struct bus_out *list = NULL, **tail = &list;
	struct addressee *a, *next;
	bool more = true;

	/* Round and round the ring, a share each, so that nobody's backlog is in anybody's way. */
	while (ob->up && more && ob->ring != NULL) {
		more = false;
		DL_FOREACH_SAFE2(ob->ring, a, next, ring_next) {
			struct entry *n = NULL;
			int share = 0;

			while (share < TURN_SHARE && may_send(ob, a) && (n = next_waiting(a)) != NULL) {
				send(ob, n, &tail);
				share++;
			}
			if (share == TURN_SHARE)
				more = true;
			if (n == NULL && may_send(ob, a))
				ring_remove(a);         /* nothing waits */
		}
	}
	if (list != NULL)
		bus_publish(ob->bus, list);
}

/* ---- back: from the bus ---- */

static void advance(struct addressee *a)
{
	struct outbox *ob = a->ob;

	while (a->line != NULL && a->line->state == SETTLED) {
		struct entry *n = a->line;

		DL_DELETE(a->line, n);
		a->line_count--;
		a->confirmed = n->id;
		if (a->cursor == n)
			a->cursor = n->next;
		entry_free(n);
	}
	if (!a->unsaved) {
		a->unsaved = true;
		a->unsaved_next = ob->unsaved;
		ob->unsaved = a;
	}
	if (a->loaded < a->last)
		ring_add(a);
}

static void settle_live(struct entry *n)
{
	struct outbox *ob = n->to->ob;

	n->state = SETTLED;
	ob->waiting_bytes -= (int64_t)n->body->size;
	ob->ops->on_settled(ob->ctx, n->session, n->body->size);
	if (n == n->to->line)
		advance(n->to);
}

static void probe_in(struct addressee *a, int64_t us)
{
	if (a->unroutable && a->ob->up && (!timer_is_set(&a->probe) || a->probe.at_us > clock_boot_us() + us))
		timer_set(a->ob->timers, &a->probe, clock_boot_us() + us);
}

static int64_t grown(int64_t backoff_us)
{
	return backoff_us == 0 ? BACKOFF_MIN : backoff_us * 2 > BACKOFF_MAX ? BACKOFF_MAX : backoff_us * 2;
}

static void on_confirmed(struct entry *n)
{
	struct addressee *a = n->to;

	a->ob->stats.confirmed++;
	a->backoff_us = 0;
	if (a->limit < a->ob->window)
		a->limit *= 2;
	switch (n->kind) {
	case LIVE:
		settle_live(n);
		if (a->unroutable && a->second_count == 0)      /* somebody listens: soon try what nobody heard */
			probe_in(a, BACKOFF_MIN);
		break;
	case AGAIN:
		store_drop_unroutable(a->ob->store, n->id);
		a->probe_backoff_us = 0;
		second_remove(n);
		if (a->second_count == 0)
			probe_in(a, 0);
		break;
	case REPEAT:
		second_remove(n);
		break;
	}
}

/* What waits behind a probe that nobody took would only come back as well. */
static void give_up_probing(struct addressee *a)
{
	struct entry *n, *tmp;

	DL_FOREACH_SAFE(a->second, n, tmp)
		if (n->kind == AGAIN && n->state == WAITING)
			second_remove(n);
	if (timer_is_set(&a->probe))
		return;                 /* one of several that were under way */
	a->probe_backoff_us = grown(a->probe_backoff_us);
	probe_in(a, a->probe_backoff_us);
}

static void on_unroutable(struct entry *n)
{
	struct addressee *a = n->to;
	struct outbox *ob = a->ob;

	ob->stats.unroutable++;
	switch (n->kind) {
	case LIVE:
		store_put_unroutable(ob->store, n->id, a->key);
		ob->ops->on_unroutable(ob->ctx, n->session, a->caller_id);
		settle_live(n);
		if (!a->unroutable) {
			a->unroutable = true;
			a->probe_backoff_us = BACKOFF_MIN;
			probe_in(a, BACKOFF_MIN);
		}
		break;
	case AGAIN:
		second_remove(n);
		give_up_probing(a);
		break;
	case REPEAT:
		second_remove(n);
		break;
	}
}

static void back_off(struct addressee *a)
{
	struct entry *n;

	a->limit = 1;
	a->backoff_us = grown(a->backoff_us);
	timer_set(a->ob->timers, &a->retry, clock_boot_us() + a->backoff_us);
	/* From here on this caller is careful by itself: the others need not be. */
	DL_FOREACH(a->line, n)
		if (n->suspect) {
			n->suspect = false;
			a->ob->suspects--;
		}
	DL_FOREACH(a->second, n)
		if (n->suspect) {
			n->suspect = false;
			a->ob->suspects--;
		}
}

static void wait_again(struct entry *n)
{
	struct addressee *a = n->to;

	n->state = WAITING;
	if (n->kind == LIVE)
		a->cursor = a->line;
	ring_add(a);
}

static void on_nacked(struct entry *n)
{
	struct addressee *a = n->to;

	a->ob->stats.nacked++;
	wait_again(n);
	if (!timer_is_set(&a->retry)) {
		back_off(a);
		log_warn("broker refused a message, going on one at a time: caller=%s again_in=%llds", a->caller_id,
			(long long)(a->backoff_us / SECOND));
	}
}

void outbox_on_settled(struct outbox *ob, struct bus_out *outs)
{
	while (outs != NULL) {
		struct entry *n = (struct entry *)(void *)outs;

		outs = outs->next;
		assert(n->state == SENT);
		n->to->sent--;
		ob->in_flight--;
		ob->in_flight_bytes -= (int64_t)n->out.size;
		ring_add(n->to);
		if (n->suspect && n->out.status != BUS_LOST) {
			n->suspect = false;
			ob->suspects--;
		}
		switch (n->out.status) {
		case BUS_CONFIRMED:
			on_confirmed(n);
			break;
		case BUS_UNROUTABLE:
			on_unroutable(n);
			break;
		case BUS_NACKED:
			on_nacked(n);
			break;
		case BUS_LOST:
			ob->stats.lost++;
			wait_again(n);
			n->also = ob->lost;     /* outbox_on_down looks at them */
			ob->lost = n;
			break;
		}
	}
}

#define UNPUBLISHABLE "\"event_unpublishable: the broker refuses this message, the callee keeps it\""

/* The row keeps the original; this goes out in its place, under the same id and sequence. */
static void set_aside(struct outbox *ob, struct entry *n, const char *why)
{
	struct jslice payload = jtext_member(n->body->data, n->body->size, "payload");
	struct jslice sequence = jtext_member(payload.at, payload.size, "sequence");
	const char *session = n->out.correlation_id[0] != '\0' ? n->out.correlation_id : NULL;
	char time[CLOCK_TEXT_SIZE];
	struct buf b = {0};

	log_error("ALARM: the broker refuses a message for good, a warning goes out in its place: caller=%s session=%s "
		"event=%lld type=%s bytes=%zu why=%s", n->to->caller_id, n->out.correlation_id, (long long)n->id, n->out.type,
		n->out.size, why);
	clock_format(clock_wall_us(), time);
	codec_begin_as(&b, n->out.message_id, time, session, n->out.type);
	if (sequence.at != NULL) {
		buf_add_text(&b, "{\"event_type\":\"warning\",\"sequence\":");
		buf_add(&b, sequence.at, sequence.size);
		buf_add_text(&b, ",\"data\":{\"code\":\"event_unpublishable\",\"message\":" UNPUBLISHABLE "}}");
	} else if (strcmp(n->out.type, "task_failed") == 0) {
		buf_add_text(&b, "{\"error_code\":\"internal_error\",\"error_message\":" UNPUBLISHABLE "}");
	} else {
		buf_add_text(&b, "{\"outputs\":{},\"execution_summary\":{\"warnings\":[" UNPUBLISHABLE "]}}");
	}
	codec_end(&b);
	ob->stats.set_aside++;
	store_put_substitute(ob->store, n->id, b.data, b.size);
	ob->memory_bytes -= n->body->size;
	ob->waiting_bytes -= (int64_t)n->body->size - (int64_t)b.size;
	if (n->body->size > b.size)
		ob->ops->on_settled(ob->ctx, n->session, n->body->size - b.size);
	blob_unref(n->body);
	n->body = blob_new(b.data, b.size);
	ob->memory_bytes += n->body->size;
	n->out.body = n->body->data;
	n->out.size = n->body->size;
	n->state = HELD;
	n->also = ob->held;
	ob->held = n;
	buf_fini(&b);
}

static void blame(struct outbox *ob, struct entry *n, int code, const char *why)
{
	if (code == 403) {
		back_off(n->to);
		log_error("broker forbids publishing to a caller, check topic permissions: caller=%s again_in=%llds why=%s",
			n->to->caller_id, (long long)(n->to->backoff_us / SECOND), why);
	} else if (code == 406 && ++n->refusals >= 2) {
		n->suspect = false;
		ob->suspects--;
		if (n->kind == REPEAT)
			second_remove(n);       /* its row was published before */
		else
			set_aside(ob, n, why);
	}
}

void outbox_on_down(struct outbox *ob, struct bus_out *outs, int code, const char *why)
{
	struct entry *n, *next, *only;
	/* 320: the operator closed the connection; no message is to blame, nor where nobody gave a code. */
	bool careful = code != 0 && code != 320;

	ob->up = false;
	outbox_on_settled(ob, outs);
	only = ob->lost != NULL && ob->lost->also == NULL ? ob->lost : NULL;
	for (n = ob->lost; n != NULL; n = next) {
		next = n->also;
		n->also = NULL;
		if (careful && !n->suspect) {
			n->suspect = true;
			ob->suspects++;
		}
	}
	ob->lost = NULL;
	if (careful && only != NULL)
		blame(ob, only, code, why);
}

void outbox_on_up(struct outbox *ob)
{
	struct addressee *a, *tmp;

	ob->up = true;
	HASH_ITER (hh, ob->all, a, tmp)
		probe_in(a, BACKOFF_MIN);
}

/* ---- clocks ---- */

static void on_retry(struct timer *t)
{
	ring_add(container_of(t, struct addressee, retry));
}

/* The oldest one alone; once it is routed the others follow, LOAD_ROWS at a time. */
static void on_probe(struct timer *t)
{
	struct addressee *a = container_of(t, struct addressee, probe);
	bool found_routed = a->probe_backoff_us == 0 && a->probed != 0;
	struct loading l = {a, AGAIN, 0};

	if (a->second_count > 0) {      /* an answer is being repeated */
		probe_in(a, BACKOFF_MIN);
		return;
	}
	if (!a->ob->up)
		return;                 /* outbox_on_up sets it again */
	if (!found_routed)
		a->probed = 0;
	if (store_load_unroutable(a->ob->store, a->key, a->probed, found_routed ? LOAD_ROWS : 1, on_row, &l) < 0) {
		log_warn("unroutable messages cannot be read, trying again: error=%s", store_error(a->ob->store));
		probe_in(a, BACKOFF_MAX);
	} else if (l.rows == 0) {
		a->unroutable = a->probed != 0; /* look once more from the start: some may have come meanwhile */
		a->probed = 0;
		if (a->unroutable) {
			a->probe_backoff_us = BACKOFF_MIN;
			probe_in(a, BACKOFF_MIN);
		}
	}
}

/* ---- life ---- */

struct outbox *outbox_new(struct store *store, struct bus *bus, struct timers *timers, const struct config *config,
	const struct outbox_ops *ops, void *ctx)
{
	struct outbox *ob = xcalloc(1, sizeof *ob);

	ob->store = store;
	ob->bus = bus;
	ob->timers = timers;
	ob->ops = ops;
	ob->ctx = ctx;
	ob->window = (unsigned)config->amqp.window_messages;
	ob->window_bytes = config->amqp.window_bytes;
	ob->last_event = store_last_event(store);
	ob->last_caller = store_last_caller(store);
	ob->fresh_end = &ob->fresh;
	return ob;
}

static void on_backlog(void *ctx, int64_t session, int64_t bytes)
{
	struct outbox *ob = ctx;

	ob->waiting_bytes += bytes;
	ob->ops->on_backlog(ob->ctx, session, bytes);
}

static void on_caller(void *ctx, int64_t key, const char *caller_id, int64_t confirmed, int64_t last, int64_t unroutable)
{
	struct outbox *ob = ctx;
	struct addressee *a;

	if (last <= confirmed && unroutable == 0)
		return;
	a = addressee_new(ob, caller_id, key);
	a->confirmed = a->loaded = confirmed;
	a->last = last > confirmed ? last : confirmed;
	a->unroutable = unroutable != 0;
	a->probe_backoff_us = BACKOFF_MIN;
	if (a->loaded < a->last)
		ring_add(a);
}

int outbox_load(struct outbox *ob)
{
	struct addressee *a, *tmp;

	if (store_load_callers(ob->store, on_caller, ob) < 0)
		return -1;
	HASH_ITER (hh, ob->all, a, tmp)
		if (a->loaded < a->last && store_load_backlog(ob->store, a->key, a->loaded, on_backlog, ob) < 0)
			return -1;
	return 0;
}

static void free_list(struct entry *list)
{
	struct entry *n, *tmp;

	DL_FOREACH_SAFE(list, n, tmp)
		entry_free(n);
}

void outbox_free(struct outbox *ob)
{
	struct addressee *a, *tmp;
	struct entry *n, *next;

	for (n = ob->fresh; n != NULL; n = next) {
		next = n->also;
		entry_free(n);
	}
	HASH_ITER (hh, ob->all, a, tmp) {
		free_list(a->line);
		free_list(a->second);
		addressee_free(a);
	}
	free(ob);
}

bool outbox_has_unsaved(const struct outbox *ob)
{
	return ob->unsaved != NULL;
}

void outbox_save(struct outbox *ob)
{
	for (struct addressee *a = ob->unsaved; a != NULL; a = a->unsaved_next) {
		store_save_confirmed(ob->store, a->key, a->confirmed);
		a->unsaved = false;
	}
	ob->unsaved = NULL;
}

bool outbox_is_empty(const struct outbox *ob)
{
	return ob->in_flight == 0 && ob->waiting_bytes == 0;
}

int64_t outbox_oldest_us(const struct outbox *ob, int64_t now_us)
{
	struct addressee *a, *tmp;
	int64_t oldest = now_us + 1;
	struct entry *n;

	if (ob->in_flight == 0)
		return -1;
	HASH_ITER (hh, ob->all, a, tmp) {
		DL_FOREACH(a->line, n)
			if (n->state == SENT && n->sent_at_us < oldest)
				oldest = n->sent_at_us;
		DL_FOREACH(a->second, n)
			if (n->state == SENT && n->sent_at_us < oldest)
				oldest = n->sent_at_us;
	}
	return now_us - oldest;
}

void outbox_get_stats(const struct outbox *ob, struct outbox_stats *st)
{
	*st = ob->stats;
	st->waiting_bytes = ob->waiting_bytes;
	st->in_flight = ob->in_flight;
}
