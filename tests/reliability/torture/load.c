/* SPDX-License-Identifier: MIT */
/* load.c: the load: which kinds of work there are, how often, and the capabilities behind them.
 * Never sends anything (caller.c). */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *kind, *capability;
	int weight, gentle; /* how often, of 100: in the torture, in the soak */
	const char *inputs; /* %d: the goal; ' for "; & for what a human is to say */
	int least, most;    /* the goal */
	int abort_of_100;
	bool python, may_fail;
	int attempts; /* max_attempts of its capability; 0: one, as ever */
} table[] = {
	{"quick", "counter", 8, 20, "{'goal':%d}", 1, 5, 0, false, false, 0},
	{"reuse", "reuser", 13, 56, "{'goal':%d}", 1, 4, 0, false, false, 0},
	{"resume", "counter", 9, 4, "{'goal':%d,'every':4,'delay':30}", 20, 70, 20, false, false, 0},
	{"long", "counter", 5, 1, "{'goal':%d,'every':10,'delay':40}", 90, 160, 60, false, false, 0},
	{"python", "agent", 3, 1, "{'do':[['count',%d,5,0.02]]}", 10, 40, 10, true, false, 0},
	{"text", "plain", 6, 10, "{'goal':%d}", 1, 9, 0, false, false, 0},
	{"burst", "reuser", 4, 2, "{'goal':%d,'size':300}", 100, 300, 0, false, false, 0},
	{"fail", "counter", 3, 3, "{'goal':%d,'end':'fail'}", 1, 3, 0, false, true, 0},
	{"crowd", "counter", 6, 1, "{'goal':%d,'delay':20,'crowd':2,'deaf':true}", 5, 30, 50, false, false,
		0},
	{"hang", "counter", 4, 1, "{'goal':%d,'every':1,'crowd':1,'end':'hang'}", 1, 3, 100, false, false, 0},
	{"warm", "oven", 3, 0, "{'goal':%d,'every':3,'delay':20,'heat':70}", 3, 20, 0, false, false, 0},
	{"hot", "oven", 1, 0, "{'goal':%d,'heat':96}", 1, 3, 0, false, true, 0},
	{"lab", "lab", 7, 0, "{'goal':%d,'every':2,'delay':10,'human':'&'}", 1, 20, 10, false, false, 0},
	{"asked", "counter", 4, 0, "{'goal':%d,'policy':'ask','human':'&'}", 1, 5, 0, false, false, 0},
	{"barred", "counter", 2, 0, "{'goal':%d,'policy':'deny'}", 1, 5, 0, false, false, 0},
	{"sturdy", "sturdy", 6, 0, "{'goal':%d,'every':3,'delay':20,'dies':2}", 12, 40, 5, false, false, 4},
	{"doomed", "frail", 2, 0, "{'goal':%d,'dies':1000}", 10, 20, 0, false, true, 2},
	{"rest", "rester", 6, 0, "{'goal':%d,'every':5,'delay':40}", 25, 70, 10, false, false, 0},
	{"large", "hoarder", 4, 0, "{'goal':%d,'every':2,'delay':20,'state':9000}", 8, 50, 5, false, false,
		0},
	{"unknown", "nobody-has-this", 4, 1, "{'goal':%d}", 1, 9, 0, false, false, 0},
};

static const char *const wishes[] = {"allow", "allow", "allow", "allow", "deny", "deny", "never"};

double mix_some(unsigned *seed, double most)
{
	return most * (double)(rand_r(seed) % 10000) / 10000;
}

void mix_prepare(struct rig *r, const char *agent)
{
	static const char *const own[] = {"counter", "reuser"};
	char section[64];

	for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
		rig_capability(r, own[i], agent, NULL);
		snprintf(section, sizeof section, "capability %s", own[i]);
		rig_set(r, section, "keep_workdir", "never");
	}
	rig_set(r, "capability reuser", "reuse", "200");
	rig_set(r, "capability agent", "keep_workdir", "never");
	rig_text(r, "plain",
		"i=0\nwhile [ $i -lt 5 ]; do i=$((i + 1)); echo \"line $i\"; done\necho warned >&2\n");
	rig_set(r, "capability plain", "keep_workdir", "never");
}

void mix_prepare_return(struct rig *r, const char *agent)
{
	static const struct {
		const char *name, *key, *value;
	} keys[] = {
		{"sturdy", "max_attempts", "4"},
		{"sturdy", "retry_delay", "PT0.2S"},
		{"sturdy", "harp", "yes"},
		{"frail", "max_attempts", "2"},
		{"frail", "retry_delay", "PT0.1S"},
		{"rester", "pause_frees_worker", "yes"},
		{"rester", "harp", "yes"},
		{"hoarder", "checkpoint_full_every", "4"},
		{"hoarder", "harp", "yes"},
	};
	char section[64], last[16] = "";

	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		snprintf(section, sizeof section, "capability %s", keys[i].name);
		if (strcmp(last, keys[i].name) != 0) {
			rig_capability(r, keys[i].name, agent, NULL);
			rig_set(r, section, "keep_workdir", "never");
		}
		snprintf(last, sizeof last, "%s", keys[i].name);
		rig_set(r, section, keys[i].key, "%s", keys[i].value);
	}
}

void mix_prepare_gate(struct rig *r, const char *agent, const char *policy)
{
	static const char *const ceilings[] = {"R4", "R3"};

	for (int i = 0; i < 2; i++) {
		rig_capability(r, "lab", agent,
			J("{'safety':{'risk_ceiling':'%s','requires_human_approval':true}}", ceilings[i]));
		must(i > 0 || rename(rig_path(r, "lab.json"), rig_path(r, "lab-high.json")) == 0,
			"a second declaration of lab");
	}
	rig_set(r, "capability lab", "keep_workdir", "never");
	rig_set(r, "capability lab", "harp", "yes");
	rig_capability(r, "oven", agent,
		J("{'safety':{'envelope':{'parameters':{'t':{'max':80,'hard_limit':95}}}}}"));
	rig_set(r, "capability oven", "keep_workdir", "never");
	rig_set(r, "policy", "command", "/usr/bin/env RIG_MARK=%s TORTURE_PROGRAM=policy %s", r->dir, policy);
	rig_set(r, "policy", "timeout", "20s");
}

static size_t draw_kind(unsigned *seed, bool gentle)
{
	int ball = rand_r(seed) % 100;

	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if ((ball -= gentle ? table[i].gentle : table[i].weight) < 0)
			return i;
	return 0;
}

void mix_draw(unsigned *seed, bool gentle, struct order *o)
{
	size_t k = draw_kind(seed, gentle);
	int goal = table[k].least + rand_r(seed) % (table[k].most - table[k].least + 1);
	char text[200];

	memset(o, 0, sizeof *o);
	o->kind = table[k].kind;
	o->capability = table[k].capability;
	o->may_fail = table[k].may_fail;
	const char *at = strstr(table[k].inputs, "%d"), *wish = strchr(table[k].inputs, '&');
	if (wish)
		o->human = wishes[rand_r(seed) % (int)(sizeof wishes / sizeof wishes[0])];
	o->is_barred = strcmp(o->kind, "barred") == 0;
	snprintf(text, sizeof text, "%.*s%d%.*s%s%s", (int)(at - table[k].inputs), table[k].inputs, goal,
		(int)(wish ? wish - at - 2 : 999), at + 2, wish ? o->human : "", wish ? wish + 1 : "");
	o->inputs = J("%s", text);
	o->attempts = table[k].attempts > 0 ? table[k].attempts : 1;
	if (strcmp(o->kind, "doomed") == 0)
		snprintf(o->wanted, sizeof o->wanted, "no end but a failure");
	else if (strcmp(o->capability, "plain") != 0)
		snprintf(o->wanted, sizeof o->wanted, "n=%d", goal);
	bool aborts = rand_r(seed) % 100 < table[k].abort_of_100;
	double after = mix_some(seed, 2.5);
	o->abort_after = aborts ? after : -1;
	o->wrong_token = rand_r(seed) % 20 == 0 && strcmp(o->kind, "hang") != 0;
	if (o->wrong_token)
		o->abort_after = after;
	o->twice = rand_r(seed) % 8 == 0;
}
