/* mix.c: the load: which kinds of work there are, how often, and the capabilities behind them.
 * Never sends anything (caller.c). */
#include "mix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *kind, *capability;
	int weight, gentle;             /* how often, of 100: in the torture, in the soak */
	const char *inputs;             /* %d: the goal; ' for "; & for what a human is to say */
	int least, most;                /* the goal */
	int abort_of_100;
	bool python, may_fail;
} table[] = {
	{"quick", "counter", 13, 20, "{'goal':%d}", 1, 5, 0, false, false},
	{"reuse", "reuser", 18, 56, "{'goal':%d}", 1, 4, 0, false, false},
	{"resume", "counter", 14, 4, "{'goal':%d,'every':4,'delay':30}", 20, 70, 20, false, false},
	{"long", "counter", 5, 1, "{'goal':%d,'every':10,'delay':40}", 90, 160, 60, false, false},
	{"python", "agent", 3, 1, "{'do':[['count',%d,5,0.02]]}", 10, 40, 10, true, false},
	{"text", "plain", 8, 10, "{'goal':%d}", 1, 9, 0, false, false},
	{"burst", "reuser", 4, 2, "{'goal':%d,'size':300}", 100, 300, 0, false, false},
	{"fail", "counter", 4, 3, "{'goal':%d,'end':'fail'}", 1, 3, 0, false, true},
	{"crowd", "counter", 6, 1, "{'goal':%d,'delay':20,'crowd':2,'deaf':true}", 5, 30, 50, false, false},
	{"hang", "counter", 4, 1, "{'goal':%d,'every':1,'crowd':1,'end':'hang'}", 1, 3, 100, false, false},
	{"warm", "oven", 3, 0, "{'goal':%d,'every':3,'delay':20,'heat':70}", 3, 20, 0, false, false},
	{"hot", "oven", 1, 0, "{'goal':%d,'heat':96}", 1, 3, 0, false, true},
	{"lab", "lab", 7, 0, "{'goal':%d,'every':2,'delay':10,'human':'&'}", 1, 20, 10, false, false},
	{"asked", "counter", 4, 0, "{'goal':%d,'policy':'ask','human':'&'}", 1, 5, 0, false, false},
	{"barred", "counter", 2, 0, "{'goal':%d,'policy':'deny'}", 1, 5, 0, false, false},
	{"unknown", "nobody-has-this", 4, 1, "{'goal':%d}", 1, 9, 0, false, false},
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
	rig_text(r, "plain", "i=0\nwhile [ $i -lt 5 ]; do i=$((i + 1)); echo \"line $i\"; done\necho warned >&2\n");
	rig_set(r, "capability plain", "keep_workdir", "never");
}

void mix_prepare_gate(struct rig *r, const char *agent, const char *policy)
{
	static const char *const ceilings[] = {"R4", "R3"};

	for (int i = 0; i < 2; i++) {
		rig_capability(r, "lab", agent, J("{'safety':{'risk_ceiling':'%s','requires_human_approval':true}}", ceilings[i]));
		must(i > 0 || rename(rig_path(r, "lab.json"), rig_path(r, "lab-high.json")) == 0, "a second declaration of lab");
	}
	rig_set(r, "capability lab", "keep_workdir", "never");
	rig_capability(r, "oven", agent, J("{'safety':{'envelope':{'parameters':{'t':{'max':80,'hard_limit':95}}}}}"));
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
	if (strcmp(o->capability, "plain") != 0)
		snprintf(o->wanted, sizeof o->wanted, "n=%d", goal);
	bool aborts = rand_r(seed) % 100 < table[k].abort_of_100;
	double after = mix_some(seed, 2.5);
	o->abort_after = aborts ? after : -1;
	o->wrong_token = rand_r(seed) % 20 == 0 && strcmp(o->kind, "hang") != 0;
	if (o->wrong_token)
		o->abort_after = after;
	o->twice = rand_r(seed) % 8 == 0;
}
