/* SPDX-License-Identifier: MIT */
/* handle.c: a handle from hcp_open to hcp_close, and its turn.
 * Owns the order of a turn (commit, then acks, then new messages), and the error and log texts for the
 * application. Never touches a socket (consumer.c, publisher.c) or a table (store.c). */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "libhcp/libhcp_private.h"

/* --- errors and log --- */

int lib_fail(struct hcp *h, int status, const char *fmt, ...)
{
	char text[LIB_ERROR_SIZE]; /* a copy: an argument may be h->error itself */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	memcpy(h->error, text, sizeof text);
	return status;
}

void lib_log(struct hcp *h, enum hcp_level level, const char *fmt, ...)
{
	char text[LIB_ERROR_SIZE + 100];
	va_list ap;

	if (!h->on_log)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	h->on_log(h->log_ctx, level, text);
}

HCP_API const char *hcp_error(const struct hcp *h)
{
	return h->error;
}

/* --- opening and closing --- */

void lib_wake(int wake_fd)
{
	uint64_t one = 1;

	/* A full eventfd means that a wake-up is pending already. */
	while (write(wake_fd, &one, sizeof one) < 0 && errno == EINTR)
		;
}

static int open_descriptors(struct hcp *h)
{
	struct epoll_event ev = {.events = EPOLLIN};

	h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (h->epoll_fd >= 0 && h->wake_fd >= 0 &&
		epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, h->wake_fd, &ev) == 0)
		return HCP_OK;
	return lib_fail(h, HCP_E_BROKER, "no descriptor to wait with: %s", strerror(errno));
}

HCP_API int hcp_open(struct hcp **out, const struct hcp_options *o)
{
	struct hcp *h = xcalloc(1, sizeof *h);
	int status;

	*out = h;
	h->epoll_fd = h->wake_fd = h->lock_fd = -1;
	h->inbox_end = &h->inbox;
	h->on_event = o->on_event;
	h->ctx = o->ctx;
	h->on_log = o->on_log;
	h->log_ctx = o->log_ctx;
	h->callee = o->callee ? xstrdup(o->callee) : NULL;
	if (!(h->settings = lib_settings_new(h, o)))
		return HCP_E_ARGUMENT;
	if ((status = open_descriptors(h)) < 0 || (status = lib_store_open(h, o->file)) < 0 ||
		(status = lib_pending_load(h)) < 0)
		return status;
	status = lib_consumer_open(h);
	if (status == HCP_E_BROKER && o->wait_for_broker) {
		lib_log(h, HCP_LOG_WARN, "%s; trying until it works", h->error);
		snprintf(h->last_trouble, sizeof h->last_trouble, "%s", h->error);
		return HCP_OK;
	}
	return status;
}

HCP_API void hcp_close(struct hcp *h)
{
	if (!h)
		return;
	lib_publisher_end(h->publisher);
	if (h->settings)
		lib_consumer_close(h);
	lib_inbox_forget_inbox(h);
	lib_inbox_forget_sessions(h);
	lib_pending_forget(h);
	if (h->db)
		lib_store_close(h);
	if (h->epoll_fd >= 0)
		close(h->epoll_fd);
	if (h->wake_fd >= 0)
		close(h->wake_fd);
	lib_settings_unref(h->settings);
	free(h->callee);
	free(h);
}

HCP_API struct sqlite3 *hcp_db(struct hcp *h)
{
	return h->db;
}

HCP_API int hcp_is_up(const struct hcp *h)
{
	return h->connection != NULL;
}

/* --- a turn --- */

/* The batch is void: the next turn loads memory from the file, and the messages go back to the broker. */
static int break_batch(struct hcp *h)
{
	h->store_retry_us = h->store_retry_us ? 2 * h->store_retry_us : LIB_SECOND;
	if (h->store_retry_us > LIB_BACKOFF_MAX)
		h->store_retry_us = LIB_BACKOFF_MAX;
	h->store_retry_at_us = clock_boot_us() + h->store_retry_us;
	lib_log(h, HCP_LOG_ERROR, "%s; nothing is acknowledged, trying again in %d s", h->error,
		(int)(h->store_retry_us / LIB_SECOND));
	lib_store_rollback(h);
	lib_consumer_requeue_settled(h);
	lib_inbox_forget_sessions(h);
	h->has_reload = true;
	return HCP_E_STORE;
}

/* After a failed batch: loads memory from the file. */
static int reload(struct hcp *h)
{
	if (!h->has_reload)
		return HCP_OK;
	lib_pending_forget(h);
	if (lib_store_load_gaps(h) < 0 || lib_pending_load(h) < 0)
		return HCP_E_STORE;
	h->has_reload = false;
	return HCP_OK;
}

static int run_batch(struct hcp *h, int64_t now_us)
{
	int settled;

	h->batch_at_us = now_us;
	h->batch_count = 0;
	if (reload(h) < 0 || lib_pending_turn(h, now_us) < 0 || lib_inbox_turn(h, now_us) < 0 ||
		lib_store_commit(h) < 0)
		return break_batch(h);
	h->store_retry_us = 0;
	settled = (int)h->ack_count;
	lib_consumer_ack(h);
	lib_group_end(h, (size_t)settled, clock_boot_us());
	lib_pending_committed(h);
	lib_pending_send(h, now_us);
	lib_inbox_trim(h);
	return settled;
}

HCP_API int hcp_process(struct hcp *h)
{
	int64_t now_us = clock_boot_us();
	uint64_t count;
	int rc;

	if (h->in_callback || !h->db || h->epoll_fd < 0)
		return lib_fail(h, HCP_E_ARGUMENT, "%s",
			h->in_callback ? "hcp_process is not for on_event" : "the handle was not opened");
	while (read(h->wake_fd, &count, sizeof count) < 0 && errno == EINTR)
		;
	lib_consumer_turn(h, now_us);
	if (now_us < h->store_retry_at_us)
		return 0;
	lib_store_prune(h, now_us);
	rc = run_batch(h, now_us);
	lib_consumer_end_turn(h);
	return rc;
}

HCP_API int hcp_fd(const struct hcp *h)
{
	return h->epoll_fd;
}

HCP_API short hcp_events(const struct hcp *h)
{
	(void)h;
	return POLLIN;
}

HCP_API int hcp_timeout(const struct hcp *h)
{
	int64_t now_us = clock_boot_us(), due_us = lib_consumer_due_us(h), other_us = lib_inbox_due_us(h);

	if (other_us < due_us)
		due_us = other_us;
	if (h->outgoing || h->has_new_outgoing) {
		other_us = h->has_new_outgoing ? 0 : h->outgoing_due_us;
		if (other_us < h->store_retry_at_us)
			other_us = h->store_retry_at_us;
		if (other_us < due_us)
			due_us = other_us;
	}
	if (due_us == INT64_MAX)
		return -1;
	if (due_us <= now_us)
		return 0;
	return due_us - now_us > 3600 * LIB_SECOND ? 3600000 : (int)((due_us - now_us + 999) / 1000);
}

/* --- a loop --- */

HCP_API void hcp_stop(struct hcp *h)
{
	int saved = errno;

	atomic_store(&h->is_stopping, true);
	lib_wake(h->wake_fd);
	errno = saved;
}

static int run_until(struct hcp *h, int timeout_ms, bool (*is_done)(const struct hcp *))
{
	int64_t end_us = timeout_ms < 0 ? INT64_MAX : clock_boot_us() + timeout_ms * INT64_C(1000), left_us;
	struct pollfd p = {.fd = h->epoll_fd, .events = POLLIN};
	int rc, wait_ms;

	for (;;) {
		rc = hcp_process(h);
		if (rc == HCP_E_ARGUMENT)
			return rc;
		if (atomic_exchange(&h->is_stopping, false) || (is_done && is_done(h)))
			return HCP_OK;
		left_us = end_us == INT64_MAX ? INT64_MAX : end_us - clock_boot_us();
		if (left_us <= 0)
			return HCP_TIMEOUT;
		wait_ms = hcp_timeout(h);
		if (left_us != INT64_MAX && (wait_ms < 0 || wait_ms > left_us / 1000 + 1))
			wait_ms = (int)(left_us / 1000) + 1;
		if (wait_ms != 0)
			poll(&p, 1, wait_ms);
	}
}

HCP_API int hcp_run(struct hcp *h, int timeout_ms)
{
	return run_until(h, timeout_ms, NULL);
}

HCP_API int hcp_flush(struct hcp *h, int timeout_ms)
{
	return run_until(h, timeout_ms, lib_pending_is_flushed);
}
