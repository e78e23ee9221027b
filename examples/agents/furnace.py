#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""furnace: pretends to heat a sample, and requests permission for each action that cannot be undone.

In hcpd.ini:  [capability furnace]   declaration = capabilities.d/furnace.json   command = .../furnace.py
hcpd checks each action against the safety envelope of the declaration. A refused action is not done: here the
furnace then stays below the limit. Requested again, or beyond the hard limit, the action would end the session."""
import json, sys

def say(**line):
    print(json.dumps(line), flush=True)

def may(name, **parameters):        # sends the action, and waits for the answer
    say(type="action", name=name, parameters=parameters, ref=name)
    for line in sys.stdin:
        order = json.loads(line)
        if order["type"] == "action_verdict":
            return order["allowed"]
        if order["type"] == "abort":
            break
    sys.exit(1)                     # hcpd has ended the session: the power goes off with this program

start = json.loads(sys.stdin.readline())
inputs = start["task"]["inputs"]
limit = start["safety_envelope"].get("parameters", {}).get("temperature_c", {}).get("max", inputs["temperature_c"])
target = inputs["temperature_c"] + 10   # a real furnace overshoots, and must allow for that
if not may("heat", temperature_c=target):
    target = limit
    if not may("heat", temperature_c=target):
        sys.exit(say(type="failed", error_code="safety_violation", error_message="no temperature is allowed"))
for percent in 25, 50, 75, 100:
    say(type="progress", stage="heating", percent=percent, message=f"{target * percent / 100:g} C")
say(type="completed", outputs={"peak_c": target})
