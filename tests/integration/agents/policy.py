#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A policy program that does to a task what its inputs say in `policy`: allow (also without it), deny, ask, silent, garbage,
nonsense, die, late, or a path: allowed once that file is there, and not answered before."""
import json
import os
import sys

late = []


def say(question, decision, reason=""):
    print(json.dumps({"id": question["id"], "decision": decision, "reason": reason}), flush=True)


print("policy: running", file=sys.stderr, flush=True)
for line in sys.stdin:
    question = json.loads(line)
    wish = question["task"]["inputs"].get("policy", "allow")
    if wish in ("allow", "deny", "ask"):
        say(question, wish, "because of %s of %s" % (question["risk"], question["caller"]))
        while late:
            say(late.pop(), "allow", "late")
    elif wish == "late":
        late.append(question)
    elif wish == "garbage":
        print("this is no JSON", flush=True)
    elif wish == "nonsense":
        say(question, "perhaps")
    elif wish == "die":
        os._exit(3)
    elif wish.startswith("/") and os.path.exists(wish):
        say(question, "allow", "it is there")
