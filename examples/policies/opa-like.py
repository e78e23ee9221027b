#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A policy program for hcpd ([policy] command = .../opa-like.py RULES.json): rules in the manner of Open Policy Agent.
RULES.json is a list, the first rule that fits decides, and without one the task is denied:
[{"if": {"risk": ["R1", "R2"], "task.inputs.path": ["/srv/*"]}, "decision": "allow", "reason": "harmless"}]"""
import fnmatch, functools, json, sys

def look_up(question, path):                    # "task.inputs.path" in {"task": {"inputs": {"path": ...}}}
    return functools.reduce(lambda at, name: at.get(name) if isinstance(at, dict) else None, path.split("."), question)

def fits(rule, question):
    return all(any(fnmatch.fnmatchcase(str(look_up(question, path)), wanted) for wanted in allowed)
               for path, allowed in rule.get("if", {}).items())

with open(sys.argv[1]) as file:
    rules = json.load(file)                     # SIGHUP to hcpd restarts this program, which then reads the rules again
for line in sys.stdin:
    question = json.loads(line)
    rule = next((r for r in rules if fits(r, question)), {"decision": "deny", "reason": "no rule allows it"})
    print(json.dumps({"id": question["id"], "decision": rule["decision"], "reason": rule.get("reason", "")}), flush=True)
