/* SPDX-License-Identifier: MIT */
/* nemesis.c: the order in which things go wrong.
 * A deck of all kinds is shuffled by the seed and dealt again and again, so that every kind has its turn;
 * some overlap. After each round a submit must reach the store in time. The choice, the order and the lengths
 * follow from the seed alone; the moments shift with the time that recovery takes. Never does the harm itself
 * (faults.c), never checks a stream or the store (stream.c, watch.c). */
#include "nemesis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps.h"
#include "violations.h"
#include "faults.h"
#include "load.h"
#include "watch.h"

#define INTAKE_S 10.0 /* the promise: a submit is in the store so soon after a fault's end */
#define SPAN_MAX 1000

static const struct nemesis_world *w;
static unsigned dice;
static struct {
	double from, to;
	unsigned explains;
} spans[SPAN_MAX]; /* of faults that explain something */
static int span_count;

/* --- the deck --- */

/* What the other's end would undo, or what leaves neither of them standing, does not go together. */
static bool go_together(const struct fault *a, const struct fault *b)
{
	bool daemon = a->group == DAEMON || b->group == DAEMON;
	bool limits =
		a->group == DISK || b->group == DISK || a->group == DESCRIPTORS || b->group == DESCRIPTORS;

	return a->group != b->group && !(daemon && limits);
}

/* TORTURE_ONLY=daemon-kill,net-cut: to look into these. */
static bool is_wanted(int kind)
{
	const char *only = w->only ? w->only : getenv("TORTURE_ONLY");
	char list[600], name[40];

	if (!only)
		return true;
	snprintf(list, sizeof list, ",%s,", only);
	snprintf(name, sizeof name, ",%s,", faults[kind].name);
	return strstr(list, name);
}

static int deck[FAULTS_MAX], left;

static int deal(void)
{
	if (left == 0)
		for (int kind = 0; kind < fault_count; kind++)
			if (is_wanted(kind)) {
				int at = rand_r(&dice) % (left + 1);
				deck[left++] = deck[at];
				deck[at] = kind;
			}
	must(left > 0, "no such fault: %s", getenv("TORTURE_ONLY"));
	return deck[--left];
}

/* --- rounds --- */

static struct nemesis_sum sum;
static bool seen[FAULTS_MAX];

static void pass(double seconds)
{
	double end = harness_now() + seconds;

	do {
		harness_tick();
		if (w->rig->exited && !faults_have_killed()) {
			violation("the daemon lives", "it ended by itself, wait status %d",
				w->rig->wait_status);
			faults_revive_daemon();
		}
	} while (harness_now() < end);
}

static bool begin_fault(int kind, double seconds)
{
	const struct fault *f = &faults[kind];
	char detail[FAULT_DETAIL] = "";
	double from = say_clock();

	if (f->hampers)
		watch_hamper(true);
	bool is_span = f->explains && span_count < SPAN_MAX;
	if (is_span)
		spans[span_count].from = harness_now(), spans[span_count].explains = f->explains,
		spans[span_count++].to = 1e18;
	bool done = f->begin(detail);
	if (!done && f->hampers)
		watch_hamper(false);
	span_count -= !done && is_span;
	say("%s %-18s at %.1f for %.1f s  %s", done ? "fault" : "skipped", f->name, from, seconds, detail);
	if (done) {
		sum.faults++;
		sum.kinds += !seen[kind];
		seen[kind] = true;
	}
	return done;
}

static void end_fault(int kind)
{
	const struct fault *f = &faults[kind];

	f->end();
	if (f->hampers)
		watch_hamper(false);
	if (f->explains)
		for (int i = 0; i < span_count; i++)
			if (spans[i].to > 1e17 && spans[i].explains == f->explains)
				spans[i].to = harness_now();
}

bool nemesis_explains(const char *what, double from, double to)
{
	static const struct {
		const char *what;
		unsigned explains;
		double after_s;
	} kinds[] = {
		{"FAILED", FAILS, 1},
		/* a program that dies again and again is started later each time */
		{"policy_denied", DENIES, 10},
		{"forbidden", FORBIDS, 2},
	};

	for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
		for (int i = 0; strcmp(kinds[k].what, what) == 0 && i < span_count; i++)
			if ((spans[i].explains & kinds[k].explains) &&
				from < spans[i].to + kinds[k].after_s && to > spans[i].from)
				return true;
	return false;
}

/* A submit, now, must be in the store in time. */
static void probe(const char *after)
{
	struct order o = {
		.kind = "probe", .capability = "reuser", .abort_after = -1, .inputs = J("{'goal':1}")};
	double from = harness_now(), bound = INTAKE_S * harness_scale();
	char id[40];

	caller_submit_one(w->probe, &o, id);
	while (!watch_has_submit(id)) {
		if (harness_now() - from > bound) {
			violation("intake within 10 s of a fault's end",
				"a submit after %s is not in the store after %.1f s", after,
				harness_now() - from);
			return;
		}
		pass(0.02);
	}
	double took = harness_now() - from;
	if (took > 5)
		say("intake after %s took %.1f s", after, took);
	sum.slowest_intake = took > sum.slowest_intake ? took : sum.slowest_intake;
}

static double length_of(const struct fault *f)
{
	return f->least + mix_some(&dice, f->most - f->least);
}

/* All numbers are drawn first, so that what happens does not change what will. */
static void strike(void)
{
	int a = deal(), b = -1;
	double la = length_of(&faults[a]), lb = 0, gap = 0.1 + mix_some(&dice, 0.8),
	       lead = mix_some(&dice, la);
	char names[80];

	snprintf(names, sizeof names, "%s", faults[a].name);
	if (rand_r(&dice) % 3 == 0) {
		b = rand_r(&dice) % fault_count;
		lb = length_of(&faults[b]);
		if (!go_together(&faults[a], &faults[b]) || !is_wanted(b))
			b = -1;
	}
	bool kills = rand_r(&dice) % 2 == 0;
	bool did_a = begin_fault(a, la), did_b = false;
	if (kills && faults[a].group != CALLER) {
		app_kill(); /* callers die whenever they do */
		app_revive();
	}
	pass(b >= 0 ? lead : la);
	if (b >= 0) {
		did_b = begin_fault(b, lb);
		snprintf(names, sizeof names, "%s and %s", faults[a].name, faults[b].name);
		pass(la - lead);
	}
	if (did_a)
		end_fault(a);
	if (did_b) {
		pass(lead + lb > la ? lead + lb - la : 0);
		end_fault(b);
	}
	probe(names);
	pass(gap);
}

struct nemesis_sum nemesis_run(const struct nemesis_world *world, unsigned seed, double seconds)
{
	double end = harness_now() + seconds;

	w = world;
	dice = seed * 2654435761u + 1;
	faults_use(world, &dice);
	sum.all_kinds = fault_count;
	left = 0;
	while (harness_now() < end)
		strike();
	return sum;
}
