/* SPDX-License-Identifier: MIT */
/* fake_post.c: what fake_post.h declares. */
#include "support/fakes/fake_post.h"

static void post_on_settled(void *ctx, int64_t session, size_t bytes)
{
	struct post *p = ctx;

	ck_assert(session == 7 || session == 0);
	p->settled_bytes += (int64_t)bytes;
}

static void post_on_transient(void *ctx, int64_t event)
{
	struct post *p = ctx;

	store_drop_answer(p->store, event);
}

static void post_on_unroutable(void *ctx, int64_t session, const char *session_id, const char *caller_id)
{
	struct post *p = ctx;

	(void)session, (void)session_id, (void)caller_id;
	p->unroutables++;
}

static void post_on_backlog(void *ctx, int64_t session, int64_t bytes)
{
	struct post *p = ctx;

	ck_assert_int_eq(session, 7);
	p->backlog_bytes += bytes;
}
static const struct outbox_ops post_ops = {
	post_on_settled, post_on_transient, post_on_unroutable, post_on_backlog};

void post_open(struct post *p)
{
	char why[256] = "";

	ck_assert_msg(store_open(p->dir, &p->store, why, sizeof why) == EX_OK, "%s", why);
	fake_bus_init(&p->bus);
	p->timers = (struct timers){0};
	p->ob = outbox_new(p->store, &p->bus, &p->timers, &p->config, &post_ops, p);
	p->backlog_bytes = p->settled_bytes = 0;
	ck_assert_int_eq(outbox_load(p->ob), 0);
}

void post_init(struct post *p, int window)
{
	const char *tmp = getenv("TMPDIR");

	memset(p, 0, sizeof *p);
	log_set_level(LOG_LVL_ERROR);
	fake_disk_mend(); /* this call also links the fake disk, so that the store syncs nothing */
	snprintf(
		p->dir, sizeof p->dir, "%s/hcp-post-XXXXXX", tmp != NULL && strlen(tmp) < 150 ? tmp : "/tmp");
	ck_assert(mkdtemp(p->dir) != NULL);
	p->config.amqp.window_messages = window;
	p->config.amqp.window_bytes = 1 << 20;
	post_open(p);
}

void post_close(struct post *p)
{
	outbox_free(p->ob);
	timers_fini(&p->timers);
	store_close(p->store);
	fake_bus_fini(&p->bus);
}

static int post_remove(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(path);
}

void post_fini(struct post *p)
{
	post_close(p);
	nftw(p->dir, post_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- in ---- */

int64_t post_put_type(struct post *p, const char *caller, const char *session_id, const char *type)
{
	struct buf b = {0};
	struct store_event e = {.session = session_id != NULL ? 7 : 0,
		.session_id = session_id,
		.type = type,
		.is_transient = p->is_transient};
	int64_t id;

	message_begin(&b, session_id, type);
	if (strcmp(type, "event") == 0) {
		e.event_type = "log";
		e.sequence = p->next + 1;
		buf_addf(&b, "{\"event_type\":\"log\",\"sequence\":%d,\"data\":{\"n\":%d,\"pad\":\"%*s\"}}",
			p->next + 1, p->next, (int)p->padding, "");
	} else {
		buf_addf(&b, "{\"outputs\":{\"n\":%d}}", p->next);
	}
	message_end(&b);
	e.body = blob_new(b.data, b.size);
	id = outbox_put(p->ob, outbox_find_caller(p->ob, caller), &e);
	blob_unref(e.body);
	buf_fini(&b);
	p->next++;
	return id;
}

void post_put(struct post *p, const char *caller, int count)
{
	while (count-- > 0)
		post_put_type(p, caller, SESSION_ID, "event");
}

/* ---- turns ---- */

void post_hand_in(struct post *p)
{
	struct bus_in *in, *next;

	for (in = bus_take(&p->bus); in != NULL; in = next) {
		next = in->next;
		if (in->kind == BUS_SETTLED)
			outbox_on_settled(p->ob, in->outs);
		else if (in->kind == BUS_PUB_UP)
			outbox_on_up(p->ob);
		else if (in->kind == BUS_PUB_DOWN)
			outbox_on_down(p->ob, in->outs, in->code, in->text);
		bus_in_free(in);
	}
}

void post_end_turn(struct post *p)
{
	timers_run(&p->timers, fake_boot_us);
	if (store_has_batch(p->store))
		outbox_save(p->ob);
	ck_assert_int_eq(store_run(p->store), 0);
	outbox_release(p->ob);
	outbox_pump(p->ob);
	bus_flush(&p->bus);
}

void post_turn(struct post *p)
{
	post_hand_in(p);
	post_end_turn(p);
}

void post_turn_into_a_loss(struct post *p, int code)
{
	post_hand_in(p);
	fake_bus_down(&p->bus, code);
	post_end_turn(p);
	post_turn(p);
}

void post_up(struct post *p)
{
	fake_bus_up(&p->bus);
	post_turn(p);
}

void post_down(struct post *p, int code)
{
	fake_bus_down(&p->bus, code);
	post_turn(p);
}

void post_settle(struct post *p, enum bus_status status)
{
	fake_bus_settle_all(&p->bus, status);
	post_turn(p);
}

void post_pass(struct post *p, int64_t us)
{
	int64_t until = fake_boot_us + us;

	for (int64_t next; (next = timers_next_us(&p->timers)) <= until;) {
		fake_clock_pass(next > fake_boot_us ? next - fake_boot_us : 0);
		post_turn(p);
	}
	fake_clock_pass(until - fake_boot_us);
}

void post_drain(struct post *p)
{
	while (p->bus.flight_count > 0)
		post_settle(p, BUS_CONFIRMED);
}

/* ---- out ---- */

int post_number(const struct fake_sent *s)
{
	const char *n = strstr(s->body, "\"n\":");

	return n != NULL ? atoi(n + 4) : -1;
}

int post_flying(const struct post *p, size_t i)
{
	return post_number(&p->bus.sent[p->bus.flight[i].sent]);
}

void post_expect(const struct post *p, size_t count, int first)
{
	ck_assert_uint_eq(p->bus.flight_count, count);
	for (size_t i = 0; i < count; i++)
		ck_assert_int_eq(post_flying(p, i), first + (int)i);
}

void post_expect_sent(const struct post *p, size_t index, int first)
{
	for (size_t i = index; i < p->bus.sent_count; i++)
		ck_assert_int_eq(post_number(&p->bus.sent[i]), first + (int)(i - index));
}

int64_t post_ask(struct post *p, const char *sql)
{
	char path[300];
	sqlite3 *db;
	sqlite3_stmt *st;
	int64_t n;

	snprintf(path, sizeof path, "%s/hcpd.db", p->dir);
	ck_assert(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
	ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
	n = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : -1;
	sqlite3_finalize(st);
	sqlite3_close(db);
	return n;
}
