/* SPDX-License-Identifier: MIT */
/* loop.c: the turns of the core, driven by libev.
 * Owns the watchers and the clock's descriptor. Never decides anything about a session. */
#include "hcpd/loop.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <ev.h>
#include <systemd/sd-daemon.h>

#include "core/turn.h"
#include "base/log.h"
#include "hcpd/notify.h"

#define LOG_RETRY_S .1

enum { ON_TERM, ON_INT, ON_HUP, ON_CHILD, SIGNALS };

struct loop {
	struct core *core;
	struct ev_loop *ev;
	struct ev_async wake, again;
	struct ev_prepare prepare;
	struct ev_io clock; /* a timerfd: libev's own timers do not run through a suspend */
	int64_t clock_us;   /* the time that it is set to */
	struct ev_signal signals[SIGNALS];
	struct ev_timer watchdog;
	struct ev_timer log; /* while stderr takes no lines */
};

static void on_wake(struct ev_loop *ev, struct ev_async *w, int events)
{
	struct loop *l = w->data;

	(void)ev, (void)events;
	core_on_reload(l->core);
	core_on_jobs(l->core);
	core_on_bus(l->core);
	core_on_requests(l->core);
}

static void on_again(struct ev_loop *ev, struct ev_async *w, int events)
{
	struct loop *l = w->data;

	(void)ev, (void)events;
	core_on_jobs(l->core);
	core_go_on(l->core); /* where nothing is left over, the turn that follows does the work */
}

static void on_clock(struct ev_loop *ev, struct ev_io *w, int events)
{
	struct loop *l = w->data;
	uint64_t times;

	(void)ev, (void)events;
	if (read(w->fd, &times, sizeof times) > 0)
		l->clock_us = INT64_MAX;
	core_on_time(l->core);
}

static void on_signal(struct ev_loop *ev, struct ev_signal *w, int events)
{
	struct loop *l = w->data;

	(void)ev, (void)events;
	switch (w->signum) {
	case SIGHUP: core_reload(l->core); break;
	case SIGCHLD: core_on_child(l->core); break;
	default: core_stop(l->core);
	}
}

static void on_watchdog(struct ev_loop *ev, struct ev_timer *w, int events)
{
	struct loop *l = w->data;

	(void)ev, (void)events;
	if (core_is_alive(l->core))
		(void)notify_send("WATCHDOG=1"); /* where it is lost, the next one comes in time */
}

static void on_log(struct ev_loop *ev, struct ev_timer *w, int events)
{
	(void)events;
	log_flush();
	if (!log_is_behind())
		ev_timer_stop(ev, w);
}

static void set_clock(struct loop *l)
{
	int64_t at = core_next_us(l->core);
	struct itimerspec its = {.it_interval = {0, 0}};

	if (at == l->clock_us)
		return;
	l->clock_us = at;
	if (at != INT64_MAX) {
		at = at > 1 ? at : 1; /* zero would disarm the timer */
		its.it_value.tv_sec = at / 1000000;
		its.it_value.tv_nsec = at % 1000000 * 1000;
	}
	timerfd_settime(l->clock.fd, TFD_TIMER_ABSTIME, &its, NULL);
}

/* True: what came meanwhile is taken first. */
static bool gather(struct loop *l)
{
	int64_t us = core_gather_us(l->core);

	if (us > 0)
		usleep((useconds_t)us);
	return us > 0;
}

/* The loop is about to sleep: the turn ends. */
static void on_prepare(struct ev_loop *ev, struct ev_prepare *w, int events)
{
	struct loop *l = w->data;

	(void)events;
	if (gather(l)) {
		ev_async_send(ev, &l->again);
		return;
	}
	if (core_end_turn(l->core))
		ev_async_send(ev, &l->again);
	if (l->core->phase.is_done)
		ev_break(ev, EVBREAK_ALL);
	set_clock(l);
	if (log_is_behind() && !ev_is_active(&l->log))
		ev_timer_again(ev, &l->log);
}

static void notify_status(void *ctx, const char *text)
{
	char line[1024];

	(void)ctx;
	snprintf(line, sizeof line, "STATUS=%s", text);
	(void)notify_send(line);
}

struct loop *loop_new(struct core *c)
{
	static const int numbers[SIGNALS] = {
		[ON_TERM] = SIGTERM, [ON_INT] = SIGINT, [ON_HUP] = SIGHUP, [ON_CHILD] = SIGCHLD};
	struct loop *l = xcalloc(1, sizeof *l);
	int fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);

	l->core = c;
	l->clock_us = INT64_MAX;
	/* Not the default loop, which would reap every child itself. */
	if (fd < 0 || (l->ev = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV)) == NULL) {
		if (fd >= 0)
			close(fd);
		free(l);
		return NULL;
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file that reaches its size limit must only fail the commit */
	/* these would end the daemon without a log line, and other daemons give them a meaning */
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	signal(SIGALRM, SIG_IGN);
	ev_async_init(&l->wake, on_wake);
	ev_async_init(&l->again, on_again);
	ev_prepare_init(&l->prepare, on_prepare);
	ev_io_init(&l->clock, on_clock, fd, EV_READ);
	ev_timer_init(&l->watchdog, on_watchdog, 0., 0.);
	ev_timer_init(&l->log, on_log, 0., LOG_RETRY_S);
	l->wake.data = l->again.data = l->prepare.data = l->clock.data = l->watchdog.data = l;
	ev_async_start(l->ev, &l->wake);
	ev_async_start(l->ev, &l->again);
	ev_prepare_start(l->ev, &l->prepare);
	ev_io_start(l->ev, &l->clock);
	for (int i = 0; i < SIGNALS; i++) {
		ev_signal_init(&l->signals[i], on_signal, numbers[i]);
		l->signals[i].data = l;
		if (numbers[i] ==
			SIGCHLD) /* after the pipes: a worker closes those first, and so is found sooner */
			ev_set_priority(&l->signals[i], EV_MINPRI);
		ev_signal_start(l->ev, &l->signals[i]);
	}
	c->status.fn = getenv("NOTIFY_SOCKET") != NULL ? notify_status : NULL;
	return l;
}

struct ev_loop *loop_ev(struct loop *l)
{
	return l->ev;
}

void loop_wake(void *ctx)
{
	struct loop *l = ctx;

	ev_async_send(l->ev, &l->wake);
}

void loop_run(struct loop *l)
{
	uint64_t usec = 0;

	if (sd_watchdog_enabled(0, &usec) > 0 && usec > 0) {
		bus_set_watchdog(l->core->bus, (int64_t)usec);
		ev_timer_set(&l->watchdog, 0., (double)usec / 2e6);
		ev_timer_start(l->ev, &l->watchdog);
	}
	core_say_status(l->core);
	if (!l->core->phase.is_done)
		ev_run(l->ev, 0);
}

void loop_free(struct loop *l)
{
	close(l->clock.fd);
	ev_loop_destroy(l->ev);
	free(l);
}
