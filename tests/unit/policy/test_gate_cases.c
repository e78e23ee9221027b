/* SPDX-License-Identifier: MIT */
/* test_gate_cases.c: the gate as a table: a task, a caller and a moment in a row, and the verdict on it. */
#include "support/gate_kit.h"

static struct policy *open_policy, *safe_policy; /* the second on an encrypted volume */

#define HEAT_SCHEMA \
	"{'type':'object','properties':{'temperature_c':{'type':'number'},'minutes':{'type':'integer','" \
	"minimum':1," \
	"'maximum':600},'mode':{'enum':['slow','fast','flame']},'tags':{'type':'array','items':{'type':'" \
	"string'}}," \
	"'operator':{'type':'string','minLength':1},'a/b':{'type':'number'},'action':{'type':'string'}," \
	"'nested':{'type':'object','properties':{'deep':{'type':'array','items':{'type':'object','required'" \
	":['n']," \
	"'properties':{'n':{'type':'integer'}}}}}}},'required':['temperature_c'],'additionalProperties':" \
	"false}"
#define HEAT_SAFETY \
	"'risk_floor':'R2','risk_ceiling':'R4','rules':[" \
	"{'when':{'pointer':'/temperature_c','op':'>','value':80},'level':'R3','reason':'hot'}," \
	"{'when':{'pointer':'/temperature_c','op':'>','value':150.5},'level':'R4','reason':'very hot'}," \
	"{'when':{'pointer':'/mode','op':'==','value':'flame'},'level':'R5','reason':'open fire'}," \
	"{'when':{'all':[{'pointer':'/operator','op':'absent'},{'pointer':'/" \
	"minutes','op':'>=','value':60}]}," \
	"'level':'R3','reason':'long and alone'}," \
	"{'when':{'pointer':'/tags','op':'count>','value':2},'level':'R3','reason':'many tags'}]," \
	"'envelope':{'parameters':{'temperature_c':{'max':200,'min':-20,'unit':'C','hard_limit':250}," \
	"'/a~1b':{'max':5}},'prohibited_actions':['vent','melt']}"
#define RULE(p, o, v) "{'when':{'pointer':'/" p "','op':'" o "','value':" v "},'level':'R3','reason':'" p "'}"
#define BARE(p, o) "{'when':{'pointer':'/" p "','op':'" o "'},'level':'R3','reason':'" p "'}"
/* clang-format off */
#define OPS_SAFETY \
	"'risk_floor':'R1','risk_ceiling':'R5','rules':[" RULE("gt", ">", "10") "," RULE("ge", ">=", "10") "," \
	RULE("lt", "<", "10") "," RULE("le", "<=", "10") "," RULE("eq", "==", "10") "," \
	RULE("eqs", "==", "'x'") "," \
	RULE("ne", "!=", "10") "," RULE("in", "in", "[1,'x',null,true]") "," RULE("out", "not_in", "[1,'x']") "," \
	RULE("mid", "between", "[10,20]") "," BARE("here", "present") "," RULE("cgt", "count>", "2") "," \
	RULE("cge", "count>=", "2") "," RULE("clt", "count<", "2") "," RULE("cle", "count<=", "2") "," \
	RULE("ceq", "count==", "2") "," RULE("cne", "count!=", "2") "," \
	"{'when':{'any':[{'pointer':'/any1','op':'present'},{'pointer':'/any2','op':'present'}]}," \
	"'level':'R3','reason':'any'}," \
	"{'when':{'not':{'any':[{'pointer':'/not','op':'absent'},{'pointer':'/not','op':'<','value':5}]}}," \
	"'level':'R3'," \
	"'reason':'not'}," \
	"{'when':{'pointer':'/list/1/n','op':'>','value':0},'level':'R4','reason':'list'}]"
#define CONTEXT \
	"'risk_floor':'R1','risk_ceiling':'R4','resource_types':['oven','press'],'context':[" \
	"{'unattended':{'from':'18:00','to':'07:00','days':['sat','sun'],'zone':'utc'},'level':'R3','" \
	"reason':'nobody is there'}," \
	"{'running':{'at_least':2,'of':'capability'},'level':'R2','reason':'already busy'}," \
	"{'running':{'at_least':3,'of':'resource','resource':'oven'},'level':'R4','reason':'oven in use'}]"
/* clang-format on */

static void setup(void)
{
	static const char config[] =
		"[daemon]\ncallee_id = c\n"
		"[capability plain]\ndeclaration = plain.json\ncommand = /bin/true\n"
		"[capability heat]\ndeclaration = heat.json\ncommand = /bin/true\n"
		"[capability ops]\ndeclaration = ops.json\ncommand = /bin/true\n"
		"[capability moment]\ndeclaration = moment.json\ncommand = /bin/true\n"
		"[capability oven]\ndeclaration = oven.json\ncommand = /bin/true\n"
		"[capability asked]\ndeclaration = asked.json\ncommand = /bin/true\n"
		"[capability never]\ndeclaration = never.json\ncommand = /bin/true\n"
		"[caller all]\ncapabilities = *\nmax_risk = R5\n"
		"[caller r1]\ncapabilities = *\nmax_risk = R1\n[caller r2]\ncapabilities = *\nmax_risk = R2\n"
		"[caller r3]\ncapabilities = *\n[caller r4]\ncapabilities = *\nmax_risk = R4\n"
		"[caller few]\ncapabilities = plain, heat\n[caller none]\ncapabilities =\n"
		"[caller t1]\ncapabilities = *\nmax_data_class = T1\n[caller t3]\ncapabilities = "
		"*\nmax_data_class = T3\n"
		"[caller quick]\ncapabilities = *\nmax_risk = R5\nrate_limit = 60/min\nrate_burst = 2\n";
	struct buf b = {0};

	gate_kit_setup();
	gate_kit_declare("plain", "{}", false, "'risk_ceiling':'R2'");
	gate_kit_declare("heat", HEAT_SCHEMA, false, HEAT_SAFETY);
	gate_kit_declare("ops", "{}", false, OPS_SAFETY);
	gate_kit_declare("moment", "{}", false, CONTEXT);
	gate_kit_declare("oven", "{}", false, "'risk_ceiling':'R1','resource_types':['oven']");
	gate_kit_declare("asked", "{}", true,
		"'risk_floor':'R2','risk_ceiling':'R5','rules':[" RULE("n", ">",
			"3") ",{'when':{'pointer':'/n','op':'>','value':7},'level':'R5','reason':'n'}]");
	gate_kit_declare("never", "false", false, "'risk_ceiling':'R1'");
	open_policy = gate_kit_load(config);
	ck_assert_msg(open_policy != NULL, "%s", buf_text(&gate_kit_said));
	buf_addf(&b, "%s[store]\nencrypted = yes\n", config);
	safe_policy = gate_kit_load(buf_text(&b));
	ck_assert_msg(safe_policy != NULL, "%s", buf_text(&gate_kit_said));
	buf_fini(&b);
}

static void teardown(void)
{
	policy_unref(open_policy);
	policy_unref(safe_policy);
	gate_kit_teardown();
}

enum {
	FULL = 1,  /* no slot and no room to wait */
	QUEUE = 2, /* no slot, but room */
	SAFE = 4,  /* TLS, verified */
	CRYPT = 8, /* an encrypted volume */
	ASK = 16,  /* somebody can be asked */
	PROGRAM = 32
};

struct row {
	const char *caller, *capability, *inputs;
	const char *code; /* NULL: approved; "human", "program", "both": to be asked */
	enum risk risk;
	const char *says; /* somewhere in message or suggestion */
	unsigned flags;
	enum data_class data;
	const char *range;
	const char *at;          /* "sat 03:00", UTC; NULL: monday at noon */
	unsigned running, ovens; /* sessions of `moment`, and of `oven`, which uses one of its resources */
	unsigned used;           /* tasks that this caller sent: one now, the others a second ago */
};

/* The parts that every row has; the others are named. */
#define ROW(who, what, with, answer, level) \
	.caller = who, .capability = what, .inputs = with, .code = answer, .risk = level

static const struct row rows[] = {
	/* caller and capability */
	{ROW("all", "plain", "{}", NULL, R2)},
	{ROW("few", "plain", "{}", NULL, R2)},
	{ROW("few", "heat", "{'temperature_c':20}", NULL, R2)},
	{ROW("few", "ops", "{}", "forbidden", R_NONE), .says = "capability ops"},
	{ROW("none", "plain", "{}", "forbidden", R_NONE)},
	{ROW("all", "absent", "{}", "unknown_capability", R_NONE), .says = "absent"},
	{ROW("all", "Plain", "{}", "unknown_capability", R_NONE)},
	{ROW("all", "", "{}", "unknown_capability", R_NONE)},
	{ROW("none", "absent", "{}", "unknown_capability", R_NONE)},
	/* version */
	{ROW("all", "plain", "{}", NULL, R2), .range = "1.x"},
	{ROW("all", "plain", "{}", NULL, R2), .range = "^1.1"},
	{ROW("all", "plain", "{}", "unknown_capability", R_NONE), .says = "ask for 1.2.0", .range = "2.x"},
	{ROW("all", "plain", "{}", "unknown_capability", R_NONE), .says = "version 1.2.0", .range = "<1.2"},
	{ROW("none", "plain", "{}", "forbidden", R_NONE), .range = "2.x"},
	{ROW("all", "heat", "{'temperature_c':'x'}", "unknown_capability", R_NONE), .range = "2.x"},
	/* inputs against the schema */
	{ROW("all", "heat", "{}", "invalid_input", R_NONE), .says = "temperature_c"},
	{ROW("all", "heat", "{'temperature_c':'20'}", "invalid_input", R_NONE),
		.says = "at \"/temperature_c\", property \"temperature_c\""},
	{ROW("all", "heat", "{'temperature_c':null}", "invalid_input", R_NONE), .says = "/temperature_c"},
	{ROW("all", "heat", "{'temperature_c':20,'minutes':0}", "invalid_input", R_NONE),
		.says = "at \"/minutes\", property \"minutes\""},
	{ROW("all", "heat", "{'temperature_c':20,'minutes':601}", "invalid_input", R_NONE),
		.says = "/minutes"},
	{ROW("all", "heat", "{'temperature_c':20,'minutes':1.5}", "invalid_input", R_NONE),
		.says = "/minutes"},
	{ROW("r2", "heat", "{'temperature_c':20,'minutes':600}", "risk_too_high", R3),
		.says = "long and alone"},
	{ROW("all", "heat", "{'temperature_c':20,'mode':'boil'}", "invalid_input", R_NONE),
		.says = "property \"mode\""},
	{ROW("all", "heat", "{'temperature_c':20,'tags':[1]}", "invalid_input", R_NONE),
		.says = "at \"/tags/0\""},
	{ROW("all", "heat", "{'temperature_c':20,'operator':''}", "invalid_input", R_NONE),
		.says = "/operator"},
	{ROW("all", "heat", "{'temperature_c':20,'colour':1}", "invalid_input", R_NONE), .says = "colour"},
	{ROW("all", "heat", "{'temperature_c':20,'a/b':'x'}", "invalid_input", R_NONE), .says = "/a~1b"},
	{ROW("all", "heat", "{'temperature_c':20,'nested':{'deep':[{'n':1},{'n':'x'}]}}", "invalid_input",
		 R_NONE),
		.says = "at \"/nested/deep/1/n\", property \"n\""},
	{ROW("all", "heat", "{'temperature_c':20,'nested':{'deep':[{'n':1},{}]}}", "invalid_input", R_NONE),
		.says = "/nested/deep/1"},
	{ROW("all", "heat", "{'temperature_c':20,'nested':{'deep':[{'n':1}]}}", NULL, R2)},
	{ROW("all", "never", "{}", "invalid_input", R_NONE)},
	{ROW("none", "heat", "{}", "forbidden", R_NONE)},
	{ROW("r1", "heat", "{}", "invalid_input", R_NONE)},
	/* the envelope */
	{ROW("all", "heat", "{'temperature_c':200}", NULL, R4)},
	{ROW("all", "heat", "{'temperature_c':200.0}", NULL, R4)},
	{ROW("all", "heat", "{'temperature_c':200.001}", "policy_denied", R_NONE), .says = "at most 200 C"},
	{ROW("all", "heat", "{'temperature_c':201}", "policy_denied", R_NONE),
		.says = "keep /temperature_c at most 200 C"},
	{ROW("all", "heat", "{'temperature_c':250}", "policy_denied", R_NONE),
		.says = "the limit is at most 200 C"},
	{ROW("all", "heat", "{'temperature_c':251}", "policy_denied", R_NONE),
		.says = "the hard limit is at most 250 C"},
	{ROW("all", "heat", "{'temperature_c':1e300}", "policy_denied", R_NONE), .says = "hard limit"},
	{ROW("all", "heat", "{'temperature_c':-20}", NULL, R2)},
	{ROW("all", "heat", "{'temperature_c':-20.5}", "policy_denied", R_NONE), .says = "at least -20 C"},
	{ROW("all", "heat", "{'temperature_c':20,'a/b':5}", NULL, R2)},
	{ROW("all", "heat", "{'temperature_c':20,'a/b':5.5}", "policy_denied", R_NONE),
		.says = "/a~1b is 5.5"},
	{ROW("all", "heat", "{'temperature_c':20,'action':'stir'}", NULL, R2)},
	{ROW("all", "heat", "{'temperature_c':20,'action':'vent'}", "policy_denied", R_NONE),
		.says = "vent is prohibited"},
	{ROW("all", "heat", "{'temperature_c':20,'action':'melt'}", "policy_denied", R_NONE), .says = "melt"},
	{ROW("r1", "heat", "{'temperature_c':300}", "policy_denied", R_NONE)}, /* before the risk */
	{ROW("all", "heat", "{'temperature_c':300,'minutes':0}", "invalid_input", R_NONE)},
	/* the risk of inputs */
	{ROW("all", "heat", "{'temperature_c':80}", NULL, R2)},
	{ROW("all", "heat", "{'temperature_c':80.0}", NULL, R2)},
	{ROW("all", "heat", "{'temperature_c':80.0001}", NULL, R3)},
	{ROW("all", "heat", "{'temperature_c':81}", NULL, R3)},
	{ROW("all", "heat", "{'temperature_c':150}", NULL, R3)},
	{ROW("all", "heat", "{'temperature_c':150.5}", NULL, R3)},
	{ROW("all", "heat", "{'temperature_c':151}", NULL, R4)},
	{ROW("all", "heat", "{'temperature_c':20,'mode':'slow'}", NULL, R2)},
	{ROW("all", "heat", "{'temperature_c':20,'mode':'flame'}", "risk_too_high", R5),
		.says = "the most that is ever done here is R4"},
	{ROW("all", "heat", "{'temperature_c':20,'mode':'flame'}", "risk_too_high", R5),
		.says = "with /mode other than \"flame\" the risk would be R2"},
	{ROW("all", "heat", "{'temperature_c':90,'mode':'flame'}", "risk_too_high", R5),
		.says = "the risk would be R3"},
	{ROW("all", "heat", "{'temperature_c':20,'minutes':60}", NULL, R3)},
	{ROW("all", "heat", "{'temperature_c':20,'minutes':59}", NULL, R2)},
	{ROW("all", "heat", "{'temperature_c':20,'minutes':60,'operator':'jo'}", NULL, R2)},
	{ROW("all", "heat", "{'temperature_c':20,'tags':['a','b']}", NULL, R2)},
	{ROW("all", "heat", "{'temperature_c':20,'tags':['a','b','c']}", NULL, R3)},
	/* the caller's limit */
	{ROW("r1", "heat", "{'temperature_c':20}", "risk_too_high", R2), .says = "this caller's limit is R1"},
	{ROW("r1", "heat", "{'temperature_c':20}", "risk_too_high", R2),
		.says = "use a capability of risk R1 or less"},
	{ROW("r2", "heat", "{'temperature_c':20}", NULL, R2)},
	{ROW("r2", "heat", "{'temperature_c':81}", "risk_too_high", R3), .says = "hot (R3)"},
	{ROW("r2", "heat", "{'temperature_c':81}", "risk_too_high", R3),
		.says = "with /temperature_c at most 80 the risk would be R2"},
	{ROW("r3", "heat", "{'temperature_c':81}", NULL, R3)},
	{ROW("r3", "heat", "{'temperature_c':151}", "risk_too_high", R4), .says = "very hot (R4); hot (R3)"},
	{ROW("r3", "heat", "{'temperature_c':151}", "risk_too_high", R4),
		.says = "with /temperature_c at most 150.5 the risk would be R3"},
	{ROW("r2", "heat", "{'temperature_c':151}", "risk_too_high", R4), .says = "the risk would be R2"},
	{ROW("r4", "heat", "{'temperature_c':151}", NULL, R4)},
	{ROW("r2", "heat", "{'temperature_c':20,'minutes':90}", "risk_too_high", R3),
		.says = "with /operator given the risk would be R2"},
	{ROW("r2", "heat", "{'temperature_c':20,'tags':['a','b','c','d']}", "risk_too_high", R3),
		.says = "with /tags of at most 2 entries the risk would be R2"},
	{ROW("r2", "heat", "{'temperature_c':90,'tags':['a','b','c']}", "risk_too_high", R3),
		.says = "with /temperature_c at most 80 and with /tags of at most 2 entries the risk would "
			"be R2"},
	{ROW("r1", "plain", "{}", "risk_too_high", R2), .says = "capability plain is of risk R2"},
	{ROW("r2", "plain", "{}", NULL, R2)},
	/* every operator: at its edge, beyond it, of another kind */
	{ROW("all", "ops", "{}", NULL, R1)},
	{ROW("all", "ops", "{'other':99}", NULL, R1)},
	{ROW("all", "ops", "{'gt':10}", NULL, R1)},
	{ROW("all", "ops", "{'gt':10.000001}", NULL, R3)},
	{ROW("all", "ops", "{'gt':'11'}", NULL, R1)},
	{ROW("all", "ops", "{'gt':null}", NULL, R1)},
	{ROW("all", "ops", "{'gt':9223372036854775807}", NULL, R3)},
	{ROW("all", "ops", "{'gt':99999999999999999999999}", NULL, R3)},
	{ROW("all", "ops", "{'gt':-99999999999999999999999}", NULL, R1)},
	{ROW("all", "ops", "{'ge':10}", NULL, R3)},
	{ROW("all", "ops", "{'ge':10.0}", NULL, R3)},
	{ROW("all", "ops", "{'ge':9.999999}", NULL, R1)},
	{ROW("all", "ops", "{'lt':10}", NULL, R1)},
	{ROW("all", "ops", "{'lt':9}", NULL, R3)},
	{ROW("all", "ops", "{'lt':-5e10}", NULL, R3)},
	{ROW("all", "ops", "{'lt':[]}", NULL, R1)},
	{ROW("all", "ops", "{'le':10}", NULL, R3)},
	{ROW("all", "ops", "{'le':10.5}", NULL, R1)},
	{ROW("all", "ops", "{'eq':10}", NULL, R3)},
	{ROW("all", "ops", "{'eq':1e1}", NULL, R3)},
	{ROW("all", "ops", "{'eq':'10'}", NULL, R1)},
	{ROW("all", "ops", "{'eq':11}", NULL, R1)},
	{ROW("all", "ops", "{'eqs':'x'}", NULL, R3)},
	{ROW("all", "ops", "{'eqs':'X'}", NULL, R1)},
	{ROW("all", "ops", "{'eqs':'x\\u0000'}", NULL, R1)},
	{ROW("all", "ops", "{'eqs':''}", NULL, R1)},
	{ROW("all", "ops", "{'ne':10}", NULL, R1)},
	{ROW("all", "ops", "{'ne':10.0}", NULL, R1)},
	{ROW("all", "ops", "{'ne':9}", NULL, R3)},
	{ROW("all", "ops", "{'ne':'10'}", NULL, R3)},
	{ROW("all", "ops", "{'ne':{}}", NULL, R3)},
	{ROW("all", "ops", "{'in':1}", NULL, R3)},
	{ROW("all", "ops", "{'in':1.0}", NULL, R3)},
	{ROW("all", "ops", "{'in':'x'}", NULL, R3)},
	{ROW("all", "ops", "{'in':null}", NULL, R3)},
	{ROW("all", "ops", "{'in':true}", NULL, R3)},
	{ROW("all", "ops", "{'in':false}", NULL, R1)},
	{ROW("all", "ops", "{'in':2}", NULL, R1)},
	{ROW("all", "ops", "{'in':[1]}", NULL, R1)},
	{ROW("all", "ops", "{'out':1}", NULL, R1)},
	{ROW("all", "ops", "{'out':'x'}", NULL, R1)},
	{ROW("all", "ops", "{'out':'y'}", NULL, R3)},
	{ROW("all", "ops", "{'out':{}}", NULL, R3)},
	{ROW("all", "ops", "{'mid':10}", NULL, R3)},
	{ROW("all", "ops", "{'mid':20.0}", NULL, R3)},
	{ROW("all", "ops", "{'mid':9.99}", NULL, R1)},
	{ROW("all", "ops", "{'mid':20.01}", NULL, R1)},
	{ROW("all", "ops", "{'mid':'15'}", NULL, R1)},
	{ROW("all", "ops", "{'here':null}", NULL, R3)},
	{ROW("all", "ops", "{'here':{}}", NULL, R3)},
	{ROW("all", "ops", "{'cgt':[1,2]}", NULL, R1)},
	{ROW("all", "ops", "{'cgt':[1,2,3]}", NULL, R3)},
	{ROW("all", "ops", "{'cgt':{'a':1,'b':2,'c':3}}", NULL, R3)},
	{ROW("all", "ops", "{'cgt':'abc'}", NULL, R1)},
	{ROW("all", "ops", "{'cgt':3}", NULL, R1)},
	{ROW("all", "ops", "{'cge':[1]}", NULL, R1)},
	{ROW("all", "ops", "{'cge':[1,2]}", NULL, R3)},
	{ROW("all", "ops", "{'clt':[1,2]}", NULL, R1)},
	{ROW("all", "ops", "{'clt':[]}", NULL, R3)},
	{ROW("all", "ops", "{'cle':[1,2]}", NULL, R3)},
	{ROW("all", "ops", "{'cle':[1,2,3]}", NULL, R1)},
	{ROW("all", "ops", "{'ceq':[1,2]}", NULL, R3)},
	{ROW("all", "ops", "{'ceq':[1]}", NULL, R1)},
	{ROW("all", "ops", "{'cne':[1]}", NULL, R3)},
	{ROW("all", "ops", "{'cne':[1,2]}", NULL, R1)},
	{ROW("all", "ops", "{'any1':0}", NULL, R3)},
	{ROW("all", "ops", "{'any2':0}", NULL, R3)},
	{ROW("all", "ops", "{'not':5}", NULL, R3)},
	{ROW("all", "ops", "{'not':4}", NULL, R1)},
	{ROW("all", "ops", "{'list':[{'n':1}]}", NULL, R1)},
	{ROW("all", "ops", "{'list':[{'n':0},{'n':1}]}", NULL, R4)},
	{ROW("all", "ops", "{'list':{'1':{'n':1}}}", NULL, R4)},
	{ROW("all", "ops", "{'list':[1,2]}", NULL, R1)},
	{ROW("all", "ops", "{'gt':11,'list':[0,{'n':5}]}", NULL, R4)},
	{ROW("r2", "ops", "{'ge':10}", "risk_too_high", R3),
		.says = "with /ge below 10 the risk would be R1"},
	{ROW("r2", "ops", "{'lt':1}", "risk_too_high", R3),
		.says = "with /lt at least 10 the risk would be R1"},
	{ROW("r2", "ops", "{'le':1}", "risk_too_high", R3), .says = "with /le above 10 the risk would be R1"},
	{ROW("r2", "ops", "{'ne':1}", "risk_too_high", R3), .says = "with /ne being 10 the risk would be R1"},
	{ROW("r2", "ops", "{'in':1}", "risk_too_high", R3),
		.says = "with /in none of [1,\"x\",null,true] the risk would be R1"},
	{ROW("r2", "ops", "{'out':2}", "risk_too_high", R3),
		.says = "with /out one of [1,\"x\"] the risk would be R1"},
	{ROW("r2", "ops", "{'mid':15}", "risk_too_high", R3),
		.says = "with /mid outside [10,20] the risk would be R1"},
	{ROW("r2", "ops", "{'here':1}", "risk_too_high", R3), .says = "without /here the risk would be R1"},
	{ROW("r2", "ops", "{'any1':1,'any2':1}", "risk_too_high", R3),
		.says = "without /any1 and without /any2 the risk would be R1"},
	{ROW("r2", "ops", "{'not':7}", "risk_too_high", R3), .says = "without /not the risk would be R1"},
	{ROW("r2", "ops", "{'cge':[1,2]}", "risk_too_high", R3),
		.says = "with /cge of fewer than 2 entries the risk would be R1"},
	{ROW("r2", "ops", "{'cle':[]}", "risk_too_high", R3),
		.says = "use a capability of risk R2 or less"}, /* no array can be made up */
	/* the moment */
	{ROW("all", "moment", "{}", NULL, R1), .at = "mon 07:00"},
	{ROW("all", "moment", "{}", NULL, R1), .at = "fri 17:59"},
	{ROW("all", "moment", "{}", NULL, R3), .at = "mon 06:59"},
	{ROW("all", "moment", "{}", NULL, R3), .at = "mon 18:00"},
	{ROW("all", "moment", "{}", NULL, R3), .at = "tue 00:00"},
	{ROW("all", "moment", "{}", NULL, R3), .at = "sat 12:00"},
	{ROW("all", "moment", "{}", NULL, R3), .at = "sun 12:00"},
	{ROW("r2", "moment", "{}", "risk_too_high", R3), .says = "nobody is there", .at = "mon 23:59"},
	{ROW("r2", "moment", "{}", "risk_too_high", R3),
		.says = "between 07:00 and 18:00 on days other than sun, sat UTC the risk would be R1",
		.at = "mon 23:59"},
	{ROW("all", "moment", "{}", NULL, R2), .running = 2},
	{ROW("all", "moment", "{}", NULL, R1), .ovens = 2},
	{ROW("all", "moment", "{}", NULL, R4), .ovens = 3},
	{ROW("all", "moment", "{}", NULL, R4), .running = 1, .ovens = 2},
	{ROW("r3", "moment", "{}", "risk_too_high", R4), .ovens = 3, .says = "oven in use"},
	{ROW("r3", "moment", "{}", "risk_too_high", R4), .ovens = 3,
		.says = "while fewer than 3 sessions of the resource oven run the risk would be R1"},
	{ROW("all", "moment", "{}", NULL, R1), .running = 1},
	{ROW("r1", "moment", "{}", "risk_too_high", R2),
		.says = "while fewer than 2 sessions of this capability run the risk would be R1",
		.running = 2},
	{ROW("all", "oven", "{}", NULL, R1), .running = 50},
	/* the class of data */
	{ROW("all", "plain", "{}", NULL, R2), .data = T2},
	{ROW("t1", "plain", "{}", NULL, R2), .data = T1},
	{ROW("t1", "plain", "{}", "forbidden", R2), .says = "above this caller's limit, T1", .data = T2},
	{ROW("all", "plain", "{}", "policy_denied", R2), .says = "encryption at rest", .data = T3},
	{ROW("all", "plain", "{}", "policy_denied", R2), .says = "encryption at rest", .data = T3,
		.flags = SAFE},
	{ROW("all", "plain", "{}", "policy_denied", R2), .says = "TLS", .data = T3, .flags = CRYPT},
	{ROW("all", "plain", "{}", NULL, R2), .data = T3, .flags = CRYPT | SAFE},
	{ROW("all", "plain", "{}", "policy_denied", R2), .says = "nobody to ask", .data = T4,
		.flags = CRYPT | SAFE},
	{ROW("all", "plain", "{}", "human", R2), .data = T4, .flags = CRYPT | SAFE | ASK},
	{ROW("all", "plain", "{}", "policy_denied", R2), .says = "TLS", .data = T4, .flags = CRYPT | ASK},
	{ROW("t3", "plain", "{}", "forbidden", R2), .says = "T4", .data = T4, .flags = CRYPT | SAFE | ASK},
	{ROW("r1", "plain", "{}", "risk_too_high", R2), .data = T4}, /* the risk comes first */
	/* rate: 60 a minute, two at once; a second gives one back */
	{ROW("quick", "plain", "{}", NULL, R2)},
	{ROW("quick", "plain", "{}", NULL, R2), .used = 1},
	{ROW("quick", "plain", "{}", NULL, R2), .used = 2},
	{ROW("quick", "plain", "{}", "rate_limited", R_NONE), .says = "submit it again in 1.000 s",
		.used = 3},
	{ROW("quick", "plain", "{}", "rate_limited", R_NONE), .says = "60 tasks in 60 s, with 2 at once",
		.used = 50},
	{ROW("all", "plain", "{}", NULL, R2), .used = 50},
	{ROW("quick", "never", "{}", "rate_limited", R_NONE), .used = 50},
	{ROW("quick", "heat", "{'temperature_c':20,'mode':'flame'}", "rate_limited", R_NONE), .used = 50},
	{ROW("quick", "plain", "{}", "rate_limited", R_NONE), .used = 3, .flags = FULL},
	/* room */
	{ROW("all", "plain", "{}", NULL, R2), .flags = QUEUE},
	{ROW("all", "plain", "{}", "resource_unavailable", R2), .says = "submit it again later",
		.flags = FULL},
	{ROW("quick", "plain", "{}", "resource_unavailable", R2), .flags = FULL},
	/* whom to ask */
	{ROW("all", "asked", "{}", NULL, R2), .flags = ASK},
	{ROW("all", "asked", "{'n':3}", NULL, R2)},
	{ROW("all", "asked", "{'n':4}", "policy_denied", R3),
		.says = "needs a human's approval, and there is nobody to ask here"},
	{ROW("all", "asked", "{'n':4}", "human", R3), .flags = ASK},
	{ROW("all", "asked", "{'n':8}", "human", R5), .flags = ASK},
	{ROW("r2", "asked", "{'n':4}", "risk_too_high", R3), .flags = ASK},
	{ROW("all", "asked", "{'n':4}", "resource_unavailable", R3), .flags = ASK | FULL},
	{ROW("all", "asked", "{'n':4}", "human", R3), .flags = ASK | QUEUE},
	{ROW("all", "plain", "{}", "program", R2), .flags = ASK | PROGRAM},
	{ROW("all", "plain", "{}", "policy_denied", R2), .says = "policy program", .flags = PROGRAM},
	{ROW("all", "asked", "{'n':4}", "both", R3), .flags = ASK | PROGRAM},
	{ROW("all", "asked", "{'n':4}", "policy_denied", R3), .says = "human", .flags = PROGRAM},
	{ROW("none", "plain", "{}", "forbidden", R_NONE), .flags = ASK | PROGRAM},
};
_Static_assert(sizeof rows / sizeof *rows >= 150, "a table of at least 150 cases");

static unsigned running(void *arg, const char *capability)
{
	const struct row *r = arg;

	return strcmp(capability, "moment") == 0 ? r->running :
		strcmp(capability, "oven") == 0  ? r->ovens :
						   1000;
}

static void set_clock(const char *at, struct risk_clock *clock)
{
	static const char days[] = "sun mon tue wed thu fri sat ";
	char day[4];
	int hour, minute;

	ck_assert_int_eq(sscanf(at, "%3s %d:%d", day, &hour, &minute), 3);
	clock->weekday[RISK_UTC] = (int)(strstr(days, day) - days) / 4;
	clock->minute[RISK_UTC] = hour * 60 + minute;
	clock->weekday[RISK_LOCAL] = 3; /* wednesday at noon, where it is never asked for */
	clock->minute[RISK_LOCAL] = 720;
}

static void decide(const struct row *r, struct gate_result *v)
{
	const struct policy *p = (r->flags & CRYPT) != 0 ? safe_policy : open_policy;
	const struct config_caller *caller = gate_identify(p, r->caller, NULL, v);
	char *name = xstrdup(r->capability), *range = r->range != NULL ? xstrdup(r->range) : NULL;
	struct task task = {.capability = name,
		.version_range = range,
		.data_class = r->data,
		.inputs = gate_kit_json(r->inputs)};
	struct rate rate = {0};
	struct row copy = *r;
	struct gate_context context = {.may_start = (r->flags & (FULL | QUEUE)) == 0,
		.may_wait = (r->flags & FULL) == 0,
		.link_is_safe = (r->flags & SAFE) != 0,
		.has_approver = (r->flags & ASK) != 0,
		.has_program = (r->flags & PROGRAM) != 0,
		.running = running,
		.running_arg = &copy,
		.rate = &rate,
		.now_us = 5000000};

	ck_assert(caller != NULL);
	set_clock(r->at != NULL ? r->at : "mon 12:00", &context.clock);
	for (unsigned i = 0; i < r->used; i++)
		rate_take(&caller->rate, &rate, i + 1 < r->used ? 4000000 : 5000000);
	gate_decide(p, caller, &task, &context, v);
	json_decref(task.inputs);
	free(name);
	free(range);
}

static const char *asked_of(const struct gate_result *v)
{
	static const char *const names[] = {"nobody", "human", "program", "both"};

	return names[v->needs & 3];
}

START_TEST(each_row_has_its_verdict) /* proves L3-02, L3-03, L3-04, L3-06, L3-07, SA-06 */
{
	const struct row *r = &rows[_i];
	struct gate_result v;

	memset(&v, 0xaa, sizeof v);
	decide(r, &v);
	ck_assert_msg(v.risk == r->risk, "row %d: risk %s, message %s", _i, risk_names[v.risk], v.message);
	if (r->code == NULL) {
		ck_assert_msg(v.kind == GATE_APPROVED, "row %d: %s: %s", _i, v.code, v.message);
		ck_assert(v.needs == 0 && v.capability != NULL && v.max_duration_us == INT64_C(600000000));
	} else if (v.kind == GATE_NEEDS_APPROVAL) {
		ck_assert_str_eq(asked_of(&v), r->code);
		ck_assert(v.capability != NULL && v.max_duration_us == INT64_C(600000000));
	} else {
		ck_assert_msg(v.kind == GATE_REJECTED && strcmp(v.code, r->code) == 0, "row %d: %s: %s", _i,
			v.code, v.message);
		ck_assert(v.message[0] != '\0' && v.capability == NULL);
		ck_assert((v.retry_us > 0) == (strcmp(v.code, "rate_limited") == 0));
	}
	ck_assert_msg(r->says == NULL || strstr(v.message, r->says) != NULL ||
			strstr(v.suggestion, r->says) != NULL,
		"row %d: %s | %s", _i, v.message, v.suggestion);
}
END_TEST

START_TEST(the_list_of_rules_names_those_that_raised_it) /* proves L3-03 */
{
	static const struct row r = {
		ROW("all", "heat", "{'temperature_c':151,'tags':['a','b','c']}", NULL, R4)};
	struct gate_result v;

	decide(&r, &v);
	ck_assert_uint_eq(v.assessed.rules, 1 << 0 | 1 << 1 | 1 << 4);
	ck_assert_str_eq(v.why, "very hot (R4); hot (R3); many tags (R3)");
}
END_TEST

START_TEST(a_task_without_inputs_is_no_task)
{
	struct gate_result v;
	char name[] = "plain";
	struct task task = {.capability = name};

	gate_decide(open_policy, gate_identify(open_policy, "all", NULL, &v), &task,
		&(struct gate_context){.may_start = true}, &v);
	ck_assert_str_eq(v.code, "invalid_input");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("gate_cases");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, each_row_has_its_verdict, 0, COUNT(rows));
	tcase_add_test(t, the_list_of_rules_names_those_that_raised_it);
	tcase_add_test(t, a_task_without_inputs_is_no_task);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
