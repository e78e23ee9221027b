/* SPDX-License-Identifier: MIT */
/* life.c: what happens in the scripted life, and who does it.
 * Owns the script: what callers send, what workers say, what the broker confirms. It is told by ticks, not by
 * what the daemon does, so that a daemon that holds, ends or comes back late meets the same world. Never
 * checks (final_check.c). */
#include "life.h"

#include <stdlib.h>

#include "support/fakes/fake_world.h"
#include "support/fakes/fake_operators.h"
#include "harp/harp.h"
#include "core/operator/operator.h"
#include "core/admission/approval.h"
#include "vfs_fault.h"

#define WAL_PAGES 24 /* so that the WAL is moved into the database a few times */

/* ---- the script ---- */

enum act { SUBMIT, ABORT, STOP };
static const struct {
	int tick;
	enum act act;
	int of; /* which submit */
} script[LIFE_COMMANDS] = {
	{1, SUBMIT, 0},
	{2, SUBMIT, 1},
	{3, SUBMIT, 0},
	{4, SUBMIT, 2},
	{5, SUBMIT, 3},
	{9, ABORT, 1},
	{10, SUBMIT, 1},
	{11, STOP, 0},
	{14, SUBMIT, 2},
	{15, SUBMIT, 3},
	{6, SUBMIT, 4},
	{6, SUBMIT, 5},
	{7, SUBMIT, 6},
	{8, SUBMIT, 4},
	{0, STOP, 0},
};
static const char *const capabilities[LIFE_SUBMITS] = {
	"work", "again", "plain", "nothing-here", "lab", "lab", "lab"};
/* What a human says of those that wait; the last is left to expire. After the first stop, so that they
 * wait across it. */
static const char *const wishes[LIFE_SUBMITS] = {[4] = "allow", [5] = "deny"};
enum { DECIDED_FROM = 13 };
#define APPROVAL \
	"[approval]\nexpires = 25s\n[approver ann]\nkey = %s\nmax_risk = R4\n[capability lab]\n" \
	"declaration = lab.json\ncommand = /bin/true lab\n"
#define ASKING \
	"\"risk_ceiling\":\"R3\",\"requires_human_approval\":true,\"involves_physical_resources\":false"

/* By capability; a worker says one a tick. The last is said again and again. */
static const char *const work_lines[] = {
	"{\"type\":\"progress\",\"percent\":5,\"message\":\"begun\"}",
	"{\"type\":\"checkpoint\",\"state\":{\"n\":1},\"step\":\"one\"}",
	"{\"type\":\"step\",\"name\":\"two\"}",
	"{\"type\":\"log\",\"message\":\"some words that take up a little room\"}",
	"{\"type\":\"usage\",\"tokens_in\":10,\"tokens_out\":20,\"cost\":0.5}",
	"{\"type\":\"warning\",\"code\":\"c\",\"message\":\"careful\"}",
	"{\"type\":\"checkpoint\",\"state\":{\"n\":2},\"step\":\"two\"}",
	"{\"type\":\"checkpoint\",\"state\":{},\"resumable\":false}",
	"rubbish",
	"{\"type\":\"checkpoint\",\"state\":{\"n\":3},\"step\":\"three\"}",
	"{\"type\":\"completed\",\"outputs\":{\"a\":1.10}}",
};
enum { WORK_LINES = sizeof work_lines / sizeof *work_lines };
static const int work_after[] = {0, 2, 7, 10}; /* where it goes on from checkpoint n */

static struct world w;
static struct op_queue operators;
static struct harp_private *key;
static struct life *life;
static struct final_check *final_check;
static sqlite3 *newest; /* connection that was opened last */
static int said[64];    /* by worker */

/* ---- watching ---- */

static void on_publish(void *ctx, const struct bus_out *out)
{
	json_t *root = json_loadb(out->body, out->size, 0, NULL), *payload = json_object_get(root, "payload");
	const char *reply = json_string_value(json_object_get(payload, "in_reply_to"));

	(void)ctx;
	final_check_published(final_check, out->body, out->size);
	if (strcmp(out->type, "task_accepted") == 0 && reply != NULL && reply[0] == 'm')
		snprintf(life->sessions[reply[1] - '0'], sizeof life->sessions[0], "%s", out->correlation_id);
	json_decref(root);
}

static void on_answer(void *ctx, uint64_t tag, bool is_ack)
{
	char id[4];

	(void)ctx;
	for (int i = 0; i < LIFE_COMMANDS; i++) {
		if (life->commands[i].tag != tag || tag == 0)
			continue;
		life->commands[i].is_answered = true;
		snprintf(id, sizeof id, "m%d", script[i].of);
		if (is_ack && script[i].act == SUBMIT)
			final_check_acked_submit(final_check, "alpha", id);
		else if (is_ack)
			final_check_acked_abort(final_check, life->sessions[script[i].of]);
	}
}

static void on_start(void *ctx, const struct worker *p)
{
	(void)ctx;
	final_check_started(final_check, p->session_id, atoll(fake_worker_env(p, "HCP_ATTEMPT")));
}

static void on_write(void *ctx, const struct worker *p, const char *line, size_t size)
{
	(void)ctx;
	final_check_sent_line(final_check, p->session_id, line, size);
}

/* ---- the human ---- */

static void on_decided(void *ctx, const struct op_request *a)
{
	(void)ctx;
	for (int i = 0; i < LIFE_SUBMITS; i++)
		if (a->code == NULL && a->decision != NULL &&
			strcmp(a->decision, life->decisions[i].text) == 0) {
			life->decisions[i].is_done = true;
			final_check_decided(
				final_check, life->decisions[i].request, strcmp(wishes[i], "allow") == 0);
		}
}

static void put_decision(int i)
{
	struct op_request *a = fake_operators_ask(&operators, OP_DECIDE, NULL);

	a->decision = xstrdup(life->decisions[i].text);
	a->decision_size = strlen(a->decision);
	core_on_requests(&w.core);
}

/* The decision about this review; signed once, and then said until it is answered. False: it cannot be
 * read now. */
static bool sign(int i, const char *request)
{
	unsigned char bytes[16] = {(unsigned char)i};
	char state[24], why[256], nonce[HARP_NONCE_SIZE];
	struct buf artifact = {0}, text = {0};
	struct harp_artifact *a = NULL;
	int64_t session;

	if (strcmp(life->decisions[i].request, request) == 0)
		return true;
	if (store_load_review(w.core.store, request, &session, state, &artifact) > 0 &&
		harp_read_artifact(artifact.data, artifact.size, &a, why, sizeof why) == HARP_OK) {
		harp_nonce(bytes, nonce);
		if (harp_sign(a,
			    &(struct harp_answer){.allow = strcmp(wishes[i], "allow") == 0,
				    .scope = HARP_ONCE,
				    .expires_us = a->expires_us,
				    .nonce = nonce,
				    .signer_key_id = "ann"},
			    key, &text, why, sizeof why) != HARP_OK)
			abort();
		snprintf(life->decisions[i].text, sizeof life->decisions[i].text, "%s", buf_text(&text));
		snprintf(life->decisions[i].request, sizeof life->decisions[i].request, "%s", request);
	}
	harp_artifact_free(a);
	buf_fini(&artifact);
	buf_fini(&text);
	return strcmp(life->decisions[i].request, request) == 0;
}

static void human_decides(void)
{
	struct session *s, *tmp;

	HASH_ITER(by_key, w.core.by_key, s, tmp) {
		int i = s->admission.waits_for == WAITS_FOR_HUMAN && !s->turn.is_closed ?
			s->admission.message_id[1] - '0' :
			0;

		if (life->tick >= DECIDED_FROM && !w.core.phase.is_suspended && i > 0 && wishes[i] != NULL &&
			approval_request(s) != NULL && sign(i, approval_request(s)))
			put_decision(i);
	}
	for (int i = 0; i < LIFE_SUBMITS && !w.core.phase.is_suspended; i++)
		if (life->decisions[i].is_done && !life->decisions[i].is_replayed) {
			life->decisions[i].is_replayed = true;
			put_decision(i);
		}
}

/* ---- the daemon's life ---- */

void life_note_time(struct life *l)
{
	l->boot_us = fake_boot_us;
	l->wall_us = fake_wall_us;
	l->ids = fake_seed;
}

static void end_daemon(void)
{
	core_fini(&w.core);
	fake_workers_fini(&w.workers);
	fake_bus_fini(&w.bus);
	fake_operators_fini(&operators);
	fake_operators_init(&operators);
	w.is_alive = false;
}

/* As hcpd/main.c does it. False: it ended at its start, and will be started again. */
static bool begin_daemon(void)
{
	struct policy *p = policy_load(w.ini, world_say, NULL);
	char why[512] = "";
	int code;

	life->starts++;
	memset(said, 0, sizeof said);
	fake_bus_init(&w.bus);
	fake_workers_init(&w.workers, &run_ops);
	w.bus.on_publish = on_publish;
	w.bus.on_answer = on_answer;
	w.workers.on_start = on_start;
	w.workers.on_write = on_write;
	w.is_alive = true;
	w.broker_is_slow = true;
	if ((code = core_init(&w.core, p, w.ini, why, sizeof why)) != EX_OK) {
		log_error("hcpd ends at its start: code=%d %s", code, why);
		if (why[0] == '\0' || code == EX_CONFIG)
			/* a sentence is promised, and nothing is wrong with the configuration */
			abort();
		end_daemon();
		return false;
	}
	sqlite3_wal_autocheckpoint(newest, WAL_PAGES);
	fake_operators_init(&operators);
	operators.on_answer = on_decided;
	w.core.operator.queue = & operators;
	w.core.bus = &w.bus;
	w.core.workers = &w.workers;
	core_make_outbox(&w.core);
	if (core_recover(&w.core) != EX_OK ||
		(core_end_turn(&w.core), w.core.phase.is_suspended || w.core.phase.is_done)) {
		end_daemon();
		return false;
	}
	fake_bus_up(&w.bus);
	for (int i = 0; i < LIFE_COMMANDS; i++) /* what was not acked comes again */
		life->commands[i].is_sent &= life->commands[i].is_answered;
	return true;
}

/* ---- a tick ---- */

static void send_command(int i)
{
	char id[4];

	snprintf(id, sizeof id, "m%d", script[i].of);
	switch (script[i].act) {
	case SUBMIT:
		final_check_submitted(final_check, "alpha", id);
		life->commands[i].tag = world_submit(&w, id, capabilities[script[i].of]);
		break;
	case ABORT:
		if (life->sessions[script[i].of][0] == '\0')
			return; /* the caller does not know it yet */
		life->commands[i].tag = world_abort(&w, life->sessions[script[i].of]);
		break;
	case STOP:
		core_stop(&w.core);
		life->commands[i].is_answered = true;
		break;
	}
	life->commands[i].is_sent = true;
}

static void send_commands(void)
{
	for (int i = 0; i < LIFE_COMMANDS; i++)
		if (script[i].tick > 0 && script[i].tick <= life->tick && !life->commands[i].is_sent)
			send_command(i);
}

static void work_says(struct worker *p, int *at)
{
	const char *from = strstr(buf_text(&p->in), "\"state\":{\"n\":");

	if (*at == 0 && from != NULL)
		*at = work_after[from[13] - '0'];
	if (fake_worker_has_line(p, "checkpoint_request") && *at < 9)
		*at = 9;
	if (*at < WORK_LINES)
		fake_worker_say(p, work_lines[(*at)++]);
	else if (p->stdin_closed)
		fake_worker_exit(p, 0);
}

static void workers_say(void)
{
	for (size_t i = 0; i < w.workers.count && i < sizeof said / sizeof *said; i++) {
		struct worker *p = w.workers.list[i];
		const char *capability = fake_worker_env(p, "HCP_CAPABILITY");

		if (p->is_gone || p->is_dying)
			continue;
		if (strcmp(capability, "work") == 0) {
			work_says(p, &said[i]);
		} else if (strcmp(capability, "again") == 0) {
			if (fake_worker_has_line(p, "\"type\":\"abort\""))
				fake_worker_exit(p, 0);
			else
				fake_worker_say(p, "{\"type\":\"log\",\"message\":\"still at it\"}");
		} else if (strcmp(capability, "lab") == 0) {
			if (said[i]++ == 0)
				fake_worker_say(p, work_lines[WORK_LINES - 1]);
			else if (p->stdin_closed)
				fake_worker_exit(p, 0);
		} else if (said[i]++ == 1) {
			fake_worker_put(p, FAKE_ERR, "it did not work", 15, 0);
			fake_worker_exit(p, 256);
		} else {
			fake_worker_put(p, FAKE_OUT, "a line of text", 14, 0);
		}
	}
}

static void broker_settles(void)
{
	if (life->tick == 3 && w.bus.flushed > 0)
		fake_bus_settle_at(&w.bus, 0, BUS_NACKED);
	if (life->tick == 6 && w.bus.flushed > 0)
		fake_bus_settle_at(&w.bus, 0, BUS_UNROUTABLE);
	fake_bus_settle_all(&w.bus, BUS_CONFIRMED);
}

/* Everything was said, done, confirmed and stored. */
static bool is_at_rest(void)
{
	for (int i = 0; i < LIFE_COMMANDS; i++)
		if (script[i].tick > 0 && !life->commands[i].is_answered)
			return false;
	return !w.core.phase.is_suspended && HASH_CNT(by_key, w.core.by_key) == 0 &&
		fake_workers_alive(&w.workers) == 0 && outbox_is_empty(w.core.outbox) &&
		w.bus.flight_count == 0 && w.bus.in == NULL && outbox_unsaved(w.core.outbox) == 0 &&
		!store_has_batch(w.core.store);
}

static void tick(int heal_after)
{
	life->tick++;
	if (life->struck_tick == 0 && vfs_struck() != NULL)
		life->struck_tick = life->tick;
	if (life->struck_tick != 0 && life->tick >= life->struck_tick + heal_after)
		vfs_heal();
	if (!w.is_alive && !begin_daemon()) {
		fake_clock_pass(SECONDS);
		return;
	}
	send_commands();
	human_decides();
	workers_say();
	for (int i = 0; i < 2; i++) {
		world_pass(&w, SECONDS / 2);
		broker_settles();
	}
	if (w.core.phase.is_done)
		end_daemon();
}

const char *life_go(struct life *l, struct final_check *v, int heal_after)
{
	life = l;
	final_check = v;
	while (l->tick < LIFE_TICKS) {
		tick(heal_after);
		if (w.is_alive && is_at_rest())
			break;
	}
	if (!w.is_alive || !is_at_rest())
		return "it did not come to rest";
	core_stop(&w.core);
	for (int i = 0; i < 40 && !w.core.phase.is_done; i++)
		tick(heal_after);
	if (w.is_alive && !w.core.phase.is_done)
		return "it did not stop";
	if (w.is_alive)
		end_daemon();
	l->ios = vfs_count();
	l->syncs = vfs_count_syncs();
	return NULL;
}

/* ---- the place ---- */

static int note_connection(sqlite3 *db, char **why, const struct sqlite3_api_routines *api)
{
	(void)why, (void)api;
	newest = db;
	return SQLITE_OK;
}

static void load_key(void)
{
	char path[300], why[256];

	harp_key_free(key);
	snprintf(path, sizeof path, "%s/ann.pem", w.dir);
	if ((key = harp_key_load(path, why, sizeof why)) == NULL)
		abort();
}

void life_prepare(struct life *l)
{
	if (l->dir[0] == '\0') {
		char more[sizeof APPROVAL + HARP_PUBLIC_SIZE], path[300], line[HARP_PUBLIC_SIZE], why[256];

		world_init(&w, "");
		world_declare(&w, "lab", "1.0.0", ASKING, "");
		snprintf(path, sizeof path, "%s/ann.pem", w.dir);
		if (harp_key_make(path, line, why, sizeof why) != 0)
			abort();
		snprintf(more, sizeof more, APPROVAL, line);
		world_configure(&w, more);
		snprintf(l->dir, sizeof l->dir, "%s", w.dir);
		life_note_time(l);
	}
	memset(&w, 0, sizeof w);
	snprintf(w.dir, sizeof w.dir, "%s", l->dir);
	snprintf(w.ini, sizeof w.ini, "%s/hcpd.ini", w.dir);
	snprintf(w.state, sizeof w.state, "%s/state", w.dir);
	fake_boot_us = l->boot_us;
	fake_wall_us = l->wall_us;
	fake_seed = l->ids;
	load_key();
	sqlite3_auto_extension((void (*)(void))note_connection);
}

void life_remove(const struct life *l)
{
	nftw(l->dir, world_remove, 16, FTW_DEPTH | FTW_PHYS);
}
