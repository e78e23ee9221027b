/* SPDX-License-Identifier: MIT */
/* test_tls.c: the bus over TLS: whom it trusts, as whom it logs in, and that nothing waits inside the TLS
 * layer. Needs a broker with a TLS listener (HCP_TEST_BROKER_TLS_PORT, certificates in its tls/). */
#include "support/bus_kit.h"

#include "amqp/connection.h"

static struct config *config;
static char ca[512], cert[512], key[512];
static int tls_port;

static void set_up(void)
{
	static int n;
	char callee[32];

	snprintf(callee, sizeof callee, "tls%d", n++);
	config = bus_kit_make_config(callee);
	config->amqp.tls = true;
	config->amqp.port = tls_port;
	config->amqp.host = (char *)(uintptr_t) "localhost";
	config->amqp.ca_file = ca;
}

static struct connection *try_open(struct connection_error *e)
{
	struct connection_spec spec = {.amqp = &config->amqp, .name = "tls test", .max_body = 1000};

	return connection_open(&spec, e);
}

static void assert_refused(const char *words)
{
	struct connection_error e;
	struct connection *l = try_open(&e);

	ck_assert_msg(l == NULL, "let in, though it should not be");
	ck_assert_msg(strstr(e.text, words), "%s", e.text);
}

START_TEST(a_broker_with_a_known_authority_is_trusted) /* proves L1-14 */
{
	amqp_connection_state_t k = bus_client_open();
	struct bus_user *c = bus_user_start(config);
	struct bus_out *o = bus_kit_outs_new(500, "nobody", "{}", 2);
	static char body[2000];

	bus_user_wait_up(c);
	c->auto_ack = true;
	bus_publish(c->bus, o);
	bus_flush(c->bus);
	bus_user_wait(c, c->status[BUS_UNROUTABLE] == 500, 20);
	/* A flood: records hold several frames, and the descriptor is silent while some wait inside. */
	memset(body, 'x', sizeof body);
	for (int i = 0; i < 3000; i++)
		bus_client_command(k, body, sizeof body);
	bus_user_wait(c, c->count[BUS_DELIVERY] == 3000, 30);
	bus_user_stop(c);
	ck_assert_int_eq(bus_client_ready(k, bus_kit_queue()), 0);
	bus_client_close(k);
	free(o);
}
END_TEST

START_TEST(an_unknown_authority_is_refused) /* proves L1-14 */
{
	config->amqp.ca_file = cert; /* a certificate, but not the one that signed the broker's */
	assert_refused("ca_file");
}
END_TEST

START_TEST(without_ca_file_only_the_systems_authorities_count) /* proves L1-14 */
{
	config->amqp.ca_file = NULL;
	assert_refused("ca_file");
}
END_TEST

START_TEST(an_unreadable_ca_file_is_named) /* proves L1-14 */
{
	config->amqp.ca_file = (char *)(uintptr_t) "/nonexistent/ca.pem";
	assert_refused("/nonexistent/ca.pem");
}
END_TEST

/* The broker's port is passed on from another address, which its certificate does not name. */
static int other_listener;

static void *pass_on(void *arg)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)tls_port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct bus_proxy_pair p = {
		.client = accept4(other_listener, NULL, NULL, SOCK_CLOEXEC), .role = ROLE_PUB};
	struct pollfd fds[2];

	(void)arg;
	p.broker = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p.client < 0 || connect(p.broker, (struct sockaddr *)&a, sizeof a) < 0)
		return NULL;
	fds[0] = (struct pollfd){.fd = p.client, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = p.broker, .events = POLLIN};
	while (poll(fds, 2, 20000) > 0)
		if ((fds[0].revents && !bus_proxy_pass(&p, p.client, p.broker)) ||
			(fds[1].revents && !bus_proxy_pass(&p, p.broker, p.client)))
			break;
	bus_proxy_drop(&p);
	return NULL;
}

static pthread_t listen_elsewhere(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)};
	socklen_t size = sizeof a;
	pthread_t thread;

	other_listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(other_listener, (struct sockaddr *)&a, sizeof a), 0);
	ck_assert_int_eq(listen(other_listener, 4), 0);
	ck_assert_int_eq(getsockname(other_listener, (struct sockaddr *)&a, &size), 0);
	config->amqp.host = (char *)(uintptr_t) "127.0.0.2";
	config->amqp.port = ntohs(a.sin_port);
	ck_assert_int_eq(pthread_create(&thread, NULL, pass_on, NULL), 0);
	return thread;
}

START_TEST(a_certificate_for_another_host_is_refused) /* proves L1-14 */
{
	pthread_t thread = listen_elsewhere();

	assert_refused("another host name");
	pthread_join(thread, NULL);
	close(other_listener);
}
END_TEST

START_TEST(verification_can_be_turned_off)
{
	pthread_t thread = listen_elsewhere();
	struct connection_error e;
	struct connection *l;

	config->amqp.ca_file = NULL;
	config->amqp.verify = false;
	l = try_open(&e);
	ck_assert_msg(l != NULL, "%s", e.text);
	connection_close(l, 1000);
	pthread_join(thread, NULL);
	close(other_listener);
}
END_TEST

START_TEST(a_client_certificate_logs_in) /* proves L1-14 */
{
	struct connection_error e;
	struct connection *l;
	bool made = bus_kit_eval(
		"rabbit_auth_backend_internal:add_user(<<\"tlsuser\">>, <<\"unused\">>, <<\"t\">>).");

	if (!made) {
		printf("skipped: needs a broker that can be asked (HCP_TEST_BROKER_DIR)\n");
		return;
	}
	ck_assert(
		bus_kit_eval("rabbit_auth_backend_internal:set_permissions(<<\"tlsuser\">>, <<\"%s\">>, "
			     "<<\".*\">>, <<\".*\">>, <<\".*\">>, <<\"t\">>).",
			bus_kit_vhost));
	config->amqp.sasl = SASL_EXTERNAL;
	config->amqp.user = config->amqp.password = NULL;
	config->amqp.cert_file = cert;
	config->amqp.key_file = key;
	l = try_open(&e);
	ck_assert_msg(l != NULL, "%s", e.text);
	ck_assert_int_eq(connection_declare_exchange(l, "hcp.events", "topic", &e), 0);
	connection_close(l, 1000);
	ck_assert(bus_kit_eval("rabbit_auth_backend_internal:delete_user(<<\"tlsuser\">>, <<\"t\">>)."));
}
END_TEST

START_TEST(a_key_that_does_not_fit_is_told_before_connecting) /* proves L1-14 */
{
	config->amqp.cert_file = cert;
	config->amqp.key_file = ca;
	assert_refused("key_file");
}
END_TEST

START_TEST(external_without_tls_says_that_it_is_not_offered)
{
	config->amqp.tls = false;
	config->amqp.port = bus_kit_port;
	config->amqp.sasl = SASL_EXTERNAL;
	assert_refused("EXTERNAL");
}
END_TEST

START_TEST(plain_amqp_on_a_tls_port_is_told)
{
	config->amqp.tls = false;
	assert_refused("without TLS?");
}
END_TEST

START_TEST(tls_on_a_plain_port_is_told)
{
	config->amqp.port = bus_kit_port;
	assert_refused("no TLS");
}
END_TEST

int main(void)
{
	const char *port = getenv("HCP_TEST_BROKER_TLS_PORT"), *dir = getenv("HCP_TEST_BROKER_DIR");
	Suite *s = suite_create("tls");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	if (!bus_kit_open("tls"))
		return EXIT_SUCCESS;
	if (!port || !dir) {
		printf("tls: skipped: HCP_TEST_BROKER_TLS_PORT is not set (HCP_BROKER_TLS=1 scripts/broker "
		       "start DIR)\n"
		       "100%%: Checks: 0, Failures: 0, Errors: 0\n");
		bus_kit_close();
		return EXIT_SUCCESS;
	}
	tls_port = atoi(port);
	snprintf(ca, sizeof ca, "%s/tls/ca.pem", dir);
	snprintf(cert, sizeof cert, "%s/tls/client.pem", dir);
	snprintf(key, sizeof key, "%s/tls/client.key", dir);
	tcase_add_checked_fixture(t, set_up, NULL);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_broker_with_a_known_authority_is_trusted);
	tcase_add_test(t, an_unknown_authority_is_refused);
	tcase_add_test(t, without_ca_file_only_the_systems_authorities_count);
	tcase_add_test(t, an_unreadable_ca_file_is_named);
	tcase_add_test(t, a_certificate_for_another_host_is_refused);
	tcase_add_test(t, verification_can_be_turned_off);
	tcase_add_test(t, a_client_certificate_logs_in);
	tcase_add_test(t, a_key_that_does_not_fit_is_told_before_connecting);
	tcase_add_test(t, external_without_tls_says_that_it_is_not_offered);
	tcase_add_test(t, plain_amqp_on_a_tls_port_is_told);
	tcase_add_test(t, tls_on_a_plain_port_is_told);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	bus_kit_close();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
