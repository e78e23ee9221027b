/* SPDX-License-Identifier: MIT */
/* test_outgoing.c: frames composed by us against those of librabbitmq, byte for byte; and how they get into a
 * socket whose peer reads slowly, not at all, or is gone. */
#include "amqp/outgoing.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "amqp/connection.h"
#include "base/buf.h"
#include "base/clock.h"

#define SECOND INT64_C(1000000)
#define FRAME_MAX 65536 /* of a connection of librabbitmq that did not log in */

/* --- the other end of a socket --- */

struct reader {
	int fds[2]; /* ours, and the one that is written to */
	pthread_t thread;
	size_t at_once;
	struct buf got;
};

static void *read_all(void *arg)
{
	struct reader *r = arg;
	char part[8192];
	ssize_t n;

	while ((n = read(r->fds[0], part, r->at_once)) > 0)
		buf_add(&r->got, part, (size_t)n);
	return NULL;
}

static void open_pair(struct reader *r)
{
	*r = (struct reader){.at_once = 8192};
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, r->fds), 0);
}

static void begin_reading(struct reader *r, size_t at_once)
{
	r->at_once = at_once;
	ck_assert_int_eq(pthread_create(&r->thread, NULL, read_all, r), 0);
}

/* Everything that was written, once the writer's end is closed. */
static void end_reading(struct reader *r)
{
	shutdown(r->fds[1], SHUT_WR);
	pthread_join(r->thread, NULL);
	close(r->fds[0]);
	close(r->fds[1]);
}

/* --- librabbitmq, writing into a socket --- */

static amqp_connection_state_t library_open(int fd)
{
	amqp_connection_state_t k = amqp_new_connection();

	ck_assert_int_eq(amqp_get_frame_max(k), FRAME_MAX);
	amqp_tcp_socket_set_sockfd(amqp_tcp_socket_new(k), dup(fd));
	return k;
}

static amqp_basic_properties_t library_properties(const struct connection_message *m)
{
	amqp_basic_properties_t p = {.content_type = amqp_cstring_bytes("application/json"),
		.content_encoding = amqp_cstring_bytes("utf-8"),
		.delivery_mode = AMQP_DELIVERY_PERSISTENT,
		.message_id = amqp_cstring_bytes(m->message_id),
		.timestamp = (uint64_t)m->timestamp_s,
		.type = amqp_cstring_bytes(m->type)};

	p._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_CONTENT_ENCODING_FLAG |
		AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG |
		AMQP_BASIC_TYPE_FLAG;
	if (m->correlation_id && m->correlation_id[0]) {
		p._flags |= AMQP_BASIC_CORRELATION_ID_FLAG;
		p.correlation_id = amqp_cstring_bytes(m->correlation_id);
	}
	if (m->user_id) {
		p._flags |= AMQP_BASIC_USER_ID_FLAG;
		p.user_id = amqp_cstring_bytes(m->user_id);
	}
	return p;
}

static void library_publish(amqp_connection_state_t k, const struct connection_message *m)
{
	amqp_basic_properties_t p = library_properties(m);
	amqp_bytes_t body = {m->size, (void *)(uintptr_t)m->body};

	ck_assert_int_eq(amqp_basic_publish(k, FRAMES_CHANNEL, amqp_cstring_bytes(m->exchange),
				 amqp_cstring_bytes(m->key), 1, 0, &p, body),
		AMQP_STATUS_OK);
}

static void assert_same(const struct buf *a, const struct buf *b)
{
	ck_assert_uint_eq(a->size, b->size);
	ck_assert(memcmp(a->data, b->data, a->size) == 0);
}

static char long_text[256];
static char body[300000];

static void set_up(void)
{
	memset(long_text, 'k', 255);
	for (size_t i = 0; i < sizeof body; i++)
		body[i] = (char)(i * 7 + i / 251);
}

START_TEST(messages_are_the_bytes_that_librabbitmq_sends)
{
	static const size_t sizes[] = {0, 1, 700, FRAME_MAX - 9, FRAME_MAX - 8, FRAME_MAX - 7,
		2 * (FRAME_MAX - 8), OUTGOING_BYTES, 2 * OUTGOING_BYTES + 1, sizeof body};
	struct connection_message m = {.exchange = "hcp.events",
		.key = "caller.event.progress",
		.message_id = "1c7f3a52-6a37-4f0a-9d92-2a27e1bb0e10",
		.type = "session_event",
		.timestamp_s = 1700000000,
		.body = body,
		.size = sizes[_i / 4]};
	struct reader ours, theirs;
	amqp_connection_state_t k;
	struct outgoing o;

	m.correlation_id = _i % 4 == 0 ? NULL : _i % 4 == 1 ? "" : "7d9f8f2e-4c1b-4a77-9d53-0f6f0a7a1c11";
	if (_i % 4 == 3) { /* the largest head */
		m.exchange = m.key = m.message_id = m.correlation_id = m.type = m.user_id = long_text;
		m.timestamp_s = INT64_MAX;
	}
	open_pair(&ours);
	open_pair(&theirs);
	begin_reading(&ours, 8192);
	begin_reading(&theirs, 8192);
	outgoing_init(&o, ours.fds[1], 0, FRAME_MAX);
	k = library_open(theirs.fds[1]);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(outgoing_add_message(&o, &m), AMQP_STATUS_OK);
		library_publish(k, &m);
	}
	ck_assert_int_eq(outgoing_flush(&o), AMQP_STATUS_OK);
	outgoing_fini(&o);
	end_reading(&ours);
	end_reading(&theirs);
	amqp_destroy_connection(k);
	assert_same(&ours.got, &theirs.got);
	buf_fini(&ours.got);
	buf_fini(&theirs.got);
}
END_TEST

START_TEST(answers_are_the_bytes_that_librabbitmq_sends)
{
	static const uint64_t tags[] = {1, 255, 256, UINT32_MAX, UINT64_MAX};
	struct reader ours, theirs;
	amqp_connection_state_t k;
	struct outgoing o;

	open_pair(&ours);
	open_pair(&theirs);
	begin_reading(&ours, 8192);
	begin_reading(&theirs, 8192);
	outgoing_init(&o, ours.fds[1], 0, FRAME_MAX);
	k = library_open(theirs.fds[1]);
	for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
		for (int flag = 0; flag < 2; flag++) {
			ck_assert_int_eq(outgoing_add_ack(&o, tags[i], flag), AMQP_STATUS_OK);
			ck_assert_int_eq(outgoing_add_reject(&o, tags[i], flag), AMQP_STATUS_OK);
			amqp_basic_ack(k, FRAMES_CHANNEL, tags[i], flag);
			amqp_basic_reject(k, FRAMES_CHANNEL, tags[i], flag);
		}
	ck_assert_int_eq(outgoing_flush(&o), AMQP_STATUS_OK);
	outgoing_fini(&o);
	end_reading(&ours);
	end_reading(&theirs);
	amqp_destroy_connection(k);
	assert_same(&ours.got, &theirs.got);
	buf_fini(&ours.got);
	buf_fini(&theirs.got);
}
END_TEST

/* --- sockets that take little, or nothing --- */

static struct connection_message plain_message(size_t size)
{
	return (struct connection_message){.exchange = "hcp.events",
		.key = "k",
		.message_id = "m",
		.type = "event",
		.body = body,
		.size = size};
}

static void make_narrow(const struct reader *r)
{
	int bytes = 4096;

	ck_assert_int_eq(setsockopt(r->fds[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
	ck_assert_int_eq(fcntl(r->fds[1], F_SETFL, O_NONBLOCK), 0);
}

START_TEST(a_peer_that_reads_in_small_pieces_gets_every_byte)
{
	struct connection_message m = plain_message(sizeof body);
	struct reader narrow, wide;
	struct outgoing o;

	open_pair(&narrow);
	make_narrow(&narrow);
	begin_reading(&narrow, 100);
	outgoing_init(&o, narrow.fds[1], 0, FRAME_MAX);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(outgoing_add_message(&o, &m), AMQP_STATUS_OK);
	ck_assert_int_eq(outgoing_flush(&o), AMQP_STATUS_OK);
	outgoing_fini(&o);
	end_reading(&narrow);
	open_pair(&wide);
	begin_reading(&wide, 8192);
	outgoing_init(&o, wide.fds[1], 0, FRAME_MAX);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(outgoing_add_message(&o, &m), AMQP_STATUS_OK);
	ck_assert_int_eq(outgoing_flush(&o), AMQP_STATUS_OK);
	outgoing_fini(&o);
	end_reading(&wide);
	assert_same(&narrow.got, &wide.got);
	buf_fini(&narrow.got);
	buf_fini(&wide.got);
}
END_TEST

static void *shut_down_once_full(void *arg)
{
	const struct reader *r = arg;
	struct pollfd p = {.fd = r->fds[1], .events = POLLOUT};
	int64_t end_us = clock_boot_us() + 10 * SECOND;

	while (poll(&p, 1, 0) != 0 && clock_boot_us() < end_us)
		poll(NULL, 0, 5);
	shutdown(r->fds[1], SHUT_RDWR);
	return NULL;
}

START_TEST(shutting_the_socket_down_ends_a_send_that_hangs)
{
	struct connection_message m = plain_message(sizeof body);
	struct reader r;
	struct outgoing o;
	pthread_t thread;
	int status;

	open_pair(&r);
	make_narrow(&r);
	ck_assert_int_eq(pthread_create(&thread, NULL, shut_down_once_full, &r), 0);
	outgoing_init(&o, r.fds[1], 0, FRAME_MAX);
	status = outgoing_add_message(&o, &m);
	if (status == AMQP_STATUS_OK)
		status = outgoing_flush(&o);
	ck_assert_int_eq(status, AMQP_STATUS_SOCKET_ERROR);
	pthread_join(thread, NULL);
	ck_assert_int_eq(outgoing_add_ack(&o, 1, false), AMQP_STATUS_SOCKET_ERROR);
	ck_assert_int_eq(outgoing_flush(&o), AMQP_STATUS_SOCKET_ERROR);
	outgoing_fini(&o);
	close(r.fds[0]);
	close(r.fds[1]);
}
END_TEST

START_TEST(a_peer_silent_for_two_heartbeats_ends_a_send_that_hangs)
{
	struct connection_message m = plain_message(sizeof body);
	struct reader r;
	struct outgoing o;

	open_pair(&r);
	make_narrow(&r);
	outgoing_init(&o, r.fds[1], 1, FRAME_MAX);
	ck_assert_int_eq(outgoing_add_message(&o, &m), AMQP_STATUS_HEARTBEAT_TIMEOUT);
	outgoing_fini(&o);
	close(r.fds[0]);
	close(r.fds[1]);
}
END_TEST

/* Says something more often than every two heartbeats, and reads only after more than two of these. */
static void *talk_then_read(void *arg)
{
	struct reader *r = arg;

	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(write(r->fds[0], "12345678", 8), 8);
		poll(NULL, 0, 1000);
	}
	return read_all(r);
}

START_TEST(a_peer_that_talks_and_does_not_read_is_waited_for)
{
	struct connection_message m = plain_message(sizeof body);
	struct reader r;
	struct outgoing o;

	open_pair(&r);
	make_narrow(&r);
	ck_assert_int_eq(pthread_create(&r.thread, NULL, talk_then_read, &r), 0);
	outgoing_init(&o, r.fds[1], 1, FRAME_MAX);
	ck_assert_int_eq(outgoing_add_message(&o, &m), AMQP_STATUS_OK);
	ck_assert_int_eq(outgoing_flush(&o), AMQP_STATUS_OK);
	outgoing_fini(&o);
	end_reading(&r);
	ck_assert_uint_gt(r.got.size, sizeof body);
	buf_fini(&r.got);
}
END_TEST

START_TEST(a_name_that_no_frame_can_hold_sends_nothing)
{
	struct connection_message m = plain_message(10);
	char too_long[257] = {0};
	struct reader r;
	struct outgoing o;

	memset(too_long, 'k', 256);
	m.key = too_long;
	open_pair(&r);
	begin_reading(&r, 8192);
	outgoing_init(&o, r.fds[1], 0, FRAME_MAX);
	ck_assert_int_eq(outgoing_add_message(&o, &m), AMQP_STATUS_BAD_AMQP_DATA);
	ck_assert_int_eq(outgoing_flush(&o), AMQP_STATUS_BAD_AMQP_DATA);
	outgoing_fini(&o);
	end_reading(&r);
	ck_assert_uint_eq(r.got.size, 0);
	buf_fini(&r.got);
}
END_TEST

START_TEST(nothing_is_written_after_the_connection_is_lost)
{
	struct connection_message m = plain_message(10);
	struct reader r;
	struct outgoing o;

	open_pair(&r);
	begin_reading(&r, 8192);
	outgoing_init(&o, r.fds[1], 0, FRAME_MAX);
	ck_assert_int_eq(outgoing_add_message(&o, &m), AMQP_STATUS_OK);
	outgoing_fail(&o, AMQP_STATUS_CONNECTION_CLOSED);
	ck_assert_int_eq(outgoing_flush(&o), AMQP_STATUS_CONNECTION_CLOSED);
	outgoing_fini(&o);
	end_reading(&r);
	ck_assert_uint_eq(r.got.size, 0);
	buf_fini(&r.got);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("outgoing");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, set_up, NULL);
	tcase_add_loop_test(t, messages_are_the_bytes_that_librabbitmq_sends, 0, 40);
	tcase_add_test(t, answers_are_the_bytes_that_librabbitmq_sends);
	tcase_add_test(t, a_peer_that_reads_in_small_pieces_gets_every_byte);
	tcase_add_test(t, shutting_the_socket_down_ends_a_send_that_hangs);
	tcase_add_test(t, a_peer_silent_for_two_heartbeats_ends_a_send_that_hangs);
	tcase_add_test(t, a_peer_that_talks_and_does_not_read_is_waited_for);
	tcase_add_test(t, a_name_that_no_frame_can_hold_sends_nothing);
	tcase_add_test(t, nothing_is_written_after_the_connection_is_lost);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
