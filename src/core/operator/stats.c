/* SPDX-License-Identifier: MIT */
/* stats.c: the verb stats: the daemon's figures as one JSON object.
 * Owns the object's form. Never changes anything. */
#include "core/operator/operator_private.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/turn.h"
#include "core/admission/policy_program.h"

#define SECOND 1000000

static long long own_memory(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f == NULL || fscanf(f, "%*s %ld", &pages) != 1)
		pages = 0;
	if (f != NULL)
		fclose(f);
	return (long long)pages * sysconf(_SC_PAGESIZE);
}

static const char *yes(bool is_so)
{
	return is_so ? "true" : "false";
}

static void add_states(struct core *c, struct buf *b)
{
	unsigned counts[S_COUNT] = {0};
	struct session *s, *tmp;

	HASH_ITER(by_key, c->by_key, s, tmp)
		if (!s->turn.is_closed)
			counts[s->state]++;
	buf_addf(b, ",\"by_state\":{\"PENDING\":%u,\"RUNNING\":%u,\"PAUSED\":%u,\"ABORTING\":%u}",
		counts[S_PENDING], counts[S_RUNNING], counts[S_PAUSED], counts[S_ABORTING]);
}

static void add_links(struct core *c, struct buf *b)
{
	int64_t oldest = outbox_oldest_us(c->outbox, clock_boot_us());
	struct outbox_stats st;
	struct bus_health h;

	outbox_get_stats(c->outbox, &st);
	bus_get_health(c->bus, &h);
	buf_addf(b, ",\"outbox\":{\"waiting_bytes\":%lld,\"unconfirmed\":%u,\"oldest_s\":",
		(long long)st.waiting_bytes, st.in_flight);
	if (oldest >= 0)
		buf_addf(b, "%.3f}", (double)oldest / SECOND);
	else
		buf_add_text(b, "null}");
	buf_addf(b, ",\"publishing\":%s,\"blocked\":%s,\"consuming\":%s,\"reconnects\":%llu", yes(h.pub_up),
		yes(h.blocked), yes(h.sub_up), (unsigned long long)h.reconnects);
}

static void add_capabilities(struct core *c, struct buf *b)
{
	buf_add_text(b, ",\"capabilities\":[");
	for (size_t i = 0; i < c->policy->config->capability_count; i++) {
		const struct capability *cap = c->policy->capabilities[i];
		struct slot_queue *q;

		HASH_FIND_STR(c->slots.queues, cap->name, q);
		buf_addf(b, "%s{\"name\":\"%s\",\"version\":", i > 0 ? "," : "", cap->name);
		buf_add_json(b, cap->version, strlen(cap->version));
		buf_addf(b, ",\"running\":%u,\"waiting\":%u,\"limit\":", q != NULL ? q->running : 0,
			q != NULL ? q->waiting : 0);
		if (cap->concurrent_limit > 0)
			buf_addf(b, "%d}", cap->concurrent_limit);
		else
			buf_add_text(b, "null}");
	}
	buf_add_text(b, "]");
}

/* null: no program is configured, the gate decides alone. */
static void add_program(struct core *c, struct buf *b)
{
	struct policy_program_state state;
	const char *command;

	buf_add_text(b, ",\"policy_program\":");
	if (!policy_program_is_there(c)) {
		buf_add_text(b, "null");
		return;
	}
	policy_program_get_state(c->program, &state);
	command = c->policy->config->policy_command[0];
	buf_add_text(b, "{\"command\":");
	buf_add_json(b, command, strlen(command));
	buf_addf(b, ",\"runs\":%s,\"pid\":", yes(state.pid > 0));
	if (state.pid > 0)
		buf_addf(b, "%d", state.pid);
	else
		buf_add_text(b, "null");
	buf_addf(b, ",\"for_s\":%.3f,\"why\":", (double)state.span_us / SECOND);
	buf_add_json(b, state.why, strlen(state.why));
	buf_add_text(b, "}");
}

/* Why ended sessions stay in the store; null: no trouble. */
static void add_retention(struct core *c, struct buf *b)
{
	char why[RETENTION_TROUBLE_SIZE];
	int64_t since_us;

	buf_add_text(b, ",\"retention\":");
	if (c->retention.retain == NULL ||
		!c->retention.ops->get_trouble(c->retention.retain, why, &since_us)) {
		buf_add_text(b, "null");
		return;
	}
	buf_addf(b, "{\"stuck_s\":%.3f,\"why\":", (double)(clock_boot_us() - since_us) / SECOND);
	buf_add_json(b, why, strlen(why));
	buf_add_text(b, "}");
}

void operator_stats(struct core *c, struct op_request *a)
{
	const struct core_stats *t = &c->stats;
	struct buf *b = &a->item;

	buf_addf(b,
		"{\"version\":\"%s\",\"instance\":\"%s\",\"pid\":%d,\"uptime_s\":%lld,\"callee_id\":\"%s\","
		"\"state_dir\":",
		HCPD_VERSION, store_instance(c->store), getpid(),
		(long long)((clock_boot_us() - c->phase.began_us) / SECOND),
		c->first_policy->config->callee_id);
	buf_add_json(b, c->state_dir, strlen(c->state_dir));
	buf_addf(b,
		",\"draining\":%s,\"held\":%s,\"stopping\":%s,\"running\":%u,\"waiting\":%u,\"undecided\":%u",
		yes(c->phase.is_draining), yes(c->phase.is_suspended), yes(c->phase.is_stopping),
		c->slots.running, c->slots.waiting, c->slots.undecided);
	add_states(c, b);
	add_links(c, b);
	buf_addf(b,
		",\"totals\":{\"submits\":%llu,\"duplicates\":%llu,\"rejected\":%llu,\"dropped\":%llu,"
		"\"aborts\":%llu,"
		"\"late_lines\":%llu,\"unroutable\":%llu},\"rss_bytes\":%lld",
		(unsigned long long)t->submits, (unsigned long long)t->duplicates,
		(unsigned long long)t->rejected, (unsigned long long)t->dropped,
		(unsigned long long)t->aborts, (unsigned long long)t->late_lines,
		(unsigned long long)t->unroutable, own_memory());
	buf_addf(b, ",\"audit\":{\"count\":%lld,\"head\":\"%s\"},\"policy\":\"%s\"",
		(long long)c->audit.count, c->audit.head, c->policy->hash);
	add_program(c, b);
	add_retention(c, b);
	add_capabilities(c, b);
	buf_add_text(b, "}");
}
