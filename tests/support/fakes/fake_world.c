/* SPDX-License-Identifier: MIT */
/* fake_world.c: what fake_world.h declares. */
#include "support/fakes/fake_world.h"

#include "base/jobs.h"

/* ---- the watch on the store ---- */

int64_t world_count(struct world *w, const char *sql, const char *arg)
{
	sqlite3_stmt *st;
	int64_t n;

	ck_assert_msg(sqlite3_prepare_v2(w->watch, sql, -1, &st, NULL) == SQLITE_OK, "%s: %s", sql,
		sqlite3_errmsg(w->watch));
	if (arg != NULL)
		sqlite3_bind_text(st, 1, arg, -1, SQLITE_STATIC);
	n = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : -1;
	sqlite3_finalize(st);
	return n;
}

const char *world_text(struct world *w, const char *sql, const char *arg)
{
	static char texts[4][8192];
	static unsigned turn;
	char *to = texts[turn++ % 4];
	sqlite3_stmt *st;

	ck_assert_msg(sqlite3_prepare_v2(w->watch, sql, -1, &st, NULL) == SQLITE_OK, "%s: %s", sql,
		sqlite3_errmsg(w->watch));
	if (arg != NULL)
		sqlite3_bind_text(st, 1, arg, -1, SQLITE_STATIC);
	*to = '\0';
	if (sqlite3_step(st) == SQLITE_ROW && sqlite3_column_type(st, 0) != SQLITE_NULL)
		snprintf(to, sizeof texts[0], "%s", (const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	return to;
}

void world_exec(struct world *w, const char *sql)
{
	ck_assert_msg(sqlite3_exec(w->watch, sql, NULL, NULL, NULL) == SQLITE_OK, "%s: %s", sql,
		sqlite3_errmsg(w->watch));
}

void world_check_rows(struct world *w)
{
	ck_assert_int_eq(world_count(w,
				 "SELECT count(*) FROM sessions s WHERE state_version <> (SELECT count(*) "
				 "FROM transitions t WHERE t.session = s.id)"
				 " OR (state_version > 0 AND state <> (SELECT to_state FROM transitions t "
				 "WHERE t.session = s.id"
				 "  ORDER BY state_version DESC LIMIT 1))"
				 " OR state_version - (state = 'REJECTED') <> (SELECT count(*) FROM events e "
				 "WHERE e.session = s.id AND e.event_type = 'state_changed')"
				 " OR (waits_for IS NOT NULL AND EXISTS (SELECT 1 FROM events e WHERE "
				 "e.session = s.id AND e.type NOT IN ('harp','task_rejected')))"
				 " OR (waits_for = 'human' AND state = 'PENDING') <> EXISTS (SELECT 1 FROM "
				 "reviews r WHERE r.session = s.id AND r.state = 'AWAITING_DECISION')",
				 NULL),
		0);
}

static void world_on_publish(void *ctx, const struct bus_out *out)
{
	struct world *w = ctx;
	char *body = xstrndup(out->body, out->size);

	world_check_rows(w);
	ck_assert_msg(
		world_count(w, "SELECT count(*) FROM events WHERE coalesce(substitute, body) = ?", body) == 1,
		"published before it was stored: %s", body);
	free(body);
}

static void world_on_answer(void *ctx, uint64_t tag, bool is_ack)
{
	(void)tag, (void)is_ack;
	world_check_rows(ctx);
}

static void world_on_start(void *ctx, const struct worker *worker)
{
	struct world *w = ctx;

	world_check_rows(w);
	if (worker->session_id[0] != '\0') /* a state is migrated before the session runs */
		ck_assert_str_eq(
			world_text(w, "SELECT state FROM sessions WHERE session_id = ?", worker->session_id),
			strstr(worker->argv[0], "migrate") != NULL ? "PAUSED" : "RUNNING");
}

static void world_on_write(void *ctx, const struct worker *worker, const char *line, size_t size)
{
	struct world *w = ctx;
	json_t *root = json_loadb(line, size, JSON_DECODE_INT_AS_REAL, NULL);
	const char *type = json_string_value(json_object_get(root, "type")), *id;

	world_check_rows(w);
	if (strstr(worker->argv[0], "migrate") != NULL) { /* what that is asked is no message */
		json_decref(root);
		return;
	}
	ck_assert_msg(type != NULL, "no line of ours: %s", line);
	if (strcmp(type, "start") == 0)
		ck_assert_str_eq(
			world_text(w, "SELECT state FROM sessions WHERE session_id = ?", worker->session_id),
			"RUNNING");
	if (strcmp(type, "abort") == 0)
		ck_assert_msg(world_count(w, WORLD_IS_ENDING, worker->session_id) == 1,
			"told to abort before that was stored");
	if (strcmp(type, "decide") == 0)
		ck_assert_int_eq(world_count(w,
					 "SELECT count(*) FROM sessions WHERE session_id = ? AND waits_for = "
					 "'program'",
					 json_string_value(json_object_get(root, "session"))),
			1);
	if (strcmp(type, "checkpoint_saved") == 0) {
		id = json_string_value(json_object_get(root, "checkpoint_id"));
		ck_assert_int_eq(
			world_count(w, "SELECT count(*) FROM checkpoints WHERE checkpoint_id = ?", id), 1);
	}
	json_decref(root);
}

static void world_on_end(void *ctx, const struct worker *worker)
{
	struct world *w = ctx;
	const struct session *s =
		worker->session_id[0] != '\0' ? session_find(&w->core, worker->session_id) : NULL;

	/* A paused session gives its process up. */
	if (s != NULL && s->run.is_exiting &&
		strcmp(world_text(w, "SELECT state FROM sessions WHERE session_id = ?", s->id), "PAUSED") ==
			0)
		return;
	if (strstr(worker->argv[0], "migrate") != NULL)
		return;
	/* It may be ended for what it did itself, by a stop, by a reload, or for an end that is stored. */
	if (w->core.phase.is_stopping || worker->has_exited || worker->out_eof ||
		worker->session_id[0] == '\0')
		return;
	ck_assert_msg(
		world_count(w, WORLD_IS_ENDING, worker->session_id) == 1, "ended before the end was stored");
}

static void world_on_hold(void *ctx, bool hold)
{
	(void)hold;
	world_check_rows(ctx);
}

/* ---- a run of the daemon ---- */

void world_write_file(const char *dir, const char *name, const char *text)
{
	char path[600];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	f = fopen(path, "w");
	ck_assert(f != NULL);
	fputs(text, f);
	fclose(f);
}

void world_say(void *ctx, bool is_error, const char *text)
{
	(void)ctx;
	ck_assert_msg(!is_error, "configuration: %s", text);
}

void world_declare(
	struct world *w, const char *name, const char *version, const char *safety, const char *constraints)
{
	struct buf b = {0};
	char file[64];

	buf_addf(&b,
		"{\"capability\":{\"name\":\"%s\",\"version\":\"%s\",\"description\":\"d\",\"input_schema\":{"
		"},"
		"\"output_schema\":{},\"safety\":{%s},\"constraints\":{%s}}}",
		name, version, safety, constraints);
	snprintf(file, sizeof file, "%s.json", name);
	world_write_file(w->dir, file, buf_text(&b));
	buf_fini(&b);
}

void world_configure(struct world *w, const char *more)
{
	static const struct {
		const char *name, *keys, *constraints;
	} caps[] = {
		{"work", "", ""},
		{"again", "recovery = restart\n", ""},
		{"never", "recovery = fail\n", ""},
		{"plain", "protocol = text\n", ""},
		{"reused", "reuse = 2\n", ""},
		{"narrow", "", "\"concurrent_limit\":1"},
		{"brief", "", "\"max_duration\":\"PT10S\""},
	};
	struct buf b = {0};

	buf_addf(&b, "[daemon]\ncallee_id = tested\nstate_dir = state\nlog_level = error\ncgroup = off\n");
	for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
		world_declare(w, caps[i].name, "1.2.3", WORLD_SAFE, caps[i].constraints);
		buf_addf(&b, "[capability %s]\ndeclaration = %s.json\ncommand = /bin/true %s\n%s",
			caps[i].name, caps[i].name, caps[i].name, caps[i].keys);
	}
	buf_addf(&b,
		"[caller alpha]\ncapabilities = *\nmax_risk = R5\n"
		"[caller beta]\ncapabilities = work, plain\nmax_risk = R5\namqp_user = beta-user\n%s",
		more);
	world_write_file(w->dir, "hcpd.ini", buf_text(&b));
	buf_fini(&b);
}

void world_init(struct world *w, const char *more)
{
	const char *tmp = getenv("TMPDIR");

	memset(w, 0, sizeof *w);
	log_set_level(LOG_LVL_ERROR);
	snprintf(w->dir, sizeof w->dir, "%s/hcp-world-XXXXXX",
		tmp != NULL && strlen(tmp) < 150 ? tmp : "/tmp");
	ck_assert(mkdtemp(w->dir) != NULL);
	snprintf(w->ini, sizeof w->ini, "%s/hcpd.ini", w->dir);
	snprintf(w->state, sizeof w->state, "%s/state", w->dir);
	ck_assert(mkdir(w->state, 0700) == 0);
	world_configure(w, more);
}

static void world_open_watch(struct world *w)
{
	char path[400];

	snprintf(path, sizeof path, "%s/hcpd.db", w->state);
	ck_assert(sqlite3_open_v2(path, &w->watch, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
}

void world_open(struct world *w)
{
	struct policy *p = policy_load(w->ini, world_say, NULL);
	char why[512] = "";

	ck_assert(p != NULL);
	ck_assert_msg(core_init(&w->core, p, w->ini, why, sizeof why) == EX_OK, "%s", why);
	world_open_watch(w);
	fake_bus_init(&w->bus);
	w->bus.on_publish = world_on_publish;
	w->bus.on_answer = world_on_answer;
	fake_workers_init(&w->workers, &run_ops);
	w->workers.on_start = world_on_start;
	w->workers.on_write = world_on_write;
	w->workers.on_end = world_on_end;
	w->workers.on_hold = world_on_hold;
	w->bus.ctx = w->workers.ctx = w;
	w->core.bus = &w->bus;
	w->core.workers = &w->workers;
	w->core.jobs = w->has_jobs ? jobs_new(NULL, NULL) : NULL;
	core_make_outbox(&w->core);
	w->is_alive = true;
}

void world_begin(struct world *w)
{
	world_open(w);
	ck_assert_int_eq(core_recover(&w->core), EX_OK);
	core_end_turn(&w->core);
	ck_assert(!w->core.phase.is_suspended && !w->core.phase.is_done);
	fake_bus_up(&w->bus);
}

static void world_keep_sent(struct world *w)
{
	w->earlier = xrealloc(w->earlier, (w->earlier_sent + w->bus.sent_count + 1) * sizeof *w->earlier);
	for (size_t i = 0; i < w->bus.sent_count; i++) {
		w->earlier[w->earlier_sent + i] = w->bus.sent[i];
		w->bus.sent[i].body = NULL;
	}
	w->earlier_sent += w->bus.sent_count;
}

void world_end(struct world *w, bool crashed)
{
	if (crashed)
		w->core.phase.is_suspended = true; /* so that nothing more is written */
	world_keep_sent(w);
	jobs_free(w->core.jobs);
	w->core.jobs = NULL;
	jobs_free(w->core.reload.thread);
	w->core.reload.thread = NULL;
	core_fini(&w->core);
	fake_workers_fini(&w->workers);
	fake_bus_fini(&w->bus);
	sqlite3_close(w->watch);
	w->is_alive = false;
}

void world_crash(struct world *w)
{
	int left = (int)fake_workers_alive(&w->workers);

	world_end(w, true);
	world_open(w);
	w->workers.leftovers = left;
	ck_assert_int_eq(core_recover(&w->core), EX_OK);
	core_end_turn(&w->core);
	fake_bus_up(&w->bus);
}

int world_remove(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(path);
}

void world_fini(struct world *w)
{
	fake_disk_mend();
	if (w->is_alive)
		world_end(w, false);
	for (size_t i = 0; i < w->earlier_sent; i++)
		free(w->earlier[i].body);
	free(w->earlier);
	nftw(w->dir, world_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- turns ---- */

bool world_turn(struct world *w)
{
	struct core *c = &w->core;
	bool did = w->bus.in != NULL && !c->phase.is_suspended;

	if (c->phase.is_done)
		return false; /* the loop has ended */
	core_on_reload(c);
	if (!w->jobs_are_slow)
		core_on_jobs(c);
	core_on_bus(c);
	if (core_next_us(c) <= fake_boot_us) {
		core_on_time(c);
		did = true;
	}
	did |= fake_workers_run(&w->workers);
	if (w->mid_turn != NULL)
		w->mid_turn();
	did |= core_end_turn(c) &&
		(!w->jobs_are_slow || store_has_batch(c->store) || c->turn.effects.count > 0);
	did |= !c->phase.is_suspended && fake_workers_next_us(&w->workers) <= fake_boot_us;
	if (!w->broker_is_slow && w->bus.pub_up && w->bus.flushed > 0) {
		fake_bus_settle_all(&w->bus, BUS_CONFIRMED);
		did = true;
	}
	return did && !c->phase.is_done;
}

void world_run(struct world *w)
{
	int rounds = 0;

	while (world_turn(w))
		ck_assert_msg(++rounds < 100000, "the world does not come to rest");
}

static int64_t world_next_us(struct world *w)
{
	int64_t core = core_next_us(&w->core), workers = fake_workers_next_us(&w->workers);

	return w->core.phase.is_suspended || core < workers ? core : workers;
}

void world_pass(struct world *w, int64_t us)
{
	int64_t until = fake_boot_us + us;

	world_run(w);
	for (int64_t next; !w->core.phase.is_done && (next = world_next_us(w)) <= until;) {
		if (next > fake_boot_us)
			fake_clock_pass(next - fake_boot_us);
		world_run(w);
	}
	fake_clock_pass(until - fake_boot_us);
	world_run(w);
}

/* ---- commands ---- */

uint64_t world_submit_as(struct world *w, const char *caller, const char *user, const char *message_id,
	const char *capability, const char *more)
{
	struct buf b = {0};
	uint64_t tag;

	buf_addf(&b,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"%s\",\"timestamp\":\"2026-01-31T12:00:00.000Z\","
		"\"session_id\":null,\"type\":\"task_submit\",\"payload\":{\"capability\":\"%s\",\"caller_"
		"id\":\"%s\","
		"\"intent\":\"do it\",\"inputs\":{}%s}}",
		message_id, capability, caller, more);
	tag = fake_bus_deliver(&w->bus, b.data, b.size, user);
	buf_fini(&b);
	return tag;
}

uint64_t world_submit(struct world *w, const char *message_id, const char *capability)
{
	return world_submit_as(w, "alpha", NULL, message_id, capability, "");
}

uint64_t world_abort_as(struct world *w, const char *session_id, const char *token, const char *user)
{
	struct buf b = {0};
	char id[ID_SIZE];
	uint64_t tag;

	id_make(id);
	buf_addf(&b,
		"{\"hcp_version\":\"1.0\",\"message_id\":\"%s\",\"timestamp\":\"2026-01-31T12:00:00.000Z\","
		"\"session_id\":\"%s\",\"type\":\"abort\",\"payload\":{",
		id, session_id);
	if (token != NULL)
		buf_addf(&b, "\"session_token\":\"%s\"", token);
	buf_add_text(&b, "}}");
	tag = fake_bus_deliver(&w->bus, b.data, b.size, user);
	buf_fini(&b);
	return tag;
}

uint64_t world_abort(struct world *w, const char *session_id)
{
	return world_abort_as(w, session_id, NULL, NULL);
}

/* ---- looking ---- */

const char *world_id(struct world *w, int key)
{
	char n[16];

	snprintf(n, sizeof n, "%d", key);
	return world_text(w, "SELECT session_id FROM sessions WHERE id = ?", n);
}

const char *world_state(struct world *w, int key)
{
	char n[16];

	snprintf(n, sizeof n, "%d", key);
	return world_text(w, "SELECT state FROM sessions WHERE id = ?", n);
}

const char *world_path(struct world *w, int key)
{
	char n[16];

	snprintf(n, sizeof n, "%d", key);
	return world_text(w,
		"SELECT group_concat(from_state || '>' || to_state || ':' || reason, ' ') FROM"
		" (SELECT * FROM transitions WHERE session = ? ORDER BY state_version)",
		n);
}

struct worker *world_worker(struct world *w, int key)
{
	const char *id = world_id(w, key);

	for (size_t i = w->workers.count; i-- > 0;)
		if (strcmp(w->workers.list[i]->session_id, id) == 0)
			return w->workers.list[i];
	return NULL;
}

struct worker *world_start(struct world *w, const char *message_id, const char *capability)
{
	size_t before = w->workers.count;

	world_submit(w, message_id, capability);
	world_run(w);
	ck_assert_uint_gt(w->workers.count, before);
	return w->workers.list[w->workers.count - 1];
}

struct fake_sent *world_sent(struct world *w, size_t i)
{
	return i < w->earlier_sent ? &w->earlier[i] : &w->bus.sent[i - w->earlier_sent];
}

size_t world_sent_count(const struct world *w)
{
	return w->earlier_sent + w->bus.sent_count;
}

int world_said(struct world *w, const char *needle)
{
	int n = 0;

	for (size_t i = 0; i < world_sent_count(w); i++) {
		bool is_first = true;

		for (size_t j = 0; j < i && is_first; j++)
			is_first = strcmp(world_sent(w, j)->message_id, world_sent(w, i)->message_id) != 0;
		n += is_first && strstr(world_sent(w, i)->body, needle) != NULL;
	}
	return n;
}

static void world_violation(void *ctx, const char *rule, const char *what)
{
	const struct fake_sent *s = *(const struct fake_sent **)ctx;

	ck_abort_msg("%s: %s: %s", rule, what, s != NULL ? s->body : "");
}

static void world_take(struct oracle_stream *stream, const struct fake_sent *s)
{
	json_t *root = json_loadb(s->body, s->size, JSON_REJECT_DUPLICATES, NULL);
	struct oracle_message m = oracle_message_of(root);

	ck_assert_msg(root != NULL, "not JSON: %s", s->body);
	ck_assert_str_eq(m.type, s->type);
	ck_assert_msg(strcmp(m.type, "event") != 0 ||
			json_is_object(json_object_get(json_object_get(root, "payload"), "data")),
		"no data: %s", s->body);
	oracle_stream_take(stream, &m);
	json_decref(root);
}

struct oracle_stream world_check_stream(struct world *w, int key)
{
	static const struct fake_sent *now; /* what the oracle looks at */
	static char id[ID_SIZE];
	struct oracle_stream stream = {.session = id, .on_violation = world_violation, .ctx = &now};

	snprintf(id, sizeof id, "%s", world_id(w, key));
	for (size_t i = 0; i < world_sent_count(w); i++) {
		const struct fake_sent *s = world_sent(w, i);
		const struct fake_sent *same = NULL;

		if (strcmp(s->correlation_id, id) != 0 || s->exchange != BUS_TO_EVENTS)
			continue;
		for (size_t k = 0; k < i && same == NULL; k++)
			if (strcmp(world_sent(w, k)->message_id, s->message_id) == 0)
				same = world_sent(w, k);
		if (same == NULL)
			world_take(&stream, now = s);
		else
			ck_assert_str_eq(same->body, s->body); /* no second version */
	}
	oracle_stream_end(&stream, false);
	return stream;
}

int world_main(Suite *s)
{
	SRunner *r = srunner_create(s);
	int failed;

	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
