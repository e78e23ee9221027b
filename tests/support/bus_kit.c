/* SPDX-License-Identifier: MIT */
/* bus_kit.c: what bus_kit.h declares. */
#include "support/bus_kit.h"

char bus_kit_host[64], bus_kit_user[64], bus_kit_password[64], bus_kit_vhost[64];
int bus_kit_port;

bool bus_kit_eval(const char *fmt, ...)
{
	const char *dir = getenv("HCP_TEST_BROKER_DIR");
	char expression[1024], command[2048];
	va_list ap;

	if (!dir || access("scripts/broker", X_OK) != 0)
		return false;
	va_start(ap, fmt);
	vsnprintf(expression, sizeof expression, fmt, ap);
	va_end(ap);
	snprintf(command, sizeof command, "scripts/broker eval '%s' '%s' >/dev/null", dir, expression);
	return system(command) == 0;
}

bool bus_kit_open(const char *name)
{
	const char *url = getenv("HCP_TEST_BROKER_URL");

	if (!url ||
		sscanf(url, "amqp://%63[^:]:%63[^@]@%63[^:]:%d/", bus_kit_user, bus_kit_password,
			bus_kit_host, &bus_kit_port) != 4) {
		printf("%s: skipped: HCP_TEST_BROKER_URL is not set (scripts/broker start DIR; then source "
		       "DIR/env)\n"
		       "100%%: Checks: 0, Failures: 0, Errors: 0\n",
			name);
		return false;
	}
	log_set_level(getenv("HCP_TEST_LOG") ? LOG_LVL_DEBUG : LOG_LVL_ERROR);
	snprintf(bus_kit_vhost, sizeof bus_kit_vhost, "%s-%d", name, (int)getpid());
	if (!bus_kit_eval("rabbit_vhost:add(<<\"%s\">>, <<\"t\">>).", bus_kit_vhost) ||
		!bus_kit_eval(
			"rabbit_auth_backend_internal:set_permissions(<<\"%s\">>, <<\"%s\">>, <<\".*\">>, "
			"<<\".*\">>, <<\".*\">>, <<\"t\">>).",
			bus_kit_user, bus_kit_vhost))
		snprintf(bus_kit_vhost, sizeof bus_kit_vhost, "/");
	return true;
}

void bus_kit_close(void)
{
	if (strcmp(bus_kit_vhost, "/") != 0)
		bus_kit_eval("rabbit_vhost:delete(<<\"%s\">>, <<\"t\">>).", bus_kit_vhost);
}

/* --- configuration --- */

static struct config bus_kit_config;
char bus_kit_callee[64];

struct config *bus_kit_make_config(const char *callee)
{
	struct config *c = &bus_kit_config;

	memset(c, 0, sizeof *c);
	snprintf(bus_kit_callee, sizeof bus_kit_callee, "%s-%d", callee, (int)getpid());
	c->callee_id = bus_kit_callee;
	c->max_message = 1 << 20;
	c->amqp.host = bus_kit_host;
	c->amqp.port = bus_kit_port;
	c->amqp.vhost = bus_kit_vhost;
	c->amqp.user = bus_kit_user;
	c->amqp.password = bus_kit_password;
	c->amqp.verify = true;
	c->amqp.heartbeat_s = 30;
	/* short, so that tests are; the back-off has a test of its own */
	c->amqp.reconnect_max_us = 200000;
	c->amqp.prefetch = 100;
	return c;
}

const char *bus_kit_queue(void)
{
	static char name[96];

	snprintf(name, sizeof name, "hcp.cmd.%s", bus_kit_callee);
	return name;
}

static void bus_user_on_wake(void *ctx)
{
	struct bus_user *c = ctx;
	uint64_t one = 1;

	c->wakes++;
	if (write(c->wake_fd, &one, sizeof one) < 0)
		abort();
}

struct bus_user *bus_user_new(const struct config *config)
{
	struct bus_user *c = calloc(1, sizeof *c);

	c->end = &c->all;
	c->wake_fd = eventfd(0, EFD_CLOEXEC);
	c->bus = bus_new(config, bus_user_on_wake, c);
	return c;
}

struct bus_user *bus_user_start(const struct config *config)
{
	struct bus_user *c = bus_user_new(config);

	ck_assert_int_eq(bus_start(c->bus), 0);
	return c;
}

static void bus_user_note_outs(struct bus_user *c, struct bus_out *o)
{
	for (; o; o = o->next) {
		c->status[o->status]++;
		ck_assert_uint_lt(c->settled_count, sizeof c->settled / sizeof *c->settled);
		c->settled[c->settled_count++] = o;
	}
}

void bus_user_take(struct bus_user *c)
{
	struct bus_in *in;

	*c->end = bus_take(c->bus);
	while ((in = *c->end)) {
		c->count[in->kind]++;
		bus_user_note_outs(c, in->outs);
		if (in->kind == BUS_DELIVERY && c->auto_ack)
			bus_ack(c->bus, in->generation, in->tag);
		c->end = &in->next;
	}
	bus_flush(c->bus);
}

void bus_user_doze(struct bus_user *c, int ms)
{
	struct pollfd p = {.fd = c->wake_fd, .events = POLLIN};
	uint64_t count;

	if (poll(&p, 1, ms) > 0 && read(c->wake_fd, &count, sizeof count) < 0)
		abort();
}

void bus_user_wait_up(struct bus_user *c)
{
	struct bus_health h;

	bus_user_wait(c,
		(bus_get_health(c->bus, &h),
			h.pub_up && h.sub_up && c->count[BUS_PUB_UP] && c->count[BUS_SUB_UP]),
		15);
}

struct bus_in *bus_user_find(struct bus_user *c, enum bus_in_kind kind, int nth)
{
	for (struct bus_in *in = c->all; in; in = in->next)
		if (in->kind == kind && nth-- == 0)
			return in;
	ck_abort_msg("no such message from the bus: kind %d", (int)kind);
}

void bus_user_stop(struct bus_user *c)
{
	struct bus_in *in;

	bus_stop(c->bus);
	while ((in = c->all)) {
		c->all = in->next;
		bus_in_free(in);
	}
	close(c->wake_fd);
	free(c);
}

/* --- messages --- */

struct bus_out *bus_kit_outs_new(size_t count, const char *caller, const char *body, size_t size)
{
	struct bus_out *outs = calloc(count, sizeof *outs);

	for (size_t i = 0; i < count; i++) {
		outs[i].next = i + 1 < count ? &outs[i + 1] : NULL;
		snprintf(outs[i].key, sizeof outs[i].key, "%s.s.event", caller);
		snprintf(outs[i].message_id, sizeof outs[i].message_id, "m-%zu", i);
		outs[i].type = "event";
		outs[i].timestamp_s = 1700000000;
		outs[i].body = body;
		outs[i].size = size;
	}
	return outs;
}

/* --- a client that looks from outside --- */

amqp_connection_state_t bus_client_open(void)
{
	amqp_connection_state_t k = amqp_new_connection();
	struct timeval timeout = {10, 0};

	ck_assert_int_eq(amqp_socket_open(amqp_tcp_socket_new(k), bus_kit_host, bus_kit_port), 0);
	amqp_set_rpc_timeout(k, &timeout);
	ck_assert_int_eq(amqp_login(k, bus_kit_vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, bus_kit_user,
				 bus_kit_password)
				 .reply_type,
		AMQP_RESPONSE_NORMAL);
	ck_assert_ptr_nonnull(amqp_channel_open(k, 1));
	return k;
}

void bus_client_close(amqp_connection_state_t k)
{
	amqp_connection_close(k, AMQP_REPLY_SUCCESS);
	amqp_destroy_connection(k);
}

bool bus_client_declare(amqp_connection_state_t k, const char *queue, const char *key, const char *value)
{
	amqp_table_entry_t entry = {.key = amqp_cstring_bytes(key ? key : "")};
	amqp_table_t table = {.num_entries = key ? 1 : 0, .entries = &entry};

	if (key && value[0] >= '0' && value[0] <= '9') {
		entry.value.kind = AMQP_FIELD_KIND_I64;
		entry.value.value.i64 = atoi(value);
	} else if (key) {
		entry.value.kind = AMQP_FIELD_KIND_UTF8;
		entry.value.value.bytes = amqp_cstring_bytes(value);
	}
	return amqp_queue_declare(k, 1, amqp_cstring_bytes(queue), 0, 1, 0, 0, table) != NULL;
}

void bus_client_bind(amqp_connection_state_t k, const char *queue, const char *exchange, const char *key)
{
	ck_assert_ptr_nonnull(amqp_queue_bind(k, 1, amqp_cstring_bytes(queue), amqp_cstring_bytes(exchange),
		amqp_cstring_bytes(key), amqp_empty_table));
}

int bus_client_ready(amqp_connection_state_t k, const char *queue)
{
	amqp_queue_declare_ok_t *ok =
		amqp_queue_declare(k, 1, amqp_cstring_bytes(queue), 1, 0, 0, 0, amqp_empty_table);

	return ok ? (int)ok->message_count : -1;
}

void bus_client_command(amqp_connection_state_t k, const char *body, size_t size)
{
	amqp_basic_properties_t p = {
		._flags = AMQP_BASIC_USER_ID_FLAG, .user_id = amqp_cstring_bytes(bus_kit_user)};

	ck_assert_int_eq(amqp_basic_publish(k, 1, amqp_cstring_bytes("hcp.commands"),
				 amqp_cstring_bytes(bus_kit_callee), 1, 0, &p,
				 (amqp_bytes_t){size, (void *)(uintptr_t)body}),
		0);
}

int bus_kit_listen_anywhere(int *port, int backlog)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, backlog) == 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &size), 0);
	*port = ntohs(a.sin_port);
	return fd;
}

void bus_proxy_drop(struct bus_proxy_pair *p)
{
	close(p->client);
	close(p->broker);
	p->client = p->broker = -1;
}

static void bus_proxy_accept(struct bus_proxy *x)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)bus_kit_port)};
	int fd = accept4(x->listener, NULL, NULL, SOCK_CLOEXEC), n = x->accepted, small = 8192;

	if (fd < 0)
		return;
	if (n < 64)
		x->accepted_at_us[n] = clock_boot_us();
	x->accepted++;
	/* having read, so that the client always sees the same: an end, not a reset */
	if (x->refuse) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		char header[8];

		if (poll(&p, 1, 1000) > 0 && recv(fd, header, sizeof header, MSG_WAITALL) < 0)
			perror("proxy");
		close(fd);
		return;
	}
	for (int i = 0; i < 16; i++) {
		struct bus_proxy_pair *p = &x->pairs[i];

		if (p->client >= 0)
			continue;
		inet_pton(AF_INET, bus_kit_host, &a.sin_addr);
		p->client = fd;
		p->role = -1;
		p->broker = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
		if (connect(p->broker, (struct sockaddr *)&a, sizeof a) < 0)
			bus_proxy_drop(p);
		return;
	}
	close(fd);
}

bool bus_proxy_pass(struct bus_proxy_pair *p, int from, int to)
{
	char bytes[65536];
	ssize_t got = recv(from, bytes, sizeof bytes, 0), sent;

	if (got <= 0)
		return false;
	if (from == p->client && p->role < 0) {
		if (memmem(bytes, (size_t)got, " pub", 4))
			p->role = ROLE_PUB;
		else if (memmem(bytes, (size_t)got, " sub", 4))
			p->role = ROLE_SUB;
	}
	for (ssize_t done = 0; done < got; done += sent)
		if ((sent = send(to, bytes + done, (size_t)(got - done), MSG_NOSIGNAL)) < 0)
			return false;
	return true;
}

static void bus_proxy_serve(struct bus_proxy *x, struct bus_proxy_pair *p)
{
	struct pollfd fds[2] = {{.fd = p->client, .events = POLLIN}, {.fd = p->broker, .events = POLLIN}};

	if (p->client < 0)
		return;
	if (p->role >= 0 && x->cut[p->role]) {
		x->cut[p->role] = false;
		bus_proxy_drop(p);
		return;
	}
	if (p->role >= 0 && x->deaf[p->role])
		fds[0].fd = -1;
	if (p->role >= 0 && x->mute[p->role])
		fds[1].fd = -1;
	if (poll(fds, 2, 0) <= 0)
		return;
	if ((fds[0].fd >= 0 && fds[0].revents && !bus_proxy_pass(p, p->client, p->broker)) ||
		(fds[1].fd >= 0 && fds[1].revents && !bus_proxy_pass(p, p->broker, p->client)))
		bus_proxy_drop(p);
}

static void *bus_proxy_main(void *arg)
{
	struct bus_proxy *x = arg;

	while (!x->end) {
		struct pollfd fds[33] = {{.fd = x->listener, .events = POLLIN}};
		nfds_t n = 1;

		if (x->closed && x->listener >= 0) {
			close(x->listener);
			x->listener = -1;
			fds[0].fd = -1;
		}
		for (int i = 0; i < 16; i++) {
			struct bus_proxy_pair *p = &x->pairs[i];

			if (p->client < 0)
				continue;
			if (p->role < 0 || !x->deaf[p->role])
				fds[n++] = (struct pollfd){.fd = p->client, .events = POLLIN};
			if (p->role < 0 || !x->mute[p->role])
				fds[n++] = (struct pollfd){.fd = p->broker, .events = POLLIN};
		}
		poll(fds, n, 10);
		if (fds[0].revents)
			bus_proxy_accept(x);
		for (int i = 0; i < 16; i++)
			bus_proxy_serve(x, &x->pairs[i]);
	}
	return NULL;
}

struct bus_proxy *bus_proxy_start(struct config *c)
{
	struct bus_proxy *x = calloc(1, sizeof *x);

	x->listener = bus_kit_listen_anywhere(&x->port, 16);
	for (int i = 0; i < 16; i++)
		x->pairs[i].client = x->pairs[i].broker = -1;
	c->amqp.port = x->port;
	c->amqp.host = (char *)(uintptr_t) "127.0.0.1";
	pthread_create(&x->thread, NULL, bus_proxy_main, x);
	return x;
}

void bus_proxy_stop(struct bus_proxy *x)
{
	x->end = true;
	pthread_join(x->thread, NULL);
	for (int i = 0; i < 16; i++)
		if (x->pairs[i].client >= 0)
			bus_proxy_drop(&x->pairs[i]);
	if (x->listener >= 0)
		close(x->listener);
	free(x);
}

void frame_put_int(struct buf *b, uint64_t value, int bytes)
{
	while (bytes-- > 0) {
		unsigned char c = (unsigned char)(value >> (8 * bytes));

		buf_add(b, &c, 1);
	}
}

void frame_put_short(struct buf *b, const char *text)
{
	frame_put_int(b, strlen(text), 1);
	buf_add_text(b, text);
}

static void frame_put_frame(struct buf *to, int type, int channel, const struct buf *payload)
{
	frame_put_int(to, (uint64_t)type, 1);
	frame_put_int(to, (uint64_t)channel, 2);
	frame_put_int(to, payload->size, 4);
	buf_add(to, payload->data, payload->size);
	frame_put_int(to, 0xCE, 1);
}

static void frame_put_method(struct buf *to, int channel, uint32_t id, const struct buf *args)
{
	struct buf b = {0};

	frame_put_int(&b, id, 4);
	if (args)
		buf_add(&b, args->data, args->size);
	frame_put_frame(to, AMQP_FRAME_METHOD, channel, &b);
	buf_fini(&b);
}

void frame_put_deliver(struct buf *to, uint64_t tag)
{
	struct buf a = {0};

	frame_put_short(&a, "ctag");
	frame_put_int(&a, tag, 8);
	frame_put_int(&a, 0, 1);
	frame_put_short(&a, "hcp.commands");
	frame_put_short(&a, "demo");
	frame_put_method(to, 1, AMQP_BASIC_DELIVER_METHOD, &a);
	buf_fini(&a);
}

void frame_put_header(struct buf *to, uint64_t size, const struct buf *headers)
{
	struct buf b = {0};

	frame_put_int(&b, AMQP_BASIC_CLASS, 2);
	frame_put_int(&b, 0, 2);
	frame_put_int(&b, size, 8);
	frame_put_int(&b, headers ? AMQP_BASIC_HEADERS_FLAG : 0, 2);
	if (headers)
		buf_add(&b, headers->data, headers->size);
	frame_put_frame(to, AMQP_FRAME_HEADER, 1, &b);
	buf_fini(&b);
}

void frame_put_body(struct buf *to, const char *text)
{
	struct buf b = {0};

	buf_add_text(&b, text);
	frame_put_frame(to, AMQP_FRAME_BODY, 1, &b);
	buf_fini(&b);
}

void frame_put_confirm(struct buf *to, uint32_t id, uint64_t tag, bool multiple)
{
	struct buf a = {0};

	frame_put_int(&a, tag, 8);
	frame_put_int(&a, multiple, 1);
	frame_put_method(to, 1, id, &a);
	buf_fini(&a);
}

void fake_peer_send(struct fake_peer_end *e, struct buf *b)
{
	for (size_t done = 0; done < b->size;) {
		ssize_t n = send(e->fd, b->data + done, b->size - done, MSG_NOSIGNAL);

		if (n < 0)
			break;
		done += (size_t)n;
	}
	buf_clear(b);
}

/* What every broker answers. */
static void fake_peer_answer(struct fake_peer_end *e, int channel, uint32_t id)
{
	struct buf a = {0};
	uint32_t answer = id + 1; /* in AMQP an -ok follows its request */

	switch (id) {
	case AMQP_CONNECTION_START_OK_METHOD:
		frame_put_int(&a, 1, 2);
		frame_put_int(&a, 131072, 4);
		frame_put_int(&a, (uint64_t)e->fake->heartbeat_s, 2);
		answer = AMQP_CONNECTION_TUNE_METHOD;
		break;
	case AMQP_CONNECTION_OPEN_METHOD: frame_put_short(&a, ""); break;
	case AMQP_CHANNEL_OPEN_METHOD: frame_put_int(&a, 0, 4); break;
	case AMQP_QUEUE_DECLARE_METHOD:
		frame_put_short(&a, "q");
		frame_put_int(&a, 0, 8);
		break;
	case AMQP_BASIC_CONSUME_METHOD: frame_put_short(&a, "ctag"); break;
	case AMQP_EXCHANGE_DECLARE_METHOD:
	case AMQP_QUEUE_BIND_METHOD:
	case AMQP_BASIC_QOS_METHOD:
	case AMQP_CONFIRM_SELECT_METHOD:
	case AMQP_CONNECTION_CLOSE_METHOD: break;
	default: return;
	}
	frame_put_method(&e->out, channel, answer, &a);
	buf_fini(&a);
}

static void fake_peer_take_method(struct fake_peer_end *e, int channel, const unsigned char *p, size_t size)
{
	uint32_t id = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	uint64_t tag = 0;

	if (id == AMQP_CONNECTION_START_OK_METHOD)
		e->role = memmem(p, size, " pub", 4) ? ROLE_PUB : ROLE_SUB;
	if (id == AMQP_BASIC_ACK_METHOD || id == AMQP_BASIC_REJECT_METHOD) {
		for (int i = 0; i < 8; i++)
			tag = tag << 8 | p[4 + i];
		e->fake->last_tag = tag;
	}
	fake_peer_answer(e, channel, id);
	if (e->fake->on_method)
		e->fake->on_method(e, id, p + 4, size - 4);
	fake_peer_send(e, &e->out);
	e->fake->seen_ack += id == AMQP_BASIC_ACK_METHOD;
	e->fake->seen_reject += id == AMQP_BASIC_REJECT_METHOD;
	e->fake->seen_publish += id == AMQP_BASIC_PUBLISH_METHOD;
}

static bool fake_peer_read(struct fake_peer_end *e, unsigned char *to, size_t size)
{
	for (size_t got = 0; got < size;) {
		ssize_t n = recv(e->fd, to + got, size - got, 0);

		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return true;
}

static void *fake_peer_end_main(void *arg)
{
	struct fake_peer_end *e = arg;
	unsigned char head[8], *payload;
	struct buf a = {0};

	if (!fake_peer_read(e, head, 8))
		return NULL;
	frame_put_int(&a, 9, 2);
	frame_put_int(&a, 0, 4);
	frame_put_int(&a, 5, 4);
	buf_add_text(&a, "PLAIN");
	frame_put_int(&a, 5, 4);
	buf_add_text(&a, "en_US");
	frame_put_method(&e->out, 0, AMQP_CONNECTION_START_METHOD, &a);
	buf_fini(&a);
	fake_peer_send(e, &e->out);
	while (fake_peer_read(e, head, 7)) {
		size_t size = (size_t)head[3] << 24 | (size_t)head[4] << 16 | (size_t)head[5] << 8 | head[6];

		payload = malloc(size + 1);
		if (!fake_peer_read(e, payload, size + 1)) {
			free(payload);
			break;
		}
		if (head[0] == AMQP_FRAME_METHOD)
			fake_peer_take_method(e, head[1] << 8 | head[2], payload, size);
		else if (head[0] == AMQP_FRAME_HEARTBEAT)
			e->fake->heartbeats++;
		free(payload);
	}
	buf_fini(&e->out);
	return NULL;
}

static void *fake_peer_main(void *arg)
{
	struct fake_peer *k = arg;

	while (!k->end && k->count < 16) {
		struct pollfd p = {.fd = k->listener, .events = POLLIN};
		struct fake_peer_end *e = &k->ends[k->count];

		if (poll(&p, 1, 20) <= 0)
			continue;
		e->fd = accept4(k->listener, NULL, NULL, SOCK_CLOEXEC);
		e->fake = k;
		e->role = -1;
		if (pthread_create(&e->thread, NULL, fake_peer_end_main, e) == 0)
			k->count++;
	}
	return NULL;
}

struct fake_peer *fake_peer_start(struct config *c,
	void (*on_method)(struct fake_peer_end *e, uint32_t id, const unsigned char *args, size_t size))
{
	struct fake_peer *k = calloc(1, sizeof *k);

	k->on_method = on_method;
	k->heartbeat_s = 30;
	k->listener = bus_kit_listen_anywhere(&k->port, 16);
	c->amqp.port = k->port;
	c->amqp.host = (char *)(uintptr_t) "127.0.0.1";
	pthread_create(&k->thread, NULL, fake_peer_main, k);
	return k;
}

void fake_peer_stop(struct fake_peer *k)
{
	k->end = true;
	pthread_join(k->thread, NULL);
	for (int i = 0; i < k->count; i++) {
		shutdown(k->ends[i].fd, SHUT_RDWR);
		pthread_join(k->ends[i].thread, NULL);
		close(k->ends[i].fd);
	}
	close(k->listener);
	free(k);
}
