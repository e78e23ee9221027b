/* SPDX-License-Identifier: MIT */
/* fake_retention.c: retention's thread and its archive, for the simulation: a routine with a stack of its own
 * that runs when the world lets it, and files of memory that tear at a crash. Stands in for retain/thread.c
 * and for archive.h; who leaves, how it is packed and what is asked of the core is the daemon's own code
 * (retain/scan.c, retain/archive.c, retain/read.c, retain/retain.c). */
#include <errno.h>
#include <fcntl.h>
#include <sysexits.h>
#include <ucontext.h>
#include <unistd.h>

#include "sim.h"

#include "retain/retain_private.h"

#define STACK_SIZE (1024 * 1024)
#define DAYS_MAX 64
#define BEGINS '\001' /* an entry: this, the session's id, a newline, its lines, */
#define ENDS '\002'   /* and this */

static struct day {
	char day[ARCHIVE_DAY_SIZE];
	struct buf text;
	size_t synced;
} days[DAYS_MAX];
static int day_count;

static ucontext_t stage, routine;
static char stack[STACK_SIZE] __attribute__((aligned(64)));
static struct retain *keeper;
static bool is_running; /* the routine is in a pass */

/* ---- the thread ---- */

static void run(void)
{
	retain_scan(keeper);
	is_running = false;
	swapcontext(&routine, &stage);
}

static void go_on(void)
{
	swapcontext(&stage, &routine);
}

static void begin_pass(struct retain *r)
{
	r->is_due = false;
	r->now = r->rules;
	r->now_us = clock_wall_us();
	r->slice_rows = 0;
	r->slice_bytes = 0;
	is_running = true;
	getcontext(&routine);
	routine.uc_stack.ss_sp = stack;
	routine.uc_stack.ss_size = sizeof stack;
	routine.uc_link = NULL;
	makecontext(&routine, run, 0);
	go_on();
}

bool keeper_is_ready(void)
{
	return keeper != NULL && !sim.is_dead && (is_running ? keeper->state == ORDER_IDLE : keeper->is_due);
}

bool keeper_step(void)
{
	if (!keeper_is_ready())
		return false;
	if (is_running)
		go_on();
	else
		begin_pass(keeper);
	return true;
}

bool retain_commit_order(struct retain *r)
{
	if (atomic_load(&r->is_stopping) || sim.is_dead)
		return false;
	r->state = ORDER_WAITING;
	swapcontext(&routine, &stage);
	if (r->state == ORDER_IDLE) {
		memset(&r->order, 0, sizeof r->order);
		r->committed++;
	}
	return !atomic_load(&r->is_stopping);
}

bool retain_is_empty(const struct retain *r)
{
	const struct retain_order *o = &r->order;

	return o->day[0] == '\0' && o->leave_count + o->drop_count + o->left_count + o->answer_count == 0 &&
		!o->vacuums;
}

bool retain_rules_hold(struct retain *r)
{
	return r->now.grace_us == r->rules.grace_us && r->now.expire_us == r->rules.expire_us &&
		r->now.archives == r->rules.archives;
}

int retain_start(struct core *c, void (*wake)(void *ctx), void *ctx, struct retain **out)
{
	struct retain *r = xcalloc(1, sizeof *r);

	r->core = c;
	r->wake = wake;
	r->wake_ctx = ctx;
	r->state_dir = xstrdup(c->state_dir);
	r->dir_fd = -1;
	r->tick.on_due = retain_on_tick;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->news, NULL);
	timer_set(&c->timers, &r->tick, clock_boot_us() + SECONDS);
	is_running = false;
	*out = keeper = r;
	return EX_OK;
}

void retain_stop(struct retain *r)
{
	atomic_store(&r->is_stopping, true);
	while (is_running)
		go_on();
	timer_cancel(&r->core->timers, &r->tick);
	retain_close_dir(r);
	pthread_cond_destroy(&r->news);
	pthread_mutex_destroy(&r->lock);
	buf_fini(&r->line);
	free(r->state_dir);
	free(r);
	keeper = NULL;
}

/* ---- the archive's files ---- */

struct archive_writer {
	struct day *day;
};

bool archive_is_day(const char *text)
{
	return strlen(text) == 10 && text[4] == '-' && text[7] == '-';
}

static struct day *find_day(const char *name)
{
	for (int i = 0; i < day_count; i++)
		if (strcmp(days[i].day, name) == 0)
			return &days[i];
	return NULL;
}

struct archive_writer *archive_append(int dir_fd, const char *day, int64_t committed, char *why)
{
	struct archive_writer *w;
	struct day *d = find_day(day);

	(void)dir_fd;
	if (d == NULL && day_count == DAYS_MAX)
		violation("sessions ended on more than %d days", DAYS_MAX);
	if (d == NULL) {
		d = &days[day_count++];
		memset(d, 0, sizeof *d);
		snprintf(d->day, sizeof d->day, "%s", day);
	}
	if ((int64_t)d->text.size < committed)
		violation("the archive of %s has %zu bytes, and %lld count", day, d->text.size,
			(long long)committed);
	if (!sim.is_dead && (int64_t)d->text.size > committed)
		cover(KEEP_CUT);
	if (!sim.is_dead)
		d->text.size = (size_t)committed;
	if (!sim.is_healed && sim_chance(12)) {
		cover(KEEP_REFUSED);
		snprintf(why, ARCHIVE_WHY_SIZE, "no room");
		return NULL;
	}
	w = xcalloc(1, sizeof *w);
	w->day = d;
	return w;
}

static int put(struct archive_writer *w, const void *data, size_t size)
{
	if (!sim.is_dead && sim.effects_left > 0 && --sim.effects_left == 0)
		sim_die(CRASH_ARCHIVE);
	if (!sim.is_dead)
		buf_add(&w->day->text, data, size);
	return 0;
}

int archive_begin_entry(struct archive_writer *w, const char *session_id)
{
	char line[ID_SIZE + 3];

	return put(w, line, (size_t)snprintf(line, sizeof line, "%c%s\n", BEGINS, session_id));
}

int archive_add(struct archive_writer *w, const void *data, size_t size)
{
	if (!sim.is_healed && sim_chance(400)) {
		cover(KEEP_REFUSED);
		errno = ENOSPC;
		return -1;
	}
	return put(w, data, size);
}

int archive_end_entry(struct archive_writer *w)
{
	static const char end[] = {ENDS, '\0'};

	return put(w, end, 1);
}

int64_t archive_sync(struct archive_writer *w)
{
	if (!sim.is_dead)
		w->day->synced = w->day->text.size;
	return (int64_t)w->day->text.size;
}

void archive_close(struct archive_writer *w)
{
	free(w);
}

/* Nothing expires in here, so nobody reads them but the oracle. */
struct archive_reader *archive_open(int fd, int64_t limit)
{
	(void)fd, (void)limit;
	violation("an archive expires, and nobody said so");
}

void archive_free(struct archive_reader *r)
{
	(void)r;
}

int archive_next(struct archive_reader *r, struct archive_entry *e, char *why)
{
	(void)r, (void)e, (void)why;
	return 0;
}

/* ---- the world's side ---- */

void keeper_reset(void)
{
	while (day_count > 0)
		buf_fini(&days[--day_count].text);
}

/* Of what was written and not synced any part is lost. */
void keeper_lose_power(void)
{
	for (int i = 0; i < day_count; i++)
		if (days[i].text.size > days[i].synced)
			days[i].text.size = days[i].synced +
				sim_choose((unsigned)(days[i].text.size - days[i].synced) + 1);
}

/* The n-th entry of a session in what counts of a day: its lines, and how long they are. NULL: there is
 * none. */
const char *keeper_entry(const char *day, int64_t counts, const char *session_id, int n, size_t *size)
{
	const struct day *d = find_day(day);
	char head[ID_SIZE + 3];
	const char *at, *end, *limit;

	if (counts > 0 && (d == NULL || (int64_t)d->text.size < counts))
		violation("the archive of %s is gone, or shorter than the %lld bytes that count", day,
			(long long)counts);
	if (counts == 0)
		return NULL;
	at = d->text.data;
	limit = at + counts;
	snprintf(head, sizeof head, "%c%s\n", BEGINS, session_id);
	while ((at = memmem(at, (size_t)(limit - at), head, strlen(head))) != NULL) {
		at += strlen(head);
		if (n-- > 0)
			continue;
		if ((end = memchr(at, ENDS, (size_t)(limit - at))) == NULL)
			violation("session %.8s is torn in the archive of %s", session_id, day);
		*size = (size_t)(end - at);
		return at;
	}
	return NULL;
}
