/* SPDX-License-Identifier: MIT */
/* test_client.c: hcpctl's side of the control socket: where it looks, what it makes of answers, good
 * and bad ones. */
#include "hcpctl/common/client.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "hcpctl/common/ctl.h"
#include "store/archive.h"
#include "hcpctl/common/archive_reader.h"
#include "store/store.h"

static char dir[100], ini[120], state[120], path[140];
static struct ctl_settings settings;
static struct buf said, got;

/* Goes on by so much at each look, where a test has no time to wait. */
static int64_t leap_us;

int64_t clock_boot_us(void)
{
	static int64_t leapt_us;
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	leapt_us += leap_us;
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000 + leapt_us;
}

/* What would have gone to stderr. */
static void hear(void *ctx, const char *line, size_t size)
{
	(void)ctx;
	buf_add(&said, line, size);
}

static void write_ini(const char *text)
{
	FILE *f = fopen(ini, "w");

	ck_assert(f != NULL);
	fputs(text, f);
	ck_assert(fclose(f) == 0);
}

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");

	/* A socket's path is short. */
	snprintf(dir, sizeof dir, "%s/hcp-client-XXXXXX", tmp != NULL && strlen(tmp) < 60 ? tmp : "/tmp");
	ck_assert(mkdtemp(dir) != NULL);
	snprintf(ini, sizeof ini, "%s/hcpd.ini", dir);
	snprintf(state, sizeof state, "%s/state", dir);
	snprintf(path, sizeof path, "%s/control.sock", state);
	ck_assert(mkdir(state, 0700) == 0);
	write_ini("[daemon]\nstate_dir = state\n[amqp]\nthis line is no matter of ours\n");
	settings = (struct ctl_settings){.daemon_config = ini};
	ctl_say_via(hear, NULL);
	buf_clear(&said);
	buf_clear(&got);
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(name);
}

static void teardown(void)
{
	ctl_say_via(NULL, NULL);
	buf_fini(&said);
	buf_fini(&got);
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- a server of one connection: it reads a line for each answer, and gives what it was told ---- */

static struct server {
	int fd;
	const char *answers; /* one a request; a NUL between, two at the end: then it closes */
	bool is_rude;        /* answers before it was asked */
	size_t chunk;        /* bytes in a write; 0: all */
	char asked[4096];
	pthread_t thread;
} server;

static void give(int fd, const char *text, size_t size)
{
	for (size_t at = 0, n; at < size; at += n) {
		n = server.chunk > 0 && server.chunk < size - at ? server.chunk : size - at;
		if (send(fd, text + at, n, MSG_NOSIGNAL) != (ssize_t)n)
			return;
		if (server.chunk > 20)
			usleep(3000); /* few: so that each is read on its own */
	}
}

static void *serve(void *arg)
{
	int fd = accept(server.fd, NULL, NULL);
	size_t at = 0;

	(void)arg;
	for (const char *a = server.answers; *a != '\0'; a += strlen(a) + 1) {
		while (!server.is_rude && memchr(server.asked, '\n', at) == NULL) {
			ssize_t n = recv(fd, server.asked + at, sizeof server.asked - 1 - at, 0);

			if (n <= 0)
				break;
			at += (size_t)n;
		}
		give(fd, a, strlen(a));
	}
	close(fd);
	return NULL;
}

static void start_server(struct server s)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	server = s;
	snprintf(a.sun_path, sizeof a.sun_path, "%.100s", path);
	server.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert(bind(server.fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(server.fd, 1) == 0);
	ck_assert(pthread_create(&server.thread, NULL, serve, NULL) == 0);
}

static void stop_server(void)
{
	pthread_join(server.thread, NULL);
	close(server.fd);
}

static bool on_item(void *ctx, const char *json, size_t size)
{
	(void)ctx;
	buf_add(&got, json, size);
	buf_add_text(&got, "\n");
	return true;
}

static int ask(const char *answers, bool is_rude, size_t chunk, json_t **done)
{
	struct ctl_client *c;
	int status;

	start_server((struct server){.answers = answers, .is_rude = is_rude, .chunk = chunk});
	c = ctl_client_open(&settings, CTL_NEED_DAEMON, &status);
	ck_assert_msg(c != NULL, "%s", buf_text(&said));
	ck_assert(ctl_client_is_live(c));
	if (is_rude)
		stop_server(); /* it has closed before we write */
	status = ctl_client_ask(c, ctl_client_request("list", NULL), on_item, NULL, done);
	ctl_client_close(c);
	if (!is_rude)
		stop_server();
	return status;
}

static void must_have(const char *text)
{
	ck_assert_msg(strstr(buf_text(&said), text), "no \"%s\" in: %s", text, buf_text(&said));
}

#define ITEMS "{\"id\":1,\"item\":{\"n\": 1.10}}\n{\"id\":1,\"item\":{\"error\":{},\"done\":true}}\n"

START_TEST(items_come_byte_for_byte_however_they_are_cut)
{
	json_t *done;

	ck_assert_int_eq(
		ask(ITEMS "{\"id\":1,\"done\":true,\"items\":2}\n\0", false, (size_t)_i, &done), CTL_OK);
	ck_assert_str_eq(buf_text(&got), "{\"n\": 1.10}\n{\"error\":{},\"done\":true}\n");
	ck_assert_int_eq((int)json_integer_value(json_object_get(done, "items")), 2);
	ck_assert_str_eq(buf_text(&said), "");
	ck_assert_msg(strstr(server.asked, "\"do\":\"list\"") && strstr(server.asked, "\"id\":1"), "%s",
		server.asked);
	json_decref(done);
}
END_TEST

START_TEST(an_error_is_said_with_what_to_do)
{
	ck_assert_int_eq(ask("{\"id\":1,\"error\":{\"code\":\"not_now\",\"message\":\"it is \\u001b[2J "
			     "over\",\"next\":\"wait\"}}\n\0",
				 false, 0, NULL),
		CTL_ERROR);
	must_have("over; wait");
	ck_assert_ptr_null(strchr(buf_text(&said), '\033'));
	buf_clear(&said);
	unlink(path);
	ck_assert_int_eq(
		ask("{\"id\":1,\"error\":{\"code\":\"unavailable\"}}\n\0", false, 0, NULL), CTL_UNAVAILABLE);
	must_have("the daemon refuses");
}
END_TEST

static void archive_session(const char *session_id, const char *lines, size_t size)
{
	char why[ARCHIVE_WHY_SIZE], sql[200], file[160];
	struct archive_writer *w;
	struct store *s;
	sqlite3 *db;
	int fd;

	ck_assert(store_open(state, &s, why, sizeof why) == EX_OK);
	store_close(s);
	snprintf(file, sizeof file, "%s/" ARCHIVE_DIR, state);
	ck_assert(mkdir(file, 0700) == 0 || errno == EEXIST);
	ck_assert((fd = open(file, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0);
	ck_assert((w = archive_append(fd, "2026-01-31", 0, why)) != NULL);
	ck_assert(archive_begin_entry(w, session_id) == 0 && archive_add(w, lines, size) == 0 &&
		archive_end_entry(w) == 0);
	snprintf(sql, sizeof sql, "INSERT INTO archives VALUES ('2026-01-31', %lld, 1)",
		(long long)archive_sync(w));
	archive_close(w);
	close(fd);
	snprintf(file, sizeof file, "%s/hcpd.db", state);
	ck_assert(sqlite3_open(file, &db) == SQLITE_OK);
	ck_assert(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(db);
}

/* The code of the error and the verb decide, whatever the sentence is: `artifact` gets the same code for a
 * session that is in the store. */
START_TEST(an_unknown_session_is_looked_for_in_the_archive)
{
	static const char *const verbs[] = {"show", "artifact"};
	const char *session = "abcd0000-0000-4000-8000-000000000001";
	struct ctl_client *c;
	int status;

	archive_session(session, "{}\n", 3);
	start_server((struct server){.answers = "{\"id\":1,\"error\":{\"code\":\"not_found\",\"message\":"
						"\"none\",\"next\":\"look\"}}\n\0"});
	c = ctl_client_open(&settings, CTL_NEED_DAEMON, &status);
	ck_assert_msg(c != NULL, "%s", buf_text(&said));
	ck_assert_int_eq(
		ctl_client_ask(c, ctl_client_request(verbs[_i], session), on_item, NULL, NULL), CTL_ERROR);
	must_have(_i == 0 ? "session abcd0000 has left the store for the archive" : "none; look");
	ctl_client_close(c);
	stop_server();
}
END_TEST

#define ARTIFACT(name, more) \
	"{\"table\":\"artifacts\",\"row\":{\"name\":\"" name \
	"\",\"type\":\"file\",\"sha256\":" \
	"\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"size_bytes\":7" more "}}\n"

static bool keep_item(void *ctx, const char *json, size_t size)
{
	buf_add(ctx, json, size);
	buf_add_text(ctx, "\n");
	return true;
}

/* jansson steps over a NUL behind a number. */
START_TEST(archive_reader_passes_over_a_line_with_a_raw_NUL)
{
	static const char lines[] = ARTIFACT("good", "") ARTIFACT("bad", "\0");
	char id[ID_SIZE] = "abcd0000-0000-4000-8000-000000000001", why[256];
	struct ctl_archive_reader a;
	struct buf items = {0};

	archive_session(id, lines, sizeof lines - 1);
	ck_assert_int_eq(ctl_archive_reader_open(&a, state, why, sizeof why), EX_OK);
	ck_assert_int_eq(ctl_archive_reader_find(&a, "abcd", id), 1);
	ck_assert(ctl_archive_reader_artifacts(&a, id, keep_item, &items));
	ck_assert(strstr(buf_text(&items), "\"good\"") != NULL);
	ck_assert(strstr(buf_text(&items), "\"bad\"") == NULL);
	ctl_archive_reader_fini(&a);
	buf_fini(&items);
}
END_TEST

START_TEST(client_that_is_turned_away_hears_why_before_any_request)
{
	ck_assert_int_eq(ask("{\"id\":null,\"error\":{\"code\":\"refused\",\"message\":\"you may "
			     "not\",\"next\":\"be root\"}}\n\0",
				 true, 0, NULL),
		CTL_ERROR);
	must_have("you may not; be root");
}
END_TEST

START_TEST(an_answer_that_breaks_off_is_told_from_one_that_ends)
{
	ck_assert_int_eq(ask(ITEMS "{\"id\":1,\"do\0", false, 0, NULL), CTL_CLIENT_LOST);
	unlink(path);
	ck_assert_int_eq(ask("\0", true, 0, NULL), CTL_CLIENT_LOST);
}
END_TEST

static const char *const garbage[] = {"HTTP/1.1 400 Bad Request\n\0", "\n\0", "{}\n\0", "[1,2]\n\0",
	"{\"done\":1}\n\0", "\"item\"\n\0", "{\"error\":\0"};

START_TEST(text_that_is_no_answer_is_an_error)
{
	int status = ask(garbage[_i], false, 0, NULL);

	ck_assert(status == CTL_ERROR || status == CTL_CLIENT_LOST);
	if (status == CTL_ERROR)
		ck_assert(strlen(buf_text(&said)) > 0);
}
END_TEST

/* ---- where it looks ---- */

START_TEST(absent_daemon_is_an_error_with_the_path)
{
	struct ctl_client *c;
	int status, fd;

	c = ctl_client_open(&settings, CTL_NEED_DAEMON, &status);
	ck_assert(c == NULL && status == CTL_UNAVAILABLE);
	must_have(path);
	buf_clear(&said);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600); /* what a crash left behind */
	close(fd);
	ck_assert(
		ctl_client_open(&settings, CTL_DAEMON_QUIETLY, &status) == NULL && status == CTL_UNAVAILABLE);
	ck_assert_str_eq(buf_text(&said), "");
	ck_assert_int_eq(ctl_client_abort(&settings, CTL_DAEMON_QUIETLY, "1234", NULL), CTL_CLIENT_ABSENT);
	ck_assert_str_eq(buf_text(&said), "");
}
END_TEST

/* Who names a path may have named the wrong one: that says nothing about the daemon. */
START_TEST(a_socket_that_was_named_is_not_taken_for_the_daemon)
{
	char named[] = "/nonexist/control.sock";
	struct ctl_client *c;
	struct store *s;
	char why[256];
	int status;

	ck_assert(store_open(state, &s, why, sizeof why) == EX_OK);
	store_close(s);
	if (_i == 0)
		settings.socket = named;
	else
		write_ini("[daemon]\nstate_dir = state\n[control]\nsocket = /nonexist/control.sock\n");
	ck_assert(ctl_client_open(&settings, CTL_NEED_DAEMON, &status) == NULL && status == CTL_UNAVAILABLE);
	must_have("nobody listens on /nonexist/control.sock, which ");
	must_have(_i == 0 ? "--socket" : "[control] socket");
	c = ctl_client_open(&settings, CTL_STORE_WILL_DO, &status);
	ck_assert(c != NULL && !ctl_client_is_live(c));
	must_have("names; this is what the store says");
	ck_assert_ptr_null(strstr(buf_text(&said), "not running"));
	ctl_client_close(c);
}
END_TEST

/* One that hangs: connections are made, and nobody takes them up; then there is no room for them either. */
START_TEST(daemon_that_hangs_for_ten_seconds_leaves_it_to_the_store)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), status;
	struct ctl_client *c, *full;
	struct store *s;
	char why[256];

	ck_assert(store_open(state, &s, why, sizeof why) == EX_OK);
	store_close(s);
	snprintf(a.sun_path, sizeof a.sun_path, "%.100s", path);
	ck_assert(bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 0) == 0);
	c = ctl_client_open(&settings, _i == 0 ? CTL_STORE_WILL_DO : CTL_NEED_DAEMON, &status);
	ck_assert(c != NULL && ctl_client_is_live(c));
	leap_us = 9500000;
	status = ctl_client_ask(c, ctl_client_request("list", NULL), on_item, NULL, NULL);
	leap_us = 0;
	ck_assert_int_eq(status, _i == 0 ? CTL_OK : CTL_UNAVAILABLE);
	must_have("has not answered for 10 s");
	must_have(_i == 0 ? "this is what the store says" : "hcpctl doctor");
	ck_assert(!ctl_client_is_live(c));
	buf_clear(&said);
	status = ctl_client_ask(c, ctl_client_request("list", NULL), on_item, NULL, NULL);
	ck_assert_int_eq(status, _i == 0 ? CTL_OK : CTL_UNAVAILABLE);
	if (_i == 0) {
		full = ctl_client_open(&settings, CTL_NEED_DAEMON, &status);
		ck_assert(full == NULL && status == CTL_UNAVAILABLE);
		must_have("has not answered for 10 s");
	}
	ctl_client_close(c);
	close(fd);
}
END_TEST

START_TEST(a_socket_of_the_configuration_is_the_only_one)
{
	struct ctl_daemon_paths p;

	write_ini("[daemon]\nstate_dir = /var/x\n[control]\nsocket = run/ctl ; ours\n");
	ctl_daemon_paths_find(&p, &settings);
	ck_assert_str_eq(p.state_dir, "/var/x");
	snprintf(path, sizeof path, "%s/run/ctl", dir);
	ck_assert_str_eq(p.sockets[0], path);
	ck_assert_ptr_null(p.sockets[1]);
	ctl_daemon_paths_fini(&p);
	write_ini("[control]\nsocket = off\n");
	ctl_daemon_paths_find(&p, &settings);
	ck_assert_ptr_null(p.sockets[0]);
	ck_assert_str_eq(p.state_dir, "/var/lib/hcpd");
	ctl_daemon_paths_fini(&p);
	char named[] = "here.sock";
	settings.socket = named; /* an option wins over off */
	ctl_daemon_paths_find(&p, &settings);
	ck_assert_str_eq(p.sockets[0], "here.sock");
	ctl_daemon_paths_fini(&p);
}
END_TEST

START_TEST(another_configurations_daemon_is_never_the_units)
{
	struct ctl_daemon_paths p;

	ctl_daemon_paths_find(&p, &settings);
	ck_assert_str_eq(p.sockets[0], path);
	ck_assert_ptr_null(p.sockets[1]);
	ctl_daemon_paths_fini(&p);
	settings.daemon_config = NULL;
	ctl_daemon_paths_find(&p, &settings);
	ck_assert_str_eq(p.sockets[0], "/run/hcpd/control.sock");
	ck_assert_ptr_nonnull(p.sockets[1]);
	ctl_daemon_paths_fini(&p);
}
END_TEST

START_TEST(the_store_answers_where_the_daemon_does_not)
{
	struct ctl_client *c;
	struct store *s;
	char why[256];
	json_t *done;
	int status;

	ck_assert(
		ctl_client_open(&settings, CTL_STORE_WILL_DO, &status) == NULL && status == CTL_UNAVAILABLE);
	must_have("has no store yet");
	buf_clear(&said);
	ck_assert(store_open(state, &s, why, sizeof why) == EX_OK);
	store_close(s);
	c = ctl_client_open(&settings, CTL_STORE_WILL_DO, &status);
	ck_assert_msg(c != NULL, "%s", buf_text(&said));
	ck_assert(!ctl_client_is_live(c));
	must_have("the daemon is not running; this is what the store says");
	ck_assert_int_eq(ctl_client_ask(c, ctl_client_request("list", NULL), on_item, NULL, &done), CTL_OK);
	ck_assert(json_is_true(json_object_get(done, "done")) &&
		json_is_integer(json_object_get(done, "items")));
	json_decref(done);
	ck_assert_int_eq(
		ctl_client_ask(c, ctl_client_request("show", "abcd"), on_item, NULL, NULL), CTL_ERROR);
	must_have("there is no session abcd");
	ck_assert_int_eq(
		ctl_client_ask(c, ctl_client_request("show", "\xff\xff\xff\xff"), on_item, NULL, NULL),
		CTL_USAGE);
	must_have("is not UTF-8");
	ctl_client_close(c);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ctl_client");
	TCase *t = tcase_create("ctl_client");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, items_come_byte_for_byte_however_they_are_cut, 0, 64);
	tcase_add_test(t, an_error_is_said_with_what_to_do);
	tcase_add_loop_test(t, an_unknown_session_is_looked_for_in_the_archive, 0, 2);
	tcase_add_test(t, archive_reader_passes_over_a_line_with_a_raw_NUL);
	tcase_add_test(t, client_that_is_turned_away_hears_why_before_any_request);
	tcase_add_test(t, an_answer_that_breaks_off_is_told_from_one_that_ends);
	tcase_add_loop_test(
		t, text_that_is_no_answer_is_an_error, 0, (int)(sizeof garbage / sizeof *garbage));
	tcase_add_test(t, absent_daemon_is_an_error_with_the_path);
	tcase_add_loop_test(t, a_socket_that_was_named_is_not_taken_for_the_daemon, 0, 2);
	tcase_add_loop_test(t, daemon_that_hangs_for_ten_seconds_leaves_it_to_the_store, 0, 2);
	tcase_add_test(t, a_socket_of_the_configuration_is_the_only_one);
	tcase_add_test(t, another_configurations_daemon_is_never_the_units);
	tcase_add_test(t, the_store_answers_where_the_daemon_does_not);
	suite_add_tcase(suite, t);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
