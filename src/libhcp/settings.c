/* SPDX-License-Identifier: MIT */
/* settings.c: hcp_options to what the rest of the library reads.
 * Owns the defaults, the ranges, and the texts about wrong options.
 * Never connects. config says what a URL or a certificate must look like. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/name.h"
#include "config/reader.h"
#include "libhcp/libhcp_private.h"

#define DAY_S INT64_C(86400)

/* These options are read like lines of [amqp]. NULL: not given. */
static void fill_values(struct config_section *s, const struct hcp_options *o)
{
	char heartbeat[16], reconnect[24];
	const struct {
		const char *key, *text;
	} given[] = {
		{"url", o->url},
		{"password_file", o->password_file},
		{"sasl", o->sasl},
		{"ca_file", o->ca_file},
		{"cert_file", o->cert_file},
		{"key_file", o->key_file},
		{"verify", o->no_verify ? "no" : NULL},
		{"heartbeat", o->heartbeat_s ? heartbeat : NULL},
		{"reconnect_max", o->reconnect_max_s ? reconnect : NULL},
	};

	snprintf(heartbeat, sizeof heartbeat, "%d", o->heartbeat_s);
	snprintf(reconnect, sizeof reconnect, "%ds", o->reconnect_max_s);
	for (size_t i = 0; i < sizeof given / sizeof *given; i++)
		if (given[i].text)
			config_set(s, given[i].key, given[i].text, 0);
}

/* Messages begin with the reader's path, which is empty here, and a colon. */
static int say_all(struct hcp *h, struct config_reader *r)
{
	int status = HCP_OK;

	for (size_t i = 0; i < r->message_count; i++) {
		const char *text = r->messages[i].text + strspn(r->messages[i].text, ": ");

		if (!r->messages[i].is_error)
			lib_log(h, HCP_LOG_WARN, "%s", text);
		else if (status == HCP_OK)
			status = lib_fail(h, HCP_E_ARGUMENT, "%s", text);
	}
	return status;
}

static int read_amqp(struct hcp *h, const struct hcp_options *o, struct config *c)
{
	char here[4096];
	struct config_reader r = {.path = "", .dir = xstrdup(getcwd(here, sizeof here) ? here : "/")};
	struct config_section s;
	int status;

	config_section_init(&s, KIND_AMQP);
	fill_values(&s, o);
	config_fill_amqp(&r, &s, c);
	status = say_all(h, &r);
	config_section_fini(&s);
	config_reader_fini(&r);
	return status;
}

/* 0 is the default, below 0 and above most is an error. */
static int pick(struct hcp *h, const char *name, int64_t given, int64_t usual, int64_t most, int64_t *out)
{
	*out = given ? given : usual;
	if (*out >= 0 && *out <= most)
		return HCP_OK;
	return lib_fail(h, HCP_E_ARGUMENT, "options.%s is %lld; 1 to %lld is possible, and 0 is the default",
		name, (long long)given, (long long)most);
}

static int read_numbers(struct hcp *h, struct lib_settings *s, const struct hcp_options *o)
{
	int64_t prefetch, batch, batch_ms, repeat, give_up, reorder, gap, forget, ttl, ignored;
	int status;

	if ((status = pick(h, "prefetch", o->prefetch, 10, 100, &prefetch)) < 0 ||
		(status = pick(h, "batch_max", o->batch_max, prefetch, 100000, &batch)) < 0 ||
		(status = pick(h, "batch_ms", o->batch_ms, 100, 60000, &batch_ms)) < 0 ||
		(status = pick(h, "repeat_s", o->repeat_s, 10, 365 * DAY_S, &repeat)) < 0 ||
		(status = pick(h, "give_up_s", o->give_up_s, 82800, 365 * DAY_S, &give_up)) < 0 ||
		(status = pick(h, "reorder_max", o->reorder_max, 1000, 1000000, &reorder)) < 0 ||
		(status = pick(h, "gap_wait_ms", o->gap_wait_ms, 5000, DAY_S * 1000, &gap)) < 0 ||
		(status = pick(h, "forget_days", o->forget_days, 30, 36500, &forget)) < 0 ||
		(status = pick(h, "queue_ttl_s", o->queue_ttl_s, 0, 49 * DAY_S, &ttl)) < 0 ||
		(status = pick(h, "queue_max_length", o->queue_max_length, 0, INT32_MAX, &s->max_length)) <
			0 ||
		(status = pick(h, "heartbeat_s", o->heartbeat_s, 30, 3600, &ignored)) < 0 ||
		(status = pick(h, "reconnect_max_s", o->reconnect_max_s, 60, DAY_S, &ignored)) < 0)
		return status;
	s->prefetch = (int)prefetch;
	s->ttl_ms = ttl * 1000;
	h->batch_max = (int)batch;
	h->batch_us = batch_ms * 1000;
	h->repeat_us = repeat * LIB_SECOND;
	h->give_up_us = give_up * LIB_SECOND;
	h->reorder_max = (int)reorder;
	h->gap_wait_us = gap * 1000;
	h->forget_us = forget * DAY_S * LIB_SECOND;
	return HCP_OK;
}

static int check_names(struct hcp *h, const struct hcp_options *o)
{
	if (!o->caller_id || !message_is_caller_id(o->caller_id, strlen(o->caller_id)))
		return lib_fail(h, HCP_E_ARGUMENT,
			"options.caller_id %.140s does not do; write 1 to 128 letters, digits, -, _ and :",
			o->caller_id ? o->caller_id : "(none)");
	if (o->callee && !name_is_valid(o->callee, "-_"))
		return lib_fail(h, HCP_E_ARGUMENT,
			"options.callee %.140s does not do; write 1 to 128 letters, digits, - and _",
			o->callee);
	if (!o->file || !o->file[0])
		return lib_fail(h, HCP_E_ARGUMENT,
			"options.file is missing; name a file that keeps what was dealt with");
	if (!o->on_event)
		return lib_fail(
			h, HCP_E_ARGUMENT, "options.on_event is missing; somebody must take the events");
	return HCP_OK;
}

struct lib_settings *lib_settings_new(struct hcp *h, const struct hcp_options *o)
{
	struct lib_settings *s = xcalloc(1, sizeof *s);

	s->refs = 1;
	s->config = xcalloc(1, sizeof *s->config);
	if (check_names(h, o) < 0 || read_numbers(h, s, o) < 0 || read_amqp(h, o, s->config) < 0) {
		lib_settings_unref(s);
		return NULL;
	}
	snprintf(s->caller, sizeof s->caller, "%s", o->caller_id);
	names_event_queue(s->queue, sizeof s->queue, s->caller, NULL);
	names_event_binding(s->key, sizeof s->key, s->caller, NULL);
	s->quorum = o->quorum != 0;
	return s;
}

struct lib_settings *lib_settings_ref(struct lib_settings *s)
{
	atomic_fetch_add(&s->refs, 1);
	return s;
}

void lib_settings_unref(struct lib_settings *s)
{
	if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	config_free(s->config);
	free(s);
}

const char *lib_settings_user(const struct lib_settings *s)
{
	const struct config_amqp *a = &s->config->amqp;

	/* With a certificate `guest` is only what an URL without a user is taken for; the broker would
	 * refuse it. */
	if (!a->user || (a->sasl == SASL_EXTERNAL && strcmp(a->user, "guest") == 0))
		return NULL;
	return a->user;
}
